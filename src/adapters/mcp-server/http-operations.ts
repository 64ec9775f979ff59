import { hash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { SkillEvent } from "../../host/events.ts";
import { isJsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { ServerIdentity } from "./http-identity.ts";

/** One line of the access log. It never contains a token, an argument or a result. */
export interface AccessEntry {
  /** ISO 8601. */
  at: string;
  /** The address of the client. */
  address: string;
  method: string;
  path: string;
  status: number;
  /** The time until the response was sent, in milliseconds. */
  ms: number;
  user?: string;
  tenant?: string;
  /** The credential, without its secret: `token 3f2a91c0b7de`. */
  credential?: string;
  /** The method of the JSON-RPC message, or `batch`. */
  rpc?: string;
  tool?: string;
  /** The skill that the call names. */
  skill?: string;
  /** A fingerprint of the session: the id itself would let a reader of the log take it over. */
  session?: string;
}

/** The parts of a JSON-RPC message that the access log shows. The names come from the client, so they are cut and cleaned. */
export function describeRpcMessage(body: unknown): Pick<AccessEntry, "rpc" | "tool" | "skill"> {
  if (Array.isArray(body)) return { rpc: "batch" };
  if (!isJsonObject(body) || typeof body["method"] !== "string") return {};
  const params = isJsonObject(body["params"]) ? body["params"] : {};
  const input = isJsonObject(params["arguments"]) ? params["arguments"] : {};
  const tool = body["method"] === "tools/call" || body["method"] === "prompts/get" ? params["name"] : undefined;
  const skill = input["skill"] ?? input["skill_name"];
  return {
    rpc: sanitizeLine(body["method"], MAX_NAME_LENGTH),
    ...(typeof tool === "string" ? { tool: sanitizeLine(tool, MAX_NAME_LENGTH) } : {}),
    ...(typeof skill === "string" ? { skill: sanitizeLine(skill, MAX_NAME_LENGTH) } : {}),
  };
}

const MAX_NAME_LENGTH = 128;

/** Starts the entry of a request. */
export function startAccessEntry(
  { method = "", url = "", headers }: Pick<IncomingMessage, "method" | "url" | "headers">,
  address: string,
): AccessEntry {
  const session = headers["mcp-session-id"];
  return {
    at: new Date().toISOString(),
    address,
    method: sanitizeLine(method, 16),
    path: sanitizeLine(url.split("?")[0] ?? "", 200),
    status: 0,
    ms: 0,
    ...(typeof session === "string" ? { session: hash("sha256", session).slice(0, 12) } : {}),
  };
}

/** Returns the fields of the entry that name the caller. */
export function describeCaller({
  userId,
  tenant,
  credential,
}: ServerIdentity): Pick<AccessEntry, "user" | "tenant" | "credential"> {
  return omitUndefined({ user: userId, tenant, credential });
}

/** The metrics of a server, in the text format of Prometheus. */
export interface ServerMetrics {
  observeRequest(entry: AccessEntry): void;
  /** Counts an event of a session or run. */
  record(event: SkillEvent): void;
  format(gauges: Readonly<Record<GaugeName, number>>): string;
}

/** Values that are read when the metrics are requested. */
const GAUGES = {
  sessions: "Sessions of clients of the revisions up to 2025-11-25.",
  requests_in_progress: "Requests that have no complete response yet.",
  failed_logins: "Requests with a wrong token since the start.",
  skills: "Skills that are served.",
  resident_memory_bytes: "Resident memory of the process.",
} as const;
type GaugeName = keyof typeof GAUGES;

const COUNTERS = {
  http_requests_total: "Requests by method and status.",
  rpc_requests_total: "JSON-RPC requests by method and tool. Tools of skills count as one.",
  skill_events_total: "Loads, runs and refusals of skills.",
  runs_total: "Ended runs by the reason of their end.",
  tool_calls_total: "Tool calls of runs by outcome.",
  model_tokens_total: "Tokens of models by direction.",
  model_cost_dollars_total: "Cost of models in US dollars, for models with a known price.",
} as const;

const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** Labels come from clients in part: a client must not be able to create series without bound. */
const MAX_SERIES = 200;
const KNOWN_METHODS = new Set(["GET", "POST", "DELETE", "OPTIONS", "HEAD"]);

/** Creates the metrics. `tools`: the names that may become labels. */
export function createServerMetrics(tools: ReadonlySet<string>): ServerMetrics {
  const counters = new Map<string, Map<string, number>>();
  const buckets = BUCKETS.map(() => 0);
  let [count, seconds] = [0, 0];
  const add = (name: keyof typeof COUNTERS, labels: Record<string, string>, amount = 1) => {
    const series = counters.get(name) ?? new Map<string, number>();
    const key = formatLabels(labels);
    if (!series.has(key) && series.size >= MAX_SERIES) return;
    counters.set(name, series.set(key, (series.get(key) ?? 0) + amount));
  };
  return {
    observeRequest({ method, status, ms, rpc, tool }) {
      add("http_requests_total", { method: KNOWN_METHODS.has(method) ? method : "other", status: String(status) });
      if (rpc !== undefined) {
        const name = tool === undefined ? {} : { tool: tools.has(tool) ? tool : "other" };
        add("rpc_requests_total", { method: RPC_METHODS.test(rpc) ? rpc : "other", ...name });
      }
      count++;
      seconds += ms / 1000;
      const at = BUCKETS.findIndex((limit) => ms / 1000 <= limit);
      if (at !== -1) buckets[at] = (buckets[at] ?? 0) + 1;
    },
    record(event) {
      if (event.type === "skill-loaded") add("skill_events_total", { kind: "loaded" });
      if (event.type === "run-started") add("skill_events_total", { kind: "started" });
      if (event.type === "run-refused") add("skill_events_total", { kind: "refused" });
      if (event.type === "tool-ended") add("tool_calls_total", { outcome: event.isError ? "error" : "ok" });
      if (event.type === "step-ended") {
        add("model_tokens_total", { direction: "input" }, event.usage.inputTokens);
        add("model_tokens_total", { direction: "output" }, event.usage.outputTokens);
        if (event.cost !== undefined) add("model_cost_dollars_total", {}, event.cost);
      }
      if (event.type === "run-ended") add("runs_total", { stop: event.stop });
    },
    format(gauges) {
      const lines: string[] = [];
      const head = (name: string, help: string, type: string) =>
        lines.push(`# HELP skillet_${name} ${help}`, `# TYPE skillet_${name} ${type}`);
      for (const [name, help] of Object.entries(GAUGES)) {
        head(name, help, "gauge");
        lines.push(`skillet_${name} ${gauges[name as GaugeName]}`);
      }
      for (const [name, help] of Object.entries(COUNTERS)) {
        head(name, help, "counter");
        for (const [labels, value] of counters.get(name) ?? []) lines.push(`skillet_${name}${labels} ${value}`);
      }
      head("http_request_seconds", "Time until the response was sent.", "histogram");
      let below = 0;
      for (const [index, limit] of BUCKETS.entries()) {
        below += buckets[index] ?? 0;
        lines.push(`skillet_http_request_seconds_bucket{le="${limit}"} ${below}`);
      }
      lines.push(`skillet_http_request_seconds_bucket{le="+Inf"} ${count}`);
      lines.push(`skillet_http_request_seconds_sum ${seconds}`, `skillet_http_request_seconds_count ${count}`);
      return `${lines.join("\n")}\n`;
    },
  };
}

/** Methods of MCP. Others of a client count as one. */
const RPC_METHODS =
  /^(?:initialize|ping|server\/discover|tools\/(?:list|call)|prompts\/(?:list|get)|resources\/(?:list|read|templates\/list|subscribe|unsubscribe)|completion\/complete|logging\/setLevel|subscriptions\/listen|notifications\/[a-z_/]{1,40}|batch)$/;

function formatLabels(labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value.replace(/["\\\n]/g, "_")}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
