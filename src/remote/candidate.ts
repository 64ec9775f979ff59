import { constants, copyFileSync, lstatSync, readdirSync, renameSync } from "node:fs";
import { basename, join, posix, relative, sep } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { ScanFinding } from "../scan/rule.ts";
import { scanSkill } from "../scan/scan.ts";
import { renderSkillMd } from "../skill/frontmatter.ts";
import { type Diagnostic, diagnose, type Skill, stopsLoading } from "../skill/skill.ts";
import { createDirectorySource } from "../skill/source/directory-source.ts";
import { readInstructions } from "../skill/source/file-skill.ts";
import { isSkillsFolder } from "../skill/source/locations.ts";
import { readFolderSkill, readNestedSkills } from "../skill/source/read-skill.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { findSampleFolder } from "../skill/source/skill-files.ts";
import { digestTree, type LockedFiles } from "../store/lock-file.ts";
import { isInside } from "../util/safe-path.ts";
import { compareText, findNearest } from "../util/text.ts";
import { checkEntryPath, foldName } from "./entry-path.ts";
import { type FileTree, readTree, toLockedFiles, writeTree } from "./file-tree.ts";
import { findPluginFolders, type PluginFolders } from "./plugin-folders.ts";
import { type FetchedSource, quoteSourcePath } from "./remote-source.ts";

/** A skill in a source, as discovery finds it there. */
export interface RemoteCandidate {
  skill: Skill;
  /** Its folder or file in the source; empty if the source itself is the skill. */
  path: string;
}

/** The content of a source. */
export interface SourceListing {
  candidates: readonly RemoteCandidate[];
  /** Skills that did not load, and the reasons. */
  diagnostics: readonly Diagnostic[];
  notes: readonly string[];
}

/** A skill that was checked and can be written. */
export interface PreparedCandidate extends RemoteCandidate {
  name: string;
  tree: FileTree;
  files: LockedFiles;
  digest: string;
  /** A private folder that contains only this skill. */
  folder: string;
  findings: readonly ScanFinding[];
}

const CANDIDATE_ORIGIN = { scope: "installed", source: "installed" } as const;

/** Lists the skills of a source, as they would be found once they are added. */
export async function listCandidates(fetched: FetchedSource): Promise<SourceListing> {
  const { folder, address } = fetched;
  const { lost, notes } = copyLinkedSkillFiles(fetched);
  const own = readRootSkill(folder);
  if (own?.skill) {
    const { skills, diagnostics } = addNestedSkills(own.skill, own.diagnostics);
    const candidates = skills
      .filter((skill) => !isMisnamed(skill))
      .map((skill) => ({ skill, path: getCandidatePath(folder, skill) }));
    return {
      candidates,
      diagnostics: raiseNameProblems(diagnostics),
      notes: [...notes, ...describeStrayFiles(fetched, candidates)],
    };
  }
  const plugin = findPluginFolders(folder);
  const isRepository = address.kind === "git" && address.inside === undefined;
  const hasFlat = (root: string) => !(root === folder && isRepository) && isSkillsFolder(root);
  const loaded = await Promise.all((plugin?.folders ?? [folder]).map((root) => loadSkillsBelow(root, hasFlat(root))));
  const candidates = loaded
    .flatMap(({ skills }) => skills.filter((skill) => !isMisnamed(skill)))
    .map((skill) => ({ skill, path: getCandidatePath(folder, skill) }))
    .filter(({ skill, path }) => skill.origin.form === "folder" || !lost.some((above) => path.startsWith(above)))
    .filter(({ skill }) => !isTemplate(skill, plugin))
    .sort((a, b) => compareText(a.skill.name, b.skill.name) || compareText(a.path, b.path));
  const diagnostics = loaded.flatMap((one) => one.diagnostics);
  return {
    candidates,
    diagnostics: raiseNameProblems(plugin && own ? [...own.diagnostics, ...diagnostics] : diagnostics),
    notes: [...notes, ...(plugin?.notes ?? []), ...describeStrayFiles(fetched, candidates)],
  };
}

/** Returns true for a sample or template of a marketplace that belongs to none of its plugins. */
function isTemplate({ origin: { folder, file = "" } }: Skill, plugin: PluginFolders | undefined): boolean {
  if (!plugin?.plugins || plugin.plugins.length === 0) return false;
  const location = folder ?? file;
  const [root = ""] = plugin.folders;
  const path = relative(root, location).split(sep);
  const isSample = findSampleFolder(path.join("/")) !== undefined || path[0] === "template";
  return isSample && !plugin.plugins.some((own) => isInside(own, location));
}

/** Describes the refused files that belong to no skill, up to a limit. */
function describeStrayFiles({ refused }: FetchedSource, candidates: readonly RemoteCandidate[]): string[] {
  const stray = [...refused].filter(([path]) => !candidates.some((candidate) => isInSkill(candidate, path)));
  const more = stray.length - MAX_NOTES;
  return [
    ...stray.slice(0, MAX_NOTES).map(([, { message }]) => `Skipped, because it belongs to no skill: ${message}`),
    ...(more > 0 ? [`Skipped: ${more} more files that belong to no skill`] : []),
  ];
}

/** Returns true if a path of the source is in the folder of this skill. */
function isInSkill({ skill, path: folder }: RemoteCandidate, path: string): boolean {
  const below = folder === "" ? "" : `${folder}/`;
  return skill.origin.form === "folder" && path.startsWith(below);
}

interface LoadedSkills {
  skills: readonly Skill[];
  diagnostics: readonly Diagnostic[];
}

function addNestedSkills(skill: Skill, diagnostics: readonly Diagnostic[]): LoadedSkills {
  const nested = readNestedSkills(skill);
  return { skills: [skill, ...nested.skills], diagnostics: [...diagnostics, ...nested.diagnostics] };
}

/** Selects the skills that are not inside another one, which includes them. */
export function selectOutermost(candidates: readonly RemoteCandidate[]): RemoteCandidate[] {
  const isIn = (path: string, outer: string) => path !== outer && (outer === "" || path.startsWith(`${outer}/`));
  const folders = candidates.filter(({ skill }) => skill.origin.form === "folder");
  return candidates.filter(
    ({ skill, path }) => skill.origin.parent === undefined || !folders.some((outer) => isIn(path, outer.path)),
  );
}

/**
 * Loads the skills below a folder. A folder that is itself a skill contains that one and the nested ones: treated as a
 * single file, it would lose the others.
 */
async function loadSkillsBelow(root: string, hasFlat: boolean): Promise<LoadedSkills> {
  const own = readRootSkill(root);
  if (own?.skill) return addNestedSkills(own.skill, own.diagnostics);
  const skillsFolders = hasFlat ? [root] : [];
  const source = createDirectorySource({ path: root, name: "installed", scope: "installed", skillsFolders });
  const { skills, diagnostics } = await source.load();
  if (!own) return { skills, diagnostics };
  return {
    skills: skills.filter(({ origin }) => origin.file !== own.file),
    diagnostics: [...own.diagnostics, ...diagnostics.filter(({ file }) => file !== own.file)],
  };
}

/** Reads a folder's own SKILL.md: its diagnostics, and the skill if it is valid. */
function readRootSkill(root: string): { skill?: Skill; diagnostics: Diagnostic[]; file: string } | undefined {
  const file = normalizeSkillFile(root);
  const own = readFolderSkill(root, CANDIDATE_ORIGIN);
  if (own === undefined) return undefined;
  if (!("skill" in own)) return { diagnostics: diagnose(own.findings, file), file };
  return { skill: own.skill, diagnostics: diagnose(own.skill.findings.filter(isNameProblem), file), file };
}

// Name problems. A local skill with one gets its folder's name; a remote skill must have the name it states, or is
// refused.
const NAME_CODES: ReadonlySet<string> = new Set(["name-invalid", "name-reserved", "name-lookalike"]);

function isNameProblem({ code }: { code: string }): boolean {
  return NAME_CODES.has(code);
}

function isMisnamed({ findings }: Skill): boolean {
  return findings.some(isNameProblem);
}

function raiseNameProblems(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  return diagnostics.map((one) => (isNameProblem(one) ? { ...one, severity: "error" } : one));
}

function getCandidatePath(root: string, { origin: { form, folder = "", file = "" } }: Skill): string {
  return relative(root, form === "folder" ? folder : file)
    .split(sep)
    .join("/");
}

/** Finds the skill of this name in a source. Throws a SkillError if it is missing or ambiguous. */
export function findCandidate(name: string, offer: SourceListing): RemoteCandidate {
  const { candidates, diagnostics } = offer;
  const named = candidates.filter(({ skill }) => skill.name === name);
  const plain = named.filter(({ skill }) => skill.origin.parent === undefined);
  const [first] =
    named.length > 0
      ? selectDistinct(plain.length > 0 ? plain : named)
      : candidates.filter(({ path }) => path === name);
  if (!first) {
    const names = [...new Set(candidates.map(({ skill }) => skill.name))];
    const broken = diagnostics.find(
      (diagnostic) => stopsLoading(diagnostic) && diagnostic.file.split(sep).includes(name),
    );
    const meant = findNearest(name, names);
    throw new SkillError("not-found", {
      message: broken
        ? `"${name}" exists, but did not load: ${broken.message}`
        : appendNotes(`The source has no skill "${name}"`, offer),
      fix: broken?.fix ?? (meant ? `did you mean ${meant}?` : `available: ${names.slice(0, 10).join(", ") || "none"}`),
    });
  }
  return first;
}

/** Appends the notes about omitted content to a message, since they may explain it. */
export function appendNotes(message: string, { notes }: SourceListing): string {
  const rest = notes.length > MAX_NOTES ? [`${notes.length - MAX_NOTES} more notes are not shown`] : [];
  return [message, ...notes.slice(0, MAX_NOTES), ...rest].join(". ");
}

const MAX_NOTES = 5;

/** A skill of a source that cannot be added, with the error. */
export interface RefusedSkill {
  name: string;
  error: SkillError;
}

/**
 * Selects the skills that can be added together. Of several with the same name, takes the first if they are identical.
 * Calls `onRefused` for the other names; without it, throws a SkillError.
 */
export function selectDistinct(
  candidates: readonly RemoteCandidate[],
  onRefused: (refused: RefusedSkill) => void = ({ error }) => {
    throw error;
  },
): RemoteCandidate[] {
  const byName = Map.groupBy(candidates, ({ skill }) => skill.name);
  for (const alike of Map.groupBy([...byName.keys()], foldName).values()) {
    if (alike.length < 2) continue;
    const error = new SkillError("duplicate-name", {
      message: `The source has skills named ${alike.map(quoteSourcePath).join(" and ")}, which are the same folder on some disks`,
      fix: "name the one that you want",
    });
    for (const name of alike) {
      onRefused({ name, error });
      byName.delete(name);
    }
  }
  return [...byName].flatMap(([name, [first, ...others]]) => {
    if (!first) return [];
    const digest = others.length > 0 && digestCandidate(first);
    const other = others.find((candidate) => digestCandidate(candidate) !== digest);
    if (!other) return [first];
    const error = new SkillError("duplicate-name", {
      message: `Two skills of the source are named "${name}": ${first.path} and ${other.path}`,
      fix: "name the folder that you want: append //FOLDER to the source",
    });
    onRefused({ name, error });
    return [];
  });
}

function digestCandidate(candidate: RemoteCandidate): string {
  return digestTree(toLockedFiles(readCandidateTree(candidate)));
}

/** Prepares a skill: reads its files and scans them. Throws a SkillError if it cannot be added. */
export async function prepareCandidate(
  candidate: RemoteCandidate,
  fetched: FetchedSource,
  folder: string,
): Promise<PreparedCandidate> {
  const { skill, path } = candidate;
  const { name } = skill;
  checkEntryPath({ path: name, kind: "folder" });
  const refused = [...fetched.refused].find(([at]) => isInSkill(candidate, at));
  if (refused) {
    const [, cause] = refused;
    throw new SkillError(cause.code, {
      message: `Skill "${name}" is refused: ${cause.message}`,
      fix: "ask its author to fix it; the other skills of the source can be added",
      cause,
    });
  }
  const unlisted = (await skill.files()).findings.find(({ code }) => code === "too-many-files" || code === "too-deep");
  if (unlisted) {
    throw new SkillError(unlisted.code, {
      message: `Skill "${name}" ${unlisted.message}`,
      fix: "it is too large to review: report it to its author",
    });
  }
  const tree = readCandidateTree(candidate);
  const isWhole = skill.origin.file === join(skill.origin.folder ?? "", "SKILL.md");
  const isAsFetched = !copyLinkedFiles(tree, candidate, fetched) && isWhole;
  if (!isAsFetched) writeTree(folder, tree);
  const files = toLockedFiles(tree);
  const { description, manifest } = skill;
  const findings = scanSkill({ name, description, manifest, files: tree });
  const own = isAsFetched ? (skill.origin.folder ?? folder) : folder;
  return { skill, path, name, tree, files, digest: digestTree(files), folder: own, findings };
}

/** The outcome of checking one skill of a source before it is chosen. */
export type CandidateVerdict =
  | { is: "fine" }
  /** The scanner found something that a person should look at. */
  | { is: "look"; findings: readonly ScanFinding[] }
  | { is: "refused"; error: SkillError };

/** Returns a check that scans each skill of a source once. `work`: a folder for intermediate files. */
export function createCandidateCheck(
  fetched: FetchedSource,
  work: string,
): (candidate: RemoteCandidate) => Promise<CandidateVerdict> {
  const known = new Map<RemoteCandidate, CandidateVerdict>();
  return async (candidate) => {
    const folder = join(work, "verdicts", String(known.size));
    const verdict = known.get(candidate) ?? (await checkCandidate(candidate, fetched, folder));
    known.set(candidate, verdict);
    return verdict;
  };
}

async function checkCandidate(
  candidate: RemoteCandidate,
  fetched: FetchedSource,
  folder: string,
): Promise<CandidateVerdict> {
  try {
    const findings = (await prepareCandidate(candidate, fetched, folder)).findings.filter(
      ({ weight }) => weight !== "low",
    );
    return findings.length > 0 ? { is: "look", findings } : { is: "fine" };
  } catch (error) {
    if (error instanceof SkillError) return { is: "refused", error };
    throw error;
  }
}

/** Reads the files as they will be installed: a folder with a SKILL.md. */
function readCandidateTree({ skill }: RemoteCandidate): Map<string, CopiedFile> {
  const { form, folder, file = "" } = skill.origin;
  if (form !== "folder" || folder === undefined) {
    const skillMd = renderSkillMd(skill, readInstructions(skill).text);
    return new Map([["SKILL.md", { bytes: Buffer.from(skillMd), executable: false }]]);
  }
  const tree = readTree(folder);
  const own = tree.get(basename(file));
  if (own && basename(file) !== "SKILL.md") {
    tree.delete(basename(file));
    tree.set("SKILL.md", own);
  }
  return tree;
}

/**
 * Replaces symlinks to files of the same skill with copies; any other symlink is refused. Returns true if there were
 * symlinks.
 */
function copyLinkedFiles(
  tree: Map<string, CopiedFile>,
  { skill, path: root }: RemoteCandidate,
  { links }: FetchedSource,
): boolean {
  if (skill.origin.form !== "folder") return false;
  const below = root === "" ? "" : `${root}/`;
  const own = new Map(
    [...links].flatMap(([link, to]) => (link.startsWith(below) ? [[link.slice(below.length), to]] : [])),
  );
  for (const path of own.keys()) {
    const target = resolveSourceLink(path, own);
    const file = target === undefined ? undefined : tree.get(target);
    if (!file) {
      throw new SkillError("symlink-outside", {
        message: `Skill "${skill.name}" contains a symlink, ${path}, that does not point to one of its files`,
        fix: "report it to its author: a skill must contain all its files",
      });
    }
    tree.set(path, file);
  }
  return own.size > 0;
}

/**
 * Replaces a SKILL.md that is a symlink to a file of its folder with a copy. Symlinks are never created, so without
 * this the folder would not be a skill and its files could be mistaken for single-file skills. `lost`: the path
 * prefixes whose symlink points elsewhere.
 */
function copyLinkedSkillFiles({ folder, links, notes }: FetchedSource): { lost: string[]; notes: string[] } {
  const outcome = { lost: [] as string[], notes: [...notes] };
  for (const link of links.keys()) {
    if (posix.basename(link) !== "SKILL.md") continue;
    const above = link.slice(0, -"SKILL.md".length);
    const target = resolveSourceLink(link, links);
    if (target?.startsWith(above) && lstatSync(join(folder, target), { throwIfNoEntry: false })?.isFile()) {
      copyFileSync(join(folder, target), join(folder, link), constants.COPYFILE_EXCL);
    } else {
      outcome.lost.push(above);
      outcome.notes.push(
        `${quoteSourcePath(link)} is a symlink that points outside its folder, so the folder is not a skill`,
      );
    }
  }
  return outcome;
}

/**
 * Returns the path of the folder's SKILL.md, renamed from skill.md or similar. Contract: the folder is private to this
 * process.
 */
function normalizeSkillFile(folder: string): string {
  const file = join(folder, "SKILL.md");
  const names = readdirSync(folder);
  const other = names.includes("SKILL.md") ? undefined : names.find((name) => name.toUpperCase() === "SKILL.MD");
  if (other !== undefined) renameSync(join(folder, other), file);
  return file;
}

const MAX_LINKS = 40;

/** Resolves a symlink, through others if needed. Returns undefined if it leaves the tree. */
function resolveSourceLink(path: string, links: ReadonlyMap<string, string>): string | undefined {
  let at = path;
  for (let count = 0; count < MAX_LINKS; count++) {
    const target = links.get(at);
    if (target === undefined) return at.startsWith("../") ? undefined : at;
    if (posix.isAbsolute(target)) return undefined;
    at = posix.join(posix.dirname(at), target);
  }
  return undefined;
}
