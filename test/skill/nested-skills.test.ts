import { mkdirSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { scanPath } from "../../src/cli/commands/scan.ts";
import { discover } from "../../src/config/discover.ts";
import { fetchListing } from "../../src/remote/fetch-source.ts";
import type { Skill } from "../../src/skill/skill.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource, type DirectoryOptions } from "../../src/skill/source/directory-source.ts";
import { copySkill } from "../../src/skill/source/skill-copy.ts";
import { findSkillsOfFiles } from "../../src/skill/source/watch-folders.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

async function load(path: string, options: Omit<DirectoryOptions, "path"> = {}) {
  const { skills, diagnostics } = await createDirectorySource({ path, ...options }).load();
  return {
    skills,
    parents: Object.fromEntries(skills.map(({ name, origin }) => [name, origin.parent])),
    said: diagnostics.map(({ file, code, severity }) => [relative(path, file), code, severity]).sort(),
  };
}

const FILES = {
  "outer/SKILL.md": skillText("outer-name"),
  "outer/guide.md": "text",
  "outer/parts/inner/SKILL.md": skillText("inner"),
  "outer/parts/inner/run.sh": "#!/bin/sh\n",
  "outer/parts/inner/deep/innermost/SKILL.md": skillText("innermost"),
  "outer/notes/SKILL.md": "# No frontmatter\n",
  "outer/references/skill.md": "# What a skill is\n",
  "outer/node_modules/package/SKILL.md": skillText("package"),
  "outer/tests/a/SKILL.md": "broken",
  "outer/fixtures/SKILL.md": skillText("fixture"),
  "outer/lib/examples/b/c/SKILL.md": skillText("example"),
  "outer/templates/new/SKILL.md": "---\nname: {{name}}\n---\n",
};

const SKIPPED = [
  "outer/fixtures/SKILL.md",
  "outer/lib/examples/b/c/SKILL.md",
  "outer/notes/SKILL.md",
  "outer/templates/new/SKILL.md",
  "outer/tests/a/SKILL.md",
];

const SAID = [
  ["outer/SKILL.md", "name-mismatch", "info"],
  ...SKIPPED.map((file) => [file, "nested-skipped", "info"]),
  ["outer/parts/inner/SKILL.md", "nested-skill", "info"],
  ["outer/parts/inner/deep/innermost/SKILL.md", "nested-skill", "info"],
].sort();

const byName = (skills: readonly Skill[], name: string) => skills.find((skill) => skill.name === name);

describe("a SKILL.md inside the folder of a skill", () => {
  it("[P-04] is a skill by its own name with the outer skill as parent, or is reported", async () => {
    const { parents, said } = await load(temporaryFolder(FILES));
    expect(parents).toEqual({ "outer-name": undefined, inner: "outer-name", innermost: "inner" });
    expect(said).toEqual(SAID);
  });

  it("is found alike by check, scan and add, from the outer folder and from its own", async () => {
    const folder = temporaryFolder(FILES);
    for (const [path, prefix] of [
      [folder, "outer/"],
      [join(folder, "outer"), ""],
    ] as const) {
      const { files, diagnostics } = checkPath(path);
      expect(files.map(({ name }) => name)).toEqual(["outer-name", "inner", "innermost"]);
      expect(diagnostics.map(({ file, code }) => [relative(folder, file), code]).sort()).toEqual(
        SKIPPED.map((file) => [file, "nested-skipped"]),
      );
      const { scanned, problems } = await scanPath(path, { skillsFolders: [], onScanned: () => {} });
      expect(scanned.map(({ name }) => name).sort()).toEqual(["inner", "innermost", "outer-name"]);
      expect(problems).toEqual([]);
      const { listing: offer } = await fetchListing({ kind: "folder", path }, temporaryFolder(), { env: {} });
      expect(offer.candidates.map(({ skill, path: place }) => [skill.name, place, skill.origin.parent])).toEqual(
        [
          ["inner", `${prefix}parts/inner`, "outer-name"],
          ["innermost", `${prefix}parts/inner/deep/innermost`, "inner"],
          ["outer-name", prefix.slice(0, -1), undefined],
        ].sort((a, b) => (prefix === "" ? String(a[1]).length - String(b[1]).length : 0)),
      );
    }
    expect(checkPath(join(folder, "outer/SKILL.md")).files.map(({ name }) => name)).toEqual(["outer-name"]);
  });

  it("has files that remain files of the outer skill, with its digest", async () => {
    const folder = temporaryFolder(FILES);
    const { skills } = await load(folder);
    const outer = byName(skills, "outer-name") as Skill;
    const inner = byName(skills, "inner") as Skill;
    expect((await outer.files()).files.map(({ path }) => path)).toContain("parts/inner/SKILL.md");
    expect((await inner.files()).files.map(({ path }) => path)).toEqual(["deep/innermost/SKILL.md", "run.sh"]);
    const before = (await copySkill(outer)).digest;
    writeFiles(folder, { "outer/parts/inner/run.sh": "#!/bin/sh\nexit 1\n" });
    expect((await copySkill(outer)).digest).not.toBe(before);
  });

  it("loads even if the outer skill does not", async () => {
    const folder = temporaryFolder({
      "outer/SKILL.md": "broken",
      "outer/inner/SKILL.md": skillText("inner"),
      "outer/examples/x/SKILL.md": skillText("x"),
    });
    const { parents, said } = await load(folder);
    expect(parents).toEqual({ inner: "outer" });
    expect(said).toContainEqual(["outer/examples/x/SKILL.md", "nested-skipped", "info"]);
  });

  it("is reported like any other when it is broken", async () => {
    const folder = temporaryFolder({
      "outer/SKILL.md": skillText("outer"),
      "outer/inner/SKILL.md": "---\nname: inner\n---\n\nx\n",
    });
    expect((await load(folder)).said).toContainEqual(["outer/inner/SKILL.md", "description-missing", "error"]);
  });

  it("is found by a link that leads to it, and only once", async () => {
    const folder = temporaryFolder({ ...FILES, "more/x": "" });
    symlinkSync("outer/parts/inner", join(folder, "linked"));
    symlinkSync("outer/lib/examples/b/c", join(folder, "sample"));
    symlinkSync("../elsewhere", join(folder, "outer/link"));
    const { skills, parents } = await load(folder);
    expect(parents).toMatchObject({ inner: undefined, example: undefined, innermost: "inner" });
    expect(skills.map(({ name }) => name).sort()).toEqual(["example", "inner", "innermost", "outer-name"]);
  });

  it("hides no skill with the same name outside", async () => {
    const far = temporaryFolder({ "inner/SKILL.md": skillText("inner", { description: "far" }) });
    const near = temporaryFolder({
      "a/SKILL.md": skillText("a"),
      "a/inner/SKILL.md": skillText("inner", { description: "nested" }),
      "a/z/SKILL.md": skillText("z", { description: "nested" }),
      "z.md": skillText("z", { description: "flat" }),
      "b/SKILL.md": skillText("b"),
      "b/broken/SKILL.md": "---\nname: x\n---\n",
    });
    const catalog = await loadCatalog([
      createDirectorySource({ path: far, name: "far", scope: "bundled" }),
      createDirectorySource({ path: near, name: "near", scope: "workspace" }),
    ]);
    expect(catalog.copies("inner").map(({ description }) => description)).toEqual(["far", "nested"]);
    expect(catalog.copies("z").map(({ description }) => description)).toEqual(["flat", "nested"]);
    expect(catalog.find("inner@near")?.description).toBe("nested");
    expect(catalog.diagnostics.map(({ code }) => code)).not.toContain("nearer-copy-broken");
  });

  it("is not checked for a changed file: that belongs to the outer skill", () => {
    const folder = temporaryFolder(FILES);
    const changed = ["outer/lib/examples/b/c/SKILL.md", "outer/parts/inner/run.sh", "outer/guide.md"];
    expect(
      findSkillsOfFiles(
        changed.map((file) => join(folder, file)),
        { workspace: folder, places: [] },
      ).map((path) => relative(folder, path)),
    ).toEqual(["outer", "outer/parts/inner"]);
  });

  it("is searched in 2,000 folders of a skill", async () => {
    const folder = temporaryFolder({ "a/SKILL.md": skillText("a"), "b/SKILL.md": skillText("b") });
    for (let at = 0; at < 2001; at++) mkdirSync(join(folder, `a/d${at}`));
    expect((await load(folder)).said).toEqual([["a", "too-many-skills", "warning"]]);
  });
});

describe("the index of nested skills", () => {
  const age = (folder: string) => {
    const past = new Date(Date.now() - 60_000);
    for (const path of ["", "outer", ...Object.keys(FILES)]) {
      const parts = path.split("/");
      for (let most = parts.length; most > 0; most--) utimesSync(join(folder, ...parts.slice(0, most)), past, past);
    }
  };

  it("returns the same as reading, and notices additions, removals and changes", async () => {
    const place = temporaryFolder({ "index/x": "" });
    const folder = join(place, "skills");
    writeFiles(folder, FILES);
    age(folder);
    const indexFolder = join(place, "index");
    const parents = async () => (await load(folder, { indexFolder })).parents;
    for (const _ of ["first", "second", "third"])
      expect(await load(folder, { indexFolder })).toMatchObject({
        parents: { "outer-name": undefined, inner: "outer-name", innermost: "inner" },
        said: SAID,
      });
    writeFiles(folder, { "outer/parts/another/SKILL.md": skillText("another") });
    expect(await parents()).toMatchObject({ another: "outer-name" });
    writeFiles(folder, { "outer/SKILL.md": skillText("renamed") });
    expect(await parents()).toMatchObject({ another: "renamed", inner: "renamed" });
    rmSync(join(folder, "outer/parts/inner/SKILL.md"));
    expect(await parents()).toEqual({ renamed: undefined, another: "renamed", innermost: "renamed" });
    rmSync(join(folder, "outer/SKILL.md"));
    const { parents: without, said } = await load(folder, { indexFolder });
    expect(without).toMatchObject({ another: undefined, innermost: undefined, fixture: undefined });
    expect(said.filter(([, code]) => String(code).startsWith("nested"))).toEqual([]);
    writeFiles(folder, { "outer/SKILL.md": skillText("back") });
    expect(await parents()).toEqual({ back: undefined, another: "back", innermost: "back" });
  });
});

describe("commands with nested skills", () => {
  it("show the parent in list --json, show and explain", async () => {
    const cwd = temporaryFolder({
      "skills/outer/SKILL.md": skillText("outer"),
      "skills/outer/inner/SKILL.md": skillText("inner", { description: "Trims hedges. Use for hedges." }),
      "skills/outer/examples/x/SKILL.md": skillText("x"),
    });
    const env = { HOME: temporaryFolder() };
    const json = async (...args: string[]) => JSON.parse((await skillet([...args, "--json"], { cwd, env })).stdout);
    const { skills } = await json("list");
    expect(skills.filter(({ source }: { source: string }) => source === "skills")).toMatchObject([
      { name: "inner", parent: "outer" },
      { name: "outer" },
    ]);
    expect(await json("show", "inner")).toMatchObject({ parent: "outer" });
    expect(await json("explain", "trim the hedges", "--skill", "inner")).toMatchObject({ parent: "outer" });
    const shown = await skillet(["show", "inner"], { cwd, env });
    expect(shown.stdout).toContain("inside    the skill outer");
    const quiet = await skillet(["list"], { cwd, env });
    expect(quiet.stderr).toBe("");
    const all = await skillet(["list", "--all"], { cwd, env });
    expect(all.stdout).toContain("skills/outer/inner/SKILL.md is inside the folder of the skill");
    expect(all.stdout).toContain("skills/outer/examples/x/SKILL.md is below");
    const checked = await skillet(["check"], { cwd, env });
    expect(checked).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("2 skills: 0 errors, 0 warnings, 2 hints"),
    });
  });

  it("[Q-04] trust one by its folder without the outer skill", async () => {
    const cwd = temporaryFolder({
      "skills/outer/SKILL.md": skillText("outer"),
      "skills/outer/inner/SKILL.md": skillText("inner"),
    });
    const env = { HOME: temporaryFolder() };
    const trusted = await skillet(["trust", "skills/outer/inner", "--yes", "--json"], { cwd, env });
    expect(JSON.parse(trusted.stdout).trusted.map(({ name }: { name: string }) => name)).toEqual(["inner"]);
    const { catalog, trust } = await discover({ workspace: cwd, home: env.HOME, env });
    expect(trust.getStatus(catalog.get("outer"))).toBe("untrusted");
  });

  it("[Q-04] require trust for each, even if the outer skill is trusted, and ignore a lock inside it", async () => {
    const cwd = temporaryFolder({
      "from/outer/SKILL.md": skillText("outer"),
      "from/outer/inner/SKILL.md": skillText("inner"),
      "from/outer/skills.lock": "{}",
    });
    const home = temporaryFolder();
    const env = { HOME: home };
    const added = await skillet(["add", "./from", "--yes"], { cwd, env });
    expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining("skills inside it: inner") });
    expect(added.stdout).toContain("added: outer");
    const { catalog, trust } = await discover({ workspace: temporaryFolder(), home, env });
    expect(catalog.copies("inner")).toHaveLength(1);
    expect(trust.getStatus(catalog.get("outer"))).toBe("trusted");
    expect(trust.getStatus(catalog.get("inner"))).toBe("untrusted");
    expect(trust.getLockState(catalog.get("inner"))).toEqual({ is: "unlocked" });
    const single = await skillet(["add", "./from", "inner", "--yes"], { cwd, env });
    expect(single).toMatchObject({ code: 0, stdout: expect.stringContaining("added: inner") });
    const after = await discover({ workspace: temporaryFolder(), home, env });
    expect(after.catalog.copies("inner").map(({ origin }) => origin.parent)).toEqual([undefined, "outer"]);
    expect(after.trust.getStatus(after.catalog.get("inner"))).toBe("trusted");
  });
});
