import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a folder that all workers of one run of Vitest share, for expensive set-ups (`packed.ts`). Removed after the run. */
export default function createRunFolder(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "skillet-run-"));
  process.env["SKILLET_TEST_RUN"] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
