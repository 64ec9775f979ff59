import type { Approval, Effect } from "../host/approvals.ts";
import type { RunEvent } from "../host/events.ts";
import type { JournalLine } from "../host/journal-lines.ts";
import type { Usage } from "../host/models.ts";
import { defined } from "../shared/defined.ts";

/** What happened in a run, put together from what was written down of it. */
export type Entry = {
  at: string;
  /** 0 for the run itself, more for runs within it. */
  depth: number;
} & (
  | { type: "taken-up"; pid: number }
  | { type: "started"; skill: string; model: string }
  | { type: "step"; step: number; ms: number; usage: Usage; cost?: number; isAgain: boolean }
  | Call
  | Asked
  | { type: "ended"; skill: string; stop: string; isError: boolean; ms: number }
  | { type: "note"; text: string; fix?: string; isFine?: boolean }
  | { type: "cancelled" }
);

/** Without an outcome, it was not finished. */
export interface Call {
  type: "call";
  run: string;
  step: number;
  tool: string;
  input: unknown;
  /** It was begun before and not finished. */
  isAgain: boolean;
  outcome?: { isError: boolean; code?: string; title?: string; message?: string; ms: number };
}

export interface Asked {
  type: "asked";
  effect: Effect;
  word?: Approval;
}

type Of<Type extends RunEvent["type"]> = Extract<RunEvent, { type: Type }>;

export function timelineOf(lines: readonly JournalLine[]): readonly Entry[] {
  const line = new Timeline();
  for (const one of lines) line.take(one);
  return line.entries;
}

class Timeline {
  readonly entries: Entry[] = [];
  readonly #depths = new Map<string, number>();
  readonly #asks = new Map<string, Entry & Asked>();
  /** What was begun by processes that are gone. */
  readonly #before = new Set<string>();
  readonly #begun = new Set<string>();
  #isOpened = false;
  /** How deep the run is that this is about: a conversation is at 0, a use at 1. */
  #top: number | undefined;

  take(line: JournalLine): void {
    const { at } = line;
    if (line.type === "opened") this.#open(at, line.pid);
    else if (line.type === "event") this.#event(line.event);
    else if (line.type === "cancel") this.entries.push({ type: "cancelled", at, depth: 0 });
    else if (line.type === "ask") {
      const open = this.entries.findLast((entry): entry is Entry & Asked => isOpenAsk(entry, line.effect));
      const entry: Entry & Asked = open ?? { type: "asked", at, depth: 0, effect: line.effect };
      if (!open) this.entries.push(entry);
      this.#asks.set(line.name, entry);
    } else if (line.type === "answer") {
      const { isApproved, scope, reason } = line;
      const ask = this.#asks.get(line.name);
      if (ask) ask.word ??= { isApproved, ...(scope ? { scope } : {}), ...(reason ? { reason } : {}) };
    }
  }

  #open(at: string, pid: number): void {
    if (this.#isOpened) this.entries.push({ type: "taken-up", at, depth: 0, pid });
    this.#isOpened = true;
    for (const key of this.#begun) this.#before.add(key);
    this.#begun.clear();
  }

  #event(event: RunEvent): void {
    if (event.type === "tool-ended") this.#endCall(event);
    if (event.type === "approval-given") this.#giveWord(event);
    // Whoever takes up what waits asks the same again.
    if (event.type === "approval-asked" && this.entries.some((entry) => isOpenAsk(entry, event.effect))) return;
    if (event.type === "run-started") {
      this.#top ??= event.depth;
      this.#depths.set(event.run, Math.max(0, event.depth - this.#top));
    }
    const show = SHOWN[event.type] as ((event: RunEvent, at: Place) => Entry | undefined) | undefined;
    const depth = this.#depths.get(event.run) ?? 0;
    const entry = show?.(event, { at: event.at, depth, isAgain: this.#isAgain(event) });
    if (entry) this.entries.push(entry);
  }

  #isAgain(event: RunEvent): boolean {
    if (event.type !== "tool-called" && event.type !== "step-ended") return false;
    const what = event.type === "tool-called" ? [event.tool, event.input] : [];
    const key = JSON.stringify([event.type, event.run, event.step, ...what]);
    this.#begun.add(key);
    return this.#before.has(key);
  }

  #endCall({ run, step, tool, isError, ms, ...said }: Of<"tool-ended">): void {
    const isMeant = (entry: Entry): entry is Entry & Call =>
      entry.type === "call" && entry.run === run && entry.step === step && entry.tool === tool && !entry.outcome;
    // Of those that a process left behind, the last is the one that ended.
    const call = this.entries.filter(isMeant);
    const ended = call.find(({ isAgain }) => isAgain) ?? call[0];
    const { code, title, message } = said;
    if (ended) ended.outcome = { isError, ms, ...defined({ code, title, message }) };
  }

  #giveWord({ run, tool, isApproved, scope, reason }: Of<"approval-given">): void {
    const asked = this.entries.findLast(
      (entry): entry is Entry & Asked =>
        entry.type === "asked" && entry.effect.tool === tool && entry.effect.run === run && !entry.word,
    );
    if (asked) asked.word = { isApproved, ...(scope ? { scope } : {}), ...(reason ? { reason } : {}) };
  }
}

function isOpenAsk(entry: Entry, effect: Effect): boolean {
  return entry.type === "asked" && !entry.word && JSON.stringify(entry.effect) === JSON.stringify(effect);
}

interface Place {
  at: string;
  depth: number;
  isAgain: boolean;
}

type Shown = { [Type in RunEvent["type"]]?: (event: Of<Type>, place: Place) => Entry | undefined };

/** What each event is in the timeline. What is left out says nothing that others do not. */
const SHOWN: Shown = {
  "run-started": ({ skill, model }, { at, depth }) => ({ type: "started", at, depth, skill, model }),
  "step-ended": ({ step, ms, usage, cost }, { at, depth, isAgain }) => ({
    ...{ type: "step", at, depth, step, ms, usage, isAgain },
    ...(cost === undefined ? {} : { cost }),
  }),
  "tool-called": ({ run, step, tool, input }, { at, depth, isAgain }) => ({
    ...{ type: "call", at, depth, run, step, tool, input, isAgain },
  }),
  "approval-asked": ({ effect }, { at, depth }) => ({ type: "asked", at, depth, effect }),
  "run-ended": ({ skill, stop, isError, ms }, { at, depth }) =>
    depth === 0 ? undefined : { type: "ended", at, depth, skill, stop, isError, ms },
  "run-refused": ({ skill, refusals }, { at, depth }) => ({
    ...{ type: "note", at, depth },
    text: `${skill} was refused: ${refusals.map(({ message }) => message).join("; ")}`,
  }),
  "run-warned": ({ message, fix }, { at, depth }) => ({ type: "note", at, depth, text: message, fix }),
  "model-retried": ({ reason }, { at, depth }) => ({ type: "note", at, depth, text: reason }),
  "tool-blocked": ({ tool, message }, { at, depth }) => ({
    ...{ type: "note", at, depth },
    text: `${tool} was blocked: ${message}`,
  }),
  "capability-called": ({ capability, operation, outcome }, { at, depth }) => ({
    ...{ type: "note", at, depth, isFine: outcome === "ok", text: `${capability}.${operation}: ${outcome}` },
  }),
  "packages-built": ({ text }, { at, depth }) => ({ type: "note", at, depth, text }),
};
