import { type Host, notifyHost } from "../../config/host.ts";
import type { RunEvent } from "../../host/events.ts";
import { NO_USAGE } from "../../host/model-contract.ts";
import type { ToolResult } from "../../skill/tool.ts";
import type { Journal } from "../../store/journal.ts";
import { omitUndefined } from "../../util/objects.ts";
import { getCommandLimits } from "../workspace/sandbox-permissions.ts";
import { createHostRedactor, redactData } from "./redaction.ts";
import { createRunId } from "./run-result.ts";
import { runScriptForModel, type ScriptRequest } from "./run-script.ts";

/** Runs a script for a model. `isRecorded`: a client of a server asked for it. */
export function runSessionScript(host: Host, request: ScriptRequest, isRecorded = false): Promise<ToolResult> {
  return isRecorded ? runRecordedScript(host, request) : runScriptForModel(host, request);
}

/**
 * Runs a script that a client of a server asked for, and records it like a run: in the journal, the statistics and the traces, with the
 * caller. The record has the arguments and the result, without secrets. A script cannot be resumed.
 */
async function runRecordedScript(host: Host, request: ScriptRequest): Promise<ToolResult> {
  const { skill, script, args, writes, stdin } = request;
  const { runs, workspace, caller } = host;
  const redactor = createHostRedactor(host);
  const id = createRunId();
  const task = `script ${script}`;
  const asked = redactData(redactor, omitUndefined({ skill: skill.name, script, args, writes, stdin }));
  let journal: Journal | undefined;
  try {
    journal = await runs?.create({
      head: { id, kind: "script", skill: skill.name, task, ...omitUndefined({ workspace, caller }) },
      request: asked,
    });
  } catch {} // The script runs without a record, as a run does.
  const start = performance.now();
  const emit = async (event: Record<string, unknown>) => {
    const whole = { run: id, skill: skill.name, at: new Date().toISOString(), ...omitUndefined({ caller }), ...event };
    notifyHost(host, whole as RunEvent);
    await journal?.event(whole as RunEvent).catch(() => {});
  };
  const { seconds } = getCommandLimits(host);
  const call = { step: 1, call: 1, tool: "run_skill_script" };
  try {
    await emit({
      ...{ type: "run-started", source: skill.origin.source, model: "script", tools: [], depth: 1 },
      limits: { iterations: 1, seconds },
    });
    await emit({ type: "tool-called", ...call, input: asked });
    const result = await runScriptForModel(host, request);
    const ms = Math.round(performance.now() - start);
    const { isError, code } = result;
    await emit({
      type: "tool-ended",
      ...call,
      isError,
      ms,
      characters: result.text.length,
      ...omitUndefined({ code }),
    });
    const stop = request.signal?.aborted ? "aborted" : isError ? "failed" : "complete";
    const tail = { stop, isError, iterations: 1, ms, usage: NO_USAGE } as const;
    await emit({ type: "run-ended", ...tail });
    await journal
      ?.end({ run: id, skill: skill.name, content: result.text, ...tail }, { ...tail, model: "script" })
      .catch(() => {});
    return result;
  } finally {
    await journal?.close().catch(() => {});
  }
}
