import { type Dirent, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { getErrnoCode } from "../../errors/problem.ts";
import { statIfExists } from "../../util/file-access.ts";
import { isInside } from "../../util/safe-path.ts";
import { compareText } from "../../util/text.ts";
import type { SkillForm } from "../frontmatter.ts";
import type { Finding } from "../skill.ts";
import type { DiscoveryCache, FolderListing } from "./directory-source.ts";
import { findMissingFrontmatter, hasSkillFrontmatter } from "./file-skill.ts";
import {
  createBrokenLinkFinding,
  createOpenFinding,
  type FolderSnapshot,
  findSampleFolder,
  SKIPPED_FOLDERS,
  STAGING_FOLDER,
} from "./skill-files.ts";

/** A file that may be a skill. */
export interface SkillCandidate {
  file: string;
  /** `file` relative to the root of the search. */
  path: string;
  form: SkillForm;
  /** The default name of the skill. */
  stem: string;
  /** The real path of the skill's folder, for the folder form. */
  folder?: string;
  /** The known state of the folder, shared by all readers so that nothing is read twice. */
  snapshot?: FolderSnapshot;
  /** The file of the skill whose folder contains this one, if any. */
  parent?: string;
  /** Findings of the search itself. */
  findings: readonly Finding[];
  /**
   * Keys that the file must state to count as a skill. Without one of them it is another kind of file, and nothing is reported.
   */
  requiredKeys: readonly string[];
  /**
   * If true, the file is not read if it has hard links outside of its skill's folder: the author of a workspace could link to a
   * user's file.
   */
  refusesShared?: boolean;
  /** True if the user named the file: it is checked as a skill in any case. */
  isNamed?: boolean;
}

export interface FindSkillsOptions {
  root: string;
  recursive: boolean;
  /**
   * Folders whose Markdown and YAML files are skills. Elsewhere such files count only in a folder named `skills`, if they state
   * that they are one.
   */
  skillsFolders: readonly string[];
  index?: DiscoveryCache | undefined;
  /** Returns true if a folder below the root, by its real path, is excluded with all its content. */
  isLeftOut?: ((folder: string) => boolean) | undefined;
  /** Receives a candidate. Contract: returns false if the file does not exist. */
  onCandidate(candidate: SkillCandidate): boolean;
  /** Reports a finding for a file or folder that is not a candidate. */
  report(path: string, finding: Finding): void;
}

/** Finds all files below a folder that may be skills, once per real path, in a stable order. */
export function findSkillCandidates(request: FindSkillsOptions): void {
  let real: string;
  try {
    real = realpathSync.native(request.root);
  } catch (error) {
    if (getErrnoCode(error) !== "ENOENT") request.report(request.root, createOpenFinding(error));
    return;
  }
  const state: WalkState = {
    ...request,
    real,
    skillsFolders: request.skillsFolders.flatMap((folder) => resolveRealPath(folder) ?? []),
    visited: [],
    links: [],
    nested: [],
    known: undefined,
    folders: 0,
    isFull: false,
    isTooDeep: false,
  };
  visitFolder(state, "", real, 0);
  // Symlinks come last, so that a folder has its own path and not that of a symlink. Only symlinks can lead to a path twice.
  if (state.links.length > 0) state.known = new Set(state.visited);
  for (let link = state.links.shift(); link; link = state.links.shift()) followLink(state, link);
  // Nested skills come after that: the author of a symlink to one of them chose its path on purpose.
  for (const candidate of state.nested) if (!isAlreadySeen(state, candidate.folder ?? "")) state.onCandidate(candidate);
}

const MAX_DEPTH = 12;
const MAX_DEPTH_BELOW_LINK = 3;
const MAX_FOLDERS = 50_000;

interface WalkState extends FindSkillsOptions {
  real: string;
  /** The real paths of folders and flat files, in the order of the search. */
  visited: string[];
  /** A set of the same paths, created once symlinks are followed. */
  known: Set<string> | undefined;
  links: FolderLink[];
  /** Skills inside the folders of other skills. */
  nested: SkillCandidate[];
  folders: number;
  isFull: boolean;
  isTooDeep: boolean;
}

interface FolderLink {
  path: string;
  /** The real path of the folder that contains the symlink. */
  folder: string;
  depth: number;
}

function visitFolder(state: WalkState, path: string, real: string, depth: number): void {
  if (isAlreadySeen(state, real) || (depth > 0 && state.isLeftOut?.(real)) || exceedsLimits(state, path, depth)) return;
  const folder = path === "" ? state.root : `${state.root}/${path}`;
  const known = state.index?.isKnownFolder(path) ? unchangedListing(state, path, folder) : undefined;
  if (!known && depth > 0 && takeSkill(state, createFolderCandidate(folder, path, real, "SKILL.md"))) return;
  const listing = known ?? listFolder(state, path, folder);
  if (!listing) return;
  const oddlyNamed = listing.files.find((name) => SKILL_FILE_ANY_CASE.test(name));
  if (depth > 0 && oddlyNamed !== undefined && takeMisnamedFile(state, folder, path, real, oddlyNamed)) return;
  takeListing(state, listing, path, real, depth);
}

/** Returns true if this path was visited before, and marks it as visited. */
function isAlreadySeen({ known, visited }: WalkState, real: string): boolean {
  if (known?.has(real)) return true;
  if (known) known.add(real);
  else visited.push(real);
  return false;
}

function exceedsLimits(state: WalkState, path: string, depth: number): boolean {
  if (state.isFull) return true;
  if (depth > MAX_DEPTH) {
    const message = `is nested deeper than ${MAX_DEPTH} folders; deeper folders were not searched`;
    if (!state.isTooDeep) state.report(joinRoot(state.root, path), { code: "too-deep", message });
    state.isTooDeep = true;
    return true;
  }
  if (++state.folders <= MAX_FOLDERS) return false;
  state.isFull = true;
  state.report(state.root, {
    code: "too-many-skills",
    message: `contains more than ${MAX_FOLDERS} folders; the rest was not searched`,
  });
  return true;
}

function takeListing(state: WalkState, listing: FolderListing, path: string, real: string, depth: number): void {
  for (const name of listing.files) {
    if (MISNAMED_SKILL_FILE.test(name) && (depth > 0 || !detectFlatForm(name))) {
      if (!isMeantAsSkill(state, real, name)) continue;
      const message = `is not named SKILL.md, so the folder is not a skill`;
      state.report(joinRoot(state.root, joinRelative(path, name)), { code: "file-name", message });
    } else takeFlatFile(state, joinRelative(path, name), `${real}/${name}`, real);
  }
  if (state.recursive || depth === 0) {
    for (const name of listing.folders) visitFolder(state, joinRelative(path, name), `${real}/${name}`, depth + 1);
  }
  for (const name of listing.links)
    state.links.push({ path: joinRelative(path, name), folder: real, depth: depth + 1 });
}

/** Contract: `folder` is the real path of the folder that contains the file or the symlink to it. */
function takeFlatFile(state: WalkState, path: string, real: string, folder: string): void {
  const form = detectFlatForm(path);
  const name = getLastPart(path);
  const isSkillFile = SKILL_FILE_ANY_CASE.test(name);
  const stem = isSkillFile ? getLastPart(state.real) : name.replace(/\.[^.]*$/, "");
  const needs = form && (isSkillFile ? [] : getRequiredKeys(state, folder, form, stem));
  if (!form || !needs || isAlreadySeen(state, real)) return;
  if (isSkillFile && name !== "SKILL.md" && !isMeantAsSkill(state, folder, name)) return;
  state.onCandidate({ file: joinRoot(state.root, path), path, form, stem, findings: [], requiredKeys: needs });
}

/** Returns the keys that a flat file must state to be a skill, by its folder. Undefined if no file in that folder can be one. */
function getRequiredKeys(
  { skillsFolders }: WalkState,
  folder: string,
  form: SkillForm,
  stem: string,
): readonly string[] | undefined {
  if (skillsFolders.includes(folder)) return isUsualDocument(stem) ? ["description"] : [];
  if (getLastPart(folder) !== "skills") return undefined;
  return form === "yaml" ? ["name", "description", "instructions"] : ["name", "description"];
}

/**
 * Returns true if a file with almost the name SKILL.md is a skill: in a skill folder by its name, elsewhere by its frontmatter.
 */
function isMeantAsSkill(state: WalkState, folder: string, name: string): boolean {
  return isInSkillsFolder(state, folder) || hasSkillFrontmatter(`${folder}/${name}`);
}

function isInSkillsFolder({ skillsFolders }: WalkState, folder: string): boolean {
  return skillsFolders.some((skills) => isInside(skills, folder));
}

function takeMisnamedFile(state: WalkState, folder: string, path: string, real: string, name: string): boolean {
  if (name === "SKILL.md") {
    // A symlink that was broken when the folder was listed may have a target by now.
    if (takeSkill(state, createFolderCandidate(folder, path, real, name))) return true;
    state.report(`${folder}/${name}`, createBrokenLinkFinding(`${folder}/${name}`));
    return true;
  }
  if (!isMeantAsSkill(state, real, name)) return false;
  const finding: Finding = { code: "file-case", message: `is named "${name}", not SKILL.md` };
  return takeSkill(state, { ...createFolderCandidate(folder, path, real, name), findings: [finding] });
}

/** Adds a skill, and records the skills inside its folder. */
function takeSkill(state: WalkState, candidate: SkillCandidate): boolean {
  if (!state.onCandidate(candidate)) return false;
  if (state.recursive) state.nested.push(...listNestedCandidates(state, candidate));
  return true;
}

/**
 * THE rule for a SKILL.md inside the folder of a skill: it is a separate skill if it has frontmatter and is not below a folder of
 * samples. Its files remain files of the enclosing skill. All others are reported.
 */
function listNestedCandidates(
  state: NestedContext,
  { file, path, folder: real = "", snapshot = {} }: SkillCandidate,
): SkillCandidate[] {
  const folder = file.slice(0, file.lastIndexOf("/"));
  const top = path.slice(0, Math.max(0, path.lastIndexOf("/")));
  const searched = { path: top, index: state.index, stats: snapshot.stats };
  const { folders, isCut, hasEvals } = findNestedFolders(folder, searched);
  if (hasEvals !== undefined) snapshot.hasEvals = hasEvals;
  if (isCut) {
    state.report(folder, {
      code: "too-many-skills",
      message: "contains more folders than the search for nested skills covers",
    });
  }
  if (folders.length === 0) return [];
  const skillFiles = new Map([["", file]]);
  const nested: SkillCandidate[] = [];
  for (const inside of folders) {
    const [nestedPath, realPath] = [`${folder}/${inside}`, `${real}/${inside}`];
    const outer = findOuterFolder(inside, skillFiles);
    const samples = findSampleFolder(inside);
    const why =
      samples === undefined
        ? findMissingFrontmatter(`${nestedPath}/SKILL.md`)
        : `is below "${samples}" in the folder of the skill "${getLastPart(folder)}"`;
    if (why !== undefined) {
      state.report(`${nestedPath}/SKILL.md`, { code: "nested-skipped", message: `${why}, so it is not loaded` });
      continue;
    }
    if (state.isLeftOut?.(realPath)) continue;
    const parent = skillFiles.get(outer) ?? file;
    nested.push({ ...createFolderCandidate(nestedPath, joinRelative(top, inside), realPath, "SKILL.md"), parent });
    skillFiles.set(inside, `${nestedPath}/SKILL.md`);
  }
  return nested;
}

/**
 * Finds the folders below a skill's folder that have a SKILL.md, outer ones first. Does not follow symlinks: their targets are
 * not inside. `path` is the folder's path in the cache, `stats` are its own. `isCut`: the limit of searched folders was reached.
 * `hasEvals`: it has a folder of that name; undefined if a symlink of that name may lead to one.
 */
function findNestedFolders(
  folder: string,
  { path, index, stats }: { path: string; index?: DiscoveryCache | undefined; stats?: Stats | undefined },
): { folders: string[]; isCut: boolean; hasEvals?: boolean } {
  const at = (inside: string) => (inside === "" ? folder : `${folder}/${inside}`);
  const known = index?.nestedFolders(path, (inside) => (inside === "" && stats ? stats : statIfExists(at(inside))));
  if (known) return { folders: known.skills, isCut: false, hasEvals: known.all.includes(EVALS_FOLDER) };
  const visited: { path: string; isSkill: boolean }[] = [];
  let isWhole = true;
  const visit = (inside: string, depth: number): void => {
    const listed =
      visited.length < MAX_NESTED_FOLDERS && depth <= MAX_NESTED_DEPTH ? listSubfolders(at(inside)) : undefined;
    if (!listed) {
      isWhole = false; // Unreadable and too deep folders are reported with the files of the skill.
      return;
    }
    if (inside === "" && listed.links.includes(EVALS_FOLDER)) isWhole = false;
    visited.push({ path: inside, isSkill: listed.files.includes("SKILL.md") && inside !== "" });
    for (const name of listed.folders) visit(inside === "" ? name : `${inside}/${name}`, depth + 1);
  };
  visit("", 1);
  if (isWhole) index?.addNestedFolders(path, visited);
  return {
    folders: visited.flatMap(({ path: inside, isSkill }) => (isSkill ? inside : [])),
    isCut: visited.length >= MAX_NESTED_FOLDERS,
    ...(isWhole ? { hasEvals: visited.some(({ path: inside }) => inside === EVALS_FOLDER) } : {}),
  };
}

/** The same depth as for the files of a skill. */
const MAX_NESTED_DEPTH = 16;
const MAX_NESTED_FOLDERS = 2000;
/** The folder with the evaluation queries of a skill. */
const EVALS_FOLDER = "evals";

function listSubfolders(folder: string): FolderListing | undefined {
  try {
    return classifyEntries(readdirSync(folder, { withFileTypes: true }));
  } catch {
    return undefined;
  }
}

/** Creates the findings of a nested skill. They are not cached with its file, because the enclosing skill may be removed. */
export function createNestedFindings({ parent }: SkillCandidate): Finding[] {
  if (parent === undefined) return [];
  const [, folder = ""] = parent.split("/").reverse();
  return [{ code: "nested-skill", message: `is inside the folder of the skill "${folder}"` }];
}

/** Reports the candidates inside the folder of a skill that was found in another way. */
export function findNestedCandidates(
  skill: SkillCandidate,
  request: Pick<FindSkillsOptions, "onCandidate" | "report">,
): void {
  for (const candidate of listNestedCandidates(request, skill)) request.onCandidate(candidate);
}

type NestedContext = Pick<FindSkillsOptions, "report" | "index" | "isLeftOut">;

/** Returns the nearest enclosing folder that is a skill's. */
function findOuterFolder(inside: string, skills: ReadonlyMap<string, string>): string {
  let outer = inside;
  do outer = outer.slice(0, Math.max(0, outer.lastIndexOf("/")));
  while (!skills.has(outer));
  return outer;
}

function followLink(state: WalkState, link: FolderLink): void {
  const path = joinRoot(state.root, link.path);
  // A symlink elsewhere in a repository is not related to skills.
  const isOfSkills = getLastPart(link.folder) === "skills" || isInSkillsFolder(state, link.folder);
  const report = (finding: Finding) => isOfSkills && state.report(path, finding);
  let stats: Stats | undefined;
  let real: string;
  try {
    stats = statSync(path);
    real = realpathSync.native(path);
  } catch {
    report(createBrokenLinkFinding(path));
    return;
  }
  if (!stats.isDirectory()) {
    if (stats.isFile()) takeFlatFile(state, link.path, real, link.folder);
    else if (detectFlatForm(link.path)) report({ code: "not-a-file", message: "is not a regular file" });
    return;
  }
  if (isInside(real, state.real)) {
    if (real !== state.real)
      report({ code: "symlink-loop", message: "is a symlink to a parent folder; it was not followed" });
    return;
  }
  visitFolder(state, link.path, real, Math.max(link.depth, MAX_DEPTH - MAX_DEPTH_BELOW_LINK));
}

function unchangedListing(state: WalkState, path: string, folder: string): FolderListing | undefined {
  const stats = statIfExists(folder);
  return stats && state.index?.folder(path, stats);
}

function listFolder(state: WalkState, path: string, folder: string): FolderListing | undefined {
  try {
    const stats = state.index && statSync(folder);
    const listing = classifyEntries(readdirSync(folder, { withFileTypes: true }));
    if (stats) state.index?.addFolder(path, stats, listing);
    return listing;
  } catch (error) {
    state.report(folder, createOpenFinding(error));
    return undefined;
  }
}

function classifyEntries(entries: Dirent[]): FolderListing {
  const listing: FolderListing = { folders: [], files: [], links: [] };
  for (const entry of entries) {
    const { name } = entry;
    if (entry.isDirectory()) {
      if (!SKIPPED_FOLDERS.has(name) && !STAGING_FOLDER.test(name)) listing.folders.push(name);
    } else if (SKILL_FILE_ANY_CASE.test(name)) listing.files.push(name);
    else if (entry.isSymbolicLink()) listing.links.push(name);
    else if (detectFlatForm(name) || MISNAMED_SKILL_FILE.test(name)) listing.files.push(name);
  }
  for (const names of Object.values(listing)) names.sort(compareText);
  return listing;
}

const SKILL_FILE_ANY_CASE = /^skill\.md$/i;
const MISNAMED_SKILL_FILE = /^skills?(?:\.(?:md\.)?(?:txt|md|mdx|markdown))?$/i;
/** Names of files that are usually documents, even in a skill folder. */
const USUAL_DOCUMENT_NAMES = new Set([
  ...["readme", "changelog", "license", "licence", "contributing", "code_of_conduct", "security", "agents", "claude"],
  ...["gemini", "index", "todo", "notes", "pnpm-lock"],
]);

/**
 * Returns true if a file has the name of a document, and so is a skill only with a description. Names in capitals count too:
 * NOTICES.md.
 */
export function isUsualDocument(stem: string): boolean {
  return USUAL_DOCUMENT_NAMES.has(stem.toLowerCase()) || /^[A-Z][A-Z0-9_-]+$/.test(stem);
}

export function detectFlatForm(path: string): SkillForm | undefined {
  if (/\.md$/i.test(path)) return "markdown";
  return /\.ya?ml$/i.test(path) ? "yaml" : undefined;
}

function createFolderCandidate(folder: string, path: string, real: string, name: string): SkillCandidate {
  return {
    file: `${folder}/${name}`,
    path: joinRelative(path, name),
    form: "folder",
    stem: getLastPart(folder),
    folder: real,
    snapshot: {},
    findings: [],
    requiredKeys: [],
  };
}

function resolveRealPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

function getLastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function joinRelative(path: string, name: string): string {
  return path === "" ? name : `${path}/${name}`;
}

function joinRoot(root: string, path: string): string {
  return path === "" ? root : `${root}/${path}`;
}
