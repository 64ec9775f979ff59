import { describe, expect, test } from "vitest";
import type { FindingCode } from "../../src/errors/finding-codes.ts";
import { parseMarkdownDocument, validateSkill } from "../../src/skill/document.ts";
import { countSteps, runOften } from "../support/steps.ts";
import { codesOf } from "./fixture.ts";

type Modules = typeof import("../../src/skill/document.ts") & typeof import("../../src/skill/document.ts");

const KIB_64 = 64 * 1024;
const HEAD = "name: x\ndescription: Use when tested.\n";

interface Generated {
  title: string;
  source: string;
  /** All codes of the profile `load`; a skill with none or only harmless ones loads. */
  codes: readonly FindingCode[];
  isUsable: boolean;
}

function refused(title: string, source: string, ...codes: FindingCode[]): Generated {
  return { title, source, codes, isUsable: false };
}

function accepted(title: string, source: string, ...codes: FindingCode[]): Generated {
  return { title, source, codes, isUsable: true };
}

const ROWS: readonly Generated[] = [
  // Size
  accepted("exactly 64 KiB", filled("rationale: ", "a", "\n")),
  refused("64 KiB and a byte", `${filled("rationale: ", "a", "\n")}\n`, "frontmatter-too-large"),
  accepted("exactly 64 KiB of characters with two bytes", filled("rationale: ", "é", "\n")),
  refused("64 KiB and a byte of characters with two", `${filled("rationale: ", "é", "\n")}\n`, "frontmatter-too-large"),
  refused("a megabyte", HEAD + "# x\n".repeat(250_000), "frontmatter-too-large"),

  // Depth and counts
  refused("20,000 opening brackets", `${HEAD}x: ${"[".repeat(20_000)}\n`, "yaml-limit"),
  refused("20,000 pairs of brackets", `${HEAD}x: ${"[".repeat(20_000)}${"]".repeat(20_000)}\n`, "yaml-limit"),
  refused("20,000 opening braces", `${HEAD}x: ${"{a: ".repeat(16_000)}\n`, "yaml-limit"),
  refused("20,000 dashes in a line", `${HEAD}x:\n  ${"- ".repeat(20_000)}a\n`, "yaml-limit"),
  refused("20,000 question marks in a line", `${HEAD}${"? ".repeat(20_000)}a\n`, "yaml-limit"),
  refused("20,000 keys", HEAD + numbered(20_000, (key) => `${key}:\n`), "frontmatter-too-large"),
  refused("as many keys as fit", HEAD + numbered(10_000, (key) => `${key}:\n`), "yaml-limit"),
  refused("as many keys as fit in a line", `${HEAD}x: {${numbered(12_000, (key) => `${key},`)}}\n`, "yaml-limit"),
  refused("a key 13,000 times", `${HEAD}${"a: 1\n".repeat(13_000)}`, "yaml-duplicate", "yaml-limit"),
  accepted("256 keys", `${HEAD}metadata:\n${numbered(256, (key) => `  ${key}: é\n`)}`),
  refused("257 keys", `${HEAD}metadata:\n${numbered(257, (key) => `  ${key}: é\n`)}`, "yaml-limit"),
  accepted("254 unknown keys", HEAD + numbered(254, (key) => `zzzzzzzz-${key}: ${"v".repeat(200)}\n`), "key-unknown"),
  accepted("sixteen levels", `${HEAD}metadata: ${"[".repeat(14)}x${"]".repeat(14)}\n`, "field-type"),
  refused("seventeen levels", `${HEAD}metadata: ${"[".repeat(15)}x${"]".repeat(15)}\n`, "yaml-limit"),
  accepted("a key of 60,000 letters", `${HEAD}${"k".repeat(60_000)}: x\n`, "key-unknown"),
  accepted("a quoted key of 60,000 letters", `${HEAD}"${"k".repeat(60_000)}": x\n`, "key-unknown"),

  // Aliases
  refused("a bomb of lists", HEAD + bomb((names) => `[${names}]`), "yaml-alias"),
  refused(
    "a bomb of mappings",
    HEAD + bomb((names) => `{${names.replaceAll(/[^,]+/g, (name, at) => `k${at}: ${name}`)}}`),
    "yaml-alias",
  ),
  refused("13,000 aliases", `${HEAD}x: &a b\ny:\n${"- *a\n".repeat(13_000)}`, "yaml-alias"),
  refused("an alias of itself", `${HEAD}x: &a [*a]\n`, "yaml-alias"),
  refused("an anchor of 60,000 letters", `${HEAD}x: &${"a".repeat(60_000)} b\n`, "yaml-alias"),

  // Missing terminators
  accepted("60,000 line breaks", `${HEAD}${"\n".repeat(60_000)}`),
  accepted("60,000 blanks", `${HEAD}rationale: a${" ".repeat(60_000)}b\n`),
  accepted("30,000 comments", `${HEAD}${"#\n".repeat(30_000)}`),
  accepted("a text of 20,000 lines", `${HEAD}rationale: |\n${" x\n".repeat(20_000)}`),
  accepted("a folded text of 20,000 lines", `${HEAD}rationale: >\n${" x\n".repeat(20_000)}`),
  accepted("60,000 quotes", `${HEAD}rationale: '${"''".repeat(30_000)}'\n`),
  accepted("a list of 30,000", `${HEAD}tags: [${"a,".repeat(30_000)}]\n`),
  refused("10,000 escapes", `${HEAD}rationale: "${"\\u202e".repeat(10_000)}"\n`, "hidden-text"),
  refused("20,000 hidden characters", `${HEAD}rationale: ${"\u200d".repeat(20_000)}\n`, "hidden-text"),
  refused("7,000 flags that never end", `${HEAD}rationale: ${"\u{1f3f4}\u{e0061}".repeat(7_000)}\n`, "hidden-text"),
  refused("60,000 control characters", `${HEAD}${"\0".repeat(60_000)}\n`, "control-character"),

  // Values that are repaired line by line
  accepted("60,000 blanks in a value to repair", `${HEAD}rationale: @a${" ".repeat(60_000)}b\n`, "yaml-repaired"),
  accepted("60,000 tabs in a value to repair", `${HEAD}rationale: @a${"\t".repeat(60_000)}b\n`, "yaml-repaired"),
  accepted("60,000 blanks in an item to repair", `${HEAD}tags:\n - @a${" ".repeat(60_000)}b\n`, "yaml-repaired"),

  // Fields with lists of words
  accepted("30,000 open parentheses in a list of tools", `${HEAD}allowed-tools: ${"a(".repeat(30_000)}\n`),
  accepted("30,000 tools", `${HEAD}allowed-tools: ${"a ".repeat(30_000)}b\n`),
  accepted("30,000 capabilities", `${HEAD}capabilities: ${"a.b ".repeat(15_000)}a.b\n`),
  accepted(
    "30,000 capabilities of a wrong form",
    `${HEAD}capabilities: ${"a ".repeat(30_000)}b\n`,
    "capability-format",
  ),
  accepted("30,000 variables of a wrong form", `${HEAD}env: ${"1 ".repeat(30_000)}2\n`, "variable-name"),
  accepted("30,000 packages of a wrong form", `${HEAD}packages: ${"A ".repeat(30_000)}B\n`, "package-name"),
  accepted("30,000 commas", `${HEAD}env: ${"A,".repeat(30_000)}B\n`),
  accepted("a version of 60,000 digits", `${HEAD}version: ${"1.".repeat(30_000)}0\n`, "version-format"),
  accepted(
    "a description of 60,000 sentences",
    `name: x\ndescription: Use when ${"a. (".repeat(16_000)}b\n`,
    "description-too-long",
  ),
];

describe("generated frontmatter", () => {
  const prototypeKeys = JSON.stringify(Object.getOwnPropertyNames(Object.prototype));

  test.for(ROWS.map((row) => [row.title, row] as const))("[Q-10] takes linear time for %s", ([, row]) => {
    const text = `---\n${row.source}---\n\nDo it.\n`;
    const judge = () => validateSkill(parseMarkdownDocument(text), { form: "folder", stem: "x", profile: "load" });
    const { isUsable, findings } = judge();
    expect({ isUsable, codes: codesOf(findings) }).toEqual({ isUsable: row.isUsable, codes: [...row.codes].sort() });
    runOften(10, judge);
    expect(JSON.stringify(Object.getOwnPropertyNames(Object.prototype))).toBe(prototypeKeys);
  });

  // Repaired or refused does not matter, as long as it ends.
  const MENDED = [
    ["60,000 line breaks after a value to repair", `rationale: @a\n${"\n".repeat(60_000)}`],
    ["a quote that is never closed", `rationale: "${"a\n ".repeat(20_000)}\n`],
    ["13,000 values to repair", "a: @\n".repeat(13_000)],
    ["13,000 keys before a value to repair", `${"a: .\n".repeat(13_000)}b: @\n`],
    ["13,000 quotes that are not closed", "a: 'x\n".repeat(10_000)],
    ["13,000 items to repair", `k:\n${" - @\n".repeat(13_000)}`],
    ["10,000 nested values to repair", `k:\n${" a: @\n".repeat(10_000)}`],
    ["10,000 lines indented with tabs", `k:\n${"\ta: b\n".repeat(10_000)}`],
    ["10,000 items indented with tabs", `k:\n${"\t- @\n".repeat(13_000)}`],
    ["10,000 items with a quote that is not closed", `k:\n${" - 'x\n".repeat(10_000)}`],
  ] as const;
  test.for(MENDED)("[Q-10] repairs or refuses %s in linear time", ([, source]) => {
    const text = `---\n${HEAD}${source}---\n\nDo it.\n`;
    runOften(10, () => parseMarkdownDocument(text));
  });

  test("[Q-10] takes at most a hundred steps for each allowed byte", async () => {
    const rows = [
      ...ROWS.map(({ title, source }) => [title, source]),
      ...MENDED.map(([title, source]) => [title, HEAD + source]),
    ];
    const counts = await countSteps(
      ["src/skill/document.ts", "src/skill/document.ts"],
      ({ parseMarkdownDocument, validateSkill }: Modules, text: string) =>
        validateSkill(parseMarkdownDocument(text), { form: "folder", stem: "x", profile: "load" }),
      rows.map(([, source]) => `---\n${source}---\n\nDo it.\n`),
    );
    for (const [index, [title]] of rows.entries()) expect(counts[index], title).toBeLessThan(100 * KIB_64);
  });
});

describe("the size of reports", () => {
  test.for([
    ["capabilities", `capabilities: ${"a ".repeat(10_000)}\n`],
    ["tags", `tags:\n${" - [x]\n".repeat(9_000)}`],
    ["scripts", `scripts:\n${" - 1\n".repeat(12_000)}`],
  ])("[Q-10] ten thousand wrong %s do not cause ten thousand findings", ([, source]) => {
    const document = parseMarkdownDocument(`---\n${HEAD}${source}---\n\nDo it.\n`);
    const { findings } = validateSkill(document, { form: "folder", stem: "x", profile: "load" });
    expect(findings.length).toBeGreaterThan(0);
    expect(findings.length).toBeLessThan(300);
  });

  test("[Q-10] a message is short, however long its subject", () => {
    const long = "k".repeat(60_000);
    for (const source of [`${HEAD}"${long}": x\n`, `name: ${long}\ndescription: x\n`, `${HEAD}version: ${long}\n`]) {
      const document = parseMarkdownDocument(`---\n${source}---\n\nDo it.\n`);
      const { findings } = validateSkill(document, { form: "folder", stem: "x", profile: "load" });
      expect(findings.length).toBeGreaterThan(0);
      for (const { message } of findings) expect(message.length).toBeLessThan(300);
    }
  });
});

/** A source of exactly 64 KiB. */
function filled(start: string, unit: string, end: string): string {
  const room = KIB_64 - Buffer.byteLength(HEAD + start + end);
  const size = Buffer.byteLength(unit);
  return HEAD + start + "a".repeat(room % size) + unit.repeat(Math.floor(room / size)) + end;
}

function numbered(count: number, line: (key: string) => string): string {
  return Array.from({ length: count }, (_, index) => line(`k${index.toString(36)}`)).join("");
}

/** Nine levels of nine: 387 million values from less than a kilobyte. */
function bomb(collect: (names: string) => string): string {
  const names = "abcdefghi".split("");
  return names
    .map((name, index) => {
      const before = names[index - 1];
      return `${name}: &${name} ${collect(
        Array(9)
          .fill(before ? `*${before}` : "x")
          .join(","),
      )}\n`;
    })
    .join("");
}
