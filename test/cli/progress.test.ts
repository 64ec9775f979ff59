import { describe, expect, it } from "vitest";
import { openProgress } from "../../src/cli/progress.ts";
import type { RunEvent } from "../../src/host/events.ts";

/** What the moving line says last, after these events. */
async function moving(events: readonly object[]): Promise<string> {
  const written: string[] = [];
  const stderr = { isTTY: true, columns: 80, write: (text: string) => written.push(text) };
  const progress = openProgress({ stdout: stderr, stderr, env: { NO_COLOR: "1" }, cwd: "/" });
  for (const event of events) progress.take({ run: "r", at: "", skill: "x", ...event } as RunEvent);
  written.length = 0;
  await expect.poll(() => written.length).toBeGreaterThan(0);
  progress.end();
  return written[0] ?? "";
}

const started = { type: "run-started", model: "m", tools: [], depth: 1, limits: { iterations: 1, seconds: 1 } };

describe("the moving line", () => {
  it("says who thinks, who writes, which tool is at work, the step and the time", async () => {
    expect(await moving([started])).toContain(" x: thinking · ");
    expect(await moving([started, { type: "text-said", step: 1, text: "a" }])).toContain(" x: writing · ");
    expect(await moving([{ type: "text-said", step: 1, text: "a", skill: "" }])).toContain(" writing · ");
    const called = { type: "tool-called", step: 1, tool: "bash", input: {} };
    expect(await moving([started, called])).toContain(" x: bash · step 1 · 0 s");
  });
});
