import { SkillError } from "../../errors/problem.ts";
import {
  formatJournalLine,
  type JournalLine,
  type JournalLog,
  type ParsedJournal,
  parseJournal,
} from "../../store/journal.ts";
import { createLeaseLostError } from "../../store/run-rules.ts";
import { type Database, type DatabaseRow, isSealed, type Sealer } from "./database.ts";

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

/** The place of a sealed line in its run. A line opens in this place only, and the places of a journal have an order. */
interface LinePlace {
  kind: string;
  /** The owner of the lease, or `-` for a line of another process. */
  owner: string;
  /** The number of the line in the lease, or among the lines of other processes. */
  n: number;
}

/** The owner of the lines of processes without the lease. */
export const NO_OWNER = "-";

/** The start of a sealed line with its place. Lines from before version 8 of the tables are sealed without one. */
const PLACED = "sealed-2 ";
const PLACED_PATTERN = /^sealed-2 ([a-z]+) (\S+) (\d+) /;

/** True for a stored line that opens in its place only. */
export function isPlaced(stored: string): boolean {
  return stored.startsWith(PLACED);
}

/** Formats a line of a run as the database stores it. */
export function formatStoredLine(
  sealer: Sealer,
  run: string,
  line: JournalLine,
  { owner, n }: Omit<LinePlace, "kind">,
): string {
  const plain = formatJournalLine(line);
  if (!sealer.hasKey) return plain;
  const place = { kind: line.type, owner, n };
  return `${PLACED}${formatPlace(place)} ${sealer.seal(formatContext(run, place), plain.trimEnd())}\n`;
}

function formatPlace({ kind, owner, n }: LinePlace): string {
  return `${kind} ${owner} ${n}`;
}

function formatContext(run: string, place: LinePlace): string {
  return `line of ${run}: ${formatPlace(place)}`;
}

/** Checks the place of a line that was opened. Throws a SkillError. */
type PlaceCheck = (place: LinePlace | undefined, plain: string) => void;

/** Parses stored lines of a run. Throws a SkillError without the key of a sealed line, and for one that is not in its place. */
export function parseStoredLines(sealer: Sealer, run: string, stored: string, check: PlaceCheck): ParsedJournal {
  const opened = stored.split("\n").map((text) => {
    if (text === "") return text;
    const { plain, place } = openLine(sealer, run, text);
    check(place, plain);
    return plain;
  });
  return parseJournal(Buffer.from(opened.join("\n")));
}

function openLine(sealer: Sealer, run: string, text: string): { plain: string; place?: LinePlace } {
  if (!isPlaced(text)) return { plain: isSealed(text) ? sealer.unseal(run, text) : text };
  const [start = "", kind = "", owner = "", n = ""] = PLACED_PATTERN.exec(text) ?? [];
  const place = { kind, owner, n: Number(n) };
  const sealed = text.slice(start.length);
  if (!isSealed(sealed)) throw createAlteredError(run);
  return { plain: sealer.unseal(formatContext(run, place), sealed), place };
}

/** The order of the lines of a journal. */
export interface LineOrder {
  /** Checks the next line. */
  readonly check: PlaceCheck;
  /** Returns the place of the last line of an owner, which the first line of the next lease has to name. */
  getLast(): string;
}

/**
 * Creates the check of a whole journal, in its order. A line that was moved, repeated, or is missing before another one is found; the end of
 * a journal can be cut off.
 */
export function createLineOrder(run: string): LineOrder {
  const state = { isPlaced: false, others: 0, last: "", owner: "", next: 0 };
  const owners = new Set<string>();
  const require = (isRight: boolean) => {
    if (!isRight) throw createAlteredError(run);
  };
  return {
    getLast: () => state.last,
    check(place, plain) {
      // A plain line comes from before the key, or from before places: none follows a line with a place.
      require(place !== undefined || !state.isPlaced);
      if (!place) return;
      const { kind, owner, n } = place;
      state.isPlaced = true;
      if (owner === NO_OWNER) return require(n === state.others++);
      if (owner !== state.owner) {
        require(kind === "opened" && !owners.has(owner) && readAfter(plain) === state.last);
        owners.add(owner);
        state.owner = owner;
        state.next = 0;
      }
      require(n === state.next++);
      state.last = formatPlace(place);
    },
  };
}

/** Adds what the first line of a lease names: the last line of the lease before. */
function addAfter(line: JournalLine, after: string): JournalLine {
  return line.type === "opened" ? ({ ...line, after } as JournalLine) : line;
}

function readAfter(plain: string): unknown {
  return JSON.parse(plain).after;
}

/** Creates the check of lines that are read without the others of their journal. `kind`: the only kind of line. */
export function createPlaceCheck(
  run: string,
  { isSealedRun, kind }: { isSealedRun: boolean; kind?: string },
): PlaceCheck {
  return (place) => {
    const isRight = place ? kind === undefined || place.kind === kind : !isSealedRun;
    if (!isRight) throw createAlteredError(run);
  };
}

/** Counts the lines with a place of processes without the lease. Contract: in a transaction that holds the row of the run. */
export const COUNT_OTHERS = `
select (starts_with(head, '${PLACED}'))::int
  + (select count(*) from skillet.lines where run = $1 and owner is null and starts_with(line, '${PLACED}')) as others
from skillet.runs where id = $1`;

function createAlteredError(run: string): SkillError {
  return new SkillError("engine-altered", {
    message: `The database has lines of run ${run} that were moved, removed or added since skillet wrote them`,
    fix: "find out who writes to the database, and restore it from a backup",
  });
}
