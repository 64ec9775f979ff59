import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Skill } from "../../src/skill/skill.ts";
import { checkPath } from "../../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { codesOf } from "./fixture.ts";
import { makePipe } from "./pipe.ts";
import { onlySkill, read, SECRET, scene } from "./scene.ts";
import { startSwapping, startSwappingNames } from "./swap.ts";

describe("a skill that changes during loading", () => {
  test("[Q-09] instructions that became a link to another kind of file are not quoted", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x", { body: "The first." }), secret: SECRET });
    const skill = await onlySkill(root);
    unlinkSync(`${root}/x/SKILL.md`);
    symlinkSync("../secret", `${root}/x/SKILL.md`);
    expect(await bodyOrError(skill)).not.toContain(SECRET);
    unlinkSync(`${root}/x/SKILL.md`);
    writeFileSync(`${root}/x/SKILL.md`, skillText("x", { body: "The second." }));
    expect(await skill.body()).toBe("The second.");
  });

  test("[Q-09] instructions that became a pipe, a folder or nothing are an error, at once", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x") });
    const skill = await onlySkill(root);
    rmSync(`${root}/x/SKILL.md`);
    await expect(async () => await skill.body()).rejects.toThrow(/cannot be read: .* does not exist/);
    makePipe(`${root}/x/SKILL.md`);
    await expect(async () => await skill.body()).rejects.toThrow(/cannot be read: .* is not a regular file/);
    rmSync(`${root}/x/SKILL.md`);
    mkdirSync(`${root}/x/SKILL.md`);
    await expect(async () => await skill.body()).rejects.toThrow(/cannot be read: .* is not a regular file/);
  });

  test("[Q-09] a file that is swapped during loading is never quoted when it is not a skill", async () => {
    const root = temporaryFolder({ "x/readme.txt": "", "skill.md": skillText("x"), secret: `${SECRET}\n`.repeat(200) });
    symlinkSync("../skill.md", `${root}/x/SKILL.md`);
    const swap = await startSwapping(`${root}/x/SKILL.md`, "../skill.md", "../secret");
    let found = 0;
    let missed = 0;
    while (swap.goesOn(Math.min(found, missed) > 0)) {
      const { skills, diagnostics } = await createDirectorySource({ path: `${root}` }).load();
      const skill = skills.find(({ origin }) => origin.file === `${root}/x/SKILL.md`);
      if (skill) found++;
      else missed++;
      expect(JSON.stringify([diagnostics, skill?.description])).not.toContain(SECRET);
      if (skill) expect(await bodyOrError(skill)).not.toContain(SECRET);
      expect(JSON.stringify(checkPath(`${root}/x`))).not.toContain(SECRET);
    }
    expect(Math.min(found, missed)).toBeGreaterThan(0);
  });

  test("[Q-09] a skill folder that disappears during the read does not crash the program", async () => {
    const root = temporaryFolder({ "x/SKILL.md": skillText("x"), "x/file": "" });
    const skill = await onlySkill(root);
    renameSync(`${root}/x`, `${root}/y`);
    expect((await skill.files()).files).toEqual([]);
    expect(codesOf((await skill.files()).findings)).toEqual(["file-skipped"]);
  });
});

describe("a concurrent swap of links", () => {
  const race = async (path: string, link: string, one: string, other: string) => {
    const { root } = scene();
    mkdirSync(`${root}/target`);
    writeFileSync(`${root}/target/secret`, "inside");
    symlinkSync(one, `${root}/${link}`);
    const swap = await startSwapping(`${root}/${link}`, one, other);
    const seen = new Set<string>();
    while (swap.goesOn(seen.has("inside") && seen.has("outside")))
      for (let tries = 0; tries < 100; tries++) seen.add(read(root, path));
    return seen;
  };

  test("[Q-09] no byte of the secret leaks through a file that becomes a link out", async () => {
    const seen = await race("link", "link", "file", "../secret");
    expect(seen).toContain("inside");
    expect(seen).toContain("outside");
    expect([...seen].filter((text) => text.includes(SECRET))).toEqual([]);
  });

  test("[Q-09] no byte of the secret leaks through a folder that becomes a link out", async () => {
    const seen = await race("link/secret", "link", "target", "..");
    expect(seen).toContain("inside");
    expect(seen).toContain("outside");
    expect([...seen].filter((text) => text.includes(SECRET))).toEqual([]);
  });
});

describe("a concurrent swap of hard links in a workspace", () => {
  test.for(["SKILL.md", "notes.md"])("[Q-31] no byte of another file leaks as %s", async (name) => {
    const root = temporaryFolder({
      "skills/x/SKILL.md": skillText("x", { body: "Inside." }),
      "skills/x/notes.md": "Inside.",
      "good-SKILL.md": skillText("x", { body: "Inside." }),
      "good-notes.md": "Inside.",
      secret: skillText("x", { body: SECRET }),
    });
    const source = createDirectorySource({ path: `${root}/skills`, scope: "workspace" });
    const [skill] = (await source.load()).skills;
    const swap = await startSwappingNames(`${root}/skills/x/${name}`, `${root}/good-${name}`, `${root}/secret`);
    const seen = { inside: 0, refused: 0, secret: 0 };
    while (swap.goesOn(seen.refused > 0)) {
      for (let tries = 0; tries < 50; tries++) {
        const text = name === "SKILL.md" ? await bodyOrError(skill as Skill) : await textOrError(skill as Skill, name);
        seen[text.includes(SECRET) ? "secret" : text.includes("Inside.") ? "inside" : "refused"]++;
      }
    }
    expect(seen.secret).toBe(0);
    expect(seen.refused).toBeGreaterThan(0);
  });
});

async function textOrError(skill: Skill, path: string): Promise<string> {
  try {
    return Buffer.from(await skill.read(path)).toString();
  } catch (error) {
    return String(error);
  }
}

async function bodyOrError(skill: Skill): Promise<string> {
  try {
    return await skill.body();
  } catch (error) {
    return String(error);
  }
}
