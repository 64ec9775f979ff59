import { readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { holdFolder, setFolderMode } from "./held-folder.ts";

// Somebody may still be writing there for a moment.
const OPTIONS = { recursive: true, force: true, maxRetries: 3, retryDelay: 50 };

/** Takes a tree away, also one that is closed or deeper than any path. Where links in it lead, everything stays. */
export function removeTree(path: string): void {
  try {
    rmSync(path, OPTIONS);
  } catch {
    flatten(path);
    rmSync(path, OPTIONS);
  }
}

/** Opens every folder and brings it to the top: nobody but root takes anything out of one that is closed, and a path is only so long. */
function flatten(path: string): void {
  setFolderMode(path, 0o700);
  const top = holdFolder(path);
  try {
    const waiting = foldersIn(top.at);
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      const folder = join(top.at, name);
      setFolderMode(folder, 0o700);
      for (const below of foldersIn(folder)) {
        const as = crypto.randomUUID();
        setFolderMode(join(folder, below), 0o700);
        renameSync(join(folder, below), join(top.at, as));
        waiting.push(as);
      }
    }
  } finally {
    top.close();
  }
}

function foldersIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));
}
