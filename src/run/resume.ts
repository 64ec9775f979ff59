import type { Catalog } from "../catalog/catalog.ts";
import { type HostOptions, readHost } from "../host/complete-host.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import type { Journal } from "../host/journal.ts";
import type { JournalLine } from "../host/journal-lines.ts";
import type { Message } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { asNotice } from "./notice.ts";
import { livePort } from "./port.ts";
import { refusedRun } from "./refused.ts";
import type { RunResult } from "./result.ts";
import { type Run, startRun } from "./start-run.ts";
import { driveUse, type UseRequest } from "./use.ts";

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
  return goOn<UseRequest>({ ...options, kind: "use", given, id }, ({ asked: request, messages: _, ...taken }) =>
    driveUse({ catalog, request, ...taken }),
  );
}

/** A run that was taken up: what was asked, and what it is gone on with. */
export interface TakenUp<Request> {
  asked: Request;
  /** What was said before, in a conversation. */
  messages: Message[];
  host: Host;
  id: string;
  journal: Journal;
  pass(event: RunEvent): void;
  signal: AbortSignal;
}

interface Resumption extends ResumeOptions {
  kind: "use" | "chat";
  given: HostOptions;
  id: string;
}

/** Takes up a run, and gives it to who goes on with it. */
export function goOn<Request extends object>(
  { kind, given, id, model, signal: outer }: Resumption,
  work: (taken: TakenUp<Request>) => Promise<RunResult>,
): Run<RunEvent, RunResult> {
  return startRun<RunEvent, RunResult>(async (pass, signal) => {
    const { host: complete, problem } = readHost(given);
    if (problem) return refusedResume(complete, id, problem);
    const taken = takeUp(complete, id, kind);
    if ("refused" in taken) return taken.refused;
    const { journal, host, asked } = taken;
    const request = { ...(asked.request as Request), ...(model === undefined ? {} : { model }) };
    const messages = [...(asked.messages ?? [])];
    return work({ asked: request, messages, host, id: journal.id, journal, pass, signal });
  }, outer);
}

type Asked = Extract<JournalLine, { type: "request" }>;

/** On behalf of whom it began for; or says why it cannot be. */
function takeUp(
  host: Host,
  id: string,
  kind: "use" | "chat",
): { journal: Journal; asked: Asked; host: Host } | { refused: Promise<RunResult> } {
  try {
    const journal = opened(host, id);
    const { caller: _, ...rest } = host;
    const { kind: begun, workspace, caller } = journal.head;
    const asked = journal.lines.find((line) => line.type === "request");
    const isHere = workspace === host.workspace;
    if (begun === kind && asked?.type === "request" && isHere) {
      return { journal, asked, host: { ...rest, ...defined({ caller }) } };
    }
    journal.close();
    throw isHere ? notOfKind(id, kind) : elsewhere(id, workspace);
  } catch (error) {
    return { refused: refusedResume(host, id, asNotice(error)) };
  }
}

function refusedResume(host: Host, id: string, why: Notice): Promise<RunResult> {
  const port = livePort(host, () => {});
  return refusedRun({ run: id, skill: "", host, port, start: performance.now() }, [why]);
}

function opened({ runs }: Host, id: string): Journal {
  if (runs) return runs.open(id);
  throw new SkillError("run-unknown", {
    message: "Runs are not written down here",
    fix: "give the host `runs`: openRuns(folder)",
  });
}

function notOfKind(id: string, kind: "use" | "chat"): SkillError {
  const message = `Run ${id} is no ${kind === "use" ? "use of a skill" : "conversation"}`;
  const fix = kind === "use" ? "go on with it by resumeChat" : "go on with it by resumeRun";
  return new SkillError("run-unknown", { message, fix });
}

/** What was agreed to was for that workspace. */
function elsewhere(id: string, workspace: string | undefined): SkillError {
  return new SkillError("run-elsewhere", {
    message: `Run ${id} began in ${workspace ?? "no workspace"}`,
    fix: "go on with it there: give the host that workspace",
  });
}
