import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** Set where the gate has just built the program. */
export const KEPT = process.env["SKILLET_TEST_BUILT"] || undefined;

/**
 * The command line that tests start as a process of its own: from its sources, or, where it was built, as it is published, which starts in
 * a quarter of the time.
 */
export const PROGRAM = join(root, KEPT === undefined ? "src/cli/bin.ts" : "dist/cli/bin.cjs");

/** Starts it, where its `run` was imported. */
export const RUN = "run();";

/** Lets processes of tests share their compiled code: each has a home of its own, where the program would keep it. */
export const SHARED_CODE = { NODE_COMPILE_CACHE: join(tmpdir(), "skillet-tests-compiled") };

/** A module, by its path in the sources without an ending, that a process of a test's own imports. */
export function moduleOf(path: string): string {
  return KEPT === undefined ? join(root, "src", `${path}.ts`) : join(root, "build", `${path}.js`);
}

/** For Node, where a process of a test's own is itself written in TypeScript: what was built stands in for the sources that it imports. */
export const WITH_BUILT = KEPT === undefined ? [] : ["--import", join(import.meta.dirname, "use-built.mjs")];
