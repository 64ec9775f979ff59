import { basename } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { createEvalReport, createSkillReport, type EvalReport } from "../eval/eval-report.ts";
import { computeRate } from "../eval/pair-statistics.ts";
import { listRecordings, RECORDING_FOLDER, readRecording } from "../eval/recorded-run.ts";
import { type ReplayResult, replayRun } from "../eval/replay.ts";
import { formatCount } from "../util/text.ts";
import type { EvalScene, EvaluatedReport } from "./eval-tasks.ts";
import { type CommandIo, createPrinter, type Printer, printDiff, runInterruptible } from "./output.ts";

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
