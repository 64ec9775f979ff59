import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { grantValuesIn } from "../support/grant-values.ts";

interface Parts {
  more?: string;
  body?: string;
  config?: string;
  files?: Record<string, string>;
}

/** One of the user's own skills, in a workspace that everyone can write to. */
function scene({ more = "", body = "Run: echo hi", config = "", files = {} }: Parts = {}) {
  const root = temporaryFolder({
    "home/.skillet/skills/x/SKILL.md": skillText("x", { more, body }),
    "home/.skillet/config.toml": config,
    ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`home/.skillet/skills/x/${path}`, text])),
  });
  const [home, project] = [join(root, "home"), join(root, "project")];
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  chmodSync(root, 0o755);
  mkdirSync(project);
  chmodSync(project, 0o777);
  grantValuesIn(home);
  const run = (args: readonly string[] = [], options: RunOptions = {}) =>
    skillet(["run", "x", "--dry-run", ...args], { cwd: project, ...options, env: { HOME: home, ...options.env } });
  return { home, project, run };
}

describe("skillet run --dry-run", () => {
  it.each([
    ["writable with your approval", ""],
    ["writable", '[skills.x]\nworkspace = "read-write"\n'],
    ["read-only", '[skills.x]\nworkspace = "read"\n'],
  ])("reports that the workspace is visible: %s", async (said, config) => {
    const { stdout, code } = await scene({ config }).run();
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^✓ workspace +visible as /workspace, ${said}$`, "m"));
  });

  it("reports why the workspace is not visible", async () => {
    const off = await scene({ config: '[sandbox]\nworkspace = "none"\n' }).run();
    expect(off.stdout).toMatch(/^✓ workspace +not visible: workspace = "none" is set for it$/m);
    const { run, home } = scene();
    const wide = await run([], { cwd: home });
    expect(wide.stdout).toMatch(/^✓ workspace +not visible: The workspace ~ is your home folder/m);
    expect(wide.stdout).toContain("work in a project folder");
  });

  it("refuses a given workspace that is unavailable", async () => {
    const { run, home } = scene({ config: '[skills.x]\nworkspace = "read"\n' });
    const { code, stdout } = await run([], { cwd: home });
    expect(code).toBe(3);
    expect(stdout).toMatch(/^✗ workspace +The workspace ~ is your home folder/m);
  });

  it("lists the reachable hosts", async () => {
    const closed = await scene().run();
    expect(closed.stdout).toMatch(/^✓ network +closed$/m);
    expect(closed.stdout).not.toContain("skillet config set");
    const { stdout } = await scene({
      more: "allowed_tools: [bash, WebFetch]\n",
      config: '[sandbox]\nnetwork = ["a.example:443"]\n[skills.x]\nnetwork = ["b.example:80"]\n',
    }).run();
    expect(stdout).toMatch(/^✓ network +a\.example:443, b\.example:80$/m);
    expect(stdout).not.toContain("skillet config set");
  });

  it.each<[string, Parts, string]>([
    ["a tool that fetches", { more: "allowed_tools: [bash, WebFetch]\n" }, "HOST:443"],
    ["a command that fetches", { body: "Run: curl https://api.example.com/v1/x" }, "api.example.com:443"],
    [
      "a script that fetches",
      { files: { "scripts/go.py": 'import urllib.request\nurllib.request.urlopen("https://Data.example.org/x")\n' } },
      "data.example.org:443",
    ],
  ])("explains how to open the network to a skill with %s", async (_, parts, wanted) => {
    const { stdout, code } = await scene(parts).run();
    expect(code, "it would run").toBe(0);
    expect(stdout).toMatch(/^! Skill 'x' .*\n? *.*has no network access\s+\[[a-z-]+\]\n/m);
    expect(stdout).toContain(`  run: skillet config set skills.x.network ${wanted}\n`);
  });

  it("reports a skill that only a language model can follow, and how to get one", async () => {
    const { stdout } = await scene({ body: "Say something kind." }).run();
    expect(stdout.replace(/\n {2}/g, " ")).toContain(
      "! x needs a language model: it contains no commands  [model-needed] set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default]\n",
    );
    expect((await scene().run()).stdout).not.toContain("needs a language model");
  });

  it("[S-16] does not check a skill that is hidden from this caller, and reports that", async () => {
    const { run } = scene({ more: "sensitive: true\nenv: [KEY]\nallowed_tools: [web_fetch]\n", body: "Talk." });
    const { code, stdout } = await run(["--chat-type", "group"]);
    expect(code).toBe(3);
    expect(stdout).toMatch(/^✓ enabled/m);
    expect(stdout).toMatch(/^✗ caller/m);
    expect(stdout).toMatch(/^· the other checks were skipped: the skill is not available to this caller$/m);
    for (const name of ["trust", "tools", "variables", "input", "model", "sandbox", "workspace", "network", "limits"])
      expect(stdout).not.toMatch(new RegExp(`^. ${name}`, "m"));
    expect(stdout).not.toMatch(/KEY|web_fetch|^!/m);
    const { checks, warnings } = JSON.parse((await run(["--chat-type", "group", "--json"])).stdout);
    expect(warnings).toEqual([]);
    expect(checks).toContainEqual({ name: "variables", detail: "", refusals: [], isSkipped: true });
  });

  it("reports once that a disabled skill was not checked", async () => {
    const { stdout } = await scene({ config: "[skills.x]\nenabled = false\n" }).run();
    expect(stdout).toMatch(/^✗ enabled .*\n +enable it: skillet enable \w+$/m);
    expect(stdout.match(/were skipped.*/g)).toEqual(["were skipped: the skill is disabled"]);
  });

  it("fits into 80 columns, and keeps commands in one piece", async () => {
    const { stdout } = await scene({
      more: "env: [A_RATHER_LONG_NAME_OF_ONE]\nallowed_tools: [bash, web_fetch, read_file, write_file, edit_file, list_files]\n",
      body: "Talk.",
    }).run();
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    expect(stdout).toContain(" run: skillet config set skills.x.A_RATHER_LONG_NAME_OF_ONE\n");
    expect(stdout).toContain("or add to ~/.skillet/config.toml:\n");
  });
});
