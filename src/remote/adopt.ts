import { existsSync, lstatSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type DiscoverOptions, type DiscoverResult, discover } from "../config/discover.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { getSkillStoreFolder, storeSkillCopy } from "../sandbox/sandbox-folders.ts";
import type { ScanFinding } from "../scan/rule.ts";
import { scanSkill } from "../scan/scan.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { formatDisplayPath, listLocations } from "../skill/source/locations.ts";
import { readFolderSkill } from "../skill/source/read-skill.ts";
import { copySkill, listCopiedFiles, type SkillCopy } from "../skill/source/skill-copy.ts";
import { recoverFolder } from "../store/atomic-folder.ts";
import { createAdoptedFolders } from "../store/copy-records.ts";
import { createBlobCache, getFolderLockPath, listLockGrants } from "../store/lock-approval.ts";
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
import { isInside, resolveRealPath } from "../util/safe-path.ts";
import { compareText, quoteIfNeeded } from "../util/text.ts";
import { findCandidate, prepareCandidate, type RefusedSkill } from "./candidate.ts";
import { createProvenance, type FetchedListing, fetchListing } from "./fetch-source.ts";
import { type FileTree, readTree } from "./file-tree.ts";
import type { RunFetch } from "./remote-source.ts";
import { type FoundOrigin, findExportedOriginal, findOrigin, NO_PROVENANCE } from "./skill-origin.ts";
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
  base?: Exclude<FoundOrigin["base"], "as-here" | undefined>;
  findings: readonly ScanFinding[];
  /** Symlinks that point to it. */
  links: readonly string[];
}

export interface AdoptSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env"> {
  /** Skill folders, folders of skills, or names. Defaults to all skills in the user's client folders. */
  paths?: readonly string[];
  /** The folder that relative paths start from. Defaults to the workspace. */
  cwd?: string;
  /** Without paths: adopts the skills in the workspace's folders instead of the user's. */
  isProject?: boolean;
  /** The source they came from, in the syntax of `skillet add`. Defaults to the origin recorded on the disk. */
  from?: string;
  /** Called for each skill that cannot be adopted, so that the others are. Without it, the first error is thrown. */
  onRefused?(name: string, error: SkillError): void;
  /** Plans only: calls `onPlan`, but neither asks nor records. */
  isDryRun?: boolean;
  /** Called with all skills that can be adopted, before approval is requested. */
  onPlan?(adoptions: readonly Adoption[]): void | Promise<void>;
  /** Asks for approval of the skills to adopt and trust before anything is recorded. Returns the approved ones. */
  approve(adoptions: readonly Adoption[]): boolean | readonly Adoption[] | Promise<boolean | readonly Adoption[]>;
  signal?: AbortSignal;
  /** Runs the fetching, for example to show its progress. Defaults to running it with `signal`. */
  runFetch?: RunFetch;
}

/**
 * Manages skills that are already on the disk, in place: records them with their origin in the lock file of their
 * folder, and trusts them. Changes or copies no file of a skill. Returns the adopted skills.
 */
export async function adoptSkills(options: AdoptSkillsOptions): Promise<readonly Adoption[]> {
  const { workspace, home, env } = options;
  return reviewAndAdopt(await discover({ ...omitUndefined({ workspace, home, env }), follow: false }), options);
}

/** Plans the adoptions, requests approval for them, and applies them. `found`: the skills on the disk. */
export async function reviewAndAdopt(
  found: DiscoverResult,
  options: Omit<AdoptSkillsOptions, "workspace" | "home" | "env">,
): Promise<readonly Adoption[]> {
  const { onRefused, isDryRun = false, onPlan, approve } = options;
  const problems: RefusedSkill[] = [];
  const skills = findAdoptable(found, options, problems);
  const adoptions = await planAdoptions(skills, found, options, problems);
  for (const { name, error } of problems) {
    if (!onRefused) throw error;
    onRefused(name, error);
  }
  await onPlan?.(adoptions);
  if (isDryRun || adoptions.length === 0) return adoptions;
  const answer = await approve(adoptions);
  const approved = answer === true ? adoptions : answer === false ? [] : answer;
  applyAdoptions(approved, found);
  return approved;
}

/** Plans the adoption of each skill and finds its origin. Writes nothing; fetches only a source that the caller names. */
async function planAdoptions(
  skills: readonly AdoptableSkill[],
  found: DiscoverResult,
  { from, signal, runFetch = (fetch) => fetch(signal) }: Pick<AdoptSkillsOptions, "from" | "signal" | "runFetch">,
  problems: RefusedSkill[],
): Promise<readonly Adoption[]> {
  const adoptions: Adoption[] = [];
  const { around: environment } = found;
  const plan = async (supply?: AdoptionSupply) => {
    for (const one of skills) {
      try {
        adoptions.push(await planAdoption(one, found, supply));
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        problems.push({ name: one.skill.name, error });
      }
    }
  };
  if (from === undefined) await plan();
  else {
    const address = parseSourceAddress(from, { cwd: environment.workspace, home: environment.home });
    await withStagingFolder(environment.skilletHome, (work) =>
      runFetch(async (signal) => {
        const listing = await fetchListing(address, work, { env: environment.env, ...omitUndefined({ signal }) });
        await plan({ ...listing, work });
      }),
    );
  }
  return adoptions.sort((a, b) => compareText(a.name, b.name));
}

/** The skills of the source that the caller named, and a private working folder. */
type AdoptionSupply = FetchedListing & { work: string };

async function planAdoption(
  { skill: listed, links }: AdoptableSkill,
  found: DiscoverResult,
  supply: AdoptionSupply | undefined,
): Promise<Adoption> {
  const { around: environment } = found;
  const skill = withBody(listed, await listed.body()); // The user sees exactly what is recorded, even if the file changes meanwhile.
  const folder = checkAdoptableFolder(skill, found, supply !== undefined);
  const name = basename(folder);
  const isProject = skill.origin.scope === "workspace";
  const skillsDir = resolveAdoptedDir(dirname(folder), environment, isProject);
  checkOwnership(skill, folder, environment);
  if (existsSync(join(folder, ".git"))) {
    const shown = formatDisplayPath(folder, environment);
    throw new SkillError("skill-repository", {
      message: `Skill "${skill.name}" is itself a git repository (${shown}/.git), which every git command changes`,
      fix: `let git manage it: git -C ${shown} pull, then skillet trust ${skill.name}; or remove .git and adopt it with --from`,
    });
  }
  const files = readFileTree(folder);
  checkFileKinds(skill, files);
  const tree = readTree(folder);
  const copy = await copySkill(skill);
  if (diffLockedCopy(files, copy.files).length > 0) throw createChangedError(skill);
  const digest = digestTree(files);
  const origin = supply
    ? await findOriginInSource(supply, name, { skillsDir, environment, digest })
    : await findOrigin({ name: skill.name, folder, isUsers: !isProject, tree }, environment);
  const base = origin?.base === "as-here" || origin?.base === undefined ? undefined : origin.base;
  const isAsCame = !origin || origin.base === "as-here" || (base && digestTree(base.files) === digest);
  const upstream = isAsCame ? undefined : { digest: digestTree(base?.files ?? {}), files: base?.files ?? {} };
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
    findings: scanSkill({
      name: skill.name,
      description: skill.description,
      manifest: skill.manifest,
      files: copy.files,
    }),
    links,
  };
}

/** Finds the skill in the named source. The commit is recorded only if its files are the same as here. */
async function findOriginInSource(
  supply: AdoptionSupply,
  name: string,
  { skillsDir, environment, digest }: { skillsDir: SkillsDir; environment: DiscoverResult["around"]; digest: string },
): Promise<FoundOrigin> {
  const candidate = findCandidate(name, supply.listing);
  const prepared = await prepareCandidate(candidate, supply.fetched, join(supply.work, "skills", name));
  const { commit, ...provenance } = createProvenance(supply.fetched, candidate.path, { skillsDir, environment });
  if (prepared.digest !== digest) return { provenance, foundIn: "" };
  return { provenance: { ...provenance, ...omitUndefined({ commit }) }, foundIn: "", base: "as-here" };
}

/** Returns the real folder of a skill. Throws if it cannot be adopted there. */
function checkAdoptableFolder({ name, origin }: Skill, found: DiscoverResult, hasSource: boolean): string {
  const { folder, form, parent, scope, remote } = origin;
  const { around: environment, installs } = found;
  if (remote || folder === undefined || form !== "folder" || parent !== undefined || scope === "inline") {
    const reason = parent === undefined ? "is not a folder on the disk" : `is part of skill "${parent}"`;
    throw new SkillError("not-adoptable", {
      message: `Skill "${name}" ${reason}`,
      ...(parent === undefined
        ? { fix: "move it to a folder with its name, as SKILL.md" }
        : { fix: "adopt the whole skill", commands: [`skillet adopt ${quoteIfNeeded(parent)}`] }),
    });
  }
  const shown = formatDisplayPath(folder, environment);
  if (scope === "bundled" || scope === "integration")
    throw createManagedError(name, `comes with ${scope === "bundled" ? "skillet" : "a program"}`, "nothing to do");
  if (basename(folder) !== name) {
    throw new SkillError("not-adoptable", {
      message: `Skill "${name}" is in a folder called "${basename(folder)}"`,
      fix: `give the folder the skill's name: mv ${shown} ${formatDisplayPath(join(dirname(folder), name), environment)}`,
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
      `is a copy that skillet made of ${formatDisplayPath(dirname(original), environment)}`,
      "manage the original",
    );
  return folder;
}

function checkOwnership({ name }: Skill, folder: string, environment: DiscoverResult["around"]): void {
  let foreign: ReturnType<typeof findForeignFile>;
  try {
    foreign = findForeignFile(folder, { refuses: [] });
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${formatDisplayPath(folder, environment)} cannot be read: ${getErrorMessage(error)}`,
      fix: "check that you may read all files in it",
      cause: error,
    });
  }
  if (!foreign) return;
  const path = formatDisplayPath(join(folder, foreign.path), environment);
  throw new SkillError("unsafe-permissions", {
    message: `Skill "${name}" is not entirely yours: ${path} belongs to another user`,
    fix: "change its owner (chown), or copy the skill and adopt the copy",
  });
}

function checkFileKinds({ name }: Skill, files: ReturnType<typeof readFileTree>): void {
  const invalid = Object.entries(files).find(
    ([, file]) => !isLockedRegularFile(file) || (Number.parseInt(file.mode, 8) & 0o6000) !== 0,
  );
  if (!invalid) return;
  const [path, { mode }] = invalid;
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
function applyAdoptions(adoptions: readonly Adoption[], found: DiscoverResult): void {
  const { home, around: environment, trust, grants, installs } = found;
  const known = new Set(listLocations(environment).map(({ path }) => resolveRealPath(path)));
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

type AdoptableSkill = Pick<Adoption, "skill" | "links">;

/** Finds the skills that paths and names refer to. A symlink refers to its target folder, once. */
function findAdoptable(
  found: DiscoverResult,
  { paths: wanted = [], cwd = found.around.workspace, isProject = false }: Omit<AdoptSkillsOptions, "approve">,
  problems: RefusedSkill[],
): readonly AdoptableSkill[] {
  const { catalog, around: environment } = found;
  const chosen = new Map<string, { skill: Skill; links: string[] }>();
  const all = [...catalog.skills, ...catalog.shadowed].filter(({ origin }) => origin.folder !== undefined);
  const take = (skill: Skill, link?: string) => {
    const { folder = "", file = "" } = skill.origin;
    const one = chosen.get(folder) ?? { skill, links: [] };
    const paths = [
      link ?? dirname(file),
      ...all.flatMap(({ origin }) => (origin.folder === folder ? dirname(origin.file ?? "") : [])),
    ];
    for (const path of paths) if (path !== folder && isLink(path) && !one.links.includes(path)) one.links.push(path);
    chosen.set(folder, one);
  };
  if (wanted.length === 0) for (const skill of listUnmanaged(found, all, isProject)) take(skill);
  for (const one of wanted) {
    const path = resolve(cwd, one.replace(/^~(?=\/|$)/, environment.home));
    try {
      const named = one.includes("/") ? undefined : catalog.find(one);
      if (named && !existsSync(join(path, "SKILL.md"))) take(named);
      else for (const [skill, link] of findSkillsAt(path, all, environment)) take(skill, link);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      problems.push({ name: one.includes("/") ? formatDisplayPath(path, environment) : one, error });
    }
  }
  return [...chosen.values()];
}

/** Lists the skills in the user's client folders, or in the workspace, that are in no lock file. */
function listUnmanaged(found: DiscoverResult, all: readonly Skill[], isProject: boolean): Skill[] {
  const { trust, around: environment, installs } = found;
  const asking = new Set(listLocations(environment).flatMap(({ requiresTrust: asks, name }) => (asks ? name : [])));
  return all.filter((skill) => {
    const { scope, source, folder = "", parent, form } = skill.origin;
    if (scope !== (isProject ? "workspace" : "user") || !asking.has(source)) return false;
    if (parent !== undefined || form !== "folder" || findExportedOriginal(installs, folder) !== undefined) return false;
    return trust.getLockState(skill).is === "unlocked" && !readLockEntry(folder);
  });
}

function readLockEntry(folder: string): LockedSkill | undefined {
  return readLockedSkills({ folder: dirname(folder) })[basename(folder)];
}

/** Finds the skill in a folder, or the skills in a folder of skills, each with the symlink that led to it. */
function findSkillsAt(path: string, all: readonly Skill[], environment: DiscoverResult["around"]): [Skill, string?][] {
  const stats = statIfExists(path);
  const shown = formatDisplayPath(path, environment);
  if (!stats) {
    throw new SkillError("not-found", {
      message: `Skill or folder ${shown} not found`,
      fix: "list the skills that can be adopted",
      commands: ["skillet adopt --dry-run"],
    });
  }
  const folder = realpathSync(stats.isDirectory() ? path : dirname(path));
  if (!stats.isDirectory() && basename(path) !== "SKILL.md") {
    throw new SkillError("not-adoptable", {
      message: `${shown} is a file, but a skill is adopted with its folder`,
      fix: "move it to a folder with the skill's name, as SKILL.md",
    });
  }
  if (!existsSync(join(folder, "SKILL.md"))) {
    const isBelow = (own: string, file: string) =>
      isInside(folder, own) || resolveRealPath(dirname(dirname(file))) === folder;
    const inside = all.filter(
      ({ origin: { folder: own = "", file = "", parent } }) => parent === undefined && own !== "" && isBelow(own, file),
    );
    if (inside.length === 0) {
      throw new SkillError("not-adoptable", {
        message: `${shown} has no SKILL.md, and contains no skill`,
        fix: "name the folder of a skill; to see what is wrong with one",
        commands: [`skillet check ${shown}`],
      });
    }
    return inside.map((skill) => [skill]);
  }
  const known = all.find(({ origin }) => origin.folder === folder);
  return [[known ?? readSkillAt(folder, environment), ...(isLink(path) ? [path] : [])] as [Skill, string?]];
}

function readSkillAt(folder: string, environment: DiscoverResult["around"]): Skill {
  const read = readFolderSkill(folder, { scope: "user", source: formatDisplayPath(dirname(folder), environment) });
  if (read && "skill" in read) return read.skill;
  const finding = read?.findings[0];
  throw new SkillError("not-adoptable", {
    message: `${formatDisplayPath(folder, environment)} is not a skill: its SKILL.md ${finding?.message ?? "cannot be read"}`,
    ...(finding?.fix === undefined
      ? { fix: "run", commands: [`skillet check ${formatDisplayPath(folder, environment)}`] }
      : { fix: finding.fix }),
  });
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}
