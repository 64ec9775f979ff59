import { describe, expect, it } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import { TIERS } from "../../src/catalog/disclose.ts";
import { MATCH_LEVELS } from "../../src/catalog/search/matcher.ts";
import type { Tool } from "../../src/skill/tool.ts";
import { createCatalogOf } from "../support/skills.ts";

function described(tools: readonly Tool[]): string {
  const lines = tools.flatMap(({ name, description, inputSchema }) => {
    const { properties = {}, required = [] } = inputSchema as { properties?: object; required?: string[] };
    const takes = Object.entries(properties).map(([key, { type, enum: choices }]) => {
      return `  ${key}: ${choices ? choices.join(" | ") : type}${required.includes(key) ? "" : " (optional)"}`;
    });
    return [`${name}: ${description}`, ...takes];
  });
  return lines.join("\n");
}

describe("the interface for models and their programs", () => {
  it("has the tiers and the levels", () => {
    expect(TIERS).toEqual(["none", "breadcrumb", "registry", "full"]);
    expect(MATCH_LEVELS).toEqual(["explicit", "phrase", "trigger", "weak", "words"]);
  });

  it("[S-11, W-08] has the tools of a session and their input", async () => {
    const { tools } = openSession(await createCatalogOf({}), { env: {} });
    expect(described(tools)).toMatchInlineSnapshot(`
      "list_skills: Lists the available skills: name, description, version and tags, as JSON.
      search_skills: Finds skills for a task, best first, also by the text of their instructions. Use it when the list of skills is long or was cut.
        query: string
        limit: number (optional)
      load_skill: Loads a skill: returns its full instructions and the list of its files. Follow them.
        skill: string
        arguments: string (optional)
        again: boolean (optional)
      use_skill: Delegates a task to a skill, which runs as a sub-agent with its own model, tools and limits and returns only the result. It does not see this conversation: pass the information it needs.
        skill: string
        message: string (optional)
        context: string (optional)
        input: object (optional)
      read_skill_resource: Reads a file of a skill, as listed by load_skill.
        skill: string
        resource: string
        offset: number (optional)
      run_skill_script: Runs a script of a skill in its own sandbox and returns its output. load_skill lists the scripts. It starts in the skill's folder and sees no files of the user: pass content on stdin.
        skill: string
        script: string
        args: array (optional)
        stdin: string (optional)
        writes: boolean (optional)
      validate_skill: Checks a skill's structure and metadata. Reports each problem, its position and a fix.
        skill: string (optional)
        path: string (optional)
        content: string (optional)
        profile: load | agentskills | shipped | claude-upload | vscode (optional)
      lint_skill: Checks the style of a skill's instructions. Reports each finding with its rule, line and fix.
        skill: string (optional)
        path: string (optional)
        content: string (optional)"
    `);
  });

  it("has the text of a loaded skill", async () => {
    const session = openSession(
      await createCatalogOf({ a: { keywords: ["ferry"], body: "Do it.", more: { model: "fast" } } }),
    );
    expect((await session.load("a")).text).toMatchInlineSnapshot(`
      "<skill_content name="a">
      Do it.
      </skill_content>
      [Not in force for loaded instructions: model (fast)]"
    `);
    expect((await session.load("a")).text).toMatchInlineSnapshot(
      `"Skill 'a' is already loaded in this conversation, and has not changed. If you no longer see its instructions, load it with again: true."`,
    );
    expect((await session.disclose("ferry")).text).toMatchInlineSnapshot(
      `"[Skill a is already loaded in this conversation]"`,
    );
    expect(session.formatReminder()).toMatchInlineSnapshot(
      `"[Skills loaded in this conversation: a. To repeat one, call load_skill with again: true]"`,
    );
  });
});
