import { randomUUID } from "node:crypto";
import { stringifyCanonical } from "../../capabilities/audit-log.ts";
import { matchesAccount, matchesOrigin } from "../../capabilities/credential-filter.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Credential, Vault, VaultEntry } from "../../host/capability-contract.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { type Database, type DatabaseRow, isSealed, type Sealer } from "./database.ts";

/**
 * Creates the vault in Postgres, which several machines share. Its boxes are encrypted with the seal key, which is not in the database: without
 * it, nothing is read and nothing is written. The cleartext fields of a box are authenticated with it.
 */
export function createPostgresVault(database: Database): Vault {
  const { sealer } = database;
  /** Throws a SkillError unless this machine has the key of the vault. The first use decides which one that is. */
  const requireKey = async () => {
    if (!sealer.hasKey) throw createKeylessError();
    await database.query({
      text: "insert into skillet.vault_key (box) values ($1) on conflict do nothing",
      values: [sealer.seal(KEY_CONTEXT, "skillet")],
    });
    const [row] = await database.query("select box from skillet.vault_key");
    openBox(sealer, KEY_CONTEXT, row);
  };
  const listRows = async (namespace?: string) => {
    const text = "select * from skillet.credentials where $1::text is null or namespace = $1 order by at, seq";
    return (await database.query({ text, values: [namespace ?? null] })).map((row) => ({ row, entry: toEntry(row) }));
  };
  const find = async (namespace: string, { user, account, origin }: Parameters<Vault["get"]>[1]) =>
    (await listRows(namespace)).findLast(
      ({ entry }) => matchesAccount(entry, namespace, { user, account }) && matchesOrigin(entry, origin),
    );
  const open = ({ row, entry }: { row: DatabaseRow; entry: VaultEntry }): Credential => {
    const secret = JSON.parse(openBox(sealer, toCredentialContext(entry), row)) as JsonObject;
    const { account, scopes, expiresAt } = entry;
    return { account, secret, scopes, ...omitUndefined({ expiresAt }) };
  };
  const findPending = async (id: string) => {
    const text = "select * from skillet.pending where id = $1 and expires_at > now()";
    const [row] = await database.query({ text, values: [id] });
    return row;
  };
  const openPending = (id: string, row: DatabaseRow | undefined): JsonObject | undefined => {
    return row && JSON.parse(openBox(sealer, toPendingContext(id), row));
  };
  const put = async (id: string, value: JsonObject, seconds: number, isReplaced: boolean): Promise<boolean> => {
    await requireKey();
    const owner = randomUUID();
    await database.query("delete from skillet.pending where expires_at <= now()");
    const rows = await database.query({
      text: `insert into skillet.pending as p (id, expires_at, box, owner) values ($1, now() + make_interval(secs => $2), $3, $4)
        on conflict (id) do update set expires_at = excluded.expires_at, box = excluded.box, owner = excluded.owner
        where $5 or p.expires_at <= now() or p.owner = excluded.owner returning 1`,
      values: [id, seconds, sealer.seal(toPendingContext(id), JSON.stringify(value)), owner, isReplaced],
    });
    return rows.length > 0;
  };
  return {
    list: async () => (await listRows()).map(({ entry }) => entry),
    async get(namespace, of) {
      const found = await find(namespace, of);
      return found && open(found);
    },
    async set(namespace, user, { account, secret, scopes = [], expiresAt }, { origin, isRenewed } = {}) {
      await requireKey();
      const before = isRenewed ? await find(namespace, { user, account, origin }) : undefined;
      const at = before?.entry.at ?? new Date().toISOString();
      const more = omitUndefined({ expiresAt, origin });
      const entry: VaultEntry = { namespace, account, user, scopes: [...scopes], at, ...more };
      await database.query({
        text: `insert into skillet.credentials (namespace, account, person, origin, scopes, at, expires_at, box)
          values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (namespace, account, person, origin) do update set
          scopes = excluded.scopes, at = excluded.at, expires_at = excluded.expires_at, box = excluded.box`,
        values: [
          ...[namespace, account, user, origin ?? "", entry.scopes, at, expiresAt ?? null],
          sealer.seal(toCredentialContext(entry), JSON.stringify(secret)),
        ],
      });
    },
    async remove(namespace, { user, account } = {}) {
      const rows = await database.query({
        text: `delete from skillet.credentials where namespace = $1 and ($2::text is null or person = $2)
          and ($3::text is null or account = $3) returning 1`,
        values: [namespace, user ?? null, account ?? null],
      });
      return rows.length;
    },
    put: async (id, value, seconds) => void (await put(id, value, seconds, true)),
    putIfAbsent: (id, value, seconds) => put(id, value, seconds, false),
    peek: async (id) => openPending(id, await findPending(id)),
    async take(id) {
      if (!sealer.hasKey) throw createKeylessError();
      // Opened first: with the wrong key, the sign-in stays for a machine with the right one.
      const row = await findPending(id);
      const value = openPending(id, row);
      const text = "delete from skillet.pending where id = $1 and owner = $2 returning 1";
      const taken = row && (await database.query({ text, values: [id, row["owner"]] }));
      return taken?.length === 1 ? value : undefined;
    },
    async beginRenewal(namespace, of, seconds) {
      const found = await find(namespace, of);
      if (!found) return undefined;
      const { account, user, origin = "" } = found.entry;
      const key = [namespace, account, user, origin];
      const renewer = randomUUID();
      for (;;) {
        // A renewer that is gone loses its turn after this time.
        const [row] = await database.query({
          text: `update skillet.credentials set renewer = $5, renews_until = now() + make_interval(secs => $6)
            where namespace = $1 and account = $2 and person = $3 and origin = $4
              and (renews_until is null or renews_until < now() or renewer = $5) returning *`,
          values: [...key, renewer, seconds],
        });
        if (row) {
          const end = async () => {
            const text = "update skillet.credentials set renewer = null, renews_until = null where renewer = $1";
            await database.query({ text, values: [renewer] });
          };
          return { credential: open({ row, entry: toEntry(row) }), end };
        }
        if (!(await find(namespace, of))) return undefined;
        await new Promise((resolve) => setTimeout(resolve, RENEWAL_POLL_MS));
      }
    },
  };
}

const RENEWAL_POLL_MS = 100;

/** Decrypts the box of a row. The vault writes no text without a key, so one that is there was planted in the database. */
function openBox(sealer: Sealer, context: string, row: DatabaseRow | undefined): string {
  if (!sealer.hasKey) throw createKeylessError();
  const box = String(row?.["box"]);
  if (!isSealed(box)) throw createPlantedError();
  return sealer.unseal(context, box);
}

const KEY_CONTEXT = "vault key";

function toEntry(row: DatabaseRow): VaultEntry {
  const text = (name: string) => String(row[name]);
  return {
    ...{ namespace: text("namespace"), account: text("account"), user: text("person") },
    ...{ scopes: row["scopes"] as string[], at: text("at") },
    ...(row["expires_at"] === null ? {} : { expiresAt: text("expires_at") }),
    ...(row["origin"] === "" ? {} : { origin: text("origin") }),
  };
}

/** A box opens only with the fields that it was sealed with: none of them can be edited in the database. */
function toCredentialContext(entry: VaultEntry): string {
  return stringifyCanonical({ kind: "credential", ...entry });
}

function toPendingContext(id: string): string {
  return stringifyCanonical({ kind: "pending", id });
}

function createKeylessError(): SkillError {
  return new SkillError("engine-sealed", {
    message: "The credentials of all machines are encrypted in the database, and no seal key is configured here",
    fix: "set engine.seal_key of config.toml to the key of the other machines, or to a new one of at least 32 characters",
  });
}

function createPlantedError(): SkillError {
  return new SkillError("engine-sealed", {
    message: "Cannot read what the database stores: a credential is not encrypted, so another program wrote it",
    fix: "find out who writes to the database, delete the row, then sign in again",
  });
}
