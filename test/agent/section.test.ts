import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type MarkdownOptions, markdown, type Section } from "../../src/agent/prompts/prompt-section.ts";
import { promptTemplate } from "../../src/agent/prompts/prompt-template.ts";
import { skill, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { Tool } from "../../src/skill/tool.ts";
import { catchRefusal } from "./refusal.ts";

const task = { title: "Task", key: "task", template: "Do it." };

const tool = (name: string) =>
  Tool.define(name, { description: `Does ${name}.`, parameters: z.object({}), execute: () => "done" });

const render = (sections: readonly Section[], params: object = {}) =>
  promptTemplate({ ns: "test", key: "prompt", sections }).bind(params).render();

describe("a section", () => {
  it("[N-26] is a heading and its text, with its sections one level deeper", () => {
    const deep = Array.from({ length: 7 }, (_, index) => 8 - index).reduce<Section | undefined>(
      (child, level) =>
        markdown({
          title: `Level ${level}`,
          key: `l${level}`,
          template: `At ${level}.`,
          ...(child ? { children: [child] } : {}),
        }),
      undefined,
    ) as Section;
    const { text, sections, tools, summarized } = render([markdown({ ...task, title: " Task " }), deep]);
    const marks = ["##", "###", "####", "#####", "######", "######", "######"];
    expect(text).toBe(
      ["## Task\n\nDo it.", ...marks.map((mark, index) => `${mark} Level ${index + 2}\n\nAt ${index + 2}.`)].join(
        "\n\n",
      ),
    );
    expect(sections.at(-1)?.key).toBe("l2.l3.l4.l5.l6.l7.l8");
    expect({ tools, summarized }).toEqual({ tools: [], summarized: [] });
  });

  it("[N-17, N-26] is included while `enabled` returns true, with everything below it", () => {
    const section = markdown<{ isOn: boolean }>({
      ...task,
      enabled: ({ isOn }) => isOn,
      children: [markdown<unknown>({ title: "Below", key: "below", template: "$never" })],
    });
    expect(render([section as Section], { isOn: false, never: "x" }).text).toBe("");
    expect(render([section as Section], { isOn: true, never: "x" }).text).toContain("### Below\n\nx");
  });

  it("does not change when the lists that created it change", () => {
    const children: Section[] = [];
    const tools: Tool[] = [];
    const section = markdown({ ...task, children, tools });
    children.push(section);
    tools.push(tool("late"));
    const template = promptTemplate({ ns: "test", key: "prompt", sections: [section] });
    for (const overrides of [{}, { task: { template: "Do it." } }])
      expect(template.bind({}, { overrides }).render()).toMatchObject({ text: "## Task\n\nDo it.", tools: [] });
  });

  it("takes unbound parameters from defaultParams, each section its own", () => {
    const greeting = (key: string, who: string) =>
      markdown({
        title: key,
        key,
        template: "Hello $who",
        defaultParams: { who },
        enabled: (p: { who: string }) => p.who !== "",
      });
    const sections = [greeting("a", "Ada"), greeting("b", "Bo")] as Section[];
    expect(render(sections).text).toBe("## a\n\nHello Ada\n\n## b\n\nHello Bo");
    expect(render(sections, { who: "you" }).text).toBe("## a\n\nHello you\n\n## b\n\nHello you");
  });

  it("[N-13, N-15] shows its summary as its visibility says, and how to see all of it", () => {
    const section = markdown<{ isLong: boolean }>({
      ...task,
      summary: "About $what.",
      visibility: ({ isLong }) => (isLong ? "SUMMARY" : "FULL"),
    });
    const long = render([section as Section], { isLong: true, what: "it" });
    expect(long.text).toBe(
      '## Task\n\nAbout it.\n\n---\n[This section is summarized. Call `open_sections` with key "task"\nto view the full section.]',
    );
    expect(long.tools.map(({ name }) => name)).toEqual(["open_sections"]);
    const short = render([section as Section], { isLong: false });
    expect(short.text).toBe("## Task\n\nDo it.");
    expect(short.tools).toEqual([]);
  });

  it("provides its tools once, even if two sections share one", () => {
    const shared = tool("shared");
    const sections = ["a", "b"].map((key) => markdown({ ...task, key, tools: [shared, tool(key)] }));
    expect(render(sections).tools.map(({ name }) => name)).toEqual(["shared", "a", "b"]);
    expect(sections[0]?.hasTools).toBe(true);
    expect(markdown({ ...task, children: sections }).hasTools).toBe(true);
    expect(markdown(task).hasTools).toBe(false);
  });

  it("names both sections when two tools have the same name, even if one section is closed", () => {
    const open = markdown({ ...task, key: "open", tools: [tool("same")] });
    const inner = markdown({ ...task, key: "inner", visibility: "SUMMARY", summary: "s", tools: [tool("same")] });
    const closed = markdown({ ...task, key: "closed", visibility: "SUMMARY", summary: "s", children: [inner] });
    for (const sections of [
      [open, markdown({ ...task, key: "other", tools: [tool("same")] })],
      [open, closed],
    ]) {
      const { message } = catchRefusal(() => render(sections));
      expect(message).toMatch(/^Section "(?:other|closed\.inner)": section "open" also has a tool "same"$/);
    }
    expect(catchRefusal(() => render([markdown({ ...task, tools: [tool("a"), tool("a")] })])).message).toContain(
      'also has a tool "a"',
    );
  });

  it("can share a tool name with a section that is never shown together with it", () => {
    const only = (language: string) =>
      markdown<{ language: string }>({
        ...task,
        key: language,
        tools: [tool("lint")],
        enabled: (params) => params.language === language,
      });
    expect(render([only("python"), only("ruby")] as unknown as Section[], { language: "ruby" }).tools).toHaveLength(1);
  });
});

const given = (options: Partial<Record<keyof MarkdownOptions<unknown> | string, unknown>>) =>
  ({ ...task, ...options }) as never;

describe("an invalid section", () => {
  it.each<[string, object, string]>([
    ["no key", { key: undefined }, "the key"],
    ["a key that is not text", { key: Symbol("a") }, "the key"],
    ["a key with a dot", { key: "a.b" }, "no dot"],
    ["a key with capitals", { key: "Task" }, "the key"],
    ["a key of 65 characters", { key: "a".repeat(65) }, "the key"],
    ["a key with a line break", { key: "a\nb" }, "the key"],
    ["no title", { title: undefined }, "the title is empty"],
    ["a blank title", { title: " \n" }, "the title is empty"],
    ["a title of two lines", { title: "a\n# b" }, "more than one line"],
    ["no template", { template: undefined }, "the template is empty"],
    ["a blank template", { template: "\n  \n" }, "the template is empty"],
    ["a template that is not text", { template: 5 }, "the template is empty"],
    ["a lone dollar sign", { template: "costs $ 5" }, "line 1"],
    ["a lone dollar sign in its summary", { summary: "costs $ 5" }, "line 1"],
    ["a blank summary", { summary: " " }, "the summary is empty"],
    ["a summary to show, but without one", { visibility: "SUMMARY" }, "has no summary"],
    ["an unknown visibility", { visibility: "full" }, "its visibility is invalid"],
    ["an `enabled` that is not a function", { enabled: true }, "`enabled` is not a function"],
    ["defaultParams that are not an object", { defaultParams: ["a"] }, "`defaultParams` is not an object"],
    ["an unknown string", { defaultparams: {} }, 'unknown option "defaultparams"'],
    ["tools that are not a list", { tools: {} }, "`tools` is not an array"],
    ["an invalid tool", { tools: [{ name: "x" }] }, "an entry of `tools` is not a tool"],
    ["undefined as a tool", { tools: [undefined] }, "an entry of `tools` is not a tool"],
    ["a tool called open_sections", { tools: [tool("open_sections")] }, '"open_sections"'],
    ["children that are not a list", { children: {} }, "its sections are not an array"],
    ["an invalid child", { children: [{ kind: "ref", key: "x" }] }, "an entry is not a section"],
    ["undefined as a child", { children: [undefined] }, "an entry is not a section"],
    [
      "two children with the same key",
      { children: [markdown(task), markdown(task)] },
      'two sections have the key "task"',
    ],
  ])("[N-02] is refused for %s", (_, options, said) => {
    for (const make of [markdown, (all: object) => skill({ name: "a", description: "d", ...all } as never)]) {
      if (make !== markdown && "visibility" in options && options.visibility === "SUMMARY") continue; // A skill has a summary.
      if (make !== markdown && "key" in options && options.key === undefined) continue; // Its name is its key.
      const { message, fix } = catchRefusal(() => make(given(options)));
      if (make === markdown) expect(`${message}: ${fix}`).toContain(said);
    }
  });

  it.each<[string, () => unknown, string]>([
    [
      "fails",
      () => {
        throw new Error("no database");
      },
      "failed: no database",
    ],
    ["returns nothing", () => undefined, "did not return a boolean"],
    ["returns a text", () => "yes", "did not return a boolean"],
    ["returns a promise", async () => true, "did not return a boolean"],
  ])("[N-17] names the section whose `enabled` %s", (_, enabled, said) => {
    const inner = markdown({ ...task, key: "inner", enabled: enabled as never });
    const error = catchRefusal(() => render([markdown({ ...task, children: [inner] })]));
    expect(error.message).toBe(`Section "task.inner": \`enabled\` ${said}`);
    if (said.startsWith("failed")) expect(error.cause).toEqual(new Error("no database"));
    const inSkills = skillsSection({
      skills: [skill({ ...task, name: "a", description: "d", key: "k", enabled: enabled as never })],
    });
    expect(catchRefusal(() => render([inSkills as unknown as Section])).message).toContain(
      'Section "skills.k": `enabled`',
    );
  });

  it.each<[string, () => unknown, string]>([
    [
      "fails",
      () => {
        throw "why";
      },
      "`visibility` failed: why",
    ],
    ["returns nothing", () => undefined, "its visibility is invalid"],
    ["returns a promise", async () => "FULL", "its visibility is invalid"],
    ["returns an unknown string", () => "HIDDEN", "its visibility is invalid"],
    ["shows a missing summary", () => "SUMMARY", "has no summary"],
  ])("names the section whose `visibility` %s", (_, visibility, said) => {
    const { message } = catchRefusal(() => render([markdown({ ...task, visibility: visibility as never })]));
    expect(message).toContain('Section "task": ');
    expect(message).toContain(said);
  });
});
