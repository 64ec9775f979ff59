import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { ErrorCode } from "../../codes/codes.ts";
import { CODES } from "../../codes/findings.ts";
import type { ScanFinding, ScanSubject } from "../../scan/finding.ts";
import { scanFiles, scanSkill } from "../../scan/scan.ts";
import { readInside } from "../../shared/inside.ts";
import { type Data, isData } from "../../skill/data.ts";
import type { Diagnostic, Finding } from "../../skill/diagnostic.ts";
import { stopsLoading } from "../../skill/diagnostic.ts";
import { readManifest } from "../../skill/manifest.ts";
import type { CopiedFile } from "../../source/digest.ts";
import { directorySource } from "../../source/directory.ts";
import { openFinding } from "../../source/file.ts";
import { LARGEST_RESOURCE, listFiles } from "../../source/file-list.ts";
import { readFolderSkill, readNestedSkills } from "../../source/folder-skill.ts";
import { readCandidate } from "../../source/read-candidate.ts";
import type { Loaded } from "../../source/source.ts";
import { isSkillsFolder } from "../../source/walk.ts";

/** Something that was looked through. */
export interface Scanned {
  name: string;
  /** The folder, or the file of a skill that is one. */
  path: string;
  /** False where only the files could be looked at, since they make no skill. */
  isSkill: boolean;
  findings: readonly (ScanFinding & { path: string })[];
}

/** What could not be looked at, or is broken. */
export interface ScanProblem {
  code: ErrorCode;
  file: string;
  message: string;
  fix: string;
}

export interface Scans {
  scanned: Scanned[];
  problems: ScanProblem[];
}

export interface ScanOptions {
  /** Folders that discovery reads: Markdown and YAML files directly in them are skills. */
  skillsFolders: readonly string[];
  /** Called after each skill, with how many there are. */
  onScanned: (done: number, all: number) => void;
}

/** Looks through whatever a path leads to. */
export async function scanPath(path: string, options: ScanOptions): Promise<Scans> {
  const scans: Scans = { scanned: [], problems: [] };
  try {
    if (!statSync(path).isDirectory()) scanFile(path, scans);
    else if (!scanFolder(path, scans)) await scanBelow(path, scans, options);
  } catch (error) {
    scans.problems.push(problem(path, openFinding(error)));
  }
  return { ...scans, scanned: reportedOnce(scans.scanned) };
}

/** A file of a skill inside another one is one of both: what is found in it is reported for the inner one. */
function reportedOnce(scanned: readonly Scanned[]): Scanned[] {
  const reported = new Set<string>();
  const once = new Map<Scanned, Scanned>();
  for (const one of scanned.toSorted((a, b) => b.path.length - a.path.length)) {
    const keyed = one.findings.map((finding) => {
      const { rule, path, line, column, message } = finding;
      return { finding, key: JSON.stringify([rule, path, line, column, message]) };
    });
    const findings = keyed.filter(({ key }) => !reported.has(key)).map(({ finding }) => finding);
    for (const { key } of keyed) reported.add(key);
    once.set(one, { ...one, findings });
  }
  return scanned.flatMap((one) => once.get(one) ?? []);
}

type Facts = Pick<ScanSubject, "name" | "description" | "manifest">;

/** A folder that is a skill, or should be. False when there is no SKILL.md. */
function scanFolder(path: string, scans: Scans): boolean {
  const read = readFolderSkill(path, { scope: "workspace", source: "scan" });
  if (!read) return false;
  if ("skill" in read) {
    addFolder(path, scans, read.skill);
    addAll(readNestedSkills(read.skill), scans);
  } else {
    scans.problems.push(...read.findings.slice(0, 1).map((finding) => problem(join(path, "SKILL.md"), finding)));
    addFolder(path, scans);
  }
  return true;
}

/** Skills that were found, and what of them is broken. */
function addAll({ skills, diagnostics }: Loaded, scans: Scans, onAdded?: (of: number) => void): void {
  for (const skill of skills) {
    if (skill.origin.folder !== undefined) addFolder(skill.origin.folder, scans, skill);
    else if (skill.origin.file !== undefined) addFile(skill.origin.file, scans, skill);
    onAdded?.(skills.length);
  }
  for (const diagnostic of diagnostics.filter(stopsLoading)) {
    scans.problems.push(ofDiagnostic(diagnostic));
    if (/^skill\.md$/i.test(basename(diagnostic.file))) addFolder(dirname(diagnostic.file), scans);
    else addFile(diagnostic.file, scans);
  }
}

/** Every skill below a folder; where there is none, the folder's files. */
async function scanBelow(path: string, scans: Scans, { skillsFolders, onScanned }: ScanOptions): Promise<void> {
  const folders = isSkillsFolder(path) ? [...skillsFolders, path] : skillsFolders;
  const loaded = await directorySource({ path, skillsFolders: folders }).load();
  addAll(loaded, scans, (of) => onScanned(scans.scanned.length, of));
  if (scans.scanned.length === 0 && scans.problems.length === 0) addFolder(path, scans);
}

function scanFile(path: string, scans: Scans): void {
  const name = basename(path);
  if (name === "SKILL.md") {
    scanFolder(dirname(path), scans);
    return;
  }
  const form = /\.ya?ml$/i.test(name) ? "yaml" : "markdown";
  if (form === "markdown" && !/\.md$/i.test(name)) {
    addFile(path, scans);
    return;
  }
  const stem = name.replace(/\.[^.]*$/, "");
  const reading = readCandidate({ file: path, path: name, form, stem, findings: [], needs: ["description"] }, "load");
  const data: unknown = reading?.skill ? JSON.parse(reading.skill.data) : undefined;
  if (reading?.skill && isData(data)) {
    addFile(path, scans, { ...reading.skill, manifest: readManifest(data as Data) });
  } else addFile(path, scans);
}

function addFolder(path: string, scans: Scans, facts?: Facts): void {
  const folder = realpathSync(path);
  const list = listFiles(folder, "");
  scans.problems.push(...list.findings.map((finding) => problem(path, finding)));
  const files = new Map<string, CopiedFile>();
  for (const file of list.files) {
    const read = readInside(folder, file.path, LARGEST_RESOURCE);
    if ("bytes" in read) files.set(file.path, { bytes: read.bytes, executable: file.executable });
    else scans.problems.push(unread(join(path, file.path), read.message));
  }
  add(scans, { path, files, isFile: false }, facts);
}

/** A skill that is one file counts as SKILL.md, whatever it is called. */
function addFile(path: string, scans: Scans, facts?: Facts): void {
  const read = readInside(realpathSync(dirname(path)), basename(path), LARGEST_RESOURCE);
  if (!("bytes" in read)) {
    scans.problems.push(unread(path, read.message));
    return;
  }
  const files = new Map([[facts ? "SKILL.md" : basename(path), { bytes: read.bytes, executable: false }]]);
  add(scans, { path, files, isFile: true }, facts);
}

interface Place {
  path: string;
  files: ScanSubject["files"];
  isFile: boolean;
}

function add(scans: Scans, { path, files, isFile }: Place, facts?: Facts): void {
  const { name, description, manifest } = facts ?? {};
  const found =
    name === undefined || description === undefined || manifest === undefined
      ? scanFiles(files)
      : scanSkill({ name, description, manifest, files });
  scans.scanned.push({
    name: name ?? basename(path),
    path,
    isSkill: facts !== undefined,
    findings: found.map((finding) =>
      isFile ? { ...finding, file: basename(path), path } : { ...finding, path: join(path, finding.file) },
    ),
  });
}

function problem(file: string, { code, message }: Finding): ScanProblem {
  return { code, file, message, fix: CODES[code].fix };
}

function ofDiagnostic({ code, file, message, fix }: Diagnostic): ScanProblem {
  return { code, file, message, fix };
}

function unread(file: string, message: string): ScanProblem {
  return { code: "unreadable", file, message: `was not looked at: ${message}`, fix: CODES.unreadable.fix };
}
