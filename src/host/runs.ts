import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import type { Approval, Effect } from "./approvals.ts";
import { type Journal, openJournal } from "./journal.ts";
import {
  type JournalLine,
  type JournalText,
  type RunHead,
  type RunTail,
  readJournal,
  readLine,
  writeLine,
} from "./journal-lines.ts";
import { whileLocked } from "./locked-file.ts";
import type { Message } from "./models.ts";
import { claimRun, ownerIn } from "./run-owner.ts";

/** `running`: a process is at it. `interrupted`: none is, and it has no end. `waiting`: for somebody's word; `answered`: it has it. */
export const RUN_STATES = ["running", "interrupted", "waiting", "answered", "ended", "cancelled", "corrupt"] as const;
export type RunState = (typeof RUN_STATES)[number];

export interface RunSummary extends Omit<RunHead, "type" | "version"> {
  at: string;
  state: RunState;
  /** When the last was written. */
  changedAt: string;
  /** How it ended, where it did. */
  end?: Omit<RunTail, "type">;
  /** What it waits for, or was answered. */
  effect?: Effect;
  /** The process that is at it. */
  pid?: number;
  bytes: number;
}

export interface NewRun {
  head: Omit<RunHead, "type" | "version">;
  request: Readonly<Record<string, unknown>>;
  messages?: readonly Message[];
}

/** How much is kept of runs that ended. */
export interface Retention {
  days: number;
  most: number;
}

export const RETENTION: Retention = { days: 30, most: 1000 };

/** The runs that were written down, one file each. */
export interface Runs {
  readonly folder: string;
  /** Throws a SkillError when it cannot be written. */
  begin(run: NewRun): Journal;
  /** Takes a run up again. Throws a SkillError: there is none, it ended, was called off, waits, or another process is at it. */
  open(id: string): Journal;
  /** All of them, the newest first. */
  list(): readonly RunSummary[];
  /** The one whose id this is, or begins or ends with it; `last` is the newest. Throws a SkillError when none or several are. */
  find(written: string): RunSummary;
  read(id: string): JournalText;
  /** Gives the word that a run waits for. Throws a SkillError when it waits for none. */
  answer(id: string, approval: Approval): Effect;
  /** Calls a run off, also one that another process is at. Throws a SkillError when it has ended. */
  cancel(id: string): void;
  /** Removes what is older or more than is kept, and gives what that was. Contract: nothing that a process is at. */
  prune(keep: Retention, options?: { isTrial?: boolean }): readonly RunSummary[];
}

const ID = /^[\w.-]{1,100}$/;

export function openRuns(skilletHome: string, keep: Retention = RETENTION): Runs {
  const folder = join(skilletHome, "runs");
  const fileOf = (id: string) => join(folder, `${id}.jsonl`);
  const ownerOf = (id: string) => join(folder, `${id}.owner`);
  const take = (id: string): Journal => {
    const claimed = claimRun(ownerOf(id));
    if ("held" in claimed) {
      const { pid, host } = claimed.held;
      throw new SkillError("run-busy", {
        message: `Process ${pid} on ${host} is at run ${id}`,
        fix: `wait for it to end, or call it off: skillet cancel ${id}`,
      });
    }
    try {
      return openJournal({ file: fileOf(id), onClose: claimed.release });
    } catch (error) {
      claimed.release();
      throw error;
    }
  };
  const summary = (id: string): RunSummary | undefined => summaryOf(fileOf(id), () => ownerIn(ownerOf(id))?.pid);
  const known = (id: string): RunSummary => {
    const found = ID.test(id) ? summary(id) : undefined;
    if (found) return found;
    throw new SkillError("run-unknown", { message: `There is no run ${id}`, fix: "`skillet runs` lists them" });
  };
  const list = () => idsIn(folder).flatMap((id) => summary(id) ?? []);
  const prune: Runs["prune"] = ({ days, most }, { isTrial = false } = {}) => {
    const oldest = Date.now() - days * DAY_MS;
    const old = list()
      .filter(({ state }) => state !== "running")
      .filter(({ changedAt, state }, index) => Date.parse(changedAt) < oldest || (index >= most && isOver(state)));
    if (!isTrial) for (const { id } of old) for (const file of [fileOf(id), ownerOf(id)]) rmSync(file, { force: true });
    return old;
  };
  const addTo = (id: string, line: JournalLine) => {
    const journal = openSync(fileOf(id), "a");
    try {
      writeFileSync(journal, writeLine(line));
      fsyncSync(journal);
    } finally {
      closeSync(journal);
    }
  };
  return {
    folder,
    list,
    prune,
    begin({ head, request, messages }) {
      makeFolder(folder);
      if (isDue(folder)) prune(keep);
      const at = new Date().toISOString();
      const lines: JournalLine[] = [
        { ...head, type: "run", version: 1, at },
        { type: "request", at, request, ...(messages === undefined ? {} : { messages }) },
      ];
      try {
        writeFileSync(fileOf(head.id), lines.map(writeLine).join(""), { flag: "wx", mode: 0o600 });
        syncFolder(folder);
      } catch (error) {
        throw unwritable(fileOf(head.id), error);
      }
      return take(head.id);
    },
    open(id) {
      const { state, effect } = known(id);
      const why = WHY_NOT[state];
      if (why) throw new SkillError(why.code, { message: `Run ${id} ${why.says(effect)}`, fix: why.fix(id) });
      return take(id);
    },
    find(written) {
      const ids = idsIn(folder);
      const [newest] = ids;
      if (written === "last" && newest !== undefined) return known(newest);
      const fitting = ids.includes(written)
        ? [written]
        : ids.filter((id) => id.startsWith(written) || id.endsWith(written));
      if (fitting.length <= 1) return known(fitting[0] ?? written);
      throw new SkillError("run-unknown", {
        message: `${fitting.length} runs have an id like ${written}`,
        fix: `give more of it: ${fitting.slice(0, 5).join(", ")}`,
      });
    },
    read: (id) => readJournal(readFileSync(fileOf(known(id).id))),
    answer: (id, approval) =>
      whileLocked(ownerOf(known(id).id), () => {
        const { state, effect } = known(id);
        const ask = readJournal(readFileSync(fileOf(id))).lines.findLast((line) => line.type === "ask");
        if (state !== "waiting" || ask?.type !== "ask" || !effect) {
          const [says, fix] = UNASKED[state] ?? ["waits for no word", "`skillet runs` says which do"];
          throw new SkillError("nothing-asked", { message: `Run ${id} ${says}`, fix: fix.replace("ID", id) });
        }
        addTo(id, { type: "answer", at: new Date().toISOString(), name: ask.name, ...approval });
        return effect;
      }),
    cancel: (id) =>
      whileLocked(ownerOf(known(id).id), () => {
        const { state } = known(id);
        if (isOver(state)) {
          const fix = "there is nothing left to call off";
          throw new SkillError("run-ended", { message: `Run ${id} has ended already`, fix });
        }
        addTo(id, { type: "cancel", at: new Date().toISOString() });
      }),
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

function isOver(state: RunState): boolean {
  return state === "ended" || state === "cancelled";
}

interface WhyNot {
  code: string;
  says(effect: Effect | undefined): string;
  fix(id: string): string;
}

/** Why a run cannot be gone on with. */
const WHY_NOT: Partial<Record<RunState, WhyNot>> = {
  ended: { code: "run-ended", says: () => "has ended", fix: (id) => `skillet runs show ${id} says how` },
  cancelled: { code: "run-cancelled", says: () => "was called off", fix: () => "start it anew" },
  corrupt: {
    code: "journal-corrupt",
    says: () => "is not what was written",
    fix: (id) => `start it anew; skillet runs show ${id} shows what can be read of it`,
  },
};

const UNASKED: Partial<Record<RunState, [says: string, fix: string]>> = {
  answered: ["has its answer already", "go on with: skillet resume ID"],
  cancelled: ["was called off", "start it anew"],
  ended: ["has ended", "skillet runs show ID says how"],
  interrupted: ["waits for no word: it was interrupted", "go on with: skillet resume ID"],
};

/** The newest first: an id begins with its time. */
function idsIn(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    return names.map((name) => name.slice(0, -".jsonl".length)).sort((a, b) => byText(b, a));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw new SkillError("runs-unreadable", {
      message: `${folder} cannot be read: ${reason(error)}`,
      fix: "check its mode",
    });
  }
}

/** From the first line and the last alone: there may be thousands. */
function summaryOf(file: string, ownerPid: () => number | undefined): RunSummary | undefined {
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const { size, mtime } = fstatSync(fd);
    const head = readLine(firstLine(fd, size));
    const last = readLine(lastLine(fd, size));
    if (head?.type !== "run") return undefined;
    const { type: _, version: __, ...run } = head;
    const pid = last?.type === "end" ? undefined : ownerPid();
    const end = last?.type === "end" ? tailOf(last) : undefined;
    const effect = last?.type === "ask" ? last.effect : undefined;
    const state: RunState =
      last === undefined
        ? "corrupt"
        : ((pid === undefined ? STATES[last.type] : undefined) ?? (pid === undefined ? "interrupted" : "running"));
    return {
      ...run,
      state,
      changedAt: last?.at ?? mtime.toISOString(),
      bytes: size,
      ...(end ? { end } : {}),
      ...(effect ? { effect } : {}),
      ...(pid === undefined ? {} : { pid }),
    };
  } finally {
    closeSync(fd);
  }
}

/** What the last line says of a run that no process is at. */
const STATES: Partial<Record<JournalLine["type"], RunState>> = {
  end: "ended",
  cancel: "cancelled",
  ask: "waiting",
  answer: "answered",
};

function tailOf({ type: _, at: __, ...end }: RunTail & { at: string }): Omit<RunTail, "type"> {
  return end;
}

const PIECE = 16 * 1024;

function firstLine(fd: number, size: number): string {
  let bytes = Buffer.alloc(0);
  while (bytes.length < size && !bytes.includes(0x0a)) {
    const piece = Buffer.alloc(Math.min(PIECE, size - bytes.length));
    readSync(fd, piece, 0, piece.length, bytes.length);
    bytes = Buffer.concat([bytes, piece]);
  }
  return bytes.subarray(0, bytes.indexOf(0x0a)).toString();
}

/** The last whole one. */
function lastLine(fd: number, size: number): string {
  for (let room = PIECE; ; room *= 4) {
    const start = Math.max(0, size - room);
    const piece = Buffer.alloc(size - start);
    readSync(fd, piece, 0, piece.length, start);
    const end = piece.lastIndexOf(0x0a);
    const before = piece.lastIndexOf(0x0a, end - 1);
    if (before !== -1 || start === 0) return piece.subarray(before + 1, end).toString();
  }
}

/** Once a day. */
function isDue(folder: string): boolean {
  const stamp = join(folder, ".pruned");
  const at = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (Date.now() - at < DAY_MS) return false;
  try {
    writeFileSync(stamp, "");
    utimesSync(stamp, new Date(), new Date());
  } catch {} // Then it is tried again with the next run.
  return at !== 0;
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw unwritable(folder, error);
  }
}

/** A file is there after a crash only when its folder says so. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function unwritable(file: string, cause: unknown): SkillError {
  return new SkillError("journal-unwritable", {
    message: `${file} cannot be written: ${reason(cause)}`,
    fix: "make room on the disk, and check that the folder can be written to",
    cause,
  });
}
