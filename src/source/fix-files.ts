import { chmodSync, chownSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { Code } from "../codes/findings.ts";
import { diffLines } from "../shared/diff.ts";
import { codeOf, isInside, reason } from "../shared/inside.ts";
import { count } from "../shared/text.ts";
import type { Finding, Profile } from "../skill/diagnostic.ts";
import { parseMarkdown, parseYaml } from "../skill/document.ts";
import { fixDocument } from "../skill/fix.ts";
import { readSkill } from "../skill/read.ts";
import { fromUtf16, readText, stampOf, statOf } from "./file.ts";
import { isElsewhere } from "./read-candidate.ts";
import type { Candidate } from "./walk.ts";

/** A skill that was found, and the path of the user's below which it was found. */
export interface FoundSkill {
  candidate: Candidate;
  root: string;
}

/** How a real file is to be fixed. */
export interface FixPlan {
  /** The real path. */
  path: string;
  /** The skill that the change is reported for. */
  file: string;
  /** All skills that are this file: links may lead to it. */
  files: readonly string[];
  /** Whether `file` leads to `path` through a link. */
  isLinked: boolean;
  before: string;
  /** The same as `before` if a fix was refused. */
  after: string;
  fixed: readonly Code[];
  /** Fixes that would change more than they report. */
  refused: readonly Code[];
}

export interface FixOptions {
  profile: Profile;
  /** Misspelled keys to rename. */
  rename: readonly string[];
}

/** Plans the fixes of these skills, each real file once. Nothing is written. */
export function planFixes(found: readonly FoundSkill[], options: FixOptions): FixPlan[] {
  const ways = found.flatMap(({ candidate, root }) => {
    const path = realPath(candidate.file);
    const stats = path === undefined ? undefined : statOf(path);
    return path === undefined || !stats ? [] : [{ candidate, root, path, key: `${stats.dev}:${stats.ino}` }];
  });
  // Hard links have a real path each: the inode tells that they are one file.
  return [...Map.groupBy(ways, ({ key }) => key).values()].flatMap((all) => {
    // A link may lead to a file of others: what is not below a path that the user named is read, but never written.
    const below = all.filter(({ root, path }) => isBelow(root, path));
    const own = below.find((way) => !isLinked(way.candidate));
    const way = own ?? below[0];
    if (!way) return [];
    const { path, candidate } = way;
    const plan = planFix(candidate, own === undefined, options);
    const files = all.map((each) => each.candidate.file);
    return plan ? [{ ...plan, path, file: candidate.file, files, isLinked: own === undefined }] : [];
  });
}

/** Writes a planned change. Returns what went wrong. */
export function applyFix({ path, before, after }: FixPlan): Finding | undefined {
  try {
    if (readWhole(path)?.text !== before) return { code: "not-written", message: "changed while it was being fixed" };
    replaceFile(path, after);
    return undefined;
  } catch (error) {
    return { code: "not-written", message: `could not be fixed: ${reason(error)}` };
  }
}

/** Shows a change as a diff. What has no visible lines of its own is one line each: the encoding, a byte order mark, line ends. */
export function diffOf({ before, after, fixed }: FixPlan): string[] {
  const lines: string[] = [];
  if (fixed.includes("not-utf8")) lines.push("@@ encoding: UTF-16 to UTF-8 @@");
  if (fixed.includes("byte-order-mark")) lines.push("@@ byte order mark: removed @@");
  if (fixed.includes("line-ends")) {
    const ends = before.split("\r\n").length - 1;
    lines.push(`@@ line ends: CR LF to LF in ${count(ends, "line")} @@`);
  }
  return [...lines, ...diffLines(before.replace(/^\ufeff/, "").replaceAll("\r\n", "\n"), after, { context: 1 })];
}

function planFix(
  candidate: Candidate,
  isLinked: boolean,
  { profile, rename }: FixOptions,
): Pick<FixPlan, "before" | "after" | "fixed" | "refused"> | undefined {
  const { file, form, stem } = candidate;
  const read = readWhole(file);
  if (!read || !isSkill(candidate, isLinked, read.text)) return undefined;
  const { text, isConverted } = read;
  const result = fixDocument(text, { form, stem, profile, rename: new Set(rename), isLinked });
  const { refused } = result;
  const fixed: Code[] = isConverted && refused.length === 0 ? ["not-utf8", ...result.fixed] : result.fixed;
  return fixed.length + refused.length > 0 ? { before: text, after: result.text, fixed, refused } : undefined;
}

/** The text of a file, also of one in UTF-16. Nothing when a part of it cannot be read as text, and would be lost. */
function readWhole(file: string): { text: string; isConverted: boolean } | undefined {
  const read = readText(file);
  if ("text" in read) return read.findings.length === 0 ? { text: read.text, isConverted: false } : undefined;
  const text = read.finding.code === "not-utf8" ? fromUtf16(readFileSync(file)) : undefined;
  return text === undefined || text.includes("\ufffd") ? undefined : { text, isConverted: true };
}

/** Whether a file is a skill by its name, or discovery would load it. Nothing else is ever written. */
function isSkill({ file, form, stem }: Candidate, isLinked: boolean, text: string): boolean {
  const document = form === "yaml" ? parseYaml(text) : parseMarkdown(text);
  const { isUsable, findings } = readSkill(document, { form, stem, profile: "load" });
  if (isUsable) return true;
  return !isLinked && basename(file) === "SKILL.md" && findings.every(({ code }) => code !== "frontmatter-missing");
}

function isLinked(candidate: Candidate): boolean {
  try {
    return isElsewhere(candidate, stampOf(statSync(candidate.file)));
  } catch {
    return true;
  }
}

function isBelow(root: string, file: string): boolean {
  const real = realPath(root);
  if (real === undefined) return false;
  return isInside(statSync(real).isDirectory() ? real : dirname(real), file);
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

/** The file is the old or the new one at every moment, and keeps its owner and permissions. One with hard links stays the same file. */
function replaceFile(path: string, text: string): void {
  const { mode, nlink, uid, gid } = statSync(path);
  if (nlink > 1) {
    writeFileSync(path, text);
    return;
  }
  const draft = `${path}.${process.pid}.tmp`;
  try {
    writeFileSync(draft, text, { flag: "wx" });
    // Only root may give a file to another user: without that right it belongs to the user who fixed it.
    if (process.getuid?.() === 0) chownSync(draft, uid, gid);
    chmodSync(draft, mode & 0o7777);
    renameSync(draft, path);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") rmSync(draft, { force: true });
    throw error;
  }
}
