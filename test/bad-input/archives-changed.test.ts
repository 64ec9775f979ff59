import { mkdirSync, rmSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { extractEntries, readArchive } from "../../src/remote/extract.ts";
import { longName, pax, tarOf, zipOf } from "../support/archives.ts";
import { temporaryFolder } from "../support/folder.ts";
import { filesBelow } from "../support/gate.ts";

const FILES = [
  { name: "x/" },
  { name: "x/SKILL.md", data: "hello ".repeat(100) },
  { name: "x/scripts/run.sh", data: "#!/bin/sh\n", mode: 0o100755 },
  { name: "x/notes.txt", data: "stored", method: 0 },
  { name: "x/later.txt", data: "later", descriptor: "marked" as const },
  { name: "x/in.docx", data: zipOf([{ name: "in.txt", data: "x".repeat(99) }]) },
];
const ZIP = zipOf([...FILES, { name: "x/link", data: "SKILL.md", mode: 0o120777 }], { comment: Buffer.from("fine") });
const TAR = tarOf([
  pax([["comment", "fine"]], "g"),
  ...FILES.map(({ name, data = "", mode = 0o644 }) => ({ name, data, mode: mode & 0o777 })),
  longName("x/far/down"),
  { name: "x", data: "x" },
  pax([["path", "x/far/é"], ["size", "1"]]), // biome-ignore format: one row
  { name: "x", data: "x" },
  { name: "x/link", type: "2", target: "SKILL.md" },
]);

/** The same changes in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Lengths, offsets and types are where a change has the greatest effect: small numbers, all bits, other types. */
const BYTES = [0, 1, 0x2e, 0x2f, 0x30, 0x31, 0x35, 0x4c, 0x50, 0x67, 0x78, 0x7f, 0x80, 0xff];

function changed(bytes: Buffer, next: (below: number) => number): Buffer {
  const copy = Buffer.from(bytes);
  for (let left = 1 + next(3); left > 0; left--) {
    const at = next(copy.length);
    const byte = next(2) === 0 ? BYTES[next(BYTES.length)] : next(256);
    copy[at] = byte ?? 0;
  }
  const cut = next(12);
  if (cut === 0) return copy.subarray(0, next(copy.length));
  const [from, to] = [next(copy.length), next(copy.length)].sort((a, b) => a - b) as [number, number];
  if (cut === 1) return Buffer.concat([copy.subarray(0, from), copy.subarray(to)]);
  if (cut === 2) return Buffer.concat([copy.subarray(0, to), copy.subarray(from)]);
  return copy;
}

/** A changed header with a correct checksum, so that it is parsed. */
function mended(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  for (let at = 0; at + 512 <= copy.length; at += 512) {
    const block = copy.subarray(at, at + 512);
    if (block.toString("latin1", 257, 262) !== "ustar") continue;
    block.fill(" ", 148, 156);
    const sum = block.reduce((total, byte) => total + byte, 0);
    block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  }
  return copy;
}

const KINDS: readonly (readonly [string, (next: (below: number) => number) => Buffer])[] = [
  ["zip", (next) => changed(ZIP, next)],
  ["tar", (next) => gzipSync(changed(TAR, next), { level: 1 })],
  ["tar with correct checksums", (next) => gzipSync(mended(changed(TAR, next)), { level: 1 })],
  ["compressed tar", (next) => changed(gzipSync(TAR), next)],
];

test.for(KINDS)(
  "[Q-12] a %s with any changed byte is refused, or stays in its folder",
  { timeout: 120_000 },
  async ([, make]) => {
    const root = temporaryFolder({ "x/file": "as it was", file: "as it was" });
    const to = `${root}/to`;
    const counts = { refused: 0, taken: 0 };
    for (let seed = 0; seed < 1000; seed++) {
      const bytes = make(numbers(seed));
      mkdirSync(to);
      try {
        await extractEntries(readArchive(bytes, "a.skill"), { to });
        counts.taken++;
      } catch (error) {
        if (!(error instanceof SkillError)) throw new Error(`seed ${seed}`, { cause: error });
        counts.refused++;
      }
      expect(Object.values(filesBelow(to)).filter((kind) => kind === "no file")).toEqual([]);
      rmSync(to, { recursive: true });
    }
    expect(filesBelow(root)).toEqual({ "x/": "", "x/file": "644 as it was", file: "644 as it was" });
    expect(counts.refused).toBeGreaterThan(250);
  },
);

test("[Q-12] an unchanged archive is accepted", async () => {
  for (const bytes of [ZIP, gzipSync(TAR), gzipSync(mended(TAR)), gzipSync(gunzipSync(gzipSync(TAR)))]) {
    const to = temporaryFolder();
    expect((await extractEntries(readArchive(bytes, "a.skill"), { to })).files).toBeGreaterThan(4);
  }
});
