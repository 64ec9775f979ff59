import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { addSkills } from "../../src/remote/add.ts";
import { trustApplied } from "../../src/remote/apply-additions.ts";
import { createApprovalStore } from "../../src/store/approvals.ts";
import { createSkillLocks } from "../../src/store/lock-diff.ts";
import { createTrustStore } from "../../src/store/trust.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { makeRepository } from "../support/repositories.ts";
import { createAddScene, createAnswers, repositoryOf } from "./add-scene.ts";

const GO = "skills/x/scripts/go.sh";
const EVIL = "#!/bin/sh\necho evil\n";

async function added() {
  const scene = createAddScene();
  const source = makeRepository({ "skills/x/SKILL.md": skillText("x"), [GO]: "#!/bin/sh\necho one\n" });
  await scene.run(["add", source.url, "--yes"]);
  const folder = join(scene.installed, "x");
  return { ...scene, source, folder, script: join(folder, "scripts/go.sh") };
}

describe("an edit of an added skill", () => {
  it("[Q-04] is not approved by an unattended update", async () => {
    const { run, source, script } = await added();
    writeFileSync(script, EVIL);
    source.commit({ "skills/x/notes.md": "# New\n" });
    expect(await run(["update", "--yes"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("x changed here since it was approved; nothing was updated  [changed]\n"),
    });
    expect((await run(["verify"])).code).toBe(1);
    expect((await run(["run", "x"])).code).toBe(3);
    const asked = await run(["update"], createAnswers("y"));
    expect(asked.stdout).toContain("+echo evil");
    expect((await run(["verify"])).code).toBe(0);
  });

  it("is reported when its source has nothing new", async () => {
    const { run, source, script } = await added();
    writeFileSync(script, EVIL);
    const said = "! x is up to date with its source, but has local changes: skillet trust x\n";
    expect(await run(["update"])).toMatchObject({ code: 0, stdout: said });
    expect(await run(["add", source.url])).toMatchObject({ code: 0, stdout: said });
  });

  it("is not approved when it makes a file set-user-ID", async () => {
    const { run, script } = await added();
    chmodSync(script, 0o4755);
    const { code, stderr } = await run(["trust", "x", "--yes"]);
    expect(code).not.toBe(0);
    expect(stderr).toContain("is set to run as its owner");
    chmodSync(script, 0o644);
    expect((await run(["verify"])).code).toBe(0);
  });

  it("is kept once, however often the remote version replaces it", async () => {
    const { run, source, script, home } = await added();
    for (const round of ["two", "three"]) {
      writeFileSync(script, EVIL);
      source.commit({ [GO]: `#!/bin/sh\necho ${round}\n` });
      expect((await run(["update", "--conflicts", "theirs"], createAnswers("y"))).code).toBe(0);
      expect(readFileSync(script, "utf8")).toContain(round);
    }
    const replaced = join(home, ".skillet/replaced");
    for (const name of readdirSync(replaced)) {
      expect(readFileSync(join(replaced, name, "scripts/go.sh"), "utf8")).toBe(EVIL);
    }
  });
});

describe("a skill that is added to a project", () => {
  it("[Q-04] is trusted as it was shown, and not as it was changed right after", async () => {
    const { cwd, home, root } = createAddScene();
    writeFiles(root, { "source/tt/SKILL.md": skillText("tt"), "source/tt/scripts/a.sh": "#!/bin/sh\necho good\n" });
    const skill = join(cwd, ".agents/skills/tt");
    const options = { source: join(root, "source/tt"), isProject: true, workspace: cwd, env: { HOME: home } };
    let coming: Parameters<typeof trustApplied>[0] = [];
    await addSkills({
      ...options,
      approve: (all) => {
        coming = all;
        return true;
      },
    });
    writeFileSync(join(skill, "scripts/a.sh"), EVIL);
    const skilletHome = join(home, ".skillet");
    rmSync(join(skilletHome, "trust.json"));
    const lock = readFileSync(join(cwd, ".agents/skills/skills.lock"), "utf8");
    const place = { folder: join(cwd, ".agents/skills"), isProject: true, shown: "" };
    const trust = createTrustStore(skilletHome, [], createSkillLocks(skilletHome));
    await trustApplied(coming, place, trust);
    expect(trust.list()).toEqual([]);
    expect(readFileSync(join(cwd, ".agents/skills/skills.lock"), "utf8")).toBe(lock);
  });
});

describe("a locked skill whose folder is gone", () => {
  it("is removed from the lock", async () => {
    const { run, json, folder } = await added();
    rmSync(folder, { recursive: true });
    expect((await run(["remove", "x"])).code).toBe(0);
    expect(await json(["list", "--installed"])).toEqual({ skills: [] });
    expect((await run(["verify"])).code).toBe(0);
  });

  it("is not replaced by one from another source, which inherits no approval", async () => {
    const { run, folder, home } = await added();
    const other = repositoryOf("x");
    const approvals = createApprovalStore(join(home, ".skillet"));
    const word = { skill: "x", source: "installed", location: folder, tool: "send", on: "outside" } as const;
    await approvals.add(word);
    rmSync(folder, { recursive: true });
    expect(await run(["add", other.url, "--yes"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("--force replaces it"),
    });
    expect((await run(["add", other.url, "--yes", "--force"])).code).toBe(0);
    expect(await createApprovalStore(join(home, ".skillet")).isAlwaysApproved(word)).toBe(false);
  });

  it("leaves no approval for another skill that a program adds there", async () => {
    const { home, cwd, folder } = await added();
    const approvals = createApprovalStore(join(home, ".skillet"));
    const word = { skill: "x", source: "installed", location: folder, tool: "send", on: "outside" } as const;
    await approvals.add(word);
    await approvals.add({ ...word, location: "/elsewhere/x" });
    const options = { source: repositoryOf("x").url, workspace: cwd, env: { HOME: home }, approve: () => true };
    await addSkills({ ...options, force: true });
    const left = createApprovalStore(join(home, ".skillet"));
    expect([
      await left.isAlwaysApproved(word),
      await left.isAlwaysApproved({ ...word, location: "/elsewhere/x" }),
    ]).toEqual([false, true]);
  });
});

describe("a skill with a confusable name", () => {
  it("is added with a warning, and compiled files are shown", async () => {
    const { run, cwd } = createAddScene({
      "home/.skillet/skills/deploy/SKILL.md": skillText("deploy"),
      "project/new/dep1oy/SKILL.md": skillText("dep1oy"),
      "project/new/dep1oy/scripts/__pycache__/a.cpython-311.pyc": "compiled",
    });
    const { stdout } = await run(["add", join(cwd, "new/dep1oy"), "--dry-run"]);
    expect(stdout).toContain("! its name resembles deploy, which you already have");
    expect(stdout).toContain("scripts/__pycache__/a.cpython-311.pyc contains a compiled program");
  });
});

describe("required signatures", () => {
  /** An added skill with a signature, and then changed without one. */
  async function signed() {
    const scene = createAddScene({ "project/skills/s/SKILL.md": skillText("s") });
    const { run, cwd } = scene;
    const made = await run(["sign", "--new-key", "s"]);
    const [, key = ""] = /signers add NAME (\S+)/.exec(made.stdout) ?? [];
    await run(["signers", "add", "me", key]);
    return { ...scene, source: join(cwd, "skills/s"), mark: join(cwd, "skills/s/SKILL.sig") };
  }

  it("are checked for every locked skill, present or fetched", async () => {
    const { run, cwd, source, mark } = await signed();
    expect((await run(["add", source, "--project", "--yes", "--require-signature"])).code).toBe(0);
    const frozen = ["add", "--frozen", "--project", "--require-signature"];
    expect((await run(frozen)).code).toBe(0);
    rmSync(join(cwd, ".agents/skills"), { recursive: true });
    rmSync(mark);
    // A lock that does not require it: the option alone decides.
    await run(["add", source, "--project", "--yes"]);
    expect(await run(frozen)).toMatchObject({ code: 1, stderr: expect.stringContaining("is not signed") });
    rmSync(join(cwd, ".agents/skills/s"), { recursive: true });
    expect(await run(frozen)).toMatchObject({ code: 1, stderr: expect.stringContaining("is not signed") });
    expect(existsSync(join(cwd, ".agents/skills/s"))).toBe(false);
  });

  it("are reported as missing after an update without one, and named by verify", async () => {
    const { run, source, mark } = await signed();
    await run(["add", source, "--yes"]);
    rmSync(mark);
    writeFileSync(join(source, "SKILL.md"), skillText("s", { body: "Another." }));
    expect((await run(["update", "--dry-run"])).stdout).toContain("! it was signed before and no longer is\n");
    expect((await run(["update", "--yes", "--require-signature"])).code).not.toBe(0);
    await run(["update", "--yes"]);
    const { code, stdout } = await run(["verify", "--require-signature"]);
    expect(code).toBe(1);
    expect(stdout).toContain("✗ s is not signed (");
    expect(stdout).not.toContain("differ");
  });

  it("are remembered in the lock: no update, add or frozen add without the option accepts an unsigned skill", async () => {
    const { run, home, source, mark } = await signed();
    await run(["add", source, "--yes", "--require-signature"]);
    const lock = join(home, ".skillet/installed/skills.lock");
    expect(JSON.parse(readFileSync(lock, "utf8")).skills.s.requireSignature).toBe(true);
    expect((await run(["verify"])).code).toBe(0);
    rmSync(mark);
    writeFileSync(join(source, "SKILL.md"), skillText("s", { body: "Another." }));
    const before = readFileSync(lock, "utf8");
    for (const command of [
      ["update", "--yes"],
      ["update", "--yes", "--conflicts", "theirs"],
      ["add", source, "--yes"],
    ]) {
      expect(await run(command), command.join(" ")).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('Skill "s" is not signed'),
      });
    }
    expect(readFileSync(lock, "utf8")).toBe(before);
    await run(["sign", "s"]);
    expect((await run(["update", "--yes"])).code).toBe(0);
    expect(JSON.parse(readFileSync(lock, "utf8")).skills.s.requireSignature, "stored by the update").toBe(true);
    const installed = join(home, ".skillet/installed/s");
    rmSync(join(installed, "SKILL.sig"));
    expect((await run(["verify"])).stdout).toContain("it is not signed");
    rmSync(installed, { recursive: true });
    rmSync(mark);
    expect((await run(["add", "--frozen"])).code).toBe(1);
  });
});

describe("a skills folder of a workspace", () => {
  it.each([
    ["names a missing file", { put: { x: "" }, away: {} }],
    ["names a path without a number", { put: { x: 3 }, away: { x: "a" } }],
    ["names the folder itself", { put: { ".": "1:1", "": "1:1" }, away: {} }],
  ])("with a journal that %s blocks no user", async (_, journal) => {
    const { run, cwd } = await added();
    const folder = join(cwd, ".agents/skills/.skillet-31111111-1111-4111-8111-111111111111");
    for (const part of ["new", "old"]) mkdirSync(join(folder, part), { recursive: true });
    writeFileSync(join(folder, "journal"), JSON.stringify(journal));
    expect(await run(["verify"])).toMatchObject({ code: 0, stdout: "✓ 1 skill matches the lock file\n" });
  });
});

describe("two processes that add the same skill", () => {
  it("both succeed, or one asks to try again", async () => {
    const { run, json } = createAddScene();
    const source = repositoryOf("x");
    const both = await Promise.all([run(["add", source.url, "--yes"]), run(["add", source.url, "--yes"])]);
    for (const { code, stderr } of both) if (code !== 0) expect(stderr).toContain("was added by another process");
    expect((await json(["list", "--installed"])).skills).toMatchObject([{ name: "x", state: "unchanged" }]);
  });
});
