import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/util/system.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { MY_SKILL, ownSkill, toolsetOf } from "../support/toolset.ts";

/** A home with these files, with paths relative to `home/`. */
function homeWith(files: Record<string, string>): string {
  const root = temporaryFolder();
  writeFiles(root, files);
  mkdirSync(join(root, "home", "work"), { recursive: true });
  return join(root, "home");
}

const sending = toolsetOf({
  send: 'ctx.progress("half way"); return { title: "Sent", output: "sent " + args.input }',
}).replace("execute:", 'effect: { on: "outside", what: "send it" }, execute:');

describe("skillet tools", () => {
  it("[T-11] shows the tools that skills provide", async () => {
    const home = homeWith({ ...MY_SKILL, ...ownSkill({ "toolsets/index.ts": sending }) });
    const all = await skillet(["tools"], { env: { HOME: home, SKILLS_DIR: "none" }, cwd: join(home, "work") });
    expect(all).toMatchObject({ code: 0, stderr: "" });
    expect(all.stdout).toBe(
      "my-skill ~/.agent/skills\n  my-skill.my-tool  Does something useful\n    input: string\nx ~/.agent/skills\n  x.send  Does send asks first\n    input?: string\n",
    );
    const one = await skillet(["tools", "my-skill", "--json"], { env: { HOME: home } });
    expect(JSON.parse(one.stdout).skills).toMatchObject([
      {
        name: "my-skill",
        tools: [{ name: "my-skill.my-tool", isMutating: false, inputSchema: { type: "object" } }],
        problems: [],
      },
    ]);
  });

  it("reports an empty list, and an unknown skill", async () => {
    const home = homeWith({ "home/.agent/skills/y/SKILL.md": skillText("y") });
    expect(await skillet(["tools"], { env: { HOME: home, SKILLS_DIR: "none" } })).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("no skill provides tools"),
    });
    expect((await skillet(["tools", "y"], { env: { HOME: home } })).stderr).toContain("y provides no tools");
    expect((await skillet(["tools", "z"], { env: { HOME: home } })).code).toBe(1);
  });

  it("[T-13] reports an error with its fix, and exits 1", async () => {
    const home = homeWith(ownSkill({ "toolsets/index.ts": "export const Other = [];" }));
    const { code, stdout, stderr } = await skillet(["tools"], { env: { HOME: home, SKILLS_DIR: "none" } });
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toBe(
      `✗ Toolset of skill 'x': toolsets/index.ts has no export "Tools"  [toolset-export]\n  it exports: Other\n`,
    );
    const checked = await skillet(["check", join(home, ".agent/skills/x")], { env: { HOME: home } });
    expect(checked.code, "what can be checked without running it is valid").toBe(0);
  });

  it("[Q-04] marks tools that wait for trust, and runs none of their code", async () => {
    const home = homeWith({});
    const marks = join(home, "ran");
    const toolset = toolsetOf(
      { one: 'return "1"' },
      `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(marks)}, "");`,
    );
    const files = Object.entries(ownSkill({ "toolsets/index.ts": toolset }));
    writeFiles(
      join(home, "work"),
      Object.fromEntries(files.map(([path, text]) => [path.replace("home/.agent/", ""), text])),
    );
    const options = { env: { HOME: home }, cwd: join(home, "work") };
    expect(await skillet(["tools"], options)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("skillet trust"),
    });
    expect((await skillet(["tools", "x"], options)).code).toBe(3);
    expect((await skillet(["call", "x.one"], options)).code).toBe(3);
    expect(existsSync(marks)).toBe(false);
    const asked = await skillet(["call", "x.one"], { ...options, ask: async () => "y" });
    expect(asked).toMatchObject({ code: 0, stdout: "1\n" });
    expect(existsSync(marks)).toBe(true);
  });
});

describe("skillet call", () => {
  it("[T-12] calls a tool: its result on stdout, its title and progress on stderr", async () => {
    const home = homeWith(MY_SKILL);
    const options = { env: { HOME: home }, cwd: home };
    expect(await skillet(["call", "my-skill.my-tool", "--input", '{"input": "it"}'], options)).toEqual({
      code: 0,
      stdout: "Processed: it\n",
      stderr: "✓ Completed\n",
    });
    writeFileSync(join(home, "in.json"), '{"input": "a file"}');
    expect((await skillet(["call", "my-skill__my-tool", "-i", "@in.json"], options)).stdout).toBe(
      "Processed: a file\n",
    );
    const json = await skillet(["call", "my-skill.my-tool", "-i", "@in.json", "--json"], options);
    expect(JSON.parse(json.stdout)).toMatchObject({ isError: false, title: "Completed", data: {} });
  });

  it("[T-11] sees an edit at the next call", async () => {
    const home = homeWith(MY_SKILL);
    const file = join(home, ".agent/skills/my-skill/toolsets/index.ts");
    writeFileSync(file, MY_SKILL["home/.agent/skills/my-skill/toolsets/index.ts"].replace("Processed", "Edited"));
    expect((await skillet(["call", "my-skill.my-tool", "-i", '{"input": "it"}'], { env: { HOME: home } })).stdout).toBe(
      "Edited: it\n",
    );
  });

  it("reports errors in the input, the name and the tool", async () => {
    const home = homeWith({
      ...MY_SKILL,
      ...ownSkill({ "toolsets/index.ts": toolsetOf({ bad: "throw new Error('boom')" }) }),
    });
    const call = (...args: string[]) => skillet(["call", ...args], { env: { HOME: home } });
    expect(await call("my-skill.my-tool", "-i", "{}")).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/"input" is missing.*\n {2}expected input: input: string\n$/s),
    });
    expect(await call("my-skill.my-tool", "-i", "{")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--input"),
    });
    expect(await call("my-skill.my-tool", "-i", "@gone.json")).toMatchObject({ code: 2 });
    expect(await call("my-skill.other")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("my-skill.my-tool"),
    });
    expect(await call("my-skil.my-tool")).toMatchObject({ code: 2, stderr: expect.stringContaining("did you mean") });
    expect(await call("x.bad")).toMatchObject({ code: 1, stdout: "", stderr: "✗ It failed: boom  [failed]\n" });
  });

  it("asks before a change, and refuses when no user can be asked", async () => {
    const home = homeWith(ownSkill({ "toolsets/index.ts": sending }));
    const call = (args: string[], answer?: string) =>
      skillet(["call", "x.send", "-i", '{"input": "it"}', ...args], {
        env: { HOME: home },
        ...(answer ? { ask: async () => answer } : {}),
      });
    expect(await call([])).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining("--yes") });
    expect(await call(["--yes"])).toEqual({ code: 0, stdout: "sent it\n", stderr: "· half way\n✓ Sent\n" });
    expect(await call([], "y")).toMatchObject({
      code: 0,
      stdout: "sent it\n",
      stderr: expect.stringContaining("send it"),
    });
    expect(await call([], "n")).toMatchObject({ code: 3, stdout: "" });
  });

  it("asks once, and requests no reason for a denial", async () => {
    const home = homeWith(ownSkill({ "toolsets/index.ts": sending }));
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return "n";
    };
    const { code, stderr } = await skillet(["call", "x.send", "-i", '{"input": "it"}'], { env: { HOME: home }, ask });
    expect([code, asked]).toEqual([3, ["[y] yes  [a] always for this tool  [n] no "]]);
    expect(stderr).toMatch(
      /✗ Tool 'x\.send' was not approved: it changes something outside the workspace {2}\[not-approved\]\n$/,
    );
  });

  it("lists the tools of a skill when none is named, and reads piped input", async () => {
    const env = { HOME: homeWith(MY_SKILL) };
    const listed = await skillet(["call", "my-skill"], { env });
    expect([listed.code, listed.stdout]).toEqual([0, expect.stringContaining("my-skill.my-tool  Does something")]);
    const piped = await skillet(["call", "my-skill.my-tool", "-i", "-"], { env, stdin: '{"input": "a pipe"}' });
    expect(piped.stdout).toBe("Processed: a pipe\n");
    expect((await skillet(["call", "my-skill.my-tool", "-i", "-"], { env })).code).toBe(2);
  });

  it("reports a skill without tools", async () => {
    const home = homeWith({ "home/.agent/skills/plain/SKILL.md": skillText("plain") });
    for (const tool of ["plain", "plain.one"])
      expect(await skillet(["call", tool], { env: { HOME: home }, cwd: home })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('Skill "plain" has no tools'),
      });
  });

  it("gives each call its own idempotency key", async () => {
    const home = homeWith(ownSkill({ "toolsets/index.ts": toolsetOf({ one: "return ctx.run + ' ' + ctx.key" }) }));
    const call = async () => (await skillet(["call", "x.one"], { env: { HOME: home } })).stdout;
    const first = await call();
    expect(first).toMatch(/^(\S+) \1:1\n$/);
    expect(await call()).not.toBe(first);
  });

  it("reports an error in a toolset as `skillet tools` does", async () => {
    const home = homeWith(ownSkill({ "toolsets/index.ts": "export const Other = [];" }));
    const { code, stderr } = await skillet(["call", "x.one"], { env: { HOME: home } });
    expect(code).toBe(1);
    expect(stderr).toBe((await skillet(["tools"], { env: { HOME: home, SKILLS_DIR: "none" } })).stderr);
  });

  it("gives a tool the values of its skill's variables and a sandbox, and shows none of them", async () => {
    const body =
      'const { stdout } = await ctx.sandbox.run(["sh", "-c", "echo in $A_TOKEN"]); return stdout + ctx.env.A_TOKEN;';
    const files = ownSkill({ "toolsets/index.ts": toolsetOf({ one: body }) });
    files["home/.agent/skills/x/SKILL.md"] = (files["home/.agent/skills/x/SKILL.md"] ?? "").replace(
      "toolsets:",
      "env: [A_TOKEN]\ntoolsets:",
    );
    const home = homeWith(files);
    const missing = await skillet(["call", "x.one"], { env: { HOME: home } });
    expect([missing.code, missing.stderr.includes("A_TOKEN")]).toEqual([1, true]);
    writeFiles(home, { ".skillet/config.toml": '[sandbox]\nlevel = "none"\n[skills.x]\nA_TOKEN = "value-of-it"\n' });
    const env = { HOME: home, PATH: process.env["PATH"] ?? "" };
    const refused = await skillet(["call", "x.one"], { env });
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("skillet trust --secrets x")]);
    const { stdout, code, stderr } = await skillet(["call", "x.one"], { env, ask: async () => "y" });
    expect([code, stdout], stderr).toEqual([0, "in [A_TOKEN]\n[A_TOKEN]\n"]);
  });

  it("shows what the tool prints in addition to its result, without secrets", async () => {
    const home = homeWith(
      ownSkill({ "toolsets/index.ts": toolsetOf({ one: 'console.log("so far \\u001b[2J"); return "1"' }) }),
    );
    const { stdout, stderr } = await skillet(["call", "x.one"], { env: { HOME: home } });
    expect([stdout, stderr]).toEqual(["1\n", "so far \\u{1b}[2J\n"]);
  });

  it("keeps a tool's prints out of its own output", async () => {
    const noisy = toolsetOf(
      { one: 'console.log("noise"); process.stdout.write("noise"); console.error("noise"); return "1"' },
      'console.log("noise");',
    );
    const home = homeWith(ownSkill({ "toolsets/index.ts": noisy }));
    const command = join(packageRoot() ?? "", "bin/skillet.cjs");
    const printed = execFileSync(process.execPath, [command, "call", "x.one"], {
      env: { HOME: home },
      cwd: home,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    expect(printed).toBe("1\n");
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe("tools of an MCP server", () => {
  const server = join(import.meta.dirname, "../support/mcp-server.ts");
  const served = () =>
    homeWith({
      "home/.skillet/config.toml": `[tools.mcp.web]\ncommand = ${JSON.stringify([process.execPath, server, "usual"])}\n`,
    });

  it("are shown by its name", async () => {
    const { code, stdout } = await skillet(["tools", "web"], { env: { HOME: served() } });
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^web \[tools\.mcp\]\n {2}web\.look +Looks\.\n {4}text: string\n {2}web\.send +Sends\. asks first\n/,
    );
  });

  it("are mentioned when all tools are listed, as is a disabled server", async () => {
    const HOME = homeWith({
      "home/.skillet/config.toml": `[tools.mcp.web]\ncommand = ["x"]\n[tools.mcp.off]\ncommand = ["x"]\nenabled = false\n`,
    });
    const { code, stdout, stderr } = await skillet(["tools"], { env: { HOME, SKILLS_DIR: "none" } });
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr).toContain("no skill provides tools");
    expect(stderr).toContain("MCP servers: web, off (disabled)\n  skillet tools web lists the tools of one");
    for (const args of [
      ["tools", "off"],
      ["call", "off.look"],
    ])
      expect((await skillet(args, { env: { HOME } })).stderr).toBe(
        "✗ MCP server 'off' is disabled  [mcp-disabled]\n  set enabled = true under [tools.mcp.off] in config.toml\n",
      );
    const doctor = (await skillet(["doctor"], { env: { HOME } })).stdout;
    expect(doctor).toMatch(/MCP servers `skillet doctor --tools` .*\n {2}web, off \(disabled\)\n/);
  });

  it("need approval in the server's name", async () => {
    const env = { HOME: served() };
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return "n";
    };
    const { stderr } = await skillet(["call", "web.send", "-i", '{"text": "x"}'], { env, ask });
    expect(stderr).toMatch(/asked by +server web\n/);
    expect(asked).toEqual(["[y] yes  [n] no "]);
  });

  it("are called like those of skills, after approval for a change", async () => {
    const env = { HOME: served() };
    const looked = await skillet(["call", "web.look", "-i", '{"text": "here"}'], { env });
    expect(looked).toMatchObject({ code: 0, stdout: expect.stringContaining("here") });
    const sent = await skillet(["call", "web.send", "-i", '{"text": "x"}'], { env });
    expect(sent).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining("this is not a terminal") });
    expect((await skillet(["call", "web.send", "-i", '{"text": "x"}', "--yes"], { env })).code).toBe(0);
    expect(await skillet(["call", "wed.look"], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("did you mean one of web?"),
    });
  });

  it("[Q-24] end with the command, even if the server ignores the request to end", async () => {
    const home = homeWith({ "home/.agent/skills/y/SKILL.md": skillText("y", { body: "```sh\ntrue\n```" }) });
    const log = join(home, "log.txt");
    writeFiles(home, {
      ".skillet/config.toml": `[tools.mcp.web]\ncommand = ${JSON.stringify([process.execPath, server, "stubborn"])}\nenv = { MCP_LOG = ${JSON.stringify(log)} }\n`,
    });
    chmodSync(join(home, ".skillet/config.toml"), 0o600);
    await skillet(["run", "y", "-m", "runbook"], { env: { HOME: home }, cwd: join(home, "work") });
    const [, pid = ""] = /start (\d+)/.exec(readFileSync(log, "utf8")) ?? [];
    await expect.poll(() => isAlive(Number(pid))).toBe(false);
  });
});
