import { lstatSync, readdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { ownerIn } from "../host/run-owner.ts";
import { isOwn } from "./held-folder.ts";
import { removeTree } from "./remove-tree.ts";

/** How folders of homes are called; six letters or digits follow. */
export const HOME_PREFIX = "skillet-home-";
/** The file beside the home that says whose it is. Not in it, where an agent could change it. */
export const HOME_OWNER = "owner";

const NAME = new RegExp(`^${HOME_PREFIX}[A-Za-z0-9]{6}$`);
// Between making a folder and writing down whose it is, less time passes.
const NAMELESS_MS = 60_000;

/**
 * Removes homes that processes left which are gone. What others planted under such a name is not touched, nor are links followed, nor
 * homes of processes that live, or that ran on other machines.
 */
export function sweepHomes(parent: string): void {
  for (const name of readdirSync(parent).filter((name) => NAME.test(name))) {
    try {
      removeLeft(join(parent, name));
    } catch {} // Somebody else is at it, or it cannot go now: the next sweep tries again.
  }
}

function removeLeft(path: string): void {
  const stats = lstatSync(path);
  // Ours are private from the beginning.
  if (!stats.isDirectory() || !isOwn(stats) || (stats.mode & 0o077) !== 0) return;
  const owner = join(path, HOME_OWNER);
  // A file is there, and empty, before anything is in it: then its process is about to say whose it is.
  if (!lstatSync(owner, { throwIfNoEntry: false })?.size) {
    // Its process was killed before it could say whose it is; whatever has something in it is no home.
    if (Date.now() - stats.mtimeMs > NAMELESS_MS) rmdirSync(path);
  } else if (ownerIn(owner) === undefined) {
    removeTree(path);
  }
}
