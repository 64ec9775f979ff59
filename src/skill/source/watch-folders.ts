import { existsSync, readdirSync } from "node:fs";
import { dirname, parse, sep } from "node:path";
import { statIfExists } from "../../util/file-access.ts";
import { getPathBelow, isInside } from "../../util/safe-path.ts";
import { detectFlatForm, isUsualDocument } from "./find-skills.ts";
import { findSampleFolder, SKIPPED_FOLDERS } from "./skill-files.ts";

export interface Watcher {
  close(): Promise<void>;
}

/**
 * Watches folders, and calls back with the changed paths after a short pause without changes. Folders that do not exist yet are
 * watched too. Contract: resolves when later changes will be reported.
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
    // A file that changes constantly, such as a log, must not delay the others.
    timer = setTimeout(report, Math.min(calm, Math.max(0, since + MAX_WAIT_MS - Date.now())));
  };
  const report = () => {
    const paths = new Set(changed);
    changed.clear();
    onChange(paths);
  };
  const start = async (paths: readonly string[], depth: number, isWanted: (path: string) => boolean) => {
    if (paths.length === 0) return undefined; // A watcher without paths never becomes ready.
    const watcher = watch([...paths], {
      ignoreInitial: true,
      depth,
      ignored: (path) => SKIPPED_FOLDERS.has(path.slice(path.lastIndexOf(sep) + 1)),
      ignorePermissionErrors: true,
    });
    watcher.on("all", (_event, path) => {
      if (isWanted(path)) note(path);
    });
    watcher.on("error", () => {}); // A folder that cannot be watched is reported when it is read.
    await new Promise<void>((ready) => watcher.on("ready", ready));
    return watcher;
  };
  const existing = folders.filter((folder) => existsSync(folder));
  const missing = folders.filter((folder) => !existsSync(folder));
  const ancestors = [...new Set(missing.map(findNearestFolder))];
  const watchers = await Promise.all([
    start(existing, MAX_WATCH_DEPTH, () => true),
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
  /** The topmost folder of the search for a skill's folder. */
  workspace: string;
  /** The skill folders: only there a single file can be a skill. */
  places: readonly string[];
}

/**
 * Returns the skills that these files belong to, once each: folders with a SKILL.md, and single-file skills. A file may be
 * removed: its skill changed too. Files without a skill are ignored. Contract: paths are absolute.
 */
export function findSkillsOfFiles(
  files: readonly string[],
  { workspace, places: paths }: ChangedFilesOptions,
): string[] {
  const known = new Map<string, readonly string[]>();
  /** Returns the enclosing folders with a SKILL.md, nearest first. */
  const findEnclosing = (folder: string): readonly string[] => {
    const enclosing = known.get(folder) ?? [...(isSkillFolder(folder) ? [folder] : []), ...above(folder)];
    known.set(folder, enclosing);
    return enclosing;
  };
  const above = (folder: string) =>
    folder !== workspace && isInside(workspace, folder) ? findEnclosing(dirname(folder)) : [];
  const skills = files.flatMap((file) => {
    const enclosing = findEnclosing(dirname(file));
    return enclosing.find((folder) => !isSampleFolder(folder, enclosing)) ?? (isFlatSkill(file, paths) ? file : []);
  });
  return [...new Set(skills)];
}

/** Returns true if the skill in a folder is only a sample of an enclosing one. */
function isSampleFolder(folder: string, enclosing: readonly string[]): boolean {
  return enclosing.some(
    (outer) => isInside(outer, folder) && findSampleFolder(getPathBelow(outer, folder)) !== undefined,
  );
}

function isSkillFolder(folder: string): boolean {
  try {
    return readdirSync(folder).some((name) => /^skill\.md$/i.test(name));
  } catch {
    return false; // It may have been removed with the file.
  }
}

function isFlatSkill(file: string, paths: readonly string[]): boolean {
  if (!paths.includes(dirname(file)) || detectFlatForm(file) === undefined) return false;
  const { name } = parse(file);
  return !isUsualDocument(name) && statIfExists(file) !== undefined;
}
