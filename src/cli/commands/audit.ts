import { openAudit } from "../../capability/audit.ts";
import type { Audit, AuditLine, AuditVerdict } from "../../host/capabilities.ts";
import { SkillError } from "../../shared/error.ts";
import { count, grouped, nearest, oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { runsFor, shortId } from "../run-words.ts";
import { sayLine, sayNotice } from "../say.ts";
import { sinceOf } from "../since.ts";
import { printHanging } from "../wrap.ts";
import { numberOf } from "./runs.ts";

interface AuditOptions {
  skill?: string;
  run?: string;
  capability?: string;
  outcome?: string;
  since?: string;
  limit?: string;
}

const MOST = 50;

/** The log, the newest last. */
export async function audit({ io, options, args: [unknown] }: Context<AuditOptions>): Promise<number> {
  if (unknown !== undefined) throw noSuch(unknown);
  const log = auditFor(io, options);
  const most = options.limit === undefined ? MOST : numberOf("--limit", options.limit);
  const { lines, fitting, all } = lastOf(log.read(), fits(io, options), most);
  const verdict = log.verify();
  if (options.json) printJson(io.stdout, { file: log.file, isWhole: verdict.isWhole, lines, total: fitting });
  else {
    printLines(printer(io.stdout, io.env), lines);
    const error = printer(io.stderr, io.env);
    if (all === 0 && verdict.isWhole) sayEmpty(error);
    else if (all > 0 && fitting === 0) error.line`none of ${count(all, "line")} is like that`;
    else if (fitting > lines.length)
      error.line`${error.dim(`${grouped(lines.length)} of ${count(fitting, "line")}: skillet audit --limit ${fitting} shows the older ones too`)}`;
    else if (all > 0) error.line`${error.dim(count(fitting, "line"))}`;
  }
  if (verdict.isWhole) return EXIT.fine;
  sayBroken(printer(io.stderr, io.env), log, verdict);
  return EXIT.findings;
}

/** Whether the log is whole. */
export async function verifyLog({ io, options }: Context<object>): Promise<number> {
  const log = auditFor(io, options);
  const verdict = log.verify();
  const out = printer(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { file: log.file, ...verdictFacts(verdict) });
  else if (!verdict.isWhole) sayBroken(out, log, verdict);
  else if (verdict.lines === 0) sayEmpty(out);
  else {
    const { lines, head, torn = [] } = verdict;
    out.line`${out.green("✓")} ${count(lines, "line")}, whole; head sha256:${head}`;
    if (torn.length > 0)
      out.line`  ${count(torn.length, "line")} cut short by a stop, and nothing is missing for it: ${torn.slice(0, 10).join(", ")}`;
  }
  return verdict.isWhole ? EXIT.fine : EXIT.findings;
}

/** For programs. */
export function verdictFacts({ lines: total, ...verdict }: AuditVerdict): object {
  return { total, ...verdict };
}

function auditFor(io: Io, options: CommonOptions): Audit {
  return openAudit(surroundingsFor(io, options).skilletHome);
}

function sayEmpty(out: Printer): void {
  const says = "whatever a skill asks of a capability becomes a line of it, and each sign-in";
  sayLine(out, `there is no audit log yet: ${says}`);
  out.line`  what skills can ask here: ${out.cyan("skillet capability list")}`;
}

function sayBroken(out: Printer, { file }: Audit, { line, lines, message }: AuditVerdict & { isWhole: false }): void {
  const place = `line ${line}`;
  const said = message.startsWith(place) ? `${place}: it${message.slice(place.length)}` : message;
  const before =
    lines === 0
      ? ""
      : `the ${count(lines, "line")} ${message.startsWith(place) ? "before it " : "that there are "}${lines === 1 ? "is" : "are"} whole; `;
  sayNotice(out, out.red("✗"), said, `${before}the log is ${file}`);
  out.line`  keep a copy of what is left, and find out who can write there;`;
  out.line`  moving audit.jsonl and audit.head away begins a new log`;
}

function noSuch(word: string): SkillError {
  const fix = nearest(word, ["verify"]) ? "did you mean skillet audit verify?" : "as in skillet audit --skill NAME";
  return new SkillError("usage", { message: `skillet audit takes no "${oneLine(word, 40)}"`, fix });
}

/** Only as many are held as are shown, however long the log is. */
function lastOf(lines: Iterable<AuditLine>, isFitting: (line: AuditLine) => boolean, most: number) {
  const ring: AuditLine[] = [];
  let [fitting, all] = [0, 0];
  for (const line of lines) {
    all++;
    if (!isFitting(line)) continue;
    if (most > 0) ring[fitting % most] = line;
    fitting++;
  }
  const start = ring.length < most ? 0 : fitting % most;
  return { lines: [...ring.slice(start), ...ring.slice(0, start)], fitting, all };
}

function fits(io: Io, options: Context<AuditOptions>["options"]): (line: AuditLine) => boolean {
  const { skill, capability, outcome, since } = options;
  const run = options.run === "last" ? runsFor(io, options).find("last").id : options.run;
  const from = since === undefined ? "" : sinceOf(since).toISOString();
  return (line) =>
    [line.skill, undefined].includes(skill) &&
    [line.outcome, undefined].includes(outcome) &&
    (run === undefined || (line.run !== "" && (line.run.startsWith(run) || line.run.endsWith(run)))) &&
    (capability === undefined || `${subjectOf(line)}.`.startsWith(`${capability}.`)) &&
    line.at >= from;
}

function subjectOf({ capability = "", operation }: AuditLine): string {
  return operation === undefined ? capability : `${capability}.${operation}`;
}

/** What is no refusal. */
const COLOURS: Readonly<Record<string, "green" | "dim">> = { ok: "green", begun: "dim", repeated: "dim" };
const LONGEST_NAME = 30;
const LONGEST_SUBJECT = 60;
const SHORTEST_SUBJECT = 20;

/** A line each; at a terminal that is too narrow for it, what else is known of it stands on the lines below. */
function printLines(out: Printer, lines: readonly AuditLine[]): void {
  const rows = lines.map((line) => ({
    line,
    when: line.at.replace(/\.\d+Z$/, "Z"),
    who: oneLine(line.skill || "you", LONGEST_NAME),
    what: line.method === "invoke" ? subjectOf(line) : `${line.method} ${subjectOf(line)}`.trim(),
    outcome: `${oneLine(line.outcome, LONGEST_NAME)}${line.count === undefined ? "" : ` ×${line.count}`}`,
  }));
  const widest = (key: "when" | "who" | "what" | "outcome") =>
    rows.reduce((most, row) => Math.max(most, row[key].length), 0);
  const [whens, whos, outcomes] = [widest("when"), widest("who"), widest("outcome")];
  const room = Math.max(SHORTEST_SUBJECT, out.width - whens - whos - outcomes - 6);
  const whats = Math.min(widest("what"), LONGEST_SUBJECT, room);
  for (const { line, when, who, what, outcome } of rows) {
    const details = detailsOf(line);
    const before = out.text`${out.dim(when.padEnd(whens))}  ${out.bold(who.padEnd(whos))}  ${oneLine(what, whats).padEnd(whats)}  `;
    const paint = out[COLOURS[line.outcome] ?? "yellow"];
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

function detailsOf({ approval, run, ms, removed = 0 }: AuditLine): string {
  return [
    ...(approval === undefined ? [] : [`agreed to ${oneLine(approval, 40)}`]),
    ...(removed > 0 ? [`${count(removed, "value")} taken out`] : []),
    ...(run === "" ? [] : [`run ${oneLine(shortId(run), 40)}`]),
    ...(ms === undefined ? [] : [`${Math.round(ms)} ms`]),
  ].join(" · ");
}
