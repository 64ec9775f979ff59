import {
  createToken,
  findToken,
  isLiveToken,
  isStoredToken,
  requireNewToken,
  type ServerTokenStore,
  type StoredToken,
  toListedToken,
  toPersonToken,
} from "../../store/server-tokens.ts";
import type { Database, DatabaseRow, Sealer } from "./database.ts";

/**
 * Creates the store of server tokens in Postgres, which several servers share. `find` asks the database only for an unknown token; a server
 * calls `refresh` every second, so that a revocation counts soon. While the database is unavailable, the tokens that were read count.
 */
export function createPostgresTokenStore(database: Database, place: string): ServerTokenStore {
  const { sealer } = database;
  let known = new Map<string, StoredToken>();
  const read = async (where = "true", ...values: unknown[]): Promise<Map<string, StoredToken>> => {
    const rows = await database.query({ text: `${SELECT} where ${where} order by created_at, id`, values });
    return parseRows(sealer, rows);
  };
  const refresh = async () => {
    known = await read();
  };
  return {
    place,
    async create(wanted) {
      requireNewToken(wanted);
      const { token, stored, text } = createToken(wanted, Date.now());
      const { person, scopes, createdAt, expiresAt = null, hash } = stored;
      await database.query({
        text: `insert into skillet.server_tokens (id, person, scopes, created_at, expires_at, hash)
          values ($1, $2, $3, $4, $5, $6) on conflict (id) do nothing`,
        values: [token.id, person, scopes, createdAt, expiresAt, `${hash}${formatSeal(sealer, token.id, stored)}`],
      });
      return { token, text };
    },
    find: (text) =>
      findToken(text, Date.now(), async (id) => {
        for (const [one, stored] of known.has(id) ? [] : await read("id = $1", id)) known.set(one, stored);
        return known.get(id);
      }),
    isValid(id) {
      const stored = known.get(id);
      return stored !== undefined && isLiveToken(stored, Date.now());
    },
    refresh,
    async list() {
      await refresh();
      return [...known].map(([id, stored]) => toListedToken(id, stored, place, Date.now()));
    },
    async revoke(idOrPerson) {
      const text = `delete from skillet.server_tokens where id = $1 or person = $1 returning ${COLUMNS}`;
      const revoked = parseRows(sealer, await database.query({ text, values: [idOrPerson] }));
      for (const id of revoked.keys()) known.delete(id);
      return [...revoked].map(([id, stored]) => toPersonToken(id, stored));
    },
    problem: () => undefined,
  };
}

const COLUMNS = "id, person, scopes, created_at, expires_at, hash";
const SELECT = `select ${COLUMNS} from skillet.server_tokens`;

/** Formats the proof that an owner of the seal key created a token: without the key, none can be added or extended in the database. */
function formatSeal(
  sealer: Sealer,
  id: string,
  { person, scopes, createdAt, expiresAt = "", hash }: StoredToken,
): string {
  return sealer.hasKey
    ? ` ${sealer.digest(JSON.stringify(["token", id, person, scopes, createdAt, expiresAt, hash]))}`
    : "";
}

const HASH_LENGTH = 64;

/** Parses rows. One that skillet did not write, or another key sealed, is left out. */
function parseRows(sealer: Sealer, rows: readonly DatabaseRow[]): Map<string, StoredToken> {
  const tokens = new Map<string, StoredToken>();
  for (const { id, person, scopes, created_at: createdAt, expires_at: expiresAt, hash: sealed } of rows) {
    const [hash, seal] = [String(sealed).slice(0, HASH_LENGTH), String(sealed).slice(HASH_LENGTH)];
    const stored: unknown = { person, scopes, createdAt, hash, ...(expiresAt === null ? {} : { expiresAt }) };
    if (isStoredToken(stored) && (!sealer.hasKey || seal === formatSeal(sealer, String(id), stored)))
      tokens.set(String(id), stored);
  }
  return tokens;
}
