import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMachine, detach, type EngineView, openScene } from "../../support/engine-scene.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { IS_LONG } from "../../support/sample-steps.ts";
import { waitFor } from "../../support/wait-for.ts";

const RUNS = IS_LONG ? 200 : 50;
const MOST_BYTES = 1.5e6;
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

/** Reads the memory of a process that runs with `--inspect`, after its garbage was collected. */
async function openHeap(stderr: () => string): Promise<() => Promise<number>> {
  await waitFor(() => INSPECTOR.test(stderr()));
  const socket = new WebSocket(INSPECTOR.exec(stderr())?.[0] ?? "");
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  let last = 0;
  const send = (method: string, params: object = {}): Promise<{ result?: { value?: number } }> =>
    new Promise((resolve) => {
      const id = ++last;
      socket.addEventListener("message", ({ data }) => {
        const answer = JSON.parse(String(data));
        if (answer.id === id) resolve(answer.result);
      });
      socket.send(JSON.stringify({ id, method, params }));
    });
  return async () => {
    for (let round = 0; round < 3; round++) await send("HeapProfiler.collectGarbage");
    const expression = "process.memoryUsage().heapUsed + process.memoryUsage().external";
    const { result } = await send("Runtime.evaluate", { expression, returnByValue: true });
    return Number(result?.value);
  };
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
    const readHeap = await openHeap(worker.stderr);
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
});
