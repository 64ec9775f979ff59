import { existsSync } from "node:fs";
import { resumeRun } from "../../agent/run/resume-run.ts";
import { resumeChat } from "../../agent/session/conversation.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import type { RunSummary } from "../../store/run-summary.ts";
import { omitUndefined } from "../../util/objects.ts";
import { truncateLine } from "../../util/text.ts";
import {
  addRunOutputOptions,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  EXIT,
  formatExamples,
} from "../command-definition.ts";
import { discoverForRun, openCommandRuns, requireConfiguration } from "../command-host.ts";
import { formatRunId, formatRunSubject } from "../format.ts";
import { type CommandIo, createInterruptSignal, createPrinter } from "../output.ts";
import { runTraced } from "../progress.ts";
import { getRunExitCode, printRunResult, type RunOutputOptions, runWithProgress } from "../run-output.ts";

/** `skillet resume`. */
export const resumeCommand: CommandDefinition = {
  define: (command) =>
    addRunOutputOptions(
      command
        .description("go on with a run that was interrupted or waits: what was done is not done again")
        .argument("<id>", "a run, the beginning or end of its id, or `last`")
        .option("-m, --model <alias>", "another model from here on, as skillet run takes it"),
    ).addHelpText("after", formatExamples("skillet resume last", "skillet resume 3f2a91c0 --model fast")),
  run: resumeById,
};

interface ResumeOptions extends RunOutputOptions {
  model?: string;
}

/** Goes on with a run where it stopped. */
async function resumeById({ io, options, args: [given = ""] }: CommandContext<ResumeOptions>): Promise<number> {
  return resumeAndPrint(io, openCommandRuns(io, options).find(given), options);
}

/** The same for one that was found already. */
export async function resumeAndPrint(
  io: CommandIo,
  run: RunSummary,
  options: ResumeOptions & CommonOptions,
): Promise<number> {
  refuseEnded(run);
  const found = await discoverForResume(io, run, options);
  requireConfiguration(io, found);
  const isForProgram = options.json === true || options.events === true;
  if (run.kind === "use" && !isForProgram && !found.catalog.find(run.skill)) throw createSkillGoneError(run);
  if (!options.quiet && !isForProgram) printResumeStart(io, run);
  const signal = createInterruptSignal(io);
  const how = { signal, ...omitUndefined({ model: options.model }) };
  const goOnWith = run.kind === "use" ? resumeRun : resumeChat;
  return runTraced(io, async (traces) => {
    const host = { ...found, ...(traces ? { onEvent: traces.take } : {}) };
    const result = await runWithProgress(io, host, options, (seen) => goOnWith(found.catalog, seen, run.id, how));
    printRunResult(io, found, result, options);
    return result.refusals.some(({ code }) => NOT_STARTED_CODES.has(code)) ? EXIT.findings : getRunExitCode(result);
  });
}

/** What it follows may be gone by now, or may not load any more. */
function createSkillGoneError({ id, skill }: RunSummary): SkillError {
  return new SkillError("skill-gone", {
    message: `Run ${id} follows skill '${skill}', which is not found any more`,
    fix: `put it back (skillet list --all shows what did not load), or call the run off: skillet cancel ${formatRunId(id)}`,
  });
}

/** What ended, is under way or cannot be read is said before anything is looked for. */
function refuseEnded({ id, state, pid }: RunSummary): void {
  const [code, says, fix] = NOT_RESUMABLE[state] ?? [];
  if (code === undefined) return;
  const more = pid === undefined ? "" : `: process ${pid} is at it`;
  throw new SkillError(code, { message: `Run ${id} ${says}${more}`, fix: `${fix}`.replace("ID", formatRunId(id)) });
}

const NOT_RESUMABLE: Partial<Record<RunSummary["state"], [code: ErrorCode, says: string, fix: string]>> = {
  ended: ["run-ended", "has ended", "to see what came of it: skillet runs show ID"],
  cancelled: ["run-cancelled", "was called off", "start it anew; skillet runs show ID says what it was"],
  running: ["run-busy", "is under way", "wait for it to end, or call it off: skillet cancel ID"],
  corrupt: [
    "journal-corrupt",
    "cannot be gone on with: its journal is not what was written",
    "start it anew; skillet runs show ID shows what can be read of it",
  ],
};

/** Somebody else was quicker. */
const NOT_STARTED_CODES = new Set(["run-ended", "run-cancelled", "run-busy", "run-unknown", "journal-corrupt"]);

/** In the workspace that it was started in, on behalf of whom it was. */
async function discoverForResume(io: CommandIo, run: RunSummary, options: CommonOptions): Promise<DiscoverResult> {
  const { workspace, caller } = run;
  if (workspace !== undefined && !existsSync(workspace)) {
    throw new SkillError("workspace-gone", {
      message: `Run ${run.id} was started in ${workspace}, which is not there any more`,
      fix: `put it back, or call the run off: skillet cancel ${formatRunId(run.id)}`,
    });
  }
  const found = await discoverForRun(io, { ...options, ...(workspace === undefined ? {} : { workspace }) });
  return caller ? { ...found, caller } : found;
}

function printResumeStart(io: CommandIo, run: RunSummary): void {
  const out = createPrinter(io.stderr, io.env);
  const room = Math.max(20, Math.min(out.width, 100) - formatRunSubject(run).length - 20);
  out.line`${out.dim("·")} going on with ${out.bold(formatRunSubject(run))} ${out.dim(truncateLine(run.task, room))}`;
}
