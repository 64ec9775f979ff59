import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dedent, parseTemplate } from "../../src/agent/prompts/prompt-section.ts";
import { catchRefusal } from "./refusal.ts";

const fill = (text: string, params: Record<string, unknown> = {}) =>
  parseTemplate(text, "Section").fill(params, 'Section "a"');

describe("a template", () => {
  it("[N-04] inserts $name and ${name}, and a dollar sign for $$", () => {
    expect(fill("$who, ${who}s, $$who: $count $is_it", { who: "Ada", count: 3, is_it: false })).toBe(
      "Ada, Adas, $who: 3 false",
    );
    expect(fill("$a$b${a}", { a: "", b: 12n })).toBe("12");
    expect(parseTemplate("$b $a $$c $b", "").names).toEqual(["b", "a"]);
  });

  it("[N-04] names a missing parameter and the section that needs it", () => {
    const error = catchRefusal(() => fill("$who likes $what", { who: "Ada" }));
    expect(error).toMatchObject({
      code: "parameter-missing",
      message: 'Section "a": the parameter "what" is missing',
      fix: expect.stringContaining("bind({ what: … })"),
    });
    for (const value of [undefined, null])
      expect(catchRefusal(() => fill("$a", { a: value })).code).toBe("parameter-missing");
  });

  it.each(["constructor", "__proto__", "toString", "hasOwnProperty"])(
    "[N-04] takes $%s only from the parameters",
    (name) => {
      expect(catchRefusal(() => fill(`$${name}`)).message).toContain(`"${name}" is missing`);
      expect(fill(`$${name}`, JSON.parse(`{ "${name}": "mine" }`))).toBe("mine");
    },
  );

  it.each([{}, [], new Date(0), () => "x", Symbol("x")])("[N-04] does not guess how to print %s", (value) => {
    expect(catchRefusal(() => fill("$a", { a: value })).code).toBe("parameter-type");
  });

  it.each([
    ["costs $ 5", 1],
    ["a\n\nb $5", 3],
    ["ends with $", 1],
    ["${a b}", 1],
    ["${}", 1],
    ["${open", 1],
    ["$é", 1],
    ["$$$", 1],
  ])("[N-04] names the line in which a dollar sign of %j begins nothing", (text, line) => {
    const error = catchRefusal(() => parseTemplate(text, 'Section "a"'));
    expect(error.code).toBe("template-invalid");
    expect(error.message).toBe(`Section "a": the dollar sign in line ${line} does not start a placeholder`);
    expect(error.fix).toContain("$$");
  });

  it("[Q-25, N-04] never expands inserted values again, whatever they contain", () => {
    const odd = fc.constantFrom("$other", "${other}", "$$", "$", "${", "}", "\\", "$&", "$1", "$`", "\n", "other", "x");
    const value = fc.oneof(
      fc.string(),
      fc.array(odd).map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(value, value, (name, other) => {
        expect(fill("<$name|${other}|$$|$name>", { name, other })).toBe(`<${name}|${other}|$|${name}>`);
      }),
      { numRuns: 2000 },
    );
  });

  it("[N-24] is dedented and trimmed before values are inserted, and values are not", () => {
    const text = `
      # $title

        - indented
\t
      $value
    `;
    expect(fill(text, { title: "T", value: "  kept\n      as is  " })).toBe(
      "# T\n\n  - indented\n\n  kept\n      as is  ",
    );
  });

  it.each([
    ["a\n  b", "a\n  b"],
    ["  a\r\n    b\r\n", "a\n  b"],
    ["\ta\n\t\tb", "a\n\tb"],
    ["\t a\n \tb", "a\n \tb"],
    ["    a\n\n  b\n      \n", "a\n\nb"],
    ["  a\n      \n  b", "a\n\nb"],
    ["\n \n", ""],
  ])("[N-24] dedents %j", (written, wanted) => {
    expect(dedent(written)).toBe(wanted);
  });

  it("[N-24] does not change a dedented text", () => {
    const part = fc.constantFrom(" ", "  ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2028", "a", "- b", "$x", "😀");
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(part).map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, (written) => {
        expect(dedent(dedent(written))).toBe(dedent(written));
      }),
      { numRuns: 2000 },
    );
  });
});
