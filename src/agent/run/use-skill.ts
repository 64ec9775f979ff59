import { type Catalog, findBrokenSkill, findReplacedCopy } from "../../catalog/catalog.ts";
import { type Host, type HostOptions, tryCompleteHost } from "../../config/host.ts";
import { FINDING_CODES } from "../../errors/finding-codes.ts";
import { type Problem, pickProblem } from "../../errors/problem.ts";
import type { RunEvent, StopReason } from "../../host/events.ts";
import { isInvocableBy, type Skill, withBody } from "../../skill/skill.ts";
import { copySkill, type SkillCopy, withRunCopy } from "../../skill/source/skill-copy.ts";
import type { Journal } from "../../store/journal.ts";
import type { NewRun } from "../../store/run-rules.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { getStopReason, startTimeLimit } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor, Secrets } from "../../util/redact.ts";
import { findNearest, formatCount } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { ResolvedModel } from "../models/resolve-model.ts";
import { findInstructionCommands, RUNBOOK_NAME } from "../models/runbook.ts";
import { findDenials, findFirstDenial } from "../policy/skill-policies.ts";
import type { TaintTracker } from "../policy/taint-tracker.ts";
import { describeTrustChange } from "../policy/trust-policy.ts";
import type { TokenBudget } from "./agent-loop.ts";
import { createEventSink, createHostRedactor } from "./redaction.ts";
import { readSkillSecrets, readUseInput, resolveRunLimits, resolveUseModel } from "./run-inputs.ts";
import { createRunId, formatRunContent, type Run, type RunResult, startRun, toProblem } from "./run-result.ts";
import { createLiveStepRunner, refuseRun, runWithJournal, type StepRunner } from "./step-runner.ts";
import type { ToolPolicy } from "./tool-policy.ts";

export interface UseRequest {
  skill: string;
  /** The task. */
  message?: string;
  /** The part of the conversation that the skill needs; it does not see the rest. */
  context?: string;
  /** The input, for a skill with an input schema. */
  input?: unknown;
  /** The invoker, checked against the skill's invocation rules. Defaults to no check. */
  by?: "model" | "user";
  /** A model alias that overrides the configuration and the skill. */
  model?: string;
  /** Lower limits than those of the settings and the skill. */
  maxIterations?: number;
  seconds?: number;
  tokens?: number;
  signal?: AbortSignal;
}

/** Uses a skill: a sub-agent follows it, and only its answer comes back. Await it for the result, iterate it for the events. */
export function useSkill(catalog: Catalog, hostOptions: HostOptions, request: UseRequest): Run<RunEvent, RunResult> {
  const { host, problem } = tryCompleteHost(hostOptions);
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const id = createRunId();
    const refuse = (why: Problem) => {
      const unbegun = { run: id, skill: sanitizeLine(String(request.skill), 64), start: performance.now() };
      return refuseRun({ ...unbegun, host: FALLBACK_HOST, steps: createLiveStepRunner(FALLBACK_HOST, pass) }, [why]);
    };
    if (problem) return refuse(problem);
    // A part of the host that does not match its type fails later; the run still resolves.
    return runRecordedUse({ catalog, host, request, id, pass, signal }).catch((error) => refuse(toProblem(error)));
  }, request.signal);
}

const FALLBACK_HOST: Host = tryCompleteHost({}).host;

interface RecordedUseOptions extends Pick<UseContext, "catalog" | "host" | "request" | "signal"> {
  id: string;
  pass(event: RunEvent): void;
  /** The journal of an earlier run to resume. */
  journal?: Journal;
}

/** Runs a use that no other run started, and records it if the host stores runs. */
export async function runRecordedUse({
  catalog,
  host,
  request,
  id,
  pass,
  signal,
  journal,
}: RecordedUseOptions): Promise<RunResult> {
  const redactor = createHostRedactor(host);
  const emit = createEventSink(redactor, host, pass);
  const use = { catalog, host, request, chain: ROOT_CONTEXT, id };
  const { runs } = host;
  if (!runs) return runUse({ ...use, steps: createLiveStepRunner(host, emit), signal });
  const skill = sanitizeLine(String(request.skill), 64);
  const createRecord = () => createUseRecord(use, skill);
  const start = performance.now() - (journal?.elapsedMs ?? 0);
  return runWithJournal(
    { host, runs, run: id, skill, redactor, journal, createRecord, emit, signal },
    (steps, bounded) => runUse({ ...use, steps, signal: bounded, start }),
  );
}

/** Creates the record of a use. */
export function createUseRecord(
  { host, request, id }: Pick<UseContext, "host" | "request"> & { id: string },
  skill: string,
): NewRun {
  const { signal: _, ...asked } = request;
  const { workspace, caller, traceParent } = host;
  return {
    head: { id, kind: "use", skill, task: request.message ?? "", ...omitUndefined({ workspace, caller, traceParent }) },
    request: asked,
  };
}

/** The context of one use. */
export interface UseContext {
  catalog: Catalog;
  host: Host;
  request: UseRequest;
  /** The runs that started this one. */
  chain: RunContext;
  steps: StepRunner;
  signal: AbortSignal;
  /** Defaults to a new id. */
  id?: string;
  /** The start time, as `performance.now()` counts. Defaults to now. */
  start?: number;
}

/** Runs a use with a step runner. Contract: resolves. */
export async function runUse(context: UseContext): Promise<RunResult> {
  const use = { ...context, id: context.id ?? createRunId(), start: context.start ?? performance.now() };
  const { host, request, signal } = use;
  const done = use.steps.findStep<RunResult>("end") ?? use.steps.findStep<RunResult>("refused");
  if (done) return reuseResult(use, done.value);
  const taken = use.steps.findStep<UseStart>("skill")?.value;
  const checked = await checkUse(use, taken).catch((error) => ({ refusals: [toProblem(error)] }));
  if ("refusals" in checked) return refuseUse(use, checked.refusals);
  const { skill, redactor } = checked;
  const { iterations, seconds, tokens } = resolveRunLimits(skill.manifest.maxIterations, host, request);
  const limit = startTimeLimit(seconds, signal, () => use.steps.waited());
  try {
    const limits = { maxIterations: iterations, seconds, budget: use.chain.budget ?? { used: 0, max: tokens } };
    const { runSubAgent } = await import("./sub-agent.ts"); // Loaded only when a sub-agent runs.
    return await runSubAgent({ ...use, signal: limit.signal }, { ...checked, limits });
  } catch (error) {
    if (!limit.signal.aborted) return refuseUse({ ...use, redactor }, [toProblem(error)]);
    const stop = getStopReason(limit.signal);
    const ending = { stop, text: "", maxIterations: iterations, seconds, tokens, error: undefined };
    return refuseUse({ ...use, stop, redactor }, [{ code: stop, message: formatRunContent(ending), fix: "" }]);
  } finally {
    limit.stop();
  }
}

/** Returns an earlier result and counts its usage again. */
function reuseResult({ chain }: UseContext, result: RunResult): RunResult {
  const { usage, cost = 0 } = result;
  if (chain.budget) {
    chain.budget.used += usage.inputTokens + usage.outputTokens;
    chain.budget.cost = (chain.budget.cost ?? 0) + cost;
  }
  return result;
}

/** The state of a use at its start. */
export interface UseStart {
  digest: string;
  input: unknown;
  hasTakenContext: boolean;
}

/** A use that has started. */
export type StartedUse = UseContext & { id: string; start: number };

function refuseUse(
  { id, request, chain, redactor, ...use }: StartedUse & { stop?: StopReason; redactor?: Redactor },
  refusals: readonly Problem[],
): Promise<RunResult> {
  const shown = redactor ?? createHostRedactor(use.host);
  const skill = sanitizeLine(shown.redact(String(request.skill)), 64);
  return refuseRun({ ...use, run: id, skill, parent: chain.parent, redactor: shown }, refusals);
}

/** The context that a nested run gets from its parent run. */
export interface ParentRun {
  /** The id, which is the same each time the run is resumed. */
  id: string;
  /** The id of the parent run. */
  parent: string;
  steps: StepRunner;
  budget: TokenBudget;
  /** The model that was requested by name. */
  requestedModel: string | undefined;
  /** The untrusted text that the parent run has read. */
  taint: TaintTracker;
}

interface CheckedUse extends ResolvedModel {
  skill: Skill;
  copy: SkillCopy;
  /** The values of the skill's variables. */
  secrets: Secrets;
  redactor: Redactor;
  input: unknown;
  /** True if the context was used as the input. */
  hasTakenContext: boolean;
}

/** Finds the skill and checks that it may be used. Returns all refusals at once; their texts are not redacted. */
export async function checkUse(
  use: Pick<UseContext, "catalog" | "host" | "request" | "chain"> & Partial<Pick<UseContext, "signal">>,
  /** The input of a run that began earlier: the recorded request has no secrets and may no longer match the schema. */
  taken?: Pick<CheckedUse, "input" | "hasTakenContext">,
): Promise<CheckedUse | { refusals: readonly Problem[] }> {
  const { catalog, host, request, chain } = use;
  const found = catalog.find(String(request.skill));
  if (!found) return { refusals: [describeUnknownSkill(String(request.skill), catalog, host)] };
  if (found.fetch) {
    const early = findDenials(found, host, "use");
    if (early.length > 0) return { refusals: early };
    await found.fetch("all");
  }
  const skill = withBody(found, await found.body());
  const { secrets, problem } = readSkillSecrets(skill, host);
  const denied = findDenials(skill, host, "use");
  // A skill that is hidden from this caller is not described to it, and neither is its input.
  const hiding = denied.filter(({ kind }) => kind === "access");
  if (hiding.length > 0) return { refusals: hiding };
  const read = taken ? { ...taken, value: taken.input } : await readUseInput(skill, request);
  const resolved = await resolveUseModel(skill, use).catch(toProblem);
  const refusals = [
    ...findInvocationDenials(skill, request.by),
    ...findNestingDenials(chain, skill, host),
    ...denied,
    ...(denied.length === 0 && problem !== undefined ? [toProblem(problem)] : []),
    ...("problem" in read ? [createInputProblem(read.problem, skill)] : []),
    ...("code" in resolved ? [resolved] : []),
  ];
  if (refusals.length > 0 || "problem" in read || "code" in resolved) return { refusals };
  const unready = await findUnreadyCapabilities(skill, use);
  // An aborted check does not mean that the provider is not ready.
  if (unready.length > 0 && !use.signal?.aborted) return { refusals: unready };
  const copy = await copySkill(skill);
  const changes = host.trust?.findChanges(skill, copy) ?? [];
  if (changes.length > 0) return { refusals: [describeTrustChange(skill, changes)] };
  const { value: input, hasTakenContext = false } = read;
  const warnings = [...resolved.warnings, ...warnReplacedCopy(skill, catalog), ...(await warnSkippedFile(skill))];
  // From here on only the copy is read: code of the run may replace the skill's folder.
  return {
    ...(await withRunCopy(skill, copy)),
    secrets,
    redactor: createHostRedactor(host, secrets),
    input,
    hasTakenContext,
    ...resolved,
    warnings,
  };
}

/** Warns that a nearer copy of the skill does not load. */
function warnReplacedCopy({ name }: Skill, catalog: Catalog): Problem[] {
  const broken = findReplacedCopy(catalog, name);
  return broken ? [{ ...pickProblem(broken), message: `${broken.file} ${broken.message}` }] : [];
}

/** Warns that a file is not part of the copy that the run works with. */
async function warnSkippedFile(skill: Skill): Promise<Problem[]> {
  const found = (await skill.files()).findings.find(({ code }) => code === "hard-link-outside");
  if (!found) return [];
  return [{ code: found.code, message: `Skill '${skill.name}': ${found.message}`, fix: FINDING_CODES[found.code].fix }];
}

/** Checks the capability providers. Runs last, since it has to contact them. */
async function findUnreadyCapabilities(
  skill: Skill,
  {
    host,
    request,
    signal = request.signal,
  }: Pick<UseContext, "host" | "request"> & Partial<Pick<UseContext, "signal">>,
): Promise<Problem[]> {
  const { capabilities, caller } = host;
  if (!capabilities || skill.manifest.capabilities.length === 0) return [];
  const { findUnreadyProviders } = await import("../../capabilities/configured-capabilities.ts"); // Loaded only when a skill has capabilities.
  return findUnreadyProviders(capabilities, skill, { caller, signal: signal ?? new AbortController().signal });
}

/** Describes an unknown skill: it was skipped, is broken, or a similar visible name is suggested. */
export function describeUnknownSkill(name: string, catalog: Catalog, host: Host): Problem {
  const why = catalog.explainExclusion?.(name) ?? describeBrokenSkill(name, catalog);
  if (why) return why;
  const { skills } = catalog;
  const isKnown = (skill: Skill) => isInvocableBy("model", skill) && findFirstDenial(skill, host)?.kind !== "access";
  const visible = skills.filter(isKnown).map((skill) => skill.name);
  const meant = findNearest(name, visible);
  return {
    code: "not-found",
    message: `Skill '${sanitizeLine(name, 64)}' not found`,
    fix: meant ? `did you mean '${sanitizeLine(meant, 64)}'?` : "",
  };
}

/** Describes a skill that does not load. Does not quote its file. */
function describeBrokenSkill(name: string, catalog: Catalog): Problem | undefined {
  const broken = findBrokenSkill(catalog, name);
  if (!broken) return undefined;
  const suffix = broken.line === undefined ? "" : ` (line ${broken.line})`;
  return {
    code: "not-found",
    message: `Skill '${sanitizeLine(name, 64)}' exists but cannot be loaded: its file ${sanitizeLine(broken.message, 300)}${suffix}`,
    fix: broken.fix,
  };
}

/** Checks the skill's rules about who may invoke it. */
export function findInvocationDenials(skill: Skill, by: UseRequest["by"]): Problem[] {
  if (by === undefined || isInvocableBy(by, skill)) return [];
  return by === "model"
    ? [
        {
          code: "not-for-models",
          message: `Skill '${skill.name}' can only be invoked by the user, by name`,
          fix: "it sets disable-model-invocation: ask the user to run it",
        },
      ]
    : [
        {
          code: "not-for-users",
          message: `Skill '${skill.name}' can only be invoked by models`,
          fix: "it sets user-invocable: false",
        },
      ];
}

export function createInputProblem(problem: string, { manifest: { inputSchema } }: Skill): Problem {
  const properties = inputSchema?.["properties"];
  const names = properties !== null && typeof properties === "object" ? Object.keys(properties) : [];
  return {
    code: "input-invalid",
    message: problem,
    fix:
      names.length === 0
        ? "pass input that matches its input_schema"
        : `input fields: ${sanitizeLine(names.join(", "), 300)}`,
  };
}

/** The runs that started a run, outermost first, and the restrictions that they pass on. */
export interface RunContext {
  /** The number of runs in the chain. */
  depth: number;
  /** The run that started it. */
  parent?: string;
  /** The skills that they follow. */
  skills: readonly { name: string; place: string }[];
  toolPolicies: readonly ToolPolicy[];
  /** The tools of its caller: it gets no others. */
  offeredTools?: ReadonlySet<string>;
  budget?: TokenBudget;
  /** The model that the caller of the outermost run requested by name. */
  requestedModel?: string;
  /** The alias of its caller's model. */
  parentModel?: string;
  /** The untrusted text that its caller has read, which may be part of the task. */
  taint?: TaintTracker;
  /** Returns why these runs may no longer call anything: the skill of one of them was disabled. */
  findRevocation?(): Problem | undefined;
}

/** The context of a run that the user starts. */
export const ROOT_CONTEXT: RunContext = { depth: 0, skills: [], toolPolicies: [] };

/** Returns the context of a use that a tool of a conversation starts. */
export function createRunContext({ parent, budget, requestedModel, taint }: ParentRun): RunContext {
  return { ...ROOT_CONTEXT, parent, budget, taint, ...omitUndefined({ requestedModel, parentModel: requestedModel }) };
}

interface ChildRun {
  id: string;
  skill: Skill;
  budget: TokenBudget;
  requestedModel: string | undefined;
  model: string;
  findRevocation(): Problem | undefined;
}

export function createChildContext(chain: RunContext, to: ChildRun): RunContext {
  const { id, skill, budget } = to;
  return {
    depth: chain.depth + 1,
    parent: id,
    skills: [...chain.skills, { name: skill.name, place: getSkillLocation(skill) }],
    toolPolicies: chain.toolPolicies,
    budget,
    parentModel: to.model,
    findRevocation: to.findRevocation,
    ...omitUndefined({ requestedModel: to.requestedModel ?? chain.requestedModel }),
  };
}

/** Returns why a skill may not be used inside these runs: it is already one of them, or the nesting is too deep. */
function findNestingDenials(chain: RunContext, skill: Skill, { settings: { limits } }: Host): Problem[] {
  const path = getSkillLocation(skill);
  const names = [...chain.skills.map(({ name }) => name), skill.name].join(" → ");
  if (chain.skills.some((above) => above.name === skill.name && above.place === path)) {
    return [
      {
        code: "cycle",
        message: `Skill '${skill.name}' is already running: ${names}`,
        fix: "continue without calling it again",
      },
    ];
  }
  if (chain.depth < limits.nesting) return [];
  return [
    {
      code: "nested-too-deep",
      message: `Nesting limit of ${formatCount(limits.nesting, "run")} exceeded: ${names}`,
      fix: "continue without another skill; the limit is [limits] nesting in config.toml",
    },
  ];
}

/**
 * Returns the problem of a use that passes every check, but needs a language model when none is
 * configured. A caller that asks for it before the use prints this problem instead of a failed run.
 */
export async function findModelProblem(
  catalog: Catalog,
  hostOptions: HostOptions,
  request: UseRequest,
): Promise<Problem | undefined> {
  const { host, problem } = tryCompleteHost(hostOptions);
  const skill = catalog.find(String(request.skill));
  if (problem || !skill) return undefined;
  const resolved = await resolveUseModel(skill, { host, request, chain: ROOT_CONTEXT }).catch(() => undefined);
  if (resolved?.model.name !== RUNBOOK_NAME) return undefined;
  const checked = await checkUse({ catalog, host, request, chain: ROOT_CONTEXT }).catch(() => undefined);
  return checked && "skill" in checked ? (await warnModelNeeded(checked.skill, RUNBOOK_NAME))[0] : undefined;
}

/** Warns that the runbook model cannot follow the skill: its instructions contain no commands. Each line fits in 80 columns. */
export async function warnModelNeeded(skill: Skill, model: string): Promise<Problem[]> {
  if (
    model !== RUNBOOK_NAME ||
    findInstructionCommands(await skill.body(), { names: skill.manifest.arguments }).length > 0
  )
    return [];
  return [
    {
      code: "model-needed",
      message: `${sanitizeLine(skill.name, 64)} needs a language model: it contains no commands`,
      fix: "set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default]",
    },
  ];
}
