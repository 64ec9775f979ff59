import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { WorkerEvent } from "../../../src/adapters/postgres/worker.ts";
import { createMachine, detach, type EngineView, formatLedger, openScene } from "../../support/engine-scene.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { IS_LONG } from "../../support/sample-steps.ts";
import { waitFor } from "../../support/wait-for.ts";

const RUNS = IS_LONG ? 200 : 50;
const MOST_BYTES = 1.5e6;
const WAITING_RUNS = IS_LONG ? 200 : 40;
/** What the worker allocates once, such as compiled code, counts more for few runs. */
const MOST_WAITING_BYTES = IS_LONG ? 20_000 : 60_000;
/** DBOS listens for notifications of the database on it. */
const LASTING_CONNECTIONS = 1;
/** The address that Node prints with `--inspect`. */
const INSPECTOR = /ws:\/\/\S+/;

/** Queues copies of a run, which a command would take minutes to do. */
async function copyRun({ runs, queue }: EngineView, id: string, count: number): Promise<string[]> {
  const { lines } = await runs.read(id);
  const [first, request, step] = ["run", "request", "step"].map((type) => lines.find((line) => line.type === type));
  if (first?.type !== "run" || request?.type !== "request" || step?.type !== "step") throw new Error("not a run");
  const { type: _, version: __, at: ___, ...head } = first;
  const ids = Array.from({ length: count }, () => `${id.slice(0, 16)}${randomBytes(4).toString("hex")}`);
  for (const next of ids) {
    const run = { head: { ...head, id: next }, request: request.request };
    await queue.enqueue(run, { start: step.value as { digest: string } });
  }
  return ids;
}

interface InspectedValue {
  objectId?: string;
  value?: unknown;
}

/** The inside of a process. */
interface Inspected {
  /** Returns the size of its memory in bytes, after its garbage was collected. */
  readHeap(): Promise<number>;
  /** Returns the number of connections of all pools of `pg` that are not given back. */
  countTakenConnections(): Promise<number>;
}

/** Connects to a process that runs with `--inspect`. */
async function inspect(stderr: () => string): Promise<Inspected> {
  await waitFor(() => INSPECTOR.test(stderr()));
  const socket = new WebSocket(INSPECTOR.exec(stderr())?.[0] ?? "");
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  onTestFinished(() => socket.close());
  let last = 0;
  const send = (
    method: string,
    params: object = {},
  ): Promise<{ result: InspectedValue; objects: InspectedValue; exceptionDetails?: object }> =>
    new Promise((resolve, reject) => {
      const id = ++last;
      const listen = ({ data }: MessageEvent) => {
        const answer = JSON.parse(String(data));
        if (answer.id !== id) return;
        socket.removeEventListener("message", listen);
        if (answer.error || answer.result.exceptionDetails) reject(new Error(String(data)));
        else resolve(answer.result);
      };
      socket.addEventListener("message", listen);
      socket.send(JSON.stringify({ id, method, params }));
    });
  // Its compiled code stays: what it takes would hide what runs leave behind.
  await send("Runtime.evaluate", {
    expression: `process.getBuiltinModule("node:v8").setFlagsFromString("--no-flush-bytecode")`,
  });
  return {
    async readHeap() {
      for (let round = 0; round < 3; round++) await send("HeapProfiler.collectGarbage");
      const expression = "process.memoryUsage().heapUsed + process.memoryUsage().external";
      const { result } = await send("Runtime.evaluate", { expression, returnByValue: true });
      return Number(result.value);
    },
    async countTakenConnections() {
      const group = { objectGroup: "pools" };
      const from = JSON.stringify(import.meta.filename);
      const expression = `process.getBuiltinModule("node:module").createRequire(${from})("pg").Pool.prototype`;
      const { result: prototype } = await send("Runtime.evaluate", { expression, ...group });
      const { objects } = await send("Runtime.queryObjects", { prototypeObjectId: prototype.objectId, ...group });
      const { result } = await send("Runtime.callFunctionOn", {
        objectId: objects.objectId,
        functionDeclaration: COUNT_TAKEN,
        returnByValue: true,
      });
      await send("Runtime.releaseObjectGroup", group);
      const { pools, taken } = result.value as { pools: number; taken: number };
      if (pools === 0) throw new Error("the process has no pool");
      return taken;
    },
  };
}

const COUNT_TAKEN = `function () {
  const pools = this.filter((pool) => Object.hasOwn(pool, "options"));
  return { pools: pools.length, taken: pools.reduce((sum, pool) => sum + pool.totalCount - pool.idleCount, 0) };
}`;

const STEADY_READS = 10;

/** Reads until a number of reads in a row find no smaller value, and returns the smallest: idle connections are closed seconds later. */
async function settle(read: () => Promise<number>): Promise<number> {
  let least = await read();
  let steady = 0;
  await waitFor(async () => {
    const next = await read();
    steady = next < least ? 0 : steady + 1;
    least = Math.min(least, next);
    return steady >= STEADY_READS;
  });
  return least;
}

describe.skipIf(!HAS_POSTGRES)("the memory of a worker", { timeout: 300_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it(`[E-31] grows by at most 1.5 MB for each of ${RUNS} runs that wait for their model at once`, async () => {
    const state = { waiting: 0, held: Promise.withResolvers<void>() };
    const { url, world, engine } = await openScene(server, async () => {
      state.waiting++;
      await state.held.promise;
      return { text: "done", calls: [], usage: { input: 1, output: 1, cached: 0 } };
    });
    const machine = createMachine({ url, world, env: { NODE_OPTIONS: "--inspect=127.0.0.1:0" } });
    const worker = await machine.startWorker("--slots", String(RUNS));
    const { readHeap } = await inspect(worker.stderr);
    // The first run loads what all runs share.
    const first = await detach(machine, "payer", "pay a 0");
    state.held.resolve();
    await engine.waitFor([first], "ended");
    const idle = await readHeap();

    Object.assign(state, { waiting: 0, held: Promise.withResolvers<void>() });
    const ids = await copyRun(engine, first, RUNS);
    await waitFor(() => state.waiting === RUNS);
    const perRun = ((await readHeap()) - idle) / RUNS;
    expect(perRun).toBeLessThanOrEqual(MOST_BYTES);
    expect(perRun).toBeGreaterThan(0);
    state.held.resolve();
    await engine.waitFor(ids, "ended");
  });

  it(`[E-12] keeps no run, lease or connection for ${WAITING_RUNS} runs that wait for an approval, and at most ${MOST_WAITING_BYTES / 1000} kB for each`, async () => {
    const { url, world, engine } = await openScene(server);
    const env = { NODE_OPTIONS: "--inspect=127.0.0.1:0" };
    const machine = createMachine({ url, world, needsApproval: true, env });
    const worker = await machine.startWorker("--slots", "4");
    const { readHeap, countTakenConnections } = await inspect(worker.stderr);
    const first = await detach(machine, "payer", "pay a 1");
    const ids = [first];
    const becomeIdle = async () => {
      await engine.waitFor(ids, "waiting");
      const listRuns = (type: WorkerEvent["type"]) =>
        worker.events.flatMap((event) => (event.type === type && "run" in event ? [event.run] : [])).sort();
      await waitFor(async () => {
        const [row] = await engine.database.query(`select (select sum(running) from skillet.workers) as running,
          (select count(*) from skillet.runs where lease_until is not null) as leases,
          (select count(*) from dbos.workflow_status where status = 'PENDING') as legs`);
        return [row?.["running"], row?.["leases"], row?.["legs"]].every((count) => Number(count) === 0);
      });
      await waitFor(() => {
        expect(new Set(listRuns("run-left"))).toEqual(new Set(ids));
        expect(listRuns("run-taken")).toEqual(listRuns("run-left"));
      });
      await waitFor(async () => (await countTakenConnections()) <= LASTING_CONNECTIONS);
    };
    await becomeIdle();
    ids.push(...(await copyRun(engine, first, WAITING_RUNS / 2 - 1)));
    await becomeIdle();
    const half = await settle(readHeap);
    ids.push(...(await copyRun(engine, first, WAITING_RUNS / 2)));
    await becomeIdle();
    // What a timer of the worker allocates for a moment is as large as many runs.
    await waitFor(async () => {
      const perRun = ((await readHeap()) - half) / (WAITING_RUNS / 2);
      if (perRun > MOST_WAITING_BYTES) throw new Error(`${Math.round(perRun)} bytes for each run`);
    });
    expect(formatLedger(world)).toEqual([]);
  });
});
