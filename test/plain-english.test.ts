import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");

/** Phrases that read like a translation, and what to write. Patterns match comments, strings and prose. */
const PHRASES: readonly (readonly [pattern: RegExp, write: string])[] = [
  [/\bmend(?:s|ed|ing)?\b/i, "fix"],
  [/\banew\b/i, "again"],
  [/\b(?:is|are|was|were|be|been) told\b|\btold (?:of|in full)\b/i, "shown, sent, listed"],
  [/\b(?:is|are|was|were) said\b|\bsays? so\b/i, "reported, printed"],
  [/\b(?:nobody|somebody|whoever|anybody|everybody)\b/i, "the role: user, caller, author, operator"],
  [/\bwhen left out\b/i, "Defaults to"],
  [/\bstands? (?:in|there|behind|beside)\b/i, "is in, is after"],
  [/\b(?:is|are|was) none\b/i, "is not a …"],
  [/\bbut for\b/i, "except"],
  [/\b(?:go|goes|gone|went) on with\b/i, "resume, continue"],
  [/\bto be had\b/i, "available"],
  [/\bfrom elsewhere\b/i, "remote"],
  [/\bkept apart\b/i, "isolated"],
  [/\bcall(?:s|ed)? off\b/i, "cancel"],
  [/\bagree(?:s|d)? to\b/i, "approve"],
  [/\bbeside\b/i, "next to, in addition to"],
  [/\bswitch(?:es|ed)? (?:on|off)\b/i, "enable, disable"],
];

/** Phrases that only titles and comments of tests must not have: other strings there are data, such as queries. */
const TEST_PHRASES: readonly (readonly [pattern: RegExp, write: string])[] = [
  ...PHRASES,
  [/\b(?:is|are|was) (?:not )?there\b(?! (?:is|are)\b)/i, "exists, is missing"],
  [
    /\b(?:says?|tells?|hears?) (?:so|of|nothing|why|what|how|when|where|which|that)\b|\b(?:told|said)\b/i,
    "reports, shows",
  ],
  [/\b(?:go|goes|gone|went) on\b/i, "continue, resume"],
  [/\b(?:brings?|brought)\b/i, "provide, add"],
  [/\bstands?\b(?! for\b)/i, "is in, is next to"],
  [/\b(?:leaves?|left) out\b/i, "omit"],
  [/\b(?:takes?|taken|took) (?:back|away)\b/i, "revoke, remove"],
  [/\bof (?:its|his|their) own(?! \w)|\bof (?:ours|yours|theirs)\b/i, "its own"],
  [/\ball the same\b/i, "nonetheless"],
  [/\bwithout a word\b|\bin silence\b/i, "silently"],
  [/\b(?:come|comes|came|become|became) of\b/i, "outcome, result"],
  [/\b(?:kept|keeps?|keeping) apart\b/i, "isolate, separate"],
];

/** Files whose words are data: patterns of the scanner, word lists, phrases that users type. */
const DATA = /^src\/(?:scan\/|skill\/common-words)/;

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .map((path) => `src/${path.replaceAll("\\", "/")}`)
  .filter((path) => path.endsWith(".ts") && !DATA.test(path));
const tests = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
  .map((path) => `test/${path.replaceAll("\\", "/")}`)
  .filter((path) => path.endsWith(".ts") && !/^test\/(?:fixtures\/|plain-english)|\/node_modules\//.test(path));
const pages = [
  "README.md",
  "AGENTS.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...readdirSync(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** Returns the comments and the strings with spaces of a source file, a line each. */
function proseOf(text: string): string[] {
  const tokens = text.matchAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g);
  return Array.from(tokens, ([token]) => token).filter((token) => token.startsWith("/") || /\s/.test(token));
}

/** Returns the comments of a test, its titles, and other strings with a function after them, such as rows of tables. */
function testProseOf(text: string): string[] {
  const titles = text.matchAll(/(["`])((?:(?!\1)[^\\\n]|\\.)* (?:(?!\1)[^\\\n]|\\.)*)\1,\s*(?:async\s*)?\(/g);
  const comments = proseOf(text).filter((token) => token.startsWith("/"));
  return [...comments, ...Array.from(titles, ([, , title = ""]) => title)];
}

function findPhrases(path: string, prose: readonly string[], phrases = PHRASES): string[] {
  return prose.flatMap((text) =>
    phrases.flatMap(([pattern, write]) => {
      const [found] = pattern.exec(text) ?? [];
      return found === undefined ? [] : [`${path}: "${found}" in ${text.slice(0, 80)} (write: ${write})`];
    }),
  );
}

describe("texts", () => {
  it("are in plain technical English in the sources", () => {
    expect(sources.length).toBeGreaterThan(300);
    const found = sources.flatMap((path) => findPhrases(path, proseOf(readFileSync(join(root, path), "utf8"))));
    expect(found).toEqual([]);
  });

  it("are in plain technical English on the pages", () => {
    const found = pages.flatMap((path) => {
      const text = readFileSync(join(root, path), "utf8");
      return findPhrases(
        path,
        text
          .replace(/^```[\s\S]*?^```/gm, "")
          .replace(/`[^`\n]*`/g, "")
          .split("\n"),
      );
    });
    expect(found).toEqual([]);
  });

  it("are in plain technical English in the titles and comments of tests", () => {
    expect(tests.length).toBeGreaterThan(500);
    const found = tests.flatMap((path) =>
      findPhrases(path, testProseOf(readFileSync(join(root, path), "utf8")), TEST_PHRASES),
    );
    expect(found).toEqual([]);
  });

  it("are found if they are not", () => {
    const test = 'it("goes on after a refusal", () => {}); // Says so.\nit.each([["told twice", (at) => at]]);';
    expect(findPhrases("x", testProseOf(test), TEST_PHRASES)).toHaveLength(4);
    expect(findPhrases("x", proseOf('const a = "mend it, then start anew"; // Whoever asks is told.'))).toHaveLength(4);
  });
});
