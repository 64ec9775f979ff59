import { expect } from "vitest";
import {
  createMachine,
  detach,
  findRepeated,
  formatLedger,
  startWorld,
  viewEngine,
  type WorkerProcess,
} from "./engine-scene.ts";
import type { PostgresServer } from "./postgres.ts";
import { type PostgresProxy, startPostgresProxy } from "./postgres-proxy.ts";
import { waitFor } from "./wait-for.ts";

export interface ChaosOptions {
  server: PostgresServer;
  seed: number;
  /** The number of runs. A third of them have a nested run. */
  runs: number;
  /** The number of faults. */
  faults: number;
  payments: number;
}

const SLOTS = 4;

interface Victim {
  process: WorkerProcess;
  proxy: PostgresProxy;
}

/**
 * Does runs while workers are killed, frozen and cut off, and while the server restarts. Expects that all runs end, that no call is made
 * after its step was kept, and that no step is kept twice.
 */
export async function runChaos({ server, seed, runs, faults, payments }: ChaosOptions): Promise<void> {
  const [url, world] = [await server.createEngine(), await startWorld()];
  const engine = await viewEngine(url);
  const random = createRandom(seed);
  const client = createMachine({ url, world });
  world.setDelay(50);
  const startVictim = async (): Promise<Victim> => {
    const proxy = await startPostgresProxy(server);
    const machine = createMachine({ url: proxy.urlOf(url), world, leaseSeconds: 2, attempts: 20 });
    return { proxy, process: await machine.startWorker("--slots", String(SLOTS)) };
  };
  const victims = [await startVictim(), await startVictim()];
  const ids: string[] = [];
  for (let index = 0; index < runs; index++) {
    const [skill, verb] = index % 3 === 0 ? ["outer", "delegate"] : ["payer", "pay"];
    ids.push(await detach(client, skill ?? "", `${verb} t${index} ${payments}`));
  }
  const progress = async () => {
    const { length } = world.ledger;
    const total = runs * payments;
    await waitFor(() => world.ledger.length >= Math.min(length + 4, total));
  };
  const frozen: Victim[] = [];
  for (let count = 0; count < faults; count++) {
    await progress();
    const index = random(victims.length);
    const victim = victims[index];
    if (!victim) continue;
    const fault = FAULTS[(count + seed) % FAULTS.length];
    if (fault === "restart") {
      await server.stop("immediate");
      await server.start();
      continue;
    }
    if (fault === "kill") victim.process.signal("SIGKILL");
    else {
      frozen.push(victim);
      if (fault === "freeze") victim.process.signal("SIGSTOP");
      else victim.proxy.cut();
    }
    victims[index] = await startVictim();
  }
  for (const { process, proxy } of frozen) {
    process.signal("SIGCONT");
    proxy.restore();
  }
  const countEnded = async () => (await engine.runs.list()).filter(({ state }) => state === "ended").length;
  for (let ended = 0; ended < ids.length; ended = await countEnded()) {
    const before = ended;
    await waitFor(async () => (await countEnded()) > before);
  }
  const paid = new Set(formatLedger(world));
  expect(paid.size).toBe(runs * payments);
  const keptAt = new Map<string, number>();
  for (const id of ids) {
    const names: string[] = [];
    for (const line of (await engine.runs.read(id)).lines) {
      if (line.type !== "step") continue;
      names.push(line.name);
      const [payment] = /paid (\S+ \d+)/.exec(JSON.stringify(line.value)) ?? [];
      if (payment !== undefined && /(?:^|\/)tool:/.test(line.name) && !keptAt.has(payment))
        keptAt.set(payment, Date.parse(line.at));
    }
    expect(names.length).toBe(new Set(names).size);
  }
  const late = world.ledger.filter(
    ({ tag, number, at }) => at > (keptAt.get(`paid ${tag} ${number}`) ?? Number.POSITIVE_INFINITY),
  );
  expect(late).toEqual([]);
  expect(findRepeated(world).length).toBeLessThanOrEqual(faults * SLOTS);
}

const FAULTS = ["kill", "restart", "freeze", "cut"] as const;

/** Returns the same numbers for the same seed. */
function createRandom(seed: number): (max: number) => number {
  let state = seed * 2654435761;
  return (max) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}
