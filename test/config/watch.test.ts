import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { type CatalogChange, watchCatalog } from "../../src/config/live-settings.ts";
import type { Source } from "../../src/skill/skill.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { waitFor } from "../support/wait-for.ts";

async function watched(
  paths: readonly string[],
  onChange: (change: CatalogChange) => void = () => {},
  wrap = (source: Source): Source => source,
) {
  const changes: CatalogChange[] = [];
  const errors: unknown[] = [];
  const catalog = await loadCatalog(
    paths.map((path) => wrap(createDirectorySource({ path, name: path, scope: "user" }))),
  );
  const watcher = await watchCatalog(
    catalog,
    (change) => {
      changes.push(change);
      onChange(change);
    },
    { onError: (error) => errors.push(error) },
  );
  onTestFinished(() => watcher.close());
  const names = () => changes.flatMap(({ added, changed }) => [...added, ...changed]).map(({ name }) => name);
  return { changes, errors, names };
}

describe("watchCatalog", () => {
  it.each([
    ["every folder exists", ["here"]],
    ["no folder exists yet", ["later/skills"]],
    ["some folders exist", ["here", "later/skills"]],
  ])("[W-18] reports what is new when %s", async (_, names) => {
    const root = temporaryFolder({ "here/a/SKILL.md": skillText("a") });
    const watcher = await watched(names.map((name) => join(root, name)));
    for (const name of names) {
      writeFiles(join(root, name), { [`in-${name.length}/SKILL.md`]: skillText(`in-${name.length}`) });
      await waitFor(() => watcher.names().includes(`in-${name.length}`));
    }
  });

  it("does not wait for a file that changes continuously", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const watcher = await watched([join(root, "s")]);
    const busy = setInterval(() => writeFileSync(join(root, "s/a/log.txt"), String(Math.random())), 30);
    onTestFinished(() => clearInterval(busy));
    writeFiles(root, { "s/b/SKILL.md": skillText("b") });
    await waitFor(() => watcher.names().includes("b"));
  });

  it("continues when the listener throws, and passes the error on", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const watcher = await watched([join(root, "s")], () => {
      throw new Error("listener");
    });
    writeFiles(root, { "s/b/SKILL.md": skillText("b") });
    await waitFor(() => watcher.errors.length === 1);
    writeFiles(root, { "s/c/SKILL.md": skillText("c") });
    await waitFor(() => watcher.names().includes("c"));
  });

  it("counts a file next to SKILL.md as a change of the skill, and a missing closing line as an unfinished write", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a"), "s/a/notes.md": "one" });
    const file = join(root, "s/a/SKILL.md");
    const half = "---\nname: a\n";
    // The writer continues right after the first read.
    const wrap = (source: Source): Source => ({
      ...source,
      async load() {
        const loaded = await source.load();
        if (readFileSync(file, "utf8") === half) writeFileSync(file, skillText("a", { description: "Whole again." }));
        return loaded;
      },
    });
    const watcher = await watched([join(root, "s")], () => {}, wrap);
    writeFileSync(join(root, "s/a/notes.md"), "two");
    await waitFor(() => watcher.names().includes("a"));
    const before = watcher.changes.length;
    writeFileSync(file, half);
    await waitFor(() => watcher.changes.some(({ catalog }) => catalog.find("a")?.description === "Whole again."));
    expect(watcher.changes.slice(before).flatMap(({ removed }) => removed)).toEqual([]);
  });
});
