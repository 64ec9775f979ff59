import { dirname, join } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { SkillError } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import { isShipped } from "../skill/source/locations.ts";
import { statIfExists } from "../skill/source/read-file.ts";
import { getExpectedFolder } from "../skill/source/skill-files.ts";
import { applyFolderChange, type FolderItem, recoverFolder, removeEmptyFolders } from "../store/atomic-folder.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../store/copy-records.ts";
import { createOmitFilter, type FolderContent, hashSkillCopy } from "../store/folder-copy.ts";
import { withFileLock } from "../store/locked-file.ts";
import { getSkillLocation } from "../store/trust.ts";
import { omitUndefined } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { type AdaptedSkill, adaptSkill, listOmittedFiles } from "./adapt-skill.ts";
import { type ClientTarget, listCopyNames, type NativeClient, readCopyStatus } from "./native-clients.ts";

interface CopyRequest {
  target: ClientTarget;
  installs: ClientCopyStore;
  force?: boolean | undefined;
  /** Plan, and do nothing. */
  isDryRun?: boolean | undefined;
}

export interface WriteCopiesRequest extends CopyRequest {
  skills: readonly Skill[];
  /** What speaks against giving a skill to the client, whatever stands there. A SkillError that it throws does too. */
  refuses?(skill: Skill): CopyProblem | undefined;
  /** Called as each skill was looked at. */
  onLooked?(): void;
}

/**
 * Puts copies of skills into a client's folder: of all that can be, all or none. Gives what was done with each. Throws a SkillError, and
 * then nothing was.
 */
export function writeClientCopies(request: WriteCopiesRequest): CopyStep[] {
  return withCopyLock(request, () => {
    const { target, installs, skills } = request;
    const prepared = new Map(skills.map((skill) => [skill.name, prepareItem(skill, request)]));
    const wanted = [...prepared.values()].map((one) => one.wanted);
    const standing = new Map(wanted.map(({ name }) => [name, readCopyStatus(target, name, installs)]));
    const steps = planCopies(wanted, (name) => standing.get(name) as CopyStatus, createPlanOptions(request));
    if (request.isDryRun) return steps;
    const changing = steps.filter(({ action, adopts }) => action === "install" || action === "update" || adopts);
    const made = findMadeFolder(target, installs) ?? findTopmostMissing(target.folder);
    const entries = changing.flatMap(({ name }) => {
      const { skill, wanted } = prepared.get(name) as PreparedCopy;
      const { digest } = wanted.content as FolderContent;
      const copy = { ...createCopyEntry(skill, digest, standing.get(name), target), ...omitUndefined({ made }) };
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
      applyFolderChange({
        skillsDir: target.folder,
        put: writing.map(({ name }) => (prepared.get(name) as PreparedCopy).item),
        replaces: writing.filter(({ action }) => action === "update").map(({ name }) => name),
        isDurable: true,
        isReal: true,
      });
    });
    return steps;
  });
}

/** Takes copies out of a client's folder again. Gives what was done with each. Throws a SkillError, and then nothing was. */
export function removeClientCopies(request: CopyRequest & { names: readonly string[] }): CopyRemoval[] {
  return withCopyLock(request, () => {
    const { target, installs, names } = request;
    const steps = planCopyRemoval(names, (name) => readCopyStatus(target, name, installs), createPlanOptions(request));
    if (request.isDryRun) return steps;
    const named = (action: CopyRemoval["action"]) =>
      steps.flatMap((step) => (step.action === action ? [step.name] : []));
    const removed = named("remove");
    if (removed.length > 0)
      applyFolderChange({ skillsDir: target.folder, put: [], remove: removed, isDurable: true, isReal: true });
    const gone = [...removed, ...named("forget")];
    const made = findMadeFolder(target, installs);
    // After they are gone: an entry without a copy is only a line too many, a copy without one would be nobody's.
    if (gone.length > 0) installs.forget(gone.map((name) => join(target.folder, name)));
    if (made !== undefined && listCopyNames(target, installs).length === 0) removeEmptyFolders(target.folder, made);
    return steps;
  });
}

/** What a client would be given of a skill. Throws a SkillError when it cannot be. */
export function prepareCopy(skill: Skill, client: NativeClient): AdaptedSkill & { content: FolderContent } {
  const { notes, ...conformed } = adaptSkill(skill, client);
  const content = hashSkillCopy(skill, conformed.skillMd, conformed.files);
  return { ...conformed, notes: [...notes, ...listOmittedFiles(skill)], content };
}

/** Throws a SkillError when nothing is known of copies: that is not the same as that there are none. */
export function checkCopyRecord(installs: ClientCopyStore): void {
  const problem = installs.problem();
  if (problem === undefined) return;
  throw new SkillError("installs-unreadable", {
    message: `${installs.file} ${problem}`,
    fix: "mend it, or remove it to start anew: copies that are as skillet would write them are then taken for its own again",
  });
}

/** One at a time, so that the second finds what the first did and has nothing left to do. A plan alone changes nothing, and waits for nobody. */
function withCopyLock<T>({ installs, isDryRun, target }: CopyRequest, work: () => T): T {
  checkCopyRecord(installs);
  if (isDryRun) return work();
  return withFileLock(installs.file.replace(/\.json$/, ""), () => {
    installs.forget([]); // From here on it is read anew: another may have written while this one waited.
    recoverFolder(target.folder); // What a process that ended too soon left there would be taken back after it was looked at.
    return work();
  });
}

/** The topmost folder that was made for a client's folder of skills, by the record. */
function findMadeFolder({ folder }: ClientTarget, installs: ClientCopyStore): string | undefined {
  const entries = installs.entries();
  const made = listCopyNames({ folder }, installs).flatMap((name) => entries[join(folder, name)]?.made ?? []);
  return made.find((path) => isInside(path, folder));
}

function findTopmostMissing(folder: string): string | undefined {
  if (statIfExists(folder) !== undefined) return undefined;
  return findTopmostMissing(dirname(folder)) ?? folder;
}

interface PreparedCopy {
  skill: Skill;
  wanted: WantedCopy;
  item: FolderItem;
}

function prepareItem(skill: Skill, { target, refuses, onLooked }: WriteCopiesRequest): PreparedCopy {
  const { name, origin } = skill;
  const place = getSkillLocation(skill);
  const isThere = place !== "" && isInside(target.folder, place);
  const bare: WantedCopy = { name, source: origin.source, notes: [], lost: [], isThere };
  const item: FolderItem = { name, source: origin.folder === undefined ? "inline" : "ref" };
  onLooked?.();
  if (isThere) return { skill, item, wanted: bare };
  try {
    const refusal = refuses?.(skill);
    if (refusal) return { skill, item, wanted: { ...bare, refusal } };
    const { skillMd, files, notes, lost, content } = prepareCopy(skill, target.client);
    const { folder } = origin;
    const { digest } = content;
    const expected = getExpectedFolder(origin);
    const whole: Partial<FolderItem> =
      folder === undefined ? {} : { folder, expected, links: "inside", omit: createOmitFilter(files), digest };
    return { skill, item: { ...item, skillMd, files, ...whole }, wanted: { ...bare, notes, lost, content } };
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    const { code, message, fix = "" } = error;
    return { skill, item, wanted: { ...bare, refusal: { code, message, fix } } };
  }
}

function createCopyEntry(
  skill: Skill,
  digest: string,
  there: CopyStatus | undefined,
  { id }: ClientTarget,
): ClientCopy {
  const { name, origin } = skill;
  const original = getOriginal(skill);
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
function getOriginal({ origin: { scope, file } }: Skill): string | undefined {
  return scope === "bundled" && file !== undefined && isShipped(file) ? undefined : file;
}

function createPlanOptions({ target, force }: CopyRequest): CopyPlanOptions {
  return { shown: (name) => join(target.shown, name), client: target.client.title, force };
}

/** Why something is not done, and what to do about it. */
export interface CopyProblem {
  code: ErrorCode;
  message: string;
  fix: string;
}

/** A skill as it is to stand in a client's folder. */
export interface WantedCopy {
  name: string;
  source: string;
  /** What it would hold there; nothing when it is refused beforehand. */
  content?: FolderContent;
  /** What is another thing there than here. */
  notes: readonly string[];
  /** The keys of its frontmatter that the client does not read. */
  lost: readonly string[];
  /** What speaks against it, whatever stands there. */
  refusal?: CopyProblem;
  /** True when it is from that very folder. */
  isThere: boolean;
}

/** What stands in a skill's place. `ours`: skillet put it there; `isLast`: and what it was copied from is gone. */
export type CopyStatus =
  | { is: "nothing" }
  | { is: "foreign"; what: "folder" | "file" | "link"; digest?: string }
  | { is: "ours"; digest: string; isEdited: boolean; isLast?: boolean };

export interface CopyStep extends Pick<WantedCopy, "name" | "source" | "notes" | "lost"> {
  action: "install" | "update" | "unchanged" | "refuse";
  /** Why, where it is not plain. */
  reason?: CopyProblem;
  /** The files that it is about, below its folder. */
  files: readonly string[];
  /** True when what stands there is as it would be written, and only has to be written down as ours. */
  adopts?: true;
}

export interface CopyRemoval {
  name: string;
  /** `forget`: it was taken away by hand, and only has to be crossed out. */
  action: "remove" | "forget" | "refuse";
  reason?: CopyProblem;
}

interface CopyPlanOptions {
  /** Where a skill would stand, as people are told. */
  shown(name: string): string;
  /** The client's title. */
  client: string;
  /** Whether copies that somebody changed by hand may be replaced and removed. What skillet did not put there never is. */
  force?: boolean | undefined;
}

/** What is to be done so that these skills stand there. Contract: pure. */
export function planCopies(
  wanted: readonly WantedCopy[],
  standing: (name: string) => CopyStatus,
  options: CopyPlanOptions,
): CopyStep[] {
  return wanted.map((one) => {
    const { name, source, notes, lost, content } = one;
    const files = content?.files ?? [];
    return { name, source, ...decideCopy(one, standing(name), options), notes, lost, files };
  });
}

/** What is to be done so that these skills stand there no more. Contract: pure. */
export function planCopyRemoval(
  names: readonly string[],
  standing: (name: string) => CopyStatus,
  options: CopyPlanOptions,
): CopyRemoval[] {
  return names.map((name) => {
    const there = standing(name);
    if (there.is === "nothing") return { name, action: "forget" };
    if (there.is === "foreign")
      return { name, action: "refuse", reason: createForeignProblem(name, there, options, "removed") };
    if (options.force)
      return { name, action: "remove", ...(there.isEdited ? { reason: createLostEditsProblem(name, options) } : {}) };
    if (there.isEdited) return { name, action: "refuse", reason: createEditedProblem(name, options, "removes") };
    return there.isLast
      ? { name, action: "refuse", reason: createLastCopyProblem(name, options) }
      : { name, action: "remove" };
  });
}

type CopyDecision = Pick<CopyStep, "action" | "reason" | "adopts">;

function decideCopy(
  { name, content, refusal, isThere }: WantedCopy,
  there: CopyStatus,
  options: CopyPlanOptions,
): CopyDecision {
  if (isThere) return { action: "unchanged", reason: createAlreadyThereProblem(name, options) };
  if (refusal || !content) return { action: "refuse", ...(refusal ? { reason: refusal } : {}) };
  if (there.is === "nothing") return { action: "install" };
  if (there.is === "foreign") {
    // A process that ended too soon may have left it, or another machine: what is the same need not be anybody's but ours.
    if (there.digest === content.digest) return { action: "unchanged", adopts: true };
    return { action: "refuse", reason: createForeignProblem(name, there, options, "replaced") };
  }
  if (there.digest === content.digest) return { action: "unchanged", ...(there.isEdited ? { adopts: true } : {}) };
  if (!there.isEdited) return { action: "update" };
  if (options.force) return { action: "update", reason: createLostEditsProblem(name, options) };
  return { action: "refuse", reason: createEditedProblem(name, options, "replaces") };
}

function createAlreadyThereProblem(name: string, { client }: CopyPlanOptions): CopyProblem {
  return {
    code: "already-there",
    message: `Skill '${name}' is in the folder of ${client} itself`,
    fix: "nothing is to be done",
  };
}

function createForeignProblem(
  name: string,
  { what }: Extract<CopyStatus, { is: "foreign" }>,
  { shown }: CopyPlanOptions,
  done: string,
): CopyProblem {
  return {
    code: "in-the-way",
    message: `${shown(name)} is a ${what} that skillet did not put there; it is not ${done}`,
    fix: done === "removed" ? "remove it by hand if you do not need it" : "move it away if you do not need it",
  };
}

function createEditedProblem(name: string, { shown }: CopyPlanOptions, does: string): CopyProblem {
  return {
    code: "edited",
    message: `${shown(name)} was changed by hand since skillet put it there`,
    fix: `keep your changes somewhere else, then --force ${does} it`,
  };
}

/** With --force: it is done, and this is what it costs. */
function createLostEditsProblem(name: string, options: CopyPlanOptions): CopyProblem {
  return {
    ...createEditedProblem(name, options, ""),
    fix: "keep your changes somewhere else first: they do not outlive --force",
  };
}

function createLastCopyProblem(name: string, { shown }: CopyPlanOptions): CopyProblem {
  return {
    code: "last-copy",
    message: `What ${shown(name)} was copied from is gone, so it may be the last copy`,
    fix: "keep it somewhere else if you need it, then --force removes it",
  };
}
