import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { openCatalog } from "../../src/catalog/catalog.ts";
import { type CatalogChange, watchCatalog } from "../../src/host/watch.ts";
import { directorySource } from "../../src/source/directory.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

async function watched(paths: readonly string[], onChange: (change: CatalogChange) => void = () => {}) {
  const changes: CatalogChange[] = [];
  const errors: unknown[] = [];
  const catalog = await openCatalog(paths.map((path) => directorySource({ path, name: path, scope: "user" })));
  const watcher = await watchCatalog(
    catalog,
    (change) => {
      changes.push(change);
      onChange(change);
    },
    { onError: (error) => errors.push(error) },
  );
  onTestFinished(() => watcher.close());
  const until = async (isThere: () => boolean) => {
    for (const start = Date.now(); !isThere(); await new Promise((resolve) => setTimeout(resolve, 20))) {
      if (Date.now() - start > 5000) throw new Error(`never seen; changes: ${changes.length}`);
    }
  };
  const names = () => changes.flatMap(({ added, changed }) => [...added, ...changed]).map(({ name }) => name);
  return { changes, errors, until, names };
}

describe("watchCatalog", () => {
  it.each([
    ["every folder is there", ["here"]],
    ["no folder is there yet", ["later/skills"]],
    ["some are", ["here", "later/skills"]],
  ])("[W-18] tells what is new where %s", async (_, names) => {
    const root = temporaryFolder({ "here/a/SKILL.md": skillText("a") });
    const watcher = await watched(names.map((name) => join(root, name)));
    for (const name of names) {
      writeFiles(join(root, name), { [`in-${name.length}/SKILL.md`]: skillText(`in-${name.length}`) });
      await watcher.until(() => watcher.names().includes(`in-${name.length}`));
    }
  });

  it("does not wait for a file that never rests", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const watcher = await watched([join(root, "s")]);
    const busy = setInterval(() => writeFileSync(join(root, "s/a/log.txt"), String(Math.random())), 30);
    onTestFinished(() => clearInterval(busy));
    writeFiles(root, { "s/b/SKILL.md": skillText("b") });
    const start = Date.now();
    await watcher.until(() => watcher.names().includes("b"));
    expect(Date.now() - start).toBeLessThan(1500);
  });

  it("goes on when the listener throws, and hands the error over", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const watcher = await watched([join(root, "s")], () => {
      throw new Error("listener");
    });
    writeFiles(root, { "s/b/SKILL.md": skillText("b") });
    await watcher.until(() => watcher.errors.length === 1);
    writeFiles(root, { "s/c/SKILL.md": skillText("c") });
    await watcher.until(() => watcher.names().includes("c"));
  });

  it("counts a file beside SKILL.md as a change of the skill, and a missing closing line as being written", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a"), "s/a/notes.md": "one" });
    const watcher = await watched([join(root, "s")]);
    writeFileSync(join(root, "s/a/notes.md"), "two");
    await watcher.until(() => watcher.names().includes("a"));
    const before = watcher.changes.length;
    writeFileSync(join(root, "s/a/SKILL.md"), "---\nname: a\n");
    setTimeout(() => writeFileSync(join(root, "s/a/SKILL.md"), skillText("a", { description: "Whole again." })), 150);
    await watcher.until(() => watcher.changes.some(({ catalog }) => catalog.find("a")?.description === "Whole again."));
    expect(watcher.changes.slice(before).flatMap(({ removed }) => removed)).toEqual([]);
  });
});
