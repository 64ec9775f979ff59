import { closeSync, fstatSync } from "node:fs";
import { codeOf } from "../shared/inside.ts";
import type { Effect } from "./approvals.ts";
import { openFile, readBytes } from "./journal-file.ts";
import { type JournalLine, type RunHead, type RunTail, readJournal, readLine } from "./journal-lines.ts";

/** `running`: a process is at it. `interrupted`: none is, and it has no end. `waiting`: for somebody's word; `answered`: it has it. */
export const RUN_STATES = ["running", "interrupted", "waiting", "answered", "ended", "cancelled", "corrupt"] as const;
export type RunState = (typeof RUN_STATES)[number];

export interface RunSummary extends Omit<RunHead, "type" | "version"> {
  at: string;
  state: RunState;
  /** When the last was written. */
  changedAt: string;
  /** How it ended, where it did. */
  end?: Omit<RunTail, "type">;
  /** What it waits for, or was answered. */
  effect?: Effect;
  /** The process that is at it. */
  pid?: number;
  bytes: number;
}

export interface SummaryOptions {
  id: string;
  file: string;
  /** Asked only for what has no end. */
  ownerPid(): number | undefined;
}

/** Of a run that ended well, from its first line and its last alone: there may be thousands. Nothing when there is no such file. */
export function summaryOf(options: SummaryOptions): RunSummary | undefined {
  let fd: number;
  try {
    fd = openFile(options.file, "read");
  } catch (error) {
    return codeOf(error) === "ENOENT" ? undefined : unreadable(options.id, new Date(0), 0);
  }
  try {
    return summaryIn(fd, options);
  } finally {
    closeSync(fd);
  }
}

function summaryIn(fd: number, { id, ownerPid }: SummaryOptions): RunSummary {
  const { size, mtime } = fstatSync(fd);
  const head = readLine(firstLine(fd, size));
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) return unreadable(id, mtime, size);
  const { type: _, version: __, ...run } = head;
  const last = lastLine(fd, size);
  // One that was called off has an end too, once its process has noticed.
  if (last?.type === "end" && last.stop !== "aborted")
    return { ...run, state: "ended", changedAt: last.at, bytes: size, end: tailOf(last) };
  const { lines, corrupt } = readJournal(readBytes(fd));
  const pid = last?.type === "end" ? undefined : ownerPid();
  const end = last?.type === "end" ? { end: tailOf(last) } : {};
  const state = corrupt.length > 0 ? { state: "corrupt" as const } : stateOf(lines, pid !== undefined);
  const changedAt = lines.at(-1)?.at ?? mtime.toISOString();
  return { ...run, ...state, changedAt, bytes: size, ...end, ...(pid === undefined ? {} : { pid }) };
}

/** What nothing can be said of but that it is there. */
function unreadable(id: string, changed: Date, bytes: number): RunSummary {
  const at = changed.toISOString();
  return { id, kind: "use", skill: "", task: "", at, state: "corrupt", changedAt: at, bytes };
}

function stateOf(lines: readonly JournalLine[], isAtWork: boolean): Pick<RunSummary, "state" | "effect"> {
  const isEnded = lines.at(-1)?.type === "end";
  if (isAtWork && !isEnded) return { state: "running" };
  if (lines.some(({ type }) => type === "cancel")) return { state: "cancelled" };
  if (isEnded) return { state: "ended" };
  const pending = pendingAsk(lines);
  if (pending) return { state: "waiting", effect: pending.effect };
  const last = lines.at(-1);
  const ask = lines.findLast((line) => line.type === "ask" && last?.type === "answer" && line.name === last.name);
  return ask?.type === "ask" ? { state: "answered", effect: ask.effect } : { state: "interrupted" };
}

/**
 * The first question that nobody has answered yet. One that something was done after is over: nobody was asked it again. One that was
 * asked again, since it is about another thing by now, is open again.
 */
export function pendingAsk(lines: readonly JournalLine[]): Extract<JournalLine, { type: "ask" }> | undefined {
  const open = lines.slice(lines.findLastIndex(({ type }) => type === "step") + 1);
  const isOver = (name: string, index: number) =>
    open.slice(index + 1).some((line) => (line.type === "ask" || line.type === "answer") && line.name === name);
  const ask = open.find((line, index) => line.type === "ask" && !isOver(line.name, index));
  return ask?.type === "ask" ? ask : undefined;
}

function tailOf({ type: _, at: __, ...end }: RunTail & { at: string }): Omit<RunTail, "type"> {
  return end;
}

const PIECE = 16 * 1024;

function firstLine(fd: number, size: number): string {
  for (let room = PIECE; ; room *= 4) {
    const piece = readBytes(fd, 0, Math.min(room, size));
    const end = piece.indexOf(0x0a);
    if (end !== -1 || room >= size) return piece.subarray(0, end === -1 ? piece.length : end).toString();
  }
}

/** The last that can be read: whole, or lacking nothing but its end. */
function lastLine(fd: number, size: number): JournalLine | undefined {
  for (let room = PIECE; ; room *= 4) {
    const start = Math.max(0, size - room);
    const piece = readBytes(fd, start, size);
    const end = piece.lastIndexOf(0x0a);
    const rest = readLine(piece.subarray(end + 1).toString());
    if (rest && (end !== -1 || start === 0)) return rest;
    const before = end <= 0 ? -1 : piece.lastIndexOf(0x0a, end - 1);
    if (before !== -1 || start === 0) return readLine(piece.subarray(before + 1, Math.max(end, 0)).toString());
  }
}
