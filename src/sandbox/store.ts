import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { whileLocked } from "../host/locked-file.ts";
import { SkillError } from "../shared/error.ts";
import { isInside, reason } from "../shared/inside.ts";
import { readRegularFile } from "../shared/regular-file.ts";
import type { SkillCopy } from "../source/digest.ts";
import { isRoot } from "./places.ts";

const UNUSED_MS = 30 * 24 * 60 * 60 * 1000;

/**
 * Puts a skill's files where code may read them, under the name of their digest, and gives the folder. What is there stays as it
 * is: a run sees the bytes that were judged, whatever happens to the original meanwhile.
 */
export function storeSkill(copy: SkillCopy, store: string): string {
  const folder = join(store, copy.digest.replace("sha256:", ""));
  if (existsSync(folder)) {
    touch(folder);
    return folder;
  }
  const draft = join(store, `.${randomUUID()}`);
  try {
    makeFolder(store);
    chmodSync(store, isRoot() ? 0o711 : 0o700); // Who cannot list it cannot find a copy of what is private.
    for (const [path, { bytes, executable }] of copy.files) write(draft, path, bytes, executable ? 0o755 : 0o644);
    renameSync(draft, folder);
  } catch (error) {
    if (existsSync(draft)) rmSync(draft, { recursive: true, force: true });
    if (!existsSync(folder)) throw unwritable(store, error); // Another run may just have put it there.
  }
  sweep(store);
  return folder;
}

/** The same for code that nothing keeps from writing there: what is not as it was judged is put there anew. */
export function storedAsJudged(copy: SkillCopy, store: string): string {
  const folder = storeSkill(copy, store);
  if (isAsJudged(folder, copy)) return folder;
  return whileLocked(`${folder}.mending`, () => {
    if (isAsJudged(folder, copy)) return folder;
    if (existsSync(folder)) renameSync(folder, join(store, `.${randomUUID()}`)); // Whoever reads it goes on; it is swept later.
    return storeSkill(copy, store);
  });
}

function isAsJudged(folder: string, { files }: SkillCopy): boolean {
  try {
    const there = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory());
    if (there.length !== files.size) return false;
    return [...files].every(([path, { bytes }]) =>
      readRegularFile(join(folder, path), { limit: bytes.length, refusesLinks: true }).equals(bytes),
    );
  } catch {
    return false;
  }
}

/** A folder that code may read, also where the umask says otherwise. */
export function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o755);
}

function write(root: string, path: string, bytes: Uint8Array, mode: number): void {
  const file = join(root, path);
  if (!isInside(root, file)) throw new Error(`${path} is not in the skill's folder`);
  makeFolder(dirname(file));
  writeFileSync(file, bytes, { flag: "wx" });
  chmodSync(file, mode);
}

/** What nobody used for a month goes, and what a run left that was killed while it wrote. */
function sweep(store: string): void {
  const now = Date.now();
  for (const name of readdirSync(store)) {
    const path = join(store, name);
    const age = now - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now);
    if (age > (name.startsWith(".") ? 60 * 60 * 1000 : UNUSED_MS)) rmSync(path, { recursive: true, force: true });
  }
}

function touch(folder: string): void {
  try {
    const now = new Date();
    utimesSync(folder, now, now);
  } catch {
    // Root's own, and so not swept by this user.
  }
}

function unwritable(store: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `A copy of the skill cannot be put into ${store}: ${reason(cause)}`,
    fix: "check that the folder can be written to, and that there is room",
    cause,
  });
}
