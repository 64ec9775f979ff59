import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { Option } from "commander";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import { getSkillStoreFolder, storeSkillCopy } from "../../sandbox/sandbox-folders.ts";
import { scanSkill } from "../../scan/scan.ts";
import { type Skill, withBody } from "../../skill/skill.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { createBlobCache } from "../../store/lock-approval.ts";
import { getSkillLocation, type TrustStore } from "../../store/trust.ts";
import { isInside } from "../../util/safe-path.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  createNotApprovedError,
  EXIT,
  formatExamples,
} from "../command-definition.ts";
import { attachCapabilities, discoverForCommand, formatSkillsFolder, requireConfiguration } from "../command-host.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printJson } from "../output.ts";
import {
  findUntrustedCode,
  formatFindingCounts,
  printFindings,
  printTrustSubject,
  type TrustSubject,
} from "./trust-review.ts";

/** `skillet trust`. */
export const trustCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("let code run that came with a workspace or that another program put there")
      .argument(
        "[path...]",
        "workspaces, skills' folders, or skills by name or pattern (pdf*); defaults to the workspace",
      )
      .addOption(new Option("-l, --list", "show what has been trusted").conflicts("revoke"))
      .option("--show", "show everything that will be followed and run, also of many skills")
      .option("--revoke", "take it back")
      .addOption(
        new Option(
          "--text",
          "let models read the skills of this workspace; their code still waits for trust in each skill",
        ).conflicts(["secrets"]),
      )
      .addOption(
        new Option(
          "--mine [folder]",
          "you write the skills in this folder: your edits keep the trust; not proof against other programs that run as you",
        ).conflicts(["secrets", "text"]),
      )
      .addOption(
        new Option(
          "--secrets <skill>",
          "give a skill's values to the copy found now, and no longer to another",
        ).conflicts(["list", "revoke"]),
      )
      .option("-y, --yes", "trust it without asking; needed where there is no terminal")
      .addHelpText(
        "after",
        "\nScripts and commands of a skill run in a sandbox.\nIts tools (toolsets) run as you, without a sandbox.",
      )
      .addHelpText(
        "after",
        formatExamples(
          "skillet trust",
          "skillet trust skills/deploy",
          "skillet trust ~/.claude/skills",
          "skillet trust --text .",
          "skillet trust --mine ~/code/skills",
          "skillet trust --list",
          "skillet trust --revoke skills/deploy",
          "skillet trust --secrets research",
        ),
      ),
  run: trustSkills,
};

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
const MAX_SHOWN_SINGLY = 2;

/** Shows skills that are not the user's own, and writes down that they may be followed and their code run. */
async function trustSkills({ io, options, args }: CommandContext<TrustOptions>): Promise<number> {
  const [given] = args;
  const found = await discoverForCommand(io, options, { remote: "soon" });
  const { around } = found;
  requireConfiguration(io, found);
  const { secrets } = options;
  if (secrets !== undefined)
    return (await import("./trust-options.ts")).grantSecrets(io, await attachCapabilities(found), {
      ...options,
      secrets,
    });
  if (options.text && !options.list)
    return (await import("./trust-options.ts")).trustWorkspaceText(io, found, { ...options, folder: given });
  const { mine } = options;
  if (mine !== undefined && !options.list) {
    const folder = mine === true ? given : mine;
    return (await import("./trust-options.ts")).trustOwnFolder(io, found, {
      ...options,
      folder: folder ?? around.workspace,
    });
  }
  if (options.list) return printTrusted(io, found, options.json ?? false);
  if (options.revoke) return revokeTrust(io, found, given, options.json ?? false);
  const skills = new Set(
    (args.length > 0 ? args : [undefined]).flatMap((wanted) => findMeantSkills(found, wanted, io.cwd)),
  );
  const subjects = await loadTrustSubjects([...skills], found);
  const pending = subjects.filter(
    ({ skill, before, changes }) =>
      before === undefined || changes.length > 0 || found.trust.standingOf(skill) === "untrusted",
  );
  const waiting = await approveSubjects(io, found, { subjects, pending, options });
  if (pending.length > 0 && waiting.length === 0)
    throw createNotApprovedError(io, "not trusted", "look at it, then say --yes");
  grantTrust(found, waiting);
  if (options.json) {
    printJson(io.stdout, {
      trusted: subjects.map(({ skill, copy, changes }) => ({
        name: skill.name,
        place: getSkillLocation(skill),
        digest: copy.digest,
        changes,
      })),
    });
  } else {
    const out = createPrinter(io.stdout, io.env);
    if (pending.length === 0) out.line`${out.green("✓")} trusted already, and unchanged since`;
    else {
      const places = waiting.map(({ skill }) =>
        quoteIfNeeded(skill.origin.remote ? skill.name : formatDisplayPath(getSkillLocation(skill), around)),
      );
      out.line`${out.green("✓")} trusted: ${waiting.map(({ skill }) => skill.name).join(", ")}`;
      const isAdded = waiting.every(({ skill }) => skill.origin.scope === "installed");
      const back = isAdded
        ? `skillet disable ${waiting.length === 1 ? quoteIfNeeded(waiting[0]?.skill.name ?? "") : "NAME"}`
        : `skillet trust --revoke ${places.length === 1 ? places[0] : "PATH"}`;
      out.line`  a change asks again; to take it back: ${out.cyan(back)}`;
    }
  }
  return EXIT.fine;
}

interface ApproveContext {
  subjects: readonly TrustSubject[];
  /** Those that are not trusted as they are now. */
  pending: readonly TrustSubject[];
  options: Pick<CommandContext<TrustOptions>["options"], "json" | "yes" | "show">;
  /** The first word of each question. Defaults to "Trust". */
  verb?: string;
}

/** Shows what is about to be trusted and asks: few skills in full, many as a table with one question per group. Returns those approved. */
export async function approveSubjects(
  io: CommandIo,
  found: DiscoverResult,
  { subjects, pending, options, verb = "Trust" }: ApproveContext,
): Promise<readonly TrustSubject[]> {
  const out = createPrinter(options.json ? io.stderr : io.stdout, io.env);
  const isAsking = io.ask !== undefined && !options.yes;
  const isShown = !options.json || isAsking;
  if (options.show || pending.length <= MAX_SHOWN_SINGLY) {
    for (const one of isShown ? subjects : []) {
      printTrustSubject(out, one, found);
      if (pending.includes(one)) printSubjectFindings(out, one);
    }
    return options.yes || pending.length === 0 || (await isConfirmed(io, formatTrustQuestion(pending, verb)))
      ? pending
      : [];
  }
  const { groupByRisk, printTrustGroup } = await import("./trust-review.ts");
  const approved: TrustSubject[] = [];
  for (const group of groupByRisk(pending)) {
    const members = group.summaries.map((summary) => summary.subject);
    if (isShown) printTrustGroup(out, group);
    if (options.yes || (await askForGroup(io, out, members, { found, verb }))) approved.push(...members);
  }
  return approved;
}

const MAX_FINDINGS = 10;

/** What the scanner advises to look at first. */
function printSubjectFindings(
  out: Printer,
  { skill: { name, description, manifest }, copy: { files } }: TrustSubject,
): void {
  const findings = scanSkill({ name, description, manifest, files }).filter(({ weight }) => weight !== "low");
  if (findings.length === 0) return;
  out.line`  ${out.yellow(`scan: ${formatFindingCounts(findings)}`)} ${out.dim("(advice: look yourself)")}`;
  printFindings(out, findings, MAX_FINDINGS);
}

/** Asks about a group until the answer is yes or no. `show` and `show NAME` print everything that will be followed and run. */
async function askForGroup(
  io: CommandIo,
  out: Printer,
  members: readonly TrustSubject[],
  { found, verb }: { found: DiscoverResult; verb: string },
): Promise<boolean> {
  for (let left = MAX_ANSWERS; io.ask && left > 0; left--) {
    const answer = ((await io.ask(`${formatTrustQuestion(members, verb)} [y/N/show NAME] `)) ?? "").trim();
    const [, isShow, name] = /^(s(?:how)?)(?:\s+(\S+))?$/i.exec(answer) ?? [];
    if (isShow === undefined) return /^y(?:es)?$/i.test(answer);
    const shown = members.filter(({ skill }) => name === undefined || skill.name === name);
    for (const one of shown) printTrustSubject(out, one, found);
    if (shown.length === 0) out.line`${out.red("✗")} "${truncateLine(name ?? "", 64)}" is none of them`;
  }
  return false;
}

const MAX_ANSWERS = 100;

/** On a terminal: shows what is about to be trusted, and asks. False where nobody can be asked. */
export async function askForTrust(
  io: CommandIo,
  found: DiscoverResult,
  skills: readonly Skill[],
  asked?: string,
): Promise<boolean> {
  if (!io.ask) return false;
  const subjects = await loadTrustSubjects(skills, found);
  for (const one of subjects) printTrustSubject(createPrinter(io.stderr, io.env), one, found);
  if (!(await isConfirmed(io, asked ?? formatTrustQuestion(subjects)))) return false;
  grantTrust(found, subjects);
  return true;
}

/** Fetches what is to be shown of remote skills: trust is given to what the user could read. */
async function loadTrustSubjects(skills: readonly Skill[], found: DiscoverResult): Promise<TrustSubject[]> {
  const subjects: TrustSubject[] = [];
  for (const skill of skills) {
    await skill.fetch?.("all");
    subjects.push(createTrustSubject(skill, found));
  }
  return subjects;
}

function createTrustSubject(found: Skill, { trust: given, home }: DiscoverResult): TrustSubject {
  const skill = withBody(found); // What is shown is what is trusted, also when its file changes while somebody reads.
  const copy = copySkill(skill);
  const state = given.lockStateOf(skill);
  if (state.is === "unknown") throw state.problem;
  if (state.is === "changed") {
    const { entry, drift, there } = state;
    return { skill, copy, before: entry, changes: drift, there, was: createBlobCache(home).read(entry.files) };
  }
  const isAdded = state.is === "as-locked" && given.standingOf(skill) === "trusted";
  const place = getSkillLocation(skill);
  const before =
    new Map(given.list()).get(place) ??
    (isAdded ? state.entry : undefined) ??
    (given.own.holds(place) ? given.own.recordOf(place) : undefined);
  return { skill, copy, before, changes: before ? given.changesOf(skill, copy) : [] };
}

function grantTrust({ trust: given, home }: DiscoverResult, subjects: readonly TrustSubject[]): void {
  if (subjects.length === 0) return;
  given.grant(subjects);
  // Kept, so that what changes later can be shown line by line.
  for (const { copy } of subjects) storeSkillCopy(copy, getSkillStoreFolder(home));
}

function formatTrustQuestion(subjects: readonly TrustSubject[], verb = "Trust"): string {
  if (subjects.some(({ skill }) => skill.manifest.toolsets.length > 0)) {
    const whose = subjects.length === 1 ? "this skill, and its" : `these ${subjects.length} skills, and their`;
    return `${verb} ${whose} tools to run as you, without a sandbox?`;
  }
  return subjects.length === 1
    ? `${verb} this skill to be followed, and its code to run in a sandbox?`
    : `${verb} these ${subjects.length} skills to be followed, and their code to run in a sandbox?`;
}

function findMeantSkills(found: DiscoverResult, wanted: string | undefined, cwd: string): Skill[] {
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
    const isMeant = createNamePattern(wanted);
    const matching = asking.filter(({ name }) => isMeant.test(name));
    if (matching.length > 0) return matching;
  }
  const path = resolve(cwd, wanted ?? around.workspace);
  const root = existsSync(path) ? realpathSync(path) : path;
  // A file means the skill that it is part of. The folder of a skill inside another one does not mean that other one.
  const isSkill = asking.some((skill) => getSkillLocation(skill) === root);
  const inside = asking.filter(
    (skill) => isInside(root, getSkillLocation(skill)) || (!isSkill && isInside(getSkillLocation(skill), root)),
  );
  if (inside.length > 0) return inside;
  const waiting = wanted === undefined ? findUntrustedCode(found) : undefined;
  const names = asking.slice(0, 10).map(({ name }) => name);
  const others =
    names.length === 0 ? "`skillet list` shows where each skill comes from" : `there are: ${names.join(", ")}`;
  throw new SkillError("not-found", {
    message: `There is no skill in ${formatSkillsFolder(path, around)} that waits for trust`,
    fix: waiting
      ? `the code of ${formatCount(waiting.skills, "skill")} in other folders does; run: ${waiting.command}`
      : others,
  });
}

/** `pdf*`: a star stands for any characters of a name. */
function createNamePattern(pattern: string): RegExp {
  const parts = pattern.split(/\*+/).map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`);
}

function printTrusted(io: CommandIo, { trust: given, catalog, around }: DiscoverResult, asJson: boolean): number {
  const skills = new Map(
    [...catalog.skills, ...catalog.shadowed]
      .filter(({ origin }) => origin.file !== undefined || origin.remote !== undefined)
      .map((skill) => [getSkillLocation(skill), skill]),
  );
  const rows = given.list().map(([path, { name, digest, at }]) => {
    return { name, place: path, digest, at, state: formatTrustState(path, skills.get(path), given) };
  });
  const texts = given.text.list().map(([folder, at]) => ({ folder, at }));
  const mine = given.own.list().map(([folder, { at }]) => ({ folder, at }));
  if (asJson) printJson(io.stdout, { trusted: rows, text: texts, mine });
  const out = createPrinter(io.stdout, io.env);
  if (!asJson) {
    for (const { name, place, at, state } of rows) {
      const mark = state === "unchanged" ? out.green("✓") : out.yellow("!");
      out.line`${mark} ${out.bold(name)}  ${formatDisplayPath(place, around)}  ${out.dim(`trusted ${at.slice(0, 10)}, ${state}`)}`;
    }
    for (const { folder, at } of texts)
      out.line`${out.green("✓")} ${formatDisplayPath(folder, around)}  ${out.dim(`text approved ${at.slice(0, 10)}`)}`;
    for (const { folder, at } of mine)
      out.line`${out.green("✓")} ${formatDisplayPath(folder, around)}  ${out.dim(`yours since ${at.slice(0, 10)}: edits keep the trust`)}`;
    if (rows.length + texts.length + mine.length === 0)
      createPrinter(io.stderr, io.env)
        .line`${given.problem() ?? "nothing has been trusted yet: `skillet trust PATH` does"}`;
  }
  return EXIT.fine;
}

function formatTrustState(path: string, skill: Skill | undefined, given: TrustStore): string {
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

function revokeTrust(
  io: CommandIo,
  { trust: given, around, catalog }: DiscoverResult,
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
      fix: `to switch it off: skillet disable ${quoteIfNeeded(added.name)}; to take it away: skillet remove ${quoteIfNeeded(added.name)}`,
    });
  }
  if (places.length === 0) {
    throw new SkillError("not-found", {
      message: `Nothing in ${formatSkillsFolder(path, around)} has been trusted`,
      fix: "`skillet trust --list` shows what has been",
    });
  }
  given.revoke(places);
  if (asJson) printJson(io.stdout, { revoked: places });
  else {
    const out = createPrinter(io.stdout, io.env);
    for (const place of places) out.line`${out.green("✓")} no longer trusted: ${formatDisplayPath(place, around)}`;
  }
  return EXIT.fine;
}
