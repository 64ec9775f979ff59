import { basename, join, relative, sep } from "node:path";
import type { LockedFiles } from "../host/lock/format.ts";
import { treeDigest } from "../host/lock/tree.ts";
import type { ScanFinding } from "../scan/finding.ts";
import { scanSkill } from "../scan/scan.ts";
import { SkillError } from "../shared/error.ts";
import { isInside } from "../shared/inside.ts";
import { byText, nearest } from "../shared/text.ts";
import { type Diagnostic, diagnose, stopsLoading } from "../skill/diagnostic.ts";
import { toSkillMd } from "../skill/render.ts";
import type { Skill } from "../skill/skill.ts";
import type { CopiedFile } from "../source/digest.ts";
import { directorySource } from "../source/directory.ts";
import { readFolderSkill, readNestedSkills } from "../source/folder-skill.ts";
import { sampleFolderIn } from "../source/nested-skills.ts";
import { isSkillsFolder } from "../source/walk.ts";
import type { Fetched } from "./contract.ts";
import { entryPath, foldedName } from "./entry-name.ts";
import { type PluginFolders, pluginFolders } from "./plugin-folder.ts";
import { lockedFilesOf, readTree, type Tree, writeTree } from "./read-tree.ts";
import { shown } from "./refusal.ts";
import { copyLinkedSkillFiles, leadsTo, renamedSkillFile } from "./skill-file.ts";

/** A skill in a source, as discovery finds it there. */
export interface Candidate {
  skill: Skill;
  /** Its folder or file in the source; empty when the source itself is the skill. */
  path: string;
}

/** What a source holds. */
export interface Offer {
  candidates: readonly Candidate[];
  /** What did not load, and why. */
  diagnostics: readonly Diagnostic[];
  notes: readonly string[];
}

/** A skill that was looked at, and can be put in its place. */
export interface Prepared extends Candidate {
  name: string;
  tree: Tree;
  files: LockedFiles;
  digest: string;
  /** A folder of ours that holds just this. */
  folder: string;
  findings: readonly ScanFinding[];
}

const ORIGIN = { scope: "installed", source: "installed" } as const;

/** Finds the skills of a source, as they would be found once they are added. */
export async function offerOf(fetched: Fetched): Promise<Offer> {
  const { folder, address } = fetched;
  const { lost, notes } = copyLinkedSkillFiles(fetched);
  const own = ownSkill(folder);
  if (own?.skill) {
    const { skills, diagnostics } = withNested(own.skill, own.diagnostics);
    const candidates = skills
      .filter((skill) => !isMisnamed(skill))
      .map((skill) => ({ skill, path: pathIn(folder, skill) }));
    return { candidates, diagnostics: judged(diagnostics), notes: [...notes, ...leftOut(fetched, candidates)] };
  }
  const plugin = pluginFolders(folder);
  const isRepository = address.kind === "git" && address.inside === undefined;
  const hasFlat = (root: string) => !(root === folder && isRepository) && isSkillsFolder(root);
  const loaded = await Promise.all((plugin?.folders ?? [folder]).map((root) => skillsIn(root, hasFlat(root))));
  const candidates = loaded
    .flatMap(({ skills }) => skills.filter((skill) => !isMisnamed(skill)))
    .map((skill) => ({ skill, path: pathIn(folder, skill) }))
    .filter(({ skill, path }) => skill.origin.form === "folder" || !lost.some((above) => path.startsWith(above)))
    .filter(({ skill }) => !isTemplate(skill, plugin))
    .sort((a, b) => byText(a.skill.name, b.skill.name) || byText(a.path, b.path));
  const diagnostics = loaded.flatMap((one) => one.diagnostics);
  return {
    candidates,
    diagnostics: judged(plugin && own ? [...own.diagnostics, ...diagnostics] : diagnostics),
    notes: [...notes, ...(plugin?.notes ?? []), ...leftOut(fetched, candidates)],
  };
}

/** True for a sample or template of a marketplace that none of its plugins has. */
function isTemplate({ origin: { folder, file = "" } }: Skill, plugin: PluginFolders | undefined): boolean {
  if (!plugin?.plugins || plugin.plugins.length === 0) return false;
  const place = folder ?? file;
  const [root = ""] = plugin.folders;
  const path = relative(root, place).split(sep);
  const isSample = sampleFolderIn(path.join("/")) !== undefined || path[0] === "template";
  return isSample && !plugin.plugins.some((own) => isInside(own, place));
}

/** Returns a sentence for each refused file that belongs to no skill, as far as a reader wants to know. */
function leftOut({ refused }: Fetched, candidates: readonly Candidate[]): string[] {
  const stray = [...refused].filter(([path]) => !candidates.some((candidate) => isPartOf(candidate, path)));
  const more = stray.length - MOST_NOTES;
  return [
    ...stray.slice(0, MOST_NOTES).map(([, { message }]) => `Left out, since it belongs to no skill: ${message}`),
    ...(more > 0 ? [`Left out: ${more} more files that belong to no skill`] : []),
  ];
}

/** True when a path of the source is in the folder of this skill. */
function isPartOf({ skill, path: folder }: Candidate, path: string): boolean {
  const below = folder === "" ? "" : `${folder}/`;
  return skill.origin.form === "folder" && path.startsWith(below);
}

interface Found {
  skills: readonly Skill[];
  diagnostics: readonly Diagnostic[];
}

function withNested(skill: Skill, diagnostics: readonly Diagnostic[]): Found {
  const nested = readNestedSkills(skill);
  return { skills: [skill, ...nested.skills], diagnostics: [...diagnostics, ...nested.diagnostics] };
}

/** Those that are not inside another one: that brings them along. */
export function outermost(candidates: readonly Candidate[]): Candidate[] {
  const isIn = (path: string, outer: string) => path !== outer && (outer === "" || path.startsWith(`${outer}/`));
  const folders = candidates.filter(({ skill }) => skill.origin.form === "folder");
  return candidates.filter(
    ({ skill, path }) => skill.origin.parent === undefined || !folders.some((outer) => isIn(path, outer.path)),
  );
}

/** A folder that is a skill holds that and those inside it: as one file of many it would lose the others. */
async function skillsIn(root: string, hasFlat: boolean): Promise<Found> {
  const own = ownSkill(root);
  if (own?.skill) return withNested(own.skill, own.diagnostics);
  const skillsFolders = hasFlat ? [root] : [];
  const source = directorySource({ path: root, name: "installed", scope: "installed", skillsFolders });
  const { skills, diagnostics } = await source.load();
  if (!own) return { skills, diagnostics };
  return {
    skills: skills.filter(({ origin }) => origin.file !== own.file),
    diagnostics: [...own.diagnostics, ...diagnostics.filter(({ file }) => file !== own.file)],
  };
}

/** What is to be said of a folder's own SKILL.md, and the skill if it is one. */
function ownSkill(root: string): { skill?: Skill; diagnostics: Diagnostic[]; file: string } | undefined {
  const file = renamedSkillFile(root);
  const own = readFolderSkill(root, ORIGIN);
  if (own === undefined) return undefined;
  if (!("skill" in own)) return { diagnostics: diagnose(own.findings, file), file };
  return { skill: own.skill, diagnostics: diagnose(own.skill.findings.filter(isOfName), file), file };
}

// A skill of one's own is found by its folder's name then. One that comes from elsewhere is called what it says, or not taken.
const NAMES: ReadonlySet<string> = new Set(["name-unusable", "name-reserved", "name-lookalike"]);

function isOfName({ code }: { code: string }): boolean {
  return NAMES.has(code);
}

function isMisnamed({ findings }: Skill): boolean {
  return findings.some(isOfName);
}

function judged(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return diagnostics.map((one) => (isOfName(one) ? { ...one, severity: "error" } : one));
}

function pathIn(root: string, { origin: { form, folder = "", file = "" } }: Skill): string {
  return relative(root, form === "folder" ? folder : file)
    .split(sep)
    .join("/");
}

/** The skill of this name in a source. Throws a SkillError when there is none, or which of several is meant is not clear. */
export function candidateOf(name: string, offer: Offer): Candidate {
  const { candidates, diagnostics } = offer;
  const named = candidates.filter(({ skill }) => skill.name === name);
  const plain = named.filter(({ skill }) => skill.origin.parent === undefined);
  const [first] =
    named.length > 0 ? distinct(plain.length > 0 ? plain : named) : candidates.filter(({ path }) => path === name);
  if (!first) {
    const names = [...new Set(candidates.map(({ skill }) => skill.name))];
    const broken = diagnostics.find(
      (diagnostic) => stopsLoading(diagnostic) && diagnostic.file.split(sep).includes(name),
    );
    const meant = nearest(name, names);
    throw new SkillError("not-found", {
      message: broken
        ? `"${name}" is there, but did not load: ${broken.message}`
        : withNotes(`There is no skill "${name}" in it`, offer),
      fix: broken?.fix ?? (meant ? `did you mean ${meant}?` : `there are: ${names.slice(0, 10).join(", ") || "none"}`),
    });
  }
  return first;
}

/** That something is not in a source, with what was left out of it, which may be why. */
export function withNotes(message: string, { notes }: Offer): string {
  const rest = notes.length > MOST_NOTES ? [`There are ${notes.length - MOST_NOTES} more such notes`] : [];
  return [message, ...notes.slice(0, MOST_NOTES), ...rest].join(". ");
}

const MOST_NOTES = 5;

/** A skill of a source that cannot be added, and why. */
export interface RefusedSkill {
  name: string;
  error: SkillError;
}

/**
 * Returns the skills that can be added together: of several with one name, the first, if they are the same. Calls `onRefused` for the
 * names that are not; without it, throws a SkillError.
 */
export function distinct(
  candidates: readonly Candidate[],
  onRefused: (refused: RefusedSkill) => void = ({ error }) => {
    throw error;
  },
): Candidate[] {
  const byName = Map.groupBy(candidates, ({ skill }) => skill.name);
  for (const alike of Map.groupBy([...byName.keys()], foldedName).values()) {
    if (alike.length < 2) continue;
    const error = new SkillError("name-twice", {
      message: `Skills of the source are called ${alike.map(shown).join(" and ")}, which are one folder on some disks`,
      fix: "name the one that you mean",
    });
    for (const name of alike) {
      onRefused({ name, error });
      byName.delete(name);
    }
  }
  return [...byName].flatMap(([name, [first, ...others]]) => {
    if (!first) return [];
    const digest = others.length > 0 && digestIn(first);
    const other = others.find((candidate) => digestIn(candidate) !== digest);
    if (!other) return [first];
    const error = new SkillError("name-twice", {
      message: `Two skills of the source are called "${name}": ${first.path} and ${other.path}`,
      fix: "name the folder that you mean: //FOLDER behind the source",
    });
    onRefused({ name, error });
    return [];
  });
}

function digestIn(candidate: Candidate): string {
  return treeDigest(lockedFilesOf(treeOfCandidate(candidate)));
}

/** Looks at a skill: what it holds, and what is to be said of it. Throws a SkillError when it cannot be added. */
export function prepare(candidate: Candidate, fetched: Fetched, folder: string): Prepared {
  const { skill, path } = candidate;
  const { name } = skill;
  entryPath({ path: name, kind: "folder" });
  const refused = [...fetched.refused].find(([at]) => isPartOf(candidate, at));
  if (refused) {
    const [, cause] = refused;
    throw new SkillError(cause.code, {
      message: `Skill "${name}" is refused: ${cause.message}`,
      fix: "ask its author to fix it; the other skills of the source can be added",
      cause,
    });
  }
  const unlisted = skill.files().findings.find(({ code }) => code === "too-many-files" || code === "too-deep");
  if (unlisted) {
    throw new SkillError(unlisted.code, {
      message: `Skill "${name}" ${unlisted.message}`,
      fix: "nobody can look at so much: tell whoever wrote it",
    });
  }
  const tree = treeOfCandidate(candidate);
  const isWhole = skill.origin.file === join(skill.origin.folder ?? "", "SKILL.md");
  const isAsFetched = !addLinked(tree, candidate, fetched) && isWhole;
  if (!isAsFetched) writeTree(folder, tree);
  const files = lockedFilesOf(tree);
  const { description, manifest } = skill;
  const findings = scanSkill({ name, description, manifest, files: tree });
  const own = isAsFetched ? (skill.origin.folder ?? folder) : folder;
  return { skill, path, name, tree, files, digest: treeDigest(files), folder: own, findings };
}

/** As it will be in its place: a folder with a SKILL.md. */
function treeOfCandidate({ skill }: Candidate): Map<string, CopiedFile> {
  const { form, folder, file = "" } = skill.origin;
  if (form !== "folder" || folder === undefined) {
    return new Map([["SKILL.md", { bytes: Buffer.from(toSkillMd(skill)), executable: false }]]);
  }
  const tree = readTree(folder);
  const own = tree.get(basename(file));
  if (own && basename(file) !== "SKILL.md") {
    tree.delete(basename(file));
    tree.set("SKILL.md", own);
  }
  return tree;
}

/** Links of a skill to files of its own become copies of these; any other stands against adding it. Contract: whether there was one. */
function addLinked(tree: Map<string, CopiedFile>, { skill, path: root }: Candidate, { links }: Fetched): boolean {
  if (skill.origin.form !== "folder") return false;
  const below = root === "" ? "" : `${root}/`;
  const own = new Map(
    [...links].flatMap(([link, to]) => (link.startsWith(below) ? [[link.slice(below.length), to]] : [])),
  );
  for (const path of own.keys()) {
    const target = leadsTo(path, own);
    const file = target === undefined ? undefined : tree.get(target);
    if (!file) {
      throw new SkillError("link-outside", {
        message: `Skill "${skill.name}" holds a link, ${path}, that leads to no file of its own`,
        fix: "tell whoever wrote it: a skill brings all that it needs",
      });
    }
    tree.set(path, file);
  }
  return own.size > 0;
}
