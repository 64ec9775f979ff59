import { lstatSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ownerIn, ownerText } from "../host/run-owner.ts";
import { removeTree } from "../install/remove-tree.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";

/** Work with a folder of its own, for the user alone, that is gone afterwards. What processes left there that are gone goes too. */
export async function inStaging<T>(skilletHome: string, work: (folder: string) => Promise<T>): Promise<T> {
  const all = join(skilletHome, "staging");
  const own = join(all, crypto.randomUUID());
  try {
    mkdirSync(all, { recursive: true, mode: 0o700 });
    sweep(all);
    mkdirSync(own, 0o700);
    writeFileSync(join(own, OWNER), ownerText(), { flag: "wx", mode: 0o600 });
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `${all} cannot be written to: ${reason(error)}`,
      fix: "check that the folder can be written to, and that there is room",
      cause: error,
    });
  }
  try {
    const folder = join(own, "work");
    mkdirSync(folder, 0o700);
    return await work(folder);
  } finally {
    removeQuietly(own);
  }
}

const OWNER = "owner";
// Between making a folder and writing down whose it is, less time passes.
const NAMELESS_MS = 60_000;

// Whoever keeps what is skillet's elsewhere may have a folder of that name already, with other things in it.
const OURS = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function sweep(all: string): void {
  for (const name of readdirSync(all)) {
    if (!OURS.test(name)) continue;
    const folder = join(all, name);
    const owner = lstatSync(join(folder, OWNER), { throwIfNoEntry: false });
    const age = Date.now() - (lstatSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY);
    if (owner?.size ? ownerIn(join(folder, OWNER)) === undefined : age > NAMELESS_MS) removeQuietly(folder);
  }
}

function removeQuietly(folder: string): void {
  try {
    removeTree(folder);
  } catch {} // The next one tries again.
}
