import type { Parameters, Values } from "../skill/parameters.ts";
import { type CallOptions, makeTool, type Tool, type ToolResult } from "../skill/tool.ts";

/** A tool of the category `skills`, from a table of its parameters. */
export function skillTool<P extends Parameters>(
  name: string,
  description: string,
  parameters: P,
  run: (values: Values<P>, options: CallOptions) => Promise<ToolResult>,
): Tool {
  return makeTool({ name, description, category: "skills", parameters }, run);
}
