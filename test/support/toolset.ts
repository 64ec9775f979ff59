import { onTestFinished } from "vitest";
import { type OpenToolsets, openToolsets } from "../../src/agent/toolsets/open-toolsets.ts";
import type { Host } from "../../src/config/host.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import type { CallOptions, Tool, ToolResult } from "../../src/skill/tool.ts";
import { discoverIn, type Scene } from "./discover.ts";
import { skillText } from "./folder.ts";

/** The skill of the documentation: in a home without node_modules. */
export const MY_SKILL = {
  "home/.agent/skills/my-skill/SKILL.md": `---
name: my-skill
description: My custom skill
toolsets:
  - "toolsets/index:MyToolset"
triggers:
  keywords: ["my", "custom"]
---

# My Skill

Instructions for the LLM on how to use this skill.
`,
  "home/.agent/skills/my-skill/toolsets/index.ts": `import { z } from 'zod';
import { Tool } from '@agent/tools';

export const myTool = Tool.define('my-tool', {
  description: 'Does something useful',
  parameters: z.object({
    input: z.string(),
  }),
  execute: async (args, ctx) => ({
    title: 'Completed',
    metadata: {},
    output: \`Processed: \${args.input}\`,
  }),
});

export const MyToolset = [myTool];
`,
};

/** A toolset with tools whose `execute` is this text. */
export function toolsetOf(tools: Record<string, string>, more = ""): string {
  const items = Object.entries(tools).map(
    ([name, body]) =>
      `Tool.define("${name}", { description: "Does ${name}", parameters: z.object({ input: z.string().optional() }), execute: async (args, ctx) => { ${body} } }),`,
  );
  return `import { z } from "zod";\nimport { Tool } from "@agent/tools";\n${more}\nexport const Tools = [\n${items.join("\n")}\n];\n`;
}

/** Files of skill `x` in the user's own folder, with `toolsets/index.ts` as its toolset by default. */
export function ownSkill(files: Record<string, string>, references = ["toolsets/index:Tools"]): Record<string, string> {
  const own = "home/.agent/skills/x";
  const listed = references.map((reference) => `  - ${JSON.stringify(reference)}\n`).join("");
  return {
    [`${own}/SKILL.md`]: skillText("x", { more: `toolsets:\n${listed}` }),
    ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`${own}/${path}`, text])),
  };
}

export interface OpenedSkill extends OpenToolsets {
  scene: Scene;
  printed: string[];
  tool(name: string): Tool;
  call(name: string, input?: unknown, options?: CallOptions): Promise<ToolResult>;
}

/** Opens the toolsets of a skill, and ends them with the test. */
export async function openToolset(
  files: Record<string, string>,
  options: { skill?: string; host?: Partial<Host>; env?: Record<string, string> } = {},
): Promise<OpenedSkill> {
  return openToolsetIn(await discoverIn(files, options.env), options);
}

export async function openToolsetIn(
  scene: Scene,
  { skill: name = "x", host = {} }: { skill?: string; host?: Partial<Host> } = {},
): Promise<OpenedSkill> {
  const skill = scene.skill(name);
  const printed: string[] = [];
  const toolsets = await openToolsets(
    { ...scene, ...host },
    { skill, copy: await copySkill(skill), onPrinted: (text) => void printed.push(text) },
  );
  onTestFinished(() => toolsets.close());
  const tool = (id: string) => {
    const found = toolsets.tools.find((candidate) => candidate.name === `${name}.${id}`);
    if (!found) throw new Error(`no tool ${id}: ${JSON.stringify(toolsets.problems)}`);
    return found;
  };
  const call = (id: string, input: unknown = {}, options?: CallOptions) => tool(id).execute(input, options);
  return { ...toolsets, scene, printed, tool, call };
}
