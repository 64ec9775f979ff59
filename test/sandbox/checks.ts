import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Command,
  FIXED_VARIABLES,
  LEVELS,
  type Level,
  type Outcome,
  type OutputStream,
  type Sandbox,
  seenPath,
} from "../../src/host/sandbox.ts";
import { goneAfter, processesWith } from "../../src/sandbox/probe-host.ts";

/** One promise of every sandbox. No test framework in here: an ordinary user runs them too (`test/support/as-user.ts`). */
export interface Check {
  title: string;
  /** The lowest level that claims it. */
  level: Level;
  check(scene: Scene): Promise<void>;
}

/** The checks that a sandbox of a level has to pass. */
export function checksFor(level: Level): Check[] {
  return CHECKS.filter((one) => LEVELS.indexOf(one.level) <= LEVELS.indexOf(level));
}

export interface Ran extends Outcome {
  stdout: string;
  stderr: string;
  bytes: Buffer;
}

interface RunOptions extends Partial<Omit<Command, "limits">> {
  limits?: Partial<Command["limits"]>;
  signal?: AbortSignal;
  onOutput?: (stream: OutputStream, bytes: Buffer) => boolean;
}

export interface Scene {
  sandbox: Sandbox;
  /** Node, as the sandbox sees it. */
  node: string;
  run(argv: Command["argv"], options?: RunOptions): Promise<Ran>;
  shell(text: string, options?: RunOptions & { args?: string[] }): Promise<Ran>;
  /** A folder that code can read; one that it can write to, if need be. */
  folder(files?: Record<string, string>, isWritable?: boolean): string;
  end(): void;
}

const MIB = 1024 * 1024;
const LIMITS = { seconds: 15, output: MIB, memory: 256 * MIB, processes: 64, disk: 4 * MIB };

export function sceneFor(sandbox: Sandbox): Scene {
  const folders: string[] = [];
  const run: Scene["run"] = async (argv, { limits, signal, onOutput, ...command } = {}) => {
    const said: Record<OutputStream, Buffer[]> = { stdout: [], stderr: [] };
    const outcome = await sandbox.run(
      { argv, env: {}, folder: "/", mounts: [], network: [], ...command, limits: { ...LIMITS, ...limits } },
      {
        onOutput(stream, bytes) {
          said[stream].push(bytes);
          return onOutput?.(stream, bytes) ?? true;
        },
        ...(signal === undefined ? {} : { signal }),
      },
    );
    const bytes = Buffer.concat(said.stdout);
    return { ...outcome, bytes, stdout: bytes.toString(), stderr: Buffer.concat(said.stderr).toString() };
  };
  return {
    sandbox,
    node: sandbox.mapsPaths ? "/opt/skillet/bin/node" : process.execPath,
    run,
    shell: (text, { args = [], ...options } = {}) => run(["/bin/sh", "-c", text, "sh", ...args], options),
    folder(files = {}, isWritable = false) {
      const folder = mkdtempSync(join(tmpdir(), "skillet-check-"));
      folders.push(folder);
      chmodSync(folder, isWritable ? 0o777 : 0o755);
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o755 });
      return folder;
    },
    end() {
      for (const folder of folders) rmSync(folder, { recursive: true, force: true });
    },
  };
}

// In the background twice, with a session of its own, and deaf to everything that it can be deaf to.
const LINGER = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.2; done' "$1" > /dev/null 2>&1 < /dev/null &)
sleep 0.2; echo ready
[ "$2" = output ] && exec yes "$1"
while :; do sleep 0.2; done`;

/** Runs what does not want to end. Contract: it was there, and `ending` came of what was done. */
async function lingering(
  { shell }: Scene,
  ending: Outcome["ending"],
  options: RunOptions = {},
): Promise<{ token: string; ran: Ran }> {
  const token = `linger-${randomUUID()}`;
  const { onOutput = () => true } = options;
  let alive = 0;
  const ran = await shell(LINGER, {
    ...options,
    args: [token, ending],
    onOutput(stream, bytes) {
      if (alive === 0) alive = processesWith(token)?.length ?? 0;
      return onOutput(stream, bytes);
    },
  });
  assert.ok(alive >= 2, "its processes were there to be seen");
  assert.equal(ran.ending, ending);
  return { token, ran };
}

async function assertGone(token: string): Promise<void> {
  assert.notEqual(await goneAfter(token, 1000), undefined, "a descendant is still there after a second");
}

function until(isTrue: () => boolean, mostMs: number): Promise<void> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const look = () => {
      if (isTrue()) resolve();
      else if (performance.now() - start > mostMs) reject(new Error("it did not come to pass"));
      else setTimeout(look, 20);
    };
    look();
  });
}

const KNOWN = new Set([...Object.keys(FIXED_VARIABLES), "PWD", "OLDPWD", "SHLVL", "_"]);

const ENDINGS: Check[] = [
  {
    title: "[Q-15] ends what runs too long, and all that it started, within a second",
    level: "strong",
    async check(scene) {
      const { token, ran } = await lingering(scene, "timeout", { limits: { seconds: 1 } });
      await assertGone(token);
      assert.equal(ran.exitCode, undefined);
      assert.ok(ran.ms >= 1000 && ran.ms < 2000, `it took ${ran.ms} ms`);
    },
  },
  {
    title: "[Q-15] ends what is aborted, and all that it started, within a second",
    level: "strong",
    async check(scene) {
      const stop = new AbortController();
      const onOutput = () => {
        setTimeout(() => stop.abort(), 50);
        return true;
      };
      const { token, ran } = await lingering(scene, "abort", { signal: stop.signal, onOutput });
      await assertGone(token);
      assert.equal(ran.exitCode, undefined);
    },
  },
  {
    title: "[Q-15] ends what says too much, and all that it started, within a second",
    level: "strong",
    async check(scene) {
      let bytes = 0;
      const { token, ran } = await lingering(scene, "output", {
        onOutput(_, piece) {
          bytes += piece.length;
          return bytes < 100_000;
        },
      });
      await assertGone(token);
      assert.ok(ran.bytes.length < 2 * MIB, "it is not listened to any longer");
    },
  },
  {
    title: "[Q-15] ends everything within a second when the host itself is killed",
    level: "strong",
    async check({ sandbox }) {
      const token = `orphan-${randomUUID()}`;
      const host = startHost(sandbox, token);
      try {
        await until(() => (processesWith(token)?.length ?? 0) >= 4, 10_000);
      } finally {
        host.kill("SIGKILL");
      }
      await assertGone(token);
    },
  },
  {
    title: "[Q-15] ends a time-out also where nothing was started but the program itself",
    level: "none",
    async check({ run }) {
      const ran = await run(["/bin/sleep", "20"], { limits: { seconds: 0.5 } });
      assert.deepEqual([ran.ending, ran.exitCode], ["timeout", undefined]);
      assert.ok(ran.ms >= 490 && ran.ms < 1500, `it took ${ran.ms} ms`);
    },
  },
  {
    title: "[Q-15] starts nothing when it is aborted before it begins",
    level: "none",
    async check({ shell, sandbox, folder }) {
      const written = folder({}, true);
      const mounts = [{ from: written, to: "/workspace", access: "read-write" as const }];
      const path = seenPath(sandbox, mounts, "/workspace/it");
      const ran = await shell('touch "$1"', { args: [path], mounts, signal: AbortSignal.abort() });
      assert.deepEqual([ran.ending, ran.exitCode, ran.stdout], ["abort", undefined, ""]);
      assert.deepEqual(readdirSync(written), []);
    },
  },
  {
    title: "[Q-15] does not wait for a child that holds the output open",
    level: "none",
    async check({ shell }) {
      const ran = await shell("sleep 4 & echo done");
      assert.deepEqual([ran.ending, ran.exitCode, ran.stdout], ["exit", 0, "done\n"]);
      assert.ok(ran.ms < 1500, `it took ${ran.ms} ms`);
    },
  },
  {
    title: "[Q-15] leaves nothing behind: no process, no cgroup, no file, no open descriptor",
    level: "strong",
    async check({ sandbox, shell }) {
      await shell("true"); // What is kept between runs is there now.
      const [before, files] = [leftovers(), temporaryFiles()];
      const token = `remains-${randomUUID()}`;
      await Promise.all([
        shell('sleep 30 & sleep 30 & echo "$1"', { args: [token] }),
        shell("sleep 30", { args: [token], limits: { seconds: 0.3 } }),
        shell("yes", { args: [token], onOutput: () => false }),
        shell('echo x > /tmp/x; exit 3 # "$1"', { args: [token] }),
      ]);
      assert.deepEqual(processesWith(token), []);
      assert.deepEqual(leftovers(), before, `after ${sandbox.by}`);
      await until(() => temporaryFiles().every((name) => files.includes(name)), 2000); // Other tests have theirs.
    },
  },
];

/** What a run could leave in this process and on this machine. */
function leftovers(): Record<string, unknown> {
  const folders = ["", "memory", "pids", "unified"].map((name) => join("/sys/fs/cgroup", name)).filter(existsSync);
  const own = new RegExp(`^skillet-${process.pid}-`);
  const open = readdirSync("/proc/self/fd").map(linkOf);
  return {
    cgroups: folders.flatMap((folder) => readdirSync(folder)).filter((name) => own.test(name)),
    descriptors: open.filter((link) => !link.includes("skillet-pipes-")).length,
    // Some are kept ready for the next run: no more than those.
    hasFewPipes: open.filter((link) => link.includes("skillet-pipes-")).length <= 2 * 16,
  };
}

function temporaryFiles(): string[] {
  return readdirSync(tmpdir()).filter((name) => /^(?:bwrap|skillet-pipes)/.test(name));
}

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ""; // It was the one that the folder was read with.
  }
}

/** A host of its own, that runs something that lingers. */
function startHost({ by }: Sandbox, token: string): ChildProcess {
  const source = join(import.meta.dirname, "../../src");
  const script = `
    const { openSandbox } = await import(${JSON.stringify(join(source, "sandbox/open.ts"))});
    const { SANDBOX_DEFAULTS } = await import(${JSON.stringify(join(source, "host/sandbox-settings.ts"))});
    const home = ${JSON.stringify(join(tmpdir(), `skillet-check-host-${process.getuid?.()}`))};
    const sandbox = await openSandbox({ settings: { ...SANDBOX_DEFAULTS, engine: ${JSON.stringify(by)} }, home });
    await sandbox.run({ argv: ["/bin/sh", "-c", ${JSON.stringify(LINGER)}, "sh", "${token.slice(0, 8)}" + "${token.slice(8)}"],
      env: {}, folder: "/", mounts: [], network: [], limits: ${JSON.stringify({ ...LIMITS, seconds: 60 })} }, { onOutput: () => true });`;
  const file = join(mkdtempSync(join(tmpdir(), "skillet-check-")), "host.mjs");
  writeFileSync(file, script);
  const host = spawn(process.execPath, [file], { stdio: "ignore", env: { PATH: "/usr/bin:/bin" } });
  host.once("exit", () => rmSync(join(file, ".."), { recursive: true, force: true }));
  return host;
}

const RESULTS: Check[] = [
  {
    title: "[Q-16] gives the exit code, and what was written to each of the two streams",
    level: "none",
    async check({ shell }) {
      const ran = await shell("echo out; echo err >&2; exit 7");
      assert.deepEqual(
        [ran.exitCode, ran.signal, ran.ending, ran.stdout, ran.stderr],
        [7, undefined, "exit", "out\n", "err\n"],
      );
    },
  },
  ...[
    { name: "KILL", number: 9 },
    { name: "TERM", number: 15 },
    { name: "SEGV", number: 11 },
  ].map(({ name, number }) => ({
    title: `[Q-16] names the signal that ended it: SIG${name}`,
    level: "none" as const,
    async check({ shell }: Scene) {
      const ran = await shell(`kill -${name} $$; sleep 5`);
      assert.deepEqual([ran.exitCode, ran.signal, ran.ending], [128 + number, `SIG${name}`, "exit"]);
    },
  })),
  {
    title: "[Q-16] passes output on as it comes",
    level: "none",
    async check({ shell }) {
      const times: number[] = [];
      await shell("echo one; sleep 0.6; echo two", { onOutput: () => times.push(performance.now()) > 0 });
      assert.equal(times.length, 2);
      assert.ok((times[1] ?? 0) - (times[0] ?? 0) > 300, "the first came before the second was written");
    },
  },
  {
    title: "[Q-16] passes on every byte of an output that is not text",
    level: "none",
    async check({ run, node }) {
      const script =
        "const b = Buffer.from([...Array(256).keys()]); for (let i = 0; i < 64; i++) process.stdout.write(b)";
      const ran = await run([node, "-e", script]);
      assert.ok(ran.bytes.equals(Buffer.concat(Array(64).fill(Buffer.from([...Array(256).keys()])))));
    },
  },
  {
    title: "[Q-16] gives what it is told on its standard input, all of it",
    level: "none",
    async check({ run }) {
      const stdin = `${"ü€\n".repeat(200_000)}\0end`;
      const ran = await run(["/bin/cat"], { stdin });
      assert.ok(ran.stdout === stdin);
    },
  },
  {
    title: "[Q-16] gives an empty standard input where there is none, and does not mind one that is not read",
    level: "none",
    async check({ run }) {
      const [none, unread] = await Promise.all([run(["/bin/cat"]), run(["/bin/true"], { stdin: "x".repeat(MIB) })]);
      assert.deepEqual([none.exitCode, none.stdout, unread.exitCode], [0, "", 0]);
    },
  },
  {
    title: "[Q-16] puts no shell in between: arguments arrive as they are",
    level: "none",
    async check({ run }) {
      const args = [
        "a b",
        "",
        '"',
        "'",
        "$(id)",
        "`id`",
        "$HOME",
        "two\nlines",
        "*",
        "\\",
        "-n",
        "--",
        "; exit 9",
        "é🙂",
      ];
      const ran = await run(["/usr/bin/printf", "<%s>", ...args]);
      assert.equal(ran.stdout, args.map((text) => `<${text}>`).join(""));
    },
  },
  {
    title: "[Q-16] does not take an argument for an option of its own",
    level: "none",
    async check({ run }) {
      const ran = await run(["/bin/echo", "--bind", "/", "/host", "--", "--args", "3"]);
      assert.equal(ran.stdout, "--bind / /host -- --args 3\n");
    },
  },
  {
    title: "[Q-16] says so when there is no such program",
    level: "none",
    async check({ run }) {
      const ran = await run(["/usr/bin/no-such-program"]).catch((error) => error);
      assert.ok(ran.exitCode === 127 || ran.code === "sandbox-start", JSON.stringify(ran));
    },
  },
  {
    title: "[Q-13] says in every result how it was kept apart",
    level: "none",
    async check({ sandbox, shell }) {
      const all = await Promise.all([
        shell("exit 3"),
        shell("sleep 9", { limits: { seconds: 0.3 } }),
        shell("true", { signal: AbortSignal.abort() }),
        shell("yes", { onOutput: () => false }),
      ]);
      assert.deepEqual(
        all.map(({ ending }) => ending),
        ["exit", "timeout", "abort", "output"],
      );
      for (const { isolation } of all) {
        assert.deepEqual([isolation.level, isolation.by], [sandbox.level, sandbox.by]);
        assert.ok(["tree", "process", "none"].includes(isolation.bounds));
      }
    },
  },
  {
    title: "[Q-02] runs forty at once, each with its own",
    level: "none",
    async check({ run }) {
      const numbers = Array.from({ length: 40 }, (_, index) => index);
      const all = await Promise.all(
        numbers.map((index) =>
          run(["/bin/sh", "-c", 'read line; echo "$N $line"; exit "$N"'], {
            env: { N: `${index}` },
            stdin: `line ${index}\n`,
          }),
        ),
      );
      assert.deepEqual(
        all.map(({ exitCode, stdout }) => [exitCode, stdout]),
        numbers.map((index) => [index, `${index} line ${index}\n`]),
      );
    },
  },
];

const SURROUNDINGS: Check[] = [
  {
    title: "[Q-01] gives it the declared variables and the fixed ones, whatever is in them, and no others",
    level: "none",
    async check({ run }) {
      const env = { LINES: "a\nb\n", EMPTY: "", UNICODE: "grüß 🙂", EQUALS: "a=b=c", QUOTED: `"'$(id)\`` };
      const ran = await run(["/usr/bin/env", "-0"], { env });
      const seen = Object.fromEntries(
        ran.stdout
          .split("\0")
          .filter(Boolean)
          .map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)]),
      );
      for (const [name, value] of Object.entries(env)) assert.equal(seen[name], value);
      assert.deepEqual(
        Object.keys(seen).filter((name) => !KNOWN.has(name) && !Object.hasOwn(env, name)),
        [],
      );
      assert.ok(Object.keys(FIXED_VARIABLES).every((name) => seen[name] !== undefined));
    },
  },
  {
    title: "[Q-01] shows a process only the declared variables, also in those of others",
    level: "strong",
    async check({ shell }) {
      const text = 'sleep 1 & for file in /proc/[0-9]*/environ; do tr "\\0" "\\n" < "$file"; done; kill $!';
      const ran = await shell(text, { env: { DECLARED: "yes" } });
      const names = new Set(
        ran.stdout
          .trim()
          .split("\n")
          .map((line) => line.replace(/=.*/, "")),
      );
      assert.ok(names.has("DECLARED"));
      assert.deepEqual(
        [...names].filter((name) => name !== "DECLARED" && !KNOWN.has(name)),
        [],
      );
    },
  },
  {
    title: "[Q-01] puts no value of a variable on a command line, neither inside nor outside",
    level: "strong",
    async check({ shell }) {
      const secret = `value-${randomUUID()}`;
      let outside: unknown;
      const ran = await shell("cat /proc/[0-9]*/cmdline; echo; sleep 0.3", {
        env: { SECRET: secret },
        onOutput() {
          outside ??= processesWith(secret);
          return true;
        },
      });
      assert.deepEqual(outside, []);
      assert.ok(ran.stdout.length > 0 && !ran.stdout.includes(secret));
    },
  },
  {
    title: "[Q-01] starts it with no signal ignored or held back",
    level: "strong",
    async check({ run }) {
      const ran = await run(["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
      assert.match(ran.stdout, /SigBlk:\s0+\nSigIgn:\s0+\n/);
    },
  },
  {
    title: "[Q-02] starts it in the folder that is named, as it sees it",
    level: "none",
    async check({ run, sandbox, folder }) {
      const mounts = [{ from: folder({ "a.txt": "hello" }), to: "/skill", access: "read" as const }];
      const [place, read] = await Promise.all([
        run(["/bin/pwd"], { mounts, folder: "/skill" }),
        run(["/bin/cat", "a.txt"], { mounts, folder: "/skill" }),
      ]);
      assert.deepEqual([place.stdout, read.stdout], [`${seenPath(sandbox, mounts, "/skill")}\n`, "hello"]);
    },
  },
  {
    title: "[Q-02] lets it read what is mounted to be read, and change nothing there",
    level: "strong",
    async check({ shell, folder }) {
      const from = folder({ "a.txt": "hello" }, true);
      const text = "cat a.txt; echo x > a.txt; echo x > b.txt; rm -f a.txt; mv a.txt c.txt; chmod 777 a.txt; true";
      const ran = await shell(text, { mounts: [{ from, to: "/skill", access: "read" }], folder: "/skill" });
      assert.equal(ran.stdout, "hello");
      assert.deepEqual(readdirSync(from), ["a.txt"]);
      assert.equal(readFileSync(join(from, "a.txt"), "utf8"), "hello");
    },
  },
  {
    title: "[Q-02] lets it write to what is mounted to be written to",
    level: "none",
    async check({ shell, folder }) {
      const from = folder({ "a.txt": "hello" }, true);
      const mounts = [{ from, to: "/workspace", access: "read-write" as const }];
      const ran = await shell("cat a.txt > b.txt", { mounts, folder: "/workspace" });
      assert.deepEqual([ran.exitCode, ran.stderr], [0, ""]);
      assert.equal(readFileSync(join(from, "b.txt"), "utf8"), "hello");
    },
  },
  {
    title: "[Q-02] shows nothing beside what is mounted, and follows no link out of it",
    level: "strong",
    async check({ shell, folder }) {
      const from = folder({ "a.txt": "hello", "beside.txt": "secret" });
      const mounts = [{ from: join(from, "a.txt"), to: "/skill/a.txt", access: "read" as const }];
      const text = `ls -A /skill; cat ${from}/beside.txt /skill/../beside.txt 2>/dev/null`;
      const ran = await shell(text, { mounts, folder: "/skill" });
      assert.equal(ran.stdout, "a.txt\n");
    },
  },
  {
    title: "[Q-02] gives each run places of its own to write to, empty",
    level: "strong",
    async check({ shell }) {
      const text = 'for at in /tmp "$HOME" /dev/shm; do ls -A "$at"; echo x > "$at/mark" || echo "not $at"; done';
      const [one, two] = [await shell(text), await shell(text)];
      assert.deepEqual([one.stdout, two.stdout], ["", ""]);
    },
  },
  {
    title: "[Q-17] ends what takes too much memory, or gives it no more, and lives on itself",
    level: "strong",
    async check({ run, node }) {
      const script =
        "const a = []; for (let i = 0; i < 64; i++) a.push(Buffer.alloc(16 << 20, 1)); console.log('got it')";
      const ran = await run([node, "-e", script]);
      assert.equal(ran.stdout, "");
      assert.notEqual(ran.exitCode, 0);
      if (ran.isolation.bounds === "tree") assert.equal(ran.ending, "memory");
    },
  },
];

const CHECKS: readonly Check[] = [...RESULTS, ...SURROUNDINGS, ...ENDINGS];
