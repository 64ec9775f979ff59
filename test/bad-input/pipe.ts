import { execFileSync, spawn } from "node:child_process";
import { expect, onTestFinished } from "vitest";

/** Makes a named pipe. Whoever waits for a writer gets one after three seconds, so that a test fails rather than hangs. */
export function makePipe(path: string): void {
  execFileSync("mkfifo", [path]);
  const writer = spawn("sh", ["-c", 'sleep 3; exec 3<>"$0"; exec sleep 30', path], { stdio: "ignore" });
  const start = performance.now();
  onTestFinished(() => {
    writer.kill();
    expect(performance.now() - start).toBeLessThan(2500);
  });
}
