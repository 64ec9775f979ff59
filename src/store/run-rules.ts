import type { ErrorCode } from "../errors/error-codes.ts";
import { type Problem, SkillError } from "../errors/problem.ts";
import { type Approval, type ApprovalRequest, parseApproval } from "../host/approval.ts";
import type { Message } from "../host/model-contract.ts";
import { omitUndefined } from "../util/objects.ts";
import { compareText } from "../util/text.ts";
import type { JournalLine, RunEnd, RunHeader } from "./journal.ts";

/**
 * `running`: a process works on it. `interrupted`: no process does, and it has no end. `waiting`: it needs an approval;
 * `answered`: it has the decision. `queued`: it waits for a worker. `stuck`: no worker can do it, and its problem says why.
 */
export const RUN_STATES = [
  ...(["running", "interrupted", "waiting", "answered", "ended", "cancelled", "corrupt"] as const),
  ...(["queued", "stuck"] as const),
];
export type RunState = (typeof RUN_STATES)[number];

/** The owner of a run while it works on it. Its lease ends when it closes the journal, or when the store finds that it is gone. */
export interface RunOwner {
  /** Differs for each lease. */
  id: string;
  /** Names it to users, such as `process 4711`. */
  label: string;
}

export interface RunSummary extends Omit<RunHeader, "type" | "version"> {
  at: string;
  state: RunState;
  /** The time of the last line. */
  changedAt: string;
  /** The end of the run, if it ended. */
  end?: Omit<RunEnd, "type">;
  /** The request it waits for, or that was answered. Of a running run: the request that its owner asks for now. */
  approvalRequest?: ApprovalRequest;
  /** The owner that works on it. */
  owner?: RunOwner;
  bytes: number;
  /** The queue of workers, of a run that one of them does. */
  queue?: string;
  /** Whose run it is, in the queue. */
  tenant?: string;
  /** Why a worker gave it back, or why it is stuck. */
  problem?: Problem;
  /** The format version of a journal that a newer skillet wrote: it is neither read nor changed. */
  formatVersion?: number;
}

/** A state, or an outcome of the ended runs. */
export type RunFilterState = RunState | "done" | "failed";

/** Which runs to list. */
export interface RunQuery {
  states?: readonly RunFilterState[] | undefined;
  /** A skill, or `chat` for conversations. */
  skill?: string | undefined;
  /** The user of a server. */
  user?: string | undefined;
  /** Only runs that began since then. */
  since?: Date | undefined;
  /** Lists at most so many. */
  limit: number;
}

export interface RunPage {
  /** The newest first. */
  runs: readonly RunSummary[];
  /** The number of all that fit. */
  total: number;
}

/** Lists the newest runs that fit. */
export async function searchRuns(
  store: { list(): Promise<readonly RunSummary[]>; search?(query: RunQuery): Promise<RunPage> },
  query: RunQuery,
): Promise<RunPage> {
  // A store that is opened at its first call has every method, and resolves with nothing where the opened one does not.
  const page = await store.search?.(query);
  if (page) return page;
  const fitting = (await store.list()).filter((run) => fitsRunQuery(run, query));
  return { runs: fitting.slice(0, query.limit), total: fitting.length };
}

export function fitsRunQuery(run: RunSummary, { states, skill, user, since }: RunQuery): boolean {
  return (
    (states === undefined || states.some((state) => hasState(run, state))) &&
    (skill === undefined || (run.kind === "chat" ? "chat" : run.skill) === skill) &&
    (user === undefined || run.caller?.userId === user) &&
    (since === undefined || Date.parse(run.at) >= since.getTime())
  );
}

function hasState({ state, end }: RunSummary, wanted: RunFilterState): boolean {
  if (wanted !== "done" && wanted !== "failed") return state === wanted;
  return state === "ended" && end?.isError === (wanted === "failed");
}

export interface NewRun {
  head: Omit<RunHeader, "type" | "version">;
  request: Readonly<Record<string, unknown>>;
  messages?: readonly Message[];
}

interface RecordedRun {
  head: RunHeader & { at: string };
  lines: readonly JournalLine[];
  /** True if lines are not what was written. */
  isCorrupt?: boolean;
  /** The owner whose lease has not ended. */
  owner?: RunOwner | undefined;
  bytes: number;
}

/** Derives the summary of a run from its lines. */
export function summarizeRun({ head, lines, isCorrupt = false, owner, bytes }: RecordedRun): RunSummary {
  const { type: _, version: __, ...run } = head;
  const last = lines.at(-1);
  const isEnded = last?.type === "end";
  const atWork = isEnded ? undefined : owner;
  const state = isCorrupt ? { state: "corrupt" as const } : deriveRunState(lines, atWork !== undefined);
  const end = isEnded ? { end: stripRunEnd(last) } : {};
  return { ...run, ...state, changedAt: last?.at ?? head.at, bytes, ...end, ...omitUndefined({ owner: atWork }) };
}

/** Creates the summary of a run that cannot be read. */
export function createCorruptSummary(id: string, changed: Date, bytes: number): RunSummary {
  const at = changed.toISOString();
  return { id, kind: "use", skill: "", task: "", at, state: "corrupt", changedAt: at, bytes };
}

function deriveRunState(
  lines: readonly JournalLine[],
  isOwned: boolean,
): Pick<RunSummary, "state" | "approvalRequest"> {
  const isEnded = lines.at(-1)?.type === "end";
  if (isOwned && !isEnded) {
    const asked = findPendingApproval(lines);
    return { state: "running", ...(asked ? { approvalRequest: asked.approvalRequest } : {}) };
  }
  if (lines.some(({ type }) => type === "cancel")) return { state: "cancelled" };
  if (isEnded) return { state: "ended" };
  const pending = findPendingApproval(lines);
  if (pending) return { state: "waiting", approvalRequest: pending.approvalRequest };
  const last = lines.at(-1);
  const ask = lines.findLast((line) => line.type === "ask" && last?.type === "answer" && line.name === last.name);
  return ask?.type === "ask" ? { state: "answered", approvalRequest: ask.approvalRequest } : { state: "interrupted" };
}

/**
 * Returns the first request without an answer. A request followed by other work is closed: it was not asked again. A
 * request that was repeated for a different action is open again.
 */
function findPendingApproval(lines: readonly JournalLine[]): AskLine | undefined {
  const open = lines.slice(lines.findLastIndex(({ type }) => type === "step") + 1);
  const isOver = (name: string, index: number) =>
    open.slice(index + 1).some((line) => (line.type === "ask" || line.type === "answer") && line.name === name);
  const ask = open.find((line, index) => line.type === "ask" && !isOver(line.name, index));
  return ask?.type === "ask" ? ask : undefined;
}

const RUN_ID = /^[\w.-]{1,100}$/;

/** Returns true for text that can be the id of a run: it may become a file name. */
export function isRunId(text: string): boolean {
  return RUN_ID.test(text);
}

/**
 * Finds a run whose id (or its last part) starts with this, or else ends with it; `last` is the newest. Throws a SkillError when none or
 * several match. `ids`: the newest first. `read` reads some of them, the newest first.
 */
export async function findRun(
  written: string,
  ids: readonly string[],
  read: (ids: readonly string[]) => readonly RunSummary[] | Promise<readonly RunSummary[]>,
): Promise<RunSummary> {
  if (written === "last") {
    // An id has a resolution of one second, so the order within it is unknown.
    const [newest] = await read(ids.filter((id) => id.slice(0, 15) === ids[0]?.slice(0, 15)));
    if (newest) return newest;
  }
  const begins = (id: string) => id.startsWith(written) || id.slice(id.lastIndexOf("-") + 1).startsWith(written);
  const beginning = ids.includes(written) ? [written] : ids.filter(begins);
  const fitting = beginning.length > 0 ? beginning : ids.filter((id) => id.endsWith(written));
  if (fitting.length > 1) throw createAmbiguousIdError(written, fitting);
  const [found] = await read(fitting);
  if (found) return found;
  throw createUnknownRunError(fitting[0] ?? written);
}

/** Sorts runs, the newest first. */
export function sortRuns(runs: readonly RunSummary[]): RunSummary[] {
  return runs.toSorted((a, b) => compareText(b.at, a.at) || compareText(b.id, a.id));
}

export function createUnknownRunError(id: string): SkillError {
  return new SkillError("run-unknown", {
    message: `Unknown run ${id}`,
    fix: "list all runs",
    commands: ["skillet runs"],
  });
}

function createAmbiguousIdError(written: string, ids: readonly string[]): SkillError {
  return new SkillError("run-unknown", {
    message: `${ids.length} runs match ${written}`,
    fix: `use more characters of the id: ${ids.slice(0, 5).join(", ")}`,
  });
}

/** Creates the error for a run whose lease another owner holds. `more`: a further line of the fix. */
export function createBusyError(id: string, { label }: RunOwner, more = ""): SkillError {
  return new SkillError("run-busy", {
    message: `Run ${id} is in use by ${label}`,
    fix: `wait for it to end, or cancel it${more}`,
    commands: [`skillet cancel ${id}`],
  });
}

/** Creates the error for an owner that has lost its lease, so that it writes no more. */
export function createLeaseLostError(id: string): SkillError {
  return new SkillError("run-busy", {
    message: `Run ${id} was taken over by another process`,
    fix: "to see how it continues",
    commands: [`skillet runs show ${id}`],
  });
}

/** Throws a SkillError for a run that a newer skillet recorded. */
export function requireKnownFormat<T extends Pick<RunSummary, "id" | "formatVersion">>(run: T): T {
  if (run.formatVersion === undefined) return run;
  throw new SkillError("journal-corrupt", {
    message: `Run ${run.id} has format version ${run.formatVersion}, and this skillet supports version 1`,
    fix: "update skillet: nothing was changed",
  });
}

/** Throws a SkillError for a run that cannot be resumed. Contract: called under the lease, since the run may end until then. */
export function requireResumable(run: RunSummary): void {
  const { id, state } = requireKnownFormat(run);
  const why = NOT_RESUMABLE[state];
  if (why) throw new SkillError(why.code, { message: `Run ${id} ${why.problem}`, ...formatUnfitFix(why, id) });
}

interface UnfitRun {
  problem: string;
  fix: string;
  /** The command that takes the id of the run. */
  command?: "runs show" | "resume";
}

/** The reasons why a run cannot be resumed. */
const NOT_RESUMABLE: Partial<Record<RunState, UnfitRun & { code: ErrorCode }>> = {
  ended: { code: "run-ended", problem: "has ended", fix: "run", command: "runs show" },
  cancelled: { code: "run-cancelled", problem: "was cancelled", fix: "start a new run" },
  corrupt: {
    code: "journal-corrupt",
    problem: "cannot be resumed: its journal is corrupt",
    fix: "start a new run; to see the readable part",
    command: "runs show",
  },
};

const SHOW_RUN = { fix: "run", command: "runs show" } as const;
const RESUME_RUN = { fix: "run", command: "resume" } as const;

const NOT_WAITING: Partial<Record<RunState, UnfitRun>> = {
  running: { problem: "is running, and asks for no approval now", ...SHOW_RUN },
  answered: { problem: "already has its answer", ...RESUME_RUN },
  cancelled: { problem: "was cancelled", fix: "start a new run" },
  ended: { problem: "has ended", ...SHOW_RUN },
  interrupted: { problem: "waits for no approval: it was interrupted", ...RESUME_RUN },
  corrupt: { problem: "cannot be resumed: its journal is corrupt", ...SHOW_RUN },
};

/** Creates the error for answering a run that does not wait for an approval. */
export function createNotWaitingError({ id, state }: Pick<RunSummary, "id" | "state">): SkillError {
  const row = NOT_WAITING[state];
  if (row)
    return new SkillError("no-pending-approval", { message: `Run ${id} ${row.problem}`, ...formatUnfitFix(row, id) });
  return new SkillError("no-pending-approval", {
    message: `Run ${id} waits for no approval`,
    fix: "see which runs wait",
    commands: ["skillet runs"],
  });
}

function formatUnfitFix({ fix, command }: UnfitRun, id: string): Pick<Problem, "fix" | "commands"> {
  return { fix, ...(command === undefined ? {} : { commands: [`skillet ${command} ${id}`] }) };
}

type AskLine = Extract<JournalLine, { type: "ask" }>;

/** Creates the line that answers a run. Throws a SkillError if the run waits for no approval, or for a different one. */
export function createAnswerLine(
  run: RunSummary,
  readLines: () => readonly JournalLine[],
  approval: Approval,
  about: ApprovalRequest | undefined,
): JournalLine & { approvalRequest: ApprovalRequest } {
  const { id, state } = requireKnownFormat(run);
  const ask = state === "waiting" || state === "running" ? findPendingApproval(readLines()) : undefined;
  if (!ask) throw createNotWaitingError(run);
  const { name, approvalRequest: request } = ask;
  if (about && JSON.stringify(request) !== JSON.stringify(about)) throw createOtherRequestError(id);
  return { type: "answer", at: new Date().toISOString(), name, ...parseApproval(approval), approvalRequest: request };
}

/** Creates the line that cancels a run. Throws a SkillError if it has ended. */
export function createCancelLine(run: RunSummary): JournalLine {
  const { id, state } = requireKnownFormat(run);
  if (isFinishedState(state)) {
    const problem = state === "cancelled" ? "is already cancelled" : "has already ended";
    throw new SkillError("run-ended", { message: `Run ${id} ${problem}`, fix: "there is nothing to cancel" });
  }
  return { type: "cancel", at: new Date().toISOString() };
}

/** Creates the first lines of a run. */
export function createFirstLines({ head, request, messages }: NewRun): JournalLine[] {
  const at = new Date().toISOString();
  return [
    { ...head, type: "run", version: 1, at },
    { type: "request", at, request, ...(messages === undefined ? {} : { messages }) },
  ];
}

/** The run was resumed before the answer was given. */
function createOtherRequestError(id: string): SkillError {
  const message = `Run ${id} now asks for a different approval`;
  return new SkillError("no-pending-approval", {
    message,
    fix: "review the new request",
    commands: [`skillet approve ${id}`],
  });
}

/** The number of days that runs are kept, and the number of finished runs that are kept. */
export interface RunRetention {
  days: number;
  most: number;
}

export const DEFAULT_RUN_RETENTION: RunRetention = { days: 30, most: 1000 };

const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns the runs to remove from a list with the newest first. `now`: the current time. */
export function findExpiredRuns(
  runs: readonly RunSummary[],
  { days, most }: RunRetention,
  now = Date.now(),
): readonly RunSummary[] {
  const oldest = now - days * DAY_MS;
  return runs
    .filter(({ state }) => state !== "running")
    .filter(
      ({ changedAt, state }, index) => Date.parse(changedAt) <= oldest || (index >= most && isFinishedState(state)),
    );
}

/**
 * Returns the time for automatic pruning: the last change that an earlier process recorded, if the clock is past it. A
 * clock that jumps ahead for one command deletes nothing; once a second run has the same time, it counts.
 */
export function getConfirmedTime(runs: readonly RunSummary[]): number {
  return Math.min(Date.now(), Math.max(0, ...runs.map(({ changedAt }) => Date.parse(changedAt))));
}

export function isFinishedState(state: RunState): boolean {
  return state === "ended" || state === "cancelled";
}

function stripRunEnd({ type: _, at: __, ...end }: RunEnd & { at: string }): Omit<RunEnd, "type"> {
  return end;
}
