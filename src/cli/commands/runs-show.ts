import { formatHomePath } from "../../skill/source/locations.ts";
import type { JournalLine, ParsedJournal } from "../../store/journal.ts";
import type { RunSummary } from "../../store/run-rules.ts";
import {
  createTimeline,
  type TimelineApproval,
  type TimelineCall,
  type TimelineEntry,
} from "../../store/run-timeline.ts";
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
  const runs = await openCommandRuns(io, options);
  const summary = await runs.find(given);
  const journal = await runs.read(summary.id);
  const problems = findJournalProblems(summary, journal);
  if (options.json)
    printJson(io.stdout, { summary, timeline: createTimeline(journal.lines), lines: journal.lines, problems });
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
  resumed: (out, { pid }) => out.text`${out.cyan("↻")} resumed by process ${pid}`,
  started: (out, { skill, model }) => out.text`${out.bold(skill === "" ? "chat" : skill)} ${out.dim(`with ${model}`)}`,
  step: (out, { step, ms, usage, cost, isAgain }) =>
    out.text`step ${step}  ${out.dim([formatDuration(ms), ...formatUsage(usage, cost)].join(" · "))}${paintRepeated(out, isAgain)}`,
  call: (out, call, room, { isFull }) => paintCall(out, call, room, isFull),
  approval: (out, entry, room) => paintApproval(out, entry, room),
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

function paintApproval(out: Printer, { request, decision }: TimelineApproval, room: number) {
  const who = request.skill === "" ? "" : `${request.skill} `;
  const what = truncateLine(`${who}requests ${formatApprovalLine(request)}`, Math.max(20, room - 16));
  if (!decision) return out.text`  ${out.yellow("?")} ${what} ${out.yellow("pending")}`;
  if (decision.isApproved)
    return out.text`  ${out.yellow("?")} ${what} ${out.green(`yes, ${APPROVAL_SCOPE_LABELS[decision.scope ?? "once"]}`)}`;
  return out.text`  ${out.yellow("?")} ${what} ${out.red("no")}${decision.reason ? `: ${truncateLine(decision.reason, 200)}` : ""}`;
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
