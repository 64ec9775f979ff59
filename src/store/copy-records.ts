import { realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { statIfExists } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { compareText } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";

/** A copy that skillet put into a client's folder of skills. */
export interface ClientCopy {
  /** The skill's name. */
  skill: string;
  /** The client it was copied for, by its name in the table of clients. */
  client: string;
  /**
   * The skill's file that was copied. Undefined for a skill in code or shipped with this package, wherever that is
   * installed.
   */
  original?: string;
  /** The skill's source, as in `name@source`. */
  source: string;
  /** The digest of the copy as it was written: a different one means that the copy was edited. */
  copy: string;
  /** The digest of the replaced copy, which is still there if writing the new one did not finish. */
  before?: string;
  /**
   * The topmost folder that was created for the client's folder of skills, if any. It is removed with the last copy.
   */
  made?: string;
  /** The time of the copy, in ISO 8601. */
  at: string;
}

/**
 * Records which folders skillet copied into clients. It is in the user's own folder, not in the copies: copies hold
 * only the skill, no workspace can forge a record, and a clone of a project with copies has them as skills.
 */
export interface ClientCopyStore {
  readonly file: string;
  /** Returns the copies by the real path of their folder. */
  entries(): Readonly<Record<string, ClientCopy>>;
  /** Returns the reason why no copies are known: the record cannot be read. */
  problem(): string | undefined;
  /**
   * Returns a filter for folders that are copies of a skill in one of the searched folders, so that they do not count
   * as skills.
   * Contract: undefined when there are no copies; valid for one scan of the folders.
   */
  createCopyFilter(searched: readonly string[]): ((folder: string) => boolean) | undefined;
  /**
   * Records the entries, runs the work, and restores the record if it fails: a copy never exists without its entry. A
   * folder with an undefined entry no longer belongs to skillet.
   */
  recordWhile<T>(entries: Readonly<Record<string, ClientCopy | undefined>>, work: () => T): T;
  /** Throws a SkillError when the record cannot be written. */
  remove(paths: readonly string[]): void;
}

export function createClientCopyStore(skilletHome: string): ClientCopyStore {
  const ledger = createJsonStore({
    file: join(skilletHome, "installs.json"),
    isEntry: isClientCopy,
    unreadable: {
      code: "exports-unreadable",
      fix: "fix the file, or remove it: then skillet recognizes its own unedited copies again",
    },
  });
  return {
    file: ledger.file,
    entries: ledger.entries,
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `cannot be read, so installed copies count as skills: ${problem}`;
    },
    createCopyFilter(searched) {
      const entries = ledger.entries();
      if (Object.keys(entries).length === 0) return undefined;
      return (folder) => {
        const entry = entries[folder];
        return entry !== undefined && basename(folder) === entry.skill && hasOriginal(entry, searched);
      };
    },
    recordWhile(added, work) {
      const write = (changes: typeof added) =>
        ledger.update((entries) => {
          const before: [string, ClientCopy | undefined][] = [];
          for (const [path, entry] of Object.entries(changes)) {
            before.push([path, entries[path]]);
            if (entry) entries[path] = entry;
            else delete entries[path];
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
    remove: (paths) =>
      ledger.update((entries) => {
        for (const path of paths) delete entries[path];
      }),
  };
}

/** Returns true if the copied skill still exists (in one of the searched folders, if given). */
export function hasOriginal({ original }: ClientCopy, searched?: readonly string[]): boolean {
  if (original === undefined) return true;
  if (statIfExists(original) === undefined) return false;
  if (searched === undefined || searched.some((folder) => isInside(folder, original))) return true;
  return searched.some((folder) => isReallyInside(folder, original));
}

/** Resolves links: a workspace may be named by a link as well as by its real path. */
function isReallyInside(folder: string, path: string): boolean {
  try {
    return isInside(realpathSync(folder), realpathSync(path));
  } catch {
    return false; // It does not exist.
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
      ledger.update((entries) => {
        entries[folder] = { at: new Date().toISOString() };
      }),
  };
}
