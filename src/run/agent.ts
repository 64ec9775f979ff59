import type { Host } from "../host/host.ts";
import type { Message, Model, Task } from "../host/models.ts";
import { type Isolation, type Notice, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import { costOf } from "../model/cost.ts";
import { shownPath } from "../policy/shown-path.ts";
import { defined } from "../shared/defined.ts";
import type { Hiding } from "../shared/redact.ts";
import { SKILL_FOLDER } from "../skill/script.ts";
import type { CallOptions, Tool, ToolOwner } from "../skill/tool.ts";
import { TimedOut } from "./bound-time.ts";
import type { Gate } from "./gate.ts";
import { loop } from "./loop.ts";
import { type Budget, emit, type LoopEnd } from "./loop-options.ts";
import { asNotice, hide } from "./notice.ts";
import type { Port } from "./port.ts";
import { contentOf, type RunResult } from "./result.ts";
import type { Taint } from "./taint.ts";
import { beginTaint } from "./taint-begin.ts";

export interface Bounds {
  iterations: number;
  seconds: number;
  budget: Budget;
}

/** An agent with all that it has: a sub-agent that follows a skill, or the one that talks with the user. */
export interface Agent {
  run: string;
  /** The skill's name, and empty in a conversation. */
  skill: string;
  source?: string;
  host: Host;
  port: Port;
  model: Model;
  hiding: Hiding;
  tools(): readonly Tool[];
  /** Tools that are not offered, and answer all the same when a model calls them again. */
  unlisted?: readonly Tool[];
  /** Tools that there are, and that are not for this one. */
  withheld?: readonly string[];
  gates?: readonly Gate[];
  /** Returns why a tool may no longer be called, where the configuration has changed since the run began. */
  revoked?(tool: string): Notice | undefined;
  /** The copy of the skill; none in a conversation. */
  owner?: ToolOwner;
  /** What else tools are called with. */
  context?: Pick<CallOptions, "env" | "sandbox">;
  instructions: string;
  messages: Message[];
  task: Task;
  effort?: string | undefined;
  /** The model that whoever started it asked for by name. */
  asked?: string | undefined;
  bounds: Bounds;
  warnings: readonly Notice[];
  depth: number;
  parent?: string | undefined;
  /** What was read for it that others wrote; nothing, when left out. */
  taint?: Taint;
  /** When it began, as `performance.now` counts. */
  start: number;
  signal: AbortSignal;
  /** How its code was kept apart, where any ran, and what that left behind; asked at the end. */
  isolation?(): Isolation | undefined;
  close?(): readonly Notice[];
}

/** One agent from its beginning to its end. Contract: what has begun has an end, and never throws. */
export async function runAgent(agent: Agent): Promise<RunResult> {
  const { port, host, hiding, bounds, model } = agent;
  const hidden = hide(hiding);
  const warnings = agent.warnings.map(hidden);
  const before = port.waited();
  await port.step("begin", async () => {
    emit(port, agent, {
      type: "run-started",
      ...defined({ source: agent.source, parent: agent.parent, caller: host.caller }),
      model: model.name,
      tools: agent.tools().map(({ name }) => name),
      depth: agent.depth,
      limits: { iterations: bounds.iterations, seconds: bounds.seconds, ...defined({ tokens: bounds.budget.most }) },
    });
    for (const warning of warnings) emit(port, agent, { type: "run-warned", ...warning });
    return true;
  });
  const end = await loop(port, {
    ...agent,
    instructions: hiding.text(agent.instructions),
    withheld: agent.withheld ?? [],
    gates: agent.gates ?? [],
    context: agent.context ?? {},
    workspace: host.workspace === undefined ? undefined : shownPath(host.workspace, host),
    agreed: new Set(),
    taint: beginTaint(agent),
    inside: [host.workspace, agent.owner?.place, WORKSPACE_FOLDER, SKILL_FOLDER].filter(Boolean) as string[],
    limits: { iterations: bounds.iterations, toolSeconds: host.settings.limits.toolSeconds },
    budget: bounds.budget,
    costOf: (usage) => costOf(usage, model.name, host.settings.prices),
  });
  const left = (agent.close?.() ?? []).map(hidden);
  const late = [...(end.warning ? [hidden(end.warning)] : []), ...left];
  const waited = port.waited() - before;
  const result = resultOf(agent, end, { warnings: [...warnings, ...late], hasLeft: left.length > 0, waited });
  return port.step("end", async () => {
    const { stop, isError, iterations, ms, usage, cost, isolation, caller } = result;
    for (const warning of late) emit(port, agent, { type: "run-warned", ...warning });
    emit(port, agent, {
      type: "run-ended",
      ...{ stop, isError, iterations, ms, usage },
      ...defined({ cost, isolation, caller }),
    });
    return result;
  });
}

const LONGEST_MESSAGE = 2000;

interface Rest {
  warnings: readonly Notice[];
  hasLeft: boolean;
  /** How long somebody thought about a question. */
  waited: number;
}

function resultOf(agent: Agent, end: LoopEnd, { warnings, hasLeft, waited }: Rest): RunResult {
  const { run, skill, source, host, hiding, model, bounds, start } = agent;
  const { stop, iterations, usage, cost } = end;
  const failed = end.error && hide(hiding)(asNotice(end.error));
  const error = failed && { ...failed, message: failed.message.slice(0, LONGEST_MESSAGE) };
  const { budget } = bounds;
  const { reason } = agent.signal;
  const seconds = reason instanceof TimedOut ? reason.seconds : bounds.seconds;
  const content = contentOf({ ...end, iterations: bounds.iterations, seconds, tokens: budget.most, error });
  return {
    run,
    skill,
    content: hiding.text(content),
    isError: (stop !== "answer" && stop !== "complete") || hasLeft,
    iterations,
    stop,
    refusals: [],
    warnings,
    usage,
    ms: Math.max(0, Math.round(performance.now() - start - waited)),
    model: model.name,
    ...defined({ source, error, cost, isolation: agent.isolation?.(), caller: host.caller }),
  };
}
