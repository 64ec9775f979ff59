import { type Connection, connect, isAnswer, isLate } from "../../host/mcp/connect.ts";
import { openFailures, START_MS } from "../../host/mcp/failure.ts";
import { type Launch, secretsOf } from "../../host/mcp/launch.ts";
import type { SkillError } from "../../shared/error.ts";
import { timerMs } from "../../shared/patience.ts";
import { openHiding } from "../../shared/redact.ts";
import { isData } from "../../skill/data.ts";
import type { CallOptions, ToolResult } from "../../skill/tool.ts";
import { refusedResult } from "../result.ts";
import { type ListedTool, readTool, resultOf, sayProgress } from "./tool.ts";

/** One server: started when first needed, and again when it has died. */
export interface McpServer {
  /** Throws a SkillError when it cannot be had. */
  list(): Promise<readonly ListedTool[]>;
  /** Contract: never throws. */
  call(tool: ListedTool, input: unknown, options?: CallOptions): Promise<ToolResult>;
  close(): Promise<void>;
}

/** It is not started more often. */
const PAUSE_MS = 1000;
/** For how long a list holds that nobody said has changed, and for how long one that could not be had is not asked for. */
const FRESH_MS = 30_000;
/** Of one server: what would be more than any model is offered. */
const MOST_LISTED = 2000;
const MOST_PAGES = 100;

export function openServer(launch: Launch): McpServer {
  const failures = openFailures(launch);
  const hiding = openHiding(secretsOf(launch));
  let connection: Connection | undefined;
  let starting: Promise<Connection> | undefined;
  let startedAt = Number.NEGATIVE_INFINITY;
  let listed: { tools: Promise<readonly ListedTool[]>; at: number } | undefined;
  const ending = new AbortController();
  let failure: { error: SkillError; at: number } | undefined;

  async function start(): Promise<Connection> {
    const wait = startedAt + PAUSE_MS - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    startedAt = performance.now();
    listed = undefined;
    const onChanged = () => {
      listed = undefined;
    };
    connection = await connect(launch, { ms: START_MS, signal: ending.signal, onChanged });
    return connection;
  }

  function connected(): Promise<Connection> {
    if (connection?.isOpen()) return Promise.resolve(connection);
    starting ??= start().finally(() => {
      starting = undefined;
    });
    return starting;
  }

  return {
    async list() {
      if (failure && performance.now() - failure.at < FRESH_MS) throw failure.error;
      failure = undefined;
      let opened: Connection | undefined;
      try {
        opened = await connected();
        if (listed && performance.now() - listed.at < FRESH_MS) return await listed.tools;
        const tools = allTools(opened);
        listed = { tools, at: performance.now() }; // A change that comes meanwhile takes it away again.
        return await tools;
      } catch (error) {
        listed = undefined;
        failure = { error: failures.ofStart(error, opened?.last()), at: performance.now() };
        throw failure.error;
      }
    },

    async call(tool, input, { signal, key, onProgress } = {}) {
      let used: Connection | undefined;
      try {
        signal?.throwIfAborted();
        const late = AbortSignal.timeout(timerMs(launch.seconds * 1000));
        used = await orAborted(connected(), signal ? AbortSignal.any([signal, late]) : late);
        const result = await used.client.callTool(
          {
            name: tool.name,
            arguments: isData(input) ? input : {},
            ...(key === undefined ? {} : { _meta: { "skillet/idempotency-key": key } }),
          },
          {
            timeout: timerMs(launch.seconds * 1000),
            ...(signal ? { signal } : {}),
            ...(onProgress ? { onprogress: (progress) => onProgress(sayProgress(progress, hiding.text)) } : {}),
            // Without what it says of its output: a model reads that as it is.
            toolDefinition: { name: tool.name, inputSchema: tool.inputSchema },
          },
        );
        return resultOf(result);
      } catch (error) {
        if (signal?.aborted) return { content: "It was interrupted.", isError: true, code: "aborted" };
        // An address has no end that could be noticed: it is found anew.
        if ("url" in launch && !isAnswer(error) && !isLate(error)) drop(used);
        return refusedResult([failures.ofCall(error, used?.last())]);
      }
    },

    async close() {
      ending.abort();
      const open = connection ?? (await starting?.catch(() => undefined));
      connection = undefined;
      await open?.close();
    },
  };

  function drop(used: Connection | undefined): void {
    if (connection === used) connection = undefined;
    void used?.close();
  }
}

/** Page after page. The SDK's own way to do so prints to the terminal. */
async function allTools({ client }: Connection): Promise<ListedTool[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const tools: ListedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES && tools.length < MOST_LISTED; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const result = await client.request({ method: "tools/list", params }, ANYTHING, { timeout: START_MS });
    const { tools: listed, nextCursor } = Object(result) as Record<string, unknown>;
    tools.push(...(Array.isArray(listed) ? listed : []).flatMap(readTool));
    if (typeof nextCursor !== "string") break;
    cursor = nextCursor;
  }
  return tools.slice(0, MOST_LISTED);
}

/** One tool that is none should not cost all the others. */
const ANYTHING = {
  "~standard": { version: 1, vendor: "skillet", validate: (value: unknown) => ({ value }) },
} as const;

async function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
  });
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener("abort", onAbort));
}
