import type { Discovered } from "../../host/discover.ts";
import type { LockedSkill, LockedSkills } from "../../host/lock/format.ts";
import { isCode } from "../../host/trust.ts";
import { type ScanFinding, WEIGHTS } from "../../scan/finding.ts";
import { scanSkill } from "../../scan/scan.ts";
import { byText, count, grouped, lookAlikes, oneLine } from "../../shared/text.ts";
import { SIGNATURE_FILE, type Skill } from "../../skill/skill.ts";
import type { CopiedFile } from "../../source/digest.ts";
import { sampleFolderIn } from "../../source/nested-skills.ts";
import type { Coming } from "../../supply/add-skills.ts";
import { type SignatureState, saySignature } from "../../supply/signature.ts";
import type { SkillsPlace } from "../../supply/skills-place.ts";
import { showContents, showDifference } from "../commands/trust-show.ts";
import type { Printer, Safe } from "../io.ts";
import { printHanging } from "../wrap.ts";
import { ASKS, asksOf, manifestIn, newAsksOf } from "./asks.ts";
import { sayOtherCopies } from "./copies.ts";
import { SHORT, sayOrigin } from "./origin.ts";
import { codeIn, keptIn, listFindings, sayNames, sayWeights, someOf, treeOf } from "./words.ts";

export interface Showing {
  found: Discovered;
  place: SkillsPlace;
  /** What the lock says until then. */
  locked: LockedSkills;
  /** By name. */
  signatures: ReadonlyMap<string, SignatureState>;
  /** Whether all that is followed and run is shown too. */
  isWhole: boolean;
}

/** More than these are told of together: nobody reads a thousand of them one by one. */
const FEW = 8;

/** What somebody is about to agree to: all that it is, or what becomes another. */
export function showComing(out: Printer, coming: readonly Coming[], showing: Showing): void {
  const fresh = coming.filter(({ is }) => is === "new");
  if (fresh.length > FEW) showMany(out, fresh, showing);
  else for (const one of fresh) showNew(out, one, showing);
  const budget = { left: showing.isWhole ? Number.POSITIVE_INFINITY : MOST_DIFFERENCES };
  for (const one of coming) if (one.is === "update") showUpdate(out, one, { ...showing, budget });
  if (showing.isWhole) showWhole(out, fresh);
}

/** Everything of it, line by line. */
export function showWhole(out: Printer, coming: readonly Coming[]): void {
  for (const one of coming) {
    out.line`${out.bold(one.name)}`;
    showContents(out, one.skill, treeOf(one));
  }
}

function showNew(out: Printer, one: Coming, showing: Showing): void {
  const { skill, put, name } = one;
  const { entry } = put;
  headline(out, name, `from ${sayOrigin(entry)}`);
  printHanging(out, "  ", [oneLine(skill.description, 400)], { indent: 2 });
  out.line`  ${out.dim(entry.digest)}`;
  row(out, sayFiles([one]), Object.keys(entry.files));
  row(out, "skills inside it", nestedIn(entry.files));
  const asks = asksOf(skill);
  for (const what of ASKS) row(out, what, asks[what]);
  if (asks.toolsets.length > 0) out.line`  ${out.yellow("! its tools run as you, without a sandbox")}`;
  showNotes(out, one, showing);
  showFindings(out, one.prepared.findings);
}

/** The folders in a skill's that are found as skills too, once it is added. */
function nestedIn(files: LockedSkill["files"]): string[] {
  const folders = Object.keys(files).flatMap((path) =>
    path.endsWith("/SKILL.md") ? path.slice(0, -"/SKILL.md".length) : [],
  );
  return folders.filter((folder) => sampleFolderIn(folder) === undefined);
}

type Update = Extract<Coming, { is: "update" }>;

/** Lines of differences of all that is updated at once. */
const MOST_DIFFERENCES = 400;

/** The difference comes first; then what is asked for that was not before. */
function showUpdate(out: Printer, one: Update, showing: Showing & { budget: { left: number } }): void {
  const { skill, put, name, difference } = one;
  const [was, now] = [showing.locked[name]?.commit, put.entry.commit];
  const isMoved = was !== undefined && now !== undefined && was !== now;
  headline(out, name, `from ${sayOrigin(put.entry)}${isMoved ? `, was ${was.slice(0, SHORT)}` : ""}`);
  showChanges(out, one, showing.budget);
  const kept = keptIn(one);
  if (kept.length > 0)
    printHanging(out, out.text`  ${out.green("✓")} `, [`your own changes stay: ${someOf(kept)}`], { indent: 4 });
  const asks = newAsksOf(skill, difference.before);
  for (const what of ASKS) {
    if (asks[what].length === 0) continue;
    printHanging(out, out.text`  ${out.yellow("!")} `, [`new ${what}: ${asks[what].join(", ")}`], {
      indent: 4,
      paint: out.yellow,
    });
  }
  if (asks.toolsets.length > 0) out.line`  ${out.yellow("! its tools run as you, without a sandbox")}`;
  showNotes(out, one, showing);
  out.line`  ${out.dim(put.entry.digest)}`;
  const scanned = (manifest: Skill["manifest"], files: ReadonlyMap<string, CopiedFile>) =>
    scanSkill({ name, description: manifest.description, manifest, files });
  const before = new Set(scanned(manifestIn(difference.before), difference.before).map(keyOf));
  const findings = scanned(skill.manifest, difference.after);
  const fresh = findings.filter((finding) => !before.has(keyOf(finding)));
  showFindings(out, fresh, findings.length - fresh.length);
}

function keyOf({ rule, file, message }: ScanFinding): string {
  return JSON.stringify([rule, file, message]);
}

/** What is another than what was agreed to before, line by line. */
function showChanges(out: Printer, { skill, name, difference }: Update, budget: { left: number }): void {
  const { before, after } = difference;
  for (const path of [...new Set([...before.keys(), ...after.keys()])].sort(byText)) {
    const [was, now] = [before.get(path), after.get(path)];
    const what = changeOf(was, now);
    if (what === undefined) continue;
    const code = now && isCode(skill, path, now) ? " (code)" : "";
    out.line`  ${path}  ${out.yellow(what)}${code}`;
    if (!now || Buffer.compare(was?.bytes ?? EMPTY, now.bytes) === 0) continue;
    const most = { most: Math.max(0, Math.min(80, budget.left)) };
    const rest = `skillet update ${name} --dry-run --show`;
    budget.left -= showDifference(out, was?.bytes ?? EMPTY, now.bytes, {
      path,
      rest,
      ...(budget.left === Number.POSITIVE_INFINITY ? { most: budget.left } : most),
    });
  }
}

const EMPTY = new Uint8Array();

function changeOf(was: CopiedFile | undefined, now: CopiedFile | undefined): string | undefined {
  if (!was || !now) return was ? "removed" : now ? "added" : undefined;
  if (Buffer.compare(was.bytes, now.bytes) !== 0) return "changed";
  if (was.executable === now.executable) return undefined;
  return now.executable ? "can be run now" : "cannot be run any more";
}

const MOST_NAMES = 60;
const MOST_TOLD = 15;
const MOST_FINDINGS = 12;
/** Of each, where many are told of together. */
const MOST_OF_MANY = 3;

/** Of many: the sums, and by name those that bring code or that something was found in. */
function showMany(out: Printer, coming: readonly Coming[], showing: Showing): void {
  const names = coming.map(({ name }) => name);
  const origins = new Set(coming.map(({ put: { entry } }) => sayOrigin(withoutPath(entry))));
  headline(out, count(coming.length, "skill"), `from ${[...origins].join(", ")}`);
  row(out, "names", names, MOST_NAMES);
  out.line`  ${sayFiles(coming)}`;
  showSums(out, coming);
  const told = coming
    .filter((one) => one.prepared.findings.length > 0 || codeIn(one).length > 0)
    .sort((a, b) => weightOf(a) - weightOf(b));
  for (const one of told.slice(0, MOST_TOLD)) {
    const code = someOf(codeIn(one), MOST_OF_MANY);
    const start = one.name.length + 4;
    printHanging(out, out.text`  ${out.bold(one.name)}  `, [code], { indent: 4, start });
    listFindings(out, one.prepared.findings, MOST_OF_MANY);
  }
  const more = told.length - MOST_TOLD;
  if (more > 0) out.line`  ${out.dim(`… and ${grouped(more)} more with code or findings: --dry-run --json has all`)}`;
  for (const one of coming) showNotes(out, one, showing, `${one.name}: `);
}

function withoutPath({ path: _path, ...entry }: LockedSkill): Omit<LockedSkill, "path"> {
  return entry;
}

function showSums(out: Printer, coming: readonly Coming[]): void {
  const asking = coming.map(({ name, skill }) => ({ name, asks: asksOf(skill) }));
  for (const what of ASKS) {
    const those = asking.filter(({ asks }) => asks[what].length > 0);
    const all = those.reduce((sum, { asks }) => sum + asks[what].length, 0);
    const sum = `${what}: ${grouped(all)}, of ${count(those.length, "skill")}`;
    const names = those.map(({ name }) => name);
    // Those with code stand below, one by one.
    if (what === "scripts" || what === "toolsets") {
      if (all > 0) out.line`  ${sum}`;
    } else row(out, sum, names);
  }
  if (asking.some(({ asks }) => asks.toolsets.length > 0))
    out.line`  ${out.yellow("! their tools run as you, without a sandbox")}`;
  const findings = coming.flatMap(({ prepared }) => prepared.findings);
  if (findings.length > 0) out.line`  ${sayScan(out, sayWeights(findings))}`;
}

function sayScan(out: Printer, found: string): Safe {
  return out.text`${out.yellow(`scan: ${found}`)} ${out.dim("(advice: look yourself)")}`;
}

/** What is to be looked at first comes first. */
function weightOf({ prepared: { findings } }: Coming): number {
  const weights = findings.map(({ weight }) => WEIGHTS.indexOf(weight));
  return Math.min(WEIGHTS.length, ...weights);
}

function headline(out: Printer, name: string, says: string): void {
  printHanging(out, out.text`${out.bold(name)}  `, [says], { indent: 2, start: name.length + 2, paint: out.dim });
}

const MOST_LISTED = 20;

function row(out: Printer, label: string, values: readonly string[], most = MOST_LISTED): void {
  if (values.length === 0) return;
  const indent = 4 + (/^ */.exec(label)?.[0].length ?? 0);
  printHanging(out, `  ${label}: `, [someOf(values, most)], { indent, start: label.length + 4 });
}

function sayFiles(coming: readonly Coming[]): string {
  const files = coming.flatMap(({ put }) => Object.values(put.entry.files));
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  return `${count(files.length, "file")}, ${grouped(bytes)} bytes`;
}

/** Who signed it, and which other skills of its name there are. */
function showNotes(out: Printer, one: Coming, { signatures, found, place }: Showing, who = ""): void {
  const { name, is } = one;
  const signature = signatures.get(name);
  if (one.is === "update" && one.difference.before.has(SIGNATURE_FILE) && signature?.state === "none")
    out.line`  ${out.yellow(`! ${who}it was signed before, and is not any more`)}`;
  if (signature && signature.state !== "none") {
    const paint = signature.state === "valid" ? out.green : out.yellow;
    out.line`  ${paint(`${who}it ${saySignature(signature)}`)}`;
  }
  const alike = is === "new" ? lookAlikes(name, found.catalog.names()) : [];
  if (alike.length > 0) {
    const note = `${who}its name looks like ${sayNames(alike)}, which you have already: make sure that it is the one you want`;
    printHanging(out, out.text`  ${out.yellow("!")} `, [note], { indent: 4 });
  }
  const copies = is === "new" ? sayOtherCopies(name, place, found) : undefined;
  if (copies !== undefined) printHanging(out, out.text`  ${out.yellow("!")} `, [`${who}${copies}`], { indent: 4 });
}

/** `known`: how many there were before, and were agreed to. */
function showFindings(out: Printer, findings: readonly ScanFinding[], known = 0): void {
  if (findings.length === 0) return;
  const rest = known > 0 ? ` new, and ${known} as before` : "";
  out.line`  ${sayScan(out, `${sayWeights(findings)}${rest}`)}`;
  listFindings(out, findings, MOST_FINDINGS);
}
