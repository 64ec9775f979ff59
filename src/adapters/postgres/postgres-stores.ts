import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { getRequestBurst, MAX_PAUSE_MS, type ProviderLimit } from "../../agent/models/model-providers.ts";
import { chainAuditEntry, stringifyCanonical, verifyAudit } from "../../capabilities/audit-log.ts";
import { SkillError } from "../../errors/problem.ts";
import { type ApprovalSubject, getApprovalKey } from "../../host/approval.ts";
import type { Audit, AuditEntry, AuditLine } from "../../host/capability-contract.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import { MAX_MESSAGE_AGE_MS, type Mailbox } from "../../store/mailbox.ts";
import {
  createUseRow,
  type DayStatistics,
  rememberRun,
  type SkillStatistics,
  type StartedRun,
  type StatisticsFilter,
  type StatisticsStore,
  type StatisticsTotal,
  type UseRow,
} from "../../store/statistics.ts";
import type { Database, DatabaseRow, Statement, Transaction } from "./database.ts";

/** Whose permanent approvals a store has. Those of one tenant or person never count for another. */
export interface ApprovalOwner {
  tenant?: string | undefined;
  person?: string | undefined;
}

/**
 * Creates the permanent approvals in Postgres. Several machines share them. They are bound to the digest of a skill, since its folder differs
 * between machines, and are read at each decision, so that a revocation counts everywhere at once. Without a scope, the approvals are those
 * of the operator, who also lists and revokes those of all tenants.
 */
export function createPostgresApprovalStore(database: Database, scope?: ApprovalOwner): ApprovalStore {
  const { tenant = "", person = "" } = scope ?? {};
  const inScope = scope ? "tenant = $1 and person = $2" : "$1::text is not null and $2::text is not null";
  return {
    async isAlwaysApproved(request) {
      const copy = getCopyKey(request);
      if (request.isOnce || copy === undefined) return false;
      const rows = await database.query({
        name: "skillet-is-approved",
        text: `select 1 from skillet.approvals
          where tenant = $1 and person = $2 and skill = $3 and copy = $4 and allowed = $5`,
        values: [tenant, person, request.skill, copy, getApprovalKey(request)],
      });
      return rows.length > 0;
    },
    async add(request) {
      if (request.isOnce) return;
      const { skill, source, location } = request;
      const copy = getCopyKey(request);
      if (copy === undefined) throw createUnboundError(skill);
      await database.query({
        text: `insert into skillet.approvals (tenant, person, skill, copy, source, location, allowed)
          values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing`,
        values: [tenant, person, skill, copy, source, location, getApprovalKey(request)],
      });
    },
    async list() {
      const rows = await database.query({
        text: `select skill, (array_agg(source order by seq))[1] as source, (array_agg(location order by seq))[1] as location,
            array_agg(allowed order by seq) as allowed
          from skillet.approvals where ${inScope} group by tenant, person, skill, copy order by min(seq)`,
        values: [tenant, person],
      });
      return rows.map(({ skill, source, location, allowed }) => ({
        ...{ skill: String(skill), source: String(source), location: String(location) },
        allowed: allowed as string[],
      }));
    },
    async forget(skill, location) {
      const [row] = await database.query({
        text: `with gone as (
            delete from skillet.approvals where ${inScope} and skill = $3 and ($4::text is null or location = $4)
            returning tenant, person, copy
          ) select count(distinct (tenant, person, copy)) as copies from gone`,
        values: [tenant, person, skill, location ?? null],
      });
      return Number(row?.["copies"]);
    },
    problem: async () => undefined,
  };
}

/** Returns what identifies the copy of a skill on every machine; undefined if its digest is unknown. */
function getCopyKey({ digest, location, source }: ApprovalSubject): string | undefined {
  return digest ?? (location === "" ? `source ${source}` : undefined);
}

function createUnboundError(skill: string): SkillError {
  return new SkillError("not-approved", {
    message: `The digest of skill '${skill}' is unknown, so its approval cannot be shared by several machines`,
    fix: "approve it for the run",
  });
}

interface NewEntry {
  /** Differs for each entry: a transaction that is repeated writes it once. */
  key: string;
  entry: AuditEntry;
}

/**
 * Creates the audit log in Postgres: one chain for all machines. Its head is a row of its own, which each writer locks. The entries of this
 * process that come while a transaction is at work are written with the next one, so that a busy log needs one connection.
 */
export function createPostgresAudit(database: Database): Audit {
  let next: { entries: NewEntry[]; lines: Promise<ReadonlyMap<string, AuditLine>> } | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const start = () => {
    const entries: NewEntry[] = [];
    const write = async () => {
      await last.catch(() => {});
      next = undefined;
      return database.transaction((transaction) => writeEntries(transaction, entries));
    };
    const lines = write();
    last = lines;
    return { entries, lines };
  };
  return {
    async add(entry) {
      const key = randomUUID();
      next ??= start();
      next.entries.push({ key, entry });
      return (await next.lines).get(key) as AuditLine;
    },
    async *read() {
      for await (const { text } of readLines(database)) yield JSON.parse(text) as AuditLine;
    },
    async verify() {
      const head = await readHead(database);
      const read: StoredLine[] = [];
      for await (const line of readLines(database)) read.push(line);
      // Writers do not wait for this: lines that they added meanwhile are left out.
      const { seq: end } = await readHead(database);
      const lines = read
        .filter(({ seq }) => seq <= head.seq || seq > end)
        .map(({ text }, index) => ({ number: index + 1, text }));
      return verifyAudit({ lines, exists: true, head: head.seq === 0 ? undefined : head, seal: database.sealer.prove });
    },
  };
}

interface AuditHead {
  seq: number;
  hash: string;
}

async function readHead({ query }: Pick<Transaction, "query">, lock = ""): Promise<AuditHead> {
  const [row] = await query(`select seq, hash from skillet.audit_head ${lock}`);
  return { seq: Number(row?.["seq"]), hash: String(row?.["hash"]) };
}

/** Adds entries to the chain. Returns their lines by key. */
async function writeEntries(
  { query, sealer }: Transaction,
  entries: readonly NewEntry[],
): Promise<ReadonlyMap<string, AuditLine>> {
  let head = await readHead({ query }, "for update");
  const keys = entries.map(({ key }) => key);
  const known = await query({ text: "select key, line from skillet.audit where key = any($1)", values: [keys] });
  const lines = new Map(known.map(({ key, line }) => [String(key), JSON.parse(String(line)) as AuditLine]));
  if (lines.size > 0) return lines; // The answer to the first attempt was lost: all of them were written.
  for (const { key, entry } of entries) {
    const line = chainAuditEntry(entry, new Date().toISOString(), head, sealer.prove);
    head = line;
    lines.set(key, line);
  }
  const added = [...lines.values()];
  await query({
    text: "insert into skillet.audit (seq, key, line) select * from unnest($1::bigint[], $2::uuid[], $3::text[])",
    values: [added.map(({ seq }) => seq), keys, added.map(stringifyCanonical)],
  });
  await query({ text: "update skillet.audit_head set seq = $1, hash = $2", values: [head.seq, head.hash] });
  return lines;
}

const PAGE = 5000;

interface StoredLine {
  seq: number;
  text: string;
}

/** Reads the lines in pages, so that no statement takes long. */
async function* readLines(database: Database): AsyncGenerator<StoredLine> {
  for (let after = 0; ; ) {
    const rows = await database.query({
      text: "select seq, line from skillet.audit where seq > $1 order by seq limit $2",
      values: [after, PAGE],
    });
    for (const { seq, line } of rows) {
      after = Number(seq);
      yield { seq: after, text: String(line) };
    }
    if (rows.length < PAGE) return;
  }
}

/** Creates the statistics in Postgres. Several machines share them: a run has one row, whichever of them ends it. */
export function createPostgresStatisticsStore(database: Database): StatisticsStore {
  const started = new Map<string, StartedRun>();
  const query = async (text: string, { since, user, tenant }: StatisticsFilter) =>
    database.query({ text, values: [since?.getTime() ?? 0, user ?? null, tenant ?? null] });
  const listSkills = async (text: string, max: number) => {
    try {
      return (await database.query({ text, values: [max] })).map(({ skill }) => String(skill));
    } catch {
      return []; // Nothing is known.
    }
  };
  return {
    async record(event) {
      try {
        if (event.type === "run-started") rememberRun(started, event);
        const row = createUseRow(event, started);
        if (event.type === "run-ended") started.delete(event.run);
        if (row) await database.query({ name: "skillet-use", text: INSERT, values: listValues(row) });
      } catch {} // The event is lost, and the run goes on.
    },
    async recordOutcome(run, stop) {
      try {
        const text = "update skillet.uses set stop = $2 where run = $1 and stop = 'waiting'";
        await database.query({ text, values: [run, stop] });
      } catch {} // It stays counted as it was.
    },
    recent: (max) => listSkills(RECENT, max),
    mostUsed: (max) => listSkills(MOST_USED, max),
    perSkill: async (filter = {}) => (await query(SKILLS, filter)).map(parseSkill),
    total: async (filter = {}) => parseTotal((await query(TOTAL, filter))[0] ?? {}),
    perDay: async (filter = {}) => (await query(DAYS, filter)).map(parseDay),
  };
}

const COLUMNS = [
  ...(["at", "kind", "skill", "source", "model", "run", "depth", "stop", "iterations", "ms"] as const),
  ...(["inputTokens", "outputTokens", "cost", "user", "tenant"] as const),
] satisfies (keyof UseRow)[];

/** NUL is no text in Postgres. */
function listValues(row: UseRow): unknown[] {
  return COLUMNS.map((column) => {
    const value = row[column];
    return typeof value === "string" ? value.replaceAll("\0", "") : value;
  });
}

// A run that waited or moved reports several ends, and its start may be unknown to the last process.
const INSERT = `
insert into skillet.uses as u (at, kind, skill, source, model, run, depth, stop, iterations, ms, input_tokens, output_tokens, cost,
  person, tenant)
values (${COLUMNS.map((_, index) => `$${index + 1}`).join(", ")})
on conflict (run) do update set
  at = excluded.at, kind = excluded.kind, source = coalesce(excluded.source, u.source), model = coalesce(excluded.model, u.model),
  depth = coalesce(excluded.depth, u.depth), stop = excluded.stop, iterations = excluded.iterations, ms = excluded.ms,
  input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cost = excluded.cost,
  person = coalesce(excluded.person, u.person), tenant = coalesce(excluded.tenant, u.tenant)
where excluded.kind = 'run'`;

/** The number of rows in which recent skills are searched. */
const MAX_RECENT_ROWS = 2000;
const LAST_USES = `select skill, at, id from skillet.uses where kind <> 'refused' order by at desc, id desc limit ${MAX_RECENT_ROWS}`;
const RECENT = `select skill from (${LAST_USES}) last group by skill order by max(at) desc, max(id) desc limit $1`;
const MOST_USED = `select skill from (${LAST_USES}) last group by skill order by count(*) desc, skill collate "C" limit $1`;

/** The condition of all queries. */
const IS_SELECTED = "at >= $1 and ($2::text is null or person = $2) and ($3::text is null or tenant = $3)";
/** A conversation has depth 0 and no row: the skills it uses have depth 1, like skills without a parent run. */
const IS_OUTER = "coalesce(depth, 1) <= 1";
const HAS_ENDED = "kind = 'run' and stop <> 'waiting'";

const COUNTS = `count(*) filter (where kind = 'run') as runs, count(*) filter (where kind = 'loaded') as loads,
  count(*) filter (where kind = 'refused') as refused`;

/** The nearest rank: a duration that one of the runs had. Waiting runs have not ended. */
const TIMES = `percentile_disc(0.5) within group (order by ms) filter (where ${HAS_ENDED}) as p50,
  percentile_disc(0.95) within group (order by ms) filter (where ${HAS_ENDED}) as p95`;

const SKILLS = `
select s.*, coalesce((
    select json_object_agg(stop, ends) from (
      select stop, count(*) as ends from skillet.uses where kind = 'run' and skill = s.skill and ${IS_SELECTED} group by stop order by stop
    ) o), '{}') as outcomes
from (
  select skill, ${COUNTS}, ${TIMES}, sum(iterations) as iterations, sum(input_tokens) as "inputTokens", sum(output_tokens) as "outputTokens",
    sum(cost) as cost, max(at) filter (where kind <> 'refused') as "lastUse",
    array_agg(distinct source collate "C") filter (where source is not null) as sources
  from skillet.uses where ${IS_SELECTED} group by skill
) s order by s.skill collate "C"`;

const TOTAL = `
select ${COUNTS}, coalesce(sum(input_tokens) filter (where ${IS_OUTER}), 0) as "inputTokens",
  coalesce(sum(output_tokens) filter (where ${IS_OUTER}), 0) as "outputTokens", sum(cost) filter (where ${IS_OUTER}) as cost
from skillet.uses where ${IS_SELECTED}`;

/** `complete` is the successful stop of a runbook. */
const DAYS = `
select to_char(to_timestamp(at / 1000.0) at time zone 'UTC', 'YYYY-MM-DD') as day, count(*) as runs,
  count(*) filter (where stop in ('answer', 'complete')) as succeeded, ${TIMES}, sum(cost) filter (where ${IS_OUTER}) as cost
from skillet.uses where kind = 'run' and ${IS_SELECTED} group by day order by day`;

function parseSkill(row: DatabaseRow): SkillStatistics {
  const { skill, sources, iterations, outcomes, lastUse } = row;
  return {
    skill: String(skill),
    sources: (sources as string[] | null) ?? [],
    ...parseTotal(row),
    iterations: Number(iterations),
    outcomes: outcomes as Record<string, number>,
    ...parseTimes(row),
    ...(lastUse === null ? {} : { lastUse: new Date(Number(lastUse)).toISOString() }),
  };
}

function parseTotal({ runs, loads, refused, inputTokens, outputTokens, cost }: DatabaseRow): StatisticsTotal {
  return {
    ...{ runs: Number(runs), loads: Number(loads), refused: Number(refused) },
    ...{ inputTokens: Number(inputTokens), outputTokens: Number(outputTokens) },
    ...(cost === null ? {} : { cost: Number(cost) }),
  };
}

function parseDay(row: DatabaseRow): DayStatistics {
  const { day, runs, succeeded, cost } = row;
  return {
    ...{ day: String(day), runs: Number(runs), succeeded: Number(succeeded), ...parseTimes(row) },
    ...(cost === null ? {} : { cost: Number(cost) }),
  };
}

/** Numbers of 64 bits come as text. */
function parseTimes({ p50, p95 }: DatabaseRow): { p50Ms?: number; p95Ms?: number } {
  return { ...(p50 === null ? {} : { p50Ms: Number(p50) }), ...(p95 === null ? {} : { p95Ms: Number(p95) }) };
}

/**
 * Creates the limit of an account that all processes of the database share. `local` limits this process alone: while the database is
 * unavailable, and for its own pauses, which it learns of first.
 */
export function createPostgresProviderLimit(
  database: Database,
  digest: string,
  local: ProviderLimit,
  { delay = (ms: number, signal: AbortSignal): Promise<unknown> => sleep(ms, undefined, { signal }) } = {},
): ProviderLimit {
  const account = database.sealer.digest(digest);
  const write = (statement: Statement) => {
    database.query(statement).catch(() => {});
  };
  const take = async (requests: number | undefined, tokens: number | undefined): Promise<number> => {
    if (requests === undefined && tokens === undefined) {
      const [pause] = await database.query({ name: "skillet-pause", text: READ_PAUSE, values: [account] });
      return Number(pause?.["ms"] ?? 0);
    }
    const burst = getRequestBurst(requests);
    const values = [account, requests ?? null, burst ?? null, tokens ?? null];
    for (;;) {
      const [row] = await database.query({ name: "skillet-limit", text: TAKE, values });
      if (row) return Number(row["ms"]);
      await database.query({ text: ADD, values: [account] });
    }
  };
  return {
    async wait(rates, signal) {
      for (;;) {
        await local.wait({}, signal);
        let ms: number;
        try {
          ms = await Promise.race([take(rates.requestsPerMinute, rates.tokensPerMinute), rejectAfter(MAX_TAKE_MS)]);
        } catch {
          return local.wait(rates, signal);
        }
        if (ms <= 0) return;
        // A pause or another process may change the bucket meanwhile.
        await delay(Math.min(Math.ceil(ms), MAX_WAIT_MS), signal);
      }
    },
    spend(tokens) {
      local.spend(tokens);
      write({ text: SPEND, values: [account, tokens] });
    },
    pause(ms) {
      local.pause(ms);
      write({ text: PAUSE, values: [account, Math.min(ms, MAX_PAUSE_MS)] });
    },
  };
}

const MAX_WAIT_MS = 5000;
/** A database that does not answer must not stop the runs. */
const MAX_TAKE_MS = 5000;

function rejectAfter(ms: number): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error("no answer")), ms).unref();
  });
}

const READ_PAUSE = `select extract(epoch from paused_until - clock_timestamp())::float8 * 1000 as ms
  from skillet.provider_limits where account = $1 and paused_until > clock_timestamp()`;

const ADD = "insert into skillet.provider_limits (account) values ($1) on conflict do nothing";
const SPEND = "update skillet.provider_limits set tokens = tokens - $2 where account = $1 and tokens is not null";
const PAUSE = `insert into skillet.provider_limits as l (account, paused_until)
  values ($1, clock_timestamp() + make_interval(secs => $2::float8 / 1000))
  on conflict (account) do update set paused_until = greatest(l.paused_until, excluded.paused_until)`;

/**
 * Refills both buckets to the clock of the server, and takes one request if nothing is to be waited for. Returns the milliseconds to wait.
 * $2: requests in a minute, $3: requests at once, $4: tokens in a minute; null: no limit.
 */
const TAKE = `
with here as (
  select * from skillet.provider_limits where account = $1 for update
), refilled as (
  select account, paused_until, least($3::float8, coalesce(requests, $3::float8) + $2::float8 * age) as requests,
    least($4::float8, coalesce(tokens, $4::float8) + $4::float8 * age) as tokens
  from here, lateral (select greatest(0, extract(epoch from clock_timestamp() - refilled_at)::float8 / 60) as age) passed
), judged as (
  select *, greatest(0, coalesce(extract(epoch from paused_until - clock_timestamp())::float8 * 1000, 0),
    coalesce((1 - requests) / $2::float8, 0) * 60000, coalesce((least(1, $4::float8) - tokens) / $4::float8, 0) * 60000) as ms
  from refilled
)
update skillet.provider_limits l set requests = j.requests - case when j.ms <= 0 then 1 else 0 end, tokens = j.tokens,
  refilled_at = clock_timestamp() from judged j where l.account = j.account returning j.ms`;

/** Creates the mailbox of all processes of the database. */
export function createPostgresMailbox(database: Database): Mailbox {
  const { sealer } = database;
  return {
    async put(key, message) {
      const digest = sealer.digest(key);
      const values = [digest, sealer.seal(digest, JSON.stringify(message)), MAX_MESSAGE_AGE_MS / 1000];
      await database.query({ text: PUT_MESSAGE, values });
    },
    async take(key) {
      const digest = sealer.digest(key);
      const text = "delete from skillet.messages where key = $1 returning message";
      const [row] = await database.query({ name: "skillet-take-message", text, values: [digest] });
      return row && JSON.parse(sealer.unseal(digest, String(row["message"])));
    },
  };
}

const PUT_MESSAGE = `
with old as (delete from skillet.messages where at < now() - make_interval(secs => $3) and key <> $1)
insert into skillet.messages (key, message) values ($1, $2)
on conflict (key) do update set message = excluded.message, at = excluded.at`;
