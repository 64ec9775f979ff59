import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Mount, Sandbox } from "../../host/sandbox.ts";
import { SkillError } from "../../shared/error.ts";
import { readRegularText } from "../../shared/regular-file.ts";
import { byText } from "../../shared/text.ts";
import { areTrusted, makePlace, type Places } from "../packages/place.ts";
import { calledOff } from "../packages/run.ts";
import { isRoot, NOBODY } from "../places.ts";
import {
  isLockedLibrary,
  type LibraryKind,
  type LibraryLock,
  type LibrarySet,
  type LockedLibrary,
  libraryLockText,
  librarySetId,
  readLibraryLock,
  sha256,
  verifyLibraries,
  writeLibraryLock,
} from "./library-lock.ts";
import { digestOf, fingerprintOf, giveTree, settleTree } from "./library-tree.ts";
import { NPM } from "./npm.ts";
import { PIP } from "./pip.ts";

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
  install(packages: readonly LockedLibrary[], context: InstallContext): Promise<void>;
}

export interface LibraryContext {
  /** Where this build may write, and where its programs start. */
  folder: string;
  downloads: string;
  /** The user's own variables, with what they set for pip and npm. */
  env: Readonly<Record<string, string | undefined>>;
  places: Places;
  onProgress(text: string): void;
  signal: AbortSignal;
}

export interface InstallContext extends LibraryContext {
  /** The layer that is being built. */
  draft: string;
  /** Runs a command in the sandbox, where the layer is mounted as it will be. Throws when it fails. */
  runInside(argv: readonly [string, ...string[]], mounts: readonly Mount[]): Promise<void>;
}

const SOURCES: Readonly<Record<LibraryKind, LibrarySource>> = { python: PIP, npm: NPM };

export interface LibraryLayer {
  set: LibrarySet;
  lock: LibraryLock;
  /** The folder that is mounted. */
  files: string;
}

/** The layer of a set, if it is built. Throws a SkillError if it is not as it was built. */
export function findLibraries(set: LibrarySet, { own, shared }: Places): LibraryLayer | undefined {
  for (const place of [own, shared]) {
    if (place === undefined) continue;
    const lock = readLibraryLock(place, set);
    const folder = lock && layerFolder(place, lock);
    if (!lock || folder === undefined || !existsSync(folder)) continue;
    const files = join(folder, "files");
    if (!areTrusted(place, join(place, "libraries"), join(place, "locks"), folder, files)) continue;
    requireUnchanged(folder, set);
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
export async function buildLibraries(
  set: LibrarySet,
  places: Places,
  options: LibraryBuildOptions,
): Promise<LibraryLayer> {
  const { signal, update = false } = options;
  const source = SOURCES[set.kind];
  const place = places.own;
  makePlace(place);
  removeLeftOvers(place);
  const folder = join(place, "libraries", `.${randomUUID()}`);
  const downloads = join(folder, "downloads");
  mkdirSync(folder, { mode: 0o755 });
  mkdirSync(downloads, { mode: 0o755 });
  const context: LibraryContext = { ...options, folder, downloads, places };
  try {
    const known = update ? undefined : (readLibraryLock(place, set) ?? sharedLock(set, places));
    const lock = known ?? (await resolveLock(set, source, context));
    const finished = layerFolder(place, lock);
    if (!isUnchanged(finished)) {
      await source.fetch(lock.packages, context);
      await verifyLibraries(lock, downloads);
      const layer = join(folder, "layer");
      await install(source, lock, { ...options, ...context, layer });
      putInPlace(layer, finished);
    }
    writeLibraryLock(place, lock);
    return { set, lock, files: join(finished, "files") };
  } catch (error) {
    throw signal.aborted ? calledOff(signal) : error;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What another build put there meanwhile is as good, and may be in use. What was changed is moved aside, and removed later. */
function putInPlace(layer: string, finished: string): void {
  if (isUnchanged(finished)) return;
  if (existsSync(finished)) renameSync(finished, join(dirname(finished), `.${randomUUID()}`));
  renameSync(layer, finished);
}

/** The mounts and variables that give code the layers, and the folders of their programs before and after those of the system. */
export function libraryMounts(layers: readonly LibraryLayer[]): {
  mounts: Mount[];
  env: Record<string, string>;
  before: string[];
  after: string[];
} {
  const sources = layers.map(({ set }) => SOURCES[set.kind]);
  const programs = (isFirst: boolean) => sources.filter((one) => one.isFirst === isFirst).map((one) => one.programs);
  return {
    mounts: layers.map(({ set, files }) => ({ from: files, to: SOURCES[set.kind].mountPoint, access: "read" })),
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

export function listLibraries({ own, shared }: Places): LibrarySummary[] {
  return [own, shared].flatMap((place) =>
    namesIn(place).flatMap((name) => {
      const folder = join(place ?? "", "libraries", name);
      const notes = notesOf(folder);
      if (!notes) return [];
      const { kind, wanted, target, bytes, built } = notes;
      const isCurrent =
        layerFolder(place ?? "", notes) === folder && isLocked(place ?? "", { kind, wanted, target }, notes);
      return [{ kind, wanted, folder, bytes, built, isCurrent, isOwn: place === own }];
    }),
  );
}

/** Layers of the own place that are for none of these sets, or were replaced. Their locks stay: what is built again is the same. */
export function unusedLibraries(places: Places, kept: readonly LibrarySet[]): LibrarySummary[] {
  return listLibraries(places).filter(
    (library) => library.isOwn && (!library.isCurrent || !kept.some((set) => isSetOf(library, set))),
  );
}

/** Whether a layer was built for a set. */
export function isSetOf({ kind, wanted }: LibrarySummary, set: LibrarySet): boolean {
  return set.kind === kind && JSON.stringify(set.wanted) === JSON.stringify(wanted);
}

export function removeLibraries(layers: readonly LibrarySummary[]): void {
  for (const { folder } of layers) rmSync(folder, { recursive: true, force: true });
}

async function resolveLock(set: LibrarySet, source: LibrarySource, context: LibraryContext): Promise<LibraryLock> {
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
function sharedLock(set: LibrarySet, { shared }: Places): LibraryLock | undefined {
  const isSafe = shared !== undefined && areTrusted(shared, join(shared, "locks"));
  return isSafe ? readLibraryLock(shared, set) : undefined;
}

async function install(
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
      if (isRoot()) giveTree(draft, NOBODY);
      let said = "";
      const { exitCode, ending } = await sandbox.run(
        {
          argv,
          env: {},
          folder: "/",
          mounts: [{ from: draft, to: source.mountPoint, access: "read-write" }, ...mounts],
          network: [],
          limits: LIMITS,
          ...(isRoot() ? { user: NOBODY } : {}), // The folder's owner.
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
        message: `${lock.wanted.join(", ")} could not be installed: ${lastLine(said) || ending}`,
        fix: "choose another version of it; packages that must be built are not supported",
      });
    },
  });
  settleTree(draft);
  const { kind, wanted, target, packages } = lock;
  const notes: Notes = { ...{ kind, wanted, target, packages }, ...digestOf(draft), built: new Date().toISOString() };
  writeFileSync(join(layer, "layer.json"), `${JSON.stringify(notes, null, 2)}\n`);
}

export function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}

const MIB = 1024 * 1024;
const LIMITS = { seconds: 600, output: 16 * MIB, memory: 2048 * MIB, processes: 256, disk: 2048 * MIB };

/** What is kept beside a layer. */
interface Notes extends LibraryLock {
  digest: string;
  fingerprint: string;
  bytes: number;
  built: string;
}

function layerFolder(place: string, lock: LibraryLock): string {
  return join(place, "libraries", `${librarySetId(lock)}-${sha256(libraryLockText(lock)).slice(0, 16)}`);
}

function isLocked(place: string, set: LibrarySet, lock: LibraryLock): boolean {
  try {
    const current = readLibraryLock(place, set);
    return current !== undefined && libraryLockText(current) === libraryLockText(lock);
  } catch {
    return false;
  }
}

function requireUnchanged(folder: string, { wanted }: LibrarySet): void {
  if (isUnchanged(folder)) return;
  throw new SkillError("library-tampered", {
    message: `the packages ${wanted.join(", ")} in ${folder} are not as they were built`,
    fix: "`skillet packages build` builds them again, as their lock file says",
  });
}

function isUnchanged(folder: string): boolean {
  const notes = notesOf(folder);
  const files = join(folder, "files");
  if (!notes || !existsSync(files)) return false;
  return fingerprintOf(files) === notes.fingerprint || digestOf(files).digest === notes.digest;
}

function notesOf(folder: string): Notes | undefined {
  try {
    return JSON.parse(readRegularText(join(folder, "layer.json")));
  } catch {
    return undefined;
  }
}

function namesIn(place: string | undefined): string[] {
  const folder = join(place ?? "", "libraries");
  if (place === undefined || !existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => !name.startsWith("."))
    .sort(byText);
}

const HOUR_MS = 60 * 60 * 1000;

/** Removes what a killed build left, or an update replaced. A build has ten minutes, and so has what reads a layer. */
function removeLeftOvers(place: string): void {
  const folder = join(place, "libraries");
  for (const name of readdirSync(folder).filter((one) => one.startsWith("."))) {
    const path = join(folder, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? Date.now());
    if (age > HOUR_MS) rmSync(path, { recursive: true, force: true });
  }
}
