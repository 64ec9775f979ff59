import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { grantValuesIn } from "../support/grant-values.ts";

function scene(files: Record<string, string>, more = "") {
  const home = temporaryFolder({
    ".skillet/skills/x/SKILL.md": skillText("x", { more }),
    ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`.skillet/${path}`, text])),
  });
  grantValuesIn(home);
  return {
    home,
    run: (args: string[], options: RunOptions = {}) => skillet(args, { ...options, env: { HOME: home } }),
  };
}

describe("skillet script", () => {
  it("[T-14] runs a script with its arguments, including options, and keeps its stdout and stderr apart", async () => {
    const { run } = scene({ "skills/x/scripts/go.sh": 'echo "out $*"; echo err >&2; exit 2' });
    const { code, stdout, stderr } = await run(["script", "x", "go.sh", "a b", "--json", "-q", "--", "-x"]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "out a b --json -q -- -x\n" });
    expect(stderr).toMatch(/^err\n✗ exit 2 \(\d+\.\d\d s, strong isolation by bubblewrap, workspace not visible\)\n$/);
  });

  it("[T-16] lists the scripts of a skill when none is named", async () => {
    const { run } = scene(
      { "skills/x/scripts/a.sh": "", "skills/x/scripts/b.py": "" },
      "scripts:\n  - { path: scripts/b.py, name: beta, description: Does b }\n",
    );
    expect(await run(["script", "x"])).toMatchObject({ code: 0, stdout: "scripts/b.py  Does b\nscripts/a.sh\n" });
    expect(JSON.parse((await run(["script", "--json", "x"])).stdout)).toEqual({
      name: "x",
      scripts: [
        { path: "scripts/b.py", name: "beta", description: "Does b" },
        { path: "scripts/a.sh", name: "a" },
      ],
    });
    const none = await scene({}).run(["script", "x"]);
    expect(none).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("has no scripts") });
  });

  it("prints the whole result as JSON, including the isolation level", async () => {
    const { run } = scene({ "skills/x/scripts/go.sh": "echo hi" });
    const { code, stdout, stderr } = await run(["script", "--json", "x", "go"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout)).toMatchObject({
      exitCode: 0,
      ending: "exit",
      stdout: "hi\n",
      isTruncated: false,
      isolation: { level: "strong", by: "bubblewrap" },
      limits: { seconds: 60, output: 1048576, arguments: 100, argumentBytes: 4096 },
    });
  });

  it("passes piped input on request", async () => {
    const { run } = scene({ "skills/x/scripts/go.sh": "tr a-z A-Z" });
    expect((await run(["script", "--stdin", "x", "go"], { stdin: "hello" })).stdout).toBe("HELLO");
    expect((await run(["script", "x", "go"], { stdin: "hello" })).stdout).toBe("");
    expect(await run(["script", "--stdin", "x", "go"])).toMatchObject({ code: 2 });
  });

  it("[Q-13] refuses with exit 3 and a full list of what is missing, and exits 4 at a limit", async () => {
    const { run } = scene({ "skills/x/scripts/go.sh": "sleep 9", "config.toml": "[scripts]\ntimeout_seconds = 1\n" });
    expect(await run(["script", "x", "go"])).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(
        /stopped after 1 second, its limit .*\n {2}\[scripts\] timeout_seconds in config.toml/,
      ),
    });
    const missing = scene({ "skills/x/scripts/go.sh": "" }, "env: [A_KEY, B_KEY]\n");
    expect(await missing.run(["script", "x", "go"])).toMatchObject({
      code: 3,
      stderr: `✗ Skill 'x' needs A_KEY, B_KEY  [missing-variable]\n  run: skillet config set skills.x.A_KEY; skillet config set skills.x.B_KEY\n  or add to ~/.skillet/config.toml:\n    [skills.x]\n    A_KEY = "…"\n    B_KEY = "…"\n`,
    });
    expect((await missing.run(["script", "y", "go"])).code).toBe(1);
    expect((await missing.run(["script"])).code).toBe(2);
  });

  it("[Q-13] reports level none in its result, which only the operator can choose", async () => {
    const { run } = scene({ "skills/x/scripts/go.sh": "pwd", "config.toml": '[sandbox]\nlevel = "none"\n' });
    const { stdout } = await run(["script", "--json", "x", "go"]);
    expect(JSON.parse(stdout)).toMatchObject({
      isolation: { level: "none", by: "none", bounds: "none" },
      exitCode: 0,
      warnings: [{ code: "not-isolated" }],
    });
  });

  it("[Q-23] escapes control sequences and line overwrites in a script's output", async () => {
    const said =
      "\\033[2J\\033]52;c;ZXZpbA==\\007\\033[31mred\\033[0m\\roverwritten\\n\\342\\200\\256rtl\\302\\233 \\0end\\n";
    const { run } = scene({ "skills/x/scripts/go.sh": `printf '${said}'; printf '${said}' >&2` });
    const { stdout, stderr } = await run(["script", "x", "go"], { isTTY: true });
    for (const text of [stdout, stderr.split("\n").slice(0, 3).join("\n")]) {
      expect(text).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/);
      expect(text).toContain("\\u{1b}[2J");
      expect(text).toContain("red\noverwritten\n");
    }
  });

  it("[Q-22] redacts a value of 7 characters, and reports one that is too short to be redacted", async () => {
    const more = "env: [SHORT, SEVEN]\n";
    const { run } = scene(
      {
        "skills/x/scripts/go.sh": 'echo "$SHORT $SEVEN"',
        "config.toml": '[skills.x]\nSHORT = "abc"\nSEVEN = "1234567"\n',
      },
      more,
    );
    const { stdout, stderr } = await run(["script", "x", "go"]);
    expect(stdout).toBe("abc [SEVEN]\n");
    expect(stderr).toContain("SHORT is too short");
  });

  it("[Q-15] ends with all its processes at Ctrl-C", async () => {
    const { home } = scene({ "skills/x/scripts/go.sh": "(setsid sleep 4545.17 &) ; echo going; sleep 4545.17" });
    const program = join(import.meta.dirname, "../../bin/skillet.cjs");
    const child = spawn(process.execPath, [program, "script", "x", "go"], { env: { HOME: home }, cwd: home });
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    child.stdout.once("data", () => child.kill("SIGINT"));
    expect(await ended).toBe(130);
    expect(running("4545.17")).toEqual([]);
  });

  it("explains where its own options go", async () => {
    const { run } = scene({ "skills/x/scripts/go.sh": "" });
    expect(await run(["script", "x", "--json"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("before the skill's name"),
    });
  });

  it("ends when the reader of its output closes the pipe", async () => {
    const { home } = scene({ "skills/x/scripts/go.sh": "while :; do echo tick; sleep 0.05; done # 4747.17" });
    const program = join(import.meta.dirname, "../../bin/skillet.cjs");
    const child = spawn("/bin/sh", ["-c", '"$0" "$1" script x go | head -2', process.execPath, program], {
      env: { HOME: home, PATH: "/usr/bin:/bin" },
      cwd: home,
    });
    let said = "";
    child.stdout.on("data", (bytes) => (said += bytes));
    await new Promise((resolve) => child.once("close", resolve));
    expect(said).toBe("tick\ntick\n");
  });

  it("[Q-15] leaves no process when the older Node that started it is killed", async () => {
    const { home } = scene({ "skills/x/scripts/go.sh": "(setsid sleep 4848.17 &) ; echo going; sleep 4848.17" });
    const program = join(import.meta.dirname, "../../bin/skillet.cjs");
    // What bin/skillet.cjs does on a Node that is too old: another process in between, with a channel that ends with it.
    const starter = `const c = require("child_process").spawn(process.execPath, ${JSON.stringify([program, "script", "x", "go"])}, { stdio: ["inherit", "inherit", "inherit", "ipc"], env: { ...process.env, SKILLET_STARTED_AGAIN: "1" } });`;
    const child = spawn(process.execPath, ["-e", starter], { env: { HOME: home }, cwd: home });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    await expect.poll(() => running("4848.17").length).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await expect.poll(() => running("4848.17")).toEqual([]);
  });

  it("[Q-15] leaves no process when it is killed itself", async () => {
    const { home } = scene({ "skills/x/scripts/go.sh": "(setsid sleep 4646.17 &) ; echo going; sleep 4646.17" });
    const program = join(import.meta.dirname, "../../bin/skillet.cjs");
    const child = spawn(process.execPath, [program, "script", "x", "go"], { env: { HOME: home }, cwd: home });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    await expect.poll(() => running("4646.17").length).toBeGreaterThan(0);
    child.kill("SIGKILL");
    await expect.poll(() => running("4646.17")).toEqual([]);
  });
});

function running(text: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(text);
    } catch {
      return false;
    }
  });
}
