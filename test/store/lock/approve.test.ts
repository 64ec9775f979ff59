import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { withBody } from "../../../src/skill/skill.ts";
import { copySkill } from "../../../src/skill/source/skill-copy.ts";
import { createBlobCache, listLockGrants } from "../../../src/store/lock-approval.ts";
import type { LockedFiles } from "../../../src/store/lock-file.ts";
import { makePipe } from "../../bad-input/pipe.ts";
import { skillet } from "../../support/command.ts";
import { discoverIn, type Scene } from "../../support/discover.ts";
import { skillText, writeFiles } from "../../support/folder.ts";
import { defineTestSkill } from "../../support/skills.ts";
import { lockAll, lockIn } from "./scene.ts";

const FILES = { "SKILL.md": skillText("x"), "notes.md": "first\n", ".config": "a" };
const dirOf = ({ root }: Scene) => join(root, "home/.skillet/installed");
const folderOf = (scene: Scene) => join(dirOf(scene), "x");

/** Adds the skill `x`. */
async function added(): Promise<Scene> {
  const files = Object.entries(FILES).map(([path, text]) => [`home/.skillet/installed/x/${path}`, text]);
  const scene = await discoverIn(Object.fromEntries(files));
  lockAll(dirOf(scene));
  return scene;
}

/** The text that a user sees before the approval. */
async function looked(scene: Scene) {
  const skill = withBody(scene.skill("x"), await scene.skill("x").body());
  const state = scene.trust.getLockState(skill);
  return { skill, copy: await copySkill(skill), folderFiles: state.is === "changed" ? state.there : undefined };
}

const stateOf = async (scene: Scene) => {
  const again = await scene.again();
  return again.trust.getLockState(again.skill("x")).is;
};

describe("approving a changed skill", () => {
  it("updates the lock, keeps the source's version through any number of changes, and drops it when it is restored", async () => {
    const scene = await added();
    const before = lockIn(dirOf(scene))?.["x"];
    for (const text of ["second\n", "third\n"]) {
      writeFileSync(join(folderOf(scene), "notes.md"), text);
      expect(await stateOf(scene)).toBe("changed");
      const again = await scene.again();
      again.trust.grant([await looked(again)]);
      expect(again.trust.getLockState(again.skill("x")).is).toBe("unchanged");
      expect(again.trust.getStatus(again.skill("x"))).toBe("trusted");
      const entry = lockIn(dirOf(scene))?.["x"];
      expect(entry?.upstream).toEqual({ digest: before?.digest, files: before?.files });
      expect(entry?.digest).not.toBe(before?.digest);
      const kept = createBlobCache(scene.home).read(entry?.files as LockedFiles);
      expect(Buffer.from(kept?.get("notes.md")?.bytes ?? []).toString()).toBe(text);
    }
    expect(readdirSync(join(scene.home, "originals")), "the version approved in between is not kept").toHaveLength(2);
    writeFileSync(join(folderOf(scene), "notes.md"), FILES["notes.md"]);
    const back = await scene.again();
    back.trust.grant([await looked(back)]);
    expect(lockIn(dirOf(scene))?.["x"]).toEqual({ ...before });
  });

  it.each<[string, (folder: string) => void]>([
    ["a file of it", (at) => writeFileSync(join(at, "notes.md"), "evil\n")],
    ["its instructions", (at) => appendFileSync(join(at, "SKILL.md"), "\nEvil.\n")],
    ["a file that was added", (at) => writeFileSync(join(at, "evil.sh"), "evil")],
    ["a file in a folder that runs do not get", (at) => writeFileSync(join(at, ".config"), "evil")],
    ["a file that was removed", (at) => rmSync(join(at, "notes.md"))],
    ["its execute permission", (at) => chmodSync(join(at, "notes.md"), 0o755)],
    ["its set-user-ID bit", (at) => chmodSync(join(at, "notes.md"), 0o4644)],
  ])("is refused when it changed during the review: %s", async (_, change) => {
    const scene = await added();
    writeFileSync(join(folderOf(scene), "notes.md"), "second\n");
    const text = readFileSync(join(dirOf(scene), "skills.lock"), "utf8");
    const again = await scene.again();
    const seen = await looked(again);
    change(folderOf(scene));
    for (const one of [seen, { skill: seen.skill, copy: seen.copy }]) {
      expect(() => again.trust.grant([one])).toThrow(expect.objectContaining({ code: "resource-changed" }));
    }
    expect(readFileSync(join(dirOf(scene), "skills.lock"), "utf8")).toBe(text);
    expect(await stateOf(scene)).toBe("changed");
  });

  it("is refused for unreviewed parts, if a host shows only what a run uses", async () => {
    const scene = await added();
    const deep = join(folderOf(scene), "node_modules/a");
    writeFileSync(join(folderOf(scene), "notes.md"), "second\n");
    mkdirSync(deep, { recursive: true });
    writeFileSync(join(deep, "evil.js"), "evil");
    const again = await scene.again();
    const { skill, copy, folderFiles: there } = await looked(again);
    expect([...copy.files.keys()]).not.toContain("node_modules/a/evil.js");
    expect(() => again.trust.grant([{ skill, copy }])).toThrow(expect.objectContaining({ code: "resource-changed" }));
    again.trust.grant([{ skill, copy, folderFiles: there }]);
    expect(await stateOf(scene)).toBe("unchanged");
  });

  it.each<[string, (folder: string) => void, string]>([
    ["a link to one of its own files", (at) => symlinkSync("notes.md", join(at, "more.md")), '"more.md" is a link'],
    ["a link out of it", (at) => symlinkSync("/etc/hostname", join(at, "more.md")), '"more.md" is a link'],
    ["a pipe", (at) => makePipe(join(at, "pipe")), '"pipe" is not a file'],
  ])("is refused for %s", async (_, change, why) => {
    const scene = await added();
    change(folderOf(scene));
    const again = await scene.again();
    const seen = await looked(again);
    expect(() => again.trust.grant([seen])).toThrow(
      expect.objectContaining({ code: "lock-unsupported-file", message: expect.stringContaining(why) }),
    );
    expect(await stateOf(scene)).toBe("changed");
  });

  it("is refused for a link in place of its folder", async () => {
    const scene = await added();
    renameSync(folderOf(scene), join(scene.root, "elsewhere"));
    symlinkSync(join(scene.root, "elsewhere"), folderOf(scene));
    const again = await scene.again();
    expect(again.trust.getLockState(again.skill("x"))).toMatchObject({
      is: "changed",
      changes: [{ path: ".", what: "changed" }],
    });
    await expect(async () => again.trust.grant([await looked(again)])).rejects.toThrow(
      expect.objectContaining({
        code: "lock-unsupported-file",
        message: expect.stringContaining("its folder is a link"),
      }),
    );
  });

  it("is refused while the lock cannot be read, and does not change it", async () => {
    const scene = await added();
    const seen = await looked(scene);
    writeFileSync(join(dirOf(scene), "skills.lock"), "{");
    expect(() => scene.trust.grant([seen])).toThrow(expect.objectContaining({ code: "lock-unreadable" }));
    expect(readFileSync(join(dirOf(scene), "skills.lock"), "utf8")).toBe("{");
  });

  it("keeps every other skill in the lock unchanged", async () => {
    const scene = await discoverIn({
      "home/.skillet/installed/x/SKILL.md": skillText("x"),
      "home/.skillet/installed/y/SKILL.md": skillText("y"),
    });
    const before = lockAll(dirOf(scene), { source: "owner/repo", ref: "main", commit: "abc", path: "p" });
    appendFileSync(join(folderOf(scene), "SKILL.md"), "\nMore.\n");
    const again = await scene.again();
    again.trust.grant([await looked(again)]);
    const after = lockIn(dirOf(scene));
    expect(after?.["y"]).toEqual(before["y"]);
    expect(after?.["x"]).toMatchObject({ source: "owner/repo", ref: "main", commit: "abc", path: "p" });
  });

  it("on a terminal covers what was shown: files that are added during the question are not approved", async () => {
    const scene = await added();
    writeFileSync(join(folderOf(scene), "notes.md"), "second\n");
    mkdirSync(scene.workspace, { recursive: true });
    const options = { cwd: scene.workspace, env: { HOME: join(scene.root, "home") }, isTTY: true };
    const ask = async () => {
      writeFiles(folderOf(scene), { "node_modules/evil.js": "evil" });
      return "y";
    };
    const ran = await skillet(["trust", "x"], { ...options, ask });
    expect(ran.code).not.toBe(0);
    expect(`${ran.stdout}${ran.stderr}`).toContain("changed during the review");
    expect(await stateOf(scene)).toBe("changed");
    const again = await skillet(["trust", "x"], { ...options, ask: async () => "y" });
    expect(again.code).toBe(0);
    expect(again.stdout).toContain("node_modules/evil.js");
    expect(await stateOf(scene)).toBe("unchanged");
  });
});

describe("the scope of an approval of a skill", () => {
  it("lists its parts, in order", () => {
    expect(listLockGrants(defineTestSkill("a"), [])).toEqual(["instructions"]);
    expect(listLockGrants(defineTestSkill("a", { more: { packages: ["jq"], toolsets: ["./t:T"] } }), [])).toEqual([
      "instructions",
      "packages",
      "toolsets",
    ]);
  });
});
