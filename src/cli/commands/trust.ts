import { existsSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
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
import { mapAsync } from "../../util/async.ts";
import { isInside } from "../../util/safe-path.ts";
import { formatCount, quoteIfNeeded, truncateLine } from "../../util/text.ts";
import {
  attachCapabilities,
  type CommandContext,
  type CommandDefinition,
  createNotApprovedError,
  discoverForCommand,
  EXIT,
  formatExamples,
  formatSkillsFolder,
  requireConfiguration,
} from "../command-context.ts";
import { printConfigReach, recordChange, toConfigReachJson, waitUntilApplied } from "../config-output.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printHanging, printJson } from "../output.ts";
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
      .description("Review and trust skills so that their code can run")
      .argument(
        "[path...]",
        "Workspaces, skill folders, or skills by name or pattern (pdf*). Defaults to the workspace.",
      )
      .addOption(new Option("-l, --list", "List the trusted skills").conflicts("revoke"))
      .option("--show", "Show all instructions and code, also of many skills")
      .option("--revoke", "Revoke the trust")
      .addOption(
        new Option("--text", "Let models read the skills of this workspace without trusting their code").conflicts([
          "secrets",
        ]),
      )
      .addOption(
        new Option(
          "--mine [folder]",
          "Trust the skills in this folder as your own, so that your edits keep the trust",
        ).conflicts(["secrets", "text"]),
      )
      .addOption(
        new Option("--secrets <skill>", "Grant the configured values of a skill to the copy found now").conflicts([
          "list",
          "revoke",
        ]),
      )
      .option("-y, --yes", "Trust without asking, required without a terminal")
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

/** Reviews skills that are not the user's own, and records the trust in their instructions and code. */
async function trustSkills({ io, options, args }: CommandContext<TrustOptions>): Promise<number> {
  const [value] = args;
  const found = await discoverForCommand(io, options, { remote: "soon" });
  const { around: environment } = found;
  requireConfiguration(io, found);
  const { secrets } = options;
  if (secrets !== undefined)
    return (await import("./trust-options.ts")).grantSecrets(io, await attachCapabilities(found), {
      ...options,
      secrets,
    });
  if (options.text && !options.list)
    return (await import("./trust-options.ts")).trustWorkspaceText(io, found, { ...options, folder: value });
  const { mine } = options;
  if (mine !== undefined && !options.list) {
    const folder = mine === true ? value : mine;
    return (await import("./trust-options.ts")).trustOwnFolder(io, found, {
      ...options,
      folder: folder ?? environment.workspace,
    });
  }
  if (options.list) return printTrusted(io, found, options.json ?? false);
  if (options.revoke) return revokeTrust(io, found, value, options.json ?? false);
  const skills = new Set(
    (await mapAsync(args.length > 0 ? args : [undefined], (wanted) => findMeantSkills(found, wanted, io.cwd))).flat(),
  );
  const subjects = await loadTrustSubjects([...skills], found);
  const pending = subjects.filter(
    ({ skill, before, changes }) =>
      before === undefined || changes.length > 0 || found.trust.getStatus(skill) === "untrusted",
  );
  const waiting = await approveSubjects(io, found, { subjects, pending, options });
  if (pending.length > 0 && waiting.length === 0)
    throw createNotApprovedError(io, "not trusted", "review it, then add --yes");
  grantTrust(found, waiting);
  if (options.json) {
    printJson(io.stdout, {
      trusted: subjects.map(({ skill, copy, changes }) => ({
        name: skill.name,
        location: getSkillLocation(skill),
        digest: copy.digest,
        changes,
      })),
    });
  } else {
    const out = createPrinter(io.stdout, io.env);
    if (pending.length === 0) out.line`${out.green("✓")} already trusted, and unchanged since`;
    else {
      const paths = waiting.map(({ skill }) =>
        quoteIfNeeded(skill.origin.remote ? skill.name : formatDisplayPath(getSkillLocation(skill), environment)),
      );
      out.line`${out.green("✓")} trusted: ${waiting.map(({ skill }) => skill.name).join(", ")}`;
      const isAdded = waiting.every(({ skill }) => skill.origin.scope === "installed");
      const back = isAdded
        ? `skillet disable ${waiting.length === 1 ? quoteIfNeeded(waiting[0]?.skill.name ?? "") : "NAME"}`
        : `skillet trust --revoke ${paths.length === 1 ? paths[0] : "PATH"}`;
      printHanging(out, "  ", ["changes need a new review; to revoke it:"], { indent: 2, commands: [back] });
    }
  }
  return EXIT.fine;
}

interface ApproveContext {
  subjects: readonly TrustSubject[];
  /** The skills that are not trusted in their current state. */
  pending: readonly TrustSubject[];
  options: Pick<CommandContext<TrustOptions>["options"], "json" | "yes" | "show">;
  /** The first word of each question. Defaults to "Trust". */
  verb?: string;
}

/** Shows the skills and asks for trust: few skills in full, many as a table with one question per group. Returns the approved ones. */
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
      await printTrustSubject(out, one, found);
      if (pending.includes(one)) printSubjectFindings(out, one);
    }
    return options.yes || pending.length === 0 || (await isConfirmed(io, formatTrustQuestion(pending, verb)))
      ? pending
      : [];
  }
  const { groupByRisk, printTrustGroup } = await import("./trust-review.ts");
  const approved: TrustSubject[] = [];
  for (const group of await groupByRisk(pending)) {
    const members = group.summaries.map((summary) => summary.subject);
    if (isShown) printTrustGroup(out, group);
    if (options.yes || (await askForGroup(io, out, members, { found, verb }))) approved.push(...members);
  }
  return approved;
}

const MAX_FINDINGS = 10;

/** Prints the scan findings. */
function printSubjectFindings(
  out: Printer,
  { skill: { name, description, manifest }, copy: { files } }: TrustSubject,
): void {
  const findings = scanSkill({ name, description, manifest, files }).filter(({ weight }) => weight !== "low");
  if (findings.length === 0) return;
  out.line`  ${out.yellow(`scan: ${formatFindingCounts(findings)}`)} ${out.dim("(advisory: review it yourself)")}`;
  printFindings(out, findings, MAX_FINDINGS);
}

/** Asks about a group until the answer is yes or no. `show` and `show NAME` print all instructions and code. */
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
    for (const one of shown) await printTrustSubject(out, one, found);
    if (shown.length === 0) out.line`${out.red("✗")} "${truncateLine(name ?? "", 64)}" is not one of them`;
  }
  return false;
}

const MAX_ANSWERS = 100;

/** Shows skills and asks for trust at a terminal. Returns false without a terminal. */
export async function askForTrust(
  io: CommandIo,
  found: DiscoverResult,
  skills: readonly Skill[],
  requested?: string,
): Promise<boolean> {
  if (!io.ask) return false;
  const subjects = await loadTrustSubjects(skills, found);
  for (const one of subjects) await printTrustSubject(createPrinter(io.stderr, io.env), one, found);
  if (!(await isConfirmed(io, requested ?? formatTrustQuestion(subjects)))) return false;
  grantTrust(found, subjects);
  return true;
}

/** Fetches the content of remote skills: the user must be able to read what they trust. */
async function loadTrustSubjects(skills: readonly Skill[], found: DiscoverResult): Promise<TrustSubject[]> {
  const subjects: TrustSubject[] = [];
  for (const skill of skills) {
    await skill.fetch?.("all");
    subjects.push(await createTrustSubject(skill, found));
  }
  return subjects;
}

async function createTrustSubject(found: Skill, { trust: trustStore, home }: DiscoverResult): Promise<TrustSubject> {
  const skill = withBody(found, await found.body()); // Trusts the shown content, even if the file changes during the review.
  const copy = await copySkill(skill);
  const state = trustStore.getLockState(skill);
  if (state.is === "unknown") throw state.problem;
  if (state.is === "changed") {
    const { entry, changes, there } = state;
    return {
      skill,
      copy,
      before: entry,
      changes,
      folderFiles: there,
      was: createBlobCache(home).read(entry.files),
    };
  }
  const isAdded = state.is === "unchanged" && trustStore.getStatus(skill) === "trusted";
  const location = getSkillLocation(skill);
  const before =
    new Map(trustStore.list()).get(location) ??
    (isAdded ? state.entry : undefined) ??
    (trustStore.own.contains(location) ? trustStore.own.getRecord(location) : undefined);
  return { skill, copy, before, changes: before ? trustStore.findChanges(skill, copy) : [] };
}

function grantTrust({ trust: trustStore, home }: DiscoverResult, subjects: readonly TrustSubject[]): void {
  if (subjects.length === 0) return;
  trustStore.grant(subjects);
  // Stored, so that later changes can be shown line by line.
  for (const { copy } of subjects) storeSkillCopy(copy, getSkillStoreFolder(home));
}

function formatTrustQuestion(subjects: readonly TrustSubject[], verb = "Trust"): string {
  if (subjects.some(({ skill }) => skill.manifest.toolsets.length > 0)) {
    const whose = subjects.length === 1 ? "this skill and its" : `these ${subjects.length} skills and their`;
    return `${verb} ${whose} tools to run as you without a sandbox?`;
  }
  return subjects.length === 1
    ? `${verb} this skill and its code, which runs in a sandbox?`
    : `${verb} these ${subjects.length} skills and their code, which runs in a sandbox?`;
}

async function findMeantSkills(found: DiscoverResult, wanted: string | undefined, cwd: string): Promise<Skill[]> {
  const { catalog, trust: trustStore, around: environment } = found;
  const named = wanted === undefined ? undefined : catalog.find(wanted);
  const asking = [...catalog.skills, ...catalog.shadowed].filter((skill) => trustStore.getStatus(skill) !== "own");
  if (named) {
    if (asking.includes(named)) return [named];
    throw new SkillError("trust-not-needed", {
      message: `Skill '${named.name}' is your own (from ${named.origin.source}): it needs no trust`,
      fix: "run it",
      commands: [`skillet run ${quoteIfNeeded(named.name)}`],
    });
  }
  if (wanted?.includes("*") && !existsSync(resolve(cwd, wanted))) {
    const isMeant = createNamePattern(wanted);
    const matching = asking.filter(({ name }) => isMeant.test(name));
    if (matching.length > 0) return matching;
  }
  const path = resolve(cwd, wanted ?? environment.workspace);
  const root = existsSync(path) ? realpathSync(path) : path;
  // A file means the skill that contains it. The folder of a nested skill does not mean the outer one.
  const isSkill = asking.some((skill) => getSkillLocation(skill) === root);
  const inside = asking.filter(
    (skill) => isInside(root, getSkillLocation(skill)) || (!isSkill && isInside(getSkillLocation(skill), root)),
  );
  if (inside.length > 0) return inside;
  const waiting = wanted === undefined ? await findUntrustedCode(found) : undefined;
  const names = asking.slice(0, 10).map(({ name }) => name);
  const others =
    names.length === 0
      ? { fix: "list the skills with their sources", commands: ["skillet list"] }
      : { fix: `skills that can be trusted: ${names.join(", ")}` };
  throw new SkillError("not-found", {
    message: `No skill in ${formatSkillsFolder(path, environment)} needs to be trusted`,
    ...(waiting
      ? {
          fix: `the code of ${formatCount(waiting.skills, "skill")} in other folders is not trusted yet; run`,
          commands: [waiting.command],
        }
      : others),
  });
}

/** Returns the pattern for names such as `pdf*`: a star matches any characters. */
function createNamePattern(pattern: string): RegExp {
  const parts = pattern.split(/\*+/).map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`);
}

async function printTrusted(
  io: CommandIo,
  { trust: trustStore, catalog, around: environment }: DiscoverResult,
  asJson: boolean,
): Promise<number> {
  const skills = new Map(
    [...catalog.skills, ...catalog.shadowed]
      .filter(({ origin }) => origin.file !== undefined || origin.remote !== undefined)
      .map((skill) => [getSkillLocation(skill), skill]),
  );
  const rows = await mapAsync(trustStore.list(), async ([path, { name, digest, at }]) => {
    return { name, location: path, digest, at, state: await formatTrustState(path, skills.get(path), trustStore) };
  });
  const texts = trustStore.text.list().map(([folder, at]) => ({ folder, at }));
  const mine = trustStore.own.list().map(([folder, { at }]) => ({ folder, at }));
  if (asJson) printJson(io.stdout, { trusted: rows, text: texts, mine });
  const out = createPrinter(io.stdout, io.env);
  if (!asJson) {
    for (const { name, location, at, state } of rows) {
      const mark = state === "unchanged" ? out.green("✓") : out.yellow("!");
      const text = `${formatDisplayPath(location, environment)}  trusted ${at.slice(0, 10)}, ${state}`;
      printHanging(out, out.text`${mark} ${out.bold(name)}  `, [text], { indent: 2, start: name.length + 4 });
    }
    for (const { folder, at } of texts)
      printTrustedFolder(out, `${formatDisplayPath(folder, environment)}  text approved ${at.slice(0, 10)}`);
    for (const { folder, at } of mine)
      printTrustedFolder(
        out,
        `${formatDisplayPath(folder, environment)}  your own since ${at.slice(0, 10)}: edits keep the trust`,
      );
    if (rows.length + texts.length + mine.length === 0)
      createPrinter(io.stderr, io.env)
        .line`${trustStore.problem() ?? "nothing has been trusted yet; review and trust skills with `skillet trust PATH`"}`;
  }
  return EXIT.fine;
}

function printTrustedFolder(out: Printer, text: string): void {
  printHanging(out, out.text`${out.green("✓")} `, [text], { indent: 2 });
}

async function formatTrustState(path: string, skill: Skill | undefined, trustStore: TrustStore): Promise<string> {
  if (path.startsWith("mcp:")) {
    if (!skill) return "not listed by its server";
    return trustStore.getStatus(skill) === "trusted" ? "unchanged" : "changed";
  }
  if (!existsSync(path)) return "gone";
  if (!skill) return "not checked: not found from here";
  try {
    return trustStore.findChanges(skill, await copySkill(skill)).length > 0 ? "changed" : "unchanged";
  } catch (error) {
    return `unreadable: ${error instanceof Error ? error.message : error}`;
  }
}

async function revokeTrust(
  io: CommandIo,
  { trust: trustStore, around: environment, catalog }: DiscoverResult,
  wanted: string | undefined,
  asJson: boolean,
): Promise<number> {
  const path = resolve(io.cwd, wanted ?? environment.workspace);
  const root = existsSync(path) ? realpathSync(path) : path;
  const paths = trustStore
    .list()
    .flatMap(([location, { name }]) => (name === wanted || isInside(root, location) ? [location] : []));
  const added = wanted === undefined ? undefined : catalog.find(wanted);
  if (paths.length === 0 && added?.origin.scope === "installed") {
    throw new SkillError("trust-added", {
      message: `Skill '${added.name}' was approved when it was added`,
      fix: "disable or remove it",
      commands: ["disable", "remove"].map((command) => `skillet ${command} ${quoteIfNeeded(added.name)}`),
    });
  }
  if (paths.length === 0) {
    throw new SkillError("not-found", {
      message: `Nothing in ${formatSkillsFolder(path, environment)} has been trusted`,
      fix: "list what is trusted",
      commands: ["skillet trust --list"],
    });
  }
  const names = new Map(trustStore.list().map(([location, { name }]) => [location, name]));
  trustStore.revoke(paths);
  for (const location of paths) await recordChange(environment, "trust.revoke", { skill: names.get(location) ?? "" });
  const reached = await waitUntilApplied(join(environment.skilletHome, "trust.json"), environment);
  if (asJson) printJson(io.stdout, { revoked: paths, ...toConfigReachJson(reached) });
  else {
    const out = createPrinter(io.stdout, io.env);
    for (const location of paths)
      out.line`${out.green("✓")} no longer trusted: ${formatDisplayPath(location, environment)}`;
    printConfigReach(io, reached, { runs: "is denied further tool calls" });
  }
  return EXIT.fine;
}
