import { appendFileSync, closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { createFolder } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";

/** The cost of one model call in US dollars, and the skill, user and tenant that it counts for. */
export interface Spending {
  dollars: number;
  /** Empty in a conversation. */
  skill: string;
  user?: string;
  tenant?: string;
}

/** Selects spending: that of one skill, user or tenant. */
export type SpendingFilter = Partial<Pick<Spending, "skill" | "user" | "tenant">>;

/** A calendar day or month in UTC. */
export const SPENDING_PERIODS = ["day", "month"] as const;
export type SpendingPeriod = (typeof SPENDING_PERIODS)[number];

/** What models cost. Several processes may write at once; what one has added, all see at their next total. */
export interface SpendingStore {
  /** Throws a SkillError when it cannot be written. */
  add(spending: Spending): Promise<void>;
  /** Returns the total of the current period in dollars. Throws a SkillError when it cannot be read. */
  total(period: SpendingPeriod, filter?: SpendingFilter): Promise<number>;
}

/** Creates the store below skillet's home: one file for each month, which is only appended to. */
export function createSpendingStore(
  skilletHome: string,
  { now = () => new Date() }: { now?: () => Date } = {},
): SpendingStore {
  const folder = join(skilletHome, "spending");
  let read: SpendingFile | undefined;
  const fileOf = (month: string) => join(folder, `${month}.jsonl`);
  /** Reads the lines that were added since the last call. */
  const update = (month: string): SpendingFile => {
    if (read?.month !== month) read = { month, offset: 0, rest: "", sums: new Map() };
    try {
      readAdded(fileOf(month), read);
    } catch (error) {
      if (getErrnoCode(error) !== "ENOENT") throw createSpendingError(fileOf(month), error);
    }
    return read;
  };
  return {
    async add({ dollars, skill, user, tenant }) {
      if (!(dollars > 0)) return;
      const at = now().toISOString();
      const file = fileOf(at.slice(0, 7));
      try {
        createFolder(folder, 0o700);
        // One small write in append mode: lines of several processes do not mix.
        appendFileSync(file, `${JSON.stringify({ version: 1, at, dollars, skill, user, tenant })}\n`, { mode: 0o600 });
      } catch (error) {
        throw createSpendingError(file, error);
      }
    },
    async total(period, filter = {}) {
      const today = now().toISOString().slice(0, 10);
      const { sums } = update(today.slice(0, 7));
      let total = 0;
      for (const { day, dollars, ...one } of sums.values()) {
        if (period === "day" && day !== today) continue;
        const isFitting = (["skill", "user", "tenant"] as const).every(
          (key) => filter[key] === undefined || filter[key] === one[key],
        );
        if (isFitting) total += dollars;
      }
      return total;
    },
  };
}

interface SpendingFile {
  month: string;
  offset: number;
  /** The start of a line whose end was not there yet. */
  rest: string;
  /** By day, skill, user and tenant. */
  sums: Map<string, Spending & { day: string }>;
}

function readAdded(file: string, state: SpendingFile): void {
  const fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is not a regular file");
    if (stats.size < state.offset) Object.assign(state, { offset: 0, rest: "", sums: new Map() });
    const bytes = Buffer.alloc(64 * 1024);
    while (state.offset < stats.size) {
      const count = readSync(fd, bytes, 0, bytes.length, state.offset);
      if (count === 0) break;
      state.offset += count;
      const lines = `${state.rest}${bytes.toString("latin1", 0, count)}`.split("\n");
      state.rest = lines.pop() ?? "";
      for (const line of lines) addLine(state, Buffer.from(line, "latin1").toString());
    }
  } finally {
    closeSync(fd);
  }
}

function addLine({ sums }: SpendingFile, line: string): void {
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch {
    return; // A writer was killed while it wrote the line.
  }
  if (!isJsonObject(entry) || entry["version"] !== 1) return;
  const { at, dollars, skill, user, tenant } = entry;
  if (typeof at !== "string" || typeof dollars !== "number" || typeof skill !== "string") return;
  const day = at.slice(0, 10);
  const key = JSON.stringify([day, skill, user, tenant]);
  const known = sums.get(key);
  const names = {
    ...(typeof user === "string" ? { user } : {}),
    ...(typeof tenant === "string" ? { tenant } : {}),
  };
  sums.set(key, { day, skill, ...names, dollars: (known?.dollars ?? 0) + dollars });
}

function createSpendingError(file: string, cause: unknown): SkillError {
  return new SkillError("spending-unusable", {
    message: `The record of costs in ${file} cannot be used: ${getErrorMessage(cause)}`,
    fix: "check that you own the file and that the disk is not full",
    cause,
  });
}
