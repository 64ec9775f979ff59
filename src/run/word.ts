import { type Effect, wordOf } from "../host/approvals.ts";
import type { ToolCall } from "../host/models.ts";
import { privilegedIn } from "../policy/taint.ts";
import { inLine } from "../shared/prompt.ts";
import type { Tool, ToolEffect } from "../skill/tool.ts";
import { isGranted } from "../skill/tool-grant.ts";
import { wordFor } from "./gate.ts";
import type { LoopOptions } from "./loop-options.ts";
import { completeInput, gistOf, shownOrigins } from "./shown.ts";

/** What was read; nothing, where whoever sits there makes the call. */
type Read = Pick<LoopOptions, "taint" | "inside">;

/** What of a call somebody has to agree to first. Nothing when nobody does, or somebody has for the whole run. */
export async function effectToAgree(
  options: Pick<LoopOptions, "run" | "skill" | "owner" | "gates" | "agreed" | "hiding" | "workspace"> & Partial<Read>,
  tool: Tool,
  { input }: Pick<ToolCall, "input">,
): Promise<Effect | undefined> {
  const { run, gates, hiding, agreed } = options;
  const unlisted = wordFor(gates, tool.name, input);
  const changes = await changesOf(tool, input);
  // What a skill says beforehand that it will do covers what stays in the workspace, and nothing outside of it.
  const isSaid = changes?.on === "workspace" && isGranted(gates.at(-1)?.said ?? [], tool.name, input);
  const from = originsOf(options, { tool, input, isMutating: changes?.on === "outside" });
  if (unlisted === undefined && from.length === 0 && (changes === undefined || isSaid)) return undefined;
  const { name: skill = options.skill, source = "", place = "" } = tool.owner ?? options.owner ?? {};
  const say = (text: unknown) => inLine(hiding.text(String(text)), 500);
  const { what, amount, isReversible } = changes ?? {};
  // A word on the workspace is none on what the skill did not say that it would do.
  const on = unlisted === undefined ? (changes?.on ?? "other") : "other";
  // Which workspace it is, is not for a tool to say.
  const where = on === "workspace" ? options.workspace : changes?.where;
  const effect: Effect = {
    ...{ run, skill, source, place, tool: tool.name, on },
    input: completeInput(input, hiding),
    what: say(what ?? gistOf(input) ?? tool.description),
    ...(where === undefined ? {} : { where: say(where) }),
    ...(amount === undefined ? {} : { amount: say(amount) }),
    ...(isReversible === undefined ? {} : { isReversible: isReversible === true }),
    reason: unlisted === undefined ? REASONS[on] : say(unlisted),
    ...(from.length === 0 ? {} : { reason: `what it is given comes from: ${from.join(", ")}`, from, isOnce: true }),
  };
  return agreed.has(wordOf(effect)) ? undefined : effect;
}

/** Where that came from which text of others may not decide. */
function originsOf(
  { owner, hiding, taint, inside = [] }: Pick<LoopOptions, "owner" | "hiding"> & Partial<Read>,
  call: { tool: Tool; input: unknown; isMutating: boolean },
): string[] {
  if (!taint) return [];
  return shownOrigins(taint.originsOfLeaves(privilegedIn({ ...call, own: owner?.name, inside })), hiding);
}

const REASONS: Record<Effect["on"], string> = {
  workspace: "it changes files of the workspace",
  outside: "it changes something outside of the workspace",
  other: "nobody has said that it may",
};

/** A tool that cannot say what it does may do anything. */
async function changesOf(tool: Tool, input: unknown): Promise<ToolEffect | undefined> {
  if (!tool.effect) return undefined;
  const { promise: late, resolve } = Promise.withResolvers<ToolEffect>();
  const timer = setTimeout(resolve, LONGEST_MS, { on: "outside" });
  try {
    const effect = await Promise.race([tool.effect(structuredClone(input)), late]);
    if (effect === undefined) return undefined;
    return effect.on === "workspace" ? effect : { ...effect, on: "outside" };
  } catch {
    return { on: "outside" };
  } finally {
    clearTimeout(timer);
  }
}

const LONGEST_MS = 5000;
