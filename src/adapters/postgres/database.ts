import { randomInt } from "node:crypto";
import type { Client, Pool, PoolClient, QueryConfig } from "pg";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import { loadPeer } from "../../util/peer-packages.ts";
import { formatDispatchGrants } from "./dispatcher.ts";
import { createSealer, type Sealer } from "./sealer.ts";

/** The rows of a statement. A column has the type that `pg` gives it. */
export type DatabaseRow = Record<string, unknown>;

/** A prepared statement has a name, so that the server plans it once for each connection. */
export interface Statement {
  name?: string;
  text: string;
  values?: unknown[];
}

/** Runs statements inside a transaction. */
export interface Transaction {
  query(statement: Statement | string): Promise<readonly DatabaseRow[]>;
  readonly sealer: Sealer;
  /** The connection of `pg`, for libraries that take part in the transaction. */
  readonly client: unknown;
}

/** The connections to one database. */
export interface Database {
  /**
   * Runs a statement, and again while the server is unavailable, until the patience is used up. Contract of the caller: the statement has
   * the same effect when it runs twice, since an answer may be lost. Throws a SkillError.
   */
  query(statement: Statement | string, patienceMs?: number): Promise<readonly DatabaseRow[]>;
  /** Commits what `work` did, or none of it. It runs again when the server was unavailable: the same contract as for `query`. */
  transaction<T>(work: (transaction: Transaction) => Promise<T>, patienceMs?: number): Promise<T>;
  /**
   * Holds a lock of the server for as long as the process lives, on its own connection. A lost connection is opened again. Resolves when the
   * lock is held. Throws a SkillError if another process holds it.
   */
  hold(lock: Statement): Promise<HeldLock>;
  /** Encrypts the texts that the database stores, if there is a key. */
  readonly sealer: Sealer;
  /** The connections of `pg`, for libraries. */
  readonly pool: unknown;
  close(): Promise<void>;
}

/** A lock of this process. */
export interface HeldLock {
  /** The time since which it is held without interruption, as `performance.now()` counts. Undefined while the connection is lost. */
  since(): number | undefined;
  release(): Promise<void>;
}

export interface DatabaseOptions {
  /** The connection URL. It may contain a password, and is never part of a message. */
  url: string;
  /** The key that encrypts the texts of runs. Defaults to none. */
  sealKey?: string | undefined;
  /** The maximum number of connections. Defaults to 10. */
  connections?: number;
  /** The time that a command waits for an unavailable server. Defaults to 3.5 seconds. */
  patienceMs?: number;
}

/** A connection without answer is given up: a lost cable sends no error. */
const CONNECT_TIMEOUT_MS = 3000;
const IDLE_MS = 3000;
const QUERY_TIMEOUT_MS = 30_000;
const DEFAULT_PATIENCE_MS = 3500;
/** The last attempt to connect gets at least this time, so that a command fails after 4.5 seconds at most. */
const MIN_CONNECT_MS = 1000;

/** The server ends connections to a client that is gone: its locks are free again then. */
const SERVER_OPTIONS =
  "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c client_min_messages=warning";

/** Opens the connections of a database when they are first used. Throws a SkillError if `pg` is not installed, or for a short key. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const sealer = createSealer(options.sealKey);
  const { Pool, Client } = await loadPeer.pg();
  const { url, connections = 10, patienceMs: usualPatience = DEFAULT_PATIENCE_MS } = options;
  const shared = {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    application_name: "skillet",
    options: SERVER_OPTIONS,
  };
  const pool: Pool = new Pool({ ...shared, max: connections, idleTimeoutMillis: IDLE_MS, allowExitOnIdle: true });
  pool.on("error", () => {}); // An idle connection was closed. The next statement opens another.
  const persist = async <T>(work: ClientWork<T>, patienceMs: number): Promise<T> => {
    const end = performance.now() + patienceMs;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 1000)) {
      try {
        return await withClient(pool, Math.max(end - performance.now(), MIN_CONNECT_MS), work);
      } catch (error) {
        if (!isTransient(error) || performance.now() + pauseMs > end) throw convertError(error, url);
        await new Promise((resolve) => setTimeout(resolve, pauseMs / 2 + randomInt(pauseMs)));
      }
    }
  };
  return {
    ...{ pool, sealer },
    hold: (lock) => holdLock(() => new Client(shared), lock, url),
    query: (statement, patienceMs = usualPatience) =>
      persist(async (client) => (await client.query(toQueryConfig(statement))).rows as DatabaseRow[], patienceMs),
    transaction: (work, patienceMs = usualPatience) =>
      persist((client, discard) => runTransaction(client, discard, (parts) => work({ ...parts, sealer })), patienceMs),
    close: () => pool.end(),
  };
}

async function holdLock(createClient: () => Client, lock: Statement, url: string): Promise<HeldLock> {
  const state = { client: undefined as Client | undefined, since: undefined as number | undefined, isReleased: false };
  const connect = async (): Promise<boolean> => {
    const client = createClient();
    client.on("error", () => {});
    client.on("end", () => {
      if (state.client !== client) return;
      state.client = undefined;
      state.since = undefined;
      void reconnect();
    });
    try {
      await client.connect();
      const { rows } = await client.query(lock);
      if (Object.values(rows[0] ?? {})[0] !== true || state.isReleased) {
        await client.end();
        return false;
      }
      state.client = client;
      state.since = performance.now();
      return true;
    } catch (error) {
      await client.end().catch(() => {});
      throw convertError(error, url);
    }
  };
  const reconnect = async () => {
    while (!state.isReleased && !(await connect().catch(() => false)))
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  };
  if (!(await connect())) {
    throw new SkillError("engine-failed", {
      message: "Another process holds this lock of the database",
      fix: "use another name",
    });
  }
  return {
    since: () => state.since,
    async release() {
      state.isReleased = true;
      const { client } = state;
      state.client = undefined;
      await client?.end();
    },
  };
}

const RECONNECT_MS = 300;

function toQueryConfig(statement: Statement | string): QueryConfig {
  return typeof statement === "string" ? { text: statement } : statement;
}

/**
 * Runs work on a connection. A connection that takes longer than `connectMs` is given back to the pool when it is there, and one that work
 * discards is closed.
 */
async function withClient<T>(pool: Pool, connectMs: number, work: ClientWork<T>): Promise<T> {
  const client = await connect(pool, connectMs);
  const state: { broken?: Error } = {};
  const discard = (error: Error) => {
    state.broken = error;
  };
  client.on("error", discard);
  try {
    return await work(client, discard);
  } finally {
    client.off("error", discard);
    client.release(state.broken);
  }
}

type ClientWork<T> = (client: PoolClient, discard: (error: Error) => void) => Promise<T>;

async function connect(pool: Pool, connectMs: number): Promise<PoolClient> {
  const connecting = pool.connect();
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("timeout expired while connecting")), connectMs);
  });
  try {
    return await Promise.race([connecting, expired]);
  } catch (error) {
    connecting.then((late) => late.release()).catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function runTransaction<T>(
  client: PoolClient,
  discard: (error: Error) => void,
  work: (transaction: Pick<Transaction, "query" | "client">) => Promise<T>,
): Promise<T> {
  try {
    await client.query("begin");
    const query = async (statement: Statement | string) =>
      (await client.query(toQueryConfig(statement))).rows as DatabaseRow[];
    const value = await work({ query, client });
    await client.query("commit");
    return value;
  } catch (error) {
    await client.query("rollback").catch(discard);
    throw error;
  }
}

/** Codes of an unavailable server, and of transactions that have to run again. */
const TRANSIENT_CODES: ReadonlySet<unknown> = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "ENOENT", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EAI_AGAIN"],
  ...["57P01", "57P02", "57P03", "08000", "08003", "08006", "40001", "40P01", "53300"],
]);
const TRANSIENT_TEXT =
  /terminated|timeout exceeded when trying to connect|timeout expired|read timeout|Connection ended|not queryable|connection error/i;

function isTransient(error: unknown): boolean {
  const { code } = Object(error) as { code?: unknown };
  return TRANSIENT_CODES.has(code) || (error instanceof Error && TRANSIENT_TEXT.test(error.message));
}

/** SQL states with a fix. All others are reported as they are. */
const SQL_STATES: Readonly<Record<string, string>> = {
  "28P01": "check the user name and the password of the URL",
  "28000": "check the user name of the URL, and that the server allows it to connect",
  "3D000": "create the database, or fix its name in the URL",
  "42501": "grant the role the rights that `skillet engine init --print-sql` lists",
  "3F000": "run `skillet engine init` as the owner of the database",
  "42P01": "run `skillet engine init` as the owner of the database",
  "42703": "run `skillet engine init` as the owner of the database",
};

/** Converts an error of the database into one with a fix, without the password. */
function convertError(error: unknown, url: string): unknown {
  if (error instanceof SkillError) return error;
  const { code } = Object(error) as { code?: string };
  const message = hidePassword(getErrorMessage(error), url);
  if (isTransient(error))
    return new SkillError("engine-unavailable", {
      message: `The database ${describeDatabase(url)} is unavailable: ${message}`,
      fix: "check that it is running and reachable",
      commands: ["skillet engine check"],
    });
  return new SkillError("engine-failed", {
    message: `The database ${describeDatabase(url)} refused a statement: ${message}`,
    fix: SQL_STATES[code ?? ""] ?? "run `skillet engine check`",
  });
}

/** Names the database of a URL without user and password. */
export function describeDatabase(url: string): string {
  try {
    const { host, pathname, searchParams } = new URL(url);
    return `${decodeURIComponent(pathname.slice(1))} at ${searchParams.get("host") ?? host}`;
  } catch {
    return "(the URL is not valid)";
  }
}

function hidePassword(text: string, url: string): string {
  try {
    const { password } = new URL(url);
    const values = [url, password, decodeURIComponent(password)].filter((value) => value !== "");
    return values.reduce((shown, value) => shown.replaceAll(value, "[password]"), text);
  } catch {
    return text.replaceAll(url, "[url]");
  }
}

/** One version of the tables. A released version is never changed: a change is another row. */
interface SchemaVersion {
  version: number;
  sql: string;
}

/** THE table of versions. Lines are text and not `jsonb`, which refuses NUL and loses the order of keys. */
export const SCHEMA_VERSIONS: readonly SchemaVersion[] = [
  {
    version: 1,
    sql: `
create table skillet.runs (
  id text collate "C" primary key,
  -- The first line of the journal, and the last one of a run that has ended.
  head text not null,
  tail text,
  is_cancelled boolean not null default false,
  bytes bigint not null default 0,
  changed_at timestamptz not null default now(),
  -- The lease: only this owner appends. No time: it has ended.
  owner uuid,
  owner_label text,
  lease_until timestamptz,
  lease_length interval not null default '15 seconds',
  -- The queue of workers; null: a run of one process. The rest of the columns is for queued runs.
  queue text,
  tenant text not null default '',
  -- The caller's key: the same key gives the same run.
  key text,
  request_digest text,
  skill text not null default '',
  skill_digest text,
  priority integer not null default 0,
  -- queued, working, waiting, stuck or done.
  dispatch text,
  -- The number of the leg: the work on a run from being taken up until it ends or waits.
  leg integer not null default 0,
  -- The legs that ended their worker, and those that a worker gave back, since the last progress.
  attempts integer not null default 0,
  returns integer not null default 0,
  -- Why it is stuck, as JSON.
  problem text,
  worker text,
  unique (tenant, key)
) with (fillfactor = 70);

create table skillet.lines (
  run text collate "C" not null references skillet.runs on delete cascade,
  seq bigint generated always as identity,
  -- The owner and the number of the line in its lease: a write that is repeated is kept once. Null: a line of another process.
  owner uuid,
  n integer,
  kind text not null,
  line text not null,
  primary key (run, seq),
  unique (run, owner, n)
);
alter table skillet.lines alter column line set storage external;
create index runs_dispatch on skillet.runs (dispatch, changed_at) where dispatch in ('queued', 'working', 'stuck');

create table skillet.workers (
  name text primary key,
  host text not null,
  pid integer not null,
  version text not null,
  slots integer not null,
  running integer not null default 0,
  queues text[] not null,
  -- The digests of its skills, by name, as JSON.
  skills text not null default '{}',
  is_draining boolean not null default false,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);`,
  },
  {
    version: 2,
    sql: `
create table skillet.approvals (
  seq bigint generated always as identity,
  -- Whose approvals they are. Empty: those of the operator.
  tenant text not null default '',
  person text not null default '',
  skill text not null,
  -- The digest of the skill, or the source of one that is defined in code.
  copy text not null,
  -- Where it was when it was approved, for people.
  source text not null,
  location text not null,
  -- A tool, or a workspace.
  allowed text not null,
  at timestamptz not null default now(),
  primary key (tenant, person, skill, copy, allowed)
);`,
  },
];

export const SCHEMA_VERSION: number = SCHEMA_VERSIONS.at(-1)?.version ?? 0;

const VERSIONS_TABLE = `
create schema if not exists skillet;
create table if not exists skillet.versions (version integer primary key, applied_at timestamptz not null default now());`;

/** The lock of the migration: two that run at once would both create the tables. */
const MIGRATION_LOCK = "select pg_advisory_xact_lock(7302211845)";

/** Returns the SQL of the versions after this one, for a database administrator. */
export function formatSchemaSql(from = 0): string {
  const steps = SCHEMA_VERSIONS.filter(({ version }) => version > from).map(
    ({ version, sql }) => `${sql}\ninsert into skillet.versions (version) values (${version});`,
  );
  return `begin;\n${MIGRATION_LOCK};${VERSIONS_TABLE}\n${steps.join("\n")}\ncommit;\n`;
}

/** Returns the SQL that grants an existing role what workers and commands need: rows of these tables, and no change of a table. */
export function formatRoleSql(role: string): string {
  const name = `"${role.replaceAll('"', '""')}"`;
  return `begin;
grant usage on schema skillet to ${name};
grant select on skillet.versions to ${name};
grant select, insert, update, delete on all tables in schema skillet to ${name};
revoke insert, update, delete on skillet.versions from ${name};
grant usage on all sequences in schema skillet to ${name};
${formatDispatchGrants(name)}commit;
`;
}

/** Creates or updates the tables. Returns the version before. */
export async function createSchema(database: Database): Promise<number> {
  return database.transaction(async ({ query }) => {
    await query(MIGRATION_LOCK);
    await query(VERSIONS_TABLE);
    const [row] = await query("select coalesce(max(version), 0) as version from skillet.versions");
    const before = Number(row?.["version"] ?? 0);
    if (before > SCHEMA_VERSION) throw createNewerSchemaError(before);
    for (const { version, sql } of SCHEMA_VERSIONS.filter(({ version }) => version > before)) {
      await query(sql);
      await query({ text: "insert into skillet.versions (version) values ($1)", values: [version] });
    }
    return before;
  });
}

/** Throws a SkillError unless the tables have the version of this program. */
export async function requireSchema(database: Database): Promise<void> {
  const version = await readSchemaVersion(database);
  if (version === SCHEMA_VERSION) return;
  if (version > SCHEMA_VERSION) throw createNewerSchemaError(version);
  throw new SkillError("engine-outdated", {
    message:
      version === 0
        ? "The database has no tables of skillet"
        : `The tables of skillet have version ${version}, and this program needs version ${SCHEMA_VERSION}`,
    fix: "run `skillet engine init` as the owner of the database",
  });
}

/** Returns 0 for a database without tables of skillet. */
export async function readSchemaVersion(database: Database): Promise<number> {
  const [found] = await database.query("select to_regclass('skillet.versions') is not null as is_there");
  if (found?.["is_there"] !== true) return 0;
  const [row] = await database.query("select coalesce(max(version), 0) as version from skillet.versions");
  return Number(row?.["version"] ?? 0);
}

function createNewerSchemaError(version: number): SkillError {
  return new SkillError("engine-outdated", {
    message: `The tables of skillet have version ${version}, and this program knows version ${SCHEMA_VERSION}`,
    fix: "update skillet: nothing was changed",
  });
}
