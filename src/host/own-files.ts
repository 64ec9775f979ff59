import { lstatSync, readdirSync, type Stats } from "node:fs";
import { join } from "node:path";

/** A file or folder that is not the user's alone. `path` is relative to the folder that was looked at; empty for that itself. */
export interface ForeignFile {
  path: string;
  /** `nested`: a folder below that is a git work tree, which git fills without HEAD of the outer one moving. */
  why: "owner" | "writable" | "link" | "special" | "nested";
}

export interface OwnFilesOptions {
  /** Kinds that are not accepted either, in addition to files of other users. */
  refuses: readonly Exclude<ForeignFile["why"], "owner">[];
  /** Names of folders that are not looked into. */
  skips?: ReadonlySet<string>;
}

/** Finds the first file below a folder, or the folder itself, that is not the user's alone. Throws when it cannot be looked into. */
export function findForeignFile(folder: string, { refuses, skips }: OwnFilesOptions): ForeignFile | undefined {
  const visit = (path: string): ForeignFile | undefined => {
    const stats = lstatSync(join(folder, path));
    const why = judgeOwner(stats);
    if (why !== undefined && (why === "owner" || refuses.includes(why))) return { path, why };
    if (!stats.isDirectory()) return undefined;
    const names = readdirSync(join(folder, path)).sort();
    if (path !== "" && refuses.includes("nested") && names.includes(".git")) return { path, why: "nested" };
    for (const name of names) {
      if (skips?.has(name)) continue;
      const found = visit(path === "" ? name : `${path}/${name}`);
      if (found) return found;
    }
    return undefined;
  };
  return visit("");
}

/** Returns why a file is not the user's alone. */
export function judgeOwner(stats: Stats): ForeignFile["why"] | undefined {
  const user = process.getuid?.();
  if (user !== undefined && stats.uid !== user) return "owner";
  if (stats.isSymbolicLink()) return "link"; // Every symlink has the same mode.
  if (!stats.isFile() && !stats.isDirectory()) return "special";
  return (stats.mode & 0o022) === 0 ? undefined : "writable";
}
