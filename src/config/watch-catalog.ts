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
  /** New diagnostics. */
  diagnostics: readonly Diagnostic[];
}

export interface WatchCatalogOptions {
  /** Called with errors of `onChange` and of sources that are read again. Watching continues. */
  onError?: (error: unknown) => void;
}

/** Reloads the catalog when its folders change, and reports the changes. Waits for files that are being written. */
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
  /** Runs updates one after the other. A failed update does not stop the next. */
  const queue = (paths: ReadonlySet<string>) => {
    work = work.then(() => update(paths)).catch((error) => options.onError?.(error));
  };
  const update = async (paths: ReadonlySet<string>) => {
    if (isClosed) return;
    // A new folder is watched from now on; the reload below finds files that were written meanwhile.
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

/** Reloads the catalog, and retries while the file of a known skill is probably being written. */
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

/** Returns true if a file that was a skill cannot be read now: it is probably being written. */
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
  const known = new Set(before.diagnostics.map(formatDiagnosticKey));
  return {
    catalog: after,
    added: after.skills.filter(({ name }) => !before.has(name)),
    removed: before.skills.filter(({ name }) => !after.has(name)),
    changed: after.skills.filter((skill) => {
      const old = before.find(skill.name);
      return old !== undefined && (old.origin.file !== skill.origin.file || isTouched(skill));
    }),
    diagnostics: after.diagnostics.filter((diagnostic) => !known.has(formatDiagnosticKey(diagnostic))),
  };
}

function formatDiagnosticKey({ file, code, line, message }: Diagnostic): string {
  return JSON.stringify([file, code, line, message]);
}
