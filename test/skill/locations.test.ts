import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type DiscoverOptions, discover } from "../../src/config/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

function place() {
  const root = temporaryFolder();
  const [home, workspace] = [join(root, "home"), join(root, "project")];
  mkdirSync(home);
  mkdirSync(workspace);
  const find = (options: DiscoverOptions = {}) =>
    discover({ workspace, env: { HOME: home, ...options.env }, index: false, ...withoutEnv(options) });
  return { root, home, workspace, find };
}

function withoutEnv({ env: _, ...rest }: DiscoverOptions): DiscoverOptions {
  return rest;
}

describe("the standard locations", () => {
  it("[W-01, W-29, T-10, S-33, S-37] are searched far to near, and the later one takes precedence", async () => {
    const { home, workspace, find } = place();
    const expected = [
      [join(home, ".skillet/installed"), "installed"],
      [join(home, ".grok/skills"), "user"],
      [join(home, ".cursor/skills"), "user"],
      [join(home, ".copilot/skills"), "user"],
      [join(home, ".opencode/skills"), "user"],
      [join(home, ".config/opencode/skill"), "user"],
      [join(home, ".config/opencode/skills"), "user"],
      [join(home, ".gemini/skills"), "user"],
      [join(home, ".codex/skills"), "user"],
      [join(home, ".claude/skills"), "user"],
      [join(home, ".agents/skills"), "user"],
      [join(home, ".ash/skills"), "user"],
      [join(home, ".agent/skills"), "user"],
      [join(home, ".skillet/skills"), "user"],
      [join(workspace, ".cursor/skills"), "workspace"],
      [join(workspace, ".github/skills"), "workspace"],
      [join(workspace, ".opencode/skill"), "workspace"],
      [join(workspace, ".opencode/skills"), "workspace"],
      [join(workspace, ".gemini/skills"), "workspace"],
      [join(workspace, ".codex/skills"), "workspace"],
      [join(workspace, ".claude/skills"), "workspace"],
      [join(workspace, ".agents/skills"), "workspace"],
      [join(workspace, ".agent/skills"), "workspace"],
      [join(workspace, ".skillet/skills"), "workspace"],
      [join(workspace, "workspace/skills"), "workspace"],
      [join(workspace, "skills"), "workspace"],
    ] as const;
    for (const [path, scope] of expected) {
      writeFiles(path, { "probe/SKILL.md": skillText("probe", { description: `In ${path}` }) });
      const { catalog } = await find();
      expect(catalog.get("probe").origin, path).toMatchObject({ scope, file: join(path, "probe/SKILL.md") });
    }
    const { locations } = await find();
    const managed = "/etc/claude-code/.claude/skills"; // Only root can write there.
    const paths = locations.slice(1).map(({ path }) => path);
    expect(paths.filter((path) => path !== managed)).toEqual(expected.map(([path]) => path));
    expect(paths.indexOf(managed)).toBe(paths.indexOf(join(home, ".claude/skills")) - 1);
    expect(locations[0]?.scope).toBe("bundled");
  });

  it("reach up to the repository's root, and the nearer folder takes precedence", async () => {
    const { workspace, find } = place();
    mkdirSync(join(workspace, ".git"));
    const inner = join(workspace, "packages/app");
    writeFiles(workspace, {
      ".agents/skills/a/SKILL.md": skillText("a", { description: "root" }),
      ".claude/skills/b/SKILL.md": skillText("b", { description: "root" }),
      "packages/app/.claude/skills/a/SKILL.md": skillText("a", { description: "app" }),
    });
    const { catalog } = await find({ workspace: inner });
    expect(catalog.get("a").description).toBe("app");
    expect(catalog.get("b").origin.source).toBe("../../.claude/skills");
  });

  it("[P-02] are replaced by SKILLS_DIR and CUSTOM_SKILLS_DIR, the latter relative to the workspace", async () => {
    const { root, workspace, find } = place();
    writeFiles(root, {
      "shipped/one/SKILL.md": skillText("one"),
      "project/custom/two/SKILL.md": skillText("two"),
      "project/skills/three/SKILL.md": skillText("three"),
    });
    const { catalog } = await find({ env: { SKILLS_DIR: join(root, "shipped"), CUSTOM_SKILLS_DIR: "custom" } });
    expect(catalog.names()).toEqual(["one", "two"]);
    expect(catalog.get("one").origin.scope).toBe("bundled");
    expect(catalog.get("two").origin.file).toBe(join(workspace, "custom/two/SKILL.md"));
  });

  it("[P-03] let a custom skill override a shipped one", async () => {
    const { workspace, find } = place();
    writeFiles(workspace, { "skills/skillmaker/SKILL.md": skillText("skillmaker", { description: "Mine" }) });
    const { catalog } = await find();
    expect(catalog.get("skillmaker").description).toBe("Mine");
    expect(catalog.get("skillmaker@bundled").description).not.toBe("Mine");
  });

  it("[S-02] include the bundled skills like any others: read by the same source, under the same rules", async () => {
    const { root, find } = place();
    writeFiles(root, {
      "shipped/broken/SKILL.md": "no frontmatter",
      "shipped/odd/SKILL.md": "---\ndescription: Use: it\n---\nx\n",
    });
    const { catalog } = await find({ env: { SKILLS_DIR: join(root, "shipped") } });
    expect(catalog.diagnostics.map(({ code }) => code)).toEqual(["frontmatter-missing", "yaml-repaired"]);
    expect(catalog.get("odd").origin).toMatchObject({ scope: "bundled", form: "folder" });
  });

  it("move with SKILLET_HOME", async () => {
    const { root, find } = place();
    writeFiles(root, { "elsewhere/skills/a/SKILL.md": skillText("a") });
    expect((await find({ env: { SKILLET_HOME: join(root, "elsewhere") } })).catalog.get("a").origin.scope).toBe("user");
  });

  it("[W-29] are below AGENT_WORKSPACE_ROOT if no workspace is named", async () => {
    const { home, workspace } = place();
    writeFiles(workspace, {
      "workspace/skills/test/SKILL.md": "---\ndescription: Test skill\n---\n\nSay hello to the user.\n",
    });
    const { catalog } = await discover({ env: { HOME: home, AGENT_WORKSPACE_ROOT: workspace }, index: false });
    expect(catalog.get("test").origin.source).toBe("workspace/skills");
  });

  it("count once if two are the same folder: the user's own stays the user's", async () => {
    const { home, find } = place();
    writeFiles(home, { ".claude/skills/a/SKILL.md": skillText("a"), "real/b/SKILL.md": skillText("b") });
    symlinkSync(join(home, "real"), join(home, "skills"));
    symlinkSync(join(home, "real"), join(home, ".agents"));
    const { catalog, locations } = await find({ workspace: home });
    expect(catalog.get("a").origin.scope).toBe("user");
    expect(catalog.shadowed).toEqual([]);
    expect(locations.filter(({ sameAs }) => sameAs !== undefined).map(({ name }) => name)).toContain(".claude/skills");
  });

  it.runIf(process.getuid?.() === 0)("that are unreadable are skipped, without an exception", () => {
    const { root, home, workspace } = place();
    mkdirSync(join(home, ".claude"), { mode: 0o700 });
    for (const path of [root, home, workspace]) chmodSync(path, 0o755);
    writeFiles(workspace, { "skills/a/SKILL.md": skillText("a"), "skills/locked/b/SKILL.md": skillText("b") });
    chmodSync(join(workspace, "skills/locked"), 0o700);
    // Everything is imported while it can be read; then the process becomes an unprivileged user.
    const source = join(import.meta.dirname, "../../src");
    const script = `
      const { run } = await import("${source}/cli/bin.ts");
      await import("${source}/cli/commands/list.ts");
      await import("${source}/skill/source/read-skill.ts");
      process.setgroups([]);
      process.setgid(65534);
      process.setuid(65534);
      run();`;
    const result = spawnSync(process.execPath, ["--input-type=module", "-e", script, "skillet", "list", "--all"], {
      cwd: workspace,
      env: { HOME: home },
      encoding: "utf8",
    });
    expect(result).toMatchObject({ status: 0, stderr: "" });
    expect(result.stdout).toMatch(/^a /m);
    expect(result.stdout).toContain("skills/locked");
    expect(result.stdout).toContain("cannot be read: permission denied");
  });
});
