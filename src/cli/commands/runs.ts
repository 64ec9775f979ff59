import { loadSettings } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import { RUN_STATES, type RunState, type RunSummary } from "../../store/run-rules.ts";
import { findNearest, formatCount, truncateLine } from "../../util/text.ts";
import { formatApprovalLine, formatInputLine } from "../approval-prompt.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  parseSince,
  SINCE_HELP,
} from "../command-definition.ts";
import { openCommandRuns, resolveCommandEnvironment } from "../command-host.ts";
import {
  formatAge,
  formatDuration,
  formatNextCommand,
  formatRunId,
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
  printJson,
  printWrappedLine,
} from "../output.ts";

/** `skillet runs` and its subcommands. */
export const runsCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List runs of skills and chats")
      .argument("[command]")
      .option(
        "-s, --state <state>",
        "Show only this state: running, interrupted, waiting, answered, ended, cancelled, corrupt, done or failed",
      )
      .option("--skill <skill>", "Show only runs of this skill, or `chat` for conversations")
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
      run: async (context) => (await import("./runs-show.ts")).showRun(context),
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
  since?: string;
  number?: string;
}

const DEFAULT_RUN_COUNT = 20;

/** Lists runs, newest first. */
async function listRuns({ io, options, args: [unknown] }: CommandContext<RunsOptions>): Promise<number> {
  if (unknown !== undefined) throw createUnknownStateError(unknown);
  const all = await (await openCommandRuns(io, options)).list();
  const fitting = all.filter(createRunFilter(options));
  const shown = fitting.slice(
    0,
    options.number === undefined ? DEFAULT_RUN_COUNT : parseCountOption("--number", options.number),
  );
  if (options.json) {
    printJson(io.stdout, { runs: shown, total: fitting.length });
    return EXIT.fine;
  }
  printRunList(createPrinter(io.stdout, io.env), shown);
  const error = createPrinter(io.stderr, io.env);
  if (all.length === 0) printNoRuns(io);
  else if (fitting.length === 0) error.line`none of ${formatCount(all.length, "run")} matches`;
  else if (fitting.length > shown.length)
    error.line`${error.dim(`and ${formatCount(fitting.length - shown.length, "older one")}: skillet runs -n ${fitting.length}`)}`;
  return EXIT.fine;
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
const STATE_FILTERS: Readonly<Record<string, (run: RunSummary) => boolean>> = {
  ...Object.fromEntries(RUN_STATES.map((state: RunState) => [state, (run: RunSummary) => run.state === state])),
  done: ({ state, end }) => state === "ended" && end?.isError === false,
  failed: ({ state, end }) => state === "ended" && end?.isError === true,
};

function createRunFilter({ state, skill, since }: RunsOptions): (run: RunSummary) => boolean {
  const isChosen = state === undefined ? () => true : STATE_FILTERS[state];
  if (!isChosen) {
    const meant = findNearest(state ?? "", Object.keys(STATE_FILTERS));
    const fix = meant ? `did you mean ${meant}?` : `states: ${Object.keys(STATE_FILTERS).join(", ")}`;
    throw new SkillError("usage", { message: `Unknown state "${state}" in --state`, fix });
  }
  const from = since === undefined ? 0 : parseSince(since).getTime();
  return (run) =>
    isChosen(run) && (skill === undefined || formatRunSubject(run) === skill) && Date.parse(run.at) >= from;
}

export function parseCountOption(option: string, given: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given);
  throw new SkillError("usage", {
    message: `${option} is "${given}", which is not a number`,
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
    if (run.effect && (run.state === "waiting" || run.state === "running"))
      out.line`  ${truncateLine(`approval needed: ${formatApprovalLine(run.effect)}`, width - 2)}`;
    const input = hasInput && run.effect ? formatInputLine(run.effect) : "";
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
