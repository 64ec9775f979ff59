import { randomBytes } from "node:crypto";
import type { RunEvent } from "./events.ts";
import type { Usage } from "./models.ts";
import { attributesOf, type Span } from "./otlp.ts";

export interface SpanOptions {
  /** What the runs belong to: that of who started the program. */
  parent?: { traceId: string; spanId: string } | undefined;
  /** Whether what was said, and what tools were called with, goes along. */
  hasContent: boolean;
}

/** Makes spans from what happens in runs, as the conventions for generative AI name them. */
export interface Spans {
  /** Gives what ended with it, and whether a run ended that no other is around. */
  take(event: RunEvent): { ended: Span[]; isOver: boolean };
  /** Ends what is still open. */
  end(at: Date): Span[];
}

/** Kinds of spans: within this program, and where it asks another. */
const [INTERNAL, CLIENT] = [1, 3];
const FAILED = 2;

interface OpenRun {
  span: Span;
  /** The run around it, where that is known. */
  parent: OpenRun | undefined;
  model: ModelNames;
  /** The calls that are under way; those of runs are around the runs. */
  calls: { step: number; tool: string; span: Span }[];
  said: Map<number, string>;
}

type ModelNames = { "gen_ai.provider.name"?: string; "gen_ai.request.model"?: string };
type Of<Type extends RunEvent["type"]> = Extract<RunEvent, { type: Type }>;

export function openSpans({ parent, hasContent }: SpanOptions): Spans {
  const runs = new Map<string, OpenRun>();

  const begin = (event: RunEvent, around: OpenRun | undefined, names: ModelNames = {}): OpenRun => {
    const { run, skill, at } = event;
    const within = around?.calls.at(-1)?.span ?? around?.span ?? parent;
    const span = newSpan(skill === "" ? "invoke_agent" : `invoke_agent ${skill}`, INTERNAL, at, within);
    add(span, {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": skill === "" ? undefined : skill,
      ...names,
      "skillet.run": run,
    });
    const opened = { span, parent: around, model: names, calls: [], said: new Map() };
    runs.set(run, opened);
    return opened;
  };

  // One that is gone on with began in another process, where its beginning was told.
  const runOf = (event: RunEvent): OpenRun => runs.get(event.run) ?? begin(event, aroundOf(runs, event.run));

  let isOver = false;
  const finish = (run: string, { span, calls, parent: around }: OpenRun, at: string): Span[] => {
    runs.delete(run);
    isOver = around === undefined;
    return [...calls.reverse().map((call) => call.span), span].map((one) => ended(one, at));
  };

  const takers: { [Type in RunEvent["type"]]?: (event: Of<Type>) => Span[] } = {
    "run-started": (event) => {
      const { source, model, depth } = event;
      const around = event.parent === undefined ? undefined : runs.get(event.parent);
      const { span } = begin(event, around, namesOf(model));
      add(span, { "skillet.source": source, "skillet.depth": depth });
      return [];
    },
    "run-refused": (event) => {
      const around = event.parent === undefined ? undefined : runs.get(event.parent);
      const opened = runs.get(event.run) ?? begin(event, around);
      add(opened.span, { "skillet.stop": "refused" });
      fail(opened.span, event.refusals[0]?.code ?? "refused");
      return finish(event.run, opened, event.at);
    },
    "run-warned": (event) => happened(runOf(event), event, { "skillet.code": event.code }),
    "model-retried": (event) => happened(runOf(event), event, { "skillet.step": event.step }),
    "approval-asked": (event) => happened(runOf(event), event, { "gen_ai.tool.name": event.tool }),
    "approval-given": (event) =>
      happened(runOf(event), event, { "gen_ai.tool.name": event.tool, "skillet.approved": event.isApproved }),
    "text-said": (event) => {
      const { said } = runOf(event);
      if (hasContent) said.set(event.step, (said.get(event.step) ?? "") + event.text);
      return [];
    },
    "step-ended": (event) => {
      const { span: around, model, said } = runOf(event);
      const name = model["gen_ai.request.model"];
      const span = newSpan(name === undefined ? "chat" : `chat ${name}`, CLIENT, startOf(event, around), around);
      const text = said.get(event.step);
      said.delete(event.step);
      add(span, {
        "gen_ai.operation.name": "chat",
        ...model,
        ...usageOf(event.usage),
        "gen_ai.output.messages": text === undefined ? undefined : messagesOf(text, event.calls),
        "skillet.step": event.step,
        "skillet.cost.usd": event.cost === undefined ? undefined : { double: event.cost },
      });
      return [ended(span, event.at)];
    },
    "tool-called": (event) => {
      const { span, calls } = runOf(event);
      calls.push({ step: event.step, tool: event.tool, span: toolSpan(event, span) });
      if (hasContent) add(calls.at(-1)?.span, { "gen_ai.tool.call.arguments": JSON.stringify(event.input) });
      return [];
    },
    "tool-blocked": (event) => {
      const span = toolSpan(event, runOf(event).span);
      fail(span, event.code || "blocked");
      return [ended(span, event.at)];
    },
    "tool-ended": (event) => {
      const { calls } = runOf(event);
      const at = calls.findLastIndex(({ step, tool }) => step === event.step && tool === event.tool);
      const [call] = at === -1 ? [] : calls.splice(at, 1);
      const { span: around } = runOf(event);
      const span = call?.span ?? toolSpan({ ...event, at: startOf(event, around) }, around);
      add(span, { "skillet.characters": event.characters });
      if (event.isError) fail(span, event.code ?? "failed");
      return [ended(span, event.at)];
    },
    "capability-called": (event) => {
      const { span: around } = runOf(event);
      const name = `capability ${event.capability} ${event.operation}`;
      const span = newSpan(name, CLIENT, startOf(event, around), around);
      if (event.outcome !== "ok") fail(span, event.outcome);
      return [ended(span, event.at)];
    },
    "run-ended": (event) => {
      const opened = runOf(event);
      const { stop, isError, iterations, usage, cost } = event;
      add(opened.span, {
        ...usageOf(usage),
        "skillet.stop": stop,
        "skillet.iterations": iterations,
        "skillet.cost.usd": cost === undefined ? undefined : { double: cost },
      });
      if (isError) fail(opened.span, stop);
      return finish(event.run, opened, event.at);
    },
  };

  return {
    take(event) {
      const taker = takers[event.type] as ((event: RunEvent) => Span[]) | undefined;
      isOver = false;
      return { ended: taker?.(event) ?? [], isOver };
    },
    end: (at) => [...runs].reverse().flatMap(([run, opened]) => finish(run, opened, at.toISOString())),
  };
}

/** A run within a run has the name of that, and a dot. */
function aroundOf(runs: ReadonlyMap<string, OpenRun>, run: string): OpenRun | undefined {
  for (let name = run; name.includes("."); ) {
    name = name.slice(0, name.lastIndexOf("."));
    const around = runs.get(name);
    if (around) return around;
  }
  return undefined;
}

/** When something began that has just ended: not before what it is in, whose time is rounded. */
function startOf({ at, ms }: { at: string; ms: number }, around: Span): string {
  const earliest = Number(BigInt(around.startTimeUnixNano) / 1_000_000n);
  return new Date(Math.max(Date.parse(at) - ms, earliest)).toISOString();
}

function newSpan(
  name: string,
  kind: number,
  at: string,
  parent: { traceId: string; spanId: string } | undefined,
): Span {
  return {
    traceId: parent?.traceId ?? randomBytes(16).toString("hex"),
    spanId: randomBytes(8).toString("hex"),
    ...(parent ? { parentSpanId: parent.spanId } : {}),
    name,
    kind,
    startTimeUnixNano: nanoseconds(at),
    endTimeUnixNano: nanoseconds(at),
    attributes: [],
    events: [],
    status: {},
  };
}

function toolSpan({ tool, step, at }: { tool: string; step: number; at: string }, around: Span): Span {
  const span = newSpan(`execute_tool ${tool}`, INTERNAL, at, around);
  add(span, {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": tool,
    "gen_ai.tool.type": "function",
    "skillet.step": step,
  });
  return span;
}

function add(span: Span | undefined, values: Parameters<typeof attributesOf>[0]): void {
  span?.attributes.push(...attributesOf(values));
}

function happened({ span }: OpenRun, event: RunEvent, values: Parameters<typeof attributesOf>[0]): Span[] {
  span.events.push({ timeUnixNano: nanoseconds(event.at), name: event.type, attributes: attributesOf(values) });
  return [];
}

function fail(span: Span, type: string): void {
  add(span, { "error.type": type });
  span.status = { code: FAILED };
}

function ended(span: Span, at: string): Span {
  const end = nanoseconds(at);
  return { ...span, endTimeUnixNano: BigInt(end) < BigInt(span.startTimeUnixNano) ? span.startTimeUnixNano : end };
}

/** More than a number can hold. */
function nanoseconds(at: string): string {
  return `${Date.parse(at)}000000`;
}

/** `anthropic/claude-…`: who has it, and which. One of the embedding program's own has no such name. */
function namesOf(model: string): ModelNames {
  const at = model.indexOf("/");
  const [provider, name] = at === -1 ? ["custom", model] : [model.slice(0, at), model.slice(at + 1)];
  return { "gen_ai.provider.name": provider, "gen_ai.request.model": name };
}

function usageOf({ inputTokens, outputTokens, cachedTokens }: Usage) {
  return {
    "gen_ai.usage.input_tokens": inputTokens,
    "gen_ai.usage.output_tokens": outputTokens,
    "gen_ai.usage.cache_read.input_tokens": cachedTokens === 0 ? undefined : cachedTokens,
  };
}

function messagesOf(text: string, calls: number): string {
  const finish = calls > 0 ? "tool_call" : "stop";
  return JSON.stringify([{ role: "assistant", parts: [{ type: "text", content: text }], finish_reason: finish }]);
}
