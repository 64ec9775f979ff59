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

/** What a lock is called, in the folder of skills that it locks. */
export const LOCK_FILE = "skills.lock";
/** Of 50,000 skills. A larger one is not read, and not written. */
export const MAX_LOCK_BYTES = 64 * 1024 * 1024;

/** One file of a skill as it was agreed to. */
export interface LockedFile {
  /** `644` or `755`; more only where a file has bits that none should have. `link`, `other` and `large` are what no file is. */
  mode: string;
  size: number;
  /** `sha256:…` of its bytes; of a link, of where it leads. */
  sha256: string;
}

/** By path, in order. */
export type LockedFiles = Readonly<Record<string, LockedFile>>;

/** One skill in a folder of skills: where it came from, and what it is to be. */
export interface LockedSkill {
  /** As `skillet add` takes it, without its ref. `LOCAL_SOURCE` for an adopted skill whose origin is not known. */
  source: string;
  /** The skill's folder or file in its source, where it is not the source itself. */
  path?: string;
  /** The branch or tag that was asked for. */
  ref?: string;
  /** What that was then. */
  commit?: string;
  /** Over all files: see `treeDigest`. */
  digest: string;
  files: LockedFiles;
  /**
   * What came from the source, where the user changed it since and agreed to the change. Without any file: an adopted skill whose original
   * files are not known.
   */
  upstream?: { digest: string; files: LockedFiles };
  /** What of it was agreed to, in order. What it is given beside that, values and capabilities, is the configuration's to say. */
  grants: readonly LockGrant[];
  /** Whether it was added with `--require-signature`: an update must be signed by a known signer too. */
  requireSignature?: true;
  /** Whether it was adopted where it was: skillet did not put it there. */
  adopted?: true;
}

/** The source of an adopted skill whose origin is not known. No address is written so. */
export const LOCAL_SOURCE = "local:";

/** True for an adopted skill whose original files are not known, so that nothing tells which files were edited. */
export function hasUnknownBase({ upstream }: Pick<LockedSkill, "upstream">): boolean {
  return upstream !== undefined && Object.keys(upstream.files).length === 0;
}

/** True when the approved files are known to differ from those that came from the source. */
export function hasLocalEdits(entry: Pick<LockedSkill, "upstream">): boolean {
  return entry.upstream !== undefined && !hasUnknownBase(entry);
}

export const LOCK_GRANTS = ["instructions", "packages", "scripts", "toolsets"] as const;
export type LockGrant = (typeof LOCK_GRANTS)[number];

/** By name. */
export type LockedSkills = Readonly<Record<string, LockedSkill>>;

/** The same skills give the same text, whoever writes it. */
export function formatLock(skills: LockedSkills): string {
  return `${JSON.stringify({ version: 1, skills }, sortKeys, 2)}\n`;
}

/** Throws a SkillError when it is none, or not what skillet wrote. */
export function parseLock(text: string): Record<string, LockedSkill> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw createUnreadableLockError(describeJsonError(text, error));
  }
  if (!isJsonObject(value)) throw createUnreadableLockError("it is no table");
  if (value["version"] !== 1) {
    const { version } = value;
    throw new SkillError("lock-version", {
      message: `it is of ${Number.isFinite(version) ? `version ${version}` : "no version"}, and this skillet knows version 1`,
      fix: "bring skillet up to date, or let the one that wrote it read it",
    });
  }
  const { skills } = value;
  if (!isJsonObject(skills)) throw createUnreadableLockError("it has no skills");
  const read: Record<string, LockedSkill> = Object.create(null); // A skill may be called `constructor`.
  for (const [name, entry] of Object.entries(skills)) read[name] = parseLockedSkill(name, entry);
  return read;
}

function parseLockedSkill(name: string, entry: unknown): LockedSkill {
  if (findNameProblem(name)) throw createUnreadableLockError("a name in it is no name of a skill");
  const where = STANDARD_NAME.test(name) ? `skill "${name}"` : "a skill in it";
  if (!isJsonObject(entry)) throw createUnreadableLockError(`${where} is no table`);
  const { digest, files } = parseLockedTree(entry, where);
  const { upstream, grants } = entry;
  if (!Array.isArray(grants) || !grants.every((grant) => LOCK_GRANTS.includes(grant))) {
    throw createUnreadableLockError(`the grants of ${where} are none`);
  }
  return {
    source: readTextField(entry, "source", where),
    ...readOptionalField(entry, "path", where),
    ...readOptionalField(entry, "ref", where),
    ...readOptionalField(entry, "commit", where),
    digest,
    files,
    ...(upstream === undefined ? {} : { upstream: parseLockedTree(upstream, `what came from the source of ${where}`) }),
    grants: LOCK_GRANTS.filter((grant) => grants.includes(grant)),
    ...(entry["requireSignature"] === true ? { requireSignature: true as const } : {}),
    ...(entry["adopted"] === true ? { adopted: true as const } : {}),
  };
}

/** Files and the digest over them, which says whether somebody changed one without the other. */
function parseLockedTree(value: unknown, where: string): { digest: string; files: LockedFiles } {
  if (!isJsonObject(value) || !isJsonObject(value["files"])) throw createUnreadableLockError(`${where} has no files`);
  const files: Record<string, LockedFile> = Object.create(null);
  const entries = Object.entries(value["files"]);
  for (const [index, [path, file]] of entries.entries())
    files[path] = parseLockedFile(file, path, `file ${index + 1} of ${where}`);
  const digest = readTextField(value, "digest", where);
  if (digestTree(files) !== digest) {
    throw new SkillError("lock-edited", {
      message: `the digest of ${where} is not that of the files that stand there: it was edited`,
      fix: "take the lock that skillet wrote from your version control, or remove it and the folders of its skills, and add them again",
    });
  }
  return { digest, files };
}

// Nothing of a lock that is none is quoted: whoever made a workspace wrote it, and a model may read what is said of it.
function parseLockedFile(value: unknown, path: string, where: string): LockedFile {
  const isPath = path.split("/").every((part) => part !== "" && part !== "." && part !== "..") && !path.includes("\0");
  if (!isPath) throw createUnreadableLockError(`the path of ${where} leads elsewhere`);
  const { mode, size, sha256 } = isJsonObject(value) ? value : {};
  const isFile =
    typeof mode === "string" &&
    /^[0-7]{3,4}$/.test(mode) &&
    Number.isSafeInteger(size) &&
    (size as number) >= 0 &&
    typeof sha256 === "string" &&
    /^sha256:[0-9a-f]{64}$/.test(sha256);
  if (!isFile) throw createUnreadableLockError(`what stands of ${where} is of no file`);
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

/** Tables by their keys; lists and values as they are. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const ordered: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value).sort(([a], [b]) => compareText(a, b))) ordered[key] = item;
  return ordered;
}

/** Where, and not what: see `lockedFile`. */
function describeJsonError(text: string, error: unknown): string {
  if (/^(?:<{7}|>{7}) /m.test(text)) return "it holds the marks of a merge that nobody finished";
  const [at] = /line \d+ column \d+/.exec(String(error)) ?? [];
  return at === undefined ? "it is no JSON" : `it is no JSON (${at})`;
}

function createUnreadableLockError(why: string): SkillError {
  return new SkillError("lock-unreadable", {
    message: why,
    fix: "take it from your version control, or remove it and the folders of its skills, and add them again",
  });
}

/** Every file below a folder, to the last dot file, as it is now. Throws when it cannot be read. */
export function readFileTree(folder: string): LockedFiles {
  return readTreeWithFolders(folder).files;
}

/** The same, with the paths of the folders in it. */
export function readTreeWithFolders(folder: string): { files: LockedFiles; folders: string[] } {
  const found: [string, LockedFile][] = [];
  const folders: string[] = [];
  visitTreeFolder(folder, "", found, folders);
  return { files: sortLockedFiles(found), folders };
}

/** `sha256:…` over every file: its path, mode, size and bytes. `except`: a path that is not counted. */
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

/** What a file's mode is in a lock: whether it can be run, and bits that none should have. Who else may read or write it differs by machine. */
function formatFileMode({ mode }: Pick<Stats, "mode">): string {
  return ((mode & 0o111 ? 0o755 : 0o644) | (mode & 0o7002)).toString(8);
}

/** Whether it is a file at all: see `LockedFile`. */
export function isLockedRegularFile({ mode }: LockedFile): boolean {
  return /^[0-7]+$/.test(mode);
}

let cryptoModule: typeof import("node:crypto") | undefined;

export function hashSha256(bytes: string | Uint8Array): string {
  cryptoModule ??= process.getBuiltinModule("node:crypto"); // Loading it costs a start, and most have no lock.
  return `sha256:${cryptoModule.hash("sha256", bytes)}`;
}

/** A file of a tree that is not on a disk. */
export function createLockedFile(bytes: Uint8Array, isExecutable: boolean): LockedFile {
  return { mode: isExecutable ? "755" : "644", size: bytes.length, sha256: hashSha256(bytes) };
}

/** Without a prototype: a file may be called `__proto__`. */
export function sortLockedFiles(entries: readonly (readonly [string, LockedFile])[]): LockedFiles {
  const files: Record<string, LockedFile> = Object.create(null);
  for (const [path, file] of entries.toSorted(([a], [b]) => compareText(a, b))) files[path] = file;
  return files;
}

/** The bytes of a file of a tree. Throws when it is none. */
export function readTreeFile(file: string): Buffer {
  return withOpenFile(file, (fd, stats) => {
    if (!stats.isFile()) throw new Error("it is no file");
    return readFileSync(fd);
  });
}

// What was put in a file's place since the folder was listed is neither followed nor waited for.
const TREE_READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
// As much as a source may bring. What is larger is not read: it is no file of a skill.
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

/** A link, a pipe, a socket or a device: none is ever agreed to, so what it is needs only to differ from any file. */
function readSpecialEntry(path: string): LockedFile {
  const stats = lstatSync(path);
  if (!stats.isSymbolicLink()) return createSpecialEntry(stats);
  return { mode: "link", size: 0, sha256: hashSha256(readlinkSync(path)) };
}

function createSpecialEntry(stats: Stats): LockedFile {
  return { mode: "other", size: 0, sha256: hashSha256(`${stats.mode} ${stats.size}`) };
}
