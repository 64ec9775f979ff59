import { join } from "node:path";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { markdown, type Section } from "../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { type SkillSource, skill, skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { Tool } from "../../src/skill/tool.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { catchRefusal } from "./refusal.ts";

const tool = (name: string) =>
  Tool.define(name, { description: `Does ${name}.`, parameters: z.object({}), execute: () => "done" });

const inCode = (name: string, more: object = {}) =>
  skill({ name, description: `About ${name}.`, title: name, template: `How to ${name}.`, ...more });

const onDisk = (...names: string[]) => {
  const root = temporaryFolder(Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillText(name)])));
  return names.map((name) => skillRef(join(root, name)));
};

const prompt = (sections: readonly Section<never>[], params: object = {}) =>
  promptTemplate({ ns: "test", key: "p", sections: sections as readonly Section[] }).bind(params);

const keysOf = (sections: readonly Section<never>[], params: object = {}, isInstalled = false) =>
  prompt(sections, params)
    .render({ isInstalled })
    .sections.map(({ key }) => key);

const names = (sources: readonly SkillSource[]) => sources.map(({ name }) => name);

describe("a section of skills", () => {
  it("[N-08, N-23] contains skills in code and references, and distinguishes them", () => {
    const [docs, style] = onDisk("docs", "style");
    const section = skillsSection({
      skills: [inCode("testing", { tools: [tool("run")] }), docs as never, inCode("naming")],
      skillRefs: [style as never],
    });
    expect(section).toMatchObject({ kind: "skills", title: "Skills", key: "skills", acceptsOverrides: true });
    expect(names(section.allSkills)).toEqual(["testing", "docs", "naming", "style"]);
    expect(names(section.inlineSkills)).toEqual(["testing", "naming"]);
    expect(names(section.referencedSkills)).toEqual(["docs", "style"]);
    expect(names(section.nativeSkills)).toEqual(["naming"]);
    expect(names(section.promptSkills)).toEqual(["testing"]);
    expect(names(section.active({}))).toEqual(["testing", "docs", "naming", "style"]);
    expect(section.hasTools).toBe(true);
  });

  it("[N-17] evaluates `enabled` of a skill with its own defaults, when it is shown and when it is exported", () => {
    const about = { name: "a", description: "d", title: "A", template: "x", defaultParams: { level: 2 } };
    const one = skill({ ...about, enabled: ({ level }: { level: number }) => level > 1 });
    const template = promptTemplate({ ns: "n", key: "k", sections: [skillsSection({ skills: [one] })] });
    for (const [params, count] of [[{}, 1] as const, [{ level: 1 }, 0] as const]) {
      expect(template.bind(params).skills()).toHaveLength(count);
      expect(template.bind(params).render().summarized).toHaveLength(count);
    }
  });

  it("[N-08] keeps a skill in the prompt whose tools are below it", () => {
    const below = markdown({ title: "More", key: "more", template: "x", tools: [tool("deep")] });
    const section = skillsSection({ skills: [inCode("a", { children: [below] })] });
    expect(names(section.promptSkills)).toEqual(["a"]);
    expect(names(section.nativeSkills)).toEqual([]);
  });

  it("[N-11] omits installed skills from the prompt, and itself when it is empty", () => {
    const [docs] = onDisk("docs");
    const section = skillsSection({ skills: [inCode("a", { tools: [tool("run")] }), inCode("b"), docs as never] });
    expect(keysOf([section])).toEqual(["skills", "skills.a", "skills.b", "skills.docs"]);
    expect(keysOf([section], {}, true)).toEqual(["skills", "skills.a"]);
    const { text, tools } = prompt([skillsSection({ skills: [inCode("b")] })]).render({ isInstalled: true });
    expect({ text, tools }).toEqual({ text: "", tools: [] });
  });

  it("shows nothing when it has no skills", () => {
    expect(prompt([skillsSection()]).render()).toEqual({ text: "", tools: [], sections: [], summarized: [] });
    expect(prompt([skillsSection({ skills: [] })]).skills()).toEqual([]);
  });

  it("[N-23] has its own title, key and `enabled`", () => {
    const section = skillsSection({
      title: "Know-how",
      key: "how",
      skills: [inCode("a")],
      enabled: (params) => params.enabledSkills !== null,
    });
    expect(prompt([section]).render().text).toMatch(/^## Know-how\n\n### a\n[\s\S]*with key "how\.a"/);
    expect(keysOf([section], { enabledSkills: null })).toEqual([]);
    expect(prompt([section], { enabledSkills: null }).skills()).toEqual([]);
  });

  it("can be inside a section, and its skills are found there", () => {
    const inner = skillsSection({ skills: [inCode("a")] });
    const outer = markdown({ title: "Outer", key: "outer", template: "x", children: [inner] });
    expect(keysOf([outer])).toEqual(["outer", "outer.skills", "outer.skills.a"]);
    expect(names(prompt([outer]).skills())).toEqual(["a"]);
    const off = markdown({ title: "Off", key: "off", template: "x", children: [inner], enabled: () => false });
    expect(prompt([off]).skills()).toEqual([]);
  });

  it.each<[string, unknown, string[]]>([
    ["a list", ["b", "docs", "unknown"], ["b", "docs"]],
    ["a set", new Set(["a"]), ["a"]],
    ["none", [], []],
    ["unknown names", ["x", "__proto__"], []],
    ["null", null, ["a", "b", "docs"]],
    ["nothing", undefined, ["a", "b", "docs"]],
  ])("[N-16] is filtered by name: %s", (_, enabledSkills, wanted) => {
    const section = skillsSection({ skills: [inCode("a", { key: "b2" }), inCode("b")], skillRefs: onDisk("docs") });
    const bound = prompt([section], { enabledSkills });
    expect(names(bound.skills())).toEqual(wanted);
    expect(bound.render().summarized.map((shown) => shown.skill)).toEqual(wanted);
  });

  it.each([
    ["a text", "ab"],
    ["a number", 5],
    ["a mapping", { a: true }],
  ])("[N-16] is not filtered by %s", (_, enabledSkills) => {
    const section = skillsSection({ skills: [inCode("a")] });
    expect(catchRefusal(() => prompt([section], { enabledSkills }).render()).message).toContain(
      "is not an array or a set",
    );
  });

  it("[N-17] shows the skills that are enabled for these parameters, evaluated each time", () => {
    const only = (language: string) =>
      inCode(language, { enabled: (params: { language: string }) => params.language === language });
    let isSecure = false;
    const [{ resolvedPath } = { resolvedPath: "" }] = onDisk("security");
    const ref = skillRef({ path: resolvedPath, enabled: () => isSecure });
    const section = skillsSection({ skills: [only("python"), only("ruby")], skillRefs: [ref] });
    const bound = prompt([section], { language: "python" });
    expect(names(bound.skills())).toEqual(["python"]);
    isSecure = true;
    expect(names(bound.skills())).toEqual(["python", "security"]);
    expect(bound.render().sections.map(({ key }) => key)).toEqual(["skills", "skills.python", "skills.security"]);
  });

  it("[N-09] is refused when two skills have the same name, in code or on disk", () => {
    const [docs] = onDisk("docs");
    for (const skills of [
      [inCode("docs"), inCode("docs", { key: "other" })],
      [inCode("docs", { key: "other" }), docs],
    ])
      expect(catchRefusal(() => skillsSection({ skills: skills as never })).message).toBe(
        'Section "skills": two skills are named "docs"',
      );
    expect(
      catchRefusal(() => skillsSection({ skills: [inCode("docs")], skillRefs: [docs as never] })).message,
    ).toContain("docs");
  });

  it("[N-09] is refused when a reference that becomes enabled has the name of another skill", () => {
    const [{ resolvedPath } = { resolvedPath: "" }] = onDisk("docs");
    let isOn = false;
    const section = skillsSection({
      skills: [inCode("docs", { key: "mine" })],
      skillRefs: [skillRef({ path: resolvedPath, enabled: () => isOn })],
    });
    const bound = prompt([section]);
    expect(names(bound.skills())).toEqual(["docs"]);
    isOn = true;
    for (const work of [() => bound.skills(), () => bound.render(), () => section.active({})])
      expect(catchRefusal(work).message).toBe('Section "skills": two skills are named "docs"');
  });

  it("is refused when two skills have the same key, in code or on disk", () => {
    const [docs] = onDisk("docs");
    for (const skills of [
      [inCode("a", { key: "same" }), inCode("b", { key: "same" })],
      [inCode("a", { key: "docs" }), docs],
    ])
      expect(catchRefusal(() => skillsSection({ skills: skills as never })).message).toMatch(
        /two skills have the key "(same|docs)"/,
      );
  });

  it("[N-09] is refused when two sections of a prompt have skills with the same name", () => {
    const sections = ["one", "two"].map((key) => skillsSection({ key, skills: [inCode("a")] }));
    for (const work of [() => prompt(sections).render(), () => prompt(sections).skills()])
      expect(catchRefusal(work).message).toBe('Prompt "p": two skills are named "a"');
  });

  it.each<[string, object, string]>([
    ["skills that are not a list", { skills: {} }, "its skills are not an array"],
    ["references that are not a list", { skillRefs: "a" }, "its skills are not an array"],
    ["an invalid skill", { skills: [{ name: "a" }] }, "an entry is not a skill"],
    [
      "a section that is not a skill",
      { skills: [markdown({ title: "a", key: "a", template: "a" })] },
      "an entry is not a skill",
    ],
    ["undefined as a skill", { skills: [undefined] }, "an entry is not a skill"],
    ["a key with a dot", { key: "a.b" }, "the key"],
    ["an empty title", { title: " " }, "the title is empty"],
    ["a title of two lines", { title: "a\nb" }, "more than one line"],
    ["an `enabled` that is not a function", { enabled: true }, "`enabled` is not a function"],
    ["an unknown string", { skill_refs: [] }, 'unknown option "skill_refs"'],
  ])("is refused for %s", (_, options, said) => {
    expect(catchRefusal(() => skillsSection(options as never)).message).toContain(said);
  });

  it("takes the parameters of all its skills together", () => {
    const a = skill<{ language: string }>({ name: "a", description: "d", title: "a", template: "$language" });
    const b = skill<{ level: number }>({ name: "b", description: "d", title: "b", template: "$level" });
    const template = promptTemplate({ ns: "n", key: "k", sections: [skillsSection({ skills: [a, b] })] });
    expectTypeOf(template.bind).parameter(0).toExtend<{ language: string; level: number }>();
    template.bind({ language: "x", level: 1, enabledSkills: ["a"] });
    // @ts-expect-error: `level` is missing.
    template.bind({ language: "x" });
    // @ts-expect-error: no argument.
    template.bind();
  });
});
