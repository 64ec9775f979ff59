import { createHash } from "node:crypto";
import { existsSync, realpathSync, rmdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../../errors/problem.ts";
import { createJsonStore, type JsonStore } from "../../store/json-store.ts";
import { replaceFile, withFileLock } from "../../store/locked-file.ts";
import { isJsonObject } from "../../util/objects.ts";
import { compareText } from "../../util/text.ts";
import { createReadOnlyError, readClientConfig } from "./mcp-config.ts";
import type { ConfigFileChange } from "./plan-connection.ts";

/**
 * Writes planned changes, all or nothing, and records them. Throws a SkillError when a file changed since the plan was
 * made, or cannot be written; then every file is unchanged.
 */
export function applyConnectionChanges(
  changes: readonly ConfigFileChange[],
  records: JsonStore<ConnectionRecord>,
): void {
  for (const change of changes) requireWritable(change);
  const made = changes.flatMap(({ file }) => listMissingFolders(file));
  try {
    const ordered = changes.toSorted((a, b) => compareText(a.file, b.file));
    withFilesLocked(ordered, () => {
      for (const change of ordered) requireUnchanged(change);
      // Recorded first and forgotten last: a process that is killed in between leaves files that can be restored.
      const before = setRecords(
        records,
        ordered.filter(({ record }) => record !== undefined),
      );
      try {
        writeAllFiles(ordered);
      } catch (error) {
        setRecords(records, before);
        throw error;
      }
      setRecords(
        records,
        ordered.filter(({ record }) => record === undefined),
      );
    });
  } catch (error) {
    removeEmptyFolders(made);
    throw error;
  }
}

/** Removes empty folders that `connect` created. */
export function removeCreatedFolders(records: readonly (ConnectionRecord | undefined)[]): void {
  removeEmptyFolders(records.flatMap((record) => record?.folders ?? []));
}

/** Sets or deletes the records of files, and returns the previous ones. */
function setRecords(records: JsonStore<ConnectionRecord>, changes: readonly FileRecord[]): FileRecord[] {
  if (changes.length === 0) return [];
  return records.update((entries) =>
    changes.map(({ file, record }) => {
      const before = { file, record: entries[file] };
      if (record) entries[file] = record;
      else delete entries[file];
      return before;
    }),
  );
}

type FileRecord = Pick<ConfigFileChange, "file" | "record">;

function withFilesLocked(changes: readonly ConfigFileChange[], work: () => void): void {
  const [first, ...rest] = changes;
  if (first) withFileLock(first.file, () => withFilesLocked(rest, work));
  else work();
}

function writeAllFiles(changes: readonly ConfigFileChange[]): void {
  const written: ConfigFileChange[] = [];
  try {
    for (const change of changes) {
      const { file, before, after, mark, mode } = change;
      if (after === before) continue;
      writeOrDelete(file, after === undefined ? undefined : mark + after, mode);
      written.push(change);
    }
  } catch (error) {
    for (const { file, before, mark, mode } of written.toReversed())
      writeOrDelete(file, before === undefined ? undefined : mark + before, mode);
    throw error;
  }
}

/** Writes or deletes a file. Follows a symlink: its target is written or deleted. */
function writeOrDelete(file: string, text: string | undefined, mode: number): void {
  if (text !== undefined) {
    replaceFile(file, text, mode);
    return;
  }
  try {
    rmSync(realpathSync(file));
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return;
    throw new SkillError("unwritable", {
      message: `${file} cannot be deleted: ${getErrorMessage(error)}`,
      fix: "check that its folder is writable",
      cause: error,
    });
  }
}

/** Respects the mode of the file: replacing it would only need a writable folder. */
function requireWritable({ file, before, after, mode }: ConfigFileChange): void {
  if (before !== undefined && before !== after && (mode & 0o222) === 0) throw createReadOnlyError(file);
}

function requireUnchanged({ file, before, mark }: ConfigFileChange): void {
  const there = readClientConfig(file);
  if (there?.text === before && (there?.mark ?? mark) === mark) return;
  throw new SkillError("concurrent-change", {
    message: `${file} was changed by another program meanwhile: nothing was written`,
    fix: "run the command again",
  });
}

function listMissingFolders(file: string): string[] {
  const missing: string[] = [];
  for (let folder = dirname(file); !existsSync(folder) && folder !== dirname(folder); folder = dirname(folder))
    missing.push(folder);
  return missing;
}

/** Removes the innermost folder first. */
function removeEmptyFolders(folders: readonly string[]): void {
  for (const folder of [...new Set(folders)].toSorted((a, b) => b.length - a.length)) {
    try {
      rmdirSync(folder);
    } catch {} // It is not empty, or is gone.
  }
}

/** The changes that `connect` made to one file of a client. */
export interface ConnectionRecord {
  /** The clients that the file was changed for: some share one. */
  clients: string[];
  /** Digest of the file before the first change; null if it did not exist. */
  before: string | null;
  /** Digest of the file after the last change. */
  after: string;
  /** Undoes the changes, in the order in which they were made. */
  undo: UndoSpan[];
  /** True if `connect` created the file, whatever was written into it since. */
  isCreated: boolean;
  /** Objects and lists that were created to hold the entries, by their paths. */
  made: string[][];
  /** Folders that were created, the outermost first. */
  folders: string[];
}

/** Opens the record of changed files, by path. It is the user's own: no workspace can forge it. */
export function createConnectionStore(skilletHome: string): JsonStore<ConnectionRecord> {
  return createJsonStore({
    file: join(skilletHome, "connections.json"),
    isEntry: isConnectionRecord,
    unreadable: {
      code: "connections-unreadable",
      fix: "delete it: `connect --remove` then still removes its entries, but may format a file differently",
    },
  });
}

export function digestConfigText(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function isConnectionRecord(entry: unknown): entry is ConnectionRecord {
  if (!isJsonObject(entry)) return false;
  const { clients, before, after, undo, isCreated, made, folders } = entry as Record<string, unknown>;
  const isTexts = (list: unknown) => Array.isArray(list) && list.every((one) => typeof one === "string");
  return (
    isTexts(clients) &&
    (before === null || typeof before === "string") &&
    typeof after === "string" &&
    typeof isCreated === "boolean" &&
    isTexts(folders) &&
    Array.isArray(made) &&
    made.every(isTexts) &&
    Array.isArray(undo) &&
    undo.every(
      (one) =>
        isJsonObject(one) &&
        Number.isInteger(one["at"]) &&
        Number.isInteger(one["length"]) &&
        typeof one["text"] === "string",
    )
  );
}

/** One change of a text: at a position, one string replaces another. */
export interface TextSpan {
  at: number;
  removed: string;
  inserted: string;
}

/** Undoes a change: the text replaces a number of characters. */
interface UndoSpan {
  at: number;
  length: number;
  text: string;
}

/** Returns the smallest span that turns one text into the other; undefined if they are equal. */
export function findTextSpan(before: string, after: string): TextSpan | undefined {
  if (before === after) return undefined;
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const span = {
    at: head,
    removed: before.slice(head, before.length - tail),
    inserted: after.slice(head, after.length - tail),
  };
  return alignToLineStart(span, before);
}

/** Undoes spans, the last one first. Contract: the text is their result. */
export function undoSpans(text: string, spans: readonly UndoSpan[]): string {
  return spans.reduceRight(
    (written, { at, length, text: old }) => written.slice(0, at) + old + written.slice(at + length),
    text,
  );
}

export function createUndoSpan({ at, removed, inserted }: TextSpan): UndoSpan {
  return { at, length: inserted.length, text: removed };
}

/**
 * Aligns an insertion or removal: of several equivalent positions, the one after a member or at a line's end reads
 * best.
 */
function alignToLineStart(span: TextSpan, before: string): TextSpan {
  const key = span.removed === "" ? "inserted" : span.inserted === "" ? "removed" : undefined;
  if (key === undefined) return span;
  for (let at = span.at, text = span[key]; ; at--, text = `${before[at]}${text.slice(0, -1)}`) {
    if (/^(?:,|\r?\n)/.test(text)) return { ...span, at, [key]: text };
    if (at === 0 || before[at - 1] !== text.at(-1)) return span;
  }
}
