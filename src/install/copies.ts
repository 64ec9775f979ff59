import { dirname, join } from "node:path";
import { hasOriginal, type InstalledCopy, type Installs } from "../host/installs.ts";
import { whileLocked } from "../host/locked-file.ts";
import { placeOf } from "../host/trust.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { isInside } from "../shared/inside.ts";
import type { Skill } from "../skill/skill.ts";
import { statOf } from "../source/file.ts";
import { expectedFolder } from "../source/file-list.ts";
import { isShipped } from "../source/shipped.ts";
import { apply, type Item, mend, removeEmpty } from "./apply.ts";
import type { NativeClient } from "./clients.ts";
import { type Conformed, conform } from "./conform.ts";
import { type Content, contentOfCopy, omitting } from "./content.ts";
import { leftOut } from "./left-out.ts";
import {
  type PlanOptions,
  planInstall,
  planRemoval,
  type Reason,
  type Removal,
  type Standing,
  type Step,
  type Wanted,
} from "./plan.ts";
import { installedIn, standingIn, type Target } from "./target.ts";

export interface Request {
  target: Target;
  installs: Installs;
  force?: boolean | undefined;
  /** Plan, and do nothing. */
  isDryRun?: boolean | undefined;
}

export interface InstallRequest extends Request {
  skills: readonly Skill[];
  /** What speaks against giving a skill to the client, whatever stands there. A SkillError that it throws does too. */
  refuses?(skill: Skill): Reason | undefined;
  /** Called as each skill was looked at. */
  onLooked?(): void;
}

/**
 * Puts copies of skills into a client's folder: of all that can be, all or none. Gives what was done with each. Throws a SkillError, and
 * then nothing was.
 */
export function installCopies(request: InstallRequest): Step[] {
  return alone(request, () => {
    const { target, installs, skills } = request;
    const prepared = new Map(skills.map((skill) => [skill.name, prepare(skill, request)]));
    const wanted = [...prepared.values()].map((one) => one.wanted);
    const standing = new Map(wanted.map(({ name }) => [name, standingIn(target, name, installs)]));
    const steps = planInstall(wanted, (name) => standing.get(name) as Standing, planOptions(request));
    if (request.isDryRun) return steps;
    const changing = steps.filter(({ action, adopts }) => action === "install" || action === "update" || adopts);
    const made = madeFor(target, installs) ?? topmostMissing(target.folder);
    const entries = changing.flatMap(({ name }) => {
      const { skill, wanted } = prepared.get(name) as Prepared;
      const { digest } = wanted.content as Content;
      const copy = { ...entryFor(skill, digest, standing.get(name), target), ...defined({ made }) };
      const entry = [join(target.folder, name), copy] as const;
      // A copy that outlived its original is the original from now on: two that were copies of one another would both be no skill.
      const { folder = "" } = skill.origin;
      const outlived = installs.entries()[folder];
      return outlived && !hasOriginal(outlived) ? [entry, [folder, undefined] as const] : [entry];
    });
    const writing = changing.filter(({ adopts }) => !adopts);
    if (entries.length === 0) return steps;
    installs.put(Object.fromEntries(entries), () => {
      if (writing.length === 0) return;
      apply({
        skillsDir: target.folder,
        put: writing.map(({ name }) => (prepared.get(name) as Prepared).item),
        replaces: writing.filter(({ action }) => action === "update").map(({ name }) => name),
        isDurable: true,
        isReal: true,
      });
    });
    return steps;
  });
}

/** Takes copies out of a client's folder again. Gives what was done with each. Throws a SkillError, and then nothing was. */
export function removeCopies(request: Request & { names: readonly string[] }): Removal[] {
  return alone(request, () => {
    const { target, installs, names } = request;
    const steps = planRemoval(names, (name) => standingIn(target, name, installs), planOptions(request));
    if (request.isDryRun) return steps;
    const named = (action: Removal["action"]) => steps.flatMap((step) => (step.action === action ? [step.name] : []));
    const removed = named("remove");
    if (removed.length > 0)
      apply({ skillsDir: target.folder, put: [], remove: removed, isDurable: true, isReal: true });
    const gone = [...removed, ...named("forget")];
    const made = madeFor(target, installs);
    // After they are gone: an entry without a copy is only a line too many, a copy without one would be nobody's.
    if (gone.length > 0) installs.forget(gone.map((name) => join(target.folder, name)));
    if (made !== undefined && installedIn(target, installs).length === 0) removeEmpty(target.folder, made);
    return steps;
  });
}

/** What a client would be given of a skill. Throws a SkillError when it cannot be. */
export function copyFor(skill: Skill, client: NativeClient): Conformed & { content: Content } {
  const { notes, ...conformed } = conform(skill, client);
  const content = contentOfCopy(skill, conformed.skillMd, conformed.files);
  return { ...conformed, notes: [...notes, ...leftOut(skill)], content };
}

/** Throws a SkillError when nothing is known of copies: that is not the same as that there are none. */
export function checkRecord(installs: Installs): void {
  const problem = installs.problem();
  if (problem === undefined) return;
  throw new SkillError("installs-unreadable", {
    message: `${installs.file} ${problem}`,
    fix: "mend it, or remove it to start anew: copies that are as skillet would write them are then taken for its own again",
  });
}

/** One at a time, so that the second finds what the first did and has nothing left to do. A plan alone changes nothing, and waits for nobody. */
function alone<T>({ installs, isDryRun, target }: Request, work: () => T): T {
  checkRecord(installs);
  if (isDryRun) return work();
  return whileLocked(installs.file.replace(/\.json$/, ""), () => {
    installs.forget([]); // From here on it is read anew: another may have written while this one waited.
    mend(target.folder); // What a process that ended too soon left there would be taken back after it was looked at.
    return work();
  });
}

/** The topmost folder that was made for a client's folder of skills, by the record. */
function madeFor({ folder }: Target, installs: Installs): string | undefined {
  const entries = installs.entries();
  const made = installedIn({ folder }, installs).flatMap((name) => entries[join(folder, name)]?.made ?? []);
  return made.find((path) => isInside(path, folder));
}

function topmostMissing(folder: string): string | undefined {
  if (statOf(folder) !== undefined) return undefined;
  return topmostMissing(dirname(folder)) ?? folder;
}

interface Prepared {
  skill: Skill;
  wanted: Wanted;
  item: Item;
}

function prepare(skill: Skill, { target, refuses, onLooked }: InstallRequest): Prepared {
  const { name, origin } = skill;
  const place = placeOf(skill);
  const isThere = place !== "" && isInside(target.folder, place);
  const bare: Wanted = { name, source: origin.source, notes: [], lost: [], isThere };
  const item: Item = { name, source: origin.folder === undefined ? "inline" : "ref" };
  onLooked?.();
  if (isThere) return { skill, item, wanted: bare };
  try {
    const refusal = refuses?.(skill);
    if (refusal) return { skill, item, wanted: { ...bare, refusal } };
    const { skillMd, files, notes, lost, content } = copyFor(skill, target.client);
    const { folder } = origin;
    const { digest } = content;
    const expected = expectedFolder(origin);
    const whole: Partial<Item> =
      folder === undefined ? {} : { folder, expected, links: "inside", omit: omitting(files), digest };
    return { skill, item: { ...item, skillMd, files, ...whole }, wanted: { ...bare, notes, lost, content } };
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    const { code, message, fix = "" } = error;
    return { skill, item, wanted: { ...bare, refusal: { code, message, fix } } };
  }
}

function entryFor(skill: Skill, digest: string, there: Standing | undefined, { id }: Target): InstalledCopy {
  const { name, origin } = skill;
  const original = originalOf(skill);
  // As it is found there: what was written down last may never have been put there. What somebody changed stays theirs.
  const before = there?.is === "ours" && !there.isEdited ? there.digest : undefined;
  return {
    skill: name,
    client: id,
    ...(original === undefined ? {} : { original }),
    source: origin.source,
    copy: digest,
    ...(before === undefined || before === digest ? {} : { before }),
    at: new Date().toISOString(),
  };
}

/** Nothing for what comes with this package: that is there as long as the package is, wherever it is put. */
function originalOf({ origin: { scope, file } }: Skill): string | undefined {
  return scope === "bundled" && file !== undefined && isShipped(file) ? undefined : file;
}

function planOptions({ target, force }: Request): PlanOptions {
  return { shown: (name) => join(target.shown, name), client: target.client.title, force };
}
