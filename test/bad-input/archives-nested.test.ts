import { randomFillSync } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { readArchive } from "../../src/remote/extract.ts";
import { nestedZip, tarOf, type ZipEntry, zipOf } from "../support/archives.ts";
import { HELLO, type Row, refuses, unpackThroughGate, zip } from "../support/gate.ts";
import { IS_LONG } from "../support/sample-steps.ts";

describe("archives in archives", () => {
  const within = (name: string, data: Buffer): ZipEntry[] => [HELLO, { name, data, method: 0 }];
  const program = (start: string) => zipOf([{ name: "data", data: Buffer.from(`${start}rest`, "latin1") }]);
  const rows: Row[] = [
    ...["in.sh", "a/in.PY", "in.js", "in.exe", "Main.class", "lib.jar", "x.whl"].map((name) =>
      zip(`a zip with ${name}`, "archive-nested", within("a.zip", zipOf([{ name, data: "x" }]))),
    ),
    ...["#!/bin/sh\n", "\xef\xbb\xbf#!/bin/sh", "\x7fELF", "MZ", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\0asm"].map(
      (start) =>
        zip(`a zip with what begins as ${JSON.stringify(start)}`, "archive-nested", within("a.dat", program(start))),
    ),
    zip(
      "a zip with a file that can be run",
      "archive-nested",
      within("a", zipOf([{ name: "in", data: "x", mode: 0o100755 }])),
    ),
    zip(
      "a document with macros",
      "archive-nested",
      within("a.docm", zipOf([{ name: "word/vbaProject.bin", data: "x" }])),
    ),
    zip("a tar with a script", "archive-nested", within("a.tar", tarOf([{ name: "in.sh", data: "x" }]))),
    zip(
      "an old tar with a script",
      "archive-nested",
      within("a.bin", tarOf([{ name: "in.sh", data: "x", magic: "" }])),
    ),
    zip("a tar.gz with a script", "archive-nested", within("a.tgz", gzipSync(tarOf([{ name: "in.sh", data: "x" }])))),
    zip("a script that gzip compressed", "archive-nested", within("a.gz", gzipSync("#!/bin/sh\n"))),
    zip("a script that gzip compressed, by its name", "archive-nested", within("a.sh.gz", gzipSync("true\n"))),
    zip("a zip in a zip with a script", "archive-nested", within("a.zip", nestedZip(2, "in.sh", "x"))),
    zip("a zip that leads out", "archive-nested", within("a.zip", zipOf([{ name: "../../x", data: "x" }]))),
    zip("a zip that disagrees", "archive-nested", within("a.zip", zipOf([{ ...HELLO, local: { name: "b" } }]))),
    zip("a tar with a hard link", "archive-nested", within("a.tar", tarOf([{ name: "a", type: "1", target: "b" }]))),
    zip("a bomb in a zip", "archive-nested", within("a.zip", zipOf([{ name: "a", data: Buffer.alloc(100_000_000) }]))),
    zip("half a zip", "archive-nested", within("a.zip", zipOf([HELLO]).subarray(0, 50))),
    zip(
      "a zip behind a picture",
      "archive-nested",
      within("a.png", Buffer.concat([Buffer.from("\x89PNG"), zipOf([HELLO])])),
    ),
    zip(
      "a zip behind a script",
      "archive-nested",
      within("a.pyz", zipOf([HELLO], { before: Buffer.from("#!/usr/bin/python\n") })),
    ),
    ...[4, 10].map((depth) =>
      zip(`zips ${depth} deep`, "archive-nested", within("a.zip", nestedZip(depth, "in.txt", "x"))),
    ),
    ...["\xfd7zXZ\0", "7z\xbc\xaf\x27\x1c", "BZh91AY&SY", "Rar!\x1a\x07\0", "\x28\xb5\x2f\xfd", "!<arch>\n"].map(
      (start) =>
        zip(
          `what begins as ${JSON.stringify(start)}`,
          "archive-nested",
          within("a", Buffer.from(`${start}....`, "latin1")),
        ),
    ),
  ];
  refuses(rows);

  test.for([
    [
      "a document of an office",
      zipOf([
        { name: "[Content_Types].xml", data: "<x/>" },
        { name: "word/document.xml", data: "<x/>" },
      ]),
    ],
    ["zips three deep with a text", nestedZip(3, "in.txt", "x")],
    ["a tar with a text", tarOf([HELLO])],
    ["a table that gzip compressed", gzipSync("a,b\n1,2\n")],
    ["a text that begins as a bzip2 archive almost does", Buffer.from("BZh9 is a magic number")],
    ["a text with the mark of a zip's end", Buffer.from(`A zip ends in PK\x05\x06${"and so on ".repeat(9)}`)],
  ] as const)("[Q-12] %s is a file like any other", async ([, data]) => {
    const outcome = await unpackThroughGate(() => readArchive(zipOf(within("a", data)), "a.skill"));
    expect(outcome).toMatchObject({ files: 2 });
  });

  test("[Q-12] nested content counts like written content", async () => {
    const tens = Buffer.alloc(60 << 20);
    for (let at = 0; at < tens.length; at += 1 << 16) randomFillSync(tens, at, 1200);
    const many = zipOf(Array.from({ length: 30_000 }, (_, index) => ({ name: `f${index}` })));
    for (const [bytes, times, why, isLarge] of [
      [gzipSync(tens, { level: 1 }), 9, "536,870,912 bytes", true],
      [many, 2, "50,000 files", false],
    ] as const) {
      const entry = { kind: "file", mode: 0o644, size: bytes.length, read: () => bytes } as const;
      const entries = Array.from({ length: times }, (_, index) => ({ ...entry, path: `a${index}` }));
      // Unpacking half a gigabyte takes seconds: in the gate only once, for the refusal.
      if (IS_LONG || !isLarge)
        expect(await unpackThroughGate(() => entries.slice(1))).toMatchObject({ files: times - 1 });
      const outcome = await unpackThroughGate(() => entries);
      expect(outcome).toMatchObject({ code: "archive-nested", message: expect.stringContaining(why) });
    }
  });

  test("[Q-12] nested findings are reported with their path", async () => {
    const outcome = await unpackThroughGate(() =>
      readArchive(zipOf(within("a.zip", nestedZip(2, "run\u202e.sh", "x"))), "a"),
    );
    expect(outcome).toMatchObject({
      message: expect.stringMatching(
        /^"a\.zip\/in\.zip" is an archive .*"run\\u\{202e\}\.sh" has an invisible character/,
      ),
    });
  });
});
