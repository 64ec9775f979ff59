import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { onTestFinished } from "vitest";
import { temporaryFolder, writeFiles } from "./folder.ts";
import { grantValuesIn } from "./grant-values.ts";
import { type ClientParts, connectClient, type McpClient, negotiation } from "./mcp-client.ts";
import { PROGRAM, RUN, SHARED_CODE } from "./program.ts";

/** For a machine that is busy with other tests. */
const PATIENCE_MS = 45_000;

/** A workspace, and a home next to it. */
export interface Place {
  root: string;
  home: string;
  cwd: string;
}

/** Files below `home/` are in the user's home, all others in the workspace. */
export function createHomeWith(files: Record<string, string>): Place {
  const root = temporaryFolder();
  // Code never runs as root: if root runs the tests, other users need access.
  chmodSync(root, 0o755);
  const [home, cwd] = [join(root, "home"), join(root, "project")];
  for (const folder of [home, cwd]) mkdirSync(folder);
  for (const [path, text] of Object.entries(files)) {
    writeFiles(root, { [path.startsWith("home/") ? path : `project/${path}`]: text });
    if (path.endsWith("config.toml")) chmodSync(join(root, path), 0o600);
  }
  grantValuesIn(home, cwd);
  return { root, home, cwd };
}

/** An answer or a notification. */
export interface Message {
  jsonrpc: string;
  id?: string | number | null;
  method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: whatever is answered is looked at by tests.
  result?: any;
  error?: { code: number; message: string };
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface McpProcess {
  child: ChildProcessWithoutNullStreams;
  /** Sends text and bytes unchanged, and other values as a line of JSON. */
  send(...messages: unknown[]): void;
  answer(id: string | number): Promise<Message>;
  request(method: string, params?: unknown): Promise<Message>;
  /** Initializes as a client of 2025-11-25 does. */
  initialize(): Promise<Message>;
  call(tool: string, input?: unknown): Promise<Message>;
  /** The lines on stdout. */
  lines(): readonly string[];
  /** The lines on stdout that are not messages of the protocol. */
  foreign(): readonly string[];
  /** The output on stderr. */
  said(): string;
  ended: Promise<Ended>;
}

export interface ProcessParts {
  env?: Record<string, string>;
  /** False if its output is not read. */
  isRead?: boolean;
  /** Additional code that runs in its process. */
  beside?: string;
}

/** Starts `skillet serve` as a process, with its raw streams. */
export function startMcpProcess(place: Place, args: readonly string[] = [], parts: ProcessParts = {}): McpProcess {
  const child = spawn(process.execPath, startOf(args, parts.beside), {
    cwd: place.cwd,
    env: { ...environment(place), ...parts.env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stdin.on("error", () => {}); // It has ended; the test checks that separately.
  const lines: string[] = [];
  const answers = new Map<unknown, PromiseWithResolvers<Message>>();
  const waiting = (id: unknown) => {
    const known = answers.get(id) ?? Promise.withResolvers<Message>();
    answers.set(id, known);
    return known;
  };
  let [rest, said, count] = ["", "", 0];
  if (parts.isRead !== false)
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const found = (rest + text).split("\n");
      rest = found.pop() ?? "";
      for (const line of found) {
        lines.push(line);
        const message = messageIn(line);
        if (message && message.method === undefined) waiting(message.id).resolve(message);
      }
    });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const send = (...messages: unknown[]) => {
    for (const message of messages) {
      const isRaw = typeof message === "string" || Buffer.isBuffer(message);
      child.stdin.write(isRaw ? message : `${JSON.stringify(message)}\n`);
    }
  };
  const answer = (id: string | number) => within(waiting(id).promise, () => `no answer to ${id}; stderr: ${said}`);
  const request = (method: string, params?: unknown) => {
    const id = `request-${++count}`;
    send({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
    return answer(id);
  };
  return {
    child,
    send,
    answer,
    request,
    async initialize() {
      const answered = await request("initialize", OPENING);
      send({ jsonrpc: "2.0", method: "notifications/initialized" });
      return answered;
    },
    call: (name, input = {}) => request("tools/call", { name, arguments: input }),
    lines: () => lines,
    foreign: () => [...lines, ...(rest === "" ? [] : [rest])].filter((line) => messageIn(line) === undefined),
    said: () => said,
    ended: within(
      new Promise((resolve) => child.on("close", (code, signal) => resolve({ code, signal }))),
      () => `it has not ended; stderr: ${said}`,
      60_000,
    ),
  };
}

export const OPENING = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "1.0.0" },
};

/** Connects the v2 client, which starts `skillet serve` itself. */
export async function connectProcessClient(
  place: Place,
  { era = "2025-11-25", args = [], name = "test", ...options }: ClientParts & { args?: readonly string[] } = {},
): Promise<Pick<McpClient, "client" | "tools" | "call"> & { pid: number }> {
  const [file = "", ...rest] = startOf(args);
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [file, ...rest],
    cwd: place.cwd,
    env: environment(place),
    stderr: "ignore",
  });
  const client = new Client({ name, version: "1.0.0" }, { ...negotiation(era), ...options });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { ...connectClient(client), pid: transport.pid ?? 0 };
}

/** Returns the processes with this command line. */
export function running(command: string): number[] {
  return readdirSync("/proc").flatMap((id) => {
    if (!/^\d+$/.test(id)) return [];
    try {
      const line = readFileSync(`/proc/${id}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      return line === command ? [Number(id)] : [];
    } catch {
      return [];
    }
  });
}

/** The arguments of Node. */
export function startOf(args: readonly string[], beside = ""): string[] {
  const folder = temporaryFolder({
    "start.mjs": `import { run } from ${JSON.stringify(PROGRAM)};\n${RUN}\n${beside}\n`,
  });
  return [join(folder, "start.mjs"), "serve", ...args];
}

/** Returns an environment without this machine's variables, except `PATH`. */
export function environment({ home }: Place): Record<string, string> {
  return { ...SHARED_CODE, PATH: process.env["PATH"] ?? "", HOME: home, NO_COLOR: "1", OLLAMA_HOST: "127.0.0.1:1" };
}

function messageIn(line: string): Message | undefined {
  try {
    const message = JSON.parse(line);
    return message?.jsonrpc === "2.0" ? message : undefined;
  } catch {
    return undefined;
  }
}

function within<T>(promise: Promise<T>, problem: () => string, ms = PATIENCE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(problem())), ms);
    timer.unref();
  });
  const either = Promise.race([promise, late]).finally(() => clearTimeout(timer));
  either.catch(() => {}); // A caller that waits for it gets the error.
  return either;
}
