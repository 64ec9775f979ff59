import { hash, randomBytes } from "node:crypto";
import type { Problem } from "../../errors/problem.ts";
import type { RunEvent, SkillEvent } from "../../host/events.ts";
import type { Usage } from "../../skill/tool.ts";
import {
  createAttributes,
  createSpanExporter,
  type FetchFunction,
  type OtelEnvironment,
  type OtlpSpan,
} from "./otlp-exporter.ts";

/** Exports events of runs to an OpenTelemetry collector. */
export interface TraceExporter {
  /** A problem with the environment variables. */
  readonly problem: Problem | undefined;
  /** Records an event. Contract: never throws or blocks. */
  record(event: SkillEvent): void;
  /** Sends the remaining spans, and waits up to two seconds. Returns the problem, if any. */
  flush(): Promise<Problem | undefined>;
}

/** Creates an exporter from OpenTelemetry's environment variables; undefined without a collector, or if the parent process does not sample. */
export function createTraceExporter(
  env: OtelEnvironment,
  fetch: FetchFunction = globalThis.fetch,
): TraceExporter | undefined {
  const exporter = createSpanExporter(env, fetch);
  const caller = parseTraceParent(env["TRACEPARENT"]);
  if (!exporter || caller?.isSampled === false) return undefined;
  const spans = createSpanBuilder({ parent: caller, hasContent: CONTENT.test(env[CONTENT_SWITCH] ?? "") });
  const unsampled = new Set<string>();
  let waiting: OtlpSpan[] = [];
  const send = () => {
    const batch = waiting;
    waiting = [];
    for (let at = 0; at < batch.length; at += BATCH) exporter.send(batch.slice(at, at + BATCH));
  };
  return {
    problem: exporter.problem,
    record(event) {
      if (!("run" in event)) return;
      if (event.type === "run-started" && parseTraceParent(event.traceParent)?.isSampled === false)
        unsampled.add(event.run);
      if (unsampled.size > 0 && isUnsampled(unsampled, event)) return;
      try {
        const { ended, isOver } = spans.record(event);
        waiting.push(...ended);
        if (isOver || waiting.length >= BATCH) send();
      } catch {
        // An event that cannot be exported is dropped; the run continues.
      }
    },
    flush() {
      waiting.push(...spans.end(new Date()));
      send();
      return exporter.flush(MAX_FLUSH_MS);
    },
  };
}

/** Returns true for an event of a run whose caller does not sample it, or of a run inside it. */
function isUnsampled(unsampled: Set<string>, { run, type, ...event }: RunEvent): boolean {
  const parent = "parent" in event ? event.parent : undefined;
  if (parent !== undefined && unsampled.has(parent)) unsampled.add(run);
  const is = unsampled.has(run);
  if (type === "run-ended" || type === "run-refused") unsampled.delete(run);
  return is;
}

const BATCH = 512;
const MAX_FLUSH_MS = 2000;
const CONTENT_SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const CONTENT = /^(?:true|span_only|span_and_event)$/i;

/** Parses `00-<trace>-<span>-<flags>`: the parent span of this process, or of a run. */
function parseTraceParent(text = ""): { traceId: string; spanId: string; isSampled: boolean } | undefined {
  const written = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(text.trim());
  const [, traceId = "", spanId = "", flags = ""] = written ?? [];
  if (!/[^0]/.test(traceId) || !/[^0]/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

interface SpanOptions {
  /** The parent span of all runs, from the parent process. */
  parent?: { traceId: string; spanId: string } | undefined;
  /** True to include message texts and tool inputs. */
  hasContent: boolean;
}

/** Builds spans from events of runs, with the semantic conventions for generative AI. */
interface SpanBuilder {
  /** Returns the spans that ended, and whether a top-level run ended. */
  record(event: RunEvent): { ended: OtlpSpan[]; isOver: boolean };
  /** Ends all open spans. */
  end(at: Date): OtlpSpan[];
}

/** Kinds of spans: internal, and calls to another service. */
const [INTERNAL, CLIENT] = [1, 3];
const FAILED = 2;

interface OpenRun {
  span: OtlpSpan;
  /** The parent run, if known. */
  parent: OpenRun | undefined;
  model: ModelNames;
  /** The calls in progress. A call that starts a run is the parent of the run. */
  calls: { step: number; call: number | undefined; tool: string; span: OtlpSpan }[];
  said: Map<number, string>;
}

type ModelNames = { "gen_ai.provider.name"?: string; "gen_ai.request.model"?: string };
type EventOf<Type extends RunEvent["type"]> = Extract<RunEvent, { type: Type }>;

function createSpanBuilder({ parent, hasContent }: SpanOptions): SpanBuilder {
  const runs = new Map<string, OpenRun>();

  const begin = (event: RunEvent, parentRun: OpenRun | undefined, names: ModelNames = {}): OpenRun => {
    const { run, skill, at } = event;
    const written = event.type === "run-started" ? event.traceParent : undefined;
    const outer = parentRun?.calls.at(-1)?.span ?? parentRun?.span ?? parseTraceParent(written) ?? parent;
    const span = createSpan(skill === "" ? "invoke_agent" : `invoke_agent ${skill}`, INTERNAL, at, outer);
    // Without a parent the trace is derived from the run: a process that resumes it adds to the same one.
    if (!outer) span.traceId = hash("sha256", `skillet ${run}`).slice(0, 32);
    addAttributes(span, {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": skill === "" ? undefined : skill,
      ...names,
      "skillet.run": run,
    });
    const opened = { span, parent: parentRun, model: names, calls: [], said: new Map() };
    runs.set(run, opened);
    return opened;
  };

  // A resumed run started in another process, which exported its start.
  const runOf = (event: RunEvent): OpenRun => runs.get(event.run) ?? begin(event, findParentRun(runs, event.run));

  let isOver = false;
  const finish = (run: string, { span, calls, parent: parentRun }: OpenRun, at: string): OtlpSpan[] => {
    runs.delete(run);
    isOver = parentRun === undefined;
    return [...calls.reverse().map((call) => call.span), span].map((one) => endSpan(one, at));
  };

  const takers: { [Type in RunEvent["type"]]?: (event: EventOf<Type>) => OtlpSpan[] } = {
    "run-started": (event) => {
      const { source, model, depth } = event;
      const parentRun = event.parent === undefined ? undefined : runs.get(event.parent);
      const { span } = begin(event, parentRun, parseModelName(model));
      const user = { "user.id": event.caller?.userId, "skillet.tenant": event.caller?.tenant };
      addAttributes(span, { "skillet.source": source, "skillet.depth": depth, ...user });
      return [];
    },
    "run-refused": (event) => {
      const parentRun = event.parent === undefined ? undefined : runs.get(event.parent);
      const opened = runs.get(event.run) ?? begin(event, parentRun);
      const user = { "user.id": event.caller?.userId, "skillet.tenant": event.caller?.tenant };
      addAttributes(opened.span, { "skillet.stop": "refused", ...user });
      markFailed(opened.span, event.refusals[0]?.code ?? "refused");
      return finish(event.run, opened, event.at);
    },
    "run-warned": (event) => addSpanEvent(runOf(event), event, { "skillet.code": event.code }),
    "model-retried": (event) => addSpanEvent(runOf(event), event, { "skillet.step": event.step }),
    "approval-requested": (event) => addSpanEvent(runOf(event), event, { "gen_ai.tool.name": event.tool }),
    "approval-decided": (event) =>
      addSpanEvent(runOf(event), event, { "gen_ai.tool.name": event.tool, "skillet.approved": event.isApproved }),
    "text-generated": (event) => {
      const { said } = runOf(event);
      if (hasContent) said.set(event.step, (said.get(event.step) ?? "") + event.text);
      return [];
    },
    "step-ended": (event) => {
      const { span: runSpan, model, said } = runOf(event);
      const name = model["gen_ai.request.model"];
      const span = createSpan(
        name === undefined ? "chat" : `chat ${name}`,
        CLIENT,
        computeSpanStart(event, runSpan),
        runSpan,
      );
      const text = said.get(event.step);
      said.delete(event.step);
      addAttributes(span, {
        "gen_ai.operation.name": "chat",
        ...model,
        ...createUsageAttributes(event.usage),
        "gen_ai.output.messages": text === undefined ? undefined : formatMessages(text, event.calls),
        "skillet.step": event.step,
        "skillet.cost.usd": event.cost === undefined ? undefined : { double: event.cost },
      });
      return [endSpan(span, event.at)];
    },
    "tool-called": (event) => {
      const { span, calls } = runOf(event);
      calls.push({ step: event.step, call: event.call, tool: event.tool, span: createToolSpan(event, span) });
      if (hasContent) addAttributes(calls.at(-1)?.span, { "gen_ai.tool.call.arguments": JSON.stringify(event.input) });
      return [];
    },
    "tool-blocked": (event) => {
      const span = createToolSpan(event, runOf(event).span);
      markFailed(span, event.code || "blocked");
      return [endSpan(span, event.at)];
    },
    "tool-ended": (event) => {
      const { calls } = runOf(event);
      const at = calls.findLastIndex(
        ({ step, call, tool }) => step === event.step && call === event.call && tool === event.tool,
      );
      const [call] = at === -1 ? [] : calls.splice(at, 1);
      const { span: runSpan } = runOf(event);
      const span = call?.span ?? createToolSpan({ ...event, at: computeSpanStart(event, runSpan) }, runSpan);
      addAttributes(span, { "skillet.characters": event.characters });
      if (event.isError) markFailed(span, event.code ?? "failed");
      return [endSpan(span, event.at)];
    },
    "capability-called": (event) => {
      const { span: runSpan } = runOf(event);
      const name = `capability ${event.capability} ${event.operation}`;
      const span = createSpan(name, CLIENT, computeSpanStart(event, runSpan), runSpan);
      if (event.outcome !== "ok") markFailed(span, event.outcome);
      return [endSpan(span, event.at)];
    },
    "run-ended": (event) => {
      const opened = runOf(event);
      const { stop, isError, iterations, usage, cost } = event;
      addAttributes(opened.span, {
        ...createUsageAttributes(usage),
        "skillet.stop": stop,
        "skillet.iterations": iterations,
        "skillet.cost.usd": cost === undefined ? undefined : { double: cost },
      });
      if (isError) markFailed(opened.span, stop);
      return finish(event.run, opened, event.at);
    },
  };

  return {
    record(event) {
      const taker = takers[event.type] as ((event: RunEvent) => OtlpSpan[]) | undefined;
      isOver = false;
      return { ended: taker?.(event) ?? [], isOver };
    },
    end: (at) => [...runs].reverse().flatMap(([run, opened]) => finish(run, opened, at.toISOString())),
  };
}

/** Finds the parent run: the id of a nested run starts with that of its parent and a dot. */
function findParentRun(runs: ReadonlyMap<string, OpenRun>, run: string): OpenRun | undefined {
  for (let name = run; name.includes("."); ) {
    name = name.slice(0, name.lastIndexOf("."));
    const candidate = runs.get(name);
    if (candidate) return candidate;
  }
  return undefined;
}

/** Returns the start of something that just ended: not before its parent, because times are rounded. */
function computeSpanStart({ at, ms }: { at: string; ms: number }, parent: OtlpSpan): string {
  const earliest = Number(BigInt(parent.startTimeUnixNano) / 1_000_000n);
  return new Date(Math.max(Date.parse(at) - ms, earliest)).toISOString();
}

function createSpan(
  name: string,
  kind: number,
  at: string,
  parent: { traceId: string; spanId: string } | undefined,
): OtlpSpan {
  return {
    traceId: parent?.traceId ?? randomBytes(16).toString("hex"),
    spanId: randomBytes(8).toString("hex"),
    ...(parent ? { parentSpanId: parent.spanId } : {}),
    name,
    kind,
    startTimeUnixNano: formatNanoseconds(at),
    endTimeUnixNano: formatNanoseconds(at),
    attributes: [],
    events: [],
    status: {},
  };
}

function createToolSpan({ tool, step, at }: { tool: string; step: number; at: string }, parent: OtlpSpan): OtlpSpan {
  const span = createSpan(`execute_tool ${tool}`, INTERNAL, at, parent);
  addAttributes(span, {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": tool,
    "gen_ai.tool.type": "function",
    "skillet.step": step,
  });
  return span;
}

function addAttributes(span: OtlpSpan | undefined, values: Parameters<typeof createAttributes>[0]): void {
  span?.attributes.push(...createAttributes(values));
}

function addSpanEvent({ span }: OpenRun, event: RunEvent, values: Parameters<typeof createAttributes>[0]): OtlpSpan[] {
  span.events.push({
    timeUnixNano: formatNanoseconds(event.at),
    name: event.type,
    attributes: createAttributes(values),
  });
  return [];
}

function markFailed(span: OtlpSpan, type: string): void {
  addAttributes(span, { "error.type": type });
  span.status = { code: FAILED };
}

function endSpan(span: OtlpSpan, at: string): OtlpSpan {
  const end = formatNanoseconds(at);
  return { ...span, endTimeUnixNano: BigInt(end) < BigInt(span.startTimeUnixNano) ? span.startTimeUnixNano : end };
}

/** Formats as a string: the value exceeds the range of a number. */
function formatNanoseconds(at: string): string {
  return `${Date.parse(at)}000000`;
}

/** Parses `anthropic/claude-…` into provider and model. A model of the embedding program has no such name. */
function parseModelName(model: string): ModelNames {
  const at = model.indexOf("/");
  const [provider, name] = at === -1 ? ["custom", model] : [model.slice(0, at), model.slice(at + 1)];
  return { "gen_ai.provider.name": provider, "gen_ai.request.model": name };
}

function createUsageAttributes({ inputTokens, outputTokens, cachedTokens }: Usage) {
  return {
    "gen_ai.usage.input_tokens": inputTokens,
    "gen_ai.usage.output_tokens": outputTokens,
    "gen_ai.usage.cache_read.input_tokens": cachedTokens === 0 ? undefined : cachedTokens,
  };
}

function formatMessages(text: string, calls: number): string {
  const finish = calls > 0 ? "tool_call" : "stop";
  return JSON.stringify([{ role: "assistant", parts: [{ type: "text", content: text }], finish_reason: finish }]);
}
