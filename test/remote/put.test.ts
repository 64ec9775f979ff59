import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { applySkillsDirChanges, digestInstalled, verifySkill } from "../../src/remote/skills-dir.ts";
import { applyFolderChange, recoverFolder } from "../../src/store/atomic-folder.ts";
import { createBlobCache } from "../../src/store/lock-approval.ts";
import { lockAll, lockIn } from "../store/lock/scene.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { sampleSteps } from "../support/sample-steps.ts";
import { type Orders, putOf, runChange } from "./changing.ts";
import { catchThrown, ordinaryFolder, readTreeFiles } from "./clients/scene.ts";

const OTHER_DISK = ["/dev/shm", "/var/tmp"].find(
  (path) => existsSync(path) && statSync(path).dev !== statSync(tmpdir()).dev,
);

interface Scene {
  root: string;
  skillsDir: string;
  home: string;
  dir: { folder: string; isProject: boolean; shown: string };
  /** `x` is replaced, `z` is removed, `y` is added, and `kept` stays. */
  orders: Orders;
}

function scene(root = realpathSync(temporaryFolder())): Scene {
  const [skillsDir, home] = [join(root, "home/installed"), join(root, "home")];
  writeFiles(root, {
    "home/installed/x/SKILL.md": skillText("x", { body: "old" }),
    "home/installed/x/old.txt": "old",
    "home/installed/z/SKILL.md": skillText("z"),
    "home/installed/kept/SKILL.md": skillText("kept"),
    "given/x/SKILL.md": skillText("x", { body: "new" }),
    "given/x/scripts/run.sh": "echo new",
    "given/y/SKILL.md": skillText("y"),
    "given/y/.dot": "dot",
  });
  chmodSync(join(root, "given/x/scripts/run.sh"), 0o755);
  lockAll(skillsDir);
  const at = (name: string) => digestInstalled(join(skillsDir, name));
  const orders: Orders = {
    ...{ skillsDir, home },
    put: { x: { folder: join(root, "given/x"), before: at("x") }, y: { folder: join(root, "given/y") } },
    remove: { z: at("z") },
  };
  return { root, skillsDir, home, dir: { folder: skillsDir, isProject: false, shown: "" }, orders };
}

/** Applies the orders in this process. */
async function carryOut({ dir, home, orders: { put = {}, remove = {} } }: Scene): Promise<void> {
  const puts = await Promise.all(
    Object.entries(put).map(async ([name, { folder, before }]) => await putOf(name, folder, {}, before)),
  );
  applySkillsDirChanges({ skillsDir: dir, put: puts, remove, skilletHome: home });
}

/** True when every skill matches the lock, and the lock lists every skill. */
function agrees({ dir, skillsDir }: Scene): boolean {
  const lock = lockIn(skillsDir) ?? {};
  const names = readdirSync(skillsDir).filter((name) => !name.includes("skills.lock") && !name.startsWith("."));
  const isEach = Object.entries(lock).every(([name, entry]) => verifySkill(dir, name, entry).is === "unchanged");
  return isEach && names.sort().join() === Object.keys(lock).sort().join();
}

describe("a change of a skills folder", () => {
  it("[Q-12] adds, replaces and removes with its lock, and leaves nothing else", async () => {
    const one = scene();
    const before = lockIn(one.skillsDir);
    await carryOut(one);
    expect(readdirSync(one.skillsDir).sort()).toEqual(["kept", "skills.lock", "x", "y"]);
    expect(readTreeFiles(join(one.skillsDir, "x"))).toEqual({
      "SKILL.md": skillText("x", { body: "new" }),
      "scripts/run.sh": "echo new",
    });
    expect(agrees(one)).toBe(true);
    expect(lockIn(one.skillsDir)?.["kept"]).toEqual(before?.["kept"]);
    expect(statSync(join(one.skillsDir, "x/scripts/run.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(join(one.skillsDir, "y/.dot")).mode & 0o777).toBe(0o644);
    expect(readdirSync(join(one.root, "given"))).toEqual([]);
    expect(readdirSync(one.root).sort()).toEqual(["given", "home"]);
    expect(readdirSync(one.home).sort()).toEqual(["installed", "originals"]);
  });

  it("keeps approvals for later, and forgets those without a use", async () => {
    const one = scene();
    await carryOut(one);
    const lock = lockIn(one.skillsDir);
    const originals = createBlobCache(one.home);
    const old = lock?.["x"]?.files ?? {};
    expect(originals.read(old)?.size).toBe(2);
    applySkillsDirChanges({
      skillsDir: one.dir,
      remove: { x: digestInstalled(join(one.skillsDir, "x")) },
      skilletHome: one.home,
    });
    expect(originals.read(old)).toBeUndefined();
    expect(originals.read(lock?.["y"]?.files ?? {})?.size).toBe(2);
  });

  it("creates the folder and its lock if they are missing", async () => {
    const { root, home } = scene();
    const folder = join(root, "project/.agents/skills");
    const dir = { folder, isProject: true, shown: "" };
    applySkillsDirChanges({ skillsDir: dir, put: [await putOf("y", join(root, "given/y"))], skilletHome: home });
    expect(Object.keys(lockIn(folder) ?? {})).toEqual(["y"]);
  });

  it.runIf(OTHER_DISK)("copies to another disk completely, with modes, as the lock says", async () => {
    const skillsDir = mkdtempSync(`${OTHER_DISK}/skillet-test-`);
    onTestFinished(() => rmSync(skillsDir, { recursive: true, force: true }));
    const { root, home } = scene();
    const given = join(root, "given/x");
    writeFiles(given, { ".hg/store": "data", ".svn/x": "", "docs/a/b.md": "b" });
    chmodSync(join(given, "docs/a/b.md"), 0o600);
    const dir = { folder: skillsDir, isProject: true, shown: "" };
    applySkillsDirChanges({ skillsDir: dir, put: [await putOf("x", given)], skilletHome: home });
    expect(verifySkill(dir, "x", lockIn(skillsDir)?.["x"] ?? (await putOf("x", given)).entry)).toEqual({
      name: "x",
      is: "unchanged",
    });
    expect(statSync(join(skillsDir, "x/scripts/run.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(join(skillsDir, "x/docs/a/b.md")).mode & 0o777).toBe(0o600);
    expect(readdirSync(skillsDir).sort()).toEqual(["skills.lock", "x"]);
  });

  it.each<[string, (one: Scene) => void]>([
    [
      "a file of the skill to replace was edited",
      ({ skillsDir }) => appendFileSync(join(skillsDir, "x/old.txt"), "mine"),
    ],
    ["a file was added to the skill to replace", ({ skillsDir }) => writeFileSync(join(skillsDir, "x/.mine"), "mine")],
    ["the skill to remove was edited", ({ skillsDir }) => appendFileSync(join(skillsDir, "z/SKILL.md"), "mine")],
    ["the folder to replace is missing", ({ skillsDir }) => rmSync(join(skillsDir, "x"), { recursive: true })],
    ["there is a folder in place of a new one", ({ skillsDir }) => writeFiles(skillsDir, { "y/SKILL.md": "mine" })],
    ["there is a link in place of a new one", ({ skillsDir }) => symlinkSync(temporaryFolder(), join(skillsDir, "y"))],
    ["the lock cannot be read", ({ skillsDir }) => writeFileSync(join(skillsDir, "skills.lock"), "{")],
    [
      "the lock is of another version",
      ({ skillsDir }) => writeFileSync(join(skillsDir, "skills.lock"), '{"version":9}'),
    ],
  ])("[Q-12] changes nothing when, since the check, %s", async (_, edit) => {
    const one = scene();
    edit(one);
    const before = readTreeFiles(one.skillsDir);
    await expect(async () => await carryOut(one)).rejects.toThrow();
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
    expect(readdirSync(one.skillsDir).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it.each<[string, (file: string) => void]>([
    ["a folder", (file) => mkdirSync(file)],
    [
      "a link to a file",
      (file) => {
        writeFileSync(`${file}.theirs`, "theirs");
        symlinkSync(`${file}.theirs`, file);
      },
    ],
    ["a link to nothing", (file) => symlinkSync(`${file}.nowhere`, file)],
  ])("[Q-12] changes nothing when %s is in place of the lock", async (_, stand) => {
    const one = scene();
    rmSync(join(one.skillsDir, "skills.lock"));
    stand(join(one.skillsDir, "skills.lock"));
    const before = readTreeFiles(one.skillsDir);
    await expect(async () => await carryOut(one)).rejects.toThrow(/skills\.lock/);
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
    expect(existsSync(join(one.skillsDir, "skills.lock.nowhere"))).toBe(false);
  });

  it("restores what is written between the last check and the move", () => {
    const one = scene();
    const before = readTreeFiles(one.skillsDir);
    const { x } = one.orders.put ?? {};
    const late = {
      name: "skills.lock",
      write: (text: string | undefined) => {
        writeFileSync(join(one.skillsDir, "x/late.txt"), "mine");
        return text ?? "";
      },
      onMoved(gone: (name: string) => string) {
        if (digestInstalled(gone("x")) !== x?.before) throw new Error("it changed");
      },
    };
    const put = [{ name: "x", source: "ref", folder: x?.folder ?? "", canMove: true } as const];
    expect(
      catchThrown(() =>
        applyFolderChange({ skillsDir: one.skillsDir, items: put, replaceable: ["x"], isDurable: true, record: late }),
      ).message,
    ).toContain("it changed");
    expect(readTreeFiles(one.skillsDir)).toEqual({ ...before, "x/late.txt": "mine" });
    expect(readdirSync(one.skillsDir).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("[Q-12] writes nothing outside when a link replaced the folder", async () => {
    const one = scene();
    const elsewhere = temporaryFolder();
    rmSync(one.skillsDir, { recursive: true });
    symlinkSync(elsewhere, one.skillsDir);
    await expect(async () => await carryOut({ ...one, orders: { ...one.orders, remove: {} } })).rejects.toThrow();
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  it("[Q-12] changes nothing in a read-only folder", async () => {
    const one = scene(realpathSync(ordinaryFolder()));
    ordinaryFolder(one.root);
    const before = readTreeFiles(one.skillsDir);
    chmodSync(one.skillsDir, 0o555);
    const { error } = await runChange(one.orders, { isOrdinary: true });
    chmodSync(one.skillsDir, 0o755);
    expect(error).toMatch(/permission denied/);
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });

  it("[Q-12] changes nothing on a full disk", async () => {
    const one = scene();
    const before = readTreeFiles(one.skillsDir);
    // The lock is larger than a file may be here: it is the one that is written last.
    const limit = "trap '' XFSZ; ulimit -f 2; exec \"$@\"";
    const { error } = await runChange(one.orders, { wrap: ["sh", "-c", limit, "sh"] });
    expect(error).toMatch(/file too large/i);
    expect(readTreeFiles(one.skillsDir)).toEqual(before);
  });
});

describe("a change whose process is killed", () => {
  it("[Q-12] is complete or absent after the repair, with the lock, at whatever step it ends", async () => {
    const whole = scene();
    const { steps = 0 } = await runChange(whole.orders);
    expect(steps).toBeGreaterThan(20);
    const wanted = readTreeFiles(whole.skillsDir);
    const outcomes: string[] = [];
    const killed = async (killAt: number) => {
      const one = scene();
      const before = readTreeFiles(one.skillsDir);
      const { signal } = await runChange({ ...one.orders, killAt });
      expect([killAt, signal]).toEqual([killAt, "SIGKILL"]);
      expect(Object.keys(lockIn(one.skillsDir) ?? {}), `step ${killAt}: it is never without its lock`).toContain(
        "kept",
      );
      rmSync(join(one.skillsDir, ".skillet.lock"), { recursive: true, force: true }); // It has no owner: others wait for that.
      recoverFolder(one.skillsDir);
      const after = readTreeFiles(one.skillsDir);
      expect([before, wanted], `step ${killAt}`).toContainEqual(after);
      expect(agrees(one), `step ${killAt}`).toBe(true);
      expect(
        readdirSync(one.skillsDir).filter((name) => name.startsWith(".")),
        `step ${killAt}`,
      ).toEqual([]);
      outcomes[killAt] = after["y/SKILL.md"] === undefined ? "old" : "new";
    };
    const sample = sampleSteps(steps, 6);
    for (let at = 0; at < sample.length; at += 3) await Promise.all(sample.slice(at, at + 3).map(killed));
    const all = sample.map((step) => outcomes[step]);
    expect(new Set(all)).toEqual(new Set(["old", "new"]));
    expect(all.indexOf("new"), "once it is done it stays done").toBe(all.lastIndexOf("old") + 1);
  }, 120_000);

  it("is repaired by the next change", async () => {
    const one = scene();
    const before = lockIn(one.skillsDir);
    await runChange({ ...one.orders, killAt: 20 });
    const next = temporaryFolder({ "n/SKILL.md": skillText("n") });
    applySkillsDirChanges({ skillsDir: one.dir, put: [await putOf("n", join(next, "n"))], skilletHome: one.home });
    expect(lockIn(one.skillsDir)).toMatchObject({ ...before, n: {} });
    expect(agrees(one)).toBe(true);
  });
});

describe("concurrent changes", () => {
  it("[Q-12] are all in the folder and in the lock", async () => {
    const { root, skillsDir, home } = scene();
    const names = ["a", "b", "c", "d"];
    for (const name of names) writeFiles(root, { [`at-once/${name}/SKILL.md`]: skillText(name) });
    const all = await Promise.all(
      names.map((name) => runChange({ skillsDir, home, put: { [name]: { folder: join(root, "at-once", name) } } })),
    );
    expect(all.map(({ error }) => error)).toEqual([undefined, undefined, undefined, undefined]);
    expect(Object.keys(lockIn(skillsDir) ?? {}).sort()).toEqual(["a", "b", "c", "d", "kept", "x", "z"]);
    expect(readdirSync(skillsDir).sort()).toEqual(["a", "b", "c", "d", "kept", "skills.lock", "x", "z"]);
  });

  it("of the same skill are one success and one report", async () => {
    const { root, skillsDir, home } = scene();
    for (const by of ["one", "two"]) writeFiles(root, { [`${by}/n/SKILL.md`]: skillText("n", { body: by }) });
    const all = await Promise.all(
      ["one", "two"].map((by) =>
        runChange({ skillsDir, home, put: { n: { folder: join(root, by, "n"), source: by } } }),
      ),
    );
    expect(all.filter(({ error }) => error === undefined)).toHaveLength(1);
    const { source } = lockIn(skillsDir)?.["n"] ?? {};
    expect(readFileSync(join(skillsDir, "n/SKILL.md"), "utf8")).toContain(source);
  });
});
