import { type Dirent, existsSync, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { getErrnoCode } from "../../errors/problem.ts";
import { isInside } from "../../util/safe-path.ts";
import { compareText } from "../../util/text.ts";
import type { Finding } from "../diagnostics.ts";
import { findFrontmatter, type SkillForm } from "../frontmatter.ts";
import type { DiscoveryCache, FolderListing } from "./discovery-cache.ts";
import { createOpenFinding, HEAD_BYTES, readFileBytes, statIfExists, withOpenFile } from "./read-file.ts";
import {
  type FolderSnapshot,
  findNestedFolders,
  findSampleFolder,
  SKIPPED_FOLDERS,
  STAGING_FOLDER,
} from "./skill-files.ts";

/** A file that may be a skill. */
export interface SkillCandidate {
  file: string;
  /** `file` relative to the root of the walk. */
  path: string;
  form: SkillForm;
  /** What serves as the name when the file states none. */
  stem: string;
  /** The real path of the skill's folder, for the folder form. */
  folder?: string;
  /** What was seen of that folder: whoever looks at it keeps it here, so that nothing is looked at twice. */
  seen?: FolderSnapshot;
  /** The file of the skill whose folder it is inside, if it is. */
  parent?: string;
  /** What the walk itself has to say about the file. */
  findings: readonly Finding[];
  /** Keys that the file must state to count as a skill. Without one of them it is something else, and nothing is reported. */
  needs: readonly string[];
  /** Whether the file is not read if it has other names outside of its skill's folder: whoever makes a workspace may give a file of the user's one. */
  refusesShared?: boolean;
  /** Whether the user named the file: it is judged as a skill, whatever it is. */
  isNamed?: boolean;
}

export interface FindSkillsOptions {
  root: string;
  recursive: boolean;
  /** Folders whose Markdown and YAML files are skills. Elsewhere such files count only in a folder named `skills`, if they say that they are one. */
  skillsFolders: readonly string[];
  index?: DiscoveryCache | undefined;
  /** Whether a folder below the root, by its real path, is left out with all that is in it. */
  isLeftOut?: ((folder: string) => boolean) | undefined;
  /** Takes a candidate. Contract: false when there is no such file. */
  take(candidate: SkillCandidate): boolean;
  /** Something to say about a file or folder that is no candidate. */
  say(path: string, finding: Finding): void;
}

/** Finds everything below a folder that may be a skill, each real place once, in the same order everywhere. */
export function findSkillCandidates(request: FindSkillsOptions): void {
  let real: string;
  try {
    real = realpathSync.native(request.root);
  } catch (error) {
    if (getErrnoCode(error) !== "ENOENT") request.say(request.root, createOpenFinding(error));
    return;
  }
  const state: WalkState = {
    ...request,
    real,
    skillsFolders: request.skillsFolders.flatMap((folder) => resolveRealPath(folder) ?? []),
    visited: [],
    links: [],
    nested: [],
    seen: undefined,
    folders: 0,
    isFull: false,
    isTooDeep: false,
  };
  visitFolder(state, "", real, 0);
  // Links come last, so that a folder is known by its own path rather than by a link to it. Only they can lead to a place twice.
  if (state.links.length > 0) state.seen = new Set(state.visited);
  for (let link = state.links.shift(); link; link = state.links.shift()) followLink(state, link);
  // And skills inside others after that: one that a link leads to was put there by whoever made the link.
  for (const candidate of state.nested) if (!isAlreadySeen(state, candidate.folder ?? "")) state.take(candidate);
}

const MAX_DEPTH = 12;
const MAX_DEPTH_BELOW_LINK = 3;
const MAX_FOLDERS = 50_000;

interface WalkState extends FindSkillsOptions {
  real: string;
  /** The real paths of folders and flat files, in the order in which they were met. */
  visited: string[];
  /** The same for looking up, once links are followed. */
  seen: Set<string> | undefined;
  links: FolderLink[];
  /** Skills inside the folders of others. */
  nested: SkillCandidate[];
  folders: number;
  isFull: boolean;
  isTooDeep: boolean;
}

interface FolderLink {
  path: string;
  /** The real path of the folder that the link is in. */
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

/** Whether this place was met before; from now on it was. */
function isAlreadySeen({ seen, visited }: WalkState, real: string): boolean {
  if (seen?.has(real)) return true;
  if (seen) seen.add(real);
  else visited.push(real);
  return false;
}

function exceedsLimits(state: WalkState, path: string, depth: number): boolean {
  if (state.isFull) return true;
  if (depth > MAX_DEPTH) {
    const message = `is nested deeper than ${MAX_DEPTH} folders; nothing so deep was searched`;
    if (!state.isTooDeep) state.say(joinRoot(state.root, path), { code: "too-deep", message });
    state.isTooDeep = true;
    return true;
  }
  if (++state.folders <= MAX_FOLDERS) return false;
  state.isFull = true;
  state.say(state.root, {
    code: "too-many-skills",
    message: `holds more than ${MAX_FOLDERS} folders; the rest was not searched`,
  });
  return true;
}

function takeListing(state: WalkState, listing: FolderListing, path: string, real: string, depth: number): void {
  for (const name of listing.files) {
    if (MISNAMED_SKILL_FILE.test(name) && (depth > 0 || !detectFlatForm(name))) {
      if (!isMeantAsSkill(state, real, name)) continue;
      const message = `is not called SKILL.md, so the folder is no skill`;
      state.say(joinRoot(state.root, joinRelative(path, name)), { code: "file-name", message });
    } else takeFlatFile(state, joinRelative(path, name), `${real}/${name}`, real);
  }
  if (state.recursive || depth === 0) {
    for (const name of listing.folders) visitFolder(state, joinRelative(path, name), `${real}/${name}`, depth + 1);
  }
  for (const name of listing.links)
    state.links.push({ path: joinRelative(path, name), folder: real, depth: depth + 1 });
}

/** Contract: `folder` is the real path of the folder that the file, or the link to it, is in. */
function takeFlatFile(state: WalkState, path: string, real: string, folder: string): void {
  const form = detectFlatForm(path);
  const name = getLastPart(path);
  const isSkillFile = SKILL_FILE_ANY_CASE.test(name);
  const stem = isSkillFile ? getLastPart(state.real) : name.replace(/\.[^.]*$/, "");
  const needs = form && (isSkillFile ? [] : getRequiredKeys(state, folder, form, stem));
  if (!form || !needs || isAlreadySeen(state, real)) return;
  if (isSkillFile && name !== "SKILL.md" && !isMeantAsSkill(state, folder, name)) return;
  state.take({ file: joinRoot(state.root, path), path, form, stem, findings: [], needs });
}

/** What a flat file must state to be a skill, by the folder it is in. Nothing when no file there is one. */
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

/** Whether a file that is nearly called SKILL.md is one: in a skills folder by its name, elsewhere by its frontmatter. */
function isMeantAsSkill(state: WalkState, folder: string, name: string): boolean {
  return isInSkillsFolder(state, folder) || hasSkillFrontmatter(`${folder}/${name}`);
}

/** Whether a file states a name and a description in its frontmatter, as a page that happens to be called skill.md does not. */
export function hasSkillFrontmatter(file: string): boolean {
  const head = readHeadText(file);
  if (head === undefined) return false;
  const frame = findFrontmatter(head);
  const source = "start" in frame ? frame.text.slice(frame.start, frame.end) : "";
  return /^name[ \t]*:/m.test(source) && /^description[ \t]*:/m.test(source);
}

function readHeadText(file: string): string | undefined {
  const head = withOpenFile(file, (fd, { size }) => readFileBytes(fd, Math.min(HEAD_BYTES, size)).toString("utf8"));
  return typeof head === "string" ? head : undefined;
}

function isInSkillsFolder({ skillsFolders }: WalkState, folder: string): boolean {
  return skillsFolders.some((skills) => isInside(skills, folder));
}

function takeMisnamedFile(state: WalkState, folder: string, path: string, real: string, name: string): boolean {
  if (name === "SKILL.md") {
    // What was a link to nothing when the folder was listed may lead somewhere by now.
    if (takeSkill(state, createFolderCandidate(folder, path, real, name))) return true;
    state.say(`${folder}/${name}`, { code: "link-broken", message: "is a link to nothing" });
    return true;
  }
  if (!isMeantAsSkill(state, real, name)) return false;
  const finding: Finding = { code: "file-case", message: `is called "${name}", not SKILL.md` };
  return takeSkill(state, { ...createFolderCandidate(folder, path, real, name), findings: [finding] });
}

/** Takes a skill, and notes those inside its folder. */
function takeSkill(state: WalkState, candidate: SkillCandidate): boolean {
  if (!state.take(candidate)) return false;
  if (state.recursive) state.nested.push(...listNestedCandidates(state, candidate));
  return true;
}

/**
 * THE rule for a SKILL.md inside the folder of a skill: it is a skill of its own if it has frontmatter and is not below a folder of
 * samples. Its files stay files of the skill around it. What is no skill is reported.
 */
function listNestedCandidates(
  state: NestedContext,
  { file, path, folder: real = "", seen = {} }: SkillCandidate,
): SkillCandidate[] {
  const folder = file.slice(0, file.lastIndexOf("/"));
  const top = path.slice(0, Math.max(0, path.lastIndexOf("/")));
  const { folders, isCut, hasEvals } = findNestedFolders(folder, { path: top, index: state.index, stats: seen.stats });
  if (hasEvals !== undefined) seen.hasEvals = hasEvals;
  if (isCut) {
    state.say(folder, {
      code: "too-many-skills",
      message: "holds more folders than are searched for skills inside it",
    });
  }
  if (folders.length === 0) return [];
  const around = new Map([["", file]]);
  const nested: SkillCandidate[] = [];
  for (const inside of folders) {
    const [place, realPlace] = [`${folder}/${inside}`, `${real}/${inside}`];
    const outer = findOuterFolder(inside, around);
    const samples = findSampleFolder(inside);
    const why =
      samples === undefined
        ? findMissingFrontmatter(`${place}/SKILL.md`)
        : `is below "${samples}" in the folder of the skill "${getLastPart(folder)}"`;
    if (why !== undefined) {
      state.say(`${place}/SKILL.md`, { code: "nested-skipped", message: `${why}, so it is not loaded` });
      continue;
    }
    if (state.isLeftOut?.(realPlace)) continue;
    const parent = around.get(outer) ?? file;
    nested.push({ ...createFolderCandidate(place, joinRelative(top, inside), realPlace, "SKILL.md"), parent });
    around.set(inside, `${place}/SKILL.md`);
  }
  return nested;
}

/** What is reported of a skill inside another one. Not kept with what was read of its file: the other one may go without it. */
export function createNestedFindings({ parent }: SkillCandidate): Finding[] {
  if (parent === undefined) return [];
  const [, folder = ""] = parent.split("/").reverse();
  return [{ code: "nested-skill", message: `is inside the folder of the skill "${folder}"` }];
}

/** Takes the skills inside the folder of a skill that was found otherwise. */
export function findNestedCandidates(skill: SkillCandidate, request: Pick<FindSkillsOptions, "take" | "say">): void {
  for (const candidate of listNestedCandidates(request, skill)) request.take(candidate);
}

type NestedContext = Pick<FindSkillsOptions, "say" | "index" | "isLeftOut">;

/** The nearest folder around a folder that is a skill's. */
function findOuterFolder(inside: string, skills: ReadonlyMap<string, string>): string {
  let outer = inside;
  do outer = outer.slice(0, Math.max(0, outer.lastIndexOf("/")));
  while (!skills.has(outer));
  return outer;
}

/** Why a file is no skill of its own, if it has no frontmatter. One that cannot be read is reported when it is. */
function findMissingFrontmatter(file: string): string | undefined {
  const head = readHeadText(file);
  return head === undefined || "start" in findFrontmatter(head) ? undefined : "has no frontmatter";
}

function followLink(state: WalkState, link: FolderLink): void {
  const place = joinRoot(state.root, link.path);
  // A link elsewhere in a repository has nothing to do with skills.
  const isOfSkills = getLastPart(link.folder) === "skills" || isInSkillsFolder(state, link.folder);
  const say = (finding: Finding) => isOfSkills && state.say(place, finding);
  let stats: Stats | undefined;
  let real: string;
  try {
    stats = statSync(place);
    real = realpathSync.native(place);
  } catch (error) {
    const isBroken = getErrnoCode(error) === "ENOENT";
    say(isBroken ? { code: "link-broken", message: "is a link to nothing" } : createOpenFinding(error));
    return;
  }
  if (!stats.isDirectory()) {
    if (stats.isFile()) takeFlatFile(state, link.path, real, link.folder);
    else if (detectFlatForm(link.path)) say({ code: "not-a-file", message: "is not a regular file" });
    return;
  }
  if (isInside(real, state.real)) {
    if (real !== state.real) say({ code: "link-loop", message: "is a link to a folder above it; it was not followed" });
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
    state.say(folder, createOpenFinding(error));
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
/** Files that are usually documents, also in a skills folder. */
const USUAL_DOCUMENT_NAMES = new Set([
  ...["readme", "changelog", "license", "licence", "contributing", "code_of_conduct", "security", "agents", "claude"],
  ...["gemini", "index", "todo", "notes", "pnpm-lock"],
]);

/** What only the root of a repository has. */
const REPOSITORY_MARKS = [
  ...[".git", ".github", ".gitlab", ".claude-plugin", ".plugin", "plugin.json", "skills"],
  ...["package.json", "pyproject.toml", "Cargo.toml", "go.mod"],
];

/** Whether a folder that nobody configured is one for skills: it is named `skills` and is not a repository of that name. */
export function isSkillsFolder(folder: string): boolean {
  return getLastPart(folder) === "skills" && !REPOSITORY_MARKS.some((mark) => existsSync(`${folder}/${mark}`));
}

/** Whether a file is named as documents are, and so is a skill only if it has a description. Names in capitals are: NOTICES.md. */
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
    seen: {},
    findings: [],
    needs: [],
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
