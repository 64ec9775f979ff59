import { loadSettings } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import { formatHomePath } from "../../skill/source/locations.ts";
import type { JournalLine } from "../../store/journal.ts";
import { RUN_STATES, type RunFilterState, type RunQuery, type RunSummary, searchRuns } from "../../store/run-rules.ts";
import {
  createRunReport,
  createTimeline,
  type TimelineApproval,
  type TimelineCall,
  type TimelineEntry,
} from "../../store/run-timeline.ts";
import { getUserHome } from "../../util/system.ts";
import { findNearest, formatCount, truncateLine } from "../../util/text.ts";
import { escapeForTerminal } from "../../util/untrusted-text.ts";
import { formatInputLine, printApprovalRequest } from "../approval-prompt.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  openCommandRuns,
  parseSince,
  resolveCommandEnvironment,
  SINCE_HELP,
} from "../command-context.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  paintRunMark,
  paintRunState,
  printHanging,
  printJson,
  printProblem,
  printWrappedLine,
} from "../output.ts";
import {
  formatAge,
  formatDuration,
  formatNextCommand,
  formatRunId,
  formatRunState,
  formatRunSubject,
  formatUsage,
} from "../run-format.ts";
import { formatApprovalLine } from "../run-output.ts";

/** `skillet runs` and its subcommands. */
export const runsCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List runs of skills and chats")
      .argument("[command]")
      .option(
        "-s, --state <state>",
        "Show only this state: running, interrupted, waiting, answered, ended, cancelled, corrupt, queued, stuck, done or failed",
      )
      .option("--skill <skill>", "Show only runs of this skill, or `chat` for conversations")
      .option("--user <name>", "Show only runs of this user of a server")
      .option("--since <time>", `Show only runs started since this time: ${SINCE_HELP}`)
      .option("-n, --number <number>", "Show at most this many runs. Defaults to 20.")
      .usage("[options]")
      .addHelpText(
        "after",
        formatExamples(
          "skillet runs",
          "skillet runs --state waiting",
          "skillet runs --skill code-review --since 7d",
          "skillet runs show last",
        ),
      ),
  run: listRuns,
  commands: {
    show: {
      define: (command) =>
        command
          .description("Show the request, steps, approvals and result of a run")
          .argument("<id>", "A run id, the start or end of it, or `last`")
          .option("--full", "Show the whole result and the whole input of calls")
          .addHelpText("after", formatExamples("skillet runs show last", "skillet runs show 3f2a91c0 --full")),
      run: showRun,
    },
    prune: {
      define: (command) =>
        command
          .description("Remove old runs that have ended")
          .option("--older-than <days>", "Remove runs older than this. Defaults to keep_days of [runs], 30.")
          .option("--keep <number>", "Keep at most this many ended runs. Defaults to keep of [runs], 1000.")
          .option("--dry-run", "Show the changes without applying them")
          .addHelpText(
            "after",
            formatExamples("skillet runs prune --dry-run", "skillet runs prune --older-than 7 --keep 100"),
          ),
      run: pruneStoredRuns,
    },
  },
};

interface RunsOptions {
  state?: string;
  skill?: string;
  user?: string;
  since?: string;
  number?: string;
}

const DEFAULT_RUN_COUNT = 20;

/** Lists runs, newest first. */
async function listRuns({ io, options, args: [unknown] }: CommandContext<RunsOptions>): Promise<number> {
  if (unknown !== undefined) throw createUnknownStateError(unknown);
  const query = parseRunQuery(options);
  const store = await openCommandRuns(io, options);
  const { runs, total } = await searchRuns(store, query);
  if (options.json) {
    printJson(io.stdout, toRunListJson(runs, total));
    return EXIT.fine;
  }
  printRunList(createPrinter(io.stdout, io.env), runs);
  const error = createPrinter(io.stderr, io.env);
  const all = total > 0 ? total : (await searchRuns(store, { limit: 0 })).total;
  if (all === 0) printNoRuns(io);
  else if (total === 0) error.line`none of ${formatCount(all, "run")} matches`;
  else if (total > runs.length)
    error.line`${error.dim(`and ${formatCount(total - runs.length, "older one")}: skillet runs -n ${total}`)}`;
  return EXIT.fine;
}

/** Returns the value of `runs --json`. */
export function toRunListJson(runs: readonly RunSummary[], total: number) {
  return { runs, total };
}

function createUnknownStateError(word: string): SkillError {
  const meant = findNearest(word, ["show", "prune"]);
  const fix = meant ? `did you mean skillet runs ${meant}?` : `to show one run: skillet runs show ${word}`;
  return new SkillError("usage", { message: `Unknown argument "${word}" of skillet runs`, fix });
}

function printNoRuns(io: CommandIo): void {
  const out = createPrinter(io.stderr, io.env);
  printWrappedLine(
    out,
    "there are no runs yet: each run of a skill and each answer of a chat is recorded here, with its steps and cost",
  );
  out.line`  start one: ${out.cyan("skillet run host-report")}`;
}

/** The values of `--state`: a state, or an outcome. */
const STATE_FILTERS: readonly RunFilterState[] = [...RUN_STATES, "done", "failed"];

function parseRunQuery({ state, skill, user, since, number }: RunsOptions): RunQuery {
  const wanted = STATE_FILTERS.find((known) => known === state);
  if (state !== undefined && wanted === undefined) {
    const meant = findNearest(state, STATE_FILTERS);
    const fix = meant ? `did you mean ${meant}?` : `states: ${STATE_FILTERS.join(", ")}`;
    throw new SkillError("usage", { message: `Unknown state "${state}" in --state`, fix });
  }
  return {
    ...{ skill, user, states: wanted && [wanted], since: since === undefined ? undefined : parseSince(since) },
    limit: number === undefined ? DEFAULT_RUN_COUNT : parseCountOption("--number", number),
  };
}

export function parseCountOption(option: string, value: string): number {
  if (/^\d{1,9}$/.test(value)) return Number(value);
  throw new SkillError("usage", {
    message: `${option} is "${value}", which is not a number`,
    fix: `for example ${option} 50`,
  });
}

const MAX_ROW_WIDTH = 100;
const MAX_NAME_LENGTH = 24;

/** Prints two lines per run: its outcome, and its task; then the next command if there is one, with the input on request. */
export function printRunList(out: Printer, rows: readonly RunSummary[], { hasInput = false } = {}): void {
  const width = Math.min(out.width, MAX_ROW_WIDTH);
  const shown = rows.map((run) => ({
    run,
    id: formatRunId(run.id),
    when: formatAge(run.at),
    details: formatRunDetails(run),
  }));
  const widest = (texts: readonly string[]) => Math.max(0, ...texts.map(({ length }) => length));
  const ids = widest(shown.map(({ id }) => id));
  const whens = widest(shown.map(({ when }) => when));
  const outcomes = widest(rows.map(formatRunState));
  const details = widest(shown.map((row) => row.details));
  const room = width - (2 + ids + 2 + whens + 2 + 2 + outcomes + 2 + details);
  const longest = widest(rows.map(formatRunSubject));
  const names = Math.max(Math.min(8, longest), Math.min(MAX_NAME_LENGTH, room, longest));
  for (const { run, id, when, details: more } of shown) {
    const name = truncateLine(formatRunSubject(run), names).padEnd(names);
    const outcome = paintRunState(out, run, formatRunState(run).padEnd(more === "" ? 0 : outcomes));
    const left = Math.max(1, width - (2 + ids + 2 + whens + 2 + names + 2 + outcomes + 2));
    const end = more === "" ? outcome : out.text`${outcome}  ${out.dim(truncateLine(more, left))}`;
    out.line`${paintRunMark(out, run)} ${id.padEnd(ids)}  ${out.dim(when.padEnd(whens))}  ${out.bold(name)}  ${end}`;
    if (run.task !== "") out.line`  ${truncateLine(run.task, width - 2)}`;
    if (run.approvalRequest && (run.state === "waiting" || run.state === "running"))
      out.line`  ${truncateLine(`approval needed: ${formatApprovalLine(run.approvalRequest)}`, width - 2)}`;
    if (run.problem) out.line`  ${truncateLine(run.problem.message, width - 2)}`;
    const input = hasInput && run.approvalRequest ? formatInputLine(run.approvalRequest) : "";
    if (input !== "") out.line`  ${truncateLine(`input: ${input}`, width - 2)}`;
    const next = formatNextCommand(run);
    if (next !== undefined) out.line`  ${out.cyan(next)}`;
  }
}

function formatRunDetails({ end, state, owner }: RunSummary): string {
  if (state === "running") return owner?.label ?? "";
  if (!end) return "";
  return [formatDuration(end.ms), ...formatUsage(end.usage, end.cost)].join(" · ");
}

interface PruneRunsOptions {
  olderThan?: string;
  keep?: string;
  dryRun?: boolean;
}

const MAX_SHOWN = 20;

/** Removes the journals of old runs. */
async function pruneStoredRuns({ io, options }: CommandContext<PruneRunsOptions>): Promise<number> {
  const { settings } = await loadSettings(resolveCommandEnvironment(io, options));
  const { olderThan, keep, dryRun: isTrial = false } = options;
  const retention = {
    days: olderThan === undefined ? settings.runs.days : parseCountOption("--older-than", olderThan),
    most: keep === undefined ? settings.runs.most : parseCountOption("--keep", keep),
  };
  const gone = await (await openCommandRuns(io, options)).prune(retention, { isTrial });
  if (options.json) {
    printJson(io.stdout, { isDryRun: isTrial, removed: gone });
    return EXIT.fine;
  }
  const out = createPrinter(io.stdout, io.env);
  const what = isTrial ? "would remove" : "removed";
  for (const run of gone.slice(0, MAX_SHOWN))
    out.line`${what} ${formatRunId(run.id)}  ${formatRunSubject(run)}  ${out.dim(`${formatRunState(run)}, ${formatAge(run.changedAt)}`)}`;
  const { days, most } = retention;
  const kept = `older than ${formatCount(days, "day")}, or beyond the last ${formatCount(most, "run")}`;
  if (gone.length === 0) out.line`nothing to remove: no ended run is ${kept}`;
  else out.line`${isTrial ? "·" : out.green("✓")} ${what} ${formatCount(gone.length, "run")}: ${kept}`;
  return EXIT.fine;
}

interface ShowRunOptions {
  full?: boolean;
}

/** Shows one run from its request to its result. */
async function showRun({ io, options, args: [value = ""] }: CommandContext<ShowRunOptions>): Promise<number> {
  const runs = await openCommandRuns(io, options);
  const summary = await runs.find(value);
  const run = createRunReport(summary, await runs.read(summary.id));
  const { problems } = run;
  if (options.json) printJson(io.stdout, run);
  else printRun(io, summary, run.lines, options.full ?? false);
  const error = createPrinter(io.stderr, io.env);
  for (const { message } of options.json ? [] : problems)
    printHanging(error, error.text`${error.red("✗")} `, [message], { indent: 2, code: "journal-corrupt" });
  return problems.length > 0 ? EXIT.findings : EXIT.fine;
}

const MAX_LINE_WIDTH = 100;

function printRun(io: CommandIo, summary: RunSummary, lines: readonly JournalLine[], isFull: boolean): void {
  const out = createPrinter(io.stdout, io.env);
  const width = Math.min(out.width, MAX_LINE_WIDTH);
  const { id, at, workspace, state, approvalRequest: request, caller } = summary;
  out.line`${paintRunMark(out, summary)} ${out.bold(formatRunSubject(summary))}  ${paintRunState(out, summary)}  ${out.dim(id)}`;
  const folder = workspace === undefined ? "" : `, in ${formatHomePath(workspace, getUserHome(io.env))}`;
  out.line`  ${out.dim(`${at.slice(0, 19).replace("T", " ")} UTC, ${formatAge(at)}${folder}`)}`;
  if (caller?.userId !== undefined) {
    const tenant = caller.tenant === undefined ? "" : ` of ${caller.tenant}`;
    out.line`  ${out.dim(`for ${truncateLine(caller.userId, 128)}${tenant}`)}`;
  }
  printRunRequest(out, lines, isFull);
  out.line``;
  const start = Date.parse(at);
  for (const entry of createTimeline(lines)) printTimelineEntry(out, entry, { start, width, isFull });
  printRunEnd(out, summary, lines, isFull);
  if (summary.problem) {
    out.line``;
    printProblem(out, state === "stuck" ? out.red("✗") : out.yellow("!"), summary.problem);
  }
  if (state === "waiting" && request) {
    out.line``;
    printApprovalRequest(out, request, getUserHome(io.env), { isWhole: true });
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
