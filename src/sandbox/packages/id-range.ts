import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import type { Readable, Writable } from "node:stream";
import { SkillError } from "../../errors/problem.ts";
import {
  collectProgramResult,
  killProcessGroup,
  type ProgramOptions,
  type ProgramResult,
  resolveSystemProgram,
  runProgram,
  SYSTEM_ENV,
} from "../process.ts";
import { isRoot } from "../sandbox-folders.ts";
import { createSeccompFilter } from "../seccomp.ts";

type IdMapping = readonly [inside: number, outside: number, count: number];

/** The user and group IDs of a build: all 65536 that Debian's packages use, none with rights on the host. */
export interface IdRange {
  /** The user that starts the sandbox if it is not this user: root never starts it itself. */
  builder: { uid: number; gid: number } | undefined;
  uids: readonly IdMapping[];
  gids: readonly IdMapping[];
}

const RANGE_SIZE = 65536;
const FIRST_RANGE_ID = 1_000_000;

/** Resolves the range of this user: for root an unassigned one, otherwise the one in /etc/subuid. */
export function resolveIdRange(): IdRange {
  const uid = process.getuid?.() ?? 0;
  const gid = process.getgid?.() ?? 0;
  const [uids, gids] = [readSubids("/etc/subuid"), readSubids("/etc/subgid")];
  if (uid === 0) {
    const start = Math.max(FIRST_RANGE_ID, ...[...uids, ...gids].map(({ start: from, count }) => from + count));
    return { builder: { uid: start, gid: start }, uids: [[0, start, RANGE_SIZE]], gids: [[0, start, RANGE_SIZE]] };
  }
  const mine = (rows: SubidEntry[]) => {
    const row = rows.find(isOwnSubid);
    if (row) return row.start;
    throw new SkillError("package-subid-range", {
      message: `the user ${readUserName() ?? uid} has no range of ${RANGE_SIZE} IDs in /etc/subuid and /etc/subgid, which building system packages needs`,
      fix: `${readUserName() === undefined ? "" : "add one, or "}build for all users as root`,
      commands: [...(readUserName() === undefined ? [] : ["skillet doctor --fix"]), "sudo skillet packages build"],
    });
  };
  const rows = (self: number, start: number): IdMapping[] => [
    [0, self, 1],
    [1, start, RANGE_SIZE - 1],
  ];
  return { builder: undefined, uids: rows(uid, mine(uids)), gids: rows(gid, mine(gids)) };
}

/** Returns the name of this user if it has no range, or its number if it has no name and so cannot get a range. */
export function findUserWithoutRange(): string | number | undefined {
  if (isRoot() || ["/etc/subuid", "/etc/subgid"].every((file) => readSubids(file).some(isOwnSubid))) return undefined;
  return readUserName() ?? process.getuid?.();
}

function isOwnSubid({ who, count }: SubidEntry): boolean {
  return count >= RANGE_SIZE - 1 && (who === readUserName() || who === String(process.getuid?.()));
}

// The capabilities that Docker leaves to a container's root, except those for raw sockets and devices. They apply to
// the range only.
const RANGE_CAPABILITIES = [
  ...["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "SETFCAP"],
  ...["SYS_CHROOT", "AUDIT_WRITE"],
];

/** Runs a program as root of the range: without a network, other processes, or files other than `mounts`. */
export async function runInRange(
  mounts: readonly string[],
  argv: readonly string[],
  options: ProgramOptions & { range: IdRange },
): Promise<ProgramResult> {
  const filter = createSeccompFilter(process.arch, { allowsSetId: true }); // A network namespace alone does not block AF_VSOCK.
  const args = [
    ...["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ...["--die-with-parent", "--new-session", "--userns-block-fd", "4", "--info-fd", "3", "--hostname", "skillet"],
    ...RANGE_CAPABILITIES.flatMap((name) => ["--cap-add", `CAP_${name}`]),
    ...(filter ? ["--seccomp", "5"] : []),
    ...mounts,
    ...["--proc", "/proc", "--dev", "/dev", "--chdir", "/", "--", ...argv],
  ];
  const { builder } = options.range;
  const child = spawn(resolveSystemProgram("bwrap"), args, {
    env: { ...SYSTEM_ENV, HOME: "/root", ...options.env },
    cwd: "/",
    // The process that bwrap forks waits for its IDs before it is tied to its parent: until then only the group reaches
    // it.
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe", "pipe", "pipe"],
    ...builder,
  });
  const result = collectProgramResult(child, options);
  result.catch(() => {}); // If it is canceled while the IDs are mapped, the result is awaited below.
  const calls = (child.stdio as readonly unknown[])[5] as Writable;
  calls.on("error", () => {}).end(filter);
  try {
    await mapIds(child, options);
  } catch (error) {
    killProcessGroup(child);
    const { tail } = await result;
    throw new SkillError("package-sandbox", {
      message: `the sandbox for building system packages cannot be started: ${tail || (error as Error).message}`,
      fix: "to check that user namespaces are allowed",
      commands: ["skillet doctor"],
      cause: error,
    });
  }
  return result;
}

/** Maps the IDs: bwrap waits until a privileged process has set them. */
async function mapIds(child: ChildProcess, { range, signal }: ProgramOptions & { range: IdRange }): Promise<void> {
  const { builder, uids, gids } = range;
  const pid = await readChildPid(child.stdio[3] as Readable);
  killOnAbort(child, pid, signal);
  const go = child.stdio[4] as Writable;
  go.on("error", () => {}); // It died: its output explains why.
  if (builder) {
    writeFileSync(`/proc/${pid}/gid_map`, formatIdMap(gids));
    writeFileSync(`/proc/${pid}/uid_map`, formatIdMap(uids));
  } else {
    const map = async (program: string, rows: readonly IdMapping[]) => {
      const { code, tail } = await runProgram(program, [String(pid), ...rows.flat().map(String)], { signal });
      if (code !== 0) throw new Error(tail);
    };
    await map("newgidmap", gids);
    await map("newuidmap", uids);
  }
  go.end("1");
}

/**
 * Kills the child on abort. Once it has its IDs it leaves the group, and for a moment nothing ties it to its parent.
 */
function killOnAbort(child: ChildProcess, pid: number, signal: AbortSignal | undefined): void {
  const end = () => killProcessGroup({ pid });
  signal?.addEventListener("abort", end, { once: true });
  child.once("close", () => signal?.removeEventListener("abort", end));
  if (signal?.aborted) end();
}

/** Reads the stream to its end: bwrap dies if its reader leaves. */
function readChildPid(info: Readable): Promise<number> {
  return new Promise((resolve, reject) => {
    let output = "";
    info.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      const found = /"child-pid":\s*(\d+)[,\s]/.exec(output)?.[1];
      if (found !== undefined) resolve(Number(found));
    });
    info.on("error", reject).on("close", () => reject(new Error("bwrap exited before it started")));
  });
}

const formatIdMap = (rows: readonly IdMapping[]) => rows.map((row) => `${row.join(" ")}\n`).join("");

interface SubidEntry {
  who: string;
  start: number;
  count: number;
}

function readSubids(file: string): SubidEntry[] {
  let lines: string[] = [];
  try {
    lines = readFileSync(file, "utf8").split("\n");
  } catch {}
  return lines.flatMap((line) => {
    const [who = "", start = "", count = ""] = line.trim().split(":");
    return /^\d+$/.test(start) && /^\d+$/.test(count) ? [{ who, start: Number(start), count: Number(count) }] : [];
  });
}

function readUserName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined; // A user ID without an account.
  }
}
