import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { temporaryFolder } from "../support/folder.ts";

/** Makes a named pipe. A waiting reader gets a writer shortly before the test is out of time, so that a test fails rather than hangs. */
export function makePipe(path: string): void {
  execFileSync("mkfifo", [path]);
  const waited = join(temporaryFolder(), "waited");
  const script = 'sleep 50; : > "$1"; exec 3<>"$0"; exec sleep 30';
  const writer = spawn("sh", ["-c", script, path, waited], { stdio: "ignore" });
  onTestFinished(() => {
    writer.kill();
    expect(existsSync(waited), "a reader still waited for a writer").toBe(false);
  });
}
