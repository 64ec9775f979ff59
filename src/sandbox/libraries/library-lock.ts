import { createHash } from "node:crypto";
import { createReadStream, existsSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { readRegularText } from "../../util/file-access.ts";
import { isJsonObject } from "../../util/objects.ts";
import { compareText } from "../../util/text.ts";
import { makeReadableFolder } from "../sandbox-folders.ts";

/** Libraries are packages of a programming language, as opposed to system packages. */
export const LIBRARY_KINDS = ["python", "npm"] as const;
export type LibraryKind = (typeof LIBRARY_KINDS)[number];

/** A set of packages that are installed together. */
export interface LibrarySet {
  kind: LibraryKind;
  /** The requested packages, each once, sorted. */
  wanted: readonly string[];
  /** The interpreter and machine that they are resolved for. */
  target: string;
}

export interface LockedLibrary {
  name: string;
  version: string;
  /** The wheel or tarball of the package. */
  file: string;
  /** The hash of that file, in npm's format: `sha512-…` in base64. */
  integrity: string;
  /** npm: the folders that it is unpacked to. */
  places?: readonly string[];
}

export interface LibraryLock extends LibrarySet {
  packages: readonly LockedLibrary[];
}

export function createLibrarySet(kind: LibraryKind, wanted: readonly string[], target: string): LibrarySet {
  return { kind, wanted: [...new Set(wanted)].sort(compareText), target };
}

/** Formats the name of a set in file names. */
export function formatLibrarySetId({ kind, wanted, target }: LibrarySet): string {
  return `${kind}-${hashLibraryText(JSON.stringify([wanted, target])).slice(0, 32)}`;
}

export function getLibraryLockFile(packageFolder: string, set: LibrarySet): string {
  return join(packageFolder, "locks", `${formatLibrarySetId(set)}.json`);
}

/** Reads the lock file of a set. Returns undefined if it is missing, and throws if it belongs to another set. */
export function readLibraryLock(packageFolder: string, set: LibrarySet): LibraryLock | undefined {
  const file = getLibraryLockFile(packageFolder, set);
  if (!existsSync(file)) return undefined;
  const lock = parseLibraryLock(readRegularText(file));
  if (lock && formatLibrarySetId(lock) === formatLibrarySetId(set)) return lock;
  throw new SkillError("library-lock", {
    message: `${file} is not a lock file of ${set.wanted.join(", ")}`,
    fix: "to write it again",
    commands: ["skillet packages build --update"],
  });
}

export function writeLibraryLock(packageFolder: string, lock: LibraryLock): void {
  const file = getLibraryLockFile(packageFolder, lock);
  makeReadableFolder(join(packageFolder, "locks"));
  writeFileSync(`${file}.${process.pid}`, formatLibraryLock(lock), { mode: 0o644 });
  renameSync(`${file}.${process.pid}`, file);
}

/** Formats a lock canonically: packages are sorted. */
export function formatLibraryLock({ kind, wanted, target, packages }: LibraryLock): string {
  const sorted = packages
    .map(({ name, version, file, integrity, places }) => ({
      ...{ name, version, file, integrity },
      ...(places ? { places: [...places].sort(compareText) } : {}),
    }))
    .sort((a, b) => compareText(`${a.name} ${a.version}`, `${b.name} ${b.version}`));
  return `${JSON.stringify({ version: 1, kind, wanted, target, packages: sorted }, null, 2)}\n`;
}

/** Throws if a file differs from the lock. */
export async function verifyLibraries({ packages }: LibraryLock, folder: string): Promise<void> {
  for (const { file, integrity, name, version } of packages) {
    const [, algorithm = "", expected = ""] = INTEGRITY_PATTERN.exec(integrity) ?? [];
    const found = existsSync(join(folder, file)) ? await computeIntegrity(join(folder, file), algorithm) : "";
    if (found === `${algorithm}-${expected}`) continue;
    throw createTamperedLibraryError(`${name} ${version} differs from its lock file: its ${algorithm} does not match`);
  }
}

export async function computeIntegrity(path: string, algorithm: string): Promise<string> {
  const hash = createHash(algorithm);
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return `${algorithm}-${hash.digest("base64")}`;
}

export function createTamperedLibraryError(message: string): SkillError {
  return new SkillError("library-tampered", {
    message,
    fix: "nothing was used; if you expected a new version, resolve again",
    commands: ["skillet packages build --update"],
  });
}

export function hashLibraryText(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export const INTEGRITY_PATTERN = /^(sha256|sha384|sha512)-([A-Za-z0-9+/]{43,88}={0,2})$/;
/** Excludes everything that pip or npm treat as an option, a URL or another line. */
const LIBRARY_NAME_PATTERN = /^(?:@[A-Za-z0-9_~-][\w.~-]*\/)?[A-Za-z0-9_~][\w.~-]*$/;
const LIBRARY_VERSION_PATTERN = /^[0-9A-Za-z][0-9A-Za-z.+!_-]*$/;
/** A file name in the download folder, and nothing else. */
const LIBRARY_FILE_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._+!~-]*\.(?:whl|tgz)$/;
/** Folders in which Node resolves packages: package names below `node_modules`, at any depth. */
const NODE_MODULES_PATTERN =
  /^node_modules\/(?:@[A-Za-z0-9_~-][\w.~-]*\/)?[A-Za-z0-9_~-][\w.~-]*(?:\/node_modules\/(?:@[A-Za-z0-9_~-][\w.~-]*\/)?[A-Za-z0-9_~-][\w.~-]*)*$/;

/** Parses a lock file strictly: it decides which files are unpacked where. */
function parseLibraryLock(text: string): LibraryLock | undefined {
  let lock: unknown;
  try {
    lock = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(lock) || lock["version"] !== 1) return undefined;
  const { kind, wanted, target, packages } = lock;
  if (!LIBRARY_KINDS.some((known) => known === kind) || typeof target !== "string") return undefined;
  if (!Array.isArray(wanted) || !wanted.every((one) => typeof one === "string")) return undefined;
  if (!Array.isArray(packages) || !packages.every(isLockedLibrary)) return undefined;
  return { kind: kind as LibraryKind, wanted, target, packages };
}

export function isLockedLibrary(value: unknown): value is LockedLibrary {
  if (!isJsonObject(value)) return false;
  const { name, version, file, integrity, places = [] } = value;
  return (
    [name, version, file, integrity].every((one) => typeof one === "string") &&
    LIBRARY_NAME_PATTERN.test(String(name)) &&
    LIBRARY_VERSION_PATTERN.test(String(version)) &&
    LIBRARY_FILE_PATTERN.test(String(file)) &&
    INTEGRITY_PATTERN.test(String(integrity)) &&
    Array.isArray(places) &&
    places.every((path) => typeof path === "string" && NODE_MODULES_PATTERN.test(path))
  );
}
