import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFingerprintCache, fingerprintTree, readFolderLockState } from "../../../src/store/lock-diff.ts";
import { hashSha256 } from "../../../src/store/lock-file.ts";
import { skillText, temporaryFolder, writeFiles } from "../../support/folder.ts";
import { entryFor, waitForClockTick } from "./scene.ts";

async function settled() {
  const home = temporaryFolder();
  const folder = join(home, "installed/x");
  writeFiles(folder, { "SKILL.md": skillText("x"), "docs/a.md": "first" });
  const entry = entryFor(folder);
  await waitForClockTick(folder, entry);
  return { home, folder, entry, cache: join(home, "cache/verified") };
}

describe("fingerprints of skill folders", () => {
  it("are stored once, for the user alone, and not again without a change", async () => {
    const { home, folder, entry, cache } = await settled();
    readFolderLockState(folder, entry, createFingerprintCache(home));
    const line = readFileSync(cache, "utf8");
    expect(line).toMatch(new RegExp(`^\\S+ ${entry.digest} sha256:[0-9a-f]{64}\\n$`));
    expect(statSync(cache).mode & 0o777).toBe(0o600);
    expect(readFolderLockState(folder, entry, createFingerprintCache(home)).is).toBe("unchanged");
    expect(readFileSync(cache, "utf8")).toBe(line);
  });

  it("are enough for the next check: no byte is read again", async () => {
    const { home, folder, entry, cache } = await settled();
    readFolderLockState(folder, entry, createFingerprintCache(home));
    // A lock that never matched these bytes, and a line that claims it did: only reading the bytes reveals it.
    const other = { ...entry, digest: hashSha256("other"), files: { ...entry.files } };
    for (const path of Object.keys(other.files)) other.files[path] = { mode: "644", size: 5, sha256: hashSha256(path) };
    expect(readFolderLockState(folder, other, createFingerprintCache(home)).is).toBe("changed");
    writeFileSync(cache, readFileSync(cache, "utf8").replace(entry.digest, other.digest));
    expect(readFolderLockState(folder, other, createFingerprintCache(home)).is).toBe("unchanged");
  });

  it("are not valid for another lock, nor for another folder", async () => {
    const { home, folder, entry } = await settled();
    const stamps = createFingerprintCache(home);
    readFolderLockState(folder, entry, stamps);
    const stamp = fingerprintTree(folder, entry.files);
    expect(stamps.isVerified(folder, entry.digest, stamp)).toBe(true);
    expect(stamps.isVerified(folder, hashSha256("other"), stamp)).toBe(false);
    expect(stamps.isVerified(`${folder}2`, entry.digest, stamp)).toBe(false);
    expect(stamps.isVerified(folder, entry.digest, { ...stamp, text: hashSha256("other") })).toBe(false);
  });

  it("never hide a change, however soon after a check it happens", () => {
    const home = temporaryFolder();
    const folder = join(home, "x");
    writeFiles(folder, { "SKILL.md": skillText("x"), "a.txt": "a" });
    const entry = entryFor(folder);
    const stamps = createFingerprintCache(home);
    for (let round = 0; round < 200; round++) {
      writeFileSync(join(folder, "a.txt"), "a");
      expect(readFolderLockState(folder, entry, stamps).is).toBe("unchanged");
      writeFileSync(join(folder, "a.txt"), "b");
      expect(readFolderLockState(folder, entry, stamps).is, `round ${round}`).toBe("changed");
    }
  });

  it("count as settled by the start of the check, however long the bytes take to read", async () => {
    const home = temporaryFolder();
    const folder = join(home, "x");
    writeFiles(folder, { "SKILL.md": skillText("x") });
    const entry = entryFor(folder);
    const stamp = fingerprintTree(folder, entry.files);
    await waitForClockTick(folder, entry);
    createFingerprintCache(home).add(folder, entry.digest, stamp);
    expect(existsSync(join(home, "cache/verified"))).toBe(false);
  });

  it.each<[string, (cache: string) => void]>([
    ["is missing", (cache) => rmSync(cache)],
    ["is another file", (cache) => writeFileSync(cache, "\0\xff garbage\nx sha256:zz y\n\n")],
    ["is huge", (cache) => truncateSync(cache, 1024 * 1024 * 1024)],
    [
      "is a folder",
      (cache) => {
        rmSync(cache);
        mkdirSync(cache);
      },
    ],
    ["is cut off", (cache) => truncateSync(cache, 40)],
    [
      "has ten thousand foreign lines",
      (cache) => appendFileSync(cache, `k ${hashSha256("")} ${hashSha256("")}\n`.repeat(10_000)),
    ],
  ])("lead to reading the bytes when the file %s, and to nothing else", async (_, damage) => {
    const { home, folder, entry, cache } = await settled();
    readFolderLockState(folder, entry, createFingerprintCache(home));
    damage(cache);
    expect(readFolderLockState(folder, entry, createFingerprintCache(home)).is).toBe("unchanged");
    writeFileSync(join(folder, "docs/a.md"), "other");
    expect(readFolderLockState(folder, entry, createFingerprintCache(home)).is).toBe("changed");
    if (statSync(cache).isFile()) expect(statSync(cache).size).toBeLessThan(100_000);
  });

  it("keep the writes of two independent processes", async () => {
    const { home, folder, entry } = await settled();
    const other = join(home, "installed/y");
    writeFiles(other, { "SKILL.md": skillText("y") });
    const second = entryFor(other);
    await waitForClockTick(other, second);
    const [one, two] = [createFingerprintCache(home), createFingerprintCache(home)];
    for (const stamps of [one, two]) stamps.isVerified(folder, "", fingerprintTree(folder, entry.files)); // Both have read the present state.
    readFolderLockState(folder, entry, one);
    readFolderLockState(other, second, two);
    const later = createFingerprintCache(home);
    expect(later.isVerified(folder, entry.digest, fingerprintTree(folder, entry.files))).toBe(true);
    expect(later.isVerified(other, second.digest, fingerprintTree(other, second.files))).toBe(true);
  });

  it("are not written in a read-only folder, without a failure", async () => {
    const { home, folder, entry } = await settled();
    writeFileSync(join(home, "cache"), "a file");
    expect(readFolderLockState(folder, entry, createFingerprintCache(home)).is).toBe("unchanged");
    chmodSync(join(home, "cache"), 0o400);
    expect(readFolderLockState(folder, entry, createFingerprintCache(home)).is).toBe("unchanged");
  });
});
