import fc from "fast-check";
import { expect, test } from "vitest";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { parseMarkdownDocument, parseYamlDocument, validateSkill } from "../../src/skill/document.ts";
import { readFullYaml, readSimpleYaml, toSkillMd, trimBody } from "../../src/skill/frontmatter.ts";
import { PROFILES } from "../../src/skill/skill.ts";
import type { JsonObject } from "../../src/util/objects.ts";
import { escapeLine, findInvisible } from "../../src/util/untrusted-text.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { countSteps, runOften } from "../support/steps.ts";

type Modules = typeof import("../../src/skill/document.ts") & typeof import("../../src/skill/document.ts");

/** Characters that YAML, Unicode or this project's own scanners treat specially. */
const ODD = fc.constantFrom(
  ...["\n", "\r", "\r\n", "\t", " ", "  ", "---", "--- ", "...", "... ", ":", ": ", " #", "#", "'", '"', "\\", "''"],
  ...["&a", "*a", "!t", "!!js/function", "|", ">", "|-", "%", "@", "`", "- ", "? ", "[", "]", "{", "}", ",", "<<", "="],
  ...["null", "true", "no", "1", "0x1", "1e9", ".inf", "-1", "~", "name: ", "description: ", "__proto__: ", "tags: "],
  ...[
    "allowed-tools: ",
    "metadata:\n  ",
    "instructions: ",
    "\\u202e",
    "\\x1b",
    "\\ud800",
    "$ref: ",
    "(",
    ")",
    "<",
    ">",
  ],
  ...["\0", "\x1b", "\x7f", "\u0085", "\u00a0", "\u2028", "\u200b", "\u202e", "\u3000", "\ufeff", "\ufffd", "\uffff"],
  ...["\ud800", "\udc00", "\u{1f600}", "\ufe0f", "\u{e0061}", "é", "a", "b", "Z", "/", "..", "%2e"],
);
const oddText = (maxLength: number) => fc.array(ODD, { maxLength }).map((parts) => parts.join(""));
const anyText = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), fc.string(), oddText(12));

function judgeAll(source: string): void {
  for (const document of [
    parseMarkdownDocument(source),
    parseMarkdownDocument(`---\n${source}\n---\nDo it.\n`),
    parseYamlDocument(source),
  ]) {
    for (const profile of PROFILES) {
      const { isUsable, name, description, findings } = validateSkill(document, { form: "folder", stem: "x", profile });
      if (isUsable && (name === "" || description === "")) throw new Error("is usable without a name or description");
      if (!isUsable && findings.length === 0) throw new Error("is refused without a message");
    }
  }
}

test("[Q-10] no text throws, and every refusal has a reason", () => {
  fc.assert(fc.property(fc.oneof(anyText, oddText(40)), judgeAll), { numRuns: IS_LONG ? 4000 : 1500 });
});

test("[Q-10] no pattern, repeated up to 64 KiB, takes more steps than allowed", async () => {
  const heads = ["", "x: ", "description: ", "x:\n  ", "x:\n- ", 'x: "', "x: '", "x: [", "x: |\n ", "x: @", "\t"];
  const fields = ["tags: ", "allowed-tools: ", "env: ", "capabilities: ", "version: ", "name: ", "scripts: "];
  const repeated = fc.record({
    head: fc.constantFrom(...heads, ...fields),
    unit: fc.array(ODD, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("")),
    tail: fc.oneof(fc.constant(""), ODD),
  });
  // The same patterns in every run: the count must not depend on chance.
  const samples = fc.sample(repeated, { numRuns: IS_LONG ? 120 : 30, seed: 1 });
  const textsOf = (size: number) =>
    samples.map(({ head, unit, tail }) => {
      const room = size - Buffer.byteLength(head + tail) - 1;
      return `---\n${head}${unit.repeat(Math.floor(room / Buffer.byteLength(unit)))}${tail}\n---\nDo it.\n`;
    });
  const judge = (text: string) =>
    validateSkill(parseMarkdownDocument(text), { form: "folder", stem: "x", profile: "load" });
  for (const text of textsOf(64 * 1024)) runOften(8, () => judge(text));
  const texts = textsOf(16 * 1024);
  const counts = await countSteps(
    ["src/skill/document.ts", "src/skill/document.ts"],
    ({ parseMarkdownDocument, validateSkill }: Modules, text: string) =>
      validateSkill(parseMarkdownDocument(text), { form: "folder", stem: "x", profile: "load" }),
    texts,
  );
  for (const [index, text] of texts.entries()) expect(counts[index], text.slice(0, 40)).toBeLessThan(100 * 16 * 1024);
});

const value = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    anyText,
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(anyText, tie("value"), { maxKeys: 3 }),
  ),
})).value;
const KEYS = ["__proto__", "constructor", "x", "y", "1", "metadata", "rationale", "title", "when_to_use", "license"];
const definition = fc.record({
  name: fc.oneof(
    fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,63}$/),
    fc.constantFrom(
      "no",
      "null",
      "true",
      "on",
      "y",
      "123",
      "1e3",
      "0x1f",
      "0o17",
      "2024-01-01",
      "00",
      "e",
      "inf",
      "nan",
    ),
  ),
  description: anyText,
  instructions: fc.oneof(anyText, oddText(20)),
  frontmatter: fc.dictionary(fc.oneof(fc.constantFrom(...KEYS), anyText), value, { maxKeys: 4 }),
});

test("[Q-25] the output of toSkillMd parses back to the same values", async () => {
  let written = 0;
  await fc.assert(
    fc.asyncProperty(definition, async (given) => {
      const skill = accepted(given);
      if (!skill) return;
      written++;
      const document = parseMarkdownDocument(await toSkillMd(skill));
      const read = validateSkill(document, { form: "folder", stem: given.name, profile: "load" });
      expect(read.isUsable).toBe(true);
      expect(read.name).toBe(skill.name);
      expect(read.description).toBe(skill.description);
      expect(trimBody(document.body)).toBe(await skill.body());
      const { instructions: _instructions, name: _name, description: _description, ...rest } = skill.manifest.data;
      const { name: _readName, description: _readDescription, ...others } = document.data;
      expect(sorted(others)).toEqual(sorted(rest));
    }),
    { numRuns: IS_LONG ? 8000 : 2500 },
  );
  expect(written).toBeGreaterThan(IS_LONG ? 1000 : 300);
});

function accepted(given: Parameters<typeof defineSkill>[0]): ReturnType<typeof defineSkill> | undefined {
  try {
    return defineSkill(given);
  } catch (error) {
    expect(error).toMatchObject({ code: "definition-invalid" });
    return undefined;
  }
}

/** Lines as people and attackers write them: most are nearly simple. */
const yamlLike = (() => {
  const simple = fc.constantFrom("a", "b", "Z", "0", "1", "9", ".", "-", "_", "+", "/", " ", "  ", "é", "null", "true");
  const special = fc.constantFrom(
    ...",:#'\"[]{}&*!|>%@`~\\?=<$();^\t\r\u00a0\u3000\ufeff",
    ": ",
    " #",
    "0x",
    "e",
    "<<",
  );
  const raw = fc.array(fc.oneof(simple, special), { maxLength: 6 }).map((parts) => parts.join(""));
  const known = [
    "true",
    "false",
    "True",
    "null",
    "~",
    "1",
    "0",
    "007",
    "1.0",
    "1.2.3",
    "1e3",
    "0x1f",
    "0o17",
    "-1",
    "+1",
  ];
  const tricky = [
    "",
    "a b",
    "a: b",
    "a #b",
    "a#b",
    "a:b",
    "a:",
    "'a'",
    '"a"',
    "'it''s'",
    '"a\\n"',
    "---",
    "- a",
    "? a",
  ];
  const more = [
    "yes",
    "no",
    ".5",
    "2024-01-01",
    "12:30",
    "123456789",
    "1234567890",
    "''",
    '""',
    ".inf",
    "...",
    "_",
    "=",
  ];
  const scalar = fc.oneof(
    fc.constantFrom(...known, ...tricky, ...more),
    raw,
    raw.map((text) => `a${text}`),
    raw.map((text) => `"${text}"`),
    raw.map((text) => `'${text}'`),
  );
  const between = fc.constantFrom(", ", ",", " , ", ",\u00a0", ",\t", ",\r", ",\n ");
  const list = fc.tuple(fc.array(scalar, { maxLength: 4 }), between).map(([items, comma]) => `[${items.join(comma)}]`);
  const item = fc.oneof({ weight: 4, arbitrary: scalar }, list);
  const words = [
    "a",
    "b",
    "name",
    "tags",
    "True",
    "true",
    "Null",
    "NULL",
    "False",
    "yes",
    "constructor",
    "toString",
    "e1",
  ];
  const key = fc.oneof(fc.constantFrom(...words), fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,5}$/));
  const blank = fc.constantFrom(" ", " ", " ", "  ", "", "\t");
  const end = fc.constantFrom("", "", "", "", " ", "\t", " # c", "\r");
  const indent = fc.constantFrom("", "", " ", "  ", "  ", "    ", "\t");
  const other = fc.constantFrom("# c", "---", "...", "", "text", "? a", ": b");
  const line = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(indent, key, fc.constant(":"), blank, item, end) },
    { weight: 2, arbitrary: fc.tuple(key, fc.constant(":"), end) },
    { weight: 3, arbitrary: fc.tuple(indent, fc.constant("-"), blank, item, end) },
    { weight: 1, arbitrary: fc.tuple(indent, other, end) },
  );
  return fc
    .tuple(fc.array(line, { maxLength: 6 }), fc.constantFrom("\n", "\n", "\n", "", "\n\n"))
    .map(([lines, last]) => lines.map((parts) => parts.join("")).join("\n") + last);
})();

test("[Q-25] the fast parser and the full parser return the same", () => {
  let read = 0;
  fc.assert(
    fc.property(yamlLike, (source) => {
      const simple = readSimpleYaml(source);
      if (!simple) return;
      read++;
      const any = readFullYaml(source, 1);
      expect(any.findings).toEqual([]);
      expect(JSON.stringify(ordered(simple))).toBe(JSON.stringify(ordered(any.data)));
    }),
    { numRuns: 60_000 },
  );
  expect(read).toBeGreaterThan(5000);
});

test("[Q-23] no control sequence passes through reveal", () => {
  const acting = /[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\u200b\u2060-\u2064]|\p{Surrogate}/u;
  fc.assert(
    fc.property(fc.oneof(anyText, oddText(30)), (text) => {
      const shown = escapeLine(text);
      expect(acting.test(shown)).toBe(false);
      // Tags pass only as parts of a flag, direction marks only next to right-to-left text.
      for (const [tags] of shown.matchAll(/[\u{e0000}-\u{e007f}]+/gu)) expect([...tags].length).toBeLessThan(7);
      if (/^[\x20-\x7e]*$/.test(text)) expect(shown).toBe(text);
      if (findInvisible(text).length === 0 && !/[\n\r\t]/.test(text)) expect(shown).toBe(text);
    }),
    { numRuns: 20_000 },
  );
});

/** Converts objects into lists of pairs, so that the order of keys counts too. */
function ordered(data: unknown): unknown {
  if (Array.isArray(data)) return data.map(ordered);
  if (data === null || typeof data !== "object") return Object.is(data, -0) ? "-0" : data;
  return { pairs: Object.entries(data).map(([key, item]) => [key, ordered(item)]) };
}

function sorted(data: JsonObject): unknown {
  return ordered(Object.fromEntries(Object.entries(data).sort(([a], [b]) => (a < b ? -1 : 1))));
}
