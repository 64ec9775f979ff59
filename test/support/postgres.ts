import { execFile, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { openDatabase } from "../../src/adapters/postgres/database.ts";
import { createDispatchTables } from "../../src/adapters/postgres/dispatcher.ts";
import { createSchema } from "../../src/adapters/postgres/engine.ts";

const run = promisify(execFile);

/** The programs of Debian's package `postgresql`, of the newest version that is installed. */
const VERSIONS = "/usr/lib/postgresql";
const binaries = existsSync(VERSIONS)
  ? readdirSync(VERSIONS)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(VERSIONS, version, "bin"))
      .find((folder) => existsSync(join(folder, "initdb")))
  : undefined;

/** The folder of the programs of Postgres. */
export const POSTGRES_PROGRAMS: string = binaries ?? "";

/** True when tests can start a server. */
export const HAS_POSTGRES: boolean = binaries !== undefined;

/** Postgres refuses to run as root: this user has no files that a test could break. */
const account = process.getuid?.() === 0 ? readAccount("nobody") : undefined;

function readAccount(name: string): { uid: number; gid: number } {
  const { stdout } = spawnSync("getent", ["passwd", name], { encoding: "utf8" });
  const [, , uid, gid] = stdout.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}

function asAccount(program: string, args: readonly string[]): [string, string[]] {
  if (!account) return [program, [...args]];
  const { uid, gid } = account;
  return ["/usr/bin/setpriv", [`--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--", program, ...args]];
}

const MAX_OUTPUT = 256 * 1024 * 1024;

/** A real server with its own data. The test that starts it removes it. */
export interface PostgresServer {
  /** The folder of its socket. */
  folder: string;
  /** The superuser's URL of a database. */
  urlOf(database: string, user?: string): string;
  /** Creates an empty database, and returns its URL. */
  createDatabase(): Promise<string>;
  /** Creates a database with skillet's tables, and returns its URL. */
  createEngine(): Promise<string>;
  psql(database: string, sql: string): Promise<string>;
  /** Runs another program of Postgres's client against this server. */
  call(program: "pg_dump" | "pg_restore", ...args: string[]): Promise<string>;
  /** Returns what the server logged. */
  readLog(): string;
  stop(mode?: "fast" | "immediate"): Promise<void>;
  start(): Promise<void>;
  /** Stops it, and removes its data. */
  remove(): Promise<void>;
}

/** Starts a server of an ordinary user. It listens on a socket in its own folder only. */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  if (binaries === undefined) throw new Error("Postgres is not installed: apt-get install postgresql");
  const folder = mkdtempSync(join(tmpdir(), "pg-"));
  if (account) chownSync(folder, account.uid, account.gid);
  const data = join(folder, "data");
  const call = (program: string, args: readonly string[], options: { maxBuffer?: number } = {}) =>
    run(...asAccount(join(binaries, program), args), {
      ...options,
      cwd: folder,
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C.UTF-8" },
    });
  await call("initdb", ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]);
  // A test kills the server, never the machine: nothing has to reach the disk.
  const given = {
    listen_addresses: "''",
    unix_socket_directories: folder,
    max_connections: "200",
    ...{ fsync: "off", full_page_writes: "off", ...settings },
  };
  const options = Object.entries(given).flatMap(([key, value]) => ["-c", `${key}=${value}`]);
  const log = join(folder, "log");
  const start = async () => {
    await call("pg_ctl", ["-D", data, "-l", log, "-w", "-o", options.join(" "), "start"]);
  };
  const stop = async (mode: "fast" | "immediate" = "fast") => {
    await call("pg_ctl", ["-D", data, "-m", mode, "-w", "stop"]);
  };
  await start();
  const { port = "5432" } = settings;
  const urlOf = (database: string, user = "postgres") =>
    `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(folder)}`;
  const psql = async (database: string, sql: string) =>
    (
      await call("psql", [
        "-h",
        folder,
        "-p",
        port,
        "-U",
        "postgres",
        "-d",
        database,
        "-qAt",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        sql,
      ])
    ).stdout;
  const createDatabase = async (template = "template1") => {
    const name = `t${randomUUID().replaceAll("-", "")}`;
    await psql("postgres", `create database ${name} template ${template}`);
    return urlOf(name);
  };
  let template: Promise<string> | undefined;
  const createTemplate = async () => {
    await psql("postgres", "create database skillet_template");
    const database = await openDatabase({ url: urlOf("skillet_template") });
    await createSchema(database);
    await createDispatchTables(database, urlOf("skillet_template"));
    await database.close();
    return "skillet_template";
  };
  return {
    ...{ folder, urlOf, psql, start, stop },
    call: async (program, ...args) =>
      (await call(program, ["-h", folder, "-p", port, "-U", "postgres", ...args], { maxBuffer: MAX_OUTPUT })).stdout,
    readLog: () => readFileSync(log, "utf8"),
    async remove() {
      await stop("immediate").catch(() => {});
      rmSync(folder, { recursive: true, force: true });
    },
    createDatabase: () => createDatabase(),
    async createEngine() {
      template ??= createTemplate();
      return createDatabase(await template);
    },
  };
}
