import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { readArchive } from "../../src/remote/extract.ts";
import { ARCHIVE_CODES, ENTRY_CODES, SOURCE_LIMITS, type SourceEntry } from "../../src/remote/remote-source.ts";
import { longName, pax, tarOf, zipOf } from "../support/archives.ts";
import { temporaryFolder } from "../support/folder.ts";
import { HELLO, type Row, refuses, tar, unpackThroughGate, zip } from "../support/gate.ts";
import { moduleOf } from "../support/program.ts";

/** In another process: the memory of earlier work is indistinguishable from that of this one. */
const MEASURE = `
  import { readFileSync } from "node:fs";
  const { readArchive } = await import(${JSON.stringify(moduleOf("remote/extract"))});
  const bytes = readFileSync(process.argv[1]);
  const room = process.resourceUsage().maxRSS;
  let code = "taken";
  try {
    for (const entry of readArchive(bytes, "a")) entry.read();
  } catch (error) {
    code = error.code;
  }
  console.log(JSON.stringify({ code, room: (process.resourceUsage().maxRSS - room) * 1024 }));
`;

/** The same names in both kinds. */
function named(code: string, ...names: readonly (string | Buffer)[]): Row[] {
  return names.flatMap((name) => [
    zip(`${JSON.stringify(String(name)).slice(0, 60)}`, code, [HELLO, { name, data: "x" }]),
    tar(`${JSON.stringify(String(name)).slice(0, 60)}`, code, [HELLO, longName(String(name)), { name, data: "x" }]),
  ]);
}

describe("names", () => {
  refuses([
    ...named("entry-traversal", "../../x", "..", "a/../../x", "a/..", "./../x"),
    ...named("entry-absolute", "/etc/passwd", "//server/share", ".//etc"),
    ...named("entry-backslash", "..\\..\\x", "a\\b"),
    ...named("entry-colon", "C:/Windows/x", "C:x", "SKILL.md::$DATA"),
    ...named("entry-control", "a\nb", "a\x1b]0;b", "a\x7f", "a\u0085b", "a\u2028b"),
    ...named("entry-empty", "a//b", "a/./b", "."),
    ...named("entry-hidden", "a\u200bb.md", "\u202egpj.exe", "a\u{e0041}b"),
    ...named("entry-trailing-dot", "a.", "a ", "b./c", "... "),
    ...named("entry-device", "NUL", "con.txt", "a/COM1", "aux .md", "COM¹.md", "CONOUT$"),
    ...named(
      "entry-too-long",
      "a".repeat(256),
      `${"abcdefghi/".repeat(20)}${"é".repeat(128)}`,
      `${"abc/".repeat(300)}d`,
    ),
    ...named("entry-too-deep", `${"a/".repeat(32)}x`),
    ...named("entry-repository", ".git/config", "a/.GIT/hooks/x", ".git", ".hg/hgrc", "a/.svn/x"),
    ...named(
      "entry-repository",
      ".git /config",
      ".git./config",
      "git~1/config",
      ".g\u200cit/config",
      ".git::$INDEX_ALLOCATION/x",
    ),
    zip("a NUL in a name", "entry-control", [{ name: "a\0b", data: "x" }]),
    tar("a NUL in a PAX path", "entry-control", [pax([["path", "a\0b"]]), { name: "a", data: "x" }]),
    zip("an empty name", "entry-empty", [{ name: "", data: "x" }]),
    tar("an empty name", "entry-empty", [{ name: "", data: "x" }]),
    tar("an empty PAX path", "entry-empty", [pax([["path", ""]]), { name: "a", data: "x" }]),
    zip("a name that is no UTF-8", "entry-encoding", [{ name: Buffer.from([0x61, 0xff]), data: "x" }]),
    zip("a name in an old code", "entry-encoding", [{ name: Buffer.from([0x61, 0x81]), data: "x", flags: 0 }]),
    zip("UTF-8 of Windows that is not marked", "entry-encoding", [{ name: "é", data: "x", flags: 0, madeOn: 0 }]),
    tar("a name that is no UTF-8", "entry-encoding", [{ name: Buffer.from([0x61, 0xff]), data: "x" }]),
    tar("a PAX path that is no UTF-8", "entry-encoding", [pax([["path", Buffer.from([0xff])]]), HELLO]),
    zip("a name that says that it was no UTF-8", "entry-encoding", [{ name: "a\ufffd", data: "x" }]),
  ]);
});

describe("conflicting entries", () => {
  const link = { name: "lib", type: "2", target: "/tmp" };
  refuses([
    zip("a link, then a file through it", "entry-through-symlink", [
      { name: "lib", data: "../canary", mode: 0o120777 },
      { name: "lib/file", data: "evil" },
    ]),
    tar("a link, then a file through it", "entry-through-symlink", [link, { name: "lib/file", data: "evil" }]),
    tar("a file, then a link in its folder's place", "entry-through-symlink", [{ name: "lib/file", data: "x" }, link]),
    tar("a link, then a file of its name", "duplicate-entry", [link, { name: "lib", data: "evil" }]),
    tar("a file through a file", "entry-through-file", [HELLO, { name: "SKILL.md/x", data: "x" }]),
    tar("a file in a folder's place", "entry-through-file", [
      { name: "a/b", data: "x" },
      { name: "a", data: "x" },
    ]),
    zip("a file twice that differs", "duplicate-entry", [HELLO, { ...HELLO, data: "other" }]),
    zip("a file twice that is the same", "duplicate-entry", [HELLO, HELLO]),
    zip("a file twice, once with a dot before", "duplicate-entry", [HELLO, { ...HELLO, name: "./SKILL.md" }]),
    tar("a file twice that differs", "duplicate-entry", [HELLO, { ...HELLO, data: "other" }]),
    zip("two cases of one name", "entry-collision", [HELLO, { name: "skill.MD", data: "x" }]),
    tar("two cases of one folder", "entry-collision", [
      { name: "a/b/c", data: "x" },
      { name: "a/B/d", data: "x" },
    ]),
    zip("two ways to write an accent", "entry-collision", [
      { name: "\u00e9/a", data: "x" },
      { name: "e\u0301/b", data: "x" },
    ]),
    zip("letters that fold to the same", "entry-collision", [
      { name: "stra\u00dfe", data: "x" },
      { name: "STRASSE", data: "x" },
    ]),
    tar("a link in another case, then a file through it", "entry-collision", [link, { name: "LIB/file", data: "x" }]),
    tar("a hard link", "entry-kind", [HELLO, { name: "b", type: "1", target: "SKILL.md" }]),
    tar("a FIFO", "entry-kind", [{ name: "pipe", type: "6" }]),
    tar("a character device", "entry-kind", [{ name: "null", type: "3" }]),
    tar("a block device", "entry-kind", [{ name: "sda", type: "4" }]),
    tar("a sparse file", "entry-kind", [{ name: "big", type: "S" }]),
    tar("a sparse file by PAX", "entry-kind", [pax([["GNU.sparse.name", "../x"]]), { name: "big" }]),
    tar("a volume's name", "entry-kind", [{ name: "volume", type: "V" }]),
    zip("a FIFO", "entry-kind", [{ name: "pipe", mode: 0o010644 }]),
    zip("a device", "entry-kind", [{ name: "null", mode: 0o020666 }]),
    zip("a link to a very long path", "entry-too-long", [{ name: "l", data: "a".repeat(5000), mode: 0o120777 }]),
    tar("a link to a very long path", "entry-too-long", [longName("a".repeat(5000), "K"), { name: "l", type: "2" }]),
  ]);

  test("[Q-12] a hard link is reported with its target", async () => {
    const archive = gzipSync(tarOf([{ name: "b", type: "1", target: "/etc/shadow" }]));
    expect(await unpackThroughGate(() => readArchive(archive, "a"))).toMatchObject({
      message: '"b" is a hard link to "/etc/shadow": only files, folders and symlinks are allowed',
    });
  });
});

describe("bounds", () => {
  const zeros = (size: number) => Buffer.alloc(size);
  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `f${index}` }));
  const tens = [1, 2, 3].map((index) => ({ name: `f${index}`, data: zeros(10_000_000) }));
  let hundredThousand: Buffer | undefined;
  /** A hundred thousand entries, as the header states. */
  function manyInZip(entries: number): Buffer {
    hundredThousand ??= zipOf(many(100_000));
    const changed = Buffer.from(hundredThousand);
    for (const before of [14, 12]) changed.writeUInt16LE(entries, changed.length - before);
    return changed;
  }
  refuses([
    ["30 MB out of 30 KB in several entries", "archive-bomb", () => zipOf(tens)],
    ["100,000 entries in a zip", "source-too-many", () => manyInZip(0xffff)],
    ["100,000 entries in a zip that says less", "archive-inconsistent", () => manyInZip(3)],
    [
      "one file of more than 64 MiB",
      "entry-too-large",
      () => gzipSync(tarOf([{ name: "a", data: zeros(65 << 20) }]), { level: 0 }),
    ],
    ["an archive of more than 128 MiB", "archive-too-large", () => zeros(SOURCE_LIMITS.archive + 1)],
  ]);

  test("[Q-12] 100,000 entries are refused before more than 50,000 of them are read", async () => {
    for (const archive of [gzipSync(tarOf(many(100_000)), { level: 0 }), manyInZip(50_001)]) {
      let looked = 0;
      function* counted() {
        for (const entry of readArchive(archive, "a")) {
          looked++;
          yield entry;
        }
      }
      const outcome = await unpackThroughGate(counted);
      expect(outcome).toMatchObject({ code: "source-too-many", message: expect.stringContaining("50,001") });
      expect(looked).toBeLessThanOrEqual(50_001);
    }
  });

  test("[Q-12] folders that occur only in paths count as well", async () => {
    function* entries(): Iterable<SourceEntry> {
      const entry = { mode: 0o644, size: 0, read: () => Buffer.alloc(0) };
      for (let index = 1; index < SOURCE_LIMITS.entries; index++) yield { ...entry, path: "./", kind: "folder" };
      yield { ...entry, path: "a/b/c", kind: "file" };
    }
    expect(await unpackThroughGate(entries)).toMatchObject({
      code: "source-too-many",
      message: expect.stringMatching(/^"a"/),
    });
  });

  test("[Q-12] 200 MB out of 200 KB are refused without using that much space", () => {
    for (const bytes of [
      zipOf([{ name: "a", data: zeros(200_000_000) }]),
      gzipSync(tarOf([{ name: "a", data: zeros(200_000_000) }])),
    ]) {
      expect(bytes.length).toBeLessThan(250_000);
      const file = `${temporaryFolder({ "a.skill": bytes })}/a.skill`;
      const said = execFileSync(process.execPath, ["--input-type=module", "-e", MEASURE, file], { encoding: "utf8" });
      const { code, room } = JSON.parse(said) as { code: string; room: number };
      expect(code).toBe("archive-bomb");
      expect(room).toBeLessThan(100_000_000);
    }
  });

  test("[Q-12] a source with too large a sum is refused", async () => {
    const file = Buffer.alloc(60 << 20, "a");
    function* entries(): Iterable<SourceEntry> {
      for (let index = 0; index < 9; index++) {
        yield { path: `f${index}`, kind: "file", mode: 0o644, size: file.length, read: () => file };
      }
    }
    expect(await unpackThroughGate(entries)).toMatchObject({
      code: "source-too-large",
      message: expect.stringContaining('"f8"'),
    });
  });
});

const TESTS = [
  "archives.test.ts",
  "archives-nested.test.ts",
  "../remote/zip-entries.test.ts",
  "../remote/tar-entries.test.ts",
  "../remote/unpack.test.ts",
];

test("[Q-12] every reason to refuse has its test", () => {
  const texts = TESTS.map((file) => readFileSync(new URL(file, import.meta.url), "utf8")).join();
  expect([...ENTRY_CODES, ...ARCHIVE_CODES].filter((code) => !texts.includes(`"${code}"`))).toEqual([]);
});
