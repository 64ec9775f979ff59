import { describe, expect, it } from "vitest";
import { calculateCost } from "../../src/agent/models/model-providers.ts";

const usage = { inputTokens: 1_000_000, outputTokens: 100_000, cachedTokens: 400_000 };

describe("the price of a model", () => {
  it.each([
    [{ input: 3, output: 15, cached: 0.3 }, 0.6 * 3 + 0.4 * 0.3 + 0.1 * 15],
    [{ input: 3, output: 15 }, 3 + 1.5],
    [{ input: 0, output: 0 }, 0],
    [{ input: 3 }, undefined],
    [{ output: 15 }, undefined],
  ])("is for %j %d dollars", (price, dollars) => {
    const cost = calculateCost(usage, "anthropic/claude-a", new Map([["claude-a", price]]));
    if (dollars === undefined) expect(cost).toBeUndefined();
    else expect(cost).toBeCloseTo(dollars, 10);
  });

  it("is unknown without a configured price", () => {
    expect(calculateCost(usage, "anthropic/claude-a", new Map())).toBeUndefined();
    expect(calculateCost(usage, "runbook", new Map([["claude-a", { input: 1, output: 1 }]]))).toBeUndefined();
  });

  it("is looked up by the provider's name for the model, or first by the full name", () => {
    const prices = new Map([
      ["hf.co/a/b", { input: 1, output: 0 }],
      ["ollama/hf.co/a/b", { input: 2, output: 0 }],
    ]);
    expect(calculateCost(usage, "ollama/hf.co/a/b", prices)).toBe(2);
    expect(calculateCost(usage, "other/hf.co/a/b", prices)).toBe(1);
  });
});
