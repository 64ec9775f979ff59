import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { makePlace } from "./place.ts";
import type { Range } from "./range.ts";
import { calledOff, PLAIN, toolPath } from "./run.ts";
import { removeTree } from "./tree.ts";

export interface BuilderOptions {
  range: () => Range;
  signal?: AbortSignal | undefined;
  onWait?: () => void;
}

/** Does something as the only builder of a place. The kernel gives the lock back, however this process ends. */
export async function asBuilder<Value>(
  place: string,
  options: BuilderOptions,
  work: () => Promise<Value>,
): Promise<Value> {
  makePlace(place);
  const release = await acquire(join(place, "lock"), options);
  try {
    // Nobody else builds now: what lies here is of a build that was killed.
    for (const name of readdirSync(join(place, "staging")))
      await removeTree(join(place, "staging", name), options.range);
    return await work();
  } finally {
    await release();
  }
}

function acquire(file: string, { signal, onWait }: BuilderOptions): Promise<() => Promise<void>> {
  return new Promise((resolve, reject) => {
    // It ends, and with it the lock, when its input closes: a Ctrl-C at the terminal is for the build alone.
    const holder = spawn(toolPath("flock"), ["--no-fork", file, "/bin/sh", "-c", "echo; exec cat"], {
      env: PLAIN,
      detached: true,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const closed = new Promise<void>((ended) => holder.on("close", () => ended()));
    const waiting = setTimeout(() => onWait?.(), 500);
    const stop = () => holder.kill("SIGKILL");
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    holder.on("error", reject);
    holder.on("close", () => {
      clearTimeout(waiting);
      reject(signal?.aborted ? calledOff(signal) : new Error(`${file} cannot be locked`));
    });
    holder.stdout.once("data", () => {
      clearTimeout(waiting);
      signal?.removeEventListener("abort", stop);
      resolve(() => {
        holder.stdin.end();
        return closed;
      });
    });
  });
}
