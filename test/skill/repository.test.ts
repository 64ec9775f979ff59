import { chmodSync, chownSync, linkSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { load } from "js-yaml";
import { describe, expect, it } from "vitest";
import { fetchListing } from "../../src/remote/fetch-source.ts";
import { PROFILES } from "../../src/skill/skill.ts";
import type { CheckedFile } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createPublicRepository, NESTED_FILES, OTHER_FILES, SKILL_FILES } from "../support/public-repository.ts";

const INNER = "skills/review/parts/inner/SKILL.md";
const SAMPLE = "skills/review/examples/sample/SKILL.md";

interface Checked {
  isDryRun: boolean;
  files: CheckedFile[];
  diagnostics: { file: string; code: string; severity: string; message: string }[];
}

async function check(root: string, ...args: string[]): Promise<Checked> {
  const { stdout } = await skillet(["check", ".", "--json", ...args], { cwd: root });
  return JSON.parse(stdout);
}

/** The changed files, with their present content. */
function changedIn(root: string): Record<string, string> {
  const all = Object.entries({ ...OTHER_FILES, ...SKILL_FILES, ...NESTED_FILES });
  const now = all.map(([path, was]) => [path, was, readFileSync(join(root, path), "utf8")] as const);
  return Object.fromEntries(now.flatMap(([path, was, is]) => (was === is ? [] : [[path, is]])));
}

function reported(root: string, { files }: Checked): Record<string, CheckedFile> {
  return Object.fromEntries(
    files.filter(({ fixed }) => fixed.length > 0).map((one) => [relative(root, one.file), one]),
  );
}

describe("a repository in the shape of public ones", () => {
  it.each(PROFILES)(
    "has only skills fixed by profile %s, every change reported, and none the second time",
    async (profile) => {
      const root = createPublicRepository();
      const dry = await check(root, "--fix", "--dry-run", "--profile", profile);
      expect(changedIn(root)).toEqual({});
      const first = await check(root, "--fix", "--profile", profile);
      expect([dry.isDryRun, first.isDryRun]).toEqual([true, false]);
      expect({ ...first, isDryRun: true }).toEqual(dry);
      const changed = changedIn(root);
      expect(Object.keys(reported(root, first)).sort()).toEqual(Object.keys(changed).sort());
      expect(Object.keys(changed).filter((path) => path in OTHER_FILES || path === SAMPLE)).toEqual([]);
      expect(Object.keys(changed)).toContain(INNER);
      expect(Object.keys(changed).length).toBeGreaterThan(6);
      for (const [path, { diff }] of Object.entries(reported(root, first))) expect(diff, path).not.toEqual([]);
      const second = await check(root, "--fix", "--profile", profile);
      expect(reported(root, second)).toEqual({});
      expect(changedIn(root)).toEqual(changed);
      expect(second.diagnostics).toEqual(first.diagnostics);
    },
  );

  it("has no findings for files outside skills", async () => {
    const root = createPublicRepository();
    for (const profile of PROFILES) {
      const { files, diagnostics } = await check(root, "--profile", profile);
      const isOther = (file: string) => !(relative(root, file) in { ...SKILL_FILES, ...NESTED_FILES });
      const others = diagnostics.filter(({ file }) => isOther(file));
      // Two links lead to skills, and are checked under their own names.
      const links = [".agents/skills/other/SKILL.md", "aaa/SKILL.md"];
      expect(others.filter(({ file }) => !links.includes(relative(root, file)))).toEqual([]);
      const found = files.map(({ file }) => relative(root, file));
      expect(found.sort()).toEqual([...Object.keys(SKILL_FILES), INNER, ...links].sort());
      const nested = diagnostics.filter(({ code }) => code.startsWith("nested-"));
      expect(nested.map(({ file, code, severity }) => [relative(root, file), code, severity]).sort()).toEqual([
        [SAMPLE, "nested-skipped", "info"],
        [INNER, "nested-skill", "info"],
      ]);
    }
  });

  it("keeps the values, the comments and the text of the fixed skills", async () => {
    const root = createPublicRepository();
    const { files } = await check(root, "--fix", "--profile", "agentskills");
    const text = (path: string) => readFileSync(join(root, path), "utf8");
    expect(text("skills/deploy/SKILL.md")).toBe(
      '---\nname: deploy\ndescription: "Deploys: the shop"\n# kept\nlicense: MIT\n---\n\nDo it.\n',
    );
    expect(text("skills/nameless/SKILL.md")).toBe(
      "---\n# The first line.\nname: nameless\ndescription: Has no name. Use when asked.\n---\n\nDo it.\n",
    );
    expect(text("skills/renamed/SKILL.md")).toBe(skillText("another").replace("name: another", "name: renamed"));
    expect(text("skills/windows/SKILL.md")).toBe(skillText("windows"));
    expect(text("skills/keys/SKILL.md")).toBe(SKILL_FILES["skills/keys/SKILL.md"]);
    const windows = files.find(({ file }) => file.endsWith("windows/SKILL.md"));
    expect(windows?.diff).toEqual(["@@ byte order mark: removed @@", "@@ line endings: CR LF to LF in 8 lines @@"]);
  });

  it("has problems without a safe fix unchanged and reported", async () => {
    const root = createPublicRepository();
    const { diagnostics } = await check(root, "--fix", "--profile", "agentskills");
    expect(diagnostics.filter(({ code }) => code === "fix-refused")).toMatchObject([
      {
        file: join(root, "skills/flow/SKILL.md"),
        severity: "warning",
        message: expect.stringContaining("(name-missing)"),
      },
    ]);
    expect(changedIn(root)).not.toHaveProperty(["skills/flow/SKILL.md"]);
  });

  it("has its keys of other clients recognized, and only misspelled ones reported", async () => {
    const root = createPublicRepository();
    const { files } = await check(root);
    const keys = files.find(({ file }) => file.endsWith("skills/keys/SKILL.md"))?.diagnostics;
    expect(keys?.map(({ code, key, meant }) => [code, key, meant])).toEqual([
      ["key-unknown", "package", undefined],
      ["key-unknown", "models", undefined],
      ["key-unknown", "agents", undefined],
      ["key-unknown", "tag", undefined],
      ["key-misspelled", "alowed_tools", "allowed_tools"],
    ]);
    await check(root, "--fix", "--rename", "package,models,mode,agents,tag,alowed_tools");
    const [, frontmatter = ""] = readFileSync(join(root, "skills/keys/SKILL.md"), "utf8").split("---\n");
    expect(load(frontmatter)).toMatchObject({
      package: "effect",
      models: ["a"],
      mode: "plan",
      allowed_tools: ["bash"],
    });
  });

  it("has the same skills for discovery and for adding", async () => {
    const root = createPublicRepository();
    const { skills, diagnostics } = await createDirectorySource({ path: join(root, "skills") }).load();
    expect(skills.map(({ name }) => name).sort()).toEqual(
      ["another", "deploy", "flow", "inner", "keys", "nameless", "plain", "review", "short", "windows"].sort(),
    );
    expect(diagnostics.filter(({ severity }) => severity === "error")).toEqual([]);
    const { listing: offer } = await fetchListing({ kind: "folder", path: root }, temporaryFolder(), { env: {} });
    const loadable = Object.keys(SKILL_FILES).filter((path) => path !== "test/broken/SKILL.md");
    expect(offer.candidates.map(({ path }) => path).sort()).toEqual(
      [...loadable, INNER].map((path) => path.replace(/\/SKILL\.md$/, "")).sort(),
    );
    const errors = offer.diagnostics.filter(({ severity }) => severity === "error");
    expect(errors.map(({ file }) => file.replace(/^.*?(?=test\/)/, ""))).toEqual(["test/broken/SKILL.md"]);
  });

  it("has a readable report: the findings, and nothing outside skills", async () => {
    const root = createPublicRepository();
    const { stdout, stderr, code } = await skillet(["check", "."], { cwd: root });
    expect(code).toBe(1);
    expect(stderr).toBe("");
    const shown = [...stdout.matchAll(/^[✓✗!·] ([^ :]+)/gm)].map(([, path = ""]) => path);
    expect(shown.length).toBeGreaterThan(15);
    expect(shown.filter((path) => path in OTHER_FILES)).toEqual([]);
    expect(stdout).toMatch(/^16 skills: 1 error,/m);
  });
});

describe("a folder named skills", () => {
  const files = {
    "flat.md": "---\ndescription: Is flat. Use when asked.\n---\n\nDo it.\n",
    "NOTICES.md": "# Notices\n",
  };
  const under = (folder: string, more: Record<string, string> = {}) =>
    temporaryFolder(
      Object.fromEntries(Object.entries({ ...files, ...more }).map(([path, text]) => [`${folder}/${path}`, text])),
    );
  const checkedIn = async (cwd: string, ...args: string[]) => {
    const { stdout, stderr } = await skillet(["check", ...args, "--json"], { cwd });
    return { names: JSON.parse(stdout).files.map(({ name }: CheckedFile) => name), stderr };
  };

  it("contains flat skills when it is named, and when discovery reads it; a repository with that name does not", async () => {
    expect(await checkedIn(under("a/skills"), "a/skills")).toMatchObject({ names: ["flat"] });
    expect(await checkedIn(under("skills"), ".")).toMatchObject({ names: ["flat"] });
    expect(await checkedIn(under("skills", { "package.json": "{}" }), ".")).toMatchObject({ names: ["flat"] });
    expect(await checkedIn(under("a/skills", { "package.json": "{}" }), "a/skills")).toMatchObject({ names: [] });
  });

  it("is the only one whose flat files count without being named", async () => {
    const cwd = under("prompts");
    expect(await checkedIn(cwd, "prompts")).toEqual({
      names: [],
      stderr: expect.stringContaining("no skills in prompts"),
    });
    expect(await checkedIn(cwd, "prompts/flat.md")).toMatchObject({ names: ["flat"] });
  });

  it("can be a source of the configuration with any name", async () => {
    const cwd = under("prompts");
    const home = temporaryFolder({ ".skillet/config.toml": `[sources.mine]\npath = "${join(cwd, "prompts")}"\n` });
    const { stdout } = await skillet(["check", "prompts", "--json"], { cwd, env: { HOME: home } });
    expect(JSON.parse(stdout).files).toMatchObject([{ name: "flat" }]);
  });
});

describe("--fix", () => {
  const BAD = "---\nname: a\ndescription: Use: it\n---\n\nx\n";
  const jsonOf = async (cwd: string, ...args: string[]): Promise<Checked> =>
    JSON.parse((await skillet(["check", "--json", ...args], { cwd })).stdout);

  it("does not change a named file that is not a skill", async () => {
    const lock = "lockfileVersion: '9.0'\ndevDependencies: {}\n";
    const cwd = temporaryFolder({ "pnpm-lock.yaml": lock, "page.md": "\ufeff---\r\ntitle: x\r\n---\r\n\r\nx\r\n" });
    for (const profile of PROFILES) {
      const { files } = await jsonOf(cwd, "pnpm-lock.yaml", "page.md", "--fix", "--profile", profile);
      expect(files.flatMap(({ fixed }) => fixed)).toEqual([]);
      expect(files.map(({ isValid }) => isValid)).toEqual([false, false]);
    }
    expect(readFileSync(join(cwd, "pnpm-lock.yaml"), "utf8")).toBe(lock);
    expect(readFileSync(join(cwd, "page.md"), "utf8")).toContain("\r\n");
  });

  it("reports a file with several paths once", async () => {
    const cwd = temporaryFolder({ "skills/a/SKILL.md": BAD });
    symlinkSync("skills", join(cwd, "link"));
    const { files } = await jsonOf(cwd, ".", "skills", "link", "skills/a", "skills/a/SKILL.md", "--fix");
    expect(files.flatMap(({ fixed }) => fixed)).toEqual(["yaml-repaired"]);
  });

  it("takes no name from a link, and fixes a file with two links once", async () => {
    const cwd = temporaryFolder({ "shared/text.md": "---\ndescription: Use: it\n---\n\nx\n", "a/x": "", "b/x": "" });
    for (const name of ["a", "b"]) symlinkSync("../shared/text.md", join(cwd, name, "SKILL.md"));
    const { files } = await jsonOf(cwd, ".", "--fix", "--profile", "agentskills");
    expect(files.map(({ name, fixed }) => [name, fixed])).toEqual([
      ["a", ["yaml-repaired"]],
      ["b", []],
    ]);
    const after = '---\ndescription: "Use: it"\n---\n\nx\n';
    expect(readFileSync(join(cwd, "shared/text.md"), "utf8")).toBe(after);
    const again = await jsonOf(cwd, ".", "--fix", "--profile", "agentskills");
    expect(again.files.flatMap(({ fixed }) => fixed)).toEqual([]);
    expect(readFileSync(join(cwd, "shared/text.md"), "utf8")).toBe(after);
  });

  it("keeps the permissions of a file, whatever the umask, and its owner", async () => {
    const cwd = temporaryFolder({ "skills/a/SKILL.md": BAD });
    const file = join(cwd, "skills/a/SKILL.md");
    if (process.getuid?.() === 0) chownSync(file, 12_345, 12_345);
    chmodSync(file, 0o666);
    const { uid, gid, mode } = statSync(file);
    expect((await jsonOf(cwd, "skills", "--fix")).files[0]?.fixed).toEqual(["yaml-repaired"]);
    expect(statSync(file)).toMatchObject({ uid, gid, mode });
  });

  it("fixes a file with two hard links once, and keeps it one file", async () => {
    const cwd = temporaryFolder({ "skills/a/SKILL.md": BAD, "skills/b/x": "" });
    const [a, b] = [join(cwd, "skills/a/SKILL.md"), join(cwd, "skills/b/SKILL.md")];
    linkSync(a, b);
    const { files } = await jsonOf(cwd, "skills", "--fix", "--profile", "agentskills");
    expect(files.flatMap(({ fixed }) => fixed)).toEqual(["yaml-repaired"]);
    expect(statSync(a).ino).toBe(statSync(b).ino);
    const again = await jsonOf(cwd, "skills", "--fix", "--profile", "agentskills");
    expect(again.files.flatMap(({ fixed }) => fixed)).toEqual([]);
  });

  it("names the target of a fixed link", async () => {
    const cwd = temporaryFolder({ "shared/text.md": BAD, "skills/a/x": "" });
    symlinkSync("../../shared/text.md", join(cwd, "skills/a/SKILL.md"));
    const [dry] = (await jsonOf(cwd, ".", "--fix", "--dry-run")).files;
    expect(dry?.target).toBe(join(cwd, "shared/text.md"));
    const { stdout } = await skillet(["check", ".", "--fix"], { cwd });
    expect(stdout).toContain("✓ skills/a/SKILL.md (a symlink to shared/text.md) fixed: yaml-repaired");
  });

  it("ignores a page named skill.md at the root of a repository, and finds the skills next to it", async () => {
    const page = "---\ntitle: What is a skill?\ndescription: Use: it\n---\n\nText.\r\n";
    const cwd = temporaryFolder({ "skill.md": page, "skills/a/SKILL.md": BAD });
    const { files, diagnostics } = await jsonOf(cwd, ".", "--fix");
    expect(files.map(({ file }) => relative(cwd, file))).toEqual(["skills/a/SKILL.md"]);
    expect(diagnostics.filter(({ file }) => file.endsWith("skill.md"))).toEqual([]);
    expect(readFileSync(join(cwd, "skill.md"), "utf8")).toBe(page);
    expect((await jsonOf(cwd, "skill.md")).files).toMatchObject([{ file: join(cwd, "skill.md") }]);
  });

  it("prints each change as a diff, on standard error if standard output has another format", async () => {
    const cwd = temporaryFolder({ "skills/a/SKILL.md": BAD });
    const diff = '    -description: Use: it\n    +description: "Use: it"\n';
    const dry = await skillet(["check", "skills", "--dry-run"], { cwd });
    expect(dry.stdout).toContain("✓ skills/a/SKILL.md would be fixed: yaml-repaired");
    expect(dry.stdout).toContain(diff);
    expect(dry.stdout).toContain("1 file would be fixed; nothing was written");
    const github = await skillet(["check", "skills", "--dry-run", "--format", "github"], { cwd });
    expect(github.stdout).not.toContain("would be");
    expect(github.stderr).toContain(diff);
    expect(readFileSync(join(cwd, "skills/a/SKILL.md"), "utf8")).toBe(BAD);
    const { stdout } = await skillet(["check", "skills", "--fix"], { cwd });
    expect(stdout).toContain("✓ skills/a/SKILL.md fixed: yaml-repaired");
    expect(stdout).toContain(diff);
    expect(stdout).toContain("1 file fixed");
  });

  it("renames no key without --rename, none with an invalid value, and none inside triggers", async () => {
    const skill =
      "---\nname: a\ndescription: Use when asked.\nefort: [low]\nlicence: MIT\ntriggers:\n  keywrds: [x]\n---\n\nx\n";
    const cwd = temporaryFolder({ "skills/a/SKILL.md": skill });
    const { files } = await jsonOf(cwd, "skills", "--fix");
    expect(files.flatMap(({ fixed }) => fixed)).toEqual([]);
    expect(files[0]?.diagnostics).toMatchObject([
      { code: "key-unknown", key: "efort" },
      { code: "key-misspelled", key: "licence", fix: 'did you mean "license"? `--fix --rename licence` renames it' },
      { code: "key-misspelled", key: "triggers", fix: 'did you mean "keywords"?' },
    ]);
    await jsonOf(cwd, "skills", "--fix", "--rename", "efort, licence,triggers,keywrds");
    expect(readFileSync(join(cwd, "skills/a/SKILL.md"), "utf8")).toBe(skill.replace("licence", "license"));
    expect(await skillet(["check", "skills", "--rename", "licence"], { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--rename needs --fix"),
    });
  });

  it("does not write a file that would lose a part", async () => {
    const cwd = temporaryFolder({ "skills/a/SKILL.md": "" });
    const file = join(cwd, "skills/a/SKILL.md");
    const lone = Buffer.concat([Buffer.from(`\ufeff${BAD}`, "utf16le"), Buffer.from([0x00, 0xd8, 0x0a, 0x00])]);
    writeFileSync(file, lone);
    expect((await jsonOf(cwd, "skills", "--fix")).files).toMatchObject([{ fixed: [] }]);
    expect(readFileSync(file).equals(lone)).toBe(true);
  });
});
