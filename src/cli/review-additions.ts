import type { DiscoverResult } from "../config/discover.ts";
import type { PendingSkill } from "../remote/apply-additions.ts";
import { type FileTree, type MergeConflict, toLockedFiles } from "../remote/file-tree.ts";
import { formatSignature, type SignatureState } from "../remote/signature.ts";
import type { SkillsDir } from "../remote/skills-dir.ts";
import { FINDING_WEIGHTS, type ScanFinding } from "../scan/rule.ts";
import { scanSkill } from "../scan/scan.ts";
import { parseMarkdownDocument } from "../skill/document.ts";
import { type Manifest, readManifest } from "../skill/manifest.ts";
import { listDeclaredVariables, readRequirements, SIGNATURE_FILE, type Skill } from "../skill/skill.ts";
import { listSkillScripts } from "../skill/skill-code.ts";
import { listLocations } from "../skill/source/locations.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { findSampleFolder } from "../skill/source/skill-files.ts";
import { diffLockedFiles } from "../store/lock-diff.ts";
import type { LockedSkill, LockedSkills } from "../store/lock-file.ts";
import { isCodeFile } from "../store/trust.ts";
import { mapAsync } from "../util/async.ts";
import { resolveRealPath } from "../util/safe-path.ts";
import { compareText, findLookalikes, formatCount, formatNumber, truncateLine } from "../util/text.ts";
import {
  formatFindingCounts,
  printFileDifference,
  printFindings,
  printSkillContents,
} from "./commands/trust-review.ts";
import { formatOrigin, formatSkillAddress, formatSkillNames, formatSomeNames, SHORT_COMMIT_LENGTH } from "./format.ts";
import { type Printer, printDiff, printHanging, type SafeText } from "./output.ts";

interface ReviewContext {
  found: DiscoverResult;
  skillsDir: SkillsDir;
  /** The current entries of the lock file. */
  locked: LockedSkills;
  /** By name. */
  signatures: ReadonlyMap<string, SignatureState>;
  /** True: also show all instructions and code. */
  isWhole: boolean;
}

/** Larger sets are summarized: users do not read a thousand reviews one by one. */
const MAX_DETAILED_SKILLS = 8;

/** Prints the skills to approve: complete for new ones, as differences for updates. */
export async function printPendingSkills(
  out: Printer,
  coming: readonly PendingSkill[],
  showing: ReviewContext,
): Promise<void> {
  const fresh = coming.filter(({ is }) => is === "new");
  if (fresh.length > MAX_DETAILED_SKILLS) await printManySkills(out, fresh, showing);
  else for (const one of fresh) await printNewSkill(out, one, showing);
  const budget = { left: showing.isWhole ? Number.POSITIVE_INFINITY : MAX_DIFFERENCES };
  for (const one of coming) if (one.is === "update") await printUpdate(out, one, { ...showing, budget });
  if (showing.isWhole) await printPendingContents(out, fresh);
}

/** Prints every file, line by line. */
export async function printPendingContents(out: Printer, coming: readonly PendingSkill[]): Promise<void> {
  for (const one of coming) {
    out.line`${out.bold(one.name)}`;
    await printSkillContents(out, one.skill, getPendingFiles(one));
  }
}

async function printNewSkill(out: Printer, one: PendingSkill, showing: ReviewContext): Promise<void> {
  const { skill, put, name } = one;
  const { entry } = put;
  printHeadline(out, name, `from ${formatOrigin(entry)}`);
  printHanging(out, "  ", [truncateLine(skill.description, 400)], { indent: 2 });
  out.line`  ${out.dim(entry.digest)}`;
  printListRow(out, formatFileTotals([one]), Object.keys(entry.files));
  printListRow(out, "skills inside it", findNestedSkillFolders(entry.files));
  const requirements = await listRequirements(skill);
  for (const what of REQUIREMENT_KINDS) printListRow(out, what, requirements[what]);
  if (requirements.toolsets.length > 0) out.line`  ${out.yellow("! its tools run as you, without a sandbox")}`;
  printSkillNotes(out, one, showing);
  printScanFindings(out, one.prepared.findings);
}

/** Returns the nested folders that will be discovered as skills too. */
function findNestedSkillFolders(files: LockedSkill["files"]): string[] {
  const folders = Object.keys(files).flatMap((path) =>
    path.endsWith("/SKILL.md") ? path.slice(0, -"/SKILL.md".length) : [],
  );
  return folders.filter((folder) => findSampleFolder(folder) === undefined);
}

type PendingUpdate = Extract<PendingSkill, { is: "update" }>;

/** The maximum number of diff lines over all updates. */
const MAX_DIFFERENCES = 400;

/** Prints the diff first, then new requirements. */
async function printUpdate(
  out: Printer,
  one: PendingUpdate,
  showing: ReviewContext & { budget: { left: number } },
): Promise<void> {
  const { skill, put, name, difference } = one;
  const [was, now] = [showing.locked[name]?.commit, put.entry.commit];
  const isMoved = was !== undefined && now !== undefined && was !== now;
  printHeadline(
    out,
    name,
    `from ${formatOrigin(put.entry)}${isMoved ? `, was ${was.slice(0, SHORT_COMMIT_LENGTH)}` : ""}`,
  );
  printChangedFiles(out, one, showing.budget);
  const kept = listKeptFiles(one);
  if (kept.length > 0)
    printHanging(out, out.text`  ${out.green("✓")} `, [`your changes are kept: ${formatSomeNames(kept)}`], {
      indent: 4,
    });
  const requirements = await listNewRequirements(skill, difference.before);
  for (const what of REQUIREMENT_KINDS) {
    if (requirements[what].length === 0) continue;
    printHanging(out, out.text`  ${out.yellow("!")} `, [`new ${what}: ${requirements[what].join(", ")}`], {
      indent: 4,
      paint: out.yellow,
    });
  }
  if (requirements.toolsets.length > 0) out.line`  ${out.yellow("! its tools run as you, without a sandbox")}`;
  printSkillNotes(out, one, showing);
  out.line`  ${out.dim(put.entry.digest)}`;
  const scanned = (manifest: Skill["manifest"], files: ReadonlyMap<string, CopiedFile>) =>
    scanSkill({ name, description: manifest.description, manifest, files });
  const before = new Set(scanned(readTreeManifest(difference.before), difference.before).map(createFindingKey));
  const findings = scanned(skill.manifest, difference.after);
  const fresh = findings.filter((finding) => !before.has(createFindingKey(finding)));
  printScanFindings(out, fresh, findings.length - fresh.length);
}

function createFindingKey({ rule, file, message }: ScanFinding): string {
  return JSON.stringify([rule, file, message]);
}

/** Prints the files that differ from the approved version, line by line. */
function printChangedFiles(out: Printer, { skill, name, difference }: PendingUpdate, budget: { left: number }): void {
  const { before, after } = difference;
  for (const path of [...new Set([...before.keys(), ...after.keys()])].sort(compareText)) {
    const [was, now] = [before.get(path), after.get(path)];
    const what = describeFileChange(was, now);
    if (what === undefined) continue;
    const code = now && isCodeFile(skill, path, now) ? " (code)" : "";
    out.line`  ${path}  ${out.yellow(what)}${code}`;
    if (!now || Buffer.compare(was?.bytes ?? NO_BYTES, now.bytes) === 0) continue;
    const most = { most: Math.max(0, Math.min(80, budget.left)) };
    const rest = `skillet update ${name} --dry-run --show`;
    budget.left -= printFileDifference(out, was?.bytes ?? NO_BYTES, now.bytes, {
      path,
      rest,
      ...(budget.left === Number.POSITIVE_INFINITY ? { most: budget.left } : most),
    });
  }
}

const NO_BYTES = new Uint8Array();

function describeFileChange(was: CopiedFile | undefined, now: CopiedFile | undefined): string | undefined {
  if (!was || !now) return was ? "removed" : now ? "added" : undefined;
  if (Buffer.compare(was.bytes, now.bytes) !== 0) return "changed";
  if (was.executable === now.executable) return undefined;
  return now.executable ? "is now executable" : "is no longer executable";
}

const MAX_NAMES = 60;
const MAX_DETAILED_ENTRIES = 15;
const MAX_FINDINGS = 12;
/** The maximum per skill in a summary. */
const MAX_NAMES_PER_SKILL = 3;

/** Summarizes many skills: totals, and the names of those with code or findings. */
async function printManySkills(out: Printer, coming: readonly PendingSkill[], showing: ReviewContext): Promise<void> {
  const names = coming.map(({ name }) => name);
  const origins = new Set(coming.map(({ put: { entry } }) => formatOrigin(omitPath(entry))));
  printHeadline(out, formatCount(coming.length, "skill"), `from ${[...origins].join(", ")}`);
  printListRow(out, "names", names, MAX_NAMES);
  out.line`  ${formatFileTotals(coming)}`;
  await printRequirementTotals(out, coming);
  const pending = coming
    .filter((one) => one.prepared.findings.length > 0 || listCodeFiles(one).length > 0)
    .sort((a, b) => rankSeverity(a) - rankSeverity(b));
  for (const one of pending.slice(0, MAX_DETAILED_ENTRIES)) {
    const code = formatSomeNames(listCodeFiles(one), MAX_NAMES_PER_SKILL);
    const start = one.name.length + 4;
    printHanging(out, out.text`  ${out.bold(one.name)}  `, [code], { indent: 4, start });
    printFindings(out, one.prepared.findings, MAX_NAMES_PER_SKILL);
  }
  const more = pending.length - MAX_DETAILED_ENTRIES;
  if (more > 0)
    out.line`  ${out.dim(`… and ${formatNumber(more)} more with code or findings: --dry-run --json has all`)}`;
  for (const one of coming) printSkillNotes(out, one, showing, `${one.name}: `);
}

function omitPath({ path: _path, ...entry }: LockedSkill): Omit<LockedSkill, "path"> {
  return entry;
}

async function printRequirementTotals(out: Printer, coming: readonly PendingSkill[]): Promise<void> {
  const asking = await mapAsync(coming, async ({ name, skill }) => ({
    name,
    requirements: await listRequirements(skill),
  }));
  for (const what of REQUIREMENT_KINDS) {
    const those = asking.filter(({ requirements }) => requirements[what].length > 0);
    const all = those.reduce((sum, { requirements }) => sum + requirements[what].length, 0);
    const sum = `${what}: ${formatNumber(all)}, in ${formatCount(those.length, "skill")}`;
    const names = those.map(({ name }) => name);
    // Skills with code are listed below, one by one.
    if (what === "scripts" || what === "toolsets") {
      if (all > 0) out.line`  ${sum}`;
    } else printListRow(out, sum, names);
  }
  if (asking.some(({ requirements }) => requirements.toolsets.length > 0))
    out.line`  ${out.yellow("! their tools run as you, without a sandbox")}`;
  const findings = coming.flatMap(({ prepared }) => prepared.findings);
  if (findings.length > 0) out.line`  ${paintScanSummary(out, formatFindingCounts(findings))}`;
}

function paintScanSummary(out: Printer, found: string): SafeText {
  return out.text`${out.yellow(`scan: ${found}`)} ${out.dim("(advisory: review it yourself)")}`;
}

/** Ranks by the highest severity, so that the most severe come first. */
function rankSeverity({ prepared: { findings } }: PendingSkill): number {
  const weights = findings.map(({ weight }) => FINDING_WEIGHTS.indexOf(weight));
  return Math.min(FINDING_WEIGHTS.length, ...weights);
}

function printHeadline(out: Printer, name: string, text: string): void {
  printHanging(out, out.text`${out.bold(name)}  `, [text], { indent: 2, start: name.length + 2, paint: out.dim });
}

const MAX_LISTED = 20;

function printListRow(out: Printer, label: string, values: readonly string[], max = MAX_LISTED): void {
  if (values.length === 0) return;
  const indent = 4 + (/^ */.exec(label)?.[0].length ?? 0);
  printHanging(out, `  ${label}: `, [formatSomeNames(values, max)], { indent, start: label.length + 4 });
}

function formatFileTotals(coming: readonly PendingSkill[]): string {
  const files = coming.flatMap(({ put }) => Object.values(put.entry.files));
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  return `${formatCount(files.length, "file")}, ${formatNumber(bytes)} bytes`;
}

/** Prints the signature, and other skills with the same or a similar name. */
function printSkillNotes(
  out: Printer,
  one: PendingSkill,
  { signatures, found, skillsDir }: ReviewContext,
  who = "",
): void {
  const { name, is } = one;
  const signature = signatures.get(name);
  if (one.is === "update" && one.difference.before.has(SIGNATURE_FILE) && signature?.state === "none")
    out.line`  ${out.yellow(`! ${who}it was signed before and no longer is`)}`;
  if (signature && signature.state !== "none") {
    const paint = signature.state === "valid" ? out.green : out.yellow;
    out.line`  ${paint(`${who}it ${formatSignature(signature)}`)}`;
  }
  const alike = is === "new" ? findLookalikes(name, found.catalog.names()) : [];
  if (alike.length > 0) {
    const note = `${who}its name resembles ${formatSkillNames(alike)}, which you already have: make sure that this is the one you want`;
    printHanging(out, out.text`  ${out.yellow("!")} `, [note], { indent: 4 });
  }
  const copies = is === "new" ? formatOtherCopies(name, skillsDir, found) : undefined;
  if (copies !== undefined) printHanging(out, out.text`  ${out.yellow("!")} `, [`${who}${copies}`], { indent: 4 });
}

/** Prints scan findings. `known`: the number of findings that were approved before. */
function printScanFindings(out: Printer, findings: readonly ScanFinding[], known = 0): void {
  if (findings.length === 0) return;
  const rest = known > 0 ? ` new, ${known} as before` : "";
  out.line`  ${paintScanSummary(out, `${formatFindingCounts(findings)}${rest}`)}`;
  printFindings(out, findings, MAX_FINDINGS);
}

export function printConflicts(out: Printer, conflicts: readonly MergeConflict[]): void {
  for (const { path, reason, lines } of conflicts) {
    out.line`  ${path}  ${out.red(CONFLICT_LABELS[reason])}`;
    printDiff(out, lines);
  }
}

const CONFLICT_LABELS: Record<MergeConflict["reason"], string> = {
  "both-changed": "you and the source changed the same lines",
  "both-added": "you and the source added it with different content",
  "removed-here": "you removed it; the source changed it",
  "removed-there": "the source removed it; you changed it",
  binary: "you and the source changed it, and it is a binary file",
  "no-base": "you changed it, and its original version is no longer available",
};

/** Returns the question asked before anything is written. */
export function formatApprovalQuestion(verb: "Add" | "Update", coming: readonly PendingSkill[]): string {
  const [these, their] = coming.length === 1 ? ["this skill", "its"] : [`these ${coming.length} skills`, "their"];
  const hasTools = coming.some(({ skill }) => skill.manifest.toolsets.length > 0);
  const code = hasTools
    ? `, and let ${their} tools run as you, without a sandbox`
    : coming.some((one) => listCodeFiles(one).length > 0)
      ? `, and let ${their} code run in a sandbox`
      : "";
  return `${verb} ${these}${code}?`;
}

/** Lists the files that are code or configure it. */
function listCodeFiles(one: PendingSkill): string[] {
  return [...getPendingFiles(one)].flatMap(([path, file]) => (isCodeFile(one.skill, path, file) ? path : []));
}

/** Returns all files after the change. */
function getPendingFiles(one: PendingSkill) {
  return one.is === "update" ? one.difference.after : one.prepared.tree;
}

/** Lists the files that keep the user's changes. */
export function listKeptFiles(one: PendingSkill): string[] {
  if (one.is === "new") return [];
  const [after, theirs] = [toLockedFiles(one.difference.after), one.prepared.files];
  return diffLockedFiles(theirs, after).map(({ path }) => path);
}

/** The kinds of requirements, in display order. */
const REQUIREMENT_KINDS = [
  "scripts",
  "toolsets",
  "variables",
  "capabilities",
  "packages",
  "programs",
  "tools",
] as const;
type SkillRequirements = Record<(typeof REQUIREMENT_KINDS)[number], readonly string[]>;

export async function listRequirements(skill: Skill): Promise<SkillRequirements> {
  return { scripts: (await listSkillScripts(skill)).map(({ path }) => path), ...listDeclaredRequirements(skill) };
}

/** Returns the requirements that the skill did not have before. */
export async function listNewRequirements(skill: Skill, before: FileTree): Promise<SkillRequirements> {
  const now = await listRequirements(skill);
  const old: SkillRequirements = {
    scripts: now.scripts.filter((path) => before.has(path)),
    ...listDeclaredRequirements({ manifest: readTreeManifest(before) }),
  };
  const fresh: Partial<SkillRequirements> = {};
  for (const what of REQUIREMENT_KINDS) fresh[what] = now[what].filter((one) => !old[what].includes(one));
  return fresh as SkillRequirements;
}

/** Reads the manifest of the skill in a file tree. */
function readTreeManifest(tree: FileTree): Manifest {
  const own = tree.get("SKILL.md");
  return readManifest(parseMarkdownDocument(Buffer.from(own?.bytes ?? []).toString("utf8")).data);
}

function listDeclaredRequirements(skill: Pick<Skill, "manifest">): Omit<SkillRequirements, "scripts"> {
  const { packages, capabilities, toolsets, tools } = skill.manifest;
  const { bins, anyBins } = readRequirements(skill);
  return {
    toolsets,
    variables: listDeclaredVariables(skill),
    capabilities,
    packages,
    programs: [...new Set([...bins, ...anyBins])],
    tools: [...new Set([...tools.required, ...tools.allowed, ...tools.preapproved])],
  };
}

/** Reports whether another copy of this name overrides the skill or is overridden by it. Undefined if there is no other copy. */
function formatOtherCopies(name: string, skillsDir: SkillsDir, found: DiscoverResult): string | undefined {
  const [winner] = found.catalog.copies(name);
  if (!winner) return undefined;
  const all = listLocations(found.around);
  const own = all.findIndex(({ path }) => resolveRealPath(path) === skillsDir.folder);
  const other = formatSkillAddress(winner, found);
  const rank = all.findIndex(({ name: source }) => source === winner.origin.source);
  // Skills contributed by programs and configured folders are not in this table: their scope decides.
  if (rank === -1) return `${other} exists too: \`skillet show ${name}\` shows which one is used`;
  return rank < own ? `it is used instead of ${other}` : `${other} is used instead, because it is nearer`;
}
