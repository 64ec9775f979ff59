import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FIXED_VARIABLES, ISOLATION_LEVELS, type IsolationLevel } from "../../src/host/sandbox-contract.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { mapSandboxPath } from "../../src/sandbox/sandbox-folders.ts";
import { BOMBS } from "./bomb-checks.ts";
import { ENDINGS } from "./ending-checks.ts";
import { type Check, MIB, type Scene } from "./scene.ts";
import { SOCKET_CHECKS } from "./socket-checks.ts";

/** The checks that a sandbox of a level must pass. */
export function checksFor(level: IsolationLevel): Check[] {
  return CHECKS.filter((one) => ISOLATION_LEVELS.indexOf(one.level) <= ISOLATION_LEVELS.indexOf(level));
}

const KNOWN = new Set([...Object.keys(FIXED_VARIABLES), "PWD", "OLDPWD", "SHLVL", "_"]);

const RESULTS: Check[] = [
  {
    title: "[Q-16] returns the exit code, and the output of each of the two streams",
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
    title: "[Q-16] streams output",
    level: "none",
    async check({ shell, sandbox, folder }) {
      const shared = folder({}, true);
      const mounts = [{ from: shared, to: "/workspace", access: "read-write" as const }];
      const heard = mapSandboxPath(sandbox, mounts, "/workspace/heard");
      // The second is written only after the first was received.
      const ran = await shell('echo one; until [ -e "$1" ]; do sleep 0.02; done; echo two', {
        args: [heard],
        mounts,
        onOutput() {
          writeFileSync(join(shared, "heard"), "");
          return true;
        },
      });
      assert.deepEqual([ran.ending, ran.stdout], ["exit", "one\ntwo\n"]);
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
    title: "[Q-16] passes the standard input completely",
    level: "none",
    async check({ run }) {
      const stdin = `${"ü€\n".repeat(200_000)}\0end`;
      const ran = await run(["/bin/cat"], { stdin });
      assert.ok(ran.stdout === stdin);
    },
  },
  {
    title: "[Q-16] passes an empty standard input by default, and ignores one that is not read",
    level: "none",
    async check({ run }) {
      const [none, unread] = await Promise.all([run(["/bin/cat"]), run(["/bin/true"], { stdin: "x".repeat(MIB) })]);
      assert.deepEqual([none.exitCode, none.stdout, unread.exitCode], [0, "", 0]);
    },
  },
  {
    title: "[Q-16] uses no shell: arguments arrive unchanged",
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
    title: "[Q-16] does not take an argument for one of its own options",
    level: "none",
    async check({ run }) {
      const ran = await run(["/bin/echo", "--bind", "/", "/host", "--", "--args", "3"]);
      assert.equal(ran.stdout, "--bind / /host -- --args 3\n");
    },
  },
  {
    title: "[Q-16] reports a missing program",
    level: "none",
    async check({ run }) {
      const ran = await run(["/usr/bin/no-such-program"]).catch((error) => error);
      assert.ok(ran.exitCode === 127 || ran.code === "sandbox-start-failed", JSON.stringify(ran));
    },
  },
  {
    title: "[Q-13] reports the isolation in every result",
    level: "none",
    async check({ sandbox, shell }) {
      const all = await Promise.all([
        shell("exit 3"),
        shell("sleep 300", { limits: { seconds: 0.3 } }),
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
    title: "[Q-02] runs forty concurrently, each with its own folders",
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
    title: "[Q-01] gives it exactly the declared variables and the fixed ones, whatever their content",
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
          outside ??= findHostProcesses(secret);
          return true;
        },
      });
      assert.deepEqual(outside, []);
      assert.ok(ran.stdout.length > 0 && !ran.stdout.includes(secret));
    },
  },
  {
    title: "[Q-01] starts it with no signal ignored or blocked",
    level: "strong",
    async check({ run }) {
      const ran = await run(["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
      assert.match(ran.stdout, /SigBlk:\s0+\nSigIgn:\s0+\n/);
    },
  },
  {
    title: "[Q-02] starts it in the given folder, as it sees it",
    level: "none",
    async check({ run, sandbox, folder }) {
      const mounts = [{ from: folder({ "a.txt": "hello" }), to: "/skill", access: "read" as const }];
      const [place, read] = await Promise.all([
        run(["/bin/pwd"], { mounts, folder: "/skill" }),
        run(["/bin/cat", "a.txt"], { mounts, folder: "/skill" }),
      ]);
      assert.deepEqual([place.stdout, read.stdout], [`${mapSandboxPath(sandbox, mounts, "/skill")}\n`, "hello"]);
    },
  },
  {
    title: "[Q-02] lets it read the read-only mounts, and change nothing there",
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
    title: "[Q-02] lets it write to the writable mounts",
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
    title: "[Q-02] shows nothing except the mounts, and follows no link out of them",
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
    title: "[Q-02] gives each run its own empty writable folders",
    level: "strong",
    async check({ shell }) {
      const text = 'for at in /tmp "$HOME" /dev/shm; do ls -A "$at"; echo x > "$at/mark" || echo "not $at"; done';
      const [one, two] = [await shell(text), await shell(text)];
      assert.deepEqual([one.stdout, two.stdout], ["", ""]);
    },
  },
  {
    title: "[Q-17] ends a program that exceeds its memory, or refuses more, and survives",
    level: "strong",
    async check({ sandbox, run, node }) {
      const script =
        "const a = []; for (let i = 0; i < 64; i++) a.push(Buffer.alloc(16 << 20, 1)); console.log('got it')";
      const ran = await run([node, "-e", script]);
      assert.equal(ran.stdout, "");
      assert.notEqual(ran.exitCode, 0);
      // The client of a container does not report the cause of its end.
      if (ran.isolation.bounds === "tree" && sandbox.system === "host") assert.equal(ran.ending, "memory");
      if (ran.ending === "memory") assert.equal(ran.exitCode, undefined);
    },
  },
];

const CHECKS: readonly Check[] = [...RESULTS, ...SURROUNDINGS, ...SOCKET_CHECKS, ...ENDINGS, ...BOMBS];
