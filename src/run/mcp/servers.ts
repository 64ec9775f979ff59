import type { ErrorCode } from "../../codes/codes.ts";
import type { Host } from "../../host/host.ts";
import { onClosing } from "../../host/mcp/end.ts";
import { START_MS } from "../../host/mcp/failure.ts";
import { failed, launchOf, tableOf } from "../../host/mcp/launch.ts";
import type { Notice } from "../../host/sandbox.ts";
import type { McpSettings } from "../../host/settings.ts";
import { type Hiding, openHiding } from "../../shared/redact.ts";
import { count, oneLine } from "../../shared/text.ts";
import { plainSchema } from "../../skill/plain-schema.ts";
import type { Tool } from "../../skill/tool.ts";
import { asNotice, hide, hideIn } from "../notice.ts";
import { allSecrets } from "../secrets.ts";
import { type McpServer, openServer } from "./server.ts";
import { asTool, isNamed, type ListedTool } from "./tool.ts";

export interface McpTools {
  /** Raw: input is not held to the schema, and output is neither bounded nor labelled nor without secrets. `hostTool` does that. */
  tools: readonly Tool[];
  /** What could not be had. A run goes on without. */
  problems: readonly Notice[];
}

/** How a configured server is. */
export interface McpState {
  name: string;
  /** Its command, or its address. */
  where: string;
  isEnabled: boolean;
  tools: readonly string[];
  problems: readonly Notice[];
}

const MOST_TOOLS = 128;
const LARGEST_SCHEMA = 32 * 1024;

/** The tools of the configured servers that are wanted, started now where they are not. Never throws, and never takes long. */
export async function mcpTools(
  host: Host,
  isWanted: (server: string) => boolean = () => true,
  { signal }: { signal?: AbortSignal } = {},
): Promise<McpTools> {
  const wanted = [...host.settings.mcp].filter(([name, { enabled }]) => enabled !== false && isWanted(name));
  if (wanted.length === 0) return { tools: [], problems: [] };
  endInTime();
  const all = await Promise.all(wanted.map(([name, settings]) => toolsOf(name, settings, host, signal)));
  return { tools: all.flatMap(({ tools }) => tools), problems: all.flatMap(({ problems }) => problems) };
}

/** Every configured server, tried now. */
export async function mcpStates(host: Host): Promise<McpState[]> {
  return Promise.all(
    [...host.settings.mcp].map(async ([name, settings]) => {
      const isEnabled = settings.enabled !== false;
      const { tools, problems } = isEnabled ? await toolsOf(name, settings, host) : { tools: [], problems: [] };
      const where = settings.url ?? settings.command?.join(" ") ?? "";
      return { name, where, isEnabled, tools: tools.map((tool) => tool.name), problems };
    }),
  );
}

async function closeOpened(): Promise<void> {
  const servers = [...OPENED.values()];
  OPENED.clear();
  await Promise.all(servers.map((server) => server.close()));
}

/** By how they are started, with all values: what is configured alike is one, whoever reads the configuration and how often. */
const OPENED = new Map<string, McpServer>();
onClosing(closeOpened);

async function toolsOf(name: string, settings: McpSettings, host: Host, signal?: AbortSignal): Promise<McpTools> {
  const hiding = openHiding(allSecrets(new Map(), host));
  try {
    const launch = launchOf(name, settings, host);
    const key = JSON.stringify(launch);
    const server = OPENED.get(key) ?? openServer(launch);
    OPENED.set(key, server);
    const listed = await inTime(server.list(), name, signal);
    return chosen(name, settings, withoutSecrets(listed, hiding), server);
  } catch (error) {
    return { tools: [], problems: signal?.aborted ? [] : [hide(hiding)(asNotice(error))] };
  }
}

/** What a server says of its tools goes to models too. One whose name holds a secret can be called nothing. */
function withoutSecrets(listed: readonly ListedTool[], hiding: Hiding): ListedTool[] {
  return listed.flatMap(({ name, ...words }) =>
    hiding.text(name) === name ? [{ name, ...hideIn(hiding, words) }] : [],
  );
}

async function inTime<T>(work: Promise<T>, name: string, signal: AbortSignal | undefined): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = () => {};
  const late = new Promise<never>((_, reject) => {
    const fix = `see whether it can be started; or set enabled = false under ${tableOf(name)} in config.toml`;
    const error = failed(name, `it was not ready within ${START_MS / 1000} s`, fix, "mcp-timeout");
    // A little later than what it is waited for says so itself, and why.
    timer = setTimeout(() => reject(error), START_MS + 500);
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
  });
  return Promise.race([work, late]).finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  });
}

function chosen(name: string, settings: McpSettings, listed: readonly ListedTool[], server: McpServer): McpTools {
  const table = tableOf(name);
  const problems: Notice[] = [];
  const say = (code: ErrorCode, message: string, fix: string) => problems.push({ code, message, fix });
  const meant = listed.filter((tool) => settings.tools?.some((entry) => isNamed(tool, entry)) ?? true);
  const wrongIn = ({ inputSchema }: ListedTool) => {
    if (JSON.stringify(inputSchema).length > LARGEST_SCHEMA) return "is larger than 32 KiB";
    return plainSchema(inputSchema) ? undefined : "has hidden characters in what is checked by it";
  };
  for (const tool of meant.filter((one) => wrongIn(one) !== undefined).slice(0, 5)) {
    const message = `Tool '${oneLine(tool.name, 64)}' of MCP server '${name}' is left out: its schema ${wrongIn(tool)}`;
    say("mcp-schema", message, "ask whoever makes the server to mend it");
  }
  const tools = new Map<string, Tool>();
  for (const one of meant.filter((tool) => wrongIn(tool) === undefined)) {
    const tool = asTool(name, one, settings, server.call);
    if (!tools.has(tool.name)) tools.set(tool.name, tool);
  }
  if (tools.size > MOST_TOOLS) {
    const message = `MCP server '${name}' has ${count(tools.size, "tool")}: only the first ${MOST_TOOLS} are given to runs`;
    say("mcp-many", message, `name those that are needed: tools = ["…"] under ${table} in config.toml`);
  }
  const named = new Set([...(settings.tools ?? []), ...(settings.withoutAsking ?? [])]);
  const missing = [...named].filter((entry) => !listed.some((tool) => isNamed(tool, entry)));
  if (missing.length > 0) {
    const has = oneLine(listed.map((tool) => tool.name).join(", "), 300) || "none";
    const message = `MCP server '${name}' has no tool ${oneLine(missing.map((entry) => `'${entry}'`).join(", "), 200)}`;
    say("mcp-tool", message, `it has: ${has}; correct ${table} in config.toml`);
  }
  return { tools: [...tools.values()].slice(0, MOST_TOOLS), problems };
}

let isEndedInTime = false;

/** Once there is nothing left to do they are closed: a server that does not end when it is asked to would stay for ever after us. */
function endInTime(): void {
  if (isEndedInTime) return;
  isEndedInTime = true;
  process.once("beforeExit", () => {
    isEndedInTime = false; // One that is started later is closed later.
    void closeOpened();
  });
}
