import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openSession } from "../../src/agent/session/session.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { connectTo, servingOf } from "../support/mcp-client.ts";
import { useScene } from "../support/use.ts";

const BROKEN = "no frontmatter\n";

/** One of the user's skills, and a broken copy with the same name in the workspace. */
function scene() {
  const home = temporaryFolder({
    ".skillet/skills/deploy/SKILL.md": skillText("deploy", { body: "```sh\necho deployed\n```" }),
    ".skillet/skills/deploy/scripts/go.sh": "echo went\n",
  });
  const cwd = temporaryFolder({ "skills/deploy/SKILL.md": BROKEN });
  return { cwd, env: { HOME: home } };
}

const WARNING =
  /skills\/deploy\/SKILL\.md does not load \(has no frontmatter[^)]*\), so the\s+copy\s+of "deploy"\s+from\s+~\/\.skillet\/skills\s+is\s+used\s+instead/;

describe("a nearer copy that does not load", () => {
  it.each([
    [["list"]],
    [["list", "--json"]],
    [["show", "deploy"]],
    [["explain", "use the deploy skill"]],
    [["run", "deploy", "Go.", "--model", "runbook"]],
    [["run", "deploy", "Go.", "--dry-run"]],
    [["script", "deploy", "go.sh"]],
    [["tools", "deploy"]],
  ])("[W-31] is reported with its file and reason by %j, once", async (args) => {
    const at = scene();
    const { stderr } = await skillet(args, at);
    expect(stderr.replace(/\s+/g, " ")).toMatch(WARNING);
    expect(stderr.split("nearer-copy-broken")).toHaveLength(2);
  });

  it("[W-31] is reported by its own name, also in a folder of another name, and from the index", async () => {
    const { cwd, env } = scene();
    const folder = { "skills/mine/SKILL.md": "---\nname: deploy\n---\n\nNo description.\n" };
    const at = { cwd: temporaryFolder(folder), env };
    for (const args of [["list"], ["list"], ["run", "deploy", "Go.", "--dry-run"]]) {
      const { stderr } = await skillet(args, at);
      expect(stderr.replace(/\s+/g, " ")).toContain(
        'skills/mine/SKILL.md does not load (has no description), so the copy of "deploy"',
      );
    }
    writeFiles(env.HOME, { ".skillet/skills/mine/SKILL.md": skillText("mine") });
    expect((await skillet(["list"], at)).stderr).not.toContain('the copy of "mine"');
    expect((await skillet(["list"], { cwd, env })).stderr).toContain('the copy of "deploy"');
  });

  it("[W-31] causes no warning when the nearest valid copy is used, or no copy is", async () => {
    const { cwd, env } = scene();
    writeFiles(cwd, { "skills/deploy/SKILL.md": skillText("deploy"), "skills/other/SKILL.md": BROKEN });
    expect((await skillet(["list"], { cwd, env })).stderr).not.toContain("nearer-copy-broken");
    writeFiles(env.HOME, { ".skillet/skills/deploy/SKILL.md": BROKEN });
    expect((await skillet(["list"], { cwd, env })).stderr, "a farther one").not.toContain("nearer-copy-broken");
  });

  it("[W-31] is in the catalog, in what a session and an MCP client load, and in the warnings of a use", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/deploy/SKILL.md": skillText("deploy"),
      "skills/deploy/SKILL.md": BROKEN,
    });
    const file = join(found.root, "project/skills/deploy/SKILL.md");
    expect(found.catalog.diagnostics.filter(({ code }) => code === "nearer-copy-broken")).toMatchObject([
      { file, severity: "warning", message: expect.stringContaining("has no frontmatter") },
    ]);
    const session = openSession(found.catalog, found);
    const { text } = await session.call("load_skill", { skill: "deploy" });
    expect(text).toContain(`Note for the user: ${file} does not load (has no frontmatter`);
    const { call } = await connectTo(servingOf(found), { era: "2025-11-25" });
    expect((await call("load_skill", { skill: "deploy" })).text).toContain(file);
    const listed: { name: string; note?: string }[] = JSON.parse((await call("list_skills", {})).text);
    expect(listed.filter(({ note }) => note !== undefined)).toMatchObject([
      { name: "deploy", note: expect.stringContaining(`Note for the user: ${file} does not load`) },
    ]);
    const used = await useScene({
      skills: { deploy: {} },
      workspace: { "skills/deploy/SKILL.md": BROKEN },
      turns: [() => "done"],
    });
    const { result, events } = await used.use({ skill: "deploy", message: "Go." });
    expect(result.warnings).toMatchObject([{ code: "nearer-copy-broken" }]);
    expect(events.filter(({ type }) => type === "run-warned")).toHaveLength(1);
  });
});
