import { closeSync, constants, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { makePlace } from "./place.ts";
import type { Range } from "./range.ts";
import { run, TURN } from "./run.ts";
import { removeTree } from "./tree.ts";

export interface BuilderOptions {
  range: () => Range;
  signal?: AbortSignal | undefined;
  onWait?: () => void;
}

/** Does something as the only builder of a place. The turn is over when this process has ended, however that is, and all that it gave it to. */
export async function asBuilder<Value>(
  place: string,
  options: BuilderOptions,
  work: (turn: number) => Promise<Value>,
): Promise<Value> {
  makePlace(place);
  // Read too, so that a pipe in its place is not waited for.
  const turn = openSync(join(place, "lock"), constants.O_RDWR | constants.O_CREAT);
  try {
    await take(turn, options);
    // Nobody else builds now: what lies here is of a build that was killed.
    for (const name of readdirSync(join(place, "staging")))
      await removeTree(join(place, "staging", name), options.range);
    return await work(turn);
  } finally {
    closeSync(turn);
  }
}

/** Locks the file that is open here. The kernel keeps the lock while anybody has it open; the program that asked for it has not. */
async function take(turn: number, { signal, onWait }: BuilderOptions): Promise<void> {
  const waiting = setTimeout(() => onWait?.(), 500);
  try {
    const { code, tail } = await run("flock", [String(TURN)], { signal, turn });
    if (code !== 0) throw new Error(`the lock of the builder cannot be had: ${tail}`);
  } finally {
    clearTimeout(waiting);
  }
}
