import { readdirSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { toLockedFiles } from "../../../src/remote/file-tree.ts";
import { createBlobCache } from "../../../src/store/lock-approval.ts";
import { digestTree } from "../../../src/store/lock-file.ts";
import { temporaryFolder } from "../../support/folder.ts";

const TREE = new Map(
  ["SKILL.md", "10", "2", "__proto__", "a/b"].map((path) => [
    path,
    { bytes: Buffer.from(`bytes of ${path}`), executable: path === "2" },
  ]),
);
const FILES = toLockedFiles(TREE);
const bytesOf = (path: string) => TREE.get(path)?.bytes ?? Buffer.alloc(0);
const kept = (home: string) => join(home, "originals", digestTree(FILES).slice(7));

describe("an approved original", () => {
  it("[Q-25] is restored with its modes, also after its lock was reordered", () => {
    const home = temporaryFolder();
    const originals = createBlobCache(home);
    originals.store(FILES, bytesOf, "/a");
    const turned = Object.fromEntries(Object.entries(FILES).reverse());
    Object.setPrototypeOf(turned, null);
    for (const files of [FILES, turned]) {
      const read = originals.read(files);
      expect(
        [...(read ?? [])].map(([path, { bytes, executable }]) => [path, bytes.toString(), executable]).sort(),
      ).toEqual([...TREE].map(([path, { bytes, executable }]) => [path, bytes.toString(), executable]).sort());
    }
    expect(statSync(kept(home)).mode & 0o777).toBe(0o600);
  });

  it("is undefined when it is damaged, and complete again once it is stored again", () => {
    const home = temporaryFolder();
    const originals = createBlobCache(home);
    originals.store(FILES, bytesOf, "/a");
    truncateSync(kept(home), 10);
    expect(originals.read(FILES)).toBeUndefined();
    originals.store(FILES, bytesOf, "/a");
    expect(originals.read(FILES)?.size).toBe(TREE.size);
    writeFileSync(kept(home), Buffer.alloc(statSync(kept(home)).size));
    expect(originals.read(FILES)).toBeUndefined();
  });

  it("stays while any skills folder needs it", () => {
    const home = temporaryFolder();
    const originals = createBlobCache(home);
    for (const folder of ["/installed", "/project"]) originals.store(FILES, bytesOf, folder);
    originals.release([digestTree(FILES)], "/installed");
    expect(originals.read(FILES)).toBeDefined();
    originals.release([digestTree(FILES)], "/project");
    expect(originals.read(FILES)).toBeUndefined();
    expect(readdirSync(join(home, "originals"))).toEqual([]);
  });

  it("is not stored in a read-only folder, without a failure", () => {
    const home = temporaryFolder({ originals: "a file" });
    const originals = createBlobCache(home);
    originals.store(FILES, bytesOf, "/a");
    expect(originals.read(FILES)).toBeUndefined();
    originals.release([digestTree(FILES)], "/a");
  });
});
