import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import type { ToolResult } from "./tool.ts";

/** What goes wrong while a call is answered is a result like any other: what a skill throws when it cannot be read, or a host. */
export async function safely(work: () => ToolResult | Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SkillError))
      return { content: `It failed: ${inLine(reason(error))}`, isError: true, code: "failed" };
    return {
      content: inLine(error.message, 512) + (error.fix ? `: ${inLine(error.fix)}` : ""),
      isError: true,
      code: error.code,
    };
  }
}
