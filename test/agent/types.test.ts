import { describe, expect, expectTypeOf, it } from "vitest";
import { markdown, type NamesIn, type ParamValue, type Section } from "../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { type SkillSource, skill, skillsSection } from "../../src/agent/prompts/skill-sections.ts";

describe("the types of a prompt", () => {
  it("[N-04] know the parameters of a template", () => {
    expectTypeOf<NamesIn<"Review the $language code in ${folder}, for $$5 and $a_1.">>().toEqualTypeOf<
      "language" | "folder" | "a_1"
    >();
    expectTypeOf<NamesIn<"costs $$language">>().toEqualTypeOf<never>();
    expectTypeOf<NamesIn<string>>().toEqualTypeOf<never>();
    expectTypeOf(markdown({ title: "A", key: "a", template: "$language" })).toEqualTypeOf<
      Section<Readonly<Record<"language", ParamValue>>>
    >();
  });

  it("[N-04] know the parameters of a long template, and of one with parts that are known later", () => {
    type Ten = "$a $a $a $a $a $a $a $a $$5 ${a} ";
    type Long = `${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}${Ten}$b`;
    expectTypeOf<NamesIn<Long>>().toEqualTypeOf<"a" | "b">();
    expectTypeOf<NamesIn<`For ${string}: $a`>>().toEqualTypeOf<"a">();
    expectTypeOf<NamesIn<`$${string}`>>().toEqualTypeOf<never>();
  });

  it("[N-01, N-23] know the parameters of children and a summary", () => {
    const child = (key: "deep" | "deeper") => ({ title: "C", key });
    const parent = skill({
      ...{ name: "x", description: "X.", title: "X" },
      template: "$top",
      summary: "For $who.",
      children: [
        markdown({ ...child("deep"), template: "$deep" }),
        markdown({ ...child("deeper"), template: "$deeper" }),
      ],
    });
    const template = promptTemplate({ ns: "a", key: "b", sections: [parent] });
    expect(template.bind({ top: 1, who: "Ada", deep: 2, deeper: 3 }).render().text).toContain("For Ada.");
    // @ts-expect-error: `deeper` is missing.
    expect(() => template.bind({ top: 1, who: "Ada", deep: 2 }).render()).toThrow("deeper");
    // @ts-expect-error: `who` is missing.
    expect(() => template.bind({ top: 1, deep: 2, deeper: 3 }).render()).toThrow("who");
  });

  it("[N-26] accept anything for collected sections whose parameters are unknown", () => {
    const skills: SkillSource[] = [skill({ name: "x", description: "X.", title: "X", template: "$language" })];
    const template = promptTemplate({
      ns: "a",
      key: "b",
      sections: [markdown({ title: "T", key: "t", template: "$task" }), skillsSection({ skills })],
    });
    expect(template.bind({ task: "t", language: "C" }).render().summarized).toHaveLength(1);
    // @ts-expect-error: `task` is still missing.
    expect(() => template.bind({ language: "C" }).render()).toThrow("task");
  });

  it("[N-26] require exactly the parameters of the sections", () => {
    const template = promptTemplate({
      ns: "a",
      key: "b",
      sections: [
        markdown({ title: "Task", key: "task", template: "Review $language." }),
        skillsSection({
          skills: [
            skill({ name: "x", description: "X.", title: "X", template: "Do ${times} times." }),
            skill({ name: "y", description: "Y.", title: "Y", template: "Plain." }),
            skill({ name: "z", description: "Z.", title: "Z", template: "$tone", defaultParams: { tone: "dry" } }),
            skill({
              name: "w",
              description: "W.",
              title: "W",
              template: "W.",
              enabled: ({ level }: { level: number }) => level > 1,
            }),
          ],
        }),
      ],
    });
    const bound = template.bind({ language: "C", times: 3, level: 2, enabledSkills: ["x"] });
    expect(bound.skills().map(({ name }) => name)).toEqual(["x"]);
    // @ts-expect-error: `times` is missing.
    expect(() => template.bind({ language: "C", level: 2 }).render({ expanded: ["skills.x"] })).toThrow("times");
    // @ts-expect-error: a list is not a value.
    expect(() => template.bind({ language: ["C"], times: 1, level: 2 }).render()).toThrow("language");
    // @ts-expect-error: no section takes `languages`.
    expect(() => template.bind({ languages: "C", times: 1, level: 2 }).render()).toThrow("language");
  });
});
