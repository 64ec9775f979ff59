import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { temporaryFolder } from "../support/folder.ts";
import { expectVerdict, FIXTURES, fixturesOf, KINDS, loads, refused } from "./fixture.ts";

const ROWS = [
  loads("frontmatter-right", "loads a valid file without a finding"),

  // The delimiters
  refused("frontmatter-missing", "refuses a file without frontmatter", "frontmatter-missing"),
  refused("frontmatter-empty-file", "refuses an empty file", "frontmatter-missing"),
  refused("frontmatter-empty", "refuses empty frontmatter for its missing description", "description-missing"),
  refused("frontmatter-unclosed", "refuses frontmatter that is never closed", "frontmatter-unclosed"),
  refused("frontmatter-language", "refuses ---js and runs nothing of it", "frontmatter-language"),
  refused("frontmatter-language-after-blank", "refuses --- js and runs nothing of it", "frontmatter-missing"),
  loads("frontmatter-byte-order-mark", "loads a file with a byte order mark and reports it", "byte-order-mark"),
  loads("frontmatter-line-ends", "loads Windows line ends and reports them", "line-endings"),
  refused("frontmatter-carriage-returns", "refuses a file whose lines end with CR alone", "frontmatter-missing"),
  loads(
    "frontmatter-comment-before",
    "[W-30] loads frontmatter after a comment line and reports it",
    "leading-comment",
  ),
  loads("frontmatter-label-before", "[W-30] loads frontmatter after a label line and reports it", "leading-comment"),
  loads("frontmatter-leading-blank", "loads frontmatter after blank lines and reports them", "leading-blank-lines"),
  refused("frontmatter-four-dashes", "takes ---- for no delimiter", "frontmatter-missing"),
  loads(
    "frontmatter-delimiter-blanks",
    "loads delimiters with trailing blanks and reports them",
    "delimiter-whitespace",
  ),
  loads("frontmatter-dashes-in-value", "does not take an indented --- inside a value for the end"),
  refused("frontmatter-without-body", "refuses a file that ends at the closing delimiter", "body-missing"),
  refused("frontmatter-blank-body", "refuses instructions of blanks alone", "body-missing", "tab"),

  // YAML with more than plain values
  refused("frontmatter-alias-bomb", "refuses a bomb of aliases", "yaml-alias"),
  refused("frontmatter-alias", "refuses a single alias", "yaml-alias"),
  refused("frontmatter-anchor", "refuses an unused anchor", "yaml-alias"),
  refused("frontmatter-merge-key", "refuses a merge key with an alias", "yaml-alias"),
  loads("frontmatter-merge-key-inline", "takes a merge key without an alias for a key like any other"),
  refused("frontmatter-tag", "refuses a tag that would be a function", "yaml-tag"),
  refused("frontmatter-tag-binary", "refuses a tag of the YAML standard", "yaml-tag"),
  loads("frontmatter-prototype", "keeps __proto__ as data", "key-unknown"),
  loads("frontmatter-constructor", "keeps constructor.prototype as data", "key-unknown"),
  loads("frontmatter-duplicate-key", "loads a duplicate key and reports it", "yaml-duplicate"),
  loads("frontmatter-duplicate-description", "takes the last of two descriptions", "yaml-duplicate"),
  refused("frontmatter-documents", "refuses several documents", "yaml-documents"),
  refused("frontmatter-list", "refuses a list in place of key: value lines", "frontmatter-type"),
  refused("frontmatter-one-value", "refuses plain words in place of key: value lines", "frontmatter-type"),
  refused("frontmatter-key-is-a-list", "refuses a list as a key", "yaml-syntax"),
  refused("frontmatter-syntax", "refuses text that is not YAML", "yaml-syntax"),
  refused("frontmatter-seventeen-levels", "refuses seventeen levels", "yaml-limit"),

  // YAML with honest mistakes
  loads("frontmatter-tab-indent", "repairs tabs as indentation", "yaml-repaired"),
  loads("frontmatter-tab-after-colon", "reads a tab after a colon as the blank it is"),
  loads("frontmatter-unquoted-colon", "repairs an unquoted colon", "yaml-repaired"),
  loads("frontmatter-unclosed-quote", "repairs a quote that is not closed", "yaml-repaired"),
  loads("frontmatter-comment-in-value", "says that a # cuts the description", "value-truncated"),

  // Encodings
  refused("frontmatter-utf16-little-endian", "refuses little-endian UTF-16", "not-utf8"),
  refused("frontmatter-utf16-big-endian", "refuses big-endian UTF-16", "not-utf8"),
  refused("frontmatter-utf16-unmarked", "refuses UTF-16 without a byte order mark", "not-utf8"),
  refused("frontmatter-latin1", "refuses frontmatter in Latin-1", "not-utf8"),
  refused("frontmatter-latin1-after-blanks", "refuses Latin-1 also after blank lines", "not-utf8"),
  refused("frontmatter-latin1-after-dashes", "refuses Latin-1 also after a key that starts with ---", "not-utf8"),
  refused("frontmatter-lone-surrogate", "refuses the bytes of a lone surrogate", "not-utf8"),
  refused("frontmatter-lone-surrogate-escaped", "refuses a lone surrogate that an escape makes", "control-character"),
  refused("frontmatter-nul", "refuses a NUL", "control-character"),
  refused("frontmatter-nul-escaped", "refuses a NUL that an escape makes", "control-character"),
  loads("frontmatter-body-latin1", "loads instructions in Latin-1 and reports it", "body-encoding"),
  loads("frontmatter-body-nul", "loads instructions with a NUL and reports it", "hidden-text-body"),

  // Values
  loads("frontmatter-steps-huge", "ignores max_iterations: 1e9", "field-value"),
  loads("frontmatter-steps-negative", "ignores max_iterations: -1", "field-value"),
  loads("frontmatter-steps-infinite", "ignores max_iterations: .inf", "field-value"),
  loads("frontmatter-steps-fraction", "ignores max_iterations: 1.5", "field-value"),
  loads("frontmatter-steps-text", 'reads max_iterations: "10" and reports it', "field-type"),
  loads("frontmatter-schema-remote", "ignores a schema that refers to another machine", "schema-reference"),
  loads("frontmatter-schema-file", "ignores a schema that refers to a file", "schema-reference"),
  loads("frontmatter-schema-recursive", "keeps a schema that refers to itself"),
  loads("frontmatter-schema-slow-pattern", "keeps a slow pattern as data and does not run it"),
  loads("frontmatter-schema-text", "ignores a schema that is a string", "field-type"),
  loads("frontmatter-field-type", "ignores a flag that is a list", "field-type"),
  refused("frontmatter-description-missing", "refuses a skill without a description", "description-missing"),
  refused("frontmatter-description-empty", "refuses an empty description", "description-missing"),
  refused("frontmatter-description-blank", "refuses a description of blanks", "description-missing"),
  refused("frontmatter-description-null", "refuses null as a description", "description-missing"),
  loads("frontmatter-description-list", "joins a description that is a list", "description-type"),
  refused(
    "frontmatter-description-mapping",
    "refuses a mapping as a description",
    "description-type",
    "description-missing",
  ),
  loads("frontmatter-description-number", "reads a number as a description", "description-type", "use-when-missing"),
  loads("frontmatter-description-long", "says that a description is long", "description-long"),
  loads("frontmatter-description-too-long", "says that a description is too long", "description-too-long"),
  loads("frontmatter-key-misspelled", "says that a key is misspelled", "key-misspelled"),
  loads("frontmatter-key-unknown", "keeps an unknown key", "key-unknown"),
];

const prototypeKeys = JSON.stringify(Object.getOwnPropertyNames(Object.prototype));

test.for(ROWS.map((row) => [row.title, row] as const))("[Q-10] %s", async ([, row]) => {
  await expectVerdict(row);
  expect(Object.hasOwn(globalThis, "codeInFrontmatterRan")).toBe(false);
  expect(JSON.stringify(Object.getOwnPropertyNames(Object.prototype))).toBe(prototypeKeys);
  expect("polluted" in {}).toBe(false);
});

describe("the fixtures", () => {
  test("[Q-10] each have a row in the table of their kind", () => {
    expect(ROWS.map(({ folder }) => folder).sort()).toEqual(fixturesOf("frontmatter"));
    expect(readdirSync(FIXTURES).filter((folder) => !KINDS.some((kind) => folder.startsWith(`${kind}-`)))).toEqual([]);
  });
});

describe("parsing odd values", () => {
  const skillIn = async (folder: string) => {
    const { skills } = await createDirectorySource({ path: FIXTURES }).load();
    const skill = skills.find(({ origin }) => origin.file === `${FIXTURES}/${folder}/SKILL.md`);
    if (!skill) throw new Error(`${folder} does not load`);
    return skill;
  };

  test("[Q-10] __proto__ is an own key of an object without inherited ones", async () => {
    const { data, metadata } = (await skillIn("frontmatter-prototype")).manifest;
    expect(Object.keys(data)).toEqual(["name", "description", "__proto__", "metadata"]);
    expect(data["polluted"]).toBeUndefined();
    expect("toString" in data).toBe(false);
    expect(Object.keys(metadata)).toEqual(["__proto__"]);
    expect(metadata["polluted"]).toBeUndefined();
  });

  test.for([
    ["frontmatter-steps-huge", undefined],
    ["frontmatter-steps-negative", undefined],
    ["frontmatter-steps-infinite", undefined],
    ["frontmatter-steps-fraction", undefined],
    ["frontmatter-steps-text", 10],
  ] as const)("[Q-10] %s takes %s steps", async ([folder, steps]) => {
    expect((await skillIn(folder)).manifest.maxIterations).toBe(steps);
  });

  test("[Q-10] a schema with a remote reference is omitted, one that refers to itself is kept", async () => {
    expect((await skillIn("frontmatter-schema-remote")).manifest.inputSchema).toBeUndefined();
    expect((await skillIn("frontmatter-schema-file")).manifest.inputSchema).toBeUndefined();
    expect((await skillIn("frontmatter-schema-recursive")).manifest.inputSchema).toBeDefined();
  });

  test("[Q-10] the last of two descriptions counts", async () => {
    expect((await skillIn("frontmatter-duplicate-description")).description).toMatch(/^The last one counts/);
  });
});

test("[Q-10] a bad file does not affect other skills", async () => {
  const path = temporaryFolder({
    "long-key/SKILL.md": `---\ndescription: A long key. Use when tested.\n${"k".repeat(60_000)}: x\n---\n\nDo it.\n`,
    "right/SKILL.md": "---\nname: right\ndescription: A right one. Use when tested.\n---\n\nDo it.\n",
  });
  const { skills } = await createDirectorySource({ path }).load();
  expect(skills.map(({ name }) => name)).toContain("right");
  expect(checkPath(path).files.map(({ name }) => name)).toContain("right");
});
