import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { discover } from "../../src/config/discover.ts";
import { watchCatalog } from "../../src/config/live-settings.ts";
import { type ClientCopy, createClientCopyStore } from "../../src/store/copy-records.ts";
import { markDone, openStaging } from "../../src/store/folder-staging.ts";
import { openFolderHandle } from "../../src/util/file-access.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const copy = (skill: string, more: Partial<ClientCopy> = {}): ClientCopy => ({
  skill,
  client: "claude",
  source: "skills",
  copy: "sha256:a",
  at: "2026-01-01T00:00:00.000Z",
  ...more,
});

/** One of the user's own skills, and a copy of it in a client's folder with a manual edit, so that they differ. */
function scene() {
  const root = temporaryFolder({
    "home/.skillet/skills/x/SKILL.md": skillText("x", { description: "The original." }),
    "project/.claude/skills/x/SKILL.md": skillText("x", { description: "The copy." }),
    "project/.claude/skills/y/SKILL.md": skillText("y"),
  });
  const home = join(root, "home");
  const original = join(home, ".skillet/skills/x/SKILL.md");
  const place = join(root, "project/.claude/skills/x");
  const installs = createClientCopyStore(join(home, ".skillet"));
  const look = (index = false) => discover({ workspace: join(root, "project"), env: { HOME: home }, index });
  const described = async (index = false) => (await look(index)).catalog.find("x")?.description;
  return { root, home, original, place, installs, look, described };
}

describe("the record of copies", () => {
  it("is the user's own, and contains each copy with its folder", () => {
    const { installs, place } = scene();
    expect(installs.entries()).toEqual({});
    expect(installs.createCopyFilter([]), "costs nothing without copies").toBeUndefined();
    expect(installs.recordWhile({ [place]: copy("x") }, () => "done")).toBe("done");
    expect(statSync(installs.file).mode & 0o777).toBe(0o600);
    expect(createClientCopyStore(join(installs.file, "..")).entries()).toEqual({ [place]: copy("x") });
    installs.remove([place, "/not/there"]);
    expect(installs.entries()).toEqual({});
  });

  it("[N-19] contains a copy before it is written, and is restored when that fails", () => {
    const { installs, place } = scene();
    const [before, after] = [copy("x", { copy: "sha256:1" }), copy("x", { copy: "sha256:2" })];
    installs.recordWhile({ [place]: before }, () => {});
    const work = () => {
      expect(JSON.parse(readFileSync(installs.file, "utf8")).skills).toMatchObject({ [place]: after, "/other": {} });
      throw new Error("the disk is full");
    };
    expect(() => installs.recordWhile({ [place]: after, "/other": copy("other") }, work)).toThrow("the disk is full");
    expect(installs.entries()).toEqual({ [place]: before });
  });

  it.each([
    ["is not JSON", "{"],
    ["is of another version", '{"version":2,"skills":{}}'],
    ["has an invalid entry", '{"version":1,"skills":{"/x":{"skill":"x"}}}'],
    ["has an invalid path", `{"version":1,"skills":{"/x":${JSON.stringify({ ...copy("x"), original: 7 })}}}`],
  ])("is a warning when it %s, and is not overwritten", async (_, text) => {
    const { installs, look, described } = scene();
    writeFileSync(installs.file, text);
    const { configuration } = await look();
    expect(configuration.diagnostics).toMatchObject([{ code: "exports-unreadable", severity: "warning" }]);
    expect(configuration.isBroken).toBe(false);
    expect(await described(), "the copy counts as a skill then").toBe("The copy.");
    expect(() => installs.remove(["/x"])).toThrow(expect.objectContaining({ code: "exports-unreadable" }));
    expect(readFileSync(installs.file, "utf8")).toBe(text);
  });
});

describe("a copy that skillet installed", () => {
  it.each([false, true])(
    "is not a skill while its original exists, and becomes one without it (index: %s)",
    async (index) => {
      const { installs, original, place, described, look } = scene();
      expect(await described(index), "a clone with copies in it has no record").toBe("The copy.");
      installs.recordWhile({ [place]: copy("x", { original }) }, () => {});
      for (const _ of [1, 2]) expect(await described(index)).toBe("The original.");
      const { catalog } = await look(index);
      expect(catalog.shadowed).toEqual([]);
      expect(catalog.names(), "its neighbor is one").toContain("y");
      renameSync(original, `${original}.away`);
      for (const _ of [1, 2]) expect(await described(index)).toBe("The copy.");
      renameSync(`${original}.away`, original);
      expect(await described(index)).toBe("The original.");
      installs.remove([place]);
      expect(await described(index)).toBe("The copy.");
    },
  );

  it("is never a skill if its original is bundled", async () => {
    const { installs, place, described } = scene();
    installs.recordWhile({ [place]: copy("x") }, () => {});
    expect(await described()).toBe("The original.");
  });

  it("is not a skill through a link either", async () => {
    const { installs, original, place, described, root } = scene();
    installs.recordWhile({ [place]: copy("x", { original }) }, () => {});
    mkdirSync(join(root, "project/.agents/skills"), { recursive: true });
    symlinkSync(place, join(root, "project/.agents/skills/x"));
    expect(await described()).toBe("The original.");
  });

  it("becomes a skill in a watched catalog when its original is deleted", async () => {
    const { installs, original, place, look } = scene();
    installs.recordWhile({ [place]: copy("x", { original }) }, () => {});
    const { catalog } = await look();
    const seen: (string | undefined)[] = [catalog.find("x")?.description];
    const { promise, resolve } = Promise.withResolvers<void>();
    const watcher = await watchCatalog(catalog, (change) => {
      seen.push(change.catalog.find("x")?.description);
      resolve();
    });
    rmSync(original);
    await promise;
    await watcher.close();
    expect(seen).toEqual(["The original.", "The copy."]);
  });

  it("[Q-12] is not a skill before it is in place: temporary folders are ignored", async () => {
    const { place, look } = scene();
    const dir = openFolderHandle(join(place, ".."));
    const stagings = [openStaging(dir), openStaging(dir)] as const;
    for (const { folder } of stagings) {
      mkdirSync(join(folder.at, "new/z"));
      writeFileSync(join(folder.at, "new/z/SKILL.md"), skillText("z"));
    }
    markDone(dir, stagings[1]);
    expect((await look()).catalog.names()).not.toContain("z");
    expect(readdirSync(dir.at).filter((name) => name.startsWith(".skillet-"))).toHaveLength(2);
    for (const { close } of [dir, ...stagings.map(({ folder }) => folder)]) close();
  });

  it("hides nothing but itself, whatever is recorded", async () => {
    const { installs, look, home, place } = scene();
    const claude = join(place, "..");
    const entries = ["/", home, claude, join(claude, ".."), "relative/x", "__proto__", join(claude, "y")];
    installs.recordWhile(Object.fromEntries(entries.map((entry) => [entry, copy("skills")])), () => {});
    expect((await look()).catalog.names()).toEqual(expect.arrayContaining(["x", "y", "skillmaker"]));
  });
});
