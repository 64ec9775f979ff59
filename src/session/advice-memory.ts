import { join } from "node:path";
import { shortHash } from "../shared/hash.ts";
import { readCacheFile, writeCacheFile } from "../source/cache-file.ts";

/** Remembers what conversations received, by the digests of the texts. Never stores a prompt or the text of a skill. */
export interface AdviceMemory {
  received(conversation: string): Promise<ReadonlySet<string>>;
  add(conversation: string, digests: readonly string[]): Promise<void>;
  /** Forgets a conversation that was summarized or cleared: what it received may be gone from it. */
  forget(conversation: string): Promise<void>;
}

/** A conversation that received nothing for longer is forgotten: its client has probably summarized it since. */
const LONGEST_MS = 24 * 60 * 60 * 1000;
const MOST_CONVERSATIONS = 256;
/** How many digests a conversation keeps, the latest ones. */
const MOST_DIGESTS = 256;

/** Remembers in this process. */
export function createAdviceMemory(now = () => Date.now()): AdviceMemory {
  const known = new Map<string, { at: number; digests: readonly string[] }>();
  const digestsOf = (conversation: string) => {
    const entry = known.get(conversation);
    return entry && entry.at > now() - LONGEST_MS ? entry.digests : [];
  };
  return {
    received: async (conversation) => new Set(digestsOf(conversation)),
    async add(conversation, digests) {
      const all = latest([...digestsOf(conversation), ...digests]);
      known.delete(conversation);
      known.set(conversation, { at: now(), digests: all });
      for (const oldest of known.keys()) if (known.size > MOST_CONVERSATIONS) known.delete(oldest);
    },
    async forget(conversation) {
      known.delete(conversation);
    },
  };
}

const BOUNDS = {
  ending: ".advice",
  mostBytes: 64 * 1024,
  mostFiles: MOST_CONVERSATIONS,
  longestMs: LONGEST_MS,
};

/** Remembers in small files of this folder, one for each conversation, for hooks that are processes of their own. A lost file only means that a text is given again. */
export function openAdviceFiles(folder: string): AdviceMemory {
  const fileOf = (conversation: string) => join(folder, `${shortHash(conversation)}${BOUNDS.ending}`);
  const digestsOf = (conversation: string) => {
    const bytes = readCacheFile(fileOf(conversation), BOUNDS);
    return bytes ? Buffer.from(bytes).toString("utf8").split("\n").filter(Boolean) : [];
  };
  return {
    received: async (conversation) => new Set(digestsOf(conversation)),
    async add(conversation, digests) {
      const lines = latest([...digestsOf(conversation), ...digests]).join("\n");
      writeCacheFile(folder, fileOf(conversation), Buffer.from(`${lines}\n`), BOUNDS);
    },
    async forget(conversation) {
      writeCacheFile(folder, fileOf(conversation), Buffer.from(""), BOUNDS);
    },
  };
}

function latest(digests: readonly string[]): readonly string[] {
  return [...new Set(digests)].slice(-MOST_DIGESTS);
}
