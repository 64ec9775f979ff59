import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nestValue, parseJsonc, removeJsoncValue, setJsoncValue } from "../../../../src/remote/clients/jsonc.ts";
import { expectLinearSteps } from "../../../support/steps.ts";

const set = (text: string) => setJsoncValue(text, ["mcpServers", "skillet"], { command: "node" });

describe("a JSON text with comments", () => {
  it("is parsed with comments and trailing commas, but not with text that only looks like them", () => {
    expect(parseJsonc('// a\n{ "a": "//b", /* c */ "d": ["/*", 1,], }')).toEqual({ a: "//b", d: ["/*", 1] });
    expect(parseJsonc('{"a": "x,}", "b\\"//": [1, 2 /* , */ ] }')).toEqual({ a: "x,}", 'b"//': [1, 2] });
    for (const text of ["{,}", "[,]", "[1,,]", '{"a":,}', "{} /*", "{", '{"a": "', "'a'", "{a: 1}", "{} //\n{}"])
      expect(() => parseJsonc(text), text).toThrow(SyntaxError);
  });

  it("keeps comments at their place", () => {
    const text =
      '{\n  // mine\n  "mcpServers": {\n    "a": { "command": "a" } // about a\n    /* below */\n  },\n  "b": 1\n}\n';
    expect(set(text)).toBe(
      '{\n  // mine\n  "mcpServers": {\n    "a": { "command": "a" }, // about a\n    "skillet": {\n      "command": "node"\n    }\n    /* below */\n  },\n  "b": 1\n}\n',
    );
  });

  it("adds a trailing comma after an existing one", () => {
    expect(set('{\n\t"mcpServers": {\n\t\t"a": {}, // about a\n\t},\n}')).toBe(
      '{\n\t"mcpServers": {\n\t\t"a": {}, // about a\n\t\t"skillet": {\n\t\t\t"command": "node"\n\t\t},\n\t},\n}',
    );
  });

  it("does not cut a comment with several lines", () => {
    const next = set('{\n  "mcpServers": {\n    "a": 1 /* one\n    two */\n  }\n}');
    expect(next).toContain('"a": 1, /* one\n    two */\n    "skillet": {');
    expect(parseJsonc(next)).toEqual({ mcpServers: { a: 1, skillet: { command: "node" } } });
  });

  it("stays on one line if it is on one line, and gets several lines if it is empty", () => {
    expect(set('{"mcpServers":{"a":1}}')).toBe('{"mcpServers":{"a":1, "skillet": { "command": "node" }}}');
    expect(set('{"mcpServers":{}}')).toBe('{"mcpServers":{"skillet": { "command": "node" }}}');
    expect(set("{}")).toBe('{\n  "mcpServers": {\n    "skillet": {\n      "command": "node"\n    }\n  }\n}');
    expect(set("{ // none\n}\n")).toBe(
      '{ // none\n  "mcpServers": {\n    "skillet": {\n      "command": "node"\n    }\n  }\n}\n',
    );
    expect(set('{\n    "mcpServers": {}\n}')).toBe(
      '{\n    "mcpServers": {\n        "skillet": {\n            "command": "node"\n        }\n    }\n}',
    );
  });

  it("keeps its line ends", () => {
    const next = set('{\r\n  "mcpServers": {\r\n    "a": 1 // a\r\n  }\r\n}\r\n');
    expect(next.replaceAll("\r\n", "")).not.toMatch(/[\r\n]/);
    expect(next).toContain('"a": 1, // a\r\n    "skillet"');
  });

  it("changes the last of two members with the same name, which counts", () => {
    const next = set('{ "mcpServers": { "skillet": 1, "skillet": 2 } }');
    expect(next).toBe('{ "mcpServers": { "skillet": 1, "skillet": { "command": "node" } } }');
  });

  it.each([
    ['{ "a": 1, "b": 2 }', '{ "a": 1 }'],
    ['{ "b": 2, "a": 1 }', '{ "a": 1 }'],
    ['{"b":2}', "{}"],
    ['{\n  "a": 1, // x\n  "b": [\n    1\n  ], // y\n}', '{\n  "a": 1, // x\n  // y\n}'],
    ['{\r\n  "a": 1, // x\r\n  "b": 2\r\n}', '{\r\n  "a": 1 // x\r\n}'],
    ['{"a": "},", "b": 2 /* , */}', '{"a": "}," /* , */}'],
    ['{"a": 1 /* , */, "b": 2}', '{"a": 1 /* , */ }'],
    ['{"a": 1}', '{"a": 1}'],
  ])("loses only the removed member: %j", (text, expected) => {
    expect(removeJsoncValue(text, ["b"])).toBe(expected);
    expect(removeJsoncValue(`{"x": ${text}}`, ["x", "b"])).toBe(`{"x": ${expected}}`);
  });

  it("takes linear steps, also for large and odd texts", async () => {
    const texts: Record<string, (length: number) => string> = {
      members: (length) =>
        `{${Array.from({ length }, (_, at) => `"k${at}": [1, /* x */ "${"\\\\".repeat(9)}",],`).join("\n")}}`,
      depth: (length) => `{"a": ${"[".repeat(length)}${"]".repeat(length)}}`,
      "a string of comments": (length) => `{"a": "${"/*".repeat(length)}"}`,
    };
    await expectLinearSteps(
      ["src/remote/clients/jsonc.ts"],
      ({ setJsoncValue, removeJsoncValue }: typeof import("../../../../src/remote/clients/jsonc.ts"), text: string) => {
        removeJsoncValue(setJsoncValue(text, ["mcpServers", "skillet"], { command: "node" }), ["a"]);
      },
      Object.entries(texts).map(([title, text]) => [title, [500, 1000, 2000].map(text)] as const),
    );
    // A single step of a regular expression would take hours here if it were not linear.
    for (const text of Object.values(texts)) expect(set(text(50_000))).toContain('"skillet"');
    expect(() => parseJsonc("/*".repeat(2e6))).toThrow(SyntaxError);
  });

  it("keeps everything else in any document with any formatting", () => {
    const path = fc.constantFrom(["mcpServers", "skillet"], ["mcp", "servers", "x"], ["a"]);
    const document = fc.dictionary(fc.oneof(fc.string(), fc.constantFrom("mcpServers", "mcp", "a")), fc.jsonValue());
    const space = fc.constantFrom("", " ", "  ", "\t", "    ");
    const end = fc.constantFrom("", "\n", "\n// end\n");
    fc.assert(
      fc.property(
        document,
        path,
        space,
        end,
        fc.boolean(),
        fc.jsonValue(),
        (before, names, unit, tail, isLoose, value) => {
          const inner = names.slice(0, -1).reduce<unknown>((at, name) => {
            const known = at !== null && typeof at === "object" && Object.hasOwn(at, name);
            return known ? (at as Record<string, unknown>)[name] : {};
          }, before);
          fc.pre(inner !== null && typeof inner === "object" && !Array.isArray(inner));
          const above = before[names[0] ?? ""];
          fc.pre(
            names.length === 1 ||
              above === undefined ||
              (above !== null && typeof above === "object" && !Array.isArray(above)),
          );
          const json = JSON.stringify(before, null, unit);
          const text = (isLoose ? loosened(json) : json) + tail;
          const next = setJsoncValue(text, names, value);
          const wanted = JSON.parse(JSON.stringify(before));
          merge(wanted, nestValue(names, value), names.length);
          expect(parseJsonc(next)).toEqual(wanted);
          if (!Object.hasOwn(inner, names.at(-1) ?? "")) expect(commentsOf(next)).toEqual(commentsOf(text));
          expect(parseJsonc(setJsoncValue(next, names, value))).toEqual(wanted);
        },
      ),
      { numRuns: 500 },
    );
  });
});

/** With a comment and a trailing comma at every line end. */
function loosened(json: string): string {
  return json.replace(/([^[{,\n])\n(\s*[}\]])/g, "$1, // «remark»\n$2").replace(/,\n/g, ", /* «more»\n */\n");
}

function commentsOf(text: string): string[] {
  return text.match(/\/\/ «remark»|\/\* «more»\n \*\/|\/\/ end/g) ?? [];
}

function merge(into: Record<string, unknown>, from: unknown, depth: number): void {
  for (const [key, value] of Object.entries(from as object)) {
    if (depth === 1 || !Object.hasOwn(into, key)) into[key] = JSON.parse(JSON.stringify(value));
    else merge(into[key] as Record<string, unknown>, value, depth - 1);
  }
}
