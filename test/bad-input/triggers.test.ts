import { describe, expect, it } from "vitest";
import { disclose } from "../../src/catalog/disclose.ts";
import { createMatcher, type Matcher } from "../../src/catalog/search/matcher.ts";
import { MAX_QUERY_LENGTH } from "../../src/catalog/search/query.ts";
import type { FindingCode } from "../../src/errors/finding-codes.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { filterAsync } from "../../src/util/async.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createCatalogOf, defineTestSkill, type Sketch } from "../support/skills.ts";
import { countSteps, expectLinearSteps } from "../support/steps.ts";
import { codesOf } from "./fixture.ts";

type Modules = typeof import("../../src/catalog/search/matcher.ts") & typeof import("../support/skills.ts");

type Parts = Pick<Sketch, "keywords" | "verbs" | "patterns" | "negative" | "examples"> & { paths?: string[] };

/** A skill `odd` from a file, with these triggers and the keyword `rollout`, which must always work. */
async function load({ paths = [], keywords = [], ...more }: Parts) {
  const triggers = JSON.stringify({ keywords: ["rollout", ...keywords], ...more });
  const folder = temporaryFolder({
    "odd/SKILL.md": skillText("odd", { more: `triggers: ${triggers}\npaths: ${JSON.stringify(paths)}\n` }),
  });
  const { skills, diagnostics } = await createDirectorySource({ path: folder }).load();
  const codes = codesOf(diagnostics).filter((code) => code.startsWith("trigger-"));
  return { folder, codes, diagnostics, matcher: createMatcher(skills) };
}

async function wakes(matcher: Matcher, query: string, files: readonly string[] = []): Promise<boolean> {
  return (await matcher.match(query, { files, limit: 0 })).matches.some(({ skill }) => skill.name === "odd");
}

const many = (count: number, text: (index: number) => string) => Array.from({ length: count }, (_, at) => text(at));

const WRONG: [what: string, parts: Parts, ...codes: FindingCode[]][] = [
  ["an open class", { patterns: ["["] }, "trigger-pattern"],
  ["an open group", { patterns: ["(a"] }, "trigger-pattern"],
  ["a group that was not opened", { patterns: ["a)"] }, "trigger-pattern"],
  ["a lookahead", { patterns: ["deploy(?=s)"] }, "trigger-pattern"],
  ["a lookbehind", { patterns: ["(?<!no )deploy"] }, "trigger-pattern"],
  ["a backreference", { patterns: ["(a+)b\\1"] }, "trigger-pattern"],
  ["a named backreference", { patterns: ["(?P<x>a)(?P=x)"] }, "trigger-pattern"],
  ["a repetition of nothing", { patterns: ["*a"] }, "trigger-pattern"],
  ["a counted repetition of nothing", { patterns: ["{1}a"] }, "trigger-pattern"],
  ["an enormous count", { patterns: ["a{1234567890}"] }, "trigger-pattern"],
  ["an unknown class", { patterns: ["[[:FOO:]]x"] }, "trigger-pattern"],
  ["a script by its code", { patterns: ["\\p{Grek}x"] }, "trigger-pattern"],
  ["a repetition of repetitions", { patterns: ["((a{30}){30}){30}"] }, "trigger-pattern"],
  ["a pattern of many steps", { patterns: [`${"[ab]".repeat(100)}(?:${"[cd]".repeat(50)}){20}`] }, "trigger-pattern"],
  ["endless groups", { patterns: [`${"(".repeat(400)}a${")".repeat(400)}`] }, "trigger-pattern"],
  ["a pattern of 60 KB", { patterns: ["ab".repeat(30_000)] }, "trigger-pattern"],
  ["everything", { patterns: [".*"] }, "trigger-broad"],
  ["a word boundary", { patterns: ["\\b"] }, "trigger-broad"],
  ["an alternative that matches anything", { patterns: ["deploy|.*"] }, "trigger-broad"],
  ["a class of all characters", { patterns: ["[\\s\\S]+"] }, "trigger-broad"],
  ["invalid ones of each kind", { patterns: ["[", ".*", "a(?=b)"] }, "trigger-pattern", "trigger-broad"],
  ["2,000 patterns", { patterns: many(2000, (at) => `ticket${at}-\\d+`) }, "trigger-limit"],
  ["300 keywords", { keywords: many(300, (at) => `word${at}`) }, "trigger-limit"],
  ["60 KB of keywords", { keywords: many(6000, (at) => `w${at}`) }, "trigger-limit"],
  ["300 negative cues", { negative: many(300, (at) => `word${at}`) }, "trigger-limit"],
  ["600 examples", { examples: many(600, (at) => `do ${at}`) }, "trigger-limit"],
  ["100 globs", { paths: many(100, (at) => `src/${at}/*.ts`) }, "trigger-limit"],
  ["a keyword of separators only", { keywords: ["_", "--"] }, "trigger-unusable"],
  ["a keyword of 30 words", { keywords: ["a ".repeat(30)] }, "trigger-unusable"],
  ["a keyword of 500 letters", { keywords: ["a".repeat(500)] }, "trigger-unusable"],
  ["a verb of separators only", { verbs: ["-"] }, "trigger-unusable"],
  ["a negative cue of 40 KB", { negative: ["no ".repeat(14_000)] }, "trigger-unusable"],
  ["a glob of everything", { paths: ["**"] }, "trigger-broad"],
  ["a glob of everything below", { paths: ["**/*"] }, "trigger-broad"],
  ["a glob of one star", { paths: ["*"] }, "trigger-broad"],
  ["a glob whose class runs backwards", { paths: ["[z-a].ts"] }, "trigger-pattern"],
  ["a glob whose class is empty", { paths: ["x[!].ts"] }, "trigger-pattern"],
  ["a glob of 2 KB", { paths: [`src/${"a".repeat(2000)}`] }, "trigger-pattern"],
];

describe("useless triggers", () => {
  it.each(WRONG)("[T-02] %s is a finding, and the other triggers work", async (_, parts, ...codes) => {
    const { codes: said, matcher, folder } = await load(parts);
    expect(said).toEqual(codes.sort());
    expect(codesOf(checkPath(folder).files.flatMap(({ diagnostics }) => diagnostics))).toEqual(
      expect.arrayContaining(codes),
    );
    for (const query of ["a rollout", "a rollout of {1}a in src/1/x.ts [:FOO:]x a)"])
      expect(await wakes(matcher, query)).toBe(true);
    for (const query of ["", " ", "hello there", "a", "!?", "x.y"]) expect(await wakes(matcher, query)).toBe(false);
  });

  it.each(WRONG)("[T-02] %s throws for the author of a skill in code", (_, { paths, ...triggers }) => {
    const define = () =>
      defineSkill({
        name: "odd",
        description: "Is odd.",
        instructions: "Do.",
        frontmatter: { ...(Object.keys(triggers).length > 0 ? { triggers } : {}), ...(paths ? { paths } : {}) },
      });
    expect(define).toThrow(expect.objectContaining({ code: "definition-invalid" }));
  });

  it("[T-02] `skillet check` names the pattern and the reason", async () => {
    const { folder } = await load({ patterns: ["deploy(?=s)", "[", ".*"] });
    const { code, stdout, stderr } = await skillet(["check", folder, "--profile", "agentskills"]);
    expect(code).toBe(1);
    expect(stdout + stderr).toContain(
      '"triggers" has patterns that cannot be used: "deploy(?=s)" uses lookahead or lookbehind',
    );
    expect(stdout + stderr).toContain('; "[" has a "[" that is not closed');
    expect(stdout + stderr).toContain('"triggers" has ".*", which matches every query');
  });

  it("[T-02] a pattern with an escape sequence in it never loads, and reaches no terminal unescaped", async () => {
    const { diagnostics, folder } = await load({ patterns: ["(\u001b[8m"] });
    expect(codesOf(diagnostics)).toContain("control-character");
    const { stdout, stderr } = await skillet(["check", folder]);
    expect(stdout + stderr).not.toContain("\u001b[8m");
  });

  it("[T-02] unchecked triggers from a program are omitted, and break no query", async () => {
    const whole = defineTestSkill("odd", { keywords: ["rollout"] });
    for (const [, { paths = [], ...triggers }] of WRONG) {
      const { keywords = [], ...more } = triggers;
      const manifest = { ...whole.manifest, paths };
      manifest.triggers = { ...manifest.triggers, keywords: ["rollout", ...keywords, "\u200b", "\u2060"], ...more };
      const catalog = await createCatalogOf([{ ...whole, manifest }]);
      expect((await disclose(catalog, "the rollout of {1}a")).tier).toBe("full");
      expect((await disclose(catalog, "hello there")).tier).toBe("breadcrumb");
    }
  });
});

describe("keywords with special characters", () => {
  const ROWS: [keyword: string, found: string, notFound: string][] = [
    ["a.*(b|c)[", "try a.*(b|c)[ now", "try axxb now"],
    ["^deploy$", "say ^deploy$ here", "deploy"],
    ["\\d+", "what is \\d+ for", "what is 42 for"],
    ["$&", "replace by $& please", "replace it please"],
    ["__proto__", "what is __proto__ here", "what is prototype here"],
    ["constructor", "call the constructor", "construct it"],
    ["toString", "use toString", "use a string"],
    ["🚀", "go 🚀 go", "go 👍 go"],
    ["👨‍👩‍👧", "our 👨‍👩‍👧 album", "our album"],
    ["STRASSE", "in der Straße", "in der Stras"],
    ["straße", "STRASSE 5", "strass"],
    ["istanbul", "İSTANBUL trip", "stanbul trip"],
    ["ΟΔΟΣ", "η οδος εδώ", "η οδο εδώ"],
    ["ｄｅｐｌｏｙ", "deploy it", "deployed it"],
    ["deploy", "ＤＥＰＬＯＹ it", "ＤＥＰＬＯＹＥＤ it"],
    ["café", "the cafe\u0301 bar", "the cafe bar"],
    ["การแปล", "ขอการแปลหน่อย", "ขอการหน่อย"],
    ["배포", "지금 배포해 줘", "지금 재배포해 줘"],
    ["デプロイ", "今すぐデプロイして", "今すぐデプロイメントして"],
    ["部署", "请部署它", "请部它署"],
    ["שלום", "תגיד שלום לכולם", "תגיד שלומות"],
  ];

  it.each(ROWS)("[T-02] %j is found in %j, not in %j", async (keyword, found, notFound) => {
    const matcher = createMatcher([defineTestSkill("odd", { keywords: [keyword] })]);
    expect([await wakes(matcher, found), await wakes(matcher, notFound)]).toEqual([true, false]);
  });
});

describe("queries", () => {
  const KEYWORDS = ["go ".repeat(23).concat("stop"), "ああ".repeat(200), "!?".repeat(200), "a.b.c.d.e", "deploy"];
  const PATTERNS = ["(a+)+$", "(a|aa)+$", "(x+x+)+y", "(?:go )*stop", "ticket-\\d+", "(.*=)+;"];
  const fill =
    (unit: string, end = "") =>
    (length: number) =>
      unit.repeat(length / unit.length) + end;
  const WORST: [what: string, query: (length: number) => string][] = [
    ["one letter repeated", fill("a ")],
    ["one letter without blanks", fill("a", "!")],
    ["the beginning of a keyword", fill("go ")],
    ["the beginning of a keyword without blanks", fill("あ")],
    ["the beginning of a keyword of symbols", fill("!?")],
    ["the beginnings of patterns", fill("ticket-")],
    ["text on which a pattern backtracks", fill("x")],
    ["signs of equality", fill("=")],
    ["slashes", fill("/")],
    ["folders", fill("a/b/")],
    ["dollars", fill("$")],
    ["mentions", fill("/deploy $deploy ")],
    ["dots before a letter", fill(".", "a")],
    ["colons before a letter", fill(":", "a")],
    ["places in a file", fill(":1", "x")],
    ["a long number after a colon", (length) => `:${"1".repeat(length)}x`],
    ["capitals in words", fill("aB")],
    ["pluses", fill("c+")],
    ["hyphens", fill("a-")],
    ["quotes around a name", (length) => `${"*".repeat(length)}deploy${"*".repeat(length / 2)}`],
    ["combining marks in order", (length) => `a${"\u0301\u0316".repeat(length / 2)}`],
    ["combining marks in the wrong order", (length) => `a${"\u0301".repeat(length / 2)}${"\u0316".repeat(length / 2)}`],
    ["long ligatures", fill("\ufdfa")],
    ["lone surrogates", fill("\ud800")],
    ["NUL", fill("\0")],
    ["overrides", fill("\u202eabc ")],
    ["families", fill("👨‍👩‍👧")],
    ["blanks", fill(" ", "x")],
  ];

  it("[Q-11] take linear steps, whatever they look like", async () => {
    await expectLinearSteps(
      ["src/catalog/search/matcher.ts", "test/support/skills.ts"],
      async ({ createMatcher, defineTestSkill }: Modules, [keywords, patterns, query]) => {
        const more = { paths: ["src/**/*.ts", "**/a/**/b/**/c"] };
        const odd = defineTestSkill("odd", { keywords, patterns, more });
        await createMatcher([odd, defineTestSkill("deploy", { keywords: ["odd one"] })]).match(query, { bodies: true });
      },
      WORST.map(([what, query]) => [
        what,
        [2400, 4800, 9600].map((length) => [KEYWORDS, PATTERNS, query(length)] as const),
      ]),
    );
  });

  it("[Q-11] a skill full of the most expensive patterns does not delay a query", async () => {
    const patterns = many(64, (at) => `[aeiou][\\s\\S]{${200 + at}}[0-9]`);
    const words = "the quick brown fox jumps over a lazy dog while every engineer reads documents".split(" ");
    let seed = 7;
    const next = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return words[seed % words.length];
    };
    const query = many(300, () => next() ?? "").join(" ");
    const [count] = await countSteps(
      ["src/catalog/search/matcher.ts", "test/support/skills.ts"],
      async ({ createMatcher, defineTestSkill }: Modules, [patterns, query]) => {
        const whole = defineTestSkill("odd", { keywords: ["rollout"] });
        const manifest = { ...whole.manifest, triggers: { ...whole.manifest.triggers, patterns } };
        await createMatcher([{ ...whole, manifest }]).match(query);
      },
      [[patterns, query] as const],
    );
    expect((count ?? 0) / query.length, "steps for each character and pattern").toBeLessThan(100 * 64);
  });

  it("[Q-11] a query of a megabyte is cut, and that is reported", async () => {
    const catalog = await createCatalogOf({ odd: { keywords: ["rollout"] } });
    for (const filler of ["x", "x ", "/", "\ud800", "あ", "."]) {
      const long = filler.repeat(1_000_000 / filler.length);
      expect(await disclose(catalog, `rollout ${long}`)).toMatchObject({ tier: "full", isCut: true });
      expect(await disclose(catalog, `${long} rollout`)).toMatchObject({ tier: "full", isCut: true });
      expect(await disclose(catalog, `${long} rollout ${long}`)).toMatchObject({ tier: "breadcrumb", isCut: true });
    }
    const exact = "rollout".padEnd(MAX_QUERY_LENGTH, " x");
    expect([(await disclose(catalog, exact)).isCut, (await disclose(catalog, `${exact}x`)).isCut]).toEqual([
      false,
      true,
    ]);
  });

  it.each([
    ["a lone surrogate", "\ud83d rollout \ude00"],
    ["NUL", "\0rollout\0"],
    ["right-to-left text", "\u202eשלום\u202c rollout עולם"],
    ["emoji", "👩‍💻🏴󠁧󠁢󠁥󠁮󠁧󠁿rollout👍🏽"],
    ["a mark after it", "the rollout\u200b, now"],
  ])("[T-02] a keyword is found next to %s", async (_, query) => {
    expect(await wakes(createMatcher([defineTestSkill("odd", { keywords: ["rollout"] })]), query)).toBe(true);
  });

  it("[T-03] a mention is detected there too", async () => {
    const matcher = createMatcher([defineTestSkill("odd", {})]);
    for (const query of ["this is odd: /odd now", "how odd, so use the odd skill", "src/odd and $odd"])
      expect([query, (await matcher.match(query)).matches[0]?.level]).toEqual([query, "explicit"]);
  });
});

describe("globs", () => {
  const ROWS: [glob: string, fits: string[], fitsNot: string[]][] = [
    ["**/*.ts", ["a.ts", "src/deep/a.ts"], ["a.tsx", "ats", "a.ts/b"]],
    ["src/*.ts", ["src/a.ts", "./src/a.ts", "/home/me/src/a.ts"], ["src/deep/a.ts", "mysrc/a.ts"]],
    ["{a,b}/*.{js,ts}", ["a/x.js", "b/x.ts"], ["c/x.ts", "a/x.css"]],
    ["[!x]y.ts", ["ay.ts"], ["xy.ts"]],
    ["[a-c]1.ts", ["b1.ts"], ["d1.ts"]],
    ["{a,b", ["{a,b"], ["a", "b"]],
    ["a}b", ["a}b"], ["ab"]],
    ["x[a", ["x[a"], ["xa"]],
    ["x]a", ["x]a"], ["xa"]],
    ["a.(b|c)+$^", ["a.(b|c)+$^"], ["a.b", "axb"]],
    ["src\\win\\*.ts", ["src/win/a.ts"], ["srcwin"]],
    ["a?c.ts", ["abc.ts"], ["ac.ts", "a/c.ts"]],
    ["__proto__", ["x/__proto__"], ["__proto"]],
    ["a\nb.ts", [], ["a", "b.ts", "ab.ts", "a b.ts"]],
  ];

  it.each(ROWS)("[X-07] %j", async (glob, fits, fitsNot) => {
    const whole = defineTestSkill("odd", { keywords: ["rollout"] });
    const matcher = createMatcher([{ ...whole, manifest: { ...whole.manifest, paths: [glob] } }]);
    const found = (path: string) => wakes(matcher, "look", [path]);
    expect([await filterAsync(fits, async (path) => !(await found(path))), await filterAsync(fitsNot, found)]).toEqual([
      [],
      [],
    ]);
  });
});
