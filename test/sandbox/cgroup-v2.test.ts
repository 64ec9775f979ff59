import { spawnSync } from "node:child_process";
import { chmodSync, closeSync, existsSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";

/** Linux as a program, with its own cgroup v2 hierarchy: Debian's package `user-mode-linux`. Its files are those of the machine, read-only. */
const KERNEL = "/usr/bin/linux.uml";
/**
 * A seccomp filter: `ptrace` has no PTRACE_GETREGSET. With it this kernel saves the registers of its processes in a buffer that is too small for
 * processors with AMX, and panics when it restores them; without it, it saves them as PTRACE_GETFPREGS gives them.
 */
const FILTER: ReadonlyArray<readonly [code: number, ifTrue: number, ifFalse: number, value: number]> = [
  [0x20, 0, 0, 0], // the number of the system call
  [0x15, 0, 3, 101], // ptrace
  [0x20, 0, 0, 16], // its first argument
  [0x15, 0, 1, 0x4204], // PTRACE_GETREGSET
  [0x06, 0, 0, 0x0005_0016], // EINVAL
  [0x06, 0, 0, 0x7fff_0000], // allowed
];
const LIMITS = { memory: 64 * 1024 * 1024, processes: 20 };

/** Creates a group, and starts a process in it that exceeds its memory, and one that starts more processes. */
const PROBE = `import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
const { createCgroup } = await import(${JSON.stringify(moduleOf("sandbox/cgroup"))});
const ownPath = () => readFileSync("/proc/self/cgroup", "utf8").trim().slice(3);
const before = ownPath();
const group = createCgroup(${JSON.stringify(LIMITS)});
const inside = (command) => spawnSync("/bin/sh", ["-c", "echo 0 > " + group.procsFiles[0] + " && " + command], { encoding: "utf8" });
const seen = { before, after: ownPath(), doors: group?.procsFiles };
if (group) {
  seen.taken = inside("exec perl -e 'my $kept = \\"x\\" x (150 << 20); print 1'").signal;
  seen.ranOutOfMemory = group.ranOutOfMemory();
  seen.forks = inside("for i in $(seq 40); do sleep 1 & done").stderr;
  group.kill();
  await group.remove();
}
console.log("SEEN " + process.argv[2] + " " + JSON.stringify(seen));`;

const INIT = (probe: string) => `#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t cgroup2 none /sys/fs/cgroup
C=/sys/fs/cgroup
# The C library, V8 and simdutf use no registers that the kernel does not save.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-XSAVE,-XSAVEC,-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM SIMDUTF_FORCE_IMPLEMENTATION=fallback
echo "+memory +pids" > $C/cgroup.subtree_control
as() { echo 0 > $C/$1/cgroup.procs; exec setpriv --reuid 4242 --regid 4242 --clear-groups ${process.execPath} --no-enable-avx --single-threaded --no-warnings ${probe} $2; }
give() { mkdir -p $C/$1; chown 4242:4242 $C/$1 $C/$1/cgroup.procs $C/$1/cgroup.subtree_control; }
give user; give user/app; give user/app/shell
for group in user user/app; do echo "+memory +pids" > $C/$group/cgroup.subtree_control; done
(as user/app/shell parent)
give unit; (as unit own)
give shared; (echo 0 > $C/shared/cgroup.procs; exec sleep 600) & (as shared shared)
mkdir $C/none; (as none none)
echo END; poweroff -f
`;

describe.runIf(process.getuid?.() === 0 && existsSync(KERNEL))("a delegated cgroup v2", () => {
  it("[Q-17] limits a run of an ordinary user, and is not changed when it has other members or another owner", () => {
    const folder = temporaryFolder({ "probe.mjs": PROBE });
    const init = join(folder, "init.sh");
    writeFileSync(init, INIT(join(folder, "probe.mjs")));
    for (const path of [folder, init]) chmodSync(path, 0o755);
    const root = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", `init=${init}`];
    const args = ["mem=1024M", ...root, "con=null", "con0=fd:0,fd:1", "quiet", `uml_dir=${folder}`];
    const filter = join(folder, "filter.bpf");
    writeFileSync(filter, Buffer.concat(FILTER.map(encodeInstruction)));
    const descriptor = openSync(filter, "r");
    const { stdout } = spawnSync("bwrap", ["--dev-bind", "/", "/", "--seccomp", "3", "--", KERNEL, ...args], {
      encoding: "utf8",
      cwd: folder,
      stdio: ["ignore", "pipe", "ignore", descriptor],
      timeout: 100_000, // Only turns a kernel that hangs into a failure.
      killSignal: "SIGKILL",
    });
    closeSync(descriptor);
    const lines = stdout.matchAll(/^SEEN (\w+) (.*?)\r?$/gm);
    const seen = Object.fromEntries(Array.from(lines, ([, name = "", json = ""]) => [name, JSON.parse(json)]));
    const bounded = { taken: "SIGKILL", ranOutOfMemory: true, forks: expect.stringContaining("Cannot fork") };
    expect(seen).toEqual({
      // The parent of the caller's group was delegated, as below a systemd user manager.
      parent: {
        ...bounded,
        before: "/user/app/shell",
        after: "/user/app/shell",
        doors: [expect.stringMatching(/^\/sys\/fs\/cgroup\/user\/app\/skillet-\d/)],
      },
      // Only the caller's own group was, as to a unit with Delegate=yes.
      own: {
        ...bounded,
        before: "/unit",
        after: "/unit/skillet-host",
        doors: [expect.stringMatching(/^\/sys\/fs\/cgroup\/unit\/skillet-\d/)],
      },
      shared: { before: "/shared", after: "/shared" },
      none: { before: "/none", after: "/none" },
    });
  }, 120_000);
});

function encodeInstruction([code, ifTrue, ifFalse, value]: (typeof FILTER)[number]): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.set([ifTrue, ifFalse], 2);
  bytes.writeUInt32LE(value, 4);
  return bytes;
}
