import { readFileSync } from "node:fs";
import { type Connection, connect, Unconnected } from "../../host/mcp/connect.ts";
import type { Launch } from "../../host/mcp/launch.ts";
import { serverTokenFile } from "../../host/server-token.ts";
import { runProcess } from "../../sandbox/process.ts";
import { reason } from "../../shared/inside.ts";
import { oneLine } from "../../shared/text.ts";
import { isData } from "../../skill/data.ts";
import { type Entry, type Place, type Scope, TOKEN } from "./clients.ts";
import type { ConnectionState } from "./connection-state.ts";
import { isCalling, isHere, isTable, serverWords, urlOf } from "./entry.ts";
import { ADVISE_TOOL, commandLine, type HookProgram, hookCommand } from "./hook-config.ts";

/** The result of trying one part: `untried` if a project's file names another program, which is not started. */
export interface PartCheck {
  state: "works" | "fails" | "untried";
  /** The number of tools or the kind of answer; the reason of a failure. */
  detail: string;
}

export interface ConnectionCheck {
  server: PartCheck | undefined;
  hook: PartCheck | undefined;
}

/** A connection to be tried. */
export interface CheckedConnection {
  client: string;
  scope: Scope;
  state: ConnectionState;
}

export interface CheckContext {
  place: Place;
  skilletHome: string;
  /** This program: the only one that a project's file can have started. */
  program: HookProgram;
  /** How long each start may take. Defaults to 10. */
  seconds?: number;
  signal?: AbortSignal;
}

const LONGEST_SECONDS = 10;
const MOST_OUTPUT = 1024 * 1024;
const SAMPLE_PROMPT = "review my changes";

/**
 * Starts what the clients are configured with: each server, of which the tools are listed, and each hook with a sample prompt. Never throws,
 * and takes at most `seconds` for each; clients with the same server share its start.
 */
export async function checkConnections(
  connections: readonly CheckedConnection[],
  context: CheckContext,
): Promise<ConnectionCheck[]> {
  const servers = new Map<string, Promise<ServerCheck>>();
  const checks: ConnectionCheck[] = [];
  for (const connection of connections) checks.push(await checkConnection(connection, context, servers));
  return checks;
}

async function checkConnection(
  { client, scope, state }: CheckedConnection,
  context: CheckContext,
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
  entry: Entry,
  scope: Scope,
  context: CheckContext,
  servers: Map<string, Promise<ServerCheck>>,
): Promise<ServerCheck> {
  const launch = launchOf(entry, context);
  if (scope === "project" && !isOwnProgram(launch, context))
    return Promise.resolve({ part: { state: "untried", detail: "the project's file names another program" } });
  const key = JSON.stringify(launch);
  const known = servers.get(key) ?? startServer(launch, context);
  servers.set(key, known);
  return known;
}

/** How the client reaches the server. `${workspaceFolder}` is what VS Code and Cursor put in. */
function launchOf(entry: Entry, { place, skilletHome, seconds = LONGEST_SECONDS }: CheckContext): Launch {
  const common = { name: "skillet", seconds };
  const url = urlOf(entry);
  if (isCalling(entry) && url) return { ...common, url: url.href, token: tokenFor(url, place, skilletHome) };
  const words = serverWords(entry).map((word) => word.replaceAll(`\${workspaceFolder}`, place.workspace));
  const own = [entry["env"], entry["environment"]].find(isTable) ?? {};
  const env = Object.entries({ ...place.env, ...own }).filter(
    (one): one is [string, string] => typeof one[1] === "string",
  );
  return { ...common, command: words, env: Object.fromEntries(env), folder: place.home };
}

function tokenFor(url: URL, { env }: Place, skilletHome: string): string | undefined {
  if (env[TOKEN]) return env[TOKEN];
  if (!isHere(url)) return undefined;
  try {
    return readFileSync(serverTokenFile(skilletHome), "utf8").trim();
  } catch {
    return undefined; // No server with a token was ever started.
  }
}

function isOwnProgram(launch: Launch, { program }: CheckContext): boolean {
  const own = [program.command, ...program.args];
  return "command" in launch && own.every((word, at) => launch.command[at] === word);
}

async function startServer(launch: Launch, { signal, seconds = LONGEST_SECONDS }: CheckContext): Promise<ServerCheck> {
  const limit = AbortSignal.timeout(seconds * 1000);
  const stop = signal ? AbortSignal.any([signal, limit]) : limit;
  let connection: Connection | undefined;
  try {
    connection = await connect(launch, { ms: seconds * 1000, signal: stop, onChanged: () => {} });
    const { client } = connection;
    const { tools } = await client.listTools(undefined, { signal: stop });
    if (!tools.some(({ name }) => name === "load_skill"))
      return { part: { state: "fails", detail: "it answers, and has no tool load_skill" } };
    const called = await client
      .callTool({ name: ADVISE_TOOL, arguments: { prompt: SAMPLE_PROMPT } }, { signal: stop })
      .catch((error: unknown) => ({ content: [], problem: reason(error) }));
    return { part: { state: "works", detail: `${tools.length} tools` }, advice: adviceIn(called) };
  } catch (error) {
    const cause = error instanceof Unconnected ? error.cause : error;
    const last = error instanceof Unconnected ? error.last : (connection?.last() ?? "");
    return { part: { state: "fails", detail: oneLine([reason(cause), last].filter(Boolean).join("; "), 300) } };
  } finally {
    await connection?.close();
  }
}

function adviceIn(result: unknown): PartCheck {
  const { content, problem } = Object(result) as { content?: { type?: string; text?: string }[]; problem?: string };
  const text = content?.find(({ type }) => type === "text")?.text ?? "";
  if (isJsonObject(text)) return { state: "works", detail: "the running server answers" };
  return { state: "fails", detail: problem ?? `the tool ${ADVISE_TOOL} of the server answers with something else` };
}

interface HookCheck {
  client: string;
  scope: Scope;
  server: ServerCheck | undefined;
  state: ConnectionState;
  context: CheckContext;
}

async function checkHook(
  handler: Entry | "plugin",
  { client, scope, server, state, context }: HookCheck,
): Promise<PartCheck> {
  if (handler !== "plugin" && handler["type"] === "mcp_tool") {
    if (!server)
      return { state: "fails", detail: "it calls a tool of the server, which the client's configuration lacks" };
    if (server.part.state === "untried") return server.part;
    return server.advice ?? { ...server.part, detail: `the server does not answer: ${server.part.detail}` };
  }
  const own = hookCommand(client, context);
  const command =
    handler === "plugin"
      ? pluginCommand(state.hook?.file ?? "")
      : ["/bin/sh", "-c", String(handler["command"] ?? handler["bash"])];
  if (!command) return { state: "fails", detail: "the plugin does not name its program" };
  const isOwn =
    handler === "plugin" ? own.every((word, at) => command[at] === word) : command[2] === commandLine(client, context);
  if (scope === "project" && !isOwn) return { state: "untried", detail: "the project's file names another program" };
  return runHook(command, context);
}

function pluginCommand(file: string): string[] | undefined {
  try {
    const [, json = ""] = /^const \[PROGRAM, [^=]*= (.*);$/m.exec(readFileSync(file, "utf8")) ?? [];
    const words: unknown = JSON.parse(json);
    return Array.isArray(words) ? words.map(String) : undefined;
  } catch {
    return undefined;
  }
}

/** `skillet hook` exits with 0 and adds nothing when it fails: what went wrong is on its standard error. */
async function runHook(
  [file = "", ...args]: readonly string[],
  { place, signal, seconds = LONGEST_SECONDS }: CheckContext,
): Promise<PartCheck> {
  const env = Object.fromEntries(
    Object.entries(place.env).filter((one): one is [string, string] => one[1] !== undefined),
  );
  const printed = { stdout: "", stderr: "" };
  try {
    const { exitCode, ending } = await runProcess(
      {
        file,
        args,
        env,
        folder: place.home,
        secretInput: JSON.stringify({ prompt: SAMPLE_PROMPT, cwd: place.workspace }),
      },
      seconds,
      {
        onOutput(stream, bytes) {
          printed[stream] += bytes.toString("utf8");
          return printed[stream].length < MOST_OUTPUT;
        },
        ...(signal ? { signal } : {}),
      },
    );
    const said = oneLine(printed.stderr, 300);
    if (ending === "timeout") return { state: "fails", detail: `it did not answer within ${seconds} s` };
    if (exitCode !== 0)
      return { state: "fails", detail: `it ended with code ${exitCode ?? "none"}${said && `: ${said}`}` };
    if (!isJsonObject(printed.stdout))
      return { state: "fails", detail: `it printed something else than JSON${said && `: ${said}`}` };
    return printed.stderr.includes("✗")
      ? { state: "fails", detail: said }
      : { state: "works", detail: "the command answers" };
  } catch (error) {
    return { state: "fails", detail: oneLine(reason(error), 300) };
  }
}

function isJsonObject(text: string): boolean {
  try {
    return isData(JSON.parse(text));
  } catch {
    return false;
  }
}
