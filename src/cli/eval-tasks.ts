import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { findPrice } from "../agent/models/model-providers.ts";
import { resolveModel } from "../agent/models/resolve-model.ts";
import { findDenials } from "../agent/policy/skill-policies.ts";
import { type Catalog, loadCatalog } from "../catalog/catalog.ts";
import type { Host } from "../config/host.ts";
import { formatFix, SkillError } from "../errors/problem.ts";
import { createAgentArm, splitCommand } from "../eval/agent-arm.ts";
import { readSkillCases } from "../eval/case-formats.ts";
import { createEvalBudget, hasPrice } from "../eval/eval-budget.ts";
import {
  createEvalReport,
  createSkillReport,
  type EvalReport,
  type EvalSkillReport,
  readEvalReports,
} from "../eval/eval-report.ts";
import { computeRate, findDetectableEffect, planPairs } from "../eval/pair-statistics.ts";
import { listRecordings, RECORDING_FOLDER, readRecording } from "../eval/recorded-run.ts";
import { type ReplayResult, replayRun } from "../eval/replay.ts";
import { formatDollars } from "../eval/report-formats.ts";
import {
  computePlanDigest,
  countOpenTrials,
  estimateTrialCost,
  evaluateTasks,
  planTrials,
  type TaskEvaluationOptions,
  type TaskSubject,
} from "../eval/task-evaluation.ts";
import {
  BASELINE_ARM,
  createBaselineArm,
  createSkillArm,
  createTrialJournal,
  type EvalArm,
  resumeTrialJournal,
  type TrialJournal,
} from "../eval/trials.ts";
import type { Model } from "../host/model-contract.ts";
import type { Skill } from "../skill/skill.ts";
import { createDirectorySource } from "../skill/source/directory-source.ts";
import { computeSkillDigest } from "../skill/source/skill-copy.ts";
import { omitUndefined } from "../util/objects.ts";
import { formatCount } from "../util/text.ts";
import { EXIT } from "./command-context.ts";
import { type CommandIo, createPrinter, type Printer, printDiff, printProblem, runInterruptible } from "./output.ts";
import { createWaitIndicator } from "./progress.ts";

export interface TaskOptions {
  trials?: string;
  concurrency?: string;
  maxCost?: string;
  effect?: string;
  model?: string;
  judge?: string;
  old?: string;
  rival?: string;
  agent?: string;
  fresh?: boolean;
  resume?: boolean;
  dryRun?: boolean;
  json?: boolean;
  trust?: boolean;
}

/** The skills to evaluate, and everything that their arms need. */
export interface EvalScene {
  catalog: Catalog;
  names: readonly string[];
  host: Host & { home: string; workspace: string };
}

export interface EvaluatedReport {
  report: EvalReport;
  /** True if everything that was planned finished. */
  isComplete: boolean;
}

const DEFAULT_TRIALS = 5;
const DEFAULT_EFFECT = 0.3;
const DEFAULT_CEILING = 5;

/** Plans, runs and prints the task level. Returns undefined for a plan only. */
export async function evaluateSkillTasks(
  io: CommandIo,
  scene: EvalScene,
  options: TaskOptions,
): Promise<EvaluatedReport | undefined> {
  const host = getTrustingHost(scene.host, options);
  const error = createPrinter(io.stderr, io.env);
  const trials = parseWhole(options.trials, "--trials", DEFAULT_TRIALS);
  const { model, judge, modelDigest, budget, ...money } = await openEvalModels(host, options);
  const subjects = await createSubjects(io, { ...scene, host }, options);
  const evaluation: TaskEvaluationOptions = {
    ...{ subjects, trials, model, judge, budget, modelDigest },
    concurrency: parseWhole(options.concurrency, "--concurrency", 1),
    ...(options.fresh ? {} : { cacheFolder: join(host.home, "cache", "evals") }),
  };
  const digest = computePlanDigest(evaluation);
  const resumed = options.resume ? resumeTrialJournal(host.home, digest) : undefined;
  if (options.resume && !resumed)
    error.line`${error.dim("·")} no unfinished evaluation with this plan: starting a new one`;
  const planned = { ...evaluation, ...omitUndefined({ journal: resumed }) };
  printPlan(error, planned, { ...money, effect: parseEffect(options.effect), home: host.home });
  if (options.dryRun) {
    resumed?.close();
    return undefined;
  }
  const report = createEvalReport("task", { workspace: host.workspace, model: model.name });
  const journal = resumed ?? createTrialJournal(host.home, report.id, digest);
  const waiting = createWaitIndicator(io, "evaluating");
  const onTrial = (done: number, total: number) => waiting.at(`evaluating: ${done} of ${formatCount(total, "trial")}`);
  try {
    const found = await runInterruptible(io, (signal) => evaluateTasks({ ...planned, journal, signal, onTrial }));
    waiting.end();
    const done: EvalReport = { ...report, id: journal.id, spent: budget.spent, skills: found.skills };
    if (!options.json) printTaskReport(io, done);
    if (options.agent !== undefined && budget.spent.calls > 0 && budget.spent.dollars === undefined)
      error.line`${error.yellow("!")} ${basename(splitCommand(options.agent)[0] ?? "")} reports no cost, so no ceiling in dollars holds`;
    printUnfinished(error, found, journal);
    return { report: done, isComplete: found.unfinished === 0 };
  } finally {
    waiting.end();
    journal.close();
  }
}

/** `--trust`: the code of the named skills may run in the sandbox. Values of skills still need a grant. */
export function getTrustingHost(host: EvalScene["host"], { trust: isTrusted }: TaskOptions): EvalScene["host"] {
  const { trust: _, ...rest } = host;
  return isTrusted ? rest : host;
}

/** Opens the models of an evaluation, and its budget. */
export async function openEvalModels(host: Host, options: TaskOptions) {
  const { model, alias } =
    options.agent === undefined ? await resolveModel(host, options.model) : createAgentModel(options.agent);
  const judge = options.judge === undefined ? model : (await resolveModel(host, options.judge)).model;
  const { apiKey: _, ...modelSettings } = host.settings.models.get(alias) ?? {};
  const { prices } = host.settings;
  // Another agent reports its own cost.
  const isPriced = options.agent !== undefined || [model, judge].every(({ name }) => hasPrice(name, prices));
  const ceiling = parseCeiling(options.maxCost, isPriced, model.name);
  const budget = createEvalBudget({ ceiling, prices, maxOutput: modelSettings.maxTokens });
  const modelDigest = JSON.stringify([model.name, modelSettings]);
  return { model, judge, modelDigest, isPriced, ceiling, budget, priceDate: findPrice(model.name, prices)?.date };
}

/** Creates a placeholder for the model of another agent, which skillet does not call. Rubrics need `--judge`. */
function createAgentModel(command: string): { model: Model; alias: string } {
  const respond = async () => {
    throw new SkillError("model-needed", {
      message: "A rubric needs a model",
      fix: "add --judge with the alias of a model",
    });
  };
  return { model: { name: command, respond }, alias: "" };
}

async function createSubjects(io: CommandIo, { catalog, names, host }: EvalScene, options: TaskOptions) {
  const subjects: TaskSubject[] = [];
  const { agent } = options;
  const createArm: CreateArm = async (arm, { skill, catalog: all = catalog }) => {
    if (agent !== undefined) return createAgentArm(arm, { command: agent, env: io.env, ...omitUndefined({ skill }) });
    return skill ? createSkillArm(arm, { skill, catalog: all, host }) : createBaselineArm(host);
  };
  const baseline = await createArm(BASELINE_ARM, {});
  for (const name of names) {
    const skill = catalog.get(name);
    const { folder } = skill.origin;
    const read = folder === undefined ? undefined : await readSkillCases(folder);
    if (read === undefined) continue;
    // The command line decides, and not the file.
    const suite =
      options.trials === undefined ? read : { ...read, cases: read.cases.map(({ trials: _, ...one }) => one) };
    requireUsable(skill, host);
    subjects.push({
      ...{ skill: name, digest: await computeSkillDigest(skill), suite, host },
      arms: [
        baseline,
        await createArm("skill", { skill }),
        ...(await createOtherArms(io, { catalog, host, options, createArm })),
      ],
    });
  }
  if (subjects.length > 0) return subjects;
  throw new SkillError("eval-empty", {
    message: "No skill has cases for the task level",
    fix: "write evals/tasks.yaml in the folder of a skill; docs/eval.md has an example and the other formats",
  });
}

/** Returns the names of the skills that can be used here, and prints the others: the caller named none of them. */
export function listUsable(
  io: CommandIo,
  { catalog, names, host: baseHost }: EvalScene,
  options: TaskOptions,
): string[] {
  const host = getTrustingHost(baseHost, options);
  const usable = names.filter((name) => findDenials(catalog.get(name), host, "use").length === 0);
  const others = names.filter((name) => !usable.includes(name));
  const error = createPrinter(io.stderr, io.env);
  if (others.length > 0)
    error.line`${error.dim("·")} without ${others.join(", ")}, which cannot be used here: see \`skillet list\``;
  return usable;
}

/** Throws a SkillError if the skill may not be used here. */
export function requireUsable(skill: Skill, host: Host): void {
  const [denial] = findDenials(skill, host, "use");
  if (!denial) return;
  const fix = denial.code === "untrusted" ? { fix: `${formatFix(denial)}; or add --trust to this command` } : denial;
  throw new SkillError(denial.code, { ...denial, ...fix, ...(denial.code === "untrusted" ? { commands: [] } : {}) });
}

interface OtherArmsContext {
  catalog: Catalog;
  host: Host;
  options: TaskOptions;
  createArm: CreateArm;
}

/** Creates an arm of skillet's agent or of another one. Without a skill, it is the baseline. */
type CreateArm = (name: string, parts: { skill?: Skill; catalog?: Catalog }) => Promise<EvalArm>;

/** Creates the arms of an old version and of a rival: folders of skills, or names. */
async function createOtherArms(
  io: CommandIo,
  { catalog, host, options, createArm }: OtherArmsContext,
): Promise<EvalArm[]> {
  const arms: EvalArm[] = [];
  for (const name of ["old", "rival"] as const) {
    const value = options[name];
    if (value === undefined) continue;
    const path = resolve(io.cwd, value);
    if (!existsSync(path)) {
      arms.push(await createArm(name, { skill: catalog.get(value) }));
      continue;
    }
    const other = await loadCatalog([createDirectorySource({ path: dirname(path), scope: "workspace" })]);
    const folder = realpathSync(path);
    const skill = other.skills.find(
      ({ origin }) => origin.folder !== undefined && realpathSync(origin.folder) === folder,
    );
    if (skill === undefined)
      throw new SkillError("usage", {
        message: `--${name} takes the folder of one skill, and ${value} has no SKILL.md that can be loaded`,
        fix: "pass the folder that contains its SKILL.md",
      });
    requireUsable(skill, host);
    arms.push(await createArm(name, { skill, catalog: other }));
  }
  return arms;
}

interface PlanDetails {
  ceiling: number | undefined;
  isPriced: boolean;
  priceDate: string | undefined;
  effect: number;
  home: string;
}

/** Prints what will be done, what it can find and what it may cost, before anything is spent. */
function printPlan(out: Printer, options: TaskEvaluationOptions, { effect, home, ...money }: PlanDetails): void {
  const { total, open } = countOpenTrials(options);
  const names = options.subjects.map(({ skill }) => skill);
  const cases = options.subjects.reduce((sum, { suite }) => sum + suite.cases.length, 0);
  const arms = options.subjects[0]?.arms.map(({ name }) => name).join(", ") ?? "";
  const known = total === open ? "" : `, ${total - open} of them known from before`;
  out.line`plan: ${formatCount(cases, "case")}, arms ${arms}, ${formatCount(total, "trial")}${known}, with ${options.model.name}`;
  for (const subject of options.subjects) {
    const pairs = planTrials({ ...options, subjects: [subject] }).length / subject.arms.length;
    const found = findDetectableEffect(pairs, 0.5);
    const needed = planPairs({ baseline: 0.5, arm: 0.5 + effect });
    const shown =
      found === undefined ? "are too few to show any difference" : `show a difference of ${formatPoints(found)}`;
    out.line`  ${subject.skill}: ${formatCount(pairs, "pair")} ${shown} with a power of 80 %; ${needed === undefined ? "more than 5,000 pairs" : formatCount(needed, "pair")} show ${formatPoints(effect)}, if half of the trials pass without the skill`;
  }
  const estimate = estimateTrialCost(readEvalReports(home), { model: options.model.name, skills: names });
  if (estimate)
    out.line`  about $${(estimate.dollars * open).toFixed(2)}, from ${formatCount(estimate.trials, "earlier trial")}`;
  printCeiling(out, { ...money, model: options.model.name });
}

/** Prints the ceiling in dollars and the date of the prices, or why there is no such ceiling. */
export function printCeiling(
  out: Printer,
  { ceiling, isPriced, priceDate, model }: Pick<PlanDetails, "ceiling" | "isPriced" | "priceDate"> & { model: string },
): void {
  if (ceiling !== undefined)
    out.line`  ceiling: $${ceiling}${priceDate === undefined ? "" : `, with the prices of ${priceDate}`}`;
  else if (!isPriced) out.line`${out.yellow("!")} ${model} has no price under [prices], so no ceiling in dollars holds`;
}

function formatPoints(share: number): string {
  return `${Math.round(share * 100)} points`;
}

/** Prints the report of the task level. */
export function printTaskReport(io: CommandIo, { skills, spent }: EvalReport): void {
  const out = createPrinter(io.stdout, io.env);
  for (const skill of skills) printSkillTasks(out, skill);
  printSpending(out, spent);
}

export function printSpending(out: Printer, spent: EvalReport["spent"]): void {
  if (!spent) return;
  const dollars = spent.dollars === undefined ? "" : `, ${formatDollars(spent)}`;
  out.line`${out.dim(`${formatCount(spent.calls, "model call")}, ${spent.inputTokens} input and ${spent.outputTokens} output tokens${dollars}`)}`;
}

function printSkillTasks(out: Printer, { name, rates, comparisons, cases, warnings }: EvalSkillReport): void {
  out.line`${out.bold(name)}`;
  for (const rate of rates) {
    const share = rate.rate === null ? "-" : `${Math.round(rate.rate * 100)} %`;
    out.line`  ${rate.name.padEnd(8)} ${share.padStart(5)}  ${rate.successes}/${rate.total}  95 % ${Math.round(rate.low * 100)}-${Math.round(rate.high * 100)} %`;
  }
  for (const { baseline, verdict, difference, low, high, pValue, pairs, gained, lost } of comparisons) {
    const paint = verdict === "helps" ? out.green : verdict === "hurts" ? out.red : out.yellow;
    const points = (share: number) => `${share > 0 ? "+" : ""}${Math.round(share * 100)}`;
    out.line`  ${paint(baseline === "none" ? verdict : `${verdict} (against ${baseline})`)}  ${points(difference)} points, 95 % ${points(low)} to ${points(high)}, p = ${pValue.toFixed(3)}, ${formatCount(pairs, "pair")}: ${gained} gained, ${lost} lost`;
  }
  for (const { name: task, arms, failures } of cases) {
    const shares = Object.entries(arms).map(([arm, { passed, trials }]) => `${arm} ${passed}/${trials}`);
    out.line`    ${task}: ${shares.join(", ")}`;
    for (const failure of failures.slice(0, 3)) out.line`      ${out.dim(failure)}`;
  }
  for (const warning of warnings) out.line`  ${out.yellow("!")} ${warning}`;
}

function printUnfinished(
  error: Printer,
  { unfinished, stopped }: { unfinished: number; stopped?: SkillError },
  { id }: TrialJournal,
): void {
  if (stopped) printProblem(error, error.red("✗"), stopped.problem);
  if (unfinished > 0)
    error.line`${error.yellow("!")} ${formatCount(unfinished, "trial")} of ${id} did not finish: repeat the command with --resume`;
}

/** Decides whether the task level passes: everything finished, no arm is worse with the skill, and enough trials pass. */
export function hasPassedTasks({ report, isComplete }: EvaluatedReport, threshold: number): boolean {
  return (
    isComplete &&
    report.skills.every(({ rates, comparisons }) => {
      const own = rates.find(({ name }) => name === "skill");
      return (own?.rate ?? 0) >= threshold && comparisons.every(({ verdict }) => verdict !== "hurts");
    })
  );
}

export function exitOfEvaluation(evaluated: EvaluatedReport, isPassed: boolean | null): number {
  if (!evaluated.isComplete) return EXIT.limit;
  return isPassed === false ? EXIT.findings : EXIT.fine;
}

export function parseWhole(value: string | undefined, option: string, fallback: number): number {
  if (value === undefined) return fallback;
  const number = Number(value);
  if (Number.isInteger(number) && number > 0 && number <= 10_000) return number;
  throw new SkillError("usage", {
    message: `${option} is "${value}", which is not a whole number from 1 to 10000`,
    fix: `for example ${option} ${fallback}`,
  });
}

function parseEffect(value: string | undefined): number {
  const number = value === undefined ? DEFAULT_EFFECT : Number(value);
  if (number > 0 && number <= 0.5) return number;
  throw new SkillError("usage", {
    message: `--effect is "${value}", which is not a share above 0 and up to 0.5`,
    fix: "for example --effect 0.2",
  });
}

function parseCeiling(value: string | undefined, isPriced: boolean, model: string): number | undefined {
  if (value === undefined) return isPriced ? DEFAULT_CEILING : undefined;
  const number = Number(value);
  if (!(number > 0))
    throw new SkillError("usage", {
      message: `--max-cost is "${value}", which is not a number of dollars above 0`,
      fix: "for example --max-cost 2.50",
    });
  if (isPriced) return number;
  throw new SkillError("eval-unpriced", {
    message: `--max-cost needs the price of ${model}`,
    fix: `add it to config.toml:\n  [prices."${model}"]\n  input = 3      # dollars per million tokens\n  output = 15`,
  });
}

/** Replays the recorded runs of skills and prints the first difference of each. */
export async function replaySkillRuns(
  io: CommandIo,
  { catalog, names, host }: EvalScene,
  { json = false }: { json?: boolean },
): Promise<EvaluatedReport> {
  const report = createEvalReport("replay", { workspace: host.workspace });
  const out = createPrinter(io.stdout, io.env);
  await runInterruptible(io, async (signal) => {
    for (const name of names) {
      const { folder } = catalog.get(name).origin;
      const files = folder === undefined ? [] : listRecordings(folder);
      if (files.length === 0) continue;
      const cases: EvalReport["skills"][number]["cases"] = [];
      for (const file of files) {
        const recording = readRecording(file);
        const start = performance.now();
        const replayed = await replayRun({ ...recording, skill: name }, { catalog, host, signal });
        const passed = replayed.difference === undefined;
        if (!json) printReplay(out, `${name}/${basename(file)}`, replayed);
        const totals = { passed: passed ? 1 : 0, trials: 1, inputTokens: 0, outputTokens: 0 };
        cases.push({
          name: basename(file, ".json"),
          arms: { replay: { ...totals, ms: Math.round(performance.now() - start) } },
          failures: replayed.difference ? [formatDifference(replayed.difference)] : [],
        });
      }
      const passed = cases.filter(({ failures }) => failures.length === 0).length;
      const rates = [{ name: "replay", ...computeRate(passed, cases.length) }];
      report.skills.push(createSkillReport(name, { rates, cases }));
    }
  });
  if (report.skills.length === 0)
    throw new SkillError("eval-empty", {
      message: "No skill has recorded runs",
      fix: `record one: skillet run SKILL "..." --record SKILL_FOLDER/${RECORDING_FOLDER}/NAME.json`,
    });
  return { report, isComplete: true };
}

function printReplay(out: Printer, name: string, { steps, difference }: ReplayResult): void {
  if (!difference) {
    out.line`${out.green("✓")} ${name}: ${formatCount(steps, "step")} as recorded`;
    return;
  }
  out.line`${out.red("✗")} ${name}: ${formatDifference(difference)}`;
  printDiff(out, difference.diff);
}

function formatDifference({ step, kind, message }: NonNullable<ReplayResult["difference"]>): string {
  return step === 0 ? `not run: ${message}` : `step ${step}, ${kind}: ${message}`;
}

/** Returns true if every recorded run was replayed as recorded. */
export function hasPassedReplays({ report }: EvaluatedReport): boolean {
  return report.skills.every(({ rates }) => rates.every(({ successes, total }) => successes === total));
}
