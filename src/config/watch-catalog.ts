import { dirname } from "node:path";
import type { Catalog } from "../catalog/catalog.ts";
import { type Diagnostic, stopsLoading } from "../skill/diagnostics.ts";
import type { Skill } from "../skill/skill.ts";
import { type Watcher, watchFolders } from "../skill/source/watch-folders.ts";
import { isInside } from "../util/safe-path.ts";

export interface CatalogChange {
  catalog: Catalog;
  added: readonly Skill[];
  changed: readonly Skill[];
  removed: readonly Skill[];
  /** Files that became worse than they were. */
  diagnostics: readonly Diagnostic[];
}

export interface WatchCatalogOptions {
  /** Gets what `onChange` threw, or a source while it was read again. Watching goes on either way. */
  onError?: (error: unknown) => void;
}

/** Reloads the catalog when something changes in its folders, and tells what did. A file that is half-written is waited for. */
export async function watchCatalog(
  first: Catalog,
  onChange: (change: CatalogChange) => void,
  options: WatchCatalogOptions = {},
): Promise<Watcher> {
  const folders = first.sources.flatMap(({ path }) => path ?? []);
  let catalog = first;
  let isClosed = false;
  let watcher: Watcher | undefined;
  let work: Promise<void> = Promise.resolve();
  /** One update after the other; one that fails does not stop the next. */
  const queue = (paths: ReadonlySet<string>) => {
    work = work.then(() => update(paths)).catch((error) => options.onError?.(error));
  };
  const update = async (paths: ReadonlySet<string>) => {
    if (isClosed) return;
    // A folder that came into being is watched from now on; what was written meanwhile is seen by the reading that follows.
    if ([...paths].some((path) => folders.some((folder) => isInside(path, folder)))) await restart();
    const next = await reloadWhenSettled(catalog);
    if (isClosed) return;
    const change = compareCatalogs(catalog, next, paths);
    catalog = next;
    if (change.added.length + change.changed.length + change.removed.length + change.diagnostics.length > 0)
      onChange(change);
  };
  const restart = async () => {
    const old = watcher;
    const started = await watchFolders(folders, queue);
    await old?.close();
    if (isClosed) await started.close();
    else watcher = started;
  };
  await restart();
  return {
    async close() {
      isClosed = true;
      await work;
      await watcher?.close();
    },
  };
}

/** Reads the catalog again, and once more where a file that was a skill is probably being written. */
async function reloadWhenSettled(catalog: Catalog): Promise<Catalog> {
  let next = await catalog.reload();
  for (let tries = 0; tries < MAX_RETRIES && hasBrokenSkill(catalog, next); tries++) {
    await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE_MS));
    next = await catalog.reload();
  }
  return next;
}

const MAX_RETRIES = 2;
const RETRY_PAUSE_MS = 200;

/** A file that was a skill and now cannot be read is probably being written. */
function hasBrokenSkill(before: Catalog, after: Catalog): boolean {
  const broken = new Set(after.diagnostics.filter(stopsLoading).map(({ file }) => file));
  return broken.size > 0 && before.skills.some(({ origin }) => origin.file !== undefined && broken.has(origin.file));
}

function compareCatalogs(before: Catalog, after: Catalog, paths: ReadonlySet<string>): CatalogChange {
  const isTouched = ({ origin: { file, folder } }: Skill) =>
    [...paths].some(
      (path) =>
        path === file || (folder !== undefined && (isInside(folder, path) || isInside(dirname(file ?? folder), path))),
    );
  const said = new Set(before.diagnostics.map(formatDiagnosticKey));
  return {
    catalog: after,
    added: after.skills.filter(({ name }) => !before.has(name)),
    removed: before.skills.filter(({ name }) => !after.has(name)),
    changed: after.skills.filter((skill) => {
      const old = before.find(skill.name);
      return old !== undefined && (old.origin.file !== skill.origin.file || isTouched(skill));
    }),
    diagnostics: after.diagnostics.filter((diagnostic) => !said.has(formatDiagnosticKey(diagnostic))),
  };
}

function formatDiagnosticKey({ file, code, line, message }: Diagnostic): string {
  return JSON.stringify([file, code, line, message]);
}
