import { isUtf8 } from "node:buffer";
import { dirname, join } from "node:path";
import { findInstructionCommands } from "../../agent/models/runbook.ts";
import { formatConfiguredAccess, hasConfiguredAccess, shortenHomePath } from "../../agent/policy/trust-policy.ts";
import { findDynamicCommands } from "../../catalog/skill-content.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { getSkillStoreFolder } from "../../sandbox/sandbox-folders.ts";
import { FINDING_WEIGHTS, type ScanFinding } from "../../scan/rule.ts";
import { scanSkill } from "../../scan/scan.ts";
import { listDeclaredVariables, type Skill } from "../../skill/skill.ts";
import { detectInterpreter, isTextOnly, listSkillScripts } from "../../skill/skill-code.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import type { CopiedFile, SkillCopy } from "../../skill/source/skill-copy.ts";
import type { LockedFiles } from "../../store/lock-file.ts";
import {
  createCoverageCheck,
  getSkillLocation,
  isCodeFile,
  type TrustChange,
  type TrustedSkill,
} from "../../store/trust.ts";
import { filterAsync, mapAsync } from "../../util/async.ts";
import { diffLines } from "../../util/diff.ts";
import { readRegularFile } from "../../util/file-access.ts";
import { formatCount, formatNumber, quoteIfNeeded, truncateLine } from "../../util/text.ts";
import { foldColumns, formatSomeNames, wrapText } from "../format.ts";
import { type Printer, printDiff, printHanging, type SafeText } from "../output.ts";

/** A skill to trust: its current content, and the content that was trusted before. */
export interface TrustSubject {
  skill: Skill;
  copy: SkillCopy;
  before: Pick<TrustedSkill, "digest"> | undefined;
  changes: readonly TrustChange[];
  /** All files in its folder, for an added skill: `changes` includes these. */
  folderFiles?: LockedFiles;
  /** Its files when it was added, for an added skill. */
  was?: ReadonlyMap<string, CopiedFile> | undefined;
}

/** Prints the instructions and code: all of it the first time, then the changes. */
export async function printTrustSubject(out: Printer, subject: TrustSubject, found: DiscoverResult): Promise<void> {
  const { skill, copy, before, changes } = subject;
  out.line`${out.bold(skill.name)}  ${formatDisplayPath(getSkillLocation(skill), found.around)} ${out.dim(`from ${skill.origin.source}`)}`;
  for (const [what, values] of listRequirementRows(skill, found))
    if (values.length > 0) printHanging(out, "  ", [`${what}: ${values.join(", ")}`], { indent: 4, start: 2 });
  for (const text of formatGrantedValues(skill, found))
    printHanging(out, out.text`  ${out.yellow("!")} `, [text], { indent: 4 });
  if (skill.manifest.toolsets.length > 0) out.line`  ${out.yellow("! its tools run as you, without a sandbox")}`;
  if (!before) await printInstructions(out, skill);
  const kinds = new Map(changes.map(({ path, what }) => [path, what]));
  if (!before || kinds.has("SKILL.md")) await printDynamicCommands(out, skill);
  const isCovered = createCoverageCheck(skill, copy.files);
  for (const [path, file] of copy.files) {
    const { bytes } = file;
    const kind = before ? kinds.get(path) : isCovered(path, file) ? "added" : undefined;
    if (path === "SKILL.md" && kind === undefined) continue;
    const mode = kind === "mode" ? ` ${subject.folderFiles?.[path]?.mode ?? ""}` : "";
    out.line`  ${path}  ${out.dim(formatFileSize(file))}${kind && before ? out.yellow(` ${kind}${mode}`) : ""}`;
    // Former prose was not shown before.
    const was = before && kind === "changed" ? readPreviousBytes(path, subject, found) : new Uint8Array();
    if (kind !== undefined && kind !== "mode")
      printFileDifference(out, was, bytes, { path, rest: `skillet show ${skill.name} ${path}` });
  }
  // Files that runs do not use, such as node_modules, are approved too.
  for (const { path, what } of changes) if (!copy.files.has(path)) out.line`  ${path}  ${out.yellow(what)}`;
}

/** Reports values configured for the name of a skill, and the copy that owns them. Trust alone does not grant them. */
function formatGrantedValues(skill: Skill, found: DiscoverResult): string[] {
  if (!hasConfiguredAccess(skill, found)) return [];
  const owner = found.grants.getOwner(skill.name);
  if (owner && found.grants.isOwner(skill, owner)) return [];
  const has = `config.toml has ${formatConfiguredAccess(skill, found)} for this name`;
  const give = `to grant it to this one: skillet trust --secrets ${quoteIfNeeded(skill.name)}`;
  if (!owner) return [`${has}, not granted to any copy yet; ${give}`];
  const copy = owner.location === "" ? owner.source : formatDisplayPath(owner.location, found.around);
  return [`${has}, granted to the copy from ${copy}, not to this one; ${give}`];
}

/** Returns a file as it was approved; empty if that version is no longer stored. */
function readPreviousBytes(path: string, { before, was }: TrustSubject, found: DiscoverResult): Uint8Array {
  const kept = was?.get(path)?.bytes;
  if (kept) return kept;
  const file = join(getSkillStoreFolder(found.home), before?.digest.slice(7) ?? "", path);
  try {
    return readRegularFile(file, { refusesLinks: true });
  } catch {
    return new Uint8Array(); // It was never stored, or was removed.
  }
}

function listRequirementRows(skill: Skill, { settings }: DiscoverResult): [string, readonly string[]][] {
  const { manifest, name } = skill;
  const own = settings.skills.get(name);
  const access = own?.workspace ?? settings.sandbox.workspace ?? "none";
  return [
    ["variables", listDeclaredVariables(skill)],
    ["packages", manifest.packages],
    ["capabilities", manifest.capabilities],
    ["toolsets", manifest.toolsets],
    ["tools without asking", manifest.tools.preapproved],
    ["workspace", access === "none" ? [] : [access]],
    ["network", [...settings.sandbox.network, ...(own?.network ?? [])]],
  ];
}

const MAX_INSTRUCTIONS = 60;
const MAX_COMMANDS = 40;
/** The maximum per file. */
const MAX_DIFF_LINES = 80;
/** Without arguments this placeholder would be replaced by nothing, and the shown command would differ from the written one. */
const ARGUMENTS_PLACEHOLDER = "\ue000ARGUMENTS";

async function printInstructions(out: Printer, skill: Skill, max = MAX_INSTRUCTIONS): Promise<void> {
  const lines = splitContentLines(await skill.body());
  out.line`  instructions  ${out.dim(formatCount(lines.length, "line"))}`;
  for (const line of lines.slice(0, max)) printContentLine(out, line);
  const more = lines.length - max;
  if (more > 0) out.line`    ${out.dim(`… and ${formatCount(more, "more line")}: skillet show ${skill.name} --body`)}`;
}

/** Prints the commands in the instructions: these run with any model. */
async function printDynamicCommands(out: Printer, skill: Skill, max = MAX_COMMANDS): Promise<void> {
  const lines = findInstructionCommands((await skill.body()).replaceAll("$ARGUMENTS", ARGUMENTS_PLACEHOLDER), {})
    .flatMap(splitContentLines)
    .map((line) => line.replaceAll(ARGUMENTS_PLACEHOLDER, "$ARGUMENTS"));
  if (lines.length === 0) return;
  out.line`  runs:`;
  for (const line of lines.slice(0, max)) printContentLine(out, `$ ${line}`, out.yellow);
  const more = lines.length - max;
  if (more > 0) out.line`    ${out.dim(`… and ${formatCount(more, "more line")}: skillet show ${skill.name} --body`)}`;
}

/**
 * Prints a line of a skill, wrapped between its words. Text in backticks or quotes is only split if it is wider than the terminal. The rest
 * of a line is indented: untrusted text never starts a line of the terminal.
 */
function printContentLine(
  out: Printer,
  line: string,
  paint: (text: string) => SafeText | string = (text) => text,
): void {
  const room = out.width - CONTENT_INDENT - 2;
  const parts = wrapText(line, room).flatMap((part) => {
    const folded = foldColumns(part, room);
    return folded.length === 1 ? [part] : folded;
  });
  for (const [at, part] of parts.entries())
    out.line`${" ".repeat(at === 0 ? CONTENT_INDENT : CONTENT_INDENT + 2)}${paint(part)}`;
  if (parts.length === 0) out.line``;
}

const CONTENT_INDENT = 4;

function splitContentLines(text: string): string[] {
  return text.trim() === "" ? [] : text.replace(/^\s*\n|\s+$/g, "").split(/\r?\n/);
}

/** Prints all instructions and code of a skill that is not written yet, without omissions: no other command can show it. */
export async function printSkillContents(
  out: Printer,
  skill: Skill,
  files: ReadonlyMap<string, CopiedFile>,
): Promise<void> {
  await printInstructions(out, skill, Number.POSITIVE_INFINITY);
  await printDynamicCommands(out, skill, Number.POSITIVE_INFINITY);
  const isCovered = createCoverageCheck(skill, files);
  for (const [path, file] of files) {
    if (path === "SKILL.md") continue;
    out.line`  ${path}  ${out.dim(formatFileSize(file))}`;
    if (!isCovered(path, file)) continue;
    printFileDifference(out, new Uint8Array(), file.bytes, { path, most: Number.POSITIVE_INFINITY, rest: "" });
  }
}

interface DiffOptions {
  path: string;
  /** The maximum number of lines. */
  most?: number;
  /** The command that shows the other lines. */
  rest: string;
}

/** Prints the lines that are new or changed since the approval. Contract: returns their number. */
export function printFileDifference(out: Printer, before: Uint8Array, now: Uint8Array, shown: DiffOptions): number {
  const { path, most = MAX_DIFF_LINES, rest } = shown;
  if (!isTextFile(path, now)) {
    out.line`    ${out.yellow(`not text, ${formatCount(now.length, "byte")}: not shown`)}`;
    return 1;
  }
  // The same encoding for both: two encodings of one word are a change. Latin-1 shows any other bytes.
  const encoding = isUtf8(before) && isUtf8(now) ? "utf8" : "latin1";
  const textOf = (bytes: Uint8Array) => (isTextFile(path, bytes) ? Buffer.from(bytes).toString(encoding) : "");
  const lines = diffLines(textOf(before), textOf(now));
  printDiff(out, lines, { most, rest });
  return lines.length;
}

function formatFileSize({ bytes, executable }: CopiedFile): string {
  return `${formatCount(bytes.length, "byte")}${executable ? ", executable" : ""}`;
}

/** Returns true for text. Code counts as text whatever bytes it contains: an interpreter would run it. */
function isTextFile(path: string, bytes: Uint8Array): boolean {
  return isUtf8(bytes) || !bytes.includes(0) || detectInterpreter(path, bytes)?.program !== undefined;
}

/** The risk groups, highest first. Skills of one group are approved together. */
const TRUST_RISKS = ["tools", "findings", "scripts", "text"] as const;
type TrustRisk = (typeof TRUST_RISKS)[number];

interface TrustSummary {
  subject: TrustSubject;
  risk: TrustRisk;
  /** The number of executable files. */
  runs: number;
  /** The size of all files that are code or configure it. */
  bytes: number;
  needs: readonly string[];
  /** Findings of medium and high severity. */
  findings: readonly ScanFinding[];
}

const RISK_TITLES: Record<TrustRisk, string> = {
  tools: "with tools that run as you, without a sandbox",
  findings: "with scan findings",
  scripts: "with code that runs in a sandbox",
  text: "without code: models follow their instructions",
};

interface TrustGroup {
  title: string;
  summaries: readonly TrustSummary[];
}

/** Groups skills by risk, highest first. */
export async function groupByRisk(subjects: readonly TrustSubject[]): Promise<TrustGroup[]> {
  const summaries = await mapAsync(subjects, summarizeSubject);
  return TRUST_RISKS.flatMap((risk) => {
    const group = summaries.filter((summary) => summary.risk === risk);
    return group.length === 0
      ? []
      : [{ title: `${formatCount(group.length, "skill")} ${RISK_TITLES[risk]}`, summaries: group }];
  });
}

async function summarizeSubject(subject: TrustSubject): Promise<TrustSummary> {
  const { skill, copy } = subject;
  const { name, description, manifest } = skill;
  const code = [...copy.files].filter(([path, file]) => path !== "SKILL.md" && isCodeFile(skill, path, file));
  const scanned = scanSkill({ name, description, manifest, files: copy.files });
  const findings = scanned.filter(({ weight }) => weight !== "low");
  const commands = findDynamicCommands(await skill.body()).length;
  const runs = (await listSkillScripts(skill)).length + manifest.toolsets.length + commands;
  const risk =
    manifest.toolsets.length > 0
      ? "tools"
      : findings.length > 0
        ? "findings"
        : runs + code.length > 0
          ? "scripts"
          : "text";
  const needs = [
    ...listDeclaredVariables(skill),
    ...manifest.packages.map((one) => `package ${one}`),
    ...manifest.capabilities,
  ];
  return { subject, risk, runs, bytes: code.reduce((sum, [, file]) => sum + file.bytes.length, 0), needs, findings };
}

const MAX_ROWS = 20;
const MAX_NAME_LENGTH = 28;

/** Prints one line per skill: its executable files, size, requirements and scan findings. Skills without code share a line. */
export function printTrustGroup(out: Printer, { title, summaries }: TrustGroup): void {
  out.line`${out.bold(title)}`;
  const names = summaries.map(({ subject }) => subject.skill.name);
  if (summaries.every(({ risk }) => risk === "text"))
    return void printHanging(out, "  ", [formatSomeNames(names, MAX_NAMES)], { indent: 2 });
  const rows = summaries.slice(0, MAX_ROWS);
  const longest = Math.min(MAX_NAME_LENGTH, Math.max(...rows.map(({ subject }) => subject.skill.name.length)));
  for (const { subject, runs, bytes, needs, findings } of rows) {
    const name = truncateLine(subject.skill.name, MAX_NAME_LENGTH).padEnd(longest);
    const parts = [
      `${runs === 0 ? "data" : formatCount(runs, "file that runs", "files that run")}, ${formatNumber(bytes)} bytes`,
      ...(needs.length > 0 ? [`needs ${formatSomeNames(needs, 2)}`] : []),
      ...(findings.length > 0 ? [`scan: ${formatFindingCounts(findings)}`] : []),
    ];
    const text = truncateLine(parts.join(" · "), Math.max(20, out.width - longest - 4));
    out.line`  ${name}  ${findings.length > 0 ? out.yellow(text) : out.dim(text)}`;
  }
  if (summaries.length > MAX_ROWS)
    out.line`  ${out.dim(`… and ${summaries.length - MAX_ROWS} more: type show, or run skillet trust --show`)}`;
}

const MAX_NAMES = 60;

export function printFindings(out: Printer, findings: readonly ScanFinding[], max: number): void {
  for (const { weight, file, line, message, rule } of findings.slice(0, max)) {
    const mark = weight === "high" ? out.red("✗") : weight === "medium" ? out.yellow("!") : out.dim("·");
    const location = `${file}${line === undefined ? "" : `:${line}`}`;
    printHanging(out, out.text`    ${mark} `, [`${location} ${message} (${rule})`], { indent: 6 });
  }
  const more = findings.length - max;
  if (more > 0) out.line`    ${out.dim(`… and ${formatCount(more, "more finding")}`)}`;
}

export function formatFindingCounts(findings: readonly ScanFinding[]): string {
  const counts = FINDING_WEIGHTS.map(
    (weight) => [findings.filter((one) => one.weight === weight).length, weight] as const,
  );
  return counts.flatMap(([number, weight]) => (number > 0 ? `${number} ${weight}` : [])).join(", ");
}

/** Returns the number of skills with untrusted code, and the command that reviews and trusts them; undefined without such skills. */
export async function findUntrustedCode(
  found: DiscoverResult,
): Promise<{ skills: number; command: string } | undefined> {
  const { catalog, trust } = found;
  const untrusted = trust.withCache(() => catalog.skills.filter((skill) => trust.getStatus(skill) === "untrusted"));
  const waiting = await filterAsync(untrusted, async (skill) => !(await isTextOnly(skill)));
  if (waiting.length === 0) return undefined;
  const folders = waiting.flatMap(({ origin: { folder } }) => (folder === undefined ? [] : [dirname(folder)]));
  const named = [...new Set(folders)].map((folder) => {
    const short = shortenHomePath(folder, found);
    return quoteIfNeeded(short) === short ? short : quoteIfNeeded(folder); // A shell expands ~ only outside of quotes.
  });
  return { skills: waiting.length, command: ["skillet trust", ...named].join(" ") };
}
