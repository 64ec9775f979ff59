import { type Dirent, readdirSync, type Stats } from "node:fs";
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

/** What was seen of the folder of a skill. */
export interface FolderSeen {
  /** Of the folder itself, as it is at its real path. */
  stats?: Stats;
  /** False: it has no folder `evals`. Undefined where that is not known. */
  hasEvals?: boolean;
}

/** As deep as the files of a skill are listed. */
const DEEPEST = 16;
const MOST_FOLDERS = 2000;
/** Where an installation is made ready: what lies there is not there yet, or not any more. Nobody gives a folder of their own such a name. */
export const UNFINISHED = /^\.skillet-[0-9a-f-]{36}(?:\.done)?$/;

/**
 * Finds the folders below that of a skill that have a SKILL.md, outer ones first. Links are not followed: what they lead to is not inside.
 * `path` is that of the folder in the index, `stats` its own. `isCut`: there are more folders than are searched. `hasEvals`: it has a folder of
 * that name; undefined where a link of that name may lead to one.
 */
export function findNestedFolders(
  folder: string,
  { path, index, stats }: { path: string; index?: ScanIndex | undefined; stats?: Stats | undefined },
): { folders: string[]; isCut: boolean; hasEvals?: boolean } {
  const at = (inside: string) => (inside === "" ? folder : `${folder}/${inside}`);
  const known = index?.nestedFolders(path, (inside) => (inside === "" && stats ? stats : statOf(at(inside))));
  if (known) return { folders: known.skills, isCut: false, hasEvals: known.all.includes(EVALS) };
  const visited: { path: string; isSkill: boolean }[] = [];
  let isWhole = true;
  const visit = (inside: string, depth: number): void => {
    const listed = visited.length < MOST_FOLDERS && depth <= DEEPEST ? list(at(inside)) : undefined;
    if (!listed) {
      isWhole = false; // What cannot be read, or is too deep, is reported with the files of the skill.
      return;
    }
    if (inside === "" && listed.hasEvalsLink) isWhole = false;
    visited.push({ path: inside, isSkill: listed.isSkill && inside !== "" });
    for (const name of listed.folders) visit(inside === "" ? name : `${inside}/${name}`, depth + 1);
  };
  visit("", 1);
  if (isWhole) index?.addNestedFolders(path, visited);
  return {
    folders: visited.flatMap(({ path: inside, isSkill }) => (isSkill ? inside : [])),
    isCut: visited.length >= MOST_FOLDERS,
    ...(isWhole ? { hasEvals: visited.some(({ path: inside }) => inside === EVALS) } : {}),
  };
}

/** The folder of the queries that a skill is evaluated with. */
const EVALS = "evals";

/** Returns the folders in a folder, whether it has a SKILL.md, and whether it has a link to what may be a folder of queries. */
function list(folder: string): { folders: string[]; isSkill: boolean; hasEvalsLink: boolean } | undefined {
  let entries: Dirent[];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return undefined;
  }
  const folders: string[] = [];
  let [isSkill, hasEvalsLink] = [false, false];
  for (const entry of entries) {
    const { name } = entry;
    if (entry.isDirectory()) {
      if (!SKIPPED_FOLDERS.has(name) && !UNFINISHED.test(name)) folders.push(name);
    } else if (name === "SKILL.md") isSkill = true;
    else if (name === EVALS) hasEvalsLink = true;
  }
  return { folders: folders.length > 1 ? folders.sort(byText) : folders, isSkill, hasEvalsLink };
}
