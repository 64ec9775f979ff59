import { type Catalog, findBrokenSkill, findReplacedCopy } from "../../catalog/catalog.ts";
import { type Host, type HostOptions, notifyHost, tryCompleteHost } from "../../config/host.ts";
import { FINDING_CODES } from "../../errors/finding-codes.ts";
import type { Problem } from "../../errors/problem.ts";
import type { RunEvent, StopReason } from "../../host/events.ts";
import { isInvocableBy, type Skill, withBody } from "../../skill/skill.ts";
import { copySkill, type SkillCopy, withCopy } from "../../skill/source/skill-copy.ts";
import type { Journal } from "../../store/journal.ts";
import type { NewRun } from "../../store/runs.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { omitUndefined } from "../../util/objects.ts";
import { createRedactor, type Secrets } from "../../util/redact.ts";
import { findNearest, formatCount } from "../../util/text.ts";
import { getStopReason, withTimeLimit } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { ResolvedModel } from "../models/resolve-model.ts";
import { findDenials, findFirstDenial } from "../policy/skill-policies.ts";
import type { TaintTracker } from "../policy/taint-tracker.ts";
import { describeTrustChange } from "../policy/trusted-text.ts";
import type { TokenBudget } from "./agent-loop.ts";
import {
  collectSecrets,
  createProblemRedactor,
  readSkillSecrets,
  readUseInput,
  redactData,
  resolveRunLimits,
  resolveUseModel,
} from "./run-inputs.ts";
import { createRunId, formatRunContent, type Run, type RunResult, startRun, toProblem } from "./run-result.ts";
import { createLiveStepRunner, refuseRun, runWithJournal, type StepRunner } from "./step-runner.ts";
import type { ToolPolicy } from "./tool-policy.ts";

export interface UseRequest {
  skill: string;
  /** What it is to do. */
  message?: string;
  /** What it must know of the conversation, which it does not see. */
  context?: string;
  /** For a skill with an input schema. */
  input?: unknown;
  /** Who asks: what a skill says about who may invoke it is held to. Nobody is asked about, when left out. */
  by?: "model" | "user";
  /** A model's alias, over what the configuration and the skill say. */
  model?: string;
  /** Lower limits than those of the settings and the skill. */
  iterations?: number;
  seconds?: number;
  tokens?: number;
  signal?: AbortSignal;
}

/** Uses a skill: a sub-agent follows it on its own, and only its answer comes back. Awaited it gives the result, iterated what happens. */
export function useSkill(catalog: Catalog, given: HostOptions, request: UseRequest): Run<RunEvent, RunResult> {
  const { host, problem } = tryCompleteHost(given);
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const id = createRunId();
    const refuse = (why: Problem) => {
      const unbegun = { run: id, skill: sanitizeLine(String(request.skill), 64), start: performance.now() };
      return refuseRun({ ...unbegun, host: FALLBACK_HOST, port: createLiveStepRunner(FALLBACK_HOST, pass) }, [why]);
    };
    if (problem) return refuse(problem);
    // A part of the host that is not what its type says fails somewhere below: the run resolves all the same.
    return runRecordedUse({ catalog, host, request, id, pass, signal }).catch((error) => refuse(toProblem(error)));
  }, request.signal);
}

const FALLBACK_HOST: Host = tryCompleteHost({}).host;

interface RecordedUseOptions extends Pick<UseContext, "catalog" | "host" | "request" | "signal"> {
  id: string;
  pass(event: RunEvent): void;
  /** One that was written down before, to go on with. */
  journal?: Journal;
}

/** A use that no other run started, written down where the host keeps runs. */
export function runRecordedUse({
  catalog,
  host,
  request,
  id,
  pass,
  signal,
  journal,
}: RecordedUseOptions): Promise<RunResult> {
  const emit = (event: RunEvent) => {
    pass(event);
    notifyHost(host, event);
  };
  const use = { catalog, host, request, chain: ROOT_CONTEXT, id };
  const { runs } = host;
  if (!runs) return runUse({ ...use, port: createLiveStepRunner(host, emit), signal });
  const skill = sanitizeLine(String(request.skill), 64);
  const open = () => runs.begin(createUseRecord(use, skill));
  const start = performance.now() - (journal?.elapsedMs ?? 0);
  return runWithJournal({ host, run: id, skill, journal, open, emit, signal }, (port, bounded) =>
    runUse({ ...use, port, signal: bounded, start }),
  );
}

/** What is written down of it, without secrets. */
function createUseRecord(
  { host, request, id }: Pick<UseContext, "host" | "request"> & { id: string },
  skill: string,
): NewRun {
  const hiding = createRedactor(collectSecrets(new Map(), host));
  const { signal: _, ...asked } = request;
  const { workspace, caller } = host;
  const task = sanitizeLine(hiding.text(request.message ?? ""), 200);
  return {
    head: { id, kind: "use", skill, task, ...omitUndefined({ workspace, caller }) },
    request: redactData(hiding, asked),
  };
}

/** What one use is about. */
export interface UseContext {
  catalog: Catalog;
  host: Host;
  request: UseRequest;
  /** The runs that it was started by. */
  chain: RunContext;
  port: StepRunner;
  signal: AbortSignal;
  /** A new one, when left out. */
  id?: string;
  /** When it began, as `performance.now` counts; now, when left out. */
  start?: number;
}

/** The same, driven by a port. Contract: resolves. */
export async function runUse(given: UseContext): Promise<RunResult> {
  const use = { ...given, id: given.id ?? createRunId(), start: given.start ?? performance.now() };
  const { host, request, signal } = use;
  const done = use.port.done<RunResult>("end") ?? use.port.done<RunResult>("refused");
  if (done) return reuseResult(use, done.value);
  const taken = use.port.done<UseStart>("skill")?.value;
  const judged = await checkUse(use, taken).catch((error) => ({ refusals: [toProblem(error)] }));
  if ("refusals" in judged) return refuseUse(use, judged.refusals);
  const { skill } = judged;
  const hiding = createRedactor(judged.hidden);
  try {
    const { iterations, seconds, tokens } = resolveRunLimits(skill.manifest.maxSteps, host, request);
    const budget = use.chain.budget ?? { used: 0, most: tokens };
    const { runSubAgent } = await import("./sub-agent.ts"); // Only who runs one loads what it needs.
    return await withTimeLimit(
      seconds,
      signal,
      async (bounded) => {
        try {
          return await runSubAgent(
            { ...use, signal: bounded },
            { ...judged, hiding, bounds: { iterations, seconds, budget } },
          );
        } catch (error) {
          if (!bounded.aborted) throw error;
          const stop = getStopReason(bounded);
          const content = formatRunContent({ stop, text: "", iterations, seconds, tokens, error: undefined });
          return refuseUse({ ...use, stop }, [{ code: stop, message: content, fix: "" }]);
        }
      },
      () => use.port.waited(),
    );
  } catch (error) {
    return refuseUse(use, [createProblemRedactor(hiding)(toProblem(error))]);
  }
}

/** What it came to before counts as it did then. */
function reuseResult({ chain }: UseContext, result: RunResult): RunResult {
  const { inputTokens, outputTokens } = result.usage;
  if (chain.budget) chain.budget.used += inputTokens + outputTokens;
  return result;
}

/** What a use began with. */
export interface UseStart {
  digest: string;
  input: unknown;
  hasTakenContext: boolean;
}

/** A use that has begun. */
export type StartedUse = UseContext & { id: string; start: number };

function refuseUse(
  { id, request, chain, ...use }: StartedUse & { stop?: StopReason },
  refusals: readonly Problem[],
): Promise<RunResult> {
  const skill = sanitizeLine(createRedactor(collectSecrets(new Map(), use.host)).text(String(request.skill)), 64);
  return refuseRun({ ...use, run: id, skill, parent: chain.parent }, refusals);
}

/** What a run within a run gets from the one around it. */
export interface ParentRun {
  /** Its name, the same however often it is begun. */
  id: string;
  /** The run around it. */
  parent: string;
  port: StepRunner;
  budget: TokenBudget;
  /** The model that was asked for by name. */
  asked: string | undefined;
  /** What the one around it has read. */
  taint: TaintTracker;
}

interface CheckedUse extends ResolvedModel {
  skill: Skill;
  copy: SkillCopy;
  /** The values of its variables. */
  secrets: Secrets;
  /** Everything that nobody is shown. */
  hidden: Secrets;
  input: unknown;
  /** Whether what was passed as context is the input. */
  hasTakenContext: boolean;
}

/** Whether a skill may be used so: which is meant, then everything that speaks against it at once. */
export async function checkUse(
  use: Pick<UseContext, "catalog" | "host" | "request" | "chain"> & Partial<Pick<UseContext, "signal">>,
  /** What was taken when it began, where it began before: the request is kept without secrets, and fits no schema any more. */
  taken?: Pick<CheckedUse, "input" | "hasTakenContext">,
): Promise<CheckedUse | { refusals: readonly Problem[] }> {
  const { catalog, host, request, chain } = use;
  const found = catalog.find(String(request.skill));
  if (!found) {
    const isHidden = createProblemRedactor(createRedactor(collectSecrets(new Map(), host)));
    return { refusals: [isHidden(describeUnknownSkill(String(request.skill), catalog, host))] };
  }
  if (found.fetch) {
    const early = findDenials(found, host, "use");
    if (early.length > 0)
      return { refusals: early.map(createProblemRedactor(createRedactor(collectSecrets(new Map(), host)))) };
    await found.fetch("all");
  }
  const skill = withBody(found);
  const { secrets, problem } = readSkillSecrets(skill, host);
  const hidden = collectSecrets(secrets, host);
  const refuse = (refusals: readonly Problem[]) => ({
    refusals: refusals.map(createProblemRedactor(createRedactor(hidden))),
  });
  const denied = findDenials(skill, host, "use");
  // What is hidden from this caller is not described to it: its input, for one.
  const hiding = denied.filter(({ kind }) => kind === "access");
  if (hiding.length > 0) return refuse(hiding);
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
  if (refusals.length > 0 || "problem" in read || "code" in resolved) return refuse(refusals);
  const unready = await findUnreadyCapabilities(skill, use);
  // Who was stopped did not say that it is not ready.
  if (unready.length > 0 && !use.signal?.aborted) return refuse(unready);
  const copy = copySkill(skill);
  const changes = host.trust?.changesOf(skill, copy) ?? [];
  if (changes.length > 0) return refuse([describeTrustChange(skill, changes)]);
  const { value: input, hasTakenContext = false } = read;
  const warnings = [...resolved.warnings, ...warnReplacedCopy(skill, catalog), ...warnSkippedFile(skill)];
  // From here on only the copy is read: code of the run may put anything in the place of the skill's folder.
  return { skill: withCopy(skill, copy), copy, secrets, hidden, input, hasTakenContext, ...resolved, warnings };
}

/** Warns that a nearer copy of the skill does not load. */
function warnReplacedCopy({ name }: Skill, catalog: Catalog): Problem[] {
  const { code, file, message, fix = "" } = findReplacedCopy(catalog, name) ?? {};
  return code === undefined ? [] : [{ code, message: `${file} ${message}`, fix }];
}

/** Warns that a file is no part of the copy that the run works with. */
function warnSkippedFile(skill: Skill): Problem[] {
  const found = skill.files().findings.find(({ code }) => code === "hard-link-outside");
  if (!found) return [];
  return [{ code: found.code, message: `Skill '${skill.name}': ${found.message}`, fix: FINDING_CODES[found.code].fix }];
}

/** Last, since whoever serves a capability has to be asked. */
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
  const { findUnreadyProviders } = await import("../../capabilities/configured-capabilities.ts"); // Only who has any loads what it needs.
  return findUnreadyProviders(capabilities, skill, { caller, signal: signal ?? new AbortController().signal });
}

/** There is none of this name: since it was left out, or is broken; or the nearest that may be known of is meant. */
export function describeUnknownSkill(name: string, catalog: Catalog, host: Host): Problem {
  const why = catalog.leftOut?.(name) ?? describeBrokenSkill(name, catalog);
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

/** Nothing of the file is quoted. */
function describeBrokenSkill(name: string, catalog: Catalog): Problem | undefined {
  const broken = findBrokenSkill(catalog, name);
  if (!broken) return undefined;
  const place = broken.line === undefined ? "" : ` (line ${broken.line})`;
  return {
    code: "not-found",
    message: `Skill '${sanitizeLine(name, 64)}' is there, but cannot be loaded: its file ${sanitizeLine(broken.message, 300)}${place}`,
    fix: broken.fix ?? "",
  };
}

/** What a skill says about who may invoke it. */
export function findInvocationDenials(skill: Skill, by: UseRequest["by"]): Problem[] {
  if (by === undefined || isInvocableBy(by, skill)) return [];
  return by === "model"
    ? [
        {
          code: "not-for-models",
          message: `Skill '${skill.name}' is for the user to call, by name`,
          fix: "it says disable-model-invocation: tell the user",
        },
      ]
    : [
        {
          code: "not-for-users",
          message: `Skill '${skill.name}' is for models to call, not for users`,
          fix: "it says user-invocable: false",
        },
      ];
}

function createInputProblem(problem: string, { manifest: { inputSchema } }: Skill): Problem {
  const properties = inputSchema?.["properties"];
  const names = properties !== null && typeof properties === "object" ? Object.keys(properties) : [];
  return {
    code: "input-invalid",
    message: problem,
    fix:
      names.length === 0
        ? "give it as its input_schema says"
        : `its input takes: ${sanitizeLine(names.join(", "), 300)}`,
  };
}

/** The runs that a run was started by, outermost first, and what they leave to it. */
export interface RunContext {
  /** How many they are. */
  depth: number;
  /** The run that started it. */
  parent?: string;
  /** Whose skills they follow. */
  skills: readonly { name: string; place: string }[];
  gates: readonly ToolPolicy[];
  /** The tools that its caller has: it gets no other. */
  offered?: ReadonlySet<string>;
  budget?: TokenBudget;
  /** The model that whoever started all of it asked for by name. */
  asked?: string;
  /** The alias of its caller's model. */
  model?: string;
  /** What its caller has read that others wrote: what it is told may come from there. */
  taint?: TaintTracker;
  /** Why none of these runs may call anything any more: the skill of one was disabled since. */
  revoked?(): Problem | undefined;
}

/** Nobody's but the user's. */
export const ROOT_CONTEXT: RunContext = { depth: 0, skills: [], gates: [] };

/** Returns the chain for a use that a tool of a conversation starts. */
export function createRunContext({ parent, budget, asked, taint }: ParentRun): RunContext {
  return { ...ROOT_CONTEXT, parent, budget, taint, ...omitUndefined({ asked, model: asked }) };
}

interface ChildRun {
  id: string;
  skill: Skill;
  budget: TokenBudget;
  asked: string | undefined;
  model: string;
  revoked(): Problem | undefined;
}

export function createChildContext(chain: RunContext, to: ChildRun): RunContext {
  const { id, skill, budget } = to;
  return {
    depth: chain.depth + 1,
    parent: id,
    skills: [...chain.skills, { name: skill.name, place: getSkillLocation(skill) }],
    gates: chain.gates,
    budget,
    model: to.model,
    revoked: to.revoked,
    ...omitUndefined({ asked: to.asked ?? chain.asked }),
  };
}

/** Why a skill may not be used from within these runs: it is one of them, or they are too many. */
function findNestingDenials(chain: RunContext, skill: Skill, { settings: { limits } }: Host): Problem[] {
  const place = getSkillLocation(skill);
  const names = [...chain.skills.map(({ name }) => name), skill.name].join(" → ");
  if (chain.skills.some((above) => above.name === skill.name && above.place === place)) {
    return [
      {
        code: "cycle",
        message: `Skill '${skill.name}' is at work already: ${names}`,
        fix: "do it without calling it again",
      },
    ];
  }
  if (chain.depth < limits.nesting) return [];
  return [
    {
      code: "nested-too-deep",
      message: `Skills may call skills ${formatCount(limits.nesting, "run")} deep, and this would be one more: ${names}`,
      fix: "do it without another skill; the operator's limit is [limits] nesting in config.toml",
    },
  ];
}
