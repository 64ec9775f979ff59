import { chmodSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { agreedTo } from "../host/lock/approve.ts";
import { hasUnknownBase, type LockedSkill } from "../host/lock/format.ts";
import type { Originals } from "../host/lock/originals.ts";
import { treeDigest } from "../host/lock/tree.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { byText } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { readFolderSkill } from "../source/folder-skill.ts";
import type { Prepared } from "./candidate.ts";
import { type Conflict, mergeTrees, resolveConflicts } from "./merge.ts";
import { digestAt, type Put } from "./put.ts";
import { lockedFilesOf, readTree, type Tree, writeTree } from "./read-tree.ts";
import type { SkillsPlace } from "./skills-place.ts";

/** Where a skill was fetched from, as its lock says it. */
export type Provenance = Pick<LockedSkill, "source" | "path" | "ref" | "commit">;

/** What bringing a skill up to date comes to. `replaced`: what the user had, where theirs was to win over it. */
export type Update =
  /** What the source has is what came from there before. `isChanged`: what is here is not what was agreed to. */
  | { is: "up-to-date"; isChanged: boolean }
  | { is: "conflict"; conflicts: readonly Conflict[] }
  | { is: "update"; put: Put; skill: Skill; difference: Difference; replaced?: Tree };

/** What was agreed to, and what is to be agreed to now. */
export interface Difference {
  before: Tree;
  after: Tree;
  /** Paths that the user changed, and that stay so. */
  kept: readonly string[];
}

export interface UpdateRequest {
  name: string;
  entry: LockedSkill;
  place: SkillsPlace;
  /** What the source has now. */
  prepared: Prepared;
  provenance: Provenance;
  originals: Originals;
  /** A folder that is not there yet, for what comes of it. */
  work: string;
  /** What the source had at the commit that the lock names, where that is not known here. */
  base?: Pick<Prepared, "digest" | "files" | "tree"> | undefined;
  /** Whose lines stay where both changed the same. */
  conflicts?: "mine" | "theirs" | undefined;
}

/** Plans to bring one skill up to date, keeping what the user changed. Nothing is written but into `work`. */
export function planUpdate(request: UpdateRequest): Update {
  const { name, entry, place, prepared, originals, base } = request;
  const { digest, files } = base ?? entry.upstream ?? entry;
  const upstream = { digest, files };
  const folder = join(place.folder, name);
  const before = digestAt(folder); // First: what is written between the two looks is then found out before anything goes away.
  const ours = before === undefined ? undefined : readTree(folder);
  const isAsFollowed = prepared.digest === upstream.digest && request.provenance.ref === entry.ref;
  const isHere = hasUnknownBase(entry) && prepared.digest === before;
  if ((isAsFollowed || isHere) && ours) return { is: "up-to-date", isChanged: before !== entry.digest };
  const isEdited = ours !== undefined && before !== upstream.digest;
  const merged = isEdited
    ? mergeTrees({
        base: base?.tree ?? originals.read(upstream.files),
        known: upstream.files,
        ours,
        theirs: prepared.tree,
      })
    : undefined;
  const side = request.conflicts;
  if (merged && merged.conflicts.length > 0 && side === undefined) {
    return { is: "conflict", conflicts: merged.conflicts };
  }
  const after =
    merged && ours
      ? side && merged.conflicts.length > 0
        ? resolveConflicts(merged, { ours, theirs: prepared.tree }, side)
        : merged.files
      : prepared.tree;
  const made = after === prepared.tree ? prepared : madeOf(request, after, ours);
  return {
    is: "update",
    skill: made.skill,
    put: { name, folder: made.folder, ...entryOf(request, after, made.skill), ...defined({ before }) },
    difference: {
      // What was agreed to. What nobody has agreed to yet is all to be shown.
      before: originals.read(entry.files) ?? (before === entry.digest ? ours : undefined) ?? new Map(),
      after,
      kept: merged ? [...merged.kept, ...merged.merged].sort(byText) : [],
    },
    ...defined({ replaced: side === "theirs" && merged && merged.conflicts.length > 0 ? ours : undefined }),
  };
}

/** What the lock says then, and what is kept for the next time. */
function entryOf(
  { prepared, provenance, entry: locked }: UpdateRequest,
  tree: Tree,
  skill: Skill,
): Pick<Put, "entry" | "originals"> {
  const files = lockedFilesOf(tree);
  const digest = treeDigest(files);
  const upstream = digest === prepared.digest ? undefined : { digest: prepared.digest, files: prepared.files };
  const { requireSignature, adopted } = locked;
  const entry = {
    ...provenance,
    digest,
    files,
    ...defined({ upstream, requireSignature, adopted }),
    grants: agreedTo(skill),
  };
  const theirs = upstream ? [{ files: prepared.files, tree: prepared.tree }] : [];
  return { entry, originals: [{ files, tree }, ...theirs] };
}

/** What comes of it is a skill of that name, or nothing is done: two edits that fit line by line can still make none. */
function madeOf({ name, work, place }: UpdateRequest, tree: Tree, ours: Tree = new Map()) {
  const folder = join(work, name);
  writeTree(folder, tree);
  // A file that others may not read stays one.
  for (const [path, file] of tree) {
    const stats = ours.get(path) === file && lstatSync(join(place.folder, name, path), { throwIfNoEntry: false });
    if (stats) chmodSync(join(folder, path), stats.mode & 0o775);
  }
  const read = readFolderSkill(folder, { scope: "installed", source: "installed" });
  if (read && "skill" in read && read.skill.name === name) return { skill: read.skill, folder };
  const why = read && "findings" in read ? read.findings[0]?.message : undefined;
  throw new SkillError("merge-broken", {
    message: `What comes of your changes and theirs is no skill "${name}"${why === undefined ? "" : `: its SKILL.md ${why}`}`,
    fix: "mend your SKILL.md so that both fit, or say --conflicts mine or --conflicts theirs",
  });
}
