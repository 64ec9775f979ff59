import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

async function load(path: string, options: Omit<Parameters<typeof createDirectorySource>[0], "path"> = {}) {
  const { skills, diagnostics } = await createDirectorySource({ path, ...options }).load();
  return {
    skills,
    names: skills.map(({ name }) => name).sort(),
    codes: diagnostics.map(({ code }) => code),
    diagnostics,
  };
}

describe("directorySource", () => {
  it("[W-02, W-03, W-04, W-16] loads folders, flat Markdown and YAML, named by folder or file by default", async () => {
    const folder = temporaryFolder({
      "summarize/SKILL.md": "---\ndescription: Summarize\n---\n\nDo it.\n",
      "flat.md": "---\ndescription: Flat\n---\n\nDo it.\n",
      "one.yaml": "description: One\ninstructions: |\n  Do one.\n",
      "two.yml": "name: second\ndescription: Two\ninstructions: Do two.\n",
    });
    const { skills, names, codes } = await load(folder);
    expect(names).toEqual(["flat", "one", "second", "summarize"]);
    expect(codes).toEqual([]);
    expect(
      Object.fromEntries(await Promise.all(skills.map(async (skill) => [skill.name, await skill.body()]))),
    ).toEqual({
      summarize: "Do it.",
      flat: "Do it.",
      one: "Do one.",
      second: "Do two.",
    });
    expect(skills.map(({ origin }) => origin.form).sort()).toEqual(["folder", "markdown", "yaml", "yaml"]);
  });

  it.each([
    ["no frontmatter", "# Text only\n", "frontmatter-missing"],
    ["no description", "---\nname: broken\n---\n\nDo it.\n", "description-missing"],
    ["empty instructions", "---\ndescription: d\n---\n \n\n", "body-missing"],
    ["nothing after the closing delimiter", "---\ndescription: d\n---", "body-missing"],
  ])("[W-25] skips a file with %s, names it with the reason, and loads the others", async (_, text, code) => {
    const folder = temporaryFolder({ "broken/SKILL.md": text, "fine/SKILL.md": skillText("fine") });
    const { names, diagnostics } = await load(folder);
    expect(names).toEqual(["fine"]);
    expect(diagnostics).toMatchObject([{ code, severity: "error", file: join(folder, "broken/SKILL.md") }]);
    expect(diagnostics[0]?.fix).not.toBe("");
  });

  it("[P-06] treats a missing or empty folder as empty", async () => {
    const folder = temporaryFolder();
    expect(await load(folder)).toMatchObject({ names: [], codes: [] });
    expect(await load(join(folder, "not-there"))).toMatchObject({ names: [], codes: [] });
  });

  it("[P-06] reports a file in place of the folder", async () => {
    const folder = temporaryFolder({ skills: "not a folder" });
    expect(await load(join(folder, "skills"))).toMatchObject({ names: [], codes: ["not-a-folder"] });
  });

  it("[P-04] searches below folders without a skill, and inside skills, unless that is disabled", async () => {
    const folder = temporaryFolder({
      "near/SKILL.md": skillText("near"),
      "category/far/SKILL.md": skillText("far"),
      "near/inside/SKILL.md": skillText("inside"),
      "node_modules/x/SKILL.md": skillText("module"),
      ".git/x/SKILL.md": skillText("git"),
    });
    expect((await load(folder)).names).toEqual(["far", "inside", "near"]);
    expect((await load(folder, { recursive: false })).names).toEqual(["near"]);
  });

  it("[P-01] reads frontmatter only: the instructions are read on request, and again when the file changed", async () => {
    const folder = temporaryFolder({ "a/SKILL.md": skillText("a", { body: "first" }) });
    const { skills } = await load(folder);
    writeFiles(folder, { "a/SKILL.md": skillText("a", { body: "second, and longer" }) });
    expect(await skills[0]?.body()).toBe("second, and longer");
    writeFiles(folder, { "a/SKILL.md": skillText("a", { body: "third, and longer still" }) });
    expect(await skills[0]?.body()).toBe("third, and longer still");
  });

  it("[P-15] refuses a skill without a name in the shipped profile, and uses the folder's name in others", async () => {
    const folder = temporaryFolder({
      "nameless/SKILL.md":
        "---\ndescription: d. Use when d.\nmetadata:\n  version: 1.0.0\n  tags: [a]\n---\n\nDo it.\n",
    });
    expect((await load(folder)).names).toEqual(["nameless"]);
    expect(await load(folder, { profile: "shipped" })).toMatchObject({ names: [], codes: ["name-missing"] });
  });

  it("ignores a README without frontmatter, and everything below a category that is not a folder with a SKILL.md", async () => {
    const folder = temporaryFolder({
      "README.md": "# These are our skills\n",
      "category/notes.md": "# Notes\n",
      "category/page.md": "---\ntitle: A page\n---\n\nText.\n",
      "category/config.yaml": "port: 80\n",
      "category/agents/reviewer.md": skillText("reviewer"),
      "category/real/SKILL.md": skillText("real"),
    });
    expect(await load(folder)).toMatchObject({ names: ["real"], codes: [] });
  });

  it("accepts flat files of a nested folder named skills if they declare a skill", async () => {
    const folder = temporaryFolder({
      "clone/README.md": skillText("readme"),
      "clone/skills/stated.md": skillText("stated"),
      "clone/skills/stated.yaml": "name: from-yaml\ndescription: y\ninstructions: Do it.\n",
      "clone/skills/page.md": "---\ntitle: Skills\ndescription: A page of a site.\n---\n\nText.\n",
      "clone/skills/action.yml": "name: Act\ndescription: An action.\nruns: {}\n",
      "clone/skills/broken.md": "no frontmatter\n",
      "clone/docs/skill.md": "---\ntitle: What is a skill?\ndescription: A page.\n---\n\nText.\n",
      "clone/docs/more/SKILL.md": skillText("more"),
    });
    const { skills, codes } = await load(folder, { skillsFolders: [] });
    expect(skills.map(({ name }) => name).sort()).toEqual(["from-yaml", "more", "stated"]);
    expect(codes).toEqual([]);
  });

  it("accepts no YAML file that configures another program", async () => {
    const folder = temporaryFolder({
      "pnpm-lock.yaml": `lockfileVersion: '9.0'\n${Array.from({ length: 300 }, (_, n) => `p${n}: {}`).join("\n")}\n`,
      "compose.yml": "services:\n  db: { image: postgres }\n",
      "broken.yaml": "description: d\n",
    });
    expect(await load(folder)).toMatchObject({ names: [], codes: ["body-missing"] });
  });

  it.each(["SKILLS.md", "SKILL.txt", "skill.markdown", "SKILL"])(
    "reports that %s was probably meant to be SKILL.md",
    async (name) => {
      const folder = temporaryFolder({ [`a/${name}`]: skillText("a") });
      expect(await load(folder)).toMatchObject({ names: [], codes: ["file-name"] });
    },
  );

  it("follows links to folders and files once per real path, and knows a folder by its own path", async () => {
    const folder = temporaryFolder({
      "elsewhere/linked/SKILL.md": skillText("linked"),
      "elsewhere/text.md": skillText("text"),
      "skills/z-real/SKILL.md": skillText("z-real"),
    });
    const skills = join(folder, "skills");
    symlinkSync("../elsewhere/linked", join(skills, "linked"));
    symlinkSync("../elsewhere/linked", join(skills, "linked-again"));
    symlinkSync("z-real", join(skills, "a-link"));
    symlinkSync("../elsewhere/text.md", join(skills, "flat.md"));
    symlinkSync("..", join(skills, "up"));
    symlinkSync("nowhere", join(skills, "broken"));
    const loaded = await load(skills);
    expect(loaded.names).toEqual(["linked", "text", "z-real"]);
    expect(loaded.codes.sort()).toEqual(["symlink-broken", "symlink-loop"]);
    expect(loaded.skills.find(({ name }) => name === "z-real")?.origin.file).toBe(join(skills, "z-real/SKILL.md"));
  });

  it("lists the files of a skill once, on request", async () => {
    const folder = temporaryFolder({
      "a/SKILL.md": skillText("a"),
      "a/references/b.md": "b",
      "a/run.sh": "#!/bin/sh\n",
    });
    const [skill] = (await load(folder)).skills;
    expect((await skill?.files())?.files.map(({ path }) => path)).toEqual(["references/b.md", "run.sh"]);
    expect(Buffer.from((await skill?.read("references/b.md")) ?? []).toString()).toBe("b");
    writeFiles(folder, { "a/later.md": "x" });
    await expect(async () => await skill?.read("later.md")).rejects.toThrow(
      expect.objectContaining({ code: "resource-unlisted" }),
    );
    await expect(async () => await skill?.read("SKILL.md")).rejects.toThrow(
      expect.objectContaining({ code: "resource-unlisted" }),
    );
  });
});

describe("the index of a directory source", () => {
  /** Files younger than the clock's tick are read again: these pretend to be older. */
  const age = (folder: string, paths: readonly string[]) => {
    for (const path of paths)
      utimesSync(join(folder, path), new Date(Date.now() - 60_000), new Date(Date.now() - 60_000));
  };

  it("returns the same skills and findings as reading, and reads only what changed", async () => {
    const folder = temporaryFolder({
      "skills/a/SKILL.md": skillText("a", { more: "alowed_tools: [x]\nmetadata:\n  deep: { er: [1, .inf] }\n" }),
      "skills/category/b/SKILL.md": "---\ndescription: Use: b\n---\n\nb\n",
      "skills/broken/SKILL.md": "no",
      "skills/flat.md": skillText("flat"),
      "skills/y.yaml": "description: y\ninstructions: do y\n",
      "skills/unicode/SKILL.md": skillText("unicode", { description: 'Tab\\t and 日本語 "quoted"' }),
    });
    const skills = join(folder, "skills");
    age(skills, [
      "",
      "a",
      "a/SKILL.md",
      "category",
      "category/b",
      "category/b/SKILL.md",
      "broken/SKILL.md",
      "flat.md",
      "unicode/SKILL.md",
    ]);
    const indexFolder = join(folder, "index");
    const plain = await load(skills);
    const shape = async ({ skills, diagnostics }: Awaited<ReturnType<typeof load>>) => ({
      skills: skills
        .map(({ name, description, manifest, origin, findings }) => ({ name, description, manifest, origin, findings }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
      diagnostics: [...diagnostics].sort((a, b) => (a.file < b.file ? -1 : 1)),
      bodies: (await Promise.all(skills.map(async (skill) => await skill.body()))).sort(),
    });
    for (const round of ["first", "second", "third"]) {
      expect(await shape(await load(skills, { indexFolder })), round).toEqual(await shape(plain));
    }
    const stamp = statSync(join(skills, "a/SKILL.md"));
    writeFileSync(join(skills, "a/SKILL.md"), skillText("renamed"));
    expect((await load(skills, { indexFolder })).names).toContain("renamed");
    writeFileSync(join(skills, "a/SKILL.md"), skillText("renamex"));
    utimesSync(join(skills, "a/SKILL.md"), stamp.atime, stamp.mtime);
    expect((await load(skills, { indexFolder })).names).toContain("renamex");
  });

  it("notices additions, removals, renames and moves", async () => {
    const folder = temporaryFolder({ "skills/category/a/SKILL.md": skillText("a"), "skills/b.md": skillText("b") });
    const skills = join(folder, "skills");
    const indexFolder = join(folder, "index");
    const names = async () => (await load(skills, { indexFolder })).names;
    age(skills, ["", "category", "category/a", "category/a/SKILL.md", "b.md"]);
    expect(await names()).toEqual(["a", "b"]);
    expect(await names()).toEqual(["a", "b"]);
    writeFiles(skills, { "category/c/SKILL.md": skillText("c") });
    expect(await names()).toEqual(["a", "b", "c"]);
    rmSync(join(skills, "b.md"));
    expect(await names()).toEqual(["a", "c"]);
    renameSync(join(skills, "category"), join(skills, "other"));
    expect(await names()).toEqual(["a", "c"]);
    rmSync(join(skills, "other/a/SKILL.md"));
    expect(await names()).toEqual(["c"]);
    writeFiles(skills, { "other/SKILL.md": skillText("whole") });
    expect(await names()).toEqual(["c", "whole"]);
  });

  it.each(["", "garbage", '{"key":"x"}\n.', '{"key":1,"writtenAt":1,"folders":[]}\na\tb\n.', "\n\n."])(
    "is ignored when it is damaged: %j",
    async (text) => {
      const folder = temporaryFolder({ "skills/a/SKILL.md": skillText("a") });
      const indexFolder = join(folder, "index");
      await load(join(folder, "skills"), { indexFolder });
      for (const name of readdirSync(indexFolder)) writeFileSync(join(indexFolder, name), text);
      expect((await load(join(folder, "skills"), { indexFolder })).names).toEqual(["a"]);
    },
  );

  it.each(["SKILL.md", "other"])(
    "has the same code for a symlink that points back to itself through %s",
    async (target) => {
      const skills = temporaryFolder({ "loop/note.txt": "x" });
      const indexFolder = temporaryFolder();
      symlinkSync(target, join(skills, "loop/SKILL.md"));
      symlinkSync("SKILL.md", join(skills, "loop/other"));
      age(skills, ["loop", ""]);
      for (const _ of [1, 2])
        expect(await load(skills, { indexFolder })).toMatchObject({ names: [], codes: ["symlink-loop"] });
    },
  );

  it("notices when a dangling link has a target again", async () => {
    const folder = temporaryFolder({ "skills/linked/note.txt": "x" });
    const skills = join(folder, "skills");
    const indexFolder = join(folder, "index");
    symlinkSync("../../target.md", join(skills, "linked/SKILL.md"));
    age(skills, ["linked", ""]);
    for (const _ of [1, 2])
      expect(await load(skills, { indexFolder })).toMatchObject({ names: [], codes: ["symlink-broken"] });
    writeFiles(folder, { "target.md": skillText("linked") });
    expect(await load(skills, { indexFolder })).toMatchObject({ names: ["linked"], codes: [] });
  });

  it("is ignored for a line with unknown content", async () => {
    const folder = temporaryFolder({
      "skills/a/SKILL.md": skillText("a", { more: "odd: 1\n" }),
      "skills/b/SKILL.md": skillText("b"),
    });
    const skills = join(folder, "skills");
    const indexFolder = join(folder, "index");
    age(skills, ["", "a", "b", "a/SKILL.md", "b/SKILL.md"]);
    await load(skills, { indexFolder });
    const [file = ""] = readdirSync(indexFolder);
    const text = readFileSync(join(indexFolder, file), "utf8");
    for (const damaged of [
      text.replace("key-unknown", "key-future"),
      text.replace('[{"code"', '[{"co'),
      text.replace(/\{[^{]*\}(?=\n)/, "{"),
    ]) {
      expect(damaged).not.toBe(text);
      writeFileSync(join(indexFolder, file), damaged);
      expect((await load(skills, { indexFolder })).names).toEqual(["a", "b"]);
    }
  });

  it("is not needed when it cannot be written", async () => {
    const folder = temporaryFolder({ "skills/a/SKILL.md": skillText("a"), blocked: "a file, not a folder" });
    expect((await load(join(folder, "skills"), { indexFolder: join(folder, "blocked/index") })).names).toEqual(["a"]);
  });

  it("is private to the user", async () => {
    const folder = temporaryFolder({ "skills/a/SKILL.md": skillText("a") });
    const indexFolder = join(folder, "index");
    await load(join(folder, "skills"), { indexFolder });
    expect(statSync(indexFolder).mode & 0o777).toBe(0o700);
  });
});

describe("limits of a directory source", () => {
  it("report folders that are nested too deep, and continue", async () => {
    const folder = temporaryFolder({ "fine/SKILL.md": skillText("fine") });
    mkdirSync(join(folder, ...Array(20).fill("d")), { recursive: true });
    expect(await load(folder)).toMatchObject({ names: ["fine"], codes: ["too-deep"] });
  });
});
