import { createHash } from "node:crypto";
import { chmodSync, lchownSync, lstatSync, readdirSync, readFileSync, readlinkSync, rmSync, type Stats } from "node:fs";
import { join } from "node:path";
import { byText } from "../../shared/text.ts";
import { isRoot } from "../places.ts";

/** The content of a folder. */
export interface TreeDigest {
  /** Changes with any byte, name, link or execute bit. */
  digest: string;
  /** Changes with any write, by what the kernel notes of a file: cheap to compare. */
  fingerprint: string;
  bytes: number;
}

/** Makes a built folder readable by everybody and writable by its owner alone, who is the caller. Devices and pipes are removed. */
export function settleTree(folder: string): void {
  for (const { path, stat } of entriesOf(folder)) {
    if (!stat.isFile() && !stat.isDirectory() && !stat.isSymbolicLink()) {
      rmSync(path);
      continue;
    }
    if (isRoot()) lchownSync(path, 0, 0);
    if (!stat.isSymbolicLink()) chmodSync(path, stat.isDirectory() || (stat.mode & 0o111) !== 0 ? 0o755 : 0o644);
  }
}

/** Makes a user the owner of all in a folder. */
export function giveTree(folder: string, user: number): void {
  for (const { path } of entriesOf(folder)) lchownSync(path, user, user);
}

export function fingerprintOf(folder: string): string {
  const hash = createHash("sha256");
  for (const { name, stat } of entriesOf(folder)) {
    const { size, mtimeMs, ctimeMs, ino, mode, uid } = stat;
    hash.update(
      JSON.stringify(stat.isDirectory() ? [name, mode, uid] : [name, size, mtimeMs, ctimeMs, ino, mode, uid]),
    );
  }
  return hash.digest("hex");
}

export function digestOf(folder: string): TreeDigest {
  const hash = createHash("sha256");
  let bytes = 0;
  for (const { name, path, stat } of entriesOf(folder)) {
    const isExecutable = (stat.mode & 0o111) !== 0;
    if (stat.isSymbolicLink()) hash.update(JSON.stringify([name, "link", readlinkSync(path)]));
    else if (stat.isDirectory()) hash.update(JSON.stringify([name, "folder"]));
    else if (stat.isFile()) {
      const content = readFileSync(path);
      bytes += content.length;
      hash.update(JSON.stringify([name, isExecutable, createHash("sha256").update(content).digest("hex")]));
    } else hash.update(JSON.stringify([name, "other"]));
  }
  return { digest: `sha256:${hash.digest("hex")}`, fingerprint: fingerprintOf(folder), bytes };
}

interface TreeEntry {
  name: string;
  path: string;
  stat: Stats;
}

/** Everything in a folder and the folder itself, in one order on every machine. */
function* entriesOf(folder: string, name = ""): Generator<TreeEntry> {
  const path = join(folder, name);
  const stat = lstatSync(path);
  yield { name, path, stat };
  if (!stat.isDirectory()) return;
  for (const inner of readdirSync(path).sort(byText))
    yield* entriesOf(folder, name === "" ? inner : `${name}/${inner}`);
}
