import { execFileSync, spawnSync } from "node:child_process";
import { getEventListeners } from "node:events";
import { chmodSync, closeSync, copyFileSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { ProcessStream, SandboxCommand } from "../../src/host/sandbox-contract.ts";
import { createNoSandbox } from "../../src/sandbox/create-sandbox.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { type Program, runProcess } from "../../src/sandbox/process.ts";
import { isRunUser, SYSTEM_SANDBOX_FOLDER } from "../../src/sandbox/sandbox-folders.ts";
import { shortHash } from "../../src/util/text.ts";
import { temporaryFolder } from "../support/folder.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";
import { moduleOf } from "../support/program.ts";
import { describeSandbox } from "./contract.ts";

describeSandbox("no sandbox", "none", async () => createNoSandbox());

async function run(program: Omit<Program, "env"> & Partial<Program>, seconds = 10, signal?: AbortSignal) {
  const said: Record<ProcessStream, string> = { stdout: "", stderr: "" };
  const outcome = await runProcess({ env: {}, ...program }, seconds, {
    onOutput(stream, bytes) {
      said[stream] += bytes;
      return said[stream].length < 50_000;
    },
    ...(signal === undefined ? {} : { signal }),
  });
  return { ...outcome, ...said };
}

const shell = (text: string, program: Partial<Program> = {}) => ({ file: "/bin/sh", args: ["-c", text], ...program });

describe.runIf(process.platform === "linux")("inherited file descriptors of the host", () => {
  const module = JSON.stringify(moduleOf("sandbox/process"));
  const script = (pipes: number) => `const { runProcess } = await import(${module});
    await runProcess({ file: "/bin/ls", args: ["-l", "/proc/self/fd"], env: {}, pipes: Array(${pipes}).fill(Buffer.from("x")) }, 10, {
      onOutput: (stream, bytes) => process.stdout.write(bytes) || true });`;

  /** The open descriptors of a program whose host has a file open at each of these. */
  function openBelow(leaked: readonly number[], pipes: number): string {
    const secret = join(temporaryFolder({ "secret.txt": "secret" }), "secret.txt");
    const fd = openSync(secret, "r+");
    const stdio = Array.from({ length: Math.max(...leaked) + 1 }, (_, index) =>
      leaked.includes(index) ? fd : "ignore",
    );
    try {
      const args = ["--input-type=module", "-e", script(pipes)];
      const { stdout, stderr } = spawnSync(process.execPath, args, {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe", ...stdio.slice(3)] as never,
      });
      expect(stderr).toBe("");
      return stdout;
    } finally {
      closeSync(fd);
    }
  }

  it("reach a program by default", () => {
    // Node itself closes the first ones, up to a gap.
    const secret = join(temporaryFolder({ "secret.txt": "secret" }), "secret.txt");
    const fd = openSync(secret, "r");
    const script = 'require("child_process").spawnSync("/bin/ls", ["-l", "/proc/self/fd"], { stdio: [0, 1, 2] })';
    const options = { encoding: "utf8", stdio: ["ignore", "pipe", "pipe", ...Array(37).fill("ignore"), fd] };
    expect(spawnSync(process.execPath, ["-e", script], options as never).stdout).toContain("secret.txt");
    closeSync(fd);
  });

  it.each([
    { leaked: [3], pipes: 0 },
    { leaked: [3, 4, 5, 6, 7], pipes: 4 },
    { leaked: [20], pipes: 4 },
    { leaked: [9, 30, 63, 200], pipes: 0 },
  ])("[Q-01] do not reach a started program: $leaked, next to $pipes pipes", ({ leaked, pipes }) => {
    const open = openBelow(leaked, pipes);
    expect(open).toContain(" 1 -> ");
    expect(open).not.toContain("secret.txt");
  });
});

/** Blocks this thread until then. */
function busyUntil(condition: () => boolean): void {
  while (!condition());
}

/** True when a child has exited and its parent has not been notified yet. */
function isZombie(pid: number | undefined): boolean {
  return /\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

describe("a process", () => {
  it.runIf(process.platform === "linux")(
    "[Q-16] has its last output read by a host that is busy when it ends",
    async () => {
      const go = join(temporaryFolder(), "go");
      const pids: (number | undefined)[] = [];
      const pipes: Program["pipes"] = [(_, child) => void pids.push(child.pid)];
      const last = run(shell(`until [ -e ${go} ]; do sleep 0.01; done; echo last words`, { pipes }), 50);
      const other = runProcess({ env: {}, ...shell("echo first", { pipes }) }, 50, {
        onOutput() {
          // The other one ends now, and both ends are reported together: before any of its output was read.
          writeFileSync(go, "");
          busyUntil(() => isZombie(pids[0]));
          // Longer than the wait for a process's last output: that time is over when it is read.
          setImmediate(() => {
            const start = performance.now();
            busyUntil(() => performance.now() > start + 800);
          });
          return true;
        },
      });
      busyUntil(() => isZombie(pids[1]));
      expect(await last).toMatchObject({ stdout: "last words\n", exitCode: 0, ending: "exit" });
      await other;
    },
  );

  it("[Q-16] starts in the root folder, so that its path reveals nothing of the host's", async () => {
    expect((await run({ file: "/bin/pwd", args: [] })).stdout).toBe("/\n");
  });

  it("[Q-01] has exactly the given variables", async () => {
    expect((await run({ file: "/usr/bin/env", args: [], env: { ONE: "1" } })).stdout).toBe("ONE=1\n");
  });

  it("gets the content of its other pipes", async () => {
    const answered: string[] = [];
    const ran = await run(
      shell("cat <&3; echo back >&4; cat <&5", {
        pipes: [
          Buffer.from("three "),
          (pipe) => pipe.on("data", (bytes) => answered.push(String(bytes))),
          (pipe) => pipe.end("five"),
        ],
      }),
    );
    expect([ran.stdout, answered.join("")]).toEqual(["three five", "back\n"]);
  });

  it("can reopen its output, as scripts do", async () => {
    const ran = await run(shell("echo one > /dev/stdout; echo two > /dev/stderr"));
    expect([ran.exitCode, ran.stdout, ran.stderr]).toEqual([0, "one\n", "two\n"]);
  });

  it("[Q-13] is refused with a code and a fix when it cannot start", async () => {
    await expect(run({ file: "/no/such/program", args: [] })).rejects.toMatchObject({
      code: "sandbox-start-failed",
      commands: [expect.stringContaining("skillet doctor")],
    });
  });

  it("[Q-16] continues to its end despite errors on the way", async () => {
    const failing: Program["pipes"] = [(_, child) => setImmediate(() => child.emit("error", new Error("kill EPERM")))];
    expect(await run(shell("sleep 0.2; echo done", { pipes: failing }))).toMatchObject({
      exitCode: 0,
      stdout: "done\n",
    });
  });

  it("[Q-16] starts even without a folder for temporary files, and reports why it can have no input", async () => {
    const before = process.env["TMPDIR"];
    onTestFinished(() => {
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
    });
    process.env["TMPDIR"] = "/no/such/folder";
    const all = await Promise.all(Array.from({ length: 20 }, () => run(shell("echo done"))));
    expect(all.map(({ stdout }) => stdout)).toEqual(Array(20).fill("done\n"));
    await expect(run(shell("cat", { stdin: "x" }))).rejects.toMatchObject({
      code: "sandbox-start-failed",
      fix: expect.stringContaining("TMPDIR"),
    });
  });

  it("[Q-16] does not crash its host without descriptors for its pipes", () => {
    const script = `import { openSync, closeSync, readdirSync } from "node:fs";
      const pipes = await import(${JSON.stringify(moduleOf("sandbox/pipes"))});
      const held = [];
      pipes.preparePipes();
      try { for (;;) held.push(openSync("/dev/null", "r")); } catch {}
      closeSync(held.pop()); // One end of a pipe can be opened, and not the other.
      setTimeout(() => {
        const count = held.length;
        for (const fd of held) closeSync(fd);
        console.log("alive", count > 0);
      }, 300);`;
    const node = [process.execPath, "--input-type=module", "-e", script];
    expect(spawnSync("/bin/sh", ["-c", 'ulimit -n 64; exec "$@"', "sh", ...node], { encoding: "utf8" })).toMatchObject({
      stdout: "alive true\n",
      status: 0,
    });
  });

  it("[Q-13] is refused without a sandbox when it would lose packages", async () => {
    const command = { argv: ["/bin/true"] as const, env: {}, folder: "/", mounts: [], network: [], root: "/layer" };
    const limits = { seconds: 5, output: 1, memory: 1, processes: 1, disk: 1 };
    await expect(createNoSandbox().run({ ...command, limits }, { onOutput: () => true })).rejects.toMatchObject({
      code: "sandbox-packages",
    });
  });

  it("[Q-13] is refused, and nothing starts, for a NUL in a name, an argument or a value", async () => {
    await expect(run({ file: "/bin/echo", args: ["a\0b"] })).rejects.toThrow();
    await expect(run({ file: "/bin/echo", args: [], env: { A: "a\0b" } })).rejects.toThrow();
  });

  it("[Q-15] ends with its process group", async () => {
    const ran = await run(shell("trap '' TERM; sleep 300 & sleep 300; echo no"), 0.3);
    expect([ran.ending, ran.exitCode, ran.signal, ran.stdout]).toEqual(["timeout", undefined, "SIGKILL", ""]);
  });

  it("[Q-15] does not end at once with a time limit above a timer's maximum", async () => {
    const ran = await run(shell("sleep 0.2; echo done"), 10_000_000);
    expect([ran.ending, ran.stdout]).toEqual(["exit", "done\n"]);
  });

  it("[Q-16] ends for its output also when it had ended before that was read", async () => {
    const ran = await run(shell("head -c 60000 /dev/zero"));
    expect(ran.ending).toBe("output");
    expect(ran.stdout.length).toBeLessThanOrEqual(60_000);
  });

  it("[Q-15] leaves no listener on a signal that many share", async () => {
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 5 }, () => run(shell("true"), 5, signal)));
    await expect(run({ file: "/no/such/program", args: [] }, 5, signal)).rejects.toThrow();
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("[Q-15] does not keep its host alive", () => {
    const mark = crypto.randomUUID();
    const script = `const { runProcess } = await import(${JSON.stringify(moduleOf("sandbox/process"))});
      const text = "sh -c 'while :; do sleep 1; done' ${mark} & true";
      await runProcess({ file: "/bin/sh", args: ["-c", text], env: {} }, 100, { onOutput: () => true });`;
    onTestFinished(() => {
      for (const { pid } of findHostProcesses(mark) ?? []) process.kill(pid, "SIGKILL");
    });
    execFileSync(process.execPath, ["--input-type=module", "-e", script], { timeout: 45_000 });
  });
});

describe.runIf(process.getuid?.() === 0)("no sandbox, as root", () => {
  const limits = { seconds: 20, output: 1 << 20, memory: 1 << 28, processes: 64, disk: 1 << 20 };
  async function said(argv: SandboxCommand["argv"], more: Partial<SandboxCommand> = {}) {
    let text = "";
    const command = { argv, env: {}, folder: "/", mounts: [], network: [], limits, ...more };
    const { exitCode } = await createNoSandbox().run(command, {
      onOutput(_, bytes) {
        text += bytes;
        return true;
      },
    });
    return { exitCode, text };
  }

  it("[Q-13] never runs code as root: as a user without an account, or the configured one, without root's groups", async () => {
    const own = (await said(["/usr/bin/id", "-u"])).text.trim();
    expect(isRunUser(Number(own))).toBe(true);
    const text = "id -u; id -g; id -G; cat /proc/self/status | grep -E '^Cap(Eff|Prm)'";
    const named = await said(["/bin/sh", "-c", text], { user: ORDINARY_USER });
    expect(named.text).toMatch(/^12345\n12345\n12345\nCapPrm:\s0+\nCapEff:\s0+\n$/);
    expect((await said(["/usr/bin/id", "-u"], { user: 0 })).text.trim()).not.toBe("0");
  });

  it("[Q-13] runs JavaScript even if only root can reach skillet's Node", async () => {
    const folder = temporaryFolder();
    chmodSync(folder, 0o700);
    const node = join(folder, "node");
    copyFileSync(process.execPath, node);
    // Its copy is as large as Node, and of no use to another run.
    const { size, mtimeMs } = statSync(node);
    const copy = join(SYSTEM_SANDBOX_FOLDER, "furniture", `node-${shortHash(`${node}:${size}:${mtimeMs}`)}`);
    onTestFinished(() => rmSync(copy));
    const script = `const { createNoSandbox } = await import(${JSON.stringify(moduleOf("sandbox/create-sandbox"))});
      const limits = ${JSON.stringify(limits)};
      const command = { argv: [process.execPath, "-p", "process.getuid() > 0"], env: {}, folder: "/", mounts: [], network: [], limits };
      await createNoSandbox().run(command, { onOutput: (stream, bytes) => process.stdout.write(bytes) || true });`;
    const { stdout, stderr } = spawnSync(node, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect([stdout, stderr]).toEqual(["true\n", ""]);
  });

  it("[Q-13] hides files that only root can read from code", async () => {
    const file = join(temporaryFolder({ "secret.txt": "secret" }), "secret.txt");
    chmodSync(file, 0o600);
    expect(await said(["/bin/cat", file])).toMatchObject({ exitCode: 1, text: expect.stringContaining("denied") });
  });
});
