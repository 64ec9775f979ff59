import { mkdirSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";

/** One process at a time: of two that read before either wrote, the later would undo what the earlier did. */
export function whileLocked<T>(file: string, work: () => T): T {
  const lock = `${file}.lock`;
  for (;;) {
    try {
      mkdirSync(dirname(file), { recursive: true });
      mkdirSync(lock);
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") break; // Writing says why.
      const made = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
      // Whoever holds it for so long was killed. How long this one waited says nothing: others may have had it in between.
      if (Math.abs(Date.now() - made) > LONGEST_HELD_MS) rmSync(lock, { recursive: true, force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
  try {
    return work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

const LONGEST_HELD_MS = 2000;

/** Puts a text in a file's place, whole or not at all; for the user alone, unless a mode says otherwise. A link to it stays one. */
export function replaceFile(file: string, text: string, mode = 0o600): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    const real = realPath(file);
    const draft = `${real}.${process.pid}`;
    writeFileSync(draft, text, { mode });
    renameSync(draft, real);
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `${file} cannot be written: ${reason(error)}`,
      fix: "check that the folder can be written to",
      cause: error,
    });
  }
}

function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file; // It is made now.
  }
}
