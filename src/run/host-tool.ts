import { inLine, inTag } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { safely } from "../skill/safely.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { schemaProblem } from "./input.ts";
import { shortened } from "./printed.ts";

/**
 * A tool of the embedding program as a model gets it: input is held to its schema, and what it gives is bounded and labelled as data,
 * with what cannot be seen written out. Tools of ours do so themselves.
 */
export function hostTool(tool: Tool, most: number, hiding: Hiding): Tool {
  const { name, inputSchema } = tool;
  return {
    ...tool,
    async execute(input, options) {
      const own = structuredClone(input); // What it does to its input is not what was asked for.
      const problem = await schemaProblem(inputSchema, own);
      if (problem !== undefined) return { content: problem, isError: true, code: "input-invalid" };
      const given: unknown = await safely(() => tool.execute(own, options));
      const { content, ...rest } = resultOf(given, name);
      return { ...rest, content: inTag("skill_output", { tool: name }, shortened(hiding.text(content), most)) };
    },
  };
}

/** A program may give its text alone. */
function resultOf(given: unknown, name: string): ToolResult {
  if (typeof given === "string") return { content: given, isError: false };
  const { content, isError, code } = (given ?? {}) as Partial<ToolResult>;
  if (typeof content === "string") {
    return { content, isError: isError === true, ...(typeof code === "string" ? { code } : {}) };
  }
  const said = `Tool '${inLine(name, 64)}' gave no text: it must give a text, or { content, isError }`;
  return { content: said, isError: true, code: "failed" };
}
