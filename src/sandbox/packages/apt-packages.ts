import { closeSync, constants, existsSync, openSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { isSystemPackageName } from "../../skill/requirements.ts";
import { readRegularText } from "../../util/file-access.ts";
import { findSystemProgram } from "../../util/system.ts";
import { compareText, truncateLine } from "../../util/text.ts";
import { runProgram, TURN_DESCRIPTOR } from "../run-program.ts";
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
  | { kind: "missing"; fix: string };

/** The root that a skill with these packages runs on. Looks only: takes milliseconds, builds nothing. Throws at a bad name. */
export function findPackageRoot(packages: readonly string[], places: PackageFolders): PackageRoot {
  const names = parsePackageSet(packages);
  if (names.length === 0) return { kind: "none" };
  const lock = findHostPackages(names);
  if (lock) return { kind: "host", lock };
  const debian = detectDebian();
  const layer = debian && findCurrentLayer(names, places, debian);
  if (layer) return { kind: "layer", ...layer };
  return { kind: "missing", fix: debian ? `build them once: \`skillet packages build\`` : getDebianFix() };
}

export interface PackagePlan {
  names: readonly string[];
  /** What serves already, or how it would be had. */
  by: "none" | "host" | "layer" | "build";
  /** The base system, when there is none yet. */
  base: readonly LockedPackage[];
  packages: readonly LockedPackage[];
  /** Bytes to fetch. */
  download: number;
}

interface PackageBuildOptions {
  onProgress?: ((text: string) => void) | undefined;
  signal?: AbortSignal | undefined;
  /** Ask the archive for newer versions, also of what is built already. */
  update?: boolean;
}

/** What building would fetch. Fetches the lists of packages, and nothing else. */
export async function planPackages(
  packages: readonly string[],
  places: PackageFolders,
  options: PackageBuildOptions = {},
): Promise<PackagePlan> {
  const names = parsePackageSet(packages);
  const found = findPackageRoot(names, places);
  if (found.kind !== "missing" && (found.kind !== "layer" || !options.update))
    return { names, by: found.kind, base: [], packages: [], download: 0 };
  const debian = requireDebian();
  return withBuilderLock(places.own, createBuilderOptions(options), async (turn) => {
    const apt = await createUpdatedApt(places.own, debian, { ...options, turn });
    const base = findBaseSystems(places, debian)[0];
    const [system, wanted] = base
      ? [[], (await resolveLayerLock({ ...debian, base: base.id, names }, base, { ...options, apt })).packages]
      : await resolveWithBase(names, debian, { ...options, apt });
    const download = [...system, ...wanted].reduce((sum, { size }) => sum + size, 0);
    return { names, by: "build", base: system, packages: wanted, download };
  });
}

/** Builds what is not built yet. Contract: the host's own packages stay as they are, and nothing is left of what failed. */
export async function buildPackages(
  packages: readonly string[],
  places: PackageFolders,
  options: PackageBuildOptions = {},
): Promise<Exclude<PackageRoot, { kind: "missing" }>> {
  const names = parsePackageSet(packages);
  const found = findPackageRoot(names, places);
  if (found.kind !== "missing" && (found.kind !== "layer" || !options.update)) return found;
  const debian = requireDebian();
  requireBuildTools();
  const range = resolveIdRange();
  const { onProgress: say = () => {}, signal } = options;
  return withBuilderLock(places.own, createBuilderOptions(options), async (turn) => {
    const built = options.update ? undefined : findCurrentLayer(names, places, debian); // By whom we waited for.
    if (built) return { kind: "layer", ...built };
    const apt = await createUpdatedApt(places.own, debian, { ...options, turn });
    const shared = { place: places.own, range, apt, signal, onLine: createAptProgress(say, debian.arch) };
    const base =
      (!options.update && findBaseSystems(places, debian)[0]) || (await buildNewBase(debian, { ...shared, say }));
    say(`resolving ${names.join(", ")}`);
    const lock = await resolveLayerLock({ ...debian, base: base.id, names }, base, { apt, signal });
    say(`installing ${lock.packages.map(({ name, version }) => `${name} ${version}`).join(", ") || "nothing more"}`);
    return { kind: "layer", ...(await buildAptLayer(lock, base, shared)) };
  });
}

export interface AptLayerSummary {
  names: readonly string[];
  suite: string;
  arch: string;
  root: string;
  /** What it takes, beside what it shares with its base. */
  bytes: number;
  built: string;
  /** Whether a run with these packages gets this one. */
  isCurrent: boolean;
  isOwn: boolean;
}

export function listAptLayers(places: PackageFolders): AptLayerSummary[] {
  const debian = detectDebian();
  return [places.own, places.shared].flatMap((place) =>
    place === undefined
      ? []
      : listNames(join(place, "layers")).flatMap((name) => {
          const folder = join(place, "layers", name);
          const lock = readLayerLock(folder);
          if (!lock) return [];
          const root = join(folder, "root");
          const isCurrent = debian !== undefined && findCurrentLayer(lock.names, places, debian)?.root === root;
          const { names, suite, arch } = lock;
          return [{ names, suite, arch, root, ...readRootNotes(folder), isCurrent, isOwn: place === places.own }];
        }),
  );
}

export interface UnusedAptLayers {
  layers: AptLayerSummary[];
  /** Their ids. */
  bases: string[];
}

/** What of the own place is not for these sets: layers of others and those that newer ones replaced, and bases that nothing stands on. */
export function findUnusedLayers(places: PackageFolders, keepSets: readonly (readonly string[])[]): UnusedAptLayers {
  const { own } = places;
  const kept = new Set(keepSets.map((names) => parsePackageSet(names).join(" ")));
  const layers = listAptLayers(places).filter(
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

/** Removes what is not for these sets, and says what that was. */
export async function pruneAptLayers(
  places: PackageFolders,
  keepSets: readonly (readonly string[])[],
): Promise<UnusedAptLayers> {
  const { own } = places;
  if (!existsSync(own)) return { layers: [], bases: [] };
  return withBuilderLock(own, { range: resolveIdRange }, async () => {
    const unused = findUnusedLayers(places, keepSets);
    for (const { root } of unused.layers) await removeBuildTree(dirname(root), resolveIdRange);
    for (const key of listNames(join(own, "sets"))) {
      const target = readLayerLink(join(own, "sets", key));
      if (target === undefined || !existsSync(join(own, "layers", target))) rmSync(join(own, "sets", key));
    }
    for (const id of unused.bases) await removeBuildTree(join(own, "bases", id), resolveIdRange);
    return unused;
  });
}

function findCurrentLayer(names: readonly string[], places: PackageFolders, debian: DebianHost) {
  const bases = findBaseSystems(places, debian);
  for (const { id } of bases) {
    for (const place of [places.own, places.shared]) {
      const layer = place === undefined ? undefined : findAptLayer(place, { ...debian, base: id, names });
      if (layer) return layer;
    }
  }
  return undefined;
}

async function createUpdatedApt(
  place: string,
  debian: DebianHost,
  options: PackageBuildOptions & { turn: number },
): Promise<Apt> {
  requireFreeSpace(place);
  const apt = createApt(place, debian, options.turn);
  options.onProgress?.("reading the lists of packages");
  await apt.update({ signal: options.signal, force: options.update ?? false });
  return apt;
}

/** On a full disk apt waits for ever. The lists of packages alone, and a base, take more than this. */
function requireFreeSpace(place: string): void {
  const { bavail, bsize } = statfsSync(place);
  if (bavail * bsize >= MIN_FREE_BYTES) return;
  throw new SkillError("package-room", {
    message: `there is no room to build system packages in ${place}: ${Math.floor((bavail * bsize) / MIB)} MiB are free`,
    fix: `make ${MIN_FREE_BYTES / MIB} MiB of room, or name another folder in SKILLET_PACKAGES`,
  });
}

const MIB = 1024 * 1024;
const MIN_FREE_BYTES = 256 * MIB;

interface BaseOptions extends LayerOptions {
  say(text: string): void;
}

async function buildNewBase(debian: DebianHost, { say, ...options }: BaseOptions): Promise<BaseSystem> {
  const packages = await options.apt.resolve("base", undefined, options);
  say(`making the base system of ${debian.suite}: ${packages.length} packages, once`);
  return buildBaseSystem(createBaseLock(debian, packages), options);
}

/** Resolves the base and a set at once: together they are what would be there. */
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
  return { range: resolveIdRange, signal, onWait: () => onProgress?.("waiting for another build to end") };
}

function requireBuildTools(): void {
  const mapping = isRoot() ? [] : ["newuidmap", "newgidmap"];
  const needed = ["bwrap", "flock", "setpriv", "perl", "dpkg-deb", ...mapping];
  const missing = needed.filter((program) => findSystemProgram(program) === undefined);
  if (missing.length === 0) return;
  throw new SkillError("package-tools", {
    message: `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} needed to build system packages, and not on this machine`,
    fix: "`skillet doctor --fix` installs what is missing",
  });
}

function getDebianFix(): string {
  try {
    requireDebian();
    return "";
  } catch (error) {
    return (error as SkillError).fix ?? "";
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

/** The names of a skill's `packages` as a set: each once, in order. Throws at one that apt would not take as a plain name. */
export function parsePackageSet(names: readonly string[]): string[] {
  const bad = names.find((name) => !isSystemPackageName(name));
  if (bad !== undefined) {
    throw new SkillError("package-name", {
      message: `'${truncateLine(bad, 80)}' is not the name of a system package`,
      fix: "`packages` takes exact names, as `jq` or `g++`: two to 64 lower-case letters, digits, `+`, `.` and `-`; no version, pattern, path or option",
    });
  }
  const set = [...new Set(names)].sort(compareText);
  if (set.length > MAX_PACKAGES) {
    throw new SkillError("package-count", {
      message: `${set.length} system packages are more than the ${MAX_PACKAGES} that a skill may ask for`,
      fix: "name only what the skill's scripts call: what a package needs itself comes with it",
    });
  }
  return set;
}

interface BuilderOptions {
  range: () => IdRange;
  signal?: AbortSignal | undefined;
  onWait?: () => void;
}

/** Does something as the only builder of a place. The turn is over when this process has ended, however that is, and all that it gave it to. */
export async function withBuilderLock<Value>(
  place: string,
  options: BuilderOptions,
  work: (turn: number) => Promise<Value>,
): Promise<Value> {
  makePackageFolder(place);
  // Read too, so that a pipe in its place is not waited for.
  const turn = openSync(join(place, "lock"), constants.O_RDWR | constants.O_CREAT);
  try {
    await acquireBuilderLock(turn, options);
    // Nobody else builds now: what lies here is of a build that was killed.
    for (const name of readdirSync(join(place, "staging")))
      await removeBuildTree(join(place, "staging", name), options.range);
    return await work(turn);
  } finally {
    closeSync(turn);
  }
}

/** Locks the file that is open here. The kernel keeps the lock while anybody has it open; the program that asked for it has not. */
async function acquireBuilderLock(turn: number, { signal, onWait }: BuilderOptions): Promise<void> {
  const waiting = setTimeout(() => onWait?.(), 500);
  try {
    const { code, tail } = await runProgram("flock", [String(TURN_DESCRIPTOR)], { signal, turn });
    if (code !== 0) throw new Error(`the lock of the builder cannot be had: ${tail}`);
  } finally {
    clearTimeout(waiting);
  }
}

/** Says how far it is, from the lines of apt and dpkg. Each thing once: what was fetched is got again from where it was put. */
export function createAptProgress(say: (text: string) => void, arch: string): (line: string) => void {
  const said = new Set<string>();
  return (line) => {
    const text = parseFetchedLine(line, arch) ?? parseSetUpLine(line);
    if (text === undefined || said.has(text)) return;
    said.add(text);
    say(text);
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
