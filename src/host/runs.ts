import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { type Approval, asApproval, type Effect } from "./approvals.ts";
import { type Journal, openJournal } from "./journal.ts";
import { addLine, openFile, readBytes, unwritable } from "./journal-file.ts";
import { type JournalLine, type JournalText, type RunHead, readJournal, writeLine } from "./journal-lines.ts";
import { whileLocked } from "./locked-file.ts";
import type { Message } from "./models.ts";
import { claimRun, ownerIn } from "./run-owner.ts";
import { pendingAsk, type RunState, type RunSummary, summaryOf } from "./run-summary.ts";
import { confirmedNow, isDue, isOver, outOf, RETENTION, type Retention } from "./runs-prune.ts";

export { RUN_STATES, type RunState, type RunSummary } from "./run-summary.ts";
export { RETENTION, type Retention } from "./runs-prune.ts";

export interface NewRun {
  head: Omit<RunHead, "type" | "version">;
  request: Readonly<Record<string, unknown>>;
  messages?: readonly Message[];
}

/** The runs that were written down, one file each. */
export interface Runs {
  readonly folder: string;
  /** Throws a SkillError when it cannot be written. */
  begin(run: NewRun): Journal;
  /** Takes a run up again, also one that waits. Throws a SkillError: there is none, it ended, was called off, or another process is at it. */
  open(id: string): Journal;
  /** All of them, the newest first. */
  list(): readonly RunSummary[];
  /** The one whose id, or the last part of it, begins with this, or else ends with it; `last` is the newest. Throws a SkillError when none or several are. */
  find(written: string): RunSummary;
  read(id: string): JournalText;
  /** Gives the word that a run waits for. Throws a SkillError when it waits for none, or for another thing than this. */
  answer(id: string, approval: Approval, about?: Effect): Effect;
  /** Calls a run off, also one that another process is at. Throws a SkillError when it has ended. */
  cancel(id: string): void;
  /** Removes what is older or more than is kept, and gives what that was. Contract: nothing that a process is at. */
  prune(keep: Retention, options?: { isTrial?: boolean; isAutomatic?: boolean }): readonly RunSummary[];
}

const ID = /^[\w.-]{1,100}$/;

export function openRuns(skilletHome: string, keep: Retention = RETENTION): Runs {
  const folder = join(skilletHome, "runs");
  const fileOf = (id: string) => join(folder, `${id}.jsonl`);
  const ownerOf = (id: string) => join(folder, `${id}.owner`);
  const summary = (id: string, ownerPid = () => ownerIn(ownerOf(id))?.pid) =>
    summaryOf({ id, file: fileOf(id), ownerPid });
  const known = (id: string): RunSummary => {
    const found = ID.test(id) ? summary(id) : undefined;
    if (found) return found;
    throw new SkillError("run-unknown", { message: `There is no run ${id}`, fix: "`skillet runs` lists them" });
  };
  const linesOf = (id: string): JournalText => {
    let fd: number;
    try {
      fd = openFile(fileOf(id), "read");
    } catch (error) {
      throw unreadable(fileOf(id), error);
    }
    try {
      return readJournal(readBytes(fd));
    } finally {
      closeSync(fd);
    }
  };
  const summaries = (ids: readonly string[]) =>
    ids.flatMap((id) => summary(id) ?? []).sort((a, b) => byText(b.at, a.at) || byText(b.id, a.id));
  const take = (id: string): Journal => {
    const claimed = claimRun(ownerOf(id));
    if ("held" in claimed) throw busy(id, claimed.held, ownerOf(id));
    try {
      // Now that nobody else can be at it: until then it may have come to its end.
      const why = WHY_NOT[summary(id, () => undefined)?.state ?? "interrupted"];
      if (why) throw new SkillError(why.code, { message: `Run ${id} ${why.says}`, fix: why.fix(id) });
      return openJournal({ file: fileOf(id), onClose: claimed.release });
    } catch (error) {
      claimed.release();
      throw error;
    }
  };
  const prune: Runs["prune"] = (most, { isTrial = false, isAutomatic = false } = {}) => {
    const all = summaries(idsIn(folder));
    const old = isAutomatic ? outOf(all, most, confirmedNow(all)) : outOf(all, most);
    const remove = ({ id }: RunSummary) =>
      whileLocked(ownerOf(id), () => {
        if (ownerIn(ownerOf(id))) return false;
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
    list: () => summaries(idsIn(folder)),
    begin({ head, request, messages }) {
      makeFolder(folder);
      if (isDue(folder)) {
        try {
          prune(keep, { isAutomatic: true });
        } catch {} // It is no reason not to begin another.
      }
      const at = new Date().toISOString();
      const lines: JournalLine[] = [
        { ...head, type: "run", version: 1, at },
        { type: "request", at, request, ...(messages === undefined ? {} : { messages }) },
      ];
      makeFile(fileOf(head.id), lines.map(writeLine).join(""));
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
      const ids = idsIn(folder);
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
      whileLocked(ownerOf(known(id).id), () => {
        const run = known(id);
        const ask = run.state === "waiting" ? pendingAsk(linesOf(id).lines) : undefined;
        if (!ask) throw nothingAsked(run);
        if (about && JSON.stringify(ask.effect) !== JSON.stringify(about)) throw askedOther(id);
        const { name, effect } = ask;
        const at = new Date().toISOString();
        addLine(fileOf(id), { type: "answer", at, name, ...asApproval(approval), effect }, false);
        return ask.effect;
      }),
    cancel: (id) =>
      whileLocked(ownerOf(known(id).id), () => {
        const { state, pid } = known(id);
        if (isOver(state)) {
          const says = state === "cancelled" ? "was called off already" : "has ended already";
          throw new SkillError("run-ended", { message: `Run ${id} ${says}`, fix: "there is nothing left to call off" });
        }
        addLine(fileOf(id), { type: "cancel", at: new Date().toISOString() }, pid !== undefined);
      }),
  };
}

interface WhyNot {
  code: ErrorCode;
  says: string;
  fix(id: string): string;
}

/** Why a run cannot be gone on with. */
const WHY_NOT: Partial<Record<RunState, WhyNot>> = {
  ended: { code: "run-ended", says: "has ended", fix: (id) => `skillet runs show ${id} says how` },
  cancelled: { code: "run-cancelled", says: "was called off", fix: () => "start it anew" },
  corrupt: {
    code: "journal-corrupt",
    says: "cannot be gone on with: its journal is not what was written",
    fix: (id) => `start it anew; skillet runs show ${id} shows what can be read of it`,
  },
};

const UNASKED: Partial<Record<RunState, [says: string, fix: string]>> = {
  running: ["is under way: whoever started it is asked there", "skillet runs show ID says how far it is"],
  answered: ["has its answer already", "go on with: skillet resume ID"],
  cancelled: ["was called off", "start it anew"],
  ended: ["has ended", "skillet runs show ID says how"],
  interrupted: ["waits for no word: it was interrupted", "go on with: skillet resume ID"],
  corrupt: ["cannot be gone on with: its journal is not what was written", "skillet runs show ID says more"],
};

/** Why no word can be given to a run. */
export function nothingAsked({ id, state }: Pick<RunSummary, "id" | "state">): SkillError {
  const [says, fix] = UNASKED[state] ?? ["waits for no word", "`skillet runs` says which do"];
  return new SkillError("nothing-asked", { message: `Run ${id} ${says}`, fix: fix.replace("ID", id) });
}

/** It was gone on with while somebody thought about it. */
function askedOther(id: string): SkillError {
  const message = `Run ${id} asks for another thing by now`;
  return new SkillError("nothing-asked", { message, fix: `look again: skillet approve ${id}` });
}

function busy(id: string, { pid, host }: { pid: number; host: string }, file: string): SkillError {
  const isHere = host === hostname();
  const wait = `wait for it to end, or call it off: skillet cancel ${id}`;
  return new SkillError("run-busy", {
    message: `Process ${pid}${isHere ? "" : ` on ${host}`} is at run ${id}`,
    fix: isHere ? wait : `${wait}\nif that machine is no more, remove ${file}`,
  });
}

/** The newest first: an id begins with its time. */
function idsIn(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    const ids = names.map((name) => name.slice(0, -".jsonl".length));
    return ids.filter((id) => ID.test(id)).sort((a, b) => byText(b, a));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw unreadable(folder, error);
  }
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw unwritable(folder, error);
  }
}

/** Whole or not at all. */
function makeFile(file: string, text: string): void {
  let fd: number;
  try {
    fd = openSync(file, "wx", 0o600);
  } catch (error) {
    throw unwritable(file, error);
  }
  try {
    writeFileSync(fd, text);
  } catch (error) {
    rmSync(file, { force: true });
    throw unwritable(file, error);
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

function unreadable(file: string, cause: unknown): SkillError {
  return new SkillError("runs-unreadable", {
    message: `${file} cannot be read: ${reason(cause)}`,
    fix: "check its mode, and what stands in its place",
    cause,
  });
}
