import { realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { statIfExists } from "../skill/source/read-file.ts";
import { isJsonObject } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { compareText } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";

/** A copy that skillet put into a client's folder of skills. */
export interface ClientCopy {
  /** The skill's name. */
  skill: string;
  /** The client it was put there for, as the table of clients calls it. */
  client: string;
  /** Where it came from: the skill's file. Nothing for one in code, or one that comes with this package wherever that is put. */
  original?: string;
  /** The source it came from, as `name@source` has it. */
  source: string;
  /** The digest of the copy as it was put there: another by now is somebody's own work. */
  copy: string;
  /** That of the copy which it took the place of: it is there still when nobody came to put the new one. */
  before?: string;
  /** The topmost folder that was made for the client's folder of skills, if there was none. It goes away with the last copy. */
  made?: string;
  /** When, as ISO 8601 writes it. */
  at: string;
}

/**
 * Which folders skillet put where. Kept in the user's own folder and not in the copies: so they hold nothing but the skill, no workspace can
 * forge it, and whoever clones a project with copies in it has them as skills.
 */
export interface ClientCopyStore {
  readonly file: string;
  /** By the real path of the copy's folder. */
  entries(): Readonly<Record<string, ClientCopy>>;
  /** Why nothing is known of copies: the record cannot be read. */
  problem(): string | undefined;
  /**
   * Whether a folder is a copy of a skill that is there itself, in one of the folders that are searched, so that it is no skill of its own.
   * Contract: nothing when there are no copies; else good for one look at the folders.
   */
  copies(searched: readonly string[]): ((folder: string) => boolean) | undefined;
  /**
   * Writes down what is put where, does it, and takes that back if it fails: a copy is never there without its entry. A folder without an
   * entry is none of skillet's from now on.
   */
  put<T>(entries: Readonly<Record<string, ClientCopy | undefined>>, work: () => T): T;
  /** Throws a SkillError when it cannot be written down. */
  forget(places: readonly string[]): void;
}

export function createClientCopyStore(skilletHome: string): ClientCopyStore {
  const ledger = createJsonStore({
    file: join(skilletHome, "installs.json"),
    isEntry: isClientCopy,
    unreadable: {
      code: "installs-unreadable",
      fix: "mend it, or remove it to start anew: then copies that are as skillet would write them are taken for its own again",
    },
  });
  return {
    file: ledger.file,
    entries: ledger.entries,
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `cannot be read, so installed copies count as skills: ${problem}`;
    },
    copies(searched) {
      const entries = ledger.entries();
      if (Object.keys(entries).length === 0) return undefined;
      return (folder) => {
        const entry = entries[folder];
        return entry !== undefined && basename(folder) === entry.skill && hasOriginal(entry, searched);
      };
    },
    put(added, work) {
      const write = (changes: typeof added) =>
        ledger.change((entries) => {
          const before: [string, ClientCopy | undefined][] = [];
          for (const [place, entry] of Object.entries(changes)) {
            before.push([place, entries[place]]);
            if (entry) entries[place] = entry;
            else delete entries[place];
          }
          return Object.fromEntries(before);
        });
      const before = write(added);
      try {
        return work();
      } catch (error) {
        write(before);
        throw error;
      }
    },
    forget: (places) =>
      ledger.change((entries) => {
        for (const place of places) delete entries[place];
      }),
  };
}

/** Whether what a copy was made of is still there; in one of these folders, where they are named. */
export function hasOriginal({ original }: ClientCopy, searched?: readonly string[]): boolean {
  if (original === undefined) return true;
  if (statIfExists(original) === undefined) return false;
  if (searched === undefined || searched.some((folder) => isInside(folder, original))) return true;
  return searched.some((folder) => isReallyInside(folder, original));
}

/** A workspace is named by a link as well as by its own path. */
function isReallyInside(folder: string, path: string): boolean {
  try {
    return isInside(realpathSync(folder), realpathSync(path));
  } catch {
    return false; // It is not there.
  }
}

function isClientCopy(entry: unknown): entry is ClientCopy {
  if (!isJsonObject(entry)) return false;
  const isText = (key: string) => typeof entry[key] === "string";
  return (
    ["skill", "client", "source", "copy", "at"].every(isText) &&
    ["original", "before", "made"].every((key) => entry[key] === undefined || isText(key))
  );
}

/** Folders with adopted skills that are not in the table of locations: nothing else leads to their locks. */
interface AdoptedFolders {
  /** Real paths. Empty when the record cannot be read. */
  list(): string[];
  /** Throws a SkillError when it cannot be recorded. */
  add(folder: string): void;
}

export function createAdoptedFolders(skilletHome: string): AdoptedFolders {
  const ledger = createJsonStore({
    file: join(skilletHome, "adopted.json"),
    isEntry: (entry: unknown): entry is { at: string } => isJsonObject(entry) && typeof entry["at"] === "string",
    unreadable: { code: "adopted-unreadable", fix: "fix it, or remove it and adopt the skills again" },
  });
  return {
    list: () => Object.keys(ledger.entries()).sort(compareText),
    add: (folder) =>
      ledger.change((entries) => {
        entries[folder] = { at: new Date().toISOString() };
      }),
  };
}
