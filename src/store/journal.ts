import { renameFormerFields, toNewName } from "../errors/renamed-names.ts";
import type { Caller } from "../host/approval.ts";
import { type Approval, type ApprovalRequest, parseApproval } from "../host/approval.ts";
import { type RunEvent, STOP_REASONS, type StopReason } from "../host/events.ts";
import type { Message } from "../host/model-contract.ts";
import type { Usage } from "../skill/tool.ts";
import type { Lease } from "../util/async.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { createLeaseLostError } from "./run-rules.ts";

/**
 * The append-only journal of a run. Contract: lines are written in the order of the calls, also when a call does not wait for the one
 * before it.
 */
export interface Journal {
  readonly id: string;
  readonly head: RunHeader;
  /** The lines that existed when it was opened. */
  readonly lines: readonly JournalLine[];
  /** The time that processes spent on the run before. */
  readonly elapsedMs: number;
  /** Returns the result of a step, or undefined if the step is not done. */
  getStep(name: string): { value: unknown } | undefined;
  getAnswer(name: string): ApprovalAnswer | undefined;
  /**
   * Records the result of a step, and returns it as it will be read back.
   * Contract: it is stored when this resolves. Throws a SkillError when it cannot be written, and then nothing of
   * it is.
   */
  step(name: string, value: unknown): Promise<unknown>;
  event(event: RunEvent): Promise<void>;
  ask(name: string, request: ApprovalRequest): Promise<void>;
  answer(name: string, approval: Approval, request: ApprovalRequest): Promise<void>;
  end(result: Readonly<Record<string, unknown>>, tail: Omit<RunEnd, "type">): Promise<void>;
  /** Returns true if the run was cancelled. From then on, `getAnswer` knows the answers that other processes gave until now. */
  isCancelled(): Promise<boolean>;
  /** The lease of the run, for drivers whose lease may end while its owner lives. */
  readonly lease?: Lease;
  close(): Promise<void>;
}

/** An approval decision, and the request it was made for. */
interface ApprovalAnswer {
  approval: Approval;
  approvalRequest?: ApprovalRequest;
}

/** The storage of an open journal: the part that each driver of runs implements. */
export interface JournalLog {
  /** Appends all of the line, or nothing. `isKept`: it is on the disk when this resolves. Throws a SkillError if the lease was lost. */
  append(line: JournalLine, isKept: boolean): Promise<void>;
  /** Returns the lines that were added since the last call, also those of this journal, and renews the lease. */
  readAdded(): Promise<readonly JournalLine[]>;
  /** For drivers whose lease may end while its owner lives. */
  readonly lease?: Lease;
  /** Ends the lease, so that other processes can resume the run. */
  close(): Promise<void>;
}

interface OpenedJournal {
  head: RunHeader;
  /** The lines so far. */
  lines: readonly JournalLine[];
  log: JournalLog;
}

/** Creates a journal over the storage of a driver, and records that it was opened. */
export async function createJournal({ head, lines, log }: OpenedJournal): Promise<Journal> {
  const steps = new Map<string, { value: unknown }>();
  const answers = new Map<string, ApprovalAnswer>();
  const state = { isCancelled: false, isClosed: false };
  const take = (line: JournalLine) => {
    if (line.type === "step") steps.set(line.name, { value: line.value });
    if (line.type === "answer")
      answers.set(line.name, {
        approval: parseApproval(line),
        ...omitUndefined({ approvalRequest: line.approvalRequest }),
      });
    if (line.type === "cancel") state.isCancelled = true;
  };
  for (const line of lines) take(line);
  // Another process may cancel the run or answer a request. It may do so between any two lines of this one.
  const look = async () => {
    for (const line of await log.readAdded()) take(line);
  };
  let last: Promise<unknown> = Promise.resolve();
  /** Keeps the order of the calls. A failed call does not prevent the next one. */
  const inOrder = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work);
    last = done.catch(() => {});
    return done;
  };
  const add = async (line: JournalLine, isKept: boolean): Promise<void> => {
    if (state.isClosed) return; // A late call: the run may belong to another process by now.
    return inOrder(async () => {
      await log.append(line, isKept);
      await look();
    });
  };
  const now = () => new Date().toISOString();
  const lease = log.lease && {
    isHeld: () => !state.isClosed && log.lease?.isHeld() === true,
    async renew() {
      if (state.isClosed) throw createLeaseLostError(head.id); // A late call of a run that is over here.
      await inOrder(async () => log.lease?.renew());
    },
  };
  await add({ type: "opened", at: now(), pid: process.pid }, false);
  return {
    id: head.id,
    head,
    lines,
    elapsedMs: sumElapsedMs(lines),
    getStep: (name) => steps.get(name),
    getAnswer: (name) => answers.get(name),
    async step(name, value) {
      await add({ type: "step", at: now(), name, value }, true);
      return steps.get(name)?.value;
    },
    event: (event) => add({ type: "event", at: now(), event }, false),
    ask: (name, request) => add({ type: "ask", at: now(), name, approvalRequest: request }, true),
    answer: (name, approval, request) =>
      add({ type: "answer", at: now(), name, ...approval, approvalRequest: request }, true),
    async end(result, tail) {
      await add({ type: "result", at: now(), result }, false);
      await add({ type: "end", at: now(), ...tail }, true);
    },
    async isCancelled() {
      if (!state.isCancelled && !state.isClosed) await inOrder(look);
      return state.isCancelled;
    },
    ...omitUndefined({ lease }),
    async close() {
      if (state.isClosed) return;
      state.isClosed = true;
      await inOrder(() => log.close());
    },
  };
}

/** Sums the time from each `opened` line to the last line before the next one. */
function sumElapsedMs(lines: readonly JournalLine[]): number {
  let elapsed = 0;
  let start: number | undefined;
  let last = 0;
  for (const { type, at } of lines) {
    if (type === "opened") {
      if (start !== undefined) elapsed += last - start;
      start = Date.parse(at);
    }
    if (type !== "answer" && type !== "cancel") last = Date.parse(at);
  }
  return Math.max(0, start === undefined ? 0 : elapsed + last - start);
}

/** The lines of a run's journal. None contains a secret value. */
export type JournalLine = { /** The time, in ISO 8601. */ at: string } & (
  | RunHeader
  /** The request of the run, and the messages before it. */
  | { type: "request"; request: Readonly<Record<string, unknown>>; messages?: readonly Message[] }
  /** A process started or resumed the run. */
  | { type: "opened"; pid: number }
  | { type: "event"; event: RunEvent }
  | { type: "step"; name: string; value?: unknown }
  | { type: "ask"; name: string; approvalRequest: ApprovalRequest }
  /** The approval decision, and the request it was made for. */
  | ({ type: "answer"; name: string; approvalRequest?: ApprovalRequest } & Approval)
  | { type: "cancel" }
  | { type: "result"; result: Readonly<Record<string, unknown>> }
  | RunEnd
);

/** The first line. */
export type RunKind = "use" | "chat" | "script";

export interface RunHeader {
  type: "run";
  version: 1;
  id: string;
  /** `use`: a skill was used. `chat`: a message was sent to an agent. `script`: a client of a server ran a script. */
  kind: RunKind;
  /** Empty in a chat. */
  skill: string;
  /** The task, in one line. */
  task: string;
  workspace?: string;
  caller?: Caller;
  /** The W3C trace context that the run belongs to, wherever it is resumed. */
  traceParent?: string;
}

/** The last line of a run that ended. */
export interface RunEnd {
  type: "end";
  stop: StopReason;
  isError: boolean;
  iterations: number;
  ms: number;
  usage: Usage;
  cost?: number;
  model?: string;
}

/** Formats a line with its checksum. */
export function formatJournalLine(line: JournalLine): string {
  const json = JSON.stringify(line);
  return `${json.slice(0, -1)},"crc":"${computeChecksum(json)}"}\n`;
}

/** Returns undefined for a corrupt line. */
export function parseJournalLine(text: string): JournalLine | undefined {
  const [end, sum] = /,"crc":"([0-9a-f]{8})"\}$/.exec(text) ?? [];
  if (end === undefined) return undefined;
  const json = `${text.slice(0, -end.length)}}`;
  if (computeChecksum(json) !== sum) return undefined;
  try {
    const line: unknown = readFormerNames(JSON.parse(json));
    return isJournalLine(line) ? line : undefined;
  } catch {
    return undefined; // The checksum is correct, but the text never was JSON.
  }
}

/**
 * Gives a line of 0.1.0 the names of today: its event type, stop reason, codes and the keys of its approval request. Contract: changes only fields that skillet fills, never
 * inputs and outputs of tools.
 */
function readFormerNames(line: unknown): unknown {
  if (!isJsonObject(line)) return line;
  const { type, event, result, value } = line;
  if (type === "end") readFormerOutcome(line);
  if (type === "result") readFormerOutcome(result);
  if (type === "step") readFormerOutcome(value);
  if (type === "ask" || type === "answer") readFormerRequest(line);
  if (type === "event" && isJsonObject(event)) {
    if (typeof event["type"] === "string") event["type"] = toNewName("event", event["type"]);
    if (event["type"] === "approval-requested") readFormerRequest(event);
    readFormerOutcome(event);
  }
  return line;
}

/** Replaces the former keys of a line with an approval request. */
function readFormerRequest(line: JsonObject): void {
  renameFormerFields(line);
  if (isJsonObject(line["approvalRequest"])) renameFormerFields(line["approvalRequest"]);
}

/** Replaces the former names in an outcome that was just parsed. */
function readFormerOutcome(outcome: unknown): void {
  if (!isJsonObject(outcome)) return;
  for (const [key, kind] of OUTCOME_NAMES) {
    const name = outcome[key];
    if (typeof name === "string") outcome[key] = toNewName(kind, name);
  }
  const { error, refusals, warnings, metadata } = outcome;
  for (const inner of [error, refusals, warnings, metadata].flat()) readFormerOutcome(inner);
}

const OUTCOME_NAMES = [
  ["stop", "stop"],
  ["code", "code"],
  ["outcome", "code"],
] as const;

function computeChecksum(text: string): string {
  const { crc32 } = process.getBuiltinModule("node:zlib");
  return crc32(text).toString(16).padStart(8, "0");
}

export interface ParsedJournal {
  lines: readonly JournalLine[];
  /** The numbers of corrupt lines. */
  corrupt: readonly number[];
  /** The number of bytes in whole lines: the rest was being written when the process died. */
  wholeBytes: number;
  /** True if the last line only lacks its newline. */
  lacksNewline: boolean;
}

export function parseJournal(bytes: Buffer): ParsedJournal {
  const end = bytes.lastIndexOf(0x0a) + 1;
  const texts = bytes.subarray(0, end).toString().split("\n").slice(0, -1);
  const rest = end < bytes.length ? parseJournalLine(bytes.subarray(end).toString()) : undefined;
  const read = texts.map(parseJournalLine);
  return {
    lines: [...read.filter((line) => line !== undefined), ...(rest ? [rest] : [])],
    corrupt: read.flatMap((line, index) => (line === undefined ? [index + 1] : [])),
    wholeBytes: rest ? bytes.length : end,
    lacksNewline: rest !== undefined,
  };
}

/**
 * Checks the shape of a line: a checksum shows that nothing was lost, not who wrote it. Fields that no code reads may
 * be anything.
 */
function isJournalLine(value: unknown): value is JournalLine {
  if (!isJsonObject(value) || typeof value["at"] !== "string" || !Number.isFinite(Date.parse(value["at"])))
    return false;
  return matchesShape(LINE_SHAPES, value);
}

type Predicate = (value: unknown) => boolean;
type ShapeTable = Readonly<Record<string, Readonly<Record<string, Predicate>>>>;

const isText: Predicate = (value) => typeof value === "string";
const isFlag: Predicate = (value) => typeof value === "boolean";
/** JSON has no NaN or Infinity: they are written as null. */
const isJsonNumber: Predicate = (value) => typeof value === "number" || value === null;
const isDataObject: Predicate = isJsonObject;
const isList: Predicate = Array.isArray;
const isOptional =
  (is: Predicate): Predicate =>
  (value) =>
    value === undefined || is(value);
const isOneOf =
  (...values: readonly unknown[]): Predicate =>
  (value) =>
    values.includes(value);
const hasShape =
  (shape: Readonly<Record<string, Predicate>>): Predicate =>
  (value) =>
    isJsonObject(value) && Object.entries(shape).every(([key, is]) => is(value[key]));

const isUsage = hasShape({ inputTokens: isJsonNumber, outputTokens: isJsonNumber, cachedTokens: isJsonNumber });
const isApprovalRequest = hasShape({
  ...{ skill: isText, source: isText, location: isText, tool: isText, what: isText, reason: isText },
  ...{ on: isOneOf("workspace", "outside", "other"), where: isOptional(isText), amount: isOptional(isText) },
  from: isOptional((value) => Array.isArray(value) && value.every(isText)),
});
/** The greatest depth that is shown. */
const isDepth: Predicate = (value) => typeof value === "number" && value >= 0 && value <= 1000;

const EVENT_SHAPES: ShapeTable = {
  "run-started": { model: isText, depth: isDepth },
  "run-warned": { message: isText, fix: isOptional(isText) },
  "run-refused": { refusals: (value) => Array.isArray(value) && value.every(hasShape({ message: isText })) },
  "packages-built": { text: isText },
  "model-retried": { reason: isText },
  "step-ended": { ms: isJsonNumber, usage: isUsage },
  "tool-called": { tool: isText },
  "tool-blocked": { tool: isText, message: isText },
  "tool-ended": { tool: isText, ms: isJsonNumber, code: isOptional(isText) },
  "capability-called": { capability: isText, operation: isText, outcome: isText, ms: isJsonNumber },
  "approval-requested": { tool: isText, approvalRequest: isApprovalRequest },
  "approval-decided": { tool: isText, reason: isOptional(isText) },
  "run-ended": { stop: isText, ms: isJsonNumber },
};

const isEventHeader = hasShape({ type: isText, run: isText, skill: isText, at: isText });

const LINE_SHAPES: ShapeTable = {
  run: {
    id: isText,
    kind: isOneOf("use", "chat", "script"),
    skill: isText,
    task: isText,
    workspace: isOptional(isText),
    caller: isOptional(isDataObject),
  },
  request: { request: isDataObject, messages: isOptional(isList) },
  opened: { pid: isJsonNumber },
  event: { event: (value) => isEventHeader(value) && matchesShape(EVENT_SHAPES, value) },
  step: { name: isText },
  ask: { name: isText, approvalRequest: isApprovalRequest },
  answer: { name: isText, isApproved: isFlag, reason: isOptional(isText) },
  result: { result: isDataObject },
  end: {
    stop: isOneOf(...STOP_REASONS),
    isError: isFlag,
    iterations: isJsonNumber,
    ms: isJsonNumber,
    usage: isUsage,
    model: isOptional(isText),
  },
};

/** Accepts unknown types: readers skip them. */
function matchesShape(shapes: ShapeTable, value: unknown): boolean {
  const type = (value as { type?: unknown }).type;
  if (typeof type !== "string") return false;
  return !Object.hasOwn(shapes, type) || hasShape(shapes[type] ?? {})(value);
}
