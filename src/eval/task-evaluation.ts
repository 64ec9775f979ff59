import { join } from "node:path";
import type { Host } from "../config/host.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Model } from "../host/model-contract.ts";
import { omitUndefined } from "../util/objects.ts";
import { packageVersion } from "../util/system.ts";
import { formatCount } from "../util/text.ts";
import type { EvalBudget, SpentCall } from "./eval-budget.ts";
import type { EvalCase, EvalSuite } from "./eval-cases.ts";
import {
  type ArmComparison,
  type ArmTotals,
  createSkillReport,
  type EvalCaseReport,
  type EvalReport,
  type EvalSkillReport,
} from "./eval-report.ts";
import { adjustPValues, comparePairs, computeRate, decideVerdict, type TrialPair } from "./pair-statistics.ts";
import {
  computeCaseDigest,
  type EvalArm,
  type FinishedTrial,
  hashText,
  readCachedTrial,
  runTrial,
  saveCachedTrial,
  type TrialJournal,
} from "./trials.ts";

/** The tasks of one skill. */
export interface TaskSubject {
  skill: string;
  digest?: string;
  suite: EvalSuite;
  /** The baseline, the skill, then other arms that the skill is compared with. */
  arms: readonly [baseline: EvalArm, skill: EvalArm, ...others: EvalArm[]];
  host: Host;
}

export interface TaskEvaluationOptions {
  subjects: readonly TaskSubject[];
  /** Trials of each arm and case, if the case does not set them. */
  trials: number;
  /** Trials at once. Defaults to 1. */
  concurrency?: number;
  model: Model;
  /** Identifies the model and its settings in the cache. Defaults to its name. */
  modelDigest?: string;
  /** Judges rubrics. Defaults to `model`. */
  judge?: Model;
  budget: EvalBudget;
  /** The record of finished trials, and of those of an earlier process. */
  journal?: TrialJournal;
  /** The folder of baseline trials of earlier evaluations. Defaults to none. */
  cacheFolder?: string;
  signal?: AbortSignal;
  onTrial?(done: number, total: number): void;
}

export interface TaskEvaluation {
  skills: EvalSkillReport[];
  trials: readonly FinishedTrial[];
  /** The number of trials that were planned and did not finish. */
  unfinished: number;
  /** The error that ended the evaluation early, if one did. */
  stopped?: SkillError;
}

interface PlannedTrial {
  subject: TaskSubject;
  case: EvalCase;
  arm: EvalArm;
  trial: number;
}

/** Trials that fail one after the other without saying anything about an arm end the evaluation. */
const MAX_FAILURES = 3;

/** Does the tasks with every arm and compares the arms. Throws only for errors of the caller: what was finished is reported. */
export async function evaluateTasks(options: TaskEvaluationOptions): Promise<TaskEvaluation> {
  const { budget, journal, judge = options.model, onTrial } = options;
  const plan = planTrials(options);
  const known = new Map(journal?.trials.map((trial) => [formatTrialKey(trial), trial]));
  for (const call of journal?.calls ?? []) budget.add(call);
  const finished = new Map<string, FinishedTrial>();
  const queue: PlannedTrial[] = [];
  const cacheFile = createCacheNamer(options);
  for (const planned of plan) {
    const key = formatTrialKey(planKey(planned));
    const earlier = known.get(key) ?? readCachedTrial(cacheFile(planned), planned);
    if (earlier) finished.set(key, { ...earlier, skill: planned.subject.skill });
    else queue.push(planned);
  }
  onTrial?.(finished.size, plan.length);
  const halt = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, halt.signal]) : halt.signal;
  let stopped: SkillError | undefined;
  let failures = 0;
  const stop = (error: SkillError) => {
    stopped ??= error;
    halt.abort();
  };

  async function work(): Promise<void> {
    for (let next = queue.shift(); next !== undefined && !signal.aborted; next = queue.shift()) {
      const { subject, ...planned } = next;
      const key = formatTrialKey(planKey(next));
      const note = (call: SpentCall) => journal?.addCall(call);
      const onSpent = (call: SpentCall) => {
        budget.add(call);
        note(call);
      };
      try {
        budget.check();
        const { host, suite, skill } = subject;
        const trial = await runTrial({
          ...{ ...planned, skill, host, signal, onSpent, evalFolder: suite.folder },
          model: budget.meter(options.model, note),
          judge: budget.meter(judge, (call) => {
            note(call);
            // Runs record what they cost themselves.
            void recordSpending(host, skill, call);
          }),
        });
        failures = 0;
        finished.set(key, trial);
        journal?.addTrial(trial);
        const file = cacheFile(next);
        if (file !== undefined) saveCachedTrial(file, trial);
        onTrial?.(finished.size, plan.length);
      } catch (error) {
        if (signal.aborted) return;
        const problem = toSkillError(error);
        if (!RETRIED_CODES.has(problem.code) || ++failures >= MAX_FAILURES) return stop(problem);
        queue.push(next);
      }
    }
  }

  await Promise.all(Array.from({ length: Math.max(1, options.concurrency ?? 1) }, work));
  const trials = plan.flatMap((planned) => finished.get(formatTrialKey(planKey(planned))) ?? []);
  const unfinished = plan.length - trials.length;
  if (unfinished === 0) journal?.end();
  return {
    skills: options.subjects.map((subject) => reportTasks(subject, trials)),
    trials,
    unfinished,
    ...omitUndefined({ stopped }),
  };
}

/** Records what a call cost that no run made, for the ceilings of `limits.cost`. */
async function recordSpending({ spending }: Host, skill: string, { dollars }: SpentCall): Promise<void> {
  // The ceiling of the evaluation has counted it.
  if (dollars !== undefined) await spending?.add({ dollars, skill }).catch(() => {});
}

/** Temporary failures: the trial is made again at the end. */
const RETRIED_CODES: ReadonlySet<string> = new Set(["model-unreachable", "model-timeout", "model-broken"]);

function toSkillError(error: unknown): SkillError {
  if (error instanceof SkillError) return error;
  return new SkillError("failed", { message: `A trial could not be made: ${getErrorMessage(error)}`, cause: error });
}

/** Plans the trials: the arms of a trial follow each other in changing order, and each case is tried once before any is tried again. */
export function planTrials({ subjects, trials }: Pick<TaskEvaluationOptions, "subjects" | "trials">): PlannedTrial[] {
  const plan: PlannedTrial[] = [];
  const counts = subjects.flatMap(({ suite }) => suite.cases.map((one) => one.trials ?? trials));
  for (let trial = 0; trial < Math.max(0, ...counts); trial++) {
    for (const subject of subjects) {
      for (const [at, one] of subject.suite.cases.entries()) {
        if (trial >= (one.trials ?? trials)) continue;
        const { arms } = subject;
        for (let step = 0; step < arms.length; step++) {
          const arm = arms[(step + trial + at) % arms.length] as EvalArm;
          plan.push({ subject, case: one, arm, trial });
        }
      }
    }
  }
  return plan;
}

/** Computes the digest of a plan: an evaluation can be resumed if it is the same. */
export function computePlanDigest(
  options: Pick<TaskEvaluationOptions, "subjects" | "trials" | "model" | "modelDigest">,
): string {
  const subjects = options.subjects.map(({ skill, arms, suite }) => ({
    skill,
    arms: arms.map(({ name, digest }) => [name, digest]),
    cases: suite.cases.map((one) => computeCaseDigest(one, suite.folder)),
  }));
  const { trials, model, modelDigest = model.name } = options;
  return hashText(JSON.stringify({ subjects, trials, modelDigest, version: packageVersion() }));
}

/** Returns a function that names the cache file of a trial of the baseline: by model, case, arm and version of this package. */
function createCacheNamer({ cacheFolder, model, modelDigest = model.name, judge = model }: TaskEvaluationOptions) {
  const digests = new Map<EvalCase, string>();
  return ({ subject: { arms, suite }, case: one, arm, trial }: PlannedTrial): string | undefined => {
    if (cacheFolder === undefined || arm !== arms[0]) return undefined;
    const digest = digests.get(one) ?? computeCaseDigest(one, suite.folder);
    digests.set(one, digest);
    const name = hashText(JSON.stringify([modelDigest, judge.name, digest, arm.digest, packageVersion()]));
    return join(cacheFolder, `${name}-${trial}.json`);
  };
}

/** Counts the trials that an evaluation has to make, without those in the cache and in the journal. */
export function countOpenTrials(options: TaskEvaluationOptions): { total: number; open: number } {
  const plan = planTrials(options);
  const known = new Set(options.journal?.trials.map(formatTrialKey));
  const cacheFile = createCacheNamer(options);
  const open = plan.filter(
    (planned) =>
      !known.has(formatTrialKey(planKey(planned))) && readCachedTrial(cacheFile(planned), planned) === undefined,
  );
  return { total: plan.length, open: open.length };
}

type TrialKey = Pick<FinishedTrial, "skill" | "case" | "arm" | "trial">;

function planKey({ subject: { skill }, case: { name }, arm, trial }: PlannedTrial): TrialKey {
  return { skill, case: name, arm: arm.name, trial };
}

function formatTrialKey({ skill, case: name, arm, trial }: TrialKey): string {
  return JSON.stringify([skill, name, arm, trial]);
}

function reportTasks({ skill, digest, suite, arms }: TaskSubject, all: readonly FinishedTrial[]): EvalSkillReport {
  const trials = all.filter((trial) => trial.skill === skill);
  const rates = arms.map(({ name }) => {
    const own = trials.filter(({ arm }) => arm === name);
    return { name, ...computeRate(own.filter(({ passed }) => passed).length, own.length) };
  });
  return createSkillReport(skill, {
    ...omitUndefined({ digest }),
    warnings: [...suite.notes, ...warnFlakyJudge(trials)],
    rates,
    comparisons: compareArms(arms, trials),
    cases: suite.cases.map((one) => reportCase(one, arms, trials)),
  });
}

/** Compares the skill with every other arm. The p-values are adjusted if there are several. */
export function compareArms(arms: TaskSubject["arms"], trials: readonly FinishedTrial[]): ArmComparison[] {
  const [baseline, skill, ...others] = arms;
  const bySide = (name: string) =>
    new Map(trials.filter(({ arm }) => arm === name).map((one) => [`${one.case}\0${one.trial}`, one.passed]));
  const own = bySide(skill.name);
  const compared = [baseline, ...others].map(({ name }) => {
    const pairs: TrialPair[] = [];
    for (const [key, passed] of bySide(name)) {
      const arm = own.get(key);
      if (arm !== undefined) pairs.push({ baseline: passed, arm });
    }
    return { baseline: name, arm: skill.name, ...comparePairs(pairs) };
  });
  const adjusted = adjustPValues(compared.map(({ pValue }) => pValue));
  return compared.map((one, at) => {
    const pValue = adjusted[at] as number;
    return { ...one, pValue, verdict: decideVerdict({ ...one, pValue }) };
  });
}

function reportCase({ name }: EvalCase, arms: TaskSubject["arms"], trials: readonly FinishedTrial[]): EvalCaseReport {
  const own = trials.filter((trial) => trial.case === name);
  const failures = new Map<string, number>();
  for (const { arm, grades, problem } of own) {
    const failed = grades.find(({ passed }) => !passed);
    if (!failed) continue;
    const reason = `${arm}: ${failed.reason || failed.name}${problem === undefined ? "" : ` (the run ended with: ${problem})`}`;
    failures.set(reason, (failures.get(reason) ?? 0) + 1);
  }
  return {
    name,
    arms: Object.fromEntries(arms.map((arm) => [arm.name, sumTrials(own.filter((trial) => trial.arm === arm.name))])),
    failures: [...failures]
      .sort((a, b) => b[1] - a[1])
      .map(([reason, count]) => (count > 1 ? `${reason} (${count}x)` : reason)),
  };
}

function sumTrials(trials: readonly FinishedTrial[]): ArmTotals {
  const totals: ArmTotals = { passed: 0, trials: trials.length, inputTokens: 0, outputTokens: 0, ms: 0 };
  for (const { passed, usage, dollars, ms } of trials) {
    if (passed) totals.passed++;
    totals.inputTokens += usage.inputTokens;
    totals.outputTokens += usage.outputTokens;
    totals.ms += ms;
    if (dollars !== undefined) totals.dollars = (totals.dollars ?? 0) + dollars;
  }
  return totals;
}

/** Reports how often a judge contradicted itself. */
function warnFlakyJudge(trials: readonly FinishedTrial[]): string[] {
  const judged = trials.flatMap(({ grades }) => grades.filter(({ agreed }) => agreed !== undefined));
  if (judged.length === 0) return [];
  const agreed = judged.filter((grade) => grade.agreed).length;
  return [
    `the judge agreed with itself in ${agreed} of ${formatCount(judged.length, "rubric verdict")} after the order was swapped`,
  ];
}

/** Estimates the cost of a trial from earlier evaluations with the same model; undefined without any. */
export function estimateTrialCost(
  reports: readonly EvalReport[],
  { model, skills }: { model: string; skills: readonly string[] },
): { dollars: number; trials: number } | undefined {
  let dollars = 0;
  let trials = 0;
  for (const report of reports) {
    if (report.level !== "task" || report.model !== model) continue;
    for (const { name, cases } of report.skills) {
      if (!skills.includes(name)) continue;
      for (const arm of cases.flatMap((one) => Object.values(one.arms))) {
        if (arm.dollars === undefined || arm.trials === 0) continue;
        dollars += arm.dollars;
        trials += arm.trials;
      }
    }
  }
  return trials === 0 ? undefined : { dollars: dollars / trials, trials };
}
