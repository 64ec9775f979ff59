import { join } from "node:path";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { createPromptSession, evaluatePrompt } from "../../src/agent/prompts/prompt-session.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { skill, skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { Tool } from "../../src/skill/tool.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { useScene } from "../support/use.ts";

const lint = Tool.define("lint_code", {
  description: "Runs the linter.",
  parameters: z.object({ paths: z.array(z.string()) }),
  execute: ({ paths }) => ({
    message: "Linting complete",
    value: {
      issues: paths.length,
      render() {
        return `Found ${this.issues} issues`;
      },
    },
  }),
});
const linting = skill({ name: "linting", description: "Lints.", title: "Linting", template: "Use it.", tools: [lint] });
const section = skillsSection({ skills: [linting] });
const template = promptTemplate({
  ns: "review",
  key: "code",
  sections: [markdown({ title: "Task", key: "task", template: "Review $what." }), section],
});

describe("definitions in code", () => {
  it("[N-30] are frozen at run time: skills, references, sections and events", () => {
    const root = temporaryFolder({ "style/SKILL.md": skillText("style") });
    const events: SkillEvent[] = [];
    const session = createPromptSession(template.bind({ what: "it" }), { onEvent: (event) => void events.push(event) });
    session.expand(["skills.linting"]);
    const task = markdown({ title: "T", key: "t", template: "Text." });
    const objects: object[] = [
      ...[linting, section, task, skillRef(join(root, "style")), ...events],
      ...[linting.tools, section.allSkills, section.inlineSkills],
      defineSkill({ name: "a", description: "A.", instructions: "Do." }),
    ];
    expect(events).toHaveLength(1);
    for (const one of objects) expect(Object.isFrozen(one), JSON.stringify(one)).toBe(true);
    expect(() => Object.assign(linting, { name: "zzz" })).toThrow(TypeError);
    expect(() => (linting.tools as unknown[]).push(lint)).toThrow(TypeError);
    expect(linting.name).toBe("linting");
  });

  it("[N-27] have a typed `this` in the render function of an inline value", async () => {
    const result = await lint.execute({ paths: ["a", "b"] });
    expect(result.text).toBe("Found 2 issues");
    expectTypeOf(result.text).toEqualTypeOf<string>();
  });
});

describe("a session that outlives an evaluation", () => {
  it("[N-31] keeps opened sections and messages for the next prompt", async () => {
    const { found, server } = await useScene({
      skills: {},
      turns: [
        () => [{ tool: "open_sections", input: { section_keys: ["skills.linting"], reason: "to lint" } }],
        () => "It is open.",
        () => "Done again.",
      ],
    });
    const first = template.bind({ what: "the parser" });
    const session = createPromptSession(first);
    const one = await evaluatePrompt(first, found, { session });
    expect(one).toMatchObject({ content: "It is open.", sessionId: session.id, expanded: ["skills.linting"] });
    expect(session.expanded).toEqual(["skills.linting"]);
    const two = await evaluatePrompt(template.bind({ what: "the printer" }), found, { session });
    expect(two).toMatchObject({ content: "Done again.", sessionId: session.id, expanded: ["skills.linting"] });
    const last = server.requests.at(-1);
    expect(last?.said.join("\n")).toMatch(/the parser[\s\S]*It is open\.[\s\S]*the printer/);
    expect(Object.keys(last?.tools ?? {})).toContain("lint_code");
    const kept = JSON.parse(JSON.stringify(session.messages));
    const later = createPromptSession(first, { id: session.id, expanded: session.expanded, messages: kept });
    expect(later.messages).toEqual(kept);
    expect(kept.filter(({ role }: { role: string }) => role === "user")).toHaveLength(2);
  });
});
