import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { type Check, MIB, type Ran, type Scene } from "./scene.ts";

const PERL = "/usr/bin/perl";
const MEMORY = 64 * MIB;

/** Fills the buffers of many sockets, first tries larger ones, and stops at the limit. */
const SOCKETS = `use Socket; use Fcntl; $| = 1;
my ($kind, $pairs, $memory) = @ARGV; my ($total, @kept, $written) = (0); my $piece = "x" x 65536;
for (1 .. $pairs) {
  my ($one, $two);
  if ($kind =~ /tcp/) {
    my $protocol = $kind eq "mptcp" ? 262 : 0;
    my $server; socket($server, AF_INET, SOCK_STREAM, $protocol) && bind($server, sockaddr_in(0, INADDR_LOOPBACK)) && listen($server, 1) or last;
    socket($one, AF_INET, SOCK_STREAM, $protocol) && connect($one, getsockname($server)) && accept($two, $server) or last;
  } else { socketpair($one, $two, AF_UNIX, $kind eq "datagram" ? SOCK_DGRAM : SOCK_STREAM, 0) or last }
  push @kept, $one, $two;
  for my $socket ($one, $two) {
    setsockopt($socket, SOL_SOCKET, $_, pack("i", 4 << 20)) for SO_SNDBUF, SO_RCVBUF;
    fcntl($socket, F_SETFL, O_NONBLOCK);
    $total += $written while $written = syswrite($socket, $piece);
  }
}
print "$total\\n"; sleep 20 if $total > $memory`;

const INOTIFY = `$| = 1; my ($number, $most) = @ARGV; my $count = 0;
$count++ while $count < $most and syscall($number + 0, 0) >= 0;
print "$count\\n"; sleep 20 if $most > 1`;

/** Each process takes its share, and keeps it while the others take theirs. */
const TREE = `my ($processes, $mib) = @ARGV;
my @all = map { my $pid = fork; $pid // die; $pid || do { my $kept = "x" x ($mib << 20); sleep 3; exit 0 } } 1 .. $processes;
my $failed = 0; for (@all) { waitpid $_, 0; $failed ||= $? } exit 1 if $failed; print "kept\\n"`;

/** Shared memory exists once, however many processes see it. */
const SHARED = `my $kept = "x" x (96 << 20); my @all = map { my $pid = fork; $pid // die; $pid || do { sleep 1; exit 0 } } 1 .. 6;
waitpid $_, 0 for @all; print "shared\\n"`;

const DEEP = `$| = 1; chdir "/tmp"; for (1 .. $ARGV[0]) { mkdir "d" and chdir "d" or last; print "$_\\n" if $_ % 10000 == 0 } print "end\\n"; sleep 20`;

/** Reads one page in every 2 MiB of a read-only mapping: the kernel keeps a table of 4 KiB for each. */
const TABLES = `$| = 1; my ($mmap, $tables) = @ARGV; my $at = syscall($mmap + 0, 0, $tables << 21, 1, 0x4022, -1, 0); $at > 0 or die $!;
for (0 .. $tables - 1) { my $byte = unpack "P1", pack "Q", $at + ($_ << 21) } print "read\\n"; sleep 20`;
/** Lets a child fill each shared mapping, and exit: the pages stay, and no running process has touched them. */
const LEFT = `$| = 1; my ($mmap, $read, $regions, $mib) = @ARGV; open my $zero, "<", "/dev/zero" or die $!;
for (1 .. $regions) {
  my $at = syscall($mmap + 0, 0, $mib << 20, 3, 0x21, -1, 0); $at > 0 or die $!;
  my $pid = fork // die $!;
  if ($pid) { waitpid $pid, 0 } else { syscall($read + 0, fileno $zero, $at, $mib << 20); exit 0 }
}
print "left\\n"; sleep 20`;
const READ_CALL = process.arch === "arm64" ? 63 : 0;
const MMAP_CALL = process.arch === "arm64" ? 222 : 9;

const INOTIFY_CALL = process.arch === "arm64" ? 26 : 294;

function canTry({ sandbox }: Scene): boolean {
  return sandbox.by === "bubblewrap" && existsSync(PERL);
}

function perl(
  { run }: Scene,
  text: string,
  args: readonly (string | number)[],
  options?: Parameters<Scene["run"]>[1],
): Promise<Ran> {
  return run([PERL, "-e", text, "--", ...args.map(String)], options);
}

/** Resources that one program can exhaust. No limit of a process bounds the kernel's own memory and the counts of users. */
export const BOMBS: readonly Check[] = [
  ...[
    { kind: "stream", pairs: 250 },
    { kind: "datagram", pairs: 250 },
    { kind: "tcp", pairs: 40 },
    { kind: "mptcp", pairs: 40, canBeRefused: true },
  ].map(({ kind, pairs, canBeRefused = false }) => ({
    title: `[Q-17] bounds what the kernel holds for sockets: ${kind}`,
    level: "strong" as const,
    async check(scene: Scene) {
      if (!canTry(scene)) return;
      // The kernel reserves up to a megabyte of socket memory for each processor before it counts.
      const most = MEMORY + availableParallelism() * MIB;
      const ran = await perl(scene, SOCKETS, [kind, pairs, most], { limits: { memory: MEMORY } });
      // Stopped by the kernel, by the host, or refused more.
      const bytes = Number(ran.stdout);
      const isBounded = ran.ending === "memory" || ((canBeRefused || bytes > MEMORY / 4) && bytes <= most);
      assert.ok(isBounded, `${ran.ending}, ${ran.exitCode}: ${ran.stdout} bytes of ${MEMORY}`);
    },
  })),
  {
    title: "[Q-02] leaves inotify instances to the user's own programs, and to other runs",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const stop = new AbortController();
      let others: Promise<Ran> | undefined;
      let own = "";
      const ran = await perl(scene, INOTIFY, [INOTIFY_CALL, 1000], {
        signal: stop.signal,
        onOutput() {
          own = spawnSync(PERL, ["-e", INOTIFY, "--", `${INOTIFY_CALL}`, "1"], { encoding: "utf8" }).stdout;
          others = perl(scene, INOTIFY, [INOTIFY_CALL, 1]).finally(() => stop.abort());
          return true;
        },
      });
      assert.ok(Number(ran.stdout) > 0, "it has some itself");
      assert.deepEqual([own, (await others)?.stdout], ["1\n", "1\n"]);
    },
  },
  {
    title: "[Q-17] limits the memory of all processes together",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const ran = await perl(scene, TREE, [8, 24], { limits: { memory: 128 * MIB } });
      assert.deepEqual([ran.ending, ran.stdout], ["memory", ""]);
    },
  },
  {
    title: "[Q-17] limits the page tables of a process's reads",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const ran = await perl(scene, TABLES, [MMAP_CALL, 200_000], { limits: { memory: MEMORY } });
      assert.equal(ran.ending, "memory", ran.stdout + ran.stderr);
    },
  },
  {
    title: "[Q-17] limits shared memory that only ended processes had touched",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const ran = await perl(scene, LEFT, [MMAP_CALL, READ_CALL, 12, 16], { limits: { memory: MEMORY } });
      assert.equal(ran.ending, "memory", ran.stdout + ran.stderr);
    },
  },
  {
    title: "[Q-17] counts shared memory once",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const ran = await perl(scene, SHARED, []);
      assert.deepEqual([ran.ending, ran.exitCode, ran.stdout], ["exit", 0, "shared\n"]);
    },
  },
  {
    title: "[Q-17] limits the open files of a process, even if it raises the limit",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const ran = await scene.shell("ulimit -Hn; ulimit -Sn; ulimit -n 5000 2>/dev/null && echo raised");
      assert.equal(ran.stdout, "1024\n1024\n");
    },
  },
  {
    title: "[Q-15] ends a run with very many nested folders, and returns when every process of it is gone",
    level: "strong",
    async check(scene) {
      if (!canTry(scene)) return;
      const token = `deep-${randomUUID()}`;
      let seen: string[] = [];
      const ran = await perl(scene, DEEP, [400_000, token], {
        limits: { memory: 512 * MIB },
        onOutput() {
          if (seen.length === 0) seen = withAncestors(findHostProcesses(token)?.map(({ pid }) => pid) ?? []);
          return true;
        },
      });
      const left = seen.filter((process) => seen.length > 0 && identify(Number(process.split(" ")[0])) === process);
      assert.ok(seen.length >= 3, `its processes were there to be seen: ${seen}`);
      assert.deepEqual([ran.ending, left], ["memory", []]);
      assert.doesNotMatch(ran.stdout, /end/);
    },
  },
  {
    title: "[Q-17] reports in a result how each resource is limited",
    level: "strong",
    async check(scene) {
      if (scene.sandbox.by !== "bubblewrap") return;
      const { isolation } = await scene.shell("true");
      const memory = isolation.bounds === "tree" ? "kernel" : "watched";
      const { inotify, ...rest } = isolation.resources ?? { inotify: "none" };
      assert.deepEqual(rest, { memory, sockets: memory, descriptors: "kernel", files: "watched" });
      assert.ok(inotify === "kernel" || inotify === "refused", inotify);
    },
  },
];

/** These processes and their ancestors up to this one, each as `pid start`. */
function withAncestors(pids: readonly number[]): string[] {
  const all = new Set<number>();
  for (let pid of pids) {
    for (; pid > 1 && pid !== process.pid; pid = Number(fieldsOf(pid)?.[1] ?? 0)) all.add(pid);
  }
  return [...all].flatMap((pid) => identify(pid) ?? []);
}

/** Undefined when it is gone; a zombie, which holds nothing, counts as gone. */
function identify(pid: number): string | undefined {
  const fields = fieldsOf(pid);
  return fields && fields[0] !== "Z" ? `${pid} ${fields[19]}` : undefined;
}

/** Fields of `/proc/PID/stat`, from the state on. */
function fieldsOf(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}
