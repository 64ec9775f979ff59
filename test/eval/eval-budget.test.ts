import { describe, expect, it } from "vitest";
import { createEvalBudget } from "../../src/eval/eval-budget.ts";
import type { Model, ModelRequest } from "../../src/host/model-contract.ts";

const prices = new Map([["test/model", { input: 1_000_000, output: 1_000_000 }]]);
const request = (signal = new AbortController().signal): ModelRequest => ({
  instructions: "Do it.",
  messages: [{ role: "user", text: "Now." }],
  tools: [],
  task: { message: "Now." },
  signal,
  onText: () => {},
});

/** A model whose replies cost so many dollars, each after a turn of the event loop for each dollar. */
function createPricedModel(cost: () => number, onRunning: (count: number) => void = () => {}): Model {
  let running = 0;
  return {
    name: "test/model",
    async respond() {
      onRunning(++running);
      const dollars = cost();
      for (let turn = 0; turn < dollars; turn++) await new Promise((resolve) => setImmediate(resolve));
      running--;
      return {
        text: "ok",
        calls: [],
        finish: "stop",
        usage: { inputTokens: dollars, outputTokens: 0, cachedTokens: 0 },
      };
    },
  };
}

describe("the budget of an evaluation", () => {
  it("is exceeded by at most one call with 50 concurrent trials, whatever the calls cost", async () => {
    let seed = 7;
    const random = (most: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return 1 + (seed % most);
    };
    for (let round = 0; round < 30; round++) {
      const ceiling = 50 + random(400);
      const budget = createEvalBudget({ ceiling, prices, maxOutput: 40 });
      const costs: number[] = [];
      const model = budget.meter(
        createPricedModel(() => {
          costs.push(random(60));
          return costs.at(-1) as number;
        }),
      );
      const trial = async () => {
        for (let call = 0; call < 20; call++) await model.respond(request());
      };
      const ends = await Promise.allSettled(Array.from({ length: 50 }, trial));
      expect(ends.every((end) => end.status === "rejected" && end.reason.code === "eval-ceiling")).toBe(true);
      const spent = costs.reduce((sum, cost) => sum + cost, 0);
      expect(budget.spent.dollars).toBe(spent);
      expect(spent).toBeGreaterThanOrEqual(ceiling);
      expect(spent - ceiling).toBeLessThan(Math.max(...costs));
      expect(budget.isExhausted).toBe(true);
    }
  });

  it("allows concurrent calls while their maximum cost fits", async () => {
    let most = 0;
    const budget = createEvalBudget({ ceiling: 100_000, prices, maxOutput: 40 });
    const model = budget.meter(
      createPricedModel(
        () => 5,
        (count) => {
          most = Math.max(most, count);
        },
      ),
    );
    await Promise.all(Array.from({ length: 20 }, () => model.respond(request())));
    expect(most).toBe(20);
  });

  it("counts a stopped reply by the sent and received text", async () => {
    const budget = createEvalBudget({ prices });
    const stop = new AbortController();
    const model = budget.meter({
      name: "test/model",
      async respond({ onText }) {
        onText("eight ch");
        stop.abort();
        throw new Error("stopped");
      },
    });
    await expect(model.respond(request(stop.signal))).rejects.toThrow("stopped");
    expect(budget.spent).toMatchObject({ calls: 1, outputTokens: 2 });
    expect(budget.spent.inputTokens).toBeGreaterThan(5);
    const refused = createEvalBudget({ prices }).meter({
      name: "test/model",
      respond: () => Promise.reject(new Error("no")),
    });
    await expect(refused.respond(request())).rejects.toThrow("no");
    expect(createEvalBudget({ prices }).spent.calls).toBe(0);
  });

  it("reports no dollars if a price is unknown", async () => {
    const budget = createEvalBudget({ prices: new Map() });
    await budget.meter(createPricedModel(() => 1)).respond(request());
    expect(budget.spent).toEqual({ calls: 1, inputTokens: 1, outputTokens: 0 });
  });
});
