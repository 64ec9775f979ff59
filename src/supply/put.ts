import { lstatSync } from "node:fs";
import { join } from "node:path";
import { digestsOf } from "../host/lock/approve.ts";
import { LARGEST_LOCK, LOCK_FILE, type LockedFiles, type LockedSkill, printLock } from "../host/lock/format.ts";
import { openOriginals } from "../host/lock/originals.ts";
import { treeDigest, treeOf } from "../host/lock/tree.ts";
import { openOwnFolders } from "../host/own-folders.ts";
import { type Application, apply } from "../install/apply.ts";
import { SkillInstallationError } from "../install/error.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { grouped } from "../shared/text.ts";
import type { Tree } from "./read-tree.ts";
import { lockedFrom, lockedIn, type SkillsPlace } from "./skills-place.ts";

/** A skill that is to be in a folder of skills, and what its lock will say. */
export interface Put {
  name: string;
  entry: LockedSkill;
  /** Its files, in a folder of ours that is given away. */
  folder: string;
  /** The digest of what stands there and gives way; nothing when nothing does. */
  before?: string;
  /** What is kept for later: what was agreed to, and what came from the source where that is another. */
  originals: readonly { files: LockedFiles; tree: Tree }[];
}

export interface Changes {
  place: SkillsPlace;
  put?: readonly Put[];
  /** Names, each with the digest of what stands there. */
  remove?: Readonly<Record<string, string | undefined>>;
  skilletHome: string;
}

/**
 * Puts skills into their folder and takes others away, with its lock, all or nothing. Throws a SkillError: then nothing changed. What is
 * not as it was looked at stops it too, so that nothing is lost that somebody just wrote.
 */
export function change({ place, put = [], remove = {}, skilletHome }: Changes): void {
  const originals = openOriginals(skilletHome);
  for (const one of put)
    for (const { files, tree } of one.originals) originals.keep(files, bytesIn(tree), place.folder);
  const looked = [...put.map(({ name, before }) => [name, before] as const), ...Object.entries(remove)];
  let unneeded: string[] = [];
  applying(place, put, {
    skillsDir: place.folder,
    put: put.map(({ name, folder }) => ({ name, source: "ref", folder, isGiven: true })),
    remove: Object.keys(remove).filter((name) => isThere(join(place.folder, name))),
    replaces: put.flatMap(({ name, before }) => (before === undefined ? [] : name)),
    isDurable: true,
    isReal: true,
    record: {
      name: LOCK_FILE,
      write(text) {
        const skills = lockedFrom(text);
        const before = digestsOf(
          [...put.map(({ name }) => name), ...Object.keys(remove)].flatMap((name) => skills[name] ?? []),
        );
        for (const { name, entry } of put) skills[name] = entry;
        for (const name of Object.keys(remove)) delete skills[name];
        const needed = new Set(digestsOf(Object.values(skills)));
        unneeded = before.filter((digest) => !needed.has(digest));
        return checkedSize(printLock(skills));
      },
      // Only now can nobody write into what goes: what is not as it was looked at comes back.
      moved(gone) {
        for (const [name, digest] of looked) checkUnchanged(digestAt(gone(name)), digest, place, name);
      },
    },
  });
  originals.forget(unneeded, place.folder);
  const written = put.map(({ name }) => join(place.folder, name));
  openOwnFolders(skilletHome).markChanged(written, "update"); // Not an edit of the user's, wherever the folder is.
}

function applying(place: SkillsPlace, put: readonly Put[], application: Application): void {
  try {
    apply(application);
  } catch (error) {
    const name = error instanceof SkillInstallationError && isInTheWay(error.cause) ? error.skillName : undefined;
    const isNew = put.some((one) => one.name === name && one.before === undefined);
    throw (isNew && addedMeanwhile(name ?? "", place)) || error;
  }
}

/** What is in the way of a skill that nobody had added when it was looked at may be that very skill. */
export function addedMeanwhile(name: string, place: SkillsPlace): SkillError | undefined {
  if (!lockedIn(place)[name]) return undefined;
  return new SkillError("changed", {
    message: `"${name}" was added by another process meanwhile`,
    fix: "try again",
  });
}

function isInTheWay(cause: unknown): boolean {
  return cause instanceof SkillError && cause.code === "in-the-way";
}

function bytesIn(tree: Tree): (path: string) => Uint8Array {
  return (path) => tree.get(path)?.bytes ?? new Uint8Array();
}

function checkUnchanged(now: string | undefined, before: string | undefined, place: SkillsPlace, name: string): void {
  if (now === before) return;
  throw new SkillError("resource-changed", {
    message: `${join(place.folder, name)} changed while it was looked at`,
    fix: "try again when nobody works on it",
  });
}

export function checkedSize(text: string): string {
  if (text.length <= LARGEST_LOCK) return text;
  throw new SkillError("lock-too-large", {
    message: `${LOCK_FILE} would be larger than ${grouped(LARGEST_LOCK)} bytes, and could not be read again`,
    fix: "add fewer skills, or remove some first",
  });
}

/** Of what stands in a place; nothing when nothing does. Throws a SkillError when it cannot be read. */
export function digestAt(folder: string): string | undefined {
  if (!isThere(folder)) return undefined;
  try {
    return treeDigest(treeOf(folder));
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${folder} cannot be read: ${reason(error)}`,
      fix: "check that it is a folder, and that you may read all that is in it",
      cause: error,
    });
  }
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
