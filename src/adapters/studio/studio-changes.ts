import { type FSWatcher, statSync, watch } from "node:fs";
import { join } from "node:path";
import type { RunStore } from "../../store/runs.ts";

/** What the page shows and may have changed. The page reads it again. */
export const CHANGE_TYPES = ["skills", "runs", "approvals", "evals", "statistics"] as const;
export type ChangeType = (typeof CHANGE_TYPES)[number];

/** A change as it is sent to pages. */
export interface StudioChange {
  type: ChangeType;
  /** The names of the changed things, if they are known: skills or runs. */
  names: readonly string[];
}

export interface ChangeFeed {
  /** Reports a change. Changes of a moment are sent as one. */
  report(type: ChangeType, names?: readonly string[]): void;
  /** Returns a function that ends the subscription. */
  subscribe(listener: (change: StudioChange) => void): () => void;
  hasSubscribers(): boolean;
}

/** Creates a feed that collects changes for a moment: a run writes many lines at once. */
export function createChangeFeed(): ChangeFeed {
  const listeners = new Set<(change: StudioChange) => void>();
  const collected = new Map<ChangeType, Set<string>>();
  let timer: NodeJS.Timeout | undefined;
  const send = () => {
    timer = undefined;
    const changes = [...collected].map(([type, names]) => ({ type, names: [...names] }));
    collected.clear();
    for (const change of changes) for (const listener of listeners) listener(change);
  };
  return {
    report(type, names = []) {
      const known = collected.get(type) ?? new Set();
      for (const name of names) known.add(name);
      collected.set(type, known);
      if (timer === undefined) timer = setTimeout(send, COLLECT_MS).unref();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    hasSubscribers: () => listeners.size > 0,
  };
}

const COLLECT_MS = 80;

/** Folders and files of `~/.skillet`, and what their changes mean. Rows without a folder are files of the home itself. */
const STORES: readonly { folder?: string; file: RegExp; types: readonly ChangeType[] }[] = [
  { folder: "runs", file: /^(.+)\.jsonl$/, types: ["runs", "approvals"] },
  { folder: "held", file: /./, types: ["approvals"] },
  { folder: "evals", file: /\.json$/, types: ["evals"] },
  { file: /^approvals\.json$/, types: ["approvals"] },
  { file: /^statistics\.db/, types: ["statistics"] },
  { file: /^(?:trust|text-approvals|installs)\.json$/, types: ["skills"] },
];

/**
 * Watches the stores of `~/.skillet`. `refresh` looks for folders that were created, removed or replaced since. Contract: never throws;
 * without a watcher, because the system has no more, the caller's own checks find changes later.
 */
export function watchStores(home: string, feed: ChangeFeed): { refresh(): void; close(): void } {
  const watchers = new Map<string, { watcher: FSWatcher; identity: string }>();
  const open = (folder: string) => {
    const path = join(home, folder);
    const identity = readIdentity(path);
    if (watchers.get(folder)?.identity === identity) return;
    // A watcher follows the folder that it was opened for, also when another one has its path.
    close(folder);
    if (identity === undefined) return;
    try {
      const watcher = watch(path, { persistent: false }, (event, name) => {
        if (name !== null) report(folder, name);
        if (event === "rename") refresh();
      });
      watcher.on("error", () => close(folder));
      watchers.set(folder, { watcher, identity });
    } catch {} // It was removed just now.
  };
  const close = (folder: string) => {
    watchers.get(folder)?.watcher.close();
    watchers.delete(folder);
  };
  const report = (folder: string, name: string) => {
    for (const row of STORES) {
      const [whole, id] = (row.folder ?? "") === folder ? (row.file.exec(name) ?? []) : [];
      if (whole !== undefined) for (const type of row.types) feed.report(type, id === undefined ? [] : [id]);
    }
  };
  const refresh = () => {
    for (const folder of new Set(["", ...STORES.map((row) => row.folder ?? "")])) open(folder);
  };
  refresh();
  return {
    refresh,
    close() {
      for (const folder of [...watchers.keys()]) close(folder);
    },
  };
}

/** The number of a folder is used again after it was removed, so its time is part of the identity. */
function readIdentity(path: string): string | undefined {
  try {
    const { ino, birthtimeMs } = statSync(path);
    return `${ino} ${birthtimeMs}`;
  } catch {
    return undefined;
  }
}

/**
 * Returns a function that compares the runs of a store that other machines write to, and reports those that changed since it was called
 * before. It reads nothing while no page is open, and nothing of a store whose files are watched.
 */
export function createRunPoll(
  { runs }: { runs: Pick<RunStore, "listVersions"> },
  feed: ChangeFeed,
): () => Promise<void> {
  let known: ReadonlyMap<string, string> | undefined;
  let isBusy = false;
  return async () => {
    if (!feed.hasSubscribers()) known = undefined;
    if (isBusy || !feed.hasSubscribers()) return;
    isBusy = true;
    try {
      const versions = await runs.listVersions?.();
      if (versions === undefined) return;
      const changed = [...versions].filter(([id, version]) => known?.get(id) !== version).map(([id]) => id);
      // The page may have read the runs before the first look.
      if (known === undefined) reportRuns(feed, []);
      else if (changed.length > 0 || known.size > versions.size) reportRuns(feed, changed);
      known = versions;
    } catch {
      // The server is unavailable: the next look reports what changed.
    } finally {
      isBusy = false;
    }
  };
}

function reportRuns(feed: ChangeFeed, ids: readonly string[]): void {
  for (const type of ["runs", "approvals"] as const) feed.report(type, ids);
}
