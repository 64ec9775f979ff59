import { readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import type { Catalog } from "../catalog/catalog.ts";
import { getErrnoCode } from "../errors/problem.ts";
import { type Diagnostic, type Finding, type Skill, stopsLoading } from "../skill/skill.ts";
import type { Environment } from "../skill/source/locations.ts";
import { type Watcher, watchFolders } from "../skill/source/watch-folders.ts";
import { formatProcessOwner, readLiveOwner } from "../store/locked-file.ts";
import { createFolder, readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { readUptimeMs } from "../util/system.ts";
import {
  type ConfigEntry,
  type ConfigFile,
  type ConfigOwner,
  loadTomlParser,
  type ParseToml,
  readConfigSync,
} from "./config-file.ts";
import type { DiscoverResult } from "./discover.ts";
import {
  createLiveSettingsView,
  isBrokenConfig,
  type LoadedSettings,
  listConfigFiles,
  mergeConfigFiles,
  type Settings,
} from "./settings.ts";

/** Settings that follow the configuration files. */
export interface LiveSettings {
  /** One object with changing values: each property is read from the configuration in effect. */
  readonly settings: Settings;
  /** Returns the configuration in effect, with the diagnostics of its files. A new object whenever either changed. */
  current(): LoadedSettings;
}

/**
 * Loads the settings and follows their files. A file is read only if its fingerprint changed, and fingerprints are compared at most
 * every 50 ms. A change is applied once no process has written to the file for 100 ms: until then it may be incomplete. An unreadable file
 * keeps its previous content in effect, and an invalid value keeps the previous value, so a mistake never loosens anything.
 */
export async function followSettings(environment: Environment): Promise<LiveSettings> {
  const parse = await loadTomlParser(); // Loaded up front: settings are read synchronously.
  const files = listConfigFiles(environment).map((file) => followConfigFile(file, parse));
  let current = mergeConfigFiles(listConfigs(files), environment);
  let checkedAt = readUptimeMs();
  const check = () => {
    if (readUptimeMs() - checkedAt < CHECK_INTERVAL_MS) return current;
    checkedAt = readUptimeMs();
    const changed = files.filter((file) => rereadIfChanged(file, parse));
    if (changed.length > 0) current = reuseEqualParts(current, mergeConfigFiles(listConfigs(files), environment));
    return current;
  };
  return { settings: createLiveSettingsView(() => check().settings), current: check };
}

/** Longer than listing ten thousand skills takes, so one listing checks at most once. */
const CHECK_INTERVAL_MS = 50;
/** Editors and shells truncate or remove a file before they write it. */
const SETTLE_MS = 100;

interface FollowedFile {
  owner: ConfigOwner;
  /** The content in effect. Its fingerprint is empty if the file was being written when it was read: then it is read again. */
  config: ConfigFile & { fingerprint: string };
  /** A new fingerprint whose content is not read yet, and the time it was first seen. */
  pending?: { fingerprint: string; since: number };
}

function followConfigFile({ path, owner }: { path: string; owner: ConfigOwner }, parse: ParseToml): FollowedFile {
  const { fingerprint, age } = statConfigFile(path);
  const config = readConfigSync(path, owner, parse);
  return { owner, config: { ...config, fingerprint: isSettling(age) ? "" : fingerprint } };
}

/** Reads a file again if it changed and is complete. Returns true if it was read. */
function rereadIfChanged(file: FollowedFile, parse: ParseToml): boolean {
  const { owner, config, pending } = file;
  const { fingerprint, age } = statConfigFile(config.path);
  delete file.pending;
  if (fingerprint === config.fingerprint) return false;
  const since = pending?.fingerprint === fingerprint ? pending.since : readUptimeMs();
  // Measured by this process too: the clock of the disk may differ.
  if (isSettling(age) && readUptimeMs() - since < SETTLE_MS) {
    file.pending = { fingerprint, since };
    return false;
  }
  file.config = { ...keepValidEntries(readConfigSync(config.path, owner, parse), config), fingerprint };
  return true;
}

/** Returns a fingerprint that changes with the file, without reading it. */
export function readConfigFingerprint(path: string): string {
  return statConfigFile(path).fingerprint;
}

/** Returns the fingerprint of a file, and the milliseconds since it changed. */
function statConfigFile(path: string): { fingerprint: string; age: number } {
  try {
    const { mtimeMs, ctimeMs, size, ino } = statSync(path);
    return { fingerprint: `${mtimeMs}:${ctimeMs}:${size}:${ino}`, age: Date.now() - ctimeMs };
  } catch (error) {
    return { fingerprint: getErrnoCode(error), age: Date.now() - readParentChangeTime(path) };
  }
}

/** Returns the time when the nearest existing folder changed: a missing file was removed no later than that. */
function readParentChangeTime(path: string): number {
  const folder = dirname(path);
  try {
    return statSync(folder).ctimeMs;
  } catch {
    return folder === path ? 0 : readParentChangeTime(folder);
  }
}

/** Timestamps of files are finer than the clock, so the age of a new change may be negative. */
function isSettling(age: number): boolean {
  return Math.abs(age) < SETTLE_MS;
}

function listConfigs(files: readonly FollowedFile[]): readonly ConfigFile[] {
  return files.map(({ config }) => config);
}

/** Returns the configuration that was read, with previous entries in place of invalid ones. */
function keepValidEntries(read: ConfigFile, before: ConfigFile): ConfigFile {
  if (isBrokenConfig(read)) {
    const findings = read.findings.map((finding) => addPreviousNote(finding, "the previous configuration"));
    return { ...read, entries: before.entries, findings };
  }
  const earlier = new Map(before.entries.map((entry) => [JSON.stringify(entry.parts), entry]));
  const kept = new Map<Finding, ConfigEntry>();
  for (const { parts, finding } of read.rejected) {
    const entry = earlier.get(JSON.stringify(parts));
    if (entry) kept.set(finding, entry);
  }
  const findings = read.findings.map((finding) =>
    kept.has(finding) ? addPreviousNote(finding, "the previous value") : finding,
  );
  return { ...read, entries: [...read.entries, ...kept.values()], findings };
}

function addPreviousNote(finding: Finding, what: string): Finding {
  return { ...finding, message: `${finding.message}; ${what} stays in effect` };
}

/** Keeps the previous object of every part that is equal: caches by identity, such as the tried sandbox, stay valid. */
function reuseEqualParts(before: LoadedSettings, next: LoadedSettings): LoadedSettings {
  const { isDeepStrictEqual } = process.getBuiltinModule("node:util"); // Importing it loads far more than this.
  const isKept = (key: string) => isDeepStrictEqual(getSettingsPart(before, key), getSettingsPart(next, key));
  const keys = Object.keys(next.settings);
  const settings = keys.every(isKept)
    ? before.settings
    : Object.fromEntries(keys.map((key) => [key, getSettingsPart(isKept(key) ? before : next, key)]));
  const loaded = { ...next, settings: settings as Settings };
  return isDeepStrictEqual(loaded, before) ? before : loaded;
}

function getSettingsPart({ settings }: LoadedSettings, key: string): unknown {
  return settings[key as keyof Settings];
}

export type ProcessKind = "server" | "chat";

/** A server or chat of this machine that is running and follows the configuration. */
export interface LiveProcess {
  pid: number;
  kind: ProcessKind;
  /** The fingerprint of each configuration file that it has applied, by path. */
  applied: Readonly<Record<string, string>>;
}

interface Announcement {
  /** Checks the configuration, and writes the applied fingerprints if they changed. */
  update(): void;
  close(): void;
}

/** Registers this process below skillet's home while it follows the configuration, so that commands can report which processes applied a change. */
export function announceProcess(
  { home, currentConfiguration }: Pick<DiscoverResult, "home" | "currentConfiguration">,
  kind: ProcessKind,
  /** Returns the applied fingerprints of further files, by path. */
  listApplied: () => Readonly<Record<string, string>> = () => ({}),
): Announcement {
  const file = join(getLiveFolder(home), `${process.pid}-${crypto.randomUUID()}.json`);
  let known: unknown;
  const update = () => {
    const { files } = currentConfiguration();
    const applied = {
      ...Object.fromEntries(files.map(({ path, fingerprint = "" }) => [path, fingerprint])),
      ...listApplied(),
    };
    const now = JSON.stringify(applied);
    if (now === known) return;
    known = now;
    try {
      createFolder(getLiveFolder(home), 0o700);
      // Atomic, but without fsync: a client waits for this server to start.
      writeFileSync(`${file}.new`, JSON.stringify({ ...JSON.parse(formatProcessOwner()), kind, applied }), {
        mode: 0o600,
      });
      renameSync(`${file}.new`, file);
    } catch {} // The home is read-only: then no command can change the configuration in it either.
  };
  update();
  return { update, close: () => rmSync(file, { force: true }) };
}

/** Returns the servers and chats that run on this machine, and removes the files of killed ones. */
export function listLiveProcesses(home: string): LiveProcess[] {
  return listProcessFiles(getLiveFolder(home)).flatMap((file) => {
    const owner = readLiveOwner(file);
    if (owner && owner.host !== hostname()) return []; // From another machine: it is unknown whether it still runs.
    if (!owner) rmSync(file, { force: true });
    const written = owner && readProcess(file);
    return written ? [{ pid: owner.pid, ...written }] : [];
  });
}

function getLiveFolder(home: string): string {
  return join(home, "live");
}

function listProcessFiles(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap((name) => (/^\d+-[0-9a-f-]{36}\.json$/.test(name) ? join(folder, name) : []));
  } catch {
    return [];
  }
}

function readProcess(file: string): Omit<LiveProcess, "pid"> | undefined {
  try {
    const { kind, applied } = JSON.parse(readRegularText(file));
    if (kind !== "server" && kind !== "chat") return undefined;
    return isJsonObject(applied) ? { kind, applied: applied as Record<string, string> } : undefined;
  } catch {
    return undefined; // It ended meanwhile.
  }
}

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
