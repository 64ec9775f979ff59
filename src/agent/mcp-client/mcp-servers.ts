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
import { onMcpShutdown } from "../../config/mcp-shutdown.ts";
import type { McpSettings } from "../../config/settings.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { Problem, SkillError } from "../../errors/problem.ts";
import { sanitizeSchema } from "../../skill/define-tool.ts";
import type { CallOptions, Tool, ToolResult } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { isJsonObject } from "../../util/objects.ts";
import { createRedactor, type Redactor } from "../../util/redact.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { clampTimerMs } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { collectSecrets, createProblemRedactor, redactData } from "../run/run-inputs.ts";
import { createRefusalResult, toProblem } from "../run/run-result.ts";

interface McpTools {
  /** Raw: input is not held to the schema, and output is neither bounded nor labelled nor without secrets. `hostTool` does that. */
  tools: readonly Tool[];
  /** What could not be had. A run goes on without. */
  problems: readonly Problem[];
}

/** How a configured server is. */
export interface McpServerState {
  name: string;
  /** Its command, or its address. */
  where: string;
  isEnabled: boolean;
  tools: readonly string[];
  problems: readonly Problem[];
}

const MAX_SERVER_TOOLS = 128;
const MAX_MCP_SCHEMA = 32 * 1024;

/** The tools of the configured servers that are wanted, started now where they are not. Never throws, and never takes long. */
export async function listMcpTools(
  host: Host,
  isWanted: (server: string) => boolean = () => true,
  { signal }: { signal?: AbortSignal } = {},
): Promise<McpTools> {
  const wanted = [...host.settings.mcp].filter(([name, { enabled }]) => enabled !== false && isWanted(name));
  if (wanted.length === 0) return { tools: [], problems: [] };
  closeAtExit();
  const all = await Promise.all(wanted.map(([name, settings]) => listToolsOfServer(name, settings, host, signal)));
  return { tools: all.flatMap(({ tools }) => tools), problems: all.flatMap(({ problems }) => problems) };
}

/** Every configured server, tried now. */
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

/** By how they are started, with all values: what is configured alike is one, whoever reads the configuration and how often. */
const OPEN_SERVERS = new Map<string, McpServer>();
onMcpShutdown(closeOpenServers);

async function listToolsOfServer(
  name: string,
  settings: McpSettings,
  host: Host,
  signal?: AbortSignal,
): Promise<McpTools> {
  const hiding = createRedactor(collectSecrets(new Map(), host));
  try {
    const launch = resolveMcpLaunch(name, settings, host);
    const key = JSON.stringify(launch);
    const server = OPEN_SERVERS.get(key) ?? openMcpServer(launch);
    OPEN_SERVERS.set(key, server);
    const listed = await waitForServer(server.list(), name, signal);
    return selectServerTools(name, settings, redactListedTools(listed, hiding), server);
  } catch (error) {
    return { tools: [], problems: signal?.aborted ? [] : [createProblemRedactor(hiding)(toProblem(error))] };
  }
}

/** What a server says of its tools goes to models too. One whose name holds a secret can be called nothing. */
function redactListedTools(listed: readonly McpListedTool[], hiding: Redactor): McpListedTool[] {
  return listed.flatMap(({ name, ...words }) =>
    hiding.text(name) === name ? [{ name, ...redactData(hiding, words) }] : [],
  );
}

async function waitForServer<T>(work: Promise<T>, name: string, signal: AbortSignal | undefined): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const late = new Promise<never>((_, reject) => {
    const fix = `see whether it can be started; or set enabled = false under ${formatMcpTable(name)} in config.toml`;
    const error = createMcpError(name, `it was not ready within ${MCP_START_TIMEOUT_MS / 1000} s`, fix, "mcp-timeout");
    // A little later than what it is waited for says so itself, and why.
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
    return sanitizeSchema(inputSchema) ? undefined : "has hidden characters in what is checked by it";
  };
  for (const tool of meant.filter((one) => wrongIn(one) !== undefined).slice(0, 5)) {
    const message = `Tool '${truncateLine(tool.name, 64)}' of MCP server '${name}' is left out: its schema ${wrongIn(tool)}`;
    say("mcp-schema", message, "ask whoever makes the server to mend it");
  }
  const tools = new Map<string, Tool>();
  for (const one of meant.filter((tool) => wrongIn(tool) === undefined)) {
    const tool = createMcpTool(name, one, settings, server.call);
    if (!tools.has(tool.name)) tools.set(tool.name, tool);
  }
  if (tools.size > MAX_SERVER_TOOLS) {
    const message = `MCP server '${name}' has ${formatCount(tools.size, "tool")}: only the first ${MAX_SERVER_TOOLS} are given to runs`;
    say("mcp-many", message, `name those that are needed: tools = ["…"] under ${table} in config.toml`);
  }
  const named = new Set([...(settings.tools ?? []), ...(settings.withoutAsking ?? [])]);
  const missing = [...named].filter((entry) => !listed.some((tool) => matchesToolEntry(tool, entry)));
  if (missing.length > 0) {
    const has = truncateLine(listed.map((tool) => tool.name).join(", "), 300) || "none";
    const message = `MCP server '${name}' has no tool ${truncateLine(missing.map((entry) => `'${entry}'`).join(", "), 200)}`;
    say("mcp-tool", message, `it has: ${has}; correct ${table} in config.toml`);
  }
  return { tools: [...tools.values()].slice(0, MAX_SERVER_TOOLS), problems };
}

let isExitHandled = false;

/** Once there is nothing left to do they are closed: a server that does not end when it is asked to would stay for ever after us. */
function closeAtExit(): void {
  if (isExitHandled) return;
  isExitHandled = true;
  process.once("beforeExit", () => {
    isExitHandled = false; // One that is started later is closed later.
    void closeOpenServers();
  });
}

/** One server: started when first needed, and again when it has died. */
interface McpServer {
  /** Throws a SkillError when it cannot be had. */
  list(): Promise<readonly McpListedTool[]>;
  /** Contract: never throws. */
  call(tool: McpListedTool, input: unknown, options?: CallOptions): Promise<ToolResult>;
  close(): Promise<void>;
}

/** It is not started more often. */
const RESTART_PAUSE_MS = 1000;
/** For how long a list holds that nobody said has changed, and for how long one that could not be had is not asked for. */
const MAX_LIST_AGE_MS = 30_000;
/** Of one server: what would be more than any model is offered. */
const MAX_LISTED_TOOLS = 2000;
const MAX_LIST_PAGES = 100;

function openMcpServer(launch: McpLaunch): McpServer {
  const failures = createMcpErrors(launch);
  const hiding = createRedactor(listLaunchSecrets(launch));
  let connection: McpConnection | undefined;
  let starting: Promise<McpConnection> | undefined;
  let startedAt = Number.NEGATIVE_INFINITY;
  let listed: { tools: Promise<readonly McpListedTool[]>; at: number } | undefined;
  const ending = new AbortController();
  let failure: { error: SkillError; at: number } | undefined;

  async function start(): Promise<McpConnection> {
    const wait = startedAt + RESTART_PAUSE_MS - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    startedAt = performance.now();
    listed = undefined;
    const onChanged = () => {
      listed = undefined;
    };
    connection = await connectMcpServer(launch, { ms: MCP_START_TIMEOUT_MS, signal: ending.signal, onChanged });
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
      if (failure && performance.now() - failure.at < MAX_LIST_AGE_MS) throw failure.error;
      failure = undefined;
      let opened: McpConnection | undefined;
      try {
        opened = await connected();
        if (listed && performance.now() - listed.at < MAX_LIST_AGE_MS) return await listed.tools;
        const tools = requestTools(opened);
        listed = { tools, at: performance.now() }; // A change that comes meanwhile takes it away again.
        return await tools;
      } catch (error) {
        listed = undefined;
        failure = { error: failures.ofStart(error, opened?.last()), at: performance.now() };
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
            ...(onProgress ? { onprogress: (progress) => onProgress(formatMcpProgress(progress, hiding.text)) } : {}),
            // Without what it says of its output: a model reads that as it is.
            toolDefinition: { name: tool.name, inputSchema: tool.inputSchema },
          },
        );
        return readMcpResult(result);
      } catch (error) {
        if (signal?.aborted) return { content: "It was interrupted.", isError: true, code: "aborted" };
        // An address has no end that could be noticed: it is found anew.
        if ("url" in launch && !isServerRefusal(error) && !isMcpTimeout(error)) drop(used);
        return createRefusalResult([failures.ofCall(error, used?.last())]);
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

/** Page after page. The SDK's own way to do so prints to the terminal. */
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

/** One tool that is none should not cost all the others. */
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

/** A tool as a server says it, as far as it can be one. */
interface McpListedTool {
  name: string;
  title?: string;
  description?: string;
  inputSchema: { type: "object"; [keyword: string]: unknown };
  annotations: { title?: unknown; readOnlyHint?: unknown; destructiveHint?: unknown };
}

type McpCall = (tool: McpListedTool, input: unknown, options?: CallOptions) => Promise<ToolResult>;

const MAX_MCP_DESCRIPTION = 2048;

/** What a server lists, read as one: nothing where it can be none. */
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

/** A tool of a server as it is called here: `server.tool`. What it gives is raw: whoever offers it holds it to bounds. */
function createMcpTool(server: string, listed: McpListedTool, settings: McpSettings, call: McpCall): Tool {
  const { name, title, description, annotations } = listed;
  const what = sanitizeLine(String(title ?? annotations.title ?? name), 120);
  const isFree =
    annotations.readOnlyHint === true || settings.withoutAsking?.some((entry) => matchesToolEntry(listed, entry));
  const isReversible = annotations.destructiveHint === false;
  return {
    name: `${server}.${getToolPart(name)}`,
    description: sanitizeLine(description ?? "", MAX_MCP_DESCRIPTION) || what,
    category: "mcp",
    inputSchema: sanitizeSchema(listed.inputSchema) ?? { type: "object" },
    ...(isFree ? {} : { effect: () => ({ on: "outside", what, where: server, isReversible }) }),
    execute: (input, options) => call(listed, input, options),
  };
}

/** Whether an entry of the configuration means this tool. */
function matchesToolEntry({ name }: Pick<McpListedTool, "name">, entry: string): boolean {
  return entry === name || entry === getToolPart(name);
}

/** What stands behind the dot. A name that nobody could write into a list has a hash in it. */
function getToolPart(name: string): string {
  return /^[\w./-]{1,128}$/.test(name) ? name : formatWireName(name);
}

function readMcpResult({ content = [], structuredContent, isError }: CallToolResult): ToolResult {
  const parts = content.map(formatContentPart).filter((part) => part !== "");
  if (structuredContent !== undefined && !content.some(({ type }) => type === "text"))
    parts.push(JSON.stringify(structuredContent));
  return {
    content: parts.join("\n") || "It gave nothing.",
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
  const { uri, mimeType = "of no type" } = part.resource;
  const line = `[resource ${sanitizeLine(uri, 300)}, ${sanitizeLine(mimeType, 64)}]`;
  return "text" in part.resource ? `${line}\n${part.resource.text}` : line;
}

function formatMcpProgress({ progress, total, message }: Progress, hide: (text: string) => string): string {
  if (message !== undefined && message !== "") return sanitizeLine(hide(message), 2000); // Whoever shows it shows less.
  return total === undefined ? String(progress) : `${progress} of ${total}`;
}
