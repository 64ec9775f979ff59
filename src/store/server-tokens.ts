import { randomBytes, timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { hashSecret } from "../util/http.ts";
import { isJsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";

/**
 * What a client may do on a server. `list`: see which skills exist. `load`: read instructions and files. `run`: run scripts and tools of
 * skills. `use`: hand tasks to sub-agents. `approve`: answer requests for approval. `metrics`: read the metrics of the server.
 */
export const SERVER_SCOPES = ["list", "load", "run", "use", "approve", "metrics"] as const;
export type ServerScope = (typeof SERVER_SCOPES)[number];

/** The scopes of a new token: all that a client of a person needs. */
export const DEFAULT_SERVER_SCOPES: readonly ServerScope[] = ["list", "load", "run", "use", "approve"];

/** A token of a person, without its secret. */
export interface PersonToken {
  /** Names the token in logs and commands. */
  id: string;
  person: string;
  scopes: readonly ServerScope[];
  /** ISO 8601. */
  createdAt: string;
  /** ISO 8601. A token without it does not expire. */
  expiresAt?: string;
}

export interface NewPersonToken {
  person: string;
  scopes?: readonly ServerScope[];
  expiresAt?: Date;
}

/** A token as lists show it. */
export interface ListedToken extends PersonToken {
  isValid: boolean;
  /** The file or the database that has it. */
  storedIn: string;
}

/** The tokens of people who may call servers. Only hashes are stored. */
export interface ServerTokenStore {
  /** The file, or the database without user and password. */
  readonly place: string;
  /** Creates a token. Its text is returned here and never again. Throws a SkillError for an invalid name or scope. */
  create(token: NewPersonToken): Promise<{ token: PersonToken; text: string }>;
  /** Finds the token with this text. Contract: returns undefined for a token that has expired or was revoked. */
  find(text: string): Promise<PersonToken | undefined>;
  /** Returns true while a token exists and has not expired, as far as this process has read. */
  isValid(id: string): boolean;
  list(): Promise<readonly ListedToken[]>;
  /** Reads what other processes changed, so that a revocation by one of them counts from now on. */
  refresh(): Promise<void>;
  /** Revokes the token with this id, or all tokens of this person. Returns the revoked ones. */
  revoke(idOrPerson: string): Promise<readonly PersonToken[]>;
  /** Returns the reason why no token counts: the file cannot be read. */
  problem(): string | undefined;
}

export interface StoredToken extends Omit<PersonToken, "id"> {
  /** SHA-256 of the secret part. The secret has 256 random bits, so a slow hash would add nothing. */
  hash: string;
}

/** Creates the store of tokens below skillet's home. A change of another process is seen within 50 ms. */
export function createServerTokenStore(
  skilletHome: string,
  { now = () => Date.now() }: { now?: () => number } = {},
): ServerTokenStore {
  const ledger = createJsonStore({
    file: join(skilletHome, SERVER_TOKENS_FILE),
    collection: "tokens",
    isEntry: isStoredToken,
    unreadable: { code: "tokens-unreadable", fix: "fix the file, or remove it: then no token of a person counts" },
  });
  return {
    place: ledger.file,
    async create(wanted) {
      requireNewToken(wanted);
      return ledger.update((tokens) => {
        let created = createToken(wanted, now());
        while (Object.hasOwn(tokens, created.token.id)) created = createToken(wanted, now());
        tokens[created.token.id] = created.stored;
        return created;
      });
    },
    // A token that was created a moment ago is valid.
    find: (text) =>
      findToken(text, now(), async (id) => ledger.entries()[id] ?? ledger.entries({ isCurrent: true })[id]),
    isValid(id) {
      const stored = ledger.entries()[id];
      return stored !== undefined && isLiveToken(stored, now());
    },
    refresh: async () => void ledger.entries({ isCurrent: true }),
    list: async () =>
      Object.entries(ledger.entries()).map(([id, stored]) => toListedToken(id, stored, ledger.file, now())),
    revoke: async (idOrPerson) =>
      ledger.update((tokens) => {
        const revoked = Object.entries(tokens).filter(([id, { person }]) => id === idOrPerson || person === idOrPerson);
        for (const [id] of revoked) delete tokens[id];
        return revoked.map(([id, stored]) => toPersonToken(id, stored));
      }),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read: ${problem}`;
    },
  };
}

/** Joins two stores: tokens of both count, and new ones are created in the first. */
export function joinTokenStores(first: ServerTokenStore, second: ServerTokenStore): ServerTokenStore {
  const both = [first, second];
  return {
    place: first.place,
    create: (wanted) => first.create(wanted),
    find: async (text) => (await first.find(text)) ?? second.find(text),
    isValid: (id) => both.some((store) => store.isValid(id)),
    refresh: async () => void (await Promise.all(both.map((store) => store.refresh()))),
    list: async () => (await Promise.all(both.map((store) => store.list()))).flat(),
    revoke: async (idOrPerson) => (await Promise.all(both.map((store) => store.revoke(idOrPerson)))).flat(),
    problem: () => both.map((store) => store.problem()).find(Boolean),
  };
}

/** Throws a SkillError for an invalid name or scope. */
export function requireNewToken({ person, scopes = DEFAULT_SERVER_SCOPES }: NewPersonToken): void {
  requirePersonName(person);
  for (const scope of scopes) requireScope(scope);
}

/** A new token. `text` contains the secret, of which only `stored.hash` is kept. */
interface CreatedToken {
  token: PersonToken;
  stored: StoredToken;
  text: string;
}

/** Creates a token with a random id and secret. */
export function createToken(
  { person, scopes = DEFAULT_SERVER_SCOPES, expiresAt }: NewPersonToken,
  now: number,
): CreatedToken {
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  const id = randomBytes(ID_BYTES).toString("hex");
  const stored: StoredToken = {
    person,
    scopes: SERVER_SCOPES.filter((scope) => scopes.includes(scope)),
    createdAt: new Date(now).toISOString(),
    ...(expiresAt === undefined ? {} : { expiresAt: expiresAt.toISOString() }),
    hash: hashSecret(secret).toString("hex"),
  };
  return { token: toPersonToken(id, stored), stored, text: `${TOKEN_PREFIX}${id}_${secret}` };
}

/** Finds the token with this text. An unknown id takes the same time as a wrong secret. */
export async function findToken(
  text: string,
  now: number,
  read: (id: string) => Promise<StoredToken | undefined>,
): Promise<PersonToken | undefined> {
  const [, id, secret = ""] = TOKEN_PATTERN.exec(text) ?? [];
  const stored = id === undefined ? undefined : await read(id);
  const isSame = timingSafeEqual(hashSecret(secret), Buffer.from(stored?.hash ?? NO_HASH, "hex"));
  return id !== undefined && stored && isSame && isLiveToken(stored, now) ? toPersonToken(id, stored) : undefined;
}

export function isLiveToken({ expiresAt }: Pick<PersonToken, "expiresAt">, now: number): boolean {
  return expiresAt === undefined || Date.parse(expiresAt) > now;
}

export const SERVER_TOKENS_FILE = "server-tokens.json";
const TOKEN_PREFIX = "skt_";
const TOKEN_PATTERN = /^skt_([0-9a-f]{12})_([\w-]{43})$/;
const ID_BYTES = 6;
const SECRET_BYTES = 32;
const NO_HASH = "0".repeat(64);

export function toPersonToken(id: string, { hash: _, ...token }: StoredToken): PersonToken {
  return { id, ...token };
}

export function toListedToken(id: string, stored: StoredToken, storedIn: string, now: number): ListedToken {
  return { ...toPersonToken(id, stored), isValid: isLiveToken(stored, now), storedIn };
}

/** Returns true for text with the form of a person's token. */
export function isServerTokenText(text: string): boolean {
  return TOKEN_PATTERN.test(text);
}

/** Names appear in logs, headers and file names. */
const PERSON_NAME = /^[A-Za-z0-9][\w.@+-]{0,127}$/;

/** Returns true for text that can name a person. */
export function isPersonName(text: string): boolean {
  return PERSON_NAME.test(text);
}

function requirePersonName(person: string): void {
  if (isPersonName(person)) return;
  throw new SkillError("usage", {
    message: `"${truncateLine(person, 40)}" cannot name a person`,
    fix: "use up to 128 letters, digits and . _ @ + -, for example ada or ada@example.com",
  });
}

function requireScope(scope: string): void {
  if ((SERVER_SCOPES as readonly string[]).includes(scope)) return;
  throw new SkillError("usage", {
    message: `Unknown scope "${truncateLine(scope, 40)}"`,
    fix: `scopes: ${SERVER_SCOPES.join(", ")}`,
  });
}

export function isStoredToken(entry: unknown): entry is StoredToken {
  if (!isJsonObject(entry) || !Array.isArray(entry["scopes"])) return false;
  const { person, createdAt, hash, expiresAt, scopes } = entry;
  return (
    typeof person === "string" &&
    typeof createdAt === "string" &&
    typeof hash === "string" &&
    /^[0-9a-f]{64}$/.test(hash) &&
    (expiresAt === undefined || (typeof expiresAt === "string" && !Number.isNaN(Date.parse(expiresAt)))) &&
    scopes.every((scope) => typeof scope === "string")
  );
}
