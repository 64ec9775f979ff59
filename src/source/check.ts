import { lstatSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { Code } from "../codes/findings.ts";
import { type Diagnostic, diagnose, type Finding, hasErrors, type Profile } from "../skill/diagnostic.ts";
import { parseMarkdown, parseYaml } from "../skill/document.ts";
import { lint } from "../skill/lint.ts";
import { readManifest } from "../skill/manifest.ts";
import { readSkill } from "../skill/read.ts";
import { type FileText, openFinding, readText, stampOf, statOf } from "./file.ts";
import { listFiles, targetFinder } from "./file-list.ts";
import { applyFix, diffOf, type FixPlan, type FoundSkill, planFixes } from "./fix-files.ts";
import { isElsewhere, isNoSkill, withoutQuotes } from "./read-candidate.ts";
import { type Candidate, hasSkillFrontmatter, isSkillsFolder, nestedFindings, walk, walkNested } from "./walk.ts";

export interface CheckOptions {
  profile?: Profile;
  /** Fix in place what can be fixed without changing what a skill says. Only skills are written. */
  fix?: boolean;
  /** With `fix`: report the same changes, and write nothing. */
  dryRun?: boolean;
  /** With `fix`: misspelled keys to rename. Defaults to none: a misspelled key is only reported. */
  rename?: readonly string[];
  /** Folders that discovery reads: Markdown and YAML files directly in them are skills. */
  skillsFolders?: readonly string[];
  /** Called after each skill, with the number of skills found below the path so far. Nothing else happens until all are checked. */
  onChecked?: (done: number, path: string) => void;
}

export interface CheckedFile {
  file: string;
  name: string;
  /** Whether the profile accepts it. */
  isValid: boolean;
  diagnostics: readonly Diagnostic[];
  fixed: readonly Code[];
  /** How the file was fixed, or would be with `dryRun`: lines that start with ` `, `-`, `+` or `@@`. Empty if it was not. */
  diff: readonly string[];
  /** The file that was fixed, where `file` is a link to it or in a linked folder. */
  target?: string;
}

export interface CheckResult {
  profile: Profile;
  files: readonly CheckedFile[];
  /** What is wrong beside the skill files: folders that cannot be read, links to nothing, a path that is not there. */
  diagnostics: readonly Diagnostic[];
}

/**
 * Checks a skill folder, a skill file, or every skill below a folder, with the parser and the rules that discovery uses. Only
 * the weight of a finding differs by profile.
 */
export function checkPath(path: string, options: CheckOptions = {}): CheckResult {
  return checkPaths([path], options);
}

/** Checks several paths as `checkPath` does, each skill once. */
export function checkPaths(paths: readonly string[], options: CheckOptions = {}): CheckResult {
  const { profile = "load", fix = false, dryRun = false, rename = [], skillsFolders = [], onChecked } = options;
  const found = new Map<string, FoundSkill & { checked: CheckedFile }>();
  const diagnostics: Diagnostic[] = [];
  const say = (file: string, finding: Finding) => {
    diagnostics.push(...diagnose([finding], file, profile));
  };
  for (const path of paths) {
    const root = resolve(path);
    let done = 0;
    const take = (candidate: Candidate): boolean => {
      if (found.has(candidate.file)) return true;
      const checked = checkFile(candidate, profile, readText(candidate.file));
      if (!checked) return false;
      found.set(candidate.file, { candidate, root, checked });
      onChecked?.(++done, path);
      return true;
    };
    const single = singleCandidate(root);
    if (single === "folder") {
      const own = isSkillsFolder(root) ? [root] : [];
      walk({ root, recursive: true, skillsFolders: [...skillsFolders, ...own], take, say });
    } else if ("code" in single) say(root, single);
    else if (!take(single)) say(single.file, missingFile(single.file));
    else if (root !== single.file && single.form === "folder") walkNested(single, { take, say });
  }
  for (const plan of fix ? planFixes([...found.values()], { profile, rename }) : []) {
    const problem = plan.fixed.length > 0 && !dryRun ? applyFix(plan) : undefined;
    if (problem) say(plan.file, problem);
    else for (const file of plan.files) recheck(found, file, plan, profile);
  }
  return { profile, files: [...found.values()].map(({ checked }) => checked), diagnostics };
}

/** Judges a skill as it is after a fix, whether that was written or not. The change itself is reported once. */
function recheck(
  found: Map<string, FoundSkill & { checked: CheckedFile }>,
  file: string,
  plan: FixPlan,
  profile: Profile,
): void {
  const skill = found.get(file);
  const stamp = statOf(file);
  if (!skill || !stamp) return;
  const { candidate } = skill;
  const text = plan.refused.length > 0 ? readText(file) : { text: plan.after, stamp: stampOf(stamp), findings: [] };
  const isReported = file === plan.file;
  const refused: Finding[] = plan.refused.map((code) => ({
    code: "fix-refused",
    message: `was not fixed (${code}): other values or the instructions would change`,
  }));
  const checked = checkFile(candidate, profile, text, isReported ? refused : []);
  if (!checked) return;
  if (!isReported) skill.checked = checked;
  else {
    const target = plan.isLinked && plan.fixed.length > 0 ? { target: plan.path } : {};
    skill.checked = { ...checked, fixed: plan.fixed, diff: diffOf(plan), ...target };
  }
}

/** Checks a text as if it stood in a skill file of this name. What only a folder can show, such as links to nothing, is not looked at. */
export function checkText(text: string, options: { file?: string; profile?: Profile } = {}): CheckedFile {
  const { file = "SKILL.md", profile = "load" } = options;
  const isYaml = /\.ya?ml$/i.test(file);
  const document = isYaml ? parseYaml(text) : parseMarkdown(text);
  const name = typeof document.data["name"] === "string" ? document.data["name"] : "skill";
  const judged = readSkill(document, { form: isYaml ? "yaml" : "markdown", stem: name, profile });
  const findings = [...judged.findings, ...lint({ document, manifest: readManifest(judged.data) }, profile)];
  return checked(file, judged.name, findings, profile);
}

/** Whether a skill file has the form of a skill, and the first reason why not. */
export function validateSkillFile(path: string): { isValid: boolean; error?: string } {
  const { files, diagnostics } = checkPath(path);
  const errors = [...diagnostics, ...files.flatMap((file) => file.diagnostics)].filter(
    ({ severity }) => severity === "error",
  );
  if (errors[0]) return { isValid: false, error: `${errors[0].file}: ${errors[0].message}` };
  return files.length > 0 ? { isValid: true } : { isValid: false, error: `${path}: there is no skill here` };
}

/** The one file that a path means, `folder` when it is a folder of skills, or what is wrong with it. */
function singleCandidate(path: string): Candidate | "folder" | Finding {
  try {
    if (statSync(path).isDirectory()) {
      const names = readdirSync(path).filter((name) => /^skill\.md$/i.test(name));
      const own = names.includes("SKILL.md") ? "SKILL.md" : names.find((name) => hasSkillFrontmatter(join(path, name)));
      return own === undefined ? "folder" : folderCandidate(path, own);
    }
  } catch (error) {
    return openFinding(error);
  }
  const name = basename(path);
  if (/^skill\.md$/i.test(name)) return folderCandidate(dirname(path), name);
  const form = /\.ya?ml$/i.test(name) ? "yaml" : "markdown";
  return { file: path, path: name, form, stem: name.replace(/\.[^.]*$/, ""), findings: [], needs: [], isNamed: true };
}

function folderCandidate(folder: string, name: string): Candidate {
  const findings: Finding[] =
    name === "SKILL.md" ? [] : [{ code: "file-case", message: `is called "${name}", not SKILL.md` }];
  const file = join(folder, name);
  return {
    file,
    path: name,
    form: "folder",
    stem: basename(folder),
    folder: realpathSync(folder),
    findings,
    needs: [],
  };
}

function missingFile(file: string): Finding {
  const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink();
  return isLink
    ? { code: "link-broken", message: "is a link to nothing" }
    : { code: "not-found", message: "is not there" };
}

function checkFile(
  candidate: Candidate,
  profile: Profile,
  read: FileText,
  more: readonly Finding[] = [],
): CheckedFile | undefined {
  const { file, form, stem, folder } = candidate;
  const result = (name: string, findings: readonly Finding[]): CheckedFile =>
    checked(file, name, [...nestedFindings(candidate), ...candidate.findings, ...findings, ...more], profile);
  if ("finding" in read) {
    if (read.finding.code === "not-found") return undefined;
    return candidate.needs.length > 0 ? undefined : result(stem, [read.finding]);
  }
  const document = form === "yaml" ? parseYaml(read.text) : parseMarkdown(read.text);
  const judged = readSkill(document, { form, stem, profile });
  if (isNoSkill(candidate, judged.data)) return undefined;
  if (!judged.isUsable && isElsewhere(candidate, read.stamp))
    return result(stem, withoutQuotes([...read.findings, ...judged.findings]));
  const beside = folder === undefined ? undefined : listFiles(folder, basename(file));
  const subject = {
    document,
    manifest: readManifest(judged.data),
    ...(folder !== undefined && beside
      ? { files: [...beside.files.map(({ path }) => path), basename(file)], findTarget: targetFinder(folder) }
      : {}),
  };
  return result(judged.name, [
    ...read.findings,
    ...judged.findings,
    ...(beside?.findings ?? []),
    ...lint(subject, profile),
  ]);
}

function checked(file: string, name: string, findings: readonly Finding[], profile: Profile): CheckedFile {
  const diagnostics = diagnose(findings, file, profile).sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return { file, name, isValid: !hasErrors(findings, profile), diagnostics, fixed: [], diff: [] };
}
