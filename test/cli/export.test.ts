import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { unzip } from "../support/unzip.ts";

/** A project with an untrusted skill, and a folder to work in. */
function place(files: Record<string, string> = {}) {
  const folder = temporaryFolder({
    "home/x": "",
    "project/skills/notes/SKILL.md": skillText("notes", { more: "env: [KEY]\n" }),
    "project/skills/notes/scripts/run.sh": "echo hi\n",
    "project/skills/notes/.env": "KEY=secret",
    ...files,
  });
  const cwd = join(folder, "out");
  mkdirSync(cwd);
  const run = (args: readonly string[], options: RunOptions = {}) =>
    skillet(["export", ...args, "-C", join(folder, "project")], {
      cwd,
      ...options,
      env: { HOME: join(folder, "home") },
    });
  return { folder, cwd, run };
}

describe("skillet export", () => {
  it("writes a zip in a folder, and reports its content, what is omitted, and the next step", async () => {
    const { cwd, run } = place();
    const { code, stdout, stderr } = await run(["notes", "--to", "zip"]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: [
        '! left out: ".env" is hidden: it belongs to this machine',
        "· claude.ai provides only instructions and files: its variables (KEY) work through `skillet serve`",
        "  upload it in Claude's settings, under Skills",
        "",
      ].join("\n"),
    });
    expect(stdout).toMatch(/^✓ notes\.zip 2 files, \d+ bytes\n$/);
    expect([...unzip(readFileSync(join(cwd, "notes.zip"))).keys()]).toEqual(["notes/SKILL.md", "notes/scripts/run.sh"]);
  });

  it("writes a plugin, and explains how to try it", async () => {
    const { cwd, run } = place();
    const { code, stdout, stderr } = await run(["notes", "--to", "plugin", "--output", "for ada"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ for ada 5 files, /);
    expect(stderr).toContain(`  try it: claude --plugin-dir '${join(cwd, "for ada")}'\n`);
    expect(readdirSync(join(cwd, "for ada")).sort()).toEqual([".claude-plugin", "README.md", "skills"]);
  });

  it("reports what it wrote in JSON", async () => {
    const { cwd, run } = place();
    const { stdout, stderr } = await run(["notes", "--to", "zip", "--json"]);
    expect(JSON.parse(stdout)).toEqual({
      isDryRun: false,
      exported: [
        {
          name: "notes",
          source: "skills",
          format: "skill-zip",
          location: join(cwd, "notes.zip"),
          files: ["notes/SKILL.md", "notes/scripts/run.sh"],
          bytes: readFileSync(join(cwd, "notes.zip")).length,
          omitted: ['".env" is hidden: it belongs to this machine'],
          notes: [expect.stringContaining("its variables (KEY)")],
        },
      ],
    });
    expect(stderr).toBe("");
  });

  it("writes a zip by default", async () => {
    const { cwd, run } = place();
    expect((await run(["notes"])).stdout).toMatch(/^✓ notes\.zip /);
    expect(readdirSync(cwd)).toEqual(["notes.zip"]);
  });

  it("keeps existing files without --force", async () => {
    const { cwd, run } = place();
    await run(["notes", "--to", "zip"]);
    const { code, stdout, stderr } = await run(["notes", "--to", "zip"]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(
      `✗ ${join(cwd, "notes.zip")} already exists  [exists]\n  choose another path with --output`,
    );
    expect((await run(["notes", "--to", "zip", "--force"])).code).toBe(0);
  });

  it("accepts shipped skills, also by their source", async () => {
    const { cwd, run } = place();
    expect((await run(["skillmaker@bundled", "--to", "zip"])).code).toBe(0);
    expect([...unzip(readFileSync(join(cwd, "skillmaker.zip"))).keys()][0]).toMatch(/^skillmaker\//);
  });

  it("reports the error in its arguments", async () => {
    const { cwd, run } = place({ "project/skills/broken/SKILL.md": "---\nname: broken\n---\n\nNo description.\n" });
    expect(await run(["nots", "--to", "zip"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("notes"),
    });
    expect(await run(["broken", "--to", "zip"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("Skill 'broken' did not load"),
    });
    expect(await run(["notes", "--to", "tar"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("zip, plugin"),
    });
    expect(readdirSync(cwd)).toEqual([]);
    expect(existsSync(join(cwd, "notes.zip"))).toBe(false);
  });

  it("escapes control sequences", async () => {
    const { run } = place({ "project/skills/notes/.a\u001b[2Jb": "x" });
    const { stderr } = await run(["notes", "--to", "zip"]);
    expect(stderr).not.toContain("\u001b");
    expect(stderr).toContain("is hidden");
  });
});
