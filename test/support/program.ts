import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const isBuilt = Boolean(process.env["SKILLET_TEST_BUILT"]);

/**
 * The command line that tests start as a process of its own: from its sources, or, where the gate has just built it, as it is published,
 * which starts in a quarter of the time.
 */
export const PROGRAM = join(root, isBuilt ? "dist/cli.cjs" : "src/cli/bin.ts");

/** A module, by its path in the sources without an ending, that a process of a test's own imports. */
export function moduleOf(path: string): string {
  return isBuilt ? join(root, "dist", `${path}.js`) : join(root, "src", `${path}.ts`);
}
