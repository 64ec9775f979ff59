import type { Approval, ApprovalRequest } from "../../host/approval.ts";
import type { RunEvent } from "../../host/events.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import type { Usage } from "../../skill/tool.ts";
import type { JournalLine, ParsedJournal } from "../../store/journal.ts";
import type { RunSummary } from "../../store/run-rules.ts";
import { omitUndefined } from "../../util/objects.ts";
import { getUserHome } from "../../util/system.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { formatApprovalLine, printApprovalRequest } from "../approval-prompt.ts";
import { type CommandContext, EXIT } from "../command-definition.ts";
import { openCommandRuns } from "../command-host.ts";
import {
  escapeForTerminal,
  formatAge,
  formatDuration,
  formatNextCommand,
  formatRunState,
  formatRunSubject,
  formatUsage,
} from "../format.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  paintRunMark,
  paintRunState,
  printHanging,
  printJson,
} from "../output.ts";

interface ShowRunOptions {
  full?: boolean;
}

/** Shows one run from its request to its result. */
export async function showRun({ io, options, args: [given = ""] }: CommandContext<ShowRunOptions>): Promise<number> {
  const runs = openCommandRuns(io, options);
  const summary = await runs.find(given);
  const journal = await runs.read(summary.id);
  const problems = findJournalProblems(summary, journal);
  if (options.json) printJson(io.stdout, { summary, lines: journal.lines, problems });
  else printRun(io, summary, journal.lines, options.full ?? false);
  const error = createPrinter(io.stderr, io.env);
  for (const { message } of options.json ? [] : problems)
    printHanging(error, error.text`${error.red("✗")} `, [message], { indent: 2, code: "journal-corrupt" });
  return problems.length > 0 ? EXIT.findings : EXIT.fine;
}

interface JournalProblem {
  line: number;
  message: string;
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

const MAX_LINE_WIDTH = 100;

function printRun(io: CommandIo, summary: RunSummary, lines: readonly JournalLine[], isFull: boolean): void {
  const out = createPrinter(io.stdout, io.env);
  const width = Math.min(out.width, MAX_LINE_WIDTH);
  const { id, at, workspace, state, effect } = summary;
  out.line`${paintRunMark(out, summary)} ${out.bold(formatRunSubject(summary))}  ${paintRunState(out, summary)}  ${out.dim(id)}`;
  const place = workspace === undefined ? "" : `, in ${formatHomePath(workspace, getUserHome(io.env))}`;
  out.line`  ${out.dim(`${at.slice(0, 19).replace("T", " ")} UTC, ${formatAge(at)}${place}`)}`;
  printRunRequest(out, lines, isFull);
  out.line``;
  const start = Date.parse(at);
  for (const entry of createTimeline(lines)) printTimelineEntry(out, entry, { start, width, isFull });
  printRunEnd(out, summary, lines, isFull);
  if (state === "waiting" && effect) {
    out.line``;
    printApprovalRequest(out, effect, getUserHome(io.env), { isWhole: true });
  }
  const next = formatNextCommand({ id, state });
  const more = state === "waiting" ? "  approves it and resumes the run; --deny REASON denies it" : "";
  if (next !== undefined) out.line`  ${out.cyan(next)}${more}`;
}

/** Prints the whole request, the message first. */
function printRunRequest(out: Printer, lines: readonly JournalLine[], isFull: boolean): void {
  const requested = lines.find((line) => line.type === "request");
  if (requested?.type !== "request") return;
  const { skill: _, by: __, message = "", ...more } = requested.request;
  if (message !== "") printRunText(out, String(message), { isFull, max: 6 });
  for (const [key, value] of Object.entries(more)) {
    if (isEmpty(value)) continue;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    out.line`  ${out.dim(`${key}:`)} ${isFull ? text : truncateLine(text, 200)}`;
  }
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
}

interface EntryPrintOptions {
  start: number;
  width: number;
  isFull: boolean;
}

const CLOCK_WIDTH = 9;

function printTimelineEntry(out: Printer, entry: TimelineEntry, how: EntryPrintOptions): void {
  const passed = Math.max(0, Date.parse(entry.at) - how.start);
  const clock = out.dim(`+${formatDuration(passed)}`.padStart(CLOCK_WIDTH));
  const indent = "  ".repeat(entry.depth);
  const room = Math.max(20, how.width - CLOCK_WIDTH - 2 - indent.length);
  const say = ENTRY_PRINTERS[entry.type] as (
    out: Printer,
    entry: TimelineEntry,
    room: number,
    how: EntryPrintOptions,
  ) => ReturnType<Printer["text"]>;
  out.line`${clock}  ${indent}${say(out, entry, room, how)}`;
}

type EntryPrinters = {
  [Type in TimelineEntry["type"]]: (
    out: Printer,
    entry: Extract<TimelineEntry, { type: Type }>,
    room: number,
    how: EntryPrintOptions,
  ) => ReturnType<Printer["text"]>;
};

const ENTRY_PRINTERS: EntryPrinters = {
  "taken-up": (out, { pid }) => out.text`${out.cyan("↻")} resumed by process ${pid}`,
  started: (out, { skill, model }) => out.text`${out.bold(skill === "" ? "chat" : skill)} ${out.dim(`with ${model}`)}`,
  step: (out, { step, ms, usage, cost, isAgain }) =>
    out.text`step ${step}  ${out.dim([formatDuration(ms), ...formatUsage(usage, cost)].join(" · "))}${paintRepeated(out, isAgain)}`,
  call: (out, call, room, { isFull }) => paintCall(out, call, room, isFull),
  asked: (out, asked, room) => paintApproval(out, asked, room),
  ended: (out, { skill, stop, isError, ms }) => {
    const mark = isError ? out.red("✗") : out.green("✓");
    return out.text`${mark} ${skill} ${out.dim(`${stop}, ${formatDuration(ms)}`)}`;
  },
  note: (out, { text, fix, isFine }, room) =>
    out.text`${isFine ? out.dim("·") : out.yellow("!")} ${truncateLine(fix ? `${text}: ${fix}` : text, Math.max(room - 2, 200))}`,
  cancelled: (out) => out.text`${out.yellow("·")} cancelled`,
};

function paintRepeated(out: Printer, isAgain: boolean): ReturnType<Printer["text"]> {
  return isAgain ? out.text` ${out.yellow("again: it was started before")}` : out.text``;
}

function paintCall(out: Printer, { tool, input, outcome, isAgain }: TimelineCall, room: number, isFull: boolean) {
  const end = outcome
    ? outcome.isError
      ? out.text`${out.red(outcome.code ?? "error")} ${out.dim(formatDuration(outcome.ms))}${paintReason(out, outcome.message, isFull ? 300 : 60)}`
      : out.text`${out.green("ok")} ${out.dim(formatDuration(outcome.ms))}`
    : out.yellow("not finished");
  const written = summarizeEntryInput(input);
  const what = isFull ? written : truncateLine(written, Math.max(12, room - tool.length - 22));
  return out.text`  ${tool}${what === "" ? "" : out.text` ${out.dim(what)}`}  ${end}${paintRepeated(out, isAgain)}`;
}

function paintReason(out: Printer, message: string | undefined, max: number): ReturnType<Printer["text"]> {
  return message === undefined ? out.text`` : out.text` ${truncateLine(message, max)}`;
}

/** Summarizes the input of a call: text values without their names, other values with them. */
function summarizeEntryInput(input: unknown): string {
  if (input === null || typeof input !== "object") return JSON.stringify(input) ?? "";
  return Object.entries(input)
    .map(([name, value]) => (typeof value === "string" ? value : `(${name}: ${JSON.stringify(value)})`))
    .join(" ");
}

const APPROVAL_SCOPE_LABELS = { once: "once", run: "for this run", always: "always" };

function paintApproval(out: Printer, { effect, word }: TimelineApproval, room: number) {
  const who = effect.skill === "" ? "" : `${effect.skill} `;
  const what = truncateLine(`${who}requests ${formatApprovalLine(effect)}`, Math.max(20, room - 16));
  if (!word) return out.text`  ${out.yellow("?")} ${what} ${out.yellow("pending")}`;
  if (word.isApproved)
    return out.text`  ${out.yellow("?")} ${what} ${out.green(`yes, ${APPROVAL_SCOPE_LABELS[word.scope ?? "once"]}`)}`;
  return out.text`  ${out.yellow("?")} ${what} ${out.red("no")}${word.reason ? `: ${truncateLine(word.reason, 200)}` : ""}`;
}

function printRunEnd(out: Printer, summary: RunSummary, lines: readonly JournalLine[], isFull: boolean): void {
  const { end } = summary;
  if (!end) return;
  const result = lines.findLast((line) => line.type === "result");
  const content = result?.type === "result" ? String(result.result["content"] ?? "") : "";
  out.line``;
  if (content !== "") printRunText(out, content, { isFull, max: 20 });
  const { iterations, ms, usage, cost, model } = end;
  const totals = [
    formatCount(iterations, "iteration"),
    formatDuration(ms),
    ...formatUsage(usage, cost),
    ...(model ? [model] : []),
  ];
  out.line`${paintRunMark(out, summary)} ${paintRunState(out, summary, formatRunState(summary))} ${out.dim(`(${totals.join(", ")})`)}`;
}

const MAX_TEXT_LENGTH = 4000;

/** Prints the first lines of a text, or all of them. */
function printRunText(out: Printer, text: string, { isFull, max }: { isFull: boolean; max: number }): void {
  const all = escapeForTerminal(text).replaceAll("\t", "    ").split(/\r?\n/);
  const shown = isFull
    ? all
    : escapeForTerminal(text.slice(0, MAX_TEXT_LENGTH)).replaceAll("\t", "    ").split(/\r?\n/).slice(0, max);
  for (const line of shown) out.line`  ${line}`;
  const isCut = !isFull && (text.length > MAX_TEXT_LENGTH || all.length > shown.length);
  if (isCut) out.line`  ${out.dim(`… ${formatCount(all.length, "line")} in total: --full shows all`)}`;
}

/** An entry of the timeline of a run, built from its journal. */
type TimelineEntry = {
  at: string;
  /** 0 for the run itself, more for nested runs. */
  depth: number;
} & (
  | { type: "taken-up"; pid: number }
  | { type: "started"; skill: string; model: string }
  | { type: "step"; step: number; ms: number; usage: Usage; cost?: number; isAgain: boolean }
  | TimelineCall
  | TimelineApproval
  | { type: "ended"; skill: string; stop: string; isError: boolean; ms: number }
  | { type: "note"; text: string; fix?: string; isFine?: boolean }
  | { type: "cancelled" }
);

/** A call. It is unfinished if it has no outcome. */
interface TimelineCall {
  type: "call";
  run: string;
  step: number;
  tool: string;
  input: unknown;
  /** True if it was started before and not finished. */
  isAgain: boolean;
  outcome?: { isError: boolean; code?: string; title?: string; message?: string; ms: number };
}

interface TimelineApproval {
  type: "asked";
  effect: ApprovalRequest;
  word?: Approval;
}

type EventOf<Type extends RunEvent["type"]> = Extract<RunEvent, { type: Type }>;

function createTimeline(lines: readonly JournalLine[]): readonly TimelineEntry[] {
  const line = new Timeline();
  for (const one of lines) line.take(one);
  return line.entries;
}

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

  take(line: JournalLine): void {
    const { at } = line;
    if (line.type === "opened") this.#open(at, line.pid);
    else if (line.type === "event") this.#event(line.event);
    else if (line.type === "cancel") this.entries.push({ type: "cancelled", at, depth: 0 });
    else if (line.type === "ask") {
      const open = this.entries.findLast((entry): entry is TimelineEntry & TimelineApproval =>
        isPendingApproval(entry, line.effect),
      );
      const entry: TimelineEntry & TimelineApproval = open ?? { type: "asked", at, depth: 0, effect: line.effect };
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
    if (event.type === "approval-decided") this.#giveWord(event);
    // A resumed run repeats its pending request.
    if (event.type === "approval-requested" && this.entries.some((entry) => isPendingApproval(entry, event.effect)))
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
    if (entry) this.entries.push(entry);
  }

  #isAgain(event: RunEvent): boolean {
    if (event.type !== "tool-called" && event.type !== "step-ended") return false;
    const what = event.type === "tool-called" ? [event.tool, event.input] : [];
    const key = JSON.stringify([event.type, event.run, event.step, ...what]);
    this.#begun.add(key);
    return this.#before.has(key);
  }

  #endCall({ run, step, tool, isError, ms, ...said }: EventOf<"tool-ended">): void {
    const isMeant = (entry: TimelineEntry): entry is TimelineEntry & TimelineCall =>
      entry.type === "call" && entry.run === run && entry.step === step && entry.tool === tool && !entry.outcome;
    // Of several calls left by ended processes, the last one is the one that ended.
    const call = this.entries.filter(isMeant);
    const ended = call.find(({ isAgain }) => isAgain) ?? call[0];
    const { code, title, message } = said;
    if (ended) ended.outcome = { isError, ms, ...omitUndefined({ code, title, message }) };
  }

  #giveWord({ run, tool, isApproved, scope, reason }: EventOf<"approval-decided">): void {
    const asked = this.entries.findLast(
      (entry): entry is TimelineEntry & TimelineApproval =>
        entry.type === "asked" && entry.effect.tool === tool && entry.effect.run === run && !entry.word,
    );
    if (asked) asked.word = { isApproved, ...(scope ? { scope } : {}), ...(reason ? { reason } : {}) };
  }
}

function isPendingApproval(entry: TimelineEntry, effect: ApprovalRequest): boolean {
  return entry.type === "asked" && !entry.word && JSON.stringify(entry.effect) === JSON.stringify(effect);
}

interface TimelinePosition {
  at: string;
  depth: number;
  isAgain: boolean;
}

type TimelineBuilders = {
  [Type in RunEvent["type"]]?: (event: EventOf<Type>, place: TimelinePosition) => TimelineEntry | undefined;
};

/** Returns the timeline entry of each event. Other events repeat information. */
const TIMELINE_BUILDERS: TimelineBuilders = {
  "run-started": ({ skill, model }, { at, depth }) => ({ type: "started", at, depth, skill, model }),
  "step-ended": ({ step, ms, usage, cost }, { at, depth, isAgain }) => ({
    ...{ type: "step", at, depth, step, ms, usage, isAgain },
    ...(cost === undefined ? {} : { cost }),
  }),
  "tool-called": ({ run, step, tool, input }, { at, depth, isAgain }) => ({
    ...{ type: "call", at, depth, run, step, tool, input, isAgain },
  }),
  "approval-requested": ({ effect }, { at, depth }) => ({ type: "asked", at, depth, effect }),
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
