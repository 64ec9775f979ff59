import type { Broker } from "../capability/broker.ts";
import type { Host } from "../host/host.ts";
import type { Model } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { placeOf } from "../host/trust.ts";
import { EFFORTS } from "../model/sdk.ts";
import { isEnabled, unavailability } from "../policy/policy.ts";
import { requireSecrets } from "../policy/secrets.ts";
import { isDisabled, toolRevocation } from "../policy/tools.ts";
import { SkillError } from "../shared/error.ts";
import type { Hiding, Secrets } from "../shared/redact.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import { expandToolNames } from "../skill/tool-alias.ts";
import { ourToolName } from "../skill/tool-names.ts";
import type { SkillCopy } from "../source/digest.ts";
import { type Bounds, runAgent } from "./agent.ts";
import { brokerFor, endOf } from "./broker.ts";
import { type Brought, openBrought } from "./brought.ts";
import { type Chain, chainTo } from "./chain.ts";
import { printedBy } from "./dynamic.ts";
import { type Enclosure, openEnclosure } from "./enclosure.ts";
import { blockOf, COMPLETE, gatesFor, isOffered, type Offered } from "./gate.ts";
import { givenPackages } from "./given-packages.ts";
import { hostTool } from "./host-tool.ts";
import { instructionsFor, messageFor } from "./instructions.ts";
import { emit } from "./loop-options.ts";
import { asNotice, hideIn, shortSecrets, unkept } from "./notice.ts";
import { livePort } from "./port.ts";
import { asToolResult, type RunResult, refusedResult } from "./result.ts";
import { listedSkills } from "./skill-list.ts";
import { completeTool, listTool, resourceTool, useTool } from "./skill-tools.ts";
import { openTaint, type Taint } from "./taint.ts";
import { sandboxFor } from "./tool-sandbox.ts";
import { capabilityTools, prefersTools } from "./tools/capability.ts";
import { runTools } from "./tools/tools.ts";
import { webSearchTool } from "./tools/web-search.ts";
import { unmatched } from "./unmatched.ts";
import { type Begun, type Taken, useWithin } from "./use.ts";
import { createReview } from "./workspace/review-changes.ts";

/** A skill that may be used, with all that it is used with. */
export interface Prepared {
  skill: Skill;
  copy: SkillCopy;
  secrets: Secrets;
  input: unknown;
  hasTakenContext: boolean;
  hiding: Hiding;
  model: Model;
  /** What its model was found under. */
  alias: string;
  warnings: readonly Notice[];
  bounds: Bounds;
}

/** One sub-agent from its beginning to its end. Throws when it cannot begin. */
export async function runSubAgent(use: Begun, prepared: Prepared): Promise<RunResult> {
  const { id, port } = use;
  const { skill, hiding } = prepared;
  use.signal.throwIfAborted();
  await checkSame(use, prepared);
  const taint = openTaint({ above: use.chain.taint });
  // From now on, also when it is gone on with: so its time is counted too.
  const until = endOf(prepared.bounds.seconds, port);
  const revoked = () => disabledIn(use.chain, skill, use.host);
  const broker = await brokerFor({ ...use, skill, hiding, until, taint, revoked });
  const { enclosure, warnings } = await enclose(use, prepared, broker, (text) =>
    emit(port, { run: id, skill: skill.name }, { type: "packages-built", text: hiding.text(text) }),
  );
  try {
    return await follow(use, prepared, { enclosure, broker, taint }, [
      ...prepared.warnings,
      ...unsupported(prepared),
      ...shortSecrets(prepared.secrets),
      ...warnings,
      ...(enclosure && minds(skill, enclosure) ? enclosure.notices : []),
      ...(enclosure?.problems ?? []),
      ...unkept(enclosure?.sandbox),
    ]);
  } finally {
    enclosure?.close();
    broker?.close();
  }
}

/** What a sub-agent works with. */
interface Place {
  enclosure: Enclosure | undefined;
  broker: Broker | undefined;
  taint: Taint;
}

/** What was done and agreed to, was so for the skill as it was then. */
async function checkSame({ port }: Begun, prepared: Prepared): Promise<void> {
  const { hiding, input, hasTakenContext } = prepared;
  const { name } = prepared.skill;
  const { digest } = prepared.copy;
  const taken: Taken = { digest, input: hideIn(hiding, input), hasTakenContext };
  const seen = await port.step("skill", async () => taken);
  if (seen.digest === digest) return;
  throw new SkillError("run-changed", {
    message: `Skill '${name}' has changed since this run began`,
    fix: "start it anew; or put the skill back as it was, and go on",
  });
}

async function follow(use: Begun, prepared: Prepared, place: Place, given: readonly Notice[]): Promise<RunResult> {
  const brought = await openBrought(use, prepared);
  try {
    return await followWith(use, prepared, place, brought, [...given, ...brought.problems]);
  } finally {
    brought.close();
  }
}

async function followWith(
  use: Begun,
  prepared: Prepared,
  place: Place,
  brought: Brought,
  warnings: readonly Notice[],
): Promise<RunResult> {
  const { enclosure, broker, taint } = place;
  const { host, request, chain, id, port, signal, start } = use;
  const { skill, hiding, model, secrets, input, bounds } = prepared;
  const { message, context } = request;
  const { budget } = bounds;
  const revoked = () => disabledIn(chain, skill, host);
  const next = chainTo(chain, { id, skill, budget, asked: request.model, model: prepared.alias, revoked });
  const others = toolsOf(use, prepared, place, { chain: next, brought, brokered: [] });
  const hasShell = canAskByCommand(chain, skill, { names: others.map(({ name }) => name), own: brought.own });
  const brokered =
    broker && prefersTools(skill, hasShell) ? await capabilityTools(broker, host.settings.limits.toolOutput) : [];
  const all = brokered.length > 0 ? toolsOf(use, prepared, place, { chain: next, brought, brokered }) : others;
  const own = [...brought.own, ...brokered.map(({ name }) => name)];
  const there = all.map(({ name }) => name);
  const gates = gatesFor(chain.gates, skill, { names: there, own });
  next.gates = gates;
  next.taint = taint;
  const isThere = ({ name }: Tool) => isOffered(gates, name) && (hasToo(chain, name) || own.includes(name));
  const tools = all.filter(isThere);
  const names = tools.map(({ name }) => name);
  next.offered = new Set(names);
  checkRequired(skill, there, names);
  const folder = enclosure?.places.skill;
  // In a step: it may run commands, and what they print is not the same twice.
  const brief = await port.step("brief", async () => {
    const printed = await printedBy(enclosure, { skill, host, arguments: message, signal });
    const variables = [...secrets.keys()];
    const { iterations } = bounds;
    const instructions = instructionsFor({
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
      message: hiding.text(messageFor({ message, context: prepared.hasTakenContext ? undefined : context, input })),
    };
  });
  return runAgent({
    run: id,
    skill: skill.name,
    source: skill.origin.source,
    ...{ host, port, model, hiding, gates, bounds, taint, start, signal },
    warnings: [...warnings, ...unmatched(skill, there, host)],
    tools: () => tools,
    // Completing the run is always allowed.
    revoked: (tool) => (tool === COMPLETE ? undefined : (revoked() ?? toolRevocation(tool, host))),
    owner: { name: skill.name, source: skill.origin.source, place: placeOf(skill) },
    context: { env: Object.fromEntries(secrets), ...(enclosure ? { sandbox: sandboxFor(enclosure) } : {}) },
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
function disabledIn(chain: Chain, skill: Skill, host: Host): Notice | undefined {
  return chain.revoked?.() ?? isEnabled(skill, host);
}

/** What it cannot do without may be there, and yet not for it: its caller has it not, or it forbids it itself. */
function checkRequired({ name, manifest: { tools } }: Skill, all: readonly string[], offered: readonly string[]): void {
  const isOffered = (entry: string) =>
    ourToolName(entry) === "*" || expandToolNames([entry], all).some((one) => offered.includes(ourToolName(one)));
  const missing = tools.required.find((entry) => !isOffered(entry));
  if (missing === undefined) return;
  throw new SkillError("missing-tool", {
    message: `Skill requires tool '${missing}' which is not available`,
    fix: `skill '${name}' was offered: ${offered.join(", ")}; a skill that another one calls has no more than that one, and never more than its own allowed_tools`,
  });
}

/** Whether it matters to a skill that it sees less of the workspace than it could: by the tools that it lists, or all when it lists none. */
function minds({ manifest: { tools } }: Skill, { access }: Enclosure): boolean {
  const allowed = tools.allowed.map(ourToolName);
  const lost = access === "read" ? WRITING : [...WRITING, ...READING];
  return allowed.length === 0 || lost.some((name) => allowed.includes(name));
}

const WRITING = ["write_file", "edit_file"];
const READING = ["read_file", "list_files", "grep"];

/** Ends every run, and needs nobody's leave. */
function hasToo(chain: Chain, name: string): boolean {
  return name === COMPLETE || chain.offered === undefined || chain.offered.has(name);
}

/** Whether it has a shell for that: its caller may have none, or it itself one for other commands only. */
function canAskByCommand(chain: Chain, skill: Skill, offered: Offered): boolean {
  if (!offered.names.includes("bash") || !hasToo(chain, "bash")) return false;
  const input = { command: "skillet-sb capability list" };
  return blockOf(gatesFor(chain.gates, skill, offered), "bash", input) === undefined;
}

/** Where its commands run. A skill that needs none is used without, where there can be none. */
async function enclose(
  { id, host, signal, port }: Begun,
  { skill, copy, secrets, hiding }: Prepared,
  broker: Broker | undefined,
  onProgress: (text: string) => void,
): Promise<{ enclosure: Enclosure | undefined; warnings: readonly Notice[] }> {
  requireSecrets(skill, host); // Right before they are handed over: to tools too, where there are no commands.
  if (host.hasBuiltInTools === false) return { enclosure: undefined, warnings: [] };
  try {
    const enclosure = await openEnclosure(host, {
      ...{ skill, copy, secrets, hiding, kind: "run", onProgress, signal, broker },
      waited: () => port.waited(),
      review: createReview({ run: id, skill, host, port, hiding, signal }),
    });
    return { enclosure, warnings: [] };
  } catch (error) {
    if (needsCode(skill, host) || !(error instanceof SkillError)) throw error;
    const { code, message, fix } = asNotice(error);
    return { enclosure: undefined, warnings: [{ code, message: `No commands can be run: ${message}`, fix }] };
  }
}

function needsCode(skill: Skill, host: Host): boolean {
  const { tools, env, scripts, capabilities } = skill.manifest;
  const declared = [env, scripts, capabilities, ...Object.values(givenPackages(skill, host))];
  const named = [...tools.required, ...tools.allowed, ...tools.preapproved].map(ourToolName);
  return declared.some(({ length }) => length > 0) || named.includes("bash");
}

/** Everything that there is; what of it is offered, the gates say. */
function toolsOf(
  { host, catalog, signal, port }: Begun,
  { skill, hiding }: Prepared,
  { enclosure, broker }: Place,
  { chain, brought, brokered }: { chain: Chain; brought: Brought; brokered: readonly Tool[] },
): Tool[] {
  const most = host.settings.limits.toolOutput;
  const isForModel = (other: Skill) => isFor("model", other) && unavailability(other, host) === undefined;
  const ours = [
    ...(enclosure ? runTools(enclosure, { skill, host, broker, waited: () => port.waited() }) : []),
    ...(host.hasBuiltInTools === false ? [] : [webSearchTool(host, hiding) ?? []].flat()),
    resourceTool(async (name) => (name === undefined || name === skill.name ? skill : otherSkill(skill)), skill),
    listTool(async () => {
      const { skills, diagnostics } = catalog;
      const listed = listedSkills({ skills: skills.filter(isForModel), diagnostics }, host);
      return { content: JSON.stringify(listed), isError: false };
    }),
    useTool(async (request, within) => {
      const driven = within ? { port: within.port, id: within.id } : { port: livePort(host, () => {}) };
      const use = { catalog, host, request, chain, signal: request.signal ?? signal, ...driven };
      return asToolResult(await useWithin(use), most);
    }),
  ];
  const complete = completeTool();
  const taken = new Set([...ours, complete].map(({ name }) => name));
  const others = (host.tools ?? []).filter(({ name }) => !taken.has(name)).map((tool) => hostTool(tool, most, hiding));
  const all = [...ours, ...others, ...brought.tools, ...brokered.filter(({ name }) => !taken.has(name))];
  const there = [...all.filter(({ name }) => !isDisabled(name, host)), complete];
  return broker ? there.map((tool) => placed(tool, broker)) : there;
}

/** Calls are made one after the other: what is asked of the broker meanwhile, this one asks. */
function placed(tool: Tool, broker: Broker): Tool {
  return {
    ...tool,
    execute(input, options) {
      broker.at(options?.key?.slice((options.run?.length ?? -1) + 1) ?? "0");
      return tool.execute(input, options);
    },
  };
}

function otherSkill({ name }: Skill): { refusal: ToolResult } {
  return {
    refusal: refusedResult([
      { code: "resource-other", message: `Only files of skill '${name}' can be read here`, fix: "" },
    ]),
  };
}

/** What a skill asks for that nobody here gives. */
function unsupported({ skill: { name, manifest }, model }: Prepared): Notice[] {
  const { agent, effort } = manifest;
  const asked = [
    ...(agent === undefined ? [] : [`agent '${agent}', which means nothing here`]),
    ...(effort === undefined || (model.takesEffort && EFFORTS.has(effort))
      ? []
      : [`effort '${effort}', which ${model.name} cannot be told`]),
  ];
  return asked.map((what) => ({
    code: "not-supported",
    message: `Skill '${name}' asks for ${what}`,
    fix: "`model` and `allowed_tools` say what its sub-agent has",
  }));
}
