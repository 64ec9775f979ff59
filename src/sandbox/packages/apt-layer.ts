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
import { type ProgramOptions, type ProgramResult, runProgram } from "../process.ts";
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

/** A root file system with a set of packages, ready to be mounted. */
export interface AptLayer {
  root: string;
  lock: LayerLock;
}

export interface AptLayerOptions extends ProgramOptions {
  packageFolder: string;
  range: IdRange;
  apt: Apt;
}

type PackageSet = Pick<LayerLock, "suite" | "arch" | "base" | "names">;

/** Finds the layer of a set in a package folder, unless another user could have changed it. */
export function findAptLayer(packageFolder: string, set: PackageSet): AptLayer | undefined {
  const name = readLayerLink(join(packageFolder, "sets", formatSetKey(set)));
  if (name === undefined) return undefined;
  const folder = join(packageFolder, "layers", name);
  const root = join(folder, "root");
  if (!areTrustedFolders(packageFolder, join(packageFolder, "sets"), join(packageFolder, "layers"), folder, root))
    return undefined;
  const lock = readLayerLock(folder);
  return lock && { root, lock };
}

/** Resolves a set on a base to exact packages. */
export async function resolveLayerLock(
  set: PackageSet,
  base: BaseSystem,
  { apt, signal }: ProgramOptions & { apt: Apt },
): Promise<LayerLock> {
  const packages = await apt.resolve(set.names, base.root, { signal });
  const installed = readdirSync(join(base.root, "var/lib/dpkg/info"));
  const isAvailable = (name: string) =>
    packages.some((entry) => entry.name === name) ||
    installed.some((file) => file === `${name}.list` || file === `${name}:${set.arch}.list`);
  const missing = set.names.filter((name) => !isAvailable(name));
  if (missing.length > 0) throw createUnknownPackageError(missing, set.suite);
  return { kind: "layer", suite: set.suite, arch: set.arch, base: base.id, names: set.names, packages };
}

export function createUnknownPackageError(names: readonly string[], suite: string): SkillError {
  return new SkillError("package-unresolved", {
    message: `${suite} has no system package ${names.join(", ")}`,
    fix: "check the names with `apt-cache policy NAME`: they must exist in the host's release",
  });
}

/** Fetches the packages of the lock and installs them into a copy of the base. */
export async function buildAptLayer(lock: LayerLock, base: BaseSystem, options: AptLayerOptions): Promise<AptLayer> {
  const { apt, packageFolder } = options;
  const name = `${formatSetKey(lock)}-${hashLockText(formatPackageLock(lock)).slice(0, 16)}`;
  const link = join(packageFolder, "sets", formatSetKey(lock));
  const finished = join(packageFolder, "layers", name);
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

/** Installs debs into a copy of a base, without a network, and moves it to its final path if all succeeded. */
export async function installDebs(
  finished: string,
  debs: readonly string[],
  options: Omit<AptLayerOptions, "apt"> & { base: BaseSystem; lock: LayerLock },
): Promise<void> {
  const { base, range, packageFolder } = options;
  const staging = createStagingFolder(packageFolder, `layer-${process.pid}`, range);
  try {
    const root = join(staging, "root");
    const copying = [...createHostProgramMounts(), "--bind", staging, "/mnt", "--ro-bind", base.root, "/media"];
    requireSuccess(await runInRange(copying, ["/bin/sh", "-c", COPY_SCRIPT], options), "the base could not be copied");
    const debMounts = debs.flatMap((deb, index) => ["--ro-bind", deb, `/run/debs/${index}.deb`]);
    const inside = ["--bind", root, "/", "--tmpfs", "/tmp", "--tmpfs", "/run", "--dir", "/run/lock", ...debMounts];
    if (debs.length > 0)
      requireSuccess(
        await runInRange(inside, ["/bin/sh", "-c", INSTALL_SCRIPT], options),
        "a package could not be installed",
      );
    const shared = base.packageFolder === packageFolder ? { base: base.root } : {};
    const { bytes } = await tidyRoot(root, { range, packageFolder, isOpen: false, signal: options.signal, ...shared });
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

// Without package lists and a network, only the given files can be installed.
const INSTALL_SCRIPT = `set -eu; umask 022
apt-get -q -o APT::Sandbox::User=root -o APT::Install-Recommends=false install -y --allow-downgrades --no-remove /run/debs/*.deb
rm -rf /var/log/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/cache/apt/*.bin /var/cache/ldconfig
`;

/** A minimal system of one release. Layers are copies of it. */
export interface BaseSystem {
  id: string;
  root: string;
  /** The package folder that contains it. */
  packageFolder: string;
}

/** Finds the newest base in each package folder. */
export function findBaseSystems({ own, shared }: PackageFolders, { suite, arch }: DebianHost): BaseSystem[] {
  return [own, shared].flatMap((packageFolder) => {
    if (packageFolder === undefined) return [];
    const id = readLayerLink(join(packageFolder, "bases", `${suite}-${arch}`));
    const folder = id === undefined ? "" : join(packageFolder, "bases", id);
    const root = join(folder, "root");
    if (id === undefined || !areTrustedFolders(packageFolder, join(packageFolder, "bases"), folder, root)) return [];
    if (!MOUNT_POINTS.every((point) => existsSync(join(root, point)))) return []; // Built by an older version.
    return [{ id, packageFolder, root }];
  });
}

/** Reads the target of a symlink in the package folder: a name in the same folder, or undefined. */
export function readLayerLink(link: string): string | undefined {
  try {
    const target = readlinkSync(link);
    return /^[a-z0-9-]+$/.test(target) ? target : undefined;
  } catch {
    return undefined;
  }
}

/** Points `link` to `target` in one step. */
function replaceLayerLink(link: string, target: string): void {
  const draft = `${link}.${process.pid}`;
  rmSync(draft, { force: true });
  symlinkSync(target, draft);
  renameSync(draft, link);
}

/** The mount points of the sandbox, created here because the root itself is read-only. */
export const MOUNT_POINTS = [
  ...["/skill", "/workspace", "/node_modules", "/home/skill", "/opt/skillet", "/proc", "/dev", "/tmp", "/run", "/sys"],
  ...["/mnt", "/usr/share/man/man1", "/usr/share/man/man7"],
];
const MOUNT_FILES = "/etc/hosts /etc/hostname /etc/resolv.conf /etc/machine-id";
const EXCLUDED_PATHS = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*"];

/** Creates the lock of a base. It determines the whole base, which is named after it. */
export function createBaseLock(debian: DebianHost, packages: readonly LockedPackage[]): LayerLock {
  return { kind: "layer", ...debian, base: undefined, names: [], packages };
}

/** Builds a base from these packages. mmdebstrap would run their scripts as the host's root if root calls it. */
export async function buildBaseSystem(
  lock: LayerLock,
  options: ProgramOptions & { packageFolder: string; range: IdRange; apt: Apt },
) {
  const { packageFolder, range, apt } = options;
  const id = `${lock.suite}-${lock.arch}-${hashLockText(formatPackageLock(lock) + MOUNT_POINTS.join(" ")).slice(0, 16)}`;
  const link = join(packageFolder, "bases", `${lock.suite}-${lock.arch}`);
  const finished = join(packageFolder, "bases", id);
  const base: BaseSystem = { id, packageFolder, root: join(finished, "root") };
  if (existsSync(finished)) {
    replaceLayerLink(link, id);
    return base;
  }
  const debs = await apt.fetch("base", undefined, { ...options, lock: lock.packages });
  const staging = createStagingFolder(packageFolder, `base-${process.pid}`, range);
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
    await tidyRoot(root, { range, packageFolder, isOpen: true, signal: options.signal });
    publishRoot(staging, finished, lock, range);
    replaceLayerLink(link, id);
    return base;
  } finally {
    await removeBuildTree(staging, () => range);
    apt.clean();
  }
}

/** Moves a staged folder to its final path in one step. */
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

/** Creates a folder for one build that only the builder can enter. */
function createStagingFolder(packageFolder: string, name: string, { builder }: IdRange): string {
  const folder = join(packageFolder, "staging", name);
  mkdirSync(folder, { mode: 0o700 });
  if (builder) chownSync(folder, builder.uid, builder.gid);
  return folder;
}

/** Creates the mounts of the host's programs, and nothing else of the host. */
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

/** Lists the top-level folders that are symlinks into /usr here, and so in any root of the same release. */
function listUsrLinks(): string[] {
  return USR_LINK_NAMES.filter((name) => lstatSync(`/${name}`, { throwIfNoEntry: false })?.isSymbolicLink());
}

interface TidyOptions extends ProgramOptions {
  range: IdRange;
  /** The package folder that contains both roots. */
  packageFolder: string;
  /** A root in the same package folder: identical files become hard links to its files. */
  base?: string;
  /** Makes everything readable by all users: true for a base, which contains no user's data. */
  isOpen: boolean;
}

/**
 * Makes a finished root safe to mount for all users: the builder owns everything, no other user can write to it, and no
 * file has setuid, setgid or capability bits.
 */
async function tidyRoot(root: string, options: TidyOptions): Promise<{ bytes: number }> {
  const { range, packageFolder, base = "", isOpen } = options;
  const args = (at: string, known: string) => ["-e", TIDY_SCRIPT, at, known, isOpen ? "open" : ""];
  // Not its own path, which may be below a folder that only the range can enter.
  const mounted = (path: string) => (path === "" ? "" : `/mnt${path.slice(packageFolder.length)}`);
  // Root needs no range to change owners. No code of a package is run here.
  const result = range.builder
    ? await runProgram("perl", args(root, base), options)
    : await runInRange(
        [...createHostProgramMounts(), "--bind", packageFolder, "/mnt"],
        ["/usr/bin/perl", ...args(mounted(root), mounted(base))],
        options,
      );
  requireSuccess(result, "the permissions of the new root could not be set");
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

/** Removes a folder, even if a build was interrupted and files belong to the range. */
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
    fix: "nothing was kept; a package whose own script needs a network cannot be used",
  });
}
