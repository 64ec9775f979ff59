import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { VisibilityExpansionRequired } from "../../src/agent/prompts/prompt-session.ts";
import { type Prompt, promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { skill, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { Tool } from "../../src/skill/tool.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { expectLinearSteps } from "../support/steps.ts";
import { catchRefusal } from "./refusal.ts";

type Modules = typeof import("../../src/agent/prompts/prompt-template.ts") &
  typeof import("../../src/agent/prompts/skill-sections.ts") &
  typeof import("../../src/agent/prompts/skill-sections.ts") &
  typeof import("../../src/agent/prompts/skill-sections.ts");

const lint = Tool.define("lint_code", { description: "Lints.", parameters: z.object({}), execute: () => "clean" });
const task = markdown({ title: "Task", key: "task", template: "Review it." });
const testing = skill({
  name: "testing",
  description: "Testing.",
  title: "Testing",
  template: "Test it.",
  tools: [lint],
});
const template = promptTemplate({
  ns: "review",
  key: "python-review",
  sections: [task, skillsSection({ skills: [testing] })],
});

describe("a prompt", () => {
  it("[N-26] consists of sections and is bound to parameters", () => {
    const prompt = template.bind();
    expectTypeOf(prompt).toEqualTypeOf<Prompt>();
    expect(prompt).toMatchObject({ ns: "review", key: "python-review", params: {} });
    expect(prompt.render().text).toBe(`## Task

Review it.

## Skills

### Testing

[Skill: testing] Testing.

---
[This skill is summarized. Call \`open_sections\` with key "skills.testing"
to view full workflow and access tools: lint_code.]`);
  });

  it("[N-26] takes the parameters of all its sections, and reports a missing one at once", () => {
    const both = promptTemplate({
      ns: "n",
      key: "k",
      sections: [
        markdown<{ language: string }>({ title: "A", key: "a", template: "$language" }),
        markdown({
          title: "B",
          key: "b",
          template: "$level",
          enabled: (params: { level: number }) => params.level > 0,
        }),
        markdown({ title: "C", key: "c", template: "plain" }),
      ],
    });
    expectTypeOf<{ language: string; level: number }>().toExtend<Parameters<typeof both.bind>[0]>();
    expectTypeOf<{ language: string }>().not.toExtend<Parameters<typeof both.bind>[0]>();
    expect(both.bind({ language: "C", level: 2 }).render().text).toBe("## A\n\nC\n\n## B\n\n2\n\n## C\n\nplain");
    // @ts-expect-error: no argument.
    expect(catchRefusal(() => both.bind().render())).toMatchObject({
      code: "section-unbound",
      message: 'Section "a" is not bound: it uses language',
      fix: "pass values: bind({ language: … })",
    });
    // @ts-expect-error: `level` is missing.
    expect(both.bind({ language: "C" }).render().text).toBe("## A\n\nC\n\n## C\n\nplain");
    // @ts-expect-error: `language` is not a number.
    both.bind({ language: 5, level: 2 });
  });

  it("[N-26] is bound without arguments when no parameter is required", () => {
    const optional = markdown<{ tone?: string }>({
      title: "A",
      key: "a",
      template: "x",
      enabled: ({ tone }) => tone !== "",
    });
    const made = promptTemplate({ ns: "n", key: "k", sections: [optional, skillsSection()] });
    made.bind();
    made.bind({ tone: "dry" });
    made.bind({ enabledSkills: new Set(["a"]) });
    made.bind(undefined, { overrides: {} });
    // @ts-expect-error: unknown parameter.
    made.bind({ tune: "dry" });
    // @ts-expect-error: a string is not a list of names.
    made.bind({ enabledSkills: "testing" });
  });

  it("[N-04, N-26] does not require parameters that have a default", () => {
    const head = { title: "A", template: "$who" };
    const greeting = markdown({ ...head, key: "a", defaultParams: { who: "Ada" } });
    const counting = skill({
      ...head,
      ...{ name: "b", description: "d", defaultParams: { who: "Bo" } },
      enabled: (params: { who: string; count: number }) => params.count > params.who.length,
    });
    const inner = markdown<{ who: string }>({ ...head, key: "inner" });
    const around = markdown({ title: "C", key: "c", template: "x", defaultParams: { who: "Cy" }, children: [inner] });
    const made = promptTemplate({ ns: "n", key: "k", sections: [greeting, counting, around, skillsSection()] });
    const { text } = made.bind({ count: 5 }).render({ expanded: ["b"] });
    expect(text).toBe("## A\n\nAda\n\n## A\n\nBo\n\n## C\n\nx\n\n### A\n\nCy");
    expect(made.bind({ count: 1, who: "you" }).render().text).toBe("## A\n\nyou\n\n## C\n\nx\n\n### A\n\nyou");
    // @ts-expect-error: `count` has no default.
    made.bind({ who: "you" });
    // @ts-expect-error: unknown parameter.
    made.bind({ count: 1, whom: "you" });
  });

  it("[N-05] passes a skill in a section of skills only its own defaults, as when it is exported", () => {
    const inner = skill<{ who?: string }>({
      name: "a",
      description: "d",
      title: "A",
      template: "$who",
      defaultParams: { who: "own" },
    });
    const bare = skill<{ who?: string }>({ name: "b", description: "d", title: "B", template: "$who" });
    const around = (one: typeof inner) =>
      markdown({
        ...{ title: "O", key: "o", template: "$who", defaultParams: { who: "outer" } },
        children: [skillsSection({ skills: [one] })],
      });
    const bind = (one: typeof inner) => promptTemplate({ ns: "n", key: "k", sections: [around(one)] }).bind();
    expect(bind(inner).render({ expanded: ["o.skills.a"] }).text).toContain(
      "## O\n\nouter\n\n### Skills\n\n#### A\n\nown",
    );
    expect(catchRefusal(() => bind(bare).render()).message).toBe('Section "o.skills.b" is not bound: it uses who');
  });

  it("[N-26] names a section with unbound parameters, also when it is closed or nested", () => {
    const inner = markdown<unknown>({ title: "I", key: "inner", template: "$deep" });
    const closed = skill({ name: "closed", description: "d", title: "C", template: "x", children: [inner] });
    for (const sections of [[closed], [skillsSection({ skills: [closed] })]]) {
      const { message } = catchRefusal(() => promptTemplate({ ns: "n", key: "k", sections }).bind().render());
      expect(message).toMatch(/^Section "(?:skills\.)?closed\.inner" is not bound: it uses deep$/);
    }
    const about = { title: "B", key: "brief", template: "x", summary: "$short" };
    const brief = markdown<unknown>({ ...about, visibility: "SUMMARY" });
    const holder = skill({ name: "h", description: "d", title: "H", template: "x", children: [brief] });
    const inBrief = catchRefusal(() =>
      promptTemplate({ ns: "n", key: "k", sections: [holder] })
        .bind()
        .render(),
    );
    expect(inBrief.message).toBe('Section "h.brief": the parameter "short" is missing');
    const partly = skill<{ a: string }>({ name: "p", description: "d", title: "P", template: "$a $b" });
    const bound = promptTemplate({ ns: "n", key: "k", sections: [partly] }).bind({ a: "x" });
    expect(catchRefusal(() => bound.render())).toMatchObject({
      code: "parameter-missing",
      message: 'Section "p": the parameter "b" is missing',
    });
  });

  it("[N-26] keeps its parameters when the caller changes the object afterwards", () => {
    const params = { who: "Ada" };
    const prompt = promptTemplate({
      ns: "n",
      key: "k",
      sections: [markdown<{ who: string }>({ title: "A", key: "a", template: "$who" })],
    }).bind(params);
    params.who = "Bo";
    expect(prompt.render().text).toContain("Ada");
  });

  it("[N-14, N-15] has open_sections while a section is summarized, and asks to open sections in full", async () => {
    const prompt = template.bind();
    const { tools } = prompt.render();
    expect(tools.map(({ name }) => name)).toEqual(["open_sections"]);
    const signal = await tools[0]?.execute({ keys: ["skills.testing"], reason: "to test" }).catch((error) => error);
    expect(signal).toBeInstanceOf(VisibilityExpansionRequired);
    expect(signal).toMatchObject({
      name: "VisibilityExpansionRequired",
      sectionKeys: ["skills.testing"],
      requested: { "skills.testing": "FULL" },
      reason: "to test",
    });
    const full = prompt.render({ expanded: signal.sectionKeys });
    expect(full.text).toContain("### Testing\n\nTest it.");
    expect(full.tools).toEqual([lint]);
    expect(full.summarized).toEqual([]);
  });

  it.each<[string, object, string]>([
    ["no namespace", { ns: undefined }, "The namespace"],
    ["no key", { key: "" }, 'Prompt ""'],
    ["a key with a dot", { key: "a.b" }, "the key"],
    ["no sections", { sections: undefined }, "its sections are not an array"],
    ["an invalid section", { sections: [{}] }, "an entry is not a section"],
    ["two sections with the same key", { sections: [task, task] }, 'two sections have the key "task"'],
    ["an invalid word", { section: [] }, 'unknown option "section"'],
  ])("is refused for %s", (_, options, said) => {
    expect(
      catchRefusal(() => promptTemplate({ ns: "n", key: "k", sections: [task], ...options } as never)).message,
    ).toContain(said);
  });

  it.each<[string, unknown[], string]>([
    ["parameters that are a text", ["python"], "the parameters are not an object"],
    ["a list of parameters", [["python"]], "the parameters are not an object"],
    ["an invalid option", [{}, { override: {} }], 'unknown option "override"'],
  ])("is not bound to %s", (_, args, said) => {
    expect(catchRefusal(() => template.bind(...(args as []))).message).toContain(said);
  });

  it("renders skills in steps linear in their number, in code and on disk", async () => {
    const names = Array.from({ length: 200 }, (_, index) => `r${index}`);
    const root = temporaryFolder(Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillText(name)])));
    const [, [, , onDisk = 0] = []] = await expectLinearSteps(
      ["prompt-template", "skill-sections"].map((name) => `src/agent/prompts/${name}.ts`),
      ({ promptTemplate, skill, skillRef, skillsSection }: Modules, [root, length]) => {
        const numbers = Array.from({ length }, (_, index) => index);
        const template = "Do $what.\n".repeat(100);
        const section =
          root === ""
            ? skillsSection({
                skills: numbers.map((index) => skill({ name: `s${index}`, description: "d", title: "T", template })),
              })
            : skillsSection({ skillRefs: numbers.map((index) => skillRef(`${root}/r${index}`)) });
        promptTemplate({ ns: "n", key: "k", sections: [section] })
          .bind({ what: "it" } as never)
          .render();
      },
      [
        ["skills in code", [50, 100, 200].map((length) => ["", length] as const)],
        ["skills on the disk", [50, 100, 200].map((length) => [root, length] as const)],
      ],
    );
    expect(onDisk / 200, "steps for each skill").toBeLessThan(20_000);
  });
});
