import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ErrorCode } from "../../codes/codes.ts";
import { SkillError } from "../../shared/error.ts";
import { oneLine } from "../../shared/text.ts";
import { isPackageName } from "../../skill/needs.ts";
import { makeFolder } from "../store.ts";
import type { Debian } from "./host.ts";
import { debName, type LockedPackage, verifyDebs } from "./lock.ts";
import { type Result, type RunOptions, run } from "./run.ts";

/** apt with the host's sources, keys and proxies, and with nothing else of the host's: neither its lists nor its packages. */
export interface Apt {
  /** Fetches the lists of packages, unless those here are of today. */
  update(options: RunOptions & { force?: boolean }): Promise<void>;
  /** What would have to be installed for these, into this root or one without any package. Nothing is fetched. */
  resolve(wanted: Wanted, root: string | undefined, options: RunOptions): Promise<LockedPackage[]>;
  /** Fetches what `resolve` gave for the same, into a folder, and refuses what is not exactly that. */
  fetch(wanted: Wanted, root: string | undefined, options: FetchOptions): Promise<string>;
  /** Removes what was fetched. */
  clean(): void;
}

export interface FetchOptions extends RunOptions {
  lock: readonly LockedPackage[];
}

/** Names, or what every system has. */
export type Wanted = readonly string[] | "base";

/** Contract: this process is the place's builder, by this turn. */
export function openApt(place: string, { arch }: Debian, turn: number): Apt {
  const folder = join(place, "apt");
  const lists = join(folder, "state", "lists");
  const debs = join(folder, "cache", "archives");
  const conf = join(folder, "apt.conf");
  const status = join(folder, "dpkg", "status");
  for (const made of [join(folder, "state"), lists, join(folder, "cache"), debs, dirname(status)]) makeFolder(made);
  writeFileSync(conf, CONF);

  /** A copy, because apt puts its lock beside it: a root may be read-only, and others build on it. */
  const putStatus = (text: string) => {
    // What apt made of all packages holds as long as this file is untouched, which saves it half a second.
    if (existsSync(status) && readFileSync(status, "utf8") === text) return;
    rmSync(join(folder, "cache", "pkgcache.bin"), { force: true }); // It would compare the second and the size alone.
    writeFileSync(status, text);
  };
  const apt = (root: string | undefined, args: readonly string[], options: RunOptions): Promise<Result> => {
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
    const settled = Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
    return run("apt-get", ["-c", conf, ...settled, "-q", ...args], { ...options, turn });
  };
  const clean = () => {
    rmSync(debs, { recursive: true, force: true });
    makeFolder(debs);
  };
  const install = (wanted: Wanted, root: string | undefined, how: readonly string[], options: RunOptions) =>
    apt(root, ["install", "-y", "--no-remove", ...how, "--", ...patterns(wanted, arch)], options);

  return {
    async update({ force = false, ...options }) {
      const stamp = join(folder, "updated");
      const age = Date.now() - (statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0);
      if (!force && age >= 0 && age < FRESH) return;
      rmSync(stamp, { force: true }); // Until all of them are new, they may be of two days.
      const result = await apt(undefined, ["update", "--error-on=any"], options);
      if (result.code !== 0) throw failed("package-download", "apt could not fetch the lists of packages", result);
      writeFileSync(stamp, "");
    },
    async resolve(wanted, root, options) {
      clean(); // What a killed build had fetched would not be named.
      const result = await install(wanted, root, ["--print-uris", "-qq"], { signal: options.signal });
      if (result.code !== 0) throw failed("package-unresolved", `apt finds no way to install ${say(wanted)}`, result);
      return result.stdout.split("\n").filter(Boolean).map(locked);
    },
    async fetch(wanted, root, { lock, ...options }) {
      clean();
      const result = await install(wanted, root, ["--download-only"], options);
      if (result.code !== 0) throw failed("package-download", `apt could not fetch ${say(wanted)}`, result);
      await verifyDebs(lock, debs);
      return debs;
    },
    clean,
  };
}

const FRESH = 24 * 60 * 60 * 1000;

// What the host does after its own updates (hooks that clean its cache, tell its desktop) is not for ours.
const CONF = `#clear APT::Update;
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

/** Without the architecture, apt would also take the name for those of other machines. */
function patterns(wanted: Wanted, arch: string): string[] {
  const exactly = (what: string) => `?and(${what},?architecture(${arch}))`;
  if (wanted === "base") return [exactly("?essential"), exactly("?exact-name(apt)")];
  return wanted.map((name) => exactly(`?exact-name(${name})`));
}

/** A line of `--print-uris`: 'address' file size hash. */
function locked(line: string): LockedPackage {
  const [, address = "", file = "", size = "", sha256 = ""] =
    /^'([^']+)' (\S+) (\d+) SHA256:([0-9a-f]{64})$/.exec(line) ?? [];
  const [, name = "", version = "", arch = ""] = /^([^_/]+)_([^_/]+)_([^_/]+)\.deb$/.exec(file) ?? [];
  const path = /\/(pool\/.*)$/.exec(address)?.[1] ?? /^[a-z+-]+:(?:\/\/[^/]*)?(\/.*)$/.exec(address)?.[1] ?? "";
  const entry = { name, version: version.replaceAll("%3a", ":"), arch, sha256, size: Number(size), path };
  if (isPackageName(name) && debName(entry) === file) return entry;
  throw new SkillError("package-unresolved", {
    message: `apt names no SHA-256 for a package: ${oneLine(line, 200)}`,
    fix: "the archive it comes from is too old to be trusted: take it out of /etc/apt/sources.list.d",
  });
}

function failed(code: ErrorCode, what: string, { tail }: Result): SkillError {
  const said = tail
    .split("\n")
    .filter((line) => /^(?:E:|Err:| )/.test(line))
    .map((line) => line.trim());
  const lines = said.length > 0 ? said : tail.split("\n").slice(-3);
  return new SkillError(code, {
    message: `${what}: ${oneLine(lines.join("; "), 600)}`,
    fix:
      code === "package-unresolved"
        ? "check the names with `apt-cache policy NAME`: they are those of the host's own release"
        : "`sudo apt-get update` shows whether the host's own sources can be reached",
  });
}

const say = (wanted: Wanted) => (wanted === "base" ? "the base system" : wanted.join(", "));
