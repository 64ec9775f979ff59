import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { SkillError } from "../../errors/problem.ts";
import { createJournal, type Journal, type JournalLine } from "../../store/journal.ts";
import {
  createAnswerLine,
  createBusyError,
  createCancelLine,
  createCorruptSummary,
  createFirstLines,
  createUnknownRunError,
  findExpiredRuns,
  findRun,
  fitsRunQuery,
  isRunId,
  type RunFilterState,
  type RunOwner,
  type RunPage,
  type RunQuery,
  type RunRetention,
  type RunState,
  type RunSummary,
  requireResumable,
  sortRuns,
  summarizeRun,
} from "../../store/run-rules.ts";
import type { RunStore } from "../../store/runs.ts";
import type { Database, DatabaseRow, Sealer, Statement, Transaction } from "./database.ts";
import {
  COUNT_OTHERS,
  createLineOrder,
  createLookBatch,
  createPlaceCheck,
  createPostgresLog,
  formatStoredLine,
  isPlaced,
  type LeaseTimes,
  type LineOrder,
  NO_OWNER,
  parseStoredLines,
} from "./postgres-journal.ts";

export interface PostgresRunOptions {
  /** The time after which a run of a process that no longer renews its lease can be resumed elsewhere. Defaults to 15 seconds. */
  leaseSeconds?: number;
  /** The time that a running run waits for an unavailable server before it stops as interrupted. Defaults to 60 seconds. */
  outageSeconds?: number;
}

/** Creates the store of the runs in Postgres. Several machines share it. `addLeg` gives an answered run to the workers. */
export function createPostgresRunStore(
  database: Database,
  options: PostgresRunOptions = {},
  addLeg: (transaction: Transaction, id: string) => Promise<void> = addNextLegLater,
): RunStore {
  const { leaseSeconds = 15, outageSeconds = 60 } = options;
  const lease: LeaseTimes = { seconds: leaseSeconds, outageMs: outageSeconds * 1000 };
  const looks = createLookBatch(database, lease);
  const take = async (id: string): Promise<Journal> => {
    const owner = { id: randomUUID(), label: `process ${process.pid} on ${hostname()}` };
    const taken = await database.transaction((transaction) => takeLease(transaction, id, owner, lease));
    const { order, lastSeq: readSeq } = taken;
    const log = createPostgresLog({ database, lease, looks, id, owner: owner.id, readSeq, order });
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
    sortRuns((await readRows(database, ids)).map((row) => createSummary(database.sealer, row)));
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
    search: (query) => searchStoredRuns(database, query),
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
      return parseStoredLines(database.sealer, id, joinLines(rows), createLineOrder(id).check);
    },
    answer: (id, approval, about) =>
      database.transaction(async (transaction) => {
        const run = await lockRun(transaction, id);
        const lines = await readLines(transaction, id);
        const line = createAnswerLine(run, () => lines, approval, about);
        await insertLine(transaction, id, line);
        if (run.queue && !run.owner) await addLeg(transaction, id);
        return line.approvalRequest;
      }),
    cancel: (id) =>
      database.transaction(async (transaction) => {
        const line = createCancelLine(await lockRun(transaction, id));
        await insertLine(transaction, id, line);
        await transaction.query({
          text: "update skillet.runs set is_cancelled = true, dispatch = case when dispatch is null then null else 'done' end where id = $1",
          values: [id],
        });
      }),
    async prune(keep, { isTrial = false } = {}) {
      const expired = findExpiredRuns(await summaries(), keep);
      if (isTrial || expired.length === 0) return expired;
      // A run that was resumed since it was listed stays.
      const rows = await database.query({
        text: formatDeletion("r.id = any($1)"),
        values: [expired.map(({ id }) => id)],
      });
      const removed = new Set(rows.map((row) => row["id"]));
      return expired.filter(({ id }) => removed.has(id));
    },
    async listVersions() {
      const rows = await database.query({ text: VERSIONS });
      return new Map(rows.map(({ id, version }) => [String(id), String(version)]));
    },
  };
}

/** True while an owner works on the run. After a restart of the server, each owner has the time of a lease to renew it. */
export const IS_LEASED = `(r.owner is not null and r.lease_until is not null
  and greatest(r.lease_until, pg_postmaster_start_time() + r.lease_length) > now())`;

/**
 * Formats the statement that removes runs with their lines, unless an owner works on them. With the ids in an array, the lines are found by
 * their index: a join reads all lines for each batch when the server has no statistics of them.
 */
export function formatDeletion(which: string): string {
  return `with gone as (delete from skillet.runs r where ${which} and not ${IS_LEASED} returning r.id),
    emptied as (delete from skillet.lines l where l.run = any(array(select id from gone)))
    select id from gone`;
}

/**
 * Removes expired runs without reading their journals, and returns their number. Batches of indexed rows: 100,000 runs take seconds, an
 * interruption loses nothing, and no partition keeps an old run that waits. Beyond the last `most` changed runs, only finished ones expire.
 */
export async function pruneRuns(
  database: Database,
  { days, most }: RunRetention,
  { isTrial = false } = {},
): Promise<number> {
  const [row] = await database.query({ text: CUTOFFS, values: [days, most] });
  const [oldest, last] = [row?.["oldest"], row?.["last"] ?? null];
  if (isTrial) {
    const text = `select count(*) as runs from skillet.runs r where not ${IS_LEASED}
      and (changed_at <= $1 or (changed_at <= $2 and (tail is not null or is_cancelled)))`;
    const [counted] = await database.query({ text, values: [oldest, last] });
    return Number(counted?.["runs"]);
  }
  let removed = 0;
  for (const [select, until] of [
    [SELECT_OLD, oldest],
    [SELECT_FINISHED, last],
  ] as const) {
    for (let count = PRUNE_SIZE; count === PRUNE_SIZE; removed += count) {
      const text = formatDeletion(`r.id = any(array(${select}))`);
      count = (await database.query({ text, values: [until] })).length;
    }
  }
  return removed;
}

const PRUNE_SIZE = 5000;
const CUTOFFS = `
select (now() - make_interval(days => $1))::text as oldest,
  (select changed_at::text from skillet.runs order by changed_at desc offset $2 limit 1) as last`;
/** Selects runs of any state. */
export const SELECT_OLD = `select r.id from skillet.runs r where r.changed_at <= $1::timestamptz and not ${IS_LEASED} order by r.changed_at limit ${PRUNE_SIZE}`;
const SELECT_FINISHED = SELECT_OLD.replace(" order by", " and (r.tail is not null or r.is_cancelled) order by");

/** Marks a run for the workers, which notice it within seconds. */
async function addNextLegLater({ query }: Transaction, id: string): Promise<void> {
  await query({
    text: "update skillet.runs set leg = leg + 1, dispatch = 'queued', worker = null where id = $1 and queue is not null",
    values: [id],
  });
}

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
select r.id, r.started_at::text as started, r.head, r.bytes, r.changed_at, r.queue, r.tenant, r.dispatch, r.problem, r.worker, r.owner, r.owner_label, ${IS_LEASED} as is_leased,
  case when r.tail is not null and not r.is_cancelled then r.tail else (
    select string_agg(l.line, '' order by l.seq) from skillet.lines l
    where l.run = r.id and (l.kind = 'cancel' or l.seq >= coalesce(
      (select max(s.seq) from skillet.lines s where s.run = r.id and s.kind = 'step'), 0))
  ) end as lines
from skillet.runs r`;

/** The runs of a state, as far as columns show it. A run at work has no last line. The others are found among all. */
const STATE_CONDITIONS: Partial<Record<RunFilterState, string>> = {
  ...{ ended: "r.tail is not null", done: "r.tail is not null", failed: "r.tail is not null" },
  ...{ running: "r.tail is null", interrupted: "r.tail is null", waiting: "r.tail is null" },
  ...{ answered: "r.tail is null", queued: "r.tail is null", stuck: "r.tail is null" },
  cancelled: "r.is_cancelled",
};

/** Runs that are read at once when columns do not show which fit. */
const SEARCH_SIZE = 500;

/** Formats the statement that reads the newest runs after this one. Parameters: its time and id, the oldest time, the skill, and the number. */
export function formatSearch(condition: string): string {
  return `${SUMMARIES} where (r.started_at, r.id) < ($1::timestamptz, $2) and ${condition}
    and ($3::timestamptz is null or r.started_at >= $3) and ($4::text is null or r.skill in ($4, ''))
    order by r.started_at desc, r.id desc limit $5`;
}

const LAST_ID = "~";

/** Finds runs by indexed columns, and reads the summaries of no more than needed. */
async function searchStoredRuns(database: Database, query: RunQuery): Promise<RunPage> {
  const { states, skill, user, since, limit } = query;
  const conditions = states?.map((state) => STATE_CONDITIONS[state] ?? "true") ?? ["true"];
  const condition = `(${[...new Set(conditions)].join(" or ")})`;
  const fixed = [since?.toISOString() ?? null, skill ?? null];
  // Columns show which of them fit: only those that are shown are read.
  if (states === undefined && skill === undefined && user === undefined) {
    const text = formatSearch(condition);
    const values = ["infinity", LAST_ID, ...fixed, Math.min(limit, MAX_LIMIT)];
    const rows = limit === 0 ? [] : await database.query({ text, values });
    const [counted] = await database.query({ text: COUNT, values: fixed.slice(0, 1) });
    const runs = sortRuns(rows.map((row) => createSummary(database.sealer, row)));
    return { runs, total: Number(counted?.["runs"]) };
  }
  const runs: RunSummary[] = [];
  let total = 0;
  let after: unknown[] = ["infinity", LAST_ID];
  for (let count = SEARCH_SIZE; count === SEARCH_SIZE; ) {
    const rows = await database.query({ text: formatSearch(condition), values: [...after, ...fixed, SEARCH_SIZE] });
    const found = sortRuns(rows.map((row) => createSummary(database.sealer, row)));
    for (const run of found.filter((one) => fitsRunQuery(one, query))) if (total++ < limit) runs.push(run);
    after = [rows.at(-1)?.["started"], rows.at(-1)?.["id"]];
    count = rows.length;
  }
  return { runs, total };
}

const MAX_LIMIT = 1_000_000_000;
const COUNT =
  "select count(*) as runs from skillet.runs r where $1::timestamptz is null or r.started_at >= $1::timestamptz";

/** A run changes with its lines, its queue and the end of its lease. */
const VERSIONS = `
select r.id, concat_ws(' ', r.changed_at, r.bytes, r.dispatch, r.is_cancelled, ${IS_LEASED}) as version
from skillet.runs r order by r.changed_at desc limit 200`;

/** A database, or a transaction of it. */
interface RunReader {
  query(statement: Statement): Promise<readonly DatabaseRow[]>;
  readonly sealer: Sealer;
}

/** Reads the rows of all runs, or of these. */
async function readRows({ query }: RunReader, ids?: readonly string[]): Promise<readonly DatabaseRow[]> {
  return ids === undefined
    ? query({ text: SUMMARIES })
    : query({ text: `${SUMMARIES} where r.id = any($1)`, values: [ids] });
}

/** Parses the first line of a run. */
export function parseStoredHead(sealer: Sealer, id: string, row: DatabaseRow): JournalLine | undefined {
  const check = createPlaceCheck(id, { isSealedRun: false, kind: "run" });
  return parseStoredLines(sealer, id, String(row["head"]), check).lines[0];
}

/** Summarizes a run. One whose lines were altered is corrupt, so that the others can still be listed. */
function createSummary(sealer: Sealer, row: DatabaseRow): RunSummary {
  try {
    return summarizeRow(sealer, row);
  } catch (error) {
    if (!(error instanceof SkillError) || error.code !== "engine-altered") throw error;
    return createCorruptSummary(String(row["id"]), row["changed_at"] as Date, Number(row["bytes"]));
  }
}

function summarizeRow(sealer: Sealer, row: DatabaseRow): RunSummary {
  const [id, bytes] = [String(row["id"]), Number(row["bytes"])];
  const head = parseStoredHead(sealer, id, row);
  if (head?.type !== "run" || head.version !== 1 || head.id !== id) {
    const version: unknown = head?.type === "run" ? head.version : undefined;
    const corrupt = createCorruptSummary(id, row["changed_at"] as Date, bytes);
    return { ...corrupt, ...(typeof version === "number" && version > 1 ? { formatVersion: version } : {}) };
  }
  const check = createPlaceCheck(id, { isSealedRun: isPlaced(String(row["head"])) });
  const { lines, corrupt } = parseStoredLines(sealer, id, String(row["lines"] ?? ""), check);
  const owner = row["is_leased"] === true ? { id: String(row["owner"]), label: String(row["owner_label"]) } : undefined;
  const summary = summarizeRun({ head, lines: [head, ...lines], isCorrupt: corrupt.length > 0, owner, bytes });
  return row["queue"] === null ? summary : addQueueState(sealer, summary, row);
}

/** The state of an idle run, by the state of its queue. */
const QUEUE_STATES: Readonly<Record<string, RunState>> = { queued: "queued", stuck: "stuck" };

function addQueueState(sealer: Sealer, summary: RunSummary, row: DatabaseRow): RunSummary {
  const isIdle = summary.state === "interrupted" || summary.state === "answered";
  const state = (isIdle ? QUEUE_STATES[String(row["dispatch"])] : undefined) ?? summary.state;
  return {
    ...summary,
    state,
    queue: String(row["queue"]),
    ...(row["tenant"] === "" ? {} : { tenant: String(row["tenant"]) }),
    ...(typeof row["problem"] === "string" && isIdle
      ? { problem: JSON.parse(sealer.unseal(summary.id, row["problem"])) }
      : {}),
  };
}

/** Locks a run until the end of the transaction, and returns its summary. Throws a SkillError if it does not exist. */
export async function lockRun(transaction: Transaction, id: string): Promise<RunSummary> {
  const locked = isRunId(id)
    ? await transaction.query({ text: "select 1 from skillet.runs where id = $1 for update", values: [id] })
    : [];
  // A second statement: it sees what the transaction before committed.
  const [found] = locked.length === 0 ? [] : await readRows(transaction, [id]);
  if (!found) throw createUnknownRunError(id);
  return summarizeRow(transaction.sealer, found);
}

async function readLines({ query, sealer }: RunReader, id: string): Promise<readonly JournalLine[]> {
  const rows = await query({ text: READ_LINES, values: [id] });
  return parseStoredLines(sealer, id, joinLines(rows), createLineOrder(id).check).lines;
}

function joinLines(rows: readonly DatabaseRow[]): string {
  return rows.map(({ line }) => String(line)).join("");
}

const PLAIN_NAME = /^[\w.-]{1,100}$/;

/** Inserts a new run. `key` is the same when the statement is repeated. Returns false if the id is taken. */
export async function insertRun(
  { query, sealer }: Transaction,
  lines: readonly JournalLine[],
  id: string,
  key: string,
): Promise<boolean> {
  const [head = "", ...rest] = lines.map((line, n) => formatStoredLine(sealer, id, line, { owner: NO_OWNER, n }));
  const [first] = lines;
  // Only to find runs by: another name is found in the head.
  const skill = first?.type === "run" && first.kind !== "chat" && PLAIN_NAME.test(first.skill) ? first.skill : "";
  const [row] = await query({
    text: `insert into skillet.runs (id, head, owner, bytes, skill, started_at) values ($1, $2, $3, $4, $5, $6)
      on conflict (id) do nothing returning id`,
    values: [id, head, key, Buffer.byteLength([head, ...rest].join("")), skill, first?.at],
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
async function insertLine({ query, sealer }: Transaction, id: string, line: JournalLine): Promise<void> {
  const [counted] = sealer.hasKey ? await query({ text: COUNT_OTHERS, values: [id] }) : [];
  const text = formatStoredLine(sealer, id, line, { owner: NO_OWNER, n: Number(counted?.["others"]) });
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
  order: LineOrder;
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
  const order = createLineOrder(id);
  const { lines, corrupt } = parseStoredLines(transaction.sealer, id, text, order.check);
  if (corrupt.length > 0) throw createCorruptError(id);
  return { lines, order, lastSeq: String(rows.at(-1)?.["seq"] ?? 0) };
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
    fix: "start a new run; to see the readable part",
    commands: [`skillet runs show ${id}`],
  });
}
