import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { planAddition } from "../../src/remote/add.ts";
import type { PlannedAddition } from "../../src/remote/apply-additions.ts";
import { findCandidate, prepareCandidate } from "../../src/remote/candidate.ts";
import { createProvenance, fetchListing, getLockedAddress } from "../../src/remote/fetch-source.ts";
import {
  applySkillsDirChanges,
  listUnlocked,
  readLockedSkills,
  resolveSkillsDir,
  withStagingFolder,
} from "../../src/remote/skills-dir.ts";
import { refetchSkills } from "../../src/remote/update.ts";
import type { Environment } from "../../src/skill/source/locations.ts";
import { createBlobCache } from "../../src/store/lock-approval.ts";
import { formatLockSource } from "../../src/store/lock-diff.ts";
import { lockIn } from "../store/lock/scene.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { readTreeFiles } from "./clients/scene.ts";

interface Scene {
  root: string;
  around: Environment;
  skillsDir: string;
  /** Adds the skill `x` of a folder with this name, and returns the outcome. */
  add(
    source: string,
    more?: { isForced?: boolean; conflicts?: "mine" | "theirs"; isProject?: boolean },
  ): Promise<PlannedAddition>;
}

function scene(): Scene {
  const root = realpathSync(temporaryFolder());
  const around = {
    workspace: join(root, "project"),
    home: join(root, "home"),
    skilletHome: join(root, "home/.skillet"),
    env: {},
  };
  writeFiles(root, {
    "project/.keep": "",
    "a/x/SKILL.md": skillText("x", { body: "from a" }),
    "b/x/SKILL.md": skillText("x", { body: "from b" }),
  });
  return {
    ...{ root, around, skillsDir: join(around.skilletHome, "installed") },
    async add(source, { isForced = false, conflicts, isProject = false } = {}) {
      const skillsDir = resolveSkillsDir(around, isProject);
      return withStagingFolder(around.skilletHome, async (work) => {
        const supply = await fetchListing({ kind: "folder", path: join(root, source) }, work, { env: {} });
        const prepared = await prepareCandidate(
          findCandidate("x", supply.listing),
          supply.fetched,
          join(work, "skills/x"),
        );
        const provenance = createProvenance(supply.fetched, prepared.path, { skillsDir, environment: around });
        const originals = createBlobCache(around.skilletHome);
        const locked = readLockedSkills(skillsDir);
        const planned = await planAddition({
          prepared,
          provenance,
          skillsDir,
          locked,
          originals,
          work: join(work, "merged"),
          isForced,
          conflicts,
        });
        if ("put" in planned) applySkillsDirChanges({ skillsDir, put: [planned.put], skilletHome: around.skilletHome });
        return planned;
      });
    },
  };
}

describe("[S-33] adding a skill", () => {
  it("writes it into the folder of added skills, with its origin", async () => {
    const one = scene();
    expect((await one.add("a")).is).toBe("new");
    expect(readTreeFiles(one.skillsDir)["x/SKILL.md"]).toContain("from a");
    expect(lockIn(one.skillsDir)?.["x"]).toMatchObject({
      source: join(one.root, "a"),
      path: "x",
      grants: ["instructions"],
    });
    expect((await one.add("a")).is).toBe("same");
    expect(readdirSync(join(one.around.skilletHome, "staging")), "nothing of the work remains").toEqual([]);
  });

  it.each(["X", "x.", "x "])("is refused next to %j, which is the same folder on some disks", async (other) => {
    const one = scene();
    writeFiles(one.skillsDir, { [`${other}/SKILL.md`]: "" });
    await expect(one.add("a")).rejects.toMatchObject({
      code: "unmanaged-path",
      message: `"x" and ${JSON.stringify(other)}, which is in ~/.skillet/installed, are the same folder on some disks`,
      fix: "move the other one away",
    });
  });

  it("is the same skill by its folder's path or its parent's, and another one in an archive", async () => {
    for (const isProject of [false, true]) {
      const one = scene();
      writeFiles(one.root, { "project/vendor/x/SKILL.md": skillText("x") });
      expect((await one.add("project/vendor/x", { isProject })).is).toBe("new");
      expect((await one.add("project/vendor", { isProject })).is).toBe("same");
    }
    const said = (source: string, path?: string) =>
      formatLockSource({ source, ...(path === undefined ? {} : { path }) });
    expect(said("/a//b", "x")).toBe(said("/a/b/x"));
    expect(said("./", "x")).toBe(said("./x"));
    expect(said("/a.zip/", "x")).toBe(said("/a.zip/x"));
    expect(said("/a.zip", "x")).toBe("/a.zip//x");
    expect(said("/a.zip//b", "x")).toBe("/a.zip//b/x");
    expect(said("https://example.com/r", "x")).toBe("https://example.com/r//x");
  });

  it("is an update if it exists from the same source", async () => {
    const one = scene();
    await one.add("a");
    writeFileSync(join(one.root, "a/x/SKILL.md"), skillText("x", { body: "newer" }));
    expect((await one.add("a")).is).toBe("update");
    expect(readTreeFiles(one.skillsDir)["x/SKILL.md"]).toContain("newer");
  });

  it("is refused if it exists from another source, unless that may be replaced", async () => {
    const one = scene();
    await one.add("a");
    const before = readTreeFiles(one.skillsDir);
    await expect(one.add("b")).rejects.toMatchObject({
      code: "other-source",
      message: expect.stringMatching(/\/a\/x, but this one is from .*\/b\/x$/),
    });
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
    const forced = await one.add("b", { isForced: true });
    expect(forced.is).toBe("update");
    expect(readTreeFiles(one.skillsDir)["x/SKILL.md"]).toContain("from b");
    expect(lockIn(one.skillsDir)?.["x"]?.source).toBe(join(one.root, "b"));
  });

  it("never deletes local edits for a skill of another source", async () => {
    const one = scene();
    await one.add("a");
    appendFileSync(join(one.skillsDir, "x/SKILL.md"), "mine\n");
    const before = readTreeFiles(one.skillsDir);
    await expect(one.add("b", { isForced: true })).rejects.toMatchObject({ code: "edited" });
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it.each<[string, (path: string) => void]>([
    ["a skill", (path) => writeFiles(path, { "SKILL.md": "mine" })],
    ["a file", (path) => writeFileSync(path, "mine")],
    ["a link", (path) => symlinkSync("/nowhere", path)],
  ])("[Q-12] is refused over %s that exists and was not added", async (_, put) => {
    const one = scene();
    writeFiles(one.skillsDir, { ".keep": "" });
    put(join(one.skillsDir, "x"));
    const before = readTreeFiles(one.skillsDir);
    for (const isForced of [false, true]) {
      await expect(one.add("a", { isForced })).rejects.toMatchObject({ code: "unmanaged-path" });
    }
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("records a workspace folder by its relative path, so that others find it, and finds it again", async () => {
    const one = scene();
    writeFiles(one.around.workspace, { "vendor/x/SKILL.md": skillText("x") });
    await one.add("project/vendor", { isProject: true });
    const [entry] = Object.entries(lockIn(join(one.around.workspace, ".agents/skills")) ?? {});
    expect(entry?.[1]).toMatchObject({ source: "./vendor", path: "x" });
    expect(entry && getLockedAddress(entry[1], one.around)).toEqual({
      kind: "folder",
      path: join(one.around.workspace, "vendor"),
    });
    const skillsDir = resolveSkillsDir(one.around, true);
    const archive = { kind: "archive", location: join(one.around.workspace, "v.zip"), inside: "x" } as const;
    const { source } = createProvenance({ address: archive }, "", { skillsDir, environment: one.around });
    expect(source).toBe("./v.zip//x");
    expect(getLockedAddress({ source, digest: "", files: {}, grants: [] }, one.around)).toEqual(archive);
  });

  it("reports other files of the source to the caller", async () => {
    const one = scene();
    await one.add("a");
    writeFiles(one.skillsDir, { "crept/SKILL.md": "", "flat.md": "", "notes.txt": "", ".hidden/SKILL.md": "" });
    const skillsDir = resolveSkillsDir(one.around, false);
    expect(listUnlocked(skillsDir, new Set(["x"]))).toEqual(["crept", "flat.md"]);
    expect(listUnlocked({ ...skillsDir, folder: join(one.skillsDir, "flat.md") }, new Set())).toEqual([]);
  });
});

describe("finding an added skill in its source", () => {
  const found = async (one: Scene) => {
    const work = temporaryFolder();
    const entries = Object.entries(lockIn(one.skillsDir) ?? {});
    return (await refetchSkills(entries, { environment: one.around, work, env: {} })).get("x");
  };

  it("finds it at its former path", async () => {
    const one = scene();
    await one.add("a");
    expect(await found(one)).toMatchObject({ prepared: { name: "x", path: "x" } });
  });

  it.each<[string, (source: string) => void, RegExp]>([
    ["it no longer exists", (at) => rmSync(join(at, "x/SKILL.md")), /no longer has a skill "x" at x/],
    [
      "it has another name",
      (at) => writeFileSync(join(at, "x/SKILL.md"), skillText("renamed")),
      /^Skill "x" is now named "renamed" in its source$/,
    ],
    [
      "it no longer loads",
      (at) => writeFileSync(join(at, "x/SKILL.md"), "---\nname: [\n---\n"),
      /no longer has a skill "x" at x/,
    ],
    ["the source is gone", (at) => rmSync(at, { recursive: true }), /./],
  ])("reports that %s, and the added skill stays", async (_, change, why) => {
    const one = scene();
    await one.add("a");
    writeFiles(join(one.root, "a"), { "other/SKILL.md": skillText("other") });
    const before = readTreeFiles(one.skillsDir);
    change(join(one.root, "a"));
    expect(await found(one)).toMatchObject({ error: { message: expect.stringMatching(why) } });
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("reports its new path after a move", async () => {
    const one = scene();
    await one.add("a");
    writeFiles(join(one.root, "a"), { "moved/x/SKILL.md": skillText("x") });
    rmSync(join(one.root, "a/x"), { recursive: true });
    expect(await found(one)).toMatchObject({
      error: { code: "source-skill-missing", message: 'Skill "x" is now at moved/x in its source' },
    });
    rmSync(join(one.root, "a/moved"), { recursive: true });
    writeFiles(join(one.root, "a"), { "SKILL.md": skillText("x") });
    expect(await found(one)).toMatchObject({
      error: {
        message: 'Skill "x" is now the root of its source',
        fix: "remove it and add the current version",
        commands: [`skillet add ${one.root}/a x`],
      },
    });
  });
});

describe("the temporary folder", () => {
  it("is private to the user, and removed afterwards, also after a failure", async () => {
    const home = temporaryFolder();
    const seen = await withStagingFolder(home, async (folder) => {
      writeFiles(folder, { "a/b": "" });
      return folder;
    });
    expect(existsSync(seen)).toBe(false);
    await expect(withStagingFolder(home, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(readdirSync(join(home, "staging"))).toEqual([]);
  });

  it("removes leftovers of processes that ended, but not of active ones, nor anything else", async () => {
    const home = temporaryFolder();
    const staging = pathToFileURL(moduleOf("remote/skills-dir")).href;
    const killed = `import { withStagingFolder } from ${JSON.stringify(staging)}; await withStagingFolder(${JSON.stringify(home)}, async () => process.kill(process.pid, "SIGKILL"));`;
    spawnSync(process.execPath, ["--input-type=module", "-e", killed]);
    const all = join(home, "staging");
    expect(readdirSync(all)).toHaveLength(1);
    writeFiles(all, { "site/index.html": "foreign", "00000000-0000-0000-0000-000000000000/just-made": "" });
    utimesSync(join(all, "site"), 0, 0);
    await withStagingFolder(home, async (folder) => {
      await withStagingFolder(home, async () => {});
      expect(existsSync(folder)).toBe(true);
    });
    expect(readdirSync(all).sort()).toEqual(["00000000-0000-0000-0000-000000000000", "site"]);
  });

  it("reports that it cannot be created", async () => {
    const home = temporaryFolder({ staging: "a file" });
    await expect(withStagingFolder(home, async () => {})).rejects.toMatchObject({ code: "unwritable" });
  });
});
