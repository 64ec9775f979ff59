import { chmodSync, chownSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { SkillInstallationError } from "../../../src/store/atomic-folder.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { ORDINARY_USER } from "../../support/ordinary-user.ts";

/** Reads every file below a folder with its content; for a link, its target. */
export function readTreeFiles(folder: string): Record<string, string> {
  const files: Record<string, string> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(folder.length + 1);
    if (entry.isSymbolicLink()) files[name] = `→ ${readlinkSync(path)}`;
    else if (!entry.isDirectory()) files[name] = readFileSync(path, "utf8");
  }
  return files;
}

/** Changes the owner of a folder and its content to an ordinary user. */
export function ordinaryFolder(folder: string = temporaryFolder()): string {
  if (process.getuid?.() !== 0) return folder;
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path));
  for (const path of [folder, ...paths]) {
    const { mode } = lstatSync(path);
    chownSync(path, ORDINARY_USER, ORDINARY_USER);
    chmodSync(path, mode & 0o7777); // Changing the owner removes the set-id bits.
  }
  return folder;
}

export function catchThrown(work: () => unknown): SkillInstallationError {
  try {
    work();
  } catch (error) {
    return error as SkillInstallationError;
  }
  throw new Error("nothing was thrown");
}
