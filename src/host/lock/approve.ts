import { basename, dirname, join } from "node:path";
import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { scriptsOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import type { SkillCopy } from "../../source/digest.ts";
import { replaceFile, whileLocked } from "../locked-file.ts";
import { driftIn, driftOf, driftOfCopy } from "./drift.ts";
import { GRANTS, type Grant, LOCK_FILE, type LockedFiles, type LockedSkill, printLock } from "./format.ts";
import { placeIn, readLock } from "./locks.ts";
import { openOriginals } from "./originals.ts";
import { bytesAt, isFile, treeDigest } from "./tree.ts";

/** A skill as it was looked at. */
export interface Seen {
  copy: SkillCopy;
  /** All that its folder held. Without it, what is no part of the copy was not looked at. */
  there?: LockedFiles | undefined;
}

/** What stands between one change of a folder of skills and another, of whatever kind. */
export function folderLock(skillsDir: string): string {
  return join(skillsDir, ".skillet");
}

/** What somebody agrees to who agrees to a skill. */
export function agreedTo(skill: Skill): Grant[] {
  const { packages, toolsets } = skill.manifest;
  const has: Record<Grant, boolean> = {
    instructions: true,
    packages: packages.length > 0,
    scripts: scriptsOf(skill).length > 0,
    toolsets: toolsets.length > 0,
  };
  return GRANTS.filter((grant) => has[grant]);
}

/**
 * Writes down in its lock that a skill is agreed to as it is now. What its source gave stays known, so that an update can tell the two
 * apart. Throws a SkillError when it is not what was looked at any more, or cannot be written down.
 */
export function approve(skill: Skill, seen: Seen, skilletHome: string): void {
  const folder = lockedFolder(skill);
  if (folder === undefined) return;
  const [skillsDir, name] = [dirname(folder), basename(folder)];
  whileLocked(folderLock(skillsDir), () => {
    const lock = readLock(skillsDir);
    if (lock instanceof SkillError) throw lock;
    const entry = lock?.[name];
    if (!lock || !entry) return;
    const { files, drift } = driftIn(folder, entry.files);
    if (drift[0]?.path === ".") throw oddFile(name, "its folder", "link");
    const odd = Object.entries(files).find(([, file]) => !isFile(file));
    if (odd) throw oddFile(name, JSON.stringify(odd[0]), odd[1].mode);
    if (!isAsSeen(files, seen, entry)) throw changedMeanwhile(name);
    const armed = Object.entries(files).find(([, { mode }]) => (Number.parseInt(mode, 8) & SET_ID) !== 0);
    if (armed) throw oddFile(name, JSON.stringify(armed[0]), "set-id");
    const originals = openOriginals(skilletHome);
    originals.keep(files, (path) => bytesAt(join(folder, path)), skillsDir);
    const skills = { ...lock, [name]: agreedEntry(entry, files, agreedTo(skill)) };
    replaceFile(join(skillsDir, LOCK_FILE), printLock(skills), 0o644);
    const needed = new Set(digestsOf(Object.values(skills)));
    originals.forget(
      digestsOf([entry]).filter((digest) => !needed.has(digest)),
      skillsDir,
    );
  });
}

/** The folder that a lock tells of: where a skill was found, or where a link there leads that no lock knows. */
function lockedFolder(skill: Skill): string | undefined {
  const place = placeIn(skill);
  if (!place?.isLink) return place?.found;
  const lock = readLock(dirname(place.found));
  return lock instanceof SkillError || lock?.[basename(place.found)] ? place.found : place.folder;
}

/** Of which originals are kept. */
export function digestsOf(entries: readonly LockedSkill[]): string[] {
  return entries.flatMap(({ digest, upstream }) => (upstream ? [digest, upstream.digest] : [digest]));
}

/** The entry of a skill whose files are these from now on. */
export function agreedEntry(entry: LockedSkill, files: LockedFiles, grants: readonly Grant[]): LockedSkill {
  const { upstream = { digest: entry.digest, files: entry.files }, ...rest } = entry;
  const digest = treeDigest(files);
  return {
    ...rest,
    digest,
    files,
    ...defined({ upstream: upstream.digest === digest ? undefined : upstream }),
    grants,
  };
}

/** Whether just this was looked at. What was not must be as it was agreed to before. */
function isAsSeen(files: LockedFiles, { copy, there }: Seen, entry: LockedSkill): boolean {
  if (driftOfCopy(files, copy.files).length > 0) return false;
  if (there) return treeDigest(there) === treeDigest(files);
  return driftOf(entry.files, files).every(
    ({ path, what }) => what === "removed" || (copy.files.has(path) && /^(?:644|755)$/.test(files[path]?.mode ?? "")),
  );
}

function oddFile(name: string, path: string, mode: string): SkillError {
  const what: Readonly<Record<string, string>> = {
    link: "a link",
    large: "larger than any file of a skill may be",
    "set-id": "set to run as its owner",
  };
  return new SkillError("lock-odd-file", {
    message: `Of skill "${name}", ${path} is ${what[mode] ?? "no file"}: nobody can agree to that`,
    fix: FIXES[path === "its folder" ? path : mode] ?? "put a plain file in its place, or remove it",
  });
}

const FIXES: Readonly<Record<string, string>> = {
  "set-id": "clear that: chmod ug-s",
  "its folder": "put the folder itself there in place of the link, or remove the skill",
};
const SET_ID = 0o6000;

function changedMeanwhile(name: string): SkillError {
  return new SkillError("resource-changed", {
    message: `Skill "${name}" changed while it was looked at`,
    fix: "look at it again when nobody works on it",
  });
}
