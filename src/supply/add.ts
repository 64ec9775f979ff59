import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { agreedTo } from "../host/lock/approve.ts";
import { LOCAL_SOURCE, type LockedSkill, type LockedSkills } from "../host/lock/format.ts";
import { saySource } from "../host/lock/locks.ts";
import type { Originals } from "../host/lock/originals.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import type { Skill } from "../skill/skill.ts";
import type { Prepared } from "./candidate.ts";
import type { Conflict } from "./merge.ts";
import { addedMeanwhile, digestAt, type Put } from "./put.ts";
import type { Tree } from "./read-tree.ts";
import { judgeBeside, type SkillsPlace } from "./skills-place.ts";
import { type Difference, type Provenance, planUpdate } from "./update.ts";

/** What adding a skill comes to. */
export type Addition = { name: string; prepared: Prepared } & (
  | { is: "new"; put: Put; skill: Skill }
  | { is: "update"; put: Put; skill: Skill; difference: Difference; replaced?: Tree }
  /** It is there already, as the source has it. */
  | { is: "same"; isChanged: boolean }
  | { is: "conflict"; conflicts: readonly Conflict[] }
);

export interface AddRequest {
  prepared: Prepared;
  provenance: Provenance;
  place: SkillsPlace;
  locked: LockedSkills;
  originals: Originals;
  /** A folder of ours for what comes of changes that are merged. */
  work: string;
  /** Whether one that was added from another source gives way. */
  isForced: boolean;
  conflicts?: "mine" | "theirs" | undefined;
}

/** Plans to add a skill. Nothing is written but into `work`. Throws a SkillError when something is in the way. */
export function planAdd(request: AddRequest): Addition {
  const { prepared, provenance, place, locked, isForced } = request;
  const { name, skill, files, digest, tree, folder } = prepared;
  const entry = locked[name];
  const there = join(place.folder, name);
  judgeBeside(name, place, locked);
  const put: Put = {
    name,
    entry: {
      ...provenance,
      digest,
      files,
      grants: agreedTo(skill),
      ...defined({ requireSignature: entry?.requireSignature }),
    },
    folder,
    originals: [{ files, tree }],
  };
  const isOther = entry !== undefined && !isSameSource(entry, provenance);
  if (isOther && !isForced) throw fromElsewhere(name, entry, provenance);
  if (!lstatSync(there, { throwIfNoEntry: false })) return { name, prepared, is: "new", put, skill };
  if (!entry) throw addedMeanwhile(name, place) ?? inTheWay(name, there);
  if (!isOther) {
    const update = planUpdate({ ...request, name, entry });
    return { name, prepared, ...(update.is === "up-to-date" ? { ...update, is: "same" } : update) };
  }
  const before = digestAt(there);
  if (before !== (entry.upstream ?? entry).digest) throw editedElsewhere(name, there);
  const difference = { before: request.originals.read(entry.files) ?? new Map(), after: tree, kept: [] };
  return { name, prepared, is: "update", put: { ...put, ...defined({ before }) }, skill, difference };
}

function isSameSource(entry: LockedSkill, provenance: Provenance): boolean {
  return saySource(entry) === saySource(provenance);
}

function inTheWay(name: string, there: string): SkillError {
  const what = existsSync(join(there, "SKILL.md")) ? "a skill" : "something";
  return new SkillError("in-the-way", {
    message: `${there} is ${what} that skillet did not add, so "${name}" cannot be put there`,
    fix: "move it away",
  });
}

function fromElsewhere(name: string, entry: LockedSkill, provenance: Provenance): SkillError {
  return new SkillError("other-source", {
    message: `"${name}" was ${entry.source === LOCAL_SOURCE ? "adopted without a source" : `added from ${saySource(entry)}`}, and this one is from ${saySource(provenance)}`,
    fix: `look at both; --force puts this one in its place, without what the other one was given`,
  });
}

function editedElsewhere(name: string, there: string): SkillError {
  return new SkillError("edited", {
    message: `${there} was changed since it was added, and would be lost`,
    fix: `move it away yourself, or remove it: skillet remove ${name} --force`,
  });
}
