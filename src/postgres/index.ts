/** Stores in Postgres, which several machines share. Needs the package `pg`. */
import type { RunStore } from "../store/runs.ts";
import { type DatabaseOptions, openDatabase } from "./database.ts";
import { createPostgresRunStore, type PostgresRunOptions } from "./postgres-runs.ts";
import { requireSchema } from "./schema.ts";

export interface PostgresOptions extends DatabaseOptions, PostgresRunOptions {}

/** The stores of one database, to be passed to a host. */
export interface PostgresStores {
  runs: RunStore;
  close(): Promise<void>;
}

/**
 * Opens the stores of a database. Throws a SkillError if it is unavailable, or if `skillet engine init` has not created its tables.
 *
 * @example
 * const stores = await openPostgresStores({ url: process.env.DATABASE_URL });
 * const result = await useSkill(catalog, { ...host, runs: stores.runs }, { skill: "research", message: "…" });
 */
export async function openPostgresStores(options: PostgresOptions): Promise<PostgresStores> {
  const database = await openDatabase(options);
  try {
    await requireSchema(database);
  } catch (error) {
    await database.close();
    throw error;
  }
  return { runs: createPostgresRunStore(database, options), close: () => database.close() };
}

export type { DatabaseOptions } from "./database.ts";
export type { PostgresRunOptions } from "./postgres-runs.ts";
