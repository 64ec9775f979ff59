import { BUILT_IN_TOOLS, type Host } from "../../config/host.ts";
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
import { listSkillScripts } from "../../skill/skill-code.ts";
import type { Tool, ToolEffect } from "../../skill/tool.ts";
import { hasGrantFor, isToolCallForbidden, isToolCallGranted } from "../../skill/tool-grants.ts";
import { expandToolNames, isOtherClientTool, resolveEntryTool, toDottedToolName } from "../../skill/tool-names.ts";
import { raceWithAbort } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findInstructionCommands } from "../models/runbook.ts";
import { canProvideTool, formatToolFix, isToolDisabled } from "../policy/skill-policies.ts";
import { findPrivilegedInput } from "../policy/taint-tracker.ts";
import { formatSkillKey } from "../policy/trust-policy.ts";
import type { AgentLoopOptions } from "./agent-loop.ts";
import { createLineRedactor, redactInput, summarizeInput } from "./redaction.ts";

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
  const texts = expandToolNames(tools.preapproved, names);
  const gate: ToolPolicy = {
    skill: name,
    allowed: expandToolNames(tools.allowed, names),
    preapproved: texts,
    declared: texts,
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
  const answer = await raceWithAbort(callApprove(approve, request, signal), signal);
  if (answer === undefined) return undefined;
  const approval = limitApprovalToOnce(request, parseApproval(answer, createLineRedactor(hide)));
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

const MAX_ORIGIN_LENGTH = 120;

/** Formats the origins of a text, one line each: a command may contain line breaks. */
export function formatOrigins(labels: readonly string[], redactor: Redactor): string[] {
  return labels.map((label) => sanitizeLine(redactor.redact(label), MAX_ORIGIN_LENGTH));
}

/** Warns about tools under `allowed_tools` that no run of the skill can have here. Used before a run, in it, and when a skill is checked. */
export async function warnMissingTools(skill: Skill, host: Host): Promise<Problem[]> {
  const { allowed } = skill.manifest.tools;
  const isMissing = (entry: string) =>
    resolveEntryTool(entry) !== "*" && !isOtherClientTool(entry) && !canProvideTool(entry, host, skill);
  const findWarning = async (entry: string): Promise<Problem | Problem[]> => {
    const isClosed =
      resolveEntryTool(entry) === "web_fetch" && host.hasBuiltInTools !== false && !isToolDisabled("web_fetch", host);
    if (isClosed) return await warnClosedNetwork(skill);
    const meant = findNearest(
      resolveEntryTool(entry),
      BUILT_IN_TOOLS.map(({ name }) => name),
    );
    const isOurs = BUILT_IN_TOOLS.some(({ name }) => name === resolveEntryTool(entry));
    return {
      code: "tool-unmatched",
      message: `Skill '${skill.name}' lists ${sanitizeLine(entry, 64)}, which is not available`,
      fix: !isOurs && meant ? `did you mean ${meant}?` : formatToolFix(resolveEntryTool(entry), host, skill),
    };
  };
  return (await Promise.all(allowed.filter(isMissing).map(findWarning))).flat();
}

/** Warns about tools under `allowed_tools` that match no available tool and would be dropped silently. */
export async function warnUnmatchedTools(skill: Skill, names: readonly string[], host: Host): Promise<Problem[]> {
  const { name, manifest } = skill;
  const { tools } = manifest;
  const isOurs = (entry: string) => BUILT_IN_TOOLS.some((tool) => tool.name === resolveEntryTool(entry));
  const isMeant = (entry: string) =>
    expandToolNames([entry], names).some((one) => names.includes(resolveEntryTool(one)));
  const missing = tools.allowed.filter(
    (entry) =>
      resolveEntryTool(entry) !== "*" &&
      !isMeant(entry) &&
      !isOurs(entry) &&
      !isOtherClientTool(entry) &&
      canProvideTool(entry, host, skill),
  );
  const dynamic = missing.map((entry): Problem => {
    const bare = toDottedToolName(entry);
    const several = names.filter((one) => one.endsWith(`.${bare}`));
    const meant = findNearest(bare, names);
    const what = sanitizeLine(entry, 64);
    return several.length > 1
      ? {
          code: "tool-ambiguous",
          message: `Skill '${name}' lists ${what}, which is ambiguous: it matches ${several.join(" and ")}, and neither is offered`,
          fix: `use the full name, for example ${several[0]}`,
        }
      : {
          code: "tool-unmatched",
          message: `Skill '${name}' lists ${what}, which is not available`,
          fix: meant
            ? `did you mean ${meant}?`
            : "add an MCP server that provides it under [tools.mcp.NAME] in config.toml",
        };
  });
  return [...(await warnMissingTools(skill, host)), ...dynamic];
}

/** Warns about a closed network if the skill's code looks like it needs one. A required tool is refused elsewhere. */
export async function warnClosedNetwork(skill: Skill): Promise<Problem[]> {
  const { tools, compatibility = "" } = skill.manifest;
  if (tools.required.some(isWebFetch)) return [];
  const scripts = await readScriptTexts(skill);
  const code = [...scripts, ...findInstructionCommands(await skill.body(), {})];
  const isNamed = [...tools.allowed, ...tools.preapproved].some(isWebFetch);
  if (!isNamed && !code.some((text) => NETWORK_CALLS.test(text))) return [];
  const message = [compatibility, ...code].join("\n");
  const hosts = new Set(
    Array.from(message.matchAll(HOST_NAMES), ([, address, api]) => (address ?? api ?? "").toLowerCase()),
  );
  const wanted = [...hosts].slice(0, MAX_SUGGESTED_HOSTS).map((host) => `${host}:443`);
  return [
    {
      code: "network-blocked",
      message: `Skill '${skill.name}' ${isNamed ? "lists web_fetch" : "has code that uses the network"}, but has no network access`,
      fix: "run",
      commands: [`skillet config set ${formatSkillKey(skill, "network")} ${wanted.join(",") || "HOST:443"}`],
    },
  ];
}

const NETWORK_CALLS = /\b(?:curl|wget)\s|\burllib\.request\b|\brequests\.(?:get|post)\(|\bfetch\(|"node:https?"/;

const HOST_NAMES = /\bhttps:\/\/([a-z\d][a-z\d.-]*\.[a-z]{2,})|\b(api\.[a-z\d.-]+\.[a-z]{2,})\b/gi;

const MAX_SUGGESTED_HOSTS = 4;

export function isWebFetch(entry: string): boolean {
  return resolveEntryTool(entry) === "web_fetch";
}

async function readScriptTexts(skill: Skill): Promise<string[]> {
  const readText = async ({ path }: { path: string }) => {
    try {
      return [Buffer.from(await skill.read(path)).toString()];
    } catch {
      return []; // The file is gone; a run reports it.
    }
  };
  return (await Promise.all((await listSkillScripts(skill)).map(readText))).flat();
}
