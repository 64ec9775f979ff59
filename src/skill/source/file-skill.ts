import { isUtf8 } from "node:buffer";
import { closeSync, constants, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { FINDING_CODES } from "../../errors/finding-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import {
  createFileFingerprint,
  detectUtf16,
  type FileFingerprint,
  isSameFingerprint,
  statIfExists,
} from "../../util/file-access.ts";
import { createJsonObject, isJsonObject, type JsonObject } from "../../util/objects.ts";
import { type ExpectedFolder, readFileInside } from "../../util/safe-path.ts";
import { hashNumber } from "../../util/text.ts";
import { findFrontmatter, trimBody } from "../frontmatter.ts";
import { type Manifest, readManifest } from "../manifest.ts";
import type { FileList, Finding, Skill, SkillFile, SkillFingerprint, SkillOrigin } from "../skill.ts";
import {
  createOpenFinding,
  type FolderSnapshot,
  getExpectedFolder,
  isFolderReplaced,
  listSkillFiles,
  readSkillFile,
  withOwnFile,
} from "./skill-files.ts";

type ExtractBody = (text: string) => string | undefined;

interface FileSkillParts {
  name: string;
  description: string;
  origin: SkillOrigin & { file: string };
  findings: readonly Finding[];
  /** The frontmatter as JSON. */
  data: string;
  /** Returns the instructions from the file's text; undefined if it is not a skill. Defaults to the Markdown reader. */
  extractBody?: ExtractBody | undefined;
  /** The fingerprint of the file at discovery. */
  fingerprint?: FileFingerprint | undefined;
  /** The state of its folder at discovery. */
  snapshot?: FolderSnapshot | undefined;
}

// Every key that a policy checks, at any depth. A policy that reads another key must add it here.
const REQUIREMENT_KEYS = /"(?:packages|scripts|env|requires|os|required[_-]tools|capabilities|sensitive|access)":/;

/** The keys that restrict who may invoke a skill. They share a substring, whose search takes a tenth of the time. */
const INVOCATION_KEYS = /"(?:disable[_-]model[_-]invocation|user[_-]invo[ck]able)":/;
const INVOCATION_KEY_PART = "invo";

/** A skill in a file. It is a class because ten thousand instances share their methods and store only their data. */
export class FileSkill implements Skill {
  readonly name: string;
  readonly description: string;
  readonly origin: SkillOrigin & { file: string };
  readonly findings: readonly Finding[];
  readonly #data: string;
  readonly #stamp: FileFingerprint | undefined;
  readonly #snapshot: FolderSnapshot | undefined;
  #asks: boolean | undefined;
  #manifest: Manifest | undefined;
  #body: { text: string; stamp: FileFingerprint } | undefined;
  #files: FileList | undefined;

  constructor(parts: FileSkillParts) {
    this.name = parts.name;
    this.description = parts.description;
    this.origin = parts.origin;
    this.findings = parts.findings;
    this.#data = parts.data;
    if (parts.extractBody) BODY_READERS.set(parts.origin, parts.extractBody);
    this.#stamp = parts.fingerprint;
    this.#snapshot = parts.snapshot;
  }

  get manifest(): Manifest {
    this.#manifest ??= readManifest(removePrototypes(JSON.parse(this.#data)) as JsonObject);
    return this.#manifest;
  }

  hasRequirements(): boolean {
    this.#asks ??= REQUIREMENT_KEYS.test(this.#data);
    return this.#asks;
  }

  restrictsInvocation(): boolean {
    return this.#data.includes(INVOCATION_KEY_PART) && INVOCATION_KEYS.test(this.#data);
  }

  /**
   * Combines the fingerprint of its file at discovery with that of the current trigger queries, if there was a folder for them.
   */
  fingerprint(): SkillFingerprint | undefined {
    if (!this.#stamp) return undefined;
    const { file, folder } = this.origin;
    const hasQueries = folder !== undefined && this.#snapshot?.hasEvals !== false;
    const queries = !hasQueries ? undefined : statIfExists(`${folder}/${TRIGGER_QUERIES_FILE}`);
    const value = queries
      ? `${formatFingerprint(this.#stamp)} ${formatFingerprint(queries)}`
      : formatFingerprint(this.#stamp);
    return { file, value, changedAt: Math.max(this.#stamp.mtimeMs, queries?.mtimeMs ?? 0) };
  }

  async body(): Promise<string> {
    const { file } = this.origin;
    const stats = statIfExists(file);
    if (!this.#body || !stats || !isSameFingerprint(this.#body.stamp, createFileFingerprint(stats)))
      this.#body = readInstructions(this);
    return this.#body.text;
  }

  async files(): Promise<FileList> {
    this.#files ??= this.#list();
    return this.#files;
  }

  hasOtherFiles(): boolean {
    return this.#files !== undefined && JSON.stringify(this.#files) !== JSON.stringify(this.#list());
  }

  #list(): FileList {
    return listSkillFiles(this.origin);
  }

  examples(): readonly string[] {
    const declared = this.manifest.triggers.examples;
    const { folder } = this.origin;
    const triggers = folder === undefined ? undefined : readTriggerQueries(folder, getExpectedFolder(this.origin));
    return triggers === undefined ? declared : [...declared, ...selectTrainingExamples(triggers.queries)];
  }

  async read(path: string): Promise<Uint8Array> {
    const { files } = await this.files();
    if (!files.some((file) => file.path === path))
      throw isFolderReplaced(this) ? createReplacedFolderError(this) : createUnlistedFileError(this.name, path, files);
    const result = readSkillFile(this.origin, path);
    if ("bytes" in result) return result.bytes;
    throw new SkillError(`resource-${result.code}`, {
      message: `Skill "${this.name}": ${result.message}`,
      fix: result.code === "too-large" ? "split the file" : RELOAD_FIX,
    });
  }
}

/** Reads the instructions of a skill from its file. Throws a SkillError if it is not a skill anymore. */
export function readInstructions(skill: Pick<Skill, "name" | "origin">): { text: string; stamp: FileFingerprint } {
  const { name, origin } = skill;
  const { file = "" } = origin;
  const unreadable = ({ code, message }: Finding) =>
    new SkillError(code, {
      message: `The instructions of skill "${name}" cannot be read: ${file} ${message}`,
      fix: FINDING_CODES[code].fix,
    });
  const read = withOwnFile({ ...origin, file }, readSkillText);
  if (!read) throw createReplacedFolderError(skill);
  if ("finding" in read) throw unreadable(read.finding);
  const text = (BODY_READERS.get(origin) ?? extractMarkdownBody)(read.text);
  if (text === undefined) throw unreadable({ code: "frontmatter-missing", message: "is not a skill anymore" });
  return { text, stamp: read.stamp };
}

/** The readers of skills in YAML files. Their parser is loaded only if there is such a file. */
const BODY_READERS = new WeakMap<SkillOrigin, ExtractBody>();

const RELOAD_FIX = "reload the skills: the folder changed after its files were listed";

/** Creates the error for a skill whose folder was replaced by another one. */
export function createReplacedFolderError({ name, origin }: Pick<Skill, "name" | "origin">): SkillError {
  const { folder, file = "" } = origin;
  const what =
    folder !== undefined && isFolderReplaced({ origin }) ? `${folder} is not the folder` : `${file} is not the file`;
  return new SkillError("resource-changed", {
    message: `Skill "${name}" cannot be read: ${what} that was discovered`,
    fix: RELOAD_FIX,
  });
}

/** Creates the error for a path that is not among a skill's files. */
export function createUnlistedFileError(skill: string, path: string, files: readonly SkillFile[]): SkillError {
  const names = files.slice(0, 10).map((file) => file.path);
  return new SkillError("resource-unlisted", {
    message: `Skill "${skill}" has no file "${path}"`,
    fix:
      names.length === 0 ? "the skill has no files next to its instructions" : `available files: ${names.join(", ")}`,
  });
}

function formatFingerprint({ mtimeMs, size, ino }: FileFingerprint): string {
  return `${mtimeMs} ${size} ${ino}`;
}

// The file may have become a symlink to any file: text that is not a skill is not returned.
function extractMarkdownBody(text: string): string | undefined {
  const frame = findFrontmatter(text);
  return "start" in frame && frame.closed ? trimBody(frame.text.slice(frame.bodyStart)) : undefined;
}

export function removePrototypes(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value))
    return value.every((item) => typeof item === "string") ? value : value.map(removePrototypes);
  const data = createJsonObject();
  for (const [key, item] of Object.entries(value)) data[key] = removePrototypes(item);
  return data;
}

/** A query, and whether the skill should trigger for it. */
interface TriggerQuery {
  query: string;
  shouldTrigger: boolean;
  /** True for queries that only measure; training queries are indexed as examples. */
  isHeldOut: boolean;
}

export const TRIGGER_QUERIES_FILE = "evals/triggers.json";

/**
 * Reads the trigger queries of a skill, or returns undefined if the file is missing. Invalid entries are reported, and the others
 * are used.
 */
export function readTriggerQueries(
  folder: string,
  expected?: ExpectedFolder,
): { queries: TriggerQuery[]; problem?: string } | undefined {
  if (!existsSync(`${folder}/${TRIGGER_QUERIES_FILE}`)) return undefined;
  const read = readFileInside(folder, TRIGGER_QUERIES_FILE, MAX_QUERIES_BYTES, expected);
  if ("code" in read) return { queries: [], problem: read.message };
  let entries: unknown;
  try {
    entries = JSON.parse(read.bytes.toString("utf8").replace(/^\ufeff/, ""));
  } catch {
    return { queries: [], problem: "is not valid JSON" };
  }
  if (!Array.isArray(entries)) return { queries: [], problem: "is not a list" };
  const queries = entries.flatMap((entry) => {
    if (!isJsonObject(entry)) return [];
    const { query, should_trigger: shouldTrigger, split } = entry;
    if (typeof query !== "string" || query.trim() === "" || typeof shouldTrigger !== "boolean") return [];
    return { query, shouldTrigger, isHeldOut: typeof split === "string" ? split !== "train" : isHeldOutQuery(query) };
  });
  const odd = entries.length - queries.length;
  if (odd === 0) return { queries };
  return {
    queries,
    problem: `has ${odd} of ${entries.length} entries without a "query" and a "should_trigger" of true or false`,
  };
}

function selectTrainingExamples(queries: readonly TriggerQuery[]): string[] {
  return queries.filter(({ isHeldOut, shouldTrigger }) => shouldTrigger && !isHeldOut).map(({ query }) => query);
}

const MAX_QUERIES_BYTES = 1024 * 1024;

// By the query itself: adding an entry to the file does not move others between the sets.
function isHeldOutQuery(query: string): boolean {
  return hashNumber(query) % 10 >= 6;
}

export type FileText = { text: string; stamp: FileFingerprint; findings: Finding[] } | { finding: Finding };

const MAX_FILE_BYTES = 1024 * 1024;

/** Reads a skill file as text. */
export function readSkillText(path: string): FileText {
  return withOpenFile(path, (fd, stamp) => {
    const bytes = readFileBytes(fd, stamp.size);
    const finding = checkEncoding(bytes);
    if (finding) return { finding };
    const findings: Finding[] = isUtf8(bytes)
      ? []
      : [{ code: "body-encoding", message: "the instructions are not UTF-8 text" }];
    return { text: bytes.toString("utf8"), stamp, findings };
  });
}

export const HEAD_BYTES = 4096;
// A normal open would block forever on a pipe without a writer.
const OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Opens a regular file within the size limit, and closes it afterwards. */
export function withOpenFile<T>(
  path: string,
  use: (fd: number, stamp: FileFingerprint) => T,
): T | { finding: Finding } {
  let fd: number;
  try {
    fd = openSync(path, OPEN_FLAGS);
  } catch (error) {
    return { finding: createOpenFinding(error) };
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) return { finding: { code: "not-a-file", message: "is not a regular file" } };
    if (stats.size > MAX_FILE_BYTES) {
      return { finding: { code: "file-too-large", message: `has ${stats.size} bytes, more than ${MAX_FILE_BYTES}` } };
    }
    return use(fd, createFileFingerprint(stats));
  } catch (error) {
    return { finding: createOpenFinding(error) };
  } finally {
    closeSync(fd);
  }
}

const headBuffer = Buffer.allocUnsafe(HEAD_BYTES);

/** Contract: the bytes of a head are valid until the next call. */
export function readFileBytes(fd: number, length: number): Buffer {
  const into = length <= HEAD_BYTES ? headBuffer : Buffer.allocUnsafe(length);
  let total = 0;
  while (total < length) {
    const read = readSync(fd, into, total, length - total, total);
    if (read === 0) break;
    total += read;
  }
  return into.subarray(0, total);
}

/** Reports if the part with the frontmatter is not UTF-8. The instructions are checked when they are read. */
export function checkEncoding(bytes: Buffer): Finding | undefined {
  if (detectUtf16(bytes)) return { code: "not-utf8", message: "is UTF-16 text, not UTF-8" };
  const whole = bytes.subarray(0, findCharacterBoundary(bytes));
  if (isUtf8(whole)) return undefined;
  const frame = findFrontmatter(whole.toString("utf8"));
  const frontmatter = "start" in frame ? frame.text.slice(0, frame.end) : frame.text;
  if (!frontmatter.includes("\ufffd")) return undefined;
  return { code: "not-utf8", message: frontmatter.includes("\0") ? "is not text" : "is not UTF-8 text" };
}

/** Returns the index at which a head can be cut without splitting a character. */
function findCharacterBoundary(bytes: Buffer): number {
  if (bytes.length < HEAD_BYTES) return bytes.length;
  let end = bytes.length;
  while (end > bytes.length - 4 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--;
  return ((bytes[end - 1] ?? 0) & 0x80) === 0 ? end : end - 1;
}

/** Returns true if a file states a name and a description in its frontmatter. An ordinary page named skill.md does not. */
export function hasSkillFrontmatter(file: string): boolean {
  const head = readHeadText(file);
  if (head === undefined) return false;
  const frame = findFrontmatter(head);
  const source = "start" in frame ? frame.text.slice(frame.start, frame.end) : "";
  return /^name[ \t]*:/m.test(source) && /^description[ \t]*:/m.test(source);
}

function readHeadText(file: string): string | undefined {
  const head = withOpenFile(file, (fd, { size }) => readFileBytes(fd, Math.min(HEAD_BYTES, size)).toString("utf8"));
  return typeof head === "string" ? head : undefined;
}

/**
 * Returns the reason why a file is not a separate skill, if it has no frontmatter. An unreadable file is reported when it is
 * read.
 */
export function findMissingFrontmatter(file: string): string | undefined {
  const head = readHeadText(file);
  return head === undefined || "start" in findFrontmatter(head) ? undefined : "has no frontmatter";
}
