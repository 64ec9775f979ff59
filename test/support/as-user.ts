/**
 * Tests a sandbox as an ordinary user: a separate program, because the process of the tests cannot change its user and change back.
 * `node as-user.ts HOME` runs the probes and every check of the contract, and prints `Tried` as JSON.
 * A test starts it with `runAsUser()`; the code that it runs never imports it.
 */

import { spawn } from "node:child_process";
import { chownSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEFAULT_SANDBOX_SETTINGS } from "../../src/config/limits.ts";
import { createSandbox } from "../../src/sandbox/create-sandbox.ts";
import { type ProbeResult, probeSandbox } from "../../src/sandbox/probes.ts";
import { checksFor } from "../sandbox/checks.ts";
import { sceneFor } from "../sandbox/scene.ts";
import { asOrdinaryUser, ORDINARY_USER } from "./ordinary-user.ts";
import { KEPT, WITH_BUILT } from "./program.ts";

export interface Tried {
  user: number;
  probes: ProbeResult[];
  /** The error of each check, by its title; undefined if it passed. */
  checks: Record<string, string | null>;
}

/** Runs it as a user other than root: as an ordinary user if root runs the tests, else as the current user. */
export async function runAsUser(): Promise<Tried> {
  const home = mkdtempSync(join(tmpdir(), "skillet-test-"));
  const secret = join(home, "leaked.txt");
  writeFileSync(secret, "leaked");
  chownSync(secret, process.getuid?.() === 0 ? ORDINARY_USER : -1, -1);
  const leaked = openSync(secret, "r");
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(home, ORDINARY_USER, ORDINARY_USER);
  const [program = "", ...args] = [...asOrdinaryUser(), process.execPath, ...WITH_BUILT, import.meta.filename, home];
  try {
    // Descriptor 40 is an inherited one that refers to a file: sandboxes must not pass it on. (Node itself handles
    // the first ones, up to a gap.)
    const child = spawn(program, args, {
      cwd: "/",
      env: {
        ...{ PATH: "/usr/bin:/bin", HOME: home, HOST_SECRET: "of the host's" },
        ...(KEPT === undefined ? {} : { SKILLET_TEST_BUILT: KEPT }),
      },
      stdio: ["ignore", "pipe", "pipe", ...Array(37).fill("ignore"), leaked],
    });
    let stdout = "";
    let stderr = "";
    child.stdout?.on("data", (bytes) => {
      stdout += bytes;
    });
    child.stderr?.on("data", (bytes) => {
      stderr += bytes;
    });
    await new Promise((resolve) => child.on("close", resolve));
    if (!stdout.startsWith("{")) throw new Error(`as an ordinary user: ${stdout}${stderr}`);
    return JSON.parse(stdout);
  } finally {
    closeSync(leaked);
    rmSync(home, { recursive: true, force: true });
  }
}

async function main(userHome: string): Promise<void> {
  const home = join(userHome, ".skillet");
  mkdirSync(home, { recursive: true });
  const sandbox = await createSandbox({ settings: DEFAULT_SANDBOX_SETTINGS, home });
  const scene = sceneFor(sandbox);
  const checks: Tried["checks"] = {};
  for (const { title, check } of checksFor(sandbox.level)) {
    checks[title] = await check(scene).then(
      () => null,
      (error: Error) => `${error.message}\n${error.stack}`,
    );
    scene.end();
  }
  const probes = await probeSandbox(sandbox, { home });
  const tried: Tried = { user: process.getuid?.() ?? -1, probes, checks };
  process.stdout.write(JSON.stringify(tried));
}

if (process.argv[1] === import.meta.filename && process.argv[2] !== undefined) await main(process.argv[2]);
