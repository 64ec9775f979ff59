import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, linkSync, readFileSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { FindingCode } from "../../src/errors/finding-codes.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { asOrdinaryUser, HAS_ORDINARY_USER } from "../support/ordinary-user.ts";
import { moduleOf } from "../support/program.ts";
import { codesOf, expectVerdict, fixturesOf, loads, refused } from "./fixture.ts";
import { makePipe } from "./pipe.ts";
import { onlySkill, SECRET } from "./scene.ts";

const ROWS = [
  refused("file-folder-in-its-place", "refuses a folder called SKILL.md", "not-a-file"),
  loads("file-lower-case", "loads skill.md and says how it is spelled", "file-case"),
  refused("file-text-ending", "reports that SKILL.md.txt is not a skill file", "file-name"),
];

test.for(ROWS.map((row) => [row.title, row] as const))("[Q-09] %s", async ([, row]) => {
  await expectVerdict(row);
});

test("[Q-09] every fixture of a file has a row", () => {
  expect(ROWS.map(({ folder }) => folder).sort()).toEqual(fixturesOf("file"));
});

/** Checks `<root>/x` and loads `root`. Returns what loads, and every code of both. */
async function verdict(
  root: string,
): Promise<{ names: string[]; codes: FindingCode[]; checked: FindingCode[]; said: string }> {
  const { skills, diagnostics } = await createDirectorySource({ path: root }).load();
  const { files, diagnostics: others } = checkPath(`${root}/x`);
  const checked = [...others, ...files.flatMap((file) => file.diagnostics)];
  const isValid = files.length === 1 && !checked.some(({ severity }) => severity === "error");
  expect(isValid).toBe(skills.some(({ origin }) => origin.file?.startsWith(`${root}/x/`)));
  const said = JSON.stringify([
    diagnostics,
    checked,
    await Promise.all(skills.map(async (skill) => [skill.description, await skill.body()])),
  ]);
  return { names: skills.map(({ name }) => name), codes: codesOf(diagnostics), checked: codesOf(checked), said };
}

describe("a SKILL.md of another file type", () => {
  test("[Q-09] a link to a skill's file in another folder is followed", async () => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    const elsewhere = temporaryFolder({ "file.md": skillText("x") });
    symlinkSync(`${elsewhere}/file.md`, `${root}/x/SKILL.md`);
    expect(await verdict(root)).toMatchObject({ names: ["x"], codes: [] });
  });

  test.for([
    ["SKILL.md", `password: ${SECRET}\n`],
    ["SKILL.md", `---\nname: "${SECRET}!"\npassword: ${SECRET}\n---\n${SECRET}\n`],
    ["SKILL.md", `---\nname: [${SECRET}\n${SECRET}: ${SECRET}: ${SECRET}\n---\n${SECRET}\n`],
    ["SKILL.md", `---\n${SECRET}: ${SECRET}\n`],
    ["../secrets.yaml", `name: "${SECRET}!"\nversion: ${SECRET}\ncapabilities: ${SECRET}\n`],
    ["../secrets.yaml", `${SECRET}: [\n`],
    ["../notes.md", `# ${SECRET}\n`],
  ] as const)("[Q-09] nothing is quoted of %s when it is a link to another kind of file: %j", async ([name, text]) => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    const elsewhere = temporaryFolder({ secret: text });
    symlinkSync(`${elsewhere}/secret`, `${root}/x/${name}`);
    const { diagnostics, skills } = await createDirectorySource({ path: root }).load();
    expect(skills).toEqual([]);
    expect(JSON.stringify(diagnostics)).not.toContain(SECRET);
    expect(JSON.stringify(checkPath(root))).not.toContain(SECRET);
    expect(JSON.stringify(checkPath(`${root}/x/${name}`).diagnostics)).not.toContain(SECRET);
  });

  test("[Q-09] a dangling link is reported as such", async () => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    symlinkSync("nothing", `${root}/x/SKILL.md`);
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["symlink-broken"], checked: ["symlink-broken"] });
  });

  test("[Q-09] a link to itself is reported as such", async () => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    symlinkSync("SKILL.md", `${root}/x/SKILL.md`);
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["symlink-loop"], checked: ["symlink-loop"] });
  });

  test("[Q-09] a chain of 20 links is followed, one of 41 refused", async () => {
    const root = temporaryFolder({ "x/0": skillText("x") });
    for (let index = 1; index <= 40; index++) symlinkSync(`${index - 1}`, `${root}/x/${index}`);
    // Linux follows 40 links in all, and a walk that starts again counts those of the first try too: 20 always pass.
    symlinkSync("19", `${root}/x/SKILL.md`);
    expect((await verdict(root)).names).toEqual(["x"]);
    unlinkSync(`${root}/x/SKILL.md`);
    symlinkSync("40", `${root}/x/SKILL.md`);
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["symlink-loop"] });
  });

  test("[Q-09] a hard link is a file like any other", async () => {
    const root = temporaryFolder({ "x/readme.txt": "", other: skillText("x") });
    linkSync(`${root}/other`, `${root}/x/SKILL.md`);
    expect(await verdict(root)).toMatchObject({ names: ["x"], codes: [] });
  });

  test("[Q-09] a pipe is refused without waiting", async () => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    for (const path of ["x/SKILL.md", "flat.md", "flat.yaml"]) makePipe(`${root}/${path}`);
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["not-a-file"], checked: ["not-a-file"] });
  });

  test("[Q-09] a socket is refused", async () => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    const server = createServer();
    await new Promise<void>((ready) => server.listen(`${root}/x/SKILL.md`, ready));
    onTestFinished(() => void server.close());
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["not-a-file"], checked: ["not-a-file"] });
  });

  test.for(["/dev/null", "/dev/zero", "/dev/tty"])("[Q-09] the device %s is refused", async (device) => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    symlinkSync(device, `${root}/x/SKILL.md`);
    symlinkSync(device, `${root}/flat.md`);
    const { names, said } = await verdict(root);
    expect(names).toEqual([]);
    expect(said).toMatch(/not-a-file|unreadable/);
  });

  test("[Q-09] a device node is refused", async (context) => {
    const root = temporaryFolder({ "x/readme.txt": "" });
    const made = spawnSync("mknod", [`${root}/x/SKILL.md`, "c", "1", "5"]);
    if (made.status !== 0) return context.skip("device nodes cannot be made here");
    const { names, codes } = await verdict(root);
    expect(names).toEqual([]);
    expect(["not-a-file", "unreadable"]).toContain(codes[0]);
  });

  test("[Q-09] a file of 10 GB is refused without being read", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "flat.yaml": "name: flat\n" });
    for (const file of ["x/SKILL.md", "flat.yaml"]) truncateSync(`${root}/${file}`, 10 * 1024 ** 3);
    const bytesRead = () => Number(/rchar: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
    const before = process.platform === "linux" ? bytesRead() : 0;
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["file-too-large"], checked: ["file-too-large"] });
    if (process.platform === "linux") expect(bytesRead() - before).toBeLessThan(100 * 1024 ** 2);
  });

  test("[Q-09] a file of exactly 1 MiB loads, one byte more does not", async () => {
    const text = skillText("x");
    const root = temporaryFolder({ "x/SKILL.md": text.padEnd(1024 * 1024, "x") });
    expect((await verdict(root)).names).toEqual(["x"]);
    writeFileSync(`${root}/x/SKILL.md`, text.padEnd(1024 * 1024 + 1, "x"));
    expect(await verdict(root)).toMatchObject({ names: [], codes: ["file-too-large"] });
  });
});

describe("file modes", () => {
  // Root can read everything, so an ordinary user asks if one is available.
  const PROBE = `
    const [root] = process.argv.slice(1);
    const { createDirectorySource } = await import(${JSON.stringify(moduleOf("skill/source/directory-source"))});
    const { checkPath } = await import(${JSON.stringify(moduleOf("skill/source/check-skills"))});
    const { skills, diagnostics } = await createDirectorySource({ path: root }).load();
    const checked = checkPath(root + "/x");
    const all = [...checked.diagnostics, ...checked.files.flatMap((file) => file.diagnostics)];
    console.log(JSON.stringify({
      names: skills.map(({ name }) => name),
      codes: diagnostics.map(({ code }) => code),
      checked: all.map(({ code }) => code),
    }));`;
  const probe = (root: string) => {
    chmodSync(root, 0o755);
    const node = [process.execPath, "--input-type=module", "-e", PROBE, root];
    const [command = "", ...args] = [...asOrdinaryUser(), ...node];
    const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", cwd: "/" });
    expect(status, stderr).toBe(0);
    return JSON.parse(stdout) as object;
  };

  test.skipIf(!HAS_ORDINARY_USER)("[Q-09] an unreadable file is reported, and the others load", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "y/SKILL.md": skillText("y") });
    chmodSync(`${root}/x/SKILL.md`, 0);
    expect(probe(root)).toEqual({ names: ["y"], codes: ["unreadable"], checked: ["unreadable"] });
  });

  test.skipIf(!HAS_ORDINARY_USER)("[Q-09] an unreadable folder is reported, and the others load", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "y/SKILL.md": skillText("y") });
    chmodSync(`${root}/x`, 0);
    onTestFinished(() => chmodSync(`${root}/x`, 0o755));
    expect(probe(root)).toEqual({ names: ["y"], codes: ["unreadable"], checked: ["unreadable"] });
  });

  test("[Q-09] a set-id bit is reported, and the file is listed", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "x/user": "", "x/group": "", "x/plain": "" });
    chmodSync(`${root}/x/user`, 0o4755);
    chmodSync(`${root}/x/group`, 0o2755);
    const { checked } = await verdict(root);
    expect(checked).toEqual(["file-mode"]);
    const { files, findings } = await (await onlySkill(root)).files();
    expect(files.map(({ path, executable }) => [path, executable])).toEqual([
      ["group", true],
      ["plain", false],
      ["user", true],
    ]);
    expect(findings.map(({ message }) => message)).toEqual([
      '"group" has its set-id bit set',
      '"user" has its set-id bit set',
    ]);
  });
});

describe("endless folders", () => {
  test("[Q-09] a link to the parent folder is not followed forever", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "group/deep/y/SKILL.md": skillText("y") });
    symlinkSync("..", `${root}/group/up`);
    symlinkSync("../..", `${root}/group/deep/top`);
    symlinkSync(".", `${root}/group/here`);
    symlinkSync("b", `${root}/a`);
    symlinkSync("a", `${root}/b`);
    const { skills, diagnostics } = await createDirectorySource({ path: root }).load();
    expect(skills.map(({ name }) => name)).toEqual(["y", "x"]);
    expect(codesOf(diagnostics)).toEqual(["symlink-loop"]);
  });

  test("[Q-09] a skill folder with two links is one skill", async () => {
    const elsewhere = temporaryFolder({ "SKILL.md": skillText("x") });
    const root = temporaryFolder();
    symlinkSync(elsewhere, `${root}/x`);
    symlinkSync(elsewhere, `${root}/z`);
    expect((await verdict(root)).names).toEqual(["x"]);
  });

  test("[Q-10] 10,000 files next to SKILL.md are not all listed", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x") });
    for (let index = 0; index < 10_000; index++) writeFileSync(`${root}/x/${index}`, "");
    const { names, checked } = await verdict(root);
    expect([names, checked]).toEqual([["x"], ["too-many-files"]]);
    expect((await (await onlySkill(root)).files()).files.length).toBe(2000);
  });

  test("[Q-10] 4,000 levels are not all searched, in a skill or in a folder of skills", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "x/deep/file": "", "group/file": "" });
    // No path is that long, so the levels are created and removed from inside.
    const dig = `process.chdir(process.argv[1]); const { mkdirSync } = require("node:fs");
      for (let level = 0; level < 4000; level++) { mkdirSync("d"); process.chdir("d"); }`;
    onTestFinished(() => void execFileSync("rm", ["-rf", `${root}/x/deep`, `${root}/group`]));
    for (const folder of ["x/deep", "group"]) execFileSync(process.execPath, ["-e", dig, `${root}/${folder}`]);
    expect(await verdict(root)).toMatchObject({ names: ["x"], codes: ["too-deep"], checked: ["too-deep"] });
    expect((await (await onlySkill(root)).files()).files.map(({ path }) => path)).toEqual(["deep/file"]);
  });
});

test("[Q-09] files with line breaks in their names are listed unchanged", async () => {
  const root = temporaryFolder();
  writeFiles(root, { "x/SKILL.md": skillText("x"), "x/a\nb\r": "1", "x/c\td": "2" });
  const skill = await onlySkill(root);
  expect((await skill.files()).files.map(({ path }) => path)).toEqual(["a\nb\r", "c\td"]);
  expect(Buffer.from(await skill.read("a\nb\r")).toString()).toBe("1");
});
