import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { type DiscoverOptions, resolveEnvironment } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import { stopsLoading } from "../skill/diagnostics.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { type Environment, listLocations } from "../skill/source/locations.ts";
import { statIfExists } from "../skill/source/read-file.ts";
import { readFolderSkill } from "../skill/source/read-skill.ts";
import { copySkill } from "../skill/source/skill-copy.ts";
import { createApprovalStore } from "../store/approvals.ts";
import { recoverFolder } from "../store/atomic-folder.ts";
import { type BlobCache, createBlobCache, listLockGrants } from "../store/lock-approval.ts";
import { diffLockedCopy, formatLockSource } from "../store/lock-diff.ts";
import { LOCAL_SOURCE, type LockedSkill, type LockedSkills } from "../store/lock-file.ts";
import { createSignerStore } from "../store/signers.ts";
import { createTrustStore } from "../store/trust.ts";
import { omitUndefined } from "../util/objects.ts";
import {
  applySkillsDirChanges,
  createAddedMeanwhileError,
  digestInstalled,
  type SkillWrite,
  withStagingFolder,
} from "./apply-changes.ts";
import {
  appendNotes,
  findCandidate,
  type PreparedCandidate,
  prepareCandidate,
  type RefusedSkill,
  type RemoteCandidate,
  selectDistinct,
  selectOutermost,
} from "./candidate.ts";
import { createProvenance, type FetchedListing, fetchListing } from "./fetch-source.ts";
import type { FileTree, MergeConflict } from "./file-tree.ts";
import type { Provenance } from "./remote-source.ts";
import { requireSignatures } from "./signature.ts";
import { checkNameClash, readLockedSkills, resolveSkillsDir, type SkillsDir } from "./skills-dir.ts";
import { parseSourceAddress } from "./source-address.ts";
import { planUpdate, type UpdateDifference } from "./update.ts";

export interface AddSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env"> {
  /** As `skillet add` takes it. */
  source: string;
  /** Which of its skills; all of them when left out. One inside the folder of another comes with that. */
  names?: readonly string[];
  /** Into the workspace's own folder, in place of the user's. */
  isProject?: boolean;
  /** Whether one that was added from another source gives way. */
  isForced?: boolean;
  /** Takes only skills that a known signer signed, now and in every update. */
  requireSignature?: boolean;
  /** Asks private addresses too that only the source named. */
  allowPrivate?: boolean;
  /** Called for each skill that cannot be added, so that the others are. Without it, the first one is thrown and nothing is added. */
  onRefused?(name: string, error: SkillError): void;
  /** Asked with all that is to come, before anything is put in its place: whether it may be. */
  agree(coming: readonly PendingSkill[]): boolean | Promise<boolean>;
  signal?: AbortSignal;
}

/** A skill that is to be put in its place. */
export type PendingSkill = Extract<PlannedAddition, { is: "new" | "update" }>;

/**
 * Adds skills from a remote source: fetched, checked, approved, put in their place and locked in one change. Returns what became of
 * each, or undefined when they were not approved. Throws a SkillError when one cannot be added, unless `onRefused` is given.
 */
export async function addSkills(options: AddSkillsOptions): Promise<readonly PlannedAddition[] | undefined> {
  const {
    source,
    names = [],
    isProject = false,
    isForced = false,
    allowPrivate,
    requireSignature,
    onRefused,
    agree,
    signal,
  } = options;
  const around = resolveEnvironment(options);
  const place = resolveSkillsDir(around, isProject);
  if (statIfExists(place.folder)) recoverFolder(place.folder);
  const address = parseSourceAddress(source, { cwd: around.workspace, home: around.home });
  return withStagingFolder(around.skilletHome, async (work) => {
    const supply = await fetchListing(address, work, {
      env: around.env,
      names,
      ...omitUndefined({ signal, allowPrivate }),
    });
    const { offer } = supply;
    const refuse = ({ name, error }: RefusedSkill) => {
      if (!onRefused) throw error;
      onRefused(name, error);
    };
    const wanted =
      names.length > 0 ? names.map((name) => findCandidate(name, offer)) : selectOutermost(offer.candidates);
    if (wanted.length === 0) throw createNoSkillsError(supply);
    const chosen = selectDistinct(wanted, refuse);
    const planning = { supply, place, around, work, locked: readLockedSkills(place), isForced };
    const { additions, problems } = planAdditions(chosen, planning);
    for (const problem of problems) refuse(problem);
    const signers = createSignerStore(around.skilletHome);
    const coming = requireSignatures(additions.filter(isPending), {
      signers,
      ...omitUndefined({ all: requireSignature }),
    });
    if (coming.length === 0) return additions;
    if (!(await agree(coming))) return undefined;
    applySkillsDirChanges({ place, put: coming.map(({ put }) => put), skilletHome: around.skilletHome });
    const approvals = createApprovalStore(around.skilletHome);
    for (const { name } of coming) approvals.forget(name, join(place.folder, name));
    if (isProject) trustApplied(coming, place, createTrustStore(around.skilletHome, listLocations(around)));
    return additions;
  });
}

export function isPending(addition: PlannedAddition): addition is PendingSkill {
  return addition.is === "new" || addition.is === "update";
}

interface AdditionContext {
  supply: FetchedListing;
  place: SkillsDir;
  around: Environment;
  /** A folder of ours. */
  work: string;
  locked: LockedSkills;
  isForced: boolean;
}

/** Looks at what was chosen, and plans to add it. All that stands against any of them is given at once. */
export function planAdditions(
  chosen: readonly RemoteCandidate[],
  { supply, place, around, work, locked, isForced }: AdditionContext,
): { additions: PlannedAddition[]; problems: RefusedSkill[] } {
  const originals = createBlobCache(around.skilletHome);
  const additions: PlannedAddition[] = [];
  const problems: RefusedSkill[] = [];
  for (const candidate of chosen) {
    try {
      const prepared = prepareCandidate(candidate, supply.fetched, join(work, "skills", candidate.skill.name));
      const provenance = createProvenance(supply.fetched, candidate.path, { place, around });
      additions.push(
        planAddition({ prepared, provenance, place, locked, originals, work: join(work, "merged"), isForced }),
      );
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      problems.push({ name: candidate.skill.name, error });
    }
  }
  return { additions, problems };
}

/** There is no skill in a source. */
export function createNoSkillsError({ offer, fetched }: FetchedListing): SkillError {
  const broken = offer.diagnostics.find(stopsLoading);
  return new SkillError("no-skills", {
    message: broken
      ? `None of its skills can be loaded: ${broken.message}`
      : appendNotes("There is no skill in it", offer),
    fix: broken
      ? "tell whoever wrote it"
      : fetched.links.size > 0
        ? "it holds links, which are not followed: name the folder that they lead to (//FOLDER)"
        : "a skill is a folder with a SKILL.md: check the source, and its //FOLDER",
  });
}

/** Writes down that skills of a workspace are trusted, if they are in their place what was agreed to: one that somebody changed since waits for a word. */
export function trustApplied(
  coming: readonly PendingSkill[],
  { folder }: SkillsDir,
  trust: Pick<ReturnType<typeof createTrustStore>, "grant">,
): void {
  trust.grant(
    coming.flatMap(({ name, put }) => {
      const read = readFolderSkill(join(folder, name), { scope: "workspace", source: ".agents/skills" });
      if (!read || !("skill" in read)) return [];
      const skill = withBody(read.skill);
      const copy = copySkill(skill);
      return diffLockedCopy(put.entry.files, copy.files).length === 0 ? [{ skill, copy }] : [];
    }),
  );
}

/** What adding a skill comes to. */
export type PlannedAddition = { name: string; prepared: PreparedCandidate } & (
  | { is: "new"; put: SkillWrite; skill: Skill }
  | { is: "update"; put: SkillWrite; skill: Skill; difference: UpdateDifference; replaced?: FileTree }
  /** It is there already, as the source has it. */
  | { is: "same"; isChanged: boolean }
  | { is: "conflict"; conflicts: readonly MergeConflict[] }
);

interface AddRequest {
  prepared: PreparedCandidate;
  provenance: Provenance;
  place: SkillsDir;
  locked: LockedSkills;
  originals: BlobCache;
  /** A folder of ours for what comes of changes that are merged. */
  work: string;
  /** Whether one that was added from another source gives way. */
  isForced: boolean;
  conflicts?: "mine" | "theirs" | undefined;
}

/** Plans to add a skill. Nothing is written but into `work`. Throws a SkillError when something is in the way. */
export function planAddition(request: AddRequest): PlannedAddition {
  const { prepared, provenance, place, locked, isForced } = request;
  const { name, skill, files, digest, tree, folder } = prepared;
  const entry = locked[name];
  const there = join(place.folder, name);
  checkNameClash(name, place, locked);
  const put: SkillWrite = {
    name,
    entry: {
      ...provenance,
      digest,
      files,
      grants: listLockGrants(skill),
      ...omitUndefined({ requireSignature: entry?.requireSignature }),
    },
    folder,
    originals: [{ files, tree }],
  };
  const isOther = entry !== undefined && !isSameSource(entry, provenance);
  if (isOther && !isForced) throw createOtherSourceError(name, entry, provenance);
  if (!lstatSync(there, { throwIfNoEntry: false })) return { name, prepared, is: "new", put, skill };
  if (!entry) throw createAddedMeanwhileError(name, place) ?? createInTheWayError(name, there);
  if (!isOther) {
    const update = planUpdate({ ...request, name, entry });
    return { name, prepared, ...(update.is === "up-to-date" ? { ...update, is: "same" } : update) };
  }
  const before = digestInstalled(there);
  if (before !== (entry.upstream ?? entry).digest) throw createEditedError(name, there);
  const difference = { before: request.originals.read(entry.files) ?? new Map(), after: tree, kept: [] };
  return { name, prepared, is: "update", put: { ...put, ...omitUndefined({ before }) }, skill, difference };
}

function isSameSource(entry: LockedSkill, provenance: Provenance): boolean {
  return formatLockSource(entry) === formatLockSource(provenance);
}

function createInTheWayError(name: string, there: string): SkillError {
  const what = existsSync(join(there, "SKILL.md")) ? "a skill" : "something";
  return new SkillError("in-the-way", {
    message: `${there} is ${what} that skillet did not add, so "${name}" cannot be put there`,
    fix: "move it away",
  });
}

function createOtherSourceError(name: string, entry: LockedSkill, provenance: Provenance): SkillError {
  return new SkillError("other-source", {
    message: `"${name}" was ${entry.source === LOCAL_SOURCE ? "adopted without a source" : `added from ${formatLockSource(entry)}`}, and this one is from ${formatLockSource(provenance)}`,
    fix: `look at both; --force puts this one in its place, without what the other one was given`,
  });
}

function createEditedError(name: string, there: string): SkillError {
  return new SkillError("edited", {
    message: `${there} was changed since it was added, and would be lost`,
    fix: `move it away yourself, or remove it: skillet remove ${name} --force`,
  });
}
