import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { runScript, type ScriptRequest } from "../../src/agent/run/run-script.ts";
import { openSession } from "../../src/agent/session/session.ts";
import type { ApprovalRequest, Approve } from "../../src/host/approval.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { connectTo, servingOf } from "../support/mcp-client.ts";
import { createRunTools } from "../support/run-tools.ts";

const SKILL = "home/.skillet/skills/x";

/** A trusted skill with one script, and a workspace that everyone may use. */
async function scene(script: string, { config = "", files = {} }: { config?: string; files?: object } = {}) {
  const found = await discoverIn({
    [`${SKILL}/SKILL.md`]: skillText("x"),
    [`${SKILL}/scripts/go.sh`]: script,
    "home/.skillet/config.toml": config,
    "notes.md": "one two three\n",
    ...files,
  });
  for (const path of [found.root, join(found.root, "home")]) chmodSync(path, 0o755);
  chmodSync(found.workspace, 0o777);
  return found;
}

const run = (found: Scene, args: string[] = [], more: Partial<ScriptRequest> = {}) =>
  runScript(found, { skill: found.skill("x"), script: "go", args, ...more });

const codes = ({ warnings }: { warnings: readonly { code: string }[] }) => warnings.map(({ code }) => code);

describe("the workspace of a script", () => {
  it("[T-14] is its current folder, read-only, and SKILL_DIR is the skill's folder", async () => {
    const found = await scene('pwd; echo "$SKILL_DIR"; ls "$SKILL_DIR"; cat notes.md');
    const result = await run(found);
    expect(result.stdout).toBe("/workspace\n/skill\nSKILL.md\nscripts\none two three\n");
    expect(result.view).toEqual({
      folder: "/workspace",
      skill: "/skill",
      workspace: { path: found.workspace, seenAs: "/workspace", access: "read" },
    });
    expect(result.warnings).toEqual([]);
  });

  it("[T-14] resolves paths in arguments: relative ones, and absolute ones of the host", async () => {
    const found = await scene('for path in "$@"; do cat "${path#--in=}"; done', { files: { "a b/c.md": "deep\n" } });
    const at = (path: string) => join(found.workspace, path);
    const args = ["notes.md", "./a b/c.md", at("notes.md"), `--in=${at("a b/c.md")}`, `${found.workspace}//notes.md`];
    const { stdout, stderr, warnings } = await run(found, args);
    expect({ stdout, stderr, warnings }).toEqual({
      stdout: "one two three\ndeep\none two three\ndeep\none two three\n",
      stderr: "",
      warnings: [],
    });
  });

  it("[T-14] is found by the path that the user works in, even through a link", async () => {
    const found = await scene('cat "$@"');
    const link = join(found.root, "link");
    symlinkSync(found.workspace, link);
    const { stdout } = await run({ ...found, workspace: link }, [
      join(link, "notes.md"),
      join(found.workspace, "notes.md"),
    ]);
    expect(stdout).toBe("one two three\none two three\n");
  });

  it("[T-14] leaves other arguments unchanged", async () => {
    const found = await scene('printf "%s\\n" "$@"');
    const beside = `${found.workspace}-evil/x`;
    const args = ["--in", "-", "", "/", "https://example.com/a", "/skill/x", `x=${found.workspace}`, beside, "a=b"];
    expect((await run(found, args)).stdout.split("\n").slice(0, -1)).toEqual(args);
  });

  it("cannot be changed unless the call requests it, and the result explains how", async () => {
    const found = await scene("echo new > out.txt");
    const refused = await run(found);
    expect(existsSync(join(found.workspace, "out.txt"))).toBe(false);
    expect(refused.warnings).toMatchObject([
      { code: "workspace-read-only", commands: [expect.stringContaining("skillet script --write")] },
    ]);
    const written = await run(found, [], { writes: true });
    expect(readFileSync(join(found.workspace, "out.txt"), "utf8")).toBe("new\n");
    expect(written.warnings).toEqual([]);
    expect(written.view?.workspace?.access).toBe("read-write");
  });

  it("is not changed when the configuration makes it read-only, and the result names the key", async () => {
    const found = await scene("echo new > out.txt", { config: '[skills.x]\nworkspace = "read"\n' });
    const { warnings } = await run(found, [], { writes: true });
    expect(existsSync(join(found.workspace, "out.txt"))).toBe(false);
    expect(warnings[0]).toMatchObject({
      code: "workspace-read-only",
      fix: "run",
      commands: ["skillet config set skills.x.workspace read-write"],
    });
  });

  it("[Q-27] protects sensitive paths although the script may write", async () => {
    const found = await scene("echo evil > CLAUDE.md; echo fine > out.txt", { files: { "CLAUDE.md": "mine\n" } });
    chmodSync(join(found.workspace, "CLAUDE.md"), 0o666);
    const result = await run(found, [], { writes: true });
    expect(readFileSync(join(found.workspace, "CLAUDE.md"), "utf8")).toBe("mine\n");
    expect(readFileSync(join(found.workspace, "out.txt"), "utf8")).toBe("fine\n");
    expect(codes(result)).toContain("workspace-protected");
    expect(result.isError).toBe(true);
  });

  it("has no sockets of the user's programs", async () => {
    const found = await scene(
      "[ -S db.sock ] && echo socket; [ -c db.sock ] && echo masked; cat db.sock || echo closed",
    );
    const server = createServer();
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(join(found.workspace, "db.sock"), resolve));
    expect((await run(found)).stdout).toBe("masked\nclosed\n");
  });
});

describe("an argument that names a file which the script cannot see", () => {
  it("gets a warning with the fix, whether or not the file exists", async () => {
    const found = await scene("true", { files: { "home/other/a.pdf": "x" } });
    symlinkSync(join(found.root, "home/other/a.pdf"), join(found.workspace, "link.pdf"));
    for (const path of ["/etc/passwd", "/etc/no-such-file", "../home/other/a.pdf", "link.pdf", "~/other/a.pdf"]) {
      const { warnings, exitCode } = await run(found, [`--in=${path}`]);
      expect(exitCode).toBe(0);
      expect(warnings, path).toEqual([
        {
          code: "argument-outside",
          message: `The script cannot see ${path}: it is outside the workspace ${found.workspace}`,
          fix: expect.stringContaining("copy the file into the workspace"),
        },
      ]);
    }
  });

  it("is neither a path that exists in the sandbox, nor a word that only looks like a path", async () => {
    const found = await scene("true");
    const args = ["/usr/bin/env", "/skill/SKILL.md", "/workspace/notes.md", "/", "/tmp", "/tmp/out.pdf", "-x", "a/b"];
    expect((await run(found, [...args, "/api/v1/users", "s/a/b/", "no-such-file"])).warnings).toEqual([]);
  });

  it("names the key when the configuration hides the workspace from the skill", async () => {
    const found = await scene("true", { config: '[skills.x]\nworkspace = "none"\n' });
    expect((await run(found, ["notes.md"])).warnings).toMatchObject([
      { code: "argument-outside", commands: [expect.stringContaining("skillet config set skills.x.workspace read")] },
    ]);
    expect((await run(found, ["other.md"])).warnings).toEqual([]);
  });
});

describe("a workspace that is not mounted by default", () => {
  it.each([
    ["the user's home folder", "home", "workspace-too-wide"],
    ["a parent folder", "", "workspace-too-wide"],
    ["a hidden folder of it", "home/.ssh", "workspace-private"],
    ["a folder in a hidden folder of it", "home/.config/app", "workspace-private"],
  ])("is %s: the script runs without it, and explains that when it is missed", async (_, folder, code) => {
    const found = await scene("pwd; ls -A /workspace 2>/dev/null");
    const workspace = join(found.root, folder);
    mkdirSync(workspace, { recursive: true });
    writeFileSync(join(workspace, "id_rsa"), "secret");
    const host = { ...found, workspace };
    const { stdout, view, warnings } = await run(host);
    expect({ stdout, view, warnings }).toEqual({
      stdout: "/skill\n",
      view: { folder: "/skill", skill: "/skill" },
      warnings: [],
    });
    expect((await run(host, ["id_rsa"])).warnings).toMatchObject([{ code }]);
    expect((await openSession(found.catalog, host).load("x")).text).toContain("sees no files of the user");
  });
});

/** Answers as scripted, and records the requests. */
function asking(isApproved: boolean) {
  const asked: ApprovalRequest[] = [];
  const approve: Approve = async (effect) => {
    asked.push(effect);
    return { isApproved };
  };
  return { asked, approve };
}

describe("a script that a model runs", () => {
  const WRITE = { skill: "x", script: "go", args: ["a b"], writes: true };
  const made = (found: Scene) => existsSync(join(found.workspace, "out.txt"));

  it("[T-14] is described with its view of the workspace: in the tool, the loaded skill and the result", async () => {
    const found = await scene("cat notes.md");
    const session = openSession(found.catalog, found, { provides: "all" });
    onTestFinished(() => session.close());
    const says = "It starts in the user's workspace, which it can read: its arguments can be paths";
    const { text } = await session.load("x");
    expect(text).toContain(`run_skill_script runs one of them, with args. ${says}`);
    for (const name of ["run_skill_script", "x.go"])
      expect(session.tools.find((tool) => tool.name === name)?.description).toContain(says);
    const result = await session.call("run_skill_script", { skill: "x", script: "go" });
    expect(result.text).toContain("started in /workspace, the workspace, read-only");
    expect((await session.call("x.go", {})).text).toContain("one two three");
  });

  it("needs approval before it writes, with the script and its arguments, and does not run when that is denied", async () => {
    const found = await scene("echo ran > out.txt");
    for (const [name, input] of [
      ["run_skill_script", WRITE],
      ["x.go", { args: ["a b"], writes: true }],
    ] as const) {
      const { asked, approve } = asking(false);
      const session = openSession(found.catalog, { ...found, approve }, { provides: "all" });
      onTestFinished(() => session.close());
      await session.load("x");
      expect(await session.call(name, input)).toMatchObject({ isError: true, code: "not-approved" });
      expect(asked).toMatchObject([{ on: "workspace", what: expect.stringMatching(/^run .*go(\.sh)? a b$/) }]);
    }
    const nobody = openSession(found.catalog, found);
    expect(await nobody.call("run_skill_script", WRITE)).toMatchObject({ isError: true, code: "approval-needed" });
    expect(made(found)).toBe(false);
  });

  it("writes once that is approved, and without a question when the configuration allows it", async () => {
    const found = await scene("echo ran > out.txt");
    const { asked, approve } = asking(true);
    const session = openSession(found.catalog, { ...found, approve });
    expect((await session.call("run_skill_script", { ...WRITE, writes: false })).isError).toBe(true);
    expect({ made: made(found), asked }).toEqual({ made: false, asked: [] });
    expect((await session.call("run_skill_script", WRITE)).isError).toBe(false);
    expect({ made: made(found), asked: asked.length }).toEqual({ made: true, asked: 1 });
    const open = await scene("echo ran > out.txt", { config: '[skills.x]\nworkspace = "read-write"\n' });
    expect((await openSession(open.catalog, open).call("run_skill_script", WRITE)).isError).toBe(false);
    expect(made(open)).toBe(true);
  });

  it("needs approval even if the workspace is not writable now", async () => {
    const found = await scene("true");
    symlinkSync("/nowhere", join(found.workspace, ".git"));
    const { asked, approve } = asking(true);
    await openSession(found.catalog, { ...found, approve }).call("run_skill_script", WRITE);
    expect(asked).toHaveLength(1);
  });

  it("asks the user of an MCP client", async () => {
    const found = await scene("cat notes.md; echo ran > out.txt");
    const { client, call } = await connectTo(servingOf(found), { capabilities: { elicitation: { form: {} } } });
    const asked: string[] = [];
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      asked.push(params.message);
      return { action: "accept", content: { decision: "yes, for this run" } };
    });
    const reading = await call("run_skill_script", {
      skill: "x",
      script: "go",
      args: [join(found.workspace, "notes.md")],
    });
    expect(reading.text).toContain("one two three");
    expect(reading.text).toContain("writes: true");
    expect(asked).toEqual([]);
    await call("run_skill_script", WRITE);
    expect(made(found)).toBe(true);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain("run go a b");
  });

  it("of a run sees the workspace, too", async () => {
    const { found, call } = await createRunTools({
      files: { "home/.skillet/skills/x/scripts/go.sh": "pwd; cat notes.md; echo x > out.txt" },
    });
    writeFileSync(join(found.workspace, "notes.md"), "one two three\n");
    const { text } = await call("run_skill_script", { script: "go" });
    expect(text).toContain("/workspace\none two three");
    expect(text).toContain("writes: true");
  });
});
