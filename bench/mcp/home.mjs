import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment } from "../contenders.mjs";
import { generate } from "../generate.mjs";

/** Creates a home with this number of skills, half of them with a script, and additional skills with a toolset. */
export function makeHome(place, name, { plain, withTools = 0 }) {
  const home = join(place, name);
  const skills = join(home, "skills");
  generate(skills, plain, "flat");
  const names = readdirSync(skills);
  const [texts, scripted] = [0, 1].map((rest) => names.filter((_, index) => index % 2 === rest));
  for (const text of texts) rmSync(join(skills, text, "scripts"), { recursive: true });
  for (let number = 0; number < withTools; number++) writeToolset(join(skills, toolsetName(number)), number);
  const none = join(place, "none"); // Without the shipped skills.
  for (const folder of [none, join(place, "work")]) mkdirSync(folder, { recursive: true });
  const env = { ...environment(place), SKILLET_HOME: home, SKILLS_DIR: none };
  return { skills, texts, scripted, cwd: join(place, "work"), env };
}

export function toolsetName(number) {
  return `toolset-${number}`;
}

function writeToolset(folder, number) {
  mkdirSync(join(folder, "toolsets"), { recursive: true });
  writeFileSync(join(folder, "SKILL.md"), TEXT.replaceAll("NAME", toolsetName(number)));
  writeFileSync(join(folder, "toolsets", "index.ts"), TOOLSET);
}

const TEXT = `---
name: NAME
description: Brings a tool. For measuring what that costs.
toolsets: ["toolsets/index:Tools"]
---
Call NAME__echo.
`;
export const TOOLSET = `import { z } from 'zod';
import { Tool } from '@agent/tools';
const echo = Tool.define('echo', {
  description: 'Gives back what it is given.',
  parameters: z.object({ input: z.string() }),
  execute: async ({ input }) => ({ title: 'Completed', metadata: {}, output: input }),
});
export const Tools = [echo];
`;
