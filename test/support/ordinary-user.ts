import { statSync } from "node:fs";
import { dirname } from "node:path";

/** A user id that no account of this machine has, so that nothing of a real user is at risk. */
export const ORDINARY_USER = 12345;

const isRoot = process.getuid?.() === 0;

/** True when tests can run the program as an ordinary user: root's home, for example, cannot be entered by others. */
export const HAS_ORDINARY_USER = !isRoot || isOpenToAll(import.meta.dirname);

/** Returns the words to put before a command so that it runs as an ordinary user; none when this process is one. */
export function asOrdinaryUser(): string[] {
  if (!isRoot) return [];
  if (!HAS_ORDINARY_USER)
    throw new Error("Other users cannot enter the project's folder: run `npm test`, or use a clone in another folder");
  const id = String(ORDINARY_USER);
  return ["/usr/bin/setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--"];
}

function isOpenToAll(folder: string): boolean {
  return (statSync(folder).mode & 0o005) === 0o005 && (dirname(folder) === folder || isOpenToAll(dirname(folder)));
}
