import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { systemProgram } from "../../../src/host/programs.ts";
import { openApt } from "../../../src/sandbox/packages/apt.ts";
import { type Base, baseLock, buildBase, findBases } from "../../../src/sandbox/packages/base.ts";
import { asBuilder } from "../../../src/sandbox/packages/builder.ts";
import { debianHere, requireDebian } from "../../../src/sandbox/packages/host.ts";
import { defaultPlaces, findRoot, type Places } from "../../../src/sandbox/packages/packages.ts";
import { rangeOf } from "../../../src/sandbox/packages/range.ts";
import { temporaryFolder } from "../../support/folder.ts";

export const debian = debianHere();
export const isRoot = process.getuid?.() === 0;
/** Whether packages can be built here at all: Debian, its tools, and ids to build with. */
export const canBuild =
  debian !== undefined && ["apt-get", "bwrap", "flock"].every((program) => systemProgram(program)) && hasRange();

/** The default place: its base stays between runs, so that a test takes seconds. */
export const cached: Places = {
  own: defaultPlaces({ skilletHome: join(homedir(), ".skillet"), env: {} }).own,
  shared: undefined,
};

/** The first of some small packages that are neither on this machine nor built. */
export function lackedPackages(count: number): string[] {
  const small = ["hello", "sl", "figlet", "cowsay", "toilet", "rolldice", "lolcat", "jq", "tree", "pv"];
  return small.filter((name) => findRoot([name], cached).kind === "missing").slice(0, count);
}

/** Makes the base, unless it is there. */
export async function cachedBase(): Promise<Base> {
  const host = requireDebian();
  return asBuilder(cached.own, { range: rangeOf }, async (turn) => {
    const there = findBases(cached, host)[0];
    if (there) return there;
    const apt = openApt(cached.own, host, turn);
    await apt.update({});
    const lock = baseLock(host, await apt.resolve("base", undefined, {}));
    return buildBase(lock, { place: cached.own, range: rangeOf(), apt });
  });
}

/** A place of one test's own, on the cached base and with its lists of packages. */
export function places(folder = temporaryFolder()): Places {
  chmodSync(folder, 0o755); // Root builds as another user, who must get there.
  const own = join(folder, "packages");
  mkdirSync(own);
  const lists = join(cached.own, "apt");
  if (existsSync(lists)) spawnSync("/bin/cp", ["-a", lists, own]);
  return { own, shared: cached.own };
}

function hasRange(): boolean {
  try {
    rangeOf();
    return true;
  } catch {
    return false;
  }
}
