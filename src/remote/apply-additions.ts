import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { type Environment, listLocations } from "../skill/source/locations.ts";
import { readFolderSkill } from "../skill/source/read-skill.ts";
import { copySkill, copySkillFolder } from "../skill/source/skill-copy.ts";
import { createApprovalStore } from "../store/approvals.ts";
import { diffLockedCopy } from "../store/lock-diff.ts";
import type { LockedSkills } from "../store/lock-file.ts";
import { createSignerStore } from "../store/signers.ts";
import { createTrustStore, type TrustStore } from "../store/trust.ts";
import { mapAsync } from "../util/async.ts";
import { formatCount, quoteIfNeeded } from "../util/text.ts";
import type { PreparedCandidate } from "./candidate.ts";
import { type FileTree, type MergeConflict, writeTree } from "./file-tree.ts";
import { checkSignature, requireSignatures, type SignatureState } from "./signature.ts";
import { applySkillsDirChanges, needsTrust, type SkillsDir, type SkillWrite } from "./skills-dir.ts";

/** The planned outcome of adding or updating a skill. */
export type PlannedAddition = { name: string; prepared: PreparedCandidate } & (
  | { is: "new"; put: SkillWrite; skill: Skill }
  /** `replaced`: the user's files if the source's version replaces them. */
  | { is: "update"; put: SkillWrite; skill: Skill; difference: UpdateDifference; replaced?: FileTree }
  /** It is already there, with the same files as in the source. */
  | { is: "same"; isChanged: boolean }
  | { is: "conflict"; conflicts: readonly MergeConflict[] }
);

/** A skill that is ready to be written. */
export type PendingSkill = Extract<PlannedAddition, { is: "new" | "update" }>;

/** The approved files, and the files to approve now. */
export interface UpdateDifference {
  before: FileTree;
  after: FileTree;
  /** Paths that the user changed, and that stay so. */
  kept: readonly string[];
}

/** The changes that `addSkills` would make. */
export interface AdditionPlan {
  skillsDir: SkillsDir;
  additions: readonly PlannedAddition[];
  /** The additions that need approval and are then written. */
  pending: readonly PendingSkill[];
  /** The signatures of pending skills, by name. */
  signatures: ReadonlyMap<string, SignatureState>;
  /** The lock file's entries before the change. */
  locked: LockedSkills;
  /** Facts about the source, for people. */
  notes: readonly string[];
}

export interface AdditionResult extends AdditionPlan {
  /** `unchanged`: nothing was pending. `planned`: a dry run. */
  outcome: "applied" | "declined" | "unchanged" | "planned";
  /** The names of applied skills whose code is trusted now. */
  trusted: ReadonlySet<string>;
  /** The user's versions of replaced skills, by name: the folders that they were moved to. */
  backups: ReadonlyMap<string, string>;
}

export interface ReviewOptions {
  /** Accepts only skills that a known signer signed, now and in every update. */
  requireSignature?: boolean | undefined;
  /** Plans only: calls `onPlan`, but neither asks nor writes. */
  isDryRun?: boolean | undefined;
  /** Called with all changes, before approval is requested. An error that it throws cancels them. */
  onPlan?(plan: AdditionPlan): void | Promise<void>;
  /**
   * Asks for approval of all pending skills, before any of them is written. `true` approves the source's content
   * without asking, as `--yes` does: local changes since the last approval are refused with the code `changed`.
   */
  approve: true | ((pending: readonly PendingSkill[], plan: AdditionPlan) => boolean | Promise<boolean>);
}

interface ReviewContext {
  skillsDir: SkillsDir;
  environment: Environment;
  /** A private working folder. */
  work: string;
  /** The lock file's entries before the change. */
  locked: LockedSkills;
  notes?: readonly string[];
}

/**
 * Requests approval for planned changes, and applies all of them or none: writes and locks the skills, forgets the
 * approvals given to replaced ones, and trusts what was reviewed.
 */
export async function reviewAndApply(
  additions: readonly PlannedAddition[],
  { skillsDir, environment, work, locked, notes = [] }: ReviewContext,
  { requireSignature = false, isDryRun = false, onPlan, approve }: ReviewOptions,
): Promise<AdditionResult> {
  const { skilletHome } = environment;
  const signers = createSignerStore(skilletHome);
  const pending = requireSignatures(additions.filter(isPending), { signers, all: requireSignature });
  const signatures = new Map(
    pending.map(({ name, put: { folder, entry } }) => [
      name,
      checkSignature({ folder, name, files: entry.files, signers }),
    ]),
  );
  const plan: AdditionPlan = { skillsDir, additions, pending, signatures, locked, notes };
  const finish = (outcome: AdditionResult["outcome"]) => ({ ...plan, outcome, trusted: NO_NAMES, backups: NO_BACKUPS });
  await onPlan?.(plan);
  if (pending.length === 0) return finish("unchanged");
  if (isDryRun) return finish("planned");
  if (approve === true) checkUnreviewed(pending, locked);
  else if (!(await approve(pending, plan))) return finish("declined");
  const backups = backUpReplaced(pending, skilletHome);
  const trust = createTrustStore(skilletHome, listLocations(environment));
  const trusted = findTrustedByApproval(pending, { skillsDir, trust, work });
  applySkillsDirChanges({ skillsDir, put: pending.map(({ put }) => put), skilletHome });
  // Approvals given to the replaced skill do not apply to the new one.
  const approvals = createApprovalStore(skilletHome);
  for (const { name } of pending) await approvals.forget(name, join(skillsDir.folder, name));
  const reviewed = pending.filter(({ name }) => trusted.has(name));
  if (needsTrust(skillsDir)) await trustApplied(reviewed, skillsDir, trust);
  return { ...plan, outcome: "applied", trusted, backups };
}

const NO_NAMES: ReadonlySet<string> = new Set();
const NO_BACKUPS: ReadonlyMap<string, string> = new Map();

function isPending(addition: PlannedAddition): addition is PendingSkill {
  return addition.is === "new" || addition.is === "update";
}

/** Throws if local changes would be approved without a review: only the source's content is approved in advance. */
function checkUnreviewed(pending: readonly PendingSkill[], locked: LockedSkills): void {
  const changed = pending.filter(({ name, put }) => put.before !== undefined && put.before !== locked[name]?.digest);
  if (changed.length === 0) return;
  const names = changed.map(({ name }) => name);
  const shown = names.length > MAX_NAMES ? formatCount(names.length, "skill") : names.join(", ");
  throw new SkillError("changed", {
    message: `${shown} changed here since ${names.length === 1 ? "it was" : "they were"} approved; nothing was updated`,
    fix: "omit --yes, or review the change first",
    commands: [`skillet trust ${names.length === 1 ? quoteIfNeeded(names[0] ?? "") : "NAME"}`],
  });
}

const MAX_NAMES = 8;

/** Backs up the user's files that the source's version replaces. Returns the folders by name. */
function backUpReplaced(pending: readonly PendingSkill[], skilletHome: string): Map<string, string> {
  const backups = new Map<string, string>();
  for (const one of pending) {
    if (one.is !== "update" || !one.replaced) continue;
    const folder = join(skilletHome, "replaced", `${one.name}-${(one.put.before ?? "").slice(7, 19)}`);
    backUpTree(folder, one.replaced);
    backups.set(one.name, folder);
  }
  return backups;
}

/** Writes the backup atomically. The folder's name contains the digest, so an existing backup is identical. */
function backUpTree(folder: string, tree: FileTree): void {
  if (existsSync(folder)) return;
  const draft = `${folder}.${crypto.randomUUID()}`;
  writeTree(draft, tree);
  renameSync(draft, folder);
}

const PROJECT_ORIGIN = { scope: "workspace", source: ".agents/skills" } as const;

/**
 * Returns the skills that this approval also trusts: those that were reviewed completely, or whose unchanged parts were
 * trusted before.
 */
function findTrustedByApproval(
  pending: readonly PendingSkill[],
  { skillsDir, trust, work }: { skillsDir: SkillsDir; trust: TrustStore; work: string },
): ReadonlySet<string> {
  if (!needsTrust(skillsDir)) return new Set(pending.map(({ name }) => name));
  const trustedSkills = new Map(trust.list());
  const isReviewed = (one: PendingSkill) => {
    if (one.is === "new") return true;
    const trusted = trustedSkills.get(join(skillsDir.folder, one.name));
    return (
      trusted !== undefined && trusted.digest === digestTree(one.difference.before, join(work, "trusted", one.name))
    );
  };
  return new Set(pending.filter(isReviewed).map(({ name }) => name));
}

function digestTree(tree: FileTree, folder: string): string | undefined {
  writeTree(folder, tree);
  const read = readFolderSkill(folder, PROJECT_ORIGIN);
  return read && "skill" in read ? copySkillFolder(read.skill).digest : undefined;
}

/**
 * Records that skills of a workspace are trusted, if their written files are the approved ones. A skill changed since
 * then needs a new approval.
 */
export async function trustApplied(
  approved: readonly PendingSkill[],
  { folder }: SkillsDir,
  trust: Pick<TrustStore, "grant">,
): Promise<void> {
  const applied = await mapAsync(approved, async ({ name, put }) => {
    const read = readFolderSkill(join(folder, name), PROJECT_ORIGIN);
    if (!read || !("skill" in read)) return [];
    const copy = await copySkill(read.skill);
    const skill = withBody(read.skill, copy.instructions);
    return diffLockedCopy(put.entry.files, copy.files).length === 0 ? [{ skill, copy }] : [];
  });
  trust.grant(applied.flat());
}
