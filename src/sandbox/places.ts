import { join } from "node:path";

/**
 * Where sandboxes find what they are made of: copies of skills, package layers. As root that is not root's own folder, since code
 * never runs as root and has to read it.
 */
export function sandboxFolder(skilletHome: string): string {
  return isRoot() ? SYSTEM_FOLDER : skilletHome;
}

export const SYSTEM_FOLDER = "/var/lib/skillet";

/** Whom code runs as where the caller is root: nobody. */
export const NOBODY = 65534;

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

export function storeFolder(skilletHome: string): string {
  return join(sandboxFolder(skilletHome), "store");
}
