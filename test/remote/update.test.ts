import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { prepareCandidate } from "../../src/remote/candidate.ts";
import { readTree } from "../../src/remote/file-tree.ts";
import { applySkillsDirChanges, verifySkill } from "../../src/remote/skills-dir.ts";
import { planUpdate, type UpdatePlan, type UpdateRequest } from "../../src/remote/update.ts";
import { readFolderSkill } from "../../src/skill/source/read-skill.ts";
import { createApprovedEntry, createBlobCache } from "../../src/store/lock-approval.ts";
import { formatLock, LOCK_FILE, readFileTree } from "../../src/store/lock-file.ts";
import { lockIn } from "../store/lock/scene.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { putOf } from "./changing.ts";
import { readTreeFiles } from "./clients/scene.ts";

const LINES = ["one", "two", "three", "four", "five", "six", "seven"];
const BODY = LINES.join("\n\n");
const FILES = { "SKILL.md": skillText("x", { body: BODY }), "notes.md": `${LINES.join("\n")}\n`, "old.md": "old\n" };

interface Scene {
  folder: string;
  home: string;
  skillsDir: string;
  plan(files: Record<string, string>, more?: Partial<UpdateRequest>): Promise<UpdatePlan>;
  /** Plans and applies an update. */
  update(files: Record<string, string>, more?: Partial<UpdateRequest>): Promise<UpdatePlan>;
  /** The user edits a file, and approves it or not. */
  edit(path: string, text: string, isAgreed?: boolean): void;
}

/** Adds the skill `x` from its source, with these files. */
async function scene(): Promise<Scene> {
  const root = realpathSync(temporaryFolder());
  const [home, skillsDir] = [root, join(root, "installed")];
  const folder = join(skillsDir, "x");
  const dir = { folder: skillsDir, isProject: false, shown: "" };
  writeFiles(join(root, "given/x"), FILES);
  const provenance = { source: "/source", ref: "main", commit: "1" };
  applySkillsDirChanges({
    skillsDir: dir,
    put: [await putOf("x", join(root, "given/x"), provenance)],
    skilletHome: home,
  });
  let count = 0;
  const plan: Scene["plan"] = async (files, more = {}) => {
    const from = join(root, `from-${++count}`);
    writeFiles(join(from, "x"), files);
    const read = readFolderSkill(join(from, "x"), { scope: "installed", source: "installed" });
    if (!read || !("skill" in read)) throw new Error("no skill");
    const fetched = {
      folder: from,
      address: { kind: "folder", path: from },
      links: new Map(),
      refused: new Map(),
      notes: [],
    } as const;
    return await planUpdate({
      name: "x",
      entry: lockIn(skillsDir)?.["x"] ?? (await putOf("x", folder)).entry,
      skillsDir: dir,
      prepared: await prepareCandidate({ skill: read.skill, path: "x" }, fetched, join(root, `prepared-${count}`)),
      provenance: { ...provenance, commit: String(count + 1) },
      originals: createBlobCache(home),
      work: join(root, `merged-${count}`),
      ...more,
    });
  };
  return {
    ...{ folder, home, skillsDir, plan },
    async update(files, more) {
      const planned = await plan(files, more);
      if (planned.is === "update") applySkillsDirChanges({ skillsDir: dir, put: [planned.put], skilletHome: home });
      const entry = lockIn(skillsDir)?.["x"];
      if (planned.is === "update")
        expect(entry && verifySkill(dir, "x", entry)).toEqual({ name: "x", is: "unchanged" });
      return planned;
    },
    edit(path, text, isAgreed = false) {
      writeFiles(folder, { [path]: text });
      const entry = lockIn(skillsDir)?.["x"];
      if (!isAgreed || !entry) return;
      const files = readFileTree(folder);
      createBlobCache(home).store(files, (one) => readFileSync(join(folder, one)), skillsDir);
      writeFileSync(join(skillsDir, LOCK_FILE), formatLock({ x: createApprovedEntry(entry, files, entry.grants) }));
    },
  };
}

const at = (index: number, text: string) => LINES.map((line, number) => (number === index ? text : line)).join("\n");
const NEWER = { ...FILES, "notes.md": `${at(0, "ONE")}\n`, "new.md": "new\n" };

describe("an update", () => {
  it("is empty if the source is unchanged, edited locally or not", async () => {
    const one = await scene();
    expect(await one.update(FILES)).toEqual({ is: "up-to-date", isChanged: false });
    one.edit("notes.md", "mine\n", true);
    expect(await one.update(FILES)).toEqual({ is: "up-to-date", isChanged: false });
    one.edit("mine.md", "mine\n");
    expect(await one.update(FILES)).toEqual({ is: "up-to-date", isChanged: true });
    expect(readTreeFiles(one.folder)).toMatchObject({ "notes.md": "mine\n", "mine.md": "mine\n" });
  });

  it("adds new files, removes deleted ones, and reports the difference", async () => {
    const one = await scene();
    const { "old.md": _, ...files } = NEWER;
    const done = await one.update(files);
    expect(done.is).toBe("update");
    expect(readTreeFiles(one.folder)).toEqual(files);
    expect(lockIn(one.skillsDir)?.["x"]).toMatchObject({ commit: "2" });
    expect(lockIn(one.skillsDir)?.["x"]?.upstream).toBeUndefined();
    if (done.is !== "update") throw new Error("no update");
    expect([...done.difference.before.keys()].sort()).toEqual(Object.keys(FILES).sort());
    expect([...done.difference.after.keys()].sort()).toEqual(Object.keys(files).sort());
    expect(done.difference.kept).toEqual([]);
  });

  it.each([
    ["approved", true],
    ["not approved yet", false],
  ])("keeps edits that were %s: in other lines, in other files, added files, and removed ones", async (_, isAgreed) => {
    const one = await scene();
    rmSync(join(one.folder, "old.md"));
    one.edit("mine/own.md", "mine\n");
    one.edit("notes.md", `${at(6, "MINE")}\n`, isAgreed);
    const done = await one.update(NEWER);
    if (done.is !== "update") throw new Error(done.is);
    expect(done.difference.kept).toEqual(["mine/own.md", "notes.md", "old.md"]);
    const after = readTreeFiles(one.folder);
    expect(after["notes.md"]).toBe(
      `${LINES.map((line, index) => (index === 0 ? "ONE" : index === 6 ? "MINE" : line)).join("\n")}\n`,
    );
    expect(after).toMatchObject({ "mine/own.md": "mine\n", "new.md": "new\n" });
    expect(after["old.md"]).toBeUndefined();
    const entry = lockIn(one.skillsDir)?.["x"];
    expect(Object.keys(entry?.upstream?.files ?? {})).toEqual(["SKILL.md", "new.md", "notes.md", "old.md"]);
    // The base is still known, so that the next update can distinguish sides too.
    const again = await one.update({ ...NEWER, "new.md": "newer\n" });
    expect(again.is).toBe("update");
    expect(readTreeFiles(one.folder)).toEqual({ ...after, "new.md": "newer\n" });
  });

  it("keeps read permissions of files that the user added, and execute bits", async () => {
    const one = await scene();
    one.edit("secret.txt", "mine");
    one.edit("run.sh", "mine");
    chmodSync(join(one.folder, "secret.txt"), 0o600);
    chmodSync(join(one.folder, "run.sh"), 0o750);
    await one.update(NEWER);
    expect(statSync(join(one.folder, "secret.txt")).mode & 0o777).toBe(0o600);
    expect(statSync(join(one.folder, "run.sh")).mode & 0o777).toBe(0o750);
    expect(lockIn(one.skillsDir)?.["x"]?.files["run.sh"]?.mode).toBe("755");
  });

  it.each([true, false])("changes nothing on a conflict, approved: %s", async (isAgreed) => {
    const one = await scene();
    one.edit("notes.md", `${at(0, "MINE")}\n`, isAgreed);
    const before = readTreeFiles(one.skillsDir);
    const done = await one.update(NEWER);
    expect(done).toMatchObject({ is: "conflict", conflicts: [{ path: "notes.md", reason: "both-changed" }] });
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("keeps the user's side on request, or the remote one with a copy of the user's", async () => {
    for (const conflicts of ["mine", "theirs"] as const) {
      const one = await scene();
      one.edit("notes.md", `${at(0, "MINE")}\n`);
      one.edit("own.md", "mine\n");
      const done = await one.update(NEWER, { conflicts });
      if (done.is !== "update") throw new Error(done.is);
      expect(readTreeFiles(one.folder)).toMatchObject({
        "notes.md": `${at(0, conflicts === "mine" ? "MINE" : "ONE")}\n`,
        "own.md": "mine\n",
        "new.md": "new\n",
      });
      const had = done.replaced?.get("notes.md");
      expect(had && Buffer.from(had.bytes).toString()).toBe(conflicts === "mine" ? undefined : `${at(0, "MINE")}\n`);
    }
  });

  it("treats changes of both sides as a conflict when the base is unknown", async () => {
    const one = await scene();
    one.edit("notes.md", `${at(6, "MINE")}\n`);
    rmSync(join(one.home, "originals"), { recursive: true });
    const before = readTreeFiles(one.skillsDir);
    const done = await one.update(NEWER);
    expect(done).toMatchObject({
      is: "conflict",
      conflicts: [{ path: "notes.md", reason: "no-base" }],
    });
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("shows everything as new when the approved version is unknown, and it was edited since", async () => {
    const one = await scene();
    one.edit("notes.md", "EVIL\n");
    rmSync(join(one.home, "originals"), { recursive: true });
    const done = await one.plan(NEWER, { conflicts: "mine" });
    if (done.is !== "update") throw new Error(done.is);
    expect([...done.difference.before.keys()]).toEqual([]);
    expect([...done.difference.after.keys()]).toContain("notes.md");
  });

  it("of a skill whose folder is gone restores it", async () => {
    const one = await scene();
    rmSync(one.folder, { recursive: true });
    expect((await one.update(FILES)).is).toBe("update");
    expect(readTreeFiles(one.folder)).toEqual(FILES);
  });

  it("is refused when the merge is not a skill of that name, and nothing changes", async () => {
    const one = await scene();
    one.edit("SKILL.md", FILES["SKILL.md"].replace("description: Does x. Use when asked for x.\n", ""));
    const before = readTreeFiles(one.skillsDir);
    await expect(async () => await one.update(NEWER)).rejects.toThrow(
      expect.objectContaining({ code: "merge-broken" }),
    );
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it.each<[string, (folder: string) => void]>([
    ["a link", (folder) => symlinkSync("notes.md", join(folder, "link.md"))],
    ["a link in place of a folder", (folder) => symlinkSync("/etc", join(folder, "etc"))],
    [
      "a file in place of its folder",
      (folder) => {
        rmSync(folder, { recursive: true });
        writeFileSync(folder, "mine");
      },
    ],
  ])("is refused for files that cannot be kept: %s", async (_, put) => {
    const one = await scene();
    put(one.folder);
    const before = readTreeFiles(one.skillsDir);
    await expect(async () => await one.update(NEWER)).rejects.toThrow(
      expect.objectContaining({ fix: expect.stringMatching(/\S/) }),
    );
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("is refused over a link in place of its folder, which stays", async () => {
    const one = await scene();
    renameSync(one.folder, join(one.home, "moved"));
    symlinkSync(join(one.home, "moved"), one.folder);
    const before = readTreeFiles(join(one.home, "moved"));
    await expect(async () => await one.update(NEWER)).rejects.toThrow();
    expect(readTreeFiles(join(one.home, "moved"))).toEqual(before);
  });

  it("is refused when an edit happens between plan and move, and the edit stays", async () => {
    const one = await scene();
    const planned = await one.plan(NEWER);
    if (planned.is !== "update") throw new Error(planned.is);
    appendFileSync(join(one.folder, "notes.md"), "mine\n");
    const before = readTreeFiles(one.skillsDir);
    const dir = { folder: one.skillsDir, isProject: false, shown: "" };
    expect(() => applySkillsDirChanges({ skillsDir: dir, put: [planned.put], skilletHome: one.home })).toThrow(
      /changed while it was checked/,
    );
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("continues after modes that no file should have, which it does not keep", async () => {
    const one = await scene();
    one.edit("own.md", "mine\n");
    chmodSync(join(one.folder, "own.md"), 0o4666);
    expect((await one.update(NEWER)).is).toBe("update");
    expect(statSync(join(one.folder, "own.md")).mode & 0o7002).toBe(0);
    expect(readTreeFiles(one.folder)["own.md"]).toBe("mine\n");
  });

  it("follows another ref from then on, also one with the same files, and keeps edits", async () => {
    const one = await scene();
    one.edit("own.md", "mine\n");
    const done = await one.update(FILES, { provenance: { source: "/source", ref: "v2", commit: "9" } });
    expect(done.is).toBe("update");
    expect(lockIn(one.skillsDir)?.["x"]).toMatchObject({ ref: "v2", commit: "9" });
    expect(readTreeFiles(one.folder)).toEqual({ ...FILES, "own.md": "mine\n" });
  });

  it("writes only into a temporary folder while it plans", async () => {
    const one = await scene();
    one.edit("own.md", "mine\n");
    const before = readTreeFiles(one.skillsDir);
    await one.plan(NEWER);
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });
});

describe("reading a tree", () => {
  it("includes every file, dot files and node_modules too, and reports other types", () => {
    const folder = temporaryFolder({ "a/.b": "1", "node_modules/x/y": "2" });
    expect([...readTree(folder).keys()].sort()).toEqual(["a/.b", "node_modules/x/y"]);
    mkdirSync(join(folder, "empty"));
    expect(readTree(folder).size).toBe(2);
    symlinkSync("/etc/passwd", join(folder, "a/link"));
    expect(() => readTree(folder)).toThrow(
      expect.objectContaining({ code: "lock-unsupported-file", message: expect.stringContaining("it is a symlink") }),
    );
    expect(() => readTree(join(folder, "nowhere"))).toThrow(expect.objectContaining({ code: "lock-unsupported-file" }));
  });
});
