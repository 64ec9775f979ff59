import { describe, expect, it } from "vitest";
import type { RunEvent, StopReason } from "../../src/host/events.ts";
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { temporaryFolder } from "../support/folder.ts";

const USAGE = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };

function ended(run: string, at: string, stop: StopReason, ms: number, cost = 0.5): RunEvent {
  const isError = stop === "error";
  return { type: "run-ended", run, skill: "one", at, stop, isError, iterations: 1, ms, usage: USAGE, cost };
}

describe("statistics per day", () => {
  it("counts runs, successes, durations and cost, in UTC", async () => {
    const store = createStatisticsStore(temporaryFolder());
    expect(await store.perDay?.()).toEqual([]);
    const first = "2026-11-18T23:59:59.000Z";
    const events = [
      ended("a", first, "answer", 100),
      ended("b", first, "error", 300),
      ended("c", first, "answer", 200),
      ended("w", first, "waiting", 9000),
      ended("d", "2026-11-19T00:00:00.000Z", "complete", 50, 0.25),
    ];
    for (const event of events) await store.record(event);
    expect(await store.perDay?.()).toEqual([
      { day: "2026-11-18", runs: 4, succeeded: 2, p50Ms: 200, p95Ms: 300, cost: 2 },
      { day: "2026-11-19", runs: 1, succeeded: 1, p50Ms: 50, p95Ms: 50, cost: 0.25 },
    ]);
    const since = new Date("2026-11-19T00:00:00.000Z");
    expect((await store.perDay?.({ since }))?.map(({ day }) => day)).toEqual(["2026-11-19"]);
  });
});
