import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readFolderSkill } from "../../../src/skill/source/read-skill.ts";
import { createSkillLocks, formatLockSource, readLockFile } from "../../../src/store/lock-diff.ts";
import { createLockedFile, digestTree, formatLock, sortLockedFiles } from "../../../src/store/lock-file.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { defineTestSkill } from "../../support/skills.ts";
import { waitFor } from "../../support/wait-for.ts";
import { entryFor, lockAll } from "./scene.ts";

function scene() {
  const home = temporaryFolder();
  const skillsDir = join(home, "installed");
  writeFiles(skillsDir, { "x/SKILL.md": skillText("x") });
  return { home, skillsDir, file: join(skillsDir, "skills.lock"), folder: join(skillsDir, "x") };
}

function skillAt(folder: string, scope: "installed" | "bundled" | "integration" | "user" = "installed") {
  const read = readFolderSkill(folder, { scope, source: "installed" });
  if (!read || !("skill" in read)) throw new Error("no skill");
  return read.skill;
}

describe("the lock files of skills folders", () => {
  it("are read again after any change, also one in place, within one tick", async () => {
    const { home, file, folder } = scene();
    const right = entryFor(folder);
    const files = sortLockedFiles([
      ["SKILL.md", { ...createLockedFile(Buffer.from("other"), false), size: right.files["SKILL.md"]?.size ?? 0 }],
    ]);
    const texts = [right, { ...right, files, digest: digestTree(files) }].map((x) => formatLock({ x }));
    expect(texts[0]?.length).toBe(texts[1]?.length);
    const locks = createSkillLocks(home);
    const skill = skillAt(folder);
    for (let round = 0; round < 20; round++) {
      writeFileSync(file, texts[0] ?? "");
      await waitFor(() => locks.getState(skill).is === "unchanged");
      writeFileSync(file, texts[0] ?? "");
      locks.getState(skill);
      writeFileSync(file, texts[1] ?? "");
      await waitFor(() => locks.getState(skill).is === "changed");
    }
  });

  it("can be added and deleted", () => {
    const { home, skillsDir, file, folder } = scene();
    const locks = createSkillLocks(home);
    const skill = skillAt(folder);
    expect(locks.getState(skill)).toEqual({ is: "unlocked" });
    lockAll(skillsDir, { source: "owner/repo", path: "skills/x" });
    expect(locks.getState(skill).is).toBe("unchanged");
    expect(locks.getSource(skill)).toBe("owner/repo//skills/x");
    expect(locks.findChanges(skill, { digest: "", files: new Map(), instructions: "" })).toEqual([]);
    rmSync(file);
    expect(locks.getState(skill)).toEqual({ is: "unlocked" });
    expect(locks.getSource(skill)).toBeUndefined();
    expect(locks.findChanges(skill, { digest: "", files: new Map(), instructions: "" })).toBeUndefined();
  });

  it("are checked once by work on many skills, and again after it", () => {
    const { home, skillsDir, folder } = scene();
    const locks = createSkillLocks(home);
    const skill = skillAt(folder);
    const during = locks.withCache(() => {
      const before = locks.getState(skill);
      lockAll(skillsDir);
      return [before, locks.withCache(() => locks.getState(skill)), locks.getState(skill)];
    });
    expect(during).toEqual([{ is: "unlocked" }, { is: "unlocked" }, { is: "unlocked" }]);
    expect(locks.getState(skill).is).toBe("unchanged");
    expect(() => locks.withCache(() => expect.fail("in it"))).toThrow("in it");
    rmSync(join(skillsDir, "skills.lock"));
    expect(locks.getState(skill)).toEqual({ is: "unlocked" });
  });

  it("do not cover bundled skills, those of a program, or paths that are not folders", () => {
    const { home, skillsDir, folder } = scene();
    lockAll(skillsDir);
    writeFileSync(join(folder, "more.md"), "");
    const locks = createSkillLocks(home);
    for (const scope of ["bundled", "integration"] as const) {
      expect(locks.getState(skillAt(folder, scope))).toEqual({ is: "unlocked" });
    }
    expect(locks.getState(defineTestSkill("x"))).toEqual({ is: "unlocked" });
    expect(locks.getState(skillAt(folder)).is).toBe("changed");
    expect(locks.getState(skillAt(folder, "user")).is).toBe("changed");
  });

  it("are found through a link to the skills folder", () => {
    const { home, skillsDir } = scene();
    lockAll(skillsDir);
    const link = join(home, "link");
    symlinkSync(skillsDir, link);
    expect(createSkillLocks(home).getState(skillAt(join(link, "x"))).is).toBe("unchanged");
  });

  it("are missing without a folder, or with a file in its place", () => {
    const { home } = scene();
    writeFileSync(join(home, "file"), "");
    mkdirSync(join(home, "empty"));
    for (const name of ["file", "nowhere", "empty"]) {
      expect(readLockFile(join(home, name))).toBeUndefined();
      expect(createSkillLocks(home).getProblem(join(home, name))).toBeUndefined();
    }
  });

  it("contain a skill's origin", () => {
    expect(formatLockSource({ source: "owner/repo" })).toBe("owner/repo");
    expect(formatLockSource({ source: "owner/repo", path: "a/b" })).toBe("owner/repo//a/b");
  });
});
