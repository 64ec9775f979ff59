import { execFileSync } from "node:child_process";
import { chmodSync, linkSync, rmSync, symlinkSync, truncateSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { readArchive } from "../../src/remote/extract.ts";
import { readTar } from "../../src/remote/tar-reader.ts";
import { makePipe } from "../bad-input/pipe.ts";
import { longName, pax, tarOf } from "../support/archives.ts";
import { temporaryFolder } from "../support/folder.ts";
import { filesBelow, gitArchive, HELLO, type Passed, refuses, TREE, tar, unpackThroughGate } from "../support/gate.ts";

describe("ambiguous tar files", () => {
  const override = pax([["path", "../../x"]]);
  refuses([
    tar("a PAX path that leads out", "entry-traversal", [override, HELLO]),
    tar("a PAX path from the root", "entry-absolute", [pax([["path", "/etc/cron.d/x"]]), HELLO]),
    tar("a PAX path for all", "archive-ambiguous", [pax([["path", "x"]], "g"), HELLO]),
    tar("a PAX size for all", "archive-ambiguous", [pax([["size", "1"]], "g"), HELLO]),
    tar("a PAX path and a long name", "archive-ambiguous", [pax([["path", "a"]]), longName("b"), HELLO]),
    tar("a long name and a PAX path", "archive-ambiguous", [longName("b"), pax([["path", "a"]]), HELLO]),
    tar("two PAX targets", "archive-ambiguous", [
      pax([["linkpath", "a"]]),
      longName("b", "K"),
      { name: "l", type: "2" },
    ]),
    tar("two PAX headers", "archive-ambiguous", [pax([["path", "a"]]), pax([["path", "b"]]), HELLO]),
    tar("two long names", "archive-ambiguous", [longName("a"), longName("b"), HELLO]),
    tar("two paths in one PAX header", "archive-ambiguous", [pax([["path", "a"], ["path", "b"]]), HELLO]), // biome-ignore format: one row
    tar("a PAX size that is another", "archive-inconsistent", [pax([["size", "1024"]]), HELLO]),
    tar("a PAX size that is not a number", "archive-inconsistent", [pax([["size", "5x"]]), HELLO]),
    tar("a link with bytes", "archive-inconsistent", [{ name: "l", type: "2", target: "a", data: "x" }]),
    tar("a folder with bytes", "archive-inconsistent", [{ name: "d/", type: "5", data: "x" }]),
    tar("an invalid PAX header", "archive-broken", [{ name: "x", type: "x", data: "hello" }, HELLO]),
    tar("a PAX record that is too long", "archive-broken", [{ name: "x", type: "x", data: "99 path=a\n" }, HELLO]),
    tar("a PAX record without an end", "archive-broken", [{ name: "x", type: "x", data: "9 path=ab" }, HELLO]),
    tar("a PAX record without a key", "archive-broken", [{ name: "x", type: "x", data: "5 abc\n" }, HELLO]),
    tar("a PAX header for nothing", "archive-broken", [HELLO, pax([["path", "a"]])]),
    tar("a PAX header without bounds", "archive-broken", [pax([["comment", "a".repeat(1_100_000)]]), HELLO]),
    tar("a sum that is not right", "archive-broken", [{ ...HELLO, checksum: 12 }]),
    tar("a size that is not a number", "archive-broken", [{ ...HELLO, size: "zzzzzzzzzzz" }]),
    tar("a size below nothing", "archive-broken", [{ ...HELLO, size: Buffer.alloc(12, 0xff) }]),
    tar("a size beyond all bounds", "archive-broken", [
      { ...HELLO, size: Buffer.concat([Buffer.from([0x80]), Buffer.alloc(11, 0xff)]) },
    ]),
    tar("a size beyond the archive", "archive-broken", [{ ...HELLO, size: "77777777777" }]),
    tar("no end", "archive-broken", [HELLO], Buffer.alloc(0)),
    tar("half an end", "archive-broken", [HELLO], Buffer.alloc(512)),
    tar("another tar behind it", "archive-extra-data", [HELLO], Buffer.concat([Buffer.alloc(1024), tarOf([HELLO])])),
    tar(
      "an entry between empty blocks",
      "archive-extra-data",
      [HELLO],
      Buffer.concat([Buffer.alloc(512), tarOf([HELLO])]),
    ),
    [
      "tar: bytes behind the compressed ones",
      "archive-extra-data",
      () => Buffer.concat([gzipSync(tarOf([HELLO])), Buffer.alloc(9)]),
    ],
    ["tar: half of it", "archive-broken", () => gzipSync(tarOf([HELLO])).subarray(0, 50)],
    [
      "tar: two, compressed one by one",
      "archive-extra-data",
      () => Buffer.concat([gzipSync(tarOf([HELLO])), gzipSync(tarOf([HELLO]))]),
    ],
    ["gzip: of something else", "archive-broken", () => gzipSync("a".repeat(2000))],
    ["gzip: of nothing", "archive-broken", () => gzipSync("")],
  ]);
});

describe("valid tar files", () => {
  it("[S-33] are read with PAX headers, GNU long names, a name prefix, and old folder entries", () => {
    const long = `${"long/".repeat(30)}name`;
    const archive = tarOf([
      pax([["comment", "4cb5f1d0"]], "g"),
      { name: "d/", mode: 0o755 },
      { name: "old/", type: "0" },
      pax([["path", `${long}é`], ["mtime", "1.5"], ["SCHILY.xattr.user.x", "\0y"]]), // biome-ignore format: one row
      { name: "long", data: "pax" },
      longName(long),
      { name: "long", data: "gnu", mode: 0o755 },
      { name: "name", prefix: "first", data: "ustar" },
      { name: "times", prefix: "12345", data: "no first part", magic: "ustar  \0" },
      { name: "large", data: "256", size: Buffer.concat([Buffer.from([0x80]), Buffer.alloc(10), Buffer.from([3])]) },
      longName(`../${"up/".repeat(40)}`, "K"),
      { name: "l", type: "2", target: "cut" },
    ]);
    const found = [...readTar(archive)].map(({ path, kind, mode, size, target, read }) =>
      [path, kind, (mode & 0o111) !== 0, size, target ?? String(read())] as const,
    ); // biome-ignore format: one row
    expect(found).toEqual([
      ["d/", "folder", true, 0, ""],
      ["old/", "folder", true, 0, ""],
      [`${long}é`, "file", false, 3, "pax"],
      [long, "file", true, 3, "gnu"],
      ["first/name", "file", false, 5, "ustar"],
      ["times", "file", false, 13, "no first part"],
      ["large", "file", false, 3, "256"],
      ["l", "link", false, 0, `../${"up/".repeat(40)}`],
    ]);
  });

  it("[S-33] can be compressed in several pieces", async () => {
    const archive = tarOf([HELLO]);
    const pieces = Buffer.concat([gzipSync(archive.subarray(0, 700)), gzipSync(archive.subarray(700))]);
    expect(await unpackThroughGate(() => readArchive(pieces, "a.tgz"))).toMatchObject({ files: 1 });
  });

  it.for(["ustar", "pax", "gnu", "v7"])(
    "[S-33] packed by `tar --format=%s` have the original content",
    async (format) => {
      const long = format === "v7" ? "short" : `${"long/".repeat(25)}${"n".repeat(90)}`;
      const from = temporaryFolder({ ...TREE, [long]: "far down" });
      chmodSync(`${from}/scripts/run.sh`, 0o755);
      symlinkSync("SKILL.md", `${from}/link`);
      const archive = execFileSync("tar", [`--format=${format}`, "-cz", "."], { cwd: from });
      const { to, links } = (await unpackThroughGate(() => readArchive(archive, "a.tgz"))) as Passed;
      rmSync(`${from}/link`);
      expect(filesBelow(to)).toEqual(filesBelow(from));
      expect([...links]).toEqual([["link", "SKILL.md"]]);
    },
  );

  it("[S-33] packed by `git archive` have the original content", async () => {
    const from = temporaryFolder(TREE);
    chmodSync(`${from}/scripts/run.sh`, 0o755);
    const { to } = (await unpackThroughGate(() => readArchive(gitArchive(from, "tar.gz"), "a.tgz"))) as Passed;
    expect(filesBelow(to)).toEqual(filesBelow(from));
  });

  it("[S-33] with a hard link, a pipe or a sparse file of `tar` are refused", async () => {
    const makers = [
      (from: string) => linkSync(`${from}/SKILL.md`, `${from}/z`),
      (from: string) => makePipe(`${from}/z`),
      (from: string) => truncateSync(`${from}/data.bin`, 10_000_000),
    ];
    for (const make of makers) {
      const from = temporaryFolder(TREE);
      make(from);
      const archive = execFileSync("tar", ["-Scz", "."], { cwd: from });
      expect(await unpackThroughGate(() => readArchive(archive, "a.tgz"))).toMatchObject({ code: "entry-kind" });
    }
  });
});
