import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type CallToolResult, createMcpHandler, Server } from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import type { Database } from "../../src/adapters/postgres/database.ts";
import type { Dispatcher } from "../../src/adapters/postgres/dispatcher.ts";
import { openEngine } from "../../src/adapters/postgres/engine.ts";
import type { RunQueue } from "../../src/adapters/postgres/run-queue.ts";
import type { WorkerEvent } from "../../src/adapters/postgres/worker.ts";
import type { RunState } from "../../src/store/run-rules.ts";
import type { RunStore } from "../../src/store/runs.ts";
import { type Ran, skillet } from "./command.ts";
import { skillText, temporaryFolder } from "./folder.ts";
import { openai, type ReadRequest, type Said } from "./model-protocols.ts";
import { API_KEY, MODEL } from "./model-server.ts";
import type { PostgresServer } from "./postgres.ts";
import { PROGRAM, SHARED_CODE } from "./program.ts";
import { waitFor } from "./wait-for.ts";

/** A call that reached the outside. */
export interface Payment {
  tag: string;
  number: number;
  at: number;
}

/** A model and a bank on the loopback interface. The bank keeps a ledger of all payments. */
export interface World {
  url: string;
  ledger: readonly Payment[];
  /** How long the bank takes for a payment. */
  setDelay(ms: number): void;
  /** Called with each payment, before it is answered. */
  onPayment(listen: (payment: Payment) => void): void;
}

/**
 * Starts the world of the workers. The model does what the task says: `pay TAG COUNT` pays that often, one call a turn, and `delegate TAG
 * COUNT` has the skill `inner` pay half of it first. It holds no state: it goes by the results so far.
 */
export async function startWorld(reply: Reply = createReply): Promise<World> {
  const ledger: Payment[] = [];
  const state = { delayMs: 0, listen: (_: Payment) => {} };
  const take = (payment: Payment) => {
    ledger.push(payment);
    state.listen(payment);
    return state.delayMs;
  };
  const bank = createMcpHandler(() => createBank(take));
  const server = createServer((request, response) => {
    const answer = request.url === "/mcp" ? answerBank(request, response, bank) : answerModel(request, response, reply);
    answer.catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ledger,
    setDelay: (ms) => {
      state.delayMs = ms;
    },
    onPayment: (listen) => {
      state.listen = listen;
    },
  };
}

function createBank(take: (payment: Payment) => number): Server {
  const server = new Server({ name: "bank", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", async () => ({
    tools: [
      {
        name: "pay",
        description: "Pays.",
        inputSchema: { type: "object", properties: { tag: { type: "string" }, number: { type: "number" } } },
      },
    ],
  }));
  server.setRequestHandler("tools/call", async ({ params }): Promise<CallToolResult> => {
    const { tag, number } = params.arguments as { tag: string; number: number };
    const delayMs = take({ tag, number, at: Date.now() });
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    return { content: [{ type: "text", text: `paid ${tag} ${number}` }] };
  });
  return server;
}

type BankHandler = ReturnType<typeof createMcpHandler>;

async function answerBank(request: IncomingMessage, response: ServerResponse, bank: BankHandler): Promise<void> {
  const body = request.method === "POST" ? await text(request) : undefined;
  const answer = await bank.fetch(
    new Request(`http://127.0.0.1${request.url}`, {
      method: request.method ?? "GET",
      headers: request.headers as Record<string, string>,
      ...(body === undefined ? {} : { body }),
    }),
  );
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (answer.body) Readable.fromWeb(answer.body as never).pipe(response);
  else response.end();
}

/** Decides what the model answers. */
export type Reply = (asked: ReadRequest) => Said | Promise<Said>;

async function answerModel(request: IncomingMessage, response: ServerResponse, reply: Reply): Promise<void> {
  const asked = openai.read(JSON.parse(await text(request)));
  const said = await reply(asked);
  if (asked.isStream) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(
      openai
        .stream(said, asked)
        .map((line) => `${line}\n\n`)
        .join(""),
    );
  } else {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(openai.answer(said)));
  }
}

export function createReply({ entries, tools, prompt }: ReadRequest): Said {
  const usage = { input: 100, output: 10, cached: 0 };
  const all = entries.filter((entry) => "result" in entry);
  // A worker that was frozen for long finds its connection to the bank closed. A model calls again, as the result tells it.
  const results = all.filter(({ result }) => !result.content.includes("call it again to reconnect")).length;
  const [, verb = "", tag = "", count = "0"] = /(pay|delegate) (\S+) (\d+)/.exec(prompt) ?? [];
  const toolOf = (name: string) => Object.keys(tools).find((one) => one.endsWith(name)) ?? name;
  const call = (name: string, input: object) => ({
    text: "",
    usage,
    calls: [{ id: `call_${all.length + 1}`, name: toolOf(name), input }],
  });
  const half = Math.floor(Number(count) / 2);
  if (verb === "delegate" && results === 0)
    return call("use_skill", { skill: "inner", message: `pay ${tag}-inner ${half}` });
  const done = verb === "delegate" ? results - 1 : results;
  const wanted = verb === "delegate" ? Number(count) - half : Number(count);
  if (done < wanted) return call("pay", { tag, number: done });
  return { text: `paid ${tag}`, usage, calls: [] };
}

export interface MachineOptions {
  url: string;
  world: World;
  /** Further lines of the configuration. */
  config?: string;
  /** Whether payments need an approval. Defaults to false. */
  needsApproval?: boolean;
  /** Further lines of `[engine]`, and of its model. */
  engine?: string;
  rates?: string;
  /** Further environment variables of its processes. */
  env?: Readonly<Record<string, string>>;
  /** The skills, by name: their instructions. Defaults to `payer`, `outer` and `inner`. */
  skills?: Readonly<Record<string, string>>;
  /** Further lines of the frontmatter of its skills. */
  more?: string;
  leaseSeconds?: number;
  attempts?: number;
}

const SKILLS = { payer: "Pay.", outer: "Have inner pay, then pay.", inner: "Pay." };

/** A machine with its own home, which knows the database of the engine. */
export interface Machine {
  home: string;
  /** Runs a command in this process. */
  command(...args: string[]): Promise<Ran>;
  /** Starts a worker in its own process, and waits until it takes runs. */
  startWorker(...args: string[]): Promise<WorkerProcess>;
}

export interface WorkerProcess {
  name: string;
  pid: number;
  events: readonly WorkerEvent[];
  child: ChildProcess;
  /** Sends a signal to the process. */
  signal(name: NodeJS.Signals): void;
  /** Resolves with the exit code, or with the signal that ended it. */
  ended: Promise<number | NodeJS.Signals | null>;
  stderr(): string;
  stdout(): string;
}

/** Creates a machine with skills that pay, one model and the bank. */
export function createMachine({
  url,
  world,
  config = "",
  skills = SKILLS,
  more = "",
  ...options
}: MachineOptions): Machine {
  const home = temporaryFolder();
  const put = (path: string, content: string) => {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), content, { mode: 0o600 });
  };
  for (const [name, body] of Object.entries(skills))
    put(`.skillet/skills/${name}/SKILL.md`, skillText(name, { body, more: `max_iterations: 40\n${more}` }));
  put(
    ".skillet/config.toml",
    `${config}
[models.default]
provider = "openai-compatible"
model = "${MODEL}"
base_url = "${world.url}/v1"
api_key = "${API_KEY}"
${options.rates ?? ""}
[tools.mcp.bank]
url = "${world.url}/mcp"
auto_approve = [${options.needsApproval ? "" : '"pay"'}]
[engine]
url = "env:ENGINE_URL"
${options.env?.["SEAL_KEY"] === undefined ? "" : 'seal_key = "env:SEAL_KEY"'}
lease_seconds = ${options.leaseSeconds ?? 5}
attempts = ${options.attempts ?? 2}
${options.engine ?? ""}
`,
  );
  const env = { HOME: home, ENGINE_URL: url, ...options.env };
  return {
    home,
    command: (...args) => skillet(args, { env }),
    startWorker: (...args) => startWorkerProcess(env, args),
  };
}

const START = join(import.meta.dirname, "start-skillet.mjs");

async function startWorkerProcess(env: Record<string, string>, args: readonly string[]): Promise<WorkerProcess> {
  const child = spawn(process.execPath, [START, "worker", "--json", ...args], {
    cwd: env["HOME"],
    env: { PATH: "/usr/bin:/bin", ...SHARED_CODE, ...env, SKILLET_TEST_PROGRAM: PROGRAM },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const events: WorkerEvent[] = [];
  let [rest, stdout, stderr] = ["", "", ""];
  child.stdout.on("data", (bytes) => {
    stdout += bytes;
    const lines = (rest + bytes).split("\n");
    rest = lines.pop() ?? "";
    events.push(...lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line)));
  });
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  const ended = new Promise<number | NodeJS.Signals | null>((resolve) =>
    child.on("close", (code, signal) => resolve(signal ?? code)),
  );
  const worker = {
    ...{ child, events, ended, pid: child.pid ?? 0, name: "" },
    signal: (name: NodeJS.Signals) => void child.kill(name),
    stderr: () => stderr,
    stdout: () => stdout,
  };
  onTestFinished(async () => {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
    await ended;
  });
  await waitFor(() => {
    const started = events.find((event) => event.type === "worker-started");
    if (started?.type === "worker-started") worker.name = started.worker;
    return started !== undefined;
  });
  return worker;
}

/** The database of the engine, as the tests look at it. */
export interface EngineView {
  database: Database;
  dispatcher: Dispatcher;
  runs: RunStore;
  queue: RunQueue;
  /** Waits until each of the runs has this state. */
  waitFor(ids: readonly string[], state: RunState): Promise<void>;
}

/** Opens the database for a test. */
export async function viewEngine(url: string, sealKey?: string): Promise<EngineView> {
  const { database, dispatcher, runs, queue, close } = await openEngine({ url, sealKey, connections: 4 });
  onTestFinished(close);
  return {
    ...{ database, dispatcher, runs, queue },
    waitFor: (ids, state) =>
      waitFor(async () => {
        const found = (await runs.list()).filter(({ id }) => ids.includes(id));
        const others = found.filter((run) => run.state !== state);
        if (found.length === ids.length && others.length === 0) return;
        throw new Error(`not ${state}: ${JSON.stringify(others)}`);
      }),
  };
}

/** A world, and an empty database with skillet's tables. */
export interface EngineScene {
  url: string;
  world: World;
  engine: EngineView;
}

/** Opens a scene for a test, in a database of this server. */
export async function openScene(server: PostgresServer, reply?: Reply): Promise<EngineScene> {
  const [url, world] = [await server.createEngine(), await startWorld(reply)];
  return { url, world, engine: await viewEngine(url) };
}

/** Gives a run to the workers, and returns its id. */
export async function detach(machine: Machine, skill: string, task: string, ...more: string[]): Promise<string> {
  const { code, stdout, stderr } = await machine.command("run", skill, task, "--detach", ...more);
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
}

/** Returns the payments as text, in order. */
export function formatLedger({ ledger }: World): string[] {
  return ledger.map(({ tag, number }) => `${tag} ${number}`);
}

/** Returns the names of the workers that this one found lost. */
export function listLostWorkers({ events }: WorkerProcess): string[] {
  return events.flatMap((event) => (event.type === "worker-lost" ? event.worker : []));
}

/** Returns the payments that were made more than once. */
export function findRepeated(world: World): string[] {
  const payments = formatLedger(world);
  return payments.filter((payment, index) => payments.indexOf(payment) !== index);
}
