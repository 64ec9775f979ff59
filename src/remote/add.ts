import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { type DiscoverOptions, resolveEnvironment } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import { stopsLoading } from "../skill/skill.ts";
import type { Environment } from "../skill/source/locations.ts";
import { recoverFolder } from "../store/atomic-folder.ts";
import { type BlobCache, createBlobCache, listLockGrants } from "../store/lock-approval.ts";
import { createFingerprintCache, formatLockSource } from "../store/lock-diff.ts";
import { LOCAL_SOURCE, type LockedSkill, type LockedSkills } from "../store/lock-file.ts";
import { createSignerStore, type SignerStore } from "../store/signers.ts";
import { statIfExists } from "../util/file-access.ts";
import { omitUndefined } from "../util/objects.ts";
import { type AdditionResult, type PlannedAddition, type ReviewOptions, reviewAndApply } from "./apply-additions.ts";
import {
  appendNotes,
  type CandidateVerdict,
  createCandidateCheck,
  findCandidate,
  type PreparedCandidate,
  prepareCandidate,
  type RefusedSkill,
  type RemoteCandidate,
  selectDistinct,
  selectOutermost,
} from "./candidate.ts";
import { createProvenance, type FetchedListing, fetchListing } from "./fetch-source.ts";
import type { Provenance, RunFetch } from "./remote-source.ts";
import { checkSignature, createNotSignedError } from "./signature.ts";
import {
  applySkillsDirChanges,
  checkNameClash,
  createAddedMeanwhileError,
  digestInstalled,
  readLockedSkills,
  resolveSkillsDir,
  type SkillsDir,
  type SkillWrite,
  type VerifyResult,
  verifySkill,
  withStagingFolder,
} from "./skills-dir.ts";
import { parseSourceAddress } from "./source-address.ts";
import { planUpdate, type RefetchResult, refetchSkills } from "./update.ts";

export interface AddSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env">, ReviewOptions {
  /** The source, in the syntax of `skillet add`. */
  source: string;
  /** The folder that a relative source starts from. Defaults to the workspace. */
  cwd?: string;
  /** The names of the skills to add. A skill inside the folder of another one comes with it. */
  names?: readonly string[];
  /** Adds to the workspace's own folder instead of the user's. */
  isProject?: boolean;
  /** Replaces a skill of the same name that was added from another source. */
  force?: boolean;
  /** Also connects to private addresses that only the source named. */
  allowPrivate?: boolean;
  /** Chooses among the skills of the source if no names are given. Defaults to all that are not inside another. */
  choose?(source: SourceChoice): readonly RemoteCandidate[] | Promise<readonly RemoteCandidate[]>;
  /**
   * Called for each skill that cannot be added, so that the others are added. Without it, the first error is thrown and
   * nothing is added.
   */
  onRefused?(name: string, error: SkillError): void;
  signal?: AbortSignal;
  /** Runs the fetching, for example to show its progress. Defaults to running it with `signal`. */
  runFetch?: RunFetch;
}

/** The skills of a source, to choose from. */
export interface SourceChoice extends FetchedListing {
  /** Scans a skill of the source, and finds the reason why it cannot be added. */
  check(candidate: RemoteCandidate): Promise<CandidateVerdict>;
}

/**
 * Adds skills from a remote source, as `skillet add` does: fetches, checks, gets approval, writes and locks them in one
 * change. Throws a SkillError if one cannot be added, unless `onRefused` is set.
 *
 * @example
 * const { outcome, additions } = await addSkills({
 *   source: "acme/skills#v2",
 *   names: ["review"],
 *   approve: (pending) => pending.every(({ prepared }) => prepared.findings.length === 0),
 * });
 */
export async function addSkills(options: AddSkillsOptions): Promise<AdditionResult> {
  const { source, cwd, names = [], isProject = false, force: isForced = false, allowPrivate, choose, signal } = options;
  const { runFetch = (fetch) => fetch(signal), onRefused } = options;
  const environment = resolveEnvironment(options);
  const skillsDir = resolveSkillsDir(environment, isProject);
  if (statIfExists(skillsDir.folder)) recoverFolder(skillsDir.folder);
  const locked = readLockedSkills(skillsDir);
  const address = parseSourceAddress(source, { cwd: cwd ?? environment.workspace, home: environment.home });
  return withStagingFolder(environment.skilletHome, async (work) => {
    const supply = await runFetch((signal) =>
      fetchListing(address, work, { env: environment.env, names, ...omitUndefined({ signal, allowPrivate }) }),
    );
    const { listing: offer, fetched } = supply;
    const refuse = ({ name, error }: RefusedSkill) => {
      if (!onRefused) throw error;
      onRefused(name, error);
    };
    const chooseAll = () => selectOutermost(offer.candidates);
    const wanted =
      names.length > 0
        ? names.map((name) => findCandidate(name, offer))
        : await (choose?.({ ...supply, check: createCandidateCheck(fetched, work) }) ?? chooseAll());
    if (wanted.length === 0) throw createNoSkillsError(supply);
    const chosen = selectDistinct(wanted, refuse);
    const { additions, problems } = await planAdditions(chosen, {
      supply,
      skillsDir,
      environment,
      work,
      locked,
      isForced,
    });
    for (const problem of problems) refuse(problem);
    return reviewAndApply(additions, { skillsDir, environment, work, locked, notes: offer.notes }, options);
  });
}

interface AdditionContext {
  supply: FetchedListing;
  skillsDir: SkillsDir;
  environment: Environment;
  /** A private working folder. */
  work: string;
  locked: LockedSkills;
  isForced: boolean;
}

/** Checks the chosen skills and plans to add them. Returns all problems at once. */
async function planAdditions(
  chosen: readonly RemoteCandidate[],
  { supply, skillsDir, environment, work, locked, isForced }: AdditionContext,
): Promise<{ additions: PlannedAddition[]; problems: RefusedSkill[] }> {
  const originals = createBlobCache(environment.skilletHome);
  const additions: PlannedAddition[] = [];
  const problems: RefusedSkill[] = [];
  for (const candidate of chosen) {
    try {
      const prepared = await prepareCandidate(candidate, supply.fetched, join(work, "skills", candidate.skill.name));
      const provenance = createProvenance(supply.fetched, candidate.path, { skillsDir, environment });
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

interface RestoreSkillsOptions {
  environment: Environment;
  skillsDir: SkillsDir;
  /** Accepts only signed skills, also if their lock entries do not require it. */
  requireSignature?: boolean | undefined;
  isDryRun?: boolean | undefined;
  /** Also connects to private addresses that only the lock file named. */
  allowPrivate?: boolean | undefined;
  /** Runs the fetching, for example to show its progress. */
  runFetch: RunFetch;
}

export interface RestoreResult {
  /** Existing skills that do not match the lock file. Nothing is restored then. */
  wrong: readonly VerifyResult[];
  /** The names of the skills that were missing and now exist. */
  added: readonly string[];
  /** Skills that cannot be restored. Nothing is restored then. */
  problems: readonly RefusedSkill[];
}

/**
 * Restores the missing skills of a lock file, all or none. Existing skills must match it; missing ones are fetched from
 * their source and must match too. The lock file never changes, and there is no approval: its author has approved it.
 */
export async function restoreSkills(
  entries: readonly (readonly [string, LockedSkill])[],
  { environment, skillsDir, requireSignature = false, isDryRun, allowPrivate, runFetch }: RestoreSkillsOptions,
): Promise<RestoreResult> {
  const stamps = createFingerprintCache(environment.skilletHome);
  const verified = entries.map(([name, entry]) => verifySkill(skillsDir, name, entry, stamps));
  const wrong = verified.filter(({ is }) => is !== "unchanged" && is !== "missing");
  if (wrong.length > 0) return { ...NOTHING, wrong };
  const missing = entries.filter(([name]) => verified.some((one) => one.name === name && one.is === "missing"));
  const signers = createSignerStore(environment.skilletHome);
  const mustBeSigned = (entry: LockedSkill) => requireSignature || entry.requireSignature === true;
  const existing = entries.filter(([name]) => !missing.some(([other]) => other === name));
  const unsigned = existing.flatMap(([name, entry]) =>
    mustBeSigned(entry) ? checkLockedSignature(name, join(skillsDir.folder, name), signers) : [],
  );
  if (unsigned.length > 0) return { ...NOTHING, problems: unsigned };
  return withStagingFolder(environment.skilletHome, async (work) => {
    const fetched = await runFetch((signal) =>
      refetchSkills(missing, {
        ...{ environment, work, env: environment.env, isPinned: true, isUntyped: skillsDir.isProject },
        ...omitUndefined({ allowPrivate, signal }),
      }),
    );
    const found = missing.map(([name, entry]) => ({ name, ...matchLocked(entry, fetched.get(name)) }));
    const problems = found.flatMap(({ name, error, put }) =>
      error ? [{ name, error }] : put && mustBeSigned(put.entry) ? checkLockedSignature(name, put.folder, signers) : [],
    );
    if (problems.length > 0) return { ...NOTHING, problems };
    const put = found.flatMap(({ put: one }) => one ?? []);
    if (put.length > 0 && !isDryRun) applySkillsDirChanges({ skillsDir, put, skilletHome: environment.skilletHome });
    return { ...NOTHING, added: put.map(({ name }) => name) };
  });
}

const NOTHING: RestoreResult = { wrong: [], added: [], problems: [] };

/** Returns the problem of a skill that must be signed. */
function checkLockedSignature(name: string, folder: string, signers: SignerStore): RefusedSkill[] {
  const state = checkSignature({ folder, name, signers });
  return state.state === "valid" ? [] : [{ name, error: createNotSignedError(name, state) }];
}

/** Returns the fetched skill if it matches the lock file byte by byte. */
function matchLocked(entry: LockedSkill, fetched: RefetchResult | undefined): { put?: SkillWrite; error?: SkillError } {
  if (!fetched || "error" in fetched) {
    return {
      error:
        fetched?.error ??
        new SkillError("source-skill-missing", { message: "The skill could not be fetched", fix: "try again" }),
    };
  }
  const { name, folder, files, tree, digest } = fetched.prepared;
  if (digest === entry.digest) return { put: { name, entry, folder, originals: [{ files, tree }] } };
  if (entry.upstream?.digest === digest) {
    return {
      error: new SkillError("lock-mismatch", {
        message: "The lock file contains local changes that its source does not have",
        fix: "restore its folder from version control, where the changes are kept",
      }),
    };
  }
  return {
    error: new SkillError("lock-mismatch", {
      message: "The source does not match the lock file",
      fix: "review the change, then update the lock file",
      commands: ["skillet update --dry-run", "skillet update"],
    }),
  };
}
