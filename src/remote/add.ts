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
import { mapAsync } from "../util/sequential.ts";
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
import {
  applySkillsDirChanges,
  checkNameClash,
  createAddedMeanwhileError,
  digestInstalled,
  readLockedSkills,
  resolveSkillsDir,
  type SkillsDir,
  type SkillWrite,
  withStagingFolder,
} from "./skills-dir.ts";
import { parseSourceAddress } from "./source-address.ts";
import { planUpdate, type UpdateDifference } from "./update.ts";

export interface AddSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env"> {
  /** The source, in the syntax of `skillet add`. */
  source: string;
  /** The names of the skills to add. Defaults to all. A skill inside the folder of another one comes with it. */
  names?: readonly string[];
  /** Adds to the workspace's own folder instead of the user's. */
  isProject?: boolean;
  /** Replaces a skill of the same name that was added from another source. */
  force?: boolean;
  /** Accepts only skills that a known signer signed, now and in every update. */
  requireSignature?: boolean;
  /** Also connects to private addresses that only the source named. */
  allowPrivate?: boolean;
  /**
   * Called for each skill that cannot be added, so that the others are added. Without it, the first error is thrown and
   * nothing is added.
   */
  onRefused?(name: string, error: SkillError): void;
  /** Asks for approval of all pending skills before any of them is written. */
  approve(coming: readonly PendingSkill[]): boolean | Promise<boolean>;
  signal?: AbortSignal;
}

/** A skill that is ready to be written. */
export type PendingSkill = Extract<PlannedAddition, { is: "new" | "update" }>;

/**
 * Adds skills from a remote source: fetches, checks, gets approval, writes and locks them in one change. Returns the
 * outcome for each, or undefined if they were not approved. Throws a SkillError if one cannot be added, unless
 * `onRefused` is set.
 */
export async function addSkills(options: AddSkillsOptions): Promise<readonly PlannedAddition[] | undefined> {
  const {
    source,
    names = [],
    isProject = false,
    force: isForced = false,
    allowPrivate,
    requireSignature,
    onRefused,
    approve,
    signal,
  } = options;
  const around = resolveEnvironment(options);
  const skillsDir = resolveSkillsDir(around, isProject);
  if (statIfExists(skillsDir.folder)) recoverFolder(skillsDir.folder);
  const address = parseSourceAddress(source, { cwd: around.workspace, home: around.home });
  return withStagingFolder(around.skilletHome, async (work) => {
    const supply = await fetchListing(address, work, {
      env: around.env,
      names,
      ...omitUndefined({ signal, allowPrivate }),
    });
    const { listing: offer } = supply;
    const refuse = ({ name, error }: RefusedSkill) => {
      if (!onRefused) throw error;
      onRefused(name, error);
    };
    const wanted =
      names.length > 0 ? names.map((name) => findCandidate(name, offer)) : selectOutermost(offer.candidates);
    if (wanted.length === 0) throw createNoSkillsError(supply);
    const chosen = selectDistinct(wanted, refuse);
    const planning = { supply, skillsDir, around, work, locked: readLockedSkills(skillsDir), isForced };
    const { additions, problems } = await planAdditions(chosen, planning);
    for (const problem of problems) refuse(problem);
    const signers = createSignerStore(around.skilletHome);
    const coming = requireSignatures(additions.filter(isPending), {
      signers,
      ...omitUndefined({ all: requireSignature }),
    });
    if (coming.length === 0) return additions;
    if (!(await approve(coming))) return undefined;
    applySkillsDirChanges({ skillsDir, put: coming.map(({ put }) => put), skilletHome: around.skilletHome });
    const approvals = createApprovalStore(around.skilletHome);
    for (const { name } of coming) await approvals.forget(name, join(skillsDir.folder, name));
    if (isProject) await trustApplied(coming, skillsDir, createTrustStore(around.skilletHome, listLocations(around)));
    return additions;
  });
}

export function isPending(addition: PlannedAddition): addition is PendingSkill {
  return addition.is === "new" || addition.is === "update";
}

interface AdditionContext {
  supply: FetchedListing;
  skillsDir: SkillsDir;
  around: Environment;
  /** A private working folder. */
  work: string;
  locked: LockedSkills;
  isForced: boolean;
}

/** Checks the chosen skills and plans to add them. Returns all problems at once. */
export async function planAdditions(
  chosen: readonly RemoteCandidate[],
  { supply, skillsDir, around, work, locked, isForced }: AdditionContext,
): Promise<{ additions: PlannedAddition[]; problems: RefusedSkill[] }> {
  const originals = createBlobCache(around.skilletHome);
  const additions: PlannedAddition[] = [];
  const problems: RefusedSkill[] = [];
  for (const candidate of chosen) {
    try {
      const prepared = await prepareCandidate(candidate, supply.fetched, join(work, "skills", candidate.skill.name));
      const provenance = createProvenance(supply.fetched, candidate.path, { skillsDir, around });
      additions.push(
        await planAddition({
          prepared,
          provenance,
          skillsDir,
          locked,
          originals,
          work: join(work, "merged"),
          isForced,
        }),
      );
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      problems.push({ name: candidate.skill.name, error });
    }
  }
  return { additions, problems };
}

/** Creates the error for a source without a skill. */
export function createNoSkillsError({ listing: offer, fetched }: FetchedListing): SkillError {
  const broken = offer.diagnostics.find(stopsLoading);
  return new SkillError("no-skills", {
    message: broken
      ? `None of its skills can be loaded: ${broken.message}`
      : appendNotes("The source has no skill", offer),
    fix: broken
      ? "report it to its author"
      : fetched.links.size > 0
        ? "it contains symlinks, which are not followed: name the folder that they point to (//FOLDER)"
        : "a skill is a folder with a SKILL.md: check the source, and its //FOLDER",
  });
}

/**
 * Records that skills of a workspace are trusted, if their written files are the approved ones. A skill changed since
 * then needs a new approval.
 */
export async function trustApplied(
  coming: readonly PendingSkill[],
  { folder }: SkillsDir,
  trust: Pick<ReturnType<typeof createTrustStore>, "grant">,
): Promise<void> {
  const applied = await mapAsync(coming, async ({ name, put }) => {
    const read = readFolderSkill(join(folder, name), { scope: "workspace", source: ".agents/skills" });
    if (!read || !("skill" in read)) return [];
    const copy = await copySkill(read.skill);
    const skill = withBody(read.skill, copy.instructions);
    return diffLockedCopy(put.entry.files, copy.files).length === 0 ? [{ skill, copy }] : [];
  });
  trust.grant(applied.flat());
}

/** The planned outcome of adding a skill. */
export type PlannedAddition = { name: string; prepared: PreparedCandidate } & (
  | { is: "new"; put: SkillWrite; skill: Skill }
  | { is: "update"; put: SkillWrite; skill: Skill; difference: UpdateDifference; replaced?: FileTree }
  /** It is already there, with the same files as in the source. */
  | { is: "same"; isChanged: boolean }
  | { is: "conflict"; conflicts: readonly MergeConflict[] }
);

interface AddRequest {
  prepared: PreparedCandidate;
  provenance: Provenance;
  skillsDir: SkillsDir;
  locked: LockedSkills;
  originals: BlobCache;
  /** A private folder for the result of merged changes. */
  work: string;
  /** True if a skill that was added from another source is replaced. */
  isForced: boolean;
  conflicts?: "mine" | "theirs" | undefined;
}

/** Plans to add a skill. Writes only to `work`. Throws a SkillError if it cannot be added. */
export async function planAddition(request: AddRequest): Promise<PlannedAddition> {
  const { prepared, provenance, skillsDir, locked, isForced } = request;
  const { name, skill, files, digest, tree, folder } = prepared;
  const entry = locked[name];
  const existing = join(skillsDir.folder, name);
  checkNameClash(name, skillsDir, locked);
  const put: SkillWrite = {
    name,
    entry: {
      ...provenance,
      digest,
      files,
      grants: listLockGrants(skill, (await skill.files()).files),
      ...omitUndefined({ requireSignature: entry?.requireSignature }),
    },
    folder,
    originals: [{ files, tree }],
  };
  const isOther = entry !== undefined && !isSameSource(entry, provenance);
  if (isOther && !isForced) throw createOtherSourceError(name, entry, provenance);
  if (!lstatSync(existing, { throwIfNoEntry: false })) return { name, prepared, is: "new", put, skill };
  if (!entry) throw createAddedMeanwhileError(name, skillsDir) ?? createInTheWayError(name, existing);
  if (!isOther) {
    const update = await planUpdate({ ...request, name, entry });
    return { name, prepared, ...(update.is === "up-to-date" ? { ...update, is: "same" } : update) };
  }
  const before = digestInstalled(existing);
  if (before !== (entry.upstream ?? entry).digest) throw createEditedError(name, existing);
  const difference = { before: request.originals.read(entry.files) ?? new Map(), after: tree, kept: [] };
  return { name, prepared, is: "update", put: { ...put, ...omitUndefined({ before }) }, skill, difference };
}

function isSameSource(entry: LockedSkill, provenance: Provenance): boolean {
  return formatLockSource(entry) === formatLockSource(provenance);
}

function createInTheWayError(name: string, existing: string): SkillError {
  const what = existsSync(join(existing, "SKILL.md")) ? "a skill" : "a file or folder";
  return new SkillError("unmanaged-path", {
    message: `${existing} is ${what} that skillet did not add, so "${name}" cannot be written there`,
    fix: "move it away",
  });
}

function createOtherSourceError(name: string, entry: LockedSkill, provenance: Provenance): SkillError {
  return new SkillError("other-source", {
    message: `"${name}" was ${entry.source === LOCAL_SOURCE ? "adopted without a source" : `added from ${formatLockSource(entry)}`}, but this one is from ${formatLockSource(provenance)}`,
    fix: `compare both; --force replaces it, without the values that it was granted`,
  });
}

function createEditedError(name: string, existing: string): SkillError {
  return new SkillError("edited", {
    message: `${existing} was changed since it was added, and its changes would be lost`,
    fix: "move it away yourself, or remove it",
    commands: [`skillet remove ${name} --force`],
  });
}
