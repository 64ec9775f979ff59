import { join } from "node:path";

/**
 * The command line that tests start as a process of its own: from its sources, or, where the gate has just built it, as it is published,
 * which takes a third of the time to start.
 */
export const PROGRAM = join(
  import.meta.dirname,
  "../..",
  process.env["SKILLET_TEST_BUILT"] ? "dist/cli/bin.js" : "src/cli/bin.ts",
);
