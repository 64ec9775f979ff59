import { createHash } from "node:crypto";
import { lstatSync } from "node:fs";
import { basename, dirname, join, posix, relative, resolve, sep } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { createGit, type Git } from "../sandbox/git.ts";
import { type Environment, resolveClientFolder } from "../skill/source/locations.ts";
import { type ClientCopyStore, createClientCopyStore } from "../store/copy-records.ts";
import { createBlobCache } from "../store/lock-approval.ts";
import { readLockFile } from "../store/lock-diff.ts";
import { LOCAL_SOURCE, type LockedFiles } from "../store/lock-file.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { isInside, resolveRealPath } from "../util/safe-path.ts";
import { compareText } from "../util/text.ts";
import { type FileTree, toLockedFiles } from "./file-tree.ts";
import { listGitTree, type Provenance, readGitEntries, type SourceAddress } from "./remote-source.ts";
import { formatSourceAddress, parseGitRef, parseSourceAddress } from "./source-address.ts";

/** The files of a skill as they came from its source. */
export interface OriginalFiles {
  files: LockedFiles;
  tree: FileTree;
}

/** The origin of a skill on the disk. */
export interface FoundOrigin {
  provenance: Provenance;
  /** The record that names it, for people. */
  foundIn: string;
  /** Its files as they came. `as-here`: as they are now. Undefined if unknown. */
  base?: OriginalFiles | "as-here";
}

/** A skill on the disk whose origin is searched. */
export interface OriginSubject {
  name: string;
  /** The real folder. */
  folder: string;
  /** True for a skill of the user, false for one of a workspace. */
  isUsers: boolean;
  tree: FileTree;
}

type OriginFinder = (
  subject: OriginSubject,
  environment: Environment,
) => FoundOrigin | undefined | Promise<FoundOrigin | undefined>;

/** Records of origins, the most specific first: a record of one skill before the repository that contains it. */
const ORIGIN_FINDERS: readonly OriginFinder[] = [
  findInSkillsLock,
  findInPlugins,
  findInInstallRecord,
  findInRepository,
];

/** Finds the origin of a skill. Fetches nothing. Returns undefined if no record names it. */
export async function findOrigin(subject: OriginSubject, environment: Environment): Promise<FoundOrigin | undefined> {
  for (const find of ORIGIN_FINDERS) {
    const found = await find(subject, environment);
    if (found) return found;
  }
  return undefined;
}

/** The provenance of a skill whose origin is unknown. */
export const NO_PROVENANCE: Provenance = { source: LOCAL_SOURCE };

// Folder levels to search for the lock files of `npx skills`: `skills-lock.json` in a project, `.skill-lock.json` for
// the user.

const PROJECT_LEVELS = 4;

function findInSkillsLock(subject: OriginSubject, environment: Environment): FoundOrigin | undefined {
  const state = environment.env["XDG_STATE_HOME"];
  const users = state
    ? join(state, "skills", ".skill-lock.json")
    : join(environment.home, ".agents", ".skill-lock.json");
  const files = [...listProjectLocks(subject.folder), ...(subject.isUsers ? [users] : [])];
  for (const file of files) {
    const skills = readJsonRecord(file)?.["skills"];
    const entry = isJsonObject(skills) ? (skills[subject.name] ?? skills[basename(subject.folder)]) : undefined;
    const provenance = isJsonObject(entry) ? readLockProvenance(entry, subject, environment) : undefined;
    if (!provenance || !isJsonObject(entry)) continue;
    const hash = getText(entry, "skillFolderHash") ?? getText(entry, "computedHash");
    const isUnchanged =
      hash !== undefined && (hash === hashForSkillsLock(subject.tree) || hash === hashGitTree(subject.tree));
    return { provenance, foundIn: basename(file), ...(isUnchanged ? { base: "as-here" } : {}) };
  }
  return undefined;
}

function listProjectLocks(folder: string): string[] {
  const locks: string[] = [];
  for (let above = dirname(folder), level = 0; level < PROJECT_LEVELS && above !== dirname(above); level++) {
    locks.push(join(above, "skills-lock.json"));
    above = dirname(above);
  }
  return locks;
}

type JsonRecord = Readonly<Record<string, unknown>>;

function readLockProvenance(
  entry: JsonRecord,
  { name }: OriginSubject,
  environment: Environment,
): Provenance | undefined {
  const [source = "", url = source, type] = [
    getText(entry, "source"),
    getText(entry, "sourceUrl"),
    getText(entry, "sourceType"),
  ];
  if (type === "node_modules") return undefined;
  const ref = getText(entry, "ref");
  if (type === "well-known") {
    const site = URL.canParse(url) ? `${new URL(url).origin}/` : undefined;
    return site === undefined ? undefined : parseProvenance(site, { path: name }, environment);
  }
  const path = posix.dirname(getText(entry, "skillPath") ?? "SKILL.md");
  const text = type === "github" && /^[\w.-]+\/[\w.-]+$/.test(source) ? `https://github.com/${source}` : url;
  return parseProvenance(text, { path, ref }, environment);
}

/** Computes the hash that `npx skills` records: SHA-256 over paths and bytes. */
function hashForSkillsLock(tree: FileTree): string {
  const hash = createHash("sha256");
  for (const [path, { bytes }] of [...tree].sort(([a], [b]) => a.localeCompare(b))) {
    if (path.split("/").includes("node_modules")) continue;
    hash.update(path);
    hash.update(bytes);
  }
  return hash.digest("hex");
}

/** Computes git's ID of a folder with these files. `npx skills` records it for repositories on GitHub. */
function hashGitTree(tree: FileTree): string {
  const folders = new Map<string, Map<string, FileTree extends ReadonlyMap<string, infer F> ? F : never>>();
  const rows: { name: string; mode: string; id: string; order: string }[] = [];
  for (const [path, file] of tree) {
    const slash = path.indexOf("/");
    if (slash === -1) {
      const id = hashGitObject("blob", file.bytes);
      rows.push({ name: path, mode: file.executable ? "100755" : "100644", id, order: path });
      continue;
    }
    const name = path.slice(0, slash);
    const inside = folders.get(name) ?? new Map();
    folders.set(name, inside.set(path.slice(slash + 1), file));
  }
  for (const [name, inside] of folders) rows.push({ name, mode: "40000", id: hashGitTree(inside), order: `${name}/` });
  rows.sort((a, b) => Buffer.compare(Buffer.from(a.order), Buffer.from(b.order)));
  const parts = rows.flatMap(({ name, mode, id }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")]);
  return hashGitObject("tree", Buffer.concat(parts));
}

function hashGitObject(kind: "blob" | "tree", bytes: Uint8Array): string {
  return createHash("sha1").update(`${kind} ${bytes.length}\0`).update(bytes).digest("hex");
}

// Finds the origin in plugins of Claude Code: `installed_plugins.json`, the marketplace of each, and its own manifest.

function findInPlugins({ folder }: OriginSubject, environment: Environment): FoundOrigin | undefined {
  const plugins = join(resolveClientFolder("claude", "user", environment), "plugins");
  const installed = readJsonRecord(join(plugins, "installed_plugins.json"))?.["plugins"];
  if (!isJsonObject(installed)) return undefined;
  for (const [key, value] of Object.entries(installed)) {
    for (const entry of [value].flat().filter(isJsonObject)) {
      const root = resolveRealPath(getText(entry, "installPath") ?? "/");
      if (root === "/" || !isInside(root, folder)) continue;
      const inside = relative(root, folder).split(sep).join("/");
      const commit = getText(entry, "gitCommitSha");
      const provenance =
        readMarketplaceProvenance(key, { plugins, inside, commit, environment }) ??
        readManifestProvenance(root, inside, environment) ??
        undefined;
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
  environment: Environment;
}

function readMarketplaceProvenance(key: string, part: PluginPart): Provenance | undefined {
  const { plugins, inside, environment } = part;
  const at = key.lastIndexOf("@");
  const known = readJsonRecord(join(plugins, "known_marketplaces.json"))?.[key.slice(at + 1)];
  if (at === -1 || !isJsonObject(known)) return undefined;
  const folder = getText(known, "installLocation") ?? join(plugins, "marketplaces", key.slice(at + 1));
  const listed = readJsonRecord(join(folder, ".claude-plugin", "marketplace.json"))?.["plugins"];
  const plugin = Array.isArray(listed)
    ? listed.filter(isJsonObject).find((one) => one["name"] === key.slice(0, at))
    : undefined;
  const source = plugin?.["source"];
  const commit = /^[0-9a-f]{40}$/.test(part.commit ?? "") ? part.commit : undefined;
  if (isJsonObject(source)) {
    const path = posix.join(getText(source, "path") ?? "", inside);
    return parseProvenance(readRepositoryField(source), { path, ref: getText(source, "ref"), commit }, environment);
  }
  const of = known["source"];
  const path = posix.join(typeof source === "string" ? source : "", inside);
  return isJsonObject(of)
    ? parseProvenance(readRepositoryField(of), { path, ref: getText(of, "ref"), commit }, environment)
    : undefined;
}

function readRepositoryField(source: JsonRecord): string | undefined {
  const repo = getText(source, "repo");
  return repo === undefined ? (getText(source, "url") ?? getText(source, "path")) : `https://github.com/${repo}`;
}

function readManifestProvenance(root: string, inside: string, environment: Environment): Provenance | undefined {
  const manifest = readJsonRecord(join(root, ".claude-plugin", "plugin.json"));
  const named = manifest?.["repository"];
  const text = isJsonObject(named) ? getText(named, "url") : named;
  return typeof text === "string"
    ? parseProvenance(text.replace(/^git\+/, ""), { path: inside }, environment)
    : undefined;
}

// Finds the origin in skillet's own record of copies in clients' folders.

function findInInstallRecord({ folder }: OriginSubject, { skilletHome }: Environment): FoundOrigin | undefined {
  const { original } = createClientCopyStore(skilletHome).entries()[folder] ?? {};
  if (original === undefined) return undefined;
  const copied = dirname(original);
  const lock = readLockFile(dirname(copied));
  const entry = lock instanceof SkillError ? undefined : lock?.[basename(copied)];
  if (!entry || entry.source === LOCAL_SOURCE) return undefined;
  const { source, path, ref, commit } = entry;
  const { files } = entry.upstream ?? entry;
  const tree = createBlobCache(skilletHome).read(files);
  const provenance = { source, ...omitUndefined({ path, ref, commit }) };
  return { provenance, foundIn: "skillet's record of copies", ...(tree ? { base: { files, tree } } : {}) };
}

/** Returns the original of a copy that `skillet export` made, if it still exists: such a copy is already managed. */
export function findExportedOriginal(installs: ClientCopyStore, folder: string): string | undefined {
  const { original } = installs.entries()[folder] ?? {};
  return original !== undefined && lstatSync(original, { throwIfNoEntry: false }) ? original : undefined;
}

// Finds the origin in the git work tree that contains the skill's folder.

async function findInRepository({ folder }: OriginSubject, environment: Environment): Promise<FoundOrigin | undefined> {
  const found = findRepository(folder);
  if (!found) return undefined;
  try {
    const git = await createGit({ env: environment.env, repository: found.repository, protocol: "file" });
    const commit = await readGitLine(git, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    const { url, ref } = await readRemote(git);
    if (commit === undefined || url === undefined) return undefined;
    const path = relative(found.root, folder).split(sep).join("/");
    const tree = await readCommittedFiles(git, commit, path);
    if (!tree?.has("SKILL.md")) return undefined; // Not part of the repository, only next to its files.
    const provenance = parseProvenance(url, { path, ref, commit }, environment);
    if (!provenance) return undefined;
    return { provenance, foundIn: "its git repository", base: { files: toLockedFiles(tree), tree } };
  } catch (error) {
    if (error instanceof SkillError) return undefined; // No git, or a broken repository: the origin stays unknown.
    throw error;
  }
}

/** Finds the work tree and the repository of a folder. Skips a repository of another user. */
function findRepository(folder: string): { root: string; repository: string } | undefined {
  for (let root = folder; ; root = dirname(root)) {
    const stats = lstatSync(join(root, ".git"), { throwIfNoEntry: false });
    if (stats && (stats.uid === process.getuid?.() || process.getuid === undefined)) {
      if (stats.isDirectory()) return { root, repository: join(root, ".git") };
      const [, named] = stats.isFile()
        ? (/^gitdir: (.+?)\s*$/.exec(readOptionalText(join(root, ".git")) ?? "") ?? [])
        : [];
      return named === undefined ? undefined : { root, repository: resolve(root, named) };
    }
    if (stats || root === dirname(root)) return undefined;
  }
}

/** Reads the remote that the branch follows, or `origin`, and its branch if that is not the default one. */
async function readRemote(git: Git): Promise<{ url?: string; ref?: string }> {
  const branch = await readGitLine(git, ["symbolic-ref", "--quiet", "--short", "HEAD"]);
  const config = (key: string) => readGitLine(git, ["config", "--get", key]);
  const remote = (branch && (await config(`branch.${branch}.remote`))) ?? "origin";
  const url = await config(`remote.${remote}.url`);
  const merge = branch && (await config(`branch.${branch}.merge`))?.replace(/^refs\/heads\//, "");
  const main = await readGitLine(git, ["symbolic-ref", "--quiet", "--short", `refs/remotes/${remote}/HEAD`]);
  return omitUndefined({ url, ref: merge && `${remote}/${merge}` !== main ? merge : undefined });
}

async function readGitLine(git: Git, args: readonly string[]): Promise<string | undefined> {
  const { code, stdout } = await git.run(args);
  const line = stdout.toString().trim();
  return code === 0 && line !== "" && !line.includes("\n") ? line : undefined;
}

async function readCommittedFiles(git: Git, commit: string, path: string): Promise<FileTree | undefined> {
  const rows = await listGitTree(git, commit, path === "" ? undefined : path);
  if (!rows) return undefined;
  const tree = new Map<string, { bytes: Uint8Array; executable: boolean }>();
  for await (const entry of readGitEntries(git, rows)) {
    if (entry.kind === "file")
      tree.set(entry.path, { bytes: new Uint8Array(entry.read()), executable: (entry.mode & 0o111) !== 0 });
  }
  return new Map([...tree].sort(([a], [b]) => compareText(a, b)));
}

// The position of a skill in its source.

interface SourcePosition {
  path?: string | undefined;
  ref?: string | undefined;
  commit?: string | undefined;
}

/**
 * Parses an address that another program recorded. Returns undefined if it cannot be fetched. Never keeps a password in
 * it.
 */
function parseProvenance(
  text: string | undefined,
  position: SourcePosition,
  environment: Environment,
): Provenance | undefined {
  if (text === undefined || text === "") return undefined;
  try {
    const parsed = parseSourceAddress(normalizeRepository(stripCredentials(text)), {
      cwd: environment.workspace,
      home: environment.home,
    });
    const {
      inside: _inside,
      ref: named,
      namesake: _namesake,
      ...plain
    } = parsed as Extract<SourceAddress, { kind: "git" }>;
    const path = posix.relative("/", posix.join("/", position.path ?? "")); // Never above the source.
    const source = formatSourceAddress(plain as SourceAddress);
    const isGit = parsed.kind === "git";
    const ref = position.ref === undefined ? named : parseGitRef(position.ref);
    return {
      source,
      ...omitUndefined({
        path: path === "" ? undefined : path,
        ref: isGit ? ref : undefined,
        commit: isGit ? position.commit : undefined,
      }),
    };
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** Normalizes a path: git treats it as a repository, `skillet add` as a folder. */
function normalizeRepository(text: string): string {
  const isRepository =
    text.startsWith("/") &&
    (text.endsWith(".git") || lstatSync(join(text, ".git"), NO_THROW) || lstatSync(join(text, "HEAD"), NO_THROW));
  return isRepository ? `file://${encodeURI(text)}` : text;
}

const NO_THROW = { throwIfNoEntry: false } as const;

function stripCredentials(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return text;
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}

function readJsonRecord(file: string): JsonRecord | undefined {
  try {
    const value: unknown = JSON.parse(readOptionalText(file) ?? "");
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined; // The file is missing, or has another format.
  }
}

function readOptionalText(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}

function getText(entry: JsonRecord, key: string): string | undefined {
  const value = entry[key];
  return typeof value === "string" && value !== "" ? value : undefined;
}
