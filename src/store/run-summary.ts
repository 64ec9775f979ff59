import { closeSync, fstatSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode } from "../errors/problem.ts";
import type { ApprovalRequest } from "../host/approval.ts";
import {
  type JournalLine,
  openJournalFile,
  parseJournal,
  parseJournalLine,
  type RunEnd,
  type RunHeader,
  readJournalBytes,
} from "./journal.ts";

/**
 * `running`: a process works on it. `interrupted`: no process does, and it has no end. `waiting`: it needs an approval;
 * `answered`: it has the decision.
 */
export const RUN_STATES = ["running", "interrupted", "waiting", "answered", "ended", "cancelled", "corrupt"] as const;
export type RunState = (typeof RUN_STATES)[number];

export interface RunSummary extends Omit<RunHeader, "type" | "version"> {
  at: string;
  state: RunState;
  /** The time of the last line. */
  changedAt: string;
  /** The end of the run, if it ended. */
  end?: Omit<RunEnd, "type">;
  /** The request it waits for, or that was answered. */
  effect?: ApprovalRequest;
  /** The process that works on it. */
  pid?: number;
  bytes: number;
  /** The format version of a journal that a newer skillet wrote: it is neither read nor changed. */
  formatVersion?: number;
}

interface RunSummaryOptions {
  id: string;
  file: string;
  /** Called only for runs without an end. */
  ownerPid(): number | undefined;
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

function summarizeJournal(fd: number, { id, ownerPid }: RunSummaryOptions): RunSummary {
  const { size, mtime } = fstatSync(fd);
  const head = parseJournalLine(readFirstLine(fd, size));
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) {
    const version: unknown = head?.type === "run" ? head.version : undefined;
    return {
      ...createCorruptSummary(id, mtime, size),
      ...(typeof version === "number" && version > 1 ? { formatVersion: version } : {}),
    };
  }
  const { type: _, version: __, ...run } = head;
  const last = readLastLine(fd, size);
  // A cancelled run has an end too, once its process has noticed.
  if (last?.type === "end" && last.stop !== "aborted")
    return { ...run, state: "ended", changedAt: last.at, bytes: size, end: stripRunEnd(last) };
  const { lines, corrupt } = parseJournal(readJournalBytes(fd));
  const pid = last?.type === "end" ? undefined : ownerPid();
  const end = last?.type === "end" ? { end: stripRunEnd(last) } : {};
  const state = corrupt.length > 0 ? { state: "corrupt" as const } : deriveRunState(lines, pid !== undefined);
  const changedAt = lines.at(-1)?.at ?? mtime.toISOString();
  return { ...run, ...state, changedAt, bytes: size, ...end, ...(pid === undefined ? {} : { pid }) };
}

/** Creates the summary of a run that cannot be read. */
function createCorruptSummary(id: string, changed: Date, bytes: number): RunSummary {
  const at = changed.toISOString();
  return { id, kind: "use", skill: "", task: "", at, state: "corrupt", changedAt: at, bytes };
}

function deriveRunState(lines: readonly JournalLine[], isAtWork: boolean): Pick<RunSummary, "state" | "effect"> {
  const isEnded = lines.at(-1)?.type === "end";
  if (isAtWork && !isEnded) return { state: "running" };
  if (lines.some(({ type }) => type === "cancel")) return { state: "cancelled" };
  if (isEnded) return { state: "ended" };
  const pending = findPendingApproval(lines);
  if (pending) return { state: "waiting", effect: pending.effect };
  const last = lines.at(-1);
  const ask = lines.findLast((line) => line.type === "ask" && last?.type === "answer" && line.name === last.name);
  return ask?.type === "ask" ? { state: "answered", effect: ask.effect } : { state: "interrupted" };
}

/**
 * Returns the first request without an answer. A request followed by other work is closed: it was not asked again. A
 * request that was repeated for a different action is open again.
 */
export function findPendingApproval(lines: readonly JournalLine[]): Extract<JournalLine, { type: "ask" }> | undefined {
  const open = lines.slice(lines.findLastIndex(({ type }) => type === "step") + 1);
  const isOver = (name: string, index: number) =>
    open.slice(index + 1).some((line) => (line.type === "ask" || line.type === "answer") && line.name === name);
  const ask = open.find((line, index) => line.type === "ask" && !isOver(line.name, index));
  return ask?.type === "ask" ? ask : undefined;
}

function stripRunEnd({ type: _, at: __, ...end }: RunEnd & { at: string }): Omit<RunEnd, "type"> {
  return end;
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

/** The number of days that runs are kept, and the number of finished runs that are kept. */
export interface RunRetention {
  days: number;
  most: number;
}

export const DEFAULT_RUN_RETENTION: RunRetention = { days: 30, most: 1000 };

const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns the runs to remove from a list with the newest first. `now`: the current time. */
export function findExpiredRuns(
  runs: readonly RunSummary[],
  { days, most }: RunRetention,
  now = Date.now(),
): readonly RunSummary[] {
  const oldest = now - days * DAY_MS;
  return runs
    .filter(({ state }) => state !== "running")
    .filter(
      ({ changedAt, state }, index) => Date.parse(changedAt) <= oldest || (index >= most && isFinishedState(state)),
    );
}

/**
 * Returns the time for automatic pruning: the last change that an earlier process recorded, if the clock is past it. A
 * clock that jumps ahead for one command deletes nothing; once a second run has the same time, it counts.
 */
export function getConfirmedTime(runs: readonly RunSummary[]): number {
  return Math.min(Date.now(), Math.max(0, ...runs.map(({ changedAt }) => Date.parse(changedAt))));
}

export function isFinishedState(state: RunState): boolean {
  return state === "ended" || state === "cancelled";
}

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
