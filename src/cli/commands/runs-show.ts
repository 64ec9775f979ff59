import { userHome } from "../../host/home.ts";
import type { JournalLine, JournalText } from "../../host/journal-lines.ts";
import type { RunSummary } from "../../host/runs.ts";
import { count, oneLine } from "../../shared/text.ts";
import { shortPath } from "../../source/locations.ts";
import { effectLine, showEffect } from "../effect.ts";
import { EXIT } from "../exit.ts";
import { forTerminal } from "../fold.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { sayUsage } from "../progress.ts";
import { ago, markOf, nextOf, outcomeOf, paintOutcome, runsFor, subjectOf, tookOf } from "../run-words.ts";
import { type Asked, type Call, type Entry, timelineOf } from "../timeline.ts";

interface ShowOptions {
  full?: boolean;
}

/** One run, from what was asked to what came of it. */
export async function showRun({ io, options, args: [given = ""] }: Context<ShowOptions>): Promise<number> {
  const runs = runsFor(io, options);
  const summary = runs.find(given);
  const journal = runs.read(summary.id);
  const problems = problemsOf(summary, journal);
  if (options.json) printJson(io.stdout, { summary, lines: journal.lines, problems });
  else print(io, summary, journal.lines, options.full ?? false);
  const error = printer(io.stderr, io.env);
  for (const { message } of options.json ? [] : problems) error.line`${error.red("✗")} ${message}`;
  return problems.length > 0 ? EXIT.findings : EXIT.fine;
}

interface Problem {
  line: number;
  message: string;
}

function problemsOf({ bytes, state }: RunSummary, { lines, corrupt, whole }: JournalText): Problem[] {
  const torn = lines.length + corrupt.length + 1;
  return [
    ...corrupt.map((line) => ({ line, message: `line ${line} of its journal is not what was written` })),
    ...(whole < bytes && state !== "running"
      ? [{ line: torn, message: `line ${torn} of its journal is not whole: its program ended while it wrote it` }]
      : []),
  ];
}

const WIDEST = 100;

function print(io: Io, summary: RunSummary, lines: readonly JournalLine[], isFull: boolean): void {
  const out = printer(io.stdout, io.env);
  const width = Math.min(out.width, WIDEST);
  const { id, at, workspace, state, effect } = summary;
  out.line`${markOf(out, summary)} ${out.bold(subjectOf(summary))}  ${paintOutcome(out, summary)}  ${out.dim(id)}`;
  const place = workspace === undefined ? "" : `, in ${shortPath(workspace, userHome(io.env))}`;
  out.line`  ${out.dim(`${at.slice(0, 19).replace("T", " ")} UTC, ${ago(at)}${place}`)}`;
  printRequest(out, lines, isFull);
  out.line``;
  const start = Date.parse(at);
  for (const entry of timelineOf(lines)) printEntry(out, entry, { start, width, isFull });
  printEnd(out, summary, lines, isFull);
  if (state === "waiting" && effect) {
    out.line``;
    showEffect(out, effect, userHome(io.env), { isWhole: true });
  }
  const next = nextOf({ id, state });
  const more = state === "waiting" ? "  agrees, and goes on; --deny REASON does not" : "";
  if (next !== undefined) out.line`  ${out.cyan(next)}${more}`;
}

/** All that it was asked, beginning with the message. */
function printRequest(out: Printer, lines: readonly JournalLine[], isFull: boolean): void {
  const asked = lines.find((line) => line.type === "request");
  if (asked?.type !== "request") return;
  const { skill: _, by: __, message = "", ...more } = asked.request;
  if (message !== "") printText(out, String(message), { isFull, most: 6 });
  for (const [key, value] of Object.entries(more)) {
    if (isEmpty(value)) continue;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    out.line`  ${out.dim(`${key}:`)} ${isFull ? text : oneLine(text, 200)}`;
  }
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
}

interface How {
  start: number;
  width: number;
  isFull: boolean;
}

const CLOCK = 9;

function printEntry(out: Printer, entry: Entry, how: How): void {
  const passed = Math.max(0, Date.parse(entry.at) - how.start);
  const clock = out.dim(`+${tookOf(passed)}`.padStart(CLOCK));
  const indent = "  ".repeat(entry.depth);
  const room = Math.max(20, how.width - CLOCK - 2 - indent.length);
  const say = PRINTED[entry.type] as (
    out: Printer,
    entry: Entry,
    room: number,
    how: How,
  ) => ReturnType<Printer["text"]>;
  out.line`${clock}  ${indent}${say(out, entry, room, how)}`;
}

type Printed = {
  [Type in Entry["type"]]: (
    out: Printer,
    entry: Extract<Entry, { type: Type }>,
    room: number,
    how: How,
  ) => ReturnType<Printer["text"]>;
};

const PRINTED: Printed = {
  "taken-up": (out, { pid }) => out.text`${out.cyan("↻")} taken up again by process ${pid}`,
  started: (out, { skill, model }) => out.text`${out.bold(skill === "" ? "chat" : skill)} ${out.dim(`with ${model}`)}`,
  step: (out, { step, ms, usage, cost, isAgain }) =>
    out.text`step ${step}  ${out.dim([tookOf(ms), ...sayUsage(usage, cost)].join(" · "))}${again(out, isAgain)}`,
  call: (out, call, room, { isFull }) => sayCall(out, call, room, isFull),
  asked: (out, asked, room) => sayAsked(out, asked, room),
  ended: (out, { skill, stop, isError, ms }) => {
    const mark = isError ? out.red("✗") : out.green("✓");
    return out.text`${mark} ${skill} ${out.dim(`${stop}, ${tookOf(ms)}`)}`;
  },
  note: (out, { text, fix, isFine }, room) =>
    out.text`${isFine ? out.dim("·") : out.yellow("!")} ${oneLine(fix ? `${text}: ${fix}` : text, Math.max(room - 2, 200))}`,
  cancelled: (out) => out.text`${out.yellow("·")} called off`,
};

function again(out: Printer, isAgain: boolean): ReturnType<Printer["text"]> {
  return isAgain ? out.text` ${out.yellow("again: it was begun before")}` : out.text``;
}

function sayCall(out: Printer, { tool, input, outcome, isAgain }: Call, room: number, isFull: boolean) {
  const end = outcome
    ? outcome.isError
      ? out.text`${out.red(outcome.code ?? "error")} ${out.dim(tookOf(outcome.ms))}${why(out, outcome.message, isFull ? 300 : 60)}`
      : out.text`${out.green("ok")} ${out.dim(tookOf(outcome.ms))}`
    : out.yellow("not finished");
  const written = gistOf(input);
  const what = isFull ? written : oneLine(written, Math.max(12, room - tool.length - 22));
  return out.text`  ${tool}${what === "" ? "" : out.text` ${out.dim(what)}`}  ${end}${again(out, isAgain)}`;
}

function why(out: Printer, message: string | undefined, most: number): ReturnType<Printer["text"]> {
  return message === undefined ? out.text`` : out.text` ${oneLine(message, most)}`;
}

/** What it was called with: a text needs no name, anything else does. */
function gistOf(input: unknown): string {
  if (input === null || typeof input !== "object") return JSON.stringify(input) ?? "";
  return Object.entries(input)
    .map(([name, value]) => (typeof value === "string" ? value : `(${name}: ${JSON.stringify(value)})`))
    .join(" ");
}

const SCOPES = { once: "once", run: "for this run", always: "always" };

function sayAsked(out: Printer, { effect, word }: Asked, room: number) {
  const who = effect.skill === "" ? "" : `${effect.skill} `;
  const what = oneLine(`${who}asks for ${effectLine(effect)}`, Math.max(20, room - 16));
  if (!word) return out.text`  ${out.yellow("?")} ${what} ${out.yellow("waits")}`;
  if (word.isApproved)
    return out.text`  ${out.yellow("?")} ${what} ${out.green(`yes, ${SCOPES[word.scope ?? "once"]}`)}`;
  return out.text`  ${out.yellow("?")} ${what} ${out.red("no")}${word.reason ? `: ${oneLine(word.reason, 200)}` : ""}`;
}

function printEnd(out: Printer, summary: RunSummary, lines: readonly JournalLine[], isFull: boolean): void {
  const { end } = summary;
  if (!end) return;
  const result = lines.findLast((line) => line.type === "result");
  const content = result?.type === "result" ? String(result.result["content"] ?? "") : "";
  out.line``;
  if (content !== "") printText(out, content, { isFull, most: 20 });
  const { iterations, ms, usage, cost, model } = end;
  const totals = [count(iterations, "iteration"), tookOf(ms), ...sayUsage(usage, cost), ...(model ? [model] : [])];
  out.line`${markOf(out, summary)} ${paintOutcome(out, summary, outcomeOf(summary))} ${out.dim(`(${totals.join(", ")})`)}`;
}

const LONGEST = 4000;

/** A text of several lines, as much of it as is read at a glance. */
function printText(out: Printer, text: string, { isFull, most }: { isFull: boolean; most: number }): void {
  const all = forTerminal(text).replaceAll("\t", "    ").split(/\r?\n/);
  const shown = isFull
    ? all
    : forTerminal(text.slice(0, LONGEST)).replaceAll("\t", "    ").split(/\r?\n/).slice(0, most);
  for (const line of shown) out.line`  ${line}`;
  const isCut = !isFull && (text.length > LONGEST || all.length > shown.length);
  if (isCut) out.line`  ${out.dim(`… ${count(all.length, "line")} in all: --full shows them`)}`;
}
