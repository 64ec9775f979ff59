import type { WorkflowStatus } from "@dbos-inc/dbos-sdk";
import type { ClientBase, Pool } from "pg";
import { loadPeer } from "../../util/peer-packages.ts";
import type { Database, Transaction } from "./database.ts";

/** A leg of a run: the work on it from being taken up by a worker until it ends or waits. */
export interface Leg {
  run: string;
  leg: number;
}

/** A leg with its place in a queue. */
export interface QueuedLeg extends Leg {
  queue: string;
  tenant: string;
  /** 0 comes first. */
  priority: number;
  delaySeconds?: number;
}

export interface ConsumeOptions {
  /** The name of the worker, which no other one has. */
  worker: string;
  queues: readonly string[];
  /** The number of legs at once. */
  slots: number;
  /** The number of legs of a tenant at once, over all workers. Defaults to no limit. */
  tenantSlots?: number | undefined;
  work(leg: Leg): Promise<void>;
}

/** Takes legs from the queues. */
export interface LegConsumer {
  /** Takes no more legs, and waits until those at work have ended. */
  stop(): Promise<void>;
}

/** Brings legs of runs to workers: it decides which worker takes a leg, and when. Whether a leg is still right is decided by the run. */
export interface Dispatcher {
  /** Adds a leg in the transaction that changes its run. A leg that was added before is not added again. */
  enqueue(transaction: Transaction, leg: QueuedLeg): Promise<void>;
  /** Returns the legs, as `formatLegId` names them, that wait for a worker or are at one of these. */
  findLive(legs: readonly Leg[], workers: ReadonlySet<string>): Promise<ReadonlySet<string>>;
  /** Lists the legs that were brought to a worker and have not ended. */
  listTaken(worker: string): Promise<readonly Leg[]>;
  /** Frees the slots of legs whose worker is gone. */
  withdraw(legs: readonly Leg[]): Promise<void>;
  /** Removes the records of legs that ended before this time. Returns their number. */
  prune(before: Date): Promise<number>;
  consume(options: ConsumeOptions): Promise<LegConsumer>;
  close(): Promise<void>;
}

export function formatLegId({ run, leg }: Leg): string {
  return `${run}#${leg}`;
}

function parseLegId(id: string): Leg {
  const at = id.lastIndexOf("#");
  return { run: id.slice(0, at), leg: Number(id.slice(at + 1)) };
}

/** The version of a journal. A worker takes legs of this version only, so that an older worker never reads a newer journal. */
const JOURNAL_VERSION = "journal-1";
const APPLICATION = "skillet";
const WORKFLOW = "leg";
const TAKEN = "PENDING";
const ENDED = ["SUCCESS", "ERROR", "CANCELLED"] as const;
const PRUNE_SIZE = 1000;
const WAITING: ReadonlySet<string> = new Set(["ENQUEUED", "DELAYED"]);

/** Creates the dispatcher on DBOS, in the same database. Its client is opened when it is first needed. Throws a SkillError without DBOS. */
export function createDbosDispatcher(database: Database, url: string): Dispatcher {
  const pool = database.pool as Pool;
  const common = { systemDatabaseUrl: url, systemDatabasePool: pool, logger: SILENT };
  const openClient = async () => {
    const { DBOSClient } = await loadDbos();
    return DBOSClient.create({ ...common, applicationName: APPLICATION });
  };
  let opened: ReturnType<typeof openClient> | undefined;
  const getClient = () => {
    opened ??= openClient();
    return opened;
  };
  return {
    async enqueue({ client }, { queue, tenant, priority, delaySeconds, ...leg }) {
      await (await getClient()).enqueueInTransaction(
        client as ClientBase,
        {
          ...{ workflowName: WORKFLOW, queueName: queue, workflowID: formatLegId(leg), appVersion: JOURNAL_VERSION },
          ...{ queuePartitionKey: tenant === "" ? "-" : tenant, priority },
          ...(delaySeconds === undefined ? {} : { delaySeconds }),
        },
        leg,
      );
    },
    async findLive(legs, workers) {
      if (legs.length === 0) return new Set();
      const workflowIDs = legs.map(formatLegId);
      const found = await (await getClient()).listWorkflows({ workflowIDs, loadInput: false, loadOutput: false });
      const isLive = ({ status, executorId = "" }: WorkflowStatus) =>
        WAITING.has(status) || (status === TAKEN && workers.has(executorId));
      return new Set(found.filter(isLive).map(({ workflowID }) => workflowID));
    },
    async listTaken(worker) {
      const filter = { executorId: worker, status: TAKEN, loadInput: false, loadOutput: false } as const;
      const found = await (await getClient()).listWorkflows(filter);
      return found.map(({ workflowID }) => parseLegId(workflowID));
    },
    async withdraw(legs) {
      const client = await getClient();
      for (const leg of legs) await client.cancelWorkflow(formatLegId(leg));
    },
    async prune(before) {
      const client = await getClient();
      const filter = { status: [...ENDED], endTime: before.toISOString(), loadInput: false, loadOutput: false };
      let count = 0;
      for (;;) {
        const found = await client.listWorkflows({ ...filter, limit: PRUNE_SIZE });
        if (found.length === 0) return count;
        await client.deleteWorkflows(found.map(({ workflowID }) => workflowID));
        count += found.length;
      }
    },
    async consume({ worker, queues, slots, tenantSlots = MAX_TENANT_LEGS, work }) {
      const { DBOS } = await loadDbos();
      DBOS.registerWorkflow(work, { name: WORKFLOW, maxRecoveryAttempts: 1_000_000 });
      DBOS.setConfig({
        ...common,
        ...{ name: APPLICATION, executorID: worker, applicationVersion: JOURNAL_VERSION },
        ...{ runMigrations: false, listenQueues: [...queues] },
      });
      await DBOS.launch();
      for (const queue of queues) {
        await DBOS.registerQueue(queue, {
          ...{ workerConcurrency: slots, partitionConcurrency: tenantSlots, minPollingIntervalMs: POLL_MS },
          onConflict: "always_update",
        });
      }
      return { stop: () => DBOS.shutdown({ workflowCompletionTimeoutMS: MAX_DRAIN_MS }) };
    },
    async close() {
      await (await opened)?.destroy();
    },
  };
}

/**
 * Loads DBOS. While the database is away, it doubles its pause up to a minute after each attempt, and a worker would take no run for as long
 * after the database is back.
 */
async function loadDbos(): ReturnType<typeof loadPeer.dbos> {
  const { dbRetryConfig } = await loadPeer.dbosInternals();
  Object.assign(dbRetryConfig, { initialBackoffSec: 0.25, maxBackoffSec: MAX_RETRY_SECONDS });
  return loadPeer.dbos();
}

const MAX_RETRY_SECONDS = 1;

/** A partitioned queue gives tenants their turns. Without a limit of its own, a tenant may use every slot. */
const MAX_TENANT_LEGS = 1000;
const POLL_MS = 100;
/** The caller aborts the runs long before. */
const MAX_DRAIN_MS = 600_000;

/** DBOS logs to the terminal otherwise. What it reports, the state of a run shows. */
const SILENT = { info() {}, debug() {}, warn() {}, error() {} };

const DBOS_SCHEMA = "dbos";

/** Creates or updates the tables of the dispatcher. */
export async function createDispatchTables(database: Database, url: string): Promise<void> {
  const { ensureSystemDatabase } = await loadPeer.dbosInternals();
  await ensureSystemDatabase(url, SILENT as never, database.pool as Pool, DBOS_SCHEMA);
}

/** Returns the SQL that creates the tables of the dispatcher in an empty database. */
export async function formatDispatchSql(): Promise<string> {
  const { allMigrations } = await loadPeer.dbosInternals();
  const migrations = allMigrations(DBOS_SCHEMA, { useListenNotify: true });
  // An index of an empty table needs no concurrency, and the script can be one transaction.
  const statements = migrations.flatMap(({ pg = [] }) => pg).map((sql) => sql.replaceAll(/\bconcurrently\b/gi, ""));
  const version = `insert into ${DBOS_SCHEMA}.dbos_migrations (version) values (${migrations.length})`;
  return `begin;\n${[...statements, version].map((sql) => sql.trim().replace(/;?$/, ";")).join("\n")}\ncommit;\n`;
}

/** Returns the SQL that lets a role use the tables of the dispatcher. */
export function formatDispatchGrants(name: string): string {
  return `grant usage on schema ${DBOS_SCHEMA} to ${name};
grant select, insert, update, delete on all tables in schema ${DBOS_SCHEMA} to ${name};
revoke insert, update, delete on ${DBOS_SCHEMA}.dbos_migrations from ${name};
grant usage on all sequences in schema ${DBOS_SCHEMA} to ${name};
grant execute on all functions in schema ${DBOS_SCHEMA} to ${name};
`;
}
