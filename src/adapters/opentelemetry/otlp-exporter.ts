import type { Problem } from "../../errors/problem.ts";
import { packageVersion } from "../../util/system.ts";
import { truncateLine } from "../../util/text.ts";

/** A span in OTLP/JSON: ids in hexadecimal, times and integers as strings, kinds and codes as numbers. */
export interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: OtlpAttribute[];
  events: { timeUnixNano: string; name: string; attributes: OtlpAttribute[] }[];
  status: { code?: number };
}

export interface OtlpAttribute {
  key: string;
  value: { stringValue: string } | { intValue: string } | { doubleValue: number } | { boolValue: boolean };
}

export type OtelEnvironment = Readonly<Record<string, string | undefined>>;
export type FetchFunction = (url: string, init: RequestInit) => Promise<Response>;

/** Creates attributes from the defined values. Pass a fractional number as `{ double }`: its type must not depend on its value. */
export function createAttributes(
  values: Record<string, string | number | boolean | { double: number } | undefined>,
): OtlpAttribute[] {
  return Object.entries(values).flatMap(([key, value]): OtlpAttribute[] => {
    if (value === undefined) return [];
    if (typeof value === "string") return [{ key, value: { stringValue: value } }];
    if (typeof value === "number") return [{ key, value: { intValue: String(Math.round(value)) } }];
    return [{ key, value: typeof value === "boolean" ? { boolValue: value } : { doubleValue: value.double } }];
  });
}

/** Sends spans to a collector. Contract: never throws, and blocks only callers of `flush`. */
export interface SpanExporter {
  /** A problem with the settings. */
  readonly problem: Problem | undefined;
  send(spans: readonly OtlpSpan[]): void;
  /** Waits until all spans are sent, up to the timeout, and drops the rest. Returns the problem since the last call. */
  flush(withinMs: number): Promise<Problem | undefined>;
}

// The official SDK consists of seven packages; only one POST of JSON is needed.
/** Creates an OTLP/HTTP exporter from OpenTelemetry's environment variables; undefined if no collector is configured. */
export function createSpanExporter(env: OtelEnvironment, fetch: FetchFunction): SpanExporter | undefined {
  const address = readEndpoint(env);
  if (address === undefined || isDisabled(env)) return undefined;
  const [headers, problem] = readHeaders(env);
  const url = URL.parse(address);
  const isUsable = url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
  const where = isUsable ? `${url.origin}${url.pathname}` : "the collector";
  const timeout = Number(readOtlpVariable(env, "TIMEOUT")) || 10_000;
  const resource = { attributes: createAttributes(readResource(env)) };
  const scope = { name: "skillet", version: packageVersion() };
  const underWay = new Set<Promise<void>>();
  let stop = new AbortController();
  let failure: string | undefined;
  const post = async (spans: readonly OtlpSpan[]) => {
    try {
      const response = await fetch(address, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans }] }] }),
        redirect: "error", // The headers may contain a key, which must not reach another host.
        signal: AbortSignal.any([stop.signal, AbortSignal.timeout(timeout)]),
      });
      await response.body?.cancel();
      if (!response.ok) failure ??= `it answered ${response.status}`;
    } catch (error) {
      failure ??= describeSendError(error);
    }
  };
  return {
    problem: isUsable ? (problem ?? checkProtocol(env)) : UNUSABLE_ENDPOINT,
    send(spans) {
      if (!isUsable || spans.length === 0) return;
      if (underWay.size >= MAX_PENDING_REQUESTS) {
        failure ??= "it does not answer, so some were not sent";
        return;
      }
      const sending = post(spans).finally(() => underWay.delete(sending));
      underWay.add(sending);
    },
    async flush(withinMs) {
      const isDone = await isSettledWithin(withinMs, Promise.all(underWay));
      if (!isDone) {
        failure ??= `it did not answer within ${withinMs / 1000} seconds`;
        stop.abort();
        stop = new AbortController();
      }
      const why = failure;
      failure = undefined;
      const fix = "check that it runs, and that OTEL_EXPORTER_OTLP_ENDPOINT and the headers are correct";
      return why === undefined
        ? undefined
        : { code: "traces-unsent", message: `Cannot send traces to ${where}: ${why}`, fix };
    },
  };
}

const MAX_PENDING_REQUESTS = 8;
const UNUSABLE_ENDPOINT: Problem = {
  code: "traces-unsent",
  message: "No traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is not the address of a collector",
  fix: "set it to a URL such as http://localhost:4318; put a password into OTEL_EXPORTER_OTLP_HEADERS",
};

/** Reads a variable. The one for traces overrides the general one. */
function readOtlpVariable(env: OtelEnvironment, name: string): string | undefined {
  return env[`OTEL_EXPORTER_OTLP_TRACES_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`] || undefined;
}

function readEndpoint(env: OtelEnvironment): string | undefined {
  const own = env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
  const all = env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  if (own) return own;
  return all ? `${all.replace(/\/+$/, "")}/v1/traces` : undefined;
}

function isDisabled(env: OtelEnvironment): boolean {
  return env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true" || env["OTEL_TRACES_EXPORTER"] === "none";
}

/** Reports an unsupported protocol. JSON is sent anyway: most collectors accept it where they accept protobuf. */
function checkProtocol(env: OtelEnvironment): Problem | undefined {
  const protocol = readOtlpVariable(env, "PROTOCOL");
  if (protocol === undefined || protocol === "http/json") return undefined;
  return {
    code: "traces-protocol",
    message: `Traces are sent as http/json: OTEL_EXPORTER_OTLP_PROTOCOL asks for ${truncateLine(protocol, 40)}, which is not supported`,
    fix: "use the collector's HTTP port as the endpoint, usually 4318",
  };
}

/** Parses `name=value,name=value`, percent-encoded. Errors never quote a value: it may be a key. */
function readHeaders(env: OtelEnvironment): [Record<string, string>, Problem | undefined] {
  try {
    const headers = Object.fromEntries(parsePairs(readOtlpVariable(env, "HEADERS")));
    return [Object.fromEntries(new Headers(headers)), undefined];
  } catch {
    const message = "The headers in OTEL_EXPORTER_OTLP_HEADERS cannot be read, so traces are sent without them";
    return [{}, { code: "traces-headers", message, fix: "write name=value,name=value, percent-encoded" }];
  }
}

function readResource(env: OtelEnvironment): Record<string, string> {
  let attributes: [string, string][] = [];
  try {
    attributes = parsePairs(env["OTEL_RESOURCE_ATTRIBUTES"]);
  } catch {} // The specification requires dropping all of them.
  const name = env["OTEL_SERVICE_NAME"];
  return {
    "service.name": "skillet",
    "service.version": packageVersion(),
    ...Object.fromEntries(attributes),
    ...(name ? { "service.name": name } : {}),
  };
}

function parsePairs(written = ""): [string, string][] {
  return written.split(",").flatMap((pair): [string, string][] => {
    const at = pair.indexOf("=");
    if (at < 1) return [];
    return [[decodeURIComponent(pair.slice(0, at).trim()), decodeURIComponent(pair.slice(at + 1).trim())]];
  });
}

function describeSendError(error: unknown): string {
  const { cause, name, message } = error as Error;
  if (name === "TimeoutError" || name === "AbortError") return "it did not answer in time";
  const code = (cause as { code?: unknown } | undefined)?.code;
  return truncateLine(typeof code === "string" ? code : cause instanceof Error ? cause.message : message, 100);
}

async function isSettledWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
