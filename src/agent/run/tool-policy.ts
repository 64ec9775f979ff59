import type { Host } from "../../config/host.ts";
import { getErrorMessage, type Problem } from "../../errors/problem.ts";
import {
  type Approval,
  type ApprovalRequest,
  type Approve,
  getApprovalKey,
  parseApproval,
} from "../../host/approval.ts";
import type { ToolCall } from "../../host/model-contract.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tool, ToolEffect } from "../../skill/tool.ts";
import { hasGrantFor, isToolCallForbidden, isToolCallGranted } from "../../skill/tool-grants.ts";
import { expandToolNames } from "../../skill/tool-names.ts";
import type { Redactor } from "../../util/redact.ts";
import { formatNumber } from "../../util/text.ts";
import { raceWithAbort } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findPrivilegedInput } from "../policy/taint-policy.ts";
import type { AgentLoopOptions } from "./agent-loop.ts";

/** What one skill says about tools. Those of the skills that called it hold too: none gets more than its caller. */
export interface ToolPolicy {
  skill: string;
  allowed: readonly string[];
  preapproved: readonly string[];
  /** What of that the skill says itself: not what it brings. */
  said: readonly string[];
  disallowed: readonly string[];
}

/** Ends the run, whatever else is allowed. */
export const COMPLETE_TOOL = "complete";
/** Reading what came with the skill is nothing to ask for. */
const UNASKED_TOOLS = new Set([COMPLETE_TOOL, "read_skill_resource"]);

export interface AvailableTools {
  /** What there is, by its whole name. */
  names: readonly string[];
  /** What the skill brings itself: nobody has to allow it what is its own. */
  own: readonly string[];
}

/** What holds for a run of this skill: what its callers say, and it itself. Names are those of the tools that there are. */
export function createToolPolicies(
  above: readonly ToolPolicy[],
  { name, manifest: { tools } }: Skill,
  { names, own }: AvailableTools,
): ToolPolicy[] {
  const said = expandToolNames(tools.preapproved, names);
  const gate: ToolPolicy = {
    skill: name,
    allowed: expandToolNames(tools.allowed, names),
    preapproved: said,
    said,
    disallowed: expandToolNames(tools.disallowed, names, "all"),
  };
  const withOwn = (list: readonly string[]) => (list.length === 0 ? list : [...list, ...own]);
  return [...above, gate].map((one) => ({
    ...one,
    allowed: withOwn(one.allowed),
    preapproved: withOwn(one.preapproved),
  }));
}

/** Whether a tool is shown to the model at all. */
export function isToolOffered(gates: readonly ToolPolicy[], tool: string): boolean {
  if (tool === COMPLETE_TOOL) return true;
  return gates.every(({ allowed, disallowed }) => {
    if (allowed.length > 0 && !hasGrantFor(allowed, tool)) return false;
    return !isToolCallForbidden(disallowed, tool, undefined);
  });
}

/** Why a call may not be made. */
export function findToolBlock(gates: readonly ToolPolicy[], tool: string, input: unknown): Problem | undefined {
  if (tool === COMPLETE_TOOL) return undefined;
  for (const { skill, allowed, disallowed } of gates) {
    if (allowed.length > 0 && !isToolCallGranted(allowed, tool, input)) {
      return createToolBlock(
        `Tool '${tool}' is not allowed so for skill '${skill}'${formatCallSubject(input)}`,
        `it may use: ${allowed.join(", ")}`,
      );
    }
    if (isToolCallForbidden(disallowed, tool, input)) {
      return createToolBlock(
        `Skill '${skill}' forbids tool '${tool}' so${formatCallSubject(input)}`,
        `it forbids: ${disallowed.join(", ")}`,
      );
    }
  }
  return undefined;
}

/** Why a call needs somebody's word: a skill that says what it may do without asking asks for the rest. */
function findMissingPreapproval(gates: readonly ToolPolicy[], tool: string, input: unknown): string | undefined {
  if (UNASKED_TOOLS.has(tool)) return undefined;
  const gate = gates.find(({ preapproved }) => preapproved.length > 0 && !isToolCallGranted(preapproved, tool, input));
  return gate && `skill '${gate.skill}' is allowed beforehand only: ${gate.preapproved.join(", ")}`;
}

/** Which call it was: of several, the model and the user should know. */
function formatCallSubject(input: unknown): string {
  const what = summarizeInput(input);
  return what === undefined ? "" : ` (${sanitizeLine(what, 120)})`;
}

function createToolBlock(message: string, fix: string): Problem {
  return { code: "tool-blocked", message, fix };
}

/** What was read; nothing, where whoever sits there makes the call. */
type ReadContext = Pick<AgentLoopOptions, "taint" | "inside">;

/** What of a call somebody has to agree to first. Nothing when nobody does, or somebody has for the whole run. */
export async function createApprovalRequest(
  options: Pick<AgentLoopOptions, "run" | "skill" | "owner" | "gates" | "agreed" | "hiding" | "workspace"> &
    Partial<ReadContext>,
  tool: Tool,
  { input }: Pick<ToolCall, "input">,
): Promise<ApprovalRequest | undefined> {
  const { run, gates, hiding, agreed } = options;
  const unlisted = findMissingPreapproval(gates, tool.name, input);
  const changes = await readToolEffect(tool, input);
  // What a skill says beforehand that it will do covers what stays in the workspace, and nothing outside of it.
  const isSaid = changes?.on === "workspace" && isToolCallGranted(gates.at(-1)?.said ?? [], tool.name, input);
  const from = findTaintOrigins(options, { tool, input, isMutating: changes?.on === "outside" });
  if (unlisted === undefined && from.length === 0 && (changes === undefined || isSaid)) return undefined;
  const { name: skill = options.skill, source = "", place = "" } = tool.owner ?? options.owner ?? {};
  const say = (text: unknown) => sanitizeLine(hiding.text(String(text)), 500);
  const { what, amount, isReversible } = changes ?? {};
  // A word on the workspace is none on what the skill did not say that it would do.
  const on = unlisted === undefined ? (changes?.on ?? "other") : "other";
  // Which workspace it is, is not for a tool to say.
  const where = on === "workspace" ? options.workspace : changes?.where;
  const effect: ApprovalRequest = {
    ...{ run, skill, source, place, tool: tool.name, on },
    input: redactInput(input, hiding),
    what: say(what ?? summarizeInput(input) ?? tool.description),
    ...(where === undefined ? {} : { where: say(where) }),
    ...(amount === undefined ? {} : { amount: say(amount) }),
    ...(isReversible === undefined ? {} : { isReversible: isReversible === true }),
    reason: unlisted === undefined ? APPROVAL_REASONS[on] : say(unlisted),
    ...(from.length === 0 ? {} : { reason: `what it is given comes from: ${from.join(", ")}`, from, isOnce: true }),
  };
  return agreed.has(getApprovalKey(effect)) ? undefined : effect;
}

/** Where that came from which text of others may not decide. */
function findTaintOrigins(
  { owner, hiding, taint, inside = [] }: Pick<AgentLoopOptions, "owner" | "hiding"> & Partial<ReadContext>,
  call: { tool: Tool; input: unknown; isMutating: boolean },
): string[] {
  if (!taint) return [];
  return formatOrigins(taint.originsOfLeaves(findPrivilegedInput({ ...call, own: owner?.name, inside })), hiding);
}

const APPROVAL_REASONS: Record<ApprovalRequest["on"], string> = {
  workspace: "it changes files of the workspace",
  outside: "it changes something outside of the workspace",
  other: "nobody has said that it may",
};

/** A tool that cannot say what it does may do anything. */
async function readToolEffect(tool: Tool, input: unknown): Promise<ToolEffect | undefined> {
  if (!tool.effect) return undefined;
  const { promise: late, resolve } = Promise.withResolvers<ToolEffect>();
  const timer = setTimeout(resolve, MAX_EFFECT_MS, { on: "outside" });
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

const MAX_EFFECT_MS = 5000;

/** Somebody is to agree to what a call would do. */
export interface RequestApprovalOptions {
  effect: ApprovalRequest;
  signal: AbortSignal;
  /** Takes what nobody is shown out of a text. */
  hide(text: string): string;
  /** Called when somebody is really asked, and when they have answered: not for a word that was given before. */
  onAsked(): void;
  onGiven(approval: Approval): void;
}

export interface AnsweredApproval {
  approval: Approval;
  effect: ApprovalRequest;
}

export const NO_APPROVER: Approval = { isApproved: false, reason: "there is nobody to ask" };

/** What the user agreed to for ever, or says now. Nothing when nobody can be asked. */
export async function requestApproval(
  { approve, approvals }: Pick<Host, "approve" | "approvals">,
  { effect, signal, hide, onAsked, onGiven }: RequestApprovalOptions,
): Promise<Approval | undefined> {
  if (approvals?.isAlways(effect)) return { isApproved: true, scope: "always" };
  if (!approve) return undefined;
  onAsked();
  const word = await raceWithAbort(callApprove(approve, effect, signal), signal);
  if (word === undefined) return undefined;
  const approval = limitApprovalToOnce(effect, parseApproval(word, createLineRedactor(hide)));
  const kept = storeApproval(approvals, effect, approval);
  onGiven(kept);
  return kept;
}

/** A word on what is asked about each time is for this time, whatever was said. */
function limitApprovalToOnce({ isOnce }: ApprovalRequest, approval: Approval): Approval {
  return isOnce && approval.isApproved ? { ...approval, scope: "once" } : approval;
}

/** What cannot be written down holds for this run. */
function storeApproval(approvals: Host["approvals"], effect: ApprovalRequest, approval: Approval): Approval {
  if (!approval.isApproved || approval.scope !== "always") return approval;
  try {
    approvals?.add(effect);
    return approval;
  } catch {
    return { ...approval, scope: "run" };
  }
}

/** Who cannot ask has got no yes. */
async function callApprove(
  approve: Approve,
  effect: ApprovalRequest,
  signal: AbortSignal,
): Promise<Approval | undefined> {
  try {
    return await approve(effect, { signal });
  } catch (error) {
    return { isApproved: false, reason: `nobody could be asked: ${getErrorMessage(error)}` };
  }
}

function createLineRedactor(hide: (text: string) => string): (text: string) => string {
  return (text) => sanitizeLine(hide(text), 500);
}

const MAX_SHOWN_TEXT = 2000;
const MAX_SHOWN_DEPTH = 8;
const MAX_SHOWN_ITEMS = 100;

/** The one thing that says most of a call; nothing where no name tells which it is. */
export function summarizeInput(input: unknown): string | undefined {
  const { command, path, url, skill } = Object(input) as Record<string, unknown>;
  return [command, path, url, skill].find((value) => typeof value === "string");
}

const MAX_ORIGIN_LENGTH = 120;

/** Where a text came from, a line each: a command is named as the model wrote it, in as many lines as it likes. */
export function formatOrigins(labels: readonly string[], hiding: Redactor): string[] {
  return labels.map((label) => sanitizeLine(hiding.text(label), MAX_ORIGIN_LENGTH));
}

/** What a tool was called with, for events and logs: bounded, without secrets. What is left out is marked. */
export function shortenInput(input: unknown, hiding: Redactor, depth = 0): unknown {
  if (typeof input === "string") {
    const text = hiding.text(input);
    return text.length > MAX_SHOWN_TEXT
      ? `${text.slice(0, MAX_SHOWN_TEXT)}… (${formatNumber(text.length - MAX_SHOWN_TEXT)} more characters)`
      : text;
  }
  if (input === null || typeof input !== "object") {
    const text = hiding.text(String(input));
    return text === String(input) ? input : text;
  }
  if (depth === MAX_SHOWN_DEPTH) return "…";
  if (Array.isArray(input)) {
    return [
      ...input.slice(0, MAX_SHOWN_ITEMS).map((item) => shortenInput(item, hiding, depth + 1)),
      ...formatOmitted(input),
    ];
  }
  const entries = Object.entries(input);
  return Object.fromEntries([
    ...entries
      .slice(0, MAX_SHOWN_ITEMS)
      .map(([key, value]) => [shortenInput(key, hiding), shortenInput(value, hiding, depth + 1)]),
    ...formatOmitted(entries).map((said) => ["…", said]),
  ]);
}

/** The complete input of a call, for whoever approves it: nothing is left out, and only secrets are replaced. */
export function redactInput(input: unknown, hiding: Redactor, depth = 0): unknown {
  if (typeof input === "string") return hiding.text(input);
  if (input === null || typeof input !== "object") return shortenInput(input, hiding);
  if (depth === MAX_NESTED_INPUT) return hiding.text(JSON.stringify(input));
  if (Array.isArray(input)) return input.map((item) => redactInput(item, hiding, depth + 1));
  const complete: Record<string, unknown> = Object.create(null); // A key may be called `__proto__`.
  for (const [key, value] of Object.entries(input)) {
    // Two keys may look the same once secrets are replaced: none hides the other.
    const name = hiding.text(key);
    let shownKey = name;
    for (let number = 2; shownKey in complete; number++) shownKey = `${name} (${number})`;
    complete[shownKey] = redactInput(value, hiding, depth + 1);
  }
  return complete;
}

/** What is nested deeper is given as one text. */
const MAX_NESTED_INPUT = 50;

/** The same, with no more than the beginning of each text: where there is no room for all of it, no long one leaves another unseen. */
export function shortenTexts(value: unknown, longest: number): unknown {
  if (typeof value === "string") {
    const text = value.slice(0, longest);
    return text === value ? value : `${text}… (${formatNumber(value.length - longest)} more characters)`;
  }
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((item) => shortenTexts(item, longest));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortenTexts(item, longest)]));
}

function formatOmitted({ length }: readonly unknown[]): string[] {
  return length > MAX_SHOWN_ITEMS ? [`${formatNumber(length - MAX_SHOWN_ITEMS)} more`] : [];
}
