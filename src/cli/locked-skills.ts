import { formatProblem, type Problem, SkillError } from "../errors/problem.ts";
import { listLockedDirs, readLockedSkills, resolveSkillsDir, type SkillsDir } from "../remote/skills-dir.ts";
import type { Environment } from "../skill/source/locations.ts";
import { recoverFolder } from "../store/atomic-folder.ts";
import { type LockDifference, readLockFile } from "../store/lock-diff.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { statIfExists } from "../util/file-access.ts";
import { compareText, findNearest, formatCount, truncateLine } from "../util/text.ts";
import { formatSomeNames } from "./format.ts";
import { type CommandIo, type Printer, printProblem, runInterruptible } from "./output.ts";
import { runWithWaitIndicator } from "./progress.ts";

/** A skills folder with a lock file, and its locked skills. */
export interface LockedSkillsDir {
  skillsDir: SkillsDir;
  skills: readonly (readonly [string, LockedSkill])[];
  /** Returns the names locked in the other scope: user or workspace. */
  elsewhere(): readonly string[];
}

/** Opens the folder that a command works on. Rolls back changes of a killed process first. */
export function openLockedDir(environment: Environment, isProject: boolean): LockedSkillsDir {
  return openLockedSkillsDir(resolveSkillsDir(environment, isProject), environment);
}

function openLockedSkillsDir(skillsDir: SkillsDir, environment: Environment): LockedSkillsDir {
  if (statIfExists(skillsDir.folder)) recoverFolder(skillsDir.folder);
  const skills = Object.entries(readLockedSkills(skillsDir)).sort(([a], [b]) => compareText(a, b));
  return { skillsDir, skills, elsewhere: () => listOtherNames(environment, !skillsDir.isProject) };
}

/** Opens the folders that a command works on: the one of `skillet add` first, then those with adopted skills. */
export function openLockedDirs(environment: Environment, isProject: boolean): LockedSkillsDir[] {
  return listLockedDirs(environment, isProject).map((skillsDir) => openLockedSkillsDir(skillsDir, environment));
}

/** Opens the user's and the workspace's folders, each once: a workspace can be the home folder. */
export function openDistinctLockedDirs(
  environment: Environment,
  levels: readonly ("user" | "project")[],
): LockedSkillsDir[] {
  const all = levels.flatMap((level) => openLockedDirs(environment, level === "project"));
  return all.filter(
    ({ skillsDir }, index) => all.findIndex((one) => one.skillsDir.folder === skillsDir.folder) === index,
  );
}

/** The chosen skills of one folder. */
export interface ChosenSkills {
  locked: LockedSkillsDir;
  entries: LockedSkillsDir["skills"];
}

/**
 * Returns the skills of these names by folder; all if none is named. `NAME@FOLDER` selects the one in a folder. Throws a SkillError if one
 * is in no folder.
 */
export function chooseLockedSkills(places: readonly LockedSkillsDir[], names: readonly string[]): ChosenSkills[] {
  const [first] = places;
  if (!first) return [];
  const wanted = [...new Set(names)].map((name) => ({ name, ...parseSkillReference(name, places) }));
  for (const { name, bare, isIn } of wanted)
    if (!places.some((one) => isIn(one) && hasSkill(one, bare))) findLockedSkills(first, [name]); // Throws, with a suggestion.
  const chosen = places.map((locked) => ({
    locked,
    entries: locked.skills.filter(
      ([name]) => names.length === 0 || wanted.some(({ bare, isIn }) => bare === name && isIn(locked)),
    ),
  }));
  const some = chosen.filter(({ entries }) => entries.length > 0);
  return some.length > 0 ? some : [{ locked: first, entries: [] }];
}

/** Parses a reference. An @ in a skill's name is only allowed before its folder. */
function parseSkillReference(name: string, places: readonly LockedSkillsDir[]) {
  const at = name.indexOf("@");
  const folder = name.slice(at + 1);
  const meant =
    at === -1 ? [] : places.filter(({ skillsDir }) => skillsDir.shown === folder || skillsDir.folder === folder);
  return meant.length === 0
    ? { bare: name, isIn: () => true }
    : { bare: name.slice(0, at), isIn: (one: LockedSkillsDir) => meant.includes(one) };
}

function hasSkill({ skills }: LockedSkillsDir, name: string): boolean {
  return skills.some(([other]) => other === name);
}

/** Returns the skills of these names; all if none is named. Throws a SkillError if one was not added there. */
export function findLockedSkills(
  { skillsDir, skills, elsewhere }: LockedSkillsDir,
  names: readonly string[],
): LockedSkillsDir["skills"] {
  if (names.length === 0) return skills;
  return [...new Set(names)].map((name) => {
    const found = skills.find(([other]) => other === name);
    if (found) return found;
    const meant = findNearest(
      name,
      skills.map(([other]) => other),
    );
    throw new SkillError("not-found", {
      message: `No skill "${name}" was added to ${skillsDir.shown}`,
      ...(elsewhere().includes(name)
        ? {
            fix: skillsDir.isProject
              ? "it is in your user folder: omit --project"
              : "it is in this workspace: add --project",
          }
        : meant
          ? { fix: `did you mean ${meant}?` }
          : { fix: "list the added skills", commands: ["skillet list --installed"] }),
    });
  });
}

/** Describes a folder without added skills, with the next command. */
export function describeNothingAdded(locked: LockedSkillsDir): Pick<Problem, "fix" | "commands"> {
  const { skillsDir, elsewhere } = locked;
  const nothing = `no skills were added to ${skillsDir.shown} yet`;
  if (elsewhere().length > 0) return { fix: `${nothing}; ${formatElsewhere(locked)}` };
  return { fix: `${nothing}; add some`, commands: [`skillet add SOURCE${skillsDir.isProject ? " --project" : ""}`] };
}

function formatElsewhere({ skillsDir, elsewhere }: LockedSkillsDir): string {
  const skills = formatCount(elsewhere().length, "skill");
  return skillsDir.isProject
    ? `omit --project for the ${skills} in your user folder`
    : `add --project for the ${skills} of this workspace`;
}

function listOtherNames(environment: Environment, isProject: boolean): string[] {
  try {
    return listLockedDirs(environment, isProject).flatMap(({ folder }) => {
      const lock = readLockFile(folder);
      return lock instanceof SkillError || lock === undefined ? [] : Object.keys(lock);
    });
  } catch {
    return []; // The folder cannot exist.
  }
}

/** Fetches with a wait indicator. Ctrl-C cancels it. */
export function fetchWithProgress<T>(
  io: CommandIo,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return runWithWaitIndicator(io, `fetching ${truncateLine(what, 200)}`, () => runStoppable(io, work));
}

/** Asks a question at the terminal. Ctrl-C interrupts the command instead of answering. */
export function askLine(io: CommandIo, question: string): Promise<string> {
  return runStoppable(io, async (signal) => ((await io.ask?.(question, signal)) ?? "").trim());
}

/** Runs interruptible work. `nothing`: the message for an interruption, such as "nothing was added". */
export async function explainInterruption(nothing: string, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SkillError) || error.code !== INTERRUPTED_CODE) throw error;
    throw new SkillError(INTERRUPTED_CODE, { message: `interrupted: ${nothing}` });
  }
}

const INTERRUPTED_CODE = "interrupted";

async function runStoppable<T>(io: CommandIo, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  let isStopped = () => false;
  const stop = () => new SkillError(INTERRUPTED_CODE, { message: "Interrupted", fix: "try again" });
  try {
    const result = await runInterruptible(io, (signal) => {
      isStopped = () => signal.aborted;
      return work(signal);
    });
    if (isStopped()) throw stop();
    return result;
  } catch (error) {
    throw isStopped() ? stop() : error;
  }
}

/** Prints errors, grouped: an unavailable source may cause hundreds of equal ones. */
export function printSkillErrors(out: Printer, problems: readonly { name: string; error: SkillError }[]): void {
  for (const [first, ...others] of Map.groupBy(problems, ({ error }) => formatProblem(error)).values()) {
    if (!first) continue;
    const { problem } = first.error;
    const names = formatSomeNames([first, ...others].map(({ name }) => name));
    printProblem(out, out.red("✗"), { ...problem, message: `${names}: ${problem.message}` });
  }
}

export function printLockChanges(out: Printer, changes: readonly LockDifference[]): void {
  for (const { path, what } of changes.slice(0, MAX_LOCK_CHANGES))
    out.line`    ${path === "." ? "its folder" : path} ${LOCK_CHANGE_LABELS[what]}`;
  if (changes.length > MAX_LOCK_CHANGES) out.line`    ${out.dim(`… and ${changes.length - MAX_LOCK_CHANGES} more`)}`;
}

const LOCK_CHANGE_LABELS: Record<LockDifference["what"], string> = {
  added: "was added",
  removed: "was removed",
  changed: "was changed",
  mode: "has a different mode",
};

const MAX_LOCK_CHANGES = 20;
