import { SkillError } from "../errors/problem.ts";
import { listLockedDirs, readLockedSkills, resolveSkillsDir, type SkillsDir } from "../remote/skills-dir.ts";
import type { Environment } from "../skill/source/locations.ts";
import { statIfExists } from "../skill/source/read-file.ts";
import { recoverFolder } from "../store/atomic-folder.ts";
import { type LockDifference, readLockFile } from "../store/lock-diff.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { compareText, findNearest, formatCount, truncateLine } from "../util/text.ts";
import { formatSomeNames } from "./format.ts";
import { type CommandIo, type Printer, printProblem, runInterruptible } from "./output.ts";
import { runWithWaitIndicator } from "./progress.ts";

/** A folder of skills with a lock, and what is locked there. */
export interface LockedSkillsDir {
  place: SkillsDir;
  skills: readonly (readonly [string, LockedSkill])[];
  /** What is locked in the other one, that for all projects or the workspace's, by name. */
  elsewhere(): readonly string[];
}

/** The place that a command is about. What a killed process left half-done there is taken back first. */
export function openLockedDir(around: Environment, isProject: boolean): LockedSkillsDir {
  return openLockedSkillsDir(resolveSkillsDir(around, isProject), around);
}

function openLockedSkillsDir(place: SkillsDir, around: Environment): LockedSkillsDir {
  if (statIfExists(place.folder)) recoverFolder(place.folder);
  const skills = Object.entries(readLockedSkills(place)).sort(([a], [b]) => compareText(a, b));
  return { place, skills, elsewhere: () => listOtherNames(around, !place.isProject) };
}

/** The places that a command is about: the one that `skillet add` uses first, then those with adopted skills. */
export function openLockedDirs(around: Environment, isProject: boolean): LockedSkillsDir[] {
  return listLockedDirs(around, isProject).map((place) => openLockedSkillsDir(place, around));
}

/** The places for all projects and of the workspace, each once: a workspace can be the home folder. */
export function openDistinctLockedDirs(
  around: Environment,
  levels: readonly ("user" | "project")[],
): LockedSkillsDir[] {
  const all = levels.flatMap((level) => openLockedDirs(around, level === "project"));
  return all.filter(({ place }, index) => all.findIndex((one) => one.place.folder === place.folder) === index);
}

/** Skills of one place that a command is about. */
export interface ChosenSkills {
  locked: LockedSkillsDir;
  entries: LockedSkillsDir["skills"];
}

/**
 * Returns the skills of these names by place; all when none is named. `NAME@FOLDER` names the one in a folder. Throws a SkillError when one
 * is in no place.
 */
export function chooseLockedSkills(places: readonly LockedSkillsDir[], names: readonly string[]): ChosenSkills[] {
  const [first] = places;
  if (!first) return [];
  const wanted = [...new Set(names)].map((name) => ({ name, ...parseSkillReference(name, places) }));
  for (const { name, bare, isIn } of wanted)
    if (!places.some((one) => isIn(one) && hasSkill(one, bare))) findLockedSkills(first, [name]); // Throws, with what was meant.
  const chosen = places.map((locked) => ({
    locked,
    entries: locked.skills.filter(
      ([name]) => names.length === 0 || wanted.some(({ bare, isIn }) => bare === name && isIn(locked)),
    ),
  }));
  const some = chosen.filter(({ entries }) => entries.length > 0);
  return some.length > 0 ? some : [{ locked: first, entries: [] }];
}

/** A skill's name may hold an @ only before the folder that it is in. */
function parseSkillReference(name: string, places: readonly LockedSkillsDir[]) {
  const at = name.indexOf("@");
  const folder = name.slice(at + 1);
  const meant = at === -1 ? [] : places.filter(({ place }) => place.shown === folder || place.folder === folder);
  return meant.length === 0
    ? { bare: name, isIn: () => true }
    : { bare: name.slice(0, at), isIn: (one: LockedSkillsDir) => meant.includes(one) };
}

function hasSkill({ skills }: LockedSkillsDir, name: string): boolean {
  return skills.some(([other]) => other === name);
}

/** Those of these names; all when none is named. Throws a SkillError when one was not added there. */
export function findLockedSkills(
  { place, skills, elsewhere }: LockedSkillsDir,
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
      message: `No skill "${name}" was added to ${place.shown}`,
      fix: elsewhere().includes(name)
        ? place.isProject
          ? "it is in all of your projects: leave --project out"
          : "this workspace has it: say --project"
        : meant
          ? `did you mean ${meant}?`
          : "`skillet list --installed` shows what was added",
    });
  });
}

/** What to say where there is nothing to do anything with. */
export function formatNothingAdded(locked: LockedSkillsDir): string {
  const { place, elsewhere } = locked;
  const nothing = `nothing was added to ${place.shown} yet`;
  if (elsewhere().length > 0) return `${nothing}; ${formatElsewhere(locked)}`;
  return `${nothing}: \`skillet add SOURCE${place.isProject ? " --project" : ""}\` does`;
}

function formatElsewhere({ place, elsewhere }: LockedSkillsDir): string {
  const skills = formatCount(elsewhere().length, "skill");
  return place.isProject
    ? `leave --project out for the ${skills} that you have in all projects`
    : `say --project for the ${skills} of this workspace`;
}

function listOtherNames(around: Environment, isProject: boolean): string[] {
  try {
    return listLockedDirs(around, isProject).flatMap(({ folder }) => {
      const lock = readLockFile(folder);
      return lock instanceof SkillError || lock === undefined ? [] : Object.keys(lock);
    });
  } catch {
    return []; // There can be no such place.
  }
}

/** Fetches. Ctrl-C ends it. */
export function fetchWithProgress<T>(
  io: CommandIo,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return runWithWaitIndicator(io, `fetching ${truncateLine(what, 200)}`, () => runStoppable(io, work));
}

/** An answer from whoever sits at the terminal. Ctrl-C is none: it ends all. */
export function askLine(io: CommandIo, question: string): Promise<string> {
  return runStoppable(io, async (signal) => ((await io.ask?.(question, signal)) ?? "").trim());
}

/** What somebody may stop. `nothing`: what has not happened then. */
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
  const stop = () => new SkillError(INTERRUPTED_CODE, { message: "It was interrupted", fix: "try again" });
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

/** What went wrong, once for all that it went wrong for: a source that is gone may have given hundreds. */
export function printSkillErrors(out: Printer, problems: readonly { name: string; error: SkillError }[]): void {
  for (const [first, ...others] of Map.groupBy(problems, ({ error }) => `${error.message}\n${error.fix}`).values()) {
    if (!first) continue;
    const { message, fix = "" } = first.error;
    printProblem(out, out.red("✗"), `${formatSomeNames([first, ...others].map(({ name }) => name))}: ${message}`, fix);
  }
}

export function printLockChanges(out: Printer, drift: readonly LockDifference[]): void {
  for (const { path, what } of drift.slice(0, MAX_LOCK_CHANGES))
    out.line`    ${path === "." ? "its folder" : path} ${LOCK_CHANGE_LABELS[what]}`;
  if (drift.length > MAX_LOCK_CHANGES) out.line`    ${out.dim(`… and ${drift.length - MAX_LOCK_CHANGES} more`)}`;
}

const LOCK_CHANGE_LABELS: Record<LockDifference["what"], string> = {
  added: "was added",
  removed: "is gone",
  changed: "was changed",
  mode: "has another mode",
};

const MAX_LOCK_CHANGES = 20;
