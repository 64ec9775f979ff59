import { statSync } from "node:fs";
import { dirname } from "node:path";
import { clock } from "../shared/clock.ts";
import { codeOf } from "../shared/inside.ts";
import type { Finding } from "../skill/diagnostic.ts";
import type { Surroundings } from "../source/locations.ts";
import { type Config, type ConfigOwner, type Entry, openToml, type ParseToml, readConfigNow } from "./config-file.ts";
import { changingSettings, configFiles, isBroken, type LoadedSettings, type Settings, settingsIn } from "./settings.ts";

/** Settings that follow the configuration files. */
export interface LiveSettings {
  /** One object with changing values: each property is read from the configuration in effect. */
  readonly settings: Settings;
  /** Returns the configuration in effect, with the diagnostics of its files. A new object whenever either changed. */
  current(): LoadedSettings;
}

/**
 * Loads the settings and follows their files. A file is read only if its fingerprint changed, and fingerprints are compared at most
 * every 50 ms. A change is applied once nothing has written to the file for 100 ms: until then it may be incomplete. An unreadable file
 * keeps its previous content in effect, and an invalid value keeps the previous value, so a mistake never loosens anything.
 */
export async function followSettings(around: Surroundings): Promise<LiveSettings> {
  const parse = await openToml(); // Loaded up front: settings are read synchronously.
  const files = configFiles(around).map((file) => openFile(file, parse));
  let current = settingsIn(inEffect(files), around);
  let looked = clock();
  const look = () => {
    if (clock() - looked < FRESH_MS) return current;
    looked = clock();
    const changed = files.filter((file) => reread(file, parse));
    if (changed.length > 0) current = replaced(current, settingsIn(inEffect(files), around));
    return current;
  };
  return { settings: changingSettings(() => look().settings), current: look };
}

/** Ten thousand skills are listed in less. */
const FRESH_MS = 50;
/** Editors and shells truncate or remove a file before they write it. */
const SETTLE_MS = 100;

interface FollowedFile {
  owner: ConfigOwner;
  /** The content in effect. Its fingerprint is empty if the file was just being written when it was read: then it is read again. */
  config: Config & { fingerprint: string };
  /** A new fingerprint whose content is not read yet, and when it was first seen. */
  pending?: { fingerprint: string; since: number };
}

function openFile({ path, owner }: { path: string; owner: ConfigOwner }, parse: ParseToml): FollowedFile {
  const { fingerprint, age } = look(path);
  const config = readConfigNow(path, owner, parse);
  return { owner, config: { ...config, fingerprint: isSettling(age) ? "" : fingerprint } };
}

/** Reads a file again if it changed and is complete. Returns whether it was read. */
function reread(file: FollowedFile, parse: ParseToml): boolean {
  const { owner, config, pending } = file;
  const { fingerprint, age } = look(config.path);
  delete file.pending;
  if (fingerprint === config.fingerprint) return false;
  const since = pending?.fingerprint === fingerprint ? pending.since : clock();
  // Measured by this process too: the clock of the disk may differ.
  if (isSettling(age) && clock() - since < SETTLE_MS) {
    file.pending = { fingerprint, since };
    return false;
  }
  file.config = { ...keepingValid(readConfigNow(config.path, owner, parse), config), fingerprint };
  return true;
}

/** Returns a fingerprint that changes with the file, without reading it. */
export function fingerprintOf(path: string): string {
  return look(path).fingerprint;
}

/** Returns the fingerprint of a file, and how many milliseconds ago it changed. */
function look(path: string): { fingerprint: string; age: number } {
  try {
    const { mtimeMs, ctimeMs, size, ino } = statSync(path);
    return { fingerprint: `${mtimeMs}:${ctimeMs}:${size}:${ino}`, age: Date.now() - ctimeMs };
  } catch (error) {
    return { fingerprint: codeOf(error), age: Date.now() - changedAbove(path) };
  }
}

/** Returns when the nearest existing folder changed: a missing file was removed no later than that. */
function changedAbove(path: string): number {
  const folder = dirname(path);
  try {
    return statSync(folder).ctimeMs;
  } catch {
    return folder === path ? 0 : changedAbove(folder);
  }
}

/** Timestamps of files are finer than the clock, so the age of a new change may be negative. */
function isSettling(age: number): boolean {
  return Math.abs(age) < SETTLE_MS;
}

function inEffect(files: readonly FollowedFile[]): readonly Config[] {
  return files.map(({ config }) => config);
}

/** Returns the configuration that was read, with previous entries in place of invalid ones. */
function keepingValid(read: Config, before: Config): Config {
  if (isBroken(read)) {
    const findings = read.findings.map((finding) => stillIn(finding, "the previous configuration"));
    return { ...read, entries: before.entries, findings };
  }
  const earlier = new Map(before.entries.map((entry) => [JSON.stringify(entry.parts), entry]));
  const kept = new Map<Finding, Entry>();
  for (const { parts, finding } of read.rejected) {
    const entry = earlier.get(JSON.stringify(parts));
    if (entry) kept.set(finding, entry);
  }
  const findings = read.findings.map((finding) =>
    kept.has(finding) ? stillIn(finding, "the previous value") : finding,
  );
  return { ...read, entries: [...read.entries, ...kept.values()], findings };
}

function stillIn(finding: Finding, what: string): Finding {
  return { ...finding, message: `${finding.message}; ${what} stays in effect` };
}

/** Keeps the previous object of every part that is equal: caches by identity, such as the tried sandbox, stay valid. */
function replaced(before: LoadedSettings, next: LoadedSettings): LoadedSettings {
  const { isDeepStrictEqual } = process.getBuiltinModule("node:util"); // Importing it loads far more than this.
  const isKept = (key: string) => isDeepStrictEqual(partOf(before, key), partOf(next, key));
  const keys = Object.keys(next.settings);
  const settings = keys.every(isKept)
    ? before.settings
    : Object.fromEntries(keys.map((key) => [key, partOf(isKept(key) ? before : next, key)]));
  const loaded = { ...next, settings: settings as Settings };
  return isDeepStrictEqual(loaded, before) ? before : loaded;
}

function partOf({ settings }: LoadedSettings, key: string): unknown {
  return settings[key as keyof Settings];
}
