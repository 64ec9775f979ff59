import { appendFileSync, chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EXPORT_TARGETS, FILE_TARGETS } from "../../src/cli/command-context.ts";
import { EXPORT_FORMATS } from "../../src/remote/clients/export-skill.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { scene } from "./install-scene.ts";

/** All files below a folder, with their bytes. */
function bytesIn(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path, entry.isFile() ? readFileSync(path, "utf8") : "folder"];
    }),
  );
}

const CLIENTS = EXPORT_TARGETS.filter((target) => !Object.hasOwn(FILE_TARGETS, target));

describe("skillet export", () => {
  it("has a target for every file format", () => {
    expect(Object.values(FILE_TARGETS)).toEqual(Object.keys(EXPORT_FORMATS));
  });

  it.each(CLIENTS)("[Q-12] keeps the files of %s when the copy is removed again", async (client) => {
    const { run, home, cwd } = scene({ "home/.skillet/trust.json": "{}", "home/.codex/config.toml": "# mine\n" });
    for (const [flags, root] of [
      [[], home],
      [["--project"], cwd],
    ] as const) {
      const others = () =>
        Object.fromEntries(Object.entries(bytesIn(root)).filter(([path]) => !path.startsWith(join(home, ".skillet"))));
      const before = others();
      expect((await run(["export", "deploy", "--to", client, ...flags])).code).toBe(0);
      expect(others()).not.toEqual(before);
      expect((await run(["export", "--remove", "deploy", "--to", client, ...flags])).code).toBe(0);
      expect(others()).toEqual(before);
    }
  });

  it("keeps a folder that existed before, and one with other files", async () => {
    const { run, home } = scene();
    mkdirSync(join(home, ".codex/skills"), { recursive: true });
    await run(["export", "deploy", "--to", "claude,codex"]);
    writeFileSync(join(home, ".claude/settings.json"), "{}");
    await run(["export", "--remove", "deploy"]);
    expect(readdirSync(join(home, ".codex"))).toEqual(["skills"]);
    expect(readdirSync(join(home, ".claude"))).toEqual(["settings.json"]);
  });

  it("removes the folder that it created with the last of several copies, whenever they were made", async () => {
    const { run, home } = scene({ "home/.skillet/skills/other/SKILL.md": skillText("other") });
    await run(["export", "deploy", "--to", "claude"]);
    await run(["export", "other", "--to", "claude"]);
    await run(["export", "--remove", "deploy"]);
    expect(readdirSync(join(home, ".claude/skills"))).toEqual(["other"]);
    await run(["export", "--remove", "other"]);
    expect(existsSync(join(home, ".claude"))).toBe(false);
  });

  it("[Q-12] neither replaces nor removes an edited copy without --force", async () => {
    const { run, home, own } = scene();
    await run(["export", "deploy", "--to", "copilot"]);
    const copy = join(home, ".copilot/skills/deploy/SKILL.md");
    appendFileSync(copy, "Mine.\n");
    appendFileSync(join(own, "deploy/SKILL.md"), "New.\n");
    for (const args of [["deploy", "--to", "copilot"], ["--update"], ["--remove", "deploy"]]) {
      expect((await run(["export", ...args])).code).toBe(3);
      expect(readFileSync(copy, "utf8")).toContain("Mine.");
    }
    expect((await run(["export", "--update", "--force"])).code).toBe(0);
    expect(readFileSync(copy, "utf8")).not.toContain("Mine.");
  });

  it("writes agents/openai.yaml for Codex alone, as part of the copy", async () => {
    const { run, home, own } = scene({
      "home/.skillet/skills/quiet/SKILL.md": skillText("quiet", { more: "disable-model-invocation: true\n" }),
    });
    const { stdout } = await run(["export", "quiet", "--to", "codex,gemini"]);
    expect(readFileSync(join(home, ".codex/skills/quiet/agents/openai.yaml"), "utf8")).toBe(
      "policy:\n  allow_implicit_invocation: false\n",
    );
    expect(existsSync(join(home, ".gemini/skills/quiet/agents"))).toBe(false);
    expect(stdout).toContain("Gemini CLI ignores disable-model-invocation: a model may choose it there by itself");
    expect((await run(["export", "--list", "--to", "codex"])).stdout).toContain("✓ quiet  up to date");
    writeFiles(join(own, "quiet"), { "agents/openai.yaml": "interface:\n  display_name: Quiet\n" });
    await run(["export", "--update"]);
    expect(readFileSync(join(home, ".codex/skills/quiet/agents/openai.yaml"), "utf8")).toBe(
      "interface:\n  display_name: Quiet\npolicy:\n  allow_implicit_invocation: false\n",
    );
    expect(readFileSync(join(own, "quiet/agents/openai.yaml"), "utf8")).not.toContain("policy");
  });

  it("omits the signature of a signed skill from copies and files, and reports that", async () => {
    const { run, home, own, cwd, json } = scene();
    chmodSync(join(own, "deploy/scripts/go.sh"), 0o755);
    await run(["sign", "--new-key"]);
    expect((await run(["sign", join(own, "deploy")])).code).toBe(0);
    expect(existsSync(join(own, "deploy/SKILL.sig"))).toBe(true);
    const said = "left out: the signature SKILL.sig";
    expect((await run(["export", "deploy", "--to", "claude"])).stdout).toContain(said);
    expect(readdirSync(join(home, ".claude/skills/deploy")).sort()).toEqual(["SKILL.md", "scripts"]);
    expect((await run(["export", "deploy", "--to", "zip"])).stderr).toContain(said);
    const { exported } = await json(["export", "deploy", "--to", "plugin", "--output", join(cwd, "p")]);
    expect(exported[0].files.filter((path: string) => path.endsWith(".sig"))).toEqual([]);
  });

  it("lists the keys that a client does not read in --json", async () => {
    const { json } = scene({
      "home/.skillet/skills/one/SKILL.md": skillText("one", { more: "paths: [src/**]\nversion: 1.0.0\n" }),
    });
    const { clients } = await json(["export", "one", "--to", "claude,codex", "--dry-run"]);
    expect(clients.map(({ steps }: { steps: { lost: string[] }[] }) => steps[0]?.lost)).toEqual([
      ["version"],
      ["paths", "version"],
    ]);
  });

  it.each([
    ["codex", "cursor", "Cursor reads ~/.codex/skills too"],
    ["claude", "opencode", "OpenCode reads ~/.claude/skills too"],
    ["agents", "copilot", "GitHub Copilot CLI reads ~/.agents/skills too"],
  ])("reports that a client sees a skill twice: %s and %s", async (a, b, said) => {
    const { run } = scene();
    expect((await run(["export", "deploy", "--to", `${a},${b}`])).stdout).toContain(said);
  });

  it("knows the other folders that a client reads", async () => {
    const { run } = scene({ "home/.grok/skills/deploy/SKILL.md": skillText("deploy") });
    expect((await run(["export", "deploy@~/.skillet/skills", "--to", "cursor"])).stdout).toContain(
      "Cursor reads ~/.grok/skills too, which already has this skill: it will list it twice",
    );
  });

  it("does not warn Copilot CLI of ~/.claude/skills, which it does not read", async () => {
    const { run } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    expect((await run(["export", "deploy", "--to", "copilot"])).stdout).not.toContain("GitHub Copilot CLI reads");
  });

  it("reports that one copy serves two clients with a common folder", async () => {
    const { run } = scene();
    expect(await run(["export", "deploy", "--to", "copilot,vscode"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("copilot and vscode have the same folder here"),
    });
  });

  it("writes several zips, and nothing with --dry-run", async () => {
    const { run, cwd, json } = scene({ "home/.skillet/skills/other/SKILL.md": skillText("other") });
    const { isDryRun, exported } = await json(["export", "deploy", "other", "--to", "zip", "--dry-run"]);
    expect(isDryRun).toBe(true);
    expect(exported.map(({ location: place }: { location: string }) => place)).toEqual(
      ["deploy", "other"].map((name) => join(cwd, `${name}.zip`)),
    );
    expect(readdirSync(cwd)).toEqual(["readme"]);
    expect((await run(["export", "deploy", "other", "--to", "zip", "--output", "dist/"])).code).toBe(0);
    expect(readdirSync(join(cwd, "dist")).sort()).toEqual(["deploy.zip", "other.zip"]);
    expect((await run(["export", "deploy", "--to", "zip", "--output", "dist/", "--dry-run"])).code).toBe(1);
  });

  it.each([
    [["deploy", "--to", "zip,claude"], "zip cannot be combined with other targets"],
    [["--list", "--to", "zip"], "--list applies to copies in clients' folders only"],
    [["--remove", "deploy", "--to", "plugin"], "--remove applies to copies in clients' folders only"],
    [["deploy", "--to", "zip", "--project"], "--project applies to copies in clients' folders only"],
    [["deploy", "--to", "claude", "--output", "x"], "--output applies to zip and plugin only"],
    [["--to", "zip"], "No skill was named"],
    [["deploy", "deploy", "--to", "zip", "--output", "x.zip"], "cannot be written to x.zip"],
    [["--all", "--to", "claude"], "--all needs --remove"],
    [["deploy", "--format", "skill-zip", "--to", "zip"], "cannot be used with option"],
    [["--list", "--remove"], "cannot be used with option"],
  ])("refuses options that exclude each other: %s", async (args, said) => {
    const { run, cwd } = scene();
    const ran = await run(["export", ...args]);
    expect(ran).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(said) });
    expect(readdirSync(cwd)).toEqual(["readme"]);
  });
});

describe("former spellings of export", () => {
  it.each([
    ["install deploy --to claude", "Use: skillet export deploy --to claude"],
    ["i deploy --to=claude", "Use: skillet export deploy --to claude"],
    ["install deploy -tclaude,codex -n --project", "Use: skillet export deploy --to claude,codex --dry-run --project"],
    ["install deploy tidy --all --yes --to claude", "Use: skillet export deploy tidy --to claude"],
    ["install deploy@~/.skillet/skills --to claude", "Use: skillet export deploy@~/.skillet/skills --to claude"],
    ["install deploy@mcp:docs --to claude", "Use: skillet export deploy@mcp:docs --to claude"],
    ["install deploy --to", "Use: skillet export deploy --to CLIENT"],
    ["install --to claude -- deploy", "Use: skillet export --to claude deploy"],
    ["install --list", "Use: skillet export --list"],
    ["install -nl deploy", "Use: skillet export --dry-run --list deploy"],
    ["install --update deploy -C ..", "Use: skillet export --update deploy -C .."],
    ["-C .. install deploy --to claude", "Use: skillet export -C .. deploy --to claude"],
    ["uninstall deploy --from codex", "Use: skillet export --remove deploy --to codex"],
    ["uninstall --all", "Use: skillet export --remove --all"],
    [
      "uninstall deploy",
      "Use the first to remove it, or the second to remove its copies from clients: skillet remove deploy; skillet export --remove deploy",
    ],
    [
      "uninstall",
      "Use the first to remove it, or the second to remove its copies from clients: skillet remove NAME; skillet export --remove NAME",
    ],
  ])("print the current command, exit 2, and change nothing: skillet %s", async (line, use) => {
    const { run, home, cwd } = scene();
    await run(["export", "deploy", "--to", "codex"]);
    const before = readdirSync(home, { recursive: true }).sort();
    const { code, stdout, stderr } = await run(line.split(" "));
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr.split("\n").slice(1)).toEqual([`  ${use}`, ""]);
    expect(readdirSync(home, { recursive: true }).sort()).toEqual(before);
    expect(readdirSync(cwd)).toEqual(["readme"]);
  });

  it("depend on the arguments alone: an unreadable configuration and a folder of the same name change nothing", async () => {
    const { run, home, cwd } = scene({ "project/deploy/SKILL.md": skillText("deploy") });
    writeFileSync(join(home, ".skillet/config.toml"), "not toml");
    const { code, stderr } = await run(["install", "deploy", "--to", "claude", "-C", "/no/such/folder"]);
    expect(code).toBe(2);
    expect(stderr).toContain("Use: skillet export deploy --to claude -C /no/such/folder\n");
    expect(readdirSync(cwd).sort()).toEqual(["deploy", "readme"]);
  });

  it("escape and quote the typed text", async () => {
    const { run } = scene();
    const { stderr } = await run(["install", "a; rm -rf ~\u001b[2J", "--to", "claude"]);
    expect(stderr).toContain("Use: skillet export 'a; rm -rf ~\\u{1b}[2J' --to claude\n");
  });

  it("print JSON with --json", async () => {
    const { run } = scene();
    const { stdout } = await run(["install", "deploy", "--to", "claude", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      error: { code: "usage", fix: "Use", commands: ["skillet export deploy --to claude --json"] },
    });
  });

  it("exclude sources and help: these belong to `add`", async () => {
    const { run, cwd } = scene({ "project/pack/SKILL.md": skillText("pack") });
    expect(await run(["install", "./pack", "--yes", "--to", "claude"], { cwd })).toMatchObject({ code: 0 });
    expect((await run(["list", "--installed"])).stdout).toContain("pack");
    expect((await run(["export", "--list"])).stdout).toContain("pack");
    for (const line of [
      ["i", "--help"],
      ["install", "--to", "x", "--help"],
      ["help", "install"],
    ])
      expect((await run(line)).stdout).toContain("Usage: skillet add");
    expect((await run(["add", "--help"])).stdout).toContain("\nAliases: install, i\n");
  });

  it("still include --format, which the help omits", async () => {
    const { run, cwd } = scene();
    expect((await run(["export", "deploy", "--format", "agent-plugin"])).code).toBe(0);
    expect(readdirSync(cwd).sort()).toEqual(["deploy-plugin", "readme"]);
    expect((await run(["export", "--help"])).stdout).not.toContain("--format");
  });
});
