import { isUtf8 } from "node:buffer";
import { join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import type { LockedFiles } from "../../host/lock/format.ts";
import { type Change, coverage, placeOf, type TrustedSkill } from "../../host/trust.ts";
import { commandsIn } from "../../model/commands.ts";
import { givenNames, isGiven } from "../../policy/secrets.ts";
import { quoted } from "../../policy/trust.ts";
import { storeFolder } from "../../sandbox/places.ts";
import { diffLines } from "../../shared/diff.ts";
import { readRegularFile } from "../../shared/regular-file.ts";
import { count } from "../../shared/text.ts";
import { declaredVariables } from "../../skill/needs.ts";
import { interpreterOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import type { CopiedFile, SkillCopy } from "../../source/digest.ts";
import { displayPath } from "../../source/locations.ts";
import type { Printer } from "../io.ts";
import { printDiff, printHanging } from "../wrap.ts";

/** One skill that is to be trusted: what it is now, and what it was when it was trusted before. */
export interface Subject {
  skill: Skill;
  copy: SkillCopy;
  before: Pick<TrustedSkill, "digest"> | undefined;
  changes: readonly Change[];
  /** All that its folder holds, for one that was added: `changes` are over that. */
  there?: LockedFiles;
  /** Its files as they were when it was added, for one that was. */
  was?: ReadonlyMap<string, CopiedFile> | undefined;
}

/** What will be followed and run: all of it the first time, then what changed. */
export function showSubject(out: Printer, subject: Subject, found: Discovered): void {
  const { skill, copy, before, changes } = subject;
  out.line`${out.bold(skill.name)}  ${displayPath(placeOf(skill), found.around)} ${out.dim(`from ${skill.origin.source}`)}`;
  for (const [what, values] of askedBy(skill, found)) if (values.length > 0) out.line`  ${what}: ${values.join(", ")}`;
  for (const said of sayValues(skill, found)) printHanging(out, out.text`  ${out.yellow("!")} `, [said], { indent: 4 });
  if (skill.manifest.toolsets.length > 0) out.line`  ${out.yellow("! its tools run as you, without a sandbox")}`;
  if (!before) showInstructions(out, skill);
  const kinds = new Map(changes.map(({ path, what }) => [path, what]));
  if (!before || kinds.has("SKILL.md")) showCommands(out, skill);
  const isCovered = coverage(skill, copy.files);
  for (const [path, file] of copy.files) {
    const { bytes } = file;
    const kind = before ? kinds.get(path) : isCovered(path, file) ? "added" : undefined;
    if (path === "SKILL.md" && kind === undefined) continue;
    const mode = kind === "mode" ? ` ${subject.there?.[path]?.mode ?? ""}` : "";
    out.line`  ${path}  ${out.dim(sizeOf(file))}${kind && before ? out.yellow(` ${kind}${mode}`) : ""}`;
    // What was prose before was not shown then.
    const was = before && kind === "changed" ? bytesBefore(path, subject, found) : new Uint8Array();
    if (kind !== undefined && kind !== "mode")
      showDifference(out, was, bytes, { path, rest: `skillet show ${skill.name} ${path}` });
  }
  // What no run is given, such as node_modules, is agreed to as well.
  for (const { path, what } of changes) if (!copy.files.has(path)) out.line`  ${path}  ${out.yellow(what)}`;
}

/** Whether the configuration has something for the name of a skill, and which copy that is for. Trust alone gives it to none. */
function sayValues(skill: Skill, found: Discovered): string[] {
  if (!isGiven(skill, found)) return [];
  const owner = found.grants.ownerOf(skill.name);
  if (owner && found.grants.isOwner(skill, owner)) return [];
  const has = `config.toml has ${givenNames(skill, found)} for this name`;
  const give = `to give it to this one: skillet trust --secrets ${quoted(skill.name)}`;
  if (!owner) return [`${has}, given to no copy yet; ${give}`];
  const copy = owner.place === "" ? owner.source : displayPath(owner.place, found.around);
  return [`${has}, given to the copy from ${copy}, and not to this one; ${give}`];
}

/** A file as it was when it was agreed to; empty when that is not known any more. */
function bytesBefore(path: string, { before, was }: Subject, found: Discovered): Uint8Array {
  const kept = was?.get(path)?.bytes;
  if (kept) return kept;
  const file = join(storeFolder(found.home), before?.digest.slice(7) ?? "", path);
  try {
    return readRegularFile(file, { refusesLinks: true });
  } catch {
    return new Uint8Array(); // It was never put there, or was swept away.
  }
}

function askedBy(skill: Skill, { settings }: Discovered): [string, readonly string[]][] {
  const { manifest, name } = skill;
  const own = settings.skills.get(name);
  const access = own?.workspace ?? settings.sandbox.workspace ?? "none";
  return [
    ["variables", declaredVariables(skill)],
    ["packages", manifest.packages],
    ["capabilities", manifest.capabilities],
    ["toolsets", manifest.toolsets],
    ["tools without asking", manifest.tools.preapproved],
    ["workspace", access === "none" ? [] : [access]],
    ["network", [...settings.sandbox.network, ...(own?.network ?? [])]],
  ];
}

const MOST_INSTRUCTIONS = 60;
const MOST_COMMANDS = 40;
/** Of one file. */
const MOST_LINES = 80;
/** Without arguments that placeholder would be filled with nothing, and a command shown that nobody wrote. */
const UNFILLED = "\ue000ARGUMENTS";

function showInstructions(out: Printer, skill: Skill, most = MOST_INSTRUCTIONS): void {
  const lines = linesOf(skill.body());
  out.line`  instructions  ${out.dim(count(lines.length, "line"))}`;
  for (const line of lines.slice(0, most)) out.line`    ${line}`;
  const more = lines.length - most;
  if (more > 0) out.line`    ${out.dim(`… and ${count(more, "more line")}: skillet show ${skill.name} --body`)}`;
}

/** The commands that the instructions spell out, wherever in them: these run whichever model follows. */
function showCommands(out: Printer, skill: Skill, most = MOST_COMMANDS): void {
  const lines = commandsIn(skill.body().replaceAll("$ARGUMENTS", UNFILLED), {})
    .flatMap(linesOf)
    .map((line) => line.replaceAll(UNFILLED, "$ARGUMENTS"));
  if (lines.length === 0) return;
  out.line`  runs:`;
  for (const line of lines.slice(0, most)) out.line`    ${out.yellow(`$ ${line}`)}`;
  const more = lines.length - most;
  if (more > 0) out.line`    ${out.dim(`… and ${count(more, "more line")}: skillet show ${skill.name} --body`)}`;
}

function linesOf(text: string): string[] {
  return text.trim() === "" ? [] : text.replace(/^\s*\n|\s+$/g, "").split(/\r?\n/);
}

/** All that will be followed and run of one that is nowhere yet: nothing of it is left out, since nothing else shows it. */
export function showContents(out: Printer, skill: Skill, files: ReadonlyMap<string, CopiedFile>): void {
  showInstructions(out, skill, Number.POSITIVE_INFINITY);
  showCommands(out, skill, Number.POSITIVE_INFINITY);
  const isCovered = coverage(skill, files);
  for (const [path, file] of files) {
    if (path === "SKILL.md") continue;
    out.line`  ${path}  ${out.dim(sizeOf(file))}`;
    if (!isCovered(path, file)) continue;
    showDifference(out, new Uint8Array(), file.bytes, { path, most: Number.POSITIVE_INFINITY, rest: "" });
  }
}

interface Shown {
  path: string;
  /** How many lines at most. */
  most?: number;
  /** What shows the others. */
  rest: string;
}

/** The lines that are new, or changed since it was agreed to. Contract: how many there are. */
export function showDifference(out: Printer, before: Uint8Array, now: Uint8Array, shown: Shown): number {
  const { path, most = MOST_LINES, rest } = shown;
  if (!isText(path, now)) {
    out.line`    ${out.yellow(`not text, ${count(now.length, "byte")}: not shown`)}`;
    return 1;
  }
  // Both alike: two encodings of one word are a change. One byte for one character shows whatever else there is.
  const encoding = isUtf8(before) && isUtf8(now) ? "utf8" : "latin1";
  const textOf = (bytes: Uint8Array) => (isText(path, bytes) ? Buffer.from(bytes).toString(encoding) : "");
  const lines = diffLines(textOf(before), textOf(now));
  printDiff(out, lines, { most, rest });
  return lines.length;
}

function sizeOf({ bytes, executable }: CopiedFile): string {
  return `${count(bytes.length, "byte")}${executable ? ", executable" : ""}`;
}

/** What an interpreter would run is, whatever bytes are strewn in. */
function isText(path: string, bytes: Uint8Array): boolean {
  return isUtf8(bytes) || !bytes.includes(0) || interpreterOf(path, bytes)?.program !== undefined;
}
