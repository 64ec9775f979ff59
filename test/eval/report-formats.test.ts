import { describe, expect, it } from "vitest";
import { createEvalReport, createSkillReport, type EvalReport } from "../../src/eval/eval-report.ts";
import { comparePairs, computeRate } from "../../src/eval/pair-statistics.ts";
import { formatEvalReport } from "../../src/eval/report-formats.ts";

const totals = (passed: number, trials: number) => ({ passed, trials, inputTokens: 1, outputTokens: 1, ms: 1500 });
const pairs = Array.from({ length: 12 }, () => ({ baseline: false, arm: true }));
const report: EvalReport = {
  ...createEvalReport("task", { model: "test/model" }, new Date("2026-11-19T04:00:00Z")),
  ...{ ms: 2000, passed: false, spent: { calls: 7, inputTokens: 10, outputTokens: 5, dollars: 0.25 } },
  skills: [
    createSkillReport("sums", {
      rates: [
        { name: "none", ...computeRate(0, 12) },
        { name: "skill", ...computeRate(12, 12) },
      ],
      comparisons: [{ baseline: "none", arm: "skill", ...comparePairs(pairs) }],
      cases: [
        { name: "total", arms: { none: totals(0, 6), skill: totals(6, 6) }, failures: ["none: no file"] },
        { name: "bad <case>", arms: { none: totals(0, 6), skill: totals(1, 6) }, failures: ['skill: "x" & <y>\u0001'] },
      ],
      misses: [
        { query: "find | it", shouldTrigger: true, takenBy: "other" },
        { query: "not this", shouldTrigger: false },
      ],
      warnings: ["few"],
    }),
  ],
};

describe("formats of a report", () => {
  it("are JUnit with a test for each case and miss, and escaped", () => {
    const xml = formatEvalReport(report, "junit");
    expect(xml).toContain('<testsuite name="sums" tests="4" failures="3" timestamp="2026-11-19T04:00:00.000Z">');
    expect(xml).toContain('<testcase classname="sums" name="total" time="1.5"/>');
    expect(xml).toContain('name="bad &lt;case&gt;"');
    expect(xml).toContain('message="skill: &quot;x&quot; &amp; &lt;y&gt;\ufffd"');
    expect(xml).toContain('message="the skill was not chosen, but other"');
    expect(xml).not.toMatch(/[\0-\x08]/);
  });

  it("are SARIF for misses and failed cases", () => {
    const { runs } = JSON.parse(formatEvalReport(report, "sarif"));
    expect(runs[0].results.map(({ ruleId }: { ruleId: string }) => ruleId)).toEqual([
      ...["eval-missed", "eval-false-trigger", "eval-failed"],
    ]);
    const rules = runs[0].tool.driver.rules.map(({ id }: { id: string }) => id);
    expect(rules).toEqual(expect.arrayContaining(["eval-missed", "eval-failed"]));
  });

  it("are Markdown in which names and queries cannot format anything", () => {
    const text = formatEvalReport(report, "markdown");
    expect(text).toContain("| skill | 100 % | 12/12 | 76 to 100 % |");
    expect(text).toContain("helps");
    expect(text).toContain("- missed: find \\| it (went to other)");
    expect(text).toContain("- failed: bad \\<case\\>");
    expect(text).toContain("7 model calls, 10 input and 5 output tokens, $0.2500");
  });

  it("are a page that needs no other file and runs no script", () => {
    const page = formatEvalReport(report, "html");
    expect(page).toContain("default-src 'none'");
    expect(page).not.toMatch(/<script|https?:\/\/|url\(|<link/);
    expect(page).toMatch(
      /<span class="badge good">helps<\/span> skill against none: \+100 points, 95 % \+\d+ to \+100, p = 0\.000, 12 pairs/,
    );
    expect(page).toContain("bad &lt;case&gt;");
    // Each rate has a bar and an interval, and the comparison has an interval around a point.
    expect(page.match(/class="bar"/g)).toHaveLength(2);
    expect(page.match(/class="range/g)).toHaveLength(3);
    expect(page.match(/class="point good"/g)).toHaveLength(1);
    expect(page).toContain('aria-label="skill: 100 %, 95 % 76 to 100 %"');
    expect(page).toContain('<td class="n">1/6</td>');
  });

  it("are JSON that is the report", () => {
    expect(JSON.parse(formatEvalReport(report, "json"))).toEqual(report);
  });
});
