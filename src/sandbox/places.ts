import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Where sandboxes find what they are made of: copies of skills, package layers. As root that is not root's own folder, since code
 * never runs as root and has to read it.
 */
export function sandboxFolder(skilletHome: string): string {
  return isRoot() ? SYSTEM_FOLDER : skilletHome;
}

export const SYSTEM_FOLDER = "/var/lib/skillet";

/** Whom code runs as where the caller is root and has no other users to give: nobody. */
export const NOBODY = 65534;

/** Users that no account has and nothing hands out: neither distributions nor systemd use this range. One for each process and 64 runs of it. */
const OWN_USERS = { first: 0x7000_0000, count: 0x1000_0000, ofProcess: 64 };

let taken = 0;
let hasOwnUsers: boolean | undefined;

/**
 * Returns a user for one run, where the caller is root: what the kernel counts for a user, such as inotify instances, is this run's alone.
 * Nobody, where the caller is root of a namespace without such users.
 */
export function ownUser(): number {
  hasOwnUsers ??= isMapped(OWN_USERS);
  if (!hasOwnUsers) return NOBODY;
  const { first, count, ofProcess } = OWN_USERS;
  return first + ((process.pid * ofProcess + (taken++ % ofProcess)) % count);
}

export function isOwnUser(user: number): boolean {
  return user >= OWN_USERS.first && user < OWN_USERS.first + OWN_USERS.count;
}

function isMapped({ first, count }: { first: number; count: number }): boolean {
  if (process.platform !== "linux") return false;
  return ["uid_map", "gid_map"].every((name) => {
    const ranges = readFileSync(`/proc/self/${name}`, "utf8").trim().split("\n");
    return ranges.some((range) => {
      const [start = 0, , length = 0] = range.trim().split(/\s+/).map(Number);
      return start <= first && first + count <= start + length;
    });
  });
}

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

export function storeFolder(skilletHome: string): string {
  return join(sandboxFolder(skilletHome), "store");
}
