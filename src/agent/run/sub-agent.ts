import type { Broker } from "../../capabilities/capability-broker.ts";
import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Model } from "../../host/model-contract.ts";
import { isInvocableBy, type Skill } from "../../skill/skill.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import type { Tool, ToolResult } from "../../skill/tool.ts";
import { expandToolNames, resolveEntryTool } from "../../skill/tool-names.ts";
import { getSkillLocation } from "../../store/trust.ts";
import type { Redactor, Secrets } from "../../util/redact.ts";
import { REASONING_EFFORTS } from "../models/ai-sdk-model.ts";
import { enabledPolicy, findToolRevocation, findUnavailability, isToolDisabled } from "../policy/skill-policies.ts";
import { createTaintTracker, type TaintTracker } from "../policy/taint-tracker.ts";
import { requireSecretOwner } from "../policy/trust-policy.ts";
import { listSkillEntries } from "../session/session-disclosure.ts";
import {
  type ContributedTools,
  createCapabilityTools,
  createDeadline,
  createRunBroker,
  openContributedTools,
  prefersCapabilityTools,
} from "../tools/contributed-tools.ts";
import { createCompleteTool, createListTool, createResourceTool, createUseTool } from "../tools/skill-tools.ts";
import { wrapHostTool } from "../tools/tool-output.ts";
import { createWebSearchTool } from "../tools/web-tools.ts";
import { createWorkspaceTools } from "../tools/workspace-tools.ts";
import { createChangeReview } from "../workspace/held-changes.ts";
import { createToolSandbox, openRunSandbox, type RunSandbox } from "../workspace/run-sandbox.ts";
import { listSkillPackages } from "../workspace/sandbox-permissions.ts";
import { type AgentLimits, runAgent } from "./agent-loop.ts";
import { warnUnmatchedTools } from "./run-checks.ts";
import { redactData, warnShortSecrets } from "./run-inputs.ts";
import { formatSystemPrompt, formatTaskMessage, runDynamicCommands } from "./run-instructions.ts";
import { createRefusalResult, type RunResult, toProblem, toToolResult, warnNoIsolation } from "./run-result.ts";
import { createLiveStepRunner, emitRunEvent } from "./step-runner.ts";
import { type AvailableTools, COMPLETE_TOOL, createToolPolicies, findToolBlock, isToolOffered } from "./tool-policy.ts";
import { createChildContext, type RunContext, runUse, type StartedUse, type UseStart } from "./use-skill.ts";

/** A skill that may be used, with all that it is used with. */
export interface PreparedUse {
  skill: Skill;
  copy: SkillCopy;
  secrets: Secrets;
  input: unknown;
  hasTakenContext: boolean;
  hiding: Redactor;
  model: Model;
  /** What its model was found under. */
  alias: string;
  warnings: readonly Problem[];
  bounds: AgentLimits;
}

/** One sub-agent from its beginning to its end. Throws when it cannot begin. */
export async function runSubAgent(use: StartedUse, prepared: PreparedUse): Promise<RunResult> {
  const { id, port } = use;
  const { skill, hiding } = prepared;
  use.signal.throwIfAborted();
  await requireSameSkill(use, prepared);
  const taint = createTaintTracker({ above: use.chain.taint });
  // From now on, also when it is gone on with: so its time is counted too.
  const until = createDeadline(prepared.bounds.seconds, port);
  const revoked = () => findDisabledSkill(use.chain, skill, use.host);
  const broker = await createRunBroker({ ...use, skill, hiding, until, taint, revoked });
  const { enclosure, warnings } = await openSubAgentSandbox(use, prepared, broker, (text) =>
    emitRunEvent(port, { run: id, skill: skill.name }, { type: "packages-built", text: hiding.text(text) }),
  );
  try {
    return await runWithContributedTools(use, prepared, { enclosure, broker, taint }, [
      ...prepared.warnings,
      ...warnUnsupported(prepared),
      ...warnShortSecrets(prepared.secrets),
      ...warnings,
      ...(enclosure && needsMoreAccess(skill, enclosure) ? enclosure.notices : []),
      ...(enclosure?.problems ?? []),
      ...warnNoIsolation(enclosure?.sandbox),
    ]);
  } finally {
    enclosure?.close();
    broker?.close();
  }
}

/** What a sub-agent works with. */
interface SubAgentResources {
  enclosure: RunSandbox | undefined;
  broker: Broker | undefined;
  taint: TaintTracker;
}

/** What was done and agreed to, was so for the skill as it was then. */
async function requireSameSkill({ port }: StartedUse, prepared: PreparedUse): Promise<void> {
  const { hiding, input, hasTakenContext } = prepared;
  const { name } = prepared.skill;
  const { digest } = prepared.copy;
  const taken: UseStart = { digest, input: redactData(hiding, input), hasTakenContext };
  const seen = await port.step("skill", async () => taken);
  if (seen.digest === digest) return;
  throw new SkillError("run-changed", {
    message: `Skill '${name}' has changed since this run began`,
    fix: "start it anew; or put the skill back as it was, and go on",
  });
}

async function runWithContributedTools(
  use: StartedUse,
  prepared: PreparedUse,
  place: SubAgentResources,
  given: readonly Problem[],
): Promise<RunResult> {
  const brought = await openContributedTools(use, prepared);
  try {
    return await runPreparedAgent(use, prepared, place, brought, [...given, ...brought.problems]);
  } finally {
    brought.close();
  }
}

async function runPreparedAgent(
  use: StartedUse,
  prepared: PreparedUse,
  place: SubAgentResources,
  brought: ContributedTools,
  warnings: readonly Problem[],
): Promise<RunResult> {
  const { enclosure, broker, taint } = place;
  const { host, request, chain, id, port, signal, start } = use;
  const { skill, hiding, model, secrets, input, bounds } = prepared;
  const { message, context } = request;
  const { budget } = bounds;
  const revoked = () => findDisabledSkill(chain, skill, host);
  const next = createChildContext(chain, { id, skill, budget, asked: request.model, model: prepared.alias, revoked });
  const others = collectTools(use, prepared, place, { chain: next, brought, brokered: [] });
  const hasShell = canUseCapabilityCommand(chain, skill, { names: others.map(({ name }) => name), own: brought.own });
  const brokered =
    broker && prefersCapabilityTools(skill, hasShell)
      ? await createCapabilityTools(broker, host.settings.limits.toolOutput)
      : [];
  const all = brokered.length > 0 ? collectTools(use, prepared, place, { chain: next, brought, brokered }) : others;
  const own = [...brought.own, ...brokered.map(({ name }) => name)];
  const there = all.map(({ name }) => name);
  const gates = createToolPolicies(chain.gates, skill, { names: there, own });
  next.gates = gates;
  next.taint = taint;
  const isThere = ({ name }: Tool) =>
    isToolOffered(gates, name) && (isOfferedToParent(chain, name) || own.includes(name));
  const tools = all.filter(isThere);
  const names = tools.map(({ name }) => name);
  next.offered = new Set(names);
  requireOfferedTools(skill, there, names);
  const folder = enclosure?.places.skill;
  // In a step: it may run commands, and what they print is not the same twice.
  const brief = await port.step("brief", async () => {
    const printed = await runDynamicCommands(enclosure, { skill, host, arguments: message, signal });
    const variables = [...secrets.keys()];
    const { iterations } = bounds;
    const instructions = formatSystemPrompt({
      skill,
      arguments: message,
      printed,
      enclosure,
      tools: names,
      variables,
      iterations,
      capabilities: broker && hasShell ? skill.manifest.capabilities : [],
    });
    return {
      instructions: hiding.text(instructions),
      message: hiding.text(
        formatTaskMessage({ message, context: prepared.hasTakenContext ? undefined : context, input }),
      ),
    };
  });
  return runAgent({
    run: id,
    skill: skill.name,
    source: skill.origin.source,
    ...{ host, port, model, hiding, gates, bounds, taint, start, signal },
    warnings: [...warnings, ...warnUnmatchedTools(skill, there, host)],
    tools: () => tools,
    // Completing the run is always allowed.
    revoked: (tool) => (tool === COMPLETE_TOOL ? undefined : (revoked() ?? findToolRevocation(tool, host))),
    owner: { name: skill.name, source: skill.origin.source, place: getSkillLocation(skill) },
    context: { env: Object.fromEntries(secrets), ...(enclosure ? { sandbox: createToolSandbox(enclosure) } : {}) },
    withheld: all.map(({ name }) => name).filter((name) => !names.includes(name)),
    instructions: brief.instructions,
    messages: [{ role: "user", text: brief.message }],
    task: {
      skill: { name: skill.name, body: skill.body(), arguments: message, names: skill.manifest.arguments, folder },
      message: message ?? "",
    },
    effort: skill.manifest.effort,
    depth: next.depth,
    parent: chain.parent,
    isolation: () => enclosure?.isolation(),
    close: () => enclosure?.close() ?? [],
  });
}

/** Returns why a run may no longer call anything: its skill, or that of a run which started it, was disabled. */
function findDisabledSkill(chain: RunContext, skill: Skill, host: Host): Problem | undefined {
  return chain.revoked?.() ?? enabledPolicy(skill, host);
}

/** What it cannot do without may be there, and yet not for it: its caller has it not, or it forbids it itself. */
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
    fix: `skill '${name}' was offered: ${offered.join(", ")}; a skill that another one calls has no more than that one, and never more than its own allowed_tools`,
  });
}

/** Whether it matters to a skill that it sees less of the workspace than it could: by the tools that it lists, or all when it lists none. */
function needsMoreAccess({ manifest: { tools } }: Skill, { access }: RunSandbox): boolean {
  const allowed = tools.allowed.map(resolveEntryTool);
  const lost = access === "read" ? WRITE_TOOLS : [...WRITE_TOOLS, ...READ_TOOLS];
  return allowed.length === 0 || lost.some((name) => allowed.includes(name));
}

const WRITE_TOOLS = ["write_file", "edit_file"];
const READ_TOOLS = ["read_file", "list_files", "grep"];

/** Ends every run, and needs nobody's leave. */
function isOfferedToParent(chain: RunContext, name: string): boolean {
  return name === COMPLETE_TOOL || chain.offered === undefined || chain.offered.has(name);
}

/** Whether it has a shell for that: its caller may have none, or it itself one for other commands only. */
function canUseCapabilityCommand(chain: RunContext, skill: Skill, offered: AvailableTools): boolean {
  if (!offered.names.includes("bash") || !isOfferedToParent(chain, "bash")) return false;
  const input = { command: "skillet-sb capability list" };
  return findToolBlock(createToolPolicies(chain.gates, skill, offered), "bash", input) === undefined;
}

/** Where its commands run. A skill that needs none is used without, where there can be none. */
async function openSubAgentSandbox(
  { id, host, signal, port }: StartedUse,
  { skill, copy, secrets, hiding }: PreparedUse,
  broker: Broker | undefined,
  onProgress: (text: string) => void,
): Promise<{ enclosure: RunSandbox | undefined; warnings: readonly Problem[] }> {
  requireSecretOwner(skill, host); // Right before they are handed over: to tools too, where there are no commands.
  if (host.hasBuiltInTools === false) return { enclosure: undefined, warnings: [] };
  try {
    const enclosure = await openRunSandbox(host, {
      ...{ skill, copy, secrets, hiding, kind: "run", onProgress, signal, broker },
      waited: () => port.waited(),
      review: createChangeReview({ run: id, skill, host, port, hiding, signal }),
    });
    return { enclosure, warnings: [] };
  } catch (error) {
    if (needsSandbox(skill, host) || !(error instanceof SkillError)) throw error;
    const { code, message, fix } = toProblem(error);
    return { enclosure: undefined, warnings: [{ code, message: `No commands can be run: ${message}`, fix }] };
  }
}

function needsSandbox(skill: Skill, host: Host): boolean {
  const { tools, env, scripts, capabilities } = skill.manifest;
  const declared = [env, scripts, capabilities, ...Object.values(listSkillPackages(skill, host))];
  const named = [...tools.required, ...tools.allowed, ...tools.preapproved].map(resolveEntryTool);
  return declared.some(({ length }) => length > 0) || named.includes("bash");
}

/** Everything that there is; what of it is offered, the gates say. */
function collectTools(
  { host, catalog, signal, port }: StartedUse,
  { skill, hiding }: PreparedUse,
  { enclosure, broker }: SubAgentResources,
  { chain, brought, brokered }: { chain: RunContext; brought: ContributedTools; brokered: readonly Tool[] },
): Tool[] {
  const most = host.settings.limits.toolOutput;
  const isForModel = (other: Skill) => isInvocableBy("model", other) && findUnavailability(other, host) === undefined;
  const ours = [
    ...(enclosure ? createWorkspaceTools(enclosure, { skill, host, broker, waited: () => port.waited() }) : []),
    ...(host.hasBuiltInTools === false ? [] : [createWebSearchTool(host, hiding) ?? []].flat()),
    createResourceTool(
      async (name) => (name === undefined || name === skill.name ? skill : refuseOtherSkill(skill)),
      skill,
    ),
    createListTool(async () => {
      const { skills, diagnostics } = catalog;
      const listed = listSkillEntries({ skills: skills.filter(isForModel), diagnostics }, host);
      return { content: JSON.stringify(listed), isError: false };
    }),
    createUseTool(async (request, within) => {
      const driven = within ? { port: within.port, id: within.id } : { port: createLiveStepRunner(host, () => {}) };
      const use = { catalog, host, request, chain, signal: request.signal ?? signal, ...driven };
      return toToolResult(await runUse(use), most);
    }),
  ];
  const complete = createCompleteTool();
  const taken = new Set([...ours, complete].map(({ name }) => name));
  const others = (host.tools ?? [])
    .filter(({ name }) => !taken.has(name))
    .map((tool) => wrapHostTool(tool, most, hiding));
  const all = [...ours, ...others, ...brought.tools, ...brokered.filter(({ name }) => !taken.has(name))];
  const there = [...all.filter(({ name }) => !isToolDisabled(name, host)), complete];
  return broker ? there.map((tool) => trackCallPosition(tool, broker)) : there;
}

/** Calls are made one after the other: what is asked of the broker meanwhile, this one asks. */
function trackCallPosition(tool: Tool, broker: Broker): Tool {
  return {
    ...tool,
    execute(input, options) {
      broker.at(options?.key?.slice((options.run?.length ?? -1) + 1) ?? "0");
      return tool.execute(input, options);
    },
  };
}

function refuseOtherSkill({ name }: Skill): { refusal: ToolResult } {
  return {
    refusal: createRefusalResult([
      { code: "resource-other", message: `Only files of skill '${name}' can be read here`, fix: "" },
    ]),
  };
}

/** What a skill asks for that nobody here gives. */
function warnUnsupported({ skill: { name, manifest }, model }: PreparedUse): Problem[] {
  const { agent, effort } = manifest;
  const asked = [
    ...(agent === undefined ? [] : [`agent '${agent}', which means nothing here`]),
    ...(effort === undefined || (model.takesEffort && REASONING_EFFORTS.has(effort))
      ? []
      : [`effort '${effort}', which ${model.name} cannot be told`]),
  ];
  return asked.map((what) => ({
    code: "not-supported",
    message: `Skill '${name}' asks for ${what}`,
    fix: "`model` and `allowed_tools` say what its sub-agent has",
  }));
}
