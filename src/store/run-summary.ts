import { closeSync, fstatSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode } from "../errors/problem.ts";
import { type JournalLine, parseJournal, parseJournalLine } from "./journal.ts";
import { openJournalFile, readJournalBytes } from "./journal-file.ts";
import { createCorruptSummary, type RunOwner, type RunSummary, summarizeRun } from "./run-rules.ts";

interface RunSummaryOptions {
  id: string;
  file: string;
  /** Called only for runs without an end. */
  readOwner(): RunOwner | undefined;
}

/**
 * Reads the summary of a run. For a run that ended well it reads only the first and last line: there may be thousands.
 * Returns undefined if the file does not exist.
 */
export function readRunSummary(options: RunSummaryOptions): RunSummary | undefined {
  let fd: number;
  try {
    fd = openJournalFile(options.file, "read");
  } catch (error) {
    return getErrnoCode(error) === "ENOENT" ? undefined : createCorruptSummary(options.id, new Date(0), 0);
  }
  try {
    return summarizeJournal(fd, options);
  } finally {
    closeSync(fd);
  }
}

function summarizeJournal(fd: number, { id, readOwner }: RunSummaryOptions): RunSummary {
  const { size, mtime } = fstatSync(fd);
  const head = parseJournalLine(readFirstLine(fd, size));
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) {
    const version: unknown = head?.type === "run" ? head.version : undefined;
    return {
      ...createCorruptSummary(id, mtime, size),
      ...(typeof version === "number" && version > 1 ? { formatVersion: version } : {}),
    };
  }
  const last = readLastLine(fd, size);
  // A cancelled run has an end too, once its process has noticed.
  if (last?.type === "end" && last.stop !== "aborted") return summarizeRun({ head, lines: [last], bytes: size });
  const { lines, corrupt } = parseJournal(readJournalBytes(fd));
  const owner = last?.type === "end" ? undefined : readOwner();
  return summarizeRun({ head, lines, isCorrupt: corrupt.length > 0, owner, bytes: size });
}

const CHUNK_BYTES = 16 * 1024;

function readFirstLine(fd: number, size: number): string {
  for (let room = CHUNK_BYTES; ; room *= 4) {
    const piece = readJournalBytes(fd, 0, Math.min(room, size));
    const end = piece.indexOf(0x0a);
    if (end !== -1 || room >= size) return piece.subarray(0, end === -1 ? piece.length : end).toString();
  }
}

/** Reads the last readable line: whole, or lacking only its newline. */
function readLastLine(fd: number, size: number): JournalLine | undefined {
  for (let room = CHUNK_BYTES; ; room *= 4) {
    const start = Math.max(0, size - room);
    const piece = readJournalBytes(fd, start, size);
    const end = piece.lastIndexOf(0x0a);
    const rest = parseJournalLine(piece.subarray(end + 1).toString());
    if (rest && (end !== -1 || start === 0)) return rest;
    const before = end <= 0 ? -1 : piece.lastIndexOf(0x0a, end - 1);
    if (before !== -1 || start === 0) return parseJournalLine(piece.subarray(before + 1, Math.max(end, 0)).toString());
  }
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns true once a day. */
export function isPruneDue(folder: string): boolean {
  const stamp = join(folder, ".pruned");
  const at = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const age = Date.now() - at;
  if (age >= 0 && age < DAY_MS) return false; // A future time comes from a clock that was wrong.
  try {
    writeFileSync(stamp, "", { mode: 0o600 });
    utimesSync(stamp, new Date(), new Date());
  } catch {} // The next run tries again.
  return at !== 0;
}
