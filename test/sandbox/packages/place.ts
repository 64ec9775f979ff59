import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createApt, detectDebian, requireDebian } from "../../../src/sandbox/packages/apt.ts";
import {
  type BaseSystem,
  buildBaseSystem,
  createBaseLock,
  findBaseSystems,
} from "../../../src/sandbox/packages/apt-layer.ts";
import { findPackageRoot, withBuilderLock } from "../../../src/sandbox/packages/apt-packages.ts";
import { resolveIdRange } from "../../../src/sandbox/packages/id-range.ts";
import { type PackageFolders, resolvePackageFolders } from "../../../src/sandbox/sandbox-folders.ts";
import { findSystemProgram } from "../../../src/util/system.ts";
import { temporaryFolder } from "../../support/folder.ts";

export const debian = detectDebian();
export const isRoot = process.getuid?.() === 0;
/** True when packages can be built here at all: Debian, its tools, and ids to build with. */
export const canBuild =
  debian !== undefined && ["apt-get", "bwrap", "flock"].every((program) => findSystemProgram(program)) && hasRange();

/** The default folder: its base stays between runs, so that a test takes seconds. */
export const cached: PackageFolders = {
  own: resolvePackageFolders({ skilletHome: join(homedir(), ".skillet"), env: {} }).own,
  shared: undefined,
};

/** The first of some small packages that are neither on this machine nor built. */
export function lackedPackages(count: number): string[] {
  const small = ["hello", "sl", "figlet", "cowsay", "toilet", "rolldice", "lolcat", "jq", "tree", "pv"];
  return small.filter((name) => findPackageRoot([name], cached).kind === "missing").slice(0, count);
}

/** Creates the base, unless it exists. */
export async function cachedBase(): Promise<BaseSystem> {
  const host = requireDebian();
  return withBuilderLock(cached.own, { range: resolveIdRange }, async (turn) => {
    const there = findBaseSystems(cached, host)[0];
    if (there) return there;
    const apt = createApt(cached.own, host, turn);
    await apt.update({});
    const lock = createBaseLock(host, await apt.resolve("base", undefined, {}));
    return buildBaseSystem(lock, { packageFolder: cached.own, range: resolveIdRange(), apt });
  });
}

/** A separate folder for one test, on the cached base and with its lists of packages. */
export function places(folder = temporaryFolder()): PackageFolders {
  chmodSync(folder, 0o755); // Root builds as another user, who needs access.
  const own = join(folder, "packages");
  mkdirSync(own);
  const lists = join(cached.own, "apt");
  if (existsSync(lists)) spawnSync("/bin/cp", ["-a", lists, own]);
  return { own, shared: cached.own };
}

function hasRange(): boolean {
  try {
    resolveIdRange();
    return true;
  } catch {
    return false;
  }
}
