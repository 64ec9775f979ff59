import type { CallToolResult, Progress } from "@modelcontextprotocol/client";
import type { Host } from "../../config/host.ts";
import {
  connectMcpServer,
  createMcpError,
  createMcpErrors,
  formatMcpTable,
  isMcpTimeout,
  isServerRefusal,
  listLaunchSecrets,
  MCP_START_TIMEOUT_MS,
  type McpConnection,
  type McpLaunch,
  resolveMcpLaunch,
} from "../../config/mcp-connection.ts";
import type { McpSettings } from "../../config/settings.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { Problem, SkillError } from "../../errors/problem.ts";
import { sanitizeSchema } from "../../skill/define-tool.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { clampTimerMs } from "../../util/async.ts";
import { isJsonObject } from "../../util/objects.ts";
import { createRedactor, type Redactor } from "../../util/redact.ts";
import { onMcpShutdown } from "../../util/system.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { createHostRedactor, createProblemRedactor, redactData } from "../run/redaction.ts";
import { createRefusalResult, toProblem } from "../run/run-result.ts";

interface McpTools {
  /** Raw tools: `wrapHostTool` validates the input, limits and labels the output and redacts secrets. */
  tools: readonly Tool[];
  /** Servers and tools that are unavailable. A run continues without them. */
  problems: readonly Problem[];
}

/** The state of a configured server. */
export interface McpServerState {
  name: string;
  /** Its command or URL. */
  where: string;
  isEnabled: boolean;
  tools: readonly string[];
  problems: readonly Problem[];
}

const MAX_SERVER_TOOLS = 128;
const MAX_MCP_SCHEMA = 32 * 1024;

interface ListMcpOptions {
  signal?: AbortSignal;
  /** A monotonic clock in milliseconds, for the age of lists. */
  now?: () => number;
}

/** Lists the tools of the selected servers and starts servers that are not running. Never throws, and has a time limit. */
export async function listMcpTools(
  host: Host,
  isWanted: (server: string) => boolean = () => true,
  options: ListMcpOptions = {},
): Promise<McpTools> {
  const wanted = [...host.settings.mcp].filter(([name, { enabled }]) => enabled !== false && isWanted(name));
  if (wanted.length === 0) return { tools: [], problems: [] };
  closeAtExit();
  const all = await Promise.all(wanted.map(([name, settings]) => listToolsOfServer(name, settings, host, options)));
  return { tools: all.flatMap(({ tools }) => tools), problems: all.flatMap(({ problems }) => problems) };
}

/** Starts every configured server and returns its state. */
export async function checkMcpServers(host: Host): Promise<McpServerState[]> {
  return Promise.all(
    [...host.settings.mcp].map(async ([name, settings]) => {
      const isEnabled = settings.enabled !== false;
      const { tools, problems } = isEnabled
        ? await listToolsOfServer(name, settings, host)
        : { tools: [], problems: [] };
      const where = settings.url ?? settings.command?.join(" ") ?? "";
      return { name, where, isEnabled, tools: tools.map((tool) => tool.name), problems };
    }),
  );
}

async function closeOpenServers(): Promise<void> {
  const servers = [...OPEN_SERVERS.values()];
  OPEN_SERVERS.clear();
  await Promise.all(servers.map((server) => server.close()));
}

/** Open servers by their launch options with all values: equal configurations share one server. */
const OPEN_SERVERS = new Map<string, McpServer>();
onMcpShutdown(closeOpenServers);

async function listToolsOfServer(
  name: string,
  settings: McpSettings,
  host: Host,
  { signal, now = () => performance.now() }: ListMcpOptions = {},
): Promise<McpTools> {
  const redactor = createHostRedactor(host);
  try {
    const launch = resolveMcpLaunch(name, settings, host);
    const key = JSON.stringify(launch);
    const server = OPEN_SERVERS.get(key) ?? openMcpServer(launch, now);
    OPEN_SERVERS.set(key, server);
    const listed = await waitForServer(server.list(), name, signal);
    return selectServerTools(name, settings, redactListedTools(listed, redactor), server);
  } catch (error) {
    return { tools: [], problems: signal?.aborted ? [] : [createProblemRedactor(redactor)(toProblem(error))] };
  }
}

/** Redacts the descriptions of tools, which models read. A tool whose name contains a secret is dropped. */
function redactListedTools(listed: readonly McpListedTool[], redactor: Redactor): McpListedTool[] {
  return listed.flatMap(({ name, ...words }) =>
    redactor.redact(name) === name ? [{ name, ...redactData(redactor, words) }] : [],
  );
}

async function waitForServer<T>(work: Promise<T>, name: string, signal: AbortSignal | undefined): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const late = new Promise<never>((_, reject) => {
    const fix = `check that it starts, or set enabled = false under ${formatMcpTable(name)} in config.toml`;
    const error = createMcpError(name, `it was not ready within ${MCP_START_TIMEOUT_MS / 1000} s`, fix, "mcp-timeout");
    // Slightly later than the server's own timeout, whose error names the reason.
    timer = setTimeout(() => reject(error), MCP_START_TIMEOUT_MS + 500);
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
  });
  return Promise.race([work, late]).finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  });
}

function selectServerTools(
  name: string,
  settings: McpSettings,
  listed: readonly McpListedTool[],
  server: McpServer,
): McpTools {
  const table = formatMcpTable(name);
  const problems: Problem[] = [];
  const say = (code: ErrorCode, message: string, fix: string) => problems.push({ code, message, fix });
  const meant = listed.filter((tool) => settings.tools?.some((entry) => matchesToolEntry(tool, entry)) ?? true);
  const wrongIn = ({ inputSchema }: McpListedTool) => {
    if (JSON.stringify(inputSchema).length > MAX_MCP_SCHEMA) return "is larger than 32 KiB";
    return sanitizeSchema(inputSchema) ? undefined : "has hidden characters in names or values";
  };
  for (const tool of meant.filter((one) => wrongIn(one) !== undefined).slice(0, 5)) {
    const message = `Tool '${truncateLine(tool.name, 64)}' of MCP server '${name}' is skipped: its schema ${wrongIn(tool)}`;
    say("mcp-tool-schema", message, "ask the server's author to fix it");
  }
  const tools = new Map<string, Tool>();
  for (const one of meant.filter((tool) => wrongIn(tool) === undefined)) {
    const tool = createMcpTool(name, one, settings, server.call);
    if (!tools.has(tool.name)) tools.set(tool.name, tool);
  }
  if (tools.size > MAX_SERVER_TOOLS) {
    const message = `MCP server '${name}' has ${formatCount(tools.size, "tool")}: runs get only the first ${MAX_SERVER_TOOLS}`;
    say("mcp-too-many-tools", message, `list the tools you need: tools = ["…"] under ${table} in config.toml`);
  }
  const named = new Set([...(settings.tools ?? []), ...(settings.autoApprove ?? [])]);
  const missing = [...named].filter((entry) => !listed.some((tool) => matchesToolEntry(tool, entry)));
  if (missing.length > 0) {
    const has = truncateLine(listed.map((tool) => tool.name).join(", "), 300) || "none";
    const message = `MCP server '${name}' has no tool ${truncateLine(missing.map((entry) => `'${entry}'`).join(", "), 200)}`;
    say("mcp-tool-unknown", message, `it has: ${has}; correct ${table} in config.toml`);
  }
  return { tools: [...tools.values()].slice(0, MAX_SERVER_TOOLS), problems };
}

let isExitHandled = false;

/** Closes the servers when the process has nothing left to do. Otherwise a server that ignores its closed input would outlive it. */
function closeAtExit(): void {
  if (isExitHandled) return;
  isExitHandled = true;
  process.once("beforeExit", () => {
    isExitHandled = false; // A server that starts later is closed later.
    void closeOpenServers();
  });
}

/** One server: started when first needed, and restarted after it exited. */
interface McpServer {
  /** Throws a SkillError if the server is unavailable. */
  list(): Promise<readonly McpListedTool[]>;
  /** Contract: never throws. */
  call(tool: McpListedTool, input: unknown, options?: CallOptions): Promise<ToolResult>;
  close(): Promise<void>;
}

/** The minimum time between two starts. */
const RESTART_PAUSE_MS = 1000;
/** The maximum age of a tool list without a change notification, and the pause after a failed one. */
const MAX_LIST_AGE_MS = 30_000;
/** The maximum number of tools per server, more than any model is offered. */
const MAX_LISTED_TOOLS = 2000;
const MAX_LIST_PAGES = 100;

function openMcpServer(launch: McpLaunch, now: () => number): McpServer {
  const failures = createMcpErrors(launch);
  const redactor = createRedactor(listLaunchSecrets(launch));
  let connection: McpConnection | undefined;
  let starting: Promise<McpConnection> | undefined;
  let startedAt = Number.NEGATIVE_INFINITY;
  let listed: { tools: Promise<readonly McpListedTool[]>; at: number } | undefined;
  const ending = new AbortController();
  let failure: { error: SkillError; at: number } | undefined;

  async function start(): Promise<McpConnection> {
    const wait = startedAt + RESTART_PAUSE_MS - now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    startedAt = now();
    listed = undefined;
    const onChanged = () => {
      listed = undefined;
    };
    connection = await connectMcpServer(launch, { timeoutMs: MCP_START_TIMEOUT_MS, signal: ending.signal, onChanged });
    return connection;
  }

  function connected(): Promise<McpConnection> {
    if (connection?.isOpen()) return Promise.resolve(connection);
    starting ??= start().finally(() => {
      starting = undefined;
    });
    return starting;
  }

  return {
    async list() {
      if (failure && now() - failure.at < MAX_LIST_AGE_MS) throw failure.error;
      failure = undefined;
      const kept = connection?.isOpen() ? connection : undefined;
      let opened: McpConnection | undefined;
      try {
        opened = await connected();
        if (listed && now() - listed.at < MAX_LIST_AGE_MS) return await listed.tools;
        const tools = requestTools(opened).catch((error) => {
          // A server closes a connection that was idle, as while this process was frozen. A new one shows whether it is gone.
          if (!("url" in launch) || opened !== kept || isServerRefusal(error)) throw error;
          drop(kept);
          return connected().then(requestTools);
        });
        listed = { tools, at: now() }; // A change notification that arrives meanwhile clears it again.
        return await tools;
      } catch (error) {
        listed = undefined;
        failure = { error: failures.createStartError(error, opened?.describeEnd()), at: now() };
        throw failure.error;
      }
    },

    async call(tool, input, { signal, key, onProgress } = {}) {
      let used: McpConnection | undefined;
      try {
        signal?.throwIfAborted();
        const late = AbortSignal.timeout(clampTimerMs(launch.seconds * 1000));
        used = await rejectOnAbort(connected(), signal ? AbortSignal.any([signal, late]) : late);
        const result = await used.client.callTool(
          {
            name: tool.name,
            arguments: isJsonObject(input) ? input : {},
            ...(key === undefined ? {} : { _meta: { "skillet/idempotency-key": key } }),
          },
          {
            timeout: clampTimerMs(launch.seconds * 1000),
            ...(signal ? { signal } : {}),
            ...(onProgress
              ? { onprogress: (progress) => onProgress(formatMcpProgress(progress, redactor.redact)) }
              : {}),
            // Without the output schema: a model reads the output unvalidated.
            toolDefinition: { name: tool.name, inputSchema: tool.inputSchema },
          },
        );
        return readMcpResult(result);
      } catch (error) {
        if (signal?.aborted) return { text: "It was interrupted.", isError: true, code: "aborted" };
        // A URL has no process whose end could be noticed: connect again.
        if ("url" in launch && !isServerRefusal(error) && !isMcpTimeout(error)) drop(used);
        return createRefusalResult([failures.createCallProblem(error, used?.describeEnd())]);
      }
    },

    async close() {
      ending.abort();
      const open = connection ?? (await starting?.catch(() => undefined));
      connection = undefined;
      await open?.close();
    },
  };

  function drop(used: McpConnection | undefined): void {
    if (connection === used) connection = undefined;
    void used?.close();
  }
}

/** Requests all pages. The SDK's own method prints to the terminal. */
async function requestTools({ client }: McpConnection): Promise<McpListedTool[]> {
  if (!client.getServerCapabilities()?.tools) return [];
  const tools: McpListedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_LIST_PAGES && tools.length < MAX_LISTED_TOOLS; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const result = await client.request({ method: "tools/list", params }, ANY_SCHEMA, {
      timeout: MCP_START_TIMEOUT_MS,
    });
    const { tools: listed, nextCursor } = Object(result) as Record<string, unknown>;
    tools.push(...(Array.isArray(listed) ? listed : []).flatMap(readMcpTool));
    if (typeof nextCursor !== "string") break;
    cursor = nextCursor;
  }
  return tools.slice(0, MAX_LISTED_TOOLS);
}

/** Accepts anything: one invalid tool must not invalidate the others. */
const ANY_SCHEMA = {
  "~standard": { version: 1, vendor: "skillet", validate: (value: unknown) => ({ value }) },
} as const;

async function rejectOnAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
  });
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener("abort", onAbort));
}

/** A tool as listed by a server. */
interface McpListedTool {
  name: string;
  title?: string;
  description?: string;
  inputSchema: { type: "object"; [keyword: string]: unknown };
  annotations: { title?: unknown; readOnlyHint?: unknown; destructiveHint?: unknown };
}

type McpCall = (tool: McpListedTool, input: unknown, options?: CallOptions) => Promise<ToolResult>;

const MAX_MCP_DESCRIPTION = 2048;

/** Reads a listed tool. Returns nothing if it is invalid. */
function readMcpTool(listed: unknown): McpListedTool[] {
  const { name, title, description, inputSchema, annotations } = Object(listed) as Record<string, unknown>;
  if (typeof name !== "string" || name === "" || !isJsonObject(inputSchema)) return [];
  return [
    {
      name,
      ...(typeof title === "string" ? { title } : {}),
      ...(typeof description === "string" ? { description } : {}),
      inputSchema: { ...inputSchema, type: "object" },
      annotations: isJsonObject(annotations) ? annotations : {},
    },
  ];
}

/** Creates the tool `server.tool`. Its output is raw: the caller limits it. */
function createMcpTool(server: string, listed: McpListedTool, settings: McpSettings, call: McpCall): Tool {
  const { name, title, description, annotations } = listed;
  const what = sanitizeLine(String(title ?? annotations.title ?? name), 120);
  const isFree =
    annotations.readOnlyHint === true || settings.autoApprove?.some((entry) => matchesToolEntry(listed, entry));
  const isReversible = annotations.destructiveHint === false;
  return {
    name: `${server}.${getToolPart(name)}`,
    description: sanitizeLine(description ?? "", MAX_MCP_DESCRIPTION) || what,
    category: "mcp",
    inputSchema: sanitizeSchema(listed.inputSchema) ?? { type: "object" },
    ...(isFree ? {} : { effect: () => ({ on: "outside", what, where: server, isReversible }) }),
    ...(annotations.readOnlyHint === true ? { isReadOnly: true } : {}),
    execute: (input, options) => call(listed, input, options),
  };
}

/** Returns true if an entry of the configuration names this tool. */
function matchesToolEntry({ name }: Pick<McpListedTool, "name">, entry: string): boolean {
  return entry === name || entry === getToolPart(name);
}

/** Returns the part after the dot. A name with unusual characters gets a hash. */
function getToolPart(name: string): string {
  return /^[\w./-]{1,128}$/.test(name) ? name : formatWireName(name);
}

function readMcpResult({ content = [], structuredContent, isError }: CallToolResult): ToolResult {
  const parts = content.map(formatContentPart).filter((part) => part !== "");
  if (structuredContent !== undefined && !content.some(({ type }) => type === "text"))
    parts.push(JSON.stringify(structuredContent));
  return {
    text: parts.join("\n") || "The tool returned nothing.",
    isError: isError === true,
    ...(isError === true ? { code: "failed" } : {}),
  };
}

function formatContentPart(part: CallToolResult["content"][number]): string {
  if (part.type === "text") return part.text;
  if (part.type === "image" || part.type === "audio")
    return `[${part.type}, ${sanitizeLine(part.mimeType, 64)}, ${Math.ceil(part.data.length * 0.75)} bytes; not shown]`;
  if (part.type === "resource_link")
    return `[resource ${sanitizeLine(part.name, 120)}: ${sanitizeLine(part.uri, 300)}]`;
  const { uri, mimeType = "unknown type" } = part.resource;
  const line = `[resource ${sanitizeLine(uri, 300)}, ${sanitizeLine(mimeType, 64)}]`;
  return "text" in part.resource ? `${line}\n${part.resource.text}` : line;
}

function formatMcpProgress({ progress, total, message }: Progress, hide: (text: string) => string): string {
  if (message !== undefined && message !== "") return sanitizeLine(hide(message), 2000); // The display shortens it further.
  return total === undefined ? String(progress) : `${progress} of ${total}`;
}
