import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Sandbox, SandboxOutcome } from "../../src/host/sandbox-contract.ts";
import { type BubblewrapOptions, createBubblewrapSandbox } from "../../src/sandbox/bubblewrap.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { allocateRunUser, isRoot, mapSandboxPath } from "../../src/sandbox/sandbox-folders.ts";
import { moduleOf } from "../support/program.ts";
import { waitFor } from "../support/wait-for.ts";
import { type Check, LIMITS, type Ran, type RunOptions, type Scene, sceneFor } from "./scene.ts";

// In the background twice, in a new session, and ignoring every signal that it can ignore.
const LINGER = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.2; done' "$1" > /dev/null 2>&1 < /dev/null &)
sleep 0.2; echo ready
[ "$2" = output ] && exec yes "$1"
while :; do sleep 0.2; done`;

// Distinguishable from the command lines that only lead to it.
const STARTED = 'exec sh -c "sleep 300; : $1-started"';

const WAITING = "--unshare-user --unshare-pid --die-with-parent --info-fd 8 --userns-block-fd 9 --ro-bind / /";

/** Runs a program that resists its end. Contract: it ran, and `ending` was the outcome. */
async function lingering(
  { shell }: Scene,
  ending: SandboxOutcome["ending"],
  options: RunOptions = {},
): Promise<{ token: string; ran: Ran }> {
  const token = `linger-${randomUUID()}`;
  const { onOutput = () => true, limits = {} } = options;
  // On a busy machine, it may be over before it has started.
  for (let more = 1; ; more *= 2) {
    let alive = 0;
    const ran = await shell(LINGER, {
      ...options,
      limits: { ...limits, ...(limits.seconds === undefined ? {} : { seconds: limits.seconds * more }) },
      args: [token, ending],
      onOutput(stream, bytes) {
        if (alive === 0) alive = findHostProcesses(token)?.length ?? 0;
        return onOutput(stream, bytes);
      },
    });
    assert.equal(ran.ending, ending);
    if (alive >= 2) return { token, ran };
    assert.ok(more < 16, "its processes were there to be seen");
  }
}

/** Waits until a value is the same for as many reads as a busy machine needs to change it. */
async function settled(look: () => unknown): Promise<void> {
  let [before, alike]: [unknown, number] = [undefined, 0];
  await waitFor(() => {
    const now = look();
    alike = isDeepStrictEqual(now, before) ? alike + 1 : 0;
    before = now;
    return alike > 5;
  });
}

/** Waits until no process with a token on its command line runs. Kills survivors at the end. */
async function assertGone(token: string): Promise<void> {
  try {
    await waitFor(() => assert.deepEqual(findHostProcesses(token), [], "descendants are still there"));
  } finally {
    for (const { pid } of findHostProcesses(token) ?? []) process.kill(pid, "SIGKILL");
  }
}

/** How a run ends, and what remains of it. */
export const ENDINGS: Check[] = [
  {
    title: "[Q-15] ends a program after its time limit, with all its processes",
    level: "strong",
    async check(scene) {
      const { token, ran } = await lingering(scene, "timeout", { limits: { seconds: 1 } });
      await assertGone(token);
      assert.equal(ran.exitCode, undefined);
    },
  },
  {
    title: "[Q-15] ends an aborted program, with all its processes",
    level: "strong",
    async check(scene) {
      const stop = new AbortController();
      const onOutput = () => {
        stop.abort();
        return true;
      };
      const { token, ran } = await lingering(scene, "abort", { signal: stop.signal, onOutput });
      await assertGone(token);
      assert.equal(ran.exitCode, undefined);
    },
  },
  {
    title: "[Q-15] ends a program with too much output, with all its processes",
    level: "strong",
    async check(scene) {
      let bytes = 0;
      const { token } = await lingering(scene, "output", {
        onOutput(_, piece) {
          bytes += piece.length;
          return bytes < 100_000;
        },
      });
      await assertGone(token);
    },
  },
  {
    title: "[Q-15] ends everything when the host itself is killed",
    level: "strong",
    async check({ sandbox }) {
      const token = `orphan-${randomUUID()}`;
      const host = startHost(sandbox, token);
      try {
        await waitFor(() => (findHostProcesses(token)?.length ?? 0) >= 4);
      } finally {
        host.kill("SIGKILL");
      }
      await assertGone(token);
    },
  },
  {
    title: "[Q-15] runs no code for a host that is killed while a run starts",
    level: "strong",
    async check({ sandbox }) {
      for (let tries = 0; tries < 4; tries++) {
        const token = `early-${randomUUID()}`;
        const host = startHost(sandbox, token, STARTED);
        try {
          // The sandbox is starting: its first process exists, and is not yet tied to its parent's end.
          while ((findHostProcesses(token)?.length ?? 0) < 2) await setImmediate();
        } finally {
          host.kill("SIGKILL");
        }
        // It could start only now. Once nothing of the run exists, nothing can start.
        await assertGone(token);
      }
    },
  },
  {
    title: "[Q-15] ends a sandbox whose host is killed while the inner process of bubblewrap waits for the outer one",
    level: "strong",
    async check({ sandbox, folder }) {
      if (sandbox.by !== "bubblewrap") return;
      for (const cgroups of [true, false]) {
        const token = `waiting-${randomUUID()}`;
        const place = folder({}, true);
        // Bubblewrap itself. One of its options pauses it when the outer process is tied to its host, and the inner one to nothing yet.
        const program = join(place, "bwrap");
        const held = `exec 8> "${place}/info" 9<> "${place}/never"; exec /usr/bin/bwrap ${WAITING} -- /bin/true "$@"`;
        writeFileSync(program, `#!/bin/sh\nmkfifo -m 600 "${place}/never"; ${held}\n`, { mode: 0o755 });
        const host = startHost(sandbox, token, STARTED, { program, cgroups });
        try {
          await waitFor(() => existsSync(join(place, "info")) && readFileSync(join(place, "info"), "utf8") !== "");
        } finally {
          host.kill("SIGKILL");
        }
        await assertGone(token);
      }
    },
  },
  {
    title: "[Q-15] runs no code before the first process of a sandbox is tied to its parent's end",
    level: "strong",
    async check({ sandbox, folder }) {
      if (sandbox.by !== "bubblewrap") return;
      // Reports the first process that has no seccomp filter yet, and is ready to run code.
      const text = `#!/bin/sh
        sleep 300 > /dev/null 2>&1 3<&- 4<&- 5<&- 6<&- &
        echo "{ \\"child-pid\\": $! }" >&5
        echo asked; echo >&6; read -r go <&6 && echo started; wait\n`;
      const program = join(folder({ bwrap: text }), "bwrap");
      const early = sceneFor(createBubblewrapSandbox({ program, ...(isRoot() ? { user: allocateRunUser } : {}) }));
      // On a busy machine, it may be over before it has asked.
      for (let seconds = 1; ; seconds *= 2) {
        const ran = await early.run(["/bin/true"], { limits: { seconds } });
        assert.equal(ran.ending, "timeout");
        assert.doesNotMatch(ran.stdout, /started/);
        if (ran.stdout === "asked\n") return;
        assert.ok(seconds < 16, "it has asked whether it may start");
      }
    },
  },
  {
    title: "[Q-15] ends at a time limit also when only the program itself was started",
    level: "none",
    async check({ run }) {
      const ran = await run(["/bin/sleep", "300"], { limits: { seconds: 0.5 } });
      assert.deepEqual([ran.ending, ran.exitCode], ["timeout", undefined]);
    },
  },
  {
    title: "[Q-15] starts nothing when it is aborted before it begins",
    level: "none",
    async check({ shell, sandbox, folder }) {
      const written = folder({}, true);
      const mounts = [{ from: written, to: "/workspace", access: "read-write" as const }];
      const path = mapSandboxPath(sandbox, mounts, "/workspace/it");
      const ran = await shell('touch "$1"', { args: [path], mounts, signal: AbortSignal.abort() });
      assert.deepEqual([ran.ending, ran.exitCode, ran.stdout], ["abort", undefined, ""]);
      assert.deepEqual(readdirSync(written), []);
    },
  },
  {
    title: "[Q-15] does not wait for a child that holds the output open",
    level: "none",
    async check({ shell }) {
      const token = `child-${randomUUID()}`;
      const ran = await shell("sh -c 'while :; do sleep 1; done' \"$1\" & echo done", { args: [token] });
      for (const { pid } of findHostProcesses(token) ?? []) process.kill(pid, "SIGKILL"); // Without a sandbox no other process would.
      assert.deepEqual([ran.ending, ran.exitCode, ran.stdout], ["exit", 0, "done\n"]);
    },
  },
  {
    title: "[Q-15] leaves no process, cgroup, file or open descriptor",
    level: "strong",
    async check({ sandbox, shell }) {
      for (let runs = 0; runs < 3; runs++) await shell("true"); // State that is kept between runs exists now.
      // Prepared sandboxes are created in the background.
      await settled(() => leftovers());
      const [before, files] = [leftovers(), temporaryFiles()];
      const token = `remains-${randomUUID()}`;
      await Promise.all([
        shell('sleep 300 & sleep 300 & echo "$1"', { args: [token] }),
        shell("sleep 300", { args: [token], limits: { seconds: 0.3 } }),
        shell("yes", { args: [token], onOutput: () => false }),
        shell('echo x > /tmp/x; exit 3 # "$1"', { args: [token] }),
      ]);
      assert.deepEqual(findHostProcesses(token), []);
      const left = () => {
        const now = leftovers();
        return { ...now, descriptors: Math.max(Number(now["descriptors"]), Number(before["descriptors"])) }; // Other tests of this process close theirs.
      };
      await waitFor(() => assert.deepEqual(left(), before, `after ${sandbox.by}`));
      // Those of this process: other tests have theirs, and some of these kill the process that would remove them.
      const made = temporaryFiles().filter((name) => !files.includes(name));
      await waitFor(() => !temporaryFiles().some((name) => made.includes(name)));
    },
  },
  {
    title: "[Q-15] ends also a first process that the code took over, without blocking its host",
    level: "strong",
    async check({ run, sandbox }) {
      if (sandbox.by !== "bubblewrap" || process.arch !== "x64" || !existsSync("/usr/bin/perl")) return;
      const token = `takeover-${randomUUID()}`;
      let ran: Ran | undefined;
      const taken = async (seconds: number) => {
        ran = await run(["/usr/bin/perl", "-e", TAKEOVER, "--", token], { limits: { seconds } });
      };
      try {
        // A busy machine may have no time to take anything over.
        for (let seconds = 1; !ran?.stdout && seconds < 16; seconds *= 2) {
          ran = undefined;
          void taken(seconds);
          await waitFor(() => ran !== undefined);
        }
      } finally {
        await assertGone(token);
      }
      assert.match(ran?.stdout ?? "", /^taken over \d/);
      assert.equal(ran?.ending, "timeout");
    },
  },
];

// Overwrites the next step of the first process: untie itself from its parent's end, then wait forever. The end of an orphan wakes it.
const TAKEOVER = `
open(my $s, "<", "/proc/1/syscall") and my @f = split / /, <$s>;
if (@f and open(my $m, "+<", "/proc/1/mem")) {
  sysseek($m, hex($f[-1]), 0);
  syswrite($m, pack("H*", "b89d000000bf0100000031f60f05b8220000000f05ebf7"));
}
if (!fork) { exit 0 if fork; exit 0 } wait;
syswrite STDOUT, "taken over " . scalar(@f) . "\n";
sleep 600`;

/** State that a run could leave in this process and on this machine. */
function leftovers(): Record<string, unknown> {
  const folders = ["", "memory", "pids", "unified"].map((name) => join("/sys/fs/cgroup", name)).filter(existsSync);
  const own = new RegExp(`^skillet-\\d+-${process.pid}-`);
  const open = readdirSync("/proc/self/fd").map(linkOf);
  return {
    cgroups: folders.flatMap((folder) => readdirSync(folder)).filter((name) => own.test(name)),
    descriptors: open.filter((link) => !link.includes("skillet-pipes-")).length,
    // Some are prepared for the next run: no more than those.
    hasFewPipes: open.filter((link) => link.includes("skillet-pipes-")).length <= 2 * 16,
  };
}

function temporaryFiles(): string[] {
  const own = new RegExp(`^skillet-pipes-${process.pid}-`);
  return readdirSync(tmpdir()).filter((name) => own.test(name));
}

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ""; // It was the one that the folder was read with.
  }
}

/** A separate host that runs code in a sandbox: the given one, or one with these options. */
function startHost(
  { by }: Sandbox,
  token: string,
  text = LINGER,
  made?: Pick<BubblewrapOptions, "program" | "cgroups">,
): ChildProcess {
  const folder = mkdtempSync(join(tmpdir(), "skillet-check-"));
  const script = `
    const { createSandbox } = await import(${JSON.stringify(moduleOf("sandbox/create-sandbox"))});
    const { DEFAULT_SANDBOX_SETTINGS } = await import(${JSON.stringify(moduleOf("config/limits"))});
    const { createBubblewrapSandbox } = await import(${JSON.stringify(moduleOf("sandbox/bubblewrap"))});
    const { isRoot, allocateRunUser } = await import(${JSON.stringify(moduleOf("sandbox/sandbox-folders"))});
    const home = ${JSON.stringify(folder)};
    const made = ${JSON.stringify(made)};
    const sandbox = made
      ? createBubblewrapSandbox({ ...made, ...(isRoot() ? { user: allocateRunUser } : {}) })
      : await createSandbox({ settings: { ...DEFAULT_SANDBOX_SETTINGS, engine: ${JSON.stringify(by)} }, home });
    await sandbox.run({ argv: ["/bin/sh", "-c", ${JSON.stringify(text)}, "sh", "${token.slice(0, 8)}" + "${token.slice(8)}"],
      env: {}, folder: "/", mounts: [], network: [], limits: ${JSON.stringify({ ...LIMITS, seconds: 60 })} }, { onOutput: () => true });`;
  const file = join(folder, "host.mjs");
  writeFileSync(file, script);
  const host = spawn(process.execPath, [file], {
    stdio: "ignore",
    env: { PATH: "/usr/bin:/bin", HOME: tmpdir() },
  });
  host.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return host;
}
