import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { SkillError } from "../errors/problem.ts";
import {
  createJournal,
  formatJournalLine,
  type Journal,
  type JournalLine,
  type JournalLog,
  parseJournal,
} from "../store/journal.ts";
import {
  createAnswerLine,
  createBusyError,
  createCancelLine,
  createCorruptSummary,
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
import type { Database, DatabaseRow, Statement, Transaction } from "./database.ts";

export interface PostgresRunOptions {
  /** The time after which a run of a process that no longer renews its lease can be resumed elsewhere. Defaults to 15 seconds. */
  leaseSeconds?: number;
  /** The time that a running run waits for an unavailable server before it stops as interrupted. Defaults to 60 seconds. */
  outageSeconds?: number;
}

/** Creates the store of the runs in Postgres. Several machines share it. */
export function createPostgresRunStore(database: Database, options: PostgresRunOptions = {}): RunStore {
  const { leaseSeconds = 15, outageSeconds = 60 } = options;
  const lease: LeaseTimes = { seconds: leaseSeconds, outageMs: outageSeconds * 1000 };
  const looks = createLookBatch(database, lease);
  const take = async (id: string): Promise<Journal> => {
    const owner = { id: randomUUID(), label: `process ${process.pid} on ${hostname()}` };
    const taken = await database.transaction((transaction) => takeLease(transaction, id, owner, lease));
    const log = createPostgresLog({ database, lease, looks, id, owner: owner.id, readSeq: taken.lastSeq });
    try {
      const [head, ...lines] = taken.lines;
      if (head?.type !== "run") throw createCorruptError(id);
      return await createJournal({ head, lines: [head, ...lines], log });
    } catch (error) {
      await log.close();
      throw error;
    }
  };
  const summaries = async (ids?: readonly string[]) =>
    sortRuns((await readSummaries((statement) => database.query(statement), { ids })).map(({ summary }) => summary));
  return {
    async create(run) {
      const { id } = run.head;
      if (!isRunId(id)) throw createTakenIdError(id);
      const key = randomUUID();
      const isNew = await database.transaction((transaction) => insertRun(transaction, createFirstLines(run), id, key));
      if (!isNew) throw createTakenIdError(id);
      return take(id);
    },
    resume: take,
    list: () => summaries(),
    async find(written) {
      if (!isRunId(written)) throw createUnknownRunError(written);
      const rows = await database.query({ text: FIND_IDS, values: [written] });
      return findRun(
        written,
        rows.map((row) => String(row["id"])),
        summaries,
      );
    },
    async read(id) {
      const rows = isRunId(id) ? await database.query({ text: READ_LINES, values: [id] }) : [];
      if (rows.length === 0) throw createUnknownRunError(id);
      return parseJournal(Buffer.from(rows.map(({ line }) => String(line)).join("")));
    },
    answer: (id, approval, about) =>
      database.transaction(async (transaction) => {
        const run = await lockRun(transaction, id);
        const lines = await readLines(transaction, id);
        const line = createAnswerLine(run, () => lines, approval, about);
        await insertLine(transaction, id, line);
        return line.approvalRequest;
      }),
    cancel: (id) =>
      database.transaction(async (transaction) => {
        const line = createCancelLine(await lockRun(transaction, id));
        await insertLine(transaction, id, line);
        await transaction.query({ text: "update skillet.runs set is_cancelled = true where id = $1", values: [id] });
      }),
    async prune(keep, { isTrial = false } = {}) {
      const expired = findExpiredRuns(await summaries(), keep);
      if (isTrial || expired.length === 0) return expired;
      // A run that was resumed since it was listed stays.
      const rows = await database.query({
        text: `delete from skillet.runs r where r.id = any($1) and not ${IS_LEASED} returning r.id`,
        values: [expired.map(({ id }) => id)],
      });
      const removed = new Set(rows.map((row) => row["id"]));
      return expired.filter(({ id }) => removed.has(id));
    },
  };
}

/** The times of a lease, and of an outage that a running run waits for. */
interface LeaseTimes {
  seconds: number;
  outageMs: number;
}

/** True while an owner works on the run. After a restart of the server, each owner has the time of a lease to renew it. */
const IS_LEASED = `(r.owner is not null and r.lease_until is not null
  and greatest(r.lease_until, pg_postmaster_start_time() + r.lease_length) > now())`;

const FIND_IDS = `
select id from skillet.runs
where starts_with(id, $1) or starts_with(regexp_replace(id, '^.*-', ''), $1) or right(id, length($1)) = $1
  or ($1 = 'last' and left(id, 15) = (select left(max(id), 15) from skillet.runs))
order by id desc`;

const READ_LINES = `
select line from (
  select 0 as seq, head as line from skillet.runs where id = $1
  union all select seq, line from skillet.lines where run = $1
) l order by seq`;

/**
 * The summary needs the first line, and the lines from the last step on: they show whether the run waits. A run that has ended needs only
 * its last line.
 */
const SUMMARIES = `
select r.id, r.head, r.bytes, r.changed_at, r.owner, r.owner_label, ${IS_LEASED} as is_leased,
  case when r.tail is not null and not r.is_cancelled then r.tail else (
    select string_agg(l.line, '' order by l.seq) from skillet.lines l
    where l.run = r.id and (l.kind = 'cancel' or l.seq >= coalesce(
      (select max(s.seq) from skillet.lines s where s.run = r.id and s.kind = 'step'), 0))
  ) end as lines
from skillet.runs r`;

type RunQuery = (statement: Statement) => Promise<readonly DatabaseRow[]>;

interface ReadSummary {
  summary: RunSummary;
  row: DatabaseRow;
}

async function readSummaries(
  query: RunQuery,
  { ids }: { ids?: readonly string[] | undefined },
): Promise<ReadSummary[]> {
  const rows =
    ids === undefined
      ? await query({ text: SUMMARIES })
      : await query({ text: `${SUMMARIES} where r.id = any($1)`, values: [ids] });
  return rows.map((row) => ({ row, summary: createSummary(row) }));
}

function createSummary(row: DatabaseRow): RunSummary {
  const [id, bytes] = [String(row["id"]), Number(row["bytes"])];
  const head = parseJournal(Buffer.from(String(row["head"]))).lines[0];
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) {
    const version: unknown = head?.type === "run" ? head.version : undefined;
    const corrupt = createCorruptSummary(id, row["changed_at"] as Date, bytes);
    return { ...corrupt, ...(typeof version === "number" && version > 1 ? { formatVersion: version } : {}) };
  }
  const { lines, corrupt } = parseJournal(Buffer.from(String(row["lines"] ?? "")));
  const owner = row["is_leased"] === true ? { id: String(row["owner"]), label: String(row["owner_label"]) } : undefined;
  return summarizeRun({ head, lines: [head, ...lines], isCorrupt: corrupt.length > 0, owner, bytes });
}

/** Locks a run until the end of the transaction, and returns its summary. Throws a SkillError if it does not exist. */
async function lockRun({ query }: Transaction, id: string): Promise<RunSummary> {
  const locked = isRunId(id)
    ? await query({ text: "select 1 from skillet.runs where id = $1 for update", values: [id] })
    : [];
  // A second statement: it sees what the transaction before committed.
  const [found] = locked.length === 0 ? [] : await readSummaries(query, { ids: [id] });
  if (!found) throw createUnknownRunError(id);
  return found.summary;
}

async function readLines({ query }: Pick<Transaction, "query">, id: string): Promise<readonly JournalLine[]> {
  const rows = await query({ text: READ_LINES, values: [id] });
  return parseJournal(Buffer.from(rows.map(({ line }) => String(line)).join(""))).lines;
}

/** Inserts a new run. `key` is the same when the statement is repeated. Returns false if the id is taken. */
export async function insertRun(
  { query }: Transaction,
  lines: readonly JournalLine[],
  id: string,
  key: string,
): Promise<boolean> {
  const [head = "", ...rest] = lines.map(formatJournalLine);
  const [row] = await query({
    text: `insert into skillet.runs (id, head, owner, bytes) values ($1, $2, $3, $4) on conflict (id) do nothing returning id`,
    values: [id, head, key, Buffer.byteLength([head, ...rest].join(""))],
  });
  if (!row) {
    // The answer to the first attempt may have been lost.
    const [mine] = await query({ text: "select 1 from skillet.runs where id = $1 and owner = $2", values: [id, key] });
    return mine !== undefined;
  }
  await query({
    text: "insert into skillet.lines (run, kind, line) select $1, kind, line from unnest($2::text[], $3::text[]) with ordinality u(kind, line, n) order by n",
    values: [id, lines.slice(1).map(({ type }) => type), rest],
  });
  return true;
}

/** Adds a line of a process that does not own the run. */
async function insertLine({ query }: Transaction, id: string, line: JournalLine): Promise<void> {
  const text = formatJournalLine(line);
  await query({
    text: "insert into skillet.lines (run, kind, line) values ($1, $2, $3)",
    values: [id, line.type, text],
  });
  await query({
    text: "update skillet.runs set changed_at = now(), bytes = bytes + $2 where id = $1",
    values: [id, Buffer.byteLength(text)],
  });
}

interface TakenRun {
  lines: readonly JournalLine[];
  /** The number of the last line that this owner has read. */
  lastSeq: string;
}

/** Takes the lease of a run. Throws a SkillError if another owner holds it, or if the run cannot be resumed. */
async function takeLease(transaction: Transaction, id: string, owner: RunOwner, lease: LeaseTimes): Promise<TakenRun> {
  const { query } = transaction;
  const run = await lockRun(transaction, id);
  if (run.owner && run.owner.id !== owner.id) throw createBusyError(id, run.owner);
  requireResumable(run.owner ? { ...run, state: "interrupted" } : run);
  const rows = await query({ text: "select seq, line from skillet.lines where run = $1 order by seq", values: [id] });
  const [row] = await query({
    text: `update skillet.runs set owner = $2, owner_label = $3, lease_length = $4::interval, lease_until = now() + $4::interval
      where id = $1 returning head`,
    values: [id, owner.id, owner.label, `${lease.seconds} seconds`],
  });
  const text = [row?.["head"], ...rows.map(({ line }) => line)].join("");
  const { lines, corrupt } = parseJournal(Buffer.from(text));
  if (corrupt.length > 0) throw createCorruptError(id);
  return { lines, lastSeq: String(rows.at(-1)?.["seq"] ?? 0) };
}

interface PostgresLogOptions {
  database: Database;
  lease: LeaseTimes;
  looks: LookBatch;
  id: string;
  owner: string;
  readSeq: string;
}

/** A line with its number in this lease. */
interface NumberedLine {
  number: number;
  line: JournalLine;
  text: string;
}

function createPostgresLog({ database, lease, looks, id, owner, readSeq }: PostgresLogOptions): JournalLog {
  const state = { read: readSeq, next: 0, renewedAt: performance.now() };
  /** Lines that need not be kept yet: they are written with the next one. */
  let waiting: NumberedLine[] = [];
  /** Lines that were written, or read, and not returned yet. */
  let added: JournalLine[] = [];
  let isBuffered = false;
  const takeRows = (rows: readonly DatabaseRow[]) => {
    if (rows.length === 0) throw createLeaseLostError(id);
    for (const { seq, line } of rows) {
      if (seq === null) continue;
      state.read = String(seq);
      added.push(...parseJournal(Buffer.from(String(line))).lines);
    }
  };
  const flush = async () => {
    const batch = waiting;
    if (batch.length === 0) return;
    waiting = [];
    const sentAt = performance.now();
    const tail = batch.findLast(({ line }) => line.type === "end")?.text ?? null;
    const rows = await database.query(
      {
        name: "skillet-append",
        text: APPEND,
        values: [
          ...[id, owner, state.read, batch.map(({ number }) => number), batch.map(({ line }) => line.type)],
          ...[batch.map(({ text }) => text), tail, batch.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)],
        ],
      },
      lease.outageMs,
    );
    takeRows(rows);
    state.renewedAt = sentAt;
    added.push(...batch.flatMap(({ text }) => parseJournal(Buffer.from(text)).lines));
  };
  const look = async () => {
    const sentAt = performance.now();
    const found = await looks.look({ id, owner, read: state.read });
    takeRows(found);
    state.renewedAt = sentAt;
  };
  return {
    async append(line: JournalLine, isKept: boolean): Promise<void> {
      waiting.push({ number: state.next++, line, text: formatJournalLine(line) });
      isBuffered = !isKept && line.type !== "opened";
      if (!isBuffered) await flush();
    },
    async readAdded(): Promise<readonly JournalLine[]> {
      // The call that follows each append: one statement wrote the line and read the others.
      if (added.length === 0 && !isBuffered) {
        await flush();
        if (added.length === 0) await look();
      }
      isBuffered = false;
      const lines = added;
      added = [];
      return lines;
    },
    async requireLease(): Promise<void> {
      if (performance.now() - state.renewedAt < (lease.seconds * 1000) / 2) return;
      await look();
    },
    async close(): Promise<void> {
      try {
        await flush();
        await database.query({ text: CLOSE, values: [id, owner] });
      } catch (error) {
        // The lease was lost, or ends by itself: there is nothing to give back.
        if (!(error instanceof SkillError)) throw error;
      }
    },
  };
}

/** One statement: it is fenced by the owner, keeps each line once, renews the lease, and returns the lines of other processes. */
const APPEND = `
with mine as (
  update skillet.runs set changed_at = now(), lease_until = now() + lease_length, tail = coalesce($7, tail),
    bytes = bytes + case when exists (select 1 from skillet.lines where run = $1 and owner = $2 and n = ($4::integer[])[1]) then 0 else $8 end
  where id = $1 and owner = $2 returning id
), kept as (
  insert into skillet.lines (run, owner, n, kind, line)
  select mine.id, $2, u.n, u.kind, u.line from mine, unnest($4::integer[], $5::text[], $6::text[]) u(n, kind, line) order by u.n
  on conflict (run, owner, n) do nothing
)
select l.seq, l.line from mine left join skillet.lines l on l.run = mine.id and l.owner is null and l.seq > $3::bigint
order by l.seq`;

const CLOSE = "update skillet.runs set lease_until = null where id = $1 and owner = $2";

const LOOK = `
with mine as (
  update skillet.runs r set lease_until = now() + r.lease_length
  from unnest($1::text[], $2::uuid[], $3::bigint[]) u(id, owner, read) where r.id = u.id and r.owner = u.owner
  returning r.id, u.read
)
select mine.id, l.seq, l.line from mine left join skillet.lines l on l.run = mine.id and l.owner is null and l.seq > mine.read
order by l.seq`;

interface Look {
  id: string;
  owner: string;
  read: string;
}

interface LookBatch {
  /** Renews the lease of a run, and returns the lines of other processes. No row: the lease was lost. */
  look(look: Look): Promise<readonly DatabaseRow[]>;
}

/** The runs of this process that look within this time share one statement. */
const BATCH_MS = 50;

function createLookBatch(database: Database, lease: LeaseTimes): LookBatch {
  let next: { looks: Look[]; rows: Promise<ReadonlyMap<unknown, DatabaseRow[]>> } | undefined;
  const start = () => {
    const looks: Look[] = [];
    const send = async () => {
      await new Promise((resolve) => setTimeout(resolve, BATCH_MS));
      next = undefined;
      const values = [looks.map(({ id }) => id), looks.map(({ owner }) => owner), looks.map(({ read }) => read)];
      return Map.groupBy(
        await database.query({ name: "skillet-look", text: LOOK, values }, lease.outageMs),
        ({ id }) => id,
      );
    };
    return { looks, rows: send() };
  };
  return {
    async look(look) {
      next ??= start();
      next.looks.push(look);
      const rows = await next.rows;
      return rows.get(look.id) ?? [];
    },
  };
}

function createTakenIdError(id: string): SkillError {
  return new SkillError("journal-unwritable", {
    message: `Run ${id} cannot be created: its id is taken or not valid`,
    fix: "use a new id",
  });
}

function createCorruptError(id: string): SkillError {
  return new SkillError("journal-corrupt", {
    message: `The journal of run ${id} is corrupt`,
    fix: "start a new run; `skillet runs show` shows the readable part",
  });
}
