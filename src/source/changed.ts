import { readdirSync } from "node:fs";
import { dirname, parse } from "node:path";
import { below, isInside } from "../shared/inside.ts";
import { statOf } from "./file.ts";
import { sampleFolderIn } from "./nested-skills.ts";
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
  const known = new Map<string, readonly string[]>();
  /** The folders with a SKILL.md around a file, the nearest first. */
  const foldersAround = (folder: string): readonly string[] => {
    const around = known.get(folder) ?? [...(isSkillFolder(folder) ? [folder] : []), ...above(folder)];
    known.set(folder, around);
    return around;
  };
  const above = (folder: string) =>
    folder !== workspace && isInside(workspace, folder) ? foldersAround(dirname(folder)) : [];
  const skills = files.flatMap((file) => {
    const around = foldersAround(dirname(file));
    return around.find((folder) => !isSample(folder, around)) ?? (isFlat(file, places) ? file : []);
  });
  return [...new Set(skills)];
}

/** Whether the skill in a folder is only a sample of one around it. */
function isSample(folder: string, around: readonly string[]): boolean {
  return around.some((outer) => isInside(outer, folder) && sampleFolderIn(below(outer, folder)) !== undefined);
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
