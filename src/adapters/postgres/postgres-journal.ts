import { SkillError } from "../../errors/problem.ts";
import { formatJournalLine, type JournalLine, type JournalLog, parseJournal } from "../../store/journal.ts";
import { createLeaseLostError } from "../../store/run-rules.ts";
import type { Database, DatabaseRow } from "./database.ts";
import { addAfter, formatStoredLine, type LineOrder, parseStoredLines } from "./stored-lines.ts";

/** The times of a lease, and of an outage that a running run waits for. */
export interface LeaseTimes {
  seconds: number;
  outageMs: number;
}

interface PostgresLogOptions {
  database: Database;
  lease: LeaseTimes;
  looks: LookBatch;
  id: string;
  owner: string;
  readSeq: string;
  /** The order of the lines so far. */
  order: LineOrder;
}

/** A line with its number in this lease, and as it is read back. */
interface NumberedLine {
  number: number;
  line: JournalLine;
  plain: string;
  text: string;
}

export function createPostgresLog({
  database,
  lease,
  looks,
  id,
  owner,
  readSeq,
  order,
}: PostgresLogOptions): JournalLog {
  const { sealer } = database;
  const state = { read: readSeq, next: 0, renewed: readTime() };
  const heldMs = Math.min((lease.seconds * 1000) / 2, MAX_HELD_MS);
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
      added.push(...parseStoredLines(sealer, id, String(line), order.check).lines);
    }
  };
  const flush = async () => {
    const batch = waiting;
    if (batch.length === 0) return;
    waiting = [];
    const sent = readTime();
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
    state.renewed = sent;
    added.push(...batch.flatMap(({ plain }) => parseJournal(Buffer.from(plain)).lines));
  };
  const look = async () => {
    const sent = readTime();
    const found = await looks.look({ id, owner, read: state.read });
    takeRows(found);
    state.renewed = sent;
  };
  return {
    async append(line: JournalLine, isKept: boolean): Promise<void> {
      const number = state.next++;
      const stored = sealer.hasKey ? addAfter(line, order.getLast()) : line;
      const text = formatStoredLine(sealer, id, stored, { owner, n: number });
      waiting.push({ number, line, plain: formatJournalLine(line), text });
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
    lease: {
      // Monotonic time runs on while the process is frozen, and the clock also while the machine sleeps.
      isHeld: () => Math.max(performance.now() - state.renewed.at, Date.now() - state.renewed.clock) < heldMs,
      renew: look,
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

/** The server gives up a connection without answer after 6 to 11 seconds, and then others may take the run. */
const MAX_HELD_MS = 5000;

function readTime(): { at: number; clock: number } {
  return { at: performance.now(), clock: Date.now() };
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

export interface LookBatch {
  /** Renews the lease of a run, and returns the lines of other processes. No row: the lease was lost. */
  look(look: Look): Promise<readonly DatabaseRow[]>;
}

/** The runs of this process that look within this time share one statement. */
const BATCH_MS = 50;

export function createLookBatch(database: Database, lease: LeaseTimes): LookBatch {
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
