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

/** `running`: a process is at it. `interrupted`: none is, and it has no end. `waiting`: for somebody's word; `answered`: it has it. */
export const RUN_STATES = ["running", "interrupted", "waiting", "answered", "ended", "cancelled", "corrupt"] as const;
export type RunState = (typeof RUN_STATES)[number];

export interface RunSummary extends Omit<RunHeader, "type" | "version"> {
  at: string;
  state: RunState;
  /** When the last was written. */
  changedAt: string;
  /** How it ended, where it did. */
  end?: Omit<RunEnd, "type">;
  /** What it waits for, or was answered. */
  effect?: ApprovalRequest;
  /** The process that is at it. */
  pid?: number;
  bytes: number;
}

interface RunSummaryOptions {
  id: string;
  file: string;
  /** Asked only for what has no end. */
  ownerPid(): number | undefined;
}

/** Of a run that ended well, from its first line and its last alone: there may be thousands. Nothing when there is no such file. */
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
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) return createCorruptSummary(id, mtime, size);
  const { type: _, version: __, ...run } = head;
  const last = readLastLine(fd, size);
  // One that was called off has an end too, once its process has noticed.
  if (last?.type === "end" && last.stop !== "aborted")
    return { ...run, state: "ended", changedAt: last.at, bytes: size, end: stripRunEnd(last) };
  const { lines, corrupt } = parseJournal(readJournalBytes(fd));
  const pid = last?.type === "end" ? undefined : ownerPid();
  const end = last?.type === "end" ? { end: stripRunEnd(last) } : {};
  const state = corrupt.length > 0 ? { state: "corrupt" as const } : deriveRunState(lines, pid !== undefined);
  const changedAt = lines.at(-1)?.at ?? mtime.toISOString();
  return { ...run, ...state, changedAt, bytes: size, ...end, ...(pid === undefined ? {} : { pid }) };
}

/** What nothing can be said of but that it is there. */
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
 * The first question that nobody has answered yet. One that something was done after is over: nobody was asked it again. One that was
 * asked again, since it is about another thing by now, is open again.
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

/** The last that can be read: whole, or lacking nothing but its end. */
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

/** For how many days runs are kept, and how many of those that are over. */
export interface RunRetention {
  days: number;
  most: number;
}

export const DEFAULT_RUN_RETENTION: RunRetention = { days: 30, most: 1000 };

const DAY_MS = 24 * 60 * 60 * 1000;

/** What is not kept of these, the newest of which is the first. `now`: what counts as the current time. */
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
 * The time by which runs are pruned without being asked: that of the last change which an earlier process recorded, if the clock is past it. A
 * clock that jumps ahead for one command deletes nothing; once a second run has seen the same time, it is believed.
 */
export function getConfirmedTime(runs: readonly RunSummary[]): number {
  return Math.min(Date.now(), Math.max(0, ...runs.map(({ changedAt }) => Date.parse(changedAt))));
}

export function isFinishedState(state: RunState): boolean {
  return state === "ended" || state === "cancelled";
}

/** Whether it is time to look for what is not kept: once a day. */
export function isPruneDue(folder: string): boolean {
  const stamp = join(folder, ".pruned");
  const at = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const age = Date.now() - at;
  if (age >= 0 && age < DAY_MS) return false; // One from the future was written by a clock that was wrong.
  try {
    writeFileSync(stamp, "", { mode: 0o600 });
    utimesSync(stamp, new Date(), new Date());
  } catch {} // Then it is tried again with the next run.
  return at !== 0;
}
