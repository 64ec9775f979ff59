import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../../shared/error.ts";
import type { Apt } from "./apt.ts";
import { type Base, linkTarget, pointTo, publish } from "./base.ts";
import { debName, hashOf, type LayerLock, lockText, readLock, setKey } from "./lock.ts";
import { areTrusted } from "./place.ts";
import { type Range, runInRange } from "./range.ts";
import type { RunOptions } from "./run.ts";
import { expectFine, hostPrograms, removeTree, stagingFolder, tidy } from "./tree.ts";

/** A root with a set of packages, ready to be mounted. */
export interface Layer {
  root: string;
  lock: LayerLock;
}

export interface BuildOptions extends RunOptions {
  place: string;
  range: Range;
  apt: Apt;
}

type PackageSet = Pick<LayerLock, "suite" | "arch" | "base" | "names">;

/** The layer of a set in a place, unless somebody else could have changed it. */
export function findLayer(place: string, set: PackageSet): Layer | undefined {
  const name = linkTarget(join(place, "sets", setKey(set)));
  if (name === undefined) return undefined;
  const folder = join(place, "layers", name);
  const root = join(folder, "root");
  if (!areTrusted(place, join(place, "sets"), join(place, "layers"), folder, root)) return undefined;
  const lock = readLock(folder);
  return lock && { root, lock };
}

/** Resolves a set on a base, to exact packages. */
export async function layerLock(
  set: PackageSet,
  base: Base,
  { apt, signal }: RunOptions & { apt: Apt },
): Promise<LayerLock> {
  const packages = await apt.resolve(set.names, base.root, { signal });
  const installed = readdirSync(join(base.root, "var/lib/dpkg/info"));
  const isThere = (name: string) =>
    packages.some((entry) => entry.name === name) ||
    installed.some((file) => file === `${name}.list` || file === `${name}:${set.arch}.list`);
  const missing = set.names.filter((name) => !isThere(name));
  if (missing.length > 0) throw unknown(missing, set.suite);
  return { kind: "layer", suite: set.suite, arch: set.arch, base: base.id, names: set.names, packages };
}

export function unknown(names: readonly string[], suite: string): SkillError {
  return new SkillError("package-unresolved", {
    message: `there is no system package ${names.join(", ")} in ${suite}`,
    fix: "check the names with `apt-cache policy NAME`: they are those of the host's own release",
  });
}

/** Fetches what the lock says and installs it into a copy of the base. */
export async function buildLayer(lock: LayerLock, base: Base, options: BuildOptions): Promise<Layer> {
  const { apt, place } = options;
  const name = `${setKey(lock)}-${hashOf(lockText(lock)).slice(0, 16)}`;
  const link = join(place, "sets", setKey(lock));
  const finished = join(place, "layers", name);
  if (!existsSync(finished)) {
    try {
      const debs = await apt.fetch(lock.names, base.root, { ...options, lock: lock.packages });
      const files = lock.packages.map((entry) => join(debs, debName(entry)));
      await installInto(finished, files, { ...options, base, lock });
    } finally {
      apt.clean();
    }
  }
  pointTo(link, name);
  return { root: join(finished, "root"), lock };
}

/** Installs debs into a copy of a base, with no network, and puts it in its place when all of it went well. */
export async function installInto(
  finished: string,
  debs: readonly string[],
  options: Omit<BuildOptions, "apt"> & { base: Base; lock: LayerLock },
): Promise<void> {
  const { base, range, place } = options;
  const staging = stagingFolder(place, `layer-${process.pid}`, range);
  try {
    const root = join(staging, "root");
    const copying = [...hostPrograms(), "--bind", staging, "/mnt", "--ro-bind", base.root, "/media"];
    expectFine(await runInRange(copying, ["/bin/sh", "-c", COPY], options), "the base could not be copied");
    const given = debs.flatMap((deb, index) => ["--ro-bind", deb, `/run/debs/${index}.deb`]);
    const inside = ["--bind", root, "/", "--tmpfs", "/tmp", "--tmpfs", "/run", "--dir", "/run/lock", ...given];
    if (debs.length > 0)
      expectFine(await runInRange(inside, ["/bin/sh", "-c", INSTALL], options), "a package could not be installed");
    const shared = base.place === place ? { base: base.root } : {};
    const { bytes } = await tidy(root, { range, place, isOpen: false, signal: options.signal, ...shared });
    writeFileSync(join(staging, "layer.json"), JSON.stringify({ bytes, built: new Date().toISOString() }));
    publish(staging, finished, options.lock, range);
  } finally {
    await removeTree(staging, () => range);
  }
}

const COPY = `set -eu; umask 022
mkdir /mnt/root
cp -dR --preserve=mode,timestamps,links --reflink=auto /media/. /mnt/root
chmod 1777 /mnt/root/var/tmp
`;

// No lists are there and no network is: what is not among the given files cannot be had.
const INSTALL = `set -eu; umask 022
apt-get -q -o APT::Sandbox::User=root -o APT::Install-Recommends=false install -y --allow-downgrades --no-remove /run/debs/*.deb
rm -rf /var/log/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/cache/apt/*.bin /var/cache/ldconfig
`;
