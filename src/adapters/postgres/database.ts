import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  randomInt,
} from "node:crypto";
import type { Client, Pool, PoolClient, QueryConfig } from "pg";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { loadPeer } from "../../util/peer-packages.ts";

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
  /** Resolves if the server answers now. Throws a SkillError after two seconds at most. */
  ping(): Promise<void>;
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
/** A worker has to return within its lease when the server is back. */
const MAX_PAUSE_MS = 400;
/** The last attempt to connect gets at least this time, so that a command fails after 4.5 seconds at most. */
const MIN_CONNECT_MS = 1000;

/**
 * The server ends connections to a client that is gone, and those of a frozen client in the middle of a transaction: their locks are free
 * again then. A transaction waits for nothing but its statements, and runs again when its connection was ended. No statement is compiled:
 * all are short.
 */
const SERVER_OPTIONS =
  "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c idle_in_transaction_session_timeout=3000 -c client_min_messages=warning -c jit=off";

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
  // DBOS listens to no errors of the connections that it takes: one that the server closes between two statements would end the process.
  pool.on("connect", (client) => client.on("error", () => {}));
  const persist = async <T>(work: ClientWork<T>, patienceMs: number): Promise<T> => {
    const end = performance.now() + patienceMs;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
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
    ping: () => persist(async (client) => void (await client.query(PING)), 0),
    close: () => pool.end(),
  };
}

/** The type of a statement lacks its time limit, which takes the place of that of the connection. */
const PING: QueryConfig & { query_timeout: number } = { text: "select 1", query_timeout: 1000 };

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
  } catch (error) {
    // A statement that timed out may still be running: the next one on this connection would wait for it.
    if (isTransient(error)) discard(new Error(getErrorMessage(error)));
    throw error;
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
  ...["57P01", "57P02", "57P03", "25P03", "08000", "08003", "08006", "40001", "40P01", "53300"],
]);
const TRANSIENT_TEXT =
  /terminated|timeout exceeded when trying to connect|timeout expired|read timeout|Connection ended|not queryable|connection error/i;

function isTransient(error: unknown): boolean {
  const { code } = Object(error) as { code?: unknown };
  return TRANSIENT_CODES.has(code) || (error instanceof Error && TRANSIENT_TEXT.test(error.message));
}

/** SQL states with a fix. All others are reported as they are. */
const NO_TABLES = { fix: "run as the owner of the database", commands: ["skillet engine init"] };
const SQL_STATES: Readonly<Record<string, Partial<Pick<Problem, "fix" | "commands">>>> = {
  "28P01": { fix: "check the user name and the password of the URL" },
  "28000": { fix: "check the user name of the URL, and that the server allows it to connect" },
  "3D000": { fix: "create the database, or fix its name in the URL" },
  "42501": { fix: "grant the role the rights of this list", commands: ["skillet engine init --print-sql"] },
  "3F000": NO_TABLES,
  "42P01": NO_TABLES,
  "42703": NO_TABLES,
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
    ...(SQL_STATES[code ?? ""] ?? { commands: ["skillet engine check"] }),
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

/** Encrypts the texts that a database stores, for all processes with the same key. */
export interface Sealer {
  /** Encrypts a text and authenticates `context` with it. Without a key, returns the text. */
  seal(context: string, text: string): string;
  /** Decrypts a text, and returns one that was stored without a key as it is. Throws a SkillError without the right key. */
  unseal(context: string, text: string): string;
  /** Returns a digest of a text. With a key, only its owners can compare it with a guess. */
  digest(text: string): string;
  /** Returns the proof that an owner of the key wrote a text. Undefined without a key. */
  prove?(text: string): string;
  /** True if there is a key. */
  readonly hasKey: boolean;
}

/** A shorter text is a password and not a key. */
const MIN_KEY_LENGTH = 32;

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The start of a sealed text, which no JSON text has. The name of its key follows. */
const MARK = "sealed-1 ";
const KEY_ID_LENGTH = 8;

/** True for a text that was stored with a key. */
export function isSealed(text: string): boolean {
  return text.startsWith(MARK);
}

/** Creates the sealer of a key: a text of at least 32 characters. Without one, texts stay as they are. Throws a SkillError for a short key. */
function createSealer(key?: string): Sealer {
  if (key === undefined) {
    return {
      hasKey: false,
      seal: (_, text) => text,
      unseal: (_, text) => (isSealed(text) ? throwSealed("no seal key is configured here") : text),
      digest: (text) => createHash("sha256").update(text).digest("hex"),
    };
  }
  if (key.length < MIN_KEY_LENGTH) throwSealed(`the seal key has ${key.length} characters, and at least 32 are needed`);
  const derive = (purpose: string) => Buffer.from(hkdfSync("sha256", key, "", `skillet ${purpose}`, 32));
  const box = derive("seal");
  const createDigest = (key: Buffer) => (text: string) => createHmac("sha256", key).update(text).digest("hex");
  const digest = createDigest(derive("digest"));
  // Identifies the key and reveals nothing of it, so that a wrong key and an edited text give different errors.
  const id = digest("skillet seal key").slice(0, KEY_ID_LENGTH);
  return {
    hasKey: true,
    digest,
    prove: createDigest(derive("proof")),
    seal(context, text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, box, nonce).setAAD(Buffer.from(context));
      const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
      return `${MARK}${id} ${sealed.toString("base64")}`;
    },
    unseal(context, text) {
      if (!isSealed(text)) return text;
      if (!text.startsWith(`${id} `, MARK.length)) throwSealed("it was sealed with another key");
      const bytes = Buffer.from(text.slice(MARK.length + KEY_ID_LENGTH), "base64");
      if (bytes.length < NONCE_BYTES + TAG_BYTES) throwSealed("it was edited in the database");
      const decipher = createDecipheriv(CIPHER, box, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
      decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
      } catch {
        throw new SkillError("engine-altered", {
          message: "Cannot read what the database stores: it was edited or moved since it was sealed",
          fix: "find out who writes to the database, and restore it from a backup",
        });
      }
    },
  };
}

function throwSealed(why: string): never {
  throw new SkillError("engine-sealed", {
    message: `Cannot read what the database stores: ${why}`,
    fix: "set engine.seal_key of config.toml to the key of the other machines",
  });
}
