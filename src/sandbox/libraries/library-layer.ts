import { createHash, randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import type { Mount, Sandbox } from "../../host/sandbox-contract.ts";
import { readRegularText } from "../../util/file-access.ts";
import { compareText } from "../../util/text.ts";
import { createProgramCancelError } from "../process.ts";
import { areTrustedFolders, isRoot, makePackageFolder, NOBODY_UID, type PackageFolders } from "../sandbox-folders.ts";
import {
  formatLibraryLock,
  formatLibrarySetId,
  hashLibraryText,
  isLockedLibrary,
  type LibraryKind,
  type LibraryLock,
  type LibrarySet,
  type LockedLibrary,
  readLibraryLock,
  verifyLibraries,
  writeLibraryLock,
} from "./library-lock.ts";
import { NPM_SOURCE } from "./npm.ts";
import { PIP_SOURCE } from "./python-packages.ts";

/** The source of one kind of libraries: resolves, fetches and installs them. It never runs code of a package. */
export interface LibrarySource {
  /** The path of the layer in a sandbox. */
  mountPoint: string;
  /** The folder of its programs there, and whether it precedes the system's in PATH. */
  programs: string;
  isFirst: boolean;
  env: Readonly<Record<string, string>>;
  /** Resolves the requested packages to exact files. */
  resolve(wanted: readonly string[], context: LibraryContext): Promise<LockedLibrary[]>;
  /** Fetches the files of a lock into `downloads`, unless they are there already. */
  fetch(packages: readonly LockedLibrary[], context: LibraryContext): Promise<void>;
  /** Installs the files in `downloads` into the layer, in a sandbox without a network. */
  install(packages: readonly LockedLibrary[], context: LibraryInstallContext): Promise<void>;
}

export interface LibraryContext {
  /** The folder that this build may write to, which is also the working directory of its programs. */
  folder: string;
  downloads: string;
  /** The user's environment variables, including those for pip and npm. */
  env: Readonly<Record<string, string | undefined>>;
  folders: PackageFolders;
  onProgress(text: string): void;
  signal: AbortSignal;
}

interface LibraryInstallContext extends LibraryContext {
  /** The layer that is being built. */
  draft: string;
  /** Runs a command in the sandbox, with the layer at its final mount point. Throws if it fails. */
  runInside(argv: readonly [string, ...string[]], mounts: readonly Mount[]): Promise<void>;
}

const LIBRARY_SOURCES: Readonly<Record<LibraryKind, LibrarySource>> = { python: PIP_SOURCE, npm: NPM_SOURCE };

export interface LibraryLayer {
  set: LibrarySet;
  lock: LibraryLock;
  /** The folder to mount. */
  files: string;
}

/** Finds the layer of a set if it is built. Throws a SkillError if it was modified after the build. */
export function findLibraryLayer(set: LibrarySet, { own, shared }: PackageFolders): LibraryLayer | undefined {
  for (const packageFolder of [own, shared]) {
    if (packageFolder === undefined) continue;
    const lock = readLibraryLock(packageFolder, set);
    const folder = lock && getLayerFolder(packageFolder, lock);
    if (!lock || folder === undefined || !existsSync(folder)) continue;
    const files = join(folder, "files");
    if (
      !areTrustedFolders(packageFolder, join(packageFolder, "libraries"), join(packageFolder, "locks"), folder, files)
    )
      continue;
    requireUnmodifiedLayer(folder, set);
    return { set, lock, files };
  }
  return undefined;
}

export interface LibraryBuildOptions {
  sandbox: Sandbox;
  env: Readonly<Record<string, string | undefined>>;
  /** Resolves again even if there is a lock file. */
  update?: boolean | undefined;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/**
 * Builds the layer of a set from its lock file, or resolves it first. Contract: a failed build leaves nothing behind.
 */
export async function buildLibraryLayer(
  set: LibrarySet,
  packageFolders: PackageFolders,
  options: LibraryBuildOptions,
): Promise<LibraryLayer> {
  const { signal, update = false } = options;
  const source = LIBRARY_SOURCES[set.kind];
  const packageFolder = packageFolders.own;
  makePackageFolder(packageFolder);
  removeStaleBuilds(packageFolder);
  const folder = join(packageFolder, "libraries", `.${randomUUID()}`);
  const downloads = join(folder, "downloads");
  mkdirSync(folder, { mode: 0o755 });
  mkdirSync(downloads, { mode: 0o755 });
  const context: LibraryContext = { ...options, folder, downloads, folders: packageFolders };
  try {
    const known = update ? undefined : (readLibraryLock(packageFolder, set) ?? readSharedLock(set, packageFolders));
    const lock = known ?? (await resolveLibraryLock(set, source, context));
    const finished = getLayerFolder(packageFolder, lock);
    if (!isUnmodifiedLayer(finished)) {
      await source.fetch(lock.packages, context);
      await verifyLibraries(lock, downloads);
      const layer = join(folder, "layer");
      await installLibraries(source, lock, { ...options, ...context, layer });
      moveLayerIntoPlace(layer, finished);
    }
    writeLibraryLock(packageFolder, lock);
    return { set, lock, files: join(finished, "files") };
  } catch (error) {
    throw signal.aborted ? createProgramCancelError(signal) : error;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Moves a layer to its final path. A layer that another build created meanwhile is as good and may be in use. A
 * modified one is moved aside and removed later.
 */
function moveLayerIntoPlace(layer: string, finished: string): void {
  if (isUnmodifiedLayer(finished)) return;
  if (existsSync(finished)) renameSync(finished, join(dirname(finished), `.${randomUUID()}`));
  renameSync(layer, finished);
}

/**
 * Creates the mounts and variables that give code the layers, and the program folders before and after the system's.
 */
export function createLibraryMounts(layers: readonly LibraryLayer[]): {
  mounts: Mount[];
  env: Record<string, string>;
  before: string[];
  after: string[];
} {
  const sources = layers.map(({ set }) => LIBRARY_SOURCES[set.kind]);
  const programs = (isFirst: boolean) => sources.filter((one) => one.isFirst === isFirst).map((one) => one.programs);
  return {
    mounts: layers.map(({ set, files }) => ({ from: files, to: LIBRARY_SOURCES[set.kind].mountPoint, access: "read" })),
    env: Object.assign({}, ...sources.map(({ env }) => env)),
    before: programs(true),
    after: programs(false),
  };
}

export interface LibrarySummary {
  kind: LibraryKind;
  wanted: readonly string[];
  folder: string;
  bytes: number;
  built: string;
  /** True if the lock file of its set still refers to it. */
  isCurrent: boolean;
  isOwn: boolean;
}

export function listLibraryLayers({ own, shared }: PackageFolders): LibrarySummary[] {
  return [own, shared].flatMap((packageFolder) =>
    listNames(packageFolder).flatMap((name) => {
      const folder = join(packageFolder ?? "", "libraries", name);
      const notes = readLayerNotes(folder);
      if (!notes) return [];
      const { kind, wanted, target, bytes, built } = notes;
      const isCurrent =
        getLayerFolder(packageFolder ?? "", notes) === folder &&
        isCurrentLayer(packageFolder ?? "", { kind, wanted, target }, notes);
      return [{ kind, wanted, folder, bytes, built, isCurrent, isOwn: packageFolder === own }];
    }),
  );
}

/**
 * Finds the user's own layers that belong to none of these sets or were replaced. Their lock files stay, so that a new
 * build gives the same result.
 */
export function findUnusedLibraryLayers(packageFolders: PackageFolders, kept: readonly LibrarySet[]): LibrarySummary[] {
  return listLibraryLayers(packageFolders).filter(
    (library) => library.isOwn && (!library.isCurrent || !kept.some((set) => isLayerOfSet(library, set))),
  );
}

/** Returns true if a layer was built for a set. */
export function isLayerOfSet({ kind, wanted }: LibrarySummary, set: LibrarySet): boolean {
  return set.kind === kind && JSON.stringify(set.wanted) === JSON.stringify(wanted);
}

export function removeLibraryLayers(layers: readonly LibrarySummary[]): void {
  for (const { folder } of layers) rmSync(folder, { recursive: true, force: true });
}

async function resolveLibraryLock(
  set: LibrarySet,
  source: LibrarySource,
  context: LibraryContext,
): Promise<LibraryLock> {
  context.onProgress(`resolving ${set.wanted.join(", ")}`);
  const packages = await source.resolve(set.wanted, context);
  const invalid: LockedLibrary | undefined = packages.filter((one: unknown) => !isLockedLibrary(one))[0];
  if (invalid) {
    throw new SkillError("library-unresolved", {
      message: `${invalid.name} ${invalid.version} has no file that can be locked: ${invalid.file || "no file"}`,
      fix: "choose another version or another package",
    });
  }
  return { ...set, packages };
}

/** Reads the lock file that root built with, which a user may build from, too. */
function readSharedLock(set: LibrarySet, { shared }: PackageFolders): LibraryLock | undefined {
  const isSafe = shared !== undefined && areTrustedFolders(shared, join(shared, "locks"));
  return isSafe ? readLibraryLock(shared, set) : undefined;
}

async function installLibraries(
  source: LibrarySource,
  lock: LibraryLock,
  options: LibraryContext & LibraryBuildOptions & { layer: string },
): Promise<void> {
  const { sandbox, layer, signal, onProgress } = options;
  const draft = join(layer, "files");
  mkdirSync(layer, { mode: 0o755 });
  mkdirSync(draft, { mode: 0o755 });
  onProgress(`installing ${lock.packages.map(({ name, version }) => `${name} ${version}`).join(", ")}`);
  await source.install(lock.packages, {
    ...options,
    draft,
    async runInside(argv, mounts) {
      if (isRoot()) chownTree(draft, NOBODY_UID);
      let output = "";
      const { exitCode, ending } = await sandbox.run(
        {
          argv,
          env: {},
          folder: "/",
          mounts: [{ from: draft, to: source.mountPoint, access: "read-write" }, ...mounts],
          network: [],
          limits: LIBRARY_BUILD_LIMITS,
          ...(isRoot() ? { user: NOBODY_UID } : {}), // The folder's owner.
        },
        {
          signal,
          onOutput(_, bytes) {
            output = `${output}${bytes}`.slice(-2000);
            return true;
          },
        },
      );
      if (exitCode === 0) return;
      throw new SkillError("library-install", {
        message: `${lock.wanted.join(", ")} could not be installed: ${getLastLine(output) || ending}`,
        fix: "choose another version; packages that must be built are not supported",
      });
    },
  });
  setTreePermissions(draft);
  const { kind, wanted, target, packages } = lock;
  const notes: LayerNotes = {
    ...{ kind, wanted, target, packages },
    ...digestTree(draft),
    built: new Date().toISOString(),
  };
  writeFileSync(join(layer, "layer.json"), `${JSON.stringify(notes, null, 2)}\n`);
}

function getLastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}

const MIB = 1024 * 1024;
const LIBRARY_BUILD_LIMITS = { seconds: 600, output: 16 * MIB, memory: 2048 * MIB, processes: 256, disk: 2048 * MIB };

/** The metadata stored next to a layer. */
interface LayerNotes extends LibraryLock {
  digest: string;
  fingerprint: string;
  bytes: number;
  built: string;
}

function getLayerFolder(packageFolder: string, lock: LibraryLock): string {
  return join(
    packageFolder,
    "libraries",
    `${formatLibrarySetId(lock)}-${hashLibraryText(formatLibraryLock(lock)).slice(0, 16)}`,
  );
}

function isCurrentLayer(packageFolder: string, set: LibrarySet, lock: LibraryLock): boolean {
  try {
    const current = readLibraryLock(packageFolder, set);
    return current !== undefined && formatLibraryLock(current) === formatLibraryLock(lock);
  } catch {
    return false;
  }
}

function requireUnmodifiedLayer(folder: string, { wanted }: LibrarySet): void {
  if (isUnmodifiedLayer(folder)) return;
  throw new SkillError("library-tampered", {
    message: `the packages ${wanted.join(", ")} in ${folder} were modified after they were built`,
    fix: "to build them again from their lock file",
    commands: ["skillet packages build"],
  });
}

function isUnmodifiedLayer(folder: string): boolean {
  const notes = readLayerNotes(folder);
  const files = join(folder, "files");
  if (!notes || !existsSync(files)) return false;
  return fingerprintTree(files) === notes.fingerprint || digestTree(files).digest === notes.digest;
}

function readLayerNotes(folder: string): LayerNotes | undefined {
  try {
    return JSON.parse(readRegularText(join(folder, "layer.json")));
  } catch {
    return undefined;
  }
}

function listNames(packageFolder: string | undefined): string[] {
  const folder = join(packageFolder ?? "", "libraries");
  if (packageFolder === undefined || !existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => !name.startsWith("."))
    .sort(compareText);
}

const HOUR_MS = 60 * 60 * 1000;

/** Removes the remains of killed builds and replaced layers. A build, and a run that reads a layer, has ten minutes. */
function removeStaleBuilds(packageFolder: string): void {
  const folder = join(packageFolder, "libraries");
  for (const name of readdirSync(folder).filter((one) => one.startsWith("."))) {
    const path = join(folder, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? Date.now());
    if (age > HOUR_MS) rmSync(path, { recursive: true, force: true });
  }
}

/** The digest of a folder's content. */
interface TreeDigest {
  /** Changes with any byte, name, symlink or execute bit. */
  digest: string;
  /** Changes with any write, according to the file metadata: cheap to compare. */
  fingerprint: string;
  bytes: number;
}

/** Makes a built folder readable by all users and writable only by its owner, the caller. Removes devices and pipes. */
function setTreePermissions(folder: string): void {
  for (const { path, stat } of walkTree(folder)) {
    if (!stat.isFile() && !stat.isDirectory() && !stat.isSymbolicLink()) {
      rmSync(path);
      continue;
    }
    if (isRoot()) lchownSync(path, 0, 0);
    if (!stat.isSymbolicLink()) chmodSync(path, stat.isDirectory() || (stat.mode & 0o111) !== 0 ? 0o755 : 0o644);
  }
}

/** Makes a user the owner of everything in a folder. */
function chownTree(folder: string, user: number): void {
  for (const { path } of walkTree(folder)) lchownSync(path, user, user);
}

function fingerprintTree(folder: string): string {
  const hash = createHash("sha256");
  for (const { name, stat } of walkTree(folder)) {
    const { size, mtimeMs, ctimeMs, ino, mode, uid } = stat;
    hash.update(
      JSON.stringify(stat.isDirectory() ? [name, mode, uid] : [name, size, mtimeMs, ctimeMs, ino, mode, uid]),
    );
  }
  return hash.digest("hex");
}

function digestTree(folder: string): TreeDigest {
  const hash = createHash("sha256");
  let bytes = 0;
  for (const { name, path, stat } of walkTree(folder)) {
    const isExecutable = (stat.mode & 0o111) !== 0;
    if (stat.isSymbolicLink()) hash.update(JSON.stringify([name, "link", readlinkSync(path)]));
    else if (stat.isDirectory()) hash.update(JSON.stringify([name, "folder"]));
    else if (stat.isFile()) {
      const content = readFileSync(path);
      bytes += content.length;
      hash.update(JSON.stringify([name, isExecutable, createHash("sha256").update(content).digest("hex")]));
    } else hash.update(JSON.stringify([name, "other"]));
  }
  return { digest: `sha256:${hash.digest("hex")}`, fingerprint: fingerprintTree(folder), bytes };
}

interface TreeEntry {
  name: string;
  path: string;
  stat: Stats;
}

/** Yields a folder and everything in it, in the same order on every machine. */
function* walkTree(folder: string, name = ""): Generator<TreeEntry> {
  const path = join(folder, name);
  const stat = lstatSync(path);
  yield { name, path, stat };
  if (!stat.isDirectory()) return;
  for (const inner of readdirSync(path).sort(compareText))
    yield* walkTree(folder, name === "" ? inner : `${name}/${inner}`);
}
