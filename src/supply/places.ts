import type { SourceEntry } from "./contract.ts";
import { foldedPath } from "./entry-name.ts";
import { refusedEntry, shown } from "./refusal.ts";

/** Which paths of a source are taken, and by what. */
export interface Places {
  /** Takes a path, and gives the folders that come with it and were not there, outer ones first. Throws when it is taken, or leads through what is no folder. */
  take(path: string, kind: SourceEntry["kind"]): string[];
}

export function emptyPlaces(): Places {
  const taken = new Map<string, { kind: SourceEntry["kind"]; isSaid: boolean }>();
  const folded = new Map<string, string>();

  function checkClash(path: string, by: string): void {
    const other = folded.get(foldedPath(path));
    if (other !== undefined) {
      throw refusedEntry("entry-clash", by, `and ${shown(other)} are one and the same on some disks`);
    }
  }

  function put(path: string, by: string, kind: SourceEntry["kind"]): void {
    folded.set(foldedPath(path), path);
    taken.set(path, { kind, isSaid: path === by });
  }

  return {
    take(path, kind) {
      // Everything is checked before anything is taken: a path that is refused leaves no trace.
      const made: string[] = [];
      for (const folder of foldersOf(path)) {
        const there = taken.get(folder);
        if (there === undefined) {
          checkClash(folder, path);
          made.push(folder);
        } else if (there.kind !== "folder") throw through(path, folder, there.kind);
      }
      const there = taken.get(path);
      if (there?.isSaid)
        throw refusedEntry("entry-twice", path, "is there twice: which of both is meant cannot be known");
      if (there === undefined) checkClash(path, path);
      else if (kind !== "folder") throw through(path, path, kind);
      for (const folder of made) put(folder, path, "folder");
      if (there !== undefined) there.isSaid = true;
      else {
        put(path, path, kind);
        if (kind === "folder") made.push(path);
      }
      return made;
    },
  };
}

function through(path: string, at: string, kind: SourceEntry["kind"]) {
  if (kind === "link") return refusedEntry("entry-through-link", path, `leads through ${shown(at)}, which is a link`);
  return refusedEntry("entry-through-file", path, `leads through ${shown(at)}, which is a file`);
}

/** `a` and `a/b` of `a/b/c`. */
function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) folders.push(path.slice(0, at));
  return folders;
}
