import { readFileSync } from "node:fs";
import { connectMcpServer, McpConnectError, type McpConnection, type McpLaunch } from "../../config/mcp-connection.ts";
import { getErrorMessage } from "../../errors/problem.ts";
import { runProcess } from "../../sandbox/process.ts";
import { isJsonObject } from "../../util/objects.ts";
import { truncateLine } from "../../util/text.ts";
import {
  type ClientConfigEntry,
  type ConfigScope,
  getServerCommand,
  getServerTokenPath,
  isLocalUrl,
  isRemoteEntry,
  isTable,
  type McpClientEnvironment,
  parseEntryUrl,
  SERVER_TOKEN_VARIABLE,
} from "./mcp-clients.ts";
import type { ConnectionState } from "./plan-connection.ts";
import { ADVISE_TOOL_NAME, createHookCommand, formatHookCommand, type HookProgram } from "./prompt-hook-config.ts";

/** The result of checking one part: `untried` if a project's file names another program, which is not started. */
export interface PartCheck {
  state: "works" | "fails" | "untried";
  /** The number of tools or the kind of answer; the reason for a failure. */
  detail: string;
}

export interface ConnectionCheck {
  server: PartCheck | undefined;
  hook: PartCheck | undefined;
}

/** A connection to check. */
export interface ConnectionToCheck {
  client: string;
  scope: ConfigScope;
  state: ConnectionState;
}

export interface ConnectionCheckContext {
  environment: McpClientEnvironment;
  skilletHome: string;
  /** This program: the only one that is started for a project's file. */
  program: HookProgram;
  /** The time limit of each start, in seconds. Defaults to 10. */
  seconds?: number;
  signal?: AbortSignal;
}

const DEFAULT_SECONDS = 10;
const MAX_OUTPUT_BYTES = 1024 * 1024;
const SAMPLE_PROMPT = "review my changes";

/**
 * Starts the configured parts of the clients: each server, to list its tools, and each hook, with a sample prompt.
 * Never throws, and takes at most `seconds` for each; clients with the same server share its start.
 */
export async function checkConnections(
  connections: readonly ConnectionToCheck[],
  context: ConnectionCheckContext,
): Promise<ConnectionCheck[]> {
  const servers = new Map<string, Promise<ServerCheck>>();
  const checks: ConnectionCheck[] = [];
  for (const connection of connections) checks.push(await checkConnection(connection, context, servers));
  return checks;
}

async function checkConnection(
  { client, scope, state }: ConnectionToCheck,
  context: ConnectionCheckContext,
  servers: Map<string, Promise<ServerCheck>>,
): Promise<ConnectionCheck> {
  const { entry } = state.server;
  const handler = state.hook?.handler;
  const tried = entry && checkServer(entry, scope, context, servers);
  const server = await tried;
  const hook = handler === undefined ? undefined : await checkHook(handler, { client, scope, server, state, context });
  return { server: server?.part, hook };
}

interface ServerCheck {
  part: PartCheck;
  /** The answer of its tool for hooks. */
  advice?: PartCheck;
}

function checkServer(
  entry: ClientConfigEntry,
  scope: ConfigScope,
  context: ConnectionCheckContext,
  servers: Map<string, Promise<ServerCheck>>,
): Promise<ServerCheck> {
  const launch = createLaunch(entry, context);
  if (scope === "project" && !isSkilletProgram(launch, context))
    return Promise.resolve({ part: { state: "untried", detail: "the project's file names another program" } });
  const key = JSON.stringify(launch);
  const known = servers.get(key) ?? tryServer(launch, context);
  servers.set(key, known);
  return known;
}

/** Returns how the client reaches the server. `${workspaceFolder}` is a placeholder of VS Code and Cursor. */
function createLaunch(
  entry: ClientConfigEntry,
  { environment, skilletHome, seconds = DEFAULT_SECONDS }: ConnectionCheckContext,
): McpLaunch {
  const common = { name: "skillet", seconds };
  const url = parseEntryUrl(entry);
  if (isRemoteEntry(entry) && url) return { ...common, url: url.href, token: findToken(url, environment, skilletHome) };
  const words = getServerCommand(entry).map((word) => word.replaceAll(`\${workspaceFolder}`, environment.workspace));
  const own = [entry["env"], entry["environment"]].find(isTable) ?? {};
  const env = Object.entries({ ...environment.env, ...own }).filter(
    (one): one is [string, string] => typeof one[1] === "string",
  );
  return { ...common, command: words, env: Object.fromEntries(env), folder: environment.home };
}

function findToken(url: URL, { env }: McpClientEnvironment, skilletHome: string): string | undefined {
  if (env[SERVER_TOKEN_VARIABLE]) return env[SERVER_TOKEN_VARIABLE];
  if (!isLocalUrl(url)) return undefined;
  try {
    return readFileSync(getServerTokenPath(skilletHome), "utf8").trim();
  } catch {
    return undefined; // No server with a token was started yet.
  }
}

function isSkilletProgram(launch: McpLaunch, { program }: ConnectionCheckContext): boolean {
  const own = [program.command, ...program.args];
  return "command" in launch && own.every((word, at) => launch.command[at] === word);
}

async function tryServer(
  launch: McpLaunch,
  { signal, seconds = DEFAULT_SECONDS }: ConnectionCheckContext,
): Promise<ServerCheck> {
  const limit = AbortSignal.timeout(seconds * 1000);
  const stop = signal ? AbortSignal.any([signal, limit]) : limit;
  let connection: McpConnection | undefined;
  try {
    connection = await connectMcpServer(launch, { timeoutMs: seconds * 1000, signal: stop, onChanged: () => {} });
    const { client } = connection;
    const { tools } = await client.listTools(undefined, { signal: stop });
    if (!tools.some(({ name }) => name === "load_skill"))
      return { part: { state: "fails", detail: "it answers, but has no tool load_skill" } };
    const called = await client
      .callTool({ name: ADVISE_TOOL_NAME, arguments: { prompt: SAMPLE_PROMPT } }, { signal: stop })
      .catch((error: unknown) => ({ content: [], problem: getErrorMessage(error) }));
    return { part: { state: "works", detail: `${tools.length} tools` }, advice: checkAdvice(called) };
  } catch (error) {
    const cause = error instanceof McpConnectError ? error.cause : error;
    const last = error instanceof McpConnectError ? error.ending : (connection?.describeEnd() ?? "");
    return {
      part: { state: "fails", detail: truncateLine([getErrorMessage(cause), last].filter(Boolean).join("; "), 300) },
    };
  } finally {
    await connection?.close();
  }
}

function checkAdvice(result: unknown): PartCheck {
  const { content, problem } = Object(result) as { content?: { type?: string; text?: string }[]; problem?: string };
  const text = content?.find(({ type }) => type === "text")?.text ?? "";
  if (isJsonObjectText(text)) return { state: "works", detail: "the running server answers" };
  return {
    state: "fails",
    detail: problem ?? `the server's tool ${ADVISE_TOOL_NAME} gives an unexpected answer`,
  };
}

interface HookCheckContext {
  client: string;
  scope: ConfigScope;
  server: ServerCheck | undefined;
  state: ConnectionState;
  context: ConnectionCheckContext;
}

async function checkHook(
  handler: ClientConfigEntry | "plugin",
  { client, scope, server, state, context }: HookCheckContext,
): Promise<PartCheck> {
  if (handler !== "plugin" && handler["type"] === "mcp_tool") {
    if (!server)
      return {
        state: "fails",
        detail: "it calls a tool of the server, which is missing from the client's configuration",
      };
    if (server.part.state === "untried") return server.part;
    return server.advice ?? { ...server.part, detail: `the server does not answer: ${server.part.detail}` };
  }
  const own = createHookCommand(client, context);
  const command =
    handler === "plugin"
      ? readPluginCommand(state.hook?.file ?? "")
      : ["/bin/sh", "-c", String(handler["command"] ?? handler["bash"])];
  if (!command) return { state: "fails", detail: "the plugin does not name its program" };
  const isOwn =
    handler === "plugin"
      ? own.every((word, at) => command[at] === word)
      : command[2] === formatHookCommand(client, context);
  if (scope === "project" && !isOwn) return { state: "untried", detail: "the project's file names another program" };
  return runHook(command, context);
}

function readPluginCommand(file: string): string[] | undefined {
  try {
    const [, json = ""] = /^const \[PROGRAM, [^=]*= (.*);$/m.exec(readFileSync(file, "utf8")) ?? [];
    const words: unknown = JSON.parse(json);
    return Array.isArray(words) ? words.map(String) : undefined;
  } catch {
    return undefined;
  }
}

/** Runs a hook. `skillet hook` exits with 0 and adds nothing when it fails: the reason is on its standard error. */
async function runHook(
  [file = "", ...args]: readonly string[],
  { environment, signal, seconds = DEFAULT_SECONDS }: ConnectionCheckContext,
): Promise<PartCheck> {
  const env = Object.fromEntries(
    Object.entries(environment.env).filter((one): one is [string, string] => one[1] !== undefined),
  );
  const printed = { stdout: "", stderr: "" };
  try {
    const { exitCode, ending } = await runProcess(
      {
        file,
        args,
        env,
        folder: environment.home,
        secretInput: JSON.stringify({ prompt: SAMPLE_PROMPT, cwd: environment.workspace }),
      },
      seconds,
      {
        onOutput(stream, bytes) {
          printed[stream] += bytes.toString("utf8");
          return printed[stream].length < MAX_OUTPUT_BYTES;
        },
        ...(signal ? { signal } : {}),
      },
    );
    const stderr = truncateLine(printed.stderr, 300);
    if (ending === "timeout") return { state: "fails", detail: `it did not answer within ${seconds} s` };
    if (exitCode !== 0)
      return { state: "fails", detail: `it ended with code ${exitCode ?? "none"}${stderr && `: ${stderr}`}` };
    if (!isJsonObjectText(printed.stdout))
      return { state: "fails", detail: `it did not print JSON${stderr && `: ${stderr}`}` };
    return printed.stderr.includes("✗")
      ? { state: "fails", detail: stderr }
      : { state: "works", detail: "the command answers" };
  } catch (error) {
    return { state: "fails", detail: truncateLine(getErrorMessage(error), 300) };
  }
}

function isJsonObjectText(text: string): boolean {
  try {
    return isJsonObject(JSON.parse(text));
  } catch {
    return false;
  }
}
