import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { diffLines } from "../../src/util/diff.ts";
import { expectLinearSteps } from "../support/steps.ts";

const text = (...lines: (string | number)[]) => lines.map((line) => `${line}\n`).join("");
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe("diffLines", () => {
  it("shows removed lines, added lines and the context", () => {
    expect(diffLines(text(...numbers(1, 9)), text(1, 2, 3, 4, "five", 6, 7, 8, 9))).toEqual([
      "@@ -2,7 +2,7 @@",
      " 2",
      " 3",
      " 4",
      "-5",
      "+five",
      " 6",
      " 7",
      " 8",
    ]);
  });

  it("shows distant changes as separate hunks, and near ones as one", () => {
    const before = numbers(1, 30);
    const after = before.filter((line) => line !== 3 && line !== 5 && line !== 25);
    expect(diffLines(text(...before), text(...after), { context: 1 })).toEqual([
      "@@ -2,5 +2,3 @@",
      " 2",
      "-3",
      " 4",
      "-5",
      " 6",
      "@@ -24,3 +22,2 @@",
      " 24",
      "-25",
      " 26",
    ]);
  });

  it("numbers empty sides as diff does", () => {
    expect(diffLines("", "a\nb\n")).toEqual(["@@ -0,0 +1,2 @@", "+a", "+b"]);
    expect(diffLines("a\n", "")).toEqual(["@@ -1,1 +0,0 @@", "-a"]);
    expect(diffLines(text(1, 2), text(1, "x", 2), { context: 0 })).toEqual(["@@ -1,0 +2,1 @@", "+x"]);
  });

  it("is empty for equal texts, and ignores a newline at the end", () => {
    expect(diffLines("a\nb\n", "a\nb\n")).toEqual([]);
    expect(diffLines("a\nb", "a\nb\n")).toEqual([]);
    expect(diffLines("", "")).toEqual([]);
  });

  it("shows a line with another ending, and blank lines", () => {
    expect(diffLines("a\r\nb\n", "a\nb\n\n")).toEqual(["@@ -1,2 +1,3 @@", "-a\r", "+a", " b", "+"]);
  });

  it("shows a limited number of lines, and the number of omitted ones", () => {
    const shown = diffLines("", text(...numbers(1, 100)), { maxLines: 3 });
    expect(shown).toEqual(["@@ -0,0 +1,100 @@", "+1", "@@ 99 more lines not shown @@"]);
    expect(diffLines("", "a\n", { maxLines: 2 })).toEqual(["@@ -0,0 +1,1 @@", "+a"]);
    expect(diffLines("", "a\n", { maxLines: 1 })).toEqual(["@@ 2 more lines not shown @@"]);
  });

  it("shows texts that are too different one after the other, reports that, and stops early", async () => {
    const old = text(...numbers(1, 60_000));
    const now = text(...numbers(1, 60_000).reverse());
    const [header, ...lines] = diffLines(old, now);
    expect(header).toBe("@@ -1,60000 +1,60000 @@ too different to compare: all old lines, then all new lines");
    expect(lines.slice(0, 60_000).every((line) => line.startsWith("-"))).toBe(true);
    expect(lines.slice(60_000).every((line) => line.startsWith("+"))).toBe(true);
    await expectLinearSteps(
      ["src/util/diff.ts"],
      ({ diffLines }: typeof import("../../src/util/diff.ts"), length: number) => {
        const lines = Array.from({ length }, (_, at) => at);
        diffLines(lines.join("\n"), lines.toReversed().join("\n"));
      },
      [["reversed lines", [8000, 16_000, 32_000]]],
    );
  });

  it("finds a small change in a large text", () => {
    const lines = numbers(1, 100_000);
    const changed = lines.map((line) => (line === 10 || line === 99_990 ? -line : line));
    expect(diffLines(text(...lines), text(...changed), { context: 0 })).toHaveLength(6);
  });
});

describe("a diff of any texts", () => {
  const lines = fc.array(fc.constantFrom("", "a", "b", "c", "+a", "-b", "@@ -1,1 +1,1 @@", " d"), { maxLength: 30 });

  it("turns the old text into the new one, with a minimum of lines", () => {
    fc.assert(
      fc.property(lines, lines, fc.nat({ max: 4 }), (old, now, context) => {
        const shown = diffLines(text(...old), text(...now), { context });
        expect(applied(old, shown)).toEqual(now);
        const changes = shown.filter((line, index) => !isHeader(shown, index) && /^[+-]/.test(line)).length;
        expect(changes).toBe(old.length + now.length - 2 * longestCommon(old, now));
      }),
      { numRuns: 2000 },
    );
  });
});

/** A line of the texts can look like a header, but within a hunk it has a mark in front. */
function isHeader(shown: string[], index: number): boolean {
  return shown[index]?.startsWith("@@") ?? false;
}

/** Applies like `patch`: by the numbers in the headers, and only if the old lines match the hunk. */
function applied(old: string[], shown: string[]): string[] {
  const now: string[] = [];
  let at = 0;
  for (const line of shown) {
    const [, first, count] = /^@@ -(\d+),(\d+) /.exec(line) ?? [];
    if (first !== undefined) {
      const start = count === "0" ? Number(first) : Number(first) - 1;
      now.push(...old.slice(at, start));
      at = start;
    } else {
      if (!line.startsWith("+")) expect(old[at++]).toBe(line.slice(1));
      if (!line.startsWith("-")) now.push(line.slice(1));
    }
  }
  return [...now, ...old.slice(at)];
}

function longestCommon(old: string[], now: string[]): number {
  let before = new Array<number>(now.length + 1).fill(0);
  for (const line of old) {
    const current = [0];
    for (const [index, other] of now.entries()) {
      current.push(line === other ? (before[index] ?? 0) + 1 : Math.max(before[index + 1] ?? 0, current[index] ?? 0));
    }
    before = current;
  }
  return before[now.length] ?? 0;
}
