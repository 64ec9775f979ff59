import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { SandboxSettings } from "../host/sandbox-settings.ts";
import { packageRoot } from "../package.ts";
import { goneAfter, processesWith } from "./probe-host.ts";
import type { ProbeResult } from "./probes.ts";

/** The moments at which skillet is killed, by the number of processes of the run that are there then. */
const MOMENTS = [
  { name: "nothing is left when skillet is killed while a sandbox starts", processes: 2 },
  { name: "nothing is left when skillet is killed while code runs", processes: 4 },
];

// In the background, in its own session, and deaf to signals.
const LINGER = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.2; done' "$1" > /dev/null 2>&1 < /dev/null &)
while :; do sleep 0.2; done`;

// The token is in a variable and not on the command line: only processes of the run have it there.
const HOST = `const { module, settings, home, argv } = JSON.parse(process.env.SKILLET_PROBE);
const { openSandbox } = await import(module);
const limits = { seconds: 30, output: 1024, memory: 128 * 1024 * 1024, processes: 64, disk: 1024 * 1024 };
const sandbox = await openSandbox({ settings, home });
await sandbox.run({ argv, env: {}, folder: "/", mounts: [], network: [], limits }, { onOutput: () => true });`;

export interface KilledHostOptions {
  settings: SandboxSettings;
  /** Skillet's own folder. */
  home: string;
  /** The file that exports `openSandbox`. Defaults to the one of this package. */
  module?: string | undefined;
}

/** Starts runs in other processes of skillet, kills these, and looks for what is left of the runs. */
export async function probeKilledHost(options: KilledHostOptions): Promise<ProbeResult[]> {
  const root = packageRoot();
  const module = options.module ?? (root === undefined ? undefined : join(root, "dist", "sandbox.js"));
  const results: ProbeResult[] = [];
  for (const { name, processes } of MOMENTS) {
    const left = module === undefined ? undefined : await killHost({ ...options, module }, processes);
    const detail =
      left === undefined ? "its processes cannot be seen from outside" : left === 0 ? "" : "some are still there";
    results.push({ id: "Q-15", name, holds: left === undefined ? undefined : left === 0, detail });
  }
  return results;
}

/** Kills a host when its run has this many processes. Returns how many of them are left a second later; undefined if there never were as many. */
async function killHost(
  options: KilledHostOptions & { module: string },
  processes: number,
): Promise<number | undefined> {
  const token = `orphan-${randomUUID()}`;
  if (processesWith(token) === undefined) return undefined;
  const given = { ...options, argv: ["/bin/sh", "-c", LINGER, "sh", token] };
  const host = spawn(process.execPath, ["--input-type=module", "-e", HOST], {
    stdio: "ignore",
    env: { ...process.env, SKILLET_PROBE: JSON.stringify(given) },
  });
  let isOver = false;
  for (const event of ["exit", "error"]) host.once(event, () => (isOver = true));
  const countLeft = () => processesWith(token)?.length ?? 0;
  const until = performance.now() + 10_000;
  let count = 0;
  while (!isOver && count < processes && performance.now() < until) {
    await setImmediate();
    count = countLeft();
  }
  host.kill("SIGKILL");
  const isGone = (await goneAfter(token, 1000)) !== undefined;
  const left = processesWith(token) ?? [];
  for (const { pid } of left) endProcess(pid);
  if (count < processes) return undefined;
  return isGone ? 0 : left.length;
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}
