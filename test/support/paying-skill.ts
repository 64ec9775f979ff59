import { skillText } from "./folder.ts";

/** The files of a skill in the user's home. Its tool `pay` writes into a ledger, and each call needs an approval. */
export function payingSkill(name: string, ledger: string): Record<string, string> {
  const folder = `home/.skillet/skills/${name}`;
  return {
    [`${folder}/SKILL.md`]: skillText(name, { more: 'toolsets:\n  - "toolsets/index:Tools"\n' }),
    [`${folder}/toolsets/index.ts`]: `import { appendFileSync } from "node:fs";
import { z } from "zod";
import { Tool } from "@agent/tools";
export const Tools = [Tool.define("pay", {
  description: "Pays",
  parameters: z.object({ to: z.string() }),
  effect: ({ to }) => ({ on: "outside", what: "pay", where: to }),
  execute: async ({ to }) => { appendFileSync(${JSON.stringify(ledger)}, to + "\\n"); return "paid " + to; },
})];
`,
  };
}
