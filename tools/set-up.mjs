// Puts in place what the machine lacks, as `skillet doctor --fix --yes` does: `npm start` and `npm test` begin with it.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const program = join(dirname(fileURLToPath(import.meta.url)), "..", "bin", "skillet.cjs");

/** Contract: false when something is still missing, which has been said. */
export function setUp() {
  const { status, stderr } = spawnSync(process.execPath, [program, "doctor", "--fix", "--yes"], { encoding: "utf8" });
  // What was there already is nothing to tell.
  if (status !== 0 || stderr.includes(" is missing")) process.stderr.write(stderr);
  return status === 0;
}

/**
 * What Claude Code's own sandbox needs beside bubblewrap: nothing of skillet does, so only the gate installs it, where it may. Without
 * it the tests see how Claude Code refuses to start programs.
 */
export function setUpClaude() {
  if (existsSync("/usr/bin/socat") || process.getuid?.() !== 0 || !existsSync("/usr/bin/apt-get")) return;
  const apt = (...args) => spawnSync("apt-get", ["-qq", "-y", ...args], { stdio: "ignore" }).status === 0;
  if (!apt("install", "--no-install-recommends", "socat")) {
    apt("update");
    apt("install", "--no-install-recommends", "socat");
  }
}
