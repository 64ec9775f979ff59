import { existsSync, readdirSync } from "node:fs";
import { dirname, parse, sep } from "node:path";
import { getPathBelow, isInside } from "../../util/safe-path.ts";
import { detectFlatForm, isUsualDocument } from "./find-skills.ts";
import { statIfExists } from "./read-file.ts";
import { findSampleFolder, SKIPPED_FOLDERS } from "./skill-files.ts";

export interface Watcher {
  close(): Promise<void>;
}

/**
 * Calls back, a moment after things have calmed down, with the paths that changed in these folders. Folders that are not there yet
 * are watched for too. Contract: resolves when changes from now on are seen.
 */
export async function watchFolders(
  folders: readonly string[],
  onChange: (paths: ReadonlySet<string>) => void,
  calm = 100,
): Promise<Watcher> {
  const { watch } = await import("chokidar");
  const changed = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let since = 0;
  const note = (path: string) => {
    if (changed.size === 0) since = Date.now();
    changed.add(path);
    clearTimeout(timer);
    // A file that never rests, such as a log, must not keep the others waiting.
    timer = setTimeout(report, Math.min(calm, Math.max(0, since + MAX_WAIT_MS - Date.now())));
  };
  const report = () => {
    const paths = new Set(changed);
    changed.clear();
    onChange(paths);
  };
  const start = async (paths: readonly string[], depth: number, isWanted: (path: string) => boolean) => {
    if (paths.length === 0) return undefined; // Nothing to watch is never ready.
    const watcher = watch([...paths], {
      ignoreInitial: true,
      depth,
      ignored: (path) => SKIPPED_FOLDERS.has(path.slice(path.lastIndexOf(sep) + 1)),
      ignorePermissionErrors: true,
    });
    watcher.on("all", (_event, path) => {
      if (isWanted(path)) note(path);
    });
    watcher.on("error", () => {}); // A folder that cannot be watched is said when it is read.
    await new Promise<void>((ready) => watcher.on("ready", ready));
    return watcher;
  };
  const there = folders.filter((folder) => existsSync(folder));
  const missing = folders.filter((folder) => !existsSync(folder));
  const ancestors = [...new Set(missing.map(findNearestFolder))];
  const watchers = await Promise.all([
    start(there, MAX_WATCH_DEPTH, () => true),
    start(ancestors, 0, (path) => missing.some((folder) => isInside(path, folder))),
  ]);
  return {
    async close() {
      clearTimeout(timer);
      await Promise.all(watchers.map((watcher) => watcher?.close()));
    },
  };
}

const MAX_WATCH_DEPTH = 13;
const MAX_WAIT_MS = 500;

function findNearestFolder(path: string): string {
  let folder = path;
  while (!statIfExists(folder)?.isDirectory()) folder = dirname(folder);
  return folder;
}

interface ChangedFilesOptions {
  /** How far up a skill's folder is looked for. */
  workspace: string;
  /** The folders that skills are found in: only there can a file be a skill by itself. */
  places: readonly string[];
}

/**
 * The skills that these files are part of, each once: folders with a SKILL.md, and files that are skills by themselves. A file may be
 * gone: what it was part of is another without it. What is part of none is left out. Contract: paths are absolute.
 */
export function findSkillsOfFiles(files: readonly string[], { workspace, places }: ChangedFilesOptions): string[] {
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
    return around.find((folder) => !isSampleFolder(folder, around)) ?? (isFlatSkill(file, places) ? file : []);
  });
  return [...new Set(skills)];
}

/** Whether the skill in a folder is only a sample of one around it. */
function isSampleFolder(folder: string, around: readonly string[]): boolean {
  return around.some((outer) => isInside(outer, folder) && findSampleFolder(getPathBelow(outer, folder)) !== undefined);
}

function isSkillFolder(folder: string): boolean {
  try {
    return readdirSync(folder).some((name) => /^skill\.md$/i.test(name));
  } catch {
    return false; // It may be gone with the file.
  }
}

function isFlatSkill(file: string, places: readonly string[]): boolean {
  if (!places.includes(dirname(file)) || detectFlatForm(file) === undefined) return false;
  const { name } = parse(file);
  return !isUsualDocument(name) && statIfExists(file) !== undefined;
}
