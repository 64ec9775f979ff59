import { closeSync, fstatSync } from "node:fs";
import { defined } from "../shared/defined.ts";
import { type Approval, asApproval, type Effect } from "./approvals.ts";
import type { RunEvent } from "./events.ts";
import { append, corrupt, mended, openToAdd, readBytes } from "./journal-file.ts";
import { type JournalLine, type RunHead, type RunTail, readJournal, writeLine } from "./journal-lines.ts";

/** A run that is being written down. What is in it is never changed, only added to. */
export interface Journal {
  readonly id: string;
  readonly head: RunHead;
  /** What was there when it was opened. */
  readonly lines: readonly JournalLine[];
  /** For how long programs were at it before. */
  readonly elapsedMs: number;
  /** What a step gave. Nothing when it was not done. */
  stepOf(name: string): { value: unknown } | undefined;
  answerTo(name: string): Answer | undefined;
  /**
   * Keeps what a step gave, and gives it as it will be read.
   * Contract: it is on the disk when this returns. Throws a SkillError when it cannot be, and then nothing of it is.
   */
  step(name: string, value: unknown): unknown;
  event(event: RunEvent): void;
  ask(name: string, effect: Effect): void;
  answer(name: string, approval: Approval, effect: Effect): void;
  end(result: Readonly<Record<string, unknown>>, tail: Omit<RunTail, "type">): void;
  /** Whether somebody has called it off. */
  isCancelled(): boolean;
  close(): void;
}

/** A word, and what it was given on. */
export interface Answer {
  approval: Approval;
  effect?: Effect;
}

export interface JournalOptions {
  file: string;
  /** Lets it go, for others to take up. */
  onClose(): void;
}

/** Opens a journal that this process alone adds to. Throws a SkillError for one that is not what was written. */
export function openJournal({ file, onClose }: JournalOptions): Journal {
  const fd = openToAdd(file);
  try {
    return journalOn(fd, file, onClose);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function journalOn(fd: number, file: string, onClose: () => void): Journal {
  const { lines, size } = mended(fd, file);
  const [head] = lines;
  if (head?.type !== "run") throw corrupt(file, [1]);
  const steps = new Map<string, { value: unknown }>();
  const answers = new Map<string, Answer>();
  const state = { size, isCancelled: false, isClosed: false };
  const take = (line: JournalLine) => {
    if (line.type === "step") steps.set(line.name, { value: line.value });
    if (line.type === "answer")
      answers.set(line.name, { approval: asApproval(line), ...defined({ effect: line.effect }) });
    if (line.type === "cancel") state.isCancelled = true;
  };
  for (const line of lines) take(line);
  // Another program may only call it off. It may do so between any two lines of ours.
  const look = () => {
    const { size: now } = fstatSync(fd);
    if (now <= state.size) return;
    const { lines: added, whole } = readJournal(readBytes(fd, state.size, now));
    state.size += whole;
    for (const line of added) take(line);
  };
  const add = (line: JournalLine, isKept: boolean) => {
    if (state.isClosed) return; // Somebody comes late: the number of the file may be another's by now.
    append(fd, file, writeLine(line), isKept);
    look();
  };
  const now = () => new Date().toISOString();
  add({ type: "opened", at: now(), pid: process.pid }, false);
  return {
    id: head.id,
    head,
    lines,
    elapsedMs: elapsedIn(lines),
    stepOf: (name) => steps.get(name),
    answerTo: (name) => answers.get(name),
    step(name, value) {
      add({ type: "step", at: now(), name, value }, true);
      return steps.get(name)?.value;
    },
    event: (event) => add({ type: "event", at: now(), event }, false),
    ask: (name, effect) => add({ type: "ask", at: now(), name, effect }, true),
    answer: (name, approval, effect) => add({ type: "answer", at: now(), name, ...approval, effect }, true),
    end(result, tail) {
      add({ type: "result", at: now(), result }, false);
      add({ type: "end", at: now(), ...tail }, true);
    },
    isCancelled() {
      if (!state.isCancelled && !state.isClosed) look();
      return state.isCancelled;
    },
    close() {
      if (state.isClosed) return;
      state.isClosed = true;
      closeSync(fd);
      onClose();
    },
  };
}

/** From each taking up to the last that was written before the next. */
function elapsedIn(lines: readonly JournalLine[]): number {
  let elapsed = 0;
  let start: number | undefined;
  let last = 0;
  for (const { type, at } of lines) {
    if (type === "opened") {
      if (start !== undefined) elapsed += last - start;
      start = Date.parse(at);
    }
    if (type !== "answer" && type !== "cancel") last = Date.parse(at);
  }
  return Math.max(0, start === undefined ? 0 : elapsed + last - start);
}
