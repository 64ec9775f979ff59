/** The module that toolsets import as `@agent/tools`. */
export type { ToolContext, ToolDefinition, ToolOutput } from "../../skill/define-tool.ts";
export { Tool } from "../../skill/tool.ts";
