import type { RunEvent, Stop } from "../host/events.ts";
import type { Message, Model, Task, Usage } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import type { SkillError } from "../shared/error.ts";
import type { Hiding } from "../shared/redact.ts";
import type { CallOptions, Tool, ToolOwner, ToolResult } from "../skill/tool.ts";
import type { Gate } from "./gate.ts";
import type { Port } from "./port.ts";
import type { Taint } from "./taint.ts";

/** Tokens that are left to a run and all that it calls. */
export interface Budget {
  used: number;
  most: number | undefined;
}

export interface LoopOptions {
  /** Whose events they are. */
  run: string;
  skill: string;
  model: Model;
  instructions: string;
  /** What was said so far. Contract: what is said here is added to it. */
  messages: Message[];
  /** The tools as they are now: a skill that is loaded brings its own. */
  tools(): readonly Tool[];
  /** Tools that are not offered, and answer all the same when a model calls them again. */
  unlisted?: readonly Tool[] | undefined;
  /** Tools that there are, and that are not for this one. */
  withheld: readonly string[];
  gates: readonly Gate[];
  /** Returns why a tool may no longer be called, where the configuration has changed since the run began. */
  revoked?(tool: string): Notice | undefined;
  /** The copy of the skill; none in a conversation. */
  owner?: ToolOwner | undefined;
  /** What else tools are called with. */
  context: Pick<CallOptions, "env" | "sandbox">;
  /** The workspace as people read it. */
  workspace?: string | undefined;
  /** What somebody agreed to for the whole run. */
  agreed: Set<string>;
  /** What was read that others wrote. */
  taint: Taint;
  /** The folders that others may name: the workspace, and the skill's own. */
  inside: readonly string[];
  task: Task;
  effort?: string | undefined;
  asked?: string | undefined;
  limits: { iterations: number; toolSeconds: number };
  budget: Budget;
  hiding: Hiding;
  costOf(usage: Usage): number | undefined;
  signal: AbortSignal;
}

export interface LoopEnd {
  stop: Stop;
  /** The answer, or the last that was said. */
  text: string;
  iterations: number;
  usage: Usage;
  cost: number | undefined;
  /** What went wrong. */
  error?: SkillError;
  /** What somebody should look at although it went well. */
  warning?: Notice;
}

/** What a run within a run gets from the one around it. */
export interface Within {
  /** Its name, the same however often it is begun. */
  id: string;
  /** The run around it. */
  parent: string;
  port: Port;
  budget: Budget;
  /** The model that was asked for by name. */
  asked: string | undefined;
  /** What the one around it has read. */
  taint: Taint;
}

/** A tool whose call is a run of its own, with steps and limits of its own. */
export interface RunTool extends Tool {
  executeWithin(input: unknown, options: CallOptions, within: Within): Promise<ToolResult>;
}

export function isRunTool(tool: Tool): tool is RunTool {
  return "executeWithin" in tool;
}

/** An event without whose it is. */
type Happening = RunEvent extends infer E ? (E extends unknown ? Omit<E, "run" | "skill" | "at"> : never) : never;

/** Says what happens in this run. */
export function emit(port: Port, { run, skill }: { run: string; skill: string }, event: Happening): void {
  port.emit({ run, skill, at: new Date().toISOString(), ...event } as RunEvent);
}

export function plus(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
  };
}
