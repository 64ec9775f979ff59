import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = join(import.meta.dirname, "..", "..");

/** The project as it is published: packed, and installed in a folder of its own, which `remove` takes away. */
export function installPacked(): { folder: string; bin: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "skillet-package-"));
  const npm = (cwd: string, ...args: string[]) => execFileSync("npm", args, { cwd, encoding: "utf8" }).trim();
  const tarball = npm(root, "pack", "--ignore-scripts", "--silent", "--pack-destination", folder);
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--silent"];
  npm(folder, "install", ...quiet, join(folder, tarball));
  return {
    folder,
    bin: join(folder, "node_modules", ".bin", "skillet"),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
