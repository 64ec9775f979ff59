import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mergeLines } from "../../src/util/diff.ts";
import { expectLinearSteps } from "../support/steps.ts";

const text = (...lines: (string | number)[]) => lines.map((line) => `${line}\n`).join("");
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
/** This many independent lines. */
const alone = (lines: number) => ({ units: { lines, isFirst: () => true } });
/** The same with units that begin with some of them. */
const some = (lines: number) => ({ units: { lines, isFirst: (line: string) => /^(?:[a-c1-3]|ours|)$/.test(line) } });
const merged = (...given: Parameters<typeof mergeLines>) => {
  const result = mergeLines(...given);
  return "text" in result ? result.text : result.conflicts;
};

describe("mergeLines", () => {
  it("applies the changes of each side", () => {
    const base = text(...numbers(1, 9));
    expect(merged(base, text(1, "two", ...numbers(3, 9)), text(...numbers(1, 7), 9, 10))).toBe(
      text(1, "two", ...numbers(3, 7), 9, 10),
    );
  });

  it("applies a common change once, next to different ones", () => {
    const base = text(0, ...numbers(1, 9));
    const ours = text(0, 1, "same", ...numbers(3, 9), "ours");
    const theirs = text(0, "theirs", 1, "same", ...numbers(3, 9));
    expect(merged(base, ours, theirs)).toBe(text(0, "theirs", 1, "same", ...numbers(3, 9), "ours"));
  });

  it("reports conflicts, with the lines of each side and the start of the local ones", () => {
    const base = text(...numbers(1, 9));
    const ours = text("new", ...numbers(1, 4), "ours", ...numbers(6, 9));
    const theirs = text(...numbers(1, 4), "theirs", "more", ...numbers(6, 9));
    expect(merged(base, ours, theirs)).toEqual([{ base: ["5"], ours: ["ours"], theirs: ["theirs", "more"], line: 6 }]);
  });

  it("treats a line that one side removed and the other changed as a conflict", () => {
    expect(merged(text(1, 2, 3), text(1, 3), text(1, "two", 3))).toEqual([
      { base: ["2"], ours: [], theirs: ["two"], line: 2 },
    ]);
  });

  it("treats additions of both sides at one place as a conflict, at any place", () => {
    for (const lines of [0, 10]) {
      expect(merged(text(1, 2), text(1, "ours", 2), text(1, "theirs", 2), alone(lines))).toEqual([
        { base: [], ours: ["ours"], theirs: ["theirs"], line: 2 },
      ]);
    }
  });

  it("treats adjacent changes as a conflict, except among independent lines", () => {
    const [base, ours, theirs] = [text(1, 2, 3, 4), text(1, "ours", 3, 4), text(1, 2, "theirs", 4)];
    expect(merged(base, ours, theirs)).toHaveLength(1);
    expect(merged(base, ours, theirs, alone(1))).toHaveLength(1);
    expect(merged(base, ours, theirs, alone(4))).toBe(text(1, "ours", "theirs", 4));
    expect(merged(base, ours, text(1, 2, "added", 3, 4), alone(4))).toBe(text(1, "ours", "added", 3, 4));
    expect(merged(base, ours, text(1, "added", 2, 3, 4), alone(4))).toBe(text(1, "added", "ours", 3, 4));
  });

  describe("mergeLines with units of several lines", () => {
    const units = { lines: 8, isFirst: (line: string) => /^[A-Z]/.test(line) };
    const base = text("A", " a1", " a2", " a3", "B", " b1", "C", " c1", "end");
    const sides = (ours: string, theirs: string) => {
      const [one, other] = [merged(base, ours, theirs, { units }), merged(base, theirs, ours, { units })];
      if (typeof one === "string") expect(other).toBe(one);
      else expect(other).toHaveLength(one.length);
      return one;
    };
    const with_ = (from: string, to: string) => base.replace(from, to);

    it("applies changes of two adjacent units", () => {
      expect(sides(with_("B\n b1\n", "B2\n"), with_("C\n c1\n", "C2\n"))).toBe(
        text("A", " a1", " a2", " a3", "B2", "C2", "end"),
      );
      expect(sides(with_(" a3\n", " a3\n a4\n"), with_("B\n", "B2\n"))).toBe(
        text("A", " a1", " a2", " a3", " a4", "B2", " b1", "C", " c1", "end"),
      );
      expect(sides(with_("B\n b1\n", ""), with_("C\n", "N\nC\n"))).toBe(
        text("A", " a1", " a2", " a3", "N", "C", " c1", "end"),
      );
      expect(sides(with_(" a1", " one"), with_(" a3", " three"))).toBe(
        text("A", " one", " a2", " three", "B", " b1", "C", " c1", "end"),
      );
    });

    it("assigns a line only to the unit that it was added to", () => {
      expect(sides(with_("C\n c1\n", ""), with_(" c1\n", " c1\n c2\n")), "its unit is gone").toHaveLength(1);
      expect(sides(with_("B\n b1\n", ""), with_("C\n", "")), "the joined line is gone").toHaveLength(1);
      expect(sides(with_("A\n", "Z\n"), with_(" a3\n", " a3\n a4\n")), "its unit has another name").toHaveLength(1);
      expect(sides(with_(" a1\n", " a1\nN\n"), with_(" a3\n", " a3\n a4\n")), "it is in another unit").toHaveLength(1);
      expect(sides(with_(" a1", " one"), with_(" a2", " two")), "they are lines of one unit").toHaveLength(1);
    });
  });

  it("lets one side change line ends, and the other the text", () => {
    const crlf = (lines: string) => lines.replaceAll("\n", "\r\n");
    const [base, other] = [text(1, 2, 3), text(1, 2, "three")];
    expect(merged(base, crlf(base), other)).toBe(crlf(other));
    expect(merged(base, other, crlf(base))).toBe(crlf(other));
    expect(merged(crlf(base), crlf(other), crlf(text(0, 1, 2, 3)))).toBe(crlf(text(0, 1, 2, "three")));
    expect(merged(crlf(base), crlf(other), base)).toBe(other);
  });

  it("keeps mixed line ends unchanged", () => {
    expect(merged("a\r\nb\nc\r\nd\n", "a\r\nb\nc\r\nD\n", "A\r\nb\nc\r\nd\n")).toBe("A\r\nb\nc\r\nD\n");
  });

  it("keeps a last line without an end, and one that was added or removed", () => {
    expect(merged("a\nb\nc", "A\nb\nc", "a\nb\nC")).toBe("A\nb\nC");
    expect(merged("a\nb\nc\n", "A\nb\nc", "a\nb\nc\nd\n")).toBe("A\nb\nc\nd");
    expect(merged("a\nb\nc", "A\nb\nc\n", "a\nb\nC")).toBe("A\nb\nC\n");
  });

  it("handles an empty side", () => {
    expect(merged("", "a\n", "b\n")).toEqual([{ base: [], ours: ["a"], theirs: ["b"], line: 1 }]);
    expect(merged("a\nb\nc\n", "", "a\nb\nC\n")).toHaveLength(1);
  });

  it("finds two small changes in a large text", () => {
    const lines = numbers(1, 40_000);
    const changed = (at: number) => text(...lines.map((line) => (line === at ? -line : line)));
    const result = merged(text(...lines), changed(10), changed(39_990));
    expect(result).toBe(text(...lines.map((line) => (line === 10 || line === 39_990 ? -line : line))));
  });

  it("treats texts that are too long or too different as one conflict, and stops early", async () => {
    const [base, back] = [text(...numbers(1, 40_000)), text(...numbers(1, 40_000).reverse())];
    expect(merged(base, back, text(0, base))).toHaveLength(1);
    const long = `${numbers(1, 200_000).join("\n")}\n`;
    expect(merged(long, text(0, long), `${long}end\n`)).toHaveLength(1);
    // Lines that are equal up to their last character, and paths through them that all go far.
    const alike = (last: number) => text(...numbers(1, 20_000).map((n) => "x".repeat(300) + ((n * last) % 7)));
    mergeLines(alike(1), alike(2), alike(3));
    await expectLinearSteps(
      ["src/util/diff.ts"],
      ({ mergeLines }: typeof import("../../src/util/diff.ts"), length: number) => {
        const lines = Array.from({ length }, (_, at) => at);
        mergeLines(lines.join("\n"), lines.toReversed().join("\n"), `0\n${lines.join("\n")}`);
      },
      [["reversed lines", [8000, 16_000, 32_000]]],
    );
  });
});

describe("a merge of any texts", () => {
  const line = fc.constantFrom("", "a", "b", "c", "d", "e");
  const lines = fc.array(line, { maxLength: 20 });
  const ending = fc.constantFrom("\n", "\r\n");
  const written = fc
    .tuple(lines, ending, fc.boolean())
    .map(([all, end, isEnded]) => all.join(end) + (isEnded && all.length > 0 ? end : ""));

  it("ignores a side without changes, and applies common changes once", () => {
    fc.assert(
      fc.property(written, written, (base, other) => {
        expect(mergeLines(base, base, other)).toEqual({ text: other });
        expect(mergeLines(base, other, base)).toEqual({ text: other });
        expect(mergeLines(base, other, other)).toEqual({ text: other });
      }),
      { numRuns: 500 },
    );
  });

  it("is symmetric", () => {
    fc.assert(
      fc.property(lines, lines, lines, fc.nat({ max: 20 }), (base, ours, theirs, most) => {
        const [b, o, t] = [text(...base), text(...ours), text(...theirs)];
        const [one, other] = [mergeLines(b, o, t, some(most)), mergeLines(b, t, o, some(most))];
        if ("text" in one) expect(other).toEqual(one);
        else expect("conflicts" in other && other.conflicts.length).toBe(one.conflicts.length);
      }),
      { numRuns: 2000 },
    );
  });

  it("contains every line that only one side changed, and none that a side removed", () => {
    const edit = fc.record({ at: fc.nat({ max: 19 }), what: fc.constantFrom("add", "remove", "change") });
    const edits = fc.array(edit, { maxLength: 4 });
    fc.assert(
      fc.property(edits, edits, fc.nat({ max: 20 }), (mine, others, most) => {
        const base = numbers(1, 20).map(String);
        const [ours, theirs] = [edited(base, mine, "ours"), edited(base, others, "theirs")];
        const result = mergeLines(text(...base), text(...ours), text(...theirs), some(most));
        if ("conflicts" in result) return;
        const got = new Set(result.text.split("\n"));
        for (const side of [ours, theirs]) for (const one of side) if (!base.includes(one)) expect(got).toContain(one);
        for (const one of base) expect(got.has(one)).toBe(ours.includes(one) && theirs.includes(one));
      }),
      { numRuns: 2000 },
    );
  });

  function edited(base: string[], edits: readonly { at: number; what: string }[], who: string): string[] {
    const out = [...base];
    for (const [index, { at, what }] of edits.entries()) {
      const place = Math.min(at, out.length - 1);
      out.splice(place, what === "add" ? 0 : 1, ...(what === "remove" ? [] : [`${who} ${index}`]));
    }
    return out;
  }
});
