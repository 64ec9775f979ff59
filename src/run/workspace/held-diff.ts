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

/** The change of a sensitive path, for people. */
export interface HeldDiff {
  /** Each file as it was and as it is now. */
  diff: string;
  /** Each file that the diff only counts, with its size and digest. */
  details?: string;
}

/** Where the new content is: in the workspace, or in the folder of held changes. */
export interface HeldPlace {
  root: string;
  path: string;
  /** The command that shows the details. */
  command: string;
}

/**
 * Compares what is at a place with what was there before. Of a repository, what git obeys comes first (HEAD, configuration, hooks, attributes);
 * new objects, refs and logs are counted, with a digest of all of them.
 */
export function diffOf(
  { root, path, command }: HeldPlace,
  { row, before }: Pick<Difference, "row" | "before">,
): HeldDiff {
  const lines: string[] = [];
  const names = new Set<string>();
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
  const isCounted = (inner: string) => isGit && isUnobeyed(inner) && !before.has(inner);
  const sorted = [...names].sort((a, b) => (isGit ? rankOf(a) - rankOf(b) : 0) || (a < b ? -1 : 1));
  const shown = sorted.filter((inner) => !isCounted(inner));
  const counted = sorted.filter(isCounted);
  for (const inner of shown.slice(0, MOST_FILES)) {
    const [old, now] = [describe(before.get(inner)), describeNow(root, joinInner(path, inner))];
    const changed = diffLines(old, now);
    if (inner !== "") lines.push(textOf(inner));
    lines.push(...(changed.length === 0 ? ["@@ only its mode or kind changed @@"] : changed));
  }
  if (shown.length > MOST_FILES) lines.push(`@@ and ${count(shown.length - MOST_FILES, "more file")} @@`);
  if (counted.length === 0) return { diff: (lines.length === 0 ? ["@@ an empty folder @@"] : lines).join("\n") };
  const details = counted.map((inner) => `${textOf(inner)}  ${summaryOf(root, joinInner(path, inner))}`).join("\n");
  const digest = createHash("sha256").update(details).digest("hex");
  lines.push(`@@ and ${count(counted.length, "file")} of objects, refs, logs and samples, sha256 ${digest} @@`);
  lines.push(`@@ the list of these: ${command} @@`);
  return { diff: lines.join("\n"), details };
}

/** What git takes no orders from, but for HEAD, which says what is checked out. `hooks/x.sample` is not a hook. */
function isUnobeyed(inner: string): boolean {
  return inner.toLowerCase() !== "head" && (isVolatile(inner) || /^hooks\/[^/]+\.sample$/.test(inner));
}

/** What decides comes first, in this order. */
const FIRST = [/^head$/i, /^config/i, /^hooks(?:\/|$)/i, /^info\/attributes$/i, /^info(?:\/|$)/i];

function rankOf(inner: string): number {
  const rank = FIRST.findIndex((pattern) => pattern.test(inner));
  return rank < 0 ? FIRST.length : rank;
}

function summaryOf(root: string, path: string): string {
  const stats = statOf(root, path);
  if (!stats || entryOf(stats).kind !== "file") return describeNow(root, path).trimEnd();
  const bytes = readRaw(root, path, Number(stats.size));
  const digest = bytes ? createHash("sha256").update(bytes).digest("hex") : "not read";
  return `${grouped(Number(stats.size))} bytes  sha256 ${digest}`;
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
