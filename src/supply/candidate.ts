import { basename, join, posix, relative, sep } from "node:path";
import type { LockedFiles } from "../host/lock/format.ts";
import { treeDigest } from "../host/lock/tree.ts";
import type { ScanFinding } from "../scan/finding.ts";
import { scanSkill } from "../scan/scan.ts";
import { SkillError } from "../shared/error.ts";
import { byText, nearest } from "../shared/text.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import { toSkillMd } from "../skill/render.ts";
import type { Skill } from "../skill/skill.ts";
import type { CopiedFile } from "../source/digest.ts";
import { directorySource } from "../source/directory.ts";
import { readFolderSkill } from "../source/folder-skill.ts";
import type { Fetched } from "./contract.ts";
import { pluginFolders } from "./plugin-folder.ts";
import { lockedFilesOf, readTree, type Tree, writeTree } from "./read-tree.ts";

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
  const { folder } = fetched;
  const own = readFolderSkill(folder, ORIGIN);
  if (own && "skill" in own) {
    const { skill } = own;
    const diagnostics = judged(diagnose(skill.findings.filter(isOfName), join(folder, "SKILL.md")));
    return { candidates: isMisnamed(skill) ? [] : [{ skill, path: "" }], diagnostics, notes: fetched.notes };
  }
  const plugin = pluginFolders(folder);
  const roots = plugin?.folders ?? [folder];
  const loaded = await Promise.all(
    roots.map((path) => directorySource({ path, name: "installed", scope: "installed" }).load()),
  );
  const broken = own ? diagnose(own.findings, join(folder, "SKILL.md")) : [];
  const candidates = loaded
    .flatMap(({ skills }) => skills.filter((skill) => !isMisnamed(skill)))
    .map((skill) => ({ skill, path: pathIn(folder, skill) }))
    .sort((a, b) => byText(a.skill.name, b.skill.name) || byText(a.path, b.path));
  return {
    candidates,
    diagnostics: judged([...broken, ...loaded.flatMap(({ diagnostics }) => diagnostics)]),
    notes: [...fetched.notes, ...(plugin?.notes ?? [])],
  };
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
export function candidateOf(name: string, { candidates, diagnostics }: Offer): Candidate {
  const named = candidates.filter(({ skill, path }) => skill.name === name || path === name);
  const [first] = named;
  if (!first) {
    const names = [...new Set(candidates.map(({ skill }) => skill.name))];
    const broken = diagnostics.find(({ file, severity }) => severity === "error" && file.split(sep).includes(name));
    const meant = nearest(name, names);
    throw new SkillError("not-found", {
      message: broken ? `"${name}" is there, but did not load: ${broken.message}` : `There is no skill "${name}" in it`,
      fix: broken?.fix ?? (meant ? `did you mean ${meant}?` : `there are: ${names.slice(0, 10).join(", ")}`),
    });
  }
  return first;
}

/** Those that can be added together: of several of one name, the first, if they are the same. Throws a SkillError when they are not. */
export function distinct(candidates: readonly Candidate[]): Candidate[] {
  const byName = Map.groupBy(candidates, ({ skill }) => skill.name);
  return [...byName.values()].flatMap(([first, ...others]) => {
    if (!first) return [];
    const digest = others.length > 0 && digestIn(first);
    const other = others.find((candidate) => digestIn(candidate) !== digest);
    if (other) {
      throw new SkillError("name-twice", {
        message: `Two skills of the source are called "${first.skill.name}": ${first.path} and ${other.path}`,
        fix: "name the folder that you mean: //FOLDER behind the source",
      });
    }
    return [first];
  });
}

function digestIn(candidate: Candidate): string {
  return treeDigest(lockedFilesOf(treeOfCandidate(candidate)));
}

/** Looks at a skill: what it holds, and what is to be said of it. Throws a SkillError when it cannot be added. */
export function prepare(candidate: Candidate, fetched: Fetched, folder: string): Prepared {
  const { skill, path } = candidate;
  const { name } = skill;
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
    const file = linkedFile(path, tree, own);
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

const MOST_LINKS = 40;

/** The file that a link leads to, by way of others or not. */
function linkedFile(path: string, tree: Tree, links: ReadonlyMap<string, string>): CopiedFile | undefined {
  let at = path;
  for (let count = 0; count < MOST_LINKS; count++) {
    const target = links.get(at);
    if (target === undefined) return tree.get(at);
    at = posix.isAbsolute(target) ? "" : posix.join(posix.dirname(at), target);
  }
  return undefined;
}
