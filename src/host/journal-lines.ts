import type { Approval, Effect } from "./approvals.ts";
import type { Caller } from "./caller.ts";
import type { RunEvent, Stop } from "./events.ts";
import { isLine } from "./journal-shape.ts";
import type { Message, Usage } from "./models.ts";

/** What a run's journal holds, a line each. No value of a secret is in any of it. */
export type JournalLine = { /** When, as ISO 8601 writes it. */ at: string } & (
  | RunHead
  /** All that it was asked for, and what was said before it. */
  | { type: "request"; request: Readonly<Record<string, unknown>>; messages?: readonly Message[] }
  /** A process took it up. */
  | { type: "opened"; pid: number }
  | { type: "event"; event: RunEvent }
  | { type: "step"; name: string; value?: unknown }
  | { type: "ask"; name: string; effect: Effect }
  /** The word, and what it was given on. */
  | ({ type: "answer"; name: string; effect?: Effect } & Approval)
  | { type: "cancel" }
  | { type: "result"; result: Readonly<Record<string, unknown>> }
  | RunTail
);

/** The first line. */
export interface RunHead {
  type: "run";
  version: 1;
  id: string;
  /** `use`: a skill was used. `chat`: something was said to an agent. */
  kind: "use" | "chat";
  /** Empty in a chat. */
  skill: string;
  /** What was to be done, in a line. */
  task: string;
  workspace?: string;
  caller?: Caller;
}

/** The last line of a run that ended. */
export interface RunTail {
  type: "end";
  stop: Stop;
  isError: boolean;
  iterations: number;
  ms: number;
  usage: Usage;
  cost?: number;
  model?: string;
}

/** A line with what tells whether it is whole. */
export function writeLine(line: JournalLine): string {
  const json = JSON.stringify(line);
  return `${json.slice(0, -1)},"crc":"${sumOf(json)}"}\n`;
}

/** Nothing when it is not what was written. */
export function readLine(text: string): JournalLine | undefined {
  const [end, sum] = /,"crc":"([0-9a-f]{8})"\}$/.exec(text) ?? [];
  if (end === undefined) return undefined;
  const json = `${text.slice(0, -end.length)}}`;
  if (sumOf(json) !== sum) return undefined;
  try {
    const line: unknown = JSON.parse(json);
    return isLine(line) ? line : undefined;
  } catch {
    return undefined; // Whoever made the sum, made it of this.
  }
}

function sumOf(text: string): string {
  const { crc32 } = process.getBuiltinModule("node:zlib");
  return crc32(text).toString(16).padStart(8, "0");
}

export interface JournalText {
  lines: readonly JournalLine[];
  /** The numbers of lines that are not what was written. */
  corrupt: readonly number[];
  /** How many bytes of it are whole lines: what follows was being written when the program died. */
  whole: number;
  /** Whether all that is missing of the last line is its end. */
  lacksEnd: boolean;
}

export function readJournal(bytes: Buffer): JournalText {
  const end = bytes.lastIndexOf(0x0a) + 1;
  const texts = bytes.subarray(0, end).toString().split("\n").slice(0, -1);
  const rest = end < bytes.length ? readLine(bytes.subarray(end).toString()) : undefined;
  const read = texts.map(readLine);
  return {
    lines: [...read.filter((line) => line !== undefined), ...(rest ? [rest] : [])],
    corrupt: read.flatMap((line, index) => (line === undefined ? [index + 1] : [])),
    whole: rest ? bytes.length : end,
    lacksEnd: rest !== undefined,
  };
}
