import { describe, expect, it } from "vitest";
import { findMissingLine, followGuide } from "../support/guide.ts";

/** Pages whose commands are run as they are printed, from top to bottom. */
const GUIDES = ["docs/getting-started.md"];

describe("a guide", () => {
  it.each(GUIDES)("%s works as it is printed", async (page) => {
    const steps = await followGuide(page);
    expect(steps.length).toBeGreaterThan(5);
    const wrong = steps.flatMap(({ line, command, exit, expectedExit, shown, output }) => {
      const missing = findMissingLine({ shown, output });
      if (exit === expectedExit && missing === undefined) return [];
      return [`${page}:${line} ${command}: exit ${exit}, not shown: ${missing}\n${output}`];
    });
    expect(wrong).toEqual([]);
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
