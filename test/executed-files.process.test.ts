import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const tool = join(import.meta.dirname, "../tools/executed-files.mjs");

/** Returns how many source files a command executes, and how many functions are above its first process. */
function measureCommand(...args: string[]): { files: number; layers: number } {
  const output = execFileSync(process.execPath, [tool, ...args], { encoding: "utf8" });
  expect(output).toContain("exit code 0");
  const [files, layers] = [/(\d+) executed/, /(\d+) functions from/].map((line) => Number(line.exec(output)?.[1]));
  return { files: files ?? Number.NaN, layers: layers ?? Number.NaN };
}

// Lower a number when possible. A reader of one command should not need more files.
describe("the source files that a command executes", { timeout: 60_000 }, () => {
  it("are at most 35 for a list of skills", () => {
    expect(measureCommand("list").files).toBeLessThanOrEqual(35);
  });

  it("are at most 88 for a run with the sandbox, whose process is 12 functions below the use of the skill", () => {
    const { files, layers } = measureCommand("run", "host-report", "--model", "runbook");
    expect(files).toBeLessThanOrEqual(88);
    expect(layers).toBeLessThanOrEqual(12);
  });
});
