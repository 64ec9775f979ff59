import { SkillError } from "../shared/error.ts";
import type { ToolResult } from "../skill/tool.ts";

/** What a skill throws when it cannot be read is a result like any other. */
export async function safely(work: () => ToolResult | Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    return { content: error.fix ? `${error.message}: ${error.fix}` : error.message, isError: true, code: error.code };
  }
}
