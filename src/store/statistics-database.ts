import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { createFolder } from "../util/file-access.ts";

const VERSION = 2;
const DAY_MS = 24 * 60 * 60 * 1000;
const KEPT_MS = 365 * DAY_MS;

/** One row for each end of a run, refusal or load. A resumed run has one row, whatever it waited for before. */
const TABLES = `
  CREATE TABLE uses (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    skill TEXT NOT NULL,
    source TEXT,
    model TEXT,
    run TEXT UNIQUE,
    depth INTEGER,
    stop TEXT,
    iterations INTEGER NOT NULL DEFAULT 0,
    ms INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost REAL,
    user TEXT,
    tenant TEXT
  ) STRICT;
  CREATE INDEX uses_at ON uses (at);
  PRAGMA user_version = ${VERSION};
`;

/**
 * Opens the file, and creates it if it does not exist. Waits up to `waitMs` for other processes. Throws a SkillError
 * with the reason when it cannot be used.
 */
export function openStatisticsDatabase(file: string, waitMs: number): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    createFolder(dirname(file), 0o700);
    createDatabaseFile(file);
    database = new (loadSqlite().DatabaseSync)(file);
    database.exec(`PRAGMA busy_timeout = ${waitMs}; PRAGMA synchronous = NORMAL;`);
    if (readVersion(database) === 0) createTables(database, waitMs);
    if (readVersion(database) === 1) addCallerColumns(database, waitMs);
    if (readVersion(database) !== VERSION) throw createVersionError(file);
    dropOld(database);
    database.exec("PRAGMA busy_timeout = 50"); // Writers of rows retry on their own, and block nothing.
    return database;
  } catch (error) {
    database?.close();
    throw createStatisticsError(file, error);
  }
}

/** Creates the file. SQLite would make it readable for everyone, and would block on a device in its place. */
function createDatabaseFile(file: string): void {
  const { O_RDWR, O_CREAT, O_NONBLOCK = 0 } = constants;
  const fd = openSync(file, O_RDWR | O_CREAT | O_NONBLOCK, 0o600);
  try {
    if (!fstatSync(fd).isFile()) throw new Error("it is not a regular file");
  } finally {
    closeSync(fd);
  }
}

/** Turns an error of SQLite into a message with a fix. */
export function createStatisticsError(file: string, error: unknown): SkillError {
  if (error instanceof SkillError) return error;
  const fix =
    SQLITE_FIXES[((error as { errcode?: number }).errcode ?? 0) & 0xff] ?? "check the mode of the file and its folder";
  return new SkillError("statistics-unusable", {
    message: `The statistics in ${file} cannot be used: ${getErrorMessage(error)}`,
    fix,
    cause: error,
  });
}

const MOVE_AWAY = "move it away: the next use creates a new one";
/** Fixes by SQLite result code. */
const SQLITE_FIXES: Record<number, string> = {
  5: "another program has locked it: try again when that has ended",
  11: MOVE_AWAY,
  13: "free space on the disk",
  26: MOVE_AWAY,
};

function createVersionError(file: string): SkillError {
  return new SkillError("statistics-unusable", {
    message: `The statistics in ${file} were written by another version, or by another program`,
    fix: `use the newest skillet, or ${MOVE_AWAY}`,
  });
}

function readVersion(database: DatabaseSync): unknown {
  return database.prepare("PRAGMA user_version").get()?.["user_version"];
}

/** Creates the tables. Of several processes, the first one does. A file with foreign tables stays as it is. */
function createTables(database: DatabaseSync, waitMs: number): void {
  keepTrying(waitMs, () => database.exec("PRAGMA journal_mode = WAL"));
  database.exec("BEGIN IMMEDIATE");
  const isEmpty = database.prepare("SELECT count(*) AS tables FROM sqlite_schema").get()?.["tables"] === 0;
  if (isEmpty) database.exec(TABLES);
  database.exec("COMMIT");
}

/** Adds the columns of version 2. Of several processes, the first one does. */
function addCallerColumns(database: DatabaseSync, waitMs: number): void {
  keepTrying(waitMs, () => database.exec("BEGIN IMMEDIATE"));
  if (readVersion(database) === 1)
    database.exec(
      "ALTER TABLE uses ADD COLUMN user TEXT; ALTER TABLE uses ADD COLUMN tenant TEXT; PRAGMA user_version = 2;",
    );
  database.exec("COMMIT");
}

/** Retries: SQLite does not wait for a change of its journal mode. */
function keepTrying(waitMs: number, work: () => void): void {
  const end = performance.now() + waitMs;
  for (;;) {
    try {
      work();
      return;
    } catch (error) {
      if ((error as { errcode?: number }).errcode !== 5 || performance.now() > end) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 10);
    }
  }
}

/**
 * Drops rows older than a year. Only when the oldest is a day over that, so that it happens once a day and not at every
 * start. The clock counts up to the newest recorded use: one that jumps ahead for one command deletes nothing.
 */
function dropOld(database: DatabaseSync): void {
  const { oldest, newest } = database.prepare("SELECT min(at) AS oldest, max(at) AS newest FROM uses").get() ?? {};
  if (typeof oldest !== "number" || typeof newest !== "number") return;
  const kept = Math.min(Date.now(), newest) - KEPT_MS;
  if (oldest <= kept - DAY_MS) database.prepare("DELETE FROM uses WHERE at < ?").run(kept);
}

type Sqlite = typeof import("node:sqlite");

/** Loads SQLite when it is first needed, without the warning that it is experimental. */
function loadSqlite(): Sqlite {
  const { emitWarning } = process;
  process.emitWarning = ((warning: string | Error, ...more: never[]) => {
    if (!String(warning).startsWith("SQLite is an experimental feature")) emitWarning.call(process, warning, ...more);
  }) as typeof emitWarning;
  try {
    return process.getBuiltinModule("node:sqlite") as Sqlite;
  } finally {
    process.emitWarning = emitWarning;
  }
}
