import { lstatSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf, isInside } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { isData } from "../skill/data.ts";
import { SKIPPED_FOLDERS } from "../source/file-list.ts";
import { ownerIn, ownerText } from "./run-owner.ts";

/** What the files below some folders look like: by path, what changes whenever one is written. */
export type Fingerprints = Readonly<Record<string, string>>;

/**
 * Notices what changes below folders while code runs. The look before is on the disk, so that what a process did that was killed is noticed
 * by the next one.
 */
export interface OwnWatches {
  /** Looks at the folders, and begins. The result ends it: called once, it gives the paths that changed. */
  begin(folders: readonly string[]): () => string[];
  /** The paths inside a place that changed since a watch began which has not ended. */
  changedIn(place: string): string[];
  /** Ends the watches of processes that are gone, and gives the paths that changed since: all of `own` if the look before is unreadable. */
  settle(own: readonly string[]): string[];
}

export function openOwnWatches(skilletHome: string): OwnWatches {
  const all = join(skilletHome, "own-watches");
  const names = () => {
    try {
      return readdirSync(all).filter((name) => name.endsWith(".json"));
    } catch {
      return []; // There never was one.
    }
  };
  return {
    begin(folders) {
      const before = lookAt(folders);
      const id = crypto.randomUUID();
      mkdirSync(all, { recursive: true, mode: 0o700 });
      writeFileSync(join(all, `${id}.owner`), ownerText(), { flag: "wx", mode: 0o600 });
      const draft = join(all, `${id}.draft`);
      writeFileSync(draft, JSON.stringify({ folders, before }), { flag: "wx", mode: 0o600 });
      renameSync(draft, join(all, `${id}.json`)); // Whole or not at all.
      return () => {
        const changed = differing(before, lookAt(folders));
        remove(all, id);
        return changed;
      };
    },
    changedIn(place) {
      return names().flatMap((name) => {
        const watch = readWatch(join(all, name));
        if (watch === "unreadable") return [place];
        if (!watch?.folders.some((folder) => isInside(folder, place))) return [];
        const within = Object.entries(watch.before).filter(([path]) => isInside(place, path));
        return differing(Object.fromEntries(within), lookAt([place]));
      });
    },
    settle(own) {
      return names().flatMap((name) => {
        const id = name.slice(0, -".json".length);
        if (ownerIn(join(all, `${id}.owner`)) !== undefined) return [];
        const watch = readWatch(join(all, name));
        if (watch === undefined) return [];
        const changed = watch === "unreadable" ? own : differing(watch.before, lookAt(watch.folders));
        remove(all, id);
        return changed;
      });
    },
  };
}

/** As many as a folder of skills has; of a larger one only the folder itself is compared, so that any change in it counts for all. */
const MOST_FILES = 50_000;

function lookAt(folders: readonly string[]): Fingerprints {
  const seen: Record<string, string> = Object.create(null); // A folder may be called `__proto__`.
  let left = MOST_FILES;
  const visit = (path: string) => {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (!stats || left-- <= 0) return;
    const { ino, size, mode, uid, mtimeMs, ctimeMs } = stats;
    // The times of a folder change with what is in it, which is looked at itself.
    seen[path] = stats.isDirectory() ? `${ino} ${mode} ${uid}` : `${ino} ${size} ${mode} ${uid} ${mtimeMs} ${ctimeMs}`;
    if (!stats.isDirectory()) return;
    for (const name of listed(path)) if (!SKIPPED_FOLDERS.has(name)) visit(join(path, name));
  };
  for (const folder of folders) visit(folder);
  if (left >= 0) return seen;
  return Object.fromEntries(folders.map((folder) => [folder, `too many files ${crypto.randomUUID()}`]));
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // No skill can be read there either.
  }
}

function differing(before: Fingerprints, now: Fingerprints): string[] {
  const paths = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...paths].filter((path) => before[path] !== now[path]);
}

/** Undefined when it has just ended. */
function readWatch(file: string): { folders: readonly string[]; before: Fingerprints } | "unreadable" | undefined {
  try {
    const { folders, before } = JSON.parse(readRegularText(file)) as Record<string, unknown>;
    if (Array.isArray(folders) && isData(before)) return { folders, before: before as Fingerprints };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
  }
  return "unreadable";
}

function remove(all: string, id: string): void {
  for (const end of ["json", "owner"]) rmSync(join(all, `${id}.${end}`), { force: true });
}
