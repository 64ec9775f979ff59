import { existsSync } from "node:fs";
import { dirname, sep } from "node:path";
import { isInside } from "../shared/inside.ts";
import { statOf } from "./file.ts";
import { SKIPPED_FOLDERS } from "./file-list.ts";

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
    timer = setTimeout(report, Math.min(calm, Math.max(0, since + LONGEST_WAIT - Date.now())));
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
  const ancestors = [...new Set(missing.map(nearestFolder))];
  const watchers = await Promise.all([
    start(there, DEEPEST, () => true),
    start(ancestors, 0, (path) => missing.some((folder) => isInside(path, folder))),
  ]);
  return {
    async close() {
      clearTimeout(timer);
      await Promise.all(watchers.map((watcher) => watcher?.close()));
    },
  };
}

const DEEPEST = 13;
const LONGEST_WAIT = 500;

function nearestFolder(path: string): string {
  let folder = path;
  while (!statOf(folder)?.isDirectory()) folder = dirname(folder);
  return folder;
}
