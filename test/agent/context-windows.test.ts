import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  CONTEXT_WINDOWS,
  getContextWindow,
  getDefaultContextWindow,
  MODEL_PROVIDER_TABLE,
} from "../../src/agent/models/model-providers.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { AiSdkModel, ModelSettings } from "../../src/host/model-contract.ts";

const configured = (...models: ModelSettings[]) => ({
  settings: {
    ...DEFAULT_SETTINGS,
    models: new Map(models.map((one, at) => [at === 0 ? "default" : `other-${at}`, one])),
  },
});

describe("context windows", () => {
  it("[A-03] are known for every short provider name", () => {
    for (const [provider, { aliases }] of Object.entries(MODEL_PROVIDER_TABLE))
      for (const model of Object.values(aliases))
        expect(getContextWindow(`${provider}/${model}`), model).toBeGreaterThan(0);
  });

  it.each([
    ["anthropic/claude-sonnet-5-5", 200_000],
    ["openai/gpt-4.1-mini", 1_000_000],
    ["openai/gpt-4o-mini", 128_000],
    ["openai/o3", 200_000],
    ["openai/gpt-5.1-chat-latest", 128_000],
    ["openai/gpt-6-astra", 400_000],
    ["ollama/claude-like", undefined],
    ["openai-compatible/gpt-5", undefined],
    ["openai/omega", undefined],
  ])("[A-03] %s: %s", (name, tokens) => expect(getContextWindow(name)).toBe(tokens));

  it("[A-03] are those of the default model, and the configuration takes precedence", () => {
    expect(getDefaultContextWindow({ settings: DEFAULT_SETTINGS })).toBeUndefined();
    expect(getDefaultContextWindow(configured({ provider: "openai" }))).toBe(400_000);
    expect(getDefaultContextWindow(configured({ model: "openai/gpt-4o" }, { provider: "anthropic" }))).toBe(128_000);
    expect(getDefaultContextWindow(configured({ provider: "openai", contextWindow: 32_000 }))).toBe(32_000);
    // Another server may serve any model under this name.
    expect(
      getDefaultContextWindow(configured({ provider: "openai", model: "gpt-5", baseUrl: "http://127.0.0.1:1/v1" })),
    ).toBeUndefined();
    const sdk = { provider: "openai.responses", modelId: "gpt-4o", doStream: () => undefined } as unknown as AiSdkModel;
    expect(getDefaultContextWindow({ settings: DEFAULT_SETTINGS, models: { default: sdk } })).toBe(128_000);
    const own = { name: "own", contextWindow: 8000, respond: () => Promise.reject(new Error("not asked")) };
    expect(getDefaultContextWindow({ settings: DEFAULT_SETTINGS, models: { own } })).toBe(8000);
  });

  it("[A-03] are documented, one row per model family", () => {
    const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "models.md"), "utf8");
    const rows = page.slice(page.indexOf("## Context windows")).match(/^\| `.*\|$/gm) ?? [];
    expect(rows.map((row) => row.split("|")[2]?.trim())).toEqual(
      CONTEXT_WINDOWS.map(({ tokens }) => tokens.toLocaleString("en-US")),
    );
  });
});
