import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { type SkillSection, skill, skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { Tool } from "../../src/skill/tool.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { catchRefusal } from "./refusal.ts";

const lint = Tool.define("lint", { description: "Lints.", parameters: z.object({}), execute: () => "clean" });
const inner = markdown({ title: "Inner", key: "inner", template: "Old inner." });
const template = promptTemplate({
  ns: "n",
  key: "k",
  sections: [
    markdown({ title: "Task", key: "task", template: "Old.", children: [inner] }),
    markdown({ title: "Fixed", key: "fixed", template: "Fixed.", acceptsOverrides: false }),
    skillsSection({
      skills: [
        skill({ name: "native", description: "d", title: "Native", template: "Old native." }),
        skill({ name: "tooled", description: "d", title: "Tooled", template: "Old tooled.", tools: [lint] }),
      ],
    }),
  ],
});

describe("overridden texts of a prompt", () => {
  it("[N-01, N-23] replace a section's own texts, by its dotted key", () => {
    const { text, tools } = template
      .bind({ who: "Ada" } as never, {
        overrides: {
          task: { template: "  New for $who." },
          "task.inner": { template: "New inner." },
          "skills.native": { summary: "New summary." },
          "skills.tooled": { tools: { lint: "Lints better." } },
        },
      })
      .render({ expanded: ["skills.tooled"] });
    expect(text).toContain("## Task\n\nNew for Ada.\n\n### Inner\n\nNew inner.");
    expect(text).toContain("### Native\n\nNew summary.\n\n---");
    expect(text).toContain("Old tooled.");
    expect(tools.find(({ name }) => name === "lint")?.description).toBe("Lints better.");
    expect(lint.description).toBe("Lints.");
    expect(template.bind().render().text).toContain("Old.");
  });

  it("[N-05] replace those of the SKILL.md too", () => {
    const prompt = template.bind({}, { overrides: { "skills.native": { template: "New native." } } });
    expect((prompt.skills()[0] as SkillSection).toSkillMd()).toMatch(/\n\nNew native\.\n$/);
  });

  it.each<[string, Record<string, unknown>, string, string]>([
    ["an unknown section", { tsk: { template: "x" } }, "override-unknown", 'did you mean "task"?'],
    ["a key of a section inside, alone", { inner: { template: "x" } }, "override-unknown", "existing sections: "],
    [
      "a reserved property of JavaScript",
      { constructor: { template: "x" } },
      "override-unknown",
      "existing sections: ",
    ],
    ["a section that takes none", { fixed: { template: "x" } }, "override-refused", "acceptsOverrides"],
    ["a section of skills", { skills: { template: "x" } }, "override-refused", "one of its skills"],
    ["an unknown tool", { "skills.tooled": { tools: { lnt: "x" } } }, "override-unknown", "lint"],
    ["an empty text", { task: { template: " " } }, "definition-invalid", "write"],
    ["a lone dollar sign", { task: { template: "costs $ 5" } }, "template-invalid", "$$"],
    ["an unknown part", { task: { title: "x" } }, "definition-invalid", "template, summary, tools"],
    ["a text in place of an object", { task: "x" }, "definition-invalid", "template, summary, tools"],
  ])("are refused for %s", (_, overrides, code, fix) => {
    const error = catchRefusal(() => template.bind({}, { overrides: overrides as never }));
    expect(error.code).toBe(code);
    expect(error.fix).toContain(fix);
  });

  it("[N-23] are refused for a reference, and for all references in a section of skills that sets that", () => {
    const folder = temporaryFolder({ "SKILL.md": skillText("on-disk") });
    const off = skillRef({ path: join(folder, "gone"), enabled: () => false });
    const native = skill({ name: "native", description: "d", title: "N", template: "x", children: [inner] });
    const bind = (key: string, acceptsOverrides: boolean) =>
      promptTemplate({
        ns: "n",
        key: "k",
        sections: [skillsSection({ skills: [native, off], skillRefs: [skillRef(folder)], acceptsOverrides })],
      }).bind({}, { overrides: { [key]: { template: "New." } } });
    expect(bind("skills.native.inner", true).render({ expanded: ["skills.native"] }).text).toContain("New.");
    for (const [key, accepts] of [
      ["skills.on-disk", true],
      ["skills.native", false],
      ["skills.native.inner", false],
    ] as const)
      expect(catchRefusal(() => bind(key, accepts))).toMatchObject({
        code: "override-refused",
        message: `Section "${key}" does not accept overrides`,
      });
  });

  it("change nothing when they are empty", () => {
    const overrides = { task: { template: undefined, summary: undefined } } as never;
    expect(template.bind({}, { overrides }).render().text).toBe(template.bind().render().text);
  });
});
