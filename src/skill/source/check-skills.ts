import {
  chmodSync,
  chownSync,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { FindingCode } from "../../errors/finding-codes.ts";
import { getErrnoCode, getErrorMessage } from "../../errors/problem.ts";
import { diffLines } from "../../util/diff.ts";
import { createFileFingerprint, decodeUtf16, statIfExists } from "../../util/file-access.ts";
import { isInside } from "../../util/safe-path.ts";
import { formatCount } from "../../util/text.ts";
import { parseMarkdownDocument, parseYamlDocument, validateSkill } from "../document.ts";
import { fixDocument } from "../fix-document.ts";
import { lintDocument } from "../lint.ts";
import { type Manifest, readManifest } from "../manifest.ts";
import { type Diagnostic, diagnose, type Finding, hasErrors, type Profile } from "../skill.ts";
import { type FileText, hasSkillFrontmatter, readSkillText } from "./file-skill.ts";
import { createNestedFindings, findNestedCandidates, findSkillCandidates, type SkillCandidate } from "./find-skills.ts";
import { isSkillsFolder } from "./locations.ts";
import { isLinkedElsewhere, isUnrelatedFile, redactFindings } from "./read-skill.ts";
import { createBrokenLinkFinding, createOpenFinding, createTargetFinder, listFiles } from "./skill-files.ts";

export interface CheckSkillsOptions {
  profile?: Profile;
  /** Fixes problems in place without changing the meaning of a skill. Only skills are written. */
  fix?: boolean;
  /** With `fix`: reports the same changes, but writes nothing. */
  dryRun?: boolean;
  /** With `fix`: misspelled keys to rename. Defaults to none: a misspelled key is only reported. */
  rename?: readonly string[];
  /** Folders that discovery reads: Markdown and YAML files directly in them are skills. */
  skillsFolders?: readonly string[];
  /**
   * Called after each skill, with the number of skills found below the path so far. The check is synchronous and runs to its end.
   */
  onChecked?: (done: number, path: string) => void;
  /** Called with the manifest of each skill that is checked, and again after a fix. */
  onManifest?: ((manifest: Manifest) => void) | undefined;
}

export interface CheckedFile {
  file: string;
  name: string;
  /** True if the profile accepts the skill. */
  isValid: boolean;
  diagnostics: readonly Diagnostic[];
  fixed: readonly FindingCode[];
  /** The diff of the fix, also with `dryRun`: lines that start with ` `, `-`, `+` or `@@`. Empty without a fix. */
  diff: readonly string[];
  /** The fixed file, if `file` is a symlink or in a linked folder. */
  target?: string;
}

export interface CheckResult {
  profile: Profile;
  files: readonly CheckedFile[];
  /** Problems outside of skill files: unreadable folders, broken symlinks, a path that does not exist. */
  diagnostics: readonly Diagnostic[];
}

/**
 * Checks a skill folder, a skill file, or every skill below a folder, with the parser and the rules of discovery. Only the
 * severity of a finding depends on the profile.
 */
export function checkPath(path: string, options: CheckSkillsOptions = {}): CheckResult {
  return checkPaths([path], options);
}

/** Checks several paths as `checkPath` does, each skill once. */
export function checkPaths(paths: readonly string[], options: CheckSkillsOptions = {}): CheckResult {
  const { profile = "load", fix = false, dryRun = false, rename = [], skillsFolders = [], onChecked } = options;
  const { onManifest } = options;
  const found = new Map<string, FixableSkill & { checked: CheckedFile }>();
  const diagnostics: Diagnostic[] = [];
  const say = (file: string, finding: Finding) => {
    diagnostics.push(...diagnose([finding], file, profile));
  };
  for (const path of paths) {
    const root = resolve(path);
    let done = 0;
    const take = (candidate: SkillCandidate): boolean => {
      if (found.has(candidate.file)) return true;
      const checked = checkFile(candidate, profile, readSkillText(candidate.file), { onManifest });
      if (!checked) return false;
      found.set(candidate.file, { candidate, root, checked });
      onChecked?.(++done, path);
      return true;
    };
    const single = findSingleCandidate(root);
    if (single === "folder") {
      const own = isSkillsFolder(root) ? [root] : [];
      findSkillCandidates({
        root,
        recursive: true,
        skillsFolders: [...skillsFolders, ...own],
        onCandidate: take,
        report: say,
      });
    } else if ("code" in single) say(root, single);
    else if (!take(single)) say(single.file, createMissingFileFinding(single.file));
    else if (root !== single.file && single.form === "folder")
      findNestedCandidates(single, { onCandidate: take, report: say });
  }
  for (const plan of fix ? planFixes([...found.values()], { profile, rename }) : []) {
    const problem = plan.fixed.length > 0 && !dryRun ? applyFixPlan(plan) : undefined;
    if (problem) say(plan.file, problem);
    else for (const file of plan.files) recheckFile(found, file, plan, { profile, onManifest });
  }
  return { profile, files: [...found.values()].map(({ checked }) => checked), diagnostics };
}

/** Checks a skill after its fix, written or not. The change itself is reported once. */
function recheckFile(
  found: Map<string, FixableSkill & { checked: CheckedFile }>,
  file: string,
  plan: FixPlan,
  { profile, onManifest }: { profile: Profile } & Pick<CheckSkillsOptions, "onManifest">,
): void {
  const skill = found.get(file);
  const stamp = statIfExists(file);
  if (!skill || !stamp) return;
  const { candidate } = skill;
  const text =
    plan.refused.length > 0
      ? readSkillText(file)
      : { text: plan.after, stamp: createFileFingerprint(stamp), findings: [] };
  const isReported = file === plan.file;
  const refused: Finding[] = plan.refused.map((code) => ({
    code: "fix-refused",
    message: `was not fixed (${code}): other values or the instructions would change`,
  }));
  const checked = checkFile(candidate, profile, text, { more: isReported ? refused : [], onManifest });
  if (!checked) return;
  if (!isReported) skill.checked = checked;
  else {
    const target = plan.isLinked && plan.fixed.length > 0 ? { target: plan.path } : {};
    skill.checked = { ...checked, fixed: plan.fixed, diff: formatFixDiff(plan), ...target };
  }
}

/** Checks a text as a skill file of this name. Checks that need a folder, such as those for broken links, are skipped. */
export function checkText(text: string, options: { file?: string; profile?: Profile } = {}): CheckedFile {
  const { file = "SKILL.md", profile = "load" } = options;
  const isYaml = /\.ya?ml$/i.test(file);
  const document = isYaml ? parseYamlDocument(text) : parseMarkdownDocument(text);
  const name = typeof document.data["name"] === "string" ? document.data["name"] : "skill";
  const validated = validateSkill(document, { form: isYaml ? "yaml" : "markdown", stem: name, profile });
  const findings = [
    ...validated.findings,
    ...lintDocument({ document, manifest: readManifest(validated.data) }, profile),
  ];
  return createCheckedFile(file, validated.name, findings, profile);
}

/** Validates a skill file, and returns the first error. */
export function validateSkillFile(path: string): { isValid: boolean; error?: string } {
  const { files, diagnostics } = checkPath(path);
  const errors = [...diagnostics, ...files.flatMap((file) => file.diagnostics)].filter(
    ({ severity }) => severity === "error",
  );
  if (errors[0]) return { isValid: false, error: `${errors[0].file}: ${errors[0].message}` };
  return files.length > 0 ? { isValid: true } : { isValid: false, error: `${path}: no skill found` };
}

/** Returns the only file that a path denotes, `folder` for a folder of skills, or a finding. */
function findSingleCandidate(path: string): SkillCandidate | "folder" | Finding {
  try {
    if (statSync(path).isDirectory()) {
      const names = readdirSync(path).filter((name) => /^skill\.md$/i.test(name));
      const own = names.includes("SKILL.md") ? "SKILL.md" : names.find((name) => hasSkillFrontmatter(join(path, name)));
      return own === undefined ? "folder" : createFolderCandidate(path, own);
    }
  } catch (error) {
    return createOpenFinding(error);
  }
  const name = basename(path);
  if (/^skill\.md$/i.test(name)) return createFolderCandidate(dirname(path), name);
  const form = /\.ya?ml$/i.test(name) ? "yaml" : "markdown";
  return {
    file: path,
    path: name,
    form,
    stem: name.replace(/\.[^.]*$/, ""),
    findings: [],
    requiredKeys: [],
    isNamed: true,
  };
}

function createFolderCandidate(folder: string, name: string): SkillCandidate {
  const findings: Finding[] =
    name === "SKILL.md" ? [] : [{ code: "file-case", message: `is named "${name}", not SKILL.md` }];
  const file = join(folder, name);
  return {
    file,
    path: name,
    form: "folder",
    stem: basename(folder),
    folder: realpathSync(folder),
    findings,
    requiredKeys: [],
  };
}

function createMissingFileFinding(file: string): Finding {
  const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink();
  return isLink ? createBrokenLinkFinding(file) : { code: "not-found", message: "does not exist" };
}

function checkFile(
  candidate: SkillCandidate,
  profile: Profile,
  read: FileText,
  { more = [], onManifest }: { more?: readonly Finding[] } & Pick<CheckSkillsOptions, "onManifest">,
): CheckedFile | undefined {
  const { file, form, stem, folder } = candidate;
  const result = (name: string, findings: readonly Finding[]): CheckedFile =>
    createCheckedFile(
      file,
      name,
      [...createNestedFindings(candidate), ...candidate.findings, ...findings, ...more],
      profile,
    );
  if ("finding" in read) {
    if (read.finding.code === "not-found") return undefined;
    return candidate.requiredKeys.length > 0 ? undefined : result(stem, [read.finding]);
  }
  const document = form === "yaml" ? parseYamlDocument(read.text) : parseMarkdownDocument(read.text);
  const validated = validateSkill(document, { form, stem, profile });
  if (isUnrelatedFile(candidate, validated.data)) return undefined;
  if (!validated.isUsable && isLinkedElsewhere(candidate, read.stamp))
    return result(stem, redactFindings([...read.findings, ...validated.findings]));
  const siblingFiles = folder === undefined ? undefined : listFiles(folder, basename(file));
  const manifest = readManifest(validated.data);
  onManifest?.(manifest);
  const subject = {
    document,
    manifest,
    ...(folder !== undefined && siblingFiles
      ? {
          files: [...siblingFiles.files.map(({ path }) => path), basename(file)],
          findTarget: createTargetFinder(folder),
        }
      : {}),
  };
  return result(validated.name, [
    ...read.findings,
    ...validated.findings,
    ...(siblingFiles?.findings ?? []),
    ...lintDocument(subject, profile),
  ]);
}

function createCheckedFile(file: string, name: string, findings: readonly Finding[], profile: Profile): CheckedFile {
  const diagnostics = diagnose(findings, file, profile).sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return { file, name, isValid: !hasErrors(findings, profile), diagnostics, fixed: [], diff: [] };
}

/** A skill, and the user's path below which it was found. */
interface FixableSkill {
  candidate: SkillCandidate;
  root: string;
}

/** The planned fix of a real file. */
interface FixPlan {
  /** The real path. */
  path: string;
  /** The skill for which the change is reported. */
  file: string;
  /** All skills that are this file: symlinks may lead to it. */
  files: readonly string[];
  /** True if `file` leads to `path` through a symlink. */
  isLinked: boolean;
  before: string;
  /** The same as `before` if a fix was refused. */
  after: string;
  fixed: readonly FindingCode[];
  /** Fixes that would change more than they report. */
  refused: readonly FindingCode[];
}

interface FixFilesOptions {
  profile: Profile;
  /** Misspelled keys to rename. */
  rename: readonly string[];
}

/** Plans the fixes of these skills, once per real file. Writes nothing. */
function planFixes(found: readonly FixableSkill[], options: FixFilesOptions): FixPlan[] {
  const ways = found.flatMap(({ candidate, root }) => {
    const path = resolveRealPath(candidate.file);
    const stats = path === undefined ? undefined : statIfExists(path);
    return path === undefined || !stats ? [] : [{ candidate, root, path, key: `${stats.dev}:${stats.ino}` }];
  });
  // Hard links have different real paths: the inode shows that they are one file.
  return [...Map.groupBy(ways, ({ key }) => key).values()].flatMap((all) => {
    // A symlink may lead to another owner's file: a file outside of the user's paths is read, but never written.
    const below = all.filter(({ root, path }) => isBelowRoot(root, path));
    const own = below.find((way) => !isLinkedCandidate(way.candidate));
    const way = own ?? below[0];
    if (!way) return [];
    const { path, candidate } = way;
    const plan = planFileFix(candidate, own === undefined, options);
    const files = all.map((each) => each.candidate.file);
    return plan ? [{ ...plan, path, file: candidate.file, files, isLinked: own === undefined }] : [];
  });
}

/** Writes a planned change. Returns a finding if it fails. */
function applyFixPlan({ path, before, after }: FixPlan): Finding | undefined {
  try {
    if (readWholeText(path)?.text !== before)
      return { code: "not-written", message: "changed while it was being fixed" };
    replaceFile(path, after);
    return undefined;
  } catch (error) {
    return { code: "not-written", message: `could not be fixed: ${getErrorMessage(error)}` };
  }
}

/** Formats a change as a diff. Changes without visible lines get one line each: the encoding, a byte order mark, line endings. */
function formatFixDiff({ before, after, fixed }: FixPlan): string[] {
  const lines: string[] = [];
  if (fixed.includes("not-utf8")) lines.push("@@ encoding: UTF-16 to UTF-8 @@");
  if (fixed.includes("byte-order-mark")) lines.push("@@ byte order mark: removed @@");
  if (fixed.includes("line-endings")) {
    const ends = before.split("\r\n").length - 1;
    lines.push(`@@ line endings: CR LF to LF in ${formatCount(ends, "line")} @@`);
  }
  return [...lines, ...diffLines(before.replace(/^\ufeff/, "").replaceAll("\r\n", "\n"), after, { context: 1 })];
}

function planFileFix(
  candidate: SkillCandidate,
  isLinked: boolean,
  { profile, rename }: FixFilesOptions,
): Pick<FixPlan, "before" | "after" | "fixed" | "refused"> | undefined {
  const { file, form, stem } = candidate;
  const read = readWholeText(file);
  if (!read || !isSkillFile(candidate, isLinked, read.text)) return undefined;
  const { text, isConverted } = read;
  const result = fixDocument(text, { form, stem, profile, renamedKeys: new Set(rename), isLinked });
  const { refused } = result;
  const fixed: FindingCode[] = isConverted && refused.length === 0 ? ["not-utf8", ...result.fixed] : result.fixed;
  return fixed.length + refused.length > 0 ? { before: text, after: result.text, fixed, refused } : undefined;
}

/** Returns the text of a file in UTF-8 or UTF-16. Undefined if a part cannot be decoded, because it would be lost. */
function readWholeText(file: string): { text: string; isConverted: boolean } | undefined {
  const read = readSkillText(file);
  if ("text" in read) return read.findings.length === 0 ? { text: read.text, isConverted: false } : undefined;
  const text = read.finding.code === "not-utf8" ? decodeUtf16(readFileSync(file)) : undefined;
  return text === undefined || text.includes("\ufffd") ? undefined : { text, isConverted: true };
}

/** Returns true if a file is a skill by its name, or if discovery would load it. No other file is ever written. */
function isSkillFile({ file, form, stem }: SkillCandidate, isLinked: boolean, text: string): boolean {
  const document = form === "yaml" ? parseYamlDocument(text) : parseMarkdownDocument(text);
  const { isUsable, findings } = validateSkill(document, { form, stem, profile: "load" });
  if (isUsable) return true;
  return !isLinked && basename(file) === "SKILL.md" && findings.every(({ code }) => code !== "frontmatter-missing");
}

function isLinkedCandidate(candidate: SkillCandidate): boolean {
  try {
    return isLinkedElsewhere(candidate, createFileFingerprint(statSync(candidate.file)));
  } catch {
    return true;
  }
}

function isBelowRoot(root: string, file: string): boolean {
  const real = resolveRealPath(root);
  if (real === undefined) return false;
  return isInside(statSync(real).isDirectory() ? real : dirname(real), file);
}

function resolveRealPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

/** Replaces a file atomically, and keeps its owner and permissions. A file with hard links is written in place. */
function replaceFile(path: string, text: string): void {
  const { mode, nlink, uid, gid } = statSync(path);
  if (nlink > 1) {
    writeFileSync(path, text);
    return;
  }
  const draft = `${path}.${process.pid}.tmp`;
  try {
    writeFileSync(draft, text, { flag: "wx" });
    // Only root may change the owner of a file: otherwise it belongs to the user who fixed it.
    if (process.getuid?.() === 0) chownSync(draft, uid, gid);
    chmodSync(draft, mode & 0o7777);
    renameSync(draft, path);
  } catch (error) {
    if (getErrnoCode(error) !== "EEXIST") rmSync(draft, { force: true });
    throw error;
  }
}
