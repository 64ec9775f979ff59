import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** Set if the gate has just built the program. */
export const KEPT = process.env["SKILLET_TEST_BUILT"] || undefined;

/**
 * The command line that tests start as a separate process: from its sources or, if it was built, as it is published, which starts in
 * a quarter of the time.
 */
export const PROGRAM = join(root, KEPT === undefined ? "src/cli/bin.ts" : "dist/cli/bin.cjs");

/** Starts it, if its `run` was imported. */
export const RUN = "run();";

/** Lets processes of tests share their compiled code, which the program would otherwise keep in the home of each. */
export const SHARED_CODE = { NODE_COMPILE_CACHE: join(tmpdir(), "skillet-tests-compiled") };

/** Returns a module that a separate process of a test imports, by its path in the sources without an extension. */
export function moduleOf(path: string): string {
  return KEPT === undefined ? join(root, "src", `${path}.ts`) : join(root, "build", `${path}.js`);
}

/** The arguments of Node for a test's process that is written in TypeScript: built modules replace the imported sources. */
export const WITH_BUILT = KEPT === undefined ? [] : ["--import", join(import.meta.dirname, "use-built.mjs")];
