import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadCatalog } from "../../../src/catalog/catalog.ts";
import { type ExportFormat, exportSkill, resolveExportPath } from "../../../src/remote/clients/export-skill.ts";
import { checkPath, checkText } from "../../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../../src/skill/source/directory-source.ts";
import { discoverIn, type Scene } from "../../support/discover.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { defineTestSkill } from "../../support/skills.ts";
import { unzip } from "../../support/unzip.ts";

const NOTES = {
  "skills/notes/SKILL.md": skillText("notes", {
    more: "env: [KEY]\nmetadata: { version: 1.2.3, author: Ada, tags: [a] }\n",
  }),
  "skills/notes/scripts/run.sh": "#!/bin/sh\necho hi\n",
  "skills/notes/references/long.md": "long ".repeat(1000),
  "skills/notes/.env": "KEY=secret",
};
const all = ["SKILL.md", "references/long.md", "scripts/run.sh"];

async function notes(more: Record<string, string> = {}): Promise<Scene & { out(name: string): string }> {
  const scene = await discoverIn({ ...NOTES, ...more });
  chmodSync(join(scene.root, "project/skills/notes/scripts/run.sh"), 0o755);
  return { ...scene, out: (name) => join(scene.root, "out", name) };
}

const refused = (code: string, message: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(message), fix: expect.stringMatching(/\w/) });

describe("a skill as a zip", () => {
  it("[Q-25] contains the skill in a folder of its name, as uploads expect it", async () => {
    const { skill, out } = await notes();
    const {
      files,
      bytes,
      omitted,
      notes: said,
      path,
    } = await exportSkill({ skill: skill("notes"), format: "skill-zip", path: out("notes.zip") });
    const read = unzip(readFileSync(path));
    expect([...read.keys()]).toEqual(all.map((file) => `notes/${file}`));
    expect(files).toEqual([...read.keys()]);
    expect(bytes).toBe(statSync(path).size);
    const skillMd = read.get("notes/SKILL.md")?.bytes.toString() ?? "";
    expect(checkText(skillMd, { profile: "claude-upload" })).toMatchObject({ name: "notes", isValid: true });
    expect(read.get("notes/references/long.md")?.bytes.toString()).toBe(NOTES["skills/notes/references/long.md"]);
    expect(read.get("notes/scripts/run.sh")?.mode).toBe(0o100755);
    expect(read.get("notes/SKILL.md")?.mode).toBe(0o100644);
    expect(omitted).toEqual(['".env" is hidden: it belongs to this machine']);
    expect(said.join("\n")).toContain("its variables (KEY) work through `skillet serve`");
    expect(readdirSync(dirname(path)), "nothing else remains there").toEqual(["notes.zip"]);
  });

  it("has the same bytes each time", async () => {
    const { skill, out, again } = await notes();
    const first = await exportSkill({ skill: skill("notes"), format: "skill-zip", path: out("a.zip") });
    const second = await exportSkill({
      skill: (await again()).skill("notes"),
      format: "skill-zip",
      path: out("b.zip"),
    });
    expect(readFileSync(second.path)).toEqual(readFileSync(first.path));
  });

  it("is refused when the upload would be", async () => {
    const path = join(temporaryFolder(), "x.zip");
    const wrong = refused("name-vendor", "would be refused when it is uploaded");
    await expect(
      async () => await exportSkill({ skill: defineTestSkill("claude-notes"), format: "skill-zip", path }),
    ).rejects.toThrow(wrong);
    expect(existsSync(path)).toBe(false);
  });

  it("replaces only another zip, with --force", async () => {
    const { skill, out } = await notes();
    const request = { skill: skill("notes"), format: "skill-zip", path: out("notes.zip") } as const;
    await exportSkill(request);
    const before = readFileSync(request.path);
    await expect(async () => await exportSkill(request)).rejects.toThrow(refused("exists", "already exists"));
    await exportSkill({ ...request, skill: defineTestSkill("notes"), isForced: true });
    expect([...unzip(readFileSync(request.path)).keys()]).toEqual(["notes/SKILL.md"]);
    expect(readFileSync(request.path)).not.toEqual(before);
    writeFiles(dirname(request.path), { "letter.txt": "dear Ada", "folder/x": "" });
    for (const name of ["letter.txt", "folder"])
      await expect(
        async () => await exportSkill({ ...request, path: out(name), isForced: true }),
        name,
      ).rejects.toThrow(refused("exists", "is not a zip file"));
    expect(readFileSync(out("letter.txt"), "utf8")).toBe("dear Ada");
  });

  it("omits, and names, files outside the folder or with unsafe paths", async () => {
    const { root, again, out } = await notes({ "skills/notes/a\\..\\..\\evil": "x", elsewhere: "secret" });
    symlinkSync("../../elsewhere", join(root, "project/skills/notes/linked"));
    const { files, omitted } = await exportSkill({
      skill: (await again()).skill("notes"),
      format: "skill-zip",
      path: out("x.zip"),
    });
    expect(files).toEqual(all.map((file) => `notes/${file}`));
    expect(omitted.join("\n")).toContain('"linked" is a symlink out of the skill\'s folder');
    expect(omitted.join("\n")).toContain('"a\\..\\..\\evil" has a name that other systems read as a path');
  });

  it("is not created from a part of a skill", async () => {
    const many = Object.fromEntries(Array.from({ length: 2001 }, (_, index) => [`skills/notes/data/${index}`, ""]));
    const { skill, out } = await notes(many);
    const path = out("x.zip");
    await expect(async () => await exportSkill({ skill: skill("notes"), format: "skill-zip", path })).rejects.toThrow(
      refused("too-many-files", "2000 files"),
    );
    expect(existsSync(path)).toBe(false);
  });

  it("warns when the upload may be too large", async () => {
    const large = Object.fromEntries(
      [1, 2, 3, 4, 5].map((index) => [`skills/notes/data/${index}`, "x".repeat(7_000_000)]),
    );
    const { skill, out } = await notes(large);
    const { notes: said } = await exportSkill({ skill: skill("notes"), format: "skill-zip", path: out("x.zip") });
    expect(said.at(-1)).toMatch(/^it has 35,\d+,\d+ bytes: claude\.ai may refuse more than 30,000,000$/);
  });

  it("is never written into the skill's own folder, nor through a link", async () => {
    const { skill, root } = await notes();
    const folder = join(root, "project/skills/notes");
    symlinkSync(folder, join(root, "link"));
    for (const path of [join(folder, "notes.zip"), join(root, "link/new/notes.zip")])
      await expect(
        async () => await exportSkill({ skill: skill("notes"), format: "skill-zip", path }),
        path,
      ).rejects.toThrow(refused("output-inside-skill", "would become part of the skill"));
    expect(readdirSync(folder).sort()).toEqual([".env", "SKILL.md", "references", "scripts"]);
  });

  it("reports why it cannot be written, and leaves nothing half-written", async () => {
    const { skill, root } = await notes();
    writeFiles(root, { "out/file": "x" });
    for (const format of ["skill-zip", "agent-plugin"] as const) {
      const path = resolveExportPath(skill("notes"), format, { cwd: root, output: "out/file/below" });
      await expect(async () => await exportSkill({ skill: skill("notes"), format, path }), format).rejects.toThrow(
        refused("unwritable", "cannot be written"),
      );
    }
    expect(readdirSync(join(root, "out"))).toEqual(["file"]);
  });
});

describe("a skill as a plugin", () => {
  const plugin = async () => {
    const scene = await notes();
    const request = { skill: scene.skill("notes"), format: "agent-plugin", path: scene.out("notes-plugin") } as const;
    return { ...scene, request, exported: await exportSkill(request) };
  };
  const force = async (request: Parameters<typeof exportSkill>[0]) => await exportSkill({ ...request, isForced: true });

  it("[Q-25] names its author, and contains the skill as Claude Code expects it", async () => {
    const { request, exported } = await plugin();
    const manifest = JSON.parse(readFileSync(join(request.path, ".claude-plugin/plugin.json"), "utf8"));
    const { description } = request.skill;
    expect(manifest).toEqual({
      name: "notes",
      version: "1.2.3",
      description,
      author: { name: "Ada" },
      keywords: ["a"],
    });
    expect(exported.files).toEqual([
      ".claude-plugin/plugin.json",
      ".claude-plugin/skillet.json",
      "README.md",
      ...all.map((file) => `skills/notes/${file}`),
    ]);
    expect(readFileSync(join(request.path, "README.md"), "utf8")).toMatch(
      /^# notes\n\nDoes notes\. .*`\/notes:notes` calls it/s,
    );
    expect(checkPath(join(request.path, "skills/notes"), { profile: "claude-upload" }).files).toMatchObject([
      { isValid: true },
    ]);
    expect(statSync(join(request.path, "skills/notes/scripts/run.sh")).mode & 0o111).toBe(0o111);
    expect(readFileSync(join(request.path, "skills/notes/references/long.md"), "utf8")).toBe(
      NOTES["skills/notes/references/long.md"],
    );
    expect(existsSync(join(request.path, "skills/notes/.env"))).toBe(false);
    const { skills } = await loadCatalog([
      createDirectorySource({ path: join(request.path, "skills"), name: "plugin", scope: "user" }),
    ]);
    expect(skills.map(({ name, description: told }) => [name, told])).toEqual([["notes", description]]);
  });

  it("keeps the keys that Claude Code knows, and a reserved name", async () => {
    const path = join(temporaryFolder(), "p");
    await exportSkill({
      skill: defineTestSkill("login", { more: { "argument-hint": "x", env: ["KEY"] } }),
      format: "agent-plugin",
      path,
    });
    expect(readFileSync(join(path, "skills/login/SKILL.md"), "utf8")).toContain(
      "\nargument-hint: x\nmetadata:\n  env:",
    );
  });

  it("replaces only what it created itself, with --force", async () => {
    const { request, root } = await plugin();
    await expect(async () => await exportSkill(request)).rejects.toThrow(refused("exists", "already exists"));
    await force({ ...request, skill: defineTestSkill("notes") });
    expect(existsSync(join(request.path, "skills/notes/scripts"))).toBe(false);
    await force(request);
    expect(existsSync(join(request.path, "skills/notes/scripts"))).toBe(true);
    expect(readdirSync(join(root, "out"))).toEqual(["notes-plugin"]);
  });

  it("never deletes a folder that it did not create, or that was edited", async () => {
    const { request, out } = await plugin();
    const mine = out("mine");
    writeFiles(mine, { "thesis.txt": "years of work" });
    await expect(async () => await force({ ...request, path: mine })).rejects.toThrow(
      refused("exists", "was not created by `skillet export`"),
    );
    writeFiles(mine, { ".claude-plugin/skillet.json": '{"files":{}}' });
    await expect(async () => await force({ ...request, path: mine })).rejects.toThrow(
      refused("exists", "has a new file, thesis.txt"),
    );
    expect(readFileSync(join(mine, "thesis.txt"), "utf8")).toBe("years of work");
    writeFileSync(out("file"), "");
    await expect(async () => await force({ ...request, path: out("file") })).rejects.toThrow(
      refused("exists", "is not a folder"),
    );
    const script = join(request.path, "skills/notes/scripts/run.sh");
    writeFileSync(script, "edited");
    await expect(async () => await force(request)).rejects.toThrow(
      refused("exists", "was changed since it was created, in skills/notes/scripts/run.sh"),
    );
    expect(readFileSync(script, "utf8")).toBe("edited");
    mkdirSync(out("empty"));
    await expect(async () => await force({ ...request, path: out("empty") })).rejects.toThrow(
      refused("exists", "was not created by"),
    );
  });

  it("does not follow a link to a folder that it created", async () => {
    const { request, out } = await plugin();
    symlinkSync(request.path, out("link"));
    await expect(async () => await force({ ...request, path: out("link") })).rejects.toThrow(
      refused("exists", "is not a folder"),
    );
  });

  it("[Q-12] is created where no foreign link waits", async () => {
    const { skill, out } = await notes();
    const elsewhere = temporaryFolder();
    mkdirSync(out("."), { recursive: true });
    symlinkSync(elsewhere, out(`.p.${process.pid}.new`));
    await exportSkill({ skill: skill("notes"), format: "agent-plugin", path: out("p") });
    expect(readdirSync(elsewhere)).toEqual([]);
    expect(lstatSync(out("p")).isDirectory()).toBe(true);
    expect(readdirSync(out(".")).sort()).toEqual([`.p.${process.pid}.new`, "p"]);
  });
});

describe("the target of an export", () => {
  it.each<[ExportFormat, string | undefined, string]>([
    ["skill-zip", undefined, "notes.zip"],
    ["agent-plugin", undefined, "notes-plugin"],
    ["skill-zip", "there", "there/notes.zip"],
    ["skill-zip", "new/", "new/notes.zip"],
    ["skill-zip", "new/x.zip", "new/x.zip"],
    ["agent-plugin", "there", "there"],
  ])("%s to %s is %s", (format, output, expected) => {
    const cwd = temporaryFolder({ "there/x": "" });
    const path = resolveExportPath(defineTestSkill("notes"), format, {
      cwd,
      ...(output === undefined ? {} : { output }),
    });
    expect(path).toBe(join(cwd, expected));
    expect(basename(path)).not.toBe("");
  });
});
