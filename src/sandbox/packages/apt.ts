import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, existsSync, lstatSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { arch as machine, platform } from "node:os";
import { dirname, join } from "node:path";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import { isSystemPackageName } from "../../skill/skill.ts";
import { readRegularText } from "../../util/file-access.ts";
import { findSystemProgram } from "../../util/system.ts";
import { compareText, truncateLine } from "../../util/text.ts";
import { type ProgramOptions, type ProgramResult, runProgram, SYSTEM_ENV } from "../process.ts";
import { makeReadableFolder } from "../sandbox-folders.ts";

/** apt with the host's sources, keys and proxies, but without its package lists and installed packages. */
export interface Apt {
  /** Fetches the package lists, unless they are less than a day old. */
  update(options: ProgramOptions & { force?: boolean }): Promise<void>;
  /** Returns the packages to install for this selection, into this root or an empty one. Fetches nothing. */
  resolve(wanted: AptSelection, root: string | undefined, options: ProgramOptions): Promise<LockedPackage[]>;
  /**
   * Fetches the packages that `resolve` returned for the same selection into a folder. Throws if a file differs from
   * the lock.
   */
  fetch(wanted: AptSelection, root: string | undefined, options: AptFetchOptions): Promise<string>;
  /** Removes the fetched files. */
  clean(): void;
}

interface AptFetchOptions extends ProgramOptions {
  lock: readonly LockedPackage[];
}

/** Package names, or the packages that every system has. */
type AptSelection = readonly string[] | "base";

/** Creates apt for a package folder. Contract: this process holds the build lock `turn`. */
export function createApt(packageFolder: string, { arch }: DebianHost, turn: number): Apt {
  const folder = join(packageFolder, "apt");
  const lists = join(folder, "state", "lists");
  const debs = join(folder, "cache", "archives");
  const conf = join(folder, "apt.conf");
  const status = join(folder, "dpkg", "status");
  for (const path of [join(folder, "state"), lists, join(folder, "cache"), debs, dirname(status)])
    makeReadableFolder(path);
  writeFileSync(conf, APT_CONFIG);

  /** A copy, because apt puts its lock file next to it: a root may be read-only, and other builds use it. */
  const putStatus = (text: string) => {
    // apt's cache of all packages stays valid while this file is unchanged, which saves half a second.
    if (existsSync(status) && readFileSync(status, "utf8") === text) return;
    rmSync(join(folder, "cache", "pkgcache.bin"), { force: true }); // apt would compare only the modification time in seconds and the size.
    writeFileSync(status, text);
  };
  const apt = (root: string | undefined, args: readonly string[], options: ProgramOptions): Promise<ProgramResult> => {
    putStatus(root === undefined ? "" : readFileSync(join(root, "var/lib/dpkg/status"), "utf8"));
    const settings = {
      "Dir::State": join(folder, "state"),
      "Dir::State::lists": lists,
      "Dir::State::status": status,
      "Dir::Cache": join(folder, "cache"),
      "Dir::Cache::archives": debs,
      "Dir::Log": folder,
      "APT::Architecture": arch,
      "APT::Architectures::": arch,
    };
    const settingArgs = Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
    return runProgram("apt-get", ["-c", conf, ...settingArgs, "-q", ...args], { ...options, turn });
  };
  const clean = () => {
    rmSync(debs, { recursive: true, force: true });
    makeReadableFolder(debs);
  };
  const install = (wanted: AptSelection, root: string | undefined, how: readonly string[], options: ProgramOptions) =>
    apt(root, ["install", "-y", "--no-remove", ...how, "--", ...createAptPatterns(wanted, arch)], options);

  return {
    async update({ force = false, ...options }) {
      const stamp = join(folder, "updated");
      const age = Date.now() - (statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0);
      if (!force && age >= 0 && age < MAX_LIST_AGE_MS) return;
      rmSync(stamp, { force: true }); // Until all lists are new, they may be of different days.
      const result = await apt(undefined, ["update", "--error-on=any"], options);
      if (result.code !== 0) throw createAptError("package-download", "apt could not fetch the package lists", result);
      writeFileSync(stamp, "");
    },
    async resolve(wanted, root, options) {
      clean(); // Files fetched by a killed build would not be listed.
      const result = await install(wanted, root, ["--print-uris", "-qq"], { signal: options.signal });
      if (result.code !== 0)
        throw createAptError("package-unresolved", `apt cannot install ${formatSelection(wanted)}`, result);
      return result.stdout.split("\n").filter(Boolean).map(parseUriLine);
    },
    async fetch(wanted, root, { lock, ...options }) {
      clean();
      const result = await install(wanted, root, ["--download-only"], options);
      if (result.code !== 0)
        throw createAptError("package-download", `apt could not fetch ${formatSelection(wanted)}`, result);
      await verifyDebs(lock, debs);
      return debs;
    },
    clean,
  };
}

const MAX_LIST_AGE_MS = 24 * 60 * 60 * 1000;

// The host's hooks after its own updates, such as cleaning its cache or notifying its desktop, must not run here.
const APT_CONFIG = `#clear APT::Update;
#clear APT::Architectures;
#clear DPkg;
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::Retries "2";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Get::AllowUnauthenticated "false";
Binary::apt-get::APT::Keep-Downloaded-Packages "true";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
`;

/** Without the architecture, apt would also match packages of other architectures. */
function createAptPatterns(wanted: AptSelection, arch: string): string[] {
  const exactly = (what: string) => `?and(${what},?architecture(${arch}))`;
  if (wanted === "base") return [exactly("?essential"), exactly("?exact-name(apt)")];
  return wanted.map((name) => exactly(`?exact-name(${name})`));
}

/** Parses a line of `--print-uris`: 'address' file size hash. */
function parseUriLine(line: string): LockedPackage {
  const [, address = "", file = "", size = "", sha256 = ""] =
    /^'([^']+)' (\S+) (\d+) SHA256:([0-9a-f]{64})$/.exec(line) ?? [];
  const [, name = "", version = "", arch = ""] = /^([^_/]+)_([^_/]+)_([^_/]+)\.deb$/.exec(file) ?? [];
  const path = /\/(pool\/.*)$/.exec(address)?.[1] ?? /^[a-z+-]+:(?:\/\/[^/]*)?(\/.*)$/.exec(address)?.[1] ?? "";
  const entry = { name, version: version.replaceAll("%3a", ":"), arch, sha256, size: Number(size), path };
  if (isSystemPackageName(name) && formatDebName(entry) === file) return entry;
  throw new SkillError("package-unresolved", {
    message: `apt reports no SHA-256 for a package: ${truncateLine(line, 200)}`,
    fix: "its archive is too old to be trusted: remove it from /etc/apt/sources.list.d",
  });
}

function createAptError(code: ErrorCode, what: string, { tail }: ProgramResult): SkillError {
  const errors = tail
    .split("\n")
    .filter((line) => /^(?:E:|Err:| )/.test(line))
    .map((line) => line.trim());
  const lines = errors.length > 0 ? errors : tail.split("\n").slice(-3);
  return new SkillError(code, {
    message: `${what}: ${truncateLine(lines.join("; "), 600)}`,
    fix:
      code === "package-unresolved"
        ? "check the names with `apt-cache policy NAME`: they must exist in the host's release"
        : "run `sudo apt-get update` to check that the host's sources are reachable",
  });
}

const formatSelection = (wanted: AptSelection) => (wanted === "base" ? "the base system" : wanted.join(", "));

/** The release and architecture of the host. */
export interface DebianHost {
  /** For example `bookworm` or `noble`. */
  suite: string;
  arch: string;
}

const DEBIAN_ARCHITECTURES: Partial<Record<string, string>> = {
  x64: "amd64",
  arm64: "arm64",
  arm: "armhf",
  ia32: "i386",
  ppc64: "ppc64el",
  riscv64: "riscv64",
  s390x: "s390x",
};

/** Detects the host's system. Returns undefined if it has no apt. */
export function detectDebian(): DebianHost | undefined {
  const arch = DEBIAN_ARCHITECTURES[machine()];
  if (platform() !== "linux" || arch === undefined || !existsSync("/var/lib/dpkg/status")) return undefined;
  const suite = /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(readTextOr("/etc/os-release", ""))?.[1];
  return suite === undefined ? undefined : { suite, arch };
}

/** Returns the host's system. Throws with a fix if packages are not available. */
export function requireDebian(): DebianHost {
  const debian = detectDebian();
  if (debian && findSystemProgram("apt-get")) return debian;
  throw new SkillError("package-unsupported-os", {
    message: `system packages need Linux with apt (Debian, Ubuntu); this is ${readSystemName()}`,
    fix: "install the programs yourself and remove `packages` from the skill, or run skillet in a Debian machine or container",
  });
}

/** Finds the versions on the host if it has every package of the set and its /usr can serve as a root. */
export function findHostPackages(names: readonly string[]): HostLock | undefined {
  const debian = detectDebian();
  if (!debian || !lstatSync("/bin").isSymbolicLink()) return undefined;
  // Asking dpkg takes 10 ms; a missing package is detected without it.
  const isListed = (name: string) =>
    ["", `:${debian.arch}`].some((suffix) => existsSync(`/var/lib/dpkg/info/${name}${suffix}.list`));
  if (!names.every(isListed)) return undefined;
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg's own
  const format = "${Package} ${Version} ${Architecture} ${db:Status-Status}\\n";
  const program = findSystemProgram("dpkg-query");
  if (program === undefined) return undefined;
  const { stdout } = spawnSync(program, ["-W", "-f", format, "--", ...names], { env: SYSTEM_ENV, encoding: "utf8" });
  const packages = names.flatMap((name) => {
    const row = stdout
      .split("\n")
      .map((line) => line.split(" "))
      .find(([found, , arch, state]) => found === name && state === "installed" && isNativePackage(arch, debian));
    return row ? [{ name, version: row[1] ?? "" }] : [];
  });
  return packages.length === names.length ? { kind: "host", ...debian, packages } : undefined;
}

const isNativePackage = (arch: string | undefined, debian: DebianHost) => arch === "all" || arch === debian.arch;

function readSystemName(): string {
  if (platform() !== "linux") return platform() === "darwin" ? "macOS" : platform();
  return /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(readTextOr("/etc/os-release", ""))?.[1] ?? "another Linux";
}

function readTextOr(path: string, fallback: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return fallback;
  }
}

export interface LockedPackage {
  name: string;
  version: string;
  arch: string;
  /** The hash of the .deb, in hexadecimal. */
  sha256: string;
  size: number;
  /** The path in the archive: the same on every mirror. */
  path: string;
}

/** The exact packages of a root, in addition to those of its base. */
export interface LayerLock {
  kind: "layer";
  suite: string;
  arch: string;
  /** The ID of its base; undefined for a base itself. */
  base: string | undefined;
  /** The requested packages. */
  names: readonly string[];
  packages: readonly LockedPackage[];
}

/** The host's own packages at the time of the request. */
export interface HostLock {
  kind: "host";
  suite: string;
  arch: string;
  packages: readonly { name: string; version: string }[];
}

export type PackageLock = LayerLock | HostLock;

/** Formats a lock canonically: keys and packages are sorted. */
export function formatPackageLock(lock: PackageLock): string {
  const packages = lock.packages.map(sortKeys).sort((a, b) => compareText(String(a["name"]), String(b["name"])));
  return `${JSON.stringify(sortKeys({ ...lock, packages }), null, 2)}\n`;
}

export function hashLockText(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Formats the key of a set: the same names on the same base. */
export function formatSetKey(lock: Pick<LayerLock, "suite" | "arch" | "base" | "names">): string {
  return hashLockText(JSON.stringify([lock.suite, lock.arch, lock.base, lock.names])).slice(0, 32);
}

/** Reads the lock file of a built layer. Returns undefined if it is missing or invalid. */
export function readLayerLock(folder: string): LayerLock | undefined {
  try {
    const lock: unknown = JSON.parse(readRegularText(join(folder, "lock.json")));
    return isLayerLock(lock) ? lock : undefined;
  } catch {
    return undefined;
  }
}

function isLayerLock(value: unknown): value is LayerLock {
  const lock = toRecord(value);
  const { base, names, packages } = lock;
  return (
    lock["kind"] === "layer" &&
    areAllTexts(lock["suite"], lock["arch"], base ?? "") &&
    Array.isArray(names) &&
    areAllTexts(...names) &&
    Array.isArray(packages) &&
    packages
      .map(toRecord)
      .every(
        ({ name, version, arch, sha256, size, path }) =>
          areAllTexts(name, version, arch, sha256, path) && typeof size === "number",
      )
  );
}

const toRecord = (value: unknown) =>
  (typeof value === "object" && value !== null ? value : {}) as Partial<Record<string, unknown>>;
const areAllTexts = (...values: unknown[]) => values.every((value) => typeof value === "string");

/** Throws if a deb differs from the lock. */
async function verifyDebs(packages: readonly LockedPackage[], folder: string): Promise<void> {
  for (const entry of packages) {
    const file = join(folder, formatDebName(entry));
    const size = statSync(file, { throwIfNoEntry: false })?.size;
    const isRight = size === entry.size && (await hashDebFile(file)) === entry.sha256;
    if (isRight) continue;
    throw new SkillError("package-tampered", {
      message: `${formatDebName(entry)} does not match the archive's signed index: its ${size === entry.size ? "SHA-256" : "size"} differs`,
      fix: "nothing was installed: try again later or from another mirror",
    });
  }
}

/** Formats the file name that apt uses, whatever the archive calls it. */
export function formatDebName({ name, version, arch }: LockedPackage): string {
  return `${name}_${version.replaceAll(":", "%3a")}_${arch}.deb`;
}

async function hashDebFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest("hex");
}

function sortKeys(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => compareText(a, b)));
}
