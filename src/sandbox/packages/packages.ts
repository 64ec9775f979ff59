import { existsSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { systemProgram } from "../../host/programs.ts";
import { SkillError } from "../../shared/error.ts";
import { readRegularText } from "../../shared/regular-file.ts";
import { byText } from "../../shared/text.ts";
import { isRoot } from "../places.ts";
import { type Apt, openApt } from "./apt.ts";
import { type Base, baseLock, buildBase, findBases, linkTarget } from "./base.ts";
import { asBuilder } from "./builder.ts";
import { type Debian, debianHere, onHost, requireDebian } from "./host.ts";
import { buildLayer, findLayer, type BuildOptions as LayerOptions, layerLock, unknown } from "./layer.ts";
import { type HostLock, type LayerLock, type LockedPackage, readLock } from "./lock.ts";
import { packageSet } from "./name.ts";
import type { Places } from "./place.ts";
import { progressOf } from "./progress.ts";
import { rangeOf } from "./range.ts";
import { removeTree } from "./tree.ts";

export type { HostLock, LayerLock, Lock, LockedPackage } from "./lock.ts";
export { defaultPlaces, type Places } from "./place.ts";

export type Root =
  | { kind: "none" }
  | { kind: "host"; lock: HostLock }
  | { kind: "layer"; root: string; lock: LayerLock }
  | { kind: "missing"; fix: string };

/** The root that a skill with these packages runs on. Looks only: takes milliseconds, builds nothing. Throws at a bad name. */
export function findRoot(packages: readonly string[], places: Places): Root {
  const names = packageSet(packages);
  if (names.length === 0) return { kind: "none" };
  const lock = onHost(names);
  if (lock) return { kind: "host", lock };
  const debian = debianHere();
  const layer = debian && layerOf(names, places, debian);
  if (layer) return { kind: "layer", ...layer };
  return { kind: "missing", fix: debian ? `build them once: \`skillet packages build\`` : requireFix() };
}

export interface Plan {
  names: readonly string[];
  /** What serves already, or how it would be had. */
  by: "none" | "host" | "layer" | "build";
  /** The base system, when there is none yet. */
  base: readonly LockedPackage[];
  packages: readonly LockedPackage[];
  /** Bytes to fetch. */
  download: number;
}

export interface BuildOptions {
  onProgress?: ((text: string) => void) | undefined;
  signal?: AbortSignal | undefined;
  /** Ask the archive for newer versions, also of what is built already. */
  update?: boolean;
}

/** What building would fetch. Fetches the lists of packages, and nothing else. */
export async function planPackages(
  packages: readonly string[],
  places: Places,
  options: BuildOptions = {},
): Promise<Plan> {
  const names = packageSet(packages);
  const found = findRoot(names, places);
  if (found.kind !== "missing" && (found.kind !== "layer" || !options.update))
    return { names, by: found.kind, base: [], packages: [], download: 0 };
  const debian = requireDebian();
  return asBuilder(places.own, waiting(options), async (turn) => {
    const apt = await openUpdated(places.own, debian, { ...options, turn });
    const base = findBases(places, debian)[0];
    const [system, wanted] = base
      ? [[], (await layerLock({ ...debian, base: base.id, names }, base, { ...options, apt })).packages]
      : await withoutBase(names, debian, { ...options, apt });
    const download = [...system, ...wanted].reduce((sum, { size }) => sum + size, 0);
    return { names, by: "build", base: system, packages: wanted, download };
  });
}

/** Builds what is not built yet. Contract: the host's own packages stay as they are, and nothing is left of what failed. */
export async function buildPackages(
  packages: readonly string[],
  places: Places,
  options: BuildOptions = {},
): Promise<Exclude<Root, { kind: "missing" }>> {
  const names = packageSet(packages);
  const found = findRoot(names, places);
  if (found.kind !== "missing" && (found.kind !== "layer" || !options.update)) return found;
  const debian = requireDebian();
  requireTools();
  const range = rangeOf();
  const { onProgress: say = () => {}, signal } = options;
  return asBuilder(places.own, waiting(options), async (turn) => {
    const built = options.update ? undefined : layerOf(names, places, debian); // By whom we waited for.
    if (built) return { kind: "layer", ...built };
    const apt = await openUpdated(places.own, debian, { ...options, turn });
    const shared = { place: places.own, range, apt, signal, onLine: progressOf(say, debian.arch) };
    const base = (!options.update && findBases(places, debian)[0]) || (await newBase(debian, { ...shared, say }));
    say(`resolving ${names.join(", ")}`);
    const lock = await layerLock({ ...debian, base: base.id, names }, base, { apt, signal });
    say(`installing ${lock.packages.map(({ name, version }) => `${name} ${version}`).join(", ") || "nothing more"}`);
    return { kind: "layer", ...(await buildLayer(lock, base, shared)) };
  });
}

export interface LayerSummary {
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

export function listLayers(places: Places): LayerSummary[] {
  const debian = debianHere();
  return [places.own, places.shared].flatMap((place) =>
    place === undefined
      ? []
      : namesIn(join(place, "layers")).flatMap((name) => {
          const folder = join(place, "layers", name);
          const lock = readLock(folder);
          if (!lock) return [];
          const root = join(folder, "root");
          const isCurrent = debian !== undefined && layerOf(lock.names, places, debian)?.root === root;
          const { names, suite, arch } = lock;
          return [{ names, suite, arch, root, ...notesOf(folder), isCurrent, isOwn: place === places.own }];
        }),
  );
}

export interface Unused {
  layers: LayerSummary[];
  /** Their ids. */
  bases: string[];
}

/** What of the own place is not for these sets: layers of others and those that newer ones replaced, and bases that nothing stands on. */
export function unusedLayers(places: Places, keepSets: readonly (readonly string[])[]): Unused {
  const { own } = places;
  const kept = new Set(keepSets.map((names) => packageSet(names).join(" ")));
  const layers = listLayers(places).filter(
    ({ names, isOwn, isCurrent }) => isOwn && (!isCurrent || !kept.has(names.join(" "))),
  );
  const gone = new Set(layers.map(({ root }) => dirname(root)));
  const staying = namesIn(join(own, "layers")).map((name) => join(own, "layers", name));
  const used = new Set(staying.filter((folder) => !gone.has(folder)).map((folder) => readLock(folder)?.base));
  const debian = debianHere();
  const current = debian && linkTarget(join(own, "bases", `${debian.suite}-${debian.arch}`));
  const bases = namesIn(join(own, "bases")).filter(
    (id) => linkTarget(join(own, "bases", id)) === undefined && id !== current && !used.has(id),
  );
  return { layers, bases };
}

/** Removes what is not for these sets, and says what that was. */
export async function pruneLayers(places: Places, keepSets: readonly (readonly string[])[]): Promise<Unused> {
  const { own } = places;
  if (!existsSync(own)) return { layers: [], bases: [] };
  return asBuilder(own, { range: rangeOf }, async () => {
    const unused = unusedLayers(places, keepSets);
    for (const { root } of unused.layers) await removeTree(dirname(root), rangeOf);
    for (const key of namesIn(join(own, "sets"))) {
      const target = linkTarget(join(own, "sets", key));
      if (target === undefined || !existsSync(join(own, "layers", target))) rmSync(join(own, "sets", key));
    }
    for (const id of unused.bases) await removeTree(join(own, "bases", id), rangeOf);
    return unused;
  });
}

function layerOf(names: readonly string[], places: Places, debian: Debian) {
  const bases = findBases(places, debian);
  for (const { id } of bases) {
    for (const place of [places.own, places.shared]) {
      const layer = place === undefined ? undefined : findLayer(place, { ...debian, base: id, names });
      if (layer) return layer;
    }
  }
  return undefined;
}

async function openUpdated(place: string, debian: Debian, options: BuildOptions & { turn: number }): Promise<Apt> {
  requireRoom(place);
  const apt = openApt(place, debian, options.turn);
  options.onProgress?.("reading the lists of packages");
  await apt.update({ signal: options.signal, force: options.update ?? false });
  return apt;
}

/** On a full disk apt waits for ever. The lists of packages alone, and a base, take more than this. */
function requireRoom(place: string): void {
  const { bavail, bsize } = statfsSync(place);
  if (bavail * bsize >= LEAST_ROOM) return;
  throw new SkillError("package-room", {
    message: `there is no room to build system packages in ${place}: ${Math.floor((bavail * bsize) / MIB)} MiB are free`,
    fix: `make ${LEAST_ROOM / MIB} MiB of room, or name another folder in SKILLET_PACKAGES`,
  });
}

const MIB = 1024 * 1024;
const LEAST_ROOM = 256 * MIB;

interface BaseOptions extends LayerOptions {
  say(text: string): void;
}

async function newBase(debian: Debian, { say, ...options }: BaseOptions): Promise<Base> {
  const packages = await options.apt.resolve("base", undefined, options);
  say(`making the base system of ${debian.suite}: ${packages.length} packages, once`);
  return buildBase(baseLock(debian, packages), options);
}

/** Resolves the base and a set at once: together they are what would be there. */
async function withoutBase(
  names: readonly string[],
  debian: Debian,
  { apt, signal }: { apt: Apt; signal?: AbortSignal | undefined },
): Promise<[LockedPackage[], LockedPackage[]]> {
  const system = await apt.resolve("base", undefined, { signal });
  const all = await apt.resolve(names, undefined, { signal });
  const missing = names.filter((name) => !all.some((entry) => entry.name === name));
  if (missing.length > 0) throw unknown(missing, debian.suite);
  const has = new Set(system.map(({ name }) => name));
  return [system, all.filter(({ name }) => !has.has(name)).sort((a, b) => byText(a.name, b.name))];
}

function waiting({ onProgress, signal }: BuildOptions) {
  return { range: rangeOf, signal, onWait: () => onProgress?.("waiting for another build to end") };
}

function requireTools(): void {
  const mapping = isRoot() ? [] : ["newuidmap", "newgidmap"];
  const needed = ["bwrap", "flock", "setpriv", "perl", "dpkg-deb", ...mapping];
  const missing = needed.filter((program) => systemProgram(program) === undefined);
  if (missing.length === 0) return;
  throw new SkillError("package-tools", {
    message: `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} needed to build system packages, and not on this machine`,
    fix: "`skillet doctor --fix` installs what is missing",
  });
}

function requireFix(): string {
  try {
    requireDebian();
    return "";
  } catch (error) {
    return (error as SkillError).fix ?? "";
  }
}

function notesOf(folder: string): { bytes: number; built: string } {
  try {
    return JSON.parse(readRegularText(join(folder, "layer.json")));
  } catch {
    return { bytes: 0, built: "" };
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort(byText);
  } catch {
    return [];
  }
}
