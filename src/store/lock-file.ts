import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Stats,
} from "node:fs";
import { SkillError } from "../errors/problem.ts";
import { findNameProblem, STANDARD_NAME } from "../skill/skill.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { compareText } from "../util/text.ts";

/** The name of the lock file in a folder of skills. */
export const LOCK_FILE = "skills.lock";
/** The size limit: enough for 50,000 skills. A larger file is neither read nor written. */
export const MAX_LOCK_BYTES = 64 * 1024 * 1024;

/** One file of a skill as it was approved. */
export interface LockedFile {
  /**
   * `644` or `755`; other values only for bits that no file should have. `link`, `other` and `large` mark what is not a
   * regular file.
   */
  mode: string;
  size: number;
  /** `sha256:…` of its bytes; for a link, of its target. */
  sha256: string;
}

/** Files by path, in order. */
export type LockedFiles = Readonly<Record<string, LockedFile>>;

/** One skill in a folder of skills: its source, and its approved files. */
export interface LockedSkill {
  /** The source as `skillet add` takes it, without its ref. `LOCAL_SOURCE` for an adopted skill of unknown origin. */
  source: string;
  /** The skill's folder or file in its source, if it is not the source itself. */
  path?: string;
  /** The requested branch or tag. */
  ref?: string;
  /** The commit that the ref resolved to. */
  commit?: string;
  /** The digest over all files: see `digestTree`. */
  digest: string;
  files: LockedFiles;
  /**
   * The files from the source, if the user edited them and approved the edit. Without any file: an adopted skill whose
   * original files are not known.
   */
  upstream?: { digest: string; files: LockedFiles };
  /** The approved parts, in order. The configuration decides on values and capabilities. */
  grants: readonly LockGrant[];
  /** True if it was added with `--require-signature`: an update must be signed by a known signer too. */
  requireSignature?: true;
  /** True if it was adopted in place: skillet did not put it there. */
  adopted?: true;
}

/** The source of an adopted skill of unknown origin. No valid address has this form. */
export const LOCAL_SOURCE = "local:";

/** Returns true for an adopted skill whose original files are unknown, so that edits cannot be detected. */
export function hasUnknownBase({ upstream }: Pick<LockedSkill, "upstream">): boolean {
  return upstream !== undefined && Object.keys(upstream.files).length === 0;
}

/** Returns true if the approved files are known to differ from those of the source. */
export function hasLocalEdits(entry: Pick<LockedSkill, "upstream">): boolean {
  return entry.upstream !== undefined && !hasUnknownBase(entry);
}

export const LOCK_GRANTS = ["instructions", "packages", "scripts", "toolsets"] as const;
export type LockGrant = (typeof LOCK_GRANTS)[number];

/** Locked skills by name. */
export type LockedSkills = Readonly<Record<string, LockedSkill>>;

/** Formats a lock. The same skills always give the same text. */
export function formatLock(skills: LockedSkills): string {
  return `${JSON.stringify({ version: 1, skills }, sortKeys, 2)}\n`;
}

/** Parses a lock. Throws a SkillError when it is invalid, or was edited. */
export function parseLock(text: string): Record<string, LockedSkill> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw createUnreadableLockError(describeJsonError(text, error));
  }
  if (!isJsonObject(value)) throw createUnreadableLockError("it is not an object");
  if (value["version"] !== 1) {
    const { version } = value;
    throw new SkillError("lock-version", {
      message: `it has ${Number.isFinite(version) ? `version ${version}` : "no version"}, and this skillet supports version 1`,
      fix: "update skillet, or use the version that wrote the lock",
    });
  }
  const { skills } = value;
  if (!isJsonObject(skills)) throw createUnreadableLockError("it has no skills");
  const read: Record<string, LockedSkill> = Object.create(null); // A skill may be called `constructor`.
  for (const [name, entry] of Object.entries(skills)) read[name] = parseLockedSkill(name, entry);
  return read;
}

function parseLockedSkill(name: string, entry: unknown): LockedSkill {
  if (findNameProblem(name)) throw createUnreadableLockError("it has an invalid skill name");
  const where = STANDARD_NAME.test(name) ? `skill "${name}"` : "a skill in it";
  if (!isJsonObject(entry)) throw createUnreadableLockError(`${where} is not an object`);
  const { digest, files } = parseLockedTree(entry, where);
  const { upstream, grants } = entry;
  if (!Array.isArray(grants) || !grants.every((grant) => LOCK_GRANTS.includes(grant))) {
    throw createUnreadableLockError(`the grants of ${where} are invalid`);
  }
  return {
    source: readTextField(entry, "source", where),
    ...readOptionalField(entry, "path", where),
    ...readOptionalField(entry, "ref", where),
    ...readOptionalField(entry, "commit", where),
    digest,
    files,
    ...(upstream === undefined ? {} : { upstream: parseLockedTree(upstream, `the upstream entry of ${where}`) }),
    grants: LOCK_GRANTS.filter((grant) => grants.includes(grant)),
    ...(entry["requireSignature"] === true ? { requireSignature: true as const } : {}),
    ...(entry["adopted"] === true ? { adopted: true as const } : {}),
  };
}

/** Parses files and the digest over them, which reveals an edit of either. */
function parseLockedTree(value: unknown, where: string): { digest: string; files: LockedFiles } {
  if (!isJsonObject(value) || !isJsonObject(value["files"])) throw createUnreadableLockError(`${where} has no files`);
  const files: Record<string, LockedFile> = Object.create(null);
  const entries = Object.entries(value["files"]);
  for (const [index, [path, file]] of entries.entries())
    files[path] = parseLockedFile(file, path, `file ${index + 1} of ${where}`);
  const digest = readTextField(value, "digest", where);
  if (digestTree(files) !== digest) {
    throw new SkillError("lock-edited", {
      message: `the digest of ${where} does not match its files: the lock was edited`,
      fix: "restore the lock that skillet wrote from version control, or remove it with the folders of its skills and add them again",
    });
  }
  return { digest, files };
}

// Errors quote nothing from an invalid lock: the author of a workspace wrote it, and a model may read the message.
function parseLockedFile(value: unknown, path: string, where: string): LockedFile {
  const isPath = path.split("/").every((part) => part !== "" && part !== "." && part !== "..") && !path.includes("\0");
  if (!isPath) throw createUnreadableLockError(`the path of ${where} leaves the folder`);
  const { mode, size, sha256 } = isJsonObject(value) ? value : {};
  const isFile =
    typeof mode === "string" &&
    /^[0-7]{3,4}$/.test(mode) &&
    Number.isSafeInteger(size) &&
    (size as number) >= 0 &&
    typeof sha256 === "string" &&
    /^sha256:[0-9a-f]{64}$/.test(sha256);
  if (!isFile) throw createUnreadableLockError(`the entry of ${where} is invalid`);
  return { mode, size: size as number, sha256 };
}

function readTextField(entry: JsonObject, key: string, where: string): string {
  const value = entry[key];
  if (typeof value === "string" && value !== "") return value;
  throw createUnreadableLockError(`${where} has no ${key}`);
}

function readOptionalField<K extends string>(entry: JsonObject, key: K, where: string): { [key in K]?: string } {
  return entry[key] === undefined ? {} : ({ [key]: readTextField(entry, key, where) } as { [key in K]?: string });
}

/** Sorts the keys of objects; keeps lists and values. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const ordered: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value).sort(([a], [b]) => compareText(a, b))) ordered[key] = item;
  return ordered;
}

/** Names the position, and quotes nothing: see `parseLockedFile`. */
function describeJsonError(text: string, error: unknown): string {
  if (/^(?:<{7}|>{7}) /m.test(text)) return "it has merge conflict markers";
  const [at] = /line \d+ column \d+/.exec(String(error)) ?? [];
  return at === undefined ? "it is not JSON" : `it is not JSON (${at})`;
}

function createUnreadableLockError(why: string): SkillError {
  return new SkillError("lock-unreadable", {
    message: why,
    fix: "restore it from version control, or remove it with the folders of its skills and add them again",
  });
}

/** Reads every file below a folder, including dot files. Throws when one cannot be read. */
export function readFileTree(folder: string): LockedFiles {
  return readTreeWithFolders(folder).files;
}

/** Reads the same, with the paths of the folders. */
export function readTreeWithFolders(folder: string): { files: LockedFiles; folders: string[] } {
  const found: [string, LockedFile][] = [];
  const folders: string[] = [];
  visitTreeFolder(folder, "", found, folders);
  return { files: sortLockedFiles(found), folders };
}

/** Computes `sha256:…` over every file: its path, mode, size and bytes. `except`: a path that is not counted. */
export function digestTree(files: LockedFiles, except?: string): string {
  const lines = Object.keys(files)
    .filter((path) => path !== except)
    .sort(compareText)
    .map((path) => {
      const { mode, size, sha256 } = files[path] as LockedFile;
      return JSON.stringify([path, mode, size, sha256]);
    });
  return hashSha256(lines.join("\n"));
}

/**
 * Formats a file's mode for a lock: the executable bit, and bits that no file should have. Other permissions differ by
 * machine.
 */
function formatFileMode({ mode }: Pick<Stats, "mode">): string {
  return ((mode & 0o111 ? 0o755 : 0o644) | (mode & 0o7002)).toString(8);
}

/** Returns true for a regular file: see `LockedFile`. */
export function isLockedRegularFile({ mode }: LockedFile): boolean {
  return /^[0-7]+$/.test(mode);
}

let cryptoModule: typeof import("node:crypto") | undefined;

export function hashSha256(bytes: string | Uint8Array): string {
  cryptoModule ??= process.getBuiltinModule("node:crypto"); // Loading it slows down startup, and most runs have no lock.
  return `sha256:${cryptoModule.hash("sha256", bytes)}`;
}

/** Creates the entry of a file that is not on disk. */
export function createLockedFile(bytes: Uint8Array, isExecutable: boolean): LockedFile {
  return { mode: isExecutable ? "755" : "644", size: bytes.length, sha256: hashSha256(bytes) };
}

/** Sorts files into an object without a prototype: a file may be called `__proto__`. */
export function sortLockedFiles(entries: readonly (readonly [string, LockedFile])[]): LockedFiles {
  const files: Record<string, LockedFile> = Object.create(null);
  for (const [path, file] of entries.toSorted(([a], [b]) => compareText(a, b))) files[path] = file;
  return files;
}

/** Reads the bytes of a file of a tree. Throws when it is not a regular file. */
export function readTreeFile(file: string): Buffer {
  return withOpenFile(file, (fd, stats) => {
    if (!stats.isFile()) throw new Error("it is not a file");
    return readFileSync(fd);
  });
}

// Neither follows a link nor blocks on a pipe that replaced a file after the folder was listed.
const TREE_READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
// The size limit of a source. A larger file is not read: it is not part of a skill.
const MAX_TREE_FILE_BYTES = 64 * 1024 * 1024;

function visitTreeFolder(root: string, below: string, found: [string, LockedFile][], folders: string[]): void {
  for (const entry of readdirSync(below === "" ? root : `${root}/${below}`, { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) {
      folders.push(path);
      visitTreeFolder(root, path, found, folders);
    } else found.push([path, entry.isFile() ? readFileEntry(`${root}/${path}`) : readSpecialEntry(`${root}/${path}`)]);
  }
}

function readFileEntry(file: string): LockedFile {
  return withOpenFile(file, (fd, stats) => {
    if (!stats.isFile()) return createSpecialEntry(stats);
    if (stats.size > MAX_TREE_FILE_BYTES) return { ...createSpecialEntry(stats), mode: "large" };
    const bytes = readFileSync(fd);
    return { mode: formatFileMode(stats), size: bytes.length, sha256: hashSha256(bytes) };
  });
}

function withOpenFile<T>(file: string, work: (fd: number, stats: Stats) => T): T {
  const fd = openSync(file, TREE_READ_FLAGS);
  try {
    return work(fd, fstatSync(fd));
  } finally {
    closeSync(fd);
  }
}

/** Reads a link, a pipe, a socket or a device. None is ever approved, so the entry only has to differ from any file. */
function readSpecialEntry(path: string): LockedFile {
  const stats = lstatSync(path);
  if (!stats.isSymbolicLink()) return createSpecialEntry(stats);
  return { mode: "link", size: 0, sha256: hashSha256(readlinkSync(path)) };
}

function createSpecialEntry(stats: Stats): LockedFile {
  return { mode: "other", size: 0, sha256: hashSha256(`${stats.mode} ${stats.size}`) };
}
