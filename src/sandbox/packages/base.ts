import {
  chmodSync,
  chownSync,
  existsSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Apt } from "./apt.ts";
import type { Debian } from "./host.ts";
import { hashOf, type LayerLock, type LockedPackage, lockText } from "./lock.ts";
import { areTrusted, type Places } from "./place.ts";
import { type Range, runInRange } from "./range.ts";
import type { RunOptions } from "./run.ts";
import { expectFine, hostPrograms, linksToUsr, removeTree, stagingFolder, tidy } from "./tree.ts";

/** A minimal system of one release, that layers are copies of. */
export interface Base {
  id: string;
  root: string;
  /** The place it is in. */
  place: string;
}

/** The newest base in each place. */
export function findBases({ own, shared }: Places, { suite, arch }: Debian): Base[] {
  return [own, shared].flatMap((place) => {
    if (place === undefined) return [];
    const id = linkTarget(join(place, "bases", `${suite}-${arch}`));
    const folder = id === undefined ? "" : join(place, "bases", id);
    const root = join(folder, "root");
    if (id === undefined || !areTrusted(place, join(place, "bases"), folder, root)) return [];
    if (!MOUNT_POINTS.every((point) => existsSync(join(root, point)))) return []; // Made by an older version.
    return [{ id, place, root }];
  });
}

/** Where a link of ours points: a name beside it, or nothing. */
export function linkTarget(link: string): string | undefined {
  try {
    const target = readlinkSync(link);
    return /^[a-z0-9-]+$/.test(target) ? target : undefined;
  } catch {
    return undefined;
  }
}

/** Puts `target` where `link` says, in one step. */
export function pointTo(link: string, target: string): void {
  const made = `${link}.${process.pid}`;
  rmSync(made, { force: true });
  symlinkSync(target, made);
  renameSync(made, link);
}

/** Where the sandbox mounts things: the root itself is read-only. */
export const MOUNT_POINTS = [
  ...["/skill", "/workspace", "/node_modules", "/home/skill", "/opt/skillet", "/proc", "/dev", "/tmp", "/run", "/sys"],
  ...["/mnt", "/usr/share/man/man1", "/usr/share/man/man7"],
];
const MOUNT_FILES = "/etc/hosts /etc/hostname /etc/resolv.conf /etc/machine-id";
const UNWANTED = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*"];

/** The lock of a base is all that it is: what a base is named after. */
export function baseLock(debian: Debian, packages: readonly LockedPackage[]): LayerLock {
  return { kind: "layer", ...debian, base: undefined, names: [], packages };
}

/** Builds a base from these packages. mmdebstrap would run their scripts as the host's root, when called by it. */
export async function buildBase(lock: LayerLock, options: RunOptions & { place: string; range: Range; apt: Apt }) {
  const { place, range, apt } = options;
  const id = `${lock.suite}-${lock.arch}-${hashOf(lockText(lock) + MOUNT_POINTS.join(" ")).slice(0, 16)}`;
  const link = join(place, "bases", `${lock.suite}-${lock.arch}`);
  const finished = join(place, "bases", id);
  const base: Base = { id, place, root: join(finished, "root") };
  if (existsSync(finished)) {
    pointTo(link, id);
    return base;
  }
  const debs = await apt.fetch("base", undefined, { ...options, lock: lock.packages });
  const staging = stagingFolder(place, `base-${process.pid}`, range);
  try {
    const root = join(staging, "root");
    const mounts = [...hostPrograms(), "--bind", staging, "/mnt", "--ro-bind", debs, "/media"];
    expectFine(await runInRange(mounts, ["/bin/bash", "-c", extract()], options), "the base could not be unpacked");
    const inside = ["--bind", root, "/", "--tmpfs", "/tmp", "--tmpfs", "/run", "--ro-bind", debs, "/run/debs"];
    expectFine(await runInRange(inside, ["/bin/bash", "-c", CONFIGURE], options), "the base could not be set up");
    await tidy(root, { range, place, isOpen: true, signal: options.signal });
    publish(staging, finished, lock, range);
    pointTo(link, id);
    return base;
  } finally {
    await removeTree(staging, () => range);
    apt.clean();
  }
}

/** Makes a staged folder what it was built for, in one step. */
export function publish(staging: string, finished: string, lock: LayerLock, range: Range): void {
  if (range.builder) chownSync(staging, 0, 0);
  chmodSync(staging, 0o755);
  writeFileSync(join(staging, "lock.json"), lockText(lock));
  for (const name of readdirSync(staging)) chmodSync(join(staging, name), name === "root" ? 0o755 : 0o644);
  renameSync(staging, finished);
}

const extract = () => `set -euo pipefail; umask 022
mkdir /mnt/root; cd /mnt/root
for name in ${linksToUsr().join(" ")}; do mkdir -p "usr/$name"; ln -s "usr/$name" "$name"; done
mkdir -p etc/dpkg/dpkg.cfg.d var/lib/dpkg
printf '%s\\n' force-unsafe-io ${UNWANTED.map((path) => `'path-exclude=${path}'`).join(" ")} 'path-include=/usr/share/doc/*/copyright' > etc/dpkg/dpkg.cfg.d/skillet
for deb in /media/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -xp --keep-directory-symlink --wildcards ${UNWANTED.map((path) => `--exclude='.${path}'`).join(" ")}
done
touch var/lib/dpkg/status var/lib/dpkg/available
`;

const CONFIGURE = `set -eu; umask 022
dpkg --install --force-depends /run/debs/*.deb
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
mkdir -p ${MOUNT_POINTS.join(" ")}
for file in ${MOUNT_FILES}; do [ -e $file ] || : > $file; done
rm -rf /var/log/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/lib/apt/lists/*
`;
