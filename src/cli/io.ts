import type { Readable, Writable } from "node:stream";
import { SkillError } from "../shared/error.ts";
import { reveal } from "../shared/hidden.ts";

export interface Stream {
  write(text: string): unknown;
  /** Whether whoever read it has gone. */
  readonly isClosed?: boolean;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
}

/** Everything the command line touches, so that it can be called as a function. */
export interface Io {
  stdout: Stream;
  stderr: Stream;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Asks whoever sits at the terminal. Nothing where they give no answer: at Ctrl-D, Ctrl-C and the signal. Not there where nobody sits. */
  ask?(question: string, signal?: AbortSignal): Promise<string | undefined>;
  /** The same, and what is typed is not shown. */
  askHidden?(question: string): Promise<string>;
  /** Opens a dialogue with whoever sits at the terminal. Not there where nobody does. */
  dialogue?(complete: Complete): Dialogue;
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
export interface Dialogue {
  /** A line, or a text that was pasted; what was typed ahead comes first. Nothing when whoever sits there is done. */
  read(prompt: string): Promise<string | Interrupted | undefined>;
  /** The answer to a question, until the signal. Nothing that was typed before it was asked is one. Nothing where none is given. */
  ask(question: string, signal?: AbortSignal): Promise<string | undefined>;
  close(): void;
}

/** What the last word of a line can be, given the line up to the cursor. */
export type Complete = (line: string) => readonly string[];

/** Ctrl-C in place of a line. */
export const INTERRUPTED = Symbol("interrupted");
export type Interrupted = typeof INTERRUPTED;

/** Whether whoever sits at the terminal says yes. Where nobody does, nobody has. */
export async function isAgreed(io: Io, question: string): Promise<boolean> {
  const answer = (await io.ask?.(`${question} [y/N] `)) ?? "";
  return /^y(?:es)?$/i.test(answer.trim());
}

/** Ends with the command's interruption: Ctrl-C, or a reader that has enough. */
export function interruption(io: Io): AbortSignal {
  const controller = new AbortController();
  io.interrupted?.().then(() => controller.abort());
  return controller.signal;
}

/** Work that Ctrl-C ends, without ending the program. */
export async function interruptible<T>(io: Io, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
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
export function untilInterrupted<T>(io: Io, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return interruptible(io, async (signal) => {
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
class Safe {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type { Safe };

type Shown = string | number | Safe;

/** Writes lines. What is interpolated is data: it can neither move the cursor nor start a line of its own. */
export interface Printer {
  line(strings: TemplateStringsArray, ...values: Shown[]): void;
  text(strings: TemplateStringsArray, ...values: Shown[]): Safe;
  bold(value: Shown): Safe;
  dim(value: Shown): Safe;
  red(value: Shown): Safe;
  yellow(value: Shown): Safe;
  green(value: Shown): Safe;
  cyan(value: Shown): Safe;
  readonly width: number;
}

export function printer(stream: Stream, env: Io["env"]): Printer {
  const isColoured = env["NO_COLOR"]
    ? false
    : Boolean(env["FORCE_COLOR"]) || (stream.isTTY === true && env["TERM"] !== "dumb");
  const paint = (code: number) => (value: Shown) =>
    new Safe(isColoured ? `\x1b[${code}m${safe(value)}\x1b[0m` : safe(value));
  const join = (strings: TemplateStringsArray, values: Shown[]) => {
    let text = strings[0] ?? "";
    for (let index = 0; index < values.length; index++) text += safe(values[index] ?? "") + strings[index + 1];
    return text;
  };
  return {
    line: (strings, ...values) => void stream.write(`${join(strings, values)}\n`),
    text: (strings, ...values) => new Safe(join(strings, values)),
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
export function printJson(stream: Stream, value: unknown): void {
  stream.write(`${asciiControls(JSON.stringify(value, null, 2))}\n`);
}

/** JSON for a stream of lines. */
export function printJsonLine(stream: Stream, value: unknown): void {
  stream.write(`${asciiControls(JSON.stringify(value))}\n`);
}

function safe(value: Shown): string {
  return value instanceof Safe ? value.text : reveal(String(value));
}

function asciiControls(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udfff]/g,
    (found) =>
      [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}
