import type { RunEvent } from "../host/events.ts";
import { inLine } from "../shared/prompt.ts";
import type { CallOptions } from "../skill/tool.ts";
import type { RunResult } from "./result.ts";
import type { Run } from "./start-run.ts";

/** What a run is doing, in a line, for whoever waits for it elsewhere. Nothing for what is not worth one. */
export function progressLine(event: RunEvent): string | undefined {
  const line = (LINES[event.type] as ((event: RunEvent) => string) | undefined)?.(event);
  return line === undefined ? undefined : inLine(event.skill === "" ? line : `${event.skill}: ${line}`, 300);
}

type Lines = { [Type in RunEvent["type"]]?: (event: Extract<RunEvent, { type: Type }>) => string };

const LINES: Lines = {
  "run-started": ({ model }) => `begins, with ${model}`,
  "run-warned": ({ message }) => message,
  "packages-built": ({ text }) => text,
  "model-retried": ({ reason }) => reason,
  "tool-called": ({ tool, step }) => `calls ${tool} (step ${step})`,
  "tool-progressed": ({ tool, text }) => `${tool}: ${text}`,
  "tool-blocked": ({ tool, message }) => `${tool} was blocked: ${message}`,
  "step-ended": ({ step, calls }) => (calls === 0 ? `answers (step ${step})` : `step ${step} is done`),
  "approval-asked": ({ tool }) => `waits for somebody to agree to ${tool}`,
};

/** A run of which it is told how far it is. */
export function withProgress(run: Run<RunEvent, RunResult>, tell: CallOptions["onProgress"]): Run<RunEvent, RunResult> {
  const follow = async () => {
    for await (const event of run) {
      const line = progressLine(event);
      if (line !== undefined) tell?.(line);
    }
  };
  if (tell) void follow();
  return run;
}
