import type { Broker } from "../../capabilities/capability-broker.ts";
import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Model } from "../../host/model-contract.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { expandToolNames, resolveEntryTool } from "../../skill/tool-names.ts";
import { getSkillLocation } from "../../store/trust.ts";
import type { Redactor, Secrets } from "../../util/redact.ts";
import { REASONING_EFFORTS } from "../models/ai-sdk-model.ts";
import { enabledPolicy, findToolRevocation, findUnavailability, isToolDisabled } from "../policy/skill-policies.ts";
import { createTaintTracker, type TaintTracker } from "../policy/taint-tracker.ts";
import { requireSecretOwner } from "../policy/trust-policy.ts";
import {
  createEditFileTool,
  createGrepTool,
  createListFilesTool,
  createReadFileTool,
  createWriteFileTool,
} from "../tools/file-tools.ts";
import {
  type ContributedTools,
  createCapabilityTools,
  createCompleteTool,
  createDeadline,
  createListTool,
  createResourceTool,
  createRunBroker,
  createUseTool,
  openContributedTools,
  prefersCapabilityTools,
} from "../tools/skill-tools.ts";
import { wrapHostTool } from "../tools/tool-output.ts";
import { createWebFetchTool, createWebSearchTool } from "../tools/web-tools.ts";
import { createBashTool, createSkillScriptTool } from "../tools/workspace-tools.ts";
import {
  createLazyReview,
  createToolSandbox,
  openRunSandbox,
  type RunSandbox,
  type SandboxToolContext,
} from "../workspace/run-sandbox.ts";
import { listSkillPackages } from "../workspace/sandbox-permissions.ts";
import { type AgentLimits, runAgent } from "./agent-loop.ts";
import { redactData, warnShortSecrets } from "./redaction.ts";
import { formatSystemPrompt, formatTaskMessage, runDynamicCommands } from "./run-inputs.ts";
import { createRefusalResult, type RunResult, toProblem, toToolResult, warnNoIsolation } from "./run-result.ts";
import { createLiveStepRunner, emitRunEvent } from "./step-runner.ts";
import {
  type AvailableTools,
  COMPLETE_TOOL,
  createToolPolicies,
  findToolBlock,
  isToolOffered,
  warnUnmatchedTools,
} from "./tool-policy.ts";
import { createChildContext, type RunContext, runUse, type StartedUse, type UseStart } from "./use-skill.ts";

/** A skill that may be used, with everything needed to use it. */
export interface PreparedUse {
  skill: Skill;
  copy: SkillCopy;
  secrets: Secrets;
  input: unknown;
  hasTakenContext: boolean;
  redactor: Redactor;
  model: Model;
  /** The alias under which the model was found. */
  alias: string;
  warnings: readonly Problem[];
  limits: AgentLimits;
}

/** Runs one sub-agent from start to end. Throws if it cannot start. */
export async function runSubAgent(use: StartedUse, prepared: PreparedUse): Promise<RunResult> {
  const { id, steps } = use;
  const { skill, redactor } = prepared;
  use.signal.throwIfAborted();
  await requireSameSkill(use, prepared);
  const taint = createTaintTracker({ parent: use.chain.taint });
  // The time limit starts here, also for a resumed run.
  const until = createDeadline(prepared.limits.seconds, steps);
  const findRevocation = createRevocationCheck(use.chain, skill, use.host);
  const broker = await createRunBroker({
    ...use,
    skill,
    redactor,
    getDeadline: until,
    taint,
    findRevocation,
  });
  const { sandbox, warnings } = await openSubAgentSandbox(use, prepared, broker, (text) =>
    emitRunEvent(steps, { run: id, skill: skill.name }, { type: "packages-built", text: redactor.redact(text) }),
  );
  let contributed: ContributedTools | undefined;
  try {
    contributed = await openContributedTools(use, prepared);
    return await runPreparedAgent(use, prepared, { sandbox, broker, taint, contributed }, [
      ...prepared.warnings,
      ...warnUnsupported(prepared),
      ...warnShortSecrets(prepared.secrets),
      ...warnings,
      ...(sandbox && needsMoreAccess(skill, sandbox) ? sandbox.notices : []),
      ...(sandbox?.problems ?? []),
      ...warnNoIsolation(sandbox?.sandbox),
      ...contributed.problems,
    ]);
  } finally {
    contributed?.close();
    sandbox?.close();
    await broker?.close();
  }
}

/** The resources of a sub-agent. */
interface SubAgentResources {
  sandbox: RunSandbox | undefined;
  broker: Broker | undefined;
  taint: TaintTracker;
  contributed: ContributedTools;
}

/** Requires that the skill is unchanged since the run began: completed steps and approvals hold for that version only. */
async function requireSameSkill({ steps }: StartedUse, prepared: PreparedUse): Promise<void> {
  const { redactor, input, hasTakenContext } = prepared;
  const { name } = prepared.skill;
  const { digest } = prepared.copy;
  const taken: UseStart = { digest, input: redactData(redactor, input), hasTakenContext };
  const seen = await steps.step("skill", async () => taken);
  if (seen.digest === digest) return;
  throw new SkillError("run-changed", {
    message: `Skill '${name}' has changed since this run began`,
    fix: "start a new run, or restore the skill and resume",
  });
}

async function runPreparedAgent(
  use: StartedUse,
  prepared: PreparedUse,
  place: SubAgentResources,
  warnings: readonly Problem[],
): Promise<RunResult> {
  const { sandbox, broker, taint, contributed } = place;
  const { host, request, chain, id, steps, signal, start } = use;
  const { skill, redactor, model, secrets, input, limits: bounds } = prepared;
  const { message, context } = request;
  const { budget } = bounds;
  const findRevocation = createRevocationCheck(chain, skill, host);
  const next = createChildContext(chain, {
    id,
    skill,
    budget,
    requestedModel: request.model,
    model: prepared.alias,
    findRevocation,
  });
  const others = await collectTools(use, prepared, place, { chain: next, brought: contributed, brokered: [] });
  const hasShell = canUseCapabilityCommand(chain, skill, {
    names: others.map(({ name }) => name),
    own: contributed.ownNames,
  });
  const brokered =
    broker && prefersCapabilityTools(skill, hasShell)
      ? await createCapabilityTools(broker, host.settings.limits.toolOutput)
      : [];
  const all =
    brokered.length > 0
      ? await collectTools(use, prepared, place, { chain: next, brought: contributed, brokered })
      : others;
  const own = [...contributed.ownNames, ...brokered.map(({ name }) => name)];
  const there = all.map(({ name }) => name);
  const toolPolicies = createToolPolicies(chain.toolPolicies, skill, { names: there, own });
  next.toolPolicies = toolPolicies;
  next.taint = taint;
  const isThere = ({ name }: Tool) =>
    isToolOffered(toolPolicies, name) && (isOfferedToParent(chain, name) || own.includes(name));
  const tools = all.filter(isThere);
  const names = tools.map(({ name }) => name);
  next.offeredTools = new Set(names);
  requireOfferedTools(skill, there, names);
  const folder = sandbox?.visiblePaths.skill;
  // In a step: it may run commands, whose output can differ each time.
  const brief = await steps.step("brief", async () => {
    const printed = await runDynamicCommands(sandbox, { skill, host, arguments: message, signal });
    const variables = [...secrets.keys()];
    const { maxIterations: iterations } = bounds;
    const instructions = await formatSystemPrompt({
      skill,
      arguments: message,
      commandOutputs: printed,
      sandbox,
      tools: names,
      variables,
      maxIterations: iterations,
      capabilities: broker && hasShell ? skill.manifest.capabilities : [],
    });
    return {
      instructions: redactor.redact(instructions),
      message: redactor.redact(
        formatTaskMessage({ message, context: prepared.hasTakenContext ? undefined : context, input }),
      ),
    };
  });
  const userText = redactor.redact(formatTaskMessage({ message, context: undefined, input }));
  return runAgent({
    run: id,
    skill: skill.name,
    source: skill.origin.source,
    ...{ host, steps, model, redactor, toolPolicies, limits: bounds, taint, start, signal },
    warnings: [...warnings, ...(await warnUnmatchedTools(skill, there, host))],
    tools: () => tools,
    // Completing the run is always allowed.
    findRevocation: (tool) =>
      tool === COMPLETE_TOOL ? undefined : (findRevocation() ?? findToolRevocation(tool, host)),
    owner: {
      ...{ name: skill.name, source: skill.origin.source, location: getSkillLocation(skill) },
      digest: prepared.copy.digest,
    },
    context: {
      env: Object.fromEntries(secrets),
      ...(sandbox ? { createSandbox: (callId) => createToolSandbox(sandbox, callId) } : {}),
    },
    withheld: all.map(({ name }) => name).filter((name) => !names.includes(name)),
    instructions: brief.instructions,
    messages: [{ role: "user", text: brief.message, ...(context?.trim() ? { userText } : {}) }],
    task: {
      skill: {
        name: skill.name,
        body: await skill.body(),
        arguments: message,
        names: skill.manifest.arguments,
        folder,
      },
      message: message ?? "",
    },
    effort: skill.manifest.effort,
    depth: next.depth,
    parent: chain.parent,
    isolation: () => sandbox?.isolation(),
    close: () => sandbox?.close() ?? [],
  });
}

/**
 * Returns a function that finds out why a run may no longer call anything: its skill, or that of a run which started it, was disabled, or
 * its trust was revoked. A changed skill is no reason: the run works with the copy that was trusted.
 */
function createRevocationCheck(chain: RunContext, skill: Skill, host: Host): () => Problem | undefined {
  const wasTrusted = host.trust?.getEntry(skill) !== undefined;
  return () => {
    const disabled = chain.findRevocation?.() ?? enabledPolicy(skill, host);
    if (disabled || !wasTrusted || host.trust?.getEntry(skill)) return disabled;
    return {
      code: "untrusted",
      message: `The trust in skill '${skill.name}' was revoked`,
      fix: "stop, and report what was done so far",
    };
  };
}

/** Requires that the required tools are offered: a tool may exist and still be withheld by the caller or by the skill itself. */
function requireOfferedTools(
  { name, manifest: { tools } }: Skill,
  all: readonly string[],
  offered: readonly string[],
): void {
  const isOffered = (entry: string) =>
    resolveEntryTool(entry) === "*" ||
    expandToolNames([entry], all).some((one) => offered.includes(resolveEntryTool(one)));
  const missing = tools.required.find((entry) => !isOffered(entry));
  if (missing === undefined) return;
  throw new SkillError("missing-tool", {
    message: `Skill requires tool '${missing}' which is not available`,
    fix: `skill '${name}' was offered: ${offered.join(", ")}; a skill called by another skill has at most its caller's tools, and never more than its own allowed_tools`,
  });
}

/** Returns true if reduced workspace access matters to the skill: by the tools that it lists, or always if it lists none. */
function needsMoreAccess({ manifest: { tools } }: Skill, { access }: RunSandbox): boolean {
  const allowed = tools.allowed.map(resolveEntryTool);
  const lost = access === "read" ? WRITE_TOOLS : [...WRITE_TOOLS, ...READ_TOOLS];
  return allowed.length === 0 || lost.some((name) => allowed.includes(name));
}

const WRITE_TOOLS = ["write_file", "edit_file"];
const READ_TOOLS = ["read_file", "list_files", "grep"];

/** Returns true if the caller has the tool. `complete` ends every run and is always offered. */
function isOfferedToParent(chain: RunContext, name: string): boolean {
  return name === COMPLETE_TOOL || chain.offeredTools === undefined || chain.offeredTools.has(name);
}

/**
 * Returns true if the skill may run `skillet-sb capability` in a shell. Its caller may have no shell, or it may allow only
 * other commands.
 */
function canUseCapabilityCommand(chain: RunContext, skill: Skill, offered: AvailableTools): boolean {
  if (!offered.names.includes("bash") || !isOfferedToParent(chain, "bash")) return false;
  const input = { command: "skillet-sb capability list" };
  return findToolBlock(createToolPolicies(chain.toolPolicies, skill, offered), "bash", input) === undefined;
}

/** Opens the sandbox of a sub-agent's commands. A skill that needs no sandbox runs without one if none is available. */
async function openSubAgentSandbox(
  { id, host, signal, steps }: StartedUse,
  { skill, copy, secrets, redactor }: PreparedUse,
  broker: Broker | undefined,
  onProgress: (text: string) => void,
): Promise<{ sandbox: RunSandbox | undefined; warnings: readonly Problem[] }> {
  requireSecretOwner(skill, host); // Checked right before the values are passed on, also to tools if there are no commands.
  if (host.hasBuiltInTools === false) return { sandbox: undefined, warnings: [] };
  try {
    const sandbox = await openRunSandbox(host, {
      ...{ skill, copy, secrets, redactor, kind: "run", onProgress, signal, broker },
      waited: () => steps.waited(),
      review: createLazyReview({ run: id, skill, host, steps, redactor, signal }),
    });
    return { sandbox, warnings: [] };
  } catch (error) {
    if (needsSandbox(skill, host) || !(error instanceof SkillError)) throw error;
    const problem = toProblem(error);
    const warning = { ...problem, message: `Commands are not available: ${problem.message}` };
    return { sandbox: undefined, warnings: [warning] };
  }
}

function needsSandbox(skill: Skill, host: Host): boolean {
  const { tools, env, scripts, capabilities } = skill.manifest;
  const declared = [env, scripts, capabilities, ...Object.values(listSkillPackages(skill, host))];
  const named = [...tools.required, ...tools.allowed, ...tools.preapproved].map(resolveEntryTool);
  return declared.some(({ length }) => length > 0) || named.includes("bash");
}

/** Collects all tools; the tool policies decide which of them are offered. */
async function collectTools(
  { host, catalog, signal, steps }: StartedUse,
  { skill, redactor }: PreparedUse,
  { sandbox, broker }: SubAgentResources,
  {
    chain,
    brought: contributed,
    brokered,
  }: { chain: RunContext; brought: ContributedTools; brokered: readonly Tool[] },
): Promise<Tool[]> {
  const max = host.settings.limits.toolOutput;
  const isForModel = (other: Skill) => isInvocableBy("model", other) && findUnavailability(other, host) === undefined;
  const ours = [
    ...(sandbox ? await createWorkspaceTools(sandbox, { skill, host, broker, waited: () => steps.waited() }) : []),
    ...(host.hasBuiltInTools !== false && host.settings.tools.webSearch?.provider
      ? [createWebSearchTool(host, redactor) ?? []].flat()
      : []),
    createResourceTool(
      async (name) => (name === undefined || name === skill.name ? skill : refuseOtherSkill(skill)),
      skill,
    ),
    createListTool(async () => {
      const { createSkillListResult, listSkillEntries } = await import("../session/session-disclosure.ts");
      const { skills, diagnostics } = catalog;
      return createSkillListResult(listSkillEntries({ skills: skills.filter(isForModel), diagnostics }, host));
    }),
    createUseTool(async (request, within) => {
      const driven = within ? { steps: within.steps, id: within.id } : { steps: createLiveStepRunner(host, () => {}) };
      const use = { catalog, host, request, chain, signal: request.signal ?? signal, ...driven };
      return toToolResult(await runUse(use), max);
    }),
  ];
  const complete = createCompleteTool();
  const taken = new Set([...ours, complete].map(({ name }) => name));
  const others = (host.tools ?? [])
    .filter(({ name }) => !taken.has(name))
    .map((tool) => wrapHostTool(tool, max, redactor));
  const all = [...ours, ...others, ...contributed.tools, ...brokered.filter(({ name }) => !taken.has(name))];
  return [...all.filter(({ name }) => !isToolDisabled(name, host)), complete];
}

function refuseOtherSkill({ name }: Skill): { refusal: ToolResult } {
  return {
    refusal: createRefusalResult([
      { code: "resource-other-skill", message: `Only files of skill '${name}' can be read here`, fix: "" },
    ]),
  };
}

/** Warns about settings of a skill that have no effect here. */
function warnUnsupported({ skill: { name, manifest }, model }: PreparedUse): Problem[] {
  const { agent, effort } = manifest;
  const asked = [
    ...(agent === undefined ? [] : [`agent '${agent}', which is not supported`]),
    ...(effort === undefined || (model.supportsEffort && REASONING_EFFORTS.has(effort))
      ? []
      : [`effort '${effort}', which ${model.name} does not support`]),
  ];
  return asked.map((what) => ({
    code: "not-supported",
    message: `Skill '${name}' asks for ${what}`,
    fix: "`model` and `allowed_tools` configure its sub-agent",
  }));
}

/** Creates the built-in tools that can work in this run. */
export async function createWorkspaceTools(
  sandbox: RunSandbox,
  useContext: Omit<SandboxToolContext, "sandbox">,
): Promise<Tool[]> {
  const context: SandboxToolContext = { ...useContext, sandbox };
  const { access, visiblePaths, network } = sandbox;
  const { skill } = useContext;
  const hasFiles = visiblePaths.workspace !== undefined || visiblePaths.skill !== undefined;
  return [
    createBashTool(context),
    ...(hasFiles ? [createReadFileTool(context)] : []),
    ...(access === "read-write" ? [createWriteFileTool(context), createEditFileTool(context)] : []),
    ...(hasFiles ? [createListFilesTool(context), createGrepTool(context)] : []),
    ...(network.length > 0 ? [createWebFetchTool(context)] : []),
    ...(skill && visiblePaths.skill !== undefined && (await listSkillScripts(skill)).length > 0
      ? [await createSkillScriptTool(context, skill)]
      : []),
  ];
}
