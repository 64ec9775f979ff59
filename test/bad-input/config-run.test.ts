import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, lstatSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { skillText } from "../support/folder.ts";
import { type Place, createHome as placeWith } from "../support/home.ts";
import { waitFor } from "../support/wait-for.ts";
import { makePipe } from "./pipe.ts";

const SLOW = skillText("slow", { body: "```sh\necho begun; sleep 60\n```" });

/** A home with the skills `x` and `slow`, and without a model. */
function place(config = ""): Place {
  const x = skillText("x", { body: "```sh\necho hi\n```" });
  return placeWith({ "home/.skillet/skills/x/SKILL.md": x, "home/.skillet/skills/slow/SKILL.md": SLOW }, config);
}

describe("skillet run", () => {
  it.each(["--input", "--context"])(
    "[Q-24] reads at most 16 MiB for %s, even from an endless device",
    async (option) => {
      const { run, project } = place();
      const { code, stderr } = await run(["run", "x", option, "@/dev/zero"]);
      expect([code, stderr]).toEqual([2, expect.stringContaining("/dev/zero is larger than 16 MiB")]);
      writeFileSync(join(project, "large"), Buffer.alloc(17 * 1024 * 1024, "x"));
      expect((await run(["run", "x", option, "@large"])).stderr).toContain("larger than 16 MiB");
      for (const [name, why] of [
        [".", "directory"],
        ["missing", "no such file"],
        ["", "directory"],
      ]) {
        const wrong = await run(["run", "x", option, `@${name}`]);
        expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining(why ?? "")]);
      }
    },
  );

  it("reads input from a named pipe", async () => {
    const { run, project } = place();
    const pipe = join(project, "pipe");
    makePipe(pipe);
    const writer = spawn("sh", ["-c", `printf '{"a": 1}' > "$1"`, "sh", pipe]);
    expect((await run(["run", "x", "--input", "@pipe"])).code).toBe(0);
    await (writer.exitCode === null ? once(writer, "exit") : undefined);
  });

  it("[W-12] refuses unreadable input without reporting a bug", async () => {
    const { run, project } = place();
    const deep = `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`;
    writeFileSync(join(project, "deep.json"), deep);
    const { code, stderr } = await run(["run", "x", "--input", "@deep.json"]);
    expect([code, stderr]).toEqual([3, expect.stringMatching(/no JSON|more than 100 deep/)]);
    for (const input of ["", "{", "\u0000", "{'a':1}", "NaN"]) {
      const wrong = await run(["run", "x", "--input", input]);
      expect([input, wrong.code]).toEqual([input, 2]);
      expect(wrong.stderr).not.toContain("bug");
    }
  });

  it.each(["0", "-1", "NaN", "Infinity", "abc", "", " ", "1,5"])("[Q-24] refuses %j as a limit", async (given) => {
    const { run } = place();
    for (const option of ["--timeout", "--budget", "--max-iterations"]) {
      expect(await run(["run", "x", `${option}=${given}`])).toMatchObject({ code: 2, stdout: "" });
    }
  });

  it("[Q-23] escapes control sequences in a skill's output", async () => {
    const { run, home } = place();
    mkdirSync(join(home, ".skillet/skills/odd"));
    const body = "```sh\nprintf '\\033[2J\\033]52;c;aGk=\\007\\r\\342\\200\\256x\\n'\n```";
    writeFileSync(join(home, ".skillet/skills/odd/SKILL.md"), skillText("odd", { body }));
    for (const options of [[], ["--json"], ["--events"]]) {
      const { stdout, stderr } = await run(["run", "odd", ...options], { isTTY: true, env: { TERM: "dumb" } });
      expect(stdout + stderr).not.toMatch(/[\u001b\u0007\u202e]/);
    }
  });
});

const BIN = fileURLToPath(new URL("../../bin/skillet.cjs", import.meta.url));
const isBuilt = existsSync(fileURLToPath(new URL("../../dist/cli/bin.cjs", import.meta.url)));

function start({ home, project }: Place, args: readonly string[], stdio: "pipe" | "ignore" = "ignore"): ChildProcess {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: project,
    env: { HOME: home, PATH: process.env["PATH"] },
    stdio: ["ignore", stdio === "pipe" ? "pipe" : "ignore", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

describe.runIf(isBuilt)("the program", () => {
  it.each<[string, (home: string) => boolean]>([
    ["right after its start", () => true],
    ["when its run starts", (home) => existsSync(join(home, ".skillet/runs"))],
    ["while a command of its run continues", () => findHostProcesses("echo begun; sleep 60")?.length !== 0],
  ])("[Q-15] ends at Ctrl-C %s", async (_, isThere) => {
    const here = place();
    const child = start(here, ["run", "slow"]);
    const ended = once(child, "exit");
    await waitFor(() => isThere(here.home));
    child.kill("SIGINT");
    const [code, signal] = await ended;
    expect(signal === "SIGINT" || code === 130).toBe(true);
  });

  it("ends when the reader of its output closes the pipe", async () => {
    const child = start(place(), ["run", "slow", "--events"], "pipe");
    await once(child.stdout as NodeJS.ReadableStream, "data");
    child.stdout?.destroy();
    child.kill("SIGINT");
    await once(child, "exit");
    expect(child.exitCode ?? 130).toBe(130);
  });

  it("writes to two streams at once", async () => {
    const here = place();
    const two = [1, 2].map(() => start(here, ["chat", "use the x skill", "--json"], "pipe"));
    const codes = await Promise.all(two.map(async (child) => (await once(child, "exit"))[0]));
    expect(codes).toEqual([0, 0]);
  });
});

describe("skillet config set", () => {
  it.each([
    'skills."a b".enabled',
    'skills."a.b".enabled',
    "skills.'q\"uote'.enabled",
    'skills."ünï".enabled',
    'skills."__proto__".enabled',
    "skills.constructor.enabled",
    'skills."new\\nline".enabled',
    'skills."]".enabled',
  ])("[Q-25] writes %s so that it reads back the same", async (key) => {
    const { run, config } = place("# mine\n[limits]\ntokens = 5 # few\n");
    const set = await run(["config", "set", key, "true"]);
    if (set.code === 0) {
      expect((await run(["config", "get", key])).stdout).toBe("true\n");
      expect((await run(["config", "unset", key])).code).toBe(0);
    } else expect(set.code).toBe(2);
    const text = readFileSync(config, "utf8");
    expect(text).toContain("# mine\n[limits]\ntokens = 5 # few\n");
    expect((await run(["config", "get", "limits.tokens"])).stdout).toBe("5\n");
    expect(Object.hasOwn(Object.prototype, "enabled")).toBe(false);
  });

  it.each([
    "two\nlines",
    '"""',
    "'''",
    'a"b\\c\\',
    "# no comment",
    "\t\u0001\u007f",
    ']\n[sandbox]\nlevel = "none"\n',
    `${"x".repeat(60_000)}`,
    "ünï 👩‍👩‍👧 \u202e",
  ])("[Q-25] keeps a value to the character, without side effects", async (value) => {
    const { run, config } = place();
    const set = await run(["config", "set", "skills.x.KEY"], { stdin: value });
    expect(set).toMatchObject({ code: 0, stdout: expect.not.stringContaining(value) });
    expect((await run(["config", "get", "skills.x.KEY", "--show-secrets"])).stdout).toBe(
      `${value.replace(/\r?\n$/, "")}\n`,
    );
    expect((await run(["config", "get", "skills.x.KEY"])).code).toBe(3);
    const shown = await run(["config", "--json"]);
    expect(shown.stdout).not.toContain(JSON.stringify(value).slice(1, 20));
    expect(JSON.parse(shown.stdout).set).toHaveLength(1);
    expect(statSync(config).mode & 0o777).toBe(0o600);
  });

  it("takes no secret from the command line, and shows none", async () => {
    const { run } = place();
    const { code, stdout, stderr } = await run(["config", "set", "skills.x.KEY", "hunter2-value"]);
    expect(code).toBe(2);
    expect(stdout + stderr).not.toContain("hunter2-value");
  });

  it("[Q-25] loses nothing with many concurrent writers", async () => {
    const { run } = place("[limits]\ntokens = 5\n");
    const names = Array.from({ length: 20 }, (_, at) => `skills.s${at}.enabled`);
    const codes = await Promise.all(names.map(async (name) => (await run(["config", "set", name, "false"])).code));
    expect(codes).toEqual(names.map(() => 0));
    const { stdout } = await run(["config", "--json"]);
    expect(JSON.parse(stdout).set).toHaveLength(21);
  });

  it("leaves an unreadable file unchanged, and follows or refuses a link", async () => {
    const broken = place('[skills.x]\nKEY = "hunter2-value\n');
    const text = readFileSync(broken.config, "utf8");
    const { code, stdout, stderr } = await broken.run(["config", "set", "limits.tokens", "7"]);
    expect(code).not.toBe(0);
    expect(stdout + stderr).not.toContain("hunter2");
    expect(readFileSync(broken.config, "utf8")).toBe(text);
    const linked = place();
    execFileSync("mv", [linked.config, join(linked.home, "real.toml")]);
    symlinkSync(join(linked.home, "real.toml"), linked.config);
    const set = await linked.run(["config", "set", "limits.tokens", "7"]);
    if (set.code === 0) expect((await linked.run(["config", "get", "limits.tokens"])).stdout).toBe("7\n");
    expect(lstatSync(linked.config).isSymbolicLink()).toBe(true);
  });

  it("[Q-26] writes to the user's file, never to one of the workspace", async () => {
    const { run, project } = place();
    mkdirSync(join(project, ".skillet"));
    writeFileSync(
      join(project, ".skillet/config.toml"),
      '[sandbox]\nlevel = "none"\n[models.default]\nbase_url = "http://127.0.0.1:1"\n',
    );
    await run(["config", "set", "limits.tokens", "7"]);
    expect(readFileSync(join(project, ".skillet/config.toml"), "utf8")).not.toContain("tokens");
    const { stdout } = await run(["config", "--json"]);
    const said = JSON.parse(stdout) as { diagnostics: { code: string; line: number }[] };
    expect(said.diagnostics.map(({ code, line }) => [code, line])).toEqual([
      ["config-refused", 2],
      ["config-refused", 4],
    ]);
    const ran = await run(["run", "x"]);
    expect(ran.stderr).toContain("strong isolation");
  });
});
