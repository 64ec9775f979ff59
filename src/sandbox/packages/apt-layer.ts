import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { truncateLine } from "../../util/text.ts";
import { type ProgramOptions, type ProgramResult, runProgram } from "../run-program.ts";
import { areTrustedFolders, isRoot, type PackageFolders } from "../sandbox-folders.ts";
import {
  type Apt,
  type DebianHost,
  formatDebName,
  formatPackageLock,
  formatSetKey,
  hashLockText,
  type LayerLock,
  type LockedPackage,
  readLayerLock,
} from "./apt.ts";
import { type IdRange, runInRange } from "./id-range.ts";

/** A root with a set of packages, ready to be mounted. */
export interface AptLayer {
  root: string;
  lock: LayerLock;
}

export interface AptLayerOptions extends ProgramOptions {
  place: string;
  range: IdRange;
  apt: Apt;
}

type PackageSet = Pick<LayerLock, "suite" | "arch" | "base" | "names">;

/** The layer of a set in a place, unless somebody else could have changed it. */
export function findAptLayer(place: string, set: PackageSet): AptLayer | undefined {
  const name = readLayerLink(join(place, "sets", formatSetKey(set)));
  if (name === undefined) return undefined;
  const folder = join(place, "layers", name);
  const root = join(folder, "root");
  if (!areTrustedFolders(place, join(place, "sets"), join(place, "layers"), folder, root)) return undefined;
  const lock = readLayerLock(folder);
  return lock && { root, lock };
}

/** Resolves a set on a base, to exact packages. */
export async function resolveLayerLock(
  set: PackageSet,
  base: BaseSystem,
  { apt, signal }: ProgramOptions & { apt: Apt },
): Promise<LayerLock> {
  const packages = await apt.resolve(set.names, base.root, { signal });
  const installed = readdirSync(join(base.root, "var/lib/dpkg/info"));
  const isThere = (name: string) =>
    packages.some((entry) => entry.name === name) ||
    installed.some((file) => file === `${name}.list` || file === `${name}:${set.arch}.list`);
  const missing = set.names.filter((name) => !isThere(name));
  if (missing.length > 0) throw createUnknownPackageError(missing, set.suite);
  return { kind: "layer", suite: set.suite, arch: set.arch, base: base.id, names: set.names, packages };
}

export function createUnknownPackageError(names: readonly string[], suite: string): SkillError {
  return new SkillError("package-unresolved", {
    message: `there is no system package ${names.join(", ")} in ${suite}`,
    fix: "check the names with `apt-cache policy NAME`: they are those of the host's own release",
  });
}

/** Fetches what the lock says and installs it into a copy of the base. */
export async function buildAptLayer(lock: LayerLock, base: BaseSystem, options: AptLayerOptions): Promise<AptLayer> {
  const { apt, place } = options;
  const name = `${formatSetKey(lock)}-${hashLockText(formatPackageLock(lock)).slice(0, 16)}`;
  const link = join(place, "sets", formatSetKey(lock));
  const finished = join(place, "layers", name);
  if (!existsSync(finished)) {
    try {
      const debs = await apt.fetch(lock.names, base.root, { ...options, lock: lock.packages });
      const files = lock.packages.map((entry) => join(debs, formatDebName(entry)));
      await installDebs(finished, files, { ...options, base, lock });
    } finally {
      apt.clean();
    }
  }
  replaceLayerLink(link, name);
  return { root: join(finished, "root"), lock };
}

/** Installs debs into a copy of a base, with no network, and puts it in its place when all of it went well. */
export async function installDebs(
  finished: string,
  debs: readonly string[],
  options: Omit<AptLayerOptions, "apt"> & { base: BaseSystem; lock: LayerLock },
): Promise<void> {
  const { base, range, place } = options;
  const staging = createStagingFolder(place, `layer-${process.pid}`, range);
  try {
    const root = join(staging, "root");
    const copying = [...createHostProgramMounts(), "--bind", staging, "/mnt", "--ro-bind", base.root, "/media"];
    requireSuccess(await runInRange(copying, ["/bin/sh", "-c", COPY_SCRIPT], options), "the base could not be copied");
    const given = debs.flatMap((deb, index) => ["--ro-bind", deb, `/run/debs/${index}.deb`]);
    const inside = ["--bind", root, "/", "--tmpfs", "/tmp", "--tmpfs", "/run", "--dir", "/run/lock", ...given];
    if (debs.length > 0)
      requireSuccess(
        await runInRange(inside, ["/bin/sh", "-c", INSTALL_SCRIPT], options),
        "a package could not be installed",
      );
    const shared = base.place === place ? { base: base.root } : {};
    const { bytes } = await tidyRoot(root, { range, place, isOpen: false, signal: options.signal, ...shared });
    writeFileSync(join(staging, "layer.json"), JSON.stringify({ bytes, built: new Date().toISOString() }));
    publishRoot(staging, finished, options.lock, range);
  } finally {
    await removeBuildTree(staging, () => range);
  }
}

const COPY_SCRIPT = `set -eu; umask 022
mkdir /mnt/root
cp -dR --preserve=mode,timestamps,links --reflink=auto /media/. /mnt/root
chmod 1777 /mnt/root/var/tmp
`;

// No lists are there and no network is: what is not among the given files cannot be had.
const INSTALL_SCRIPT = `set -eu; umask 022
apt-get -q -o APT::Sandbox::User=root -o APT::Install-Recommends=false install -y --allow-downgrades --no-remove /run/debs/*.deb
rm -rf /var/log/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/cache/apt/*.bin /var/cache/ldconfig
`;

/** A minimal system of one release, that layers are copies of. */
export interface BaseSystem {
  id: string;
  root: string;
  /** The place it is in. */
  place: string;
}

/** The newest base in each place. */
export function findBaseSystems({ own, shared }: PackageFolders, { suite, arch }: DebianHost): BaseSystem[] {
  return [own, shared].flatMap((place) => {
    if (place === undefined) return [];
    const id = readLayerLink(join(place, "bases", `${suite}-${arch}`));
    const folder = id === undefined ? "" : join(place, "bases", id);
    const root = join(folder, "root");
    if (id === undefined || !areTrustedFolders(place, join(place, "bases"), folder, root)) return [];
    if (!MOUNT_POINTS.every((point) => existsSync(join(root, point)))) return []; // Made by an older version.
    return [{ id, place, root }];
  });
}

/** Where a link of ours points: a name beside it, or nothing. */
export function readLayerLink(link: string): string | undefined {
  try {
    const target = readlinkSync(link);
    return /^[a-z0-9-]+$/.test(target) ? target : undefined;
  } catch {
    return undefined;
  }
}

/** Puts `target` where `link` says, in one step. */
function replaceLayerLink(link: string, target: string): void {
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
const EXCLUDED_PATHS = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*"];

/** The lock of a base is all that it is: what a base is named after. */
export function createBaseLock(debian: DebianHost, packages: readonly LockedPackage[]): LayerLock {
  return { kind: "layer", ...debian, base: undefined, names: [], packages };
}

/** Builds a base from these packages. mmdebstrap would run their scripts as the host's root, when called by it. */
export async function buildBaseSystem(
  lock: LayerLock,
  options: ProgramOptions & { place: string; range: IdRange; apt: Apt },
) {
  const { place, range, apt } = options;
  const id = `${lock.suite}-${lock.arch}-${hashLockText(formatPackageLock(lock) + MOUNT_POINTS.join(" ")).slice(0, 16)}`;
  const link = join(place, "bases", `${lock.suite}-${lock.arch}`);
  const finished = join(place, "bases", id);
  const base: BaseSystem = { id, place, root: join(finished, "root") };
  if (existsSync(finished)) {
    replaceLayerLink(link, id);
    return base;
  }
  const debs = await apt.fetch("base", undefined, { ...options, lock: lock.packages });
  const staging = createStagingFolder(place, `base-${process.pid}`, range);
  try {
    const root = join(staging, "root");
    const mounts = [...createHostProgramMounts(), "--bind", staging, "/mnt", "--ro-bind", debs, "/media"];
    requireSuccess(
      await runInRange(mounts, ["/bin/bash", "-c", createExtractScript()], options),
      "the base could not be unpacked",
    );
    const inside = ["--bind", root, "/", "--tmpfs", "/tmp", "--tmpfs", "/run", "--ro-bind", debs, "/run/debs"];
    requireSuccess(
      await runInRange(inside, ["/bin/bash", "-c", CONFIGURE_SCRIPT], options),
      "the base could not be set up",
    );
    await tidyRoot(root, { range, place, isOpen: true, signal: options.signal });
    publishRoot(staging, finished, lock, range);
    replaceLayerLink(link, id);
    return base;
  } finally {
    await removeBuildTree(staging, () => range);
    apt.clean();
  }
}

/** Makes a staged folder what it was built for, in one step. */
function publishRoot(staging: string, finished: string, lock: LayerLock, range: IdRange): void {
  if (range.builder) chownSync(staging, 0, 0);
  chmodSync(staging, 0o755);
  writeFileSync(join(staging, "lock.json"), formatPackageLock(lock));
  for (const name of readdirSync(staging)) chmodSync(join(staging, name), name === "root" ? 0o755 : 0o644);
  renameSync(staging, finished);
}

const createExtractScript = () => `set -euo pipefail; umask 022
mkdir /mnt/root; cd /mnt/root
for name in ${listUsrLinks().join(" ")}; do mkdir -p "usr/$name"; ln -s "usr/$name" "$name"; done
mkdir -p etc/dpkg/dpkg.cfg.d var/lib/dpkg
printf '%s\\n' force-unsafe-io ${EXCLUDED_PATHS.map((path) => `'path-exclude=${path}'`).join(" ")} 'path-include=/usr/share/doc/*/copyright' > etc/dpkg/dpkg.cfg.d/skillet
for deb in /media/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -xp --keep-directory-symlink --wildcards ${EXCLUDED_PATHS.map((path) => `--exclude='.${path}'`).join(" ")}
done
touch var/lib/dpkg/status var/lib/dpkg/available
`;

const CONFIGURE_SCRIPT = `set -eu; umask 022
dpkg --install --force-depends /run/debs/*.deb
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
mkdir -p ${MOUNT_POINTS.join(" ")}
for file in ${MOUNT_FILES}; do [ -e $file ] || : > $file; done
rm -rf /var/log/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/lib/apt/lists/*
`;

/** A folder for one build, that only the builder can enter. */
function createStagingFolder(place: string, name: string, { builder }: IdRange): string {
  const folder = join(place, "staging", name);
  mkdirSync(folder, { mode: 0o700 });
  if (builder) chownSync(folder, builder.uid, builder.gid);
  return folder;
}

/** The host's programs, and nothing else of it. */
export function createHostProgramMounts(): string[] {
  const links = listUsrLinks().flatMap((name) => ["--symlink", readlinkSync(`/${name}`), `/${name}`]);
  const folders = USR_LINK_NAMES.filter((name) => existsSync(`/${name}`) && !listUsrLinks().includes(name));
  return [
    ...["--ro-bind", "/usr", "/usr", "--tmpfs", "/tmp", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"],
    ...["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"],
    ...links,
    ...folders.flatMap((name) => ["--ro-bind", `/${name}`, `/${name}`]),
  ];
}

const USR_LINK_NAMES = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/** Which of the top folders are links into /usr here, and so in any root of the same release. */
function listUsrLinks(): string[] {
  return USR_LINK_NAMES.filter((name) => lstatSync(`/${name}`, { throwIfNoEntry: false })?.isSymbolicLink());
}

interface TidyOptions extends ProgramOptions {
  range: IdRange;
  /** The place that both roots are in. */
  place: string;
  /** A root in the same place: files that are the same become one with its. */
  base?: string;
  /** Make everything readable by everybody: true for a base, which holds nothing of anybody's. */
  isOpen: boolean;
}

/** Makes a finished root fit to be mounted by anybody: the builder owns all of it, nobody else can write to it, nothing in it has rights of its own. */
async function tidyRoot(root: string, options: TidyOptions): Promise<{ bytes: number }> {
  const { range, place, base = "", isOpen } = options;
  const args = (at: string, known: string) => ["-e", TIDY_SCRIPT, at, known, isOpen ? "open" : ""];
  // Not where it is: that may be below a folder that a range has of its own.
  const mounted = (path: string) => (path === "" ? "" : `/mnt${path.slice(place.length)}`);
  // Root needs no range to change owners. No code of a package is run here.
  const result = range.builder
    ? await runProgram("perl", args(root, base), options)
    : await runInRange(
        [...createHostProgramMounts(), "--bind", place, "/mnt"],
        ["/usr/bin/perl", ...args(mounted(root), mounted(base))],
        options,
      );
  requireSuccess(result, "the new root could not be put in order");
  return { bytes: Number(result.stdout.trim()) };
}

// Perl, because every Debian has it and, in a range, Node may not be readable.
const TIDY_SCRIPT = String.raw`
use strict; use warnings; use POSIX ();
my ($root, $base, $open) = @ARGV; my $bytes = 0;
sub same { my ($a, $b) = @_; local $/ = \65536; my ($x, $y);
  open(my $f, '<:raw', $a) or return 0; open(my $g, '<:raw', $b) or return 0;
  do { $x = <$f>; $y = <$g>; return 0 if ($x // '') ne ($y // '') } while (defined $x); return 1 }
sub walk { my ($inner) = @_; opendir(my $handle, "$root$inner") or die "$inner: $!";
  for my $name (grep { $_ ne '.' && $_ ne '..' } readdir $handle) {
    my $path = "$inner/$name"; my $file = "$root$path"; my @stat = lstat $file or die "$path: $!";
    my $mode = $stat[2]; POSIX::lchown(0, 0, $file) or die "$path: $!"; next if -l _;
    my $bits = $mode & 0755; $bits |= 0444 | (-d _ || $mode & 0100 ? 0111 : 0) if $open;
    if (-d _) { chmod($bits, $file) or die "$path: $!"; walk($path); next }
    if (!-f _) { unlink $file or die "$path: $!"; next }
    chmod($bits, $file) or die "$path: $!";
    my @old = $base eq '' ? () : lstat "$base$path";
    if (@old && -f _ && $old[2] == ($bits | 0100000) && $old[7] == $stat[7] && $old[9] == $stat[9] && same($file, "$base$path")) {
      my $new = "$file.skillet-link"; if (link "$base$path", $new) { rename $new, $file or die "$path: $!"; next } }
    $bytes += $stat[7] } }
POSIX::lchown(0, 0, $root); chmod 0755, $root; walk(''); print $bytes;
`;

/** Removes a folder, also where a build broke off and files belong to the range. */
export async function removeBuildTree(folder: string, range: () => IdRange): Promise<void> {
  try {
    rmSync(folder, { recursive: true, force: true });
    return;
  } catch (error) {
    if (isRoot()) throw error;
  }
  chmodSync(folder, 0o700);
  for (const name of readdirSync(folder)) {
    const inner = join(folder, name);
    const mounts = [...createHostProgramMounts(), "--bind", inner, "/mnt"];
    const argv = ["/usr/bin/find", "/mnt", "-xdev", "-mindepth", "1", "-delete"];
    if (lstatSync(inner).isDirectory()) await runInRange(mounts, argv, { range: range() });
  }
  rmSync(folder, { recursive: true, force: true });
}

function requireSuccess(result: ProgramResult, what: string): void {
  if (result.code === 0) return;
  throw new SkillError("package-install", {
    message: `${what}: ${truncateLine(result.tail.slice(-800))}`,
    fix: "nothing of it is left; if it is a package's own script that fails without a network, that package cannot be used",
  });
}
