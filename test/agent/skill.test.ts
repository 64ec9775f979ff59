import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { dedent, markdown, type Section } from "../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { type SkillOptions, skill } from "../../src/agent/prompts/skill-sections.ts";
import { parseMarkdownDocument, validateSkill } from "../../src/skill/document.ts";
import { trimBody } from "../../src/skill/frontmatter.ts";
import { Tool } from "../../src/skill/tool.ts";
import { findInvisible } from "../../src/util/untrusted-text.ts";
import { catchRefusal } from "./refusal.ts";

const review = {
  name: "code-review",
  description: "Code review workflows.",
  title: "Code Review",
  template: "# Workflow\n\n1. Look.",
};

const tool = (name: string) =>
  Tool.define(name, { description: `Does ${name}.`, parameters: z.object({}), execute: () => "done" });

const render = (section: Section<never>, params: object = {}, expanded: string[] = []) =>
  promptTemplate({ ns: "test", key: "prompt", sections: [section as Section] })
    .bind(params)
    .render({ expanded });

/** The fields of a SKILL.md, parsed as elsewhere. */
function read(text: string) {
  const document = parseMarkdownDocument(text);
  const { name, description, isUsable, data } = validateSkill(document, {
    form: "folder",
    stem: "x",
    profile: "load",
  });
  return { name, description, isUsable, keys: Object.keys(data), body: trimBody(document.body) };
}

describe("a skill in code", () => {
  it("[N-01, N-23] is a section with a name and a description, summarized, whose texts can be overridden", () => {
    const made = skill(review);
    expect(made).toMatchObject({
      kind: "skill",
      name: "code-review",
      key: "code-review",
      description: "Code review workflows.",
      title: "Code Review",
      visibility: "SUMMARY",
      acceptsOverrides: true,
      defaultParams: {},
      hasTools: false,
      tools: [],
    });
  });

  it("[N-01] takes every field of a skill", () => {
    const made = skill<{ language: string; isOn: boolean }>({
      ...review,
      key: "review",
      defaultParams: { language: "Python" },
      children: [markdown({ title: "Below", key: "below", template: "For $language." })],
      enabled: ({ isOn }) => isOn,
      tools: [tool("lint")],
      acceptsOverrides: false,
      summary: "How to review $language.",
      visibility: ({ language }) => (language === "Python" ? "SUMMARY" : "FULL"),
    });
    expect(made).toMatchObject({ key: "review", name: "code-review", acceptsOverrides: false, hasTools: true });
    expect(render(made, { isOn: false }).text).toBe("");
    expect(render(made, { isOn: true }).text).toContain("How to review Python.\n\n---\n");
    const full = render(made, { isOn: true, language: "Ruby" });
    expect(full.text).toBe("## Code Review\n\n# Workflow\n\n1. Look.\n\n### Below\n\nFor Ruby.");
    expect(full.tools.map(({ name }) => name)).toEqual(["lint"]);
  });

  it("[N-03] is summarized by its name and description by default", () => {
    const made = skill({ ...review, description: "Costs $5 a line.\n  Two lines." });
    expect(render(made).text).toContain("## Code Review\n\n[Skill: code-review] Costs $5 a line. Two lines.\n\n---\n");
    expect(render(skill({ ...review, summary: "Mine: $what" }), { what: "$x" }).text).toContain("\n\nMine: $x\n\n");
  });

  it("[N-13] states word for word how it is opened, and what that adds", () => {
    const { text } = render(skill({ ...review, tools: [tool("lint_code"), tool("run_tests")] }));
    expect(text).toBe(`## Code Review

[Skill: code-review] Code review workflows.

---
[This skill is summarized. Call \`open_sections\` with key "code-review"
to view full workflow and access tools: lint_code, run_tests.]`);
    expect(render(skill(review)).text).toMatch(/with key "code-review"\nto view full workflow\.\]$/);
  });

  it("[N-13] names the tools that opening adds, each once, without those of closed sections", () => {
    const lint = tool("lint");
    const open = markdown({ title: "Open", key: "open", template: "x", tools: [lint, tool("fix")] });
    const off = markdown({ title: "Off", key: "off", template: "x", tools: [tool("off")], enabled: () => false });
    const closed = skill({ ...review, key: "closed", name: "closed", tools: [tool("later")] });
    const { text } = render(skill({ ...review, tools: [lint], children: [open, off, closed] }));
    expect(text).toContain("access tools: lint, fix.]");
  });

  it.each<[string, Partial<Record<keyof SkillOptions<unknown>, unknown>>]>([
    ["no name", { name: undefined }],
    ["an empty name", { name: "" }],
    ["a name with capitals", { name: "Code-review" }],
    ["a name that begins with a hyphen", { name: "-a" }],
    ["a name with an underscore", { name: "a_b" }],
    ["a name with a dot", { name: ".." }],
    ["a name with a slash", { name: "a/b" }],
    ["a name of 65 characters", { name: "a".repeat(65) }],
    ["a name with a line break", { name: "a\n" }],
    ["a name that is reserved", { name: "defaults" }],
    ["a name that is not text", { name: 5 }],
    ["no description", { description: undefined }],
    ["a blank description", { description: " \n " }],
    ["a description of 1025 characters", { description: "d".repeat(1025) }],
    ["a description with a tag", { description: "Use <b>this</b>." }],
    ["a description with a closing tag", { description: "x </skill_content> y" }],
    ["a description with a hidden character", { description: "a\u202eb" }],
    ["no title", { title: undefined }],
    ["a blank title", { title: " " }],
    ["no template", { template: undefined }],
    ["a blank template", { template: " \n" }],
  ])("[N-02] is refused when it is created, for %s", (_, options) => {
    const { code, message } = catchRefusal(() => skill({ ...review, ...options } as never));
    expect(code).toBe("definition-invalid");
    if (!("name" in options)) expect(message).toMatch(/^Skill "code-review": /);
  });

  it("[N-02] accepts the longest allowed values", () => {
    const longest = { name: "a".repeat(64), description: `${"d".repeat(1019)} a<b` };
    expect(skill({ ...review, ...longest })).toMatchObject(longest);
    expect(skill({ ...review, name: "9", description: "x" }).name).toBe("9");
  });
});

describe("a skill in code as a SKILL.md", () => {
  it("[N-05] has its name and description, and its text with the parameters filled in", () => {
    const made = skill<{ language: string }>({
      ...review,
      template: `
        # Review $language

        1. Look.
      `,
      children: [
        markdown({ title: "Levels", key: "levels", template: "For $language.", visibility: "SUMMARY", summary: "s" }),
      ],
      enabled: () => false,
    });
    expect(made.toSkillMd({ language: "Python" })).toBe(
      "---\nname: code-review\ndescription: Code review workflows.\n---\n\n# Review Python\n\n1. Look.\n\n## Levels\n\nFor Python.\n",
    );
    expect(made.toSkill({ language: "C" })).toMatchObject({ name: "code-review", origin: { form: "code" } });
  });

  it("[N-04, N-26] names its missing parameters", () => {
    const made = skill<{ a: string; b: string }>({ ...review, template: "$a $b" });
    expect(catchRefusal(() => made.toSkillMd()).message).toBe('Section "code-review" is not bound: it uses a, b');
    expect(catchRefusal(() => made.toSkillMd({ a: "x" } as never))).toMatchObject({ code: "parameter-missing" });
    expect(catchRefusal(() => made.toSkillMd({ a: "", b: " " })).message).toContain("the instructions are empty");
  });

  it.each([
    "a\n---\nname: forged\n---\n",
    "---",
    "--- ",
    "...",
    "\"quoted\" and 'quoted'",
    "key: value # no comment",
    "a\r\nb",
    "- list",
    "> folded",
    "| block",
    "@at `tick`",
    "emoji 👩‍🚀 é",
    "null",
    "true",
    "0x10",
    "!!js/function",
    "\\n",
  ])("[Q-25, N-05] parses back to the same with %j in its description and body", (odd) => {
    const text = skill({ ...review, description: odd, template: "Start.\n$odd\nEnd." }).toSkillMd({ odd });
    expect(read(text)).toEqual({
      name: "code-review",
      description: odd.trim(),
      isUsable: true,
      keys: ["name", "description"],
      body: `Start.\n${odd.replaceAll("\r\n", "\n")}\nEnd.`,
    });
  });

  it("[Q-25, N-05] parses back to the same name, description and body, whatever they are", () => {
    const odd = fc.constantFrom(
      ...[
        "\n---\n",
        "---",
        "\n",
        "\r\n",
        "\r",
        "\t",
        '"',
        "'",
        ": ",
        " #",
        "- ",
        "|",
        ">",
        "&a",
        "*a",
        "!t",
        "%",
        "$$",
        "\\",
      ],
      ...["👩‍🚀", "é", "\u00a0", "\u2028", "\u0085", "{", "}", "[", "]", "null", "1", "a", "name: b", "```"],
    );
    const text = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.string(),
      fc.array(odd).map((parts) => parts.join("")),
    );
    const description = text.filter(
      (one) =>
        one.trim() !== "" && one.trim().length <= 1024 && !/<[^>]*>/.test(one) && findInvisible(one).length === 0,
    );
    const body = text.filter((one) => one.trim() !== "" && !one.includes("\0"));
    const name = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,20}$/).filter((one) => one !== "defaults");
    fc.assert(
      fc.property(name, description, body, (name, description, body) => {
        const template = body.replaceAll("$", "$$$$");
        const back = read(skill({ name, description, title: "T", template }).toSkillMd());
        expect(back).toMatchObject({ name, description: description.trim(), body: trimBody(dedent(body)) });
      }),
      { numRuns: 1000 },
    );
  });
});
