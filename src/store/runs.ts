import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
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

/** The runs that were written down, one file each. */
export interface RunStore {
  readonly folder: string;
  /** Throws a SkillError when it cannot be written. */
  begin(run: NewRun): Journal;
  /** Takes a run up again, also one that waits. Throws a SkillError: there is none, it ended, was called off, or another process is at it. */
  open(id: string): Journal;
  /** All of them, the newest first. */
  list(): readonly RunSummary[];
  /** The one whose id, or the last part of it, begins with this, or else ends with it; `last` is the newest. Throws a SkillError when none or several are. */
  find(written: string): RunSummary;
  read(id: string): ParsedJournal;
  /** Gives the word that a run waits for. Throws a SkillError when it waits for none, or for another thing than this. */
  answer(id: string, approval: Approval, about?: ApprovalRequest): ApprovalRequest;
  /** Calls a run off, also one that another process is at. Throws a SkillError when it has ended. */
  cancel(id: string): void;
  /** Removes what is older or more than is kept, and gives what that was. Contract: nothing that a process is at. */
  prune(keep: RunRetention, options?: { isTrial?: boolean; isAutomatic?: boolean }): readonly RunSummary[];
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
    throw new SkillError("run-unknown", { message: `There is no run ${id}`, fix: "`skillet runs` lists them" });
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
      // Now that nobody else can be at it: until then it may have come to its end.
      const why = NOT_RESUMABLE[summary(id, () => undefined)?.state ?? "interrupted"];
      if (why) throw new SkillError(why.code, { message: `Run ${id} ${why.says}`, fix: why.fix(id) });
      return openJournal({ file: fileOf(id), onClose: claimed.release });
    } catch (error) {
      claimed.release();
      throw error;
    }
  };
  const prune: RunStore["prune"] = (most, { isTrial = false, isAutomatic = false } = {}) => {
    const all = summaries(listRunIds(folder));
    const old = isAutomatic ? findExpiredRuns(all, most, getConfirmedTime(all)) : findExpiredRuns(all, most);
    const remove = ({ id }: RunSummary) =>
      withFileLock(ownerOf(id), () => {
        if (readLiveOwner(ownerOf(id))) return false;
        try {
          for (const file of [fileOf(id), ownerOf(id)]) rmSync(file, { force: true });
          return true;
        } catch {
          return false; // A folder of somebody's in its place: the others go all the same.
        }
      });
    return isTrial ? old : old.filter(remove);
  };
  return {
    folder,
    prune,
    list: () => summaries(listRunIds(folder)),
    begin({ head, request, messages }) {
      makeRunsFolder(folder);
      if (isPruneDue(folder)) {
        try {
          prune(keep, { isAutomatic: true });
        } catch {} // It is no reason not to begin another.
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
        rmSync(fileOf(head.id), { force: true }); // Nobody began it: there is nothing to go on with.
        throw error;
      }
    },
    open: (id) => take(known(id).id),
    find(written) {
      const ids = listRunIds(folder);
      if (written === "last") {
        // An id tells the second, and not who was first in it.
        const [newest] = summaries(ids.filter((id) => id.slice(0, 15) === ids[0]?.slice(0, 15)));
        if (newest) return newest;
      }
      const begins = (id: string) => id.startsWith(written) || id.slice(id.lastIndexOf("-") + 1).startsWith(written);
      const beginning = ids.includes(written) ? [written] : ids.filter(begins);
      const fitting = beginning.length > 0 ? beginning : ids.filter((id) => id.endsWith(written));
      if (fitting.length <= 1) return known(fitting[0] ?? written);
      throw new SkillError("run-unknown", {
        message: `${fitting.length} runs have an id like ${written}`,
        fix: `give more of it: ${fitting.slice(0, 5).join(", ")}`,
      });
    },
    read: (id) => linesOf(known(id).id),
    answer: (id, approval, about) =>
      withFileLock(ownerOf(known(id).id), () => {
        const run = known(id);
        const ask = run.state === "waiting" ? findPendingApproval(linesOf(id).lines) : undefined;
        if (!ask) throw createNotWaitingError(run);
        if (about && JSON.stringify(ask.effect) !== JSON.stringify(about)) throw createOtherRequestError(id);
        const { name, effect } = ask;
        const at = new Date().toISOString();
        appendJournalLine(fileOf(id), { type: "answer", at, name, ...parseApproval(approval), effect }, false);
        return ask.effect;
      }),
    cancel: (id) =>
      withFileLock(ownerOf(known(id).id), () => {
        const { state, pid } = known(id);
        if (isFinishedState(state)) {
          const says = state === "cancelled" ? "was called off already" : "has ended already";
          throw new SkillError("run-ended", { message: `Run ${id} ${says}`, fix: "there is nothing left to call off" });
        }
        appendJournalLine(fileOf(id), { type: "cancel", at: new Date().toISOString() }, pid !== undefined);
      }),
  };
}

interface NotResumable {
  code: ErrorCode;
  says: string;
  fix(id: string): string;
}

/** Why a run cannot be gone on with. */
const NOT_RESUMABLE: Partial<Record<RunState, NotResumable>> = {
  ended: { code: "run-ended", says: "has ended", fix: (id) => `skillet runs show ${id} says how` },
  cancelled: { code: "run-cancelled", says: "was called off", fix: () => "start it anew" },
  corrupt: {
    code: "journal-corrupt",
    says: "cannot be gone on with: its journal is not what was written",
    fix: (id) => `start it anew; skillet runs show ${id} shows what can be read of it`,
  },
};

const NOT_WAITING: Partial<Record<RunState, [says: string, fix: string]>> = {
  running: ["is under way: whoever started it is asked there", "skillet runs show ID says how far it is"],
  answered: ["has its answer already", "go on with: skillet resume ID"],
  cancelled: ["was called off", "start it anew"],
  ended: ["has ended", "skillet runs show ID says how"],
  interrupted: ["waits for no word: it was interrupted", "go on with: skillet resume ID"],
  corrupt: ["cannot be gone on with: its journal is not what was written", "skillet runs show ID says more"],
};

/** Why no word can be given to a run. */
export function createNotWaitingError({ id, state }: Pick<RunSummary, "id" | "state">): SkillError {
  const [says, fix] = NOT_WAITING[state] ?? ["waits for no word", "`skillet runs` says which do"];
  return new SkillError("nothing-asked", { message: `Run ${id} ${says}`, fix: fix.replace("ID", id) });
}

/** It was gone on with while somebody thought about it. */
function createOtherRequestError(id: string): SkillError {
  const message = `Run ${id} asks for another thing by now`;
  return new SkillError("nothing-asked", { message, fix: `look again: skillet approve ${id}` });
}

function createBusyError(id: string, { pid, host }: { pid: number; host: string }, file: string): SkillError {
  const isHere = host === hostname();
  const wait = `wait for it to end, or call it off: skillet cancel ${id}`;
  return new SkillError("run-busy", {
    message: `Process ${pid}${isHere ? "" : ` on ${host}`} is at run ${id}`,
    fix: isHere ? wait : `${wait}\nif that machine is no more, remove ${file}`,
  });
}

/** The newest first: an id begins with its time. */
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

/** Whole or not at all. */
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

/** A file is there after a crash only when its folder says so. */
function syncFolder(folder: string): void {
  try {
    const fd = openSync(folder, "r");
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  } catch {} // Not every system lets a folder be synced.
}

function createUnreadableRunsError(file: string, cause: unknown): SkillError {
  return new SkillError("runs-unreadable", {
    message: `${file} cannot be read: ${getErrorMessage(cause)}`,
    fix: "check its mode, and what stands in its place",
    cause,
  });
}
