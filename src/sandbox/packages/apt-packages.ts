import { closeSync, constants, existsSync, openSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { isSystemPackageName } from "../../skill/skill.ts";
import { readRegularText } from "../../util/file-access.ts";
import { findSystemProgram } from "../../util/system.ts";
import { compareText, truncateLine } from "../../util/text.ts";
import { runProgram, TURN_DESCRIPTOR } from "../process.ts";
import { isRoot, makePackageFolder, type PackageFolders } from "../sandbox-folders.ts";
import {
  type Apt,
  createApt,
  type DebianHost,
  detectDebian,
  findHostPackages,
  type HostLock,
  type LayerLock,
  type LockedPackage,
  readLayerLock,
  requireDebian,
} from "./apt.ts";
import {
  type BaseSystem,
  buildAptLayer,
  buildBaseSystem,
  createBaseLock,
  createUnknownPackageError,
  findAptLayer,
  findBaseSystems,
  type AptLayerOptions as LayerOptions,
  readLayerLink,
  removeBuildTree,
  resolveLayerLock,
} from "./apt-layer.ts";
import { type IdRange, resolveIdRange } from "./id-range.ts";

export { type PackageFolders, resolvePackageFolders } from "../sandbox-folders.ts";
export type { HostLock, LayerLock, LockedPackage, PackageLock } from "./apt.ts";

type PackageRoot =
  | { kind: "none" }
  | { kind: "host"; lock: HostLock }
  | { kind: "layer"; root: string; lock: LayerLock }
  | ({ kind: "missing" } & Pick<Problem, "fix" | "commands">);

/**
 * Finds the root that a skill with these packages runs on. Read-only: takes milliseconds, builds nothing. Throws on an
 * invalid name.
 */
export function findPackageRoot(packages: readonly string[], packageFolders: PackageFolders): PackageRoot {
  const names = parsePackageSet(packages);
  if (names.length === 0) return { kind: "none" };
  const lock = findHostPackages(names);
  if (lock) return { kind: "host", lock };
  const debian = detectDebian();
  const layer = debian && findCurrentLayer(names, packageFolders, debian);
  if (layer) return { kind: "layer", ...layer };
  if (debian) return { kind: "missing", fix: "build them once", commands: ["skillet packages build"] };
  return { kind: "missing", ...getDebianFix() };
}

export interface PackagePlan {
  names: readonly string[];
  /** The root that already provides the packages, or `build`. */
  by: "none" | "host" | "layer" | "build";
  /** The packages of the base system, if it is not built yet. */
  base: readonly LockedPackage[];
  packages: readonly LockedPackage[];
  /** Bytes to fetch. */
  download: number;
}

interface PackageBuildOptions {
  onProgress?: ((text: string) => void) | undefined;
  signal?: AbortSignal | undefined;
  /** Checks the archive for newer versions, even if a layer exists. */
  update?: boolean;
}

/** Plans a build: returns the packages to fetch. Fetches only the package lists. */
export async function planPackages(
  packages: readonly string[],
  packageFolders: PackageFolders,
  options: PackageBuildOptions = {},
): Promise<PackagePlan> {
  const names = parsePackageSet(packages);
  const found = findPackageRoot(names, packageFolders);
  if (found.kind !== "missing" && (found.kind !== "layer" || !options.update))
    return { names, by: found.kind, base: [], packages: [], download: 0 };
  const debian = requireDebian();
  return withBuilderLock(packageFolders.own, createBuilderOptions(options), async (turn) => {
    const apt = await createUpdatedApt(packageFolders.own, debian, { ...options, turn });
    const base = findBaseSystems(packageFolders, debian)[0];
    const [system, wanted] = base
      ? [[], (await resolveLayerLock({ ...debian, base: base.id, names }, base, { ...options, apt })).packages]
      : await resolveWithBase(names, debian, { ...options, apt });
    const download = [...system, ...wanted].reduce((sum, { size }) => sum + size, 0);
    return { names, by: "build", base: system, packages: wanted, download };
  });
}

/**
 * Builds missing layers. Contract: the host's own packages stay unchanged, and a failed build leaves nothing behind.
 */
export async function buildPackages(
  packages: readonly string[],
  packageFolders: PackageFolders,
  options: PackageBuildOptions = {},
): Promise<Exclude<PackageRoot, { kind: "missing" }>> {
  const names = parsePackageSet(packages);
  const found = findPackageRoot(names, packageFolders);
  if (found.kind !== "missing" && (found.kind !== "layer" || !options.update)) return found;
  const debian = requireDebian();
  requireBuildTools();
  const range = resolveIdRange();
  const { onProgress: report = () => {}, signal } = options;
  return withBuilderLock(packageFolders.own, createBuilderOptions(options), async (turn) => {
    const built = options.update ? undefined : findCurrentLayer(names, packageFolders, debian); // Built by the process that held the lock.
    if (built) return { kind: "layer", ...built };
    const apt = await createUpdatedApt(packageFolders.own, debian, { ...options, turn });
    const shared = {
      packageFolder: packageFolders.own,
      range,
      apt,
      signal,
      onLine: createAptProgress(report, debian.arch),
    };
    const base =
      (!options.update && findBaseSystems(packageFolders, debian)[0]) ||
      (await buildNewBase(debian, { ...shared, report }));
    report(`resolving ${names.join(", ")}`);
    const lock = await resolveLayerLock({ ...debian, base: base.id, names }, base, { apt, signal });
    report(`installing ${lock.packages.map(({ name, version }) => `${name} ${version}`).join(", ") || "nothing more"}`);
    return { kind: "layer", ...(await buildAptLayer(lock, base, shared)) };
  });
}

export interface AptLayerSummary {
  names: readonly string[];
  suite: string;
  arch: string;
  root: string;
  /** Its size, without the files shared with its base. */
  bytes: number;
  built: string;
  /** True if a run with these packages uses this layer. */
  isCurrent: boolean;
  isOwn: boolean;
}

export function listAptLayers(packageFolders: PackageFolders): AptLayerSummary[] {
  const debian = detectDebian();
  return [packageFolders.own, packageFolders.shared].flatMap((packageFolder) =>
    packageFolder === undefined
      ? []
      : listNames(join(packageFolder, "layers")).flatMap((name) => {
          const folder = join(packageFolder, "layers", name);
          const lock = readLayerLock(folder);
          if (!lock) return [];
          const root = join(folder, "root");
          const isCurrent = debian !== undefined && findCurrentLayer(lock.names, packageFolders, debian)?.root === root;
          const { names, suite, arch } = lock;
          return [
            {
              names,
              suite,
              arch,
              root,
              ...readRootNotes(folder),
              isCurrent,
              isOwn: packageFolder === packageFolders.own,
            },
          ];
        }),
  );
}

export interface UnusedAptLayers {
  layers: AptLayerSummary[];
  /** The IDs of the bases. */
  bases: string[];
}

/** Finds the user's own layers that are not for these sets or were replaced, and bases that no layer uses. */
export function findUnusedLayers(
  packageFolders: PackageFolders,
  keepSets: readonly (readonly string[])[],
): UnusedAptLayers {
  const { own } = packageFolders;
  const kept = new Set(keepSets.map((names) => parsePackageSet(names).join(" ")));
  const layers = listAptLayers(packageFolders).filter(
    ({ names, isOwn, isCurrent }) => isOwn && (!isCurrent || !kept.has(names.join(" "))),
  );
  const gone = new Set(layers.map(({ root }) => dirname(root)));
  const staying = listNames(join(own, "layers")).map((name) => join(own, "layers", name));
  const used = new Set(staying.filter((folder) => !gone.has(folder)).map((folder) => readLayerLock(folder)?.base));
  const debian = detectDebian();
  const current = debian && readLayerLink(join(own, "bases", `${debian.suite}-${debian.arch}`));
  const bases = listNames(join(own, "bases")).filter(
    (id) => readLayerLink(join(own, "bases", id)) === undefined && id !== current && !used.has(id),
  );
  return { layers, bases };
}

/** Removes the layers that are not for these sets, and returns them. */
export async function pruneAptLayers(
  packageFolders: PackageFolders,
  keepSets: readonly (readonly string[])[],
): Promise<UnusedAptLayers> {
  const { own } = packageFolders;
  if (!existsSync(own)) return { layers: [], bases: [] };
  return withBuilderLock(own, { range: resolveIdRange }, async () => {
    const unused = findUnusedLayers(packageFolders, keepSets);
    for (const { root } of unused.layers) await removeBuildTree(dirname(root), resolveIdRange);
    for (const key of listNames(join(own, "sets"))) {
      const target = readLayerLink(join(own, "sets", key));
      if (target === undefined || !existsSync(join(own, "layers", target))) rmSync(join(own, "sets", key));
    }
    for (const id of unused.bases) await removeBuildTree(join(own, "bases", id), resolveIdRange);
    return unused;
  });
}

function findCurrentLayer(names: readonly string[], packageFolders: PackageFolders, debian: DebianHost) {
  const bases = findBaseSystems(packageFolders, debian);
  for (const { id } of bases) {
    for (const packageFolder of [packageFolders.own, packageFolders.shared]) {
      const layer =
        packageFolder === undefined ? undefined : findAptLayer(packageFolder, { ...debian, base: id, names });
      if (layer) return layer;
    }
  }
  return undefined;
}

async function createUpdatedApt(
  packageFolder: string,
  debian: DebianHost,
  options: PackageBuildOptions & { turn: number },
): Promise<Apt> {
  requireFreeSpace(packageFolder);
  const apt = createApt(packageFolder, debian, options.turn);
  options.onProgress?.("reading the package lists");
  await apt.update({ signal: options.signal, force: options.update ?? false });
  return apt;
}

/** On a full disk apt waits forever. The package lists and a base alone take more than this. */
function requireFreeSpace(packageFolder: string): void {
  const { bavail, bsize } = statfsSync(packageFolder);
  if (bavail * bsize >= MIN_FREE_BYTES) return;
  throw new SkillError("package-disk-space", {
    message: `not enough disk space to build system packages in ${packageFolder}: ${Math.floor((bavail * bsize) / MIB)} MiB are free`,
    fix: `free ${MIN_FREE_BYTES / MIB} MiB, or set SKILLET_PACKAGES to another folder`,
  });
}

const MIB = 1024 * 1024;
const MIN_FREE_BYTES = 256 * MIB;

interface BaseOptions extends LayerOptions {
  report(text: string): void;
}

async function buildNewBase(debian: DebianHost, { report, ...options }: BaseOptions): Promise<BaseSystem> {
  const packages = await options.apt.resolve("base", undefined, options);
  report(`building the base system of ${debian.suite}: ${packages.length} packages, once`);
  return buildBaseSystem(createBaseLock(debian, packages), options);
}

/** Resolves the base and a set together, as they would be installed. */
async function resolveWithBase(
  names: readonly string[],
  debian: DebianHost,
  { apt, signal }: { apt: Apt; signal?: AbortSignal | undefined },
): Promise<[LockedPackage[], LockedPackage[]]> {
  const system = await apt.resolve("base", undefined, { signal });
  const all = await apt.resolve(names, undefined, { signal });
  const missing = names.filter((name) => !all.some((entry) => entry.name === name));
  if (missing.length > 0) throw createUnknownPackageError(missing, debian.suite);
  const has = new Set(system.map(({ name }) => name));
  return [system, all.filter(({ name }) => !has.has(name)).sort((a, b) => compareText(a.name, b.name))];
}

function createBuilderOptions({ onProgress, signal }: PackageBuildOptions) {
  return { range: resolveIdRange, signal, onWait: () => onProgress?.("waiting for another build to finish") };
}

function requireBuildTools(): void {
  const mapping = isRoot() ? [] : ["newuidmap", "newgidmap"];
  const needed = ["bwrap", "flock", "setpriv", "perl", "dpkg-deb", ...mapping];
  const missing = needed.filter((program) => findSystemProgram(program) === undefined);
  if (missing.length === 0) return;
  throw new SkillError("package-tools", {
    message: `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not installed, and building system packages needs ${missing.length === 1 ? "it" : "them"}`,
    fix: "to install missing programs",
    commands: ["skillet doctor --fix"],
  });
}

function getDebianFix(): Pick<Problem, "fix" | "commands"> {
  try {
    requireDebian();
    return { fix: "" };
  } catch (error) {
    const { fix, commands } = (error as SkillError).problem;
    return { fix, ...(commands ? { commands } : {}) };
  }
}

function readRootNotes(folder: string): { bytes: number; built: string } {
  try {
    return JSON.parse(readRegularText(join(folder, "layer.json")));
  } catch {
    return { bytes: 0, built: "" };
  }
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder).sort(compareText);
  } catch {
    return [];
  }
}

const MAX_PACKAGES = 32;

/**
 * Parses the names of a skill's `packages` as a set: each once, sorted. Throws if apt would not treat one as a plain
 * name.
 */
export function parsePackageSet(names: readonly string[]): string[] {
  const bad = names.find((name) => !isSystemPackageName(name));
  if (bad !== undefined) {
    throw new SkillError("package-name", {
      message: `'${truncateLine(bad, 80)}' is not a system package name`,
      fix: "`packages` takes exact names such as `jq` or `g++`: 2 to 64 lower-case letters, digits, `+`, `.` and `-`; no version, pattern, path or option",
    });
  }
  const set = [...new Set(names)].sort(compareText);
  if (set.length > MAX_PACKAGES) {
    throw new SkillError("package-limit", {
      message: `${set.length} system packages exceed the limit of ${MAX_PACKAGES} per skill`,
      fix: "list only the programs that the skill's scripts call: dependencies are installed automatically",
    });
  }
  return set;
}

interface BuilderOptions {
  range: () => IdRange;
  signal?: AbortSignal | undefined;
  onWait?: () => void;
}

/**
 * Runs `work` as the only builder in a package folder. The lock is released when this process and every program that
 * inherited the lock have exited.
 */
export async function withBuilderLock<Value>(
  packageFolder: string,
  options: BuilderOptions,
  work: (turn: number) => Promise<Value>,
): Promise<Value> {
  makePackageFolder(packageFolder);
  // Opened for reading too, so that a pipe at this path does not block.
  const turn = openSync(join(packageFolder, "lock"), constants.O_RDWR | constants.O_CREAT);
  try {
    await acquireBuilderLock(turn, options);
    // This process is the only builder now: anything here is from a killed build.
    for (const name of readdirSync(join(packageFolder, "staging")))
      await removeBuildTree(join(packageFolder, "staging", name), options.range);
    return await work(turn);
  } finally {
    closeSync(turn);
  }
}

/**
 * Locks the open file. The kernel keeps the lock while any process has the file open; the program that requested it
 * exits.
 */
async function acquireBuilderLock(turn: number, { signal, onWait }: BuilderOptions): Promise<void> {
  const waiting = setTimeout(() => onWait?.(), 500);
  try {
    const { code, tail } = await runProgram("flock", [String(TURN_DESCRIPTOR)], { signal, turn });
    if (code !== 0) throw new Error(`the build lock could not be acquired: ${tail}`);
  } finally {
    clearTimeout(waiting);
  }
}

/** Reports progress from the lines of apt and dpkg, each once: apt gets fetched files again from its cache. */
export function createAptProgress(report: (text: string) => void, arch: string): (line: string) => void {
  const reported = new Set<string>();
  return (line) => {
    const text = parseFetchedLine(line, arch) ?? parseSetUpLine(line);
    if (text === undefined || reported.has(text)) return;
    reported.add(text);
    report(text);
  };
}

/** `Get:1 http://deb.debian.org/debian bookworm/main amd64 hello amd64 2.10-3 [53.1 kB]`; some archives have no suite, some lines no architecture. */
function parseFetchedLine(line: string, arch: string): string | undefined {
  if (!/^Get:\d+ /.test(line)) return undefined;
  const words = line
    .replace(/ \[[^\]]*\]$/, "")
    .split(/\s+/)
    .slice(2); // Without the number and the address.
  const version = words.pop();
  if (words.at(-1) === arch || words.at(-1) === "all") words.pop();
  const name = words.pop();
  return name === undefined ? undefined : `fetching ${name} ${version}`;
}

/** `Setting up libhello1:amd64 (2.10-3) ...` */
function parseSetUpLine(line: string): string | undefined {
  const [, name, version] = /^Setting up ([^\s:]+)\S* \(([^)]+)\)/.exec(line) ?? [];
  return name === undefined ? undefined : `setting up ${name} ${version}`;
}
