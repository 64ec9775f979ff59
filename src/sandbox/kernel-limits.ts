import { readFileSync } from "node:fs";
import { systemProgram } from "../host/programs.ts";
import type { Limits } from "../host/sandbox.ts";

/** Open files of a process. Node, Python, git and apt need fewer; each may be a socket, for which the kernel holds memory. */
export const MOST_DESCRIPTORS = 1024;

/**
 * What the kernel gives to a user as a whole, all programs of whom run out of it together. These limits count in the sandbox's own user
 * namespace, so all of its processes share them.
 */
const OF_A_USER = { memlock: 64 * 1024, msgqueue: 256 * 1024, sigpending: 1024 };

/** Options of prlimit. `RLIMIT_AS` would break programs that reserve memory which they never use, as V8 does. */
export function resourceLimits({ disk, memory, processes }: Limits, isCounted: boolean): string[] {
  const limits = {
    core: 0,
    fsize: disk,
    nofile: MOST_DESCRIPTORS,
    ...OF_A_USER,
    ...(isCounted ? {} : { nproc: processes, data: memory }),
  };
  return Object.entries(limits).map(([name, value]) => `--${name}=${value}`);
}

/** The share of a real user's inotify instances and watches that a sandbox may take, and the most of each. */
const SHARE = 1 / 4;
const INOTIFY = { max_inotify_instances: 32, max_inotify_watches: 16_384 };

/**
 * Starts a program in a user namespace that has smaller counts than its user, after shell text that is to run before. Contract: it fails before
 * it starts the program, or not at all.
 */
export type CountedStart = (argv: readonly string[], before?: string) => string[];

/**
 * Returns how to start programs so that they cannot take all inotify instances and watches of their user; undefined where that cannot
 * be done. A new namespace counts for itself, and its limits can be lowered from inside before anything else is in it.
 */
export function countedStart(): CountedStart | undefined {
  const unshare = systemProgram("unshare");
  // There only programs with a profile get a namespace that they may do something in.
  if (!unshare || setting("kernel/apparmor_restrict_unprivileged_userns") === "1") return undefined;
  const writes = Object.entries(INOTIFY).map(([name, most]) => {
    const ofUser = Number(setting(`user/${name}`) ?? Number.NaN);
    return Number.isNaN(ofUser)
      ? undefined
      : `echo ${Math.min(most, Math.floor(ofUser * SHARE))} > ${sysctl(`user/${name}`)}`;
  });
  if (writes.includes(undefined)) return undefined;
  const script = `{ ${writes.join(" && ")}; } 2>/dev/null || exit ${NOT_COUNTED}; exec "$@"`;
  return (argv, before = ":") => [
    unshare,
    "--user",
    "--map-root-user",
    "/bin/sh",
    "-c",
    `${before}; ${script}`,
    "sh",
    ...argv,
  ];
}

const NOT_COUNTED = 114;

function setting(name: string): string | undefined {
  try {
    return readFileSync(sysctl(name), "utf8").trim();
  } catch {
    return undefined;
  }
}

const sysctl = (name: string) => `/proc/sys/${name}`;
