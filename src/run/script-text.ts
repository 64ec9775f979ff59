import type { Host } from "../host/host.ts";
import { inLine } from "../shared/prompt.ts";
import type { ToolResult } from "../skill/tool.ts";
import { sayEnding } from "./ending.ts";
import { noticeLines, outcomeLine, printedText } from "./printed.ts";
import { refusedResult } from "./result.ts";
import { type Around, runScript, type ScriptRequest, type ScriptResult } from "./script.ts";
import { formatView } from "./script-view.ts";

/** Runs a script, and says what came of it in a way that a model can go on from. */
export async function scriptText(
  host: Host,
  request: ScriptRequest,
  onResult: (result: ScriptResult) => void = () => {},
  around?: Around,
): Promise<ToolResult> {
  const result = await runScript(host, request, around);
  if (result.refusals.length > 0) return refusedResult(result.refusals);
  onResult(result);
  const { skill, script, warnings, isError } = result;
  const printed = printedText(result, host.settings.limits.toolOutput, { skill, script });
  const content = [sayOutcome(result), ...noticeLines(warnings), ...printed].join("\n");
  const code = result.ending === "exit" ? "script-failed" : `script-${result.ending}`;
  return { content, isError, ...(isError ? { code } : {}) };
}

function sayOutcome(result: ScriptResult): string {
  const { script, skill, ms, isolation, isTruncated, view } = result;
  const how = [`${(ms / 1000).toFixed(1)} s`, `isolation ${isolation?.level} by ${isolation?.by}`];
  if (view) how.push(formatView(view));
  const what = `${inLine(script)} of skill '${inLine(skill, 64)}': ${sayEnding(result).said}`;
  return outcomeLine(what, [...how, ...(isTruncated ? ["output cut"] : [])], result);
}
