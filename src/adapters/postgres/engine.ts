import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Audit, Vault } from "../../host/capability-contract.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import type { RunStore } from "../../store/runs.ts";
import type { StatisticsStore } from "../../store/statistics.ts";
import { type Database, type DatabaseOptions, describeDatabase, openDatabase } from "./database.ts";
import { createDbosDispatcher, type Dispatcher } from "./dispatcher.ts";
import { type ApprovalOwner, createPostgresApprovalStore } from "./postgres-approvals.ts";
import { createPostgresAudit } from "./postgres-audit.ts";
import { createPostgresRunStore, type PostgresRunOptions } from "./postgres-runs.ts";
import { createPostgresStatisticsStore } from "./postgres-statistics.ts";
import { createPostgresVault } from "./postgres-vault.ts";
import { addNextLeg, createRunQueue, type RunQueue } from "./run-queue.ts";
import { readSchemaVersion, requireSchema, SCHEMA_VERSION } from "./schema.ts";

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
    audit: createPostgresAudit(database),
    vault: createPostgresVault(database),
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
