import { existsSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { Option } from "commander";
import { listAvailableSkills } from "../../agent/policy/skill-policies.ts";
import { type Catalog, loadCatalog } from "../../catalog/catalog.ts";
import { createMatcher } from "../../catalog/search/matcher.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import {
  createEvalReport,
  EVAL_LEVELS,
  type EvalReport,
  listTriggerRates,
  MIN_QUERIES,
  reportTriggerScores,
  saveEvalReport,
  warnFewQueries,
} from "../../eval/eval-report.ts";
import { computeRate, type Rate } from "../../eval/pair-statistics.ts";
import type { ReportFormat } from "../../eval/report-formats.ts";
import {
  computeRecall,
  evaluateTriggers,
  RECALL_RANKS,
  type SkillScore,
  type TriggerEvaluation,
  type TriggerEvaluationSubject,
  type TriggerScore,
} from "../../eval/trigger-evaluation.ts";
import { createDirectorySource } from "../../skill/source/directory-source.ts";
import { readTriggerQueries, TRIGGER_QUERIES_FILE } from "../../skill/source/file-skill.ts";
import { getExpectedFolder } from "../../skill/source/skill-files.ts";
import { isInside } from "../../util/safe-path.ts";
import { formatCount, formatNumber } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  printConfigurationWarnings,
  requireConfiguration,
  resolveCommandEnvironment,
} from "../command-context.ts";
import type { EvalScene, EvaluatedReport, TaskOptions } from "../eval-tasks.ts";
import { type CommandIo, createPrinter, type Printer, printJson, printWrappedLine } from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";

/** `skillet eval`. */
export const evalCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Measure whether queries find a skill, and whether the skill helps")
      .argument("[path...]", "Folders of skills, skill folders, or names. Defaults to every skill found.")
      .addOption(
        new Option(
          "-l, --level <level>",
          "route: matching, no model. trigger: a model picks a skill, or none (both: evals/triggers.json). task: graded tasks (evals/tasks.yaml). replay: recorded runs (evals/recorded), no model",
        )
          .choices(LEVELS)
          .default("route"),
      )
      .option("-a, --all", "Compete with every skill found instead of the same folder only")
      .option("-m, --misses", "List missed queries and false triggers")
      .option(
        "--improve",
        "route: propose the smallest changes that let more held-out queries find a skill. With --model, it also writes descriptions.",
      )
      .option("--apply", "With --improve: write the changes into the files")
      .option("--ci", "Exit with 1 if the threshold is not reached")
      .option(
        "--threshold <share>",
        "Require this recall@3 (route) or share of picks (trigger), and at most 1 minus it false triggers; or this share of passed trials (task)",
        "0.8",
      )
      .option("-k, --trials <number>", "Trials of each case and arm (task, 5), or runs of each query (trigger, 3)")
      .option("--concurrency <number>", "Trials or queries at once. Defaults to 1.")
      .option("--max-cost <dollars>", "Never spend more on a model. Defaults to 5 if its price is configured.")
      .option("--model <alias>", "The model of the trigger and task levels")
      .option("--judge <alias>", "task: the model that judges rubrics. Defaults to the model of the arms.")
      .option(
        "-r, --report <file>",
        "Also write the report: .json, .xml (JUnit), .sarif, .md or .html. Can be repeated.",
        (file: string, others: readonly string[] = []) => [...others, file],
      )
      .option("--old <skill>", "task: also compare with this version, a folder or a name")
      .option("--agent <command>", 'task: let another agent do the tasks, for example "claude -p"')
      .option("--rival <skill>", "task: also compare with this skill, a folder or a name")
      .option(
        "--effect <share>",
        "task: the difference for which the plan prints the number of pairs. Defaults to 0.3.",
      )
      .option("--trust", "Use these skills and run their code in the sandbox without `skillet trust`")
      .option("--fresh", "task: do not reuse trials of the arm without the skill")
      .option("--resume", "task: continue the last unfinished evaluation with the same plan")
      .option("-n, --dry-run", "Print the plan of a level with a model, and spend nothing")
      .addHelpText(
        "after",
        formatExamples(
          "skillet eval skills",
          "skillet eval skills/deploy --misses",
          "skillet eval skills --ci --threshold 0.9",
          "skillet eval skills --improve",
          "skillet eval skills/deploy --improve --model fast --apply",
          "skillet eval skills/deploy --level trigger --misses",
          "skillet eval skills/deploy --level task --dry-run",
          "skillet eval skills/deploy --level task -k 10 --max-cost 2",
          "skillet eval skills --level replay",
        ),
      ),
  run: evaluateSkills,
};

/** The levels that can be chosen. */
const LEVELS = EVAL_LEVELS;

interface EvalOptions extends TaskOptions {
  level: (typeof LEVELS)[number];
  all?: boolean;
  misses?: boolean;
  improve?: boolean;
  apply?: boolean;
  report?: readonly string[];
  ci?: boolean;
  threshold: string;
}

async function evaluateSkills(context: CommandContext<EvalOptions>): Promise<number> {
  const { io, options, args } = context;
  for (const file of options.report ?? []) getReportFormat(file); // Before anything is spent.
  if (options.level === "route") return evaluateSkillTriggers(context);
  const threshold = parseShare(options.threshold);
  const scene = await loadEvalScene(io, options, args);
  const level = await MODEL_LEVELS[options.level]();
  const { exitOfEvaluation, listUsable } = await import("../eval-tasks.ts");
  const isAll = args.length === 0 && options.level !== "replay";
  const evaluated = await level.evaluate(
    io,
    isAll ? { ...scene, names: listUsable(io, scene, options) } : scene,
    options,
  );
  if (!evaluated) return EXIT.fine;
  // A test either passes or fails; the other levels measure.
  const isPassed = options.ci || options.level === "replay" ? level.hasPassed(evaluated, threshold) : null;
  const report = finishReport(evaluated.report, isPassed);
  if (options.json) printJson(io.stdout, report);
  await saveReport(io, options, report);
  return exitOfEvaluation(evaluated, isPassed);
}

interface ModelLevel {
  /** Returns undefined if only the plan was printed. */
  evaluate(
    io: CommandIo,
    scene: EvalScene,
    options: CommandContext<EvalOptions>["options"],
  ): Promise<EvaluatedReport | undefined>;
  hasPassed(evaluated: EvaluatedReport, threshold: number): boolean;
}

/** The levels that run or replay agents. */
const MODEL_LEVELS: Readonly<Record<Exclude<EvalOptions["level"], "route">, () => Promise<ModelLevel>>> = {
  async trigger() {
    const { evaluateSkillChoices, hasPassedChoices } = await import("../eval-triggers.ts");
    return {
      evaluate: (io, scene, options) => {
        const subjects = collectHeldOutQueries(io, scene);
        return evaluateSkillChoices(io, scene, subjects, options);
      },
      hasPassed: hasPassedChoices,
    };
  },
  async task() {
    const { evaluateSkillTasks, hasPassedTasks } = await import("../eval-tasks.ts");
    return { evaluate: evaluateSkillTasks, hasPassed: hasPassedTasks };
  },
  async replay() {
    const { hasPassedReplays, replaySkillRuns } = await import("../eval-tasks.ts");
    return { evaluate: replaySkillRuns, hasPassed: hasPassedReplays };
  },
};

/** Collects the queries of the trigger level. Throws a SkillError without any. */
function collectHeldOutQueries(io: CommandIo, { catalog, names }: EvalScene): readonly TriggerEvaluationSubject[] {
  const { subjects, problems } = collectTriggerQueries(catalog, names);
  printQueryProblems(createPrinter(io.stderr, io.env), problems);
  if (subjects.length > 0) return subjects;
  throw new SkillError("eval-empty", {
    message: "No skill has held-out queries for the trigger level",
    fix: `write ${TRIGGER_QUERIES_FILE} as [{ "query": "…", "should_trigger": true }, …], or mark some with "split": "test"`,
  });
}

function printQueryProblems(error: Printer, problems: readonly { skill: string; problem: string }[]): void {
  for (const { skill, problem } of problems)
    error.line`${error.yellow("!")} ${skill}: ${TRIGGER_QUERIES_FILE} ${problem}`;
}

/** Measures how well queries find their skills. */
async function evaluateSkillTriggers({ io, options, args }: CommandContext<EvalOptions>): Promise<number> {
  const threshold = parseShare(options.threshold);
  const { catalog, skills, names, maxSkills } = await loadEvalSkills(io, options, args);
  const { subjects, problems, training } = collectTriggerQueries(catalog, names);
  if (options.improve && subjects.length > 0) {
    const { proposeImprovements } = await import("../eval-triggers.ts");
    const host = options.model === undefined ? undefined : await discoverForCommand(io, options);
    return proposeImprovements(io, { catalog, skills, names, heldOut: subjects, maxSkills, host }, options);
  }
  const report = createEvalReport("route", { workspace: resolveCommandEnvironment(io, options).workspace });
  const evaluation = await runWithWaitIndicator(io, "measuring", async ({ at }) => {
    const onScored = (done: number) =>
      at(`measuring ${formatNumber(done)} of ${formatCount(subjects.length, "skill")}`);
    return await evaluateTriggers(createMatcher(skills), subjects, { maxSkills, onScored });
  });
  const error = createPrinter(io.stderr, io.env);
  printQueryProblems(error, problems);
  const isEmpty = evaluation.all.queries + evaluation.all.others === 0;
  if (options.json) printJson(io.stdout, { threshold, training, ...toEvaluationJson(evaluation) });
  else if (!isEmpty) printScores(io, evaluation, options.misses ?? false);
  if (isEmpty) printTriggerHint(error, training);
  else if (!options.json)
    printWrappedLine(
      error,
      `held-out queries only; ${formatCount(training, "training query serves as an example", "training queries serve as examples")}. full: its instructions were included immediately`,
      error.dim,
    );
  const isGood = !isEmpty && problems.length === 0 && isAbove(evaluation.all, threshold);
  report.skills = reportTriggerScores(evaluation);
  if (!isEmpty) await saveReport(io, options, finishReport(report, options.ci ? isGood : null));
  if (!options.ci) return EXIT.fine;
  error.line`${isGood ? error.green("✓") : error.red("✗")} recall@3 ${formatPercent(computeRecall(evaluation.all, 3))}, false triggers ${formatPercent(getFalseShare(evaluation.all))}; required at least ${formatPercent(threshold)} and at most ${formatPercent(1 - threshold)}${problems.length > 0 ? "; a query file is invalid" : ""}`;
  return isGood ? EXIT.fine : EXIT.findings;
}

/** Adds the duration and the verdict: what `--json` prints is what is stored. */
function finishReport(report: EvalReport, passed: boolean | null): EvalReport {
  return { ...report, ms: Date.now() - Date.parse(report.at), passed };
}

/** Writes the report files, and stores the report for the evaluation page. A folder that cannot be written is only a warning. */
async function saveReport(io: CommandIo, options: EvalOptions & CommonOptions, report: EvalReport): Promise<void> {
  const { skilletHome } = resolveCommandEnvironment(io, options);
  for (const file of options.report ?? []) {
    const { formatEvalReport } = await import("../../eval/report-formats.ts");
    writeFileSync(resolve(io.cwd, file), formatEvalReport(report, getReportFormat(file)));
  }
  try {
    saveEvalReport(skilletHome, report);
  } catch (error) {
    const out = createPrinter(io.stderr, io.env);
    out.line`${out.yellow("!")} the result was not stored: ${getErrorMessage(error)}`;
  }
}

const REPORT_ENDINGS: Readonly<Record<string, ReportFormat>> = {
  ".json": "json",
  ".xml": "junit",
  ".sarif": "sarif",
  ".md": "markdown",
  ".html": "html",
};

/** Returns the format of a report file by its ending. Throws a SkillError for an unknown one. */
function getReportFormat(file: string): ReportFormat {
  const format = REPORT_ENDINGS[extname(file)];
  if (format) return format;
  throw new SkillError("usage", {
    message: `The report file "${file}" has an unknown ending`,
    fix: `use one of ${Object.keys(REPORT_ENDINGS).join(", ")}`,
  });
}

function parseShare(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && number >= 0 && number <= 1) return number;
  throw new SkillError("usage", {
    message: `The threshold "${text}" is not a number from 0 to 1`,
    fix: "for example --threshold 0.8",
  });
}

/** Returns the skills to measure by name, and those that they compete with: the same folder, or every skill found. */
async function loadEvalSkills(io: CommandIo, options: CommandContext<EvalOptions>["options"], args: readonly string[]) {
  const { paths, named, folders } = resolveEvalPaths(io, args);
  const isHermetic = args.length > 0 && named.length === 0 && !options.all;
  const sources = folders.map((path) => createDirectorySource({ path, scope: "inline" }));
  const own = await loadCatalog(sources);
  const names = own.skills.flatMap(({ name, origin }) => (isRequested(origin.folder, paths) ? name : []));
  if (isHermetic) return { catalog: own, skills: own.skills, names, maxSkills: undefined };
  const found = await discoverForCommand(io, options, { sources });
  printConfigurationWarnings(io, found);
  for (const name of named) found.catalog.get(name);
  const skills = listAvailableSkills(found.catalog, found);
  const there = new Set(skills.map(({ name }) => name));
  const asked = args.length === 0 ? found.catalog.names() : [...names, ...named];
  return {
    catalog: found.catalog,
    skills,
    names: asked.filter((name) => there.has(name)),
    maxSkills: found.settings.disclosure.maxSkills,
  };
}

/** Separates folders from names. */
function resolveEvalPaths(io: CommandIo, args: readonly string[]) {
  const given = args.map((arg) => ({ arg, path: resolve(io.cwd, arg.replace(/[\\/]SKILL\.md$/, "")) }));
  const paths = given.flatMap(({ path }) => (existsSync(path) ? path : []));
  const named = given.flatMap(({ arg, path }) => (existsSync(path) ? [] : arg));
  return { paths, named, folders: [...new Set(paths.map((path) => (isSkillFolder(path) ? dirname(path) : path)))] };
}

/** Loads the skills whose cases are run. Skills in given folders count as those of a workspace: their code needs trust. */
async function loadEvalScene(
  io: CommandIo,
  options: CommandContext<EvalOptions>["options"],
  args: readonly string[],
): Promise<EvalScene> {
  const { paths, named, folders } = resolveEvalPaths(io, args);
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  const sources = folders.map((path) => {
    const known = found.locations.find(
      (location) => existsSync(location.path) && realpathSync(location.path) === realpathSync(path),
    );
    return createDirectorySource(known ?? { path, scope: "workspace" });
  });
  const own = await loadCatalog(sources);
  const names = own.skills.flatMap(({ name, origin }) => (isRequested(origin.folder, paths) ? name : []));
  for (const name of named) found.catalog.get(name);
  if (args.length === 0) return { catalog: found.catalog, names: found.catalog.names(), host: found };
  if (named.length === 0 && !options.all) return { catalog: own, names, host: found };
  const catalog = paths.length === 0 ? found.catalog : (await discoverForCommand(io, options, { sources })).catalog;
  return { catalog, names: [...names, ...named], host: found };
}

function isSkillFolder(path: string): boolean {
  return existsSync(join(path, "SKILL.md"));
}

function isRequested(folder: string | undefined, paths: readonly string[]): boolean {
  return folder !== undefined && paths.some((path) => isInside(realpathSync(path), folder));
}

function collectTriggerQueries(catalog: Catalog, names: readonly string[]) {
  const subjects: TriggerEvaluationSubject[] = [];
  const problems: { skill: string; problem: string }[] = [];
  let training = 0;
  for (const name of names) {
    const skill = catalog.get(name);
    const { folder } = skill.origin;
    const asked = folder === undefined ? undefined : readTriggerQueries(folder, getExpectedFolder(skill.origin));
    if (asked?.problem !== undefined) problems.push({ skill: name, problem: asked.problem });
    if (!asked) continue;
    const heldOut = asked.queries.filter(({ isHeldOut }) => isHeldOut);
    training += asked.queries.length - heldOut.length;
    if (heldOut.length > 0) subjects.push({ skill, queries: heldOut });
  }
  return { subjects, problems, training };
}

function printTriggerHint(error: Printer, training: number): void {
  if (training > 0)
    error.line`all ${training} queries are training queries: add more, or mark some with "split": "test"`;
  else
    error.line`no skill has ${TRIGGER_QUERIES_FILE}: write one as [{ "query": "…", "should_trigger": true }, …], including queries that must not trigger it`;
}

function printScores(io: CommandIo, { skills, all }: TriggerEvaluation, withMisses: boolean): void {
  const out = createPrinter(io.stdout, io.env);
  const widest = Math.max("skill".length, ...skills.map(({ skill }) => skill.length));
  out.line`${out.bold("skill".padEnd(widest))}  ${out.bold("queries     @1     @3     @5  @3 95 %      full  false  taken by")}`;
  const row = (name: string, score: TriggerScore, taken: string) => {
    const shares = RECALL_RANKS.map((place) => formatPercent(computeRecall(score, place)).padStart(5)).join("  ");
    const interval = formatInterval(computeRate(score.first[3], score.queries)).padEnd(9);
    const told = `${score.told}/${score.queries}`.padStart(5);
    out.line`${name.padEnd(widest)}  ${String(score.queries).padStart(7)}  ${shares}  ${interval}  ${told}  ${`${score.false}/${score.others}`.padStart(5)}  ${taken}`;
  };
  for (const score of skills) {
    row(
      score.skill,
      score,
      score.takenBy
        .slice(0, 3)
        .map(({ skill, times }) => `${skill} ${times}x`)
        .join(", "),
    );
    if (withMisses) printMisses(out, score);
  }
  if (skills.length > 1) row("all", all, "");
  const few = skills.filter(({ queries, others }) => warnFewQueries(queries + others).length > 0);
  if (few.length === 0) return;
  const error = createPrinter(io.stderr, io.env);
  const names = few.length > 3 ? formatCount(few.length, "skill") : few.map(({ skill }) => skill).join(", ");
  error.line`${error.yellow("!")} ${names}: fewer than ${MIN_QUERIES} held-out queries, so the intervals are wide`;
}

/** `51-88 %`: without a dash of more than one column, which old terminals do not have. */
function formatInterval({ low, high, rate }: Rate): string {
  return rate === null ? "-" : `${Math.round(low * 100)}-${Math.round(high * 100)} %`;
}

function printMisses(out: Printer, { misses, falseTriggers }: SkillScore): void {
  for (const { query, rank, takenBy } of misses) {
    out.line`    ${out.yellow("missed")} ${query}  ${out.dim(`${rank === undefined ? "not found" : `rank ${rank}`}${takenBy === undefined ? "" : `, first was ${takenBy}`}`)}`;
  }
  for (const query of falseTriggers) out.line`    ${out.red("false")} ${query}`;
}

function toEvaluationJson({ skills, all }: TriggerEvaluation): object {
  const withShares = <S extends TriggerScore>(score: S) => ({
    ...score,
    recall: Object.fromEntries(RECALL_RANKS.map((place) => [place, computeRecall(score, place) ?? null])),
    rates: listTriggerRates(score),
    warnings: warnFewQueries(score.queries + score.others),
  });
  return { all: withShares(all), skills: skills.map(({ skill, ...score }) => ({ name: skill, ...withShares(score) })) };
}

function getFalseShare({ others, false: wrong }: TriggerScore): number | undefined {
  return others === 0 ? undefined : wrong / others;
}

/** 1 - 0.8 is slightly less than 0.2 in floating point. */
const ROUNDING_ERROR = 1e-9;

function isAbove(all: TriggerScore, threshold: number): boolean {
  return (computeRecall(all, 3) ?? 1) >= threshold && (getFalseShare(all) ?? 0) <= 1 - threshold + ROUNDING_ERROR;
}

function formatPercent(share: number | undefined): string {
  return share === undefined ? "-" : `${Math.round(share * 100)} %`;
}
