import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { openOriginals } from "../../host/lock/originals.ts";
import { placeOf, type Trust } from "../../host/trust.ts";
import { quoted } from "../../policy/trust.ts";
import { storeFolder } from "../../sandbox/places.ts";
import { storeSkill } from "../../sandbox/store.ts";
import { scanSkill } from "../../scan/scan.ts";
import { SkillError } from "../../shared/error.ts";
import { isInside } from "../../shared/inside.ts";
import { count, oneLine } from "../../shared/text.ts";
import { type Skill, withBody } from "../../skill/skill.ts";
import { copySkill } from "../../source/digest.ts";
import { displayPath } from "../../source/locations.ts";
import { codeWaiting } from "../code-waiting.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, folderSaid, requireConfiguration, withCapabilities } from "../found.ts";
import { type Io, isAgreed, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { listFindings, sayWeights } from "../supply/words.ts";
import { notAgreed } from "../told.ts";
import { type Subject, showSubject } from "./trust-show.ts";

interface TrustOptions {
  list?: boolean;
  revoke?: boolean;
  yes?: boolean;
  secrets?: string;
  text?: boolean;
  mine?: string | true;
  show?: boolean;
}

/** More skills than these are shown as a table first. */
const FEW = 2;

/** Shows skills that are not the user's own, and writes down that they may be followed and their code run. */
export async function trust({ io, options, args }: Context<TrustOptions>): Promise<number> {
  const [given] = args;
  const found = await discoverFor(io, options, { remote: "soon" });
  const { around } = found;
  requireConfiguration(io, found);
  const { secrets } = options;
  if (secrets !== undefined)
    return (await import("./trust-secrets.ts")).trustSecrets(io, await withCapabilities(found), {
      ...options,
      secrets,
    });
  if (options.text && !options.list)
    return (await import("./trust-text.ts")).trustText(io, found, { ...options, folder: given });
  const { mine } = options;
  if (mine !== undefined && !options.list) {
    const folder = mine === true ? given : mine;
    return (await import("./trust-mine.ts")).trustMine(io, found, { ...options, folder: folder ?? around.workspace });
  }
  if (options.list) return listTrusted(io, found, options.json ?? false);
  if (options.revoke) return revoke(io, found, given, options.json ?? false);
  const skills = new Set((args.length > 0 ? args : [undefined]).flatMap((wanted) => meant(found, wanted, io.cwd)));
  const subjects = await subjectsOf([...skills], found);
  const pending = subjects.filter(
    ({ skill, before, changes }) =>
      before === undefined || changes.length > 0 || found.trust.standingOf(skill) === "untrusted",
  );
  const waiting = await approveSubjects(io, found, { subjects, pending, options });
  if (pending.length > 0 && waiting.length === 0) throw notAgreed(io, "not trusted", "look at it, then say --yes");
  grant(found, waiting);
  if (options.json) {
    printJson(io.stdout, {
      trusted: subjects.map(({ skill, copy, changes }) => ({
        name: skill.name,
        place: placeOf(skill),
        digest: copy.digest,
        changes,
      })),
    });
  } else {
    const out = printer(io.stdout, io.env);
    if (pending.length === 0) out.line`${out.green("✓")} trusted already, and unchanged since`;
    else {
      const places = waiting.map(({ skill }) =>
        quoted(skill.origin.remote ? skill.name : displayPath(placeOf(skill), around)),
      );
      out.line`${out.green("✓")} trusted: ${waiting.map(({ skill }) => skill.name).join(", ")}`;
      const isAdded = waiting.every(({ skill }) => skill.origin.scope === "installed");
      const back = isAdded
        ? `skillet disable ${waiting.length === 1 ? quoted(waiting[0]?.skill.name ?? "") : "NAME"}`
        : `skillet trust --revoke ${places.length === 1 ? places[0] : "PATH"}`;
      out.line`  a change asks again; to take it back: ${out.cyan(back)}`;
    }
  }
  return EXIT.fine;
}

export interface Approving {
  subjects: readonly Subject[];
  /** Those that are not trusted as they are now. */
  pending: readonly Subject[];
  options: Pick<Context<TrustOptions>["options"], "json" | "yes" | "show">;
  /** The first word of each question. Defaults to "Trust". */
  verb?: string;
}

/** Shows what is about to be trusted and asks: few skills in full, many as a table with one question per group. Returns those approved. */
export async function approveSubjects(
  io: Io,
  found: Discovered,
  { subjects, pending, options, verb = "Trust" }: Approving,
): Promise<readonly Subject[]> {
  const out = printer(options.json ? io.stderr : io.stdout, io.env);
  const isAsking = io.ask !== undefined && !options.yes;
  const isShown = !options.json || isAsking;
  if (options.show || pending.length <= FEW) {
    for (const one of isShown ? subjects : []) {
      showSubject(out, one, found);
      if (pending.includes(one)) showFindings(out, one);
    }
    return options.yes || pending.length === 0 || (await isAgreed(io, question(pending, verb))) ? pending : [];
  }
  const { groupForTrust, printTrustGroup } = await import("./trust-summary.ts");
  const approved: Subject[] = [];
  for (const group of groupForTrust(pending)) {
    const members = group.summaries.map((summary) => summary.subject);
    if (isShown) printTrustGroup(out, group);
    if (options.yes || (await isGroupApproved(io, out, members, { found, verb }))) approved.push(...members);
  }
  return approved;
}

const MOST_FINDINGS = 10;

/** What the scanner advises to look at first. */
function showFindings(out: Printer, { skill: { name, description, manifest }, copy: { files } }: Subject): void {
  const findings = scanSkill({ name, description, manifest, files }).filter(({ weight }) => weight !== "low");
  if (findings.length === 0) return;
  out.line`  ${out.yellow(`scan: ${sayWeights(findings)}`)} ${out.dim("(advice: look yourself)")}`;
  listFindings(out, findings, MOST_FINDINGS);
}

/** Asks about a group until the answer is yes or no. `show` and `show NAME` print everything that will be followed and run. */
async function isGroupApproved(
  io: Io,
  out: Printer,
  members: readonly Subject[],
  { found, verb }: { found: Discovered; verb: string },
): Promise<boolean> {
  for (let left = MOST_ANSWERS; io.ask && left > 0; left--) {
    const answer = ((await io.ask(`${question(members, verb)} [y/N/show NAME] `)) ?? "").trim();
    const [, isShow, name] = /^(s(?:how)?)(?:\s+(\S+))?$/i.exec(answer) ?? [];
    if (isShow === undefined) return /^y(?:es)?$/i.test(answer);
    const shown = members.filter(({ skill }) => name === undefined || skill.name === name);
    for (const one of shown) showSubject(out, one, found);
    if (shown.length === 0) out.line`${out.red("✗")} "${oneLine(name ?? "", 64)}" is none of them`;
  }
  return false;
}

const MOST_ANSWERS = 100;

/** On a terminal: shows what is about to be trusted, and asks. False where nobody can be asked. */
export async function askForTrust(
  io: Io,
  found: Discovered,
  skills: readonly Skill[],
  asked?: string,
): Promise<boolean> {
  if (!io.ask) return false;
  const subjects = await subjectsOf(skills, found);
  for (const one of subjects) showSubject(printer(io.stderr, io.env), one, found);
  if (!(await isAgreed(io, asked ?? question(subjects)))) return false;
  grant(found, subjects);
  return true;
}

/** Fetches what is to be shown of remote skills: trust is given to what the user could read. */
async function subjectsOf(skills: readonly Skill[], found: Discovered): Promise<Subject[]> {
  const subjects: Subject[] = [];
  for (const skill of skills) {
    await skill.fetch?.("all");
    subjects.push(subject(skill, found));
  }
  return subjects;
}

function subject(found: Skill, { trust: given, home }: Discovered): Subject {
  const skill = withBody(found); // What is shown is what is trusted, also when its file changes while somebody reads.
  const copy = copySkill(skill);
  const state = given.lockStateOf(skill);
  if (state.is === "unknown") throw state.problem;
  if (state.is === "changed") {
    const { entry, drift, there } = state;
    return { skill, copy, before: entry, changes: drift, there, was: openOriginals(home).read(entry.files) };
  }
  const isAdded = state.is === "as-locked" && given.standingOf(skill) === "trusted";
  const place = placeOf(skill);
  const before =
    new Map(given.list()).get(place) ??
    (isAdded ? state.entry : undefined) ??
    (given.own.holds(place) ? given.own.recordOf(place) : undefined);
  return { skill, copy, before, changes: before ? given.changesOf(skill, copy) : [] };
}

function grant({ trust: given, home }: Discovered, subjects: readonly Subject[]): void {
  if (subjects.length === 0) return;
  given.grant(subjects);
  // Kept, so that what changes later can be shown line by line.
  for (const { copy } of subjects) storeSkill(copy, storeFolder(home));
}

function question(subjects: readonly Subject[], verb = "Trust"): string {
  if (subjects.some(({ skill }) => skill.manifest.toolsets.length > 0)) {
    const whose = subjects.length === 1 ? "this skill, and its" : `these ${subjects.length} skills, and their`;
    return `${verb} ${whose} tools to run as you, without a sandbox?`;
  }
  return subjects.length === 1
    ? `${verb} this skill to be followed, and its code to run in a sandbox?`
    : `${verb} these ${subjects.length} skills to be followed, and their code to run in a sandbox?`;
}

function meant(found: Discovered, wanted: string | undefined, cwd: string): Skill[] {
  const { catalog, trust: given, around } = found;
  const named = wanted === undefined ? undefined : catalog.find(wanted);
  const asking = [...catalog.skills, ...catalog.shadowed].filter((skill) => given.standingOf(skill) !== "own");
  if (named) {
    if (asking.includes(named)) return [named];
    throw new SkillError("trust-own", {
      message: `Skill '${named.name}' is your own (from ${named.origin.source}): it needs no trust`,
      fix: `\`skillet run ${named.name}\` uses it`,
    });
  }
  if (wanted?.includes("*") && !existsSync(resolve(cwd, wanted))) {
    const isMeant = namePattern(wanted);
    const matching = asking.filter(({ name }) => isMeant.test(name));
    if (matching.length > 0) return matching;
  }
  const path = resolve(cwd, wanted ?? around.workspace);
  const root = existsSync(path) ? realpathSync(path) : path;
  // A file means the skill that it is part of. The folder of a skill inside another one does not mean that other one.
  const isSkill = asking.some((skill) => placeOf(skill) === root);
  const inside = asking.filter(
    (skill) => isInside(root, placeOf(skill)) || (!isSkill && isInside(placeOf(skill), root)),
  );
  if (inside.length > 0) return inside;
  const waiting = wanted === undefined ? codeWaiting(found) : undefined;
  const names = asking.slice(0, 10).map(({ name }) => name);
  const others =
    names.length === 0 ? "`skillet list` shows where each skill comes from" : `there are: ${names.join(", ")}`;
  throw new SkillError("not-found", {
    message: `There is no skill in ${folderSaid(path, around)} that waits for trust`,
    fix: waiting
      ? `the code of ${count(waiting.skills, "skill")} in other folders does; run: ${waiting.command}`
      : others,
  });
}

/** `pdf*`: a star stands for any characters of a name. */
function namePattern(pattern: string): RegExp {
  const parts = pattern.split(/\*+/).map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`);
}

function listTrusted(io: Io, { trust: given, catalog, around }: Discovered, asJson: boolean): number {
  const skills = new Map(
    [...catalog.skills, ...catalog.shadowed]
      .filter(({ origin }) => origin.file !== undefined || origin.remote !== undefined)
      .map((skill) => [placeOf(skill), skill]),
  );
  const rows = given.list().map(([path, { name, digest, at }]) => {
    return { name, place: path, digest, at, state: stateOf(path, skills.get(path), given) };
  });
  const texts = given.text.list().map(([folder, at]) => ({ folder, at }));
  const mine = given.own.list().map(([folder, { at }]) => ({ folder, at }));
  if (asJson) printJson(io.stdout, { trusted: rows, text: texts, mine });
  const out = printer(io.stdout, io.env);
  if (!asJson) {
    for (const { name, place, at, state } of rows) {
      const mark = state === "unchanged" ? out.green("✓") : out.yellow("!");
      out.line`${mark} ${out.bold(name)}  ${displayPath(place, around)}  ${out.dim(`trusted ${at.slice(0, 10)}, ${state}`)}`;
    }
    for (const { folder, at } of texts)
      out.line`${out.green("✓")} ${displayPath(folder, around)}  ${out.dim(`text approved ${at.slice(0, 10)}`)}`;
    for (const { folder, at } of mine)
      out.line`${out.green("✓")} ${displayPath(folder, around)}  ${out.dim(`yours since ${at.slice(0, 10)}: edits keep the trust`)}`;
    if (rows.length + texts.length + mine.length === 0)
      printer(io.stderr, io.env).line`${given.problem() ?? "nothing has been trusted yet: `skillet trust PATH` does"}`;
  }
  return EXIT.fine;
}

function stateOf(path: string, skill: Skill | undefined, given: Trust): string {
  if (path.startsWith("mcp:")) {
    if (!skill) return "not listed by its server";
    return given.standingOf(skill) === "trusted" ? "unchanged" : "changed";
  }
  if (!existsSync(path)) return "gone";
  if (!skill) return "not looked at: not found from here";
  try {
    return given.changesOf(skill, copySkill(skill)).length > 0 ? "changed" : "unchanged";
  } catch (error) {
    return `unreadable: ${error instanceof Error ? error.message : error}`;
  }
}

function revoke(
  io: Io,
  { trust: given, around, catalog }: Discovered,
  wanted: string | undefined,
  asJson: boolean,
): number {
  const path = resolve(io.cwd, wanted ?? around.workspace);
  const root = existsSync(path) ? realpathSync(path) : path;
  const places = given.list().flatMap(([place, { name }]) => (name === wanted || isInside(root, place) ? [place] : []));
  const added = wanted === undefined ? undefined : catalog.find(wanted);
  if (places.length === 0 && added?.origin.scope === "installed") {
    throw new SkillError("trust-added", {
      message: `Skill '${added.name}' was agreed to when it was added`,
      fix: `to switch it off: skillet disable ${quoted(added.name)}; to take it away: skillet remove ${quoted(added.name)}`,
    });
  }
  if (places.length === 0) {
    throw new SkillError("not-found", {
      message: `Nothing in ${folderSaid(path, around)} has been trusted`,
      fix: "`skillet trust --list` shows what has been",
    });
  }
  given.revoke(places);
  if (asJson) printJson(io.stdout, { revoked: places });
  else {
    const out = printer(io.stdout, io.env);
    for (const place of places) out.line`${out.green("✓")} no longer trusted: ${displayPath(place, around)}`;
  }
  return EXIT.fine;
}
