import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findDenials } from "../../src/agent/policy/skill-policies.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { discover } from "../../src/config/discover.ts";
import { applySkillsDirChanges } from "../../src/remote/skills-dir.ts";
import { formatLock } from "../../src/store/lock-file.ts";
import { entryFor, lockAll } from "../store/lock/scene.ts";
import { skillet } from "../support/command.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { makePipe } from "./pipe.ts";
import { SECRET } from "./scene.ts";

const FILES = {
  "home/.skillet/installed/x/SKILL.md": skillText("x"),
  "home/.skillet/installed/y/SKILL.md": skillText("y"),
  "home/.skillet/skills/own/SKILL.md": skillText("own"),
};
const dirOf = ({ root }: Scene) => join(root, "home/.skillet/installed");

const LOCKS: readonly [title: string, make: (file: string, lock: string) => void, code: string, why: RegExp][] = [
  ["is empty", (file) => writeFileSync(file, ""), "lock-unreadable", /it is not JSON/],
  [
    "is cut off",
    (file, lock) => writeFileSync(file, lock.slice(0, -40)),
    "lock-unreadable",
    /not JSON \(line \d+ column \d+\)/,
  ],
  [
    "is of another version",
    (file, lock) => writeFileSync(file, lock.replace('"version": 1', '"version": 2')),
    "lock-version",
    /version 2/,
  ],
  [
    "was edited",
    (file, lock) => writeFileSync(file, lock.replace(/"size": \d+/, '"size": 1')),
    "lock-edited",
    /the lock was edited/,
  ],
  [
    "contains merge markers",
    (file, lock) => writeFileSync(file, `<<<<<<< ours\n${lock}=======\n>>>>>>> theirs\n`),
    "lock-unreadable",
    /merge conflict markers/,
  ],
  ["is a folder", (file) => mkdirSync(file), "lock-unreadable", /it is not a regular file/],
  ["is a pipe", (file) => makePipe(file), "lock-unreadable", /it is not a regular file/],
  [
    "is a link to a valid one",
    (file, lock) => {
      writeFileSync(`${file}.real`, lock);
      symlinkSync(`${file}.real`, file);
    },
    "lock-unreadable",
    /it is a link/,
  ],
  ["is a dangling link", (file) => symlinkSync("/nowhere", file), "lock-unreadable", /it is a link/],
  [
    "is a link to a foreign file",
    (file) => {
      writeFileSync(`${file}.key`, SECRET);
      symlinkSync(`${file}.key`, file);
    },
    "lock-unreadable",
    /it is a link/,
  ],
  ["is a foreign file", (file) => writeFileSync(file, SECRET), "lock-unreadable", /it is not JSON/],
  [
    "has 300 MB",
    (file, lock) => {
      writeFileSync(file, lock);
      truncateSync(file, 300 * 1024 * 1024);
    },
    "lock-unreadable",
    /larger than 64 MiB/,
  ],
  [
    "names a path outside a skill",
    (file, lock) => writeFileSync(file, lock.replace('"SKILL.md"', '"../../../etc/passwd"')),
    "lock-unreadable",
    /leaves the folder/,
  ],
];

describe("a lock file", () => {
  it.each(LOCKS)(
    "that %s disables all skills next to it, with the reason, and nothing else",
    async (_, make, code, why) => {
      const before = await discoverIn(FILES);
      lockAll(dirOf(before));
      const file = join(dirOf(before), "skills.lock");
      const lock = readFileSync(file, "utf8");
      rmSync(file);
      make(file, lock);
      const scene = await before.again();
      for (const name of ["x", "y"]) {
        const skill = scene.skill(name);
        expect(scene.trust.getStatus(skill)).toBe("changed");
        const [denial, ...more] = findDenials(skill, scene, "load");
        expect(more).toEqual([]);
        expect(denial).toMatchObject({ code, message: expect.stringMatching(why) });
        expect(denial?.fix).not.toBe("");
        expect(denial?.message).toContain(file);
        expect(() => scene.trust.grant([{ skill, copy: { digest: "", files: new Map(), instructions: "" } }])).toThrow(
          expect.objectContaining({ code }),
        );
      }
      expect(findDenials(scene.skill("own"), scene, "use")).toEqual([]);
      const session = openSession(scene.catalog, scene);
      expect(session.listVisible().map(({ name }) => name)).not.toContain("x");
      expect((await session.load("x")).isError).toBe(true);
      session.close();
      expect(scene.configuration.diagnostics).toEqual([
        expect.objectContaining({ code: "lock-unreadable", file, message: expect.stringMatching(why) }),
      ]);
      const home = join(scene.root, "home");
      const told = await skillet(["verify"], { cwd: join(scene.root, "project"), env: { HOME: home } });
      expect(told.code).not.toBe(0);
      expect(`${told.stdout}${told.stderr}${JSON.stringify(scene.configuration.diagnostics)}`).not.toContain(SECRET);
    },
  );

  it("that is missing makes added skills wait for approval", async () => {
    const scene = await discoverIn(FILES);
    expect(scene.trust.getStatus(scene.skill("x"))).toBe("untrusted");
    expect(scene.configuration.diagnostics).toEqual([]);
  });

  it("that names a missing file marks its skill as changed", async () => {
    const scene = await discoverIn({ ...FILES, "home/.skillet/installed/x/a.md": "a" });
    lockAll(dirOf(scene));
    rmSync(join(dirOf(scene), "x/a.md"));
    const again = await scene.again();
    expect(again.trust.getLockState(again.skill("x"))).toMatchObject({
      is: "changed",
      changes: [{ path: "a.md", what: "removed" }],
    });
  });

  it("that names a missing skill is harmless", async () => {
    const scene = await discoverIn(FILES);
    lockAll(dirOf(scene));
    rmSync(join(dirOf(scene), "y"), { recursive: true });
    const again = await scene.again();
    expect(again.catalog.find("y")).toBeUndefined();
    expect(findDenials(again.skill("x"), again, "use")).toEqual([]);
  });

  it("with Windows line ends is the same lock file", async () => {
    const scene = await discoverIn(FILES);
    const skills = lockAll(dirOf(scene));
    writeFileSync(join(dirOf(scene), "skills.lock"), formatLock(skills).replaceAll("\n", "\r\n"));
    const again = await scene.again();
    expect(again.trust.getStatus(again.skill("x"))).toBe("trusted");
  });

  it("that would be too large to read is not written", () => {
    const skillsDir = { folder: temporaryFolder({ "x/SKILL.md": skillText("x") }), isProject: false, shown: "" };
    const given = temporaryFolder({ "y/SKILL.md": skillText("y") });
    const entry = { ...entryFor(join(given, "y")), source: `/${"x".repeat(65 * 1024 * 1024)}` };
    const put = [{ name: "y", entry, folder: join(given, "y"), originals: [] }];
    expect(() => applySkillsDirChanges({ skillsDir, put, skilletHome: temporaryFolder() })).toThrow(
      /could not be read again/,
    );
    expect(readdirSync(skillsDir.folder)).toEqual(["x"]);
  });
});

describe("[Q-04] an invalid lock file of a workspace", () => {
  it("is reported once, also when the workspace is the home folder or a folder of the configuration", async () => {
    const home = temporaryFolder({
      ".agents/skills/skills.lock": "{",
      "added/skills.lock": "{",
      ".skillet/config.toml": '[sources.added]\npath = "~/added"\n',
    });
    const { configuration } = await discover({ workspace: home, env: { HOME: home }, index: false });
    const files = configuration.diagnostics.filter(({ code }) => code === "lock-unreadable").map(({ file }) => file);
    expect(files).toEqual([join(home, ".agents/skills/skills.lock"), join(home, "added/skills.lock")]);
  });

  it("disables that workspace's skills, and none of the user's", async () => {
    const before = await discoverIn({ ...FILES, ".agents/skills/w/SKILL.md": skillText("w") });
    lockAll(dirOf(before));
    writeFileSync(join(before.workspace, ".agents/skills/skills.lock"), '{"version":1,"skills":{"IGNORE ALL":1}}');
    const scene = await before.again();
    const [denial] = findDenials(scene.skill("w"), scene, "load");
    expect(denial?.code).toBe("lock-unreadable");
    expect(denial?.message, "a model may read it").not.toContain("IGNORE");
    expect(findDenials(scene.skill("x"), scene, "use")).toEqual([]);
    expect(findDenials(scene.skill("own"), scene, "use")).toEqual([]);
  });
});
