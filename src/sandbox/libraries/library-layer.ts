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
import { createProgramCancelError } from "../run-program.ts";
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
import { PIP_SOURCE } from "./pip.ts";

/** Where a kind of libraries comes from, and how it is put in place. Nothing of a package is run by either. */
export interface LibrarySource {
  /** Where the layer is for code in a sandbox. */
  mountPoint: string;
  /** The folder of its programs there, and whether they go before those of the system. */
  programs: string;
  isFirst: boolean;
  env: Readonly<Record<string, string>>;
  /** Resolves what is wanted to exact files. */
  resolve(wanted: readonly string[], context: LibraryContext): Promise<LockedLibrary[]>;
  /** Fetches the files of a lock into `downloads`, unless they are there. */
  fetch(packages: readonly LockedLibrary[], context: LibraryContext): Promise<void>;
  /** Puts the files in `downloads` into the layer, in a sandbox without a network. */
  install(packages: readonly LockedLibrary[], context: LibraryInstallContext): Promise<void>;
}

export interface LibraryContext {
  /** Where this build may write, and where its programs start. */
  folder: string;
  downloads: string;
  /** The user's own variables, with what they set for pip and npm. */
  env: Readonly<Record<string, string | undefined>>;
  places: PackageFolders;
  onProgress(text: string): void;
  signal: AbortSignal;
}

interface LibraryInstallContext extends LibraryContext {
  /** The layer that is being built. */
  draft: string;
  /** Runs a command in the sandbox, where the layer is mounted as it will be. Throws when it fails. */
  runInside(argv: readonly [string, ...string[]], mounts: readonly Mount[]): Promise<void>;
}

const LIBRARY_SOURCES: Readonly<Record<LibraryKind, LibrarySource>> = { python: PIP_SOURCE, npm: NPM_SOURCE };

export interface LibraryLayer {
  set: LibrarySet;
  lock: LibraryLock;
  /** The folder that is mounted. */
  files: string;
}

/** The layer of a set, if it is built. Throws a SkillError if it is not as it was built. */
export function findLibraryLayer(set: LibrarySet, { own, shared }: PackageFolders): LibraryLayer | undefined {
  for (const place of [own, shared]) {
    if (place === undefined) continue;
    const lock = readLibraryLock(place, set);
    const folder = lock && getLayerFolder(place, lock);
    if (!lock || folder === undefined || !existsSync(folder)) continue;
    const files = join(folder, "files");
    if (!areTrustedFolders(place, join(place, "libraries"), join(place, "locks"), folder, files)) continue;
    requireUnmodifiedLayer(folder, set);
    return { set, lock, files };
  }
  return undefined;
}

export interface LibraryBuildOptions {
  sandbox: Sandbox;
  env: Readonly<Record<string, string | undefined>>;
  /** Resolve again, also where there is a lock. */
  update?: boolean | undefined;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** Builds the layer of a set by its lock, or resolves it first. Contract: nothing is left of a build that failed. */
export async function buildLibraryLayer(
  set: LibrarySet,
  places: PackageFolders,
  options: LibraryBuildOptions,
): Promise<LibraryLayer> {
  const { signal, update = false } = options;
  const source = LIBRARY_SOURCES[set.kind];
  const place = places.own;
  makePackageFolder(place);
  removeStaleBuilds(place);
  const folder = join(place, "libraries", `.${randomUUID()}`);
  const downloads = join(folder, "downloads");
  mkdirSync(folder, { mode: 0o755 });
  mkdirSync(downloads, { mode: 0o755 });
  const context: LibraryContext = { ...options, folder, downloads, places };
  try {
    const known = update ? undefined : (readLibraryLock(place, set) ?? readSharedLock(set, places));
    const lock = known ?? (await resolveLibraryLock(set, source, context));
    const finished = getLayerFolder(place, lock);
    if (!isUnmodifiedLayer(finished)) {
      await source.fetch(lock.packages, context);
      await verifyLibraries(lock, downloads);
      const layer = join(folder, "layer");
      await installLibraries(source, lock, { ...options, ...context, layer });
      moveLayerIntoPlace(layer, finished);
    }
    writeLibraryLock(place, lock);
    return { set, lock, files: join(finished, "files") };
  } catch (error) {
    throw signal.aborted ? createProgramCancelError(signal) : error;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What another build put there meanwhile is as good, and may be in use. What was changed is moved aside, and removed later. */
function moveLayerIntoPlace(layer: string, finished: string): void {
  if (isUnmodifiedLayer(finished)) return;
  if (existsSync(finished)) renameSync(finished, join(dirname(finished), `.${randomUUID()}`));
  renameSync(layer, finished);
}

/** The mounts and variables that give code the layers, and the folders of their programs before and after those of the system. */
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
  /** Whether it is what the lock of its set names. */
  isCurrent: boolean;
  isOwn: boolean;
}

export function listLibraryLayers({ own, shared }: PackageFolders): LibrarySummary[] {
  return [own, shared].flatMap((place) =>
    listNames(place).flatMap((name) => {
      const folder = join(place ?? "", "libraries", name);
      const notes = readLayerNotes(folder);
      if (!notes) return [];
      const { kind, wanted, target, bytes, built } = notes;
      const isCurrent =
        getLayerFolder(place ?? "", notes) === folder && isCurrentLayer(place ?? "", { kind, wanted, target }, notes);
      return [{ kind, wanted, folder, bytes, built, isCurrent, isOwn: place === own }];
    }),
  );
}

/** Layers of the own place that are for none of these sets, or were replaced. Their locks stay: what is built again is the same. */
export function findUnusedLibraryLayers(places: PackageFolders, kept: readonly LibrarySet[]): LibrarySummary[] {
  return listLibraryLayers(places).filter(
    (library) => library.isOwn && (!library.isCurrent || !kept.some((set) => isLayerOfSet(library, set))),
  );
}

/** Whether a layer was built for a set. */
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
  const odd: LockedLibrary | undefined = packages.filter((one: unknown) => !isLockedLibrary(one))[0];
  if (odd) {
    throw new SkillError("library-unresolved", {
      message: `${odd.name} ${odd.version} has no file that can be locked: ${odd.file || "it has none"}`,
      fix: "choose another version of it, or another package",
    });
  }
  return { ...set, packages };
}

/** Root's lock is one that a user may build by. */
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
      let said = "";
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
            said = `${said}${bytes}`.slice(-2000);
            return true;
          },
        },
      );
      if (exitCode === 0) return;
      throw new SkillError("library-install", {
        message: `${lock.wanted.join(", ")} could not be installed: ${getLastLine(said) || ending}`,
        fix: "choose another version of it; packages that must be built are not supported",
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

/** What is kept beside a layer. */
interface LayerNotes extends LibraryLock {
  digest: string;
  fingerprint: string;
  bytes: number;
  built: string;
}

function getLayerFolder(place: string, lock: LibraryLock): string {
  return join(
    place,
    "libraries",
    `${formatLibrarySetId(lock)}-${hashLibraryText(formatLibraryLock(lock)).slice(0, 16)}`,
  );
}

function isCurrentLayer(place: string, set: LibrarySet, lock: LibraryLock): boolean {
  try {
    const current = readLibraryLock(place, set);
    return current !== undefined && formatLibraryLock(current) === formatLibraryLock(lock);
  } catch {
    return false;
  }
}

function requireUnmodifiedLayer(folder: string, { wanted }: LibrarySet): void {
  if (isUnmodifiedLayer(folder)) return;
  throw new SkillError("library-tampered", {
    message: `the packages ${wanted.join(", ")} in ${folder} are not as they were built`,
    fix: "`skillet packages build` builds them again, as their lock file says",
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

function listNames(place: string | undefined): string[] {
  const folder = join(place ?? "", "libraries");
  if (place === undefined || !existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => !name.startsWith("."))
    .sort(compareText);
}

const HOUR_MS = 60 * 60 * 1000;

/** Removes what a killed build left, or an update replaced. A build has ten minutes, and so has what reads a layer. */
function removeStaleBuilds(place: string): void {
  const folder = join(place, "libraries");
  for (const name of readdirSync(folder).filter((one) => one.startsWith("."))) {
    const path = join(folder, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? Date.now());
    if (age > HOUR_MS) rmSync(path, { recursive: true, force: true });
  }
}

/** The content of a folder. */
interface TreeDigest {
  /** Changes with any byte, name, link or execute bit. */
  digest: string;
  /** Changes with any write, by what the kernel notes of a file: cheap to compare. */
  fingerprint: string;
  bytes: number;
}

/** Makes a built folder readable by everybody and writable by its owner alone, who is the caller. Devices and pipes are removed. */
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

/** Makes a user the owner of all in a folder. */
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

/** Everything in a folder and the folder itself, in one order on every machine. */
function* walkTree(folder: string, name = ""): Generator<TreeEntry> {
  const path = join(folder, name);
  const stat = lstatSync(path);
  yield { name, path, stat };
  if (!stat.isDirectory()) return;
  for (const inner of readdirSync(path).sort(compareText))
    yield* walkTree(folder, name === "" ? inner : `${name}/${inner}`);
}
