import { spawnSync } from "node:child_process";
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { arch as machine, platform } from "node:os";
import { systemProgram } from "../../host/programs.ts";
import { SkillError } from "../../shared/error.ts";
import type { HostLock } from "./lock.ts";
import { PLAIN } from "./run.ts";

/** What the host is, as far as packages go. */
export interface Debian {
  /** `bookworm`, `noble`. */
  suite: string;
  arch: string;
}

const ARCHITECTURES: Partial<Record<string, string>> = {
  x64: "amd64",
  arm64: "arm64",
  arm: "armhf",
  ia32: "i386",
  ppc64: "ppc64el",
  riscv64: "riscv64",
  s390x: "s390x",
};

/** The host's system, or nothing where it is not one with apt. */
export function debianHere(): Debian | undefined {
  const arch = ARCHITECTURES[machine()];
  if (platform() !== "linux" || arch === undefined || !existsSync("/var/lib/dpkg/status")) return undefined;
  const suite = /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(readOr("/etc/os-release", ""))?.[1];
  return suite === undefined ? undefined : { suite, arch };
}

/** The host's system. Throws with the remedy where packages cannot be had. */
export function requireDebian(): Debian {
  const debian = debianHere();
  if (debian && systemProgram("apt-get")) return debian;
  throw new SkillError("package-system", {
    message: `system packages need Linux with apt (Debian, Ubuntu); this is ${systemName()}`,
    fix: "install the programs yourself and take `packages` out of the skill, or run skillet in a Debian machine or container",
  });
}

/** The versions on the host, if it has every package of the set and its /usr can stand for a root. */
export function onHost(names: readonly string[]): HostLock | undefined {
  const debian = debianHere();
  if (!debian || !lstatSync("/bin").isSymbolicLink()) return undefined;
  // Asking dpkg takes 10 ms; that a package is not there is known without.
  const isListed = (name: string) =>
    ["", `:${debian.arch}`].some((suffix) => existsSync(`/var/lib/dpkg/info/${name}${suffix}.list`));
  if (!names.every(isListed)) return undefined;
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg's own
  const format = "${Package} ${Version} ${Architecture} ${db:Status-Status}\\n";
  const program = systemProgram("dpkg-query");
  if (program === undefined) return undefined;
  const { stdout } = spawnSync(program, ["-W", "-f", format, "--", ...names], { env: PLAIN, encoding: "utf8" });
  const packages = names.flatMap((name) => {
    const row = stdout
      .split("\n")
      .map((line) => line.split(" "))
      .find(([found, , arch, state]) => found === name && state === "installed" && isNative(arch, debian));
    return row ? [{ name, version: row[1] ?? "" }] : [];
  });
  return packages.length === names.length ? { kind: "host", ...debian, packages } : undefined;
}

const isNative = (arch: string | undefined, debian: Debian) => arch === "all" || arch === debian.arch;

function systemName(): string {
  if (platform() !== "linux") return platform() === "darwin" ? "macOS" : platform();
  return /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(readOr("/etc/os-release", ""))?.[1] ?? "another Linux";
}

function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return otherwise;
  }
}
