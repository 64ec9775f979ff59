import { existsSync } from "node:fs";
import type { ErrorCode } from "../../codes/codes.ts";
import type { Discovered } from "../../host/discover.ts";
import type { RunSummary } from "../../host/runs.ts";
import { resumeRun } from "../../run/resume.ts";
import { resumeChat } from "../../session/resume-chat.ts";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { discoverToRun, requireConfiguration } from "../found.ts";
import { type Io, interruption, printer } from "../io.ts";
import { exitOf, sayResult } from "../outcome.ts";
import type { CommonOptions, Context } from "../program.ts";
import { runsFor, shortId, subjectOf } from "../run-words.ts";
import { type SeenOptions, seenRun } from "../seen-run.ts";
import { traced } from "../traces.ts";

interface ResumeOptions extends SeenOptions {
  model?: string;
}

/** Goes on with a run where it stopped. */
export async function resume({ io, options, args: [given = ""] }: Context<ResumeOptions>): Promise<number> {
  return goOn(io, runsFor(io, options).find(given), options);
}

/** The same for one that was found already. */
export async function goOn(io: Io, run: RunSummary, options: ResumeOptions & CommonOptions): Promise<number> {
  refuseEnded(run);
  const found = await discoverThere(io, run, options);
  requireConfiguration(io, found);
  const isForProgram = options.json === true || options.events === true;
  if (run.kind === "use" && !isForProgram && !found.catalog.find(run.skill)) throw skillGone(run);
  if (!options.quiet && !isForProgram) sayBeginning(io, run);
  const signal = interruption(io);
  const how = { signal, ...defined({ model: options.model }) };
  const goOnWith = run.kind === "use" ? resumeRun : resumeChat;
  return traced(io, async (traces) => {
    const host = { ...found, ...(traces ? { onEvent: traces.take } : {}) };
    const result = await seenRun(io, host, options, (seen) => goOnWith(found.catalog, seen, run.id, how));
    sayResult(io, found, result, options);
    return result.refusals.some(({ code }) => UNTAKEN.has(code)) ? EXIT.findings : exitOf(result);
  });
}

/** What it follows may be gone by now, or may not load any more. */
function skillGone({ id, skill }: RunSummary): SkillError {
  return new SkillError("skill-gone", {
    message: `Run ${id} follows skill '${skill}', which is not found any more`,
    fix: `put it back (skillet list --all shows what did not load), or call the run off: skillet cancel ${shortId(id)}`,
  });
}

/** What ended, is under way or cannot be read is said before anything is looked for. */
function refuseEnded({ id, state, pid }: RunSummary): void {
  const [code, says, fix] = REFUSED[state] ?? [];
  if (code === undefined) return;
  const more = pid === undefined ? "" : `: process ${pid} is at it`;
  throw new SkillError(code, { message: `Run ${id} ${says}${more}`, fix: `${fix}`.replace("ID", shortId(id)) });
}

const REFUSED: Partial<Record<RunSummary["state"], [code: ErrorCode, says: string, fix: string]>> = {
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
const UNTAKEN = new Set(["run-ended", "run-cancelled", "run-busy", "run-unknown", "journal-corrupt"]);

/** In the workspace that it was started in, on behalf of whom it was. */
async function discoverThere(io: Io, run: RunSummary, options: CommonOptions): Promise<Discovered> {
  const { workspace, caller } = run;
  if (workspace !== undefined && !existsSync(workspace)) {
    throw new SkillError("workspace-gone", {
      message: `Run ${run.id} was started in ${workspace}, which is not there any more`,
      fix: `put it back, or call the run off: skillet cancel ${shortId(run.id)}`,
    });
  }
  const found = await discoverToRun(io, { ...options, ...(workspace === undefined ? {} : { workspace }) });
  return caller ? { ...found, caller } : found;
}

function sayBeginning(io: Io, run: RunSummary): void {
  const out = printer(io.stderr, io.env);
  const room = Math.max(20, Math.min(out.width, 100) - subjectOf(run).length - 20);
  out.line`${out.dim("·")} going on with ${out.bold(subjectOf(run))} ${out.dim(oneLine(run.task, room))}`;
}
