import { existsSync } from "node:fs";
import type { Client, Transport } from "@modelcontextprotocol/client";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import { packageVersion } from "../package.ts";
import { loadPeer } from "../util/peer-packages.ts";
import { createRedactor, type Secrets } from "../util/redact.ts";
import { getSkilletHome, getUserHome } from "../util/system.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { resolveReference } from "./config-file.ts";
import type { Host } from "./host.ts";
import { endChild, registerChild } from "./mcp-shutdown.ts";
import type { McpSettings } from "./settings.ts";

/** A server that answered. */
export interface McpConnection {
  readonly client: Client;
  isOpen(): boolean;
  /** How it ended, and the last that it printed on its standard error. Empty where nothing is known. */
  last(): string;
  close(): Promise<void>;
}

interface McpConnectOptions {
  ms: number;
  signal: AbortSignal;
  /** Its tools are others now. */
  onChanged(): void;
}

/** Why there is none. */
export class McpConnectError extends Error {
  /** As `last` of a connection. */
  readonly last: string;

  constructor(cause: unknown, last: string) {
    super("there is no connection", { cause });
    this.last = last;
  }
}

/** Starts a server, or finds it at its address. Throws an Unconnected when it does not answer in time. */
export async function connectMcpServer(launch: McpLaunch, options: McpConnectOptions): Promise<McpConnection> {
  if ("url" in launch) return attemptConnect(launch, "auto", options);
  try {
    return await attemptConnect(launch, "legacy", options);
  } catch (error) {
    // It answered, and will not be greeted as servers always were: it may know only the newer way.
    if (!(error instanceof McpConnectError && isServerRefusal(error.cause))) throw error;
    return attemptConnect(launch, "auto", options);
  }
}

async function attemptConnect(
  launch: McpLaunch,
  mode: "auto" | "legacy",
  options: McpConnectOptions,
): Promise<McpConnection> {
  // Loaded when a server is first needed.
  const { Client: ClientClass } = await loadPeer.mcpClient();
  const client = new ClientClass(
    { name: "skillet", version: packageVersion() },
    { versionNegotiation: { mode }, capabilities: {} },
  );
  const { transport, last, end } = await openTransport(launch);
  let isOpen = true;
  client.onclose = () => {
    isOpen = false;
  };
  client.setNotificationHandler("notifications/tools/list_changed", options.onChanged);
  const close = async () => {
    const closed = client.close().catch(() => {});
    await end(closed);
  };
  try {
    await client.connect(transport, { timeout: options.ms, signal: options.signal });
  } catch (error) {
    void close();
    throw new McpConnectError(error, last());
  }
  return { client, isOpen: () => isOpen, last, close };
}

/** Whether a server said no, rather than nothing. */
export function isServerRefusal(error: unknown): boolean {
  return typeof (error as { code?: unknown } | undefined)?.code === "number" && !isMcpTimeout(error);
}

export function isMcpTimeout(error: unknown): boolean {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown };
  return code === "REQUEST_TIMEOUT" || name === "TimeoutError";
}

interface OpenedTransport {
  transport: Transport;
  last(): string;
  end(closed: Promise<void>): Promise<void>;
}

async function openTransport(launch: McpLaunch): Promise<OpenedTransport> {
  return "url" in launch ? openHttpTransport(launch) : openProgramTransport(launch);
}

/** What an answer of a server may be large. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

async function openHttpTransport({ url, token }: Extract<McpLaunch, { url: string }>): Promise<OpenedTransport> {
  const { StreamableHTTPClientTransport } = await loadPeer.mcpClient();
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: fetchBounded,
    ...(token === undefined ? {} : { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  });
  return { transport: transport as Transport, last: () => "", end: (closed) => closed };
}

async function fetchBounded(url: string | URL, init?: RequestInit): Promise<Response> {
  // A stream that is open for as long as we live would keep us alive. A list that changed is asked for again anyway.
  if (init?.method === "GET" && !new Headers(init.headers).has("last-event-id"))
    return new Response(null, { status: 405 });
  const response = await fetchSameOrigin(url, init);
  if (!response.body) return response;
  let size = 0;
  const bounded = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      size += bytes.length;
      if (size > MAX_ANSWER_BYTES) controller.error(new Error("its answer is larger than 16 MiB"));
      else controller.enqueue(bytes);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(bounded), { status, statusText, headers });
}

const MAX_REDIRECTS = 3;

/**
 * Follows redirects within the origin that the user configured. Another origin is refused: a server could name an address of this network,
 * and would be sent the token.
 */
async function fetchSameOrigin(url: string | URL, init?: RequestInit): Promise<Response> {
  let at = new URL(url);
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(at, { ...init, redirect: "manual" });
    const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (location === null) return response;
    await response.body?.cancel();
    const next = URL.parse(location, at.href);
    if (next?.origin !== at.origin) throw new Error("it redirects to another server, which is not followed");
    if (redirects >= MAX_REDIRECTS) throw new Error(`it redirects more than ${MAX_REDIRECTS} times`);
    at = next;
  }
}

const KEPT_CHARACTERS = 2000;

async function openProgramTransport(
  launch: Extract<McpLaunch, { command: readonly string[] }>,
): Promise<OpenedTransport> {
  const { StdioClientTransport } = await loadPeer.mcpStdio();
  const [command = "", ...args] = launch.command;
  // Hidden before it is cut: half a secret would be none that anybody knows.
  const hiding = createRedactor(listLaunchSecrets(launch)).stream();
  let printed = "";
  let ending = "";
  let pid: number | undefined;
  let unread = 0;

  class Program extends StdioClientTransport {
    override async start(): Promise<void> {
      const started = super.start();
      const child = (this as unknown as { _process?: ChildProcessView })._process;
      pid = child?.pid;
      const isOver = registerChild(pid);
      child?.once("exit", (code, signal) => {
        isOver();
        ending ||= code === null ? `it was ended by ${signal}` : `it ended with code ${code}`;
      });
      // What is no message is passed over: somebody must see that it does not go on for ever.
      child?.stdout?.on("data", (bytes: Buffer) => {
        unread += bytes.length;
        if (unread <= MAX_ANSWER_BYTES) return;
        ending = "it printed 16 MiB that are no message of MCP";
        child.kill("SIGKILL");
      });
      await started;
      // Whoever waits for an answer has a clock running; nobody else is kept by it.
      for (const one of [child, child?.stdin, child?.stdout, child?.stderr]) one?.unref?.();
    }
  }

  const transport = new Program({
    command,
    args,
    env: { ...launch.env },
    cwd: launch.folder,
    stderr: "pipe",
    maxBufferSize: MAX_ANSWER_BYTES,
  });
  transport.onmessage = () => {
    unread = 0;
  };
  transport.stderr?.on("data", (bytes: Buffer) => {
    printed = (printed + hiding.push(bytes).toString("latin1")).slice(-KEPT_CHARACTERS);
  });
  const last = () => {
    const text = Buffer.from(printed, "latin1").toString("utf8").trim();
    return [ending, text === "" ? "" : `it printed: ${text}`].filter((part) => part !== "").join("; ");
  };
  const end = async (closed: Promise<void>) => {
    await waitAtMost(closed, GRACE_MS);
    await endChild(pid);
  };
  return { transport, last, end };
}

const GRACE_MS = 1000;

async function waitAtMost(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}

/** What is seen of the program that the SDK starts. It offers none of it, and would keep us alive. */
interface ChildProcessView extends Unrefable {
  pid?: number;
  stdin?: Unrefable | null;
  stdout?: (Unrefable & { on(event: "data", listener: (bytes: Buffer) => void): unknown }) | null;
  stderr?: Unrefable | null;
  kill(signal: NodeJS.Signals): boolean;
  once(event: "exit", listener: (code: number | null, signal: string | null) => void): unknown;
}

interface Unrefable {
  unref?(): void;
}

/** How a server is reached, with all values in place. */
export type McpLaunch = { name: string; seconds: number } & (ProgramLaunch | HttpLaunch);

interface ProgramLaunch {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** Never the workspace: what lies there could be started in place of what was meant. */
  folder: string;
}

interface HttpLaunch {
  url: string;
  token: string | undefined;
}

/** What values of the configuration are resolved with. */
type McpLaunchContext = Pick<Host, "home" | "env">;

const DEFAULT_TIMEOUT_SECONDS = 60;

/** Throws a SkillError when it is configured as none can be. */
export function resolveMcpLaunch(name: string, settings: McpSettings, host: McpLaunchContext): McpLaunch {
  const { command, url, token, env, seconds = DEFAULT_TIMEOUT_SECONDS } = settings;
  if ((command === undefined) === (url === undefined)) {
    const said = url === undefined ? "neither command nor url" : "both command and url";
    throw createMcpError(name, `it has ${said}`, `give it one of them under ${formatMcpTable(name)} in config.toml`);
  }
  if (url !== undefined) {
    const value = token === undefined ? undefined : resolveMcpValue(name, "token", token, host);
    return { name, seconds, url, token: value };
  }
  const values = [...env].map(([variable, written]) => [
    variable,
    resolveMcpValue(name, `env.${variable}`, written, host),
  ]);
  const around = host.env ?? process.env;
  const own = host.home ?? getSkilletHome(around);
  const folder = existsSync(own) ? own : getUserHome(around);
  return { name, seconds, command: command ?? [], env: Object.fromEntries(values), folder };
}

/** What of it nobody is shown. */
export function listLaunchSecrets(launch: McpLaunch): Secrets {
  if ("command" in launch) return new Map(Object.entries(launch.env));
  return new Map(launch.token === undefined ? [] : [[`${launch.name}.token`, launch.token]]);
}

/** What a server needs that cannot be had, or what it did. */
export function createMcpError(name: string, why: string, fix: string, code: ErrorCode = "mcp-failed"): SkillError {
  return new SkillError(code, { message: `MCP server '${name}' cannot be used: ${why}`, fix });
}

export function formatMcpTable(name: string): string {
  return `[tools.mcp.${name}]`;
}

function resolveMcpValue(name: string, key: string, written: string, host: McpLaunchContext): string {
  return resolveReference(written, host, (why) => {
    throw createMcpError(name, `${key}: ${why}`, `correct ${key} under ${formatMcpTable(name)} in config.toml`);
  });
}

/** What went wrong with a server, in words. */
interface McpErrors {
  /** It cannot be had. `last`: what is known of its end. */
  ofStart(error: unknown, last?: string): SkillError;
  ofCall(error: unknown, last?: string): Problem;
}

export const MCP_START_TIMEOUT_MS = 10_000;
const MAX_MESSAGE_LENGTH = 300;

export function createMcpErrors(launch: McpLaunch): McpErrors {
  const { name, seconds } = launch;
  const table = formatMcpTable(name);
  const hiding = createRedactor(listLaunchSecrets(launch));
  // Hidden before it is cut.
  const say = (...parts: readonly string[]) =>
    sanitizeLine(hiding.text(parts.filter(Boolean).join("; ")), MAX_MESSAGE_LENGTH);

  function ofStart(error: unknown, last = ""): SkillError {
    if (error instanceof McpConnectError) return ofStart(error.cause, error.last);
    if (error instanceof SkillError && error.code === "package-missing") return error;
    if (isMcpTimeout(error)) {
      const fix =
        "url" in launch
          ? `see whether it runs at the url under ${table} in config.toml`
          : `start it once by hand, if it must be fetched first; or correct command under ${table} in config.toml`;
      return createMcpError(
        name,
        say(`it did not answer within ${MCP_START_TIMEOUT_MS / 1000} s`, last),
        fix,
        "mcp-timeout",
      );
    }
    const keys = "url" in launch ? "url and token" : "command and env";
    return createMcpError(
      name,
      say(findRootReason(error), last),
      `correct ${keys} under ${table} in config.toml, or set enabled = false`,
    );
  }

  function ofCall(error: unknown, last = ""): Problem {
    if (error instanceof McpConnectError) {
      const { code, message, fix = "" } = ofStart(error);
      return { code, message, fix };
    }
    if (isMcpTimeout(error)) {
      return {
        code: "mcp-timeout",
        message: `MCP server '${name}' did not answer within ${seconds} s`,
        fix: `ask it for less, or raise timeout_seconds under ${table} in config.toml`,
      };
    }
    if (isServerRefusal(error)) {
      const message = `MCP server '${name}' refused the call: ${say(findRootReason(error))}`;
      return { code: "mcp-failed", message, fix: "correct the input, or do without" };
    }
    return {
      code: "mcp-failed",
      message: `MCP server '${name}' failed: ${say(findRootReason(error), last)}`,
      fix: "it is started again at the next call; `skillet doctor --tools` says how it is",
    };
  }

  return { ofStart, ofCall };
}

/** What is behind it all: that something was not fetched says little. */
function findRootReason(error: unknown): string {
  if (error instanceof Error && error.cause instanceof Error) return findRootReason(error.cause);
  return getErrorMessage(error) || getErrnoCode(error);
}
