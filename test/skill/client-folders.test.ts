import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { disclose } from "../../src/catalog/disclose.ts";
import { isOfferedByDefault } from "../../src/catalog/listing.ts";
import { discover } from "../../src/config/discover.ts";
import { listClientViews } from "../../src/remote/clients/native-clients.ts";
import { CLIENT_IDS, getSkillClient, resolveUserFolder } from "../../src/skill/source/locations.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

/** A home folder and a repository with a package in it. */
function monorepo(files: Record<string, string> = {}) {
  const root = temporaryFolder(files);
  const [home, repository] = [join(root, "home"), join(root, "repository")];
  const inner = join(repository, "packages/app");
  for (const folder of [home, inner, join(repository, ".git")]) mkdirSync(folder, { recursive: true });
  const find = (workspace: string, env: Record<string, string> = {}) =>
    discover({ workspace, env: { HOME: home, ...env }, index: false, follow: false });
  return { home, repository, inner, find };
}

const write = (folder: string, name: string) => writeFiles(folder, { [`${name}/SKILL.md`]: skillText(name) });

const USER = CLIENT_IDS.flatMap((id) => getSkillClient(id).user.map((folder) => ({ id, folder })));
const PROJECT = CLIENT_IDS.flatMap((id) => getSkillClient(id).project.map((path) => ({ id, path })));
const MOVED = USER.flatMap(({ id, folder }) => (folder.movedBy ? [{ id, folder, env: folder.movedBy.env }] : []));

describe("the folders of clients", () => {
  it.each(USER)(
    "[A-01] include the user folder $folder.path of $id, from the root and from a package",
    async ({ folder }) => {
      const { home, repository, inner, find } = monorepo();
      write(join(home, folder.path), "probe");
      for (const workspace of [repository, inner]) {
        const { catalog, trust } = await find(workspace);
        const skill = catalog.get("probe");
        expect(skill.origin).toMatchObject({ scope: "user", source: `~/${folder.path}` });
        expect(trust.getStatus(skill)).toBe("untrusted");
      }
    },
  );

  it.each(MOVED)("[A-01] follow $env, which moves $folder.path of $id", async ({ folder, env }) => {
    const { home, repository, find } = monorepo();
    const moved = join(home, "elsewhere");
    write(resolveUserFolder(folder, { home, workspace: repository, env: { [env]: moved } }), "probe");
    expect((await find(repository)).catalog.has("probe")).toBe(false);
    expect((await find(repository, { [env]: moved })).catalog.has("probe")).toBe(true);
  });

  it.each(PROJECT)("[A-01] include the project folder $path of $id, at the root and in a package", async ({ path }) => {
    const { repository, inner, find } = monorepo();
    write(join(repository, path), "at-root");
    write(join(inner, path), "in-app");
    write(join(repository, "packages/lib", path), "in-lib");
    const atRoot = await find(repository);
    expect(origins(atRoot)).toEqual([
      ["at-root", path, undefined],
      ["in-app", `packages/app/${path}`, "packages/app"],
      ["in-lib", `packages/lib/${path}`, "packages/lib"],
    ]);
    expect(origins(await find(inner))).toEqual([
      ["at-root", `../../${path}`, undefined],
      ["in-app", path, undefined],
      ["in-lib", `../lib/${path}`, "../lib"],
    ]);
    const { catalog, trust } = atRoot;
    expect(["at-root", "in-lib"].map((name) => trust.getStatus(catalog.get(name)))).toEqual(["untrusted", "untrusted"]);
  });

  it("[A-01] include those of Gemini CLI's extensions and of Claude Code's plugins", async () => {
    const { home, repository, find } = monorepo();
    write(join(home, ".gemini/extensions/ext/skills"), "extension");
    const plugin = join(home, ".claude/plugins/cache/market/tools/1.0.0");
    write(join(plugin, "skills"), "plugin");
    const record = { version: 2, plugins: { "tools@market": [{ scope: "user", installPath: plugin }] } };
    writeFiles(home, { ".claude/plugins/installed_plugins.json": JSON.stringify(record) });
    const { catalog } = await find(repository);
    expect([catalog.has("extension"), catalog.has("plugin")]).toEqual([true, true]);
  });

  it.each([
    "",
    "{",
    "[]",
    "null",
    '{"plugins":[]}',
    '{"plugins":{"a":[null,{"installPath":7},{"installPath":"../x"}]}}',
  ])("skip a record of plugins with %j", async (record) => {
    const { home, repository, find } = monorepo();
    writeFiles(home, { ".claude/plugins/installed_plugins.json": record });
    expect((await find(repository)).catalog.diagnostics).toEqual([]);
  });

  it("have the precedence of the table, below skillet's own folder and the shared one", async () => {
    const { home, repository, find } = monorepo();
    const order = [".cursor/skills", ".copilot/skills", ".config/opencode/skills", ".gemini/skills", ".codex/skills"];
    for (const folder of [...order, ".claude/skills", ".agents/skills", ".skillet/skills"]) {
      write(join(home, folder), "probe");
      expect((await find(repository)).catalog.get("probe").origin.source).toBe(`~/${folder}`);
    }
  });

  it("show which client finds what, each copy with its folder", async () => {
    const { home, repository, find } = monorepo();
    write(join(home, ".claude/skills"), "review");
    write(join(home, ".agents/skills"), "review");
    write(join(repository, ".codex/skills"), "deploy");
    const views = listClientViews(await find(repository));
    const seen = Object.fromEntries(
      views.map(({ id, skills }) => [id, skills.map(({ name, source }) => `${name} ${source}`)]),
    );
    const shared = "review ~/.agents/skills";
    const claude = "review ~/.claude/skills";
    expect(seen).toEqual({
      agents: [shared],
      claude: [claude],
      codex: ["deploy .codex/skills", shared],
      gemini: [shared],
      opencode: [shared, claude],
      copilot: [shared],
      cursor: ["deploy .codex/skills", shared, claude],
    });
  });
});

describe("the packages of a monorepo", () => {
  it("[A-01] include folders named skills, except where packages cannot be", async () => {
    const { repository, find } = monorepo();
    write(join(repository, "plugins/mail/skills"), "mail");
    for (const folder of ["node_modules/x", "tests/x", "packages/app/fixtures/x", "dist/x", ".cache/x", "vendor/x"])
      write(join(repository, folder, ".claude/skills"), "not-ours");
    write(join(repository, "inner/.claude/skills"), "of-another-repository");
    mkdirSync(join(repository, "inner/.git"));
    symlinkSync(join(repository, "plugins"), join(repository, "link"));
    expect(origins(await find(repository))).toEqual([["mail", "plugins/mail/skills", "plugins/mail"]]);
  });

  it("are not searched outside a repository", async () => {
    const root = temporaryFolder();
    write(join(root, "home/work/.claude/skills"), "work");
    const { catalog } = await discover({
      workspace: join(root, "home"),
      env: { HOME: join(root, "home") },
      index: false,
      follow: false,
    });
    expect(catalog.has("work")).toBe(false);
  });

  it("[A-01] have skills that models see once a file of the package is named, and that users always find", async () => {
    const { repository, find } = monorepo();
    write(join(repository, "packages/app/.claude/skills"), "ship");
    write(join(repository, ".claude/skills"), "common");
    const { catalog } = await find(repository);
    const told = async (query: string, files: string[] = []) => (await disclose(catalog, query, { files })).text;
    expect(await told("How is the weather?")).toContain("common");
    expect(await told("How is the weather?")).not.toContain("ship");
    for (const query of ["Fix packages/app/main.ts", "look into `packages/app`", "see ./packages/app/x.ts:3"])
      expect(await told(query)).toContain("ship");
    expect(await told("Fix it", ["packages/app/main.ts"])).toContain("ship");
    expect(await told("Fix packages/application/main.ts")).not.toContain("ship");
    expect(await told("/ship it")).toContain("Do it");
    expect(isOfferedByDefault(catalog.get("common"))).toBe(true);
  });

  it("are shadowed by a nearer copy with the same name", async () => {
    const { repository, inner, find } = monorepo();
    write(join(repository, ".claude/skills"), "ship");
    write(join(inner, ".claude/skills"), "ship");
    write(join(repository, "packages/lib/.claude/skills"), "ship");
    const sources = async (workspace: string) =>
      (await find(workspace)).catalog.copies("ship").map(({ origin }) => origin.source);
    expect(await sources(repository)).toEqual([
      ".claude/skills",
      "packages/lib/.claude/skills",
      "packages/app/.claude/skills",
    ]);
    expect(await sources(inner)).toEqual([".claude/skills", "../../.claude/skills", "../lib/.claude/skills"]);
  });
});

function origins({ catalog }: Awaited<ReturnType<typeof discover>>) {
  const own = catalog.skills.filter(({ origin }) => origin.scope === "workspace");
  return own.map(({ name, origin }) => [name, origin.source, origin.belongsTo]);
}
