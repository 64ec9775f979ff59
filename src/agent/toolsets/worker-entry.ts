import { extname, join } from "node:path";

/** The code of a toolset's thread: a file, or source text if it is bundled. */
export type WorkerEntry = { file: string } | { code: string };

/**
 * Returns the code that a toolset's thread starts with. The build replaces this module: the library contains the code as text, since
 * a bundler would lose the file.
 */
export async function workerEntry(): Promise<WorkerEntry> {
  return { file: join(import.meta.dirname, `toolset-worker${extname(import.meta.filename)}`) };
}
