import { chmodSync, chownSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { SkillInstallationError } from "../../../src/store/atomic-folder.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { ORDINARY_USER } from "../../support/ordinary-user.ts";

/** Every file below a folder with what is in it; of a link, where it leads. */
export function everything(folder: string): Record<string, string> {
  const files: Record<string, string> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(folder.length + 1);
    if (entry.isSymbolicLink()) files[name] = `→ ${readlinkSync(path)}`;
    else if (!entry.isDirectory()) files[name] = readFileSync(path, "utf8");
  }
  return files;
}

/** Makes a folder and all in it the property of somebody who is not root. */
export function ordinaryFolder(folder: string = temporaryFolder()): string {
  if (process.getuid?.() !== 0) return folder;
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path));
  for (const path of [folder, ...paths]) {
    const { mode } = lstatSync(path);
    chownSync(path, ORDINARY_USER, ORDINARY_USER);
    chmodSync(path, mode & 0o7777); // Who changes the owner takes the set-id bits away.
  }
  return folder;
}

export function thrownBy(work: () => unknown): SkillInstallationError {
  try {
    work();
  } catch (error) {
    return error as SkillInstallationError;
  }
  throw new Error("nothing was thrown");
}
