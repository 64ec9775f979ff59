import { appendFileSync, lstatSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { shortHash } from "../../shared/hash.ts";
import { readRegularText } from "../../shared/regular-file.ts";
import type { LockedFiles } from "./format.ts";
import { sha256 } from "./tree.ts";

/**
 * What trees looked like when their bytes were last compared, so that the next look needs no bytes. A cache of the user's own: anything odd
 * about it makes it empty. Lines are only ever added, so that two processes never undo what the other wrote.
 */
export interface Stamps {
  /** Whether this tree was as `digest` says, and nobody has touched it since. */
  isKnown(folder: string, digest: string, stamp: Stamp): boolean;
  /** Writes down that it is. Contract: the stamp was taken before its bytes were read. */
  add(folder: string, digest: string, stamp: Stamp): void;
}

export interface Stamp {
  /** Of every file and folder: its number, size, mode and times. */
  text: string;
  /** Whether the clock has ticked between the last change of something in it and the look: what came later has other times then. */
  isSettled: boolean;
}

export function openStamps(skilletHome: string): Stamps {
  const file = join(skilletHome, "cache", "verified");
  let known: Map<string, string> | undefined;
  const read = () => {
    known ??= readStamps(file);
    return known;
  };
  return {
    isKnown: (folder, digest, { text }) => read().get(shortHash(folder)) === `${digest} ${text}`,
    add(folder, digest, { text, isSettled }) {
      if (!isSettled) return;
      const [key, value] = [shortHash(folder), `${digest} ${text}`];
      if (read().get(key) === value) return;
      read().set(key, value);
      try {
        mkdirSync(dirname(file), { recursive: true });
        appendFileSync(file, `${key} ${value}\n`, { mode: 0o600 });
      } catch {} // It is compared again the next time.
    },
  };
}

/** A clock ticks only so often: what is written in the tick of a look has the same times as what was looked at. */
export function isSettled(changedMs: number, lookedMs: number): boolean {
  return lookedMs - changedMs >= TICK_MS;
}

const TICK_MS = 50;
const LINE = /^(\S+) (sha256:[0-9a-f]{64} sha256:[0-9a-f]{64})$/;
// Of 40,000 skills, each twice.
const LARGEST = 16 * 1024 * 1024;

function readStamps(file: string): Map<string, string> {
  const known = new Map<string, string>();
  let lines: string[];
  try {
    const stats = lstatSync(file);
    if (!stats.isFile() || stats.size > LARGEST) {
      rmSync(file, { force: true });
      return known;
    }
    lines = readRegularText(file, { limit: LARGEST, refusesLinks: true }).split("\n");
  } catch {
    return known;
  }
  for (const line of lines) {
    const [, key, value] = LINE.exec(line) ?? [];
    if (key !== undefined && value !== undefined) known.set(key, value);
  }
  if (lines.length > 2 * known.size + SPARE) compact(file, known);
  return known;
}

const SPARE = 1000;

function compact(file: string, known: ReadonlyMap<string, string>): void {
  const draft = `${file}.${crypto.randomUUID()}`;
  try {
    writeFileSync(draft, [...known].map(([key, value]) => `${key} ${value}\n`).join(""), { mode: 0o600 });
    renameSync(draft, file);
  } catch {} // It is only longer than it has to be.
}

/**
 * How a tree that holds just these files looks, without its bytes and without listing its folders: what is added to one changes its times.
 * Throws when one of them is not there.
 */
export function stampOf(folder: string, files: LockedFiles): Stamp {
  const looked = Date.now();
  const seen: number[] = [];
  let newest = 0;
  const look = (path: string) => {
    const { mtimeMs, ctimeMs, size, ino, mode } = lstatSync(path);
    if (ctimeMs > newest) newest = ctimeMs;
    seen.push(ino, size, mode, mtimeMs, ctimeMs);
  };
  look(folder);
  for (const path of foldersOf(files)) look(`${folder}/${path}`);
  for (const path of Object.keys(files)) look(`${folder}/${path}`);
  // Which file is which needs no telling: the digest of the lock goes with it.
  return { text: sha256(new Uint8Array(new Float64Array(seen).buffer)), isSettled: isSettled(newest, looked) };
}

/** The folders that the files of a tree are in. */
export function foldersOf(files: LockedFiles): Set<string> {
  const folders = new Set<string>();
  for (const path of Object.keys(files)) {
    for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) folders.add(path.slice(0, at));
  }
  return folders;
}
