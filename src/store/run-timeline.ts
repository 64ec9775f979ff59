import type { Approval, ApprovalRequest } from "../host/approval.ts";
import type { RunEvent } from "../host/events.ts";
import type { Usage } from "../skill/tool.ts";
import { omitUndefined } from "../util/objects.ts";
import type { JournalLine, ParsedJournal } from "./journal.ts";
import type { RunSummary } from "./run-rules.ts";

/**
 * Builds the timeline of a run from the lines of its journal: model calls, tool calls, approvals, nested runs and notes, in order.
 *
 * @example
 * const { lines } = await runs.read(id);
 * const calls = createTimeline(lines).filter(({ type }) => type === "call");
 */
export function createTimeline(lines: readonly JournalLine[]): readonly TimelineEntry[] {
  const timeline = new Timeline();
  for (const line of lines) timeline.take(line);
  return timeline.entries;
}

/** A recorded run: the value of `runs show --json`. */
export interface RunReport {
  summary: RunSummary;
  timeline: readonly TimelineEntry[];
  lines: readonly JournalLine[];
  problems: readonly JournalProblem[];
}

export interface JournalProblem {
  line: number;
  message: string;
}

/** Creates the report of a run from its journal, with the parts of it that cannot be read. */
export function createRunReport(summary: RunSummary, journal: ParsedJournal): RunReport {
  const { lines } = journal;
  return { summary, timeline: createTimeline(lines), lines, problems: findJournalProblems(summary, journal) };
}

function findJournalProblems(
  { bytes, state }: RunSummary,
  { lines, corrupt, wholeBytes: whole }: ParsedJournal,
): JournalProblem[] {
  const torn = lines.length + corrupt.length + 1;
  return [
    ...corrupt.map((line) => ({ line, message: `line ${line} of its journal is corrupt` })),
    ...(whole < bytes && state !== "running"
      ? [{ line: torn, message: `line ${torn} of its journal is incomplete: the process ended while writing it` }]
      : []),
  ];
}

/** An entry of the timeline of a run. */
export type TimelineEntry = {
  at: string;
  /** 0 for the run itself, more for nested runs. */
  depth: number;
} & (
  | { type: "resumed"; pid: number }
  | { type: "started"; skill: string; model: string }
  /** A model call. `text`: the text of its reply. */
  | {
      type: "step";
      run: string;
      step: number;
      ms: number;
      usage: Usage;
      cost?: number;
      isAgain: boolean;
      text?: string;
    }
  | TimelineCall
  | TimelineApproval
  | { type: "ended"; skill: string; stop: string; isError: boolean; ms: number }
  | { type: "note"; text: string; fix?: string; isFine?: boolean }
  | { type: "cancelled" }
);

/** A call. It is unfinished if it has no outcome. */
export interface TimelineCall {
  type: "call";
  run: string;
  step: number;
  /** The position among the calls of the step, from 1, if it is known. */
  call?: number;
  tool: string;
  input: unknown;
  /** True if it was started before and not finished. */
  isAgain: boolean;
  outcome?: { isError: boolean; code?: string; title?: string; message?: string; ms: number };
  /** The text that the model received, if the call is recorded. */
  output?: string;
}

export interface TimelineApproval {
  type: "approval";
  request: ApprovalRequest;
  decision?: Approval;
}

type TimelineStep = Extract<TimelineEntry, { type: "step" }>;
type EventOf<Type extends RunEvent["type"]> = Extract<RunEvent, { type: Type }>;

class Timeline {
  readonly entries: TimelineEntry[] = [];
  readonly #depths = new Map<string, number>();
  readonly #asks = new Map<string, TimelineEntry & TimelineApproval>();
  /** Calls started by processes that have ended. */
  readonly #before = new Set<string>();
  readonly #begun = new Set<string>();
  #isOpened = false;
  /** The depth of the shown run: 0 for a conversation, 1 for a skill. */
  #top: number | undefined;
  /** The id of the shown run. */
  #run = "";
  /** Entries whose step is recorded next, in the order in which they ended, by the name of the step without the number of the call. */
  readonly #ended = new Map<string, (TimelineEntry & (TimelineCall | TimelineStep))[]>();

  take(line: JournalLine): void {
    const { at } = line;
    if (line.type === "run") this.#run = line.id;
    else if (line.type === "opened") this.#open(at, line.pid);
    else if (line.type === "step") this.#addText(line.name, line.value);
    else if (line.type === "event") this.#event(line.event);
    else if (line.type === "cancel") this.entries.push({ type: "cancelled", at, depth: 0 });
    else if (line.type === "ask") {
      const open = this.entries.findLast((entry): entry is TimelineEntry & TimelineApproval =>
        isPendingApproval(entry, line.approvalRequest),
      );
      const entry: TimelineEntry & TimelineApproval = open ?? {
        type: "approval",
        at,
        depth: 0,
        request: line.approvalRequest,
      };
      if (!open) this.entries.push(entry);
      this.#asks.set(line.name, entry);
    } else if (line.type === "answer") {
      const { isApproved, scope, reason } = line;
      const ask = this.#asks.get(line.name);
      if (ask) ask.decision ??= { isApproved, ...(scope ? { scope } : {}), ...(reason ? { reason } : {}) };
    }
  }

  #open(at: string, pid: number): void {
    if (this.#isOpened) this.entries.push({ type: "resumed", at, depth: 0, pid });
    this.#isOpened = true;
    for (const key of this.#begun) this.#before.add(key);
    this.#begun.clear();
  }

  #event(event: RunEvent): void {
    if (event.type === "tool-ended") this.#endCall(event);
    if (event.type === "approval-decided") this.#decide(event);
    // A resumed run repeats its pending request.
    if (
      event.type === "approval-requested" &&
      this.entries.some((entry) => isPendingApproval(entry, event.approvalRequest))
    )
      return;
    if (event.type === "run-started") {
      this.#top ??= event.depth;
      this.#depths.set(event.run, Math.max(0, event.depth - this.#top));
    }
    const show = TIMELINE_BUILDERS[event.type] as
      | ((event: RunEvent, at: TimelinePosition) => TimelineEntry | undefined)
      | undefined;
    const depth = this.#depths.get(event.run) ?? 0;
    const entry = show?.(event, { at: event.at, depth, isAgain: this.#isAgain(event) });
    if (entry?.type === "step") this.#expectText("model", entry);
    if (entry) this.entries.push(entry);
  }

  #expectText(kind: "model" | "tool", entry: TimelineEntry & (TimelineCall | TimelineStep)): void {
    const key = `${kind} ${entry.run} ${entry.step}`;
    this.#ended.set(key, [...(this.#ended.get(key) ?? []), entry]);
  }

  /** Adds the recorded text of a step such as `model:3`, `tool:3.2`, or `3.2/tool:1.1` of a nested run. */
  #addText(name: string, value: unknown): void {
    const [, path = "", kind, step, call] = /^((?:[\d.]+\/)*)(model|tool):(\d+)(?:\.(\d+))?$/.exec(name) ?? [];
    const { text } = Object(value) as { text?: unknown };
    if (kind === undefined || typeof text !== "string") return;
    const run = [this.#run, ...path.split("/")].filter(Boolean).join(".");
    const ended = this.#ended.get(`${kind} ${run} ${step}`) ?? [];
    // Calls that are made at the same time may end in one order and be recorded in another.
    const at = ended.findIndex((one) => one.type !== "call" || one.call === undefined || String(one.call) === call);
    const [entry] = at === -1 ? [] : ended.splice(at, 1);
    if (text === "" || entry === undefined) return;
    if (entry.type === "call") entry.output = text;
    else entry.text = text;
  }

  #isAgain(event: RunEvent): boolean {
    if (event.type !== "tool-called" && event.type !== "step-ended") return false;
    const what = event.type === "tool-called" ? [event.tool, event.input] : [];
    const key = JSON.stringify([event.type, event.run, event.step, ...what]);
    this.#begun.add(key);
    return this.#before.has(key);
  }

  #endCall({ run, step, call: number, tool, isError, ms, ...said }: EventOf<"tool-ended">): void {
    const isMeant = (entry: TimelineEntry): entry is TimelineEntry & TimelineCall =>
      entry.type === "call" &&
      entry.run === run &&
      entry.step === step &&
      entry.tool === tool &&
      entry.call === number &&
      !entry.outcome;
    // Of several calls left by ended processes, the last one is the one that ended.
    const call = this.entries.filter(isMeant);
    const ended = call.find(({ isAgain }) => isAgain) ?? call[0];
    const { code, title, message } = said;
    if (!ended) return;
    ended.outcome = { isError, ms, ...omitUndefined({ code, title, message }) };
    this.#expectText("tool", ended);
  }

  #decide({ run, tool, isApproved, scope, reason }: EventOf<"approval-decided">): void {
    const asked = this.entries.findLast(
      (entry): entry is TimelineEntry & TimelineApproval =>
        entry.type === "approval" && entry.request.tool === tool && entry.request.run === run && !entry.decision,
    );
    if (asked) asked.decision = { isApproved, ...(scope ? { scope } : {}), ...(reason ? { reason } : {}) };
  }
}

function isPendingApproval(entry: TimelineEntry, request: ApprovalRequest): boolean {
  return entry.type === "approval" && !entry.decision && JSON.stringify(entry.request) === JSON.stringify(request);
}

interface TimelinePosition {
  at: string;
  depth: number;
  isAgain: boolean;
}

type TimelineBuilders = {
  [Type in RunEvent["type"]]?: (event: EventOf<Type>, position: TimelinePosition) => TimelineEntry | undefined;
};

/** Returns the timeline entry of each event. Other events repeat information. */
const TIMELINE_BUILDERS: TimelineBuilders = {
  "run-started": ({ skill, model }, { at, depth }) => ({ type: "started", at, depth, skill, model }),
  "step-ended": ({ run, step, ms, usage, cost }, { at, depth, isAgain }) => ({
    ...{ type: "step", at, depth, run, step, ms, usage, isAgain },
    ...(cost === undefined ? {} : { cost }),
  }),
  "tool-called": ({ run, step, call, tool, input }, { at, depth, isAgain }) => ({
    ...{ type: "call", at, depth, run, step, tool, input, isAgain },
    ...omitUndefined({ call }),
  }),
  "approval-requested": ({ approvalRequest: request }, { at, depth }) => ({ type: "approval", at, depth, request }),
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
