import { type Host, notifyHost } from "../../config/host.ts";
import { resolveReference } from "../../config/settings.ts";
import { type Problem, pickProblem } from "../../errors/problem.ts";
import type { SkillEvent } from "../../host/events.ts";
import type { Message } from "../../host/model-contract.ts";
import type { ToolResult } from "../../skill/tool.ts";
import type { Journal } from "../../store/journal.ts";
import type { NewRun } from "../../store/run-rules.ts";
import { createRedactor, MIN_SECRET_BYTES, type Redactor, type Secrets } from "../../util/redact.ts";
import { formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { collectModelSecrets } from "../models/resolve-model.ts";
import type { RunResult } from "./run-result.ts";

/**
 * Creates the redactor of every configured secret. Values of a skill have their own names. It is applied at four sinks: tool results
 * (`redactToolResult`), events (`createEventSink`), journals (`redactJournal`, `redactNewRun`) and final results (`redactRunResult`).
 * Elsewhere only text is redacted that is cut, or that a model or a program reads.
 */
export function createHostRedactor(host: Host, own: Secrets = NO_SECRETS): Redactor {
  return createRedactor(collectSecrets(own, host));
}

const NO_SECRETS: Secrets = new Map();

/** The sink for tool results. Removes secrets from every part. */
export function redactToolResult({ text, code, title, ...more }: ToolResult, redactor: Redactor): ToolResult {
  return {
    ...redactRecord(redactor, more),
    text: redactor.redact(String(text)),
    ...(code === undefined ? {} : { code: sanitizeLine(redactor.redact(String(code)), 64) }),
    ...(title === undefined ? {} : { title: sanitizeLine(redactor.redact(title), 200) }),
  };
}

/** The sink for events: listeners, statistics, traces and the iterator of a run read them. */
export function createEventSink<Event extends SkillEvent>(
  redactor: Redactor,
  host: Pick<Host, "onEvent" | "statistics">,
  pass: (event: Event) => void = () => {},
): (event: Event) => void {
  return (event) => {
    const redacted = redactRecord(redactor, event);
    pass(redacted);
    notifyHost(host, redacted);
  };
}

/** The sink for journals: everything that a run records. Keeps what a resumed run compares: the caller and the workspace. */
export function redactJournal(redactor: Redactor, journal: Journal): Journal {
  const redacted = <T>(value: T) => redactRecord(redactor, value);
  return {
    ...journal,
    step: (name, value) => journal.step(name, redacted(value)),
    event: (event) => journal.event(redacted(event)),
    ask: (name, request) => journal.ask(name, redacted(request)),
    answer: (name, approval, request) => journal.answer(name, redacted(approval), redacted(request)),
    end: (result, tail) => journal.end(redacted(result), tail),
  };
}

/** The start of a journal: its head and its request. */
export function redactNewRun(redactor: Redactor, { head, request, messages }: NewRun): NewRun {
  return {
    head: { ...head, task: sanitizeLine(redactor.redact(head.task), 200) },
    request: redactRecord(redactor, request),
    ...(messages ? { messages: redactMessages(redactor, messages) } : {}),
  };
}

/** Removes secrets from the messages of a conversation. */
export function redactMessages(redactor: Redactor, messages: readonly Message[]): Message[] {
  return messages.map((message) => redactRecord(redactor, message));
}

/** The sink for the result of a run: its answer, refusals, warnings and error. */
export function redactRunResult(redactor: Redactor, result: RunResult): RunResult {
  return redactRecord(redactor, result);
}

/** Fields that programs compare. A secret with such a value is not recognized in them. */
const COMPARED_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "at",
  "run",
  "parent",
  "stop",
  "caller",
  "on",
  "location",
  "role",
]);

/** Removes secrets from the fields of a record, whose own names stay. */
export function redactRecord<T>(redactor: Redactor, record: T): T {
  if (record === null || typeof record !== "object" || Array.isArray(record)) return redactData(redactor, record);
  const entries = Object.entries(record).map(([key, item]) => [
    key,
    COMPARED_FIELDS.has(key) ? item : redactData(redactor, item),
  ]);
  return Object.fromEntries(entries) as T;
}

/** Removes secrets from plain data at any depth. Data nested too deep is dropped. */
export function redactData<T>(redactor: Redactor, value: T, depth = 0): T {
  if (typeof value === "string") return redactor.redact(value) as T;
  if (value === null || typeof value !== "object") return value;
  if (depth === MAX_REDACTED_DEPTH) return undefined as T;
  if (Array.isArray(value)) return value.map((item) => redactData(redactor, item, depth + 1)) as T;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [redactor.redact(key), redactData(redactor, item, depth + 1)]),
  ) as T;
}

const MAX_REDACTED_DEPTH = 200;

/** Creates a function that removes secrets from problems. */
export function createProblemRedactor(redactor: Redactor): (notice: Problem) => Problem {
  return (problem) => redactData(redactor, pickProblem(problem));
}

/**
 * Collects every secret to redact: this skill's values under their own names, then all other configured values, and the
 * keys of models, servers and providers.
 */
function collectSecrets(own: Secrets, host: Host): Secrets {
  const secrets = new Map(own);
  const add = (name: string, value: string, longer: string) => {
    if (value === "" || [...secrets.values()].includes(value)) return;
    secrets.set(secrets.has(name) ? longer : name, value);
  };
  for (const [name, value] of collectModelSecrets(host)) add(name, value, `models.${name}`);
  for (const [skill, { variables }] of host.settings.skills) {
    for (const [name, written] of variables) add(name, resolveOrEmpty(written, host), `${skill}.${name}`);
  }
  const { apiKey } = host.settings.tools.webSearch ?? {};
  if (apiKey !== undefined) add("web_search.api_key", resolveOrEmpty(apiKey, host), "tools.web_search.api_key");
  for (const [server, { env, token }] of host.settings.mcp) {
    for (const [name, written] of env) add(name, resolveOrEmpty(written, host), `${server}.${name}`);
    if (token !== undefined) add(`${server}.token`, resolveOrEmpty(token, host), `tools.mcp.${server}.token`);
  }
  for (const [namespace, { env = new Map() }] of host.settings.providers) {
    for (const [name, written] of env) add(name, resolveOrEmpty(written, host), `${namespace}.${name}`);
  }
  return secrets;
}

/** Resolves a value, or returns an empty text: an unresolvable value cannot leak. */
function resolveOrEmpty(written: string, host: Host): string {
  try {
    return resolveReference(written, host, () => {
      throw new Error("unresolved");
    });
  } catch {
    return "";
  }
}

/** Warns about secrets that are too short to redact. */
export function warnShortSecrets(secrets: Secrets): Problem[] {
  const short = [...secrets].filter(([, value]) => Buffer.byteLength(value) < MIN_SECRET_BYTES).map(([name]) => name);
  if (short.length === 0) return [];
  return [
    {
      code: "secret-too-short",
      message: `${short.join(", ")} is too short to be redacted: it may appear in the output`,
      fix: `use a value of ${MIN_SECRET_BYTES} characters or more`,
    },
  ];
}

export function createLineRedactor(hide: (text: string) => string): (text: string) => string {
  return (text) => sanitizeLine(hide(text), 500);
}

const MAX_SHOWN_TEXT = 2000;

const MAX_SHOWN_DEPTH = 8;

const MAX_SHOWN_ITEMS = 100;

/** Returns the most telling field of an input, or undefined if it has none of the known fields. */
export function summarizeInput(input: unknown): string | undefined {
  const { command, path, url, skill } = Object(input) as Record<string, unknown>;
  return [command, path, url, skill].find((value) => typeof value === "string");
}

/** Shortens the input of a call for events and logs, without secrets. Omissions are marked. */
export function shortenInput(input: unknown, redactor: Redactor, depth = 0): unknown {
  if (typeof input === "string") {
    const text = redactor.redact(input);
    return text.length > MAX_SHOWN_TEXT
      ? `${text.slice(0, MAX_SHOWN_TEXT)}… (${formatNumber(text.length - MAX_SHOWN_TEXT)} more characters)`
      : text;
  }
  if (input === null || typeof input !== "object") {
    const text = redactor.redact(String(input));
    return text === String(input) ? input : text;
  }
  if (depth === MAX_SHOWN_DEPTH) return "…";
  if (Array.isArray(input)) {
    return [
      ...input.slice(0, MAX_SHOWN_ITEMS).map((item) => shortenInput(item, redactor, depth + 1)),
      ...formatOmitted(input),
    ];
  }
  const entries = Object.entries(input);
  return Object.fromEntries([
    ...entries
      .slice(0, MAX_SHOWN_ITEMS)
      .map(([key, value]) => [shortenInput(key, redactor), shortenInput(value, redactor, depth + 1)]),
    ...formatOmitted(entries).map((text) => ["…", text]),
  ]);
}

/** Returns the complete input of a call for approval: nothing is omitted, only secrets are replaced. */
export function redactInput(input: unknown, redactor: Redactor, depth = 0): unknown {
  if (typeof input === "string") return redactor.redact(input);
  if (input === null || typeof input !== "object") return shortenInput(input, redactor);
  if (depth === MAX_NESTED_INPUT) return redactor.redact(JSON.stringify(input));
  if (Array.isArray(input)) return input.map((item) => redactInput(item, redactor, depth + 1));
  const complete: Record<string, unknown> = Object.create(null); // A key may be called `__proto__`.
  for (const [key, value] of Object.entries(input)) {
    // Two keys may be equal once secrets are replaced: neither hides the other.
    const name = redactor.redact(key);
    let shownKey = name;
    for (let number = 2; shownKey in complete; number++) shownKey = `${name} (${number})`;
    complete[shownKey] = redactInput(value, redactor, depth + 1);
  }
  return complete;
}

/** Deeper data is shown as one JSON text. */
const MAX_NESTED_INPUT = 50;

/** Shortens each text in a value, so that one long text does not push the others out of view. */
export function shortenTexts(value: unknown, longest: number): unknown {
  if (typeof value === "string") {
    const text = value.slice(0, longest);
    return text === value ? value : `${text}… (${formatNumber(value.length - longest)} more characters)`;
  }
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item) => shortenTexts(item, longest));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortenTexts(item, longest)]));
}

function formatOmitted({ length }: readonly unknown[]): string[] {
  return length > MAX_SHOWN_ITEMS ? [`${formatNumber(length - MAX_SHOWN_ITEMS)} more`] : [];
}
