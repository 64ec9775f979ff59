import { existsSync, readdirSync } from "node:fs";
import { byText } from "../shared/text.ts";
import type { ClientId } from "./client-folders.ts";
import { SKIPPED_FOLDERS } from "./file-list.ts";
import { isSkillsFolder } from "./walk.ts";

/** A folder of skills in a package of a monorepo. */
export interface PackageSkills {
  /** The folder with the skills. */
  path: string;
  /** The package that it belongs to. */
  folder: string;
  client?: ClientId;
}

const DEEPEST = 5;
const MOST_FOLDERS = 4000;
/** Folders that hold no packages: what is built, what others wrote, and what tests and documents use as examples. */
const NOT_PACKAGES = new Set([
  ...SKIPPED_FOLDERS,
  ...["dist", "build", "out", "target", "vendor", "third_party", "coverage", "venv", "__pycache__"],
  ...["tests", "test", "__tests__", "fixtures", "__fixtures__", "examples", "templates", "docs"],
]);

/**
 * Finds the skills folders of a repository's packages: those of clients, and folders named `skills`. Links are not followed, and
 * neither are repositories inside the repository. `known` folders are searched by others.
 */
export function findPackageSkills(
  root: string,
  known: readonly string[],
  places: readonly { path: string; client?: ClientId }[],
): PackageSkills[] {
  const found: PackageSkills[] = [];
  const queue: { folder: string; depth: number }[] = [{ folder: root, depth: 0 }];
  for (let at = 0; at < queue.length && at < MOST_FOLDERS; at++) {
    const { folder, depth } = queue[at] as { folder: string; depth: number };
    const names = foldersIn(folder);
    if (depth > 0 && names.includes(".git")) continue;
    const isKnown = known.includes(folder);
    if (!isKnown) {
      for (const { path, client } of places) {
        const first = path.slice(0, path.indexOf("/"));
        const skills = `${folder}/${path}`;
        if (names.includes(first) && existsSync(skills))
          found.push({ path: skills, folder, ...(client ? { client } : {}) });
      }
    }
    for (const name of names) {
      if (name.startsWith(".") || NOT_PACKAGES.has(name)) continue;
      const below = `${folder}/${name}`;
      if (name === "skills" && isSkillsFolder(below)) {
        if (!isKnown) found.push({ path: below, folder });
      } else if (depth < DEEPEST) queue.push({ folder: below, depth: depth + 1 });
    }
  }
  return found.sort((a, b) => byText(a.folder, b.folder));
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}
