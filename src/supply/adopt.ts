import { existsSync, lstatSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { openAdopted } from "../host/adopted.ts";
import { type Discovered, type DiscoverOptions, discover } from "../host/discover.ts";
import { agreedTo, digestsOf, folderLock } from "../host/lock/approve.ts";
import { driftOfCopy } from "../host/lock/drift.ts";
import { LOCAL_SOURCE, LOCK_FILE, type LockedSkill, printLock } from "../host/lock/format.ts";
import { openOriginals } from "../host/lock/originals.ts";
import { isFile, treeDigest, treeOf } from "../host/lock/tree.ts";
import { replaceFile, whileLocked } from "../host/locked-file.ts";
import { findForeignFile } from "../host/own-files.ts";
import { mend } from "../install/apply.ts";
import { storeFolder } from "../sandbox/places.ts";
import { storeSkill } from "../sandbox/store.ts";
import type { ScanFinding } from "../scan/finding.ts";
import { scanSkill } from "../scan/scan.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { realPlace, reason } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";
import { statOf } from "../source/file.ts";
import { displayPath, locations } from "../source/locations.ts";
import { parseAddress } from "./address.ts";
import { type Adoptable, findAdoptable, lockedAt } from "./adoptable.ts";
import { candidateOf, prepare, type RefusedSkill } from "./candidate.ts";
import { fetchOffer, provenanceOf, type Supply } from "./fetch-offer.ts";
import { exportedOriginal, type FoundOrigin, findOrigin, NO_PROVENANCE, type OriginalFiles } from "./find-origin.ts";
import { checkedSize } from "./put.ts";
import { readTree, type Tree } from "./read-tree.ts";
import { adoptedPlace, lockedIn, type SkillsPlace } from "./skills-place.ts";
import { inStaging } from "./staging.ts";

/** A skill on the disk that is to be managed where it is. */
export interface Adoption {
  name: string;
  skill: Skill;
  /** Its real folder, which stays as it is. */
  folder: string;
  place: SkillsPlace;
  /** What its lock will say. */
  entry: LockedSkill;
  /** The record that names its origin, for people. Nothing when its origin is not known, or was given. */
  foundIn?: string;
  /** Its files as they are used, and as they were judged. */
  copy: SkillCopy;
  tree: Tree;
  /** Its files as they came from the source, where these differ. */
  base?: OriginalFiles;
  findings: readonly ScanFinding[];
  /** Symlinks that lead to it. */
  links: readonly string[];
}

export interface AdoptSkillsOptions extends Pick<DiscoverOptions, "workspace" | "home" | "env"> {
  /** Skill folders, folders of skills, or names. Defaults to all skills in the user's client folders. */
  paths?: readonly string[];
  /** Without paths: those of the workspace's folders, in place of the user's. */
  isProject?: boolean;
  /** The source they came from, as `skillet add` takes it. Defaults to what is recorded on the disk. */
  from?: string;
  /** Called for each skill that cannot be adopted, so that the others are. Without it, the first one is thrown. */
  onRefused?(name: string, error: SkillError): void;
  /** Asked with all that is to be adopted and trusted, before anything is recorded: which of them may be. */
  agree(adoptions: readonly Adoption[]): boolean | readonly Adoption[] | Promise<boolean | readonly Adoption[]>;
  signal?: AbortSignal;
}

/**
 * Brings skills that are on the disk under management where they are: recorded in the lock of their folder with their origin, and trusted.
 * No file of a skill is changed or copied. Returns what was adopted.
 */
export async function adoptSkills(options: AdoptSkillsOptions): Promise<readonly Adoption[]> {
  const { paths = [], isProject = false, from, onRefused, agree, signal, ...where } = options;
  const found = await discover({ ...where, follow: false });
  const refuse = ({ name, error }: RefusedSkill) => {
    if (!onRefused) throw error;
    onRefused(name, error);
  };
  const adoptable = findAdoptable(found, paths, { cwd: found.around.workspace, isProject });
  const planned = await planAdoptions(adoptable.skills, found, defined({ from, signal }));
  for (const problem of [...adoptable.problems, ...planned.problems]) refuse(problem);
  const answer = planned.adoptions.length > 0 && (await agree(planned.adoptions));
  const agreed = answer === true ? planned.adoptions : answer === false ? [] : answer;
  applyAdoptions(agreed, found);
  return agreed;
}

export interface AdoptionPlan {
  adoptions: readonly Adoption[];
  problems: readonly RefusedSkill[];
}

/** Looks at each skill, and where it came from. Nothing is written; only a source that is given is fetched. */
export async function planAdoptions(
  skills: Adoptable["skills"],
  found: Discovered,
  { from, signal }: { from?: string; signal?: AbortSignal } = {},
): Promise<AdoptionPlan> {
  const adoptions: Adoption[] = [];
  const problems: RefusedSkill[] = [];
  const { around } = found;
  const plan = async (work?: string) => {
    const address = from === undefined ? undefined : parseAddress(from, { cwd: around.workspace, home: around.home });
    const options = { env: around.env, ...defined({ signal }) };
    const supply = address && work !== undefined ? await fetchOffer(address, work, options) : undefined;
    for (const { skill, links } of skills) {
      try {
        adoptions.push(await planAdoption(skill, links, found, supply && { ...supply, work: work ?? "" }));
      } catch (error) {
        if (!(error instanceof SkillError)) throw error;
        problems.push({ name: skill.name, error });
      }
    }
  };
  await (from === undefined ? plan() : inStaging(around.skilletHome, plan));
  return { adoptions: adoptions.sort((a, b) => byText(a.name, b.name)), problems };
}

async function planAdoption(
  listed: Skill,
  links: readonly string[],
  found: Discovered,
  supply: (Supply & { work: string }) | undefined,
): Promise<Adoption> {
  const { around } = found;
  const skill = withBody(listed); // What is shown is what is recorded, also when its file changes meanwhile.
  const folder = judgeFolder(skill, found, supply !== undefined);
  const name = basename(folder);
  const isProject = skill.origin.scope === "workspace";
  const place = adoptedPlace(dirname(folder), around, isProject);
  judgeFiles(skill, folder, around);
  if (existsSync(join(folder, ".git"))) throw isClone(skill, folder, around);
  const files = treeOf(folder);
  judgeOdd(skill, files);
  const tree = readTree(folder);
  const copy = copySkill(skill);
  if (driftOfCopy(files, copy.files).length > 0) throw changedMeanwhile(skill);
  const digest = treeDigest(files);
  const origin = supply
    ? originIn(supply, name, { place, around, digest })
    : await findOrigin({ name: skill.name, folder, isUsers: !isProject, tree }, around);
  const base = origin?.base === "as-here" || origin?.base === undefined ? undefined : origin.base;
  const isAsCame = !origin || origin.base === "as-here" || (base && treeDigest(base.files) === digest);
  const upstream = isAsCame ? undefined : { digest: treeDigest(base?.files ?? {}), files: base?.files ?? {} };
  const { name: title, description, manifest } = skill;
  return {
    name,
    skill,
    folder,
    place,
    entry: {
      ...(origin?.provenance ?? NO_PROVENANCE),
      digest,
      files,
      ...defined({ upstream }),
      grants: agreedTo(skill),
      adopted: true,
    },
    ...defined({ foundIn: supply ? undefined : origin?.foundIn, base: isAsCame ? undefined : base }),
    copy,
    tree,
    findings: scanSkill({ name: title, description, manifest, files: copy.files }),
    links,
  };
}

/** What the given source has. As it is here, its commit is the one that this is of. */
function originIn(
  supply: Supply & { work: string },
  name: string,
  { place, around, digest }: { place: SkillsPlace; around: Discovered["around"]; digest: string },
): FoundOrigin {
  const candidate = candidateOf(name, supply.offer);
  const prepared = prepare(candidate, supply.fetched, join(supply.work, "skills", name));
  const { commit, ...provenance } = provenanceOf(supply.fetched, candidate.path, { place, around });
  if (prepared.digest !== digest) return { provenance, foundIn: "" };
  return { provenance: { ...provenance, ...defined({ commit }) }, foundIn: "", base: "as-here" };
}

/** Throws when a skill is not one that can be adopted where it is. Returns its real folder. */
function judgeFolder({ name, origin }: Skill, found: Discovered, hasSource: boolean): string {
  const { folder, form, parent, scope, remote } = origin;
  const { around, installs } = found;
  if (remote || folder === undefined || form !== "folder" || parent !== undefined || scope === "inline") {
    const why = parent === undefined ? "is not a folder on the disk" : `is part of skill "${parent}"`;
    throw new SkillError("not-adoptable", {
      message: `Skill "${name}" ${why}`,
      fix:
        parent === undefined
          ? "put it into a folder of its name, as SKILL.md"
          : `adopt the whole: skillet adopt ${parent}`,
    });
  }
  const shown = displayPath(folder, around);
  if (scope === "bundled" || scope === "integration")
    throw managed(name, `comes with ${scope === "bundled" ? "skillet" : "a program"}`, "nothing to do");
  if (basename(folder) !== name) {
    throw new SkillError("not-adoptable", {
      message: `Skill "${name}" is in a folder called "${basename(folder)}"`,
      fix: `give the folder the skill's name: mv ${shown} ${displayPath(join(dirname(folder), name), around)}`,
    });
  }
  if (statOf(dirname(folder))) mend(dirname(folder));
  const entry = lockedAt(folder);
  if (entry && !(hasSource && entry.adopted)) {
    const fix =
      entry.adopted && entry.source === LOCAL_SOURCE
        ? `to set its source: skillet adopt ${shown} --from SOURCE`
        : "`skillet list --installed` shows it";
    throw managed(name, `was ${entry.adopted ? "adopted" : "added"} already (${shown})`, fix);
  }
  const original = exportedOriginal(installs, folder);
  if (original !== undefined)
    throw managed(name, `is a copy that skillet made of ${displayPath(dirname(original), around)}`, "manage that one");
  return folder;
}

function judgeFiles({ name }: Skill, folder: string, around: Discovered["around"]): void {
  let foreign: ReturnType<typeof findForeignFile>;
  try {
    foreign = findForeignFile(folder, { refuses: [] });
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${displayPath(folder, around)} cannot be read: ${reason(error)}`,
      fix: "check that you may read all that is in it",
      cause: error,
    });
  }
  if (!foreign) return;
  const path = displayPath(join(folder, foreign.path), around);
  throw new SkillError("owned-by-others", {
    message: `Skill "${name}" is not yours alone: ${path} belongs to another user`,
    fix: "make it yours (chown), or copy the skill and adopt the copy",
  });
}

function judgeOdd({ name }: Skill, files: ReturnType<typeof treeOf>): void {
  const odd = Object.entries(files).find(([, file]) => !isFile(file) || (Number.parseInt(file.mode, 8) & 0o6000) !== 0);
  if (!odd) return;
  const [path, { mode }] = odd;
  throw new SkillError("lock-odd-file", {
    message: `Of skill "${name}", ${JSON.stringify(path)} is ${ODD[mode] ?? "not a plain file"}`,
    fix: "put a plain file in its place, or remove it",
  });
}

const ODD: Readonly<Record<string, string>> = { link: "a symlink", large: "larger than a file of a skill may be" };

/**
 * Records adopted skills in the locks of their folders, and that they are trusted. Throws a SkillError when one is not what was judged any
 * more: then nothing of its folder was recorded.
 */
export function applyAdoptions(
  adoptions: readonly Adoption[],
  { home, around, trust, grants, installs }: Pick<Discovered, "home" | "around" | "trust" | "grants" | "installs">,
): void {
  const known = new Set(locations(around).map(({ path }) => realPlace(path)));
  for (const [skillsDir, group] of Map.groupBy(adoptions, ({ place }) => place.folder)) {
    // Values that this very copy had stay its own: it is the same skill, with another record of where it came from.
    const owners = group.filter(({ skill }) => {
      const owner = grants.ownerOf(skill.name);
      return owner !== undefined && grants.isOwner(skill, owner);
    });
    recordIn(skillsDir, group, home);
    if (!known.has(skillsDir)) openAdopted(home).add(skillsDir);
    trust.grant(group.map(({ skill, copy, entry }) => ({ skill, copy, there: entry.files })));
    for (const { copy } of group) storeSkill(copy, storeFolder(home)); // So that a change can be shown line by line.
    for (const { skill } of owners) grants.grant(skill);
    const copies = group.flatMap(({ folder }) => (installs.entries()[folder] ? folder : []));
    if (copies.length > 0) installs.forget(copies);
  }
}

function recordIn(skillsDir: string, adoptions: readonly Adoption[], skilletHome: string): void {
  whileLocked(folderLock(skillsDir), () => {
    const skills = { ...lockedIn({ folder: skillsDir }) };
    const originals = openOriginals(skilletHome);
    for (const { name, skill, folder, entry } of adoptions) {
      if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw changedMeanwhile(skill);
      if (treeDigest(treeOf(folder)) !== entry.digest) throw changedMeanwhile(skill);
      skills[name] = entry;
    }
    for (const { entry, tree, base } of adoptions) {
      const keep = (files: LockedSkill["files"], bytes: Tree) =>
        originals.keep(files, (path) => bytes.get(path)?.bytes ?? new Uint8Array(), skillsDir);
      keep(entry.files, tree);
      if (base) keep(base.files, base.tree);
    }
    replaceFile(join(skillsDir, LOCK_FILE), checkedSize(printLock(skills)), 0o644);
  });
}

/** Takes skills out of the lock of a folder, and leaves their files. A lock that names no skill goes, where skillet did not make the folder. */
export function unadopt(
  { folder: skillsDir, isAdopted }: SkillsPlace,
  names: readonly string[],
  skilletHome: string,
): void {
  whileLocked(folderLock(skillsDir), () => {
    const skills = { ...lockedIn({ folder: skillsDir }) };
    const gone = names.flatMap((name) => skills[name] ?? []);
    for (const name of names) delete skills[name];
    const isEmpty = Object.keys(skills).length === 0;
    if (isAdopted && isEmpty) rmSync(join(skillsDir, LOCK_FILE), { force: true });
    else if (gone.length > 0) replaceFile(join(skillsDir, LOCK_FILE), printLock(skills), 0o644);
    const needed = new Set(digestsOf(Object.values(skills)));
    openOriginals(skilletHome).forget(
      digestsOf(gone).filter((digest) => !needed.has(digest)),
      skillsDir,
    );
  });
}

function isClone({ name }: Skill, folder: string, around: Discovered["around"]): SkillError {
  const shown = displayPath(folder, around);
  return new SkillError("skill-repository", {
    message: `Skill "${name}" is a git repository itself (${shown}/.git), which every git command changes`,
    fix: `let git manage it: git -C ${shown} pull, then skillet trust ${name}; or remove .git and adopt it with --from`,
  });
}

function managed(name: string, why: string, fix: string): SkillError {
  return new SkillError("already-managed", { message: `Skill "${name}" ${why}`, fix });
}

function changedMeanwhile({ name }: Skill): SkillError {
  return new SkillError("resource-changed", {
    message: `Skill "${name}" changed while it was looked at, and was not adopted`,
    fix: "try again when no other program writes to it",
  });
}
