import { statSync } from "node:fs";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { readUptimeMs } from "../util/timeout.ts";
import { replaceFile, withFileLock } from "./locked-file.ts";

/** A JSON file in the user's folder with entries by name or path. */
export interface JsonStore<T> {
  readonly file: string;
  /** Empty if the file cannot be read. */
  entries(): Readonly<Record<string, T>>;
  /** Returns the reason why the file cannot be read. */
  problem(): string | undefined;
  /**
   * Contract: `work` receives the current entries while no other process can write them. Throws a SkillError when they
   * cannot be written.
   */
  update<R>(work: (entries: Record<string, T>) => R): R;
}

export interface JsonStoreOptions<T> {
  file: string;
  isEntry: (entry: unknown) => entry is T;
  /** The error for an unreadable file. */
  unreadable: { code: ErrorCode; fix: string };
}

export function createJsonStore<T>({ file, isEntry, unreadable }: JsonStoreOptions<T>): JsonStore<T> {
  let known: StoreContent<T> | undefined;
  let stamp = "";
  let looked = Number.NEGATIVE_INFINITY;
  // Reads the file again after a short time, so that a revocation by another process applies here too.
  const read = () => {
    if (known !== undefined && readUptimeMs() - looked < CACHE_MS) return known;
    looked = readUptimeMs();
    const now = readStoreFingerprint(file);
    if (known === undefined || now !== stamp) known = readStoreContent(file, isEntry);
    stamp = now;
    return known;
  };
  return {
    file,
    entries: () => read().entries,
    problem: () => read().problem,
    update(work) {
      const result = withFileLock(file, () => {
        const { problem, entries, isNewer } = readStoreContent(file, isEntry);
        if (problem !== undefined) {
          const { code } = unreadable;
          const fix = isNewer ? "the file was left as it is" : unreadable.fix;
          throw new SkillError(code, { message: `${file} cannot be read: ${problem}`, fix });
        }
        const before = JSON.stringify(entries);
        const done = work(entries);
        if (JSON.stringify(entries) !== before)
          replaceFile(file, `${JSON.stringify({ version: FORMAT_VERSION, skills: entries }, null, 2)}\n`);
        return done;
      });
      known = undefined;
      return result;
    },
  };
}

/** Listing ten thousand skills takes less time. */
const CACHE_MS = 50;

const FORMAT_VERSION = 1;

interface StoreContent<T> {
  entries: Record<string, T>;
  problem?: string;
  /** A newer skillet wrote the file. */
  isNewer?: boolean;
}

function readStoreContent<T>(file: string, isEntry: (entry: unknown) => entry is T): StoreContent<T> {
  const entries: Record<string, T> = Object.create(null); // A skill may be called `constructor`.
  let text: string;
  try {
    text = readRegularText(file);
  } catch (error) {
    return getErrnoCode(error) === "ENOENT" ? { entries } : { entries, problem: getErrorMessage(error) };
  }
  try {
    const { version, skills } = JSON.parse(text);
    if (version !== FORMAT_VERSION) {
      const has = typeof version === "number" ? `format version ${version}` : "no format version";
      const isNewer = typeof version === "number" && version > FORMAT_VERSION;
      return {
        entries,
        problem: `it has ${has}, and this skillet supports version ${FORMAT_VERSION}${isNewer ? ": update skillet" : ""}`,
        isNewer,
      };
    }
    if (!isJsonObject(skills)) throw new Error("it has no entries");
    if (!Object.values(skills).every(isEntry)) throw new Error("it has an invalid entry");
    return { entries: Object.assign(entries, skills) };
  } catch (error) {
    return { entries, problem: getErrorMessage(error) };
  }
}

function readStoreFingerprint(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file);
    return `${mtimeMs}:${size}:${ino}`;
  } catch (error) {
    return getErrnoCode(error);
  }
}
