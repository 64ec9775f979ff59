import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { NATIVE_CLIENTS } from "../../src/remote/clients/native-clients.ts";
import { NATIVE_CLIENT_NAMES } from "../../src/skill/clients.ts";
import { skillet } from "../support/command.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { recorded, scene } from "./install-scene.ts";

describe("skillet export --to CLIENT", () => {
  it("[Q-12] puts a copy into the client's folder: the skill without private files, and nothing else", async () => {
    const { run, skills, record } = scene();
    const { code, stdout, stderr } = await run(["export", "deploy", "--to", "claude"]);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Claude Code ~\/\.claude\/skills\n {2}\+ deploy {2}exported, 2 files\n/),
    });
    expect(stderr).toContain("✓ Claude Code: 1 exported\n  then ");
    expect(readdirSync(skills, { recursive: true }).sort()).toEqual([
      "deploy",
      "deploy/SKILL.md",
      "deploy/scripts",
      "deploy/scripts/go.sh",
    ]);
    expect(statSync(join(skills, "deploy/scripts/go.sh")).mode & 0o7777, "never as another user").toBe(0o755);
    expect(readFileSync(join(skills, "deploy/SKILL.md"), "utf8")).toContain("metadata:");
    expect(recorded(record)).toEqual([join(skills, "deploy")]);
  });

  it("creates no second skill: the original stays the skill, and a copy without an original becomes one", async () => {
    const { run, json, own } = scene();
    await run(["export", "deploy", "--to", "claude,agents"]);
    const { skills, shadowed } = await json(["list", "--all"]);
    expect(skills).toMatchObject([{ name: "deploy", source: "~/.skillet/skills" }]);
    expect(shadowed).toEqual([]);
    rmSync(join(own, "deploy"), { recursive: true });
    expect((await json(["list"])).skills).toMatchObject([{ name: "deploy", source: "~/.agents/skills" }]);
    expect((await run(["export", "--list"])).stdout).toContain("its original is gone");
  });

  it("creates a skill in workspaces that do not have the original", async () => {
    const { run, root, cwd } = scene({ "project/skills/tidy/SKILL.md": skillText("tidy"), "other/readme": "" });
    const sources = async (from: string) => {
      const { skills } = JSON.parse((await run(["list", "--json"], { cwd: from })).stdout);
      return skills.map(({ name, source }: Record<string, string>) => `${name}@${source}`);
    };
    await run(["trust", join(cwd, "skills/tidy"), "--yes"]);
    await run(["export", "tidy", "--to", "claude"]);
    symlinkSync(cwd, join(root, "link"));
    for (const from of [cwd, join(root, "link")]) expect(await sources(from)).toContain("tidy@skills");
    expect(await sources(join(root, "other"))).toContain("tidy@~/.claude/skills");
    const { stdout } = await run(["export", "--list"], { cwd: join(root, "other") });
    expect(stdout).toContain("so it counts as a separate skill");
  });

  it("keeps a skill when a copy without an original is exported to where the original was", async () => {
    const { run, json, skills, home, record } = scene({ "home/.claude/skills/tidy/SKILL.md": skillText("tidy") });
    await run(["trust", join(skills, "tidy"), "--yes"]);
    await run(["export", "tidy", "--to", "agents"]);
    rmSync(join(skills, "tidy"), { recursive: true });
    const copy = join(home, ".agents/skills/tidy");
    await run(["trust", copy, "--yes"]);
    expect((await run(["export", "tidy", "--to", "claude"])).code).toBe(0);
    expect((await json(["list"])).skills).toMatchObject([
      { name: "deploy" },
      { name: "tidy", source: "~/.agents/skills" },
    ]);
    expect(recorded(record)).toEqual([join(skills, "tidy")]);
    await run(["export", "--remove", "tidy"]);
    expect(existsSync(copy)).toBe(true);
  });

  it("shows the plan with every file, and writes nothing, with --dry-run", async () => {
    const { run, home, json } = scene();
    const { code, stdout, stderr } = await run(["export", "--to", "claude", "--dry-run"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      / {2}\+ deploy {2}would be exported, 2 files\n(?: {6}.*\n)* {6}SKILL.md\n {6}scripts\/go.sh\n$/,
    );
    expect(stderr).toBe("✓ Claude Code: 1 would be exported\n");
    const folder = join(home, ".claude/skills/deploy");
    expect(await json(["export", "--to", "claude", "--dry-run"])).toMatchObject({
      isDryRun: true,
      clients: [
        {
          client: "claude",
          steps: [{ name: "deploy", action: "install", folder, files: ["SKILL.md", "scripts/go.sh"] }],
        },
      ],
    });
    expect(existsSync(join(home, ".claude"))).toBe(false);
    expect(existsSync(join(home, ".skillet/installs.json"))).toBe(false);
  });

  it("writes nothing without changes, and updates what changed", async () => {
    const { run, skills, own } = scene();
    await run(["export", "--to", "claude"]);
    const { ino, mtimeMs } = statSync(join(skills, "deploy"));
    expect(await run(["export", "--to", "claude"])).toMatchObject({
      code: 0,
      stdout: "Claude Code ~/.claude/skills\n  = deploy  unchanged\n",
      stderr: "✓ Claude Code: 1 unchanged\n",
    });
    expect(statSync(join(skills, "deploy"))).toMatchObject({ ino, mtimeMs });
    appendFileSync(join(own, "deploy/SKILL.md"), "And more.\n");
    rmSync(join(own, "deploy/scripts"), { recursive: true });
    expect((await run(["export", "--list"])).stdout).toContain(
      "out of date (from ~/.skillet/skills); to update it: skillet export --update deploy\n",
    );
    expect((await run(["export", "--to", "claude"])).stdout).toContain("  ~ deploy  updated, 1 file\n");
    expect(readFileSync(join(skills, "deploy/SKILL.md"), "utf8")).toContain("And more.");
    expect(readdirSync(join(skills, "deploy"))).toEqual(["SKILL.md"]);
    expect((await run(["export", "--list"])).stdout).toContain("✓ deploy  up to date");
  });

  it("omits files that systems and Python leave behind, and does not count them as edits", async () => {
    const LITTER = { "desktop.ini": "", "scripts/Thumbs.db": "", "scripts/__pycache__/go.pyc": "" };
    const { run, skills, own } = scene();
    writeFiles(join(own, "deploy"), LITTER);
    await run(["export", "deploy", "--to", "claude"]);
    expect(readdirSync(join(skills, "deploy"), { recursive: true }).sort()).toEqual([
      "SKILL.md",
      "scripts",
      "scripts/go.sh",
    ]);
    writeFiles(join(skills, "deploy"), { ...LITTER, ".DS_Store": "" });
    expect((await run(["export", "--list"])).stdout).toContain("✓ deploy  up to date");
    appendFileSync(join(own, "deploy/SKILL.md"), "And more.\n");
    expect((await run(["export", "deploy", "--to", "claude"])).stdout).toContain("deploy  updated");
    expect((await run(["export", "--remove", "deploy"])).code).toBe(0);
  });

  it.each([
    ["a line", (copy: string) => appendFileSync(join(copy, "SKILL.md"), "Mine.\n")],
    ["a file", (copy: string) => writeFileSync(join(copy, "notes.md"), "Mine.\n")],
    ["a private file", (copy: string) => writeFileSync(join(copy, ".env"), "MINE=1\n")],
    ["a mode", (copy: string) => chmodSync(join(copy, "scripts/go.sh"), 0o644)],
    ["a link", (copy: string) => symlinkSync("/etc", join(copy, "etc"))],
  ])("[Q-12] keeps a copy in which the user changed %s, without --force", async (_, change) => {
    const { run, skills, own } = scene();
    await run(["export", "--to", "claude"]);
    appendFileSync(join(own, "deploy/SKILL.md"), "And more.\n");
    change(join(skills, "deploy"));
    const before = readdirSync(skills, { recursive: true });
    for (const args of [
      ["export", "--to", "claude"],
      ["export", "--remove", "deploy"],
    ]) {
      const { code, stderr } = await run(args);
      expect({ code, stderr }).toEqual({
        code: 3,
        stderr: expect.stringContaining(
          "✗ ~/.claude/skills/deploy was edited by hand since skillet created it  [edited]\n",
        ),
      });
    }
    expect(readdirSync(skills, { recursive: true })).toEqual(before);
    expect((await run(["export", "--list"])).stdout).toContain("changed by hand since");
    expect((await run(["export", "--to", "claude", "--force"])).stdout).toContain("~ deploy  updated");
    expect(readdirSync(join(skills, "deploy")).sort()).toEqual(["SKILL.md", "scripts"]);
  });

  it.each(["folder", "file", "link"])("[Q-12] never touches a %s that it did not create", async (what) => {
    const { run, skills, root } = scene();
    const place = join(skills, "deploy");
    mkdirSync(what === "folder" ? place : skills, { recursive: true });
    if (what === "folder") writeFileSync(join(place, "notes.txt"), "Mine.");
    else if (what === "file") writeFileSync(place, "Mine.");
    else symlinkSync(join(root, "project"), place);
    const before = lstatSync(place);
    for (const args of [
      ["export", "deploy", "--to", "claude"],
      ["export", "--remove", "deploy"],
    ]) {
      const { code, stderr } = await run([...args, "--force"]);
      expect(code).toBe(3);
      expect(stderr).toContain(`✗ ~/.claude/skills/deploy is a ${what} that skillet did not create`);
    }
    expect(lstatSync(place)).toMatchObject({ ino: before.ino, mtimeMs: before.mtimeMs });
  });

  it("reports that one of the client's own skills is already there", async () => {
    const { run, home } = scene({ "home/.claude/skills/mine/SKILL.md": skillText("mine") });
    expect(await run(["export", "mine", "--to", "claude"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("  = mine  already exported\n"),
    });
    expect(existsSync(join(home, ".skillet/installs.json"))).toBe(false);
  });

  it("[Q-04] exports nothing of an untrusted workspace: exit 3, with the command to run", async () => {
    const { run, cwd, skills } = scene({ "project/skills/theirs/SKILL.md": skillText("theirs") });
    const { code, stderr } = await run(["export", "theirs", "--to", "claude"]);
    expect(code).toBe(3);
    expect(stderr).toContain(
      `✗ Skill 'theirs' (from skills) has not been trusted yet  [untrusted]\n  review it, then run: skillet trust ${cwd}/skills/theirs\n`,
    );
    expect(await run(["export", "--to", "claude"]), "and the rest is installed").toMatchObject({ code: 3 });
    expect(readdirSync(skills)).toEqual(["deploy"]);
    await run(["trust", "--yes"]);
    appendFileSync(join(cwd, "skills/theirs/SKILL.md"), "And something else.\n");
    expect((await run(["export", "theirs", "--to", "claude"])).stderr).toContain(
      "differs from the trusted version: SKILL.md changed",
    );
    await run(["trust", "--yes"]);
    expect((await run(["export", "theirs", "--to", "claude"])).code).toBe(0);
  });

  it("[Q-04] asks about trust on a terminal, and reports that the client does not use skillet's sandbox", async () => {
    const { run, skills } = scene({ "project/skills/theirs/SKILL.md": skillText("theirs") });
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question.replaceAll("\n", " "));
      return "n";
    };
    const { code, stderr } = await run(["export", "theirs", "--to", "claude,codex"], { ask });
    expect(code).toBe(3);
    expect(stderr, "the safety card").toMatch(/^theirs {2}skills\/theirs from skills\n {2}instructions/);
    expect(questions).toEqual([
      "Trust this skill to be followed, and to be copied to Claude Code and Codex, which run its code outside of skillet's sandbox? [y/N] ",
    ]);
    expect((await run(["export", "theirs", "--to", "claude"], { ask: async () => "y" })).code).toBe(0);
    expect(readdirSync(skills)).toEqual(["theirs"]);
  });

  it("[Q-04] asks for tools of a skill too, which run here without a sandbox", async () => {
    const more = "toolsets: ['toolsets/index:Tools']\n";
    const { run } = scene({ "project/skills/theirs/SKILL.md": skillText("theirs", { more }) });
    let asked = "";
    await run(["export", "theirs", "--to", "codex"], {
      ask: async (question) => {
        asked = question.replaceAll("\n", " ");
        return "n";
      },
    });
    expect(asked).toBe(
      "Trust this skill to be followed, its tools to run as you here, without a sandbox, and to be copied to Codex, which runs its code outside of skillet's sandbox? [y/N] ",
    );
  });

  it.each([
    ["it is there already", "project/.claude/skills/theirs/SKILL.md", []],
    ["it is disabled", "project/skills/theirs/SKILL.md", ["config", "set", "skills.theirs.enabled", "false"]],
  ])("asks no question without a consequence: %s", async (_, file, before) => {
    const { run } = scene({ [file]: skillText("theirs") });
    if (before.length > 0) await run(before);
    const ask = async () => expect.unreachable("it was asked");
    const { stderr } = await run(["export", "theirs", "--to", "claude", "--project"], { ask });
    expect(stderr).not.toContain("was asked");
  });

  it("accepts `name@source`, and updates from that source", async () => {
    const files = { "no-skills/deploy/SKILL.md": skillText("deploy", { body: "From the package." }) };
    const { run, skills } = scene(files);
    await run(["export", "deploy@bundled", "--to", "claude"]);
    const text = () => readFileSync(join(skills, "deploy/SKILL.md"), "utf8");
    expect(text()).toContain("From the package.");
    expect((await run(["export", "--to", "claude"])).stdout).toContain("= deploy  unchanged");
    expect((await run(["export", "deploy", "--to", "claude"])).stdout).toContain("~ deploy  updated");
    expect(text()).not.toContain("From the package.");
    expect(await run(["export", "deploy", "deploy@bundled", "--to", "claude"])).toMatchObject({ code: 2 });
  });

  it("omits disabled and user-only skills by default, and reports one that is named", async () => {
    const { run, skills, own } = scene({
      "home/.skillet/skills/off/SKILL.md": skillText("off"),
      "home/.skillet/skills/by-hand/SKILL.md": skillText("by-hand", { more: "disable-model-invocation: true\n" }),
      "home/.skillet/skills/on-a-mac/SKILL.md": skillText("on-a-mac", { more: "metadata:\n  os: [plan9]\n" }),
    });
    await run(["config", "set", "skills.off.enabled", "false"]);
    expect((await run(["export", "--to", "claude"])).code).toBe(0);
    expect(readdirSync(skills)).toEqual(["deploy"]);
    expect(await run(["export", "off", "--to", "claude"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("skillet enable off"),
    });
    expect((await run(["export", "by-hand", "--to", "claude"])).code).toBe(0);
    appendFileSync(join(own, "by-hand/SKILL.md"), "And more.\n");
    expect((await run(["export", "--to", "claude"])).stdout, "existing copies stay up to date").toContain("~ by-hand");
  });

  it("puts copies into the workspace with --project, also outside any repository", async () => {
    const { run, cwd, json } = scene();
    const { code, stdout } = await run(["export", "deploy", "--to", "agents,vscode", "--project"]);
    expect(code).toBe(0);
    expect(stdout).toContain(`${cwd}/.agents/skills\n`);
    for (const folder of [".agents", ".github"])
      expect(existsSync(join(cwd, folder, "skills/deploy/SKILL.md"))).toBe(true);
    expect((await json(["list"])).skills).toMatchObject([{ name: "deploy", source: "~/.skillet/skills" }]);
    expect(await run(["export", "--remove", "deploy"]), "your own folders hold none").toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        "it is in .agents/skills of this workspace: add --project; it is in .github/skills",
      ),
    });
    expect((await run(["export", "--remove", "deploy", "--project"])).code).toBe(0);
    expect(existsSync(join(cwd, ".agents"))).toBe(false);
  });

  it("creates a skill for every user who clones the project with its copies", async () => {
    const { run, cwd } = scene();
    await run(["export", "deploy", "--to", "agents", "--project"]);
    const other = await skillet(["list", "--json"], { cwd });
    expect(JSON.parse(other.stdout).skills).toContainEqual(
      expect.objectContaining({ name: "deploy", source: ".agents/skills" }),
    );
  });

  it("[Q-12] passes the client's own checker for every shipped skill", async () => {
    const { home, cwd } = scene();
    const run = (args: string[]) => skillet(args, { cwd, env: { HOME: home } });
    expect((await run(["export", "--to", "claude"])).code).toBe(0);
    const folder = join(home, ".claude/skills");
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(["host-report", "skillmaker"]));
    const checked = await run(["check", folder, "--profile", "claude-upload"]);
    expect(checked.stdout).toMatch(/^(?:[5-9]|1\d) skills: 0 errors/m);
    expect(checked.code).toBe(0);
    expect((await run(["export", "--to", "claude"])).stderr).toMatch(/^✓ Claude Code: \d+ unchanged\n$/);
  });

  it("accepts the clients of the table", () => {
    expect(NATIVE_CLIENT_NAMES).toEqual(Object.keys(NATIVE_CLIENTS));
  });

  it("fits eighty columns on a terminal", async () => {
    const { home, cwd } = scene();
    const { stdout, stderr } = await skillet(["export", "--to", "claude,codex"], {
      cwd,
      env: { HOME: home, NO_COLOR: "1" },
      isTTY: true,
      columns: 80,
    });
    expect(`${stdout}${stderr}`.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });
});

describe("skillet export --remove", () => {
  it("[Q-12] removes what skillet created, and nothing else", async () => {
    const { run, home, skills, record } = scene({ "home/.claude/skills/mine/SKILL.md": skillText("mine") });
    await run(["export", "deploy", "--to", "claude,codex"]);
    expect(await run(["export", "--remove", "deploy", "--to", "codex", "--dry-run"])).toMatchObject({
      code: 0,
      stdout: "Codex ~/.codex/skills\n  - deploy  would be removed\n",
    });
    expect(recorded(record)).toHaveLength(2);
    expect((await run(["export", "--remove", "deploy", "--to", "codex"])).stdout).toContain("- deploy  removed");
    expect(existsSync(join(home, ".codex"))).toBe(false);
    expect((await run(["export", "--remove", "--all"])).code).toBe(0);
    expect(readdirSync(skills)).toEqual(["mine"]);
    expect(recorded(record)).toEqual([]);
    expect(await run(["export", "--remove", "--all"])).toMatchObject({ code: 0, stdout: "" });
  });

  it("removes the record of a copy that was deleted by hand, and reports that", async () => {
    const { run, skills, record } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    rmSync(join(skills, "deploy"), { recursive: true });
    expect((await run(["export", "--list"])).stdout).toContain("! deploy  removed by hand");
    expect((await run(["export", "--remove", "deploy"])).stdout).toContain("- deploy  was gone already");
    expect(recorded(record)).toEqual([]);
  });

  it("removes records of a deleted workspace, and keeps those of others", async () => {
    const { run, root, record } = scene({ "gone/readme": "" });
    await run(["export", "deploy", "--to", "claude", "--project"]);
    await run(["export", "deploy", "--to", "claude", "--project"], { cwd: join(root, "gone") });
    rmSync(join(root, "gone"), { recursive: true });
    expect((await run(["export", "--list"])).stdout).toContain(
      "to remove the record: skillet export --remove deploy\n",
    );
    expect((await run(["export", "--remove", "deploy"])).stdout).toContain("- deploy  was gone already");
    expect(recorded(record)).toEqual([join(root, "project/.claude/skills/deploy")]);
  });

  it("keeps a possibly last copy, unless it is forced to remove it", async () => {
    const { run, own, skills } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    rmSync(join(own, "deploy"), { recursive: true });
    const refused = await run(["export", "--remove", "deploy"]);
    expect(refused.stdout + refused.stderr).toContain("so it may be the last copy");
    expect(refused.code).toBe(3);
    expect(readdirSync(skills)).toEqual(["deploy"]);
    expect((await run(["export", "--remove", "deploy", "--force"])).code).toBe(0);
    expect(existsSync(skills)).toBe(false);
  });
});

describe("a typo in export", () => {
  it.each([
    ["a name", ["export", "deplyo", "--to", "claude"], 1, 'did you mean "deploy"?'],
    ["no client", ["export", "deploy", "--project"], 2, "--to claude,codex; `skillet export --update` updates"],
    ["two clients", ["export", "--to", "claude", "codex"], 2, "clients go into one list: --to claude,codex"],
    [
      "a path to a skill",
      ["export", "./skills/deploy", "--to", "claude"],
      2,
      'not the name of a skill  [usage]\n  use the name "deploy"',
    ],
    [
      "another path",
      ["export", "skills/x", "--to", "claude"],
      2,
      "not the name of a skill  [usage]\n  use a name of this list: skillet list",
    ],
    ["what to update", ["export", "--update", "deplyo"], 1, 'did you mean "deploy"?'],
    ["where to update", ["export", "--update", "deploy", "--to", "codex"], 1, "in ~/.claude/skills: add --to claude"],
    ["where from", ["export", "--remove", "deploy", "--to", "codex"], 1, "it is in ~/.claude/skills: add --to claude"],
    ["in the project", ["export", "--remove", "deploy", "--project"], 1, "in ~/.claude/skills: omit --project"],
    [
      "a client",
      ["export", "deploy", "--to", "cluade"],
      2,
      `did you mean claude? Targets: ${NATIVE_CLIENT_NAMES.join(", ")}, zip, plugin`,
    ],
    ["one of several", ["export", "deploy", "--to", "claude,x"], 2, 'Unknown target "x"'],
    ["a client to list", ["export", "--list", "--to", "x"], 2, "Targets: "],
    ["nothing to remove", ["export", "--remove"], 2, "name skills, or add --all"],
    ["all and a name", ["export", "--remove", "deploy", "--all"], 2, "use one of them"],
    ["missing copies", ["export", "--remove", "deplyo"], 1, 'did you mean "deploy"?'],
    ["a path", ["export", "--remove", "../skills/deploy"], 1, "No copy of '../skills/deploy' found"],
  ])("is reported with a suggestion: %s", async (_, args, code, fix) => {
    const { run, skills } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    const ran = await run(args);
    expect({ code: ran.code, stdout: ran.stdout }).toEqual({ code, stdout: "" });
    expect(ran.stderr).toContain(fix);
    expect(readdirSync(skills)).toEqual(["deploy"]);
  });

  it("is distinguished from a skill that did not load", async () => {
    const { run, own } = scene();
    writeFiles(own, { "broken/SKILL.md": "---\nname: [\n---\n" });
    expect((await run(["export", "broken", "--to", "claude"])).stderr).toContain("✗ Skill 'broken' did not load:");
  });
});
