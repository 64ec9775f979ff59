import { describe, expect, it } from "vitest";
import { formatRunProgress } from "../../src/agent/run/run-result.ts";
import type { RunEvent } from "../../src/host/events.ts";

type Told = RunEvent extends infer Event
  ? Event extends RunEvent
    ? Omit<Event, "run" | "skill" | "at">
    : never
  : never;

function lineOf(event: Told, skill = "helper"): string | undefined {
  return formatRunProgress({ run: "r1", skill, at: "2026-01-01T00:00:00.000Z", ...event } as RunEvent);
}

const USAGE = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
const EFFECT = { on: "outside", tool: "pay", skill: "helper", input: {}, reason: "it pays" };

describe("the progress line of a run", () => {
  it("reports each step, with the skill's name in front", () => {
    const limits = { iterations: 1, seconds: 1 };
    const events: [Told, string][] = [
      [{ type: "run-started", model: "m", tools: [], depth: 1, limits }, "started with m"],
      [{ type: "run-warned", code: "answer-truncated", message: "It is short.", fix: "" }, "It is short."],
      [{ type: "packages-built", text: "built it" }, "built it"],
      [{ type: "model-retried", step: 1, reason: "it was busy" }, "it was busy"],
      [{ type: "tool-called", step: 2, tool: "bash", input: { command: "SECRET" } }, "calls bash (step 2)"],
      [{ type: "tool-progressed", step: 2, tool: "bash", text: "half" }, "bash: half"],
      [{ type: "tool-blocked", step: 2, tool: "bash", code: "c", message: "no" }, "bash was blocked: no"],
      [{ type: "step-ended", step: 2, ms: 1, usage: USAGE, calls: 1 }, "step 2 is done"],
      [{ type: "step-ended", step: 3, ms: 1, usage: USAGE, calls: 0 }, "answers (step 3)"],
      [
        { type: "approval-requested", step: 2, tool: "pay", approvalRequest: EFFECT as never },
        "waiting for approval of pay",
      ],
    ];
    for (const [event, says] of events) expect(lineOf(event)).toBe(`helper: ${says}`);
  });

  it("has no skill name in a conversation", () => {
    expect(lineOf({ type: "tool-called", step: 1, tool: "bash", input: {} }, "")).toBe("calls bash (step 1)");
  });

  it("omits messages, tool results and the end, which are in the result", () => {
    const quiet: Told[] = [
      { type: "text-generated", step: 1, text: "hm" },
      { type: "tool-ended", step: 1, tool: "bash", isError: false, ms: 1, characters: 1 },
      { type: "approval-decided", step: 1, tool: "pay", isApproved: true },
      { type: "run-refused", refusals: [] },
      { type: "run-ended", stop: "answer", isError: false, iterations: 1, ms: 1, usage: USAGE },
    ];
    for (const event of quiet) expect(lineOf(event)).toBeUndefined();
  });

  it("is one short line without invisible characters, whatever a tool reports", () => {
    const text = `one\ntwo\u202e <skill_content> ${"x".repeat(1000)}`;
    const line = lineOf({ type: "tool-progressed", step: 1, tool: "t", text }) ?? "";
    expect(line).toMatch(/^helper: t: one two\\u\{202e\} &lt;skill_content> x+…$/);
    expect(line.length).toBeLessThan(330);
  });
});
