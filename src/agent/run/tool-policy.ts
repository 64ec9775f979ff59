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
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { formatNumber } from "../../util/text.ts";
import { raceWithAbort } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findPrivilegedInput } from "../policy/taint-policy.ts";
import type { AgentLoopOptions } from "./agent-loop.ts";

/** The tool lists of one skill. Those of its callers also apply: no skill gets more tools than its caller. */
export interface ToolPolicy {
  skill: string;
  allowed: readonly string[];
  preapproved: readonly string[];
  /** The preapproved tools from the manifest, without the tools that the skill provides. */
  declared: readonly string[];
  disallowed: readonly string[];
}

/** The tool that ends a run. It is always allowed. */
export const COMPLETE_TOOL = "complete";
/** Tools that need no approval. Reading the skill's own files has no side effect. */
const UNASKED_TOOLS = new Set([COMPLETE_TOOL, "read_skill_resource"]);

export interface AvailableTools {
  /** The full names of all tools. */
  names: readonly string[];
  /** The tools that the skill itself provides: they need no permission. */
  own: readonly string[];
}

/** Creates the policies for a run of this skill: those of its callers and its own. Names are resolved to the available tools. */
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
    declared: said,
    disallowed: expandToolNames(tools.disallowed, names, "all"),
  };
  const withOwn = (list: readonly string[]) => (list.length === 0 ? list : [...list, ...own]);
  return [...above, gate].map((one) => ({
    ...one,
    allowed: withOwn(one.allowed),
    preapproved: withOwn(one.preapproved),
  }));
}

/** Returns true if a tool is offered to the model. */
export function isToolOffered(toolPolicies: readonly ToolPolicy[], tool: string): boolean {
  if (tool === COMPLETE_TOOL) return true;
  return toolPolicies.every(({ allowed, disallowed }) => {
    if (allowed.length > 0 && !hasGrantFor(allowed, tool)) return false;
    return !isToolCallForbidden(disallowed, tool, undefined);
  });
}

/** Returns why a call may not be made, or undefined if it may. */
export function findToolBlock(toolPolicies: readonly ToolPolicy[], tool: string, input: unknown): Problem | undefined {
  if (tool === COMPLETE_TOOL) return undefined;
  for (const { skill, allowed, disallowed } of toolPolicies) {
    if (allowed.length > 0 && !isToolCallGranted(allowed, tool, input)) {
      return createToolBlock(
        `Tool '${tool}' is not allowed for skill '${skill}' with this input${formatCallSubject(input)}`,
        `it may use: ${allowed.join(", ")}`,
      );
    }
    if (isToolCallForbidden(disallowed, tool, input)) {
      return createToolBlock(
        `Skill '${skill}' forbids tool '${tool}' with this input${formatCallSubject(input)}`,
        `it forbids: ${disallowed.join(", ")}`,
      );
    }
  }
  return undefined;
}

/** Returns why a call needs approval: a skill with a preapproved list needs approval for all other calls. */
function findMissingPreapproval(toolPolicies: readonly ToolPolicy[], tool: string, input: unknown): string | undefined {
  if (UNASKED_TOOLS.has(tool)) return undefined;
  const gate = toolPolicies.find(
    ({ preapproved }) => preapproved.length > 0 && !isToolCallGranted(preapproved, tool, input),
  );
  return gate && `skill '${gate.skill}' has preapproval only for: ${gate.preapproved.join(", ")}`;
}

/** Formats the main input, so that the model and the user know which of several calls it was. */
function formatCallSubject(input: unknown): string {
  const what = summarizeInput(input);
  return what === undefined ? "" : ` (${sanitizeLine(what, 120)})`;
}

function createToolBlock(message: string, fix: string): Problem {
  return { code: "tool-blocked", message, fix };
}

/** The untrusted text that was read; absent if the user makes the call directly. */
type ReadContext = Pick<AgentLoopOptions, "taint" | "allowedFolders">;

/** Returns the approval request for a tool call, or undefined if none is needed or one was approved for the whole run. */
export async function createApprovalRequest(
  options: Pick<
    AgentLoopOptions,
    "run" | "skill" | "owner" | "toolPolicies" | "approvedKeys" | "redactor" | "workspace"
  > &
    Partial<ReadContext>,
  tool: Tool,
  { input }: Pick<ToolCall, "input">,
): Promise<ApprovalRequest | undefined> {
  const { run, toolPolicies, redactor, approvedKeys } = options;
  const unlisted = findMissingPreapproval(toolPolicies, tool.name, input);
  const changes = await readToolEffect(tool, input);
  // Preapproval by the skill covers changes in the workspace only.
  const isSaid =
    changes?.on === "workspace" && isToolCallGranted(toolPolicies.at(-1)?.declared ?? [], tool.name, input);
  const from = findTaintOrigins(options, { tool, input, isMutating: changes?.on === "outside" });
  if (unlisted === undefined && from.length === 0 && (changes === undefined || isSaid)) return undefined;
  const { name: skill = options.skill, source = "", location = "", digest } = tool.owner ?? options.owner ?? {};
  const say = (text: unknown) => sanitizeLine(redactor.redact(String(text)), 500);
  const { what, amount, isReversible } = changes ?? {};
  // Approval for the workspace does not cover a call that the skill did not declare.
  const on = unlisted === undefined ? (changes?.on ?? "other") : "other";
  // A tool does not decide which workspace is shown.
  const where = on === "workspace" ? options.workspace : changes?.where;
  const request: ApprovalRequest = {
    ...{ run, skill, source, location, ...omitUndefined({ digest }), tool: tool.name, on },
    input: redactInput(input, redactor),
    what: say(what ?? summarizeInput(input) ?? tool.description),
    ...(where === undefined ? {} : { where: say(where) }),
    ...(amount === undefined ? {} : { amount: say(amount) }),
    ...(isReversible === undefined ? {} : { isReversible: isReversible === true }),
    reason: unlisted === undefined ? APPROVAL_REASONS[on] : say(unlisted),
    ...(from.length === 0 ? {} : { reason: `its input comes from: ${from.join(", ")}`, from, isOnce: true }),
  };
  return approvedKeys.has(getApprovalKey(request)) ? undefined : request;
}

/** Returns the origins of untrusted text in the parts of the input that it may not decide. */
function findTaintOrigins(
  {
    owner,
    redactor,
    taint,
    allowedFolders: inside = [],
  }: Pick<AgentLoopOptions, "owner" | "redactor"> & Partial<ReadContext>,
  call: { tool: Tool; input: unknown; isMutating: boolean },
): string[] {
  if (!taint) return [];
  return formatOrigins(
    taint.findLeafOrigins(findPrivilegedInput({ ...call, ownSkill: owner?.name, allowedFolders: inside })),
    redactor,
  );
}

const APPROVAL_REASONS: Record<ApprovalRequest["on"], string> = {
  workspace: "it changes files of the workspace",
  outside: "it changes something outside the workspace",
  other: "it was not approved before",
};

/** Returns the declared effect of a call. A tool that fails to declare one may do anything. */
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

/** A request for approval, and its callbacks. */
export interface RequestApprovalOptions {
  request: ApprovalRequest;
  signal: AbortSignal;
  /** Removes secrets from a text. */
  redact(text: string): string;
  /** Called when the user is actually asked, and when they answer: not for a stored approval. */
  onRequested(): void;
  onAnswered(approval: Approval): void;
}

export interface AnsweredApproval {
  approval: Approval;
  request: ApprovalRequest;
}

export const NO_APPROVER: Approval = { isApproved: false, reason: "no approver is available" };

/** Returns the stored approval or asks the user. Resolves with undefined if no one can be asked. */
export async function requestApproval(
  { approve, approvals }: Pick<Host, "approve" | "approvals">,
  { request, signal, redact: hide, onRequested, onAnswered }: RequestApprovalOptions,
): Promise<Approval | undefined> {
  if (await approvals?.isAlwaysApproved(request)) return { isApproved: true, scope: "always" };
  if (!approve) return undefined;
  onRequested();
  const word = await raceWithAbort(callApprove(approve, request, signal), signal);
  if (word === undefined) return undefined;
  const approval = limitApprovalToOnce(request, parseApproval(word, createLineRedactor(hide)));
  const kept = await storeApproval(approvals, request, approval);
  onAnswered(kept);
  return kept;
}

/** Limits an approval to this call if the request must be asked each time. */
function limitApprovalToOnce({ isOnce }: ApprovalRequest, approval: Approval): Approval {
  return isOnce && approval.isApproved ? { ...approval, scope: "once" } : approval;
}

/** Stores a permanent approval. If that fails, or no store is configured, it holds for this run. */
async function storeApproval(
  approvals: Host["approvals"],
  request: ApprovalRequest,
  approval: Approval,
): Promise<Approval> {
  if (!approval.isApproved || approval.scope !== "always") return approval;
  try {
    if (approvals) {
      await approvals.add(request);
      return approval;
    }
  } catch {} // The user has approved it: it holds for this run at least.
  return { ...approval, scope: "run" };
}

/** Calls the host's `approve`. An error counts as a denial. */
async function callApprove(
  approve: Approve,
  request: ApprovalRequest,
  signal: AbortSignal,
): Promise<Approval | undefined> {
  try {
    return await approve(request, { signal });
  } catch (error) {
    return { isApproved: false, reason: `asking for approval failed: ${getErrorMessage(error)}` };
  }
}

function createLineRedactor(hide: (text: string) => string): (text: string) => string {
  return (text) => sanitizeLine(hide(text), 500);
}

const MAX_SHOWN_TEXT = 2000;
const MAX_SHOWN_DEPTH = 8;
const MAX_SHOWN_ITEMS = 100;

/** Returns the most telling field of an input, or undefined if it has none of the known fields. */
export function summarizeInput(input: unknown): string | undefined {
  const { command, path, url, skill } = Object(input) as Record<string, unknown>;
  return [command, path, url, skill].find((value) => typeof value === "string");
}

const MAX_ORIGIN_LENGTH = 120;

/** Formats the origins of a text, one line each: a command may contain line breaks. */
export function formatOrigins(labels: readonly string[], redactor: Redactor): string[] {
  return labels.map((label) => sanitizeLine(redactor.redact(label), MAX_ORIGIN_LENGTH));
}

/** Shortens the input of a call for events and logs, without secrets. Omissions are marked. */
export function shortenInput(input: unknown, redactor: Redactor, depth = 0): unknown {
  if (typeof input === "string") {
    const text = redactor.redact(input);
    return text.length > MAX_SHOWN_TEXT
      ? `${text.slice(0, MAX_SHOWN_TEXT)}… (${formatNumber(text.length - MAX_SHOWN_TEXT)} more characters)`
      : text;
  }
  if (input === null || typeof input !== "object") {
    const text = redactor.redact(String(input));
    return text === String(input) ? input : text;
  }
  if (depth === MAX_SHOWN_DEPTH) return "…";
  if (Array.isArray(input)) {
    return [
      ...input.slice(0, MAX_SHOWN_ITEMS).map((item) => shortenInput(item, redactor, depth + 1)),
      ...formatOmitted(input),
    ];
  }
  const entries = Object.entries(input);
  return Object.fromEntries([
    ...entries
      .slice(0, MAX_SHOWN_ITEMS)
      .map(([key, value]) => [shortenInput(key, redactor), shortenInput(value, redactor, depth + 1)]),
    ...formatOmitted(entries).map((said) => ["…", said]),
  ]);
}

/** Returns the complete input of a call for approval: nothing is omitted, only secrets are replaced. */
export function redactInput(input: unknown, redactor: Redactor, depth = 0): unknown {
  if (typeof input === "string") return redactor.redact(input);
  if (input === null || typeof input !== "object") return shortenInput(input, redactor);
  if (depth === MAX_NESTED_INPUT) return redactor.redact(JSON.stringify(input));
  if (Array.isArray(input)) return input.map((item) => redactInput(item, redactor, depth + 1));
  const complete: Record<string, unknown> = Object.create(null); // A key may be called `__proto__`.
  for (const [key, value] of Object.entries(input)) {
    // Two keys may be equal once secrets are replaced: neither hides the other.
    const name = redactor.redact(key);
    let shownKey = name;
    for (let number = 2; shownKey in complete; number++) shownKey = `${name} (${number})`;
    complete[shownKey] = redactInput(value, redactor, depth + 1);
  }
  return complete;
}

/** Deeper data is shown as one JSON text. */
const MAX_NESTED_INPUT = 50;

/** Shortens each text in a value, so that one long text does not push the others out of view. */
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
