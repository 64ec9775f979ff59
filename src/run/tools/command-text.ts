import type { ToolResult } from "../../skill/tool.ts";
import type { EnclosedOutcome } from "../enclosure.ts";
import { sayEnding } from "../ending.ts";
import { missingPackage } from "../missing-package.ts";
import { noticeLines, outcomeLine, printedText } from "../printed.ts";
import type { ToolScene } from "./tool-scene.ts";

/** What came of a command, in a way that a model can go on from. */
export function commandText(tool: string, outcome: EnclosedOutcome, scene: ToolScene): ToolResult {
  const { host, enclosure, skill } = scene;
  const { ms, isTruncated, ending } = outcome;
  const missing = skill && ending === "exit" ? missingPackage(outcome, skill, host, enclosure.sandbox) : undefined;
  const notices = [...(outcome.notices ?? []), ...(missing ? [missing] : [])];
  const details = [`${(ms / 1000).toFixed(1)} s`, ...(isTruncated ? ["output cut"] : [])];
  const content = [
    outcomeLine(`${tool}: ${sayEnding(outcome).said}`, details, outcome),
    ...noticeLines(notices, enclosure.hiding),
    ...printedText(outcome, host.settings.limits.toolOutput, { tool }),
  ].join("\n");
  const isError = ending !== "exit" || outcome.exitCode !== 0;
  const code = ending === "exit" ? "tool-failed" : `tool-${ending}`;
  return { content, isError, ...(isError ? { code } : {}) };
}
