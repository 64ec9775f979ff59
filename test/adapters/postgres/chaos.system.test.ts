import { describe, it, onTestFinished } from "vitest";
import { runChaos } from "../../support/engine-chaos.ts";
import { HAS_POSTGRES, startPostgres } from "../../support/postgres.ts";

describe.skipIf(!HAS_POSTGRES)("workers under faults", { timeout: 180_000 }, () => {
  it("[E-08] end all runs, make no call after its step was kept, and keep no step twice", async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    await runChaos({ server, seed: 1, runs: 6, faults: 4, payments: 8 });
  });
});
