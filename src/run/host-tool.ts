import { schemaProblem } from "../host/schema.ts";
import { reason } from "../shared/inside.ts";
import { inLine, inTag } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { isData } from "../skill/data.ts";
import { safely } from "../skill/safely.ts";
import type { CallOptions, Tool, ToolResult } from "../skill/tool.ts";
import { hideIn } from "./notice.ts";
import { shortened } from "./printed.ts";

/**
 * A tool of the embedding program as a model gets it: input is held to its schema, and what it gives is bounded and labelled as data,
 * with what cannot be seen written out. Tools of ours do so themselves.
 */
export function hostTool(tool: Tool, most: number, hiding: Hiding): Tool {
  const { name, inputSchema } = tool;
  return {
    ...tool,
    execute: (input, options) =>
      safely(async () => {
        const own = structuredClone(input); // What it does to its input is not what was asked for.
        const problem = await schemaProblem(inputSchema, own, "lenient");
        if (problem !== undefined) return { content: problem, isError: true, code: "input-invalid" };
        const given = await callOf(tool, own, options);
        const { content, ...rest } = resultOf(given, name, hiding);
        return { ...rest, content: inTag("skill_output", { tool: name }, shortened(hiding.text(content), most)) };
      }),
  };
}

/** What it throws is an error that the model reads; all of it, so that nothing secret is cut in two. */
async function callOf(tool: Tool, input: unknown, options: CallOptions | undefined): Promise<unknown> {
  try {
    return await tool.execute(input, options);
  } catch (error) {
    return { content: `It failed: ${reason(error)}`, isError: true, code: "failed" };
  }
}

/** A program may give its text alone. */
function resultOf(given: unknown, name: string, hiding: Hiding): ToolResult {
  if (typeof given === "string") return { content: given, isError: false };
  const { content, isError, code, title, metadata } = (given ?? {}) as Partial<ToolResult>;
  if (typeof content === "string") {
    return {
      content,
      isError: isError === true,
      // Hidden before it is folded and cut: half a secret, or one without its line breaks, would be none that anybody knows.
      ...(typeof code === "string" ? { code: inLine(hiding.text(code), 64) } : {}),
      ...(typeof title === "string" ? { title: inLine(hiding.text(title), 200) } : {}),
      ...(isData(metadata) ? { metadata: hideIn(hiding, metadata) } : {}),
    };
  }
  const said = `Tool '${inLine(name, 64)}' gave no text: it must give a text, or { content, isError }`;
  return { content: said, isError: true, code: "failed" };
}
