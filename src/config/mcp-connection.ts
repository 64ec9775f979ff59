import { existsSync } from "node:fs";
import type { Client, Transport } from "@modelcontextprotocol/client";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import { fetchUnderLease } from "../util/async.ts";
import { loadPeer } from "../util/peer-packages.ts";
import { createRedactor, type Secrets } from "../util/redact.ts";
import { endChild, getSkilletHome, getUserHome, packageVersion, registerChild } from "../util/system.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import type { Host } from "./host.ts";
import { type McpSettings, resolveReference } from "./settings.ts";

/** An open connection to an MCP server. */
export interface McpConnection {
  readonly client: Client;
  isOpen(): boolean;
  /** Returns how the server ended, and its last output on standard error. Empty if nothing is known. */
  describeEnd(): string;
  close(): Promise<void>;
}

interface McpConnectOptions {
  timeoutMs: number;
  signal: AbortSignal;
  /** Called when the list of its tools changes. */
  onChanged(): void;
}

/** The reason why a connection failed. */
export class McpConnectError extends Error {
  /** The end of the server, as in `McpConnection.describeEnd`. */
  readonly ending: string;

  constructor(cause: unknown, last: string) {
    super("the connection failed", { cause });
    this.ending = last;
  }
}

/** Starts a server, or connects to its address. Throws a McpConnectError if it does not answer in time. */
export async function connectMcpServer(launch: McpLaunch, options: McpConnectOptions): Promise<McpConnection> {
  if ("url" in launch) return attemptConnect(launch, "auto", options);
  try {
    return await attemptConnect(launch, "legacy", options);
  } catch (error) {
    // It rejected the legacy handshake: it may only support the newer one.
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
    await client.connect(transport, { timeout: options.timeoutMs, signal: options.signal });
  } catch (error) {
    void close();
    throw new McpConnectError(error, last());
  }
  return { client, isOpen: () => isOpen, describeEnd: last, close };
}

/** Returns true if a server returned an error, rather than no answer. */
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

/** The maximum size of an answer of a server. */
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
  // A permanently open stream would keep this process alive. Changed lists are requested again anyway.
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
 * Follows redirects within the configured origin. Another origin is refused: a server could redirect to an address of the local network,
 * which would receive the token.
 */
async function fetchSameOrigin(url: string | URL, init?: RequestInit): Promise<Response> {
  let current = new URL(url);
  for (let redirects = 0; ; redirects++) {
    const response = await fetchUnderLease(current, { ...init, redirect: "manual" });
    const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (location === null) return response;
    await response.body?.cancel();
    const next = URL.parse(location, current.href);
    if (next?.origin !== current.origin) throw new Error("it redirects to another server, which is not followed");
    if (redirects >= MAX_REDIRECTS) throw new Error(`it redirects more than ${MAX_REDIRECTS} times`);
    current = next;
  }
}

const KEPT_CHARACTERS = 2000;

async function openProgramTransport(
  launch: Extract<McpLaunch, { command: readonly string[] }>,
): Promise<OpenedTransport> {
  const { StdioClientTransport } = await loadPeer.mcpStdio();
  const [command = "", ...args] = launch.command;
  // Redacted before it is truncated: a partial secret would not be recognized.
  const redactor = createRedactor(listLaunchSecrets(launch)).createStream();
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
        ending ||= code === null ? `it was stopped by ${signal}` : `it ended with code ${code}`;
      });
      // The SDK skips output that is not a message, so its amount is limited here.
      child?.stdout?.on("data", (bytes: Buffer) => {
        unread += bytes.length;
        if (unread <= MAX_ANSWER_BYTES) return;
        ending = "it printed 16 MiB without an MCP message";
        child.kill("SIGKILL");
      });
      await started;
      // A pending request keeps the process alive with its timer; an idle server does not.
      for (const handle of [child, child?.stdin, child?.stdout, child?.stderr]) handle?.unref?.();
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
    printed = (printed + redactor.push(bytes).toString("latin1")).slice(-KEPT_CHARACTERS);
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

/** The private child process of the SDK. The SDK does not expose it, and it would keep this process alive. */
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

/** The resolved command or address of a server. */
export type McpLaunch = { name: string; seconds: number } & (ProgramLaunch | HttpLaunch);

interface ProgramLaunch {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** The working directory. Never the workspace, whose files could be started instead of the intended program. */
  folder: string;
}

interface HttpLaunch {
  url: string;
  token: string | undefined;
}

/** The context in which configuration values are resolved. */
type McpLaunchContext = Pick<Host, "home" | "env">;

const DEFAULT_TIMEOUT_SECONDS = 60;

/** Resolves the settings of a server. Throws a SkillError if they are invalid. */
export function resolveMcpLaunch(name: string, settings: McpSettings, host: McpLaunchContext): McpLaunch {
  const { command, url, token, env, seconds = DEFAULT_TIMEOUT_SECONDS } = settings;
  if ((command === undefined) === (url === undefined)) {
    const found = url === undefined ? "neither command nor url" : "both command and url";
    throw createMcpError(name, `it has ${found}`, `set one of them under ${formatMcpTable(name)} in config.toml`);
  }
  if (url !== undefined) {
    const value = token === undefined ? undefined : resolveMcpValue(name, "token", token, host);
    return { name, seconds, url, token: value };
  }
  const values = [...env].map(([variable, value]) => [variable, resolveMcpValue(name, `env.${variable}`, value, host)]);
  const variables = host.env ?? process.env;
  const home = host.home ?? getSkilletHome(variables);
  const folder = existsSync(home) ? home : getUserHome(variables);
  return { name, seconds, command: command ?? [], env: Object.fromEntries(values), folder };
}

/** Returns the values to redact. */
export function listLaunchSecrets(launch: McpLaunch): Secrets {
  if ("command" in launch) return new Map(Object.entries(launch.env));
  return new Map(launch.token === undefined ? [] : [[`${launch.name}.token`, launch.token]]);
}

/** Creates the error of a server that cannot be used. */
export function createMcpError(name: string, why: string, fix: string, code: ErrorCode = "mcp-failed"): SkillError {
  return new SkillError(code, { message: `MCP server '${name}' cannot be used: ${why}`, fix });
}

export function formatMcpTable(name: string): string {
  return `[tools.mcp.${name}]`;
}

function resolveMcpValue(name: string, key: string, value: string, host: McpLaunchContext): string {
  return resolveReference(value, host, (why) => {
    throw createMcpError(name, `${key}: ${why}`, `correct ${key} under ${formatMcpTable(name)} in config.toml`);
  });
}

/** Creates the errors of a server. */
interface McpErrors {
  /** Creates the error of a failed start. `last`: the end of the server, if known. */
  createStartError(error: unknown, last?: string): SkillError;
  createCallProblem(error: unknown, last?: string): Problem;
}

export const MCP_START_TIMEOUT_MS = 10_000;
const MAX_MESSAGE_LENGTH = 300;

export function createMcpErrors(launch: McpLaunch): McpErrors {
  const { name, seconds } = launch;
  const table = formatMcpTable(name);
  const redactor = createRedactor(listLaunchSecrets(launch));
  // Redacted before it is truncated.
  const formatReason = (...parts: readonly string[]) =>
    sanitizeLine(redactor.redact(parts.filter(Boolean).join("; ")), MAX_MESSAGE_LENGTH);

  function createStartError(error: unknown, last = ""): SkillError {
    if (error instanceof McpConnectError) return createStartError(error.cause, error.ending);
    if (error instanceof SkillError && error.code === "optional-package-missing") return error;
    if (isMcpTimeout(error)) {
      const fix =
        "url" in launch
          ? `check that it runs at the url under ${table} in config.toml`
          : `start it once manually if it must be downloaded first, or correct command under ${table} in config.toml`;
      return createMcpError(
        name,
        formatReason(`it did not answer within ${MCP_START_TIMEOUT_MS / 1000} s`, last),
        fix,
        "mcp-timeout",
      );
    }
    const keys = "url" in launch ? "url and token" : "command and env";
    return createMcpError(
      name,
      formatReason(findRootReason(error), last),
      `correct ${keys} under ${table} in config.toml, or set enabled = false`,
    );
  }

  function createCallProblem(error: unknown, last = ""): Problem {
    if (error instanceof McpConnectError) {
      return createStartError(error).problem;
    }
    if (isMcpTimeout(error)) {
      return {
        code: "mcp-timeout",
        message: `MCP server '${name}' did not answer within ${seconds} s`,
        fix: `request less, or raise timeout_seconds under ${table} in config.toml`,
      };
    }
    if (isServerRefusal(error)) {
      const message = `MCP server '${name}' rejected the call: ${formatReason(findRootReason(error))}`;
      return { code: "mcp-failed", message, fix: "correct the input, or continue without it" };
    }
    return {
      code: "mcp-failed",
      message: `MCP server '${name}' failed: ${formatReason(findRootReason(error), last)}`,
      fix: "call it again to reconnect, or check it",
      commands: ["skillet doctor --tools"],
    };
  }

  return { createStartError, createCallProblem };
}

/** Returns the message of the innermost cause: "fetch failed" alone is not helpful. */
function findRootReason(error: unknown): string {
  if (error instanceof Error && error.cause instanceof Error) return findRootReason(error.cause);
  return getErrorMessage(error) || getErrnoCode(error);
}
