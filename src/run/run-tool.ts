import type { Parameters, Values } from "../skill/parameters.ts";
import { type CallOptions, makeTool, type ToolResult } from "../skill/tool.ts";
import type { RunTool, Within } from "./loop-options.ts";

/** A tool whose call is a run. Who calls it from within a run says which; nobody does from elsewhere. */
export function makeRunTool<P extends Parameters>(
  head: Head<P>,
  run: (values: Values<P>, options: CallOptions, within: Within | undefined) => Promise<ToolResult>,
): RunTool {
  const bound = (within: Within | undefined) => makeTool(head, (values, options) => run(values, options, within));
  return {
    ...bound(undefined),
    executeWithin: (input, options, within) => bound(within).execute(input, options),
  };
}

type Head<P extends Parameters> = { name: string; description: string; category: string; parameters: P };
