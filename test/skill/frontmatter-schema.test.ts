import { globSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createFrontmatterSchema } from "../../src/cli/commands/schema.ts";
import { parseMarkdownDocument, parseYamlDocument, validateSkill } from "../../src/skill/document.ts";
import { MANIFEST_FIELDS } from "../../src/skill/manifest.ts";
import { getSeverity } from "../../src/skill/skill.ts";
import type { JsonObject } from "../../src/util/objects.ts";

const root = join(import.meta.dirname, "../..");
const schema = createFrontmatterSchema() as { properties: Record<string, JsonObject> };
const fits = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(schema);
const metadata = (schema.properties["metadata"]?.["properties"] ?? {}) as Record<string, JsonObject>;

/** Rules that the schema can express, and so must: the rest are rules about the meaning of a value. */
const SAID_TOO = new Set([
  ...["field-type", "field-value", "name-type", "name-format", "description-missing", "description-type"],
  ...["description-too-long", "compatibility-too-long"],
]);

const DOCUMENT = parseMarkdownDocument("---\ndescription: d\n---\nDo it.\n");

/** Errors of the open standard in `check`, except for keys, which a schema for editors accepts. */
function errorsIn(data: JsonObject): string[] {
  const { findings } = validateSkill(
    { ...DOCUMENT, data },
    { form: "folder", stem: "some-skill", profile: "agentskills" },
  );
  return findings
    .map(({ code }) => code)
    .filter((code) => getSeverity(code, "agentskills") === "error" && !/^key-|^name-(?:missing|mismatch)$/.test(code));
}

describe("the JSON Schema of frontmatter", () => {
  it.each(globSync("{skills,examples}/**/SKILL.md", { cwd: root, exclude: ["**/node_modules/**"] }))(
    "accepts %s",
    (path) => {
      const { data } = parseMarkdownDocument(readFileSync(join(root, path), "utf8"));
      expect(fits(data), JSON.stringify(fits.errors)).toBe(true);
    },
  );

  it("accepts a skill in one YAML file, with its instructions", () => {
    expect(
      fits(parseYamlDocument("name: greet\ndescription: Greets. Use when asked.\ninstructions: Say hello.\n").data),
    ).toBe(true);
    expect(fits(parseYamlDocument("description: Greets.\ninstructions: [Say, hello]\n").data)).toBe(false);
  });

  it("has every spelling of the table with a description, and marks those with a preferred alternative", () => {
    const keys = MANIFEST_FIELDS.flatMap((row) =>
      row.keys.map((key) => [key, row.name !== "other" && key !== row.keys[0]] as const),
    );
    expect(Object.keys(schema.properties).sort()).toEqual(keys.map(([key]) => key).sort());
    for (const [key, isLater] of keys) {
      expect(schema.properties[key]?.["deprecated"] ?? false, key).toBe(isLater);
      expect(schema.properties[key]?.["description"], key).toMatch(/^(?:As `[\w-]+`: )?[A-Z`].*\.$/);
    }
    const placed = MANIFEST_FIELDS.filter(({ place }) => place === "metadata").flatMap((row) => row.keys);
    expect(Object.keys(metadata).sort()).toEqual([...placed].sort());
  });

  it("has examples that are valid, also for check", () => {
    for (const [key, { examples = [] }] of Object.entries(schema.properties)) {
      for (const example of examples as unknown[]) {
        const data = { name: "some-skill", description: "Does it. Use when asked.", [key]: example };
        expect([key, fits(data), errorsIn(data)]).toEqual([key, true, []]);
      }
    }
  });

  it("accepts unknown keys, as loading does", () => {
    expect(fits({ description: "d", "x-team": { a: 1 } })).toBe(true);
  });

  const fixtures = globSync("test/fixtures/skills/*/SKILL.md", { cwd: root }).flatMap((path) => {
    if (!statSync(join(root, path)).isFile()) return [];
    const { data } = parseMarkdownDocument(readFileSync(join(root, path), "utf8"));
    return Object.keys(data).length > 0 ? [[path.split("/").at(-2) ?? "", data] as const] : [];
  });

  it("refuses the fixtures whose values check refuses, and no others", () => {
    expect(fixtures.length).toBeGreaterThan(50);
    const refused = fixtures.filter(([, data]) => !fits(data)).map(([name]) => name);
    expect(refused).toEqual(
      expect.arrayContaining(["frontmatter-field-type", "frontmatter-steps-infinite", "name-list"]),
    );
    for (const [name, data] of fixtures) {
      const errors = errorsIn(data);
      if (errors.some((code) => SAID_TOO.has(code))) expect(refused, `${name} ${errors}`).toContain(name);
      if (refused.includes(name)) expect(errors, name).not.toEqual([]);
    }
  });

  const EDGES = [
    ...[
      "",
      " ",
      "yes",
      "10",
      "a, b",
      "gog.email",
      "gog.email acme.mail",
      "API_KEY, b",
      "jq",
      "a/b:C",
      "./t:X",
      "~/t:X",
    ],
    ...[500, 501, 1024, 1025].map((length) => "x".repeat(length)),
    ...[0, 1, -1, 1000, 1001, 1.5, true, false, null],
  ];
  const scalar = fc.oneof(fc.string(), fc.integer(), fc.constantFrom(...EDGES));
  const value = fc.oneof(
    scalar,
    fc.array(fc.oneof(scalar, fc.array(scalar, { maxLength: 2 }), fc.record({ path: scalar })), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom("path", "keywords", "chat_types", "tags", "x"), fc.oneof(scalar, fc.array(scalar))),
  );

  // Instructions are the body of a YAML file: a missing body is a finding of the file.
  const keys = MANIFEST_FIELDS.flatMap((row) => (row.name === "other" ? row.keys : row.keys.slice(0, 1)));
  const places = [
    ...keys.filter((key) => key !== "instructions").map((key) => (written: unknown) => ({ [key]: written })),
    ...Object.keys(metadata).map((key) => (written: unknown) => ({ metadata: { [key]: written } })),
  ];

  const expectSame = (data: JsonObject) => {
    const errors = errorsIn(data);
    if (!fits(data)) expect(errors, JSON.stringify(data)).not.toEqual([]);
    if (errors.some((code) => SAID_TOO.has(code))) expect(fits(data), `${errors} ${JSON.stringify(data)}`).toBe(false);
  };

  it("agrees with check for values at their limits", () => {
    for (const place of places) {
      for (const edge of [...EDGES, [], {}]) {
        for (const written of [edge, [edge], { path: edge }, { keywords: edge }, { chat_types: edge }])
          expectSame({ name: "some-skill", description: "d", ...place(written) });
      }
    }
  });

  it("agrees with check for any value", () => {
    fc.assert(
      fc.property(fc.constantFrom(...places), value, (place, written) =>
        expectSame({ name: "some-skill", description: "d", ...place(written) }),
      ),
      { numRuns: 1000 },
    );
  });
});
