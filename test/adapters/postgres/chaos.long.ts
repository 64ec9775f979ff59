import { describe, it, onTestFinished } from "vitest";
import { runChaos } from "../../support/engine-chaos.ts";
import { HAS_POSTGRES, startPostgres } from "../../support/postgres.ts";

describe.skipIf(!HAS_POSTGRES)("workers under many faults", () => {
  it.each([1, 2, 3])("[E-08] end 60 runs, with seed %d", async (seed) => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    await runChaos({ server, seed, runs: 60, faults: 12, payments: 8 });
  });
});
