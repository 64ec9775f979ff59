import { closeSync, fdatasyncSync, ftruncateSync, mkdirSync, openSync, readdirSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { claimOwnership, replaceFile } from "../store/locked-file.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import type { SpentCall } from "./eval-budget.ts";
import type { FinishedTrial } from "./trials.ts";

/** The record of an evaluation in progress. It survives the end of the process. */
export interface TrialJournal {
  /** The id of the evaluation, and of its report. */
  readonly id: string;
  /** The trials that earlier processes finished. */
  readonly trials: readonly FinishedTrial[];
  /** The calls that earlier processes paid for, also for trials that did not finish. */
  readonly calls: readonly SpentCall[];
  addCall(call: SpentCall): void;
  addTrial(trial: FinishedTrial): void;
  /** Marks the evaluation as complete: it is not resumed any more. */
  end(): void;
  close(): void;
}

interface JournalHead {
  type: "suite";
  version: 1;
  digest: string;
}

type TrialLine =
  | JournalHead
  | { type: "call"; call: SpentCall }
  | { type: "trial"; trial: FinishedTrial }
  | { type: "end" };

const JOURNAL_ENDING = ".trials.jsonl";

/** Starts the record of an evaluation in `~/.skillet/evals`. */
export function createTrialJournal(skilletHome: string, id: string, digest: string): TrialJournal {
  const folder = join(skilletHome, "evals");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return openTrialJournal(folder, id, { lines: [], size: 0 }, { type: "suite", version: 1, digest });
}

/** Opens the newest unfinished record of the same plan, or returns undefined. Throws a SkillError if another process runs it. */
export function resumeTrialJournal(skilletHome: string, digest: string): TrialJournal | undefined {
  const folder = join(skilletHome, "evals");
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => name.endsWith(JOURNAL_ENDING));
  } catch {
    return undefined; // Nothing was evaluated yet.
  }
  for (const name of names.sort().reverse()) {
    const read = readTrialLines(join(folder, name));
    const [head] = read.lines;
    if (head?.type !== "suite" || head.digest !== digest || read.lines.some(({ type }) => type === "end")) continue;
    return openTrialJournal(folder, name.slice(0, -JOURNAL_ENDING.length), read);
  }
  return undefined;
}

interface ReadJournal {
  lines: TrialLine[];
  /** The bytes of the whole lines: a killed process may have left half a line. */
  size: number;
}

function readTrialLines(file: string): ReadJournal {
  const lines: TrialLine[] = [];
  let size = 0;
  try {
    const text = readRegularText(file);
    for (const line of text.split("\n").slice(0, -1)) {
      const read: unknown = JSON.parse(line);
      if (!isJsonObject(read)) break;
      lines.push(read as unknown as TrialLine);
      size += Buffer.byteLength(line) + 1;
    }
  } catch {} // What was read so far is valid.
  return { lines, size };
}

function openTrialJournal(folder: string, id: string, { lines, size }: ReadJournal, head?: JournalHead): TrialJournal {
  const owner = claimOwnership(join(folder, `${id}.owner`));
  if ("held" in owner) {
    throw new SkillError("eval-running", {
      message: `The evaluation ${id} is run by process ${owner.held.pid} on ${owner.held.host}`,
      fix: "wait for it, or end it and resume again",
    });
  }
  const fd = openSync(join(folder, `${id}${JOURNAL_ENDING}`), "a", 0o600);
  ftruncateSync(fd, size);
  const append = (line: TrialLine) => {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    fdatasyncSync(fd);
  };
  if (head) append(head);
  return {
    id,
    trials: lines.flatMap((line) => (line.type === "trial" ? line.trial : [])),
    calls: lines.flatMap((line) => (line.type === "call" ? line.call : [])),
    addCall: (call) => append({ type: "call", call }),
    addTrial: (trial) => append({ type: "trial", trial }),
    end: () => append({ type: "end" }),
    close() {
      closeSync(fd);
      owner.release();
    },
  };
}

/** Reads a trial of an earlier evaluation, or returns undefined. */
export function readCachedTrial(
  file: string | undefined,
  { trial }: Pick<FinishedTrial, "trial">,
): FinishedTrial | undefined {
  if (file === undefined) return undefined;
  try {
    const read: unknown = JSON.parse(readRegularText(file));
    if (!isJsonObject(read) || typeof read["passed"] !== "boolean" || read["trial"] !== trial) return undefined;
    return { ...(read as unknown as FinishedTrial), isCached: true };
  } catch {
    return undefined; // Not cached, or cut off.
  }
}

export function saveCachedTrial(file: string, trial: FinishedTrial): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    replaceFile(file, JSON.stringify(trial));
  } catch {
    // The trial is made again next time.
  }
}
