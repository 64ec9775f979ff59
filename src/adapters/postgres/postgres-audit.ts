import { randomUUID } from "node:crypto";
import { chainAuditEntry, stringifyCanonical, verifyAudit } from "../../capabilities/audit-log.ts";
import type { Audit, AuditEntry, AuditLine } from "../../host/capability-contract.ts";
import type { Database, Transaction } from "./database.ts";

interface NewEntry {
  /** Differs for each entry: a transaction that is repeated writes it once. */
  key: string;
  entry: AuditEntry;
}

/**
 * Creates the audit log in Postgres: one chain for all machines. Its head is a row of its own, which each writer locks. The entries of this
 * process that come while a transaction is at work are written with the next one, so that a busy log needs one connection.
 */
export function createPostgresAudit(database: Database): Audit {
  let next: { entries: NewEntry[]; lines: Promise<ReadonlyMap<string, AuditLine>> } | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const start = () => {
    const entries: NewEntry[] = [];
    const write = async () => {
      await last.catch(() => {});
      next = undefined;
      return database.transaction((transaction) => writeEntries(transaction, entries));
    };
    const lines = write();
    last = lines;
    return { entries, lines };
  };
  return {
    async add(entry) {
      const key = randomUUID();
      next ??= start();
      next.entries.push({ key, entry });
      return (await next.lines).get(key) as AuditLine;
    },
    async *read() {
      for await (const { text } of readLines(database)) yield JSON.parse(text) as AuditLine;
    },
    async verify() {
      const head = await readHead(database);
      const read: StoredLine[] = [];
      for await (const line of readLines(database)) read.push(line);
      // Writers do not wait for this: lines that they added meanwhile are left out.
      const { seq: end } = await readHead(database);
      const lines = read
        .filter(({ seq }) => seq <= head.seq || seq > end)
        .map(({ text }, index) => ({ number: index + 1, text }));
      return verifyAudit({ lines, exists: true, head: head.seq === 0 ? undefined : head });
    },
  };
}

interface AuditHead {
  seq: number;
  hash: string;
}

async function readHead({ query }: Pick<Transaction, "query">, lock = ""): Promise<AuditHead> {
  const [row] = await query(`select seq, hash from skillet.audit_head ${lock}`);
  return { seq: Number(row?.["seq"]), hash: String(row?.["hash"]) };
}

/** Adds entries to the chain. Returns their lines by key. */
async function writeEntries(
  { query }: Transaction,
  entries: readonly NewEntry[],
): Promise<ReadonlyMap<string, AuditLine>> {
  let head = await readHead({ query }, "for update");
  const keys = entries.map(({ key }) => key);
  const known = await query({ text: "select key, line from skillet.audit where key = any($1)", values: [keys] });
  const lines = new Map(known.map(({ key, line }) => [String(key), JSON.parse(String(line)) as AuditLine]));
  if (lines.size > 0) return lines; // The answer to the first attempt was lost: all of them were written.
  for (const { key, entry } of entries) {
    const line = chainAuditEntry(entry, new Date().toISOString(), head);
    head = line;
    lines.set(key, line);
  }
  const added = [...lines.values()];
  await query({
    text: "insert into skillet.audit (seq, key, line) select * from unnest($1::bigint[], $2::uuid[], $3::text[])",
    values: [added.map(({ seq }) => seq), keys, added.map(stringifyCanonical)],
  });
  await query({ text: "update skillet.audit_head set seq = $1, hash = $2", values: [head.seq, head.hash] });
  return lines;
}

const PAGE = 5000;

interface StoredLine {
  seq: number;
  text: string;
}

/** Reads the lines in pages, so that no statement takes long. */
async function* readLines(database: Database): AsyncGenerator<StoredLine> {
  for (let after = 0; ; ) {
    const rows = await database.query({
      text: "select seq, line from skillet.audit where seq > $1 order by seq limit $2",
      values: [after, PAGE],
    });
    for (const { seq, line } of rows) {
      after = Number(seq);
      yield { seq: after, text: String(line) };
    }
    if (rows.length < PAGE) return;
  }
}
