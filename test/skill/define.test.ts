import { describe, expect, it } from "vitest";
import { PromptValidationError } from "../../src/errors/problem.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { parseMarkdownDocument } from "../../src/skill/document.ts";
import { toSkillMd } from "../../src/skill/frontmatter.ts";

const valid = { name: "code-review", description: "Reviews code.", instructions: "Look at it." };

describe("defineSkill", () => {
  it.each([
    ["an empty name", { name: "" }],
    ["a name with capitals", { name: "Code-Review" }],
    ["a name that starts with a hyphen", { name: "-review" }],
    ["a name of 65 characters", { name: "a".repeat(65) }],
    ["a reserved name", { name: "defaults" }],
    ["an empty description", { description: " " }],
    ["a description of 1025 characters", { description: "a".repeat(1025) }],
    ["a description with tags", { description: "Does <b>this</b>" }],
    ["a hidden character in the description", { description: "Does\u202ethis" }],
    ["an empty title", { title: "" }],
    ["empty instructions", { instructions: "\n" }],
    ["a field of the wrong type", { frontmatter: { max_iterations: "many" } }],
    ["a misspelled field", { frontmatter: { alowed_tools: ["bash"] } }],
    ["a field that belongs under frontmatter", { triggers: { keywords: ["x"] } }],
    ["a pattern with a lookahead", { frontmatter: { triggers: { patterns: ["(?=x)"] } } }],
    ["a pattern that matches everything", { frontmatter: { triggers: { patterns: [".*"] } } }],
  ])("[N-02] refuses %s at once", (_, wrong) => {
    expect(() => defineSkill({ ...valid, ...wrong })).toThrow(PromptValidationError);
  });

  it("[N-02] accepts the longest name and description", () => {
    const skill = defineSkill({ ...valid, name: "a".repeat(64), description: "b".repeat(1024), title: "T" });
    expect(skill.manifest.title).toBe("T");
  });

  it("[W-32] takes every field of a definition with its type, and parses it like a file's", async () => {
    const skill = defineSkill({
      ...valid,
      authors: ["alice", "bob"],
      rationale: "Keeps reviews out of the main conversation.",
      model: "haiku",
      maxIterations: 3,
      inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
      requiredTools: ["bash"],
      allowedTools: ["bash", "read_file"],
      env: ["REVIEW_KEY"],
      packages: ["jq"],
      capabilities: ["gog.email"],
      sensitive: true,
      access: { chatTypes: ["private"] },
    });
    const { data } = parseMarkdownDocument(await toSkillMd(skill));
    expect(data).toEqual({
      name: "code-review",
      description: "Reviews code.",
      authors: ["alice", "bob"],
      rationale: "Keeps reviews out of the main conversation.",
      model: "haiku",
      max_iterations: 3,
      input_schema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
      required_tools: ["bash"],
      allowed_tools: ["bash", "read_file"],
      env: ["REVIEW_KEY"],
      packages: ["jq"],
      capabilities: ["gog.email"],
      sensitive: true,
      access: { chat_types: ["private"] },
    });
    expect(skill.manifest).toMatchObject({ maxIterations: 3, env: ["REVIEW_KEY"], access: { chatTypes: ["private"] } });
  });

  it("[W-32] refuses a typed field of the wrong type, or one that frontmatter has too, and ignores undefined", () => {
    const define = (more: object) => () => defineSkill({ ...valid, ...more });
    expect(define({ maxIterations: "many" })).toThrow(/"max_iterations"/);
    expect(define({ capabilities: ["email"] })).toThrow(/"email"/);
    expect(define({ model: "a", frontmatter: { preferred_model: "b" } })).toThrow(/"model" is also under frontmatter/);
    expect(define({ model: undefined, frontmatter: { triggers: undefined } })).not.toThrow();
  });

  it("reports the error and the fix", () => {
    expect(() => defineSkill({ ...valid, name: "No" })).toThrow(
      expect.objectContaining({
        code: "definition-invalid",
        message: 'Skill "No": the name is invalid',
        fix: expect.stringContaining("lower-case"),
      }),
    );
  });

  it("[N-05] renders a SKILL.md that parses back to the same name, description and body", async () => {
    const skill = defineSkill({
      name: "tricky",
      description: 'Quotes "all", colons: yes, # and - : {} [] | > % @ ` \' \\ no.',
      instructions: "# Title\n\n---\n\nname: not frontmatter\n\n  indented\n",
      frontmatter: { tags: ["yes", "no", "1.0", "~", "2024-01-01"], metadata: { version: "1.0.0" } },
    });
    const document = parseMarkdownDocument(await toSkillMd(skill));
    expect(document.findings).toEqual([]);
    expect(document.data).toEqual({
      name: "tricky",
      description: skill.description,
      tags: ["yes", "no", "1.0", "~", "2024-01-01"],
      metadata: { version: "1.0.0" },
    });
    expect(document.body.trim()).toBe(await skill.body());
  });
});
