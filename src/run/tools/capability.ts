import type { Broker } from "../../capability/broker.ts";
import type { ListResult } from "../../capability/protocol.ts";
import { inLine, inTag } from "../../shared/prompt.ts";
import { safely } from "../../skill/safely.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { dottedToolName } from "../../skill/tool-alias.ts";
import { shortened } from "../printed.ts";

type Operation = ListResult["capabilities"][number]["operations"][number];

/** Every operation of the skill's capabilities as a tool: `notes.notes.add`. The broker asks whoever is to be asked. */
export async function capabilityTools(broker: Broker, most: number): Promise<Tool[]> {
  const { capabilities } = await broker.list();
  return capabilities.flatMap(({ id, operations }) =>
    operations.map((operation) => operationTool(broker, id, operation, most)),
  );
}

/** Whether a skill is better off with tools than with a command in a shell: it has none for that, or names them. */
export function prefersTools({ manifest: { capabilities, tools } }: Skill, hasShell: boolean): boolean {
  const isNamed = tools.allowed.some((entry) => {
    const name = dottedToolName(entry);
    return capabilities.some((id) => id.startsWith(name.replace(/\*$/, "")) || name.startsWith(`${id}.`));
  });
  return isNamed || !hasShell;
}

function operationTool(broker: Broker, capability: string, operation: Operation, most: number): Tool {
  const { name, description, mutating, input } = operation;
  const says = mutating ? `${description} It changes something: the user is asked each time.` : description;
  const tool = `${capability}.${name}`;
  return {
    name: tool,
    description: inLine(says, 1000),
    category: "capabilities",
    inputSchema: input,
    execute: (given) =>
      safely(async (): Promise<ToolResult> => {
        const answer = await broker.invoke({ capability, operation: name, input: given ?? {} });
        if (!answer.ok) {
          const { code, message, fix } = answer.error;
          const said = [`${code}: ${message}`, ...(fix === undefined ? [] : [`next: ${fix}`])].join("\n");
          return { content: inTag("skill_output", { tool, label: "untrusted" }, said), isError: true, code };
        }
        const { output, approval } = answer.result;
        const text = JSON.stringify(output, null, 2);
        const attributes = { tool, label: "untrusted", ...(typeof approval === "string" ? { approval } : {}) };
        return { content: inTag("skill_output", attributes, shortened(text, most)), isError: false };
      }),
  };
}
