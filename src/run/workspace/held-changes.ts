import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openOwnFolders } from "../../host/own-folders.ts";
import { SkillError } from "../../shared/error.ts";
import { reason } from "../../shared/inside.ts";
import { count } from "../../shared/text.ts";
import { atPlace, copyTree, giveToOwnerOf, moveTree, removeTree } from "./move-tree.ts";
import { digestOf, statOf } from "./snapshot.ts";
import { rawPath, textOf } from "./walk-workspace.ts";

/** One sensitive path that code changed. */
export interface HeldChange {
  /** In the workspace, as people read it. */
  path: string;
  change: "added" | "changed" | "removed";
  /** What other programs do with it: a group of the table of sensitive paths. */
  group: string;
  /** All of the change, as lines of a diff. */
  diff: string;
  /** Files that the diff only counts, one a line. */
  details?: string;
  /** Whether the workspace is as it was, or why not. */
  problem?: string;
  /** The path with one character for each byte. */
  raw: string;
  /** Where the new content is, within the folder of the held change. */
  stored?: string;
  /** Digest of the new content, as it was when the diff was made. */
  digest?: string;
  /** Digest of what is in the workspace since the change was taken out of it. */
  current: string;
}

/** Changes of sensitive paths that one command made, taken out of the workspace until they are approved. */
export interface HeldChanges {
  id: string;
  workspace: string;
  at: string;
  skill: string;
  changes: HeldChange[];
}

/** The folder for held changes of one command. Nothing is on the disk before the first one. */
export interface HeldFolder {
  readonly id: string;
  /** The path of the folder, with one character for each byte. */
  readonly root: string;
  /** A new place to move something to. */
  next(): { name: string; place: string };
  save(held: Omit<HeldChanges, "id">): HeldChanges;
}

const RECORD = "record.json";

/** Where held changes are, and snapshots of commands that run. */
export function heldFolder(home: string): string {
  return join(home, "held");
}

export function openHeldFolder(home: string): HeldFolder {
  const id = `held-${randomBytes(4).toString("hex")}`;
  const folder = join(heldFolder(home), id);
  let files = 0;
  const make = () => mkdirSync(folder, { recursive: true, mode: 0o700 });
  return {
    id,
    root: rawPath(folder),
    next() {
      make();
      const name = String(files++);
      return { name, place: rawPath(join(folder, name)) };
    },
    save(held) {
      make();
      const record = { id, ...held };
      const file = join(folder, RECORD);
      writeFileSync(`${file}.new`, JSON.stringify(record, undefined, 2), { mode: 0o600 });
      renameSync(`${file}.new`, file);
      return record;
    },
  };
}

/** All held changes, the newest first. */
export function listHeld(home: string): HeldChanges[] {
  let names: string[];
  try {
    names = readdirSync(heldFolder(home)).filter((name) => /^held-[\da-f]{8}$/.test(name));
  } catch {
    return [];
  }
  return names.flatMap((name) => readHeld(home, name) ?? []).sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
}

export function readHeld(home: string, id: string): HeldChanges | undefined {
  if (!/^held-[\da-f]{8}$/.test(id)) return undefined;
  try {
    const record = JSON.parse(readFileSync(join(heldFolder(home), id, RECORD), "utf8"));
    return record.id === id && Array.isArray(record.changes) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Puts held changes into the workspace. Throws a SkillError, and changes nothing, where the workspace has changed since. */
export function applyHeld(home: string, { id, workspace, changes }: HeldChanges): void {
  const root = rawPath(workspace);
  const differs = changes.find(({ raw, current }) => currentOf(root, raw) !== current);
  if (differs) {
    throw new SkillError("held-conflict", {
      message: `${differs.path} has changed in ${workspace} since ${id} was held`,
      fix: `compare it with ${join(heldFolder(home), id)}, and change it yourself; then: skillet approve ${id} --deny`,
    });
  }
  const unstored = changes.find(({ change, stored }) => change !== "removed" && stored === undefined);
  if (unstored) {
    throw new SkillError("held-unapplied", {
      message: `${unstored.path} was not held as a whole: ${unstored.problem}`,
      fix: `change it yourself, then run: skillet approve ${id} --deny`,
    });
  }
  const altered = changes.find(
    ({ stored, digest }) =>
      digest !== undefined && digestOf(rawPath(join(heldFolder(home), id)), stored ?? "") !== digest,
  );
  if (altered) {
    throw new SkillError("held-conflict", {
      message: `${altered.path} is not what ${id} showed: it was written to after it had been held`,
      fix: `look at ${join(heldFolder(home), id)}, and change it yourself; then: skillet approve ${id} --deny`,
    });
  }
  for (const { raw, path, stored } of changes) {
    try {
      // What is replaced is removed only once the new content is in its folder.
      const place = stored === undefined ? undefined : rawPath(join(heldFolder(home), id, stored));
      atPlace(root, raw, (target) => putInPlace(place, target), { make: { onBlocked: (at) => throwBlocked(at) } });
    } catch (error) {
      if (error instanceof SkillError) throw error;
      const fix = `its files are in ${join(heldFolder(home), id)}`;
      throw new SkillError("held-unapplied", { message: `${path} could not be changed: ${reason(error)}`, fix });
    }
  }
  openOwnFolders(home).markChanged(
    changes.map(({ raw }) => join(workspace, textOf(raw))),
    "run",
  );
  discardHeld(home, id);
}

function putInPlace(from: string | undefined, target: string): void {
  const aside = `${target}.${randomBytes(4).toString("hex")}`;
  if (from !== undefined) {
    copyTree(from, aside);
    giveToOwnerOf(`${target.slice(0, target.lastIndexOf("/"))}/.`, aside);
  }
  removeTree(target);
  if (from !== undefined) moveTree(aside, target);
}

function throwBlocked(at: string): never {
  const fix = "move it away first";
  throw new SkillError("held-conflict", { message: `${textOf(at)} is no folder any more`, fix });
}

/** Digest of what is at a path of the workspace. */
export function currentOf(root: string, path: string): string {
  try {
    return atPlace(root, path, (place) => {
      const [folder, name] = [place.slice(0, place.lastIndexOf("/")), place.slice(place.lastIndexOf("/") + 1)];
      return statOf(folder, name) ? digestOf(folder, name) : NOTHING;
    });
  } catch {
    return NOTHING;
  }
}

export const NOTHING = "nothing";

export function discardHeld(home: string, id: string): void {
  const folder = rawPath(join(heldFolder(home), id));
  removeTree(folder);
  rmSync(join(heldFolder(home), id), { recursive: true, force: true });
}

/** `.envrc (added), CLAUDE.md (changed)`. */
export function heldPaths(changes: readonly HeldChange[], most = Number.POSITIVE_INFINITY): string {
  const said = changes.slice(0, most).map(({ path, change }) => `${path} (${change})`);
  const more = changes.length - said.length;
  return [...said, ...(more > 0 ? [`and ${count(more, "more path")}`] : [])].join(", ");
}
