import { describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/folder.ts";
import { refused } from "./support/no-processes.ts";
import { IS_LONG, sampleRows, sampleSteps } from "./support/sample-steps.ts";
import { listFilesThatImport, listTestFiles, listTierFiles, type Tier, tierOf } from "./support/tiers.ts";

describe("the tier of a test file", () => {
  const tierOfText = (path: string, text: string, others: Record<string, string> = {}) =>
    tierOf(path, temporaryFolder({ [path]: text, ...others }));

  it.each<[tier: Tier, text: string]>([
    ["fast", 'import { readFileSync } from "node:fs";'],
    ["fast", 'import type { ChildProcess } from "node:child_process";'],
    ["process", 'import { spawn } from "node:child_process";'],
    ["process", 'import {\n  createServer,\n} from "node:http";'],
    ["process", `const { createServer } = await import("${"node"}:net");`],
  ])("is %s for a file with %s", (tier, text) => {
    expect(tierOfText("test/a/b.test.ts", text)).toBe(tier);
  });

  it("follows from what the helpers of the test import, also in a circle", () => {
    const helpers = {
      "test/support/one.ts": 'import { two } from "./two.ts";',
      "test/support/two.ts": 'import { one } from "./one.ts";\nimport { fork } from "node:child_process";',
    };
    expect(tierOfText("test/a.test.ts", 'import { one } from "./support/one.ts";', helpers)).toBe("process");
    expect(tierOfText("test/a.test.ts", 'import { run } from "../src/run.ts";', helpers)).toBe("fast");
  });

  it.each<[path: string, tier: Tier]>([
    ["test/skill/a.process.test.ts", "process"],
    ["test/skill/a.system.test.ts", "system"],
    ["test/sandbox/packages/a.test.ts", "system"],
  ])("of %s is %s by its path", (path, tier) => {
    expect(tierOfText(path, "")).toBe(tier);
  });

  it("is one of three, and each has its files", () => {
    const tiers = (["fast", "process", "system"] as const).map(listTierFiles);
    expect(tiers.flat().sort()).toEqual(listTestFiles());
    for (const files of tiers) expect(files.length).toBeGreaterThan(10);
  });
});

describe("a sample of steps", () => {
  it("has the first, the last and some of each part, the same each time", () => {
    const steps = sampleSteps(40, 10, false);
    expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b));
    expect([steps.length, steps[0], steps.at(-1)]).toEqual([10, 1, 40]);
    expect(steps.map((step, at) => step - (steps[at - 1] ?? step)).every((gap) => gap < 10)).toBe(true);
    expect(sampleSteps(40, 10, false)).toEqual(steps);
  });

  it("is all of them in the long tier, and if there are few", () => {
    expect(sampleSteps(40, 10, true)).toHaveLength(40);
    expect(sampleSteps(3, 10, false)).toEqual([1, 2, 3]);
  });

  it("of one is the last, and takes the rows of a table", () => {
    expect(sampleSteps(40, 1, false)).toEqual([40]);
    expect(sampleRows(["a", "b", "c"], 2)).toEqual(IS_LONG ? ["a", "b", "c"] : ["a", "c"]);
  });

  it("is a part of the long tier for each test that takes one", () => {
    expect(listFilesThatImport("support/sample-steps.ts")).toContain("test/remote/put.test.ts");
  });
});

describe("the fast tier", () => {
  // Importing them would make this file leave the tier.
  const childProcess = process.getBuiltinModule("node:child_process");
  const net = process.getBuiltinModule("node:net");
  const dgram = process.getBuiltinModule("node:dgram");

  it.each<[name: string, call: () => unknown]>([
    ["spawn", () => childProcess.spawn("true")],
    ["spawnSync", () => childProcess.spawnSync("true")],
    ["execFile", () => childProcess.execFile("true")],
    ["execFileSync", () => childProcess.execFileSync("true")],
    ["fork", () => childProcess.fork("true")],
    ["listen", () => net.createServer().listen(0)],
    ["connect", () => net.connect(1, "127.0.0.1")],
    ["createSocket", () => dgram.createSocket("udp4")],
  ])("refuses %s, and notes it so that the test fails although the error is handled", (name, call) => {
    expect(call).toThrow(`A test of the fast tier called ${name}`);
    expect(refused.splice(0)).toEqual([expect.stringContaining(name)]);
  });

  it("refuses requests to the network", async () => {
    await expect(fetch("http://127.0.0.1:9999/")).rejects.toThrow();
    expect(refused.splice(0)).toEqual([expect.stringContaining("connect")]);
  });
});
