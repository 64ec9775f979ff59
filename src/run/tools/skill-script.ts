import { defined } from "../../shared/defined.ts";
import { inLine } from "../../shared/prompt.ts";
import { scriptsOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import { makeTool, type Tool } from "../../skill/tool.ts";
import { scriptText } from "../script-text.ts";
import { asksToWrite, describeScriptView, SCRIPT_WRITES, scriptEffect } from "../script-view.ts";
import type { ToolScene } from "./tool-scene.ts";

/** The scripts of the run's own skill. */
export function skillScriptTool({ host, enclosure, broker, waited = () => 0 }: ToolScene, skill: Skill): Tool {
  const said = scriptsOf(skill)
    .slice(0, 20)
    .map(({ path, description }) => inLine(description === undefined ? path : `${path}: ${description}`, 200));
  return makeTool(
    {
      name: "run_skill_script",
      description: `Runs a script of the skill in a sandbox of its own, and gives what it printed. ${describeScriptView(host, skill)} There are: ${said.join("; ")}.`,
      category: "skills",
      parameters: {
        script: { type: "string", says: "the script's path or name", isRequired: true },
        args: { type: "strings", says: "its arguments, one each; no shell reads them" },
        stdin: { type: "string", says: "what it reads from its standard input" },
        ...SCRIPT_WRITES,
      },
      effect: ({ script, args = [], writes }) =>
        writes && asksToWrite(host, skill) ? scriptEffect(script, args) : undefined,
    },
    ({ script, args, stdin, writes }, { signal }) =>
      scriptText(
        host,
        { skill, script, ...defined({ args, stdin, writes, signal }) },
        ({ isolation, warnings }) =>
          enclosure.note({ isolation, planted: warnings.filter(({ code }) => code === "workspace-protected") }),
        { broker, waited, review: enclosure.review },
      ),
  );
}
