import { describe, expect, it } from "vitest";
import { createProviderLimit, getPauseMs } from "../../src/agent/models/model-providers.ts";
import { useScene } from "../support/use.ts";

const never = new AbortController().signal;

/** A rate limit with a clock that only waits advance. */
function limitWithClock() {
  let now = 0;
  const delays: number[] = [];
  const limit = createProviderLimit({
    now: () => now,
    delay: async (ms) => {
      delays.push(ms);
      now += ms;
    },
  });
  return { limit, delays, now: () => now };
}

describe("the rate limit of a provider", () => {
  it("[E-16] sends exactly the allowed number of requests per minute while there is work", async () => {
    const { limit, now } = limitWithClock();
    const sent: number[] = [];
    for (let request = 0; request < 300; request++) {
      await limit.wait({ requestsPerMinute: 60 }, never);
      sent.push(now());
    }
    for (const start of [60_000, 120_000, 180_000]) {
      const inMinute = sent.filter((at) => at >= start && at < start + 60_000).length;
      expect(inMinute).toBeLessThanOrEqual(63);
      expect(inMinute).toBeGreaterThanOrEqual(54);
    }
  });

  it("[E-16] waits after an answer that used more tokens than the minute has", async () => {
    const { limit, delays } = limitWithClock();
    const rates = { tokensPerMinute: 600 };
    await limit.wait(rates, never);
    limit.spend(900);
    await limit.wait(rates, never);
    expect(delays.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThanOrEqual(30_000);
  });

  it("[E-16] pauses every request after a 429, and then sends them", async () => {
    const { limit, delays } = limitWithClock();
    limit.pause(2000);
    await limit.wait({}, never);
    expect(delays).toEqual([2000]);
    await limit.wait({}, never);
    expect(delays).toEqual([2000]);
    limit.pause(3_600_000);
    await limit.wait({}, never);
    expect(delays).toEqual([2000, 60_000]);
  });

  it("ends a wait that is canceled", async () => {
    const limit = createProviderLimit();
    limit.pause(60_000);
    const cancel = new AbortController();
    const waiting = limit.wait({}, cancel.signal);
    cancel.abort();
    await expect(waiting).rejects.toThrow();
  });

  it.each([
    [{ statusCode: 429, responseHeaders: { "retry-after": "3" } }, 3000],
    [{ statusCode: 429, responseHeaders: { "retry-after-ms": "250", "retry-after": "3" } }, 250],
    [{ statusCode: 429, responseHeaders: {} }, 5000],
    [{ statusCode: 429 }, 5000],
    [{ statusCode: 500, responseHeaders: { "retry-after": "3" } }, undefined],
    [undefined, undefined],
  ])("reads the pause from %j", (error, ms) => {
    expect(getPauseMs(error)).toBe(ms);
  });

  it("[E-16] lets a 429 of one run pause the other runs of the process", { timeout: 60_000 }, async () => {
    const times: number[] = [];
    const { use } = await useScene({
      skills: { worker: {} },
      config: "retries = 0\n",
      turns: () => {
        times.push(performance.now());
        return times.length > 1 ? "Done." : { status: 429, headers: { "retry-after": "2" } };
      },
    });
    const refused = await use({ skill: "worker", message: "One." });
    expect(refused.result.stop).toBe("error");
    const other = await use({ skill: "worker", message: "Two." });
    expect(other.result.stop).toBe("answer");
    const [first = 0, second = 0] = times;
    // Only a lower bound: the pause that the server asked for.
    expect(Math.round((second - first) / 1000)).toBeGreaterThanOrEqual(2);
  });
});
