import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";

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
 * Watches the stores of `~/.skillet`. Contract: never throws; without a watcher, because the system has no more, the caller's own checks
 * find changes later.
 */
export function watchStores(home: string, feed: ChangeFeed): { refresh(): void; close(): void } {
  const watchers = new Map<string, FSWatcher>();
  const open = (folder: string) => {
    const path = folder === "" ? home : join(home, folder);
    if (watchers.has(folder)) return;
    try {
      const watcher = watch(path, { persistent: false }, (event, name) => {
        // A removed folder is watched again when it is back.
        if (event === "rename" && name === folder) close(folder);
        if (name !== null) report(folder, name);
        if (folder === "" && event === "rename") refresh();
      });
      watcher.on("error", () => close(folder));
      watchers.set(folder, watcher);
    } catch {} // It does not exist yet.
  };
  const close = (folder: string) => {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  };
  const report = (folder: string, name: string) => {
    for (const row of STORES) {
      const [whole, id] = (row.folder ?? "") === folder ? (row.file.exec(name) ?? []) : [];
      if (whole !== undefined) for (const type of row.types) feed.report(type, id === undefined ? [] : [id]);
    }
  };
  const refresh = () => {
    for (const folder of ["", ...STORES.map((row) => row.folder ?? "")]) open(folder);
  };
  refresh();
  return {
    refresh,
    close() {
      for (const folder of [...watchers.keys()]) close(folder);
    },
  };
}
