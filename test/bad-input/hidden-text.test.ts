import { describe, expect, test } from "vitest";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { parseMarkdownDocument, parseYamlDocument, validateSkill } from "../../src/skill/document.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { escapeLine, findInvisible } from "../../src/util/untrusted-text.ts";
import { temporaryFolder } from "../support/folder.ts";
import { codesOf, expectVerdict, FIXTURES, fixturesOf, loads, refused } from "./fixture.ts";

const ROWS = [
  // In metadata: refused
  refused("hidden-tag-characters", "refuses tag characters", "hidden-text"),
  refused("hidden-tags-after-flag", "refuses a sentence of tag characters after a flag", "hidden-text"),
  refused("hidden-override", "refuses a right-to-left override", "hidden-text"),
  refused("hidden-isolate", "refuses an isolate", "hidden-text"),
  refused("hidden-zero-width-space", "refuses a zero-width space inside a word", "hidden-text"),
  refused("hidden-word-joiner", "refuses a word joiner", "hidden-text"),
  refused("hidden-soft-hyphen", "refuses a soft hyphen", "hidden-text"),
  refused("hidden-byte-order-mark", "refuses a byte order mark inside a word", "hidden-text"),
  refused("hidden-joiner-in-word", "refuses a joiner between Latin letters", "hidden-text"),
  refused("hidden-hangul-filler", "refuses Hangul fillers", "hidden-text"),
  refused("hidden-variation-selectors", "refuses a row of variation selectors", "hidden-text"),
  refused("hidden-variation-selectors-supplement", "refuses supplementary variation selectors", "hidden-text"),
  refused(
    "hidden-variation-selector-each",
    "refuses a variation selector that no emoji has, one behind each",
    "hidden-text",
  ),
  refused("hidden-escape-sequence", "refuses a terminal's escape sequence", "control-character"),
  refused("hidden-delete", "refuses a DEL", "control-character"),
  refused("hidden-c1-control", "refuses a C1 control", "control-character"),
  refused("hidden-line-separator", "refuses a line separator", "control-character"),
  refused("hidden-next-line", "refuses a next-line character that an escape makes", "control-character"),
  refused("hidden-key", "refuses a zero-width space in a key", "hidden-text", "key-unknown"),
  refused("hidden-comment", "refuses an override in a comment", "hidden-text"),

  // YAML escapes are detected too
  refused("hidden-override-escaped", "refuses an override that an escape makes", "hidden-text"),
  refused("hidden-tags-escaped", "refuses tag characters that escapes make", "hidden-text"),
  refused("hidden-escape-sequence-escaped", "refuses an escape sequence that \\e makes", "control-character"),
  refused("hidden-escaped-in-list", "refuses an escape in a list", "hidden-text"),
  refused("hidden-escaped-deep", "refuses an escape deep inside", "hidden-text"),
  refused("hidden-escaped-deep-key", "refuses an escape in a key deep inside", "hidden-text"),
  refused("hidden-escaped-key", "refuses an escape in a key", "hidden-text", "key-unknown"),

  // In instructions: reported
  loads("hidden-body-tag-characters", "reports tag characters in instructions", "hidden-text-body"),
  loads("hidden-body-override", "reports an override in instructions", "hidden-text-body"),
  loads("hidden-body-zero-width-space", "reports a zero-width space in instructions", "hidden-text-body"),
  loads("hidden-body-variation-selectors", "reports variation selectors in instructions", "hidden-text-body"),
  loads("hidden-body-escape-sequence", "reports an escape sequence in instructions", "hidden-text-body"),

  // Characters that scripts and emoji need
  loads("hidden-nothing-family", "accepts a family, a profession and a rainbow"),
  loads("hidden-nothing-flags", "accepts flags of countries and of their parts"),
  loads("hidden-nothing-skin-tones", "accepts skin tones"),
  loads("hidden-nothing-keycaps", "accepts keycaps"),
  loads("hidden-nothing-persian", "accepts Persian with its non-joiner"),
  loads("hidden-nothing-hindi", "accepts Hindi with its joiner"),
  loads("hidden-nothing-hebrew", "accepts Hebrew"),
  loads("hidden-nothing-hebrew-mark", "accepts the mark after Hebrew punctuation"),
  loads("hidden-nothing-mongolian", "accepts Mongolian with its variation selector"),
  loads("hidden-nothing-chinese", "accepts Chinese with a registered variant"),
  loads("hidden-nothing-japanese-width", "accepts full-width letters and blanks"),
  loads("hidden-nothing-variation-of-symbols", "accepts variants of symbols"),
];

test.for(ROWS.map((row) => [row.title, row] as const))("[Q-08] %s", async ([, row]) => {
  await expectVerdict(row);
});

test("[Q-08] every fixture of hidden text has a row", () => {
  expect(ROWS.map(({ folder }) => folder).sort()).toEqual(fixturesOf("hidden"));
});

test("[Q-08] reports the character and its place", () => {
  const [file] = checkPath(`${FIXTURES}/hidden-zero-width-space`).files;
  expect(file?.diagnostics[0]).toMatchObject({
    message: "contains the hidden character \\u{200b}",
    line: 3,
    column: "description: Shows de".length + 1,
  });
  const [body] = checkPath(`${FIXTURES}/hidden-body-override`).files;
  expect(body?.diagnostics.map(({ message, line, column }) => ({ message, line, column }))).toEqual([
    { message: "the instructions contain the hidden character \\u{202e}", line: 6, column: 4 },
    { message: "the instructions contain the hidden character \\u{202c}", line: 6, column: 9 },
  ]);
});

describe("single characters", () => {
  const GROUPS: [string, "control" | "hidden", readonly number[]][] = [
    ["C0 controls", "control", [...range(0, 8), 0x0b, 0x0c, ...range(0x0e, 0x1f)]],
    ["C1 controls", "control", range(0x7f, 0x9f)],
    ["line and paragraph separators", "control", [0x2028, 0x2029]],
    ["embeddings, overrides and isolates", "hidden", [...range(0x202a, 0x202e), ...range(0x2066, 0x2069)]],
    ["direction marks next to Latin", "hidden", [0x200e, 0x200f, 0x061c]],
    ["zero-width characters", "hidden", [0x200b, 0x200c, 0x200d, 0x2060, 0xfeff]],
    ["invisible operators and deprecated formats", "hidden", [...range(0x2061, 0x2065), ...range(0x206a, 0x206f)]],
    ["fillers and joiners", "hidden", [0xad, 0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180e, 0x3164, 0xffa0]],
    ["interlinear annotation", "hidden", range(0xfff9, 0xfffb)],
    ["variation selectors", "hidden", [...range(0xfe00, 0xfe0f), ...range(0xe0100, 0xe01ef), ...range(0x180b, 0x180d)]],
    ["tag characters", "hidden", [0xe0001, ...range(0xe0020, 0xe007f)]],
    ["shorthand and musical formats", "hidden", [...range(0x1bca0, 0x1bca3), ...range(0x1d173, 0x1d17a)]],
  ];

  test.for(GROUPS)("[Q-08] %s inside a word are found and shown", ([, kind, codePoints]) => {
    for (const codePoint of codePoints) {
      const text = `de${String.fromCodePoint(codePoint)}ploy`;
      expect(findInvisible(text)).toEqual([{ index: 2, codePoint, kind }]);
      expect(escapeLine(text)).toBe(`de\\u{${codePoint.toString(16)}}ploy`);
    }
  });

  test.for(GROUPS)("[Q-08] %s in a description keep the skill from loading", ([, kind, codePoints]) => {
    const code = kind === "control" ? "control-character" : "hidden-text";
    for (const codePoint of codePoints) {
      const raw = `description: de${String.fromCodePoint(codePoint)}ploy`;
      const escaped = `description: "de\\U${codePoint.toString(16).padStart(8, "0")}ploy"`;
      for (const line of [raw, escaped]) {
        const document = parseMarkdownDocument(`---\nname: x\n${line}\n---\nDo it.\n`);
        const { isUsable, findings } = validateSkill(document, { form: "folder", stem: "x", profile: "load" });
        expect([line, isUsable, codesOf(findings)]).toEqual([line, false, [code]]);
      }
    }
  });
});

describe("smuggling with allowed characters", () => {
  const tags = (text: string) =>
    [...text].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join("");

  test.for([
    ["tags without a flag", tags("gbeng\x7f")],
    ["a flag that never ends", `\u{1f3f4}${tags("gbeng")}`],
    ["a flag with too many letters", `\u{1f3f4}${tags("gbengl\x7f")}`],
    ["a flag with blanks in it", `\u{1f3f4}${tags("g beng\x7f")}`],
    ["two ends of a flag", `\u{1f3f4}${tags("gbeng\x7f\x7f")}`],
    ["two joiners between pictures", "\u{1f468}\u200d\u200d\u{1f469}"],
    ["a joiner after a picture and before a word", "\u{1f468}\u200dword"],
    ["two non-joiners in Persian", "\u0645\u06cc\u200c\u200c\u062e"],
    ["a non-joiner after a non-Persian word", "word\u200c\u062e"],
    ["two variation selectors", "\u2764\ufe0f\ufe0f"],
    ["a text and an emoji selector", "\u2764\ufe0e\ufe0f"],
    ["bits in selectors of digits", "1\ufe011\ufe02"],
    ["bits in selectors of signs", "+\ufe03+\ufe0b"],
    ["a supplementary selector after an emoji", "\u{1f600}\u{e0101}"],
    ["two supplementary selectors after an ideograph", "\u8fba\u{e0101}\u{e0102}"],
  ])("[Q-08] finds %s", ([, text]) => {
    expect(findInvisible(`Use ${text} here`).length).toBeGreaterThan(0);
  });
});

describe("skills in other forms", () => {
  const check = (path: string) => {
    const [file] = checkPath(path).files;
    return { isValid: file?.isValid, codes: codesOf(file?.diagnostics ?? []) };
  };
  const yaml = (instructions: string) => `name: x\ndescription: Use when tested.\ninstructions: ${instructions}\n`;

  test.for([
    ["that an escape makes", yaml('"Do \\u202e it."')],
    ["the characters in place", yaml("Do \u202e it.")],
  ] as const)("[Q-08] hidden characters %s in a YAML skill's instructions are reported", ([, text]) => {
    const folder = temporaryFolder({ "x.yaml": text });
    expect(check(`${folder}/x.yaml`)).toEqual({ isValid: true, codes: ["hidden-text-body"] });
  });

  test("[Q-08] hidden characters in a YAML skill's description are refused", async () => {
    const text = 'name: x\ndescription: "Use when \\u202e tested."\ninstructions: Do it.\n';
    const path = temporaryFolder({ "x.yaml": text });
    expect(check(`${path}/x.yaml`)).toEqual({ isValid: false, codes: ["hidden-text"] });
    expect((await createDirectorySource({ path }).load()).skills).toEqual([]);
    expect(codesOf(parseYamlDocument(text).findings)).toEqual(["hidden-text"]);
  });

  test.for([
    ["the description", { description: "Use \u202e it." }],
    ["the title", { title: "\u200b" }],
    ["a text of the frontmatter", { frontmatter: { rationale: "be\u2066cause" } }],
    ["a list of the frontmatter", { frontmatter: { tags: ["\x1b[8m"] } }],
    ["a key of the frontmatter", { frontmatter: { metadata: { "a\u202e": "b" } } }],
  ])("[Q-08] defineSkill throws for hidden text in %s", ([, more]) => {
    const definition = { name: "x", description: "Use when tested.", instructions: "Do it.", ...(more as object) };
    expect(() => defineSkill(definition)).toThrow(/hidden character/);
  });
});

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

test("[Q-08] a character is hidden or not regardless of its neighbors", () => {
  const differing: string[] = [];
  for (let code = 0; code <= 0xffff; code++) {
    const character = String.fromCharCode(code);
    // A hexagram is not one of the allowed characters, and no other character combines with it.
    const [alone, beside] = [findInvisible(character), findInvisible(`\u4dc0${character}`)];
    if (alone.length !== beside.length || escapeLine(`\u4dc0${character}`) !== `\u4dc0${escapeLine(character)}`)
      differing.push(code.toString(16));
  }
  expect(differing).toEqual([]);
});
