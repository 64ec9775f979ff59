import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findDenials } from "../../src/agent/policy/skill-policies.ts";
import { requireSecretOwner } from "../../src/agent/policy/trust-policy.ts";
import { applySkillsDirChanges, digestInstalled } from "../../src/remote/skills-dir.ts";
import { formatLock } from "../../src/store/lock-file.ts";
import { putOf } from "../remote/changing.ts";
import { lockIn } from "../store/lock/scene.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const KEY = { "home/.skillet/config.toml": '[skills.x]\nKEY = "hunter2-hunter2"\n' };
const dirOf = ({ root }: Scene) => join(root, "home/.skillet/installed");
const codes = (scene: Scene) => findDenials(scene.skill("x"), scene, "use").map(({ code }) => code);

/** Replaces the skill `x` with one from this source. */
async function add(scene: Scene, source: string, path?: string): Promise<void> {
  const given = temporaryFolder({ "x/SKILL.md": skillText("x", { more: "env: [KEY]\n" }) });
  const before = digestInstalled(join(dirOf(scene), "x"));
  const put = await putOf("x", join(given, "x"), { source, ...(path === undefined ? {} : { path }) }, before);
  applySkillsDirChanges({
    skillsDir: { folder: dirOf(scene), isProject: false, shown: "" },
    put: [put],
    skilletHome: scene.home,
  });
}

function remove(scene: Scene): void {
  const x = digestInstalled(join(dirOf(scene), "x"));
  applySkillsDirChanges({
    skillsDir: { folder: dirOf(scene), isProject: false, shown: "" },
    remove: { x },
    skilletHome: scene.home,
  });
}

/** Adds `x` from `A` and grants it its values. */
async function used(): Promise<Scene> {
  const scene = await discoverIn({ ...KEY, "home/readme": "" });
  await add(scene, "https://example.com/a.git", "skills/x");
  const first = await scene.again();
  first.grants.grant(first.skill("x"));
  expect(codes(first)).toEqual([]);
  requireSecretOwner(first.skill("x"), first);
  return first;
}

const OTHERS: [title: string, source: string, path?: string][] = [
  ["another source", "https://example.com/b.git", "skills/x"],
  ["another folder of the same source", "https://example.com/a.git", "other/x"],
  ["the source itself", "https://example.com/a.git"],
];

describe("[Q-03] values of an added skill", () => {
  it.each(OTHERS)(
    "are not given to a skill from %s that replaces it, and return to the first one",
    async (_, source, path) => {
      const scene = await used();
      remove(scene);
      await add(scene, source, path);
      const other = await scene.again();
      expect(codes(other)).toEqual(["secret-other-source"]);
      expect(() => requireSecretOwner(other.skill("x"), other)).toThrow(
        expect.objectContaining({ code: "secret-other-source" }),
      );
      const [denial] = findDenials(other.skill("x"), other, "use");
      expect(denial?.message).toContain("https://example.com/a.git//skills/x");
      expect(denial?.message).not.toContain("hunter2");
      remove(other);
      await add(other, "https://example.com/a.git", "skills/x");
      const back = await other.again();
      expect(codes(back)).toEqual([]);
      requireSecretOwner(back.skill("x"), back);
    },
  );

  it.each(OTHERS)("are not given to a skill from %s that was put in its folder", async (_, source, path) => {
    const scene = await used();
    await add(scene, source, path);
    const other = await scene.again();
    expect(codes(other)).toEqual(["secret-other-source"]);
    other.grants.grant(other.skill("x"));
    expect(codes(other), "until the user confirms it").toEqual([]);
  });

  it("are not given to a skill that was put there without a lock", async () => {
    const scene = await used();
    rmSync(join(dirOf(scene), "skills.lock"));
    const other = await scene.again();
    expect(codes(other)).toEqual(["untrusted", "secret-other-source"]);
  });

  it("stay with the skill when it is updated, from any ref", async () => {
    const scene = await used();
    const lock = lockIn(dirOf(scene)) ?? {};
    const x = { ...(lock["x"] as NonNullable<(typeof lock)["x"]>), ref: "v2", commit: "abc" };
    writeFileSync(join(dirOf(scene), "skills.lock"), formatLock({ ...lock, x }));
    expect(codes(await scene.again())).toEqual([]);
  });

  it("of a skill that was copied by hand are not given to an added one in its folder", async () => {
    const scene = await discoverIn({
      ...KEY,
      "home/.skillet/installed/x/SKILL.md": skillText("x", { more: "env: [KEY]\n" }),
    });
    scene.grants.grant(scene.skill("x"));
    rmSync(join(dirOf(scene), "x"), { recursive: true });
    await add(scene, "https://example.com/a.git");
    expect(codes(await scene.again())).toEqual(["secret-other-source"]);
  });

  it("include other settings of the skill than values", async () => {
    const scene = await discoverIn({
      "home/.skillet/config.toml": '[skills.x]\nworkspace = "read-write"\n',
      "home/readme": "",
    });
    await add(scene, "/a");
    const first = await scene.again();
    first.grants.grant(first.skill("x"));
    requireSecretOwner(first.skill("x"), first);
    await add(scene, "/b");
    const other = await scene.again();
    expect(codes(other)).toContain("secret-other-source");
  });
});
