import type { RunEvent } from "../host/events.ts";
import type { Model } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { costOf } from "../model/cost.ts";
import { firstDenial } from "../policy/policy.ts";
import { SkillError } from "../shared/error.ts";
import type { Hiding, Secrets } from "../shared/redact.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { makeTool, type Tool } from "../skill/tool.ts";
import { ourTool } from "../skill/tool-names.ts";
import type { SkillCopy } from "../source/digest.ts";
import { type Chain, chainTo } from "./chain.ts";
import { printedBy } from "./dynamic.ts";
import { type Enclosure, openEnclosure } from "./enclosure.ts";
import { COMPLETE, gateOf, isOffered } from "./gate.ts";
import { instructionsFor, messageFor } from "./instructions.ts";
import { type Budget, type LoopEnd, loop } from "./loop.ts";
import { asNotice, hide, shortSecrets, unkept } from "./notice.ts";
import { livePort } from "./port.ts";
import { asToolResult, contentOf, type RunResult } from "./result.ts";
import { listedSkills } from "./skill-list.ts";
import { completeTool, resourceTool, useTool } from "./skill-tools.ts";
import { runTools } from "./tools/tools.ts";
import { type Scene, useWithin } from "./use.ts";

/** A skill that may be used, with all that it is used with. */
export interface Prepared {
  skill: Skill;
  copy: SkillCopy;
  secrets: Secrets;
  input: unknown;
  hiding: Hiding;
  model: Model;
  warnings: readonly Notice[];
}

export interface Bounds {
  iterations: number;
  seconds: number;
  budget: Budget;
}

/** One sub-agent from its beginning to its end. Throws a SkillError when it cannot begin. */
export async function runSubAgent(scene: Scene, prepared: Prepared, bounds: Bounds): Promise<RunResult> {
  const { hiding } = prepared;
  const say = sayer(scene, prepared);
  const { enclosure, warnings: unenclosed } = await enclose(scene, prepared, (text) =>
    say({ type: "packages-built", text: hiding.text(text) }),
  );
  const warnings = [
    ...prepared.warnings,
    ...unsupported(prepared),
    ...shortSecrets(prepared.secrets),
    ...unenclosed,
    ...unkept(enclosure?.sandbox),
  ].map(hide(hiding));
  let left: readonly Notice[] = [];
  let end: LoopEnd;
  try {
    end = await converse(scene, prepared, bounds, { enclosure, warnings });
  } finally {
    left = enclosure?.close() ?? [];
  }
  const isolation = enclosure?.isolation();
  const result = resultOf(scene, prepared, bounds, { end, warnings, left, isolation });
  const { run, skill, stop, isError, iterations, ms, usage, cost, caller } = result;
  scene.emit({
    type: "run-ended",
    ...{ run, skill, stop, isError, iterations, ms, usage },
    ...(cost === undefined ? {} : { cost }),
    ...(isolation ? { isolation } : {}),
    ...(caller ? { caller } : {}),
  });
  return result;
}

interface Surroundings {
  enclosure: Enclosure | undefined;
  warnings: readonly Notice[];
}

async function converse(scene: Scene, prepared: Prepared, bounds: Bounds, around: Surroundings): Promise<LoopEnd> {
  const { host, request, chain, id, signal } = scene;
  const { skill, hiding, model, secrets, input } = prepared;
  const { iterations, seconds, budget } = bounds;
  const { enclosure } = around;
  const gates = [...chain.gates, gateOf(skill)];
  const next = chainTo(chain, { id, skill, gates, budget });
  const tools = toolsOf(scene, prepared, enclosure, next).filter(
    ({ name }) => isOffered(gates, name) && hasToo(chain, name),
  );
  const names = tools.map(({ name }) => name);
  next.offered = new Set(names);
  checkRequired(skill, names);
  const { message, context } = request;
  const folder = enclosure?.places.skill;
  const printed = await printedBy(enclosure, { skill, host, arguments: message, signal });
  const say = sayer(scene, prepared);
  say({
    type: "run-started",
    source: skill.origin.source,
    model: model.name,
    tools: names,
    depth: next.depth,
    ...(chain.parent === undefined ? {} : { parent: chain.parent }),
    ...(host.caller === undefined ? {} : { caller: host.caller }),
    limits: { iterations, seconds, ...(budget.most === undefined ? {} : { tokens: budget.most }) },
  });
  for (const warning of around.warnings) say({ type: "run-warned", ...warning });
  const variables = [...secrets.keys()];
  const brief = { skill, arguments: message, printed, enclosure, tools: names, variables, iterations };
  return loop(livePort(scene.emit), {
    run: id,
    skill: skill.name,
    model,
    instructions: hiding.text(instructionsFor(brief)),
    messages: [{ role: "user", text: hiding.text(messageFor({ message, context, input })) }],
    tools,
    gates,
    task: {
      skill: { name: skill.name, body: skill.body(), arguments: message, names: skill.manifest.arguments, folder },
      message: message ?? "",
    },
    effort: skill.manifest.effort,
    limits: { ...host.settings.limits, iterations },
    budget,
    hiding,
    costOf: (usage) => costOf(usage, model.name, host.settings.prices),
    signal,
  });
}

/** What it cannot do without may be there, and yet not for it: its caller has it not, or it forbids it itself. */
function checkRequired({ name, manifest: { tools } }: Skill, offered: readonly string[]): void {
  const missing = tools.required.find((entry) => !offered.includes(ourTool(entry)));
  if (missing === undefined) return;
  throw new SkillError("missing-tool", {
    message: `Skill requires tool '${missing}' which is not available`,
    fix: `skill '${name}' was offered: ${offered.join(", ")}; a skill that another one calls has no more than that one, and never more than its own allowed_tools`,
  });
}

/** Ends every run, and needs nobody's leave. */
function hasToo(chain: Chain, name: string): boolean {
  return name === COMPLETE || chain.offered === undefined || chain.offered.has(name);
}

/** Where its commands run. A skill that needs none is used without, where there can be none. */
async function enclose(
  { host, signal }: Scene,
  { skill, copy, secrets, hiding }: Prepared,
  onProgress: (text: string) => void,
): Promise<{ enclosure: Enclosure | undefined; warnings: readonly Notice[] }> {
  if (host.hasBuiltInTools === false) return { enclosure: undefined, warnings: [] };
  try {
    const enclosure = await openEnclosure(host, { skill, copy, secrets, hiding, workspace: "own", onProgress, signal });
    return { enclosure, warnings: [] };
  } catch (error) {
    if (needsCode(skill) || !(error instanceof SkillError)) throw error;
    const { code, message, fix } = asNotice(error);
    return { enclosure: undefined, warnings: [{ code, message: `No commands can be run: ${message}`, fix }] };
  }
}

function needsCode({ manifest: { tools, env, packages, scripts, capabilities } }: Skill): boolean {
  const declared = [env, packages, scripts, capabilities];
  const named = [...tools.required, ...tools.allowed, ...tools.preapproved].map(ourTool);
  return declared.some(({ length }) => length > 0) || named.includes("bash");
}

/** Everything that there is; what of it is offered, the gates say. */
function toolsOf(scene: Scene, { skill }: Prepared, enclosure: Enclosure | undefined, chain: Chain): Tool[] {
  const { host, catalog } = scene;
  const isForModel = (other: Skill) => isFor("model", other) && firstDenial(other, host)?.kind !== "access";
  const ours = [
    ...(enclosure ? runTools(enclosure, { skill, host }) : []),
    resourceTool(skill),
    makeTool(
      {
        name: "list_skills",
        description: "Lists the skills there are: name and description, as JSON.",
        category: "skills",
        parameters: {},
      },
      async () => ({ content: JSON.stringify(listedSkills(catalog.skills.filter(isForModel), host)), isError: false }),
    ),
    useTool(async (request) => {
      const run = useWithin(catalog, host, request, chain);
      for await (const event of run) scene.pass(event);
      return asToolResult(await run);
    }),
  ];
  const disabled = new Set(host.settings.tools.disabled.map(ourTool));
  const others = (host.tools ?? []).filter(({ name }) => !ours.some((tool) => tool.name === name));
  return [...[...ours, ...others].filter(({ name }) => !disabled.has(name)), completeTool()];
}

/** What a skill asks for that nobody here gives. */
function unsupported({ skill: { name, manifest }, model }: Prepared): Notice[] {
  const { agent, effort } = manifest;
  const asked = [
    ...(agent === undefined ? [] : [`agent '${agent}', which means nothing here`]),
    ...(effort === undefined || model.takesEffort ? [] : [`effort '${effort}', which ${model.name} cannot be told`]),
  ];
  return asked.map((what) => ({
    code: "not-supported",
    message: `Skill '${name}' asks for ${what}`,
    fix: "`model` and `allowed_tools` say what its sub-agent has",
  }));
}

interface Outcome {
  end: LoopEnd;
  warnings: readonly Notice[];
  left: readonly Notice[];
  isolation: RunResult["isolation"] | undefined;
}

function resultOf(
  { host, id, start }: Scene,
  { skill, model, hiding }: Prepared,
  bounds: Bounds,
  outcome: Outcome,
): RunResult {
  const { end, warnings, left, isolation } = outcome;
  const error = end.error && hide(hiding)(asNotice(end.error));
  const { seconds, budget } = bounds;
  return {
    run: id,
    skill: skill.name,
    source: skill.origin.source,
    model: model.name,
    content: hiding.text(contentOf({ ...end, iterations: bounds.iterations, seconds, tokens: budget.most, error })),
    isError: (end.stop !== "answer" && end.stop !== "complete") || left.length > 0,
    iterations: end.iterations,
    stop: end.stop,
    refusals: [],
    warnings: [...warnings, ...left.map(hide(hiding))],
    ...(error ? { error } : {}),
    usage: end.usage,
    ...(end.cost === undefined ? {} : { cost: end.cost }),
    ms: Math.round(performance.now() - start),
    ...(isolation ? { isolation } : {}),
    ...(host.caller === undefined ? {} : { caller: host.caller }),
  };
}

type Happening = RunEvent extends infer E ? (E extends unknown ? Omit<E, "run" | "skill"> : never) : never;

function sayer({ id, emit }: Scene, { skill }: Prepared): (event: Happening) => void {
  return (event) => emit({ run: id, skill: skill.name, ...event } as RunEvent);
}
