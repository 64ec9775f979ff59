import { createHash } from "node:crypto";
import { lstatSync } from "node:fs";
import { basename, dirname, join, posix, relative, resolve, sep } from "node:path";
import { type Installs, openInstalls } from "../host/installs.ts";
import { LOCAL_SOURCE, type LockedFiles } from "../host/lock/format.ts";
import { readLock } from "../host/lock/locks.ts";
import { openOriginals } from "../host/lock/originals.ts";
import { type Git, openGit } from "../sandbox/git.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { isInside, realPlace } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { byText } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { clientFolder } from "../source/client-folders.ts";
import type { Surroundings } from "../source/locations.ts";
import { parseAddress, sayAddress } from "./address.ts";
import { judgedRef } from "./address-parts.ts";
import type { Address } from "./contract.ts";
import { gitEntries, gitTree } from "./git-tree.ts";
import { lockedFilesOf, type Tree } from "./read-tree.ts";
import type { Provenance } from "./update.ts";

/** The files of a skill as they came from its source. */
export interface OriginalFiles {
  files: LockedFiles;
  tree: Tree;
}

/** Where a skill on the disk came from. */
export interface FoundOrigin {
  provenance: Provenance;
  /** The record that names it, for people. */
  foundIn: string;
  /** Its files as they came. `as-here`: as they are now. Nothing when that is not known. */
  base?: OriginalFiles | "as-here";
}

/** A skill on the disk whose origin is looked for. */
export interface OriginSubject {
  name: string;
  /** The real folder. */
  folder: string;
  /** Whether it is a skill of the user's, and not of a workspace. */
  isUsers: boolean;
  tree: Tree;
}

type OriginFinder = (
  subject: OriginSubject,
  around: Surroundings,
) => FoundOrigin | undefined | Promise<FoundOrigin | undefined>;

/** Where origins are recorded, the most specific first: a record of one skill before the repository that it is in. */
const FINDERS: readonly OriginFinder[] = [inSkillsLock, inPlugins, inInstallRecord, inRepository];

/** Finds where a skill came from. Nothing is fetched. Returns undefined if no record names it. */
export async function findOrigin(subject: OriginSubject, around: Surroundings): Promise<FoundOrigin | undefined> {
  for (const find of FINDERS) {
    const found = await find(subject, around);
    if (found) return found;
  }
  return undefined;
}

/** The provenance of a skill whose origin is not known. */
export const NO_PROVENANCE: Provenance = { source: LOCAL_SOURCE };

// The lock files of `npx skills`: `skills-lock.json` in a project, `.skill-lock.json` for the user.

const PROJECT_LEVELS = 4;

function inSkillsLock(subject: OriginSubject, around: Surroundings): FoundOrigin | undefined {
  const state = around.env["XDG_STATE_HOME"];
  const users = state ? join(state, "skills", ".skill-lock.json") : join(around.home, ".agents", ".skill-lock.json");
  const files = [...projectLocks(subject.folder), ...(subject.isUsers ? [users] : [])];
  for (const file of files) {
    const skills = readData(file)?.["skills"];
    const entry = isData(skills) ? (skills[subject.name] ?? skills[basename(subject.folder)]) : undefined;
    const provenance = isData(entry) ? provenanceInLock(entry, subject, around) : undefined;
    if (!provenance || !isData(entry)) continue;
    const hash = textIn(entry, "skillFolderHash") ?? textIn(entry, "computedHash");
    const isUnchanged = hash !== undefined && (hash === lockHash(subject.tree) || hash === gitTreeHash(subject.tree));
    return { provenance, foundIn: basename(file), ...(isUnchanged ? { base: "as-here" } : {}) };
  }
  return undefined;
}

function projectLocks(folder: string): string[] {
  const locks: string[] = [];
  for (let above = dirname(folder), level = 0; level < PROJECT_LEVELS && above !== dirname(above); level++) {
    locks.push(join(above, "skills-lock.json"));
    above = dirname(above);
  }
  return locks;
}

type Entry = Readonly<Record<string, unknown>>;

function provenanceInLock(entry: Entry, { name }: OriginSubject, around: Surroundings): Provenance | undefined {
  const [source = "", url = source, type] = [
    textIn(entry, "source"),
    textIn(entry, "sourceUrl"),
    textIn(entry, "sourceType"),
  ];
  if (type === "node_modules") return undefined;
  const ref = textIn(entry, "ref");
  if (type === "well-known") {
    const site = URL.canParse(url) ? `${new URL(url).origin}/` : undefined;
    return site === undefined ? undefined : provenanceFrom(site, { path: name }, around);
  }
  const path = posix.dirname(textIn(entry, "skillPath") ?? "SKILL.md");
  const text = type === "github" && /^[\w.-]+\/[\w.-]+$/.test(source) ? `https://github.com/${source}` : url;
  return provenanceFrom(text, { path, ref }, around);
}

/** The hash that `npx skills` records: SHA-256 over paths and bytes. */
function lockHash(tree: Tree): string {
  const hash = createHash("sha256");
  for (const [path, { bytes }] of [...tree].sort(([a], [b]) => a.localeCompare(b))) {
    if (path.split("/").includes("node_modules")) continue;
    hash.update(path);
    hash.update(bytes);
  }
  return hash.digest("hex");
}

/** The id that git gives a folder with these files. `npx skills` records it for repositories on GitHub. */
function gitTreeHash(tree: Tree): string {
  const folders = new Map<string, Map<string, Tree extends ReadonlyMap<string, infer F> ? F : never>>();
  const rows: { name: string; mode: string; id: string; order: string }[] = [];
  for (const [path, file] of tree) {
    const slash = path.indexOf("/");
    if (slash === -1) {
      const id = gitId("blob", file.bytes);
      rows.push({ name: path, mode: file.executable ? "100755" : "100644", id, order: path });
      continue;
    }
    const name = path.slice(0, slash);
    const inside = folders.get(name) ?? new Map();
    folders.set(name, inside.set(path.slice(slash + 1), file));
  }
  for (const [name, inside] of folders) rows.push({ name, mode: "40000", id: gitTreeHash(inside), order: `${name}/` });
  rows.sort((a, b) => Buffer.compare(Buffer.from(a.order), Buffer.from(b.order)));
  const parts = rows.flatMap(({ name, mode, id }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")]);
  return gitId("tree", Buffer.concat(parts));
}

function gitId(kind: "blob" | "tree", bytes: Uint8Array): string {
  return createHash("sha1").update(`${kind} ${bytes.length}\0`).update(bytes).digest("hex");
}

// Plugins of Claude Code: `installed_plugins.json`, the marketplace that each is from, and its own manifest.

function inPlugins({ folder }: OriginSubject, around: Surroundings): FoundOrigin | undefined {
  const plugins = join(clientFolder("claude", "user", around), "plugins");
  const installed = readData(join(plugins, "installed_plugins.json"))?.["plugins"];
  if (!isData(installed)) return undefined;
  for (const [key, value] of Object.entries(installed)) {
    for (const entry of [value].flat().filter(isData)) {
      const root = realPlace(textIn(entry, "installPath") ?? "/");
      if (root === "/" || !isInside(root, folder)) continue;
      const inside = relative(root, folder).split(sep).join("/");
      const commit = textIn(entry, "gitCommitSha");
      const provenance =
        inMarketplace(key, { plugins, inside, commit, around }) ?? inManifest(root, inside, around) ?? undefined;
      if (provenance) return { provenance, foundIn: `the plugin ${key}` };
    }
  }
  return undefined;
}

interface PluginPart {
  plugins: string;
  /** The skill's folder in the plugin. */
  inside: string;
  commit: string | undefined;
  around: Surroundings;
}

function inMarketplace(key: string, part: PluginPart): Provenance | undefined {
  const { plugins, inside, around } = part;
  const at = key.lastIndexOf("@");
  const known = readData(join(plugins, "known_marketplaces.json"))?.[key.slice(at + 1)];
  if (at === -1 || !isData(known)) return undefined;
  const folder = textIn(known, "installLocation") ?? join(plugins, "marketplaces", key.slice(at + 1));
  const listed = readData(join(folder, ".claude-plugin", "marketplace.json"))?.["plugins"];
  const plugin = Array.isArray(listed)
    ? listed.filter(isData).find((one) => one["name"] === key.slice(0, at))
    : undefined;
  const source = plugin?.["source"];
  const commit = /^[0-9a-f]{40}$/.test(part.commit ?? "") ? part.commit : undefined;
  if (isData(source)) {
    const path = posix.join(textIn(source, "path") ?? "", inside);
    return provenanceFrom(repositoryIn(source), { path, ref: textIn(source, "ref"), commit }, around);
  }
  const of = known["source"];
  const path = posix.join(typeof source === "string" ? source : "", inside);
  return isData(of) ? provenanceFrom(repositoryIn(of), { path, ref: textIn(of, "ref"), commit }, around) : undefined;
}

function repositoryIn(source: Entry): string | undefined {
  const repo = textIn(source, "repo");
  return repo === undefined ? (textIn(source, "url") ?? textIn(source, "path")) : `https://github.com/${repo}`;
}

function inManifest(root: string, inside: string, around: Surroundings): Provenance | undefined {
  const manifest = readData(join(root, ".claude-plugin", "plugin.json"));
  const named = manifest?.["repository"];
  const text = isData(named) ? textIn(named, "url") : named;
  return typeof text === "string" ? provenanceFrom(text.replace(/^git\+/, ""), { path: inside }, around) : undefined;
}

// skillet's own record of copies in clients' folders.

function inInstallRecord({ folder }: OriginSubject, { skilletHome }: Surroundings): FoundOrigin | undefined {
  const { original } = openInstalls(skilletHome).entries()[folder] ?? {};
  if (original === undefined) return undefined;
  const copied = dirname(original);
  const lock = readLock(dirname(copied));
  const entry = lock instanceof SkillError ? undefined : lock?.[basename(copied)];
  if (!entry || entry.source === LOCAL_SOURCE) return undefined;
  const { source, path, ref, commit } = entry;
  const { files } = entry.upstream ?? entry;
  const tree = openOriginals(skilletHome).read(files);
  const provenance = { source, ...defined({ path, ref, commit }) };
  return { provenance, foundIn: "skillet's record of copies", ...(tree ? { base: { files, tree } } : {}) };
}

/** Returns the original of a copy that `skillet export` made and that is still there: such a copy is managed already. */
export function exportedOriginal(installs: Installs, folder: string): string | undefined {
  const { original } = installs.entries()[folder] ?? {};
  return original !== undefined && lstatSync(original, { throwIfNoEntry: false }) ? original : undefined;
}

// The git work tree that the skill's folder is in.

async function inRepository({ folder }: OriginSubject, around: Surroundings): Promise<FoundOrigin | undefined> {
  const found = repositoryOf(folder);
  if (!found) return undefined;
  try {
    const git = await openGit({ env: around.env, repository: found.repository, protocol: "file" });
    const commit = await lineOf(git, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    const { url, ref } = await remoteOf(git);
    if (commit === undefined || url === undefined) return undefined;
    const path = relative(found.root, folder).split(sep).join("/");
    const tree = await committedFiles(git, commit, path);
    if (!tree?.has("SKILL.md")) return undefined; // Not part of the repository, only next to its files.
    const provenance = provenanceFrom(url, { path, ref, commit }, around);
    if (!provenance) return undefined;
    return { provenance, foundIn: "its git repository", base: { files: lockedFilesOf(tree), tree } };
  } catch (error) {
    if (error instanceof SkillError) return undefined; // No git, or a broken repository: nothing is known then.
    throw error;
  }
}

/** The work tree and the repository that a folder is in. One of another user is not asked. */
function repositoryOf(folder: string): { root: string; repository: string } | undefined {
  for (let root = folder; ; root = dirname(root)) {
    const stats = lstatSync(join(root, ".git"), { throwIfNoEntry: false });
    if (stats && (stats.uid === process.getuid?.() || process.getuid === undefined)) {
      if (stats.isDirectory()) return { root, repository: join(root, ".git") };
      const [, named] = stats.isFile() ? (/^gitdir: (.+?)\s*$/.exec(readText(join(root, ".git")) ?? "") ?? []) : [];
      return named === undefined ? undefined : { root, repository: resolve(root, named) };
    }
    if (stats || root === dirname(root)) return undefined;
  }
}

/** The remote that the branch follows, else `origin`; its branch, where that is not the default one. */
async function remoteOf(git: Git): Promise<{ url?: string; ref?: string }> {
  const branch = await lineOf(git, ["symbolic-ref", "--quiet", "--short", "HEAD"]);
  const config = (key: string) => lineOf(git, ["config", "--get", key]);
  const remote = (branch && (await config(`branch.${branch}.remote`))) ?? "origin";
  const url = await config(`remote.${remote}.url`);
  const merge = branch && (await config(`branch.${branch}.merge`))?.replace(/^refs\/heads\//, "");
  const main = await lineOf(git, ["symbolic-ref", "--quiet", "--short", `refs/remotes/${remote}/HEAD`]);
  return defined({ url, ref: merge && `${remote}/${merge}` !== main ? merge : undefined });
}

async function lineOf(git: Git, args: readonly string[]): Promise<string | undefined> {
  const { code, stdout } = await git.run(args);
  const line = stdout.toString().trim();
  return code === 0 && line !== "" && !line.includes("\n") ? line : undefined;
}

async function committedFiles(git: Git, commit: string, path: string): Promise<Tree | undefined> {
  const rows = await gitTree(git, commit, path === "" ? undefined : path);
  if (!rows) return undefined;
  const tree = new Map<string, { bytes: Uint8Array; executable: boolean }>();
  for await (const entry of gitEntries(git, rows)) {
    if (entry.kind === "file")
      tree.set(entry.path, { bytes: new Uint8Array(entry.read()), executable: (entry.mode & 0o111) !== 0 });
  }
  return new Map([...tree].sort(([a], [b]) => byText(a, b)));
}

// What all of them share.

interface PlaceInSource {
  path?: string | undefined;
  ref?: string | undefined;
  commit?: string | undefined;
}

/** Reads an address that another program recorded. Nothing for one that cannot be fetched from. A password in it is never kept. */
function provenanceFrom(text: string | undefined, place: PlaceInSource, around: Surroundings): Provenance | undefined {
  if (text === undefined || text === "") return undefined;
  try {
    const parsed = parseAddress(repositoryText(withoutSecret(text)), { cwd: around.workspace, home: around.home });
    const { inside: _inside, ref: named, namesake: _namesake, ...plain } = parsed as Extract<Address, { kind: "git" }>;
    const path = posix.relative("/", posix.join("/", place.path ?? "")); // Never above the source.
    const source = sayAddress(plain as Address);
    const isGit = parsed.kind === "git";
    const ref = place.ref === undefined ? named : judgedRef(place.ref);
    return {
      source,
      ...defined({
        path: path === "" ? undefined : path,
        ref: isGit ? ref : undefined,
        commit: isGit ? place.commit : undefined,
      }),
    };
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** Git takes a path for the address of a repository, `skillet add` for a folder. */
function repositoryText(text: string): string {
  const isRepository =
    text.startsWith("/") &&
    (text.endsWith(".git") || lstatSync(join(text, ".git"), QUIET) || lstatSync(join(text, "HEAD"), QUIET));
  return isRepository ? `file://${encodeURI(text)}` : text;
}

const QUIET = { throwIfNoEntry: false } as const;

function withoutSecret(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return text;
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}

function readData(file: string): Entry | undefined {
  try {
    const value: unknown = JSON.parse(readText(file) ?? "");
    return isData(value) ? value : undefined;
  } catch {
    return undefined; // The file is missing, or has another format.
  }
}

function readText(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}

function textIn(entry: Entry, key: string): string | undefined {
  const value = entry[key];
  return typeof value === "string" && value !== "" ? value : undefined;
}
