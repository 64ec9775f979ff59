import { describe, expect, it } from "vitest";
import { parseMarkdownDocument, parseYamlDocument } from "../../src/skill/document.ts";

const codes = (document: { findings: { code: string }[] }) => document.findings.map(({ code }) => code);

describe("parseMarkdown", () => {
  it("[P-05] takes whole lines --- as delimiters, so that a --- in a value or in the body is safe", () => {
    const text =
      "---\nname: a\ndescription: a --- b\nnote: '---'\nlong: |\n  ---- not\n  --- neither\n---\n\none\n\n---\n\ntwo\n";
    const document = parseMarkdownDocument(text);
    expect(document.data).toEqual({ name: "a", description: "a --- b", note: "---", long: "---- not\n--- neither\n" });
    expect(document.body).toBe("\none\n\n---\n\ntwo\n");
    expect(document.findings).toEqual([]);
  });

  it("[P-05] returns empty metadata and the whole text without frontmatter", () => {
    const document = parseMarkdownDocument("# Title\n\ntext\n");
    expect(document.data).toEqual({});
    expect(document.body).toBe("# Title\n\ntext\n");
    expect(codes(document)).toEqual(["frontmatter-missing"]);
  });

  it("knows the lines of keys and of the body", () => {
    const document = parseMarkdownDocument("---\nname: a\n\n# comment\ndescription: b\n---\n\ntext\n");
    expect(document.locate("description")).toEqual({ line: 5, column: 1 });
    expect(document.locate("model")).toBeUndefined();
    expect(document.bodyLine).toBe(7);
  });

  it("reports the line of a YAML error in the file", () => {
    const document = parseMarkdownDocument("---\nname: a\ndescription: b\nmetadata:\n  - a\n  b: c\n---\nbody\n");
    const [finding] = document.findings;
    expect(finding).toMatchObject({ code: "yaml-syntax", line: 6 });
  });

  it.each([
    ["a byte order mark", "\ufeff---\ndescription: d\n---\nb", ["byte-order-mark"]],
    ["Windows line ends", "---\r\ndescription: d\r\n---\r\nb", ["line-endings"]],
    ["blanks after the delimiters", "--- \ndescription: d\n---\t\nb", ["delimiter-whitespace", "delimiter-whitespace"]],
    ["[W-30] a comment before them", "<!-- skills/x/SKILL.md -->\n---\ndescription: d\n---\nb", ["leading-comment"]],
    ["[W-30] a label before them", "# skills/x/SKILL.md\n\n---\ndescription: d\n---\nb", ["leading-comment"]],
    ["blank lines before them", "\n\n---\ndescription: d\n---\nb", ["leading-blank-lines"]],
    ["a closing delimiter at the end of the file", "---\ndescription: d\n---", []],
  ])("parses despite %s and reports it", (_, text, expected) => {
    const document = parseMarkdownDocument(text);
    expect(document.data).toEqual({ description: "d" });
    expect(codes(document)).toEqual(expected);
  });

  it.each([
    ["a heading and a rule", "# Title\n\n---\n\nText: with a colon\n\n---\n"],
    ["a comment of several lines", "<!-- a\nb -->\n---\ndescription: d\n---\nb"],
    ["text before the lines", "A page.\n---\ndescription: d\n---\nb"],
  ])("[W-30] takes %s for no frontmatter", (_, text) => {
    expect(codes(parseMarkdownDocument(text))).toEqual(["frontmatter-missing"]);
  });

  it.each([
    ["an unquoted colon", "description: Use when: it rains", { description: "Use when: it rains" }],
    [
      "a colon on a later line of the value",
      "description: Use when\n  it: rains",
      { description: "Use when it: rains" },
    ],
    ["a value that starts with a bracket", "description: [WIP] do", { description: "[WIP] do" }],
    ["a value that starts with @ or `", "description: @me\ntitle: `x` y", { description: "@me", title: "`x` y" }],
    ["a quote that is not closed", 'description: "Use it', { description: "Use it" }],
    ["an apostrophe within apostrophes", "description: 'it's'", { description: "it's" }],
    ["text after a quoted value", 'description: "a" b', { description: '"a" b' }],
    ["tabs as indentation", "metadata:\n\tversion: 1.0.0", { metadata: { version: "1.0.0" } }],
    ["a colon in a nested value", "metadata:\n  note: a: b\n  other: c", { metadata: { note: "a: b", other: "c" } }],
    ["a colon in an item of a list", "notes:\n  - a: b: c\n  - d", { notes: [{ a: "b: c" }, "d"] }],
    ["no blank after the colon", "description:text", { description: "text" }],
  ])("repairs only %s, and reports where", (_, line, expected) => {
    const document = parseMarkdownDocument(`---\nname: kept\n${line}\nmodel: fast\n---\nbody\n`);
    expect(document.data).toEqual({ name: "kept", ...expected, model: "fast" });
    expect(new Set(codes(document))).toEqual(new Set(["yaml-repaired"]));
    expect(document.findings[0]?.line).toBeGreaterThanOrEqual(3);
  });

  it("does not repair what breaks a limit or uses an alias", () => {
    expect(codes(parseMarkdownDocument(`---\ndescription: ${"[".repeat(40)}\n---\nb`))).toEqual(["yaml-limit"]);
    expect(codes(parseMarkdownDocument("---\ndescription: *all\n---\nb"))).toEqual(["yaml-alias"]);
  });

  it("reports that a # after a blank cuts the description", () => {
    const document = parseMarkdownDocument("---\ndescription: Knows C #1\n---\nb");
    expect(document.data).toEqual({ description: "Knows C" });
    expect(document.findings).toMatchObject([{ code: "value-truncated", line: 2, column: 22 }]);
  });

  it("never quotes invalid content, because it may be a link to another file", () => {
    const document = parseMarkdownDocument("---\nroot:x:0:0: [secret\n  }{\n---\nb");
    expect(JSON.stringify(document.findings)).not.toContain("secret");
  });
});

describe("parseYaml", () => {
  it("[W-04] takes the body from instructions", () => {
    const document = parseYamlDocument("name: a\ndescription: b\ninstructions: |\n  one\n  two\n");
    expect(document.body).toBe("one\ntwo\n");
    expect(document.findings).toEqual([]);
  });
});
