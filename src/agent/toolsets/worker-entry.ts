import { extname, join } from "node:path";
import { workerData } from "node:worker_threads";

/** The code of a toolset's thread: a file, or source text if it is bundled. */
export type WorkerEntry = { file: string } | { code: string };

/** Set by the build of the library: a bundler that makes it part of another program would lose the file. */
declare const SKILLET_WORKER_CODE: string | undefined;
/** Set by the build of the command. */
declare const SKILLET_IS_PROGRAM: boolean | undefined;

/** Returns the code that a toolset's thread starts with. */
export function workerEntry(): WorkerEntry {
  if (typeof SKILLET_WORKER_CODE === "string") return { code: SKILLET_WORKER_CODE };
  const here: string | undefined = import.meta.dirname;
  if (here === undefined) return workerData.entry; // This is the code of such a thread.
  if (typeof SKILLET_IS_PROGRAM === "boolean") return { file: join(here, "../toolset-worker.cjs") };
  return { file: join(here, `toolset-worker${extname(import.meta.filename)}`) };
}
