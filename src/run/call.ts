import type { CallResult, ToolCall } from "../host/models.ts";
import { inLine, inTag } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { nearest } from "../shared/text.ts";
import { safely } from "../skill/safely.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { blockOf, COMPLETE, wordFor } from "./gate.ts";
import { emit, type LoopEnd, type LoopOptions } from "./loop.ts";
import type { Port } from "./port.ts";
import { shortened } from "./printed.ts";

const MOST_CALLS = 32;

export interface Answered {
  results: CallResult[];
  completed?: Pick<LoopEnd, "stop" | "text">;
}

/** Makes the calls, one after the other. What follows a `complete` is not made. */
export async function answer(
  port: Port,
  options: LoopOptions,
  calls: readonly ToolCall[],
  step: number,
): Promise<Answered> {
  const results: CallResult[] = [];
  let completed: Answered["completed"];
  for (const [index, call] of calls.entries()) {
    const { id, tool } = call;
    let result: ToolResult;
    if (completed) result = refusal("not-made", "It was not made: the run was completed before it.");
    else if (index >= MOST_CALLS)
      result = refusal("too-many-calls", `It was not made: at most ${MOST_CALLS} calls are made at once.`);
    else
      result = await port.step(`tool:${step}.${index + 1}`, () => perform(port, options, call, `${step}.${index + 1}`));
    if (tool === COMPLETE && !result.isError) completed = completionOf(call, result);
    results.push({ id, tool, content: result.content, isError: result.isError });
  }
  return { results, ...(completed ? { completed } : {}) };
}

function completionOf({ input }: ToolCall, { content }: ToolResult): NonNullable<Answered["completed"]> {
  return { stop: (input as { failed?: unknown }).failed === true ? "failed" : "complete", text: content };
}

async function perform(port: Port, options: LoopOptions, call: ToolCall, place: string): Promise<ToolResult> {
  const { hiding, limits } = options;
  const step = Number.parseInt(place, 10);
  const { tool: name, input } = call;
  const block = async (result: ToolResult) => {
    emit(port, options, {
      type: "tool-blocked",
      step,
      tool: inLine(name, 64),
      code: result.code ?? "",
      message: hiding.text(result.content),
    });
    return { ...result, content: hiding.text(result.content) };
  };
  const tool = options.tools.find((candidate) => candidate.name === name);
  const refused = tool ? await refusalOf(port, options, call, place) : unknownTool(name, options.tools);
  if (!tool || refused) return block(refused ?? unknownTool(name, options.tools));
  emit(port, options, { type: "tool-called", step, tool: name, input: shown(input, hiding) });
  const start = performance.now();
  const { content, ...result } = await bounded(tool, input, options);
  const text = hiding.text(name === COMPLETE ? content : forModel(tool, content, limits.toolOutput));
  const ms = Math.round(performance.now() - start);
  const code = result.code === undefined ? {} : { code: result.code };
  emit(port, options, {
    type: "tool-ended",
    step,
    tool: name,
    isError: result.isError,
    ...code,
    ms,
    characters: text.length,
  });
  return { ...result, content: text };
}

async function refusalOf(
  port: Port,
  options: LoopOptions,
  call: ToolCall,
  place: string,
): Promise<ToolResult | undefined> {
  const { tool, input, problem } = call;
  if (problem !== undefined) return refusal("input-invalid", `Invalid input: ${inLine(problem, 300)}`);
  const block = blockOf(options.gates, tool, input);
  if (block) return refusal(block.code, `${block.message}: ${block.fix}`);
  const reason = wordFor(options.gates, tool, input);
  if (reason === undefined) return undefined;
  const approval = await port.approval(`approval:${place}`, { skill: options.skill, tool, input, reason });
  if (approval.isApproved) return undefined;
  return refusal(
    "tool-blocked",
    `Tool '${tool}' was not approved: ${reason}${approval.reason ? `, and ${approval.reason}` : ""}`,
  );
}

function unknownTool(name: string, tools: readonly Tool[]): ToolResult {
  const names = tools.map((tool) => tool.name);
  const meant = nearest(name, names);
  const there = names.length === 0 ? "there are none" : `there are ${names.join(", ")}`;
  return refusal(
    "tool-unknown",
    `There is no tool "${inLine(name, 64)}"${meant ? `; did you mean "${meant}"?` : ""} Offered: ${there}.`,
  );
}

/** What a tool gave, for the model: bounded, labelled as data, with what cannot be seen written out. Tools of ours do so themselves. */
function forModel({ name, category }: Tool, content: string, most: number): string {
  if (category === "workspace" || category === "skills") return content;
  return inTag("skill_output", { tool: name }, shortened(content, most));
}

/** How long a tool may take to end once it was told to. */
const GRACE_MS = 2000;

/** One call, in time: a tool that hangs is an error, never a stuck run. */
async function bounded(tool: Tool, input: unknown, { signal, limits }: LoopOptions): Promise<ToolResult> {
  const inner = new AbortController();
  const { promise, resolve } = Promise.withResolvers<ToolResult>();
  let grace: NodeJS.Timeout | undefined;
  const stop = (result: ToolResult) => {
    inner.abort();
    grace ??= setTimeout(() => resolve(result), GRACE_MS);
  };
  const onAbort = () => stop(refusal("aborted", "It was interrupted."));
  const seconds = tool.name === "use_skill" ? 0 : limits.toolSeconds;
  const late = () => stop(refusal("tool-timeout", `It did not end within ${seconds} seconds.`));
  const timer = seconds > 0 ? setTimeout(late, seconds * 1000) : undefined;
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    return await Promise.race([safely(() => tool.execute(input, { signal: inner.signal })), promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    clearTimeout(timer);
    clearTimeout(grace);
  }
}

const LONGEST_SHOWN = 2000;

/** What a tool was called with, for those who look on: bounded, without secrets. */
function shown(input: unknown, hiding: Hiding): unknown {
  if (typeof input === "string") {
    const text = hiding.text(input);
    return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
  }
  if (Array.isArray(input)) return input.slice(0, 100).map((item) => shown(item, hiding));
  if (input === null || typeof input !== "object") return input;
  const entries = Object.entries(input).slice(0, 100);
  return Object.fromEntries(entries.map(([key, value]) => [hiding.text(key), shown(value, hiding)]));
}

function refusal(code: string, content: string): ToolResult {
  return { content, isError: true, code };
}
