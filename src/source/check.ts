import {
  existsSync,
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
import type { Code } from "../codes/findings.ts";
import { isInside, reason } from "../shared/inside.ts";
import { type Diagnostic, diagnose, type Finding, hasErrors, type Profile } from "../skill/diagnostic.ts";
import { parseMarkdown, parseYaml } from "../skill/document.ts";
import { fixDocument } from "../skill/fix.ts";
import { lint } from "../skill/lint.ts";
import { readManifest } from "../skill/manifest.ts";
import { readSkill } from "../skill/read.ts";
import { fromUtf16, openFinding, readText } from "./file.ts";
import { listFiles } from "./file-list.ts";
import { isElsewhere, isNoSkill, withoutQuotes } from "./read-candidate.ts";
import { type Candidate, walk } from "./walk.ts";

export interface CheckOptions {
  profile?: Profile;
  /** Mend in place what can be mended safely. */
  fix?: boolean;
  /** How many skills are checked so far: nothing else happens until all of them are. */
  onChecked?: (done: number) => void;
}

export interface CheckedFile {
  file: string;
  name: string;
  /** Whether the profile accepts it. */
  isValid: boolean;
  diagnostics: readonly Diagnostic[];
  fixed: readonly Code[];
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
  const { profile = "load", fix = false, onChecked } = options;
  const files: CheckedFile[] = [];
  const diagnostics: Diagnostic[] = [];
  const say = (file: string, finding: Finding) => {
    diagnostics.push(...diagnose([finding], file, profile));
  };
  const root = resolve(path);
  const take = (candidate: Candidate) => {
    const fixed = fix && isBelow(root, candidate.file) ? fixFile(candidate, profile, say) : [];
    const checked = checkFile(candidate, profile, fixed);
    if (!checked) return false;
    files.push(checked);
    onChecked?.(files.length);
    return true;
  };
  const single = singleCandidate(root);
  if (single === "folder") walk({ root, recursive: true, take, say });
  else if ("code" in single) say(root, single);
  else if (!take(single)) say(single.file, missingFile(single.file));
  return { profile, files, diagnostics };
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
      const own = readdirSync(path).find((name) => /^skill\.md$/i.test(name));
      return own === undefined
        ? "folder"
        : folderCandidate(path, existsSync(join(path, "SKILL.md")) ? "SKILL.md" : own);
    }
  } catch (error) {
    return openFinding(error);
  }
  const name = basename(path);
  if (/^skill\.md$/i.test(name)) return folderCandidate(dirname(path), name);
  const form = /\.ya?ml$/i.test(name) ? "yaml" : "markdown";
  return { file: path, path: name, form, stem: name.replace(/\.[^.]*$/, ""), findings: [], isDoubtful: false };
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
    isDoubtful: false,
  };
}

function missingFile(file: string): Finding {
  const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink();
  return isLink
    ? { code: "link-broken", message: "is a link to nothing" }
    : { code: "not-found", message: "is not there" };
}

// A link may lead to somebody else's file: what was not named is read, but never written.
function isBelow(root: string, file: string): boolean {
  try {
    const real = realpathSync.native(root);
    return isInside(statSync(real).isDirectory() ? real : dirname(real), realpathSync.native(file));
  } catch {
    return false;
  }
}

function checkFile(candidate: Candidate, profile: Profile, fixed: readonly Code[]): CheckedFile | undefined {
  const { file, form, stem, folder } = candidate;
  const place = { form, stem, profile };
  const read = readText(file);
  const result = (name: string, findings: readonly Finding[]): CheckedFile =>
    checked(file, name, [...candidate.findings, ...findings], profile, fixed);
  if ("finding" in read) {
    if (read.finding.code === "not-found") return undefined;
    return candidate.isDoubtful ? undefined : result(stem, [read.finding]);
  }
  const document = form === "yaml" ? parseYaml(read.text) : parseMarkdown(read.text);
  const judged = readSkill(document, place);
  if (isNoSkill(candidate, judged)) return undefined;
  if (!judged.isUsable && isElsewhere(candidate, read.stamp))
    return result(stem, withoutQuotes([...read.findings, ...judged.findings]));
  const beside = folder === undefined ? undefined : listFiles(folder, basename(file));
  const subject = {
    document,
    manifest: readManifest(judged.data),
    ...(beside ? { files: [...beside.files.map(({ path }) => path), basename(file)] } : {}),
  };
  return result(judged.name, [
    ...read.findings,
    ...judged.findings,
    ...(beside?.findings ?? []),
    ...lint(subject, profile),
  ]);
}

function checked(
  file: string,
  name: string,
  findings: readonly Finding[],
  profile: Profile,
  fixed: readonly Code[] = [],
): CheckedFile {
  const diagnostics = diagnose(findings, file, profile).sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return { file, name, isValid: !hasErrors(findings, profile), diagnostics, fixed };
}

function fixFile(
  candidate: Candidate,
  profile: Profile,
  say: (file: string, finding: Finding) => void,
): readonly Code[] {
  const { file, form, stem } = candidate;
  const read = readText(file);
  const converted = "finding" in read && read.finding.code === "not-utf8" ? fromUtf16(readFileSync(file)) : undefined;
  const text = converted ?? ("text" in read && read.findings.length === 0 ? read.text : undefined);
  if (text === undefined) return [];
  const result = fixDocument(text, { form, stem, profile });
  if (result.fixed.length === 0 && converted === undefined) return [];
  try {
    replaceFile(realpathSync(file), result.text);
  } catch (error) {
    say(file, { code: "not-written", message: `could not be mended: ${reason(error)}` });
    return [];
  }
  return converted === undefined ? result.fixed : ["not-utf8", ...result.fixed];
}

/** The file is the old or the new one at every moment, and keeps its permissions. */
function replaceFile(path: string, text: string): void {
  const draft = `${path}.${process.pid}.tmp`;
  writeFileSync(draft, text, { mode: statSync(path).mode & 0o777, flag: "wx" });
  try {
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}
