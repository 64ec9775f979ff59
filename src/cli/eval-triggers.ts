import type { Catalog } from "../catalog/catalog.ts";
import { createEvalReport, type EvalReport, type EvalSkillReport } from "../eval/eval-report.ts";
import { evaluateChoices } from "../eval/trigger-choice.ts";
import { formatImprovement, improveTriggers, type TriggerEvaluationSubject } from "../eval/trigger-evaluation.ts";
import type { Skill } from "../skill/skill.ts";
import { readTriggerQueries } from "../skill/source/file-skill.ts";
import { getExpectedFolder } from "../skill/source/skill-files.ts";
import { readRegularText } from "../util/file-access.ts";
import { formatCount } from "../util/text.ts";
import { EXIT } from "./command-context.ts";
import {
  type EvalScene,
  type EvaluatedReport,
  getTrustingHost,
  openEvalModels,
  parseWhole,
  printCeiling,
  printSpending,
  requireUsable,
  type TaskOptions,
} from "./eval-tasks.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printDiff,
  printJson,
  printProblem,
  runInterruptible,
} from "./output.ts";
import { createWaitIndicator, runWithWaitIndicator } from "./progress.ts";

interface ImproveContext {
  catalog: Catalog;
  skills: readonly Skill[];
  names: readonly string[];
  heldOut: readonly TriggerEvaluationSubject[];
  maxSkills: number | undefined;
}

/** Prints a diff for each skill that keywords of its training queries make easier to find. Changes no file. */
export async function proposeImprovements(
  io: CommandIo,
  { catalog, skills, names, heldOut, maxSkills }: ImproveContext,
): Promise<number> {
  const training = new Map(
    names.map((name) => {
      const { origin } = catalog.get(name);
      const read =
        origin.folder === undefined ? undefined : readTriggerQueries(origin.folder, getExpectedFolder(origin));
      return [name, (read?.queries ?? []).filter(({ isHeldOut }) => !isHeldOut)] as const;
    }),
  );
  const found = await runWithWaitIndicator(io, "trying keywords", () =>
    improveTriggers({ skills, heldOut, training, maxSkills }),
  );
  const out = createPrinter(io.stdout, io.env);
  if (found.length === 0) out.line`no keyword helps without harm: try other training queries, or another description`;
  for (const { skill, keywords, before, after, of } of found) {
    out.line`${out.bold(skill.name)}: ${after} of ${formatCount(of, "held-out query", "held-out queries")} would find it first, ${before} now`;
    const { file } = skill.origin;
    if (file === undefined) out.line`    add the keywords ${keywords.join(", ")}`;
    else printDiff(out, formatImprovement(readRegularText(file), keywords));
  }
  if (found.length > 0) {
    const error = createPrinter(io.stderr, io.env);
    error.line`${error.dim("the held-out queries chose these keywords: add new queries before you measure again")}`;
  }
  return EXIT.fine;
}

const DEFAULT_RUNS = 3;

/** Asks a model each held-out query and prints how often it picks the skill. Returns undefined for a plan only. */
export async function evaluateSkillChoices(
  io: CommandIo,
  { catalog, host: given }: EvalScene,
  subjects: readonly TriggerEvaluationSubject[],
  options: TaskOptions & { misses?: boolean },
): Promise<EvaluatedReport | undefined> {
  const host = getTrustingHost(given, options);
  // The choice does not depend on what this user has used before.
  const { statistics: _, ...sessionHost } = host;
  const error = createPrinter(io.stderr, io.env);
  for (const { skill } of subjects) requireUsable(skill, host);
  const runs = parseWhole(options.trials, "--trials", DEFAULT_RUNS);
  const { model, budget, ...money } = await openEvalModels(host, options);
  const queries = subjects.reduce((sum, subject) => sum + subject.queries.length, 0);
  error.line`plan: ${formatCount(queries, "held-out query", "held-out queries")}, each asked ${formatCount(runs, "time")}, ${formatCount(catalog.skills.length, "skill")} to choose from, with ${model.name}`;
  printCeiling(error, { ...money, model: model.name });
  if (options.dryRun) return undefined;
  const report = createEvalReport("trigger", { workspace: host.workspace, model: model.name });
  const waiting = createWaitIndicator(io, "asking");
  const onQuery = (done: number, total: number) => waiting.at(`asking: ${done} of ${total}`);
  const concurrency = parseWhole(options.concurrency, "--concurrency", 1);
  try {
    const { skills, unfinished, stopped } = await runInterruptible(io, (signal) =>
      evaluateChoices({
        ...{ catalog, subjects, runs, concurrency, model, budget, signal, onQuery },
        host: sessionHost,
      }),
    );
    waiting.end();
    const done: EvalReport = { ...report, spent: budget.spent, skills };
    if (options.json) printJson(io.stdout, done);
    else printChoices(createPrinter(io.stdout, io.env), done, options.misses === true);
    if (stopped) printProblem(error, error.red("✗"), stopped.problem);
    if (unfinished > 0)
      error.line`${error.yellow("!")} ${formatCount(unfinished, "query was", "queries were")} not asked ${formatCount(runs, "time")} and ${unfinished === 1 ? "does" : "do"} not count`;
    return { report: done, isComplete: unfinished === 0 };
  } finally {
    waiting.end();
  }
}

function printChoices(out: Printer, { skills, spent }: EvalReport, withMisses: boolean): void {
  for (const { name, rates, misses, warnings } of skills) {
    out.line`${out.bold(name)}`;
    for (const rate of rates) {
      const share = rate.rate === null ? "-" : `${Math.round(rate.rate * 100)} %`;
      out.line`  ${rate.name.padEnd(14)} ${share.padStart(5)}  ${rate.successes}/${rate.total}  95 % ${Math.round(rate.low * 100)}-${Math.round(rate.high * 100)} %`;
    }
    for (const { query, shouldTrigger, takenBy } of withMisses ? misses : [])
      out.line`    ${shouldTrigger ? out.yellow("missed") : out.red("false")} ${query}${takenBy === undefined ? "" : out.dim(`  picked ${takenBy}`)}`;
    for (const warning of warnings) out.line`  ${out.yellow("!")} ${warning}`;
  }
  printSpending(out, spent);
}

/** Decides whether the trigger level passes, over all skills. */
export function hasPassedChoices({ report, isComplete }: EvaluatedReport, threshold: number): boolean {
  const sum = (name: string) => {
    const rates = report.skills.flatMap((skill: EvalSkillReport) => skill.rates.filter((rate) => rate.name === name));
    const total = rates.reduce((all, rate) => all + rate.total, 0);
    return total === 0 ? undefined : rates.reduce((all, rate) => all + rate.successes, 0) / total;
  };
  const rounding = 1e-9;
  return isComplete && (sum("picked") ?? 1) >= threshold && (sum("false triggers") ?? 0) <= 1 - threshold + rounding;
}
