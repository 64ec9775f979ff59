import { fstatSync, lstatSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { FINDING_CODES } from "../../errors/finding-codes.ts";
import { type FileFingerprint, formatFileId, isLinkedFile } from "../../util/file-access.ts";
import type { JsonObject } from "../../util/objects.ts";
import {
  parseFrontmatterDocument,
  parseMarkdownDocument,
  parseYamlDocument,
  type SkillDocument,
  validateSkill,
} from "../document.ts";
import { findFrontmatter, trimBody } from "../frontmatter.ts";
import {
  type Diagnostic,
  diagnose,
  type Finding,
  getSeverity,
  hasFatalFindings,
  type LoadedSkills,
  type Profile,
  type Skill,
  type SkillOrigin,
} from "../skill.ts";
import { type CachedFile, identifyFolder } from "./directory-source.ts";
import { checkEncoding, FileSkill, HEAD_BYTES, readFileBytes, withOpenFile } from "./file-skill.ts";
import { createNestedFindings, findNestedCandidates, type SkillCandidate } from "./find-skills.ts";
import { checkReplacedFile, checkSharedFile } from "./skill-files.ts";

export interface FolderSkill {
  skill: Skill;
  /** Its frontmatter, as written. */
  frontmatter: JsonObject;
  /** The fingerprint of its file. */
  fingerprint: FileFingerprint | undefined;
}

/**
 * Reads the skill in a folder, from its SKILL.md. Returns undefined if that file is missing, and the findings, worst first, if it
 * is not a valid skill. Throws if the folder does not exist.
 */
export function readFolderSkill(
  path: string,
  { scope, source }: Pick<SkillOrigin, "scope" | "source">,
): FolderSkill | { findings: readonly Finding[] } | undefined {
  const folder = realpathSync(resolve(path));
  const folderIdentity = identifyFolder(folder); // Before reading the file, so that a replaced folder is detected.
  const file = join(resolve(path), "SKILL.md");
  const reading = readCandidate({ ...createCandidate(file, folder), refusesShared: scope === "workspace" }, "load");
  if (!reading) return undefined;
  const { skill, findings, stamp } = reading;
  if (!skill) return { findings: findings.toSorted((a, b) => Number(isErrorFinding(b)) - Number(isErrorFinding(a))) };
  return {
    skill: new FileSkill({
      ...skill,
      findings,
      origin: { scope, source, form: "folder", file, ...folderIdentity, ...identifyFile(file, stamp) },
    }),
    frontmatter: JSON.parse(skill.data),
    fingerprint: stamp,
  };
}

/** Reads the skills inside the folder of a skill, with their diagnostics. Contract: `skill` has a file and a folder. */
export function readNestedSkills(skill: Pick<Skill, "name" | "origin">): LoadedSkills {
  const { scope, source, file = "", folder = "" } = skill.origin;
  const names = new Map([[file, skill.name]]);
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [];
  findNestedCandidates(createCandidate(file, folder), {
    onCandidate(candidate) {
      const reading = readCandidate({ ...candidate, refusesShared: scope === "workspace" }, "load");
      if (!reading) return false;
      const { skill: read } = reading;
      const findings = [...createNestedFindings(candidate), ...reading.findings];
      const { form, parent = "" } = candidate;
      diagnostics.push(...diagnose(findings, candidate.file));
      if (!read) return true;
      names.set(candidate.file, read.name);
      const inside = {
        parent: names.get(parent) ?? basename(dirname(parent)),
        ...(candidate.folder === undefined ? {} : identifyFolder(candidate.folder)),
        ...identifyFile(candidate.file, reading.stamp),
      };
      skills.push(
        new FileSkill({ ...read, findings, origin: { scope, source, form, file: candidate.file, ...inside } }),
      );
      return true;
    },
    report: (path, finding) => diagnostics.push(...diagnose([finding], path)),
  });
  return { skills, diagnostics };
}

function identifyFile(file: string, stamp: FileFingerprint | undefined): Pick<SkillOrigin, "fileId" | "isLinked"> {
  if (!stamp) return {};
  return { fileId: formatFileId(stamp), ...(isLinkedFile(file, stamp) ? { isLinked: true } : {}) };
}

function createCandidate(file: string, folder: string): SkillCandidate {
  return {
    file,
    path: basename(file),
    form: "folder",
    stem: basename(folder),
    folder,
    findings: [],
    requiredKeys: [],
  };
}

function isErrorFinding({ code }: Finding): boolean {
  return getSeverity(code, "load") === "error";
}

/** The result of reading a candidate. */
interface CandidateResult extends CachedFile {
  stamp?: FileFingerprint;
}

/** Reads and validates a file. Returns undefined if it does not exist. */
export function readCandidate(candidate: SkillCandidate, profile: Profile): CandidateResult | undefined {
  const { form, stem, requiredKeys: needs } = candidate;
  const file = readHead(candidate, form === "yaml");
  if ("finding" in file) {
    if (file.finding.code === "not-found") return undefined;
    return { findings: needs.length > 0 ? [] : [...candidate.findings, file.finding] };
  }
  const { stamp } = file;
  const validated = validateSkill(file.document, { form, stem, profile });
  const { name, description, data } = validated;
  if (isUnrelatedFile(candidate, data)) return { findings: [], stamp };
  const isUsable = validated.isUsable && !hasFatalFindings(candidate.findings, profile);
  const findings =
    candidate.findings.length === 0 ? validated.findings : [...candidate.findings, ...validated.findings];
  delete data["instructions"];
  if (!isUsable && isLinkedElsewhere(candidate, stamp)) return { findings: redactFindings(findings), stamp };
  if (isUsable) return { skill: { name, description, data: JSON.stringify(data) }, findings, stamp };
  // Another copy of the same name may be used instead: the name shows which skill this broken file belongs to.
  return { findings: name === stem ? findings : findings.map((finding) => ({ ...finding, name })), stamp };
}

/** Returns true if a file is not intended as a skill, so that nothing is reported. */
export function isUnrelatedFile({ form, requiredKeys: needs, isNamed }: SkillCandidate, data: JsonObject): boolean {
  if (isNamed) return false;
  if (needs.some((key) => !(key in data))) return true;
  const keys = form === "yaml" ? Object.keys(data) : [];
  return keys.length > 0 && !keys.some((key) => SKILL_KEYS.has(key));
}

/** Keys of a skill. A YAML file with none of them configures something else. */
const SKILL_KEYS = new Set(["name", "description", "instructions"]);

/** Returns true if a symlink leads from the file's path to another location. */
export function isLinkedElsewhere({ file, path }: SkillCandidate, { ino }: FileFingerprint): boolean {
  try {
    // The file that was read may have been a symlink that was replaced.
    if (lstatSync(file).ino !== ino) return true;
    return realpathSync.native(file) !== `${realpathSync.native(file.slice(0, -path.length))}/${path}`;
  } catch {
    return true;
  }
}

/** Removes details from findings: the target of a symlink may contain secrets, so only the kind of problem is reported. */
export function redactFindings(findings: readonly Finding[]): Finding[] {
  return findings.map(({ code, line, column }) => ({
    code,
    message: FINDING_CODES[code].meaning,
    ...(line === undefined || column === undefined ? {} : { line, column }),
  }));
}

/** Returns the instructions from the text of a YAML skill file. */
export function extractYamlBody(text: string): string {
  return trimBody(parseYamlDocument(text).body);
}

/**
 * Reads the part of a skill file that discovery needs: the frontmatter, and enough to detect text after it. Contract: the
 * document's body is then the beginning of the instructions.
 */
function readHead(
  candidate: SkillCandidate,
  isYaml: boolean,
): { document: SkillDocument; stamp: FileFingerprint } | { finding: Finding } {
  return withOpenFile(candidate.file, (fd, stamp) => {
    const finding = candidate.refusesShared ? checkOpenedFile(candidate, fstatSync(fd)) : undefined;
    if (finding) return { finding };
    if (isYaml) return parseBytes(readFileBytes(fd, stamp.size), stamp, parseYamlDocument);
    const head = readFileBytes(fd, Math.min(HEAD_BYTES, stamp.size));
    const closing = head.indexOf(CLOSING_DELIMITER, 3);
    const frame = findFrontmatter(
      head.toString("utf8", 0, closing === -1 ? head.length : Math.min(head.length, closing + MIN_BODY_BYTES)),
    );
    if (head.length < stamp.size && !hasEnoughHead(frame))
      return parseBytes(readFileBytes(fd, stamp.size), stamp, parseMarkdownDocument);
    if (!hasEnoughHead(frame) || frame.text.includes("\ufffd")) return parseBytes(head, stamp, parseMarkdownDocument);
    return { document: parseFrontmatterDocument(frame), stamp };
  });
}

function checkOpenedFile({ file, folder }: SkillCandidate, stats: Stats): Finding | undefined {
  return checkSharedFile(file, folder, stats) ?? checkReplacedFile(file, stats);
}

const MIN_BODY_BYTES = 64;
const CLOSING_DELIMITER = Buffer.from("\n---");

function hasEnoughHead(frame: ReturnType<typeof findFrontmatter>): frame is Extract<typeof frame, { start: number }> {
  return "start" in frame && frame.closed && /\S/.test(frame.text.slice(frame.bodyStart));
}

function parseBytes(
  bytes: Buffer,
  stamp: FileFingerprint,
  parse: (text: string) => SkillDocument,
): ReturnType<typeof readHead> {
  const finding = checkEncoding(bytes);
  return finding ? { finding } : { document: parse(bytes.toString("utf8")), stamp };
}
