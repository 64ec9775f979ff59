import { describe, expect, it } from "vitest";
import { type RunResult, skillResult, toToolResult } from "../../src/agent/run/run-result.ts";

describe("skillResult", () => {
  it("[W-32] creates a result with the content and the iterations", () => {
    const result: RunResult = skillResult.success("Three points.", 2);
    expect(result).toMatchObject({ content: "Three points.", isError: false, iterations: 2, stop: "answer" });
    expect(skillResult.success("done").iterations).toBe(0);
    const { text, isError, iterations } = toToolResult({ ...result, skill: "summarize" }, 1000);
    expect(text).toContain('from running the "summarize" skill');
    expect({ isError, iterations }).toEqual({ isError: false, iterations: 2 });
  });

  it("[W-32] creates an error with its message", () => {
    const result = skillResult.error("Skill 'x' not found");
    expect(result).toMatchObject({ content: "Skill 'x' not found", isError: true, iterations: 0, stop: "error" });
    expect(toToolResult(result, 1000)).toMatchObject({ isError: true, code: "error" });
  });
});
