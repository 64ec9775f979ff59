import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { load } from "js-yaml";
import { describe, expect, it } from "vitest";
import { skillText, temporaryFolder } from "../support/folder.ts";

const root = join(import.meta.dirname, "..", "..");
const hooks = load(readFileSync(join(root, ".pre-commit-hooks.yaml"), "utf8")) as Record<string, unknown>[];
const { bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** Calls the hook as pre-commit does: its entry, its arguments, then the files of a commit. */
function hook(cwd: string, files: readonly string[], args: readonly string[] = []) {
  const [program = "", ...entry] = String(hooks[0]?.["entry"]).split(" ");
  const command = [join(root, bin[program]), ...entry, ...args, ...files];
  const env = { PATH: process.env["PATH"], HOME: join(cwd, ".home") };
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd, env, encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("the hook for pre-commit", () => {
  it("can be installed and called by pre-commit", () => {
    const [one, ...others] = hooks;
    expect(others).toEqual([]);
    expect(Object.keys(one ?? {})).toEqual(
      "id name description entry language types require_serial minimum_pre_commit_version".split(" "),
    );
    expect(one).toMatchObject({ id: "skillet-check", language: "node", types: ["file"], require_serial: true });
    expect(existsSync(join(root, bin["skillet"]))).toBe(true);
  });

  it("can be installed: `npm pack` prints only the name of the package", () => {
    expect(execFileSync("npm", ["config", "get", "foreground-scripts"], { cwd: root, encoding: "utf8" })).toBe(
      "false\n",
    );
  });

  it("checks the skill that contains a changed file, once", () => {
    const cwd = temporaryFolder({
      "skills/good/SKILL.md": skillText("good"),
      "plugins/x/broken/SKILL.md": "---\nname: broken\n---\nx\n",
      "plugins/x/broken/scripts/run.sh": "true\n",
      "plugins/x/broken/references/deep/notes.md": "# Notes\n",
    });
    const files = [
      "skills/good/SKILL.md",
      "plugins/x/broken/scripts/run.sh",
      "plugins/x/broken/references/deep/notes.md",
    ];
    expect(hook(cwd, files.slice(0, 1))).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("1 skill: 0 err"),
    });
    const { status, stdout } = hook(cwd, files);
    expect(status).toBe(1);
    expect(stdout).toContain("✗ plugins/x/broken/SKILL.md has no description  [description-missing]\n");
    expect(stdout.match(/description-missing/g)).toHaveLength(1);
    expect(stdout).toContain("\n2 skills: 1 error");
  });

  it("ignores files outside any skill, whatever they look like", () => {
    const cwd = temporaryFolder({
      "README.md": "# Mine\n",
      "docs/page.md": "---\ntitle: Page\ndescription: A page of a site\nlayout: wide\n---\n\nText.\n",
      "action.yml": "name: Mine\ndescription: Does it\nruns: {}\n",
      "src/skills/names.ts": "export {};\n",
      "skills/README.md": "# Our skills\n",
      "skills/skills.lock": "{}\n",
      "skills/broken/SKILL.md": "no",
    });
    const files = ["README.md", "docs/page.md", "action.yml", "src/skills/names.ts", "skills/README.md"];
    expect(hook(cwd, [...files, "skills/skills.lock"], ["--strict", "--profile=agentskills"])).toEqual({
      status: 0,
      stdout: "",
      stderr: "none of these files is part of a skill\n",
    });
  });

  it("checks single-file skills, and the skill of a deleted file", () => {
    const cwd = temporaryFolder({
      "skills/flat.md": "no frontmatter\n",
      ".claude/skills/left/SKILL.md": skillText("left", { body: "See [this](gone.md)." }),
      ".claude/skills/left/gone.md": "x",
    });
    expect(hook(cwd, ["skills/flat.md"])).toMatchObject({
      status: 1,
      stdout: expect.stringContaining("skills/flat.md:1"),
    });
    rmSync(join(cwd, ".claude/skills/left/gone.md"));
    const files = [".claude/skills/left/gone.md", "skills/gone-too/scripts/x.sh", "skills/gone.md"];
    const { status, stdout } = hook(cwd, files);
    expect(status).toBe(0);
    expect(stdout).toContain("! .claude/skills/left/SKILL.md:6:5");
    expect(hook(cwd, files, ["--strict"]).status).toBe(1);
  });
});
