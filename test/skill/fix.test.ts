import fc from "fast-check";
import { CORE_SCHEMA, dump, load } from "js-yaml";
import { describe, expect, it } from "vitest";
import { type FixRequest, fixDocument } from "../../src/skill/fix-document.ts";
import { PROFILES } from "../../src/skill/skill.ts";

const request: FixRequest = {
  form: "folder",
  stem: "right",
  profile: "agentskills",
  renamedKeys: new Set(),
  isLinked: false,
};

describe("fixDocument", () => {
  it.each([
    ["a folded value", "description: a: b\n  and # c\n  more", 'description: "a: b and" # c more'],
    ["a comment between keys", "description: a: b\n# c\nlicense: MIT", 'description: "a: b"\n# c\nlicense: MIT'],
    ["a comment in a mapping", "metadata:\n# c\n  a: b: c", 'metadata:\n# c\n  a: "b: c"'],
    ["a comment before all keys", "# c\ndescription: a: b", '# c\ndescription: "a: b"'],
  ])("keeps every word of %s that needs quotes", (_, before, after) => {
    const text = (source: string) => `---\nname: right\n${source}\n---\n\nx\n`;
    expect(fixDocument(text(before), request)).toEqual({ text: text(after), fixed: ["yaml-repaired"], refused: [] });
  });

  it("[W-30] removes a comment or label line before the frontmatter", () => {
    const text = "---\nname: right\ndescription: d\n---\n\nx\n";
    for (const before of ["<!-- skills/right/SKILL.md -->\n", "# skills/right/SKILL.md\n\n"])
      expect(fixDocument(before + text, request)).toEqual({ text, fixed: ["leading-comment"], refused: [] });
  });

  it.each(["123", "true", "no", "null", "1e3"])("writes the name %s so that it stays text", (stem) => {
    const { text } = fixDocument("---\ndescription: d\n---\n\nx\n", { ...request, stem });
    expect(text).toBe(`---\nname: "${stem}"\ndescription: d\n---\n\nx\n`);
  });

  it("takes no name from a folder with a worse name", () => {
    const text = "---\nname: fine\ndescription: d\n---\n\nx\n";
    for (const stem of ["My Skill", "Über", "defaults", "a_b"])
      expect(fixDocument(text, { ...request, stem })).toEqual({ text, fixed: [], refused: [] });
  });

  it("takes no name from a folder that has only a link to the file", () => {
    const text = "---\nname: fine\ndescription: d\n--- \n\nx\n";
    const { fixed } = fixDocument(text, { ...request, isLinked: true });
    expect(fixed).toEqual(["delimiter-whitespace"]);
  });

  it.each([
    ["braces", "{ description: d }"],
    ["a name over several lines", "name: >-\n  wrong\n  name\ndescription: d"],
  ])("changes nothing if a name would change more: %s", (_, source) => {
    const text = `---\r\n${source.replaceAll("\n", "\r\n")}\r\n---\r\n\r\nx\r\n`;
    const result = fixDocument(text, request);
    expect(result.text).toBe(text);
    expect(result.fixed).toEqual([]);
    expect(result.refused).toHaveLength(1);
  });
});

/** The values of a file, their notation, and the problems of the file. */
interface Written {
  data: Record<string, unknown>;
  /** Overrides of `data`. */
  name: object;
  body: string;
  flowLevel: number;
  indent: string;
  comment: string;
  isUnquoted: boolean;
  mark: string;
  lineEnd: string;
  blanks: string;
  leading: string;
}

const RENAMES: Readonly<Record<string, string>> = {
  alowed_tools: "allowed_tools",
  licence: "license",
  titel: "title",
  Name: "name",
};
const KEYS = [
  ...["name", "license", "metadata", "allowed-tools", "model", "tags", "hooks", "title", "__proto__", "constructor"],
  ...["package", "models", "mode", "agents", "tag", "devDependencies", "x-y", "descripton", ...Object.keys(RENAMES)],
];
const someText = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.constantFrom(
    "a: b",
    "# no",
    "@x",
    "- a",
    "1.0",
    "true",
    "~",
    "'q",
    '"q',
    "a #b",
    "[x",
    "ünï",
    "---",
    " x ",
    "a\nb\n",
  ),
);
const someValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    someText,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;
const someKey = fc.oneof(fc.constantFrom(...KEYS), fc.string({ minLength: 1, maxLength: 8 }));
const someFile: fc.Arbitrary<Written> = fc.record({
  data: fc.dictionary(someKey, someValue, { maxKeys: 8, noNullPrototype: true }),
  name: fc.constantFrom({}, { name: "other" }, { name: "right" }),
  body: fc.string({ maxLength: 40 }).map((body) => `${body}\nDo it.\n`),
  flowLevel: fc.constantFrom(-1, 0, 1),
  indent: fc.constantFrom("", "  "),
  comment: fc.constantFrom("", "# a comment\n", "# name: x\n"),
  isUnquoted: fc.boolean(),
  mark: fc.constantFrom("", "\ufeff"),
  lineEnd: fc.constantFrom("\n", "\r\n"),
  blanks: fc.constantFrom("", " ", "\t"),
  leading: fc.constantFrom("", "\n", " \n\n"),
});

function writeFile({ data, name, body, ...how }: Written): { text: string; says: Record<string, unknown> } {
  const { description: _, ...rest }: Record<string, unknown> = { ...data, ...name };
  const says = { ...rest, description: "Use: it" };
  const { flowLevel } = how;
  const rows = Object.keys(rest).length === 0 ? "" : dump(rest, { lineWidth: -1, flowLevel });
  const isUnquoted = how.isUnquoted && flowLevel !== 0;
  const all =
    flowLevel === 0
      ? dump(says, { lineWidth: -1, flowLevel })
      : `${rows}description: ${isUnquoted ? "Use: it" : '"Use: it"'}\n`;
  const lines = how.comment + all;
  const source = isUnquoted ? lines : lines.replace(/^(?=.)/gm, how.indent);
  const text = `${how.leading}---${how.blanks}\n${source}---${how.blanks}\n${body}`;
  return { text: how.mark + text.replaceAll("\n", how.lineEnd), says };
}

/** The text without the parts that the fixes of the delimiters remove. */
function withoutFrame(text: string): string {
  const plain = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  return plain.replace(/^(?:[ \t]*\n)*---[ \t]*\n/, "---\n").replace(/\n---[ \t]*\n/, "\n---\n");
}

/** The parsed values of another parser. */
function readBack(text: string): { says: object; body: string } {
  const [, source = "", body = ""] = /^---\n(.*?\n)---\n(.*)$/s.exec(text) ?? [];
  return { says: load(source, { schema: CORE_SCHEMA }) as object, body };
}

const OF_VALUES = new Set(["yaml-repaired", "key-misspelled", "name-missing", "name-mismatch"]);

describe("any frontmatter", () => {
  it("keeps every value that no reported fix names, and the text; a second time nothing changes", () => {
    const seen = new Map<string, number>();
    const check = (file: Written, place: FixRequest) => {
      const before = writeFile(file);
      const { text: after, fixed, refused } = fixDocument(before.text, place);
      for (const code of fixed) seen.set(code, (seen.get(code) ?? 0) + 1);
      if (refused.length > 0) expect(fixed).toEqual([]);
      if (fixed.length === 0) return expect(after).toBe(before.text);
      expect(fixDocument(after, place), "a second time").toEqual({ text: after, fixed: [], refused: [] });
      if (!fixed.some((code) => OF_VALUES.has(code)))
        return expect(withoutFrame(after)).toBe(withoutFrame(before.text));
      const is = readBack(withoutFrame(after));
      expect(is.body).toBe(file.body);
      const expected = new Map(Object.entries(before.says));
      for (const key of fixed.includes("key-misspelled") ? place.renamedKeys : []) {
        const meant = RENAMES[key];
        if (meant === undefined || !expected.has(key) || key in is.says) continue;
        expected.set(meant, expected.get(key));
        expected.delete(key);
      }
      if (fixed.includes("name-missing") || fixed.includes("name-mismatch")) expected.set("name", "right");
      expect(new Map(Object.entries(is.says))).toEqual(expected);
    };
    const somePlace = fc.record({
      form: fc.constant("folder" as const),
      stem: fc.constant("right"),
      profile: fc.constantFrom(...PROFILES),
      renamedKeys: fc.constantFrom(new Set<string>(), new Set([...Object.keys(RENAMES), "package", "models", "mode"])),
      isLinked: fc.boolean(),
    });
    fc.assert(
      fc.property(someFile, somePlace, (file, place) => void check(file, place)),
      { numRuns: 400 },
    );
    const frame = ["byte-order-mark", "line-endings", "leading-blank-lines", "delimiter-whitespace"];
    for (const code of [...OF_VALUES, ...frame]) expect(seen.get(code), code).toBeGreaterThan(0);
  }, 120_000);
});
