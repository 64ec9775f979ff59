import { realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

const FOLDERS = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];

/**
 * A program of the system's, looked for only where none but root can put one: not in the PATH, which may start with a folder of
 * somebody else's.
 */
export function systemProgram(name: string, folders: readonly string[] = FOLDERS): string | undefined {
  return folders.map((folder) => join(folder, name)).find(isRootsOwn);
}

function isRootsOwn(path: string): boolean {
  try {
    const real = realpathSync(path);
    const file = statSync(real);
    return (
      file.isFile() &&
      (file.mode & 0o111) !== 0 &&
      [file, statSync(dirname(real)), statSync(dirname(path))].every(onlyRootWrites)
    );
  } catch {
    return false;
  }
}

function onlyRootWrites({ uid, mode }: { uid: number; mode: number }): boolean {
  return uid === 0 && (mode & 0o022) === 0;
}
