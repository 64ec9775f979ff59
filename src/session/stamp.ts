import { dirname, join } from "node:path";
import type { Skill } from "../skill/skill.ts";
import { statOf } from "../source/file.ts";

/** Its own file, those beside it, and the folders that they are in. */
export function filesOf(skill: Skill, { files: listed } = skill.files()): string[] {
  const { folder, file } = skill.origin;
  if (folder === undefined || file === undefined) return [];
  const files = [file, ...listed.map(({ path }) => join(folder, path))];
  return [...new Set([folder, ...files.flatMap((path) => [path, dirname(path)])])];
}

/** What tells that something of it changed, without reading it. The time of the change itself too: the other can be set. */
export function stampOf(paths: readonly string[]): string {
  const stamps = paths.map((path) => {
    const stats = statOf(path);
    return stats ? `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}` : "-";
  });
  return stamps.join("\n");
}
