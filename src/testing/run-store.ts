import { SkillError } from "../errors/problem.ts";
import { createJournal, formatJournalLine, type Journal, type JournalLine, parseJournal } from "../store/journal.ts";
import {
  createAnswerLine,
  createBusyError,
  createCancelLine,
  createFirstLines,
  createLeaseLostError,
  createUnknownRunError,
  findExpiredRuns,
  findRun,
  isRunId,
  type RunOwner,
  type RunSummary,
  requireResumable,
  sortRuns,
  summarizeRun,
} from "../store/run-rules.ts";
import type { RunStore } from "../store/runs.ts";
import { compareText } from "../util/text.ts";

/** A run in memory: its journal, and the lease of its owner. */
export interface MemoryRun {
  /** The journal as it would be in a file. */
  text: string;
  lease?: { owner: RunOwner /** In milliseconds since 1970. */; expiresAt: number };
}

/** A lease is renewed by each call of a journal. A run looks for a cancellation twice a second. */
const LEASE_MS = 30_000;

/** Creates a store that keeps runs in memory. `stored` is its storage: stores that share it are one. */
export function createMemoryRunStore(stored: Map<string, MemoryRun> = new Map()): RunStore {
  const known = (id: string): MemoryRun => {
    const run = stored.get(id);
    if (run) return run;
    throw createUnknownRunError(id);
  };
  const getOwner = ({ lease }: MemoryRun) => (lease && lease.expiresAt > Date.now() ? lease.owner : undefined);
  const summarize = (run: MemoryRun, owner = getOwner(run)): RunSummary => {
    const { lines, wholeBytes } = parseJournal(Buffer.from(run.text));
    const [head] = lines;
    if (head?.type !== "run") throw new TypeError("The first line of a journal is its head");
    return summarizeRun({ head, lines, owner, bytes: wholeBytes });
  };
  const summaries = (ids: readonly string[]) =>
    sortRuns(ids.flatMap((id) => stored.get(id) ?? []).map((run) => summarize(run)));
  const listIds = () => [...stored.keys()].sort((a, b) => compareText(b, a));
  const append = (run: MemoryRun, line: JournalLine) => {
    run.text += formatJournalLine(line);
  };
  const take = async (id: string): Promise<Journal> => {
    const run = known(id);
    const held = getOwner(run);
    if (held) throw createBusyError(id, held);
    requireResumable(summarize(run, undefined));
    const owner = { id: crypto.randomUUID(), label: `process ${process.pid}` };
    const renew = () => {
      run.lease = { owner, expiresAt: Date.now() + LEASE_MS };
    };
    renew();
    const requireLease = () => {
      if (stored.get(id) !== run || run.lease?.owner.id !== owner.id) throw createLeaseLostError(id);
      renew();
    };
    const { lines } = parseJournal(Buffer.from(run.text));
    const [head] = lines;
    if (head?.type !== "run") throw new TypeError("The first line of a journal is its head");
    let read = run.text.length;
    return createJournal({
      ...{ head, lines },
      log: {
        async append(line) {
          requireLease();
          append(run, line);
        },
        async readAdded() {
          requireLease();
          const added = parseJournal(Buffer.from(run.text.slice(read))).lines;
          read = run.text.length;
          return added;
        },
        async close() {
          if (run.lease?.owner.id === owner.id) delete run.lease;
        },
      },
    });
  };
  return {
    async create(run) {
      const { id } = run.head;
      if (!isRunId(id) || stored.has(id)) throw createTakenIdError(id);
      stored.set(id, { text: createFirstLines(run).map(formatJournalLine).join("") });
      return take(id);
    },
    resume: take,
    list: async () => summaries(listIds()),
    find: async (written) => findRun(written, listIds(), summaries),
    read: async (id) => parseJournal(Buffer.from(known(id).text)),
    async answer(id, approval, about) {
      const run = known(id);
      const line = createAnswerLine(summarize(run), () => parseJournal(Buffer.from(run.text)).lines, approval, about);
      append(run, line);
      return line.approvalRequest;
    },
    async cancel(id) {
      const run = known(id);
      append(run, createCancelLine(summarize(run)));
    },
    async prune(keep, { isTrial = false } = {}) {
      const expired = findExpiredRuns(summaries(listIds()), keep);
      if (!isTrial) for (const { id } of expired) stored.delete(id);
      return expired;
    },
  };
}

function createTakenIdError(id: string): SkillError {
  return new SkillError("journal-unwritable", {
    message: `Run ${id} cannot be created: its id is taken or not valid`,
    fix: "use a new id",
  });
}
