import { existsSync, realpathSync, rmdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Ledger } from "../../host/ledger.ts";
import { replaceFile, whileLocked } from "../../host/locked-file.ts";
import { SkillError } from "../../shared/error.ts";
import { codeOf, reason } from "../../shared/inside.ts";
import { byText } from "../../shared/text.ts";
import type { FileChange } from "./connection-plan.ts";
import type { ConnectionRecord } from "./connection-record.ts";
import { readClientFile, readOnly } from "./write.ts";

/**
 * Writes planned changes, all or none, and records them. Throws a SkillError when a file changed since the plan was made, or cannot be
 * written; then every file is as it was.
 */
export function applyChanges(changes: readonly FileChange[], records: Ledger<ConnectionRecord>): void {
  for (const change of changes) checkWritable(change);
  const made = changes.flatMap(({ file }) => missingAbove(file));
  try {
    const ordered = changes.toSorted((a, b) => byText(a.file, b.file));
    lockAll(ordered, () => {
      for (const change of ordered) checkUnchanged(change);
      // Recorded first and forgotten last: a process that is killed in between leaves files that can be restored.
      const before = setRecords(
        records,
        ordered.filter(({ record }) => record !== undefined),
      );
      try {
        writeAll(ordered);
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
    removeEmpty(made);
    throw error;
  }
}

/** Removes folders that `connect` created, if nothing is in them. */
export function removeFolders(records: readonly (ConnectionRecord | undefined)[]): void {
  removeEmpty(records.flatMap((record) => record?.folders ?? []));
}

/** Sets or deletes the records of files, and returns the previous ones. */
function setRecords(records: Ledger<ConnectionRecord>, changes: readonly FileRecord[]): FileRecord[] {
  if (changes.length === 0) return [];
  return records.change((entries) =>
    changes.map(({ file, record }) => {
      const before = { file, record: entries[file] };
      if (record) entries[file] = record;
      else delete entries[file];
      return before;
    }),
  );
}

type FileRecord = Pick<FileChange, "file" | "record">;

function lockAll(changes: readonly FileChange[], work: () => void): void {
  const [first, ...rest] = changes;
  if (first) whileLocked(first.file, () => lockAll(rest, work));
  else work();
}

function writeAll(changes: readonly FileChange[]): void {
  const written: FileChange[] = [];
  try {
    for (const change of changes) {
      const { file, before, after, mark, mode } = change;
      if (after === before) continue;
      put(file, after === undefined ? undefined : mark + after, mode);
      written.push(change);
    }
  } catch (error) {
    for (const { file, before, mark, mode } of written.toReversed())
      put(file, before === undefined ? undefined : mark + before, mode);
    throw error;
  }
}

/** Writes a file, or deletes it. A symlink stays one: its target is written, or deleted. */
function put(file: string, text: string | undefined, mode: number): void {
  if (text !== undefined) {
    replaceFile(file, text, mode);
    return;
  }
  try {
    rmSync(realpathSync(file));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    throw new SkillError("unwritable", {
      message: `${file} cannot be deleted: ${reason(error)}`,
      fix: "check that its folder can be written to",
      cause: error,
    });
  }
}

/** Replacing a file only needs a writable folder: the mode of the file is respected all the same. */
function checkWritable({ file, before, after, mode }: FileChange): void {
  if (before !== undefined && before !== after && (mode & 0o222) === 0) throw readOnly(file);
}

function checkUnchanged({ file, before, mark }: FileChange): void {
  const there = readClientFile(file);
  if (there?.text === before && (there?.mark ?? mark) === mark) return;
  throw new SkillError("changed-meanwhile", {
    message: `${file} was changed by another program meanwhile: nothing was written`,
    fix: "run the command again",
  });
}

function missingAbove(file: string): string[] {
  const missing: string[] = [];
  for (let folder = dirname(file); !existsSync(folder) && folder !== dirname(folder); folder = dirname(folder))
    missing.push(folder);
  return missing;
}

/** The innermost first. */
function removeEmpty(folders: readonly string[]): void {
  for (const folder of [...new Set(folders)].toSorted((a, b) => b.length - a.length)) {
    try {
      rmdirSync(folder);
    } catch {} // Something else is in it, or it is gone.
  }
}
