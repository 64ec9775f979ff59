import type { Catalog } from "../../catalog/catalog.ts";
import { type Host, type HostOptions, tryCompleteHost } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { RunEvent } from "../../host/events.ts";
import type { Message } from "../../host/model-contract.ts";
import type { Journal, JournalLine } from "../../store/journal.ts";
import { omitUndefined } from "../../util/objects.ts";
import { type Run, type RunResult, startRun, toProblem } from "./run-result.ts";
import { createLiveStepRunner, refuseRun } from "./step-runner.ts";
import { runRecordedUse, type UseRequest } from "./use-skill.ts";

export interface ResumeOptions {
  signal?: AbortSignal;
  /** Another model's alias than it began with. */
  model?: string;
}

/** Goes on with a use that was interrupted or waits: what was done is not done again. Contract: the run resolves, also when it cannot be. */
export function resumeRun(
  catalog: Catalog,
  given: HostOptions,
  id: string,
  options: ResumeOptions = {},
): Run<RunEvent, RunResult> {
  return resumeWith<UseRequest>({ ...options, kind: "use", given, id }, ({ asked: request, messages: _, ...taken }) =>
    runRecordedUse({ catalog, request, ...taken }),
  );
}

/** A run that was taken up: what was asked, and what it is gone on with. */
export interface ResumedRun<Request> {
  asked: Request;
  /** What was said before, in a conversation. */
  messages: Message[];
  host: Host;
  id: string;
  journal: Journal;
  pass(event: RunEvent): void;
  signal: AbortSignal;
}

interface ResumeRequest extends ResumeOptions {
  kind: "use" | "chat";
  given: HostOptions;
  id: string;
}

/** Takes up a run, and gives it to who goes on with it. */
export function resumeWith<Request extends object>(
  { kind, given, id, model, signal: outer }: ResumeRequest,
  work: (taken: ResumedRun<Request>) => Promise<RunResult>,
): Run<RunEvent, RunResult> {
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const { host: complete, problem } = tryCompleteHost(given);
    if (problem) return refuseResume(complete, id, problem);
    const taken = loadRecordedRun(complete, id, kind);
    if ("refused" in taken) return taken.refused;
    const { journal, host, asked } = taken;
    const request = { ...(asked.request as Request), ...(model === undefined ? {} : { model }) };
    const messages = [...(asked.messages ?? [])];
    return work({ asked: request, messages, host, id: journal.id, journal, pass, signal });
  }, outer);
}

type RequestLine = Extract<JournalLine, { type: "request" }>;

/** On behalf of whom it began for; or says why it cannot be. */
function loadRecordedRun(
  host: Host,
  id: string,
  kind: "use" | "chat",
): { journal: Journal; asked: RequestLine; host: Host } | { refused: Promise<RunResult> } {
  try {
    const journal = openRunJournal(host, id);
    const { caller: _, ...rest } = host;
    const { kind: begun, workspace, caller } = journal.head;
    const asked = journal.lines.find((line) => line.type === "request");
    const isHere = workspace === host.workspace;
    if (begun === kind && asked?.type === "request" && isHere) {
      return { journal, asked, host: { ...rest, ...omitUndefined({ caller }) } };
    }
    journal.close();
    throw isHere ? createWrongKindError(id, kind) : createOtherWorkspaceError(id, workspace);
  } catch (error) {
    return { refused: refuseResume(host, id, toProblem(error)) };
  }
}

function refuseResume(host: Host, id: string, why: Problem): Promise<RunResult> {
  const port = createLiveStepRunner(host, () => {});
  return refuseRun({ run: id, skill: "", host, port, start: performance.now() }, [why]);
}

function openRunJournal({ runs }: Host, id: string): Journal {
  if (runs) return runs.open(id);
  throw new SkillError("run-unknown", {
    message: "Runs are not written down here",
    fix: "give the host `runs`: openRuns(folder)",
  });
}

function createWrongKindError(id: string, kind: "use" | "chat"): SkillError {
  const message = `Run ${id} is no ${kind === "use" ? "use of a skill" : "conversation"}`;
  const fix = kind === "use" ? "go on with it by resumeChat" : "go on with it by resumeRun";
  return new SkillError("run-unknown", { message, fix });
}

/** What was agreed to was for that workspace. */
function createOtherWorkspaceError(id: string, workspace: string | undefined): SkillError {
  return new SkillError("run-elsewhere", {
    message: `Run ${id} began in ${workspace ?? "no workspace"}`,
    fix: "go on with it there: give the host that workspace",
  });
}
