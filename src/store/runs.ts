import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import { type Approval, type ApprovalRequest, parseApproval } from "../host/approval.ts";
import type { Message } from "../host/model-contract.ts";
import { compareText } from "../util/text.ts";
import {
  appendJournalLine,
  createUnwritableJournalError,
  formatJournalLine,
  type Journal,
  type JournalLine,
  openJournal,
  openJournalFile,
  type ParsedJournal,
  parseJournal,
  type RunHeader,
  readJournalBytes,
} from "./journal.ts";
import { claimOwnership, readLiveOwner, withFileLock } from "./locked-file.ts";
import {
  DEFAULT_RUN_RETENTION,
  findExpiredRuns,
  findPendingApproval,
  getConfirmedTime,
  isFinishedState,
  isPruneDue,
  type RunRetention,
  type RunState,
  type RunSummary,
  readRunSummary,
} from "./run-summary.ts";

export { DEFAULT_RUN_RETENTION, RUN_STATES, type RunRetention, type RunState, type RunSummary } from "./run-summary.ts";

export interface NewRun {
  head: Omit<RunHeader, "type" | "version">;
  request: Readonly<Record<string, unknown>>;
  messages?: readonly Message[];
}

/** The recorded runs, one file each. */
export interface RunStore {
  readonly folder: string;
  /** Throws a SkillError when the journal cannot be written. */
  create(run: NewRun): Promise<Journal>;
  /**
   * Resumes a run, also a waiting one. Throws a SkillError if it does not exist, ended, was cancelled, or is in use by
   * another process.
   */
  resume(id: string): Promise<Journal>;
  /** Lists all runs, the newest first. */
  list(): Promise<readonly RunSummary[]>;
  /**
   * Finds a run whose id (or its last part) starts with this, or else ends with it; `last` is the newest. Throws a
   * SkillError when none or several match.
   */
  find(written: string): Promise<RunSummary>;
  read(id: string): Promise<ParsedJournal>;
  /** Answers the approval request of a run. Throws a SkillError when it waits for none, or for a different one. */
  answer(id: string, approval: Approval, about?: ApprovalRequest): Promise<ApprovalRequest>;
  /** Cancels a run, also one that another process works on. Throws a SkillError when it has ended. */
  cancel(id: string): Promise<void>;
  /** Removes expired runs and returns them. Contract: never removes a run in use. */
  prune(keep: RunRetention, options?: PruneOptions): Promise<readonly RunSummary[]>;
}

interface PruneOptions {
  /** Removes nothing. */
  isTrial?: boolean;
  isAutomatic?: boolean;
}

const RUN_ID = /^[\w.-]{1,100}$/;

export function createRunStore(skilletHome: string, keep: RunRetention = DEFAULT_RUN_RETENTION): RunStore {
  const folder = join(skilletHome, "runs");
  const fileOf = (id: string) => join(folder, `${id}.jsonl`);
  const ownerOf = (id: string) => join(folder, `${id}.owner`);
  const summary = (id: string, ownerPid = () => readLiveOwner(ownerOf(id))?.pid) =>
    readRunSummary({ id, file: fileOf(id), ownerPid });
  const known = (id: string): RunSummary => {
    const found = RUN_ID.test(id) ? summary(id) : undefined;
    if (found) return found;
    throw new SkillError("run-unknown", { message: `Unknown run ${id}`, fix: "`skillet runs` lists all runs" });
  };
  const linesOf = (id: string): ParsedJournal => {
    let fd: number;
    try {
      fd = openJournalFile(fileOf(id), "read");
    } catch (error) {
      throw createUnreadableRunsError(fileOf(id), error);
    }
    try {
      return parseJournal(readJournalBytes(fd));
    } finally {
      closeSync(fd);
    }
  };
  const summaries = (ids: readonly string[]) =>
    ids.flatMap((id) => summary(id) ?? []).sort((a, b) => compareText(b.at, a.at) || compareText(b.id, a.id));
  const take = (id: string): Journal => {
    const claimed = claimOwnership(ownerOf(id));
    if ("held" in claimed) throw createBusyError(id, claimed.held, ownerOf(id));
    try {
      // Checked under the claim: the run may have ended until then.
      const run = summary(id, () => undefined);
      if (run) requireKnownFormat(run);
      const why = NOT_RESUMABLE[run?.state ?? "interrupted"];
      if (why) throw new SkillError(why.code, { message: `Run ${id} ${why.problem}`, ...formatUnfitFix(why, id) });
      return openJournal({ file: fileOf(id), onClose: claimed.release });
    } catch (error) {
      claimed.release();
      throw error;
    }
  };
  const prune = (retention: RunRetention, { isTrial = false, isAutomatic = false }: PruneOptions = {}) => {
    const all = summaries(listRunIds(folder));
    const old = isAutomatic ? findExpiredRuns(all, retention, getConfirmedTime(all)) : findExpiredRuns(all, retention);
    const remove = ({ id }: RunSummary) =>
      withFileLock(ownerOf(id), () => {
        if (readLiveOwner(ownerOf(id))) return false;
        try {
          for (const file of [fileOf(id), ownerOf(id)]) rmSync(file, { force: true });
          return true;
        } catch {
          return false; // A folder is in its place: the other runs are still removed.
        }
      });
    return isTrial ? old : old.filter(remove);
  };
  return {
    folder,
    prune: async (retention, options) => prune(retention, options),
    list: async () => summaries(listRunIds(folder)),
    async create({ head, request, messages }) {
      makeRunsFolder(folder);
      if (isPruneDue(folder)) {
        try {
          prune(keep, { isAutomatic: true });
        } catch {} // A failed pruning does not prevent a new run.
      }
      const at = new Date().toISOString();
      const lines: JournalLine[] = [
        { ...head, type: "run", version: 1, at },
        { type: "request", at, request, ...(messages === undefined ? {} : { messages }) },
      ];
      createRunFile(fileOf(head.id), lines.map(formatJournalLine).join(""));
      syncFolder(folder);
      try {
        return take(head.id);
      } catch (error) {
        rmSync(fileOf(head.id), { force: true }); // The run did not start: there is nothing to resume.
        throw error;
      }
    },
    resume: async (id) => take(known(id).id),
    async find(written) {
      const ids = listRunIds(folder);
      if (written === "last") {
        // An id has a resolution of one second, so the order within it is unknown.
        const [newest] = summaries(ids.filter((id) => id.slice(0, 15) === ids[0]?.slice(0, 15)));
        if (newest) return newest;
      }
      const begins = (id: string) => id.startsWith(written) || id.slice(id.lastIndexOf("-") + 1).startsWith(written);
      const beginning = ids.includes(written) ? [written] : ids.filter(begins);
      const fitting = beginning.length > 0 ? beginning : ids.filter((id) => id.endsWith(written));
      if (fitting.length <= 1) return known(fitting[0] ?? written);
      throw new SkillError("run-unknown", {
        message: `${fitting.length} runs match ${written}`,
        fix: `use more characters of the id: ${fitting.slice(0, 5).join(", ")}`,
      });
    },
    read: async (id) => linesOf(known(id).id),
    answer: async (id, approval, about) =>
      withFileLock(ownerOf(known(id).id), () => {
        const run = requireKnownFormat(known(id));
        const ask = run.state === "waiting" ? findPendingApproval(linesOf(id).lines) : undefined;
        if (!ask) throw createNotWaitingError(run);
        if (about && JSON.stringify(ask.effect) !== JSON.stringify(about)) throw createOtherRequestError(id);
        const { name, effect } = ask;
        const at = new Date().toISOString();
        appendJournalLine(fileOf(id), { type: "answer", at, name, ...parseApproval(approval), effect }, false);
        return ask.effect;
      }),
    cancel: async (id) =>
      withFileLock(ownerOf(known(id).id), () => {
        const { state, pid } = requireKnownFormat(known(id));
        if (isFinishedState(state)) {
          const problem = state === "cancelled" ? "is already cancelled" : "has already ended";
          throw new SkillError("run-ended", { message: `Run ${id} ${problem}`, fix: "there is nothing to cancel" });
        }
        appendJournalLine(fileOf(id), { type: "cancel", at: new Date().toISOString() }, pid !== undefined);
      }),
  };
}

/** Throws a SkillError for a run that a newer skillet recorded. */
export function requireKnownFormat<T extends Pick<RunSummary, "id" | "formatVersion">>(run: T): T {
  if (run.formatVersion === undefined) return run;
  throw new SkillError("journal-corrupt", {
    message: `Run ${run.id} has format version ${run.formatVersion}, and this skillet supports version 1`,
    fix: "update skillet: nothing was changed",
  });
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
  running: { problem: "is running: it asks for approvals where it was started", ...SHOW_RUN },
  answered: { problem: "already has its answer", ...RESUME_RUN },
  cancelled: { problem: "was cancelled", fix: "start a new run" },
  ended: { problem: "has ended", ...SHOW_RUN },
  interrupted: { problem: "waits for no approval: it was interrupted", ...RESUME_RUN },
  corrupt: { problem: "cannot be resumed: its journal is corrupt", ...SHOW_RUN },
};

/** Creates the error for answering a run that does not wait for an approval. */
export function createNotWaitingError({ id, state }: Pick<RunSummary, "id" | "state">): SkillError {
  const row = NOT_WAITING[state] ?? { problem: "waits for no approval", fix: "see which runs wait: `skillet runs`" };
  return new SkillError("no-pending-approval", { message: `Run ${id} ${row.problem}`, ...formatUnfitFix(row, id) });
}

function formatUnfitFix({ fix, command }: UnfitRun, id: string): Pick<Problem, "fix" | "commands"> {
  return { fix, ...(command === undefined ? {} : { commands: [`skillet ${command} ${id}`] }) };
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

function createBusyError(id: string, { pid, host }: { pid: number; host: string }, file: string): SkillError {
  const isHere = host === hostname();
  return new SkillError("run-busy", {
    message: `Run ${id} is in use by process ${pid}${isHere ? "" : ` on ${host}`}`,
    fix: `wait for it to end, or cancel it${isHere ? "" : `\nif that machine no longer exists, remove ${file}`}`,
    commands: [`skillet cancel ${id}`],
  });
}

/** Lists the ids, the newest first: an id starts with its time. */
function listRunIds(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    const ids = names.map((name) => name.slice(0, -".jsonl".length));
    return ids.filter((id) => RUN_ID.test(id)).sort((a, b) => compareText(b, a));
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return [];
    throw createUnreadableRunsError(folder, error);
  }
}

function makeRunsFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw createUnwritableJournalError(folder, error);
  }
}

/** Creates the file atomically. */
function createRunFile(file: string, text: string): void {
  let fd: number;
  try {
    fd = openSync(file, "wx", 0o600);
  } catch (error) {
    throw createUnwritableJournalError(file, error);
  }
  try {
    writeFileSync(fd, text);
  } catch (error) {
    rmSync(file, { force: true });
    throw createUnwritableJournalError(file, error);
  } finally {
    closeSync(fd);
  }
}

/** Syncs the folder: without that, a new file may be missing after a crash. */
function syncFolder(folder: string): void {
  try {
    const fd = openSync(folder, "r");
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  } catch {} // Not every system can sync a folder.
}

function createUnreadableRunsError(file: string, cause: unknown): SkillError {
  return new SkillError("runs-unreadable", {
    message: `${file} cannot be read: ${getErrorMessage(cause)}`,
    fix: "check its permissions, and that it is a regular file",
    cause,
  });
}
