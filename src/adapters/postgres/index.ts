/** Stores in Postgres, which several machines share. Needs the package `pg`. */
import { openEngine, type PostgresOptions, type PostgresStores } from "./engine.ts";

/**
 * Opens the stores of a database. Throws a SkillError if it is unavailable, or if `skillet engine init` has not created its tables.
 *
 * @example
 * const stores = await openPostgresStores({ url: process.env.DATABASE_URL });
 * const { runs, approvals } = stores;
 * const result = await useSkill(catalog, { ...host, runs, approvals }, { skill: "research", message: "…" });
 */
export async function openPostgresStores(options: PostgresOptions): Promise<PostgresStores> {
  const { runs, approvals, openApprovals, statistics, audit, vault, close } = await openEngine(options);
  return { runs, approvals, openApprovals, statistics, audit, vault, close };
}

export type { DatabaseOptions } from "./database.ts";
export type { PostgresOptions, PostgresStores } from "./engine.ts";
export type { PostgresRunOptions } from "./postgres-runs.ts";
export type { ApprovalOwner } from "./postgres-stores.ts";
