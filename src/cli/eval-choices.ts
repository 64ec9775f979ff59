import { createEvalReport, type EvalReport, type EvalSkillReport } from "../eval/eval-report.ts";
import { evaluateChoices } from "../eval/trigger-choice.ts";
import type { TriggerEvaluationSubject } from "../eval/trigger-evaluation.ts";
import { formatCount } from "../util/text.ts";
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
import { type CommandIo, createPrinter, type Printer, printJson, printProblem, runInterruptible } from "./output.ts";
import { createWaitIndicator } from "./progress.ts";

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
