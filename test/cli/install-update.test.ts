import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillText, writeFiles } from "../support/folder.ts";
import { recorded, scene } from "./install-scene.ts";

const OTHER = { "home/.skillet/skills/other/SKILL.md": skillText("other") };

describe("skillet export --update", () => {
  it("[Q-12] updates copies in every client, and adds nothing", async () => {
    const { run, home, own, record } = scene(OTHER);
    await run(["export", "deploy", "--to", "claude,codex"]);
    appendFileSync(join(own, "deploy/SKILL.md"), "And more.\n");
    const { code, stdout } = await run(["export", "--update"]);
    expect(code).toBe(0);
    expect(stdout.match(/~ deploy {2}updated/g)).toHaveLength(2);
    for (const client of [".claude", ".codex"]) {
      expect(readdirSync(join(home, client, "skills"))).toEqual(["deploy"]);
      expect(readFileSync(join(home, client, "skills/deploy/SKILL.md"), "utf8")).toContain("And more.");
    }
    expect(recorded(record)).toHaveLength(2);
    expect((await run(["export", "--update"])).stderr).toBe("✓ Claude Code: 1 unchanged\n✓ Codex: 1 unchanged\n");
  });

  it("includes only the named skills and clients", async () => {
    const { run, own } = scene(OTHER);
    await run(["export", "--to", "claude,codex"]);
    for (const name of ["deploy", "other"]) appendFileSync(join(own, name, "SKILL.md"), "And more.\n");
    const { stdout } = await run(["export", "--update", "other", "--to", "codex", "--dry-run"]);
    expect(stdout).toMatch(/^Codex ~\/\.codex\/skills\n {2}~ other {2}would be updated, 1 file\n {6}SKILL.md\n$/);
    await run(["export", "--update", "other", "--to", "codex"]);
    const listed = (await run(["export", "--list"])).stdout;
    expect(listed.match(/out of date/g)).toHaveLength(3);
    expect(listed.match(/✓ other {3}up to date/g)).toHaveLength(1);
  });

  it("includes those of the workspace with --project; the list contains commands that work", async () => {
    const { run, own, cwd, root } = scene();
    await run(["export", "deploy", "--to", "agents", "--project"]);
    appendFileSync(join(own, "deploy/SKILL.md"), "And more.\n");
    expect(await run(["export", "--update"])).toMatchObject({ code: 0, stdout: "" });
    const here = await run(["export", "--list"]);
    expect(here.stdout).toContain("to update it: skillet export --update deploy --project\n");
    const elsewhere = join(root, "no-skills");
    const [, said = ""] =
      /to update it: skillet (.*?)\s*$/.exec(
        (await run(["export", "--list"], { cwd: elsewhere })).stdout.replace(/\n */g, " "),
      ) ?? [];
    expect(said).toBe(`export --update deploy --project -C ${cwd}`);
    expect((await run(said.split(" "), { cwd: elsewhere })).stdout).toContain("~ deploy  updated");
    expect((await run(["export", "--list", "--project"])).stdout).toContain("✓ deploy  up to date");
  });

  it("keeps the source of a copy", async () => {
    const { run, skills } = scene({ "no-skills/deploy/SKILL.md": skillText("deploy", { body: "From the package." }) });
    await run(["export", "deploy@bundled", "--to", "claude"]);
    expect((await run(["export", "--update"])).stdout).toContain("= deploy  unchanged");
    expect(readFileSync(join(skills, "deploy/SKILL.md"), "utf8")).toContain("From the package.");
  });

  it("restores nothing that was removed by hand", async () => {
    const { run, skills } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    rmSync(join(skills, "deploy"), { recursive: true });
    const { code, stdout, stderr } = await run(["export", "--update"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "✓ Claude Code: 1 not changed\n" });
    expect(stdout).toContain(
      "= deploy  removed by hand; to remove the record: skillet export --remove deploy --to claude\n",
    );
    expect(existsSync(join(skills, "deploy"))).toBe(false);
  });

  it("[Q-12] replaces no edited copy, and reports what --force would overwrite", async () => {
    const { run, skills } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    appendFileSync(join(skills, "deploy/SKILL.md"), "Mine.\n");
    expect((await run(["export", "--update"])).code).toBe(3);
    for (const args of [
      ["export", "deploy", "--to", "claude"],
      ["export", "--update"],
      ["export", "--remove", "deploy"],
    ]) {
      const { code, stdout } = await run([...args, "--force", "--dry-run"]);
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: expect.stringContaining("      it was changed by hand since: these changes would be lost\n"),
      });
    }
    expect(readFileSync(join(skills, "deploy/SKILL.md"), "utf8")).toContain("Mine.");
  });

  it("[Q-04] gives a client nothing of a skill that is no longer trusted", async () => {
    const { run, cwd, skills } = scene({ "project/skills/theirs/SKILL.md": skillText("theirs") });
    await run(["trust", "--yes"]);
    await run(["export", "theirs", "--to", "claude"]);
    appendFileSync(join(cwd, "skills/theirs/SKILL.md"), "And something else.\n");
    expect(await run(["export", "--update"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("differs from the trusted version: SKILL.md changed"),
    });
    expect(readFileSync(join(skills, "theirs/SKILL.md"), "utf8")).not.toContain("something else");
  });
});

describe("copies of an original whose trust status changed", () => {
  it("are reported with the command that explains why the original did not load", async () => {
    const { run, own } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    writeFileSync(join(own, "deploy/SKILL.md"), "---\nname: [\n---\n");
    const said =
      "its original did not load (from ~/.skillet/skills); to see why: skillet check ~/.skillet/skills/deploy";
    expect((await run(["export", "--list"])).stdout.replace(/\n {8,}/g, " ")).toContain(`! deploy  ${said}`);
    expect(await run(["export", "--update"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining(
        "✗ Skill 'deploy': its original did not load  [original-broken]\n  to see why: skillet check ~/.skillet",
      ),
    });
  });

  it("are reported when a client still uses a skill that is disabled here", async () => {
    const { run, skills } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    await run(["config", "set", "skills.deploy.enabled", "false"]);
    const said = "disabled here; Claude Code still uses it; to remove it: skillet export --remove deploy";
    const listed = (await run(["export", "--list"])).stdout
      .replace(/\n {8,}/g, " ")
      .replace(" (from ~/.skillet/skills)", "");
    expect(listed).toContain(`! deploy  ${said}`);
    expect((await run(["export", "--update"])).stdout).toContain(`= deploy  ${said}`);
    expect((await run(["export", "--remove", "deploy"])).code).toBe(0);
    expect(existsSync(skills)).toBe(false);
  });
});

describe("skillet export --list", () => {
  it.each([
    ["a name", ["nope"], "no copy of 'nope'\n"],
    ["a similar name", ["deplyo"], "no copy of 'deplyo': did you mean \"deploy\"?\n"],
    ["a client", ["--to", "codex"], "nothing in Codex: `skillet export --list` shows all copies\n"],
    ["both", ["deploy", "--to", "codex"], "no copy of 'deploy' in Codex\n"],
    ["the workspace", ["--project"], "nothing in this workspace: `skillet export --list` shows all copies\n"],
  ])("reports missing copies: %s", async (_, args, stderr) => {
    const { run } = scene();
    await run(["export", "deploy", "--to", "claude"]);
    expect(await run(["export", "--list", ...args])).toEqual({ code: 0, stdout: "", stderr });
  });

  it("suggests removing only one copy from the record", async () => {
    const { run, skills, home } = scene();
    await run(["export", "deploy", "--to", "claude,codex"]);
    rmSync(join(skills, "deploy"), { recursive: true });
    const { stdout } = await run(["export", "--list"]);
    const [, said = ""] = /record: skillet (.*)/.exec(stdout) ?? [];
    expect((await run(said.split(" "))).stdout).toBe("Claude Code ~/.claude/skills\n  - deploy  was gone already\n");
    expect(readdirSync(join(home, ".codex/skills"))).toEqual(["deploy"]);
  });
});

describe("the report about copies", () => {
  it("names omitted files", async () => {
    const { run, own } = scene();
    writeFiles(join(own, "deploy"), { ".cache/a": "", ".cache/b": "", "docs/.draft": "", ".DS_Store": "" });
    const { stdout } = await run(["export", "deploy", "--to", "claude"]);
    expect(stdout).toContain("      left out: .cache, .env, docs/.draft\n");
    expect((await run(["export", "deploy", "--to", "claude"])).stdout).not.toContain("left out");
  });

  it("is printed once for several skills, and not repeated for the next client", async () => {
    const more = "allowed_tools: [bash]\n";
    const { run } = scene({
      "home/.skillet/skills/one/SKILL.md": skillText("one", { more }),
      "home/.skillet/skills/two/SKILL.md": skillText("two", { more }),
    });
    const { stdout } = await run(["export", "one", "two", "--to", "claude,codex,gemini"]);
    expect(stdout).toBe(
      [
        "Claude Code ~/.claude/skills",
        "  + one  exported, 1 file",
        "  + two  exported, 1 file",
        "  · one, two: Claude Code ignores allowed_tools",
        "Codex ~/.codex/skills",
        "  + one  exported, 1 file",
        "  + two  exported, 1 file",
        "  · the notes on Claude Code above apply to Codex too",
        "Gemini CLI ~/.gemini/skills",
        "  + one  exported, 1 file",
        "  + two  exported, 1 file",
        "  · the notes on Claude Code above apply to Gemini CLI too",
        "",
      ].join("\n"),
    );
  });

  it.each([
    ["codex", "agents", "Codex reads this folder too, and already has this skill in ~/.codex/skills"],
    ["agents", "codex", "Codex reads ~/.agents/skills too, which already has this skill: it will list it twice"],
    ["claude", "cursor", "Cursor reads ~/.claude/skills too, which already has this skill"],
  ])("names a skill that a client sees twice in two of its folders: %s, %s", async (a, b, said) => {
    const { run } = scene();
    expect((await run(["export", "deploy", "--to", `${a},${b}`, "--dry-run"])).stdout).toContain(said);
    expect((await run(["export", "deploy", "--to", a])).stdout).not.toContain("twice");
    expect((await run(["export", "deploy", "--to", b])).stdout).toContain(said);
    expect((await run(["export", "deploy", "--to", b, "--project"])).stdout).not.toContain("twice");
  });
});
