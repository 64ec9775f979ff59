import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

/** A home with this configuration and a workspace with that one, two skills, and one that is disabled by default. */
function place(user?: string, workspace?: string) {
  const root = temporaryFolder({
    "project/skills/deploy/SKILL.md": skillText("deploy"),
    "project/skills/notes/SKILL.md": skillText("notes"),
    "project/skills/broken/SKILL.md": "---\nname: broken\n---\n",
    "shipped/mail/SKILL.md": skillText("mail", { more: "default_enabled: false\nenv: [MAIL_KEY]\n" }),
    "home/note": "",
  });
  const files = { user: join(root, "home/.skillet/config.toml"), project: join(root, "project/.skillet/config.toml") };
  if (user !== undefined) writeFiles(root, { "home/.skillet/config.toml": user });
  if (workspace !== undefined) writeFiles(root, { "project/.skillet/config.toml": workspace });
  const env = { HOME: join(root, "home"), SKILLS_DIR: join(root, "shipped") };
  const run = (args: readonly string[], options: RunOptions = {}) =>
    skillet(args, { cwd: join(root, "project"), ...options, env: { ...env, ...options.env } });
  return {
    root,
    files,
    run,
    text: (file: keyof typeof files) => (existsSync(files[file]) ? readFileSync(files[file], "utf8") : undefined),
    names: async () =>
      JSON.parse((await run(["list", "--json"])).stdout).skills.map(({ name }: { name: string }) => name),
  };
}

describe("skillet disable", () => {
  it("[S-10] disables skills, prints the file and how to undo it, and can be repeated", async () => {
    const { run, text, names } = place('# mine\n[skills.deploy]\nmodel = "fast"\n');
    const { code, stdout, stderr } = await run(["disable", "deploy", "notes", "deploy"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe(
      "✓ deploy is now disabled, in ~/.skillet/config.toml\n✓ notes is now disabled, in ~/.skillet/config.toml\n  to undo: skillet enable deploy notes\n  none of your servers or chats is running; a run under way is denied further tool calls\n",
    );
    const written = '# mine\n[skills.deploy]\nmodel = "fast"\nenabled = false\n\n[skills.notes]\nenabled = false\n';
    expect(text("user")).toBe(written);
    expect(await names()).toEqual([]);
    const again = await run(["disable", "deploy"]);
    expect(again).toMatchObject({
      code: 0,
      stdout:
        "✓ deploy was already disabled, in ~/.skillet/config.toml\n  none of your servers or chats is running; a run under way is denied further tool calls\n",
    });
    expect(text("user")).toBe(written);
    await run(["enable", "deploy", "notes"]);
    expect(await names()).toEqual(["deploy", "notes"]);
  });

  it("disables all of them or none, and suggests a name for an unknown one", async () => {
    const { run, text } = place();
    const missing = await run(["disable", "deploy", "ntes"]);
    expect(missing.code).toBe(1);
    expect(missing.stderr).toContain("Skill 'ntes' not found");
    expect(missing.stderr).toContain('did you mean "notes"?');
    expect((await run(["disable", "deploy", "broken"])).stderr).toContain("Skill 'broken' did not load:");
    expect(text("user")).toBeUndefined();
  });

  it("writes nothing when one of several keys can only be changed by hand", async () => {
    const user = "[skills]\nnotes = { enabled = true }\n";
    const { run, text } = place(user);
    const { code, stderr } = await run(["disable", "deploy", "notes"]);
    expect(code).toBe(1);
    expect(stderr).toContain("nothing was written");
    expect(text("user")).toBe(user);
  });

  it("disables a skill for one workspace, in its own file", async () => {
    const { run, text, names } = place();
    const { stdout } = await run(["disable", "deploy", "--project"]);
    expect(stdout).toBe(
      "✓ deploy is now disabled, in .skillet/config.toml\n  to undo: skillet enable deploy --project\n  none of your servers or chats is running; a run under way is denied further tool calls\n",
    );
    expect(text("project")).toBe("[skills.deploy]\nenabled = false\n");
    expect(text("user")).toBeUndefined();
    expect(await names()).toEqual(["notes"]);
  });

  it("names the workspace in the undo command, if one was named", async () => {
    const { run, root } = place();
    const { stdout } = await run(["disable", "deploy", "-C", "../project"], { cwd: join(root, "home") });
    expect(stdout).toContain("to undo: skillet enable deploy -C ../project\n");
  });

  it("[Q-12] follows no link out of the workspace", async () => {
    const { run, root, text } = place("# mine\n");
    symlinkSync(join(root, "home/.skillet"), join(root, "project/.skillet"));
    const { code, stderr } = await run(["disable", "deploy", "--project"]);
    expect(code).toBe(1);
    expect(stderr).toContain("is a symlink that leaves the workspace");
    expect(text("user")).toBe("# mine\n");
  });

  it("changes no configuration that cannot be read", async () => {
    const { run, text } = place("[skills\n");
    expect((await run(["disable", "deploy"])).code).toBe(2);
    expect(text("user")).toBe("[skills\n");
  });
});

describe("skillet enable", () => {
  it("[T-15] enables a skill that is disabled by default, and reports what else it needs", async () => {
    const { run, names } = place();
    const { code, stdout } = await run(["enable", "mail"], { isTTY: true, columns: 80, env: { NO_COLOR: "1" } });
    expect(code).toBe(0);
    expect(stdout).toContain("✓ mail is now enabled, in ~/.skillet/config.toml\n  to undo: skillet disable mail\n");
    expect(stdout).toContain("! Skill 'mail' needs MAIL_KEY  [missing-variable]\n");
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    expect(await names()).toContain("mail");
  });

  it("reports the same as JSON", async () => {
    const { run, files } = place();
    const { stdout } = await run(["enable", "mail", "--json"]);
    expect(JSON.parse(stdout)).toEqual({
      file: files.user,
      running: [],
      skills: [
        {
          name: "mail",
          isEnabled: true,
          isChanged: true,
          needs: [expect.objectContaining({ code: "missing-variable", fix: expect.stringContaining("MAIL_KEY") })],
        },
      ],
    });
  });

  it("reports that the workspace's own file disables a skill", async () => {
    const { run, names } = place(undefined, "[skills.deploy]\nenabled = false\n");
    const { code, stdout, stderr } = await run(["enable", "deploy", "notes"]);
    expect(code).toBe(1);
    expect(stdout).toContain("! deploy is enabled in ~/.skillet/config.toml, but stays disabled\n");
    expect(stdout).toContain("✓ notes is now enabled");
    expect(stderr).toContain("to enable it there: skillet enable deploy --project\n");
    expect((await run(["enable", "deploy", "--project"])).code).toBe(0);
    expect(await names()).toContain("deploy");
  });

  it("[Q-26] in a workspace does not enable what the user disabled", async () => {
    const { run, names } = place("[skills.deploy]\nenabled = false\n");
    const { code, stderr } = await run(["enable", "deploy", "--project"]);
    expect(code).toBe(1);
    expect(stderr).toContain("Your own configuration disables deploy\n  to enable it there: skillet enable deploy\n");
    expect(await names()).not.toContain("deploy");
  });

  it("writes the workspace's file when its folder is a link within the workspace", async () => {
    const { run, root, text } = place();
    mkdirSync(join(root, "project/settings"));
    symlinkSync("settings", join(root, "project/.skillet"));
    expect((await run(["enable", "deploy", "--project"])).code).toBe(0);
    expect(text("project")).toBe("[skills.deploy]\nenabled = true\n");
  });
});
