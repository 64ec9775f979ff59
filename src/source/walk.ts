import { type Dirent, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { codeOf, isInside } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import type { Finding } from "../skill/diagnostic.ts";
import type { Form } from "../skill/frame.ts";
import { openFinding, statOf } from "./file.ts";
import { SKIPPED_FOLDERS } from "./file-list.ts";
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
  /** What the walk itself has to say about the file. */
  findings: readonly Finding[];
  /** True where Markdown and YAML files are usually something else: then only what looks like a skill is one. */
  isDoubtful: boolean;
}

export interface Walk {
  root: string;
  recursive: boolean;
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
    visited: [],
    links: [],
    seen: undefined,
    folders: 0,
    isFull: false,
    isTooDeep: false,
  };
  visit(state, "", real, 0);
  // Links come last, so that a folder is known by its own path rather than by a link to it. Only they can lead to a place twice.
  if (state.links.length > 0) state.seen = new Set(state.visited);
  for (let link = state.links.shift(); link; link = state.links.shift()) follow(state, link);
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
  links: { path: string; depth: number }[];
  folders: number;
  isFull: boolean;
  isTooDeep: boolean;
}

function visit(state: State, path: string, real: string, depth: number): void {
  if (isSeen(state, real) || (depth > 0 && state.isLeftOut?.(real)) || isTooMuch(state, path, depth)) return;
  const folder = path === "" ? state.root : `${state.root}/${path}`;
  const known = state.index?.isKnownFolder(path) ? unchangedListing(state, path, folder) : undefined;
  if (!known && depth > 0 && state.take(skillIn(folder, path, real, "SKILL.md"))) return;
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
      const message = `is not called SKILL.md, so the folder is no skill`;
      state.say(join(state.root, below(path, name)), { code: "file-name", message });
    } else takeFlat(state, below(path, name), `${real}/${name}`, depth);
  }
  if (state.recursive || depth === 0) {
    for (const name of listing.folders) visit(state, below(path, name), `${real}/${name}`, depth + 1);
  }
  for (const name of listing.links) state.links.push({ path: below(path, name), depth: depth + 1 });
}

function takeFlat(state: State, path: string, real: string, depth: number): void {
  const form = flatForm(path);
  if (!form || isSeen(state, real)) return;
  const name = path.slice(path.lastIndexOf("/") + 1);
  const stem = SKILL_FILE_ANY_CASE.test(name) ? lastPart(state.real) : name.replace(/\.[^.]*$/, "");
  const isDoubtful = depth > 0 || isUsualDocument(stem);
  state.take({ file: join(state.root, path), path, form, stem, findings: [], isDoubtful });
}

function takeOddlyNamed(state: State, folder: string, path: string, real: string, name: string): boolean {
  if (name === "SKILL.md") {
    // What was a link to nothing when the folder was listed may lead somewhere by now.
    if (state.take(skillIn(folder, path, real, name))) return true;
    state.say(`${folder}/${name}`, { code: "link-broken", message: "is a link to nothing" });
    return true;
  }
  const finding: Finding = { code: "file-case", message: `is called "${name}", not SKILL.md` };
  return state.take({ ...skillIn(folder, path, real, name), findings: [finding] });
}

function follow(state: State, link: { path: string; depth: number }): void {
  const place = join(state.root, link.path);
  let stats: Stats | undefined;
  let real: string;
  try {
    stats = statSync(place);
    real = realpathSync.native(place);
  } catch (error) {
    const isBroken = codeOf(error) === "ENOENT";
    state.say(place, isBroken ? { code: "link-broken", message: "is a link to nothing" } : openFinding(error));
    return;
  }
  if (!stats.isDirectory()) {
    if (stats.isFile()) takeFlat(state, link.path, real, link.depth - 1);
    else if (flatForm(link.path)) state.say(place, { code: "not-a-file", message: "is not a regular file" });
    return;
  }
  if (isInside(real, state.real)) {
    if (real !== state.real)
      state.say(place, { code: "link-loop", message: "is a link to a folder above it; it was not followed" });
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

/** Where an installation is made ready: what lies there is not there yet, or not any more. Nobody gives a folder of their own such a name. */
export const UNFINISHED = /^\.skillet-[0-9a-f-]{36}(?:\.done)?$/;
const SKILL_FILE_ANY_CASE = /^skill\.md$/i;
const MISNAMED = /^skills?(?:\.(?:md\.)?(?:txt|md|mdx|markdown))?$/i;
/** Files that lie in folders of skills and are none, unless they say so. */
const USUAL_DOCUMENTS = new Set(
  "readme changelog license licence contributing code_of_conduct security agents claude gemini index todo notes".split(
    " ",
  ),
);

export function isUsualDocument(stem: string): boolean {
  return USUAL_DOCUMENTS.has(stem.toLowerCase());
}

export function flatForm(path: string): Form | undefined {
  if (/\.md$/i.test(path)) return "markdown";
  return /\.ya?ml$/i.test(path) ? "yaml" : undefined;
}

function skillIn(folder: string, path: string, real: string, name: string): Candidate {
  return {
    file: `${folder}/${name}`,
    path: `${path}/${name}`,
    form: "folder",
    stem: lastPart(folder),
    folder: real,
    findings: [],
    isDoubtful: false,
  };
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
