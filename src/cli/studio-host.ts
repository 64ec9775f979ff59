import { type ChangeFeed, createRunPoll } from "../adapters/studio/studio-changes.ts";
import { watchCatalog } from "../config/live-settings.ts";
import type { Watcher } from "../skill/source/watch-folders.ts";
import type { CommonOptions } from "./command-definition.ts";
import { type CommandHost, discoverForRun } from "./command-host.ts";
import type { CommandIo } from "./output.ts";

/** The discovery result of a page: its catalog follows the folders. */
export interface StudioHost {
  /** Rejects if the discovery failed. */
  found(): Promise<CommandHost>;
  /** Returns the present result, if the discovery is done. */
  current(): CommandHost | undefined;
  close(): Promise<void>;
}

/** Starts the discovery, and follows changes of the folders and the configuration. */
export function openStudioHost(io: CommandIo, options: CommonOptions, feed: ChangeFeed): StudioHost {
  let current: CommandHost | undefined;
  let watching: Promise<Watcher | undefined> = Promise.resolve(undefined);
  let isClosed = false;
  const timers: NodeJS.Timeout[] = [];
  const onError = () => {}; // A folder that cannot be read is a diagnostic of the next catalog.
  /** Watches the folders of the catalog. Contract: a change made while the watchers start is found by a reload. */
  const follow = async (host: CommandHost) => {
    const watcher = await watchCatalog(
      host.catalog,
      ({ catalog, added, changed, removed }) => {
        current = { ...host, catalog };
        feed.report(
          "skills",
          [...added, ...changed, ...removed].map(({ name }) => name),
        );
      },
      { onError },
    );
    current = { ...host, catalog: await host.catalog.reload() };
    feed.report("skills");
    return watcher;
  };
  const restart = (host: CommandHost) => {
    watching = watching
      .then((watcher) => watcher?.close())
      .then(async () => (isClosed ? undefined : follow({ ...host, catalog: await host.catalog.reload() })))
      .catch(() => undefined);
  };
  const first = discoverForRun(io, options).then((host) => {
    current = host;
    let { sources } = host.settings;
    let configuration = host.currentConfiguration();
    const look = () => {
      if (configuration === host.currentConfiguration()) return;
      configuration = host.currentConfiguration();
      if (sources !== host.settings.sources) restart(host);
      ({ sources } = host.settings);
      feed.report("skills");
    };
    if (isClosed) return host;
    // The page is shown first: a watcher for each of thousands of folders takes a while.
    timers.push(setTimeout(() => restart(host), START_MS).unref(), setInterval(look, POLL_MS).unref());
    timers.push(setInterval(createRunPoll(host, feed), RUNS_POLL_MS).unref());
    return host;
  });
  first.catch(() => {}); // Each request reports it.
  return {
    found: async () => current ?? (await first),
    current: () => current,
    async close() {
      isClosed = true;
      for (const timer of timers) clearTimeout(timer);
      await (await watching)?.close();
    },
  };
}

const START_MS = 500;
const POLL_MS = 500;
/** For runs in a database: one small query while a page is open. */
const RUNS_POLL_MS = 1000;
