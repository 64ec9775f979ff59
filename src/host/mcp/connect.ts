import type { Client, Transport } from "@modelcontextprotocol/client";
import { packageVersion } from "../../package.ts";
import { openHiding } from "../../shared/redact.ts";
import { loadPeer } from "../peers.ts";
import { endNow, endsWithUs } from "./end.ts";
import { type Launch, secretsOf } from "./launch.ts";

/** A server that answered. */
export interface Connection {
  readonly client: Client;
  isOpen(): boolean;
  /** How it ended, and the last that it printed on its standard error. Empty where nothing is known. */
  last(): string;
  close(): Promise<void>;
}

export interface ConnectOptions {
  ms: number;
  signal: AbortSignal;
  /** Its tools are others now. */
  onChanged(): void;
}

/** Why there is none. */
export class Unconnected extends Error {
  /** As `last` of a connection. */
  readonly last: string;

  constructor(cause: unknown, last: string) {
    super("there is no connection", { cause });
    this.last = last;
  }
}

/** Starts a server, or finds it at its address. Throws an Unconnected when it does not answer in time. */
export async function connect(launch: Launch, options: ConnectOptions): Promise<Connection> {
  if ("url" in launch) return attempt(launch, "auto", options);
  try {
    return await attempt(launch, "legacy", options);
  } catch (error) {
    // It answered, and will not be greeted as servers always were: it may know only the newer way.
    if (!(error instanceof Unconnected && isAnswer(error.cause))) throw error;
    return attempt(launch, "auto", options);
  }
}

async function attempt(launch: Launch, mode: "auto" | "legacy", options: ConnectOptions): Promise<Connection> {
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
    throw new Unconnected(error, last());
  }
  return { client, isOpen: () => isOpen, last, close };
}

/** Whether a server said no, rather than nothing. */
export function isAnswer(error: unknown): boolean {
  return typeof (error as { code?: unknown } | undefined)?.code === "number" && !isLate(error);
}

export function isLate(error: unknown): boolean {
  const { code, name } = Object(error) as { code?: unknown; name?: unknown };
  return code === "REQUEST_TIMEOUT" || name === "TimeoutError";
}

interface Opened {
  transport: Transport;
  last(): string;
  end(closed: Promise<void>): Promise<void>;
}

async function openTransport(launch: Launch): Promise<Opened> {
  return "url" in launch ? openAddress(launch) : openProgram(launch);
}

/** What an answer of a server may be large. */
const LARGEST = 16 * 1024 * 1024;

async function openAddress({ url, token }: Extract<Launch, { url: string }>): Promise<Opened> {
  const { StreamableHTTPClientTransport } = await loadPeer.mcpClient();
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: boundedFetch,
    ...(token === undefined ? {} : { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  });
  return { transport: transport as Transport, last: () => "", end: (closed) => closed };
}

async function boundedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  // A stream that is open for as long as we live would keep us alive. A list that changed is asked for again anyway.
  if (init?.method === "GET" && !new Headers(init.headers).has("last-event-id"))
    return new Response(null, { status: 405 });
  const response = await fetchWithoutDetours(url, init);
  if (!response.body) return response;
  let size = 0;
  const bounded = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      size += bytes.length;
      if (size > LARGEST) controller.error(new Error("its answer is larger than 16 MiB"));
      else controller.enqueue(bytes);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(bounded), { status, statusText, headers });
}

const MOST_REDIRECTS = 3;

/**
 * Follows redirects within the origin that the user configured. Another origin is refused: a server could name an address of this network,
 * and would be sent the token.
 */
async function fetchWithoutDetours(url: string | URL, init?: RequestInit): Promise<Response> {
  let at = new URL(url);
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(at, { ...init, redirect: "manual" });
    const location = response.status >= 300 && response.status < 400 ? response.headers.get("location") : null;
    if (location === null) return response;
    await response.body?.cancel();
    const next = URL.parse(location, at.href);
    if (next?.origin !== at.origin) throw new Error("it redirects to another server, which is not followed");
    if (redirects >= MOST_REDIRECTS) throw new Error(`it redirects more than ${MOST_REDIRECTS} times`);
    at = next;
  }
}

const KEPT = 2000;

async function openProgram(launch: Extract<Launch, { command: readonly string[] }>): Promise<Opened> {
  const { StdioClientTransport } = await loadPeer.mcpStdio();
  const [command = "", ...args] = launch.command;
  // Hidden before it is cut: half a secret would be none that anybody knows.
  const hiding = openHiding(secretsOf(launch)).stream();
  let printed = "";
  let ending = "";
  let pid: number | undefined;
  let unread = 0;

  class Program extends StdioClientTransport {
    override async start(): Promise<void> {
      const started = super.start();
      const child = (this as unknown as { _process?: Child })._process;
      pid = child?.pid;
      const isOver = endsWithUs(pid);
      child?.once("exit", (code, signal) => {
        isOver();
        ending ||= code === null ? `it was ended by ${signal}` : `it ended with code ${code}`;
      });
      // What is no message is passed over: somebody must see that it does not go on for ever.
      child?.stdout?.on("data", (bytes: Buffer) => {
        unread += bytes.length;
        if (unread <= LARGEST) return;
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
    maxBufferSize: LARGEST,
  });
  transport.onmessage = () => {
    unread = 0;
  };
  transport.stderr?.on("data", (bytes: Buffer) => {
    printed = (printed + hiding.push(bytes).toString("latin1")).slice(-KEPT);
  });
  const last = () => {
    const text = Buffer.from(printed, "latin1").toString("utf8").trim();
    return [ending, text === "" ? "" : `it printed: ${text}`].filter((part) => part !== "").join("; ");
  };
  const end = async (closed: Promise<void>) => {
    await inTime(closed, GRACE_MS);
    await endNow(pid);
  };
  return { transport, last, end };
}

const GRACE_MS = 1000;

async function inTime(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}

/** What is seen of the program that the SDK starts. It offers none of it, and would keep us alive. */
interface Child extends Unrefable {
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
