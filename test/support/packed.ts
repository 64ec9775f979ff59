import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "..");

/** The folder of this run (`run-folder.ts`). */
const RUN_FOLDER = process.env["SKILLET_TEST_RUN"];
const PAUSE_MS = 50;

/** Installs the project as it is published in a new folder, which `remove` removes. It is packed and installed once in a run. */
export function installPacked(): { folder: string; bin: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "skillet-package-"));
  if (RUN_FOLDER === undefined) packInto(folder);
  else cpSync(packOnce(RUN_FOLDER), folder, { recursive: true, verbatimSymlinks: true });
  return {
    folder,
    bin: join(folder, "node_modules", ".bin", "skillet"),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Returns the folder of the run that has the package. The first worker makes it, the others wait for it. */
function packOnce(runFolder: string): string {
  const [packed, begun] = [join(runFolder, "packed"), join(runFolder, "packed-begun")];
  while (!existsSync(packed)) {
    if (!isFirst(begun)) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
      continue;
    }
    try {
      packInto(begun);
      renameSync(begun, packed);
    } catch (error) {
      rmSync(begun, { recursive: true, force: true }); // The next one tries again.
      throw error;
    }
  }
  return packed;
}

function isFirst(begun: string): boolean {
  if (existsSync(begun)) return false;
  try {
    mkdirSync(begun);
    return true;
  } catch {
    return false;
  }
}

function packInto(folder: string): void {
  const npm = (cwd: string, ...args: string[]) => execFileSync("npm", args, { cwd, encoding: "utf8" }).trim();
  const tarball = npm(root, "pack", "--ignore-scripts", "--silent", "--pack-destination", folder);
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--silent"];
  npm(folder, "install", ...quiet, join(folder, tarball));
}
