import { type Dirent, readdirSync } from "node:fs";
import { byText } from "../shared/text.ts";
import { statOf } from "./file.ts";
import { SKIPPED_FOLDERS } from "./file-list.ts";
import type { ScanIndex } from "./scan-index.ts";

/** Folders in a skill's folder whose skills are samples: they are reported, and not loaded. */
const SAMPLE_FOLDERS: ReadonlySet<string> = new Set(["tests", "fixtures", "examples", "templates"]);

/** Returns the folder of samples that a path inside a skill is in. */
export function sampleFolderIn(path: string): string | undefined {
  return path.split("/").find((part) => SAMPLE_FOLDERS.has(part));
}

/** As deep as the files of a skill are listed. */
const DEEPEST = 16;
const MOST_FOLDERS = 2000;
/** Where an installation is made ready: what lies there is not there yet, or not any more. Nobody gives a folder of their own such a name. */
export const UNFINISHED = /^\.skillet-[0-9a-f-]{36}(?:\.done)?$/;

/**
 * Finds the folders below that of a skill that have a SKILL.md, outer ones first. Links are not followed: what they lead to is not inside.
 * `path` is that of the folder in the index. `isCut`: there are more folders than are searched.
 */
export function findNestedFolders(
  folder: string,
  { path, index }: { path: string; index?: ScanIndex | undefined },
): { folders: string[]; isCut: boolean } {
  const at = (inside: string) => (inside === "" ? folder : `${folder}/${inside}`);
  const known = index?.nestedFolders(path, (inside) => statOf(at(inside)));
  if (known) return { folders: known, isCut: false };
  const visited: { path: string; isSkill: boolean }[] = [];
  let isWhole = true;
  const visit = (inside: string, depth: number): void => {
    const listed = visited.length < MOST_FOLDERS && depth <= DEEPEST ? list(at(inside)) : undefined;
    if (!listed) {
      isWhole = false; // What cannot be read, or is too deep, is reported with the files of the skill.
      return;
    }
    visited.push({ path: inside, isSkill: listed.isSkill && inside !== "" });
    for (const name of listed.folders) visit(inside === "" ? name : `${inside}/${name}`, depth + 1);
  };
  visit("", 1);
  if (isWhole) index?.addNestedFolders(path, visited);
  return {
    folders: visited.flatMap(({ path: inside, isSkill }) => (isSkill ? inside : [])),
    isCut: visited.length >= MOST_FOLDERS,
  };
}

/** Returns the folders in a folder, and whether it has a SKILL.md. */
function list(folder: string): { folders: string[]; isSkill: boolean } | undefined {
  let entries: Dirent[];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return undefined;
  }
  const folders: string[] = [];
  let isSkill = false;
  for (const entry of entries) {
    const { name } = entry;
    if (entry.isDirectory()) {
      if (!SKIPPED_FOLDERS.has(name) && !UNFINISHED.test(name)) folders.push(name);
    } else if (name === "SKILL.md") isSkill = true;
  }
  return { folders: folders.length > 1 ? folders.sort(byText) : folders, isSkill };
}
