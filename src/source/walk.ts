import { type Dirent, existsSync, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { codeOf, isInside } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import type { Finding } from "../skill/diagnostic.ts";
import { type Form, findFrame } from "../skill/frame.ts";
import { HEAD, openFinding, readBytes, statOf, withFile } from "./file.ts";
import { SKIPPED_FOLDERS } from "./file-list.ts";
import { type FolderSeen, findNestedFolders, sampleFolderIn, UNFINISHED } from "./nested-skills.ts";
import type { Listing, ScanIndex } from "./scan-index.ts";

/** A file that may be a skill. */
export interface Candidate {
  file: string;
  /** `file` relative to the root of the walk. */
  path: string;
  form: Form;
  /** What serves as the name when the file states none. */
  stem: string;
  /** The real path of the skill's folder, for the folder form. */
  folder?: string;
  /** What was seen of that folder: whoever looks at it keeps it here, so that nothing is looked at twice. */
  seen?: FolderSeen;
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

export interface Walk {
  root: string;
  recursive: boolean;
  /** Folders whose Markdown and YAML files are skills. Elsewhere such files count only in a folder named `skills`, if they say that they are one. */
  skillsFolders: readonly string[];
  index?: ScanIndex | undefined;
  /** Whether a folder below the root, by its real path, is left out with all that is in it. */
  isLeftOut?: ((folder: string) => boolean) | undefined;
  /** Takes a candidate. Contract: false when there is no such file. */
  take(candidate: Candidate): boolean;
  /** Something to say about a file or folder that is no candidate. */
  say(path: string, finding: Finding): void;
}

/** Finds everything below a folder that may be a skill, each real place once, in the same order everywhere. */
export function walk(request: Walk): void {
  let real: string;
  try {
    real = realpathSync.native(request.root);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") request.say(request.root, openFinding(error));
    return;
  }
  const state: State = {
    ...request,
    real,
    skillsFolders: request.skillsFolders.flatMap((folder) => realPath(folder) ?? []),
    visited: [],
    links: [],
    nested: [],
    seen: undefined,
    folders: 0,
    isFull: false,
    isTooDeep: false,
  };
  visit(state, "", real, 0);
  // Links come last, so that a folder is known by its own path rather than by a link to it. Only they can lead to a place twice.
  if (state.links.length > 0) state.seen = new Set(state.visited);
  for (let link = state.links.shift(); link; link = state.links.shift()) follow(state, link);
  // And skills inside others after that: one that a link leads to was put there by whoever made the link.
  for (const candidate of state.nested) if (!isSeen(state, candidate.folder ?? "")) state.take(candidate);
}

const DEEPEST = 12;
const DEEPEST_BELOW_LINK = 3;
const MOST_FOLDERS = 50_000;

interface State extends Walk {
  real: string;
  /** The real paths of folders and flat files, in the order in which they were met. */
  visited: string[];
  /** The same for looking up, once links are followed. */
  seen: Set<string> | undefined;
  links: Link[];
  /** Skills inside the folders of others. */
  nested: Candidate[];
  folders: number;
  isFull: boolean;
  isTooDeep: boolean;
}

interface Link {
  path: string;
  /** The real path of the folder that the link is in. */
  folder: string;
  depth: number;
}

function visit(state: State, path: string, real: string, depth: number): void {
  if (isSeen(state, real) || (depth > 0 && state.isLeftOut?.(real)) || isTooMuch(state, path, depth)) return;
  const folder = path === "" ? state.root : `${state.root}/${path}`;
  const known = state.index?.isKnownFolder(path) ? unchangedListing(state, path, folder) : undefined;
  if (!known && depth > 0 && takeSkill(state, skillIn(folder, path, real, "SKILL.md"))) return;
  const listing = known ?? list(state, path, folder);
  if (!listing) return;
  const oddlyNamed = listing.files.find((name) => SKILL_FILE_ANY_CASE.test(name));
  if (depth > 0 && oddlyNamed !== undefined && takeOddlyNamed(state, folder, path, real, oddlyNamed)) return;
  takeListing(state, listing, path, real, depth);
}

/** Whether this place was met before; from now on it was. */
function isSeen({ seen, visited }: State, real: string): boolean {
  if (seen?.has(real)) return true;
  if (seen) seen.add(real);
  else visited.push(real);
  return false;
}

function isTooMuch(state: State, path: string, depth: number): boolean {
  if (state.isFull) return true;
  if (depth > DEEPEST) {
    const message = `is nested deeper than ${DEEPEST} folders; nothing so deep was searched`;
    if (!state.isTooDeep) state.say(join(state.root, path), { code: "too-deep", message });
    state.isTooDeep = true;
    return true;
  }
  if (++state.folders <= MOST_FOLDERS) return false;
  state.isFull = true;
  state.say(state.root, {
    code: "too-many-skills",
    message: `holds more than ${MOST_FOLDERS} folders; the rest was not searched`,
  });
  return true;
}

function takeListing(state: State, listing: Listing, path: string, real: string, depth: number): void {
  for (const name of listing.files) {
    if (MISNAMED.test(name) && (depth > 0 || !flatForm(name))) {
      if (!isMeantAsSkill(state, real, name)) continue;
      const message = `is not called SKILL.md, so the folder is no skill`;
      state.say(join(state.root, below(path, name)), { code: "file-name", message });
    } else takeFlat(state, below(path, name), `${real}/${name}`, real);
  }
  if (state.recursive || depth === 0) {
    for (const name of listing.folders) visit(state, below(path, name), `${real}/${name}`, depth + 1);
  }
  for (const name of listing.links) state.links.push({ path: below(path, name), folder: real, depth: depth + 1 });
}

/** Contract: `folder` is the real path of the folder that the file, or the link to it, is in. */
function takeFlat(state: State, path: string, real: string, folder: string): void {
  const form = flatForm(path);
  const name = lastPart(path);
  const isSkillFile = SKILL_FILE_ANY_CASE.test(name);
  const stem = isSkillFile ? lastPart(state.real) : name.replace(/\.[^.]*$/, "");
  const needs = form && (isSkillFile ? [] : neededKeys(state, folder, form, stem));
  if (!form || !needs || isSeen(state, real)) return;
  if (isSkillFile && name !== "SKILL.md" && !isMeantAsSkill(state, folder, name)) return;
  state.take({ file: join(state.root, path), path, form, stem, findings: [], needs });
}

/** What a flat file must state to be a skill, by the folder it is in. Nothing when no file there is one. */
function neededKeys({ skillsFolders }: State, folder: string, form: Form, stem: string): readonly string[] | undefined {
  if (skillsFolders.includes(folder)) return isUsualDocument(stem) ? ["description"] : [];
  if (lastPart(folder) !== "skills") return undefined;
  return form === "yaml" ? ["name", "description", "instructions"] : ["name", "description"];
}

/** Whether a file that is nearly called SKILL.md is one: in a skills folder by its name, elsewhere by its frontmatter. */
function isMeantAsSkill(state: State, folder: string, name: string): boolean {
  return isInSkillsFolder(state, folder) || hasSkillFrontmatter(`${folder}/${name}`);
}

/** Whether a file states a name and a description in its frontmatter, as a page that happens to be called skill.md does not. */
export function hasSkillFrontmatter(file: string): boolean {
  const head = headOf(file);
  if (head === undefined) return false;
  const frame = findFrame(head);
  const source = "start" in frame ? frame.text.slice(frame.start, frame.end) : "";
  return /^name[ \t]*:/m.test(source) && /^description[ \t]*:/m.test(source);
}

function headOf(file: string): string | undefined {
  const head = withFile(file, (fd, { size }) => readBytes(fd, Math.min(HEAD, size)).toString("utf8"));
  return typeof head === "string" ? head : undefined;
}

function isInSkillsFolder({ skillsFolders }: State, folder: string): boolean {
  return skillsFolders.some((skills) => isInside(skills, folder));
}

function takeOddlyNamed(state: State, folder: string, path: string, real: string, name: string): boolean {
  if (name === "SKILL.md") {
    // What was a link to nothing when the folder was listed may lead somewhere by now.
    if (takeSkill(state, skillIn(folder, path, real, name))) return true;
    state.say(`${folder}/${name}`, { code: "link-broken", message: "is a link to nothing" });
    return true;
  }
  if (!isMeantAsSkill(state, real, name)) return false;
  const finding: Finding = { code: "file-case", message: `is called "${name}", not SKILL.md` };
  return takeSkill(state, { ...skillIn(folder, path, real, name), findings: [finding] });
}

/** Takes a skill, and notes those inside its folder. */
function takeSkill(state: State, candidate: Candidate): boolean {
  if (!state.take(candidate)) return false;
  if (state.recursive) state.nested.push(...nestedIn(state, candidate));
  return true;
}

/**
 * THE rule for a SKILL.md inside the folder of a skill: it is a skill of its own if it has frontmatter and is not below a folder of
 * samples. Its files stay files of the skill around it. What is no skill is reported.
 */
function nestedIn(state: Inside, { file, path, folder: real = "", seen = {} }: Candidate): Candidate[] {
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
  const nested: Candidate[] = [];
  for (const inside of folders) {
    const [place, realPlace] = [`${folder}/${inside}`, `${real}/${inside}`];
    const outer = outerFolder(inside, around);
    const samples = sampleFolderIn(inside);
    const why =
      samples === undefined
        ? noFrontmatter(`${place}/SKILL.md`)
        : `is below "${samples}" in the folder of the skill "${lastPart(folder)}"`;
    if (why !== undefined) {
      state.say(`${place}/SKILL.md`, { code: "nested-skipped", message: `${why}, so it is not loaded` });
      continue;
    }
    if (state.isLeftOut?.(realPlace)) continue;
    const parent = around.get(outer) ?? file;
    nested.push({ ...skillIn(place, below(top, inside), realPlace, "SKILL.md"), parent });
    around.set(inside, `${place}/SKILL.md`);
  }
  return nested;
}

/** What is reported of a skill inside another one. Not kept with what was read of its file: the other one may go without it. */
export function nestedFindings({ parent }: Candidate): Finding[] {
  if (parent === undefined) return [];
  const [, folder = ""] = parent.split("/").reverse();
  return [{ code: "nested-skill", message: `is inside the folder of the skill "${folder}"` }];
}

/** Takes the skills inside the folder of a skill that was found otherwise. */
export function walkNested(skill: Candidate, request: Pick<Walk, "take" | "say">): void {
  for (const candidate of nestedIn(request, skill)) request.take(candidate);
}

type Inside = Pick<Walk, "say" | "index" | "isLeftOut">;

/** The nearest folder around a folder that is a skill's. */
function outerFolder(inside: string, skills: ReadonlyMap<string, string>): string {
  let outer = inside;
  do outer = outer.slice(0, Math.max(0, outer.lastIndexOf("/")));
  while (!skills.has(outer));
  return outer;
}

/** Why a file is no skill of its own, if it has no frontmatter. One that cannot be read is reported when it is. */
function noFrontmatter(file: string): string | undefined {
  const head = headOf(file);
  return head === undefined || "start" in findFrame(head) ? undefined : "has no frontmatter";
}

function follow(state: State, link: Link): void {
  const place = join(state.root, link.path);
  // A link elsewhere in a repository has nothing to do with skills.
  const isOfSkills = lastPart(link.folder) === "skills" || isInSkillsFolder(state, link.folder);
  const say = (finding: Finding) => isOfSkills && state.say(place, finding);
  let stats: Stats | undefined;
  let real: string;
  try {
    stats = statSync(place);
    real = realpathSync.native(place);
  } catch (error) {
    const isBroken = codeOf(error) === "ENOENT";
    say(isBroken ? { code: "link-broken", message: "is a link to nothing" } : openFinding(error));
    return;
  }
  if (!stats.isDirectory()) {
    if (stats.isFile()) takeFlat(state, link.path, real, link.folder);
    else if (flatForm(link.path)) say({ code: "not-a-file", message: "is not a regular file" });
    return;
  }
  if (isInside(real, state.real)) {
    if (real !== state.real) say({ code: "link-loop", message: "is a link to a folder above it; it was not followed" });
    return;
  }
  visit(state, link.path, real, Math.max(link.depth, DEEPEST - DEEPEST_BELOW_LINK));
}

function unchangedListing(state: State, path: string, folder: string): Listing | undefined {
  const stats = statOf(folder);
  return stats && state.index?.folder(path, stats);
}

function list(state: State, path: string, folder: string): Listing | undefined {
  try {
    const stats = state.index && statSync(folder);
    const listing = sortOut(readdirSync(folder, { withFileTypes: true }));
    if (stats) state.index?.addFolder(path, stats, listing);
    return listing;
  } catch (error) {
    state.say(folder, openFinding(error));
    return undefined;
  }
}

function sortOut(entries: Dirent[]): Listing {
  const listing: Listing = { folders: [], files: [], links: [] };
  for (const entry of entries) {
    const { name } = entry;
    if (entry.isDirectory()) {
      if (!SKIPPED_FOLDERS.has(name) && !UNFINISHED.test(name)) listing.folders.push(name);
    } else if (SKILL_FILE_ANY_CASE.test(name)) listing.files.push(name);
    else if (entry.isSymbolicLink()) listing.links.push(name);
    else if (flatForm(name) || MISNAMED.test(name)) listing.files.push(name);
  }
  for (const names of Object.values(listing)) names.sort(byText);
  return listing;
}

const SKILL_FILE_ANY_CASE = /^skill\.md$/i;
const MISNAMED = /^skills?(?:\.(?:md\.)?(?:txt|md|mdx|markdown))?$/i;
/** Files that are usually documents, also in a skills folder. */
const USUAL_DOCUMENTS = new Set([
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
  return lastPart(folder) === "skills" && !REPOSITORY_MARKS.some((mark) => existsSync(`${folder}/${mark}`));
}

/** Whether a file is named as documents are, and so is a skill only if it has a description. Names in capitals are: NOTICES.md. */
export function isUsualDocument(stem: string): boolean {
  return USUAL_DOCUMENTS.has(stem.toLowerCase()) || /^[A-Z][A-Z0-9_-]+$/.test(stem);
}

export function flatForm(path: string): Form | undefined {
  if (/\.md$/i.test(path)) return "markdown";
  return /\.ya?ml$/i.test(path) ? "yaml" : undefined;
}

function skillIn(folder: string, path: string, real: string, name: string): Candidate {
  return {
    file: `${folder}/${name}`,
    path: below(path, name),
    form: "folder",
    stem: lastPart(folder),
    folder: real,
    seen: {},
    findings: [],
    needs: [],
  };
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function below(path: string, name: string): string {
  return path === "" ? name : `${path}/${name}`;
}

function join(root: string, path: string): string {
  return path === "" ? root : `${root}/${path}`;
}
