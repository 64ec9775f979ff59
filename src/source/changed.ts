import { readdirSync } from "node:fs";
import { dirname, parse } from "node:path";
import { isInside } from "../shared/inside.ts";
import { statOf } from "./file.ts";
import { flatForm, isUsualDocument } from "./walk.ts";

export interface ChangedOptions {
  /** How far up a skill's folder is looked for. */
  workspace: string;
  /** The folders that skills are found in: only there can a file be a skill by itself. */
  places: readonly string[];
}

/**
 * The skills that these files are part of, each once: folders with a SKILL.md, and files that are skills by themselves. A file may be
 * gone: what it was part of is another without it. What is part of none is left out. Contract: paths are absolute.
 */
export function skillsOf(files: readonly string[], { workspace, places }: ChangedOptions): string[] {
  const known = new Map<string, string | undefined>();
  const folderAround = (folder: string): string | undefined => {
    if (!known.has(folder)) known.set(folder, isSkillFolder(folder) ? folder : above(folder));
    return known.get(folder);
  };
  const above = (folder: string) =>
    folder !== workspace && isInside(workspace, folder) ? folderAround(dirname(folder)) : undefined;
  const skills = files.flatMap((file) => folderAround(dirname(file)) ?? (isFlat(file, places) ? file : []));
  return [...new Set(skills)];
}

function isSkillFolder(folder: string): boolean {
  try {
    return readdirSync(folder).some((name) => /^skill\.md$/i.test(name));
  } catch {
    return false; // It may be gone with the file.
  }
}

function isFlat(file: string, places: readonly string[]): boolean {
  if (!places.includes(dirname(file)) || flatForm(file) === undefined) return false;
  const { name } = parse(file);
  return !isUsualDocument(name) && statOf(file) !== undefined;
}
