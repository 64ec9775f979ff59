import { describe, expect, it } from "vitest";
import { findMissingLine, followGuide, type GuideStep, listGuides } from "../support/guide.ts";
import { createSceneFor } from "../support/guide-scenes.ts";
import { codeBlocks } from "../support/markdown-code.ts";

/** Pages that the gate follows; `npm run test:long` follows all of them. */
const IN_GATE = ["README.md", ...["getting-started", "connecting"].map((name) => `docs/${name}.md`)];
const isLong = process.env["SKILLET_TEST_LONG"] !== undefined;

/** Pages whose commands another test runs, with the files that they need. */
const RUN_ELSEWHERE: Record<string, string> = {
  "docs/ci.md": "test/docs-ci.test.ts",
  "docs/workers.md": "test/e2e/team-guide.test.ts",
};

const guides = ["README.md", ...listGuides()].filter((page) => RUN_ELSEWHERE[page] === undefined);
const hasShell = (page: string) => codeBlocks(page).some(({ language }) => ["sh", "console"].includes(language));

/** Installing skillet itself, which test/e2e/start.test.ts and package.test.ts do. */
const INSTALLING = /^npm (?:ci|install)\b/;

describe("a guide", () => {
  it.each(guides.filter((page) => hasShell(page) && (isLong || IN_GATE.includes(page))))(
    "%s works as it is printed",
    { timeout: 180_000 },
    async (page) => {
      const scene = await createSceneFor(page);
      const steps = await followGuide(page, scene);
      expect(steps.length).toBeGreaterThan(0);
      expect(steps.flatMap((step) => describeProblem(page, step))).toEqual([]);
    },
  );

  it("skips no command except those that install skillet", () => {
    const skipped = guides.flatMap((page) =>
      codeBlocks(page)
        .filter(({ language, marks }) => ["sh", "console"].includes(language) && marks.includes("skip"))
        .flatMap(({ code, line }) => code.split("\n").map((command) => `${page}:${line} ${command}`)),
    );
    expect(skipped.filter((line) => !INSTALLING.test(line.replace(/^\S+ /, "")) && !line.endsWith(" "))).toEqual([]);
    expect(IN_GATE.filter((page) => !guides.includes(page))).toEqual([]);
  });

  it("is compared line by line, and a line that the program does not print is found", () => {
    const output = "a 1\nb\nc\n";
    expect(findMissingLine({ output, shown: ["a …", "b", "c"] })).toBeUndefined();
    expect(findMissingLine({ output, shown: ["…", "c"] })).toBeUndefined();
    expect(findMissingLine({ output, shown: ["a 1", "…"] })).toBeUndefined();
    expect(findMissingLine({ output, shown: ["a 1", "c"] })).toBe("c");
    expect(findMissingLine({ output, shown: ["a 1"] })).toBe("(the page ends before: b)");
    expect(findMissingLine({ output, shown: ["…", "d"] })).toBe("d");
  });
});

/** Returns the difference between a step and its page: the exit code, or a line. */
function describeProblem(page: string, step: GuideStep): string[] {
  const missing = findMissingLine(step);
  if (step.exit === step.expectedExit && missing === undefined) return [];
  return [`${page}:${step.line} ${step.command}: exit ${step.exit}, not shown: ${missing}\n${step.output}`];
}
