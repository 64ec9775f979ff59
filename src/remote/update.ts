import { chmodSync, lstatSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { type Skill, stopsLoading } from "../skill/skill.ts";
import type { Environment } from "../skill/source/locations.ts";
import { readFolderSkill } from "../skill/source/read-skill.ts";
import { type BlobCache, createBlobCache, listLockGrants } from "../store/lock-approval.ts";
import { digestTree, hasUnknownBase, LOCAL_SOURCE, type LockedSkill } from "../store/lock-file.ts";
import { omitUndefined } from "../util/objects.ts";
import { compareText, quoteIfNeeded } from "../util/text.ts";
import {
  type AdditionResult,
  type PlannedAddition,
  type ReviewOptions,
  reviewAndApply,
  type UpdateDifference,
} from "./apply-additions.ts";
import { type PreparedCandidate, prepareCandidate, type RemoteCandidate } from "./candidate.ts";
import { checkPublicAddress } from "./download.ts";
import { createProvenance, type FetchedListing, fetchListing, getLockedAddress } from "./fetch-source.ts";
import {
  type FileTree,
  type MergeConflict,
  mergeTrees,
  readTree,
  resolveMergeConflicts,
  toLockedFiles,
  writeTree,
} from "./file-tree.ts";
import { readRemoteCommit } from "./git-fetch.ts";
import type { Provenance, RunFetch, SourceAddress } from "./remote-source.ts";
import {
  digestInstalled,
  needsTrust,
  readLockedSkills,
  type SkillsDir,
  type SkillWrite,
  withStagingFolder,
} from "./skills-dir.ts";
import { formatSourceAddress } from "./source-address.ts";

/** The planned outcome of an update. `replaced`: the user's files if the source's version replaces them. */
export type UpdatePlan =
  /** The source is unchanged. `isChanged`: the local files differ from the approved ones. */
  | { is: "up-to-date"; isChanged: boolean }
  | { is: "conflict"; conflicts: readonly MergeConflict[] }
  | { is: "update"; put: SkillWrite; skill: Skill; difference: UpdateDifference; replaced?: FileTree };

export interface UpdateRequest {
  name: string;
  entry: LockedSkill;
  skillsDir: SkillsDir;
  /** The current version in the source. */
  prepared: PreparedCandidate;
  provenance: Provenance;
  originals: BlobCache;
  /** A folder that does not exist yet, for the merged skill. */
  work: string;
  /** The version in the source at the locked commit, if it is not known here. */
  base?: Pick<PreparedCandidate, "digest" | "files" | "tree"> | undefined;
  /** The side whose lines win if both changed the same ones. */
  conflicts?: "mine" | "theirs" | undefined;
}

/** Plans the update of a skill, keeping the user's changes. Writes only to `work`. */
export async function planUpdate(request: UpdateRequest): Promise<UpdatePlan> {
  const { name, entry, skillsDir, prepared, originals, base } = request;
  const { digest, files } = base ?? entry.upstream ?? entry;
  const upstream = { digest, files };
  const folder = join(skillsDir.folder, name);
  const before = digestInstalled(folder); // Computed first: a write between the two reads is then detected before anything is replaced.
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
        ? resolveMergeConflicts(merged, { ours, theirs: prepared.tree }, side)
        : merged.files
      : prepared.tree;
  const made = after === prepared.tree ? prepared : writeMergedSkill(request, after, ours);
  return {
    is: "update",
    skill: made.skill,
    put: {
      name,
      folder: made.folder,
      ...(await createUpdatedEntry(request, after, made.skill)),
      ...omitUndefined({ before }),
    },
    difference: {
      // The approved files. Without an approval everything is shown as new.
      before: originals.read(entry.files) ?? (before === entry.digest ? ours : undefined) ?? new Map(),
      after,
      kept: merged ? [...merged.kept, ...merged.merged].sort(compareText) : [],
    },
    ...omitUndefined({ replaced: side === "theirs" && merged && merged.conflicts.length > 0 ? ours : undefined }),
  };
}

/** Creates the new lock entry, and the files to keep for the next update. */
async function createUpdatedEntry(
  { prepared, provenance, entry: locked }: UpdateRequest,
  tree: FileTree,
  skill: Skill,
): Promise<Pick<SkillWrite, "entry" | "originals">> {
  const files = toLockedFiles(tree);
  const digest = digestTree(files);
  const upstream = digest === prepared.digest ? undefined : { digest: prepared.digest, files: prepared.files };
  const { requireSignature, adopted } = locked;
  const entry = {
    ...provenance,
    digest,
    files,
    ...omitUndefined({ upstream, requireSignature, adopted }),
    grants: listLockGrants(skill, (await skill.files()).files),
  };
  const theirs = upstream ? [{ files: prepared.files, tree: prepared.tree }] : [];
  return { entry, originals: [{ files, tree }, ...theirs] };
}

/**
 * Writes the merged skill. Throws if it is not a valid skill of that name: two edits that fit line by line can still
 * break it.
 */
function writeMergedSkill({ name, work, skillsDir }: UpdateRequest, tree: FileTree, ours: FileTree = new Map()) {
  const folder = join(work, name);
  writeTree(folder, tree);
  // Keeps the permissions of a file that others may not read.
  for (const [path, file] of tree) {
    const stats = ours.get(path) === file && lstatSync(join(skillsDir.folder, name, path), { throwIfNoEntry: false });
    if (stats) chmodSync(join(folder, path), stats.mode & 0o775);
  }
  const read = readFolderSkill(folder, { scope: "installed", source: "installed" });
  if (read && "skill" in read && read.skill.name === name) return { skill: read.skill, folder };
  const why = read && "findings" in read ? read.findings[0]?.message : undefined;
  throw new SkillError("merge-broken", {
    message: `Merging your changes with the update does not give a valid skill "${name}"${why === undefined ? "" : `: its SKILL.md ${why}`}`,
    fix: "fix your SKILL.md so that both fit, or use --conflicts mine or --conflicts theirs",
  });
}

export interface UpdateSkillsOptions extends ReviewOptions {
  environment: Environment;
  skillsDir: SkillsDir;
  /** The side whose lines win if both changed the same ones. */
  conflicts?: "mine" | "theirs" | undefined;
  /** Also connects to private addresses that only a source, or the lock file of a workspace, named. */
  allowPrivate?: boolean;
  /** Called for each skill that cannot be updated. The others are updated. */
  onRefused(name: string, error: SkillError): void;
  /** Runs the fetching, for example to show its progress. */
  runFetch: RunFetch;
}

/** Updates locked skills of one folder: fetches, merges, gets approval, writes and locks them in one change. */
export function updateSkills(
  entries: readonly (readonly [string, LockedSkill])[],
  options: UpdateSkillsOptions,
): Promise<AdditionResult> {
  const { environment, skillsDir, conflicts, allowPrivate = false, onRefused, runFetch } = options;
  return withStagingFolder(environment.skilletHome, async (work) => {
    const locked = readLockedSkills(skillsDir);
    const { fetched, bases } = await runFetch(async (signal) => {
      const isUntyped = needsTrust(skillsDir);
      const fetchOptions = {
        environment,
        work,
        env: environment.env,
        allowPrivate,
        isUntyped,
        ...omitUndefined({ signal }),
      };
      const fetched = await refetchSkills(entries, fetchOptions);
      const before = join(work, "before");
      mkdirSync(before, 0o700);
      return { fetched, bases: await fetchBases(entries, { ...fetchOptions, work: before }) };
    });
    const additions: PlannedAddition[] = [];
    for (const [name, entry] of entries) {
      try {
        const refetched = fetched.get(name);
        if (!refetched || "error" in refetched) throw refetched?.error;
        const { prepared, supply } = refetched;
        const provenance = createProvenance(supply.fetched, prepared.path, { skillsDir, environment });
        const originals = createBlobCache(environment.skilletHome);
        const merging = { work: join(work, "merged"), conflicts, base: bases.get(name) };
        const planned = await planUpdate({ name, entry, skillsDir, prepared, provenance, originals, ...merging });
        additions.push({ name, prepared, ...(planned.is === "up-to-date" ? { ...planned, is: "same" } : planned) });
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        onRefused(name, error);
      }
    }
    return reviewAndApply(additions, { skillsDir, environment, work, locked }, options);
  });
}

/** The current version of a locked skill in its source, or the error. */
export type RefetchResult = { prepared: PreparedCandidate; supply: FetchedListing } | { error: SkillError };

interface RefetchOptions {
  environment: Environment;
  /** A private working folder. */
  work: string;
  env: Readonly<Record<string, string | undefined>>;
  signal?: AbortSignal;
  /** True to fetch exactly the locked commits, wherever their refs point now. */
  isPinned?: boolean;
  /** Also connects to private addresses that only a source, or the lock file of a workspace, named. */
  allowPrivate?: boolean;
  /**
   * True if the user did not type the addresses in the lock file: it belongs to a workspace, or they were found when
   * skills were adopted.
   */
  isUntyped?: boolean;
  /** Called before each source is fetched. */
  onFetch?(source: string): void;
}

/** Fetches the sources of locked skills again, each once, and finds the skills in them. */
export async function refetchSkills(
  entries: readonly (readonly [string, LockedSkill])[],
  options: RefetchOptions,
): Promise<Map<string, RefetchResult>> {
  const found = new Map<string, RefetchResult>();
  const groups = Map.groupBy(entries, ([, { source, ref, commit }]) =>
    JSON.stringify([source, ref, options.isPinned ? commit : undefined]),
  );
  for (const group of groups.values()) {
    const supply = await refetchSource(group, options);
    for (const [name, entry] of group) {
      found.set(
        name,
        supply instanceof SkillError ? { error: supply } : await findRefetched(supply, name, entry, options),
      );
    }
  }
  return found;
}

interface RefetchedListing extends FetchedListing {
  /** Errors of single skills of a site, by name. */
  failures: ReadonlyMap<string, SkillError>;
}

async function refetchSource(
  group: readonly (readonly [string, LockedSkill])[],
  { environment, work, env, signal, isPinned, allowPrivate, isUntyped, onFetch }: RefetchOptions,
): Promise<RefetchedListing | SkillError> {
  const [first] = group;
  if (!first) return new SkillError("not-found", { message: "Nothing to fetch", fix: "" });
  const [, entry] = first;
  if (entry.source === LOCAL_SOURCE) return createNoSourceError(group.map(([name]) => name));
  try {
    const address = getLockedAddress(entry, environment);
    if (isUntyped && !allowPrivate) await checkLockedAddress(address);
    onFetch?.(formatSourceAddress(address));
    const commit = isPinned ? entry.commit : undefined;
    const names = group.map(([name, locked]) => getSiteName(name, locked));
    const failures = new Map<string, SkillError>();
    const onFailure = (name: string, error: SkillError) => void failures.set(name, error);
    return {
      ...(await fetchListing(address, work, {
        env,
        names,
        onFailure,
        ...omitUndefined({ signal, commit, allowPrivate }),
      })),
      failures,
    };
  } catch (error) {
    if (error instanceof SkillError && !signal?.aborted) return error;
    throw error;
  }
}

function createNoSourceError([name = "", ...more]: readonly string[]): SkillError {
  return new SkillError("no-source", {
    message: `Unknown origin: ${more.length > 0 ? "they were" : "it was"} adopted without a source`,
    fix: "set one",
    commands: [`skillet adopt ${more.length > 0 ? "NAME" : name} --from SOURCE`],
  });
}

/**
 * Fetches the original files of adopted skills whose origin has a commit and whose files at that commit are not known
 * here. Skips a skill that cannot be fetched: its edited files are then unknown.
 */
export async function fetchBases(
  entries: readonly (readonly [string, LockedSkill])[],
  options: RefetchOptions,
): Promise<ReadonlyMap<string, PreparedCandidate>> {
  const unknown = entries.filter(([, entry]) => hasUnknownBase(entry) && entry.commit !== undefined);
  const fetched = await refetchSkills(unknown, { ...options, isPinned: true });
  return new Map([...fetched].flatMap(([name, one]) => ("prepared" in one ? [[name, one.prepared]] : [])));
}

/** Throws if an untrusted lock file names a private address: the user who clones a project has not typed it. */
async function checkLockedAddress(address: SourceAddress): Promise<void> {
  const [, host] = address.kind === "git" ? (/^[^/@:]+@([^/:]+):/.exec(address.url) ?? []) : [];
  const text = address.kind === "folder" ? "" : address.kind === "archive" ? address.location : address.url;
  const url = URL.parse(host === undefined ? text : `ssh://${host}`);
  if (url && ["http:", "https:", "ssh:"].includes(url.protocol)) await checkPublicAddress(url);
}

/** Returns the site's name of a skill: the folder that it is fetched into. The skill itself may have another name. */
function getSiteName(name: string, { path = name }: Pick<LockedSkill, "path">): string {
  return path.split("/", 1)[0] ?? name;
}

async function findRefetched(
  supply: RefetchedListing,
  name: string,
  entry: LockedSkill,
  { work }: RefetchOptions,
): Promise<RefetchResult> {
  const { path = "" } = entry;
  const error = supply.failures.get(getSiteName(name, entry));
  if (error) return { error };
  const { candidates } = supply.listing;
  const candidate = candidates.find((one) => one.path === path && one.skill.name === name);
  if (!candidate) return { error: createSourceGoneError(name, path, supply) };
  try {
    return { prepared: await prepareCandidate(candidate, supply.fetched, join(work, "skills", name)), supply };
  } catch (error) {
    if (error instanceof SkillError) return { error };
    throw error;
  }
}

function createSourceGoneError(name: string, path: string, { listing: offer, fetched }: FetchedListing): SkillError {
  const { candidates, diagnostics } = offer;
  const wrong = (message: string, fix: string, commands?: string[]) =>
    new SkillError("source-skill-missing", { message, fix, ...(commands ? { commands } : {}) });
  const adding = ({ skill, path }: RemoteCandidate) => {
    const wanted = fetched.address.kind === "site" ? getSiteName(skill.name, { path }) : skill.name;
    return [`skillet add ${quoteIfNeeded(formatSourceAddress(fetched.address))} ${quoteIfNeeded(wanted)}`];
  };
  const fix = "remove it and add the current version";
  const moved = candidates.find(({ skill }) => skill.name === name);
  if (moved) {
    const where = moved.path === "" ? "the root of its source" : `at ${moved.path} in its source`;
    return wrong(`Skill "${name}" is now ${where}`, fix, adding(moved));
  }
  const renamed = candidates.find((one) => one.path === path);
  if (renamed) return wrong(`Skill "${name}" is now named "${renamed.skill.name}" in its source`, fix, adding(renamed));
  const broken = diagnostics.find(stopsLoading);
  return wrong(
    `Its source no longer has a skill "${name}"${path === "" ? "" : ` at ${path}`}`,
    broken ? `a skill there does not load: ${broken.message}` : "keep it as it is, or remove it",
  );
}

/** The number of sources that are requested in parallel. */
const MAX_PARALLEL_SOURCES = 8;

/**
 * Finds the skills whose repositories are still at the locked commit: they are up to date, and nothing needs to be
 * fetched. Excludes those that cannot be checked.
 */
export async function findUnmoved(
  entries: readonly (readonly [string, LockedSkill])[],
  options: Pick<RefetchOptions, "environment" | "env" | "signal" | "allowPrivate" | "isUntyped">,
): Promise<ReadonlySet<string>> {
  const { environment, env, signal, allowPrivate, isUntyped } = options;
  const groups = [
    ...Map.groupBy(entries, ([, { source, ref, commit }]) => JSON.stringify([source, ref, commit])).values(),
  ];
  const isUnmoved = async ([, entry]: readonly [string, LockedSkill]) => {
    try {
      const address = getLockedAddress(entry, environment);
      if (address.kind !== "git" || entry.commit === undefined) return false;
      if (isUntyped && !allowPrivate) await checkLockedAddress(address);
      return (await readRemoteCommit(address, { env, ...(signal ? { signal } : {}) })) === entry.commit;
    } catch (error) {
      if (error instanceof SkillError && !signal?.aborted) return false; // The reason is reported when it is fetched.
      throw error;
    }
  };
  const names = new Set<string>();
  for (let from = 0; from < groups.length; from += MAX_PARALLEL_SOURCES) {
    const batch = groups.slice(from, from + MAX_PARALLEL_SOURCES);
    const answers = await Promise.all(batch.map(async (group) => group[0] !== undefined && isUnmoved(group[0])));
    for (const [index, group] of batch.entries()) if (answers[index]) for (const [name] of group) names.add(name);
  }
  return names;
}
