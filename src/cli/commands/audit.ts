import { createAuditLog } from "../../capabilities/audit-log.ts";
import { loadSettings } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Audit, AuditLine, AuditVerdict } from "../../host/capability-contract.ts";
import { findNearest, formatCount, formatNumber, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
  openCommandEngine,
  openCommandRuns,
  parseSince,
  resolveCommandEnvironment,
  SINCE_HELP,
} from "../command-context.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printHanging,
  printJson,
  printProblem,
  printWrappedLine,
} from "../output.ts";
import { formatRunId } from "../run-format.ts";
import { parseCountOption } from "./runs.ts";

/** `skillet audit` and its subcommands. */
export const auditCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show capability calls and sign-ins with their outcomes, newest last")
      .argument("[command]")
      .option("--skill <skill>", "Show only calls of this skill")
      .option("--user <name>", "Show only lines about this user")
      .option("--run <id>", "Show only calls of this run, by its id, the start or end of it, or `last`")
      .option(
        "--capability <id>",
        "Show only this capability, operation or namespace: notes.notes, notes.notes.add, notes",
      )
      .option("--outcome <code>", "Show only calls with this outcome: ok, or an error code")
      .option("--since <time>", `Show only calls since this time: ${SINCE_HELP}`)
      .option("--local", "Show the log of this machine, also if an engine is configured")
      .option("-n, --limit <number>", "Show at most this many of the newest lines. Defaults to 50.")
      .usage("[options]")
      .addHelpText(
        "after",
        formatExamples(
          "skillet audit",
          "skillet audit --skill note-taker --since 2d",
          "skillet audit --capability notes.notes.add --outcome ok",
          "skillet audit verify",
        ),
      ),
  run: showAuditLog,
  commands: {
    verify: {
      define: (command) =>
        command
          .description("Verify that no line of the log was changed or removed")
          .option("--local", "Verify the log of this machine, also if an engine is configured")
          .addHelpText("after", formatExamples("skillet audit verify", "skillet audit verify --json")),
      run: verifyAuditLog,
    },
  },
};

interface AuditOptions {
  skill?: string;
  user?: string;
  run?: string;
  capability?: string;
  outcome?: string;
  since?: string;
  limit?: string;
  local?: boolean;
}

const DEFAULT_LIMIT = 50;

/** Shows the log, newest last. */
async function showAuditLog({ io, options, args: [unknown] }: CommandContext<AuditOptions>): Promise<number> {
  if (unknown !== undefined) throw createUnknownWordError(unknown);
  const { log, place } = await openCommandAudit(io, options);
  const most = options.limit === undefined ? DEFAULT_LIMIT : parseCountOption("--limit", options.limit);
  const { lines, fitting, all } = await takeLast(log.read(), await createLineFilter(io, options), most);
  const verdict = await log.verify();
  if (options.json) printJson(io.stdout, { ...place, isWhole: verdict.isWhole, lines, total: fitting });
  else {
    printAuditLines(createPrinter(io.stdout, io.env), lines);
    const error = createPrinter(io.stderr, io.env);
    if (all === 0 && verdict.isWhole) printEmptyLog(error);
    else if (all > 0 && fitting === 0) error.line`none of ${formatCount(all, "line")} matches`;
    else if (fitting > lines.length)
      error.line`${error.dim(`${formatNumber(lines.length)} of ${formatCount(fitting, "line")}: skillet audit --limit ${fitting} shows all of them`)}`;
    else if (all > 0) error.line`${error.dim(formatCount(fitting, "line"))}`;
  }
  if (verdict.isWhole) return EXIT.fine;
  printBrokenLog(createPrinter(io.stderr, io.env), place, verdict);
  return EXIT.findings;
}

/** Verifies the log. */
async function verifyAuditLog({ io, options }: CommandContext<Pick<AuditOptions, "local">>): Promise<number> {
  const { log, place } = await openCommandAudit(io, options);
  const verdict = await log.verify();
  const out = createPrinter(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { ...place, ...toAuditVerdictJson(verdict) });
  else if (!verdict.isWhole) printBrokenLog(out, place, verdict);
  else if (verdict.lines === 0) printEmptyLog(out);
  else {
    const { lines, head, torn = [] } = verdict;
    out.line`${out.green("✓")} ${formatCount(lines, "line")}, intact; head sha256:${head}`;
    if (torn.length > 0)
      out.line`  ${formatCount(torn.length, "line")} truncated by an interruption, without loss: ${torn.slice(0, 10).join(", ")}`;
  }
  return verdict.isWhole ? EXIT.fine : EXIT.findings;
}

/** Formats a verdict for `--json`. */
export function toAuditVerdictJson({ lines: total, ...verdict }: AuditVerdict): object {
  return { total, ...verdict };
}

/** The place of the log: a file of this machine, or the database that several machines share. */
type AuditPlace = { file: string } | { database: string };

/** Opens the log of the engine if one is configured, otherwise that of this machine. */
async function openCommandAudit(
  io: CommandIo,
  options: CommonOptions & Pick<AuditOptions, "local">,
): Promise<{ log: Audit; place: AuditPlace }> {
  const environment = resolveCommandEnvironment(io, options);
  const { settings } = await loadSettings(environment);
  const engine = options.local ? undefined : await openCommandEngine(environment, settings);
  if (engine) return { log: engine.audit, place: { database: engine.name } };
  const log = createAuditLog(environment.skilletHome);
  return { log, place: { file: log.file } };
}

function printEmptyLog(out: Printer): void {
  const note = "it records every capability call and every sign-in";
  printWrappedLine(out, `there is no audit log yet: ${note}`);
  out.line`  list the capabilities: ${out.cyan("skillet capability list")}`;
}

function printBrokenLog(out: Printer, place: AuditPlace, { lines, message }: AuditVerdict & { isWhole: false }): void {
  const intact = lines === 0 ? "" : `${formatCount(lines, "line")} ${lines === 1 ? "is" : "are"} intact; `;
  const where = "file" in place ? place.file : `the table skillet.audit of ${place.database}`;
  printProblem(out, out.red("✗"), { message, fix: `${intact}the log is ${where}` });
  out.line`  keep a copy of the log, and find out who can write to it`;
  if ("file" in place) out.line`  to start a new log, move audit.jsonl and audit.head away`;
}

function createUnknownWordError(word: string): SkillError {
  const fix = findNearest(word, ["verify"])
    ? "did you mean skillet audit verify?"
    : "for example: skillet audit --skill NAME";
  return new SkillError("usage", { message: `Unknown argument "${truncateLine(word, 40)}" of skillet audit`, fix });
}

/** Returns the last matching lines. Holds only as many as are shown, whatever the size of the log. */
async function takeLast(lines: AsyncIterable<AuditLine>, isFitting: (line: AuditLine) => boolean, max: number) {
  const ring: AuditLine[] = [];
  let [fitting, all] = [0, 0];
  for await (const line of lines) {
    all++;
    if (!isFitting(line)) continue;
    if (max > 0) ring[fitting % max] = line;
    fitting++;
  }
  const start = ring.length < max ? 0 : fitting % max;
  return { lines: [...ring.slice(start), ...ring.slice(0, start)], fitting, all };
}

async function createLineFilter(
  io: CommandIo,
  options: CommandContext<AuditOptions>["options"],
): Promise<(line: AuditLine) => boolean> {
  const { skill, user, capability, outcome, since } = options;
  const run = options.run === "last" ? (await (await openCommandRuns(io, options)).find("last")).id : options.run;
  const from = since === undefined ? "" : parseSince(since).toISOString();
  return (line) =>
    [line.skill, undefined].includes(skill) &&
    [line.user, undefined].includes(user) &&
    [line.outcome, undefined].includes(outcome) &&
    (run === undefined || (line.run !== "" && (line.run.startsWith(run) || line.run.endsWith(run)))) &&
    (capability === undefined || `${formatAuditSubject(line)}.`.startsWith(`${capability}.`)) &&
    line.at >= from;
}

function formatAuditSubject({ capability = "", operation }: AuditLine): string {
  return operation === undefined ? capability : `${capability}.${operation}`;
}

/** Outcomes that are not refusals. */
const OUTCOME_COLORS: Readonly<Record<string, "green" | "dim">> = { ok: "green", begun: "dim", repeated: "dim" };
const MAX_NAME_LENGTH = 30;
const MAX_SUBJECT_LENGTH = 60;
const MIN_SUBJECT_LENGTH = 20;

/** Prints one line per entry. At a narrow terminal the details follow on the next lines. */
function printAuditLines(out: Printer, lines: readonly AuditLine[]): void {
  const rows = lines.map((line) => ({
    line,
    when: line.at.replace(/\.\d+Z$/, "Z"),
    who: truncateLine(line.skill || "you", MAX_NAME_LENGTH),
    what: line.method === "invoke" ? formatAuditSubject(line) : `${line.method} ${formatAuditSubject(line)}`.trim(),
    outcome: `${truncateLine(line.outcome, MAX_NAME_LENGTH)}${line.count === undefined ? "" : ` ×${line.count}`}`,
  }));
  const widest = (key: "when" | "who" | "what" | "outcome") =>
    rows.reduce((width, row) => Math.max(width, row[key].length), 0);
  const [whens, whos, outcomes] = [widest("when"), widest("who"), widest("outcome")];
  const room = Math.max(MIN_SUBJECT_LENGTH, out.width - whens - whos - outcomes - 6);
  const whats = Math.min(widest("what"), MAX_SUBJECT_LENGTH, room);
  for (const { line, when, who, what, outcome } of rows) {
    const details = formatAuditDetails(line);
    const before = out.text`${out.dim(when.padEnd(whens))}  ${out.bold(who.padEnd(whos))}  ${truncateLine(what, whats).padEnd(whats)}  `;
    const paint = out[OUTCOME_COLORS[line.outcome] ?? "yellow"];
    const left = out.width - (whens + whos + whats + 6);
    if (details === "") out.line`${before}${paint(outcome)}`;
    else if (outcomes + 2 + details.length <= left)
      out.line`${before}${paint(outcome.padEnd(outcomes))}${out.dim(`  ${details}`)}`;
    else {
      out.line`${before}${paint(outcome)}`;
      const indent = whens + 2;
      printHanging(out, " ".repeat(indent), [details], { indent, paint: out.dim });
    }
  }
}

function formatAuditDetails({ approval, run, ms, removed = 0 }: AuditLine): string {
  return [
    ...(approval === undefined ? [] : [`approved ${truncateLine(approval, 40)}`]),
    ...(removed > 0 ? [`${formatCount(removed, "value")} redacted`] : []),
    ...(run === "" ? [] : [`run ${truncateLine(formatRunId(run), 40)}`]),
    ...(ms === undefined ? [] : [`${Math.round(ms)} ms`]),
  ].join(" · ");
}
