import { SkillError } from "../../errors/problem.ts";
import type { ApprovalStore } from "../../store/approvals.ts";
import type { RunStore } from "../../store/runs.ts";
import { type Database, type DatabaseOptions, openDatabase } from "./database.ts";
import { createDbosDispatcher, type Dispatcher } from "./dispatcher.ts";
import { type ApprovalOwner, createPostgresApprovalStore } from "./postgres-approvals.ts";
import { createPostgresRunStore, type PostgresRunOptions } from "./postgres-runs.ts";
import { addNextLeg, createRunQueue, type RunQueue } from "./run-queue.ts";
import { requireSchema } from "./schema.ts";

export interface PostgresOptions extends DatabaseOptions, PostgresRunOptions {}

/** The stores of one database, to be passed to a host. */
export interface PostgresStores {
  runs: RunStore;
  /** The permanent approvals of the operator. */
  approvals: ApprovalStore;
  /** Opens the permanent approvals of a tenant or person, which count for no other. */
  openApprovals(scope: ApprovalOwner): ApprovalStore;
  close(): Promise<void>;
}

/** The stores of a database, and its queue of runs. */
export interface Engine extends PostgresStores {
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
    async close() {
      await dispatcher.close();
      await database.close();
    },
  };
}
