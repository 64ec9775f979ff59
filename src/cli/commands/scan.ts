import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Option } from "commander";
import { FINDING_CODES } from "../../errors/finding-codes.ts";
import { formatFix, type Problem, pickProblem } from "../../errors/problem.ts";
import { SCAN_RULES } from "../../scan/all-rules.ts";
import { FINDING_WEIGHTS, type FindingWeight, type ScanFinding, type ScanSubject } from "../../scan/rule.ts";
import { scanFiles, scanSkill } from "../../scan/scan.ts";
import { readManifest } from "../../skill/manifest.ts";
import { type Diagnostic, type Finding, type LoadedSkills, stopsLoading } from "../../skill/skill.ts";
import { createDirectorySource } from "../../skill/source/directory-source.ts";
import { type Environment, formatDisplayPath, isSkillsFolder } from "../../skill/source/locations.ts";
import { readCandidate, readFolderSkill, readNestedSkills } from "../../skill/source/read-skill.ts";
import type { CopiedFile } from "../../skill/source/skill-copy.ts";
import { createOpenFinding, listFiles, MAX_RESOURCE_BYTES } from "../../skill/source/skill-files.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { type PathProblem, readFileInside } from "../../util/safe-path.ts";
import { compareText, formatCount, formatNumber } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import {
  type CommandIo,
  createPrinter,
  type Printer,
  printFix,
  printHanging,
  printJson,
  printWrappedLine,
  type SafeText,
} from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import {
  distinctPaths,
  formatSarif,
  listDiscoveryFolders,
  listWorkspaceFolders,
  resolveNamedPaths,
  resolveReportRoot,
  type SarifResult,
} from "./check.ts";

/** `skillet scan`. */
export const scanCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Scan skills for risks to review before you trust them")
      .argument(
        "[path...]",
        "Skill folders, skill files, folders of skills, other folders or files, or names. Defaults to the workspace's skills.",
      )
      .addOption(
        new Option("-f, --format <name>", "Print the findings in this format")
          .choices(["text", "json", "sarif"])
          .default("text")
          .conflicts("json"),
      )
      .addOption(
        new Option("--min <weight>", "Omit findings of lower severity")
          .choices(["high", "medium", "low"])
          .default("low"),
      )
      .addHelpText(
        "after",
        "\nExits with 1 for findings of high severity, or if a file could not be scanned.\nThe scan is advisory: an empty result proves nothing.",
      )
      .addHelpText(
        "after",
        formatExamples(
          "skillet scan skills/deploy",
          "skillet scan ~/Downloads/some-skill --min medium",
          "skillet scan --format sarif > scan.sarif",
        ),
      ),
  run: scanTargets,
};

interface ScanCommandOptions {
  format?: "text" | "json" | "sarif";
  min?: FindingWeight;
}

const ADVICE_NOTE =
  "The scan is advisory: review the findings before you trust a skill. An empty result proves nothing.";

async function scanTargets({ io, options, args }: CommandContext<ScanCommandOptions>): Promise<number> {
  const format = options.json ? "json" : (options.format ?? "text");
  const least = FINDING_WEIGHTS.indexOf(options.min ?? "low");
  const environment = resolveCommandEnvironment(io, options);
  const paths = distinctPaths(
    args.length > 0 ? await resolveNamedPaths(io, options, args) : listWorkspaceFolders(environment),
  );
  const skillsFolders = await listDiscoveryFolders(environment);
  const all: ScanTargets = { scanned: [], problems: [] };
  await runWithWaitIndicator(io, "scanning", async ({ at }) => {
    for (const path of paths) {
      const onScanned = (done: number, of: number) =>
        at(`scanning ${formatNumber(done)} of ${formatCount(of, "skill")}`);
      const { scanned, problems } = await scanPath(path, { skillsFolders, onScanned });
      all.scanned.push(...scanned);
      all.problems.push(...problems);
    }
  });
  all.scanned.sort((a, b) => compareText(a.name, b.name) || compareText(a.path, b.path));
  const counts = countWeights(all.scanned);
  const shown: ScanReport = {
    problems: all.problems,
    counts,
    scanned: all.scanned.map((one) => {
      const findings = one.findings.filter(({ weight }) => FINDING_WEIGHTS.indexOf(weight) <= least);
      return { ...one, findings, omitted: one.findings.length - findings.length };
    }),
  };
  if (format === "json") printJson(io.stdout, toScanJson(shown));
  else if (format === "sarif")
    printJson(io.stdout, toScanSarif(shown, resolveReportRoot(io.env, environment.workspace)));
  else printScanReport(io, shown, { ...environment, workspace: io.cwd });
  if (all.scanned.length === 0 && all.problems.length === 0) {
    const where = args.length > 0 ? args.join(", ") : "this workspace";
    createPrinter(io.stderr, io.env).line`no skills in ${where}: name a folder, a file or a skill`;
  }
  return counts.high > 0 || all.problems.length > 0 ? EXIT.findings : EXIT.fine;
}

/** The printed findings, and the number of all findings by severity. */
interface ScanReport extends ScanTargets {
  counts: Record<FindingWeight, number>;
  scanned: (ScannedSkill & { omitted: number })[];
}

function toScanJson({ scanned, problems, counts }: ScanReport): object {
  const skills = scanned.map(({ path: location, findings, ...one }) => ({
    ...one,
    location,
    findings: findings.map(({ file, path, ...finding }) => ({ ...finding, path: file, file: path })),
  }));
  return { skills, problems, counts, advice: ADVICE_NOTE };
}

const SCAN_SARIF_LEVELS = { high: "error", medium: "warning", low: "note" } as const;
/** The severity by which code scanning sorts, from 0 to 10. */
const SARIF_SEVERITIES = { high: "8.0", medium: "5.0", low: "2.0" } as const;

function toScanSarif({ scanned, problems }: ScanTargets, root: string): object {
  const results: SarifResult[] = [
    ...scanned.flatMap(({ findings }) =>
      findings.map(({ rule, weight, path, line, column, message, fix }) => ({
        ...{ rule, level: SCAN_SARIF_LEVELS[weight], text: `The skill ${message}. What to do: ${fix}`, file: path },
        ...(line === undefined ? {} : { line }),
        ...(column === undefined ? {} : { column }),
      })),
    ),
    ...problems.map(({ code, file, message, ...problem }) => ({
      ...{ rule: code, level: "error" as const, text: `${message}. What to do: ${formatFix(problem)}`, file },
    })),
  ];
  return formatSarif(results, describeScanRule, root);
}

function describeScanRule(id: string): object {
  const rule = SCAN_RULES.find((candidate) => candidate.id === id);
  if (!rule) return { id, shortDescription: { text: "could not be scanned, or is broken" } };
  return {
    id,
    shortDescription: { text: `The skill ${rule.title}` },
    help: { text: `${rule.why} What to do: ${rule.fix}.` },
    properties: { tags: ["security"], "security-severity": SARIF_SEVERITIES[rule.weight] },
  };
}

function printScanReport(io: CommandIo, { scanned, problems, counts }: ScanReport, environment: Environment): void {
  const out = createPrinter(io.stdout, io.env);
  for (const one of scanned) printScannedSkill(out, one, environment);
  for (const { code, file, message, fix, commands } of problems) {
    printHanging(out, out.text`${out.red("✗")} `, [`${formatDisplayPath(file, environment)} ${message}`], {
      indent: 2,
      code,
    });
    printFix(out, { fix, ...(commands ? { commands } : {}) }, { indent: 4 });
  }
  if (scanned.length === 0 && problems.length === 0) return;
  const weights = FINDING_WEIGHTS.map((weight) => `${counts[weight]} ${weight}`).join(", ");
  const broken = problems.length === 0 ? "" : `; ${formatCount(problems.length, "problem")}`;
  const skills = scanned.filter(({ isSkill }) => isSkill).length;
  const others = scanned.length - skills;
  const more = others === 0 ? "" : ` and ${formatCount(others, "other path")}`;
  out.line`\nScanned ${formatCount(skills, "skill")}${more}: ${weights}${broken}`;
  printWrappedLine(out, ADVICE_NOTE);
}

function printScannedSkill(
  out: Printer,
  { name, path, isSkill, findings, omitted }: ScanReport["scanned"][number],
  environment: Environment,
): void {
  const where = out.dim(`${formatDisplayPath(path, environment)}${isSkill ? "" : ", not a skill"}`);
  if (findings.length === 0) {
    out.line`${out.dim("·")} ${name} ${where}: ${omitted === 0 ? "no findings" : `${omitted} of lower severity`}`;
    return;
  }
  out.line`${out.bold(name)} ${where}`;
  for (const { rule, weight, file, line, message, fix } of findings) {
    const text = `${file}${line === undefined ? "" : `:${line}`} ${message} ${rule}`;
    printHanging(out, out.text`  ${paintWeightMark(out, weight)} `, [text], { indent: 4 });
    printHanging(out, "      ", [fix], { indent: 6 });
  }
}

function paintWeightMark(out: Printer, weight: FindingWeight): SafeText {
  return weight === "high" ? out.red("✗") : weight === "medium" ? out.yellow("!") : out.dim("·");
}

function countWeights(scanned: readonly ScannedSkill[]): Record<FindingWeight, number> {
  const counts = { high: 0, medium: 0, low: 0 };
  for (const { findings } of scanned) for (const { weight } of findings) counts[weight]++;
  return counts;
}

/** A scanned skill, folder or file. */
interface ScannedSkill {
  name: string;
  /** The folder, or the file of a single-file skill. */
  path: string;
  /** False if the files do not form a skill. */
  isSkill: boolean;
  findings: readonly (ScanFinding & { path: string })[];
}

/** A file or skill that could not be scanned, or is broken. */
interface ScanReadProblem extends Problem {
  file: string;
}

interface ScanTargets {
  scanned: ScannedSkill[];
  problems: ScanReadProblem[];
}

interface ScanPathOptions {
  /** Folders that discovery reads: Markdown and YAML files directly in them are skills. */
  skillsFolders: readonly string[];
  /** Called after each skill, with the total number. */
  onScanned: (done: number, all: number) => void;
}

/** Scans whatever is at a path. */
export async function scanPath(path: string, options: ScanPathOptions): Promise<ScanTargets> {
  const scans: ScanTargets = { scanned: [], problems: [] };
  try {
    if (!statSync(path).isDirectory()) scanFile(path, scans);
    else if (!scanFolder(path, scans)) await scanBelow(path, scans, options);
  } catch (error) {
    scans.problems.push(createScanProblem(path, createOpenFinding(error)));
  }
  return { ...scans, scanned: mergeNestedFindings(scans.scanned) };
}

/** Reports findings in nested skills for the inner skill only: their files belong to both. */
function mergeNestedFindings(scanned: readonly ScannedSkill[]): ScannedSkill[] {
  const reported = new Set<string>();
  const once = new Map<ScannedSkill, ScannedSkill>();
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

type ScanSubjectFacts = Pick<ScanSubject, "name" | "description" | "manifest">;

/** Scans a folder that is a skill, or should be. Returns false without a SKILL.md. */
function scanFolder(path: string, scans: ScanTargets): boolean {
  const read = readFolderSkill(path, { scope: "workspace", source: "scan" });
  if (!read) return false;
  if ("skill" in read) {
    addFolder(path, scans, read.skill);
    addLoaded(readNestedSkills(read.skill), scans);
  } else {
    scans.problems.push(
      ...read.findings.slice(0, 1).map((finding) => createScanProblem(join(path, "SKILL.md"), finding)),
    );
    addFolder(path, scans);
  }
  return true;
}

/** Adds loaded skills and their diagnostics. */
function addLoaded({ skills, diagnostics }: LoadedSkills, scans: ScanTargets, onAdded?: (of: number) => void): void {
  for (const skill of skills) {
    if (skill.origin.folder !== undefined) addFolder(skill.origin.folder, scans, skill);
    else if (skill.origin.file !== undefined) addFile(skill.origin.file, scans, skill);
    onAdded?.(skills.length);
  }
  const problems = diagnostics.filter(stopsLoading);
  scans.problems.push(...problems.map(toScanProblem));
  for (const file of new Set(problems.map((problem) => problem.file))) {
    if (/^skill\.md$/i.test(basename(file))) addFolder(dirname(file), scans);
    else addFile(file, scans);
  }
}

/** Scans every skill in a folder; without skills, the folder's files. */
async function scanBelow(
  path: string,
  scans: ScanTargets,
  { skillsFolders, onScanned }: ScanPathOptions,
): Promise<void> {
  const folders = isSkillsFolder(path) ? [...skillsFolders, path] : skillsFolders;
  const loaded = await createDirectorySource({ path, skillsFolders: folders }).load();
  addLoaded(loaded, scans, (of) => onScanned(scans.scanned.length, of));
  if (scans.scanned.length === 0 && scans.problems.length === 0) addFolder(path, scans);
}

function scanFile(path: string, scans: ScanTargets): void {
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
  const reading = readCandidate(
    { file: path, path: name, form, stem, findings: [], requiredKeys: ["description"] },
    "load",
  );
  const data: unknown = reading?.skill ? JSON.parse(reading.skill.data) : undefined;
  if (reading?.skill && isJsonObject(data)) {
    addFile(path, scans, { ...reading.skill, manifest: readManifest(data as JsonObject) });
  } else addFile(path, scans);
}

function addFolder(path: string, scans: ScanTargets, facts?: ScanSubjectFacts): void {
  const folder = realpathSync(path);
  const list = listFiles(folder, "");
  scans.problems.push(...list.findings.map((finding) => createScanProblem(path, finding)));
  const files = new Map<string, CopiedFile>();
  for (const file of list.files) {
    const read = readFileInside(folder, file.path, MAX_RESOURCE_BYTES);
    if ("bytes" in read) files.set(file.path, { bytes: read.bytes, executable: file.executable });
    else scans.problems.push(createUnreadProblem(join(path, file.path), read));
  }
  addScanned(scans, { path, files, isFile: false }, facts);
}

/** Adds a single file. A single-file skill counts as SKILL.md, whatever its name. */
function addFile(path: string, scans: ScanTargets, facts?: ScanSubjectFacts): void {
  const read = readFileInside(realpathSync(dirname(path)), basename(path), MAX_RESOURCE_BYTES);
  if (!("bytes" in read)) {
    scans.problems.push(createUnreadProblem(path, read));
    return;
  }
  const files = new Map([[facts ? "SKILL.md" : basename(path), { bytes: read.bytes, executable: false }]]);
  addScanned(scans, { path, files, isFile: true }, facts);
}

interface ScanPlace {
  path: string;
  files: ScanSubject["files"];
  isFile: boolean;
}

function addScanned(scans: ScanTargets, { path, files, isFile }: ScanPlace, facts?: ScanSubjectFacts): void {
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

function createScanProblem(file: string, { code, message }: Finding): ScanReadProblem {
  return { code, file, message, fix: FINDING_CODES[code].fix };
}

function toScanProblem(diagnostic: Diagnostic): ScanReadProblem {
  return { file: diagnostic.file, ...pickProblem(diagnostic) };
}

function createUnreadProblem(file: string, { code, message }: PathProblem): ScanReadProblem {
  const fix = code === "too-large" ? "review it yourself, or remove it" : FINDING_CODES.unreadable.fix;
  return { code: "unreadable", file, message: `was not scanned: ${message}`, fix };
}
