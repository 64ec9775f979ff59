import type { ErrorCode } from "../codes/codes.ts";
import { isForRun, wordOf } from "../host/approvals.ts";
import { type CallResult, NO_USAGE, type ToolCall, type Usage } from "../host/models.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import { safely } from "../skill/safely.ts";
import type { CallOptions, Tool, ToolResult } from "../skill/tool.ts";
import { wireName } from "../skill/wire-name.ts";
import { blockOf, COMPLETE } from "./gate.ts";
import { callInTime } from "./in-time.ts";
import { emit, isRunTool, type LoopEnd, type LoopOptions, plus } from "./loop-options.ts";
import { hideIn } from "./notice.ts";
import type { Port } from "./port.ts";
import { unlabelled } from "./printed.ts";
import { shown } from "./shown.ts";
import { noteResult } from "./taint.ts";
import { effectToAgree } from "./word.ts";

const MOST_CALLS = 32;
const MOST_PROGRESS = 1000;

interface Answered {
  results: CallResult[];
  completed?: Pick<LoopEnd, "stop" | "text">;
  /** What runs within this one used. */
  usage: Usage;
  cost: number | undefined;
}

/** Makes the calls, one after the other. What follows a `complete` is not made. */
export async function answer(
  port: Port,
  options: LoopOptions,
  calls: readonly ToolCall[],
  step: number,
): Promise<Answered> {
  const answered: Answered = { results: [], usage: NO_USAGE, cost: undefined };
  for (const [index, call] of calls.entries()) {
    const { id, tool } = call;
    const why = unmade(index, answered, options);
    const result = why ?? (await make(port, options, call, { step, place: `${step}.${index + 1}` }));
    if (tool === COMPLETE && !result.isError) {
      const isFailed = (call.input as { failed?: unknown } | null)?.failed === true;
      answered.completed = { stop: isFailed ? "failed" : "complete", text: result.content };
    }
    if (result.usage) answered.usage = plus(answered.usage, result.usage);
    if (result.cost !== undefined) answered.cost = (answered.cost ?? 0) + result.cost;
    answered.results.push({ id, tool, content: result.content, isError: result.isError });
  }
  return answered;
}

function unmade(index: number, { completed }: Answered, { signal }: LoopOptions): ToolResult | undefined {
  if (completed) return refusal("not-made", "It was not made: the run was completed before it.");
  if (signal.aborted) return refusal("aborted", "It was not made: the run was interrupted.");
  if (index < MOST_CALLS) return undefined;
  return refusal("too-many-calls", `It was not made: at most ${MOST_CALLS} calls are made at once.`);
}

interface Place {
  step: number;
  /** `3.2`: the second call of the third step. */
  place: string;
}

/** Prepares a call, executes it, and says what came of it. What speaks against it is an ordinary result. */
async function make(port: Port, options: LoopOptions, call: ToolCall, at: Place): Promise<ToolResult> {
  const { run, budget, asked } = options;
  const { place } = at;
  const tool = [...options.tools(), ...(options.unlisted ?? [])].find(({ name }) => name === call.tool);
  const refused = tool
    ? await refusalOf(port, options, tool, call, at)
    : (revokedCall(options, call) ?? untold(call.tool, options));
  const name = `tool:${place}`;
  if (!tool || refused) return port.step(name, async () => block(port, options, call, at.step, refused));
  const callOptions = optionsFor(port, options, tool, at);
  const noted = (result: ToolResult) => {
    noteResult(options.taint, { tool, input: call.input, own: options.owner?.name }, result);
    return result;
  };
  if (!isRunTool(tool)) {
    const made = port.step(name, async () => {
      const finish = begin(port, options, call, at);
      return finish(await callInTime(tool, call.input, callOptions, options.limits.toolSeconds, port.waited));
    });
    return noted(await made);
  }
  const started = performance.now();
  // A run has steps of its own: so it is in none, and only what is said of it is.
  await port.step(`call:${place}`, async () => {
    begin(port, options, call, at);
    return true;
  });
  const { taint } = options;
  const within = { id: `${run}.${place}`, parent: run, port: port.within(place), budget, asked, taint };
  const result = await safely(() => tool.executeWithin(call.input, callOptions, within));
  return noted(await port.step(name, async () => finished(port, options, call, { ...at, started }, result)));
}

/** What a call comes with: variables go only to the skill that declares them. */
function optionsFor(
  port: Port,
  options: LoopOptions,
  { name, owner }: Tool,
  { step, place }: Place,
): CallOptions & { signal: AbortSignal } {
  const { run, signal, context, hiding } = options;
  const skill = owner ?? options.owner;
  let said = 0;
  const isOwn = skill?.place === options.owner?.place && skill?.name === options.owner?.name;
  return {
    ...(context.sandbox ? { sandbox: context.sandbox } : {}),
    ...(isOwn && context.env ? { env: context.env } : {}),
    ...(skill ? { skill } : {}),
    run,
    signal,
    key: `${run}:${place}`,
    onProgress(text) {
      if (++said > MOST_PROGRESS) return; // Nobody reads more.
      emit(port, options, { type: "tool-progressed", step, tool: name, text: inLine(hiding.text(text), 300) });
    },
  };
}

/** Says that a call is made; what it gives says what came of it. */
function begin(port: Port, options: LoopOptions, call: ToolCall, at: Place): (result: ToolResult) => ToolResult {
  const { tool, input } = call;
  emit(port, options, { type: "tool-called", step: at.step, tool, input: shown(input, options.hiding) });
  const started = performance.now();
  return (result) => finished(port, options, call, { ...at, started }, result);
}

function finished(
  port: Port,
  options: LoopOptions,
  { tool }: ToolCall,
  { step, started }: Place & { started: number },
  { content, isError, code, title, ...more }: ToolResult,
): ToolResult {
  const text = options.hiding.text(String(content));
  const ms = Math.max(0, Math.round(performance.now() - started));
  const coded = code === undefined ? {} : { code: inLine(options.hiding.text(String(code)), 64) };
  const titled = title === undefined ? {} : { title: inLine(options.hiding.text(title), 200) };
  const wrong = isError ? { message: inLine(unlabelled(text), 300) } : {};
  const ended = {
    type: "tool-ended",
    step,
    tool,
    isError,
    ...coded,
    ...titled,
    ...wrong,
    ms,
    characters: text.length,
  } as const;
  emit(port, options, ended);
  return { ...hideIn(options.hiding, more), content: text, isError, ...coded, ...titled };
}

function block(port: Port, options: LoopOptions, { tool }: ToolCall, step: number, refused?: ToolResult): ToolResult {
  const { content = "", code = "" } = refused ?? {};
  const message = options.hiding.text(content);
  emit(port, options, { type: "tool-blocked", step, tool: inLine(options.hiding.text(tool), 64), code, message });
  return { content: message, isError: true, code };
}

async function refusalOf(
  port: Port,
  options: LoopOptions,
  tool: Tool,
  call: ToolCall,
  { step, place }: Place,
): Promise<ToolResult | undefined> {
  const { gates, agreed, signal } = options;
  const { input, problem } = call;
  const revoked = revokedCall(options, call);
  if (revoked) return revoked;
  if (problem !== undefined) return refusal("input-invalid", `Invalid input: ${inLine(problem, 300)}`);
  const blocked = blockOf(gates, tool.name, input);
  if (blocked) return refusal(blocked.code, inLine(`${blocked.message}: ${blocked.fix}`, 512));
  const effect = await effectToAgree(options, tool, call);
  if (!effect) return undefined;
  const about = { step, tool: tool.name };
  const { approval, effect: agreedTo } = await port.approval(`approval:${place}`, {
    effect,
    signal,
    hide: (text) => options.hiding.text(text),
    onAsked: () => emit(port, options, { type: "approval-asked", ...about, effect }),
    onGiven: (given) => emit(port, options, { type: "approval-given", ...about, ...given }),
  });
  if (isForRun(agreedTo, approval)) agreed.add(wordOf(agreedTo));
  if (approval.isApproved) return undefined;
  const said = approval.reason ? `. Why not: ${options.hiding.text(approval.reason)}` : "";
  return refusal("not-approved", inLine(`Tool '${tool.name}' was not approved: ${effect.reason}${said}`, 512));
}

/** Returns the refusal of a tool that was revoked since the run began. */
function revokedCall({ revoked }: LoopOptions, { tool }: ToolCall): ToolResult | undefined {
  const why = revoked?.(tool);
  return why && refusal(why.code, inLine(`${why.message}: ${why.fix}`, 512));
}

/** A tool that was not offered: it is not for this skill, or there is none. */
function untold(name: string, { tools, withheld, skill }: LoopOptions): ToolResult {
  const names = tools().map((tool) => wireName(tool.name)); // As the model knows them.
  const offered = names.join(", ");
  if (withheld.includes(name)) {
    return refusal("tool-blocked", `Tool '${name}' is not allowed for skill '${skill}': it may use: ${offered}`);
  }
  const meant = nearest(name, names);
  const near = meant ? `did you mean "${meant}"? ` : "";
  return refusal("tool-unknown", `There is no tool "${inLine(name, 64)}"; ${near}there are: ${offered}`);
}

function refusal(code: ErrorCode, content: string): ToolResult {
  return { content, isError: true, code };
}
