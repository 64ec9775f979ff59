import { createHash } from "node:crypto";
import { join } from "node:path";
import { type Ledger, openLedger } from "../../host/ledger.ts";
import { isData } from "../../skill/data.ts";
import type { UndoSpan } from "./text-span.ts";

/** The changes that `connect` made to one file of a client. */
export interface ConnectionRecord {
  /** The clients that the file was changed for: some share one. */
  clients: string[];
  /** Digest of the file before the first change; null if there was none. */
  before: string | null;
  /** Digest of the file after the last change. */
  after: string;
  /** Undoes the changes; in the order in which they were made. */
  undo: UndoSpan[];
  /** The file was created, whatever was written into it since. */
  isCreated: boolean;
  /** Objects and lists that were created to hold the entries, by their paths. */
  made: string[][];
  /** Folders that were created, the outermost first. */
  folders: string[];
}

/** Opens the record of changed files, by path. It is the user's own: no workspace can forge it. */
export function openConnections(skilletHome: string): Ledger<ConnectionRecord> {
  return openLedger({
    file: join(skilletHome, "connections.json"),
    isEntry: isRecord,
    unreadable: {
      code: "connections-unreadable",
      fix: "delete it: `connect --remove` then still removes its entries, but may format a file differently",
    },
  });
}

export function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function isRecord(entry: unknown): entry is ConnectionRecord {
  if (!isData(entry)) return false;
  const { clients, before, after, undo, isCreated, made, folders } = entry as Record<string, unknown>;
  const isTexts = (list: unknown) => Array.isArray(list) && list.every((one) => typeof one === "string");
  return (
    isTexts(clients) &&
    (before === null || typeof before === "string") &&
    typeof after === "string" &&
    typeof isCreated === "boolean" &&
    isTexts(folders) &&
    Array.isArray(made) &&
    made.every(isTexts) &&
    Array.isArray(undo) &&
    undo.every(
      (one) =>
        isData(one) &&
        Number.isInteger(one["at"]) &&
        Number.isInteger(one["length"]) &&
        typeof one["text"] === "string",
    )
  );
}
