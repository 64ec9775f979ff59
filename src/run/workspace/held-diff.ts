import { createHash } from "node:crypto";
import { diffLines } from "../../shared/diff.ts";
import { count, grouped } from "../../shared/text.ts";
import type { Difference } from "./compare-workspace.ts";
import { isGitFolder, isVolatile } from "./sensitive-paths.ts";
import { entryOf, linkTarget, namesIn, readRaw, statOf } from "./snapshot.ts";
import { joinRaw, textOf } from "./walk-workspace.ts";

/** Longer files are named with their size and digest: nobody reads more in a question. */
const LONGEST_TEXT = 256 * 1024;
const MOST_FILES = 2000;

/** The complete change of a sensitive path, for people: each file as it was and as it is now. */
export function diffOf(root: string, { path, row, before }: Difference): string {
  const lines: string[] = [];
  const names = new Set<string>();
  let volatile = 0;
  let isGit = false;
  const queue = [""];
  for (let at = 0; at < queue.length; at++) {
    const inner = queue[at] as string;
    const whole = joinInner(path, inner);
    const stats = statOf(root, whole);
    if (!stats) continue;
    if (!stats.isDirectory()) names.add(inner);
    else {
      const found = namesIn(root, whole);
      if (inner === "") isGit = isGitFolder(row, found);
      queue.push(...found.map((name) => joinRaw(inner, name)));
    }
  }
  for (const [inner, { kind }] of before) if (kind !== "folder") names.add(inner);
  const shown = [...names].sort().filter((inner) => {
    if (isGit && isVolatile(inner) && !before.has(inner)) volatile++;
    else return true;
    return false;
  });
  for (const inner of shown.slice(0, MOST_FILES)) {
    const [old, now] = [describe(before.get(inner)), describeNow(root, joinInner(path, inner))];
    const changed = diffLines(old, now);
    if (inner !== "") lines.push(textOf(inner));
    lines.push(...(changed.length === 0 ? ["@@ only its mode or kind changed @@"] : changed));
  }
  if (shown.length > MOST_FILES) lines.push(`@@ and ${count(shown.length - MOST_FILES, "more file")} @@`);
  if (volatile > 0) lines.push(`@@ and ${count(volatile, "file")} of objects, refs and logs @@`);
  if (lines.length === 0) lines.push("@@ an empty folder @@");
  return lines.join("\n");
}

function joinInner(path: string, inner: string): string {
  return inner === "" ? path : `${path}/${inner}`;
}

function describe(entry: { kind: string; bytes?: Buffer } | undefined): string {
  if (!entry) return "";
  if (entry.kind === "link") return `symlink to ${entry.bytes}\n`;
  return entry.kind === "file" && entry.bytes ? textIn(entry.bytes, entry.bytes.length) : `a ${entry.kind}\n`;
}

function describeNow(root: string, path: string): string {
  const stats = statOf(root, path);
  if (!stats) return "";
  const { kind } = entryOf(stats);
  if (kind === "link") return `symlink to ${linkTarget(root, path)}\n`;
  if (kind !== "file") return `a ${stats.isSocket() ? "socket" : stats.isFIFO() ? "named pipe" : kind}\n`;
  return textIn(readRaw(root, path, 64 * 1024 * 1024), Number(stats.size));
}

function textIn(bytes: Buffer | undefined, size: number): string {
  if (!bytes) return `a file that cannot be read, ${grouped(size)} bytes\n`;
  const digest = () => createHash("sha256").update(bytes).digest("hex");
  if (size > LONGEST_TEXT || bytes.includes(0)) return `${grouped(size)} bytes, sha256 ${digest()}\n`;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return `${grouped(size)} bytes, sha256 ${digest()}\n`;
  }
}
