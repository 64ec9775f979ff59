import { hash, randomUUID } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode } from "../errors/problem.ts";
import { createFolder } from "../util/file-access.ts";

/** Messages between processes that share a store. One that is not taken is removed after 15 minutes. */
export interface Mailbox {
  /** Puts a message, in place of one with the same key. */
  put(key: string, message: unknown): Promise<void>;
  /** Takes a message out: of several readers, one gets it. */
  take(key: string): Promise<unknown>;
}

export const MAX_MESSAGE_AGE_MS = 15 * 60_000;

/** Creates the mailbox of the processes of one home. */
export function createFileMailbox(home: string): Mailbox {
  const folder = join(home, "mailbox");
  const fileOf = (key: string) => join(folder, `${hash("sha256", key)}.json`);
  const removeOld = () => {
    for (const name of readdirSync(folder)) {
      const file = join(folder, name);
      const { mtimeMs = Number.POSITIVE_INFINITY } = statSync(file, { throwIfNoEntry: false }) ?? {};
      if (mtimeMs < Date.now() - MAX_MESSAGE_AGE_MS) rmSync(file, { force: true });
    }
  };
  return {
    async put(key, message) {
      createFolder(folder, 0o700);
      removeOld();
      const draft = join(folder, randomUUID());
      writeFileSync(draft, JSON.stringify(message), { mode: 0o600 });
      renameSync(draft, fileOf(key));
    },
    async take(key) {
      const taken = join(folder, randomUUID());
      try {
        renameSync(fileOf(key), taken);
      } catch (error) {
        if (getErrnoCode(error) === "ENOENT") return undefined;
        throw error;
      }
      try {
        return JSON.parse(readFileSync(taken, "utf8"));
      } finally {
        rmSync(taken, { force: true });
      }
    },
  };
}
