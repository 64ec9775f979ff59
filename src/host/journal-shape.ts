import { isData } from "../skill/data.ts";
import { STOPS } from "./events.ts";
import type { JournalLine } from "./journal-lines.ts";

/** Whether it can be a line: a sum says that nothing was lost on the way, and not who wrote it. What nobody looks at may be anything. */
export function isLine(value: unknown): value is JournalLine {
  if (!isData(value) || typeof value["at"] !== "string" || !Number.isFinite(Date.parse(value["at"]))) return false;
  return fits(LINES, value);
}

type Is = (value: unknown) => boolean;
type Shapes = Readonly<Record<string, Readonly<Record<string, Is>>>>;

const text: Is = (value) => typeof value === "string";
const flag: Is = (value) => typeof value === "boolean";
/** JSON has no numbers but ordinary ones: what was none is nothing. */
const number: Is = (value) => typeof value === "number" || value === null;
const data: Is = isData;
const list: Is = Array.isArray;
const perhaps =
  (is: Is): Is =>
  (value) =>
    value === undefined || is(value);
const oneOf =
  (...values: readonly unknown[]): Is =>
  (value) =>
    values.includes(value);
const of =
  (shape: Readonly<Record<string, Is>>): Is =>
  (value) =>
    isData(value) && Object.entries(shape).every(([key, is]) => is(value[key]));

const usage = of({ inputTokens: number, outputTokens: number, cachedTokens: number });
const effect = of({
  ...{ skill: text, source: text, place: text, tool: text, what: text, reason: text },
  ...{ on: oneOf("workspace", "outside", "other"), where: perhaps(text), amount: perhaps(text) },
  from: perhaps((value) => Array.isArray(value) && value.every(text)),
});
/** As deep as anything is shown. */
const depth: Is = (value) => typeof value === "number" && value >= 0 && value <= 1000;

const EVENTS: Shapes = {
  "run-started": { model: text, depth },
  "run-warned": { message: text, fix: perhaps(text) },
  "run-refused": { refusals: (value) => Array.isArray(value) && value.every(of({ message: text })) },
  "packages-built": { text },
  "model-retried": { reason: text },
  "step-ended": { ms: number, usage },
  "tool-called": { tool: text },
  "tool-blocked": { tool: text, message: text },
  "tool-ended": { tool: text, ms: number, code: perhaps(text) },
  "capability-called": { capability: text, operation: text, outcome: text, ms: number },
  "approval-asked": { tool: text, effect },
  "approval-given": { tool: text, reason: perhaps(text) },
  "run-ended": { stop: text, ms: number },
};

const EVENT = of({ type: text, run: text, skill: text, at: text });

const LINES: Shapes = {
  run: {
    id: text,
    kind: oneOf("use", "chat"),
    skill: text,
    task: text,
    workspace: perhaps(text),
    caller: perhaps(data),
  },
  request: { request: data, messages: perhaps(list) },
  opened: { pid: number },
  event: { event: (value) => EVENT(value) && fits(EVENTS, value) },
  step: { name: text },
  ask: { name: text, effect },
  answer: { name: text, isApproved: flag, reason: perhaps(text) },
  result: { result: data },
  end: { stop: oneOf(...STOPS), isError: flag, iterations: number, ms: number, usage, model: perhaps(text) },
};

/** What has a type that is not known here is passed over by whoever reads it. */
function fits(shapes: Shapes, value: unknown): boolean {
  const type = (value as { type?: unknown }).type;
  if (typeof type !== "string") return false;
  return !Object.hasOwn(shapes, type) || of(shapes[type] ?? {})(value);
}
