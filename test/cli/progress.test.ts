import { describe, expect, it } from "vitest";
import { createMatcher } from "../../src/catalog/search/matcher.ts";
import { createProgress, runWithWaitIndicator } from "../../src/cli/progress.ts";
import { evaluateTriggers } from "../../src/eval/trigger-evaluation.ts";
import type { RunEvent } from "../../src/host/events.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

/** Returns the last progress line after these events. */
async function moving(events: readonly object[]): Promise<string> {
  const written: string[] = [];
  const stderr = { isTTY: true, columns: 80, write: (text: string) => written.push(text) };
  const progress = createProgress({ stdout: stderr, stderr, env: { NO_COLOR: "1" }, cwd: "/" });
  for (const event of events) progress.take({ run: "r", at: "", skill: "x", ...event } as RunEvent);
  written.length = 0;
  await expect.poll(() => written.length).toBeGreaterThan(0);
  progress.end();
  return written[0] ?? "";
}

const started = { type: "run-started", model: "m", tools: [], depth: 1, limits: { iterations: 1, seconds: 1 } };

describe("the progress line", () => {
  it("reports thinking, writing, the active tool, the step and the time", async () => {
    expect(await moving([started])).toContain(" x: thinking · ");
    expect(await moving([started, { type: "text-generated", step: 1, text: "a" }])).toContain(" x: writing · ");
    expect(await moving([{ type: "text-generated", step: 1, text: "a", skill: "" }])).toContain(" writing · ");
    const called = { type: "tool-called", step: 1, tool: "bash", input: {} };
    expect(await moving([started, called])).toMatch(/ x: bash · step 1 · \d+ s/);
  });
});

describe("a busy event loop", () => {
  it("does not stop the progress line, which appears after a second and disappears at the end", async () => {
    const written: string[] = [];
    const stderr = { isTTY: true, columns: 80, write: (text: string) => written.push(text) };
    const start = performance.now();
    await runWithWaitIndicator({ stdout: stderr, stderr, env: { NO_COLOR: "1" }, cwd: "/" }, "counting", ({ at }) => {
      for (let done = 0; written.length < 3; done++) {
        at(`counting ${done}`);
        const ms = performance.now() - start;
        if (ms < 1000 && written.length > 0) throw new Error("the line moved before a second was over");
        // Only turns a hang into a failure: nothing else runs meanwhile.
        if (ms > 45_000) throw new Error("the line did not move");
      }
    });
    const lines = written.filter((text) => /^\r\x1b\[2K. counting \d+ · [1-9]\d* s$/.test(text));
    expect(lines).toHaveLength(3);
    expect(new Set(lines).size).toBe(lines.length);
    expect(written.at(-1)).toBe("\r\x1b[2K");
  });

  it("reports the progress of checks and evaluations", async () => {
    const names = ["a", "b", "c"];
    const root = temporaryFolder(Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillText(name)])));
    const checked: number[] = [];
    checkPath(root, { onChecked: (done) => checked.push(done) });
    const skills = names.map((name) => defineSkill({ name, description: `Does ${name}.`, instructions: "Do it." }));
    const queries = [{ query: "do it", shouldTrigger: true, isHeldOut: true }];
    const scored: number[] = [];
    await evaluateTriggers(
      createMatcher(skills),
      skills.map((skill) => ({ skill, queries })),
      { onScored: (done) => scored.push(done) },
    );
    expect([checked, scored]).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ]);
  });
});
