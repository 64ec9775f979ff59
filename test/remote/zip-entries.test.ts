import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, readFileSync, rmSync } from "node:fs";
import { basename } from "node:path";
import { deflateRawSync } from "node:zlib";
import { describe, expect, it, test } from "vitest";
import { createZip as writeZip } from "../../src/remote/clients/export-skill.ts";
import { readArchive } from "../../src/remote/extract.ts";
import { readZip } from "../../src/remote/zip-reader.ts";
import { unicodeName, zipOf } from "../support/archives.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { filesBelow, gitArchive, HELLO, type Passed, refuses, TREE, unpackThroughGate, zip } from "../support/gate.ts";

describe("ambiguous zip files", () => {
  const two = [HELLO, { name: "b", data: "x" }];
  const evil = zipOf([{ name: "evil", data: "x" }]);
  refuses([
    zip("another name before the data", "archive-inconsistent", [{ ...HELLO, local: { name: "evil.md" } }]),
    zip("another size before the data", "archive-inconsistent", [{ ...HELLO, local: { size: 4 } }]),
    zip("another packed size before the data", "archive-inconsistent", [{ ...HELLO, local: { packed: 3 } }]),
    zip("another sum before the data", "archive-inconsistent", [{ ...HELLO, local: { crc: 1 } }]),
    zip("another method before the data", "archive-inconsistent", [{ ...HELLO, local: { method: 0 } }]),
    zip("other flags before the data", "archive-inconsistent", [{ ...HELLO, local: { flags: 0 } }]),
    zip("other sums behind the data", "archive-inconsistent", [{ ...HELLO, descriptor: "marked", listed: { crc: 1 } }]),
    zip("no sums behind the data", "archive-inconsistent", [
      { ...HELLO, flags: (1 << 11) | (1 << 3) },
      { name: "b", data: "x" },
    ]),
    zip("a second name before the data", "archive-inconsistent", [{ ...HELLO, local: { extra: unicodeName("../x") } }]),
    zip("a second name in the list", "archive-ambiguous", [{ ...HELLO, listed: { extra: unicodeName("../x") } }]),
    zip("a folder that is a file", "archive-inconsistent", [{ name: "a/", data: "x", mode: 0o100644 }]),
    zip("a file that is a folder", "archive-inconsistent", [{ name: "a", mode: 0o40755 }]),
    zip("a file that is a folder on DOS", "archive-inconsistent", [{ name: "a", data: "x", attributes: 0x10 }]),
    zip("a folder that is a link", "archive-inconsistent", [{ name: "a/", mode: 0o120777 }]),
    zip("a folder with bytes", "archive-inconsistent", [{ name: "a/", data: "x" }]),
    zip("more in the list than it says", "archive-inconsistent", two, { end: { here: 1, all: 1 } }),
    zip("fewer in the list than it says", "archive-inconsistent", two, { end: { here: 3, all: 3 } }),
    zip("two entries over the same data", "archive-overlap", [
      HELLO,
      { ...HELLO, name: "b", isOnlyListed: true, listed: { start: 0 } },
    ]),
    zip("data that reaches into the next entry", "archive-overlap", [
      { ...HELLO, method: 0, local: { packed: 40, size: 40 }, listed: { packed: 40, size: 40 } },
      { name: "b", data: "x" },
    ]),
    zip("data that reaches into the list", "archive-overlap", [
      { ...HELLO, method: 0, local: { packed: 40, size: 40 }, listed: { packed: 40, size: 40 } },
    ]),
    zip("data before its start", "archive-extra-data", [HELLO], { before: Buffer.from("#!/bin/sh\n") }),
    zip("an entry that is not listed", "archive-extra-data", [{ name: "evil", data: "x", isUnlisted: true }, ...two]),
    zip("an entry in the middle that is not listed", "archive-extra-data", [
      HELLO,
      { name: "evil", data: "x", isUnlisted: true },
      { name: "b", data: "x" },
    ]),
    zip("something before the list", "archive-extra-data", [HELLO], { between: Buffer.from("evil") }),
    zip("something behind it", "archive-extra-data", [HELLO], { behind: Buffer.from("evil") }),
    zip("another zip behind it", "archive-extra-data", [HELLO], { behind: evil }),
    zip("another zip in its comment", "archive-ambiguous", [HELLO], { comment: evil }),
    zip("an invalid end in its comment", "archive-extra-data", [HELLO], {
      comment: Buffer.concat([Buffer.from("PK\x05\x06", "latin1"), Buffer.alloc(30)]),
    }),
    zip("an end in its comment that is cut", "archive-broken", [HELLO], {
      comment: Buffer.from("PK\x05\x06", "latin1"),
    }),
    zip("no central directory at its offset", "archive-broken", [HELLO], { end: { at: 1_000_000 } }),
    zip("no entry where it is to be", "archive-broken", [{ ...HELLO, isOnlyListed: true }], {
      between: Buffer.from("PK\x03\x04 and no more", "latin1"),
    }),
    zip("an unreadable central directory", "archive-broken", [], {
      end: { here: 1, all: 1, length: 4, at: 0 },
      between: Buffer.from("PK.."),
    }),
    zip("encryption", "archive-encrypted", [{ ...HELLO, flags: 1 }]),
    zip("strong encryption", "archive-encrypted", [{ ...HELLO, flags: 1 << 6 }]),
    zip("encryption of names", "archive-encrypted", [{ ...HELLO, flags: 1 << 13 }]),
    zip("an unknown method", "archive-method", [{ ...HELLO, method: 14 }]),
    zip("a patch", "archive-method", [{ ...HELLO, flags: 1 << 5 }]),
    zip("ZIP64 sizes", "archive-zip64", [{ ...HELLO, listed: { size: 0xffffffff } }]),
    zip("ZIP64 sizes before the data", "archive-zip64", [
      { ...HELLO, local: { packed: 0xffffffff, size: 0xffffffff } },
    ]),
    zip("a ZIP64 list", "archive-zip64", [HELLO], { end: { at: 0xffffffff } }),
    zip("where a ZIP64 list is", "archive-zip64", [], { between: Buffer.from(`PK\x06\x07${"\0".repeat(16)}`) }),
    zip("a list in several parts", "archive-multipart", [HELLO], { end: { here: 0 } }),
    zip("several parts", "archive-multipart", [HELLO], { end: { disk: 1, listDisk: 1 } }),
    zip("an entry on another part", "archive-multipart", [{ ...HELLO, listed: { disk: 2 } }]),
    zip("a size that is too small", "entry-size", [{ ...HELLO, local: { size: 3 }, listed: { size: 3 } }]),
    zip("a size that is too large", "entry-size", [{ ...HELLO, local: { size: 9 }, listed: { size: 9 } }]),
    zip("two sizes of stored content", "entry-size", [
      { ...HELLO, method: 0, local: { size: 3 }, listed: { size: 3 } },
    ]),
    zip("a sum that is not right", "entry-corrupt", [{ ...HELLO, local: { crc: 5 }, listed: { crc: 5 } }]),
    zip("data that is not deflated", "entry-corrupt", [
      { ...HELLO, method: 0, data: "\xff\xff\xff", local: { method: 8 }, listed: { method: 8 } },
    ]),
    zip("bytes behind the deflated ones", "entry-size", [
      {
        name: "a",
        data: Buffer.concat([deflateRawSync("hello"), Buffer.from("evil")]),
        method: 0,
        local: { method: 8, size: 5 },
        listed: { method: 8, size: 5 },
      },
    ]),
    ["zip: half of it", "archive-broken", () => zipOf(two).subarray(0, 60)],
    ["zip: only its first letters", "archive-broken", () => Buffer.from("PK")],
    ["something else", "archive-unknown", () => Buffer.from("hello")],
    ["nothing", "archive-unknown", () => Buffer.alloc(0)],
  ]);
});

/** By path: the content, and the execute bit. */
function contents(archive: Buffer): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { path, kind, mode, target, read } of readZip(archive)) {
    found[path] =
      kind === "file" ? `${mode & 0o111 ? "x" : "-"} ${Buffer.from(read())}` : `${kind} ${target ?? ""}`.trim();
  }
  return found;
}

test("[Q-12] impossible entries are refused before anything is read", () => {
  const sizes = { size: 3, packed: 5 };
  const link = { name: "l", data: "a".repeat(5000), mode: 0o120777 };
  expect(() => readZip(zipOf([{ ...HELLO, method: 0, local: sizes, listed: sizes }]))).toThrow("has two sizes");
  expect(() => readZip(zipOf([link]))).toThrow("more than 4096 bytes");
});

describe("valid zip files", () => {
  it("[S-33] are read whether sums are before the data or after it", () => {
    const entries = [
      { ...HELLO, descriptor: "marked" as const },
      { name: "b", data: "stored", method: 0, descriptor: "plain" as const },
      { name: "c", data: "plain" },
    ];
    expect(contents(zipOf(entries))).toEqual({ "SKILL.md": "- hello", b: "- stored", c: "- plain" });
  });

  it("[S-33] are read with folders, links, execute bits, a comment, and a list in another order", () => {
    const archive = zipOf(
      [
        { name: "d/", data: "" },
        { name: "maven/", mode: 0o100644 },
        { name: "d/run", data: "#!/bin/sh\n", mode: 0o100755 },
        { name: "l", data: "d/run", mode: 0o120777 },
        { name: "dos.txt", data: "x", attributes: 0x20 },
        { name: "é", data: "x", extra: unicodeName("é") },
        { name: "è", data: "x", flags: 0 },
      ],
      { comment: Buffer.from("4cb5f1d0 made by PK") },
    );
    expect(contents(archive)).toEqual({
      "d/": "folder",
      "maven/": "folder",
      "d/run": "x #!/bin/sh\n",
      l: "link d/run",
      "dos.txt": "- x",
      é: "- x",
      è: "- x",
    });
    expect(contents(zipOf([]))).toEqual({});
  });

  it("[S-33] are read when they contain an uncompressed zip, with its own end record near theirs", () => {
    expect(Object.keys(contents(zipOf([{ name: "a.docx", data: zipOf([HELLO]), method: 0 }])))).toEqual(["a.docx"]);
  });

  it("[S-33] exported by skillet have the original content", async () => {
    const files = new Map(
      Object.entries({
        "x/SKILL.md": { bytes: Buffer.from(skillText("x")), executable: false },
        "x/scripts/run.sh": { bytes: Buffer.from("#!/bin/sh\n"), executable: true },
        "x/data.bin": { bytes: randomBytes(100_000), executable: false },
        "x/empty": { bytes: Buffer.alloc(0), executable: false },
      }),
    );
    const { to } = (await unpackThroughGate(() => readArchive(writeZip(files), "x.skill"))) as Passed;
    for (const [path, { bytes, executable }] of files) {
      expect(filesBelow(to)[path]).toBe(`${executable ? "755" : "644"} ${bytes.toString("latin1")}`);
    }
  });

  it.skipIf(!existsSync("/usr/bin/zip"))("[S-33] packed by `zip` have the original content", async () => {
    const from = temporaryFolder(TREE);
    chmodSync(`${from}/scripts/run.sh`, 0o755);
    execFileSync("/usr/bin/zip", ["-q", "-r", `${from}/../${basename(from)}.zip`, "."], { cwd: from });
    const archive = readFileSync(`${from}.zip`);
    rmSync(`${from}.zip`);
    const { to } = (await unpackThroughGate(() => readArchive(archive, "a.zip"))) as Passed;
    expect(filesBelow(to)).toEqual(filesBelow(from));
  });

  it("[S-33] packed by `git archive` have the original content", async () => {
    const from = temporaryFolder(TREE);
    chmodSync(`${from}/scripts/run.sh`, 0o755);
    const archive = gitArchive(from, "zip");
    const { to } = (await unpackThroughGate(() => readArchive(archive, "a.zip"))) as Passed;
    expect(filesBelow(to)).toEqual(filesBelow(from));
  });
});
