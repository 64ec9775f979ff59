import type { Readable, Writable } from "node:stream";
import { type Problem, SkillError } from "../errors/problem.ts";
import type { RunState, RunSummary } from "../store/run-rules.ts";
import { estimateTokens, formatCount } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { addWorkspaceOption, foldColumns, wrapText } from "./format.ts";
import { formatRunState } from "./run-format.ts";

export interface TerminalStream {
  write(text: string): unknown;
  /** Returns true if the reader has closed the stream. */
  readonly isClosed?: boolean;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
  /** Returns the link to the page of a code, if a site of the documentation is configured. */
  linkOf?: LinkOf | undefined;
}

export type LinkOf = (code: string) => string | undefined;

/** The whole environment of the command line, so that it can be called as a function. */
export interface CommandIo {
  stdout: TerminalStream;
  stderr: TerminalStream;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Asks the user at the terminal. Undefined at Ctrl-D, Ctrl-C and the signal. Absent without a terminal. */
  ask?(question: string, signal?: AbortSignal): Promise<string | undefined>;
  /** Asks without echo. */
  askHidden?(question: string): Promise<string>;
  /** Opens a dialogue at the terminal. Absent without a terminal. */
  dialogue?(complete: LineCompleter): TerminalDialogue;
  /** Reads all piped input. Absent if stdin is not piped. With a timeout: undefined if nothing arrives in time. */
  stdin?(patienceMs?: number): Promise<string | undefined>;
  /**
   * The raw streams, for a protocol. Absent at a terminal. Afterwards all other output goes to stderr: a stray line on stdout would break the
   * protocol.
   */
  protocol?(): { input: Readable; output: Writable };
  /** Resolves when a long-running command is to end; never once the signal aborts. */
  interrupted?(until?: AbortSignal): Promise<void>;
}

/** Reads lines from a terminal. Between reads, typed input is buffered and not echoed. */
export interface TerminalDialogue {
  /** Reads a line or a pasted text; buffered input first. Undefined when the user ends the dialogue. */
  read(prompt: string): Promise<string | InterruptedLine | undefined>;
  /** Asks a question until the signal. Input typed before it does not count. Undefined if there is no answer. */
  ask(question: string, signal?: AbortSignal): Promise<string | undefined>;
  close(): void;
}

/** Returns completions for the last word, from the line up to the cursor. */
export type LineCompleter = (line: string) => readonly string[];

/** Ctrl-C in place of a line. */
export const INTERRUPTED_LINE = Symbol("interrupted");
export type InterruptedLine = typeof INTERRUPTED_LINE;

/** Returns true if the user at the terminal confirms; false without a terminal. */
export async function isConfirmed(io: CommandIo, question: string): Promise<boolean> {
  const answer = (await io.ask?.(`${question} [y/N] `)) ?? "";
  return /^y(?:es)?$/i.test(answer.trim());
}

/** Returns a signal that aborts when the command is interrupted: by Ctrl-C, or by a closed output. */
export function createInterruptSignal(io: CommandIo): AbortSignal {
  const controller = new AbortController();
  io.interrupted?.().then(() => controller.abort());
  return controller.signal;
}

/** Runs work that Ctrl-C aborts, without ending the program. */
export async function runInterruptible<T>(io: CommandIo, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const done = new AbortController();
  const controller = new AbortController();
  io.interrupted?.(done.signal).then(() => controller.abort());
  try {
    return await work(controller.signal);
  } finally {
    done.abort();
  }
}

/** Runs work like `runInterruptible`, but rejects at Ctrl-C, even if the work ignores the signal. */
export function runUntilInterrupted<T>(io: CommandIo, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return runInterruptible(io, async (signal) => {
    const error = () => new SkillError("interrupted", { message: "interrupted" });
    const interrupted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(error()), { once: true });
    });
    try {
      return await Promise.race([interrupted, work(signal)]);
    } catch (failure) {
      throw signal.aborted ? error() : failure;
    }
  });
}

/** Text escaped for a terminal, with its own color codes. */
class SafeText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type { SafeText };

type Printable = string | number | SafeText;

/** Prints lines. Interpolated values are data: they can neither move the cursor nor start a new line. */
export interface Printer {
  line(strings: TemplateStringsArray, ...values: Printable[]): void;
  text(strings: TemplateStringsArray, ...values: Printable[]): SafeText;
  bold(value: Printable): SafeText;
  dim(value: Printable): SafeText;
  red(value: Printable): SafeText;
  yellow(value: Printable): SafeText;
  green(value: Printable): SafeText;
  cyan(value: Printable): SafeText;
  readonly width: number;
  readonly linkOf?: LinkOf | undefined;
}

export function createPrinter(stream: TerminalStream, env: CommandIo["env"]): Printer {
  const isColoured = env["NO_COLOR"]
    ? false
    : Boolean(env["FORCE_COLOR"]) || (stream.isTTY === true && env["TERM"] !== "dumb");
  const paint = (code: number) => (value: Printable) =>
    new SafeText(isColoured ? `\x1b[${code}m${toSafeText(value)}\x1b[0m` : toSafeText(value));
  const join = (strings: TemplateStringsArray, values: Printable[]) => {
    let text = strings[0] ?? "";
    for (let index = 0; index < values.length; index++) text += toSafeText(values[index] ?? "") + strings[index + 1];
    return text;
  };
  return {
    line: (strings, ...values) => void stream.write(`${join(strings, values)}\n`),
    text: (strings, ...values) => new SafeText(join(strings, values)),
    bold: paint(1),
    dim: paint(2),
    red: paint(31),
    yellow: paint(33),
    green: paint(32),
    cyan: paint(36),
    width: stream.isTTY ? stream.columns || 80 : Number.POSITIVE_INFINITY,
    linkOf: stream.linkOf,
  };
}

/** Prints JSON with control characters escaped; the parsed value is the same. */
export function printJson(stream: TerminalStream, value: unknown): void {
  stream.write(`${escapeControls(JSON.stringify(value, createLinkReplacer(stream), 2))}\n`);
}

/** Prints a value as one line of JSON Lines. */
export function printJsonLine(stream: TerminalStream, value: unknown): void {
  stream.write(`${escapeControls(JSON.stringify(value, createLinkReplacer(stream)))}\n`);
}

/** Adds the link as `docs` to each problem: an object with a code, a message and a fix. */
function createLinkReplacer({ linkOf }: TerminalStream): ((key: string, value: unknown) => unknown) | undefined {
  if (!linkOf) return undefined;
  return (_, value) => {
    if (typeof value !== "object" || value === null || !("code" in value && "message" in value && "fix" in value))
      return value;
    const link = linkOf(String(value.code));
    return link === undefined ? value : { ...value, docs: link };
  };
}

function toSafeText(value: Printable): string {
  return value instanceof SafeText ? value.text : escapeLine(String(value));
}

function escapeControls(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udfff]/g,
    (found) =>
      [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** Prints a line, wrapped at the width of the terminal. */
export function printWrappedLine(out: Printer, text: string, paint?: (line: string) => SafeText): void {
  printHanging(out, "", [text], { indent: 2, start: 0, ...(paint ? { paint } : {}) });
}

/** Prints the first lines of a diff below a notice, escaped for the terminal. */
export function printDiffExcerpt(out: Printer, diff: unknown, max = 40): void {
  if (typeof diff !== "string") return;
  const lines = foldColumns(diff, out.width - 6);
  for (const line of lines.slice(0, max)) out.line`  ${out.dim("│")} ${line}`;
  if (lines.length > max) out.line`  ${out.dim("│")} ${out.dim(`… and ${lines.length - max} more lines`)}`;
}

/** A problem as it is printed. Advice has no code. */
export type PrintableProblem = Pick<Problem, "message"> & PrintableFix & { code?: string };
export type PrintableFix = Partial<Pick<Problem, "fix" | "commands">>;

/** Prints a problem: its message with its code, and the fix below it. `workspace` is the one that the user named with `-C`. */
export function printProblem(out: Printer, mark: SafeText, problem: PrintableProblem, workspace?: string): void {
  printHanging(out, out.text`${mark} `, [problem.message], { indent: 2, code: problem.code });
  printFix(out, problem, { workspace });
}

/** Prints a fix with its commands. Indented lines of the fix are printed unwrapped, to be copied. */
export function printFix(
  out: Printer,
  { fix = "", commands = [] }: PrintableFix,
  { indent = 2, workspace }: { indent?: number; workspace?: string | undefined } = {},
): void {
  const margin = " ".repeat(indent);
  const [first = "", ...more] = fix.split("\n");
  const lead = commands.length === 0 ? first : `${first || "run"}:`;
  if (lead !== "")
    printHanging(out, margin, [lead], { indent, commands: commands.map((one) => addWorkspaceOption(one, workspace)) });
  for (const line of more) {
    if (line.startsWith(" ")) out.line`${margin}${line}`;
    else printHanging(out, margin, [line], { indent });
  }
}

interface HangingOptions {
  /** The left margin of the lines. */
  indent: number;
  /** The width of the prefix of the first line, if it differs. */
  start?: number;
  /** Defaults to the width of the terminal. */
  width?: number;
  /** Command lines after the last line. They are never split, so that they can be copied. */
  commands?: readonly string[];
  /** The code of a problem, added as `[code]`. */
  code?: string | undefined;
  paint?(line: string): SafeText | string;
}

/** Prints lines with a hanging indent after a prefix. */
export function printHanging(
  out: Printer,
  before: SafeText | string,
  lines: readonly string[],
  how: HangingOptions,
): void {
  const { indent, start = indent, width = out.width, code, commands, paint = (line) => line } = how;
  const taken = "x".repeat(Math.max(0, start - indent));
  const [head = "", ...rest] = lines.filter((line) => line !== "");
  const all = [taken + head, ...rest];
  const [first = "", ...more] = all.flatMap((line, index) =>
    wrapText(line, width - indent, index === all.length - 1 ? commands : undefined),
  );
  const shown = code === undefined ? "" : `[${code}]`;
  const last = more.at(-1) ?? first;
  const isBelow = shown !== "" && last.length + 2 + shown.length > width - indent;
  const suffix = shown === "" || isBelow ? "" : out.text`  ${out.dim(shown)}`;
  out.line`${before}${paint(first.slice(taken.length))}${more.length === 0 ? suffix : ""}`;
  for (const [at, line] of more.entries())
    out.line`${" ".repeat(indent)}${paint(line)}${at === more.length - 1 ? suffix : ""}`;
  if (isBelow) out.line`${" ".repeat(indent)}${out.dim(shown)}`;
  const link = code === undefined ? undefined : out.linkOf?.(code);
  if (link !== undefined) out.line`${" ".repeat(indent)}${out.dim(link)}`;
}

/** Prints the triggers of one kind. A pattern is printed on its own line and never split, so that it can be copied. */
export function printTriggerRow(out: Printer, kind: string, values: readonly string[]): void {
  const isPattern = kind === "patterns";
  for (const [index, value] of (isPattern ? values : [values.join(", ")]).entries()) {
    const head = out.text`  ${out.dim((index === 0 ? kind : "").padEnd(9))} `;
    if (isPattern) out.line`${head}${value}`;
    else if (value !== "") printHanging(out, head, [value], { indent: 12 });
  }
}

interface PrintDiffOptions {
  /** The maximum number of lines. Defaults to all. */
  most?: number;
  /** The command that shows the other lines. */
  rest?: string;
}

/** Prints the lines of a diff in color. The rest of a line that is wider than the terminal follows after `>`, which begins no line of a diff. */
export function printDiff(out: Printer, lines: readonly string[], display: PrintDiffOptions = {}): void {
  const { most = Number.POSITIVE_INFINITY, rest = "" } = display;
  for (const line of lines.slice(0, most)) {
    const paint = line.startsWith("+") ? out.green : line.startsWith("-") ? out.red : out.dim;
    const [whole = "", isWider] = foldColumns(line, out.width - 5);
    const [first = "", ...rest] = isWider === undefined ? [whole] : foldColumns(line, out.width - 7);
    out.line`    ${paint(first)}`;
    for (const more of rest) out.line`    ${out.dim(">")} ${paint(more)}`;
  }
  const more = lines.length - most;
  if (more > 0) out.line`    ${out.dim(`… ${formatCount(more, "more line")}: ${rest}`)}`;
}

/** Prints the first lines of a text that is sent to a model. */
export function printTextExcerpt(out: Printer, title: string, text: string): void {
  if (text === "") return;
  out.line`\n${out.bold(title)} ~${estimateTokens(text)} tokens`;
  const lines = text.split("\n");
  for (const line of lines.slice(0, MAX_EXCERPT_LINES))
    for (const part of wrapText(line, out.width - 4)) out.line`  ${out.dim("│")} ${part}`;
  if (lines.length > MAX_EXCERPT_LINES)
    out.line`  ${out.dim(`│ … ${formatCount(lines.length - MAX_EXCERPT_LINES, "more line")}: --text prints all`)}`;
}

const MAX_EXCERPT_LINES = 24;

export function paintRunMark(out: Printer, { state, end }: Pick<RunSummary, "state" | "end">): SafeText {
  const [mark, colour] = RUN_STATE_STYLES[state === "ended" && end?.isError ? "corrupt" : state];
  return out[colour](mark);
}

export function paintRunState(
  out: Printer,
  run: Pick<RunSummary, "state" | "end">,
  text = formatRunState(run),
): SafeText {
  const [, colour] = RUN_STATE_STYLES[run.state === "ended" && run.end?.isError ? "corrupt" : run.state];
  return out[colour](text);
}

type RunColor = "green" | "red" | "yellow" | "cyan" | "dim";

const RUN_STATE_STYLES: Record<RunState, [mark: string, colour: RunColor]> = {
  running: ["▸", "cyan"],
  interrupted: ["!", "yellow"],
  waiting: ["?", "yellow"],
  answered: ["?", "cyan"],
  ended: ["✓", "green"],
  cancelled: ["·", "dim"],
  corrupt: ["✗", "red"],
  queued: ["▹", "cyan"],
  stuck: ["✗", "red"],
};
