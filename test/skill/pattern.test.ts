import fc from "fast-check";
import { RE2JS } from "re2js";
import { describe, expect, it } from "vitest";
import { PatternIndex } from "../../src/catalog/search/pattern-index.ts";
import { analyzePattern } from "../../src/skill/pattern-parser.ts";
import { classifyPatterns } from "../../src/skill/triggers.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { expectLinearSteps } from "../support/steps.ts";

/** The gate tests a part of the patterns and texts, the same in each run. */
const SHARE = IS_LONG ? 1 : 4;

/** Special characters of the syntax, complete and in halves. */
const PIECES = [
  ...[
    "a",
    "b",
    "k",
    "K",
    "s",
    "S",
    "ab",
    "foo",
    "1",
    " ",
    "é",
    "ß",
    "İ",
    "σ",
    "日",
    "😀",
    "\ud800",
    "ſ",
    "\u212a",
    "-",
  ],
  ...["^", "$", ".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "\\A", "\\z", "\\Z", "\\C", "\\e", "\\_"],
  ...["[a-c]", "[^a]", "[", "]", "[]a]", "[^]a]", "[a-]", "[--a]", "[z-a]", "[\\d-z]", "[a-\\d]", "[\\]]", "[\\s\\S]"],
  ...["[[:alpha:]]", "[[:^word:]]", "[[:foo:]]", "[[:FOO:]]", "[[:]", "[[:x-y:]]", "[[:alpha]", "[:alpha:]"],
  ...["(", ")", "(?:", "(?i)", "(?i:", "(?-i:", "(?s)", "(?U)", "(?P<n>", "(?<n>", "(?P<m>", "(?=", "(?!", "(?<="],
  ...["(?P=n)", "(?)", "(?-)", "(?i-s:", "|", "*", "+", "?", "??", "{", "}", "{1}", "{2}", "{0}", "{0,}", "{1,2}"],
  ...["{2,1}", "{,2}", "{01}", "{1000}", "{1001}", "{99}", "{1234567890}", "{1,1234567890}", "{-1}", "\\1", "\\0"],
  ...["\\07", "\\777", "\\x41", "\\x4", "\\x{1F600}", "\\x{110000}", "\\x{D800}", "\\x{}", "\\Q", "\\E", "\\Qa.b\\E"],
  ...["\\Q\\E", "\\pL", "\\PN", "\\pX", "\\p{L", "\\p{Greek}", "\\p{^Greek}", "\\p{Grek}", "\\p{Zyyy}", "\\p{LC}"],
  ...["\\p{Cs}", "\\p{Any}", "\\p{Script}", "\\", "\\\\", "\\a", "\\n", "\\-", "\\é", "\n", "\0", "<", "=", "!", "&&"],
];
const wild = fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }).map((pieces) => pieces.join(""));

/** Patterns that are mostly valid, so that texts match them. */
const sound = fc.letrec<{ pattern: string; atom: string }>((tie) => ({
  atom: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom("a", "b", "ab", "k", "s", "ks", "1", " ", "é", "日", "😀", ".", "\\w", "[ab]", "[^a]", "\\Qab\\E"),
    fc.constantFrom("\\b", "^", "$", "\\x{6b}", "(?i)", "(?:)", "ſ", "\u212a", "\\d", "a b", "sk 1"),
    tie("pattern").map((inner) => `(${inner})`),
    tie("pattern").map((inner) => `(?-i:${inner})`),
  ),
  pattern: fc.oneof(
    { depthSize: "small" },
    fc
      .array(fc.tuple(tie("atom"), fc.constantFrom("", "", "", "*", "+", "?", "{2}", "{0,2}", "{1}", "+?")), {
        minLength: 1,
        maxLength: 4,
      })
      .map((parts) => parts.flat().join("")),
    fc.array(tie("pattern"), { minLength: 2, maxLength: 3 }).map((choices) => choices.join("|")),
  ),
})).pattern;

const LETTERS = [
  "a",
  "b",
  "A",
  "B",
  "k",
  "K",
  "\u212a",
  "s",
  "S",
  "ſ",
  "1",
  " ",
  "é",
  "É",
  "日",
  "😀",
  "ab",
  "sk",
  "İ",
];
const text = fc.array(fc.constantFrom(...LETTERS), { maxLength: 10 }).map((letters) => letters.join(""));
const compile = (pattern: string) => RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE);
/** Undefined for a pattern that the engine refuses: the test above fails for it. */
const compiled = (pattern: string) => {
  try {
    return compile(pattern);
  } catch {
    return undefined;
  }
};
/** Texts for the index to search. */
const folded = (query: string) => query.toLowerCase().replaceAll("ſ", "s");
const SEED = 20_260;

describe("judgePattern", () => {
  it("[T-02] accepts only patterns that the engine compiles, and never throws", () => {
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof(wild, sound, fc.string({ maxLength: 12 })), (pattern) => {
        if ("problem" in analyzePattern(pattern)) return;
        accepted++;
        compile(pattern);
      }),
      { seed: SEED, numRuns: 6000 / SHARE },
    );
    expect(accepted).toBeGreaterThan(1000 / SHARE);
  });

  it.each([
    ..."{1} {0,}a x|{2} (?:{2}) ({2}) (?i){2} a{1234567890} a{1,1234567890} [[:FOO:]] [[:] [[:x-y:]]".split(" "),
    ..."\\p{Grek} \\p{Latn} \\p{Zyyy} [\\p{^Hani}] \\Q\\E* \\Q\\E{2} (?i)* a** a{2}{2} \\pX \\p{Nope}".split(" "),
  ])("[T-02] refuses %s, which the engine does not support", (pattern) => {
    expect(() => compile(pattern)).toThrow();
    expect(analyzePattern(pattern)).toHaveProperty("problem");
  });

  it("[T-02] requires only texts that every match contains", () => {
    let matched = 0;
    fc.assert(
      fc.property(fc.oneof(sound, sound, wild), fc.array(text, { minLength: 4, maxLength: 4 }), (pattern, queries) => {
        const judged = analyzePattern(pattern);
        if ("problem" in judged || judged.needs.length === 0) return;
        const engine = compiled(pattern);
        for (const query of queries.filter((candidate) => engine?.test(candidate))) {
          matched++;
          for (const set of judged.needs)
            expect(set, JSON.stringify({ pattern, query })).toSatisfy((texts: readonly string[]) =>
              texts.some((needed) => folded(query).includes(needed)),
            );
        }
      }),
      { seed: SEED, numRuns: 4000 / SHARE },
    );
    expect(matched).toBeGreaterThan(300 / SHARE);
  });

  it("[T-02] reports as broad exactly the patterns that match every query", () => {
    const queries = ["a", "Deploy it.", "日本", "42", "!?", "x\ny", "B", " "];
    fc.assert(
      fc.property(sound, (pattern) => {
        const judged = analyzePattern(pattern);
        if ("problem" in judged || judged.isBroad) return;
        const engine = compile(pattern);
        expect([pattern, queries.every((query) => engine.test(query))]).toEqual([pattern, false]);
      }),
      { seed: SEED, numRuns: 2000 / SHARE },
    );
  });

  it.each([
    ...[
      ".",
      ".*",
      ".+",
      "^",
      "$",
      "",
      "a*",
      "(a|)",
      "(?:)",
      "\\b",
      "\\S+",
      "\\w",
      "[^x]",
      "a|.",
      "(.*)+",
      "(?s).{1,9}",
    ],
    ...["[\\s\\S]", "[\\w\\W]+", "\\p{Any}", "\\PN", "[\\x{0}-\\x{10FFFF}]", "[[:^digit:]]", "[^\\d]+"],
  ])("[T-02] reports %j as meaningless", (pattern) => {
    expect(analyzePattern(pattern)).toMatchObject({ isBroad: true });
  });

  it("[Q-11] takes linear steps for the longest allowed pattern, and next to none for one of 100 KB", async () => {
    const units = [
      "(",
      "((a|b)",
      "[",
      "a|",
      "a{1,2}",
      "\\Qa",
      "(?i)",
      "[[:alpha:]",
      "(?P<n>",
      "\\p{L}",
      "{",
      "a?",
      "é",
    ];
    for (const unit of units) expect(analyzePattern(unit.repeat(100_000))).toHaveProperty("problem");
    const lengths = [250, 500, 1000];
    const counts = await expectLinearSteps(
      ["src/skill/pattern-parser.ts"],
      ({ analyzePattern }: typeof import("../../src/skill/pattern-parser.ts"), pattern: string) =>
        analyzePattern(pattern),
      [
        ...units.map((unit) => [unit, lengths.map((length) => unit.repeat(length).slice(0, length))] as const),
        ["100 KB", units.map((unit) => unit.repeat(100_000))],
      ],
    );
    expect(Math.max(...(counts.at(-1) ?? []))).toBeLessThan(1000);
  });
});

/** Returns the patterns that match a text. */
function foundIn(index: PatternIndex<unknown>, text: string): string[] {
  return index.find(text).flatMap((candidate) => (candidate.isFound() ? candidate.pattern : []));
}

describe("PatternIndex", () => {
  it("[T-02] finds the same matches as running every pattern", () => {
    let found = 0;
    fc.assert(
      fc.property(
        fc.array(sound, { minLength: 1, maxLength: 6 }),
        fc.array(text, { minLength: 2, maxLength: 2 }),
        (patterns, queries) => {
          const index = new PatternIndex<string>();
          const { usable: judged } = classifyPatterns([...new Set(patterns)]);
          for (const { pattern, needs } of judged) index.add(pattern, needs, pattern);
          const usable = judged.map(({ pattern }) => pattern);
          for (const query of queries) {
            const expected = usable.filter((pattern) => compile(pattern).test(query));
            found += expected.length;
            expect(foundIn(index, query).sort()).toEqual(expected.sort());
          }
        },
      ),
      { seed: SEED, numRuns: 1000 / SHARE },
    );
    expect(found).toBeGreaterThan(300 / SHARE);
  });

  it("[T-02] [Q-11] finds the same matches in long texts as running every pattern", () => {
    // Required texts at a distance, in both orders, across lines, and next to characters that take two units or grow in lower case.
    const words = ["ab", "foo", "s1k", "日", "a b", "bar-", "12"];
    const word = fc.constantFrom(...words);
    const gap = fc.constantFrom(
      ...["", ".", ".{0,2}", ".{1,3}", ".*", "\\s+", "\\s*", "[^a]{0,2}", "(foo|a)?", "\\b", "😀?", "(b|1.|)", "\n?"],
    );
    const choice = fc.oneof(
      word,
      fc.tuple(word, gap, word).map(([a, between, b]) => `(${a}|${between}${b})`),
      fc.constantFrom("\\d", "\\d+", "(ab.?)+", "(foo.{2}b?){1,2}", "(?:k|foo)s?"),
    );
    const start = fc.constantFrom("", "", "^", "\\b", "(?m)^", "(?s)", "(^|k)");
    const near = fc
      .tuple(start, choice, gap, fc.oneof(choice, fc.tuple(choice, gap, choice)))
      .map((parts) => parts.flat().join(""));
    const piece = fc.constantFrom(
      ...words,
      "FOO",
      "A",
      "x",
      "x",
      " ",
      " ",
      "\n",
      "\n\n",
      "😀",
      "İ",
      "\u212a",
      "ſ1K",
      "1",
    );
    const part = fc.array(piece, { minLength: 4, maxLength: 16 }).map((pieces) => pieces.join(""));
    const long = fc.tuple(part, fc.constantFrom(" ", "\n", "\n\n"), part, fc.boolean()).map(([a, end, b, isPlain]) => {
      const filler = `${"-".repeat(600)}${end}`;
      const query = `${a}${end}${filler}${b}${end}${filler}${a}`;
      return isPlain ? query.replace(/[😀İ]/gu, "x") : query;
    });
    let [found, missed] = [0, 0];
    fc.assert(
      fc.property(
        fc.array(fc.oneof(near, near, sound), { minLength: 1, maxLength: 6 }),
        fc.array(long, { minLength: 2, maxLength: 2 }),
        (patterns, queries) => {
          const index = new PatternIndex<string>();
          const { usable } = classifyPatterns([...new Set(patterns)]);
          for (const { pattern, needs } of usable) index.add(pattern, needs, pattern);
          for (const query of queries) {
            const expected = usable.flatMap(({ pattern }) => (compile(pattern).test(query) ? pattern : []));
            found += expected.length;
            missed += usable.length - expected.length;
            expect(foundIn(index, query).sort()).toEqual(expected.sort());
          }
        },
      ),
      { seed: SEED, numRuns: 1500 / SHARE },
    );
    expect(Math.min(found, missed)).toBeGreaterThan(500 / SHARE);
  });

  it.each([
    ["(foo|zed) .{0,3}bar\\d", "with foo x bar1"],
    ["(foo|zed) .{0,3}bar\\d .{0,2}qux", "with foo x bar1 y qux"],
    ["\\bone two .{0,2}three", "one two x three"],
  ])("[T-02] tests %s from where a match can begin", (pattern, match) => {
    const index = new PatternIndex<number>();
    const { usable } = classifyPatterns([pattern]);
    for (const { needs } of usable) index.add(pattern, needs, 1);
    const line = `${"foo zed one two ".repeat(80)}\n`;
    expect(foundIn(index, `${line}${line}and ${match} here\n`)).toEqual([pattern]);
    expect(foundIn(index, `${line}${line}and ${match.replaceAll(" ", "    ")} here\n`)).toEqual([]);
  });

  it("[T-02] returns every value of a pattern that several have", () => {
    const index = new PatternIndex<number>();
    for (const value of [1, 2, 3]) index.add("v\\d+", [["v"]], value);
    expect(Array.from(index.find("in V12"), ({ values }) => values)).toEqual([[1, 2, 3]]);
  });
});
