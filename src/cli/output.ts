import type { Readable, Writable } from "node:stream";
import { SkillError } from "../errors/problem.ts";
import type { RunState, RunSummary } from "../store/run-summary.ts";
import { estimateTokens, formatCount } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { foldColumns, formatRunState, wrapText } from "./format.ts";

export interface TerminalStream {
  write(text: string): unknown;
  /** Whether whoever read it has gone. */
  readonly isClosed?: boolean;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
}

/** Everything the command line touches, so that it can be called as a function. */
export interface CommandIo {
  stdout: TerminalStream;
  stderr: TerminalStream;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Asks whoever sits at the terminal. Nothing where they give no answer: at Ctrl-D, Ctrl-C and the signal. Not there where nobody sits. */
  ask?(question: string, signal?: AbortSignal): Promise<string | undefined>;
  /** The same, and what is typed is not shown. */
  askHidden?(question: string): Promise<string>;
  /** Opens a dialogue with whoever sits at the terminal. Not there where nobody does. */
  dialogue?(complete: LineCompleter): TerminalDialogue;
  /** All that is piped in. Not there where nothing is. With patience: nothing, when nothing comes for so long. */
  stdin?(patienceMs?: number): Promise<string | undefined>;
  /**
   * The streams themselves, for a protocol that is spoken on them. Not there where a terminal is. From then on whatever else is printed goes
   * to stderr, by whomever: a line on stdout that is none of the protocol's ends the conversation.
   */
  protocol?(): { input: Readable; output: Writable };
  /** Resolves when a command that would go on for ever is to end; or never, once nobody cares any more. */
  interrupted?(until?: AbortSignal): Promise<void>;
}

/** Lines from a terminal, one after the other. While none is waited for, what is typed is kept, and not shown. */
export interface TerminalDialogue {
  /** A line, or a text that was pasted; what was typed ahead comes first. Nothing when whoever sits there is done. */
  read(prompt: string): Promise<string | InterruptedLine | undefined>;
  /** The answer to a question, until the signal. Nothing that was typed before it was asked is one. Nothing where none is given. */
  ask(question: string, signal?: AbortSignal): Promise<string | undefined>;
  close(): void;
}

/** What the last word of a line can be, given the line up to the cursor. */
export type LineCompleter = (line: string) => readonly string[];

/** Ctrl-C in place of a line. */
export const INTERRUPTED_LINE = Symbol("interrupted");
export type InterruptedLine = typeof INTERRUPTED_LINE;

/** Whether whoever sits at the terminal says yes. Where nobody does, nobody has. */
export async function isConfirmed(io: CommandIo, question: string): Promise<boolean> {
  const answer = (await io.ask?.(`${question} [y/N] `)) ?? "";
  return /^y(?:es)?$/i.test(answer.trim());
}

/** Ends with the command's interruption: Ctrl-C, or a reader that has enough. */
export function createInterruptSignal(io: CommandIo): AbortSignal {
  const controller = new AbortController();
  io.interrupted?.().then(() => controller.abort());
  return controller.signal;
}

/** Work that Ctrl-C ends, without ending the program. */
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

/** The same, and the command ends with it: throws then, also where the work does not heed the signal. */
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

/** Text that has been made safe for a terminal, with the colours of ours that are in it. */
class SafeText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type { SafeText };

type Printable = string | number | SafeText;

/** Writes lines. What is interpolated is data: it can neither move the cursor nor start a line of its own. */
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
  };
}

/** JSON in which no character can act on a terminal; what it stands for is unchanged. */
export function printJson(stream: TerminalStream, value: unknown): void {
  stream.write(`${escapeControls(JSON.stringify(value, null, 2))}\n`);
}

/** JSON for a stream of lines. */
export function printJsonLine(stream: TerminalStream, value: unknown): void {
  stream.write(`${escapeControls(JSON.stringify(value))}\n`);
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

/** A line of ours, folded where their terminal ends. */
export function printWrappedLine(out: Printer, text: string, paint?: (line: string) => SafeText): void {
  printHanging(out, "", [text], { indent: 2, start: 0, ...(paint ? { paint } : {}) });
}

/** A diff below a notice, as far as it is short: nothing of it acts on the terminal. */
export function printDiffExcerpt(out: Printer, diff: string | undefined, most = 40): void {
  if (diff === undefined) return;
  const lines = foldColumns(diff, out.width - 6);
  for (const line of lines.slice(0, most)) out.line`  ${out.dim("│")} ${line}`;
  if (lines.length > most) out.line`  ${out.dim("│")} ${out.dim(`… and ${lines.length - most} more lines`)}`;
}

/** What, and on the lines below what to do. What is indented there is to be copied, and stays as it is. */
export function printProblem(out: Printer, mark: SafeText, message: string, fix: string): void {
  printHanging(out, out.text`${mark} `, [message], { indent: 2 });
  for (const line of fix === "" ? [] : fix.split("\n")) {
    const [step = ""] = /^\d+\. /.exec(line) ?? [];
    if (/^\s/.test(line)) out.line`  ${line}`;
    else printHanging(out, `  ${step}`, [line.slice(step.length)], { indent: 2 + step.length });
  }
}

interface HangingOptions {
  /** The columns below which the lines stand. */
  indent: number;
  /** Those of what stands before the first line, where they are others. */
  start?: number;
  /** The terminal's, when left out. */
  width?: number;
  paint?(line: string): SafeText | string;
}

/** Lines below one another, after what stands before the first. */
export function printHanging(
  out: Printer,
  before: SafeText | string,
  lines: readonly string[],
  how: HangingOptions,
): void {
  const { indent, start = indent, width = out.width, paint = (line) => line } = how;
  const taken = "x".repeat(Math.max(0, start - indent));
  const [head = "", ...rest] = lines.filter((line) => line !== "");
  const [first = "", ...more] = [taken + head, ...rest].flatMap((line) => wrapText(line, width - indent));
  out.line`${before}${paint(first.slice(taken.length))}`;
  for (const line of more) out.line`${" ".repeat(indent)}${paint(line)}`;
}

interface PrintDiffOptions {
  /** How many lines are shown at most. Defaults to all. */
  most?: number;
  /** What shows the others. */
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

/** Prints the first lines of a text that a model is told. */
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
};
