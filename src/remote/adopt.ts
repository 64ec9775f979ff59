import { existsSync, lstatSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { type DiscoverOptions, type DiscoverResult, discover } from "../config/discover.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { getSkillStoreFolder, storeSkillCopy } from "../sandbox/sandbox-folders.ts";
import type { ScanFinding } from "../scan/rule.ts";
import { scanSkill } from "../scan/scan.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { formatDisplayPath, listLocations } from "../skill/source/locations.ts";
import { copySkill, listCopiedFiles, type SkillCopy } from "../skill/source/skill-copy.ts";
import { recoverFolder } from "../store/atomic-folder.ts";
import { createAdoptedFolders } from "../store/copy-records.ts";
import { createBlobCache, getFolderLockPath, listEntryDigests, listLockGrants } from "../store/lock-approval.ts";
import { diffLockedCopy } from "../store/lock-diff.ts";
import {
  digestTree,
  formatLock,
  isLockedRegularFile,
  LOCAL_SOURCE,
  LOCK_FILE,
  type LockedSkill,
  readFileTree,
} from "../store/lock-file.ts";
import { replaceFile, withFileLock } from "../store/locked-file.ts";
import { findForeignFile, statIfExists } from "../util/file-access.ts";
import { omitUndefined } from "../util/objects.ts";
import { resolveRealPath } from "../util/safe-path.ts";
import { compareText, quoteIfNeeded } from "../util/text.ts";
import { type AdoptableSkills, findAdoptable, readLockEntry } from "./adoptable-skills.ts";
import { findCandidate, prepareCandidate, type RefusedSkill } from "./candidate.ts";
import { createProvenance, type FetchedListing, fetchListing } from "./fetch-source.ts";
import { type FileTree, readTree } from "./file-tree.ts";
import {
  type FoundOrigin,
  findExportedOriginal,
  findOrigin,
  NO_PROVENANCE,
  type OriginalFiles,
} from "./skill-origin.ts";
import { checkLockSize, readLockedSkills, resolveAdoptedDir, type SkillsDir, withStagingFolder } from "./skills-dir.ts";
import { parseSourceAddress } from "./source-address.ts";

/** A skill on the disk that becomes managed where it is. */
export interface Adoption {
  name: string;
  skill: Skill;
  /** Its real folder, which stays unchanged. */
  folder: string;
  skillsDir: SkillsDir;
  /** Its future entry in the lock file. */
  entry: LockedSkill;
  /** The record that names its origin, for people. Undefined if the origin is unknown or was set by the caller. */
  foundIn?: string;
  /** Its files as they are used, and as they were checked. */
  copy: SkillCopy;
  tree: FileTree;
  /** Its files as they came from the source, if they differ. */
  base?: OriginalFiles;
  findings: readonly ScanFinding[];
  /** Symlinks that point to it. */
  links: readonly string[];
}

export interface AdoptSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env"> {
  /** Skill folders, folders of skills, or names. Defaults to all skills in the user's client folders. */
  paths?: readonly string[];
  /** Without paths: adopts the skills in the workspace's folders instead of the user's. */
  isProject?: boolean;
  /** The source they came from, in the syntax of `skillet add`. Defaults to the origin recorded on the disk. */
  from?: string;
  /** Called for each skill that cannot be adopted, so that the others are. Without it, the first error is thrown. */
  onRefused?(name: string, error: SkillError): void;
  /** Asks for approval of the skills to adopt and trust before anything is recorded. Returns the approved ones. */
  approve(adoptions: readonly Adoption[]): boolean | readonly Adoption[] | Promise<boolean | readonly Adoption[]>;
  signal?: AbortSignal;
}

/**
 * Manages skills that are already on the disk, in place: records them with their origin in the lock file of their
 * folder, and trusts them. Changes or copies no file of a skill. Returns the adopted skills.
 */
export async function adoptSkills(options: AdoptSkillsOptions): Promise<readonly Adoption[]> {
  const { paths = [], isProject = false, from, onRefused, approve, signal, ...where } = options;
  const found = await discover({ ...where, follow: false });
  const refuse = ({ name, error }: RefusedSkill) => {
    if (!onRefused) throw error;
    onRefused(name, error);
  };
  const adoptable = findAdoptable(found, paths, { cwd: found.around.workspace, isProject });
  const planned = await planAdoptions(adoptable.skills, found, omitUndefined({ from, signal }));
  for (const problem of [...adoptable.problems, ...planned.problems]) refuse(problem);
  const answer = planned.adoptions.length > 0 && (await approve(planned.adoptions));
  const approved = answer === true ? planned.adoptions : answer === false ? [] : answer;
  applyAdoptions(approved, found);
  return approved;
}

export interface AdoptionPlan {
  adoptions: readonly Adoption[];
  problems: readonly RefusedSkill[];
}

/**
 * Plans the adoption of each skill and finds its origin. Writes nothing; fetches only a source that the caller names.
 */
export async function planAdoptions(
  skills: AdoptableSkills["skills"],
  found: DiscoverResult,
  { from, signal }: { from?: string; signal?: AbortSignal } = {},
): Promise<AdoptionPlan> {
  const adoptions: Adoption[] = [];
  const problems: RefusedSkill[] = [];
  const { around } = found;
  const plan = async (work?: string) => {
    const address =
      from === undefined ? undefined : parseSourceAddress(from, { cwd: around.workspace, home: around.home });
    const options = { env: around.env, ...omitUndefined({ signal }) };
    const supply = address && work !== undefined ? await fetchListing(address, work, options) : undefined;
    for (const { skill, links } of skills) {
      try {
        adoptions.push(await planAdoption(skill, links, found, supply && { ...supply, work: work ?? "" }));
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        problems.push({ name: skill.name, error });
      }
    }
  };
  await (from === undefined ? plan() : withStagingFolder(around.skilletHome, plan));
  return { adoptions: adoptions.sort((a, b) => compareText(a.name, b.name)), problems };
}

async function planAdoption(
  listed: Skill,
  links: readonly string[],
  found: DiscoverResult,
  supply: (FetchedListing & { work: string }) | undefined,
): Promise<Adoption> {
  const { around } = found;
  const skill = withBody(listed, await listed.body()); // The user sees exactly what is recorded, even if the file changes meanwhile.
  const folder = checkAdoptableFolder(skill, found, supply !== undefined);
  const name = basename(folder);
  const isProject = skill.origin.scope === "workspace";
  const skillsDir = resolveAdoptedDir(dirname(folder), around, isProject);
  checkOwnership(skill, folder, around);
  if (existsSync(join(folder, ".git"))) throw createRepositoryError(skill, folder, around);
  const files = readFileTree(folder);
  checkFileKinds(skill, files);
  const tree = readTree(folder);
  const copy = await copySkill(skill);
  if (diffLockedCopy(files, copy.files).length > 0) throw createChangedError(skill);
  const digest = digestTree(files);
  const origin = supply
    ? await findOriginInSource(supply, name, { skillsDir, around, digest })
    : await findOrigin({ name: skill.name, folder, isUsers: !isProject, tree }, around);
  const base = origin?.base === "as-here" || origin?.base === undefined ? undefined : origin.base;
  const isAsCame = !origin || origin.base === "as-here" || (base && digestTree(base.files) === digest);
  const upstream = isAsCame ? undefined : { digest: digestTree(base?.files ?? {}), files: base?.files ?? {} };
  const { name: title, description, manifest } = skill;
  return {
    name,
    skill,
    folder,
    skillsDir,
    entry: {
      ...(origin?.provenance ?? NO_PROVENANCE),
      digest,
      files,
      ...omitUndefined({ upstream }),
      grants: listLockGrants(skill, listCopiedFiles(copy)),
      adopted: true,
    },
    ...omitUndefined({ foundIn: supply ? undefined : origin?.foundIn, base: isAsCame ? undefined : base }),
    copy,
    tree,
    findings: scanSkill({ name: title, description, manifest, files: copy.files }),
    links,
  };
}

/** Finds the skill in the named source. The commit is recorded only if its files are the same as here. */
async function findOriginInSource(
  supply: FetchedListing & { work: string },
  name: string,
  { skillsDir, around, digest }: { skillsDir: SkillsDir; around: DiscoverResult["around"]; digest: string },
): Promise<FoundOrigin> {
  const candidate = findCandidate(name, supply.listing);
  const prepared = await prepareCandidate(candidate, supply.fetched, join(supply.work, "skills", name));
  const { commit, ...provenance } = createProvenance(supply.fetched, candidate.path, { skillsDir, around });
  if (prepared.digest !== digest) return { provenance, foundIn: "" };
  return { provenance: { ...provenance, ...omitUndefined({ commit }) }, foundIn: "", base: "as-here" };
}

/** Returns the real folder of a skill. Throws if it cannot be adopted there. */
function checkAdoptableFolder({ name, origin }: Skill, found: DiscoverResult, hasSource: boolean): string {
  const { folder, form, parent, scope, remote } = origin;
  const { around, installs } = found;
  if (remote || folder === undefined || form !== "folder" || parent !== undefined || scope === "inline") {
    const reason = parent === undefined ? "is not a folder on the disk" : `is part of skill "${parent}"`;
    throw new SkillError("not-adoptable", {
      message: `Skill "${name}" ${reason}`,
      ...(parent === undefined
        ? { fix: "move it to a folder with its name, as SKILL.md" }
        : { fix: "adopt the whole skill", commands: [`skillet adopt ${quoteIfNeeded(parent)}`] }),
    });
  }
  const shown = formatDisplayPath(folder, around);
  if (scope === "bundled" || scope === "integration")
    throw createManagedError(name, `comes with ${scope === "bundled" ? "skillet" : "a program"}`, "nothing to do");
  if (basename(folder) !== name) {
    throw new SkillError("not-adoptable", {
      message: `Skill "${name}" is in a folder called "${basename(folder)}"`,
      fix: `give the folder the skill's name: mv ${shown} ${formatDisplayPath(join(dirname(folder), name), around)}`,
    });
  }
  if (statIfExists(dirname(folder))) recoverFolder(dirname(folder));
  const entry = readLockEntry(folder);
  if (entry && !(hasSource && entry.adopted)) {
    const [fix, command] =
      entry.adopted && entry.source === LOCAL_SOURCE
        ? ["set its source", `skillet adopt ${quoteIfNeeded(shown)} --from SOURCE`]
        : ["see it", "skillet list --installed"];
    throw createManagedError(name, `was already ${entry.adopted ? "adopted" : "added"} (${shown})`, fix, command);
  }
  const original = findExportedOriginal(installs, folder);
  if (original !== undefined)
    throw createManagedError(
      name,
      `is a copy that skillet made of ${formatDisplayPath(dirname(original), around)}`,
      "manage the original",
    );
  return folder;
}

function checkOwnership({ name }: Skill, folder: string, around: DiscoverResult["around"]): void {
  let foreign: ReturnType<typeof findForeignFile>;
  try {
    foreign = findForeignFile(folder, { refuses: [] });
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${formatDisplayPath(folder, around)} cannot be read: ${getErrorMessage(error)}`,
      fix: "check that you may read all files in it",
      cause: error,
    });
  }
  if (!foreign) return;
  const path = formatDisplayPath(join(folder, foreign.path), around);
  throw new SkillError("unsafe-permissions", {
    message: `Skill "${name}" is not entirely yours: ${path} belongs to another user`,
    fix: "change its owner (chown), or copy the skill and adopt the copy",
  });
}

function checkFileKinds({ name }: Skill, files: ReturnType<typeof readFileTree>): void {
  const odd = Object.entries(files).find(
    ([, file]) => !isLockedRegularFile(file) || (Number.parseInt(file.mode, 8) & 0o6000) !== 0,
  );
  if (!odd) return;
  const [path, { mode }] = odd;
  throw new SkillError("lock-unsupported-file", {
    message: `In skill "${name}", ${JSON.stringify(path)} is ${ODD_FILE_LABELS[mode] ?? "not a regular file"}`,
    fix: "replace it with a regular file, or remove it",
  });
}

const ODD_FILE_LABELS: Readonly<Record<string, string>> = {
  link: "a symlink",
  large: "larger than the limit for a file of a skill",
};

/**
 * Records adopted skills in the lock files of their folders, and that they are trusted. Throws a SkillError if one
 * changed since it was checked; nothing of its folder is recorded then.
 */
export function applyAdoptions(
  adoptions: readonly Adoption[],
  { home, around, trust, grants, installs }: Pick<DiscoverResult, "home" | "around" | "trust" | "grants" | "installs">,
): void {
  const known = new Set(listLocations(around).map(({ path }) => resolveRealPath(path)));
  for (const [skillsDir, group] of Map.groupBy(adoptions, ({ skillsDir }) => skillsDir.folder)) {
    // Values granted to this copy remain: it is the same skill, with another record of its origin.
    const owners = group.filter(({ skill }) => {
      const owner = grants.getOwner(skill.name);
      return owner !== undefined && grants.isOwner(skill, owner);
    });
    recordAdoptions(skillsDir, group, home);
    if (!known.has(skillsDir)) createAdoptedFolders(home).add(skillsDir);
    trust.grant(group.map(({ skill, copy, entry }) => ({ skill, copy, there: entry.files })));
    for (const { copy } of group) storeSkillCopy(copy, getSkillStoreFolder(home)); // Lets a later change be shown line by line.
    for (const { skill } of owners) grants.grant(skill);
    const copies = group.flatMap(({ folder }) => (installs.entries()[folder] ? folder : []));
    if (copies.length > 0) installs.remove(copies);
  }
}

function recordAdoptions(skillsDir: string, adoptions: readonly Adoption[], skilletHome: string): void {
  withFileLock(getFolderLockPath(skillsDir), () => {
    const skills = { ...readLockedSkills({ folder: skillsDir }) };
    const originals = createBlobCache(skilletHome);
    for (const { name, skill, folder, entry } of adoptions) {
      if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw createChangedError(skill);
      if (digestTree(readFileTree(folder)) !== entry.digest) throw createChangedError(skill);
      skills[name] = entry;
    }
    for (const { entry, tree, base } of adoptions) {
      const keep = (files: LockedSkill["files"], bytes: FileTree) =>
        originals.store(files, (path) => bytes.get(path)?.bytes ?? new Uint8Array(), skillsDir);
      keep(entry.files, tree);
      if (base) keep(base.files, base.tree);
    }
    replaceFile(join(skillsDir, LOCK_FILE), checkLockSize(formatLock(skills)), 0o644);
  });
}

/**
 * Removes skills from the lock file of a folder and keeps their files. An empty lock file is removed if skillet did not
 * create the folder.
 */
export function removeAdoptions(
  { folder: skillsDir, isAdopted }: SkillsDir,
  names: readonly string[],
  skilletHome: string,
): void {
  withFileLock(getFolderLockPath(skillsDir), () => {
    const skills = { ...readLockedSkills({ folder: skillsDir }) };
    const gone = names.flatMap((name) => skills[name] ?? []);
    for (const name of names) delete skills[name];
    const isEmpty = Object.keys(skills).length === 0;
    if (isAdopted && isEmpty) rmSync(join(skillsDir, LOCK_FILE), { force: true });
    else if (gone.length > 0) replaceFile(join(skillsDir, LOCK_FILE), formatLock(skills), 0o644);
    const needed = new Set(listEntryDigests(Object.values(skills)));
    createBlobCache(skilletHome).release(
      listEntryDigests(gone).filter((digest) => !needed.has(digest)),
      skillsDir,
    );
  });
}

function createRepositoryError({ name }: Skill, folder: string, around: DiscoverResult["around"]): SkillError {
  const shown = formatDisplayPath(folder, around);
  return new SkillError("skill-repository", {
    message: `Skill "${name}" is itself a git repository (${shown}/.git), which every git command changes`,
    fix: `let git manage it: git -C ${shown} pull, then skillet trust ${name}; or remove .git and adopt it with --from`,
  });
}

function createManagedError(name: string, reason: string, fix: string, ...commands: string[]): SkillError {
  const problem = { message: `Skill "${name}" ${reason}`, fix, ...(commands.length > 0 ? { commands } : {}) };
  return new SkillError("already-managed", problem);
}

function createChangedError({ name }: Skill): SkillError {
  return new SkillError("resource-changed", {
    message: `Skill "${name}" changed while it was checked, and was not adopted`,
    fix: "try again when no other program writes to it",
  });
}
