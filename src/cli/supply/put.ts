import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import type { LockedSkills } from "../../host/lock/format.ts";
import { openSigners } from "../../host/signers.ts";
import { keyOf } from "../../policy/table.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { count } from "../../shared/text.ts";
import { declaredVariables } from "../../skill/needs.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import type { Addition } from "../../supply/add.ts";
import { type Coming, isComing, trustPlaced } from "../../supply/add-skills.ts";
import { change } from "../../supply/put.ts";
import { type Tree, writeTree } from "../../supply/read-tree.ts";
import { checkSignature, requireSignatures, type SignatureState } from "../../supply/signature.ts";
import { lockedIn, needsTrust, type SkillsPlace } from "../../supply/skills-place.ts";
import { EXIT } from "../exit.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions } from "../program.ts";
import { notAgreed } from "../told.ts";
import { printHanging } from "../wrap.ts";
import { answerOf } from "./fetch.ts";
import { additionAsJson } from "./json.ts";
import { showComing, showWhole } from "./show.ts";
import { trustedOnceAgreed } from "./trust.ts";
import { questionOf, sayNames, sayProblems, showConflicts, someOf } from "./words.ts";

export interface PutOptions extends CommonOptions {
  project?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  show?: boolean;
  requireSignature?: boolean;
}

interface Putting {
  io: Io;
  options: PutOptions;
  found: Discovered;
  place: SkillsPlace;
  /** A folder of ours. */
  work: string;
  verb: "Add" | "Update";
  notes?: readonly string[];
  /** Takes what `--json` prints, where several places are reported together. */
  report?(facts: PutReport): void;
  /** What could not be fetched, or cannot be put there. */
  problems?: readonly { name: string; error: SkillError }[];
}

export interface PutReport {
  folder: string;
  isDryRun: boolean;
  skills: readonly object[];
  problems: readonly object[];
}

/** Shows what is to come, asks, and puts it in its place: all of it or nothing. */
export async function agreeAndPut(additions: readonly Addition[], putting: Putting): Promise<number> {
  const { io, options, found, place, problems = [] } = putting;
  const out = printer(options.json ? io.stderr : io.stdout, io.env);
  const signers = openSigners(found.home);
  const coming = requireSignatures(additions.filter(isComing), { signers, all: options.requireSignature ?? false });
  const conflicts = additions.filter((one) => one.is === "conflict");
  const known = {
    locked: lockedIn(place),
    signatures: new Map(coming.map((one) => [one.name, signatureOf(one, found)])),
  };
  const report = () => {
    if (!options.json) return;
    const skills = additions.map((one) => additionAsJson(one, known));
    const isDryRun = options.dryRun ?? false;
    const facts: PutReport = { folder: place.folder, isDryRun, skills, problems: problems.map(asJson) };
    if (putting.report) putting.report(facts);
    else printJson(io.stdout, facts);
  };
  sayProblems(printer(io.stderr, io.env), problems);
  saySame(out, additions);
  for (const { name, conflicts: all } of conflicts) {
    out.line`${out.red("✗")} ${out.bold(name)} was left as it is:`;
    showConflicts(out, all);
  }
  const isAsking = io.ask !== undefined && !options.yes && !options.dryRun;
  if (!options.json || isAsking) showComing(out, coming, { found, place, ...known, isWhole: options.show ?? false });
  for (const note of putting.notes ?? [])
    printHanging(out, out.text`${out.dim("·")} `, [note], { indent: 2, paint: out.dim });
  if (conflicts.length > 0) sayConflicts(io, conflicts, options);
  const code = conflicts.length + problems.length > 0 ? EXIT.findings : EXIT.fine;
  if (coming.length === 0 || options.dryRun) {
    if (coming.length > 0) sayDryRun(out, coming, putting);
    report();
    return code;
  }
  if (options.yes) checkAgreed(coming, known.locked);
  if (!options.yes && !(await isAgreed(out, coming, putting)))
    throw notAgreed(io, `nothing was ${DONE[putting.verb]}`, "look at it (--dry-run --show), then say --yes");
  keepReplaced(out, coming, found);
  const trusted = trustedOnceAgreed(coming, putting);
  change({ place, put: coming.map(({ put }) => put), skilletHome: found.home });
  // What was agreed to for another that stood there is not agreed to for this one.
  for (const { name } of coming) found.approvals.forget(name, join(place.folder, name));
  if (needsTrust(place))
    trustPlaced(
      coming.filter(({ name }) => trusted.has(name)),
      place,
      found.trust,
    );
  report();
  if (!options.json) sayDone(out, coming, { ...putting, trusted });
  return code;
}

function asJson({ name, error: { code, message, fix } }: { name: string; error: SkillError }): object {
  return { name, code, message, fix };
}

function saySame(out: Printer, additions: readonly Addition[]): void {
  const same = additions.filter((one) => one.is === "same");
  const asLocked = same.filter(({ isChanged }) => !isChanged).map(({ name }) => name);
  if (asLocked.length > 0)
    out.line`${out.dim("=")} ${sayNames(asLocked)} ${asLocked.length === 1 ? "is" : "are"} up to date`;
  for (const { name } of same.filter(({ isChanged }) => isChanged))
    out.line`${out.yellow("!")} ${name} is up to date with its source, and changed here: skillet trust ${quoted(name)}`;
}

/** Nobody agrees to what they had no way to look at: `show` shows all of it, and asks again. */
async function isAgreed(out: Printer, coming: readonly Coming[], { io, verb, options }: Putting): Promise<boolean> {
  if (!io.ask) return false;
  for (;;) {
    const answer = await answerOf(io, `${questionOf(verb, coming)} [y/N${options.show ? "" : "/show"}] `);
    if (!/^s(?:how)?$/i.test(answer)) return /^y(?:es)?$/i.test(answer);
    showWhole(out, coming);
  }
}

/** Who says yes beforehand agrees to what a source has. What somebody changed here is for a person to look at. */
function checkAgreed(coming: readonly Coming[], locked: LockedSkills): void {
  const changed = coming.filter(({ name, put }) => put.before !== undefined && put.before !== locked[name]?.digest);
  if (changed.length === 0) return;
  const names = changed.map(({ name }) => name);
  throw new SkillError("changed", {
    message: `${sayNames(names)} changed here since ${names.length === 1 ? "it was" : "they were"} agreed to, and nothing was updated`,
    fix: `look at the change first: skillet trust ${names.length === 1 ? quoted(names[0] ?? "") : "NAME"}; or leave out --yes`,
  });
}

/** What the user had, where theirs wins over it, is put aside. */
function keepReplaced(out: Printer, coming: readonly Coming[], { home, around }: Discovered): void {
  for (const one of coming) {
    if (one.is !== "update" || !one.replaced) continue;
    const kept = join(home, "replaced", `${one.name}-${(one.put.before ?? "").slice(7, 19)}`);
    keepTree(kept, one.replaced);
    out.line`  ${out.dim(`what you had is kept in ${displayPath(kept, around)}`)}`;
  }
}

/** All of it or nothing. What is kept there already is the same: its name says what is in it. */
function keepTree(folder: string, tree: Tree): void {
  if (existsSync(folder)) return;
  const draft = `${folder}.${crypto.randomUUID()}`;
  writeTree(draft, tree);
  renameSync(draft, folder);
}

function signatureOf({ put, name }: Coming, { home }: Discovered): SignatureState {
  return checkSignature({ folder: put.folder, name, files: put.entry.files, signers: openSigners(home) });
}

function sayConflicts(io: Io, conflicts: readonly { name: string }[], { workspace, project }: PutOptions): void {
  const error = printer(io.stderr, io.env);
  const names = conflicts.map(({ name }) => quoted(name)).join(" ");
  const command = `skillet update ${names}${project ? " --project" : ""} --conflicts`;
  error.line`  to keep your text there: ${fromHere(`${command} mine`, workspace)}`;
  error.line`  to take theirs: ${fromHere(`${command} theirs`, workspace)}`;
}

function sayDryRun(out: Printer, coming: readonly Coming[], { verb }: Putting): void {
  out.line`${out.dim(`a dry run: ${count(coming.length, "skill")} would be ${DONE[verb]}, and nothing was`)}`;
}

const DONE: Record<Putting["verb"], string> = { Add: "added", Update: "updated" };

function sayDone(out: Printer, coming: readonly Coming[], done: Putting & { trusted: ReadonlySet<string> }): void {
  const { place, verb, found, options, trusted } = done;
  const names = coming.map(({ name }) => name);
  out.line`${out.green("✓")} ${DONE[verb]}: ${sayNames(names)} ${out.dim(`in ${place.shown}`)}`;
  const needs = coming
    .map(({ name, skill }) => ({ name, steps: nextSteps(skill, found) }))
    .filter(({ steps }) => steps.length > 0);
  const say = (line: string) => printHanging(out, "  ", [fromHere(line, options.workspace)], { indent: 4, start: 2 });
  if (needs.length <= MOST_STEPS)
    for (const { name, steps } of needs)
      for (const step of steps) say(coming.length === 1 ? `it ${step}` : `${name} ${step}`);
  else
    say(
      `${needs.length} of them need values or capabilities first (${someOf(needs.map(({ name }) => name))}): skillet show NAME`,
    );
  const untrusted = names.filter((name) => !trusted.has(name));
  if (untrusted.length > 0)
    say(
      `you have not trusted ${sayNames(untrusted)} yet: skillet trust ${untrusted.length === 1 ? quoted(untrusted[0] ?? "") : "NAME"}`,
    );
  else if (needs.length === 0 && verb === "Add")
    say(
      names.length === 1
        ? `to see it: skillet show ${quoted(names[0] ?? "")}; for other clients: skillet connect`
        : "to see them: skillet list --installed; for other clients: skillet connect",
    );
}

const MOST_STEPS = 5;

/** Values and capabilities are never agreed to along with a skill. */
function nextSteps(skill: Skill, { settings }: Discovered): string[] {
  const own = settings.skills.get(skill.name);
  const granted = new Set(own?.capabilities ?? []);
  const capabilities = skill.manifest.capabilities.filter((id) => !granted.has(id));
  const variables = declaredVariables(skill).filter((key) => !own?.variables.get(key));
  const grant = `skillet capability grant ${quoted(skill.name)} ${capabilities.join(" ")}`;
  return [
    ...variables.slice(0, 3).map((key) => `needs ${key}: skillet config set ${keyOf(skill, key)}`),
    ...(variables.length > 3 ? [`needs ${variables.length - 3} more: skillet show ${quoted(skill.name)}`] : []),
    ...(capabilities.length > 0 ? [`asks for ${capabilities.join(", ")}: ${grant}`] : []),
  ];
}
