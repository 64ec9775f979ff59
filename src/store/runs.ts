import {
  closeSync,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Approval, ApprovalRequest } from "../host/approval.ts";
import { createFolder } from "../util/file-access.ts";
import { compareText } from "../util/text.ts";
import {
  formatJournalLine,
  type Journal,
  type JournalLine,
  type ParsedJournal,
  parseJournal,
  parseJournalLine,
} from "./journal.ts";
import {
  appendJournalLine,
  createUnwritableJournalError,
  openJournal,
  openJournalFile,
  readJournalBytes,
} from "./journal-file.ts";
import { claimOwnership, type ProcessOwner, readLiveOwner, withFileLock } from "./locked-file.ts";
import {
  createAnswerLine,
  createBusyError,
  createCancelLine,
  createCorruptSummary,
  createFirstLines,
  createLeaseLostError,
  createUnknownRunError,
  DEFAULT_RUN_RETENTION,
  findExpiredRuns,
  findRun,
  getConfirmedTime,
  isRunId,
  type NewRun,
  type RunOwner,
  type RunPage,
  type RunQuery,
  type RunRetention,
  type RunSummary,
  requireResumable,
  sortRuns,
  summarizeRun,
} from "./run-rules.ts";

/**
 * The recorded runs. One owner at a time works on a run: it holds a lease, which ends when it closes the journal, or when it is gone.
 * `skillet/testing` has the contract as test cases.
 */
export interface RunStore {
  /** Throws a SkillError when the journal cannot be written. */
  create(run: NewRun): Promise<Journal>;
  /**
   * Resumes a run, also a waiting one. Throws a SkillError if it does not exist, ended, was cancelled, or another owner
   * holds its lease. Contract: an owner whose lease was taken over writes no more.
   */
  resume(id: string): Promise<Journal>;
  /** Lists all runs, the newest first. */
  list(): Promise<readonly RunSummary[]>;
  /** Lists the newest runs that fit, without reading all. Only for stores of more runs than files of one machine. */
  search?(query: RunQuery): Promise<RunPage>;
  /**
   * Finds a run whose id (or its last part) starts with this, or else ends with it; `last` is the newest. Throws a
   * SkillError when none or several match.
   */
  find(written: string): Promise<RunSummary>;
  read(id: string): Promise<ParsedJournal>;
  /**
   * Answers the approval request of a run, also of one whose owner asks for it now. Throws a SkillError when it waits for none, or for a
   * different one.
   */
  answer(id: string, approval: Approval, about?: ApprovalRequest): Promise<ApprovalRequest>;
  /** Cancels a run, also one that another process works on. Throws a SkillError when it has ended. */
  cancel(id: string): Promise<void>;
  /** Removes expired runs and returns them. Contract: never removes a run in use. */
  prune(keep: RunRetention, options?: PruneOptions): Promise<readonly RunSummary[]>;
  /**
   * Returns a text for each of the runs that changed last, by id: it changes with the run. Only for stores that other machines write to:
   * changes of files are watched.
   */
  listVersions?(): Promise<ReadonlyMap<string, string>>;
}

interface PruneOptions {
  /** Removes nothing. */
  isTrial?: boolean;
  isAutomatic?: boolean;
}

/** Creates the store of the runs below skillet's home, one file each. A lease there ends with its process. */
export function createRunStore(skilletHome: string, keep: RunRetention = DEFAULT_RUN_RETENTION): RunStore {
  const folder = join(skilletHome, "runs");
  const fileOf = (id: string) => join(folder, `${id}.jsonl`);
  const ownerOf = (id: string) => join(folder, `${id}.owner`);
  const readOwner = (id: string) => {
    const owner = readLiveOwner(ownerOf(id));
    return owner && createRunOwner(owner);
  };
  const summary = (id: string) => readRunSummary({ id, file: fileOf(id), readOwner: () => readOwner(id) });
  const known = (id: string): RunSummary => {
    const found = isRunId(id) ? summary(id) : undefined;
    if (found) return found;
    throw createUnknownRunError(id);
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
  const summaries = (ids: readonly string[]) => sortRuns(ids.flatMap((id) => summary(id) ?? []));
  const take = async (id: string): Promise<Journal> => {
    const claimed = claimOwnership(ownerOf(id));
    if ("held" in claimed) throw createFileBusyError(id, claimed.held, ownerOf(id));
    try {
      const run = readRunSummary({ id, file: fileOf(id), readOwner: () => undefined });
      if (run) requireResumable(run);
      const checkLease = () => {
        if (!claimed.isHeld()) throw createLeaseLostError(id);
      };
      return await openJournal({ file: fileOf(id), checkLease, release: claimed.release });
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
    prune: async (retention, options) => prune(retention, options),
    list: async () => summaries(listRunIds(folder)),
    async create(run) {
      const { id } = run.head;
      makeRunsFolder(folder);
      if (isPruneDue(folder)) {
        try {
          prune(keep, { isAutomatic: true });
        } catch {} // A failed pruning does not prevent a new run.
      }
      createRunFile(fileOf(id), createFirstLines(run).map(formatJournalLine).join(""));
      syncFolder(folder);
      try {
        return await take(id);
      } catch (error) {
        rmSync(fileOf(id), { force: true }); // The run did not start: there is nothing to resume.
        throw error;
      }
    },
    resume: async (id) => take(known(id).id),
    find: async (written) => findRun(written, listRunIds(folder), summaries),
    read: async (id) => linesOf(known(id).id),
    answer: async (id, approval, about) =>
      withFileLock(ownerOf(known(id).id), () => {
        const run = known(id);
        const line = createAnswerLine(run, () => linesOf(id).lines, approval, about);
        appendJournalLine(fileOf(id), line, run.owner !== undefined);
        return line.approvalRequest;
      }),
    cancel: async (id) =>
      withFileLock(ownerOf(known(id).id), () => {
        const run = known(id);
        appendJournalLine(fileOf(id), createCancelLine(run), run.owner !== undefined);
      }),
  };
}

function createRunOwner({ id, pid, host }: ProcessOwner): RunOwner {
  const label = host === hostname() ? `process ${pid}` : `process ${pid} on ${host}`;
  return { id: id ?? `${pid}@${host}`, label };
}

/** The process of another machine cannot be checked, so its lease ends only by hand. */
function createFileBusyError(id: string, owner: ProcessOwner, file: string): SkillError {
  const isHere = owner.host === hostname();
  return createBusyError(id, createRunOwner(owner), isHere ? "" : `\nif that machine no longer exists, remove ${file}`);
}

/** Lists the ids, the newest first: an id starts with its time. */
function listRunIds(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    const ids = names.map((name) => name.slice(0, -".jsonl".length));
    return ids.filter(isRunId).sort((a, b) => compareText(b, a));
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return [];
    throw createUnreadableRunsError(folder, error);
  }
}

function makeRunsFolder(folder: string): void {
  try {
    createFolder(folder, 0o700);
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

interface RunSummaryOptions {
  id: string;
  file: string;
  /** Called only for runs without an end. */
  readOwner(): RunOwner | undefined;
}

/**
 * Reads the summary of a run. For a run that ended well it reads only the first and last line: there may be thousands.
 * Returns undefined if the file does not exist.
 */
function readRunSummary(options: RunSummaryOptions): RunSummary | undefined {
  let fd: number;
  try {
    fd = openJournalFile(options.file, "read");
  } catch (error) {
    return getErrnoCode(error) === "ENOENT" ? undefined : createCorruptSummary(options.id, new Date(0), 0);
  }
  try {
    return summarizeJournal(fd, options);
  } finally {
    closeSync(fd);
  }
}

function summarizeJournal(fd: number, { id, readOwner }: RunSummaryOptions): RunSummary {
  const { size, mtime } = fstatSync(fd);
  const head = parseJournalLine(readFirstLine(fd, size));
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) {
    const version: unknown = head?.type === "run" ? head.version : undefined;
    return {
      ...createCorruptSummary(id, mtime, size),
      ...(typeof version === "number" && version > 1 ? { formatVersion: version } : {}),
    };
  }
  const last = readLastLine(fd, size);
  // A cancelled run has an end too, once its process has noticed.
  if (last?.type === "end" && last.stop !== "aborted") return summarizeRun({ head, lines: [last], bytes: size });
  const { lines, corrupt } = parseJournal(readJournalBytes(fd));
  const owner = last?.type === "end" ? undefined : readOwner();
  return summarizeRun({ head, lines, isCorrupt: corrupt.length > 0, owner, bytes: size });
}

const CHUNK_BYTES = 16 * 1024;

function readFirstLine(fd: number, size: number): string {
  for (let room = CHUNK_BYTES; ; room *= 4) {
    const piece = readJournalBytes(fd, 0, Math.min(room, size));
    const end = piece.indexOf(0x0a);
    if (end !== -1 || room >= size) return piece.subarray(0, end === -1 ? piece.length : end).toString();
  }
}

/** Reads the last readable line: whole, or lacking only its newline. */
function readLastLine(fd: number, size: number): JournalLine | undefined {
  for (let room = CHUNK_BYTES; ; room *= 4) {
    const start = Math.max(0, size - room);
    const piece = readJournalBytes(fd, start, size);
    const end = piece.lastIndexOf(0x0a);
    const rest = parseJournalLine(piece.subarray(end + 1).toString());
    if (rest && (end !== -1 || start === 0)) return rest;
    const before = end <= 0 ? -1 : piece.lastIndexOf(0x0a, end - 1);
    if (before !== -1 || start === 0) return parseJournalLine(piece.subarray(before + 1, Math.max(end, 0)).toString());
  }
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns true once a day. */
function isPruneDue(folder: string): boolean {
  const stamp = join(folder, ".pruned");
  const at = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const age = Date.now() - at;
  if (age >= 0 && age < DAY_MS) return false; // A future time comes from a clock that was wrong.
  try {
    writeFileSync(stamp, "", { mode: 0o600 });
    utimesSync(stamp, new Date(), new Date());
  } catch {} // The next run tries again.
  return at !== 0;
}
