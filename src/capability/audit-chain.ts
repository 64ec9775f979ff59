import { hash } from "node:crypto";
import type { AuditEntry, AuditLine } from "../host/capabilities.ts";
import { byText } from "../shared/text.ts";
import { isData } from "../skill/data.ts";

/** What the first line is tied to. */
export const GENESIS = "0".repeat(64);

/** In characters, of each text in a line. */
const LONGEST_TEXT = 300;

/** All that a line says of what happened. What else an entry has is left out: nothing comes into the log by accident. */
const FIELDS: Record<keyof AuditEntry, "string" | "number"> = {
  run: "string",
  skill: "string",
  source: "string",
  user: "string",
  chat: "string",
  method: "string",
  capability: "string",
  operation: "string",
  account: "string",
  outcome: "string",
  input: "string",
  approval: "string",
  removed: "number",
  ms: "number",
  count: "number",
};

/** The last line that was written, as `audit.head` has it: so that a log whose end was cut off is known from a whole one. */
export interface AuditHead {
  seq: number;
  hash: string;
}

/** A line of a file; without its text when that is longer than any line of ours. */
export interface WrittenLine {
  number: number;
  text: string | undefined;
}

/** All at one moment: lines that are added meanwhile are not looked at. */
export interface Snapshot {
  lines: Iterable<WrittenLine>;
  isThere: boolean;
  /** `undefined`: there is none. `"unreadable"`: it is none. */
  head: AuditHead | "unreadable" | undefined;
}

/** The same text for the same value: keys in order, nothing in between, and ASCII alone, so that no terminal shows another line than there is. */
export function canonical(value: unknown): string {
  return written(value).replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The next line, tied to the one before. */
export function chained(entry: AuditEntry, at: string, before: { seq: number; hash: string }): AuditLine {
  const line = { ...bounded(entry), seq: before.seq + 1, at, prev: before.hash };
  return { ...line, hash: hashOf(line) };
}

/** What the hash of a line must be. */
export function hashOf({ hash: _, ...line }: Partial<AuditLine>): string {
  return hash("sha256", canonical(line));
}

/** A line of the log as it was written, or nothing when it is none. */
export function lineFrom(text: string): AuditLine | undefined {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isData(line)) return undefined;
  const { seq, at, prev, hash: own } = line;
  const isLine = Number.isSafeInteger(seq) && Number(seq) > 0 && [at, prev, own].every(isText);
  return isLine && ["run", "skill", "source", "method", "outcome"].every((name) => isText(line[name]))
    ? (line as unknown as AuditLine)
    : undefined;
}

function bounded(entry: AuditEntry): AuditEntry {
  const kept = Object.entries(FIELDS).flatMap(([name, type]) => {
    const value = entry[name as keyof AuditEntry];
    if (typeof value !== type || (type === "number" && !Number.isFinite(value))) return [];
    return [[name, typeof value === "string" ? shortened(value) : value]];
  });
  return Object.fromEntries(kept);
}

function shortened(text: string): string {
  return text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT - 1)}…`;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function written(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => written(item ?? null)).join(",")}]`;
  if (!isData(value)) return JSON.stringify(value) ?? "null";
  const parts = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort(byText)
    .map((key) => `${JSON.stringify(key)}:${written(value[key])}`);
  return `{${parts.join(",")}}`;
}
