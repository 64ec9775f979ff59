import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createResultEnvelope, formatWireName, normalizeSchema } from "../../src/adapters/mcp-server/index.ts";
import { CATEGORY_KEY, createToolListing, createToolMeta } from "../../src/adapters/mcp-server/tool-envelope.ts";
import type { Tool, ToolResult } from "../../src/skill/tool.ts";
import { createWireNames } from "../../src/skill/tool-names.ts";
import type { JsonObject } from "../../src/util/objects.ts";

const source = join(import.meta.dirname, "../../src");
const LEGAL = /^[A-Za-z0-9_-]{1,64}$/;

/** Parts of names, with the places where two could become one. */
const part = fc.oneof(
  fc.string({
    unit: fc.constantFrom("a", "b", "_", "__", "-", ".", "..", " ", "/", "é", "\u202e", "\ud800"),
    maxLength: 8,
  }),
  fc.string({ unit: "binary", maxLength: 90 }),
);
const names = fc.uniqueArray(
  fc.oneof(
    part,
    fc.tuple(part, part).map((parts) => parts.join(".")),
  ),
  { maxLength: 30 },
);

describe("the transforms that are exported", () => {
  it("[P-28] map names, normalize schemas and create envelopes without a server", () => {
    expect(formatWireName("skillmaker.run")).toBe("skillmaker__run");
    expect(formatWireName("use_skill")).toBe("use_skill");
    expect(normalizeSchema({ $schema: "x", properties: { a: { type: "string" } }, required: ["a"] })).toEqual({
      type: "object",
      properties: { a: { type: "string" } },
      required: ["a"],
    });
    expect(normalizeSchema({})).toEqual({ type: "object", properties: {} });
    expect(createResultEnvelope({ text: "done", isError: false })).toEqual({
      content: [{ type: "text", text: "done" }],
    });
    expect(createResultEnvelope({ text: "no", isError: true, code: "tool-unknown" })).toEqual({
      content: [{ type: "text", text: "no" }],
      isError: true,
      _meta: { "skillet/code": "tool-unknown" },
    });
  });
});

describe("the names of a list of tools", () => {
  it("[P-20] are valid for every client, and unique", () => {
    fc.assert(
      fc.property(names, (ids) => {
        const { toWire } = createWireNames(ids);
        const wires = ids.map(toWire);
        expect(wires.filter((wire) => !LEGAL.test(wire))).toEqual([]);
        expect(new Set(wires).size).toBe(ids.length);
      }),
    );
  });

  it("[P-20] lead back to their tool, and unknown ones to none", () => {
    fc.assert(
      fc.property(names, part, (ids, other) => {
        const { toWire, toId } = createWireNames(ids);
        for (const id of ids) expect(toId(toWire(id))).toBe(id);
        const found = toId(other);
        if (found !== undefined) expect(toWire(found)).toBe(other);
      }),
    );
  });

  it("[P-20] do not depend on the order of the list, nor on a duplicate name", () => {
    const ordered = names.chain((ids) =>
      fc.tuple(fc.constant(ids), fc.shuffledSubarray(ids, { minLength: ids.length })),
    );
    fc.assert(
      fc.property(ordered, ([ids, shuffled]) => {
        const [one, two] = [createWireNames(ids), createWireNames([...shuffled, ...ids])];
        expect(ids.map(one.toWire)).toEqual(ids.map(two.toWire));
      }),
    );
    // Two lone surrogates, which are the same to a hash.
    const halves = ["\ud800", "\ud801"];
    expect(halves.map(createWireNames(halves).toWire)).toEqual(halves.map(createWireNames(halves.toReversed()).toWire));
  });

  it("[P-20] stay unchanged if they are legal, and are the tool's own unless another's would be the same", () => {
    fc.assert(
      fc.property(names, (ids) => {
        const { toWire } = createWireNames(ids);
        const alone = Map.groupBy(ids, formatWireName);
        for (const id of ids) {
          if (LEGAL.test(id)) expect(toWire(id)).toBe(id);
          else if (alone.get(formatWireName(id))?.length === 1) expect(toWire(id)).toBe(formatWireName(id));
        }
      }),
    );
    expect(["mail.send", "mail__send"].map(createWireNames(["mail.send", "mail__send"]).toWire)).toEqual([
      expect.stringMatching(/^mail_send_\w+$/),
      "mail__send",
    ]);
  });
});

const leaf = fc.constantFrom<unknown>(
  true,
  false,
  {},
  { type: "string" },
  { type: "number", minimum: 1 },
  { type: ["string", "null"] },
  { enum: ["a", 1] },
  { $ref: "#/$defs/word" },
  { type: "array", items: { type: "string" } },
  { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
);
const key = fc.constantFrom("a", "b", "c", "type", "properties", "$id");
/** A few keywords: with many, nothing passes all. Without `patternProperties`, with which ajv itself fails next to `anyOf`. */
const shape: fc.Arbitrary<JsonObject> = fc
  .array(
    fc.oneof(
      fc.record({ properties: fc.dictionary(key, leaf, { maxKeys: 3 }) }),
      fc.record({ required: fc.uniqueArray(key, { maxLength: 1 }) }),
      fc.record({ additionalProperties: leaf }),
      fc.record({ propertyNames: fc.constant({ maxLength: 4 }) }),
      fc.record({ minProperties: fc.nat(2) }),
      fc.record({ unevaluatedProperties: fc.boolean() }),
    ),
    { maxLength: 2 },
  )
  .map((keywords) => Object.assign({}, ...keywords));
/** Schemas that describe objects, in the ways that libraries write them. */
const schemas: fc.Arbitrary<JsonObject> = fc
  .tuple(
    shape,
    fc.oneof(
      fc.constant({}),
      fc.record({ anyOf: fc.array(shape, { minLength: 1, maxLength: 3 }) }),
      fc.record({ oneOf: fc.array(shape, { minLength: 1, maxLength: 2 }) }),
      fc.record({ allOf: fc.array(shape, { minLength: 1, maxLength: 2 }) }),
      fc.record({ not: shape }),
    ),
    fc.record(
      {
        type: fc.constantFrom<unknown>("object", ["object", "null"], ["string", "object"]),
        $schema: fc.constant("https://json-schema.org/draft/2020-12/schema"),
        $id: fc.constantFrom("https://example.com/it", "it"),
        description: fc.string(),
      },
      { requiredKeys: [] },
    ),
  )
  .map((parts) => Object.assign({ $defs: { word: { type: "string", maxLength: 2 } } }, ...parts));
const objects = fc.dictionary(
  key,
  fc.constantFrom<unknown>("x", "long", 0, 5, null, true, "a", ["x"], { a: "x" }, { a: 1 }),
  { maxKeys: 4 },
);

function checkBy(schema: JsonObject): (value: unknown) => boolean {
  const validate = new Ajv2020({ strict: false, logger: false, validateSchema: false }).compile(schema);
  return (value) => validate(value) as boolean;
}

describe("a listed schema", () => {
  it("[P-20] is one of an object, with its properties, and without its own name", () => {
    fc.assert(
      fc.property(fc.oneof(schemas, fc.dictionary(fc.string(), fc.jsonValue())), (schema) => {
        const listed = normalizeSchema(schema as JsonObject);
        expect(listed["type"]).toBe("object");
        expect(listed["properties"]).toEqual(expect.any(Object));
        expect(Array.isArray(listed["properties"])).toBe(false);
        expect(Object.keys(listed)).not.toContain("$schema");
        expect(Object.keys(listed)).not.toContain("$id");
      }),
    );
  });

  it("[P-20] stays the same when it is created again, and does not change its source", () => {
    fc.assert(
      fc.property(schemas, (schema) => {
        const before = structuredClone(schema);
        expect(normalizeSchema(normalizeSchema(schema))).toEqual(normalizeSchema(schema));
        expect(schema).toEqual(before);
      }),
    );
  });

  it("[P-20] accepts the same objects as before", () => {
    const verdicts = { right: 0, wrong: 0 };
    fc.assert(
      fc.property(schemas, fc.array(objects, { minLength: 1, maxLength: 10 }), (schema, values) => {
        const [before, after] = [checkBy(schema), checkBy(normalizeSchema(schema))];
        for (const value of values) {
          const isRight = before(value);
          verdicts[isRight ? "right" : "wrong"]++;
          expect(after(value)).toBe(isRight);
        }
      }),
    );
    expect(Math.min(verdicts.right, verdicts.wrong), "both are among them").toBeGreaterThan(20);
  });

  it("[P-20] accepts the same values if it refers to its own parts", () => {
    const properties = { next: { $ref: "#" }, word: { $ref: "#/$defs/word" } };
    const list = { type: "object", properties, $defs: { word: { type: "string" } } };
    for (const value of [{}, { next: { next: {} } }, { next: 1 }, { next: { word: 1 } }, { word: "x" }])
      expect(checkBy(normalizeSchema(list))(value)).toBe(checkBy(list)(value));
  });

  it("[P-20] keeps keys that are special in JavaScript", () => {
    const schema = JSON.parse(
      '{"properties":{"__proto__":{"type":"string"},"constructor":true},"required":["__proto__"]}',
    );
    expect(JSON.stringify(normalizeSchema(schema))).toBe(
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":true},"required":["__proto__"]}',
    );
  });
});

const text = fc.oneof(fc.string({ unit: "binary" }), fc.string());
const json = fc.dictionary(fc.string(), fc.jsonValue()) as fc.Arbitrary<JsonObject>;
const results = fc.record(
  {
    text,
    isError: fc.boolean(),
    code: fc.constantFrom("failed", "waiting", "no-match"),
    title: text,
    data: fc.oneof(json, fc.record({ model: text, run: text }, { requiredKeys: [] })),
    iterations: fc.nat(5),
    usage: fc.record({ inputTokens: fc.nat(), outputTokens: fc.nat(), cachedTokens: fc.nat() }),
    cost: fc.double({ min: 0, max: 9, noNaN: true }),
  },
  { requiredKeys: ["text", "isError"] },
) as fc.Arbitrary<ToolResult>;

describe("the result of a call for a client", () => {
  it("[P-20] is one text that begins with the model's text", () => {
    fc.assert(
      fc.property(results, (result) => {
        const { content } = createResultEnvelope({ ...result, data: { ...result.data, x: 1 } }, { isStructured: true });
        expect(content.map(({ type }) => type)).toEqual(["text"]);
        expect(content[0]?.text.startsWith(result.text)).toBe(true);
        if (result.iterations === undefined && result.code !== "waiting") expect(content[0]?.text).toBe(result.text);
      }),
    );
  });

  it("[P-20] is marked as an error only if it is one, and then has no data for programs", () => {
    fc.assert(
      fc.property(results, (result) => {
        const made = createResultEnvelope({ ...result, data: { said: result.text } }, { isStructured: true });
        expect("isError" in made).toBe(result.isError);
        if (result.isError) expect(made.isError).toBe(true);
        expect(made.structuredContent).toEqual(result.isError ? undefined : { said: result.text });
        expect("structuredContent" in createResultEnvelope(result)).toBe(false);
        const { data: _, ...bare } = result;
        expect("structuredContent" in createResultEnvelope(bare, { isStructured: true })).toBe(false);
      }),
    );
  });

  it("[P-20] has its code next to the text", () => {
    fc.assert(
      fc.property(results, (result) => {
        const { _meta = {} } = createResultEnvelope(result);
        expect(_meta["skillet/code"]).toBe(result.code);
        expect("skillet/code" in _meta).toBe(result.code !== undefined);
        expect("skillet/use" in _meta).toBe(result.iterations !== undefined);
      }),
    );
  });

  it("[P-20] is the same after it was sent, whatever is in it", () => {
    fc.assert(
      fc.property(results, json, (result, data) => {
        const made = createResultEnvelope({ ...result, data }, { isStructured: true });
        expect(undefinedIn(made)).toEqual([]);
        expect(JSON.parse(JSON.stringify(made)).content).toEqual(made.content);
      }),
    );
  });

  it("names the skill's model, and explains how to resume a waiting run", () => {
    const ended = (metadata: JsonObject, more: Partial<ToolResult> = {}) =>
      createResultEnvelope({ text: "Done.", isError: false, iterations: 1, data: metadata, ...more }).content[0]?.text;
    expect(ended({ model: "m" })).toBe("Done.\n[Followed by the model m, asked once]");
    expect(ended({ model: "a\nb\u202e" }, { iterations: 3 })).toBe(
      "Done.\n[Followed by the model a b\\u{202e}, asked 3 times]",
    );
    expect(ended({ model: "runbook" })).toContain("which is not a language model");
    expect(ended({ model: 7 })).toBe("Done.");
    expect(ended({ run: "r1", model: "m" }, { code: "waiting", isError: true })).toContain("`skillet approve r1");
  });
});

describe("a listed tool of a skill", () => {
  const tool: Tool = {
    name: "mail.send",
    description: "Sends it.",
    category: "skills",
    inputSchema: {},
    owner: { name: "mail", source: "user", location: "/mail" },
    execute: async () => ({ text: "", isError: false }),
  };

  it("[P-14] has its category, and the skill's name but not its path", () => {
    expect(createToolMeta(tool)).toEqual({ [CATEGORY_KEY]: "skills", "skillet/skill": "mail" });
    expect(createToolMeta({ category: "skills" })).toEqual({ [CATEGORY_KEY]: "skills" });
    expect(JSON.stringify(createToolListing(tool))).not.toContain("/mail");
  });

  it("has a title of the skill and the tool, in a line without hidden characters", () => {
    const title = (name: string, owner = tool.owner) =>
      createToolListing({ ...tool, name, ...(owner ? { owner } : {}) }).title;
    expect(title("mail.send")).toBe("mail: send");
    expect(title("mail.send.now")).toBe("mail: send.now");
    expect(title("mailer.send")).toBe("mail: mailer.send");
    expect(title("mail.a\nb\u202e")).toBe("mail: a b\\u{202e}");
    expect(title(`mail.${"x".repeat(500)}`).length).toBe(128);
    const { owner: _, ...ownerless } = tool;
    expect(createToolListing(ownerless).title).toBe("mail.send");
  });

  it("is marked as destructive if it has an effect or delegates a task, and as read-only if it only reads", () => {
    const hints = (more: Partial<Tool>) => {
      const { readOnlyHint, destructiveHint, openWorldHint } = createToolListing({ ...tool, ...more }).annotations;
      return [readOnlyHint, destructiveHint, openWorldHint];
    };
    expect(hints({})).toEqual([true, false, false]);
    expect(hints({ effect: () => undefined })).toEqual([false, true, true]);
    expect(hints({ starts: "script" })).toEqual([false, false, false]);
    expect(hints({ starts: "use" })).toEqual([false, true, true]);
  });
});

describe("the module that transforms names, schemas and results", () => {
  it("[P-20] imports no module with input, output or timers", () => {
    const files = closure(["adapters/mcp-server/tool-envelope.ts", "skill/clients.ts"]);
    expect(files).toContain("util/text.ts");
    expect(files.length).toBeLessThan(10);
    for (const file of files) {
      const code = textOf(file);
      expect(packagesOf(code), file).toEqual([]);
      expect(
        code.match(
          /\bprocess\.|\bfetch\(|Date\.now|new Date\(|Math\.random|\bset(?:Timeout|Interval)|\bawait\b|\bimport\(/g,
        ),
        file,
      ).toBeNull();
    }
  });
});

function textOf(file: string): string {
  return readFileSync(join(source, file), "utf8");
}

/** The imports of a file at run time, without types. */
function importsOf(code: string): string[] {
  return [...code.matchAll(/^(?:import|export) (?!type )[^;]*?from "([^"]+)"|^import "([^"]+)"/gm)].map(
    ([, from, bare]) => from ?? bare ?? "",
  );
}

function packagesOf(code: string): string[] {
  return importsOf(code).filter((name) => !name.startsWith("."));
}

function closure(files: readonly string[]): string[] {
  const seen = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const name of importsOf(textOf(file))) if (name.startsWith(".")) visit(join(dirname(file), name));
  };
  files.forEach(visit);
  return [...seen];
}

/** The places that contain `undefined`, which JSON lacks. */
function undefinedIn(value: unknown, path = "it"): string[] {
  if (value === undefined) return [path];
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, item]) => undefinedIn(item, `${path}.${name}`));
}
