import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const tool = join(import.meta.dirname, "../tools/executed-files.mjs");

/** Returns how many source files a command executes. */
function countExecutedFiles(...args: string[]): number {
  const output = execFileSync(process.execPath, [tool, ...args], { encoding: "utf8" });
  expect(output).toContain("exit code 0");
  return Number(/(\d+) executed/.exec(output)?.[1]);
}

// Lower a number when possible. A reader of one command should not need more files.
describe("the source files that a command executes", { timeout: 60_000 }, () => {
  it("are at most 36 for a list of skills", () => {
    expect(countExecutedFiles("list")).toBeLessThanOrEqual(36);
  });

  it("are at most 91 for a run with the sandbox", () => {
    expect(countExecutedFiles("run", "host-report", "--model", "runbook")).toBeLessThanOrEqual(91);
  });
});
