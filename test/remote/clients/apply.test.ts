import { randomUUID } from "node:crypto";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  applyFolderChange,
  type FolderChange,
  recoverFolder,
  SkillInstallationError,
} from "../../../src/store/atomic-folder.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { sampleRows } from "../../support/sample-steps.ts";
import { runApply } from "./applying.ts";
import { catchThrown, ordinaryFolder, readTreeFiles } from "./scene.ts";

/** Starts with three skill folders: the plan replaces one, removes one, adds two, and leaves one. */
function scene(folder = temporaryFolder()): { skillsDir: string; application: FolderChange } {
  const skillsDir = join(folder, "skills");
  writeFiles(folder, {
    "skills/kept/SKILL.md": skillText("kept"),
    "skills/replaced/SKILL.md": skillText("replaced", { body: "old" }),
    "skills/replaced/old.txt": "old",
    "skills/removed/SKILL.md": skillText("removed"),
    "from/replaced/SKILL.md": skillText("replaced", { body: "new" }),
    "from/replaced/scripts/run.sh": "echo new",
    "from/second/SKILL.md": skillText("second"),
    "from/second/a.txt": "a",
  });
  const put: FolderChange["items"] = [
    { name: "written", source: "inline", skillMd: skillText("written") },
    { name: "replaced", source: "ref", folder: join(folder, "from/replaced") },
    { name: "second", source: "ref", folder: join(folder, "from/second") },
  ];
  return {
    skillsDir,
    application: { skillsDir, items: put, remove: ["removed"], replaceable: ["replaced"], isDurable: false },
  };
}

describe("apply", () => {
  it("[N-10] writes skills from code, copies folders entirely, and returns the paths in order", () => {
    const { skillsDir, application } = scene();
    expect(applyFolderChange(application)).toEqual(
      ["written", "replaced", "second"].map((name) => join(skillsDir, name)),
    );
    expect(readTreeFiles(skillsDir)).toEqual({
      "kept/SKILL.md": skillText("kept"),
      "replaced/SKILL.md": skillText("replaced", { body: "new" }),
      "replaced/scripts/run.sh": "echo new",
      "second/SKILL.md": skillText("second"),
      "second/a.txt": "a",
      "written/SKILL.md": skillText("written"),
    });
    expect(readdirSync(skillsDir).sort()).toEqual(["kept", "replaced", "second", "written"]);
  });

  it("has the same result in the durable mode, with few files and with many", () => {
    const { skillsDir, application } = scene();
    const many = Object.fromEntries(Array.from({ length: 150 }, (_, number) => [`f${number}.txt`, String(number)]));
    const folder = temporaryFolder({ "SKILL.md": skillText("many"), ...many });
    applyFolderChange({ ...application, isDurable: true });
    applyFolderChange({ skillsDir, items: [{ name: "many", source: "ref", folder }], isDurable: true });
    expect(readdirSync(skillsDir).sort()).toEqual(["kept", "many", "replaced", "second", "written"]);
    expect(readdirSync(join(skillsDir, "many"))).toHaveLength(151);
  });

  it("[N-10] replaces the SKILL.md of a skill's folder, in any case of letters, with its text", () => {
    const folder = temporaryFolder({ "skill.md": "old", "docs/skill.md": "stays" });
    const skillsDir = temporaryFolder();
    applyFolderChange({
      skillsDir,
      items: [{ name: "a", source: "ref", folder, skillMd: skillText("a") }],
      isDurable: false,
    });
    expect(readTreeFiles(skillsDir)).toEqual({ "a/SKILL.md": skillText("a"), "a/docs/skill.md": "stays" });
  });

  it("[N-19] leaves everything unchanged when the last of many skills cannot be written", () => {
    const { skillsDir, application } = scene();
    const before = readTreeFiles(skillsDir);
    const gone = { name: "gone", source: "ref", folder: join(skillsDir, "nowhere") } as const;
    const error = catchThrown(() => applyFolderChange({ ...application, items: [...application.items, gone] }));
    expect(error).toBeInstanceOf(SkillInstallationError);
    expect(error).toMatchObject({ code: "installation-failed", skillName: "gone", skillsDir, source: "ref" });
    expect(error.cause).toBeInstanceOf(Error);
    expect(error.message).toBe(
      `Skill "gone" cannot be installed into ${skillsDir}: its folder cannot be read: it does not exist, or is a broken link`,
    );
    expect(readTreeFiles(skillsDir)).toEqual(before);
    expect(readdirSync(skillsDir).sort()).toEqual(["kept", "removed", "replaced"]);
  });

  it("[N-19] reverts earlier moves when a later one fails", () => {
    const { skillsDir, application } = scene();
    const before = readTreeFiles(skillsDir);
    // Another process puts a file in place of the last one, after all checks.
    const omit = (): boolean => {
      writeFileSync(join(skillsDir, "second"), "theirs");
      return false;
    };
    const put = application.items.map((item) => (item.name === "second" ? { ...item, omit } : item));
    const error = catchThrown(() => applyFolderChange({ ...application, items: put }));
    expect(error).toBeInstanceOf(SkillInstallationError);
    expect(readTreeFiles(skillsDir)).toEqual({ ...before, second: "theirs" });
  });

  it("[N-19] removes the skills folder again if it was created in vain", () => {
    const folder = temporaryFolder();
    const put = [{ name: "a", source: "ref", folder: join(folder, "nowhere") }] as const;
    catchThrown(() => applyFolderChange({ skillsDir: join(folder, "x/y/skills"), items: put, isDurable: false }));
    expect(readdirSync(folder)).toEqual([]);
  });

  it.for([
    [
      "a folder",
      (path: string) => writeFiles(path, { "SKILL.md": "theirs" }),
      'a folder called "written" already exists',
    ],
    ["a file", (path: string) => writeFileSync(path, "theirs"), "something that is not a folder"],
    ["a link", (path: string) => symlinkSync(temporaryFolder(), path), "a link called"],
  ] as const)("[Q-12] changes nothing when %s is in the way", ([, stand, why]) => {
    const { skillsDir, application } = scene();
    stand(join(skillsDir, "written"));
    const before = readTreeFiles(skillsDir);
    const error = catchThrown(() => applyFolderChange(application));
    expect(error.message).toContain(why);
    expect(error).toMatchObject({
      skillName: "written",
      source: "inline",
      fix: "move it away, or give the skill another name",
    });
    expect(readTreeFiles(skillsDir)).toEqual(before);
  });

  it("[Q-12] follows no link in place of a skill that is replaced or removed", () => {
    const elsewhere = temporaryFolder({ "SKILL.md": "theirs" });
    for (const change of [
      { items: [{ name: "a", source: "inline", skillMd: "x" } as const], replaceable: ["a"] },
      { items: [], remove: ["a"] },
    ]) {
      const skillsDir = temporaryFolder();
      symlinkSync(elsewhere, join(skillsDir, "a"));
      expect(catchThrown(() => applyFolderChange({ skillsDir, isDurable: false, ...change })).message).toContain(
        'a link called "a"',
      );
      expect(lstatSync(join(skillsDir, "a")).isSymbolicLink()).toBe(true);
    }
    expect(readTreeFiles(elsewhere)).toEqual({ "SKILL.md": "theirs" });
  });

  it.for(["..", ".", "", "../out", "a/b", "a\\b", "/etc", ".hidden", "con", "NUL.txt", "a\0b", "a\nb", "__proto__"])(
    "[Q-12] accepts no folder name for a skill that leads outside: %j",
    (name) => {
      const folder = temporaryFolder();
      const skillsDir = join(folder, "skills");
      const put = [{ name, source: "inline", skillMd: "x" } as const];
      expect(catchThrown(() => applyFolderChange({ skillsDir, items: put, isDurable: false }))).toBeInstanceOf(
        SkillInstallationError,
      );
      expect(
        catchThrown(() => applyFolderChange({ skillsDir, items: [], remove: [name], isDurable: false })).skillName,
      ).toBe(name);
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  it("refuses two skills with the same name", () => {
    const item = { name: "a", source: "inline", skillMd: "x" } as const;
    const skillsDir = temporaryFolder();
    expect(catchThrown(() => applyFolderChange({ skillsDir, items: [item, item], isDurable: false })).message).toMatch(
      /two skills have this name/,
    );
  });

  it("[Q-12] follows a link to a skills folder", () => {
    const { skillsDir, application } = scene();
    const link = join(temporaryFolder(), "skills");
    symlinkSync(skillsDir, link);
    expect(applyFolderChange({ ...application, skillsDir: link })[0]).toBe(join(link, "written"));
    expect(readdirSync(skillsDir).sort()).toEqual(["kept", "replaced", "second", "written"]);
  });

  it.runIf(process.platform === "linux")(
    "[Q-12] writes nothing outside when a link replaces the folder that it writes into",
    () => {
      const { skillsDir, application } = scene();
      const elsewhere = temporaryFolder();
      let count = 0;
      const swapping = (): boolean => {
        const staging = readdirSync(skillsDir).find((name) => /^\.skillet-[^.]+$/.test(name));
        if (staging === undefined || count++ > 0) return false;
        renameSync(join(skillsDir, staging), join(skillsDir, ".moved"));
        symlinkSync(elsewhere, join(skillsDir, staging));
        return false;
      };
      const put = application.items.map((item) => ({ ...item, omit: swapping }));
      applyFolderChange({ ...application, items: put });
      expect(count).toBeGreaterThan(1);
      expect(readdirSync(elsewhere)).toEqual([]);
      expect(readdirSync(join(skillsDir, "replaced")).sort()).toEqual(["SKILL.md", "scripts"]);
    },
  );

  it("counts a missing folder as removed", () => {
    const skillsDir = temporaryFolder();
    expect(applyFolderChange({ skillsDir, items: [], remove: ["a"], isDurable: false })).toEqual([]);
  });
});

describe("a read-only apply", () => {
  it("removes write permission from files and folders, which an ordinary user can replace and remove", async () => {
    const folder = ordinaryFolder();
    const { skillsDir, application } = scene(folder);
    ordinaryFolder(folder);
    const put = { ...application, isReadOnly: true };
    expect((await runApply({ application: put }, { isOrdinary: true })).paths).toHaveLength(3);
    const modes = ["second", "second/a.txt", "replaced/scripts", "written", "written/SKILL.md"].map(
      (path) => statSync(join(skillsDir, path)).mode & 0o222,
    );
    expect(modes).toEqual([0, 0, 0, 0, 0]);
    const again = { ...put, remove: ["kept"], replaceable: ["written", "replaced", "second"] };
    expect((await runApply({ application: again }, { isOrdinary: true })).paths).toHaveLength(3);
    const failing = { ...again, items: [...again.items, { name: "x", source: "ref", folder: "/nowhere" } as const] };
    expect((await runApply({ application: failing }, { isOrdinary: true })).error?.skillName).toBe("x");
    const remove = ["written", "replaced", "second"];
    await runApply({ application: { skillsDir, items: [], remove, isDurable: false } }, { isOrdinary: true });
    expect(readdirSync(skillsDir)).toEqual([]);
  });
});

describe("an apply whose process is killed", () => {
  const KILLS = [
    { call: "chmodSync", count: 1, isNew: false },
    { call: "chmodSync", count: 3, isNew: false },
    ...[1, 2, 3, 4, 5, 6].map((count) => ({ call: "renameSync", count, isNew: false }) as const),
    { call: "rmSync", count: 1, isNew: true },
  ] as const;

  it("[N-19] is completely reverted, or completely done, at every step", async () => {
    const outcomes = await Promise.all(
      sampleRows(KILLS, 5).map(async ({ call, count, isNew }) => {
        const { skillsDir, application } = scene();
        const before = readTreeFiles(skillsDir);
        const { signal } = await runApply({ application, killBefore: { call, count } });
        const left = readdirSync(skillsDir).filter((name) => name.startsWith(".skillet-"));
        await runApply({ mend: skillsDir });
        const wanted = isNew ? readTreeFiles(newScene()) : before;
        return { signal, left: left.length, after: readTreeFiles(skillsDir), wanted, names: readdirSync(skillsDir) };
      }),
    );
    for (const { signal, left, after, wanted, names } of outcomes) {
      expect([signal, left]).toEqual(["SIGKILL", 1]);
      expect(after).toEqual(wanted);
      expect(names.filter((name) => name.startsWith("."))).toEqual([]);
    }
  });

  it("[N-19] is repaired by the next one", async () => {
    const { skillsDir, application } = scene();
    expect((await runApply({ application, killBefore: { call: "renameSync", count: 4 } })).signal).toBe("SIGKILL");
    applyFolderChange(application);
    expect(readTreeFiles(skillsDir)).toEqual(readTreeFiles(newScene()));
  });

  it("[N-19] recognizes its files also when the disk has another number since", async () => {
    const { skillsDir, application } = scene();
    await runApply({ application, killBefore: { call: "renameSync", count: 5 } });
    const [staging = ""] = readdirSync(skillsDir).filter((name) => name.startsWith(".skillet-"));
    const { put } = JSON.parse(readFileSync(join(skillsDir, staging, "journal"), "utf8"));
    const { dev } = statSync(skillsDir, { bigint: true });
    for (const mark of Object.values<string>(put)) expect(mark.split(":")).not.toContain(String(dev));
  });

  it("keeps the permissions of a read-only folder that was restored", async () => {
    const { skillsDir, application } = scene();
    chmodSync(join(skillsDir, "replaced"), 0o555);
    await runApply({ application, killBefore: { call: "renameSync", count: 5 } });
    recoverFolder(skillsDir);
    expect(statSync(join(skillsDir, "replaced")).mode & 0o777).toBe(0o555);
    chmodSync(join(skillsDir, "replaced"), 0o755);
  });

  it("keeps files that were added since, and restores the former ones", async () => {
    const { skillsDir, application } = scene();
    await runApply({ application, killBefore: { call: "renameSync", count: 3 } });
    writeFiles(skillsDir, { "removed/SKILL.md": "theirs" });
    recoverFolder(skillsDir);
    const [staging = ""] = readdirSync(skillsDir).filter((name) => name.startsWith(".skillet-"));
    expect(readFileSync(join(skillsDir, "removed/SKILL.md"), "utf8")).toBe("theirs");
    expect(readFileSync(join(skillsDir, staging, "old/removed/SKILL.md"), "utf8")).toBe(skillText("removed"));
    expect(readFileSync(join(skillsDir, "replaced/old.txt"), "utf8")).toBe("old");
  });

  it("[Q-08] keeps the permissions of a folder called constructor when the journal is gone", () => {
    const skillsDir = temporaryFolder({ [`.skillet-${randomUUID()}/old/constructor/SKILL.md`]: "theirs" });
    recoverFolder(skillsDir);
    expect(statSync(join(skillsDir, "constructor")).mode & 0o700).toBe(0o700);
  });

  it("is not searched behind links, nor in similar folders", () => {
    const [one, two] = [randomUUID(), randomUUID()].sort();
    const skillsDir = temporaryFolder({ ".skillet-backup/a": "theirs", [`.skillet-${two}`]: "theirs" });
    const elsewhere = temporaryFolder({ "old/a/SKILL.md": "theirs" });
    symlinkSync(elsewhere, join(skillsDir, `.skillet-${one}`));
    recoverFolder(skillsDir);
    expect(readdirSync(skillsDir).sort()).toEqual([".skillet-backup", `.skillet-${one}`, `.skillet-${two}`].sort());
    expect(readTreeFiles(elsewhere)).toEqual({ "old/a/SKILL.md": "theirs" });
  });

  it("[Q-12] restores nothing from behind links in a folder with a name like its own", () => {
    const name = `.skillet-${randomUUID()}`;
    const skillsDir = temporaryFolder({ [`${name}/readme`]: "A workspace can come with it." });
    const elsewhere = temporaryFolder({ id_rsa: "theirs" });
    symlinkSync(elsewhere, join(skillsDir, name, "old"));
    recoverFolder(skillsDir);
    expect(readdirSync(skillsDir)).toEqual([]);
    expect(readTreeFiles(elsewhere)).toEqual({ id_rsa: "theirs" });
  });

  function newScene(): string {
    const { skillsDir, application } = scene();
    applyFolderChange(application);
    return skillsDir;
  }
});

describe("two concurrent applies", () => {
  it("wait for each other, and both are complete", async () => {
    const skillsDir = join(temporaryFolder(), "skills");
    const writer = (by: string): FolderChange => ({
      skillsDir,
      items: ["a", "b", "c"].map((name) => ({ name, source: "inline", skillMd: `${name} by ${by}` })),
      replaceable: ["a", "b", "c"],
      isDurable: false,
    });
    const own = (by: string): FolderChange => ({ ...writer(by), items: [{ name: by, source: "inline", skillMd: by }] });
    const names = ["one", "two", "three"];
    const all = await Promise.all(
      names.flatMap((by) => [runApply({ application: writer(by) }), runApply({ application: own(by) })]),
    );
    expect(all.map(({ error }) => error)).toEqual(Array(6).fill(undefined));
    const files = readTreeFiles(skillsDir);
    expect(names).toContain(files["a/SKILL.md"]?.replace("a by ", ""));
    expect(files["b/SKILL.md"]).toBe(files["a/SKILL.md"]?.replace("a", "b"));
    expect(files["c/SKILL.md"]).toBe(files["a/SKILL.md"]?.replace("a", "c"));
    expect(readdirSync(skillsDir).sort()).toEqual(["a", "b", "c", "one", "three", "two"]);
  });

  it("are an error for the second when both have a skill with the same name", async () => {
    const skillsDir = join(temporaryFolder(), "skills");
    mkdirSync(skillsDir);
    const application: FolderChange = {
      skillsDir,
      items: [{ name: "a", source: "inline", skillMd: "x" }],
      isDurable: true,
    };
    const all = await Promise.all([runApply({ application }), runApply({ application })]);
    expect(all.filter(({ error }) => error === undefined)).toHaveLength(1);
    expect(all.find(({ error }) => error)?.error?.message).toContain('a folder called "a" already exists');
  });
});
