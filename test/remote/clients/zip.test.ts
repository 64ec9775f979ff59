import { execFileSync, spawnSync } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createZip } from "../../../src/remote/clients/export-skill.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { unzip } from "../../support/unzip.ts";

const file = (text: string, executable = false) => ({ bytes: Buffer.from(text), executable });
const FILES = new Map([
  ["notes/SKILL.md", file("# Notes\n".repeat(500))],
  ["notes/scripts/run.sh", file("#!/bin/sh\n", true)],
  ["notes/grüße/世界.md", file("hello")],
  ["notes/empty", file("")],
]);

describe("zip", () => {
  it("[Q-25] contains every file unchanged, with its name and execute bit", () => {
    const read = unzip(createZip(FILES));
    expect([...read.keys()]).toEqual([...FILES.keys()].sort());
    for (const [path, { bytes, executable }] of FILES) {
      expect(Buffer.from(read.get(path)?.bytes ?? []), path).toEqual(bytes);
      expect(read.get(path)?.mode, path).toBe(executable ? 0o100755 : 0o100644);
    }
  });

  it("has the same bytes for the same files in any order", () => {
    expect(createZip(new Map([...FILES].reverse()))).toEqual(createZip(FILES));
  });

  it("compresses what gets smaller, and stores the rest", () => {
    const noise = Buffer.from(Array.from({ length: 999 }, (_, index) => (index * index * 31) % 251));
    expect(createZip(FILES).length).toBeLessThan(1200);
    expect(unzip(createZip(new Map([["x", { bytes: noise, executable: false }]]))).get("x")?.bytes).toEqual(noise);
  });

  it.runIf(spawnSync("unzip", ["-v"]).status === 0)("is opened by a real unzip", () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "x.zip"), createZip(FILES));
    execFileSync("unzip", ["-q", "x.zip", "notes/scripts/run.sh", "notes/SKILL.md"], { cwd: folder });
    expect(statSync(join(folder, "notes/scripts/run.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(join(folder, "notes/SKILL.md")).size).toBe(4000);
  });
});
