import { existsSync } from "node:fs";
import { resumeRun } from "../../agent/run/resume-run.ts";
import { resumeChat } from "../../agent/session/conversation.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import { type RunSummary, requireKnownFormat } from "../../store/run-rules.ts";
import { omitUndefined } from "../../util/objects.ts";
import { truncateLine } from "../../util/text.ts";
import {
  addRunOutputOptions,
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForRun,
  EXIT,
  formatExamples,
  openCommandRuns,
  openCommandStores,
  requireCommandEngine,
  requireConfiguration,
} from "../command-context.ts";

import { type CommandIo, createInterruptSignal, createPrinter, printJson } from "../output.ts";
import { runTraced } from "../progress.ts";
import { formatRunId, formatRunSubject } from "../run-format.ts";
import { getRunExitCode, printRunResult, type RunOutputOptions, runWithProgress } from "../run-output.ts";

/** `skillet resume`. */
export const resumeCommand: CommandDefinition = {
  define: (command) =>
    addRunOutputOptions(
      command
        .description("Resume an interrupted or waiting run")
        .argument("<id>", "A run id, the start or end of it, or `last`")
        .option("-m, --model <alias>", "Switch to another model"),
    ).addHelpText("after", formatExamples("skillet resume last", "skillet resume 3f2a91c0 --model fast")),
  run: resumeById,
};

interface ResumeOptions extends RunOutputOptions {
  model?: string;
}

/** Resumes a run where it stopped. */
async function resumeById({ io, options, args: [value = ""] }: CommandContext<ResumeOptions>): Promise<number> {
  return resumeAndPrint(io, await (await openCommandRuns(io, options)).find(value), options);
}

/** Gives a queued run to the workers again. */
async function requeueRun(io: CommandIo, { id }: RunSummary, options: ResumeOptions & CommonOptions): Promise<number> {
  const { queue, close } = await requireCommandEngine(io, options);
  try {
    await queue.requeue(id);
  } finally {
    await close();
  }
  if (options.json) printJson(io.stdout, { run: id, isQueued: true });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} queued again: ${id}`;
  }
  return EXIT.fine;
}

/** Resumes a run that was already looked up. */
export async function resumeAndPrint(
  io: CommandIo,
  run: RunSummary,
  options: ResumeOptions & CommonOptions,
): Promise<number> {
  refuseEnded(run);
  if (run.queue !== undefined) return requeueRun(io, run, options);
  const found = await discoverForResume(io, run, options);
  requireConfiguration(io, found);
  const isForProgram = options.json === true || options.events === true;
  if (run.kind === "use" && !isForProgram && !found.catalog.find(run.skill)) throw createSkillGoneError(run);
  if (!options.quiet && !isForProgram) printResumeStart(io, run);
  const signal = createInterruptSignal(io);
  const how = { signal, ...omitUndefined({ model: options.model }) };
  const resume = run.kind === "use" ? resumeRun : resumeChat;
  return runTraced(io, async (traces) => {
    const host = { ...found, ...(traces ? { onEvent: traces.record } : {}) };
    const result = await runWithProgress(io, host, options, (seen) => resume(found.catalog, seen, run.id, how));
    await printRunResult(io, found, result, options);
    return result.refusals.some(({ code }) => NOT_STARTED_CODES.has(code)) ? EXIT.findings : getRunExitCode(result);
  });
}

/** Returns the error for a run whose skill is missing or no longer loads. */
function createSkillGoneError({ id, skill }: RunSummary): SkillError {
  return new SkillError("run-skill-missing", {
    message: `Run ${id} uses skill '${skill}', which was not found`,
    fix: "restore it or fix what keeps it from loading, or cancel the run",
    commands: [`skillet cancel ${formatRunId(id)}`],
  });
}

/** Throws for a run that has ended, is running or is corrupt, before anything is discovered. */
export function refuseEnded(run: RunSummary): void {
  const { id, state, owner } = requireKnownFormat(run);
  const row = NOT_RESUMABLE[state];
  if (row === undefined) return;
  const { code, text, fix, command } = row;
  const more = owner === undefined ? "" : ` in ${owner.label}`;
  const commands = [`skillet ${command} ${formatRunId(id)}`];
  throw new SkillError(code, { message: `Run ${id} ${text}${more}`, fix, commands });
}

interface NotResumableState {
  code: ErrorCode;
  text: string;
  fix: string;
  /** The command that takes the id of the run. */
  command: "runs show" | "cancel";
}

const NOT_RESUMABLE: Partial<Record<RunSummary["state"], NotResumableState>> = {
  ended: { code: "run-ended", text: "has ended", fix: "to see its result", command: "runs show" },
  cancelled: {
    ...{ code: "run-cancelled", text: "was cancelled" },
    ...{ fix: "start a new run; to see the old one", command: "runs show" },
  },
  queued: { code: "run-busy", text: "waits for a worker", fix: "wait for it to end, or cancel it", command: "cancel" },
  running: { code: "run-busy", text: "is running", fix: "wait for it to end, or cancel it", command: "cancel" },
  corrupt: {
    ...{ code: "journal-corrupt", text: "cannot be resumed: its journal is corrupt" },
    ...{ fix: "start a new run; to see the readable part", command: "runs show" },
  },
};

/** Codes of runs that another process ended or resumed first. */
const NOT_STARTED_CODES = new Set(["run-ended", "run-cancelled", "run-busy", "run-unknown", "journal-corrupt"]);

/** Discovers in the workspace, and on behalf of the caller, of the original run. */
export async function discoverForResume(
  io: CommandIo,
  run: RunSummary,
  options: CommonOptions,
): Promise<DiscoverResult> {
  const { workspace, caller } = run;
  if (workspace !== undefined && !existsSync(workspace)) {
    throw new SkillError("run-workspace-missing", {
      message: `Run ${run.id} was started in ${workspace}, which no longer exists`,
      fix: "restore it, or cancel the run",
      commands: [`skillet cancel ${formatRunId(run.id)}`],
    });
  }
  const found = await discoverForRun(io, { ...options, ...(workspace === undefined ? {} : { workspace }) });
  return caller ? { ...found, caller } : found;
}

function printResumeStart(io: CommandIo, run: RunSummary): void {
  const out = createPrinter(io.stderr, io.env);
  const room = Math.max(20, Math.min(out.width, 100) - formatRunSubject(run).length - 20);
  out.line`${out.dim("·")} resuming ${out.bold(formatRunSubject(run))} ${out.dim(truncateLine(run.task, room))}`;
}

/** `skillet cancel`. */
export const cancelCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Cancel a run, also in another process")
      .argument("<id>", "A run id, the start or end of it, or `last`")
      .addHelpText("after", formatExamples("skillet cancel 3f2a91c0")),
  run: cancelRun,
};

/** Cancels a run and records its outcome. Returns the run as it was before. */
export async function cancelStoredRun(
  { runs, statistics }: Pick<DiscoverResult, "runs" | "statistics">,
  value: string,
): Promise<RunSummary> {
  const run = await runs.find(value);
  await runs.cancel(run.id);
  await statistics.recordOutcome(run.id, "aborted");
  return run;
}

/** Cancels a run, also one of another process. */
async function cancelRun({ io, options, args: [value = ""] }: CommandContext<object>): Promise<number> {
  const { id, owner } = await cancelStoredRun(await openCommandStores(io, options), value);
  if (options.json) printJson(io.stdout, { run: id, ...(owner === undefined ? {} : { owner }) });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} cancelled: ${id}${owner === undefined ? "" : `; ${owner.label} stops within a second`}`;
  }
  return EXIT.fine;
}
