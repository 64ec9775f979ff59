import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Audit, Vault } from "../../host/capability-contract.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import type { Mailbox } from "../../store/mailbox.ts";
import type { RunStore } from "../../store/runs.ts";
import type { ServerTokenStore } from "../../store/server-tokens.ts";
import type { StatisticsStore } from "../../store/statistics.ts";
import { type Database, type DatabaseOptions, describeDatabase, openDatabase } from "./database.ts";
import { createDbosDispatcher, type Dispatcher, formatDispatchGrants } from "./dispatcher.ts";
import { createPostgresRunStore, type PostgresRunOptions } from "./postgres-runs.ts";
import {
  type ApprovalOwner,
  createPostgresApprovalStore,
  createPostgresAudit,
  createPostgresMailbox,
  createPostgresStatisticsStore,
} from "./postgres-stores.ts";
import { createPostgresTokenStore } from "./postgres-tokens.ts";
import { createPostgresVault } from "./postgres-vault.ts";
import { addNextLeg, createRunQueue, type RunQueue } from "./run-queue.ts";

export interface PostgresOptions extends DatabaseOptions, PostgresRunOptions {}

/** The stores of one database, to be passed to a host. */
export interface PostgresStores {
  runs: RunStore;
  /** The permanent approvals of the operator. */
  approvals: ApprovalStore;
  /** Opens the permanent approvals of a tenant or person, which count for no other. */
  openApprovals(scope: ApprovalOwner): ApprovalStore;
  statistics: StatisticsStore;
  audit: Audit;
  vault: Vault;
  close(): Promise<void>;
}

/** The stores of a database, and its queue of runs. */
export interface Engine extends PostgresStores {
  /** The database, without user and password. */
  name: string;
  database: Database;
  dispatcher: Dispatcher;
  queue: RunQueue;
  /** Messages between the servers of the database. */
  mailbox: Mailbox;
  tokens: ServerTokenStore;
}

/** Opens a database with its queue. Throws like `openPostgresStores`. */
export async function openEngine(options: PostgresOptions): Promise<Engine> {
  const database = await openDatabase(options);
  try {
    await requireSchema(database);
  } catch (error) {
    await database.close();
    throw error;
  }
  const dispatcher = createDbosDispatcher(database, options.url);
  const runs = createPostgresRunStore(database, options, async (transaction, id) => {
    try {
      await addNextLeg(transaction, dispatcher, id);
    } catch (error) {
      // Without DBOS here, a worker notices the run within seconds.
      if (!(error instanceof SkillError) || error.code !== "optional-package-missing") throw error;
    }
  });
  return {
    ...{ database, dispatcher, runs, queue: createRunQueue(database, dispatcher) },
    approvals: createPostgresApprovalStore(database),
    openApprovals: (scope) => createPostgresApprovalStore(database, scope),
    statistics: createPostgresStatisticsStore(database),
    ...{ audit: createPostgresAudit(database), vault: createPostgresVault(database) },
    mailbox: createPostgresMailbox(database),
    tokens: createPostgresTokenStore(database, describeDatabase(options.url)),
    name: describeDatabase(options.url),
    async close() {
      await dispatcher.close();
      await database.close();
    },
  };
}

/** One result of the check of a database. */
export interface EngineFinding extends Partial<Pick<Problem, "fix" | "commands">> {
  level: "ok" | "warning" | "error";
  message: string;
}

/** Checks what workers need of a database, and what a role should not be able to do. Throws a SkillError if it is unavailable. */
export async function checkEngine(database: Database): Promise<EngineFinding[]> {
  const [row = {}] = await database.query(FACTS);
  const version = await readSchemaVersion(database);
  const isRemote = row["is_remote"] === true;
  const differenceMs = Math.abs(Number(row["now_ms"]) - Date.now());
  return [
    { level: "ok", message: `Postgres ${row["version"]}, as ${row["role"]}` },
    choose(row["encoding"] === "UTF8", `encoding ${row["encoding"]}`, "create the database with encoding UTF8"),
    choose(row["is_standby"] !== true, "accepts writes", "the URL leads to a standby: use the primary server"),
    choose(
      version === SCHEMA_VERSION,
      version === 0 ? "no tables of skillet" : `tables of version ${version}`,
      version > SCHEMA_VERSION
        ? "update skillet"
        : { fix: "run as the owner of the database", commands: ["skillet engine init"] },
    ),
    choose(
      row["has_tls"] === true || !isRemote,
      row["has_tls"] === true
        ? "encrypted connection"
        : isRemote
          ? "the connection is not encrypted"
          : "local connection",
      "add ?sslmode=verify-full to the URL",
      "warning",
    ),
    choose(
      row["is_superuser"] !== true && row["can_create"] !== true,
      row["is_superuser"] === true
        ? "the role is a superuser"
        : row["can_create"] === true
          ? "the role can create or change tables"
          : "the role can only read and write rows",
      { fix: "use the role of this list", commands: ["skillet engine init --print-sql --role NAME"] },
      "warning",
    ),
    choose(
      differenceMs < MAX_CLOCK_DIFFERENCE_MS,
      `the clocks differ by ${Math.round(differenceMs / 1000)} s`,
      "synchronize the clocks: times of runs are shown by the clock of each machine",
      "warning",
    ),
  ];
}

const MAX_CLOCK_DIFFERENCE_MS = 5000;

const FACTS = `
select current_setting('server_version') as version, current_user as role,
  current_setting('server_encoding') as encoding, pg_is_in_recovery() as is_standby,
  inet_client_addr() is not null and not (inet_client_addr() <<= '127.0.0.0/8' or inet_client_addr() = '::1') as is_remote,
  coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as has_tls,
  (select rolsuper from pg_roles where rolname = current_user) as is_superuser,
  has_database_privilege(current_database(), 'create')
    or (to_regnamespace('skillet') is not null and has_schema_privilege(to_regnamespace('skillet')::oid, 'create')) as can_create,
  extract(epoch from clock_timestamp()) * 1000 as now_ms`;

function choose(
  isFine: boolean,
  message: string,
  fix: string | Pick<Problem, "fix" | "commands">,
  level: "warning" | "error" = "error",
): EngineFinding {
  return isFine ? { level: "ok", message } : { level, message, ...(typeof fix === "string" ? { fix } : fix) };
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
  {
    version: 3,
    sql: `
create table skillet.uses (
  id bigint generated always as identity primary key,
  -- In milliseconds, as in the statistics of one machine.
  at bigint not null,
  kind text not null,
  skill text not null,
  source text,
  model text,
  run text unique,
  depth integer,
  stop text,
  iterations bigint not null default 0,
  ms bigint not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cost double precision,
  person text,
  tenant text
);
create index uses_at on skillet.uses (at);

create table skillet.audit (
  seq bigint primary key,
  key uuid not null unique,
  line text not null
);
-- The last line: it reveals a log whose end was cut off. Writers lock it, so that there is one chain.
create table skillet.audit_head (
  is_only boolean primary key default true check (is_only),
  seq bigint not null,
  hash text not null
);
insert into skillet.audit_head (seq, hash) values (0, repeat('0', 64));`,
  },
  {
    version: 4,
    sql: `
-- Not logged: after a crash of the server, the buckets are full again.
create unlogged table skillet.provider_limits (
  -- A digest of the provider, the address and the key.
  account text primary key,
  requests double precision,
  tokens double precision,
  refilled_at timestamptz not null default clock_timestamp(),
  paused_until timestamptz
);`,
  },
  {
    version: 5,
    sql: `
-- A box with known content, which only the right key opens.
create table skillet.vault_key (
  is_only boolean primary key default true check (is_only),
  box text not null
);
create table skillet.credentials (
  seq bigint generated always as identity,
  namespace text not null,
  account text not null,
  person text not null,
  origin text not null,
  scopes text[] not null,
  at text not null,
  expires_at text,
  -- The secret, encrypted with a key that is not in the database.
  box text not null,
  -- The process that renews it now.
  renewer uuid,
  renews_until timestamptz,
  primary key (namespace, account, person, origin)
);
-- Sign-ins under way.
create table skillet.pending (
  id text primary key,
  expires_at timestamptz not null,
  box text not null,
  owner uuid not null
);`,
  },
  {
    version: 6,
    sql: `
create index runs_changed on skillet.runs (changed_at);
-- A cascade deletes the lines of one run at a time. What removes runs removes their lines in one statement, and every writer of a line holds
-- the row of its run.
alter table skillet.lines drop constraint lines_run_fkey;`,
  },
  {
    version: 7,
    sql: `
-- The time of the first line: lists are sorted by it. An id of this program begins with it.
alter table skillet.runs add column started_at timestamptz not null default now();
update skillet.runs set started_at = case when id ~ '^[0-9]{8}-[0-9]{6}-[0-9a-f]{8}$'
  then (left(id, 8) || ' ' || substr(id, 10, 6))::timestamp at time zone 'UTC' else changed_at end;
create index runs_started on skillet.runs (started_at, id);
create index runs_without_end on skillet.runs (started_at, id) where tail is null;`,
  },
  {
    version: 8,
    sql: `
-- Messages between servers, such as the answer to a question of another one. Not logged: they are seconds old when they are read.
create unlogged table skillet.messages (
  -- A digest of the caller and the question.
  key text primary key,
  message text not null,
  at timestamptz not null default now()
);`,
  },
  {
    version: 9,
    sql: `
-- Tokens of people for servers. The secret of a token is not stored, only its SHA-256.
create table skillet.server_tokens (
  id text primary key, person text not null, scopes text[] not null,
  created_at text not null, expires_at text, hash text not null
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
-- The audit log only grows.
revoke update, delete on skillet.audit from ${name};
revoke insert, delete on skillet.audit_head from ${name};
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
    fix: "run as the owner of the database",
    commands: ["skillet engine init"],
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
