import { deepEqual, equal, notEqual } from "node:assert/strict";
import { chainAuditEntry, GENESIS_HASH, stringifyCanonical, verifyAudit } from "../capabilities/audit-log.ts";
import { matchesAccount, matchesOrigin } from "../capabilities/credential-filter.ts";
import { SkillError } from "../errors/problem.ts";
import type { Audit, AuditEntry, AuditLine, Credential, Vault, VaultEntry } from "../host/capability-contract.ts";
import { createJournal, formatJournalLine, type Journal, type JournalLine, parseJournal } from "../store/journal.ts";
import {
  createAnswerLine,
  createBusyError,
  createCancelLine,
  createFirstLines,
  createLeaseLostError,
  createUnknownRunError,
  findExpiredRuns,
  findRun,
  isRunId,
  type RunOwner,
  type RunSummary,
  requireResumable,
  sortRuns,
  summarizeRun,
} from "../store/run-rules.ts";
import type { RunStore } from "../store/runs.ts";
import { type JsonObject, omitUndefined } from "../util/objects.ts";
import { compareText } from "../util/text.ts";
import { type ContractCase, type ContractStorage, type CreateStorage, createContractCases } from "./contract.ts";

/** The storage of a memory audit log: its lines as text, and the last one that was written. */
export interface MemoryAudit {
  lines: string[];
  head?: { seq: number; hash: string };
}

/** Creates an audit log that keeps everything in memory. `stored` is its storage: logs that share it are one. */
export function createMemoryAudit(stored: MemoryAudit = { lines: [] }): Audit {
  return {
    async add(entry) {
      const line = chainAuditEntry(entry, new Date().toISOString(), stored.head ?? { seq: 0, hash: GENESIS_HASH });
      stored.lines.push(stringifyCanonical(line));
      stored.head = { seq: line.seq, hash: line.hash };
      return line;
    },
    async *read() {
      for (const text of [...stored.lines]) yield JSON.parse(text) as AuditLine;
    },
    async verify() {
      const lines = stored.lines.map((text, index) => ({ number: index + 1, text }));
      return verifyAudit({ lines, exists: stored.lines.length > 0, head: stored.head });
    },
  };
}

/** A storage of audit lines that a test can edit, as an attacker would. */
export interface AuditStorage extends ContractStorage<Audit> {
  /** Replaces the lines of the log, in canonical JSON, and nothing else. */
  edit(change: (lines: readonly string[]) => readonly string[]): void | Promise<void>;
}

/** Returns the contract of an audit log as test cases. */
export function testAudit(create: () => AuditStorage | Promise<AuditStorage>): ContractCase[] {
  const fill = async (audit: Audit, count = 4) => {
    for (let number = 1; number <= count; number++) await audit.add({ ...ENTRY, ms: number });
  };
  return createContractCases<Audit, AuditStorage>(
    {
      "is empty and whole at first": async (open) => {
        const audit = await open();
        deepEqual(await readAll(audit), []);
        deepEqual(await audit.verify(), { isWhole: true, lines: 0, head: GENESIS_HASH });
      },
      "returns what it stored, oldest first, also to another process": async (open) => {
        const audit = await open();
        const lines = [await audit.add(ENTRY), await audit.add({ ...ENTRY, outcome: "denied" })];
        deepEqual(await readAll(await open()), lines);
        deepEqual(
          lines.map(({ seq, outcome }) => [seq, outcome]),
          [
            [1, "ok"],
            [2, "denied"],
          ],
        );
      },
      "chains each line to the one before it": async (open) => {
        const audit = await open();
        await fill(audit);
        const lines = await readAll(audit);
        deepEqual(
          lines.map(({ prev }) => prev),
          [GENESIS_HASH, ...lines.slice(0, -1).map(({ hash }) => hash)],
        );
        deepEqual(await audit.verify(), { isWhole: true, lines: 4, head: lines.at(-1)?.hash });
      },
      "keeps one chain if two processes write at once": async (open) => {
        const audits = [await open(), await open()];
        await Promise.all(Array.from({ length: 20 }, (_, index) => audits[index % 2]?.add({ ...ENTRY, ms: index })));
        const verdict = await (await open()).verify();
        deepEqual([verdict.isWhole, verdict.lines], [true, 20]);
      },
      "stores the fields of an entry and no other": async (open) => {
        const audit = await open();
        const line = await audit.add({ ...ENTRY, token: "secret" } as AuditEntry);
        equal("token" in line, false);
        equal(JSON.stringify(await readAll(audit)).includes("secret"), false);
      },
      ...Object.fromEntries(
        Object.entries(EDITS).map(([what, change]) => [
          `detects ${what}`,
          async (open: () => Promise<Audit>, storage: AuditStorage) => {
            await fill(await open());
            await storage.edit(change);
            equal((await (await open()).verify()).isWhole, false);
          },
        ]),
      ),
      "detects lines that were removed at the end after it wrote another one": async (open, storage) => {
        await fill(await open());
        await storage.edit((lines) => lines.slice(0, 2));
        await (await open()).add(ENTRY);
        equal((await (await open()).verify()).isWhole, false);
      },
    },
    create,
  );
}

const ENTRY: AuditEntry = { run: "run-1", skill: "mail", source: "user", method: "invoke", outcome: "ok" };

const EDITS: Readonly<Record<string, (lines: readonly string[]) => readonly string[]>> = {
  "an edited line": (lines) => lines.map((line, index) => (index === 1 ? line.replace('"ok"', '"no"') : line)),
  "a removed line": (lines) => lines.filter((_, index) => index !== 1),
  "a repeated line": (lines) => [...lines.slice(0, 2), ...lines.slice(1)],
  "lines in another order": ([one = "", two = "", ...more]) => [two, one, ...more],
  "a removed line at the end": (lines) => lines.slice(0, -1),
  "a foreign line": (lines) => [...lines, "{}"],
};

async function readAll(audit: Audit): Promise<AuditLine[]> {
  const lines: AuditLine[] = [];
  for await (const line of audit.read()) lines.push(line);
  return lines;
}

/** The storage of a memory vault. Its secrets are not encrypted. */
export interface MemoryVault {
  credentials: (VaultEntry & { secret: JsonObject })[];
  pending: Map<string, { value: JsonObject; expiresAt: number }>;
}

/** Creates a vault that keeps everything in memory, unencrypted. `stored` is its storage: vaults that share it are one. */
export function createMemoryVault(stored: MemoryVault = { credentials: [], pending: new Map() }): Vault {
  const findPending = (id: string) => {
    const found = stored.pending.get(id);
    return found && found.expiresAt > Date.now() ? found.value : undefined;
  };
  const put = (id: string, value: JsonObject, seconds: number) =>
    void stored.pending.set(id, { value: structuredClone(value), expiresAt: Date.now() + seconds * 1000 });
  return {
    list: async () => stored.credentials.map(({ secret: _, ...entry }) => structuredClone(entry)),
    async get(namespace, { user, account, origin }) {
      const entry = stored.credentials
        .filter((one) => matchesAccount(one, namespace, { user, account }) && matchesOrigin(one, origin))
        .reduce<MemoryVault["credentials"][number] | undefined>(
          (last, one) => (last && last.at > one.at ? last : one),
          undefined,
        );
      if (!entry) return undefined;
      const { secret, scopes, expiresAt } = structuredClone(entry);
      return { account: entry.account, secret, scopes, ...omitUndefined({ expiresAt }) };
    },
    async set(namespace, user, { account, secret, scopes = [], expiresAt }, { origin, isRenewed } = {}) {
      const isBefore = (one: VaultEntry) =>
        matchesAccount(one, namespace, { user, account }) && matchesOrigin(one, origin);
      const before = isRenewed ? stored.credentials.find(isBefore) : undefined;
      const at = before?.at ?? new Date().toISOString();
      const entry = { namespace, account, user, scopes: [...scopes], at, ...omitUndefined({ expiresAt, origin }) };
      stored.credentials = stored.credentials.filter((one) => !isBefore(one));
      stored.credentials.push({ ...entry, secret: structuredClone(secret) });
    },
    async remove(namespace, of = {}) {
      const before = stored.credentials.length;
      stored.credentials = stored.credentials.filter((one) => !matchesAccount(one, namespace, of));
      return before - stored.credentials.length;
    },
    put: async (id, value, seconds) => put(id, value, seconds),
    async putIfAbsent(id, value, seconds) {
      if (findPending(id)) return false;
      put(id, value, seconds);
      return true;
    },
    peek: async (id) => structuredClone(findPending(id)),
    async take(id) {
      const value = findPending(id);
      stored.pending.delete(id);
      return value;
    },
  };
}

/** Returns the contract of a vault as test cases. */
export function testVault(create: CreateStorage<Vault>): ContractCase[] {
  const ada: Credential = { account: "ada@example.com", secret: { token: "t-1" }, scopes: ["read"] };
  const bob: Credential = { account: "bob@example.com", secret: { token: "t-2" } };
  return createContractCases<Vault>(
    {
      "has no credential at first": async (open) => {
        const vault = await open();
        deepEqual(await vault.list(), []);
        equal(await vault.get("mail", { user: "" }), undefined);
        equal(await vault.remove("mail"), 0);
      },
      "returns a credential to another process, and lists it without its secret": async (open) => {
        await (await open()).set("mail", "", { ...ada, expiresAt: "2030-01-01T00:00:00.000Z" });
        const vault = await open();
        deepEqual(await vault.get("mail", { user: "" }), { ...ada, expiresAt: "2030-01-01T00:00:00.000Z" });
        const [entry, ...others] = await vault.list();
        deepEqual(others, []);
        deepEqual([entry?.namespace, entry?.account, entry?.user, entry?.scopes], ["mail", ada.account, "", ["read"]]);
        equal(JSON.stringify(entry).includes("t-1"), false);
      },
      "tells namespaces, users and accounts apart": async (open) => {
        const vault = await open();
        await vault.set("mail", "u1", ada);
        await vault.set("mail", "u1", bob);
        equal((await vault.get("mail", { user: "u1", account: ada.account }))?.secret["token"], "t-1");
        equal((await vault.get("mail", { user: "u1", account: bob.account }))?.secret["token"], "t-2");
        equal(await vault.get("mail", { user: "u2" }), undefined);
        equal(await vault.get("notes", { user: "u1" }), undefined);
        equal(await vault.get("mail", { user: "u1", account: "eve@example.com" }), undefined);
      },
      "passes a credential only to the origin that it is for": async (open) => {
        const vault = await open();
        await vault.set("mail", "", ada, { origin: "https://mail.example" });
        equal(await vault.get("mail", { user: "", origin: "https://other.example" }), undefined);
        equal(await vault.get("mail", { user: "" }), undefined);
        equal((await vault.get("mail", { user: "", origin: "https://mail.example" }))?.account, ada.account);
      },
      "replaces a credential, and keeps the creation time of a renewed one": async (open) => {
        const vault = await open();
        await vault.set("mail", "", ada);
        const [before] = await vault.list();
        while (new Date().toISOString() <= (before?.at ?? "")) await new Promise(setImmediate); // For another time.
        await vault.set("mail", "", { ...ada, secret: { token: "t-3" } }, { isRenewed: true });
        equal((await vault.get("mail", { user: "" }))?.secret["token"], "t-3");
        deepEqual(
          (await vault.list()).map(({ at }) => at),
          [before?.at],
        );
      },
      "removes what matches, and returns its number": async (open) => {
        const vault = await open();
        await vault.set("mail", "u1", ada);
        await vault.set("mail", "u2", ada);
        await vault.set("notes", "u1", bob);
        equal(await vault.remove("mail", { user: "u1" }), 1);
        equal(await vault.get("mail", { user: "u1" }), undefined);
        notEqual(await vault.get("mail", { user: "u2" }), undefined);
        equal(await vault.remove("notes"), 1);
      },
      "gives the state of a sign-in once": async (open) => {
        await (await open()).put("flow", { verifier: "v" }, 60);
        const vault = await open();
        deepEqual(await vault.peek("flow"), { verifier: "v" });
        deepEqual(await vault.take("flow"), { verifier: "v" });
        equal(await vault.take("flow"), undefined);
        equal(await vault.peek("flow"), undefined);
      },
      "forgets the state of a sign-in that expired": async (open) => {
        const vault = await open();
        await vault.put("flow", { verifier: "v" }, -1);
        equal(await vault.peek("flow"), undefined);
        equal(await vault.take("flow"), undefined);
      },
      "stores one of several states that are put at once": async (open) => {
        const vaults = [await open(), await open()];
        const stored = await Promise.all(
          Array.from({ length: 6 }, (_, number) => vaults[number % 2]?.putIfAbsent("flow", { number }, 60)),
        );
        equal(stored.filter(Boolean).length, 1);
        deepEqual(await (await open()).take("flow"), { number: stored.indexOf(true) });
      },
      "returns copies": async (open) => {
        const vault = await open();
        const credential = { ...ada, secret: { token: "t-1" } };
        await vault.set("mail", "", credential);
        credential.secret.token = "changed";
        const read = await vault.get("mail", { user: "" });
        if (read) read.secret["token"] = "changed";
        equal((await vault.get("mail", { user: "" }))?.secret["token"], "t-1");
      },
    },
    create,
  );
}

/** A run in memory: its journal, and the lease of its owner. */
export interface MemoryRun {
  /** The journal as it would be in a file. */
  text: string;
  lease?: { owner: RunOwner /** In milliseconds since 1970. */; expiresAt: number };
}

/** A lease is renewed by each call of a journal. A run looks for a cancellation twice a second. */
const LEASE_MS = 30_000;

/** Creates a store that keeps runs in memory. `stored` is its storage: stores that share it are one. */
export function createMemoryRunStore(stored: Map<string, MemoryRun> = new Map()): RunStore {
  const known = (id: string): MemoryRun => {
    const run = stored.get(id);
    if (run) return run;
    throw createUnknownRunError(id);
  };
  const getOwner = ({ lease }: MemoryRun) => (lease && lease.expiresAt > Date.now() ? lease.owner : undefined);
  const summarize = (run: MemoryRun, owner = getOwner(run)): RunSummary => {
    const { lines, wholeBytes } = parseJournal(Buffer.from(run.text));
    const [head] = lines;
    if (head?.type !== "run") throw new TypeError("The first line of a journal is its head");
    return summarizeRun({ head, lines, owner, bytes: wholeBytes });
  };
  const summaries = (ids: readonly string[]) =>
    sortRuns(ids.flatMap((id) => stored.get(id) ?? []).map((run) => summarize(run)));
  const listIds = () => [...stored.keys()].sort((a, b) => compareText(b, a));
  const append = (run: MemoryRun, line: JournalLine) => {
    run.text += formatJournalLine(line);
  };
  const take = async (id: string): Promise<Journal> => {
    const run = known(id);
    const held = getOwner(run);
    if (held) throw createBusyError(id, held);
    requireResumable(summarize(run, undefined));
    const owner = { id: crypto.randomUUID(), label: `process ${process.pid}` };
    const renew = () => {
      run.lease = { owner, expiresAt: Date.now() + LEASE_MS };
    };
    renew();
    const requireLease = () => {
      if (stored.get(id) !== run || run.lease?.owner.id !== owner.id) throw createLeaseLostError(id);
      renew();
    };
    const { lines } = parseJournal(Buffer.from(run.text));
    const [head] = lines;
    if (head?.type !== "run") throw new TypeError("The first line of a journal is its head");
    let read = run.text.length;
    return createJournal({
      ...{ head, lines },
      log: {
        async append(line) {
          requireLease();
          append(run, line);
        },
        async readAdded() {
          requireLease();
          const added = parseJournal(Buffer.from(run.text.slice(read))).lines;
          read = run.text.length;
          return added;
        },
        async close() {
          if (run.lease?.owner.id === owner.id) delete run.lease;
        },
      },
    });
  };
  return {
    async create(run) {
      const { id } = run.head;
      if (!isRunId(id) || stored.has(id)) throw createTakenIdError(id);
      stored.set(id, { text: createFirstLines(run).map(formatJournalLine).join("") });
      return take(id);
    },
    resume: take,
    list: async () => summaries(listIds()),
    find: async (written) => findRun(written, listIds(), summaries),
    read: async (id) => parseJournal(Buffer.from(known(id).text)),
    async answer(id, approval, about) {
      const run = known(id);
      const line = createAnswerLine(summarize(run), () => parseJournal(Buffer.from(run.text)).lines, approval, about);
      append(run, line);
      return line.approvalRequest;
    },
    async cancel(id) {
      const run = known(id);
      append(run, createCancelLine(summarize(run)));
    },
    async prune(keep, { isTrial = false } = {}) {
      const expired = findExpiredRuns(summaries(listIds()), keep);
      if (!isTrial) for (const { id } of expired) stored.delete(id);
      return expired;
    },
  };
}

function createTakenIdError(id: string): SkillError {
  return new SkillError("journal-unwritable", {
    message: `Run ${id} cannot be created: its id is taken or not valid`,
    fix: "use a new id",
  });
}
