import { dirname, join } from "node:path";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { isShipped } from "../../skill/source/locations.ts";
import { getExpectedFolder } from "../../skill/source/skill-files.ts";
import { applyFolderChange, type FolderItem, recoverFolder, removeEmptyFolders } from "../../store/atomic-folder.ts";
import { type ClientCopy, type ClientCopyStore, hasOriginal } from "../../store/copy-records.ts";
import { createOmitFilter, type FolderContent, hashSkillCopy } from "../../store/folder-copy.ts";
import { withFileLock } from "../../store/locked-file.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { mapAsync } from "../../util/async.ts";
import { statIfExists } from "../../util/file-access.ts";
import { omitUndefined } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";
import { type AdaptedSkill, adaptSkill, listOmittedFiles } from "./adapt-skill.ts";
import { type ClientTarget, listCopyNames, type NativeClient, readCopyStatus } from "./native-clients.ts";

interface CopyRequest {
  target: ClientTarget;
  installs: ClientCopyStore;
  force?: boolean | undefined;
  /** Plans without writing. */
  isDryRun?: boolean | undefined;
}

export interface WriteCopiesRequest extends CopyRequest {
  skills: readonly Skill[];
  /**
   * Returns a reason not to give a skill to the client, independent of existing files. A SkillError that it throws
   * counts too.
   */
  findRefusal?(skill: Skill): Problem | undefined | Promise<Problem | undefined>;
  /** Called after each skill was checked. */
  onChecked?(): void;
}

/**
 * Copies skills into a client's folder: all that can be copied, all or nothing. Returns the step for each. Throws a
 * SkillError, and then nothing was changed.
 */
export async function writeClientCopies(request: WriteCopiesRequest): Promise<CopyStep[]> {
  const { target, installs, skills } = request;
  checkCopyRecord(installs);
  // Before the lock: a source may be a server.
  const items = await mapAsync(skills, async (skill) => [skill.name, await prepareItem(skill, request)] as const);
  return withCopyLock(request, () => {
    const prepared = new Map(items);
    const wanted = [...prepared.values()].map((one) => one.wanted);
    const statuses = new Map(wanted.map(({ name }) => [name, readCopyStatus(target, name, installs)]));
    const steps = planCopies(wanted, (name) => statuses.get(name) as CopyStatus, createPlanOptions(request));
    if (request.isDryRun) return steps;
    const changing = steps.filter(({ action, adopts }) => action === "install" || action === "update" || adopts);
    const made = findMadeFolder(target, installs) ?? findTopmostMissing(target.folder);
    const entries = changing.flatMap(({ name }) => {
      const { skill, wanted } = prepared.get(name) as PreparedCopy;
      const { digest } = wanted.content as FolderContent;
      const copy = { ...createCopyEntry(skill, digest, statuses.get(name), target), ...omitUndefined({ made }) };
      const entry = [join(target.folder, name), copy] as const;
      // A copy that outlived its original is now the original: of two copies of each other, neither would count as a
      // skill.
      const { folder = "" } = skill.origin;
      const outlived = installs.entries()[folder];
      return outlived && !hasOriginal(outlived) ? [entry, [folder, undefined] as const] : [entry];
    });
    const writing = changing.filter(({ adopts }) => !adopts);
    if (entries.length === 0) return steps;
    installs.recordWhile(Object.fromEntries(entries), () => {
      if (writing.length === 0) return;
      applyFolderChange({
        skillsDir: target.folder,
        items: writing.map(({ name }) => (prepared.get(name) as PreparedCopy).item),
        replaceable: writing.filter(({ action }) => action === "update").map(({ name }) => name),
        isDurable: true,
        isReal: true,
      });
    });
    return steps;
  });
}

/**
 * Removes copies from a client's folder. Returns the step for each. Throws a SkillError, and then nothing was changed.
 */
export function removeClientCopies(request: CopyRequest & { names: readonly string[] }): CopyRemoval[] {
  return withCopyLock(request, () => {
    const { target, installs, names } = request;
    const steps = planCopyRemoval(names, (name) => readCopyStatus(target, name, installs), createPlanOptions(request));
    if (request.isDryRun) return steps;
    const named = (action: CopyRemoval["action"]) =>
      steps.flatMap((step) => (step.action === action ? [step.name] : []));
    const removed = named("remove");
    if (removed.length > 0)
      applyFolderChange({ skillsDir: target.folder, items: [], remove: removed, isDurable: true, isReal: true });
    const gone = [...removed, ...named("forget")];
    const made = findMadeFolder(target, installs);
    // Removed after the copies: an entry without a copy is harmless, but a copy without an entry would not count as
    // skillet's.
    if (gone.length > 0) installs.remove(gone.map((name) => join(target.folder, name)));
    if (made !== undefined && listCopyNames(target, installs).length === 0) removeEmptyFolders(target.folder, made);
    return steps;
  });
}

/** Prepares the copy of a skill for a client. Throws a SkillError when it cannot be copied. */
export async function prepareCopy(
  skill: Skill,
  client: NativeClient,
): Promise<AdaptedSkill & { content: FolderContent }> {
  const { notes, ...conformed } = await adaptSkill(skill, client);
  const content = await hashSkillCopy(skill, conformed.skillMd, conformed.files);
  return { ...conformed, notes: [...notes, ...(await listOmittedFiles(skill))], content };
}

/** Throws a SkillError when the record of copies cannot be read, which differs from having no copies. */
export function checkCopyRecord(installs: ClientCopyStore): void {
  const problem = installs.problem();
  if (problem === undefined) return;
  throw new SkillError("exports-unreadable", {
    message: `${installs.file} ${problem}`,
    fix: "fix the file, or remove it: then skillet recognizes its own unedited copies again",
  });
}

/**
 * Runs one change at a time, so that the second one sees the result of the first. A dry run changes nothing, and takes
 * no lock.
 */
function withCopyLock<T>({ installs, isDryRun, target }: CopyRequest, work: () => T): T {
  checkCopyRecord(installs);
  if (isDryRun) return work();
  return withFileLock(installs.file.replace(/\.json$/, ""), () => {
    installs.remove([]); // Reads the record again: another process may have written it during the wait.
    recoverFolder(target.folder); // Rolls back before the check, not after it, what a killed process left there.
    return work();
  });
}

/** Returns the topmost folder that was created for a client's folder of skills, by the record. */
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

async function prepareItem(
  skill: Skill,
  { target, findRefusal: refuses, onChecked: onLooked }: WriteCopiesRequest,
): Promise<PreparedCopy> {
  const { name, origin } = skill;
  const path = getSkillLocation(skill);
  const isThere = path !== "" && isInside(target.folder, path);
  const bare: WantedCopy = { name, source: origin.source, notes: [], lost: [], isInTarget: isThere };
  const item: FolderItem = { name, source: origin.folder === undefined ? "inline" : "ref" };
  onLooked?.();
  if (isThere) return { skill, item, wanted: bare };
  try {
    const refusal = await refuses?.(skill);
    if (refusal) return { skill, item, wanted: { ...bare, refusal } };
    const { skillMd, files, notes, lost, content } = await prepareCopy(skill, target.client);
    const { folder } = origin;
    const { digest } = content;
    const expected = getExpectedFolder(origin);
    const whole: Partial<FolderItem> =
      folder === undefined ? {} : { folder, expected, links: "inside", omit: createOmitFilter(files), digest };
    return { skill, item: { ...item, skillMd, files, ...whole }, wanted: { ...bare, notes, lost, content } };
  } catch (error) {
    if (!(error instanceof SkillError)) throw error;
    return { skill, item, wanted: { ...bare, refusal: error.problem } };
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
  // Uses the state on disk: the last recorded copy may never have been written. Edits of the user are kept.
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

/** Returns undefined for a shipped skill: it exists as long as the package does, wherever that is installed. */
function getOriginal({ origin: { scope, file } }: Skill): string | undefined {
  return scope === "bundled" && file !== undefined && isShipped(file) ? undefined : file;
}

function createPlanOptions({ target, force }: CopyRequest): CopyPlanOptions {
  return { formatPath: (name) => join(target.displayPath, name), client: target.client.title, force };
}

/** A skill to copy into a client's folder. */
export interface WantedCopy {
  name: string;
  source: string;
  /** The content of the copy; undefined if the skill is refused before. */
  content?: FolderContent;
  /** Differences in behavior, a sentence each. */
  notes: readonly string[];
  /** The keys of its frontmatter that the client does not read. */
  lost: readonly string[];
  /** A reason not to copy it, independent of existing files. */
  refusal?: Problem;
  /** True if the skill is from that very folder. */
  isInTarget: boolean;
}

/** The status of a skill's path. `ours`: skillet wrote it; `isLast`: and its original is gone. */
export type CopyStatus =
  | { is: "nothing" }
  | { is: "foreign"; what: "folder" | "file" | "link"; digest?: string }
  | { is: "ours"; digest: string; isEdited: boolean; isLast?: boolean };

export interface CopyStep extends Pick<WantedCopy, "name" | "source" | "notes" | "lost"> {
  action: "install" | "update" | "unchanged" | "refuse";
  /** The reason, if it is not obvious. */
  reason?: Problem;
  /** The affected files, below its folder. */
  files: readonly string[];
  /** True if the existing folder equals the copy, and only has to be recorded. */
  adopts?: true;
}

export interface CopyRemoval {
  name: string;
  /** `forget`: the copy was removed by hand, and only its record has to go. */
  action: "remove" | "forget" | "refuse";
  reason?: Problem;
}

interface CopyPlanOptions {
  /** Formats the path of a skill for messages. */
  formatPath(name: string): string;
  /** The client's title. */
  client: string;
  /**
   * True if copies that were edited by hand may be replaced and removed. Folders that skillet did not create never are.
   */
  force?: boolean | undefined;
}

/** Plans the steps that copy these skills. Contract: pure. */
export function planCopies(
  wanted: readonly WantedCopy[],
  statuses: (name: string) => CopyStatus,
  options: CopyPlanOptions,
): CopyStep[] {
  return wanted.map((one) => {
    const { name, source, notes, lost, content } = one;
    const files = content?.files ?? [];
    return { name, source, ...decideCopy(one, statuses(name), options), notes, lost, files };
  });
}

/** Plans the steps that remove these copies. Contract: pure. */
export function planCopyRemoval(
  names: readonly string[],
  statuses: (name: string) => CopyStatus,
  options: CopyPlanOptions,
): CopyRemoval[] {
  return names.map((name) => {
    const there = statuses(name);
    if (there.is === "nothing") return { name, action: "forget" };
    if (there.is === "foreign")
      return { name, action: "refuse", reason: createForeignProblem(name, there, options, "removed") };
    if (options.force)
      return { name, action: "remove", ...(there.isEdited ? { reason: createLostEditsProblem(name, options) } : {}) };
    if (there.isEdited) return { name, action: "refuse", reason: createEditedProblem(name, options, "removes") };
    return there.isLast
      ? { name, action: "refuse", reason: createLastProblem(name, options) }
      : { name, action: "remove" };
  });
}

type CopyDecision = Pick<CopyStep, "action" | "reason" | "adopts">;

function decideCopy(
  { name, content, refusal, isInTarget: isThere }: WantedCopy,
  there: CopyStatus,
  options: CopyPlanOptions,
): CopyDecision {
  if (isThere) return { action: "unchanged", reason: createAlreadyThereProblem(name, options) };
  if (refusal || !content) return { action: "refuse", ...(refusal ? { reason: refusal } : {}) };
  if (there.is === "nothing") return { action: "install" };
  if (there.is === "foreign") {
    // A killed process or another machine may have left it: an identical folder can count as a copy.
    if (there.digest === content.digest) return { action: "unchanged", adopts: true };
    return { action: "refuse", reason: createForeignProblem(name, there, options, "replaced") };
  }
  if (there.digest === content.digest) return { action: "unchanged", ...(there.isEdited ? { adopts: true } : {}) };
  if (!there.isEdited) return { action: "update" };
  if (options.force) return { action: "update", reason: createLostEditsProblem(name, options) };
  return { action: "refuse", reason: createEditedProblem(name, options, "replaces") };
}

function createAlreadyThereProblem(name: string, { client }: CopyPlanOptions): Problem {
  return {
    code: "already-present",
    message: `Skill '${name}' is already in the folder of ${client}`,
    fix: "there is nothing to do",
  };
}

function createForeignProblem(
  name: string,
  { what }: Extract<CopyStatus, { is: "foreign" }>,
  { formatPath: shown }: CopyPlanOptions,
  done: string,
): Problem {
  return {
    code: "unmanaged-path",
    message: `${shown(name)} is a ${what} that skillet did not create; it is not ${done}`,
    fix: done === "removed" ? "remove it by hand if you do not need it" : "move it away if you do not need it",
  };
}

function createEditedProblem(name: string, { formatPath: shown }: CopyPlanOptions, does: string): Problem {
  return {
    code: "edited",
    message: `${shown(name)} was edited by hand since skillet created it`,
    fix: `save your changes in another place, then --force ${does} it`,
  };
}

/** The cost of --force, which is applied anyway. */
function createLostEditsProblem(name: string, options: CopyPlanOptions): Problem {
  return {
    ...createEditedProblem(name, options, ""),
    fix: "save your changes in another place first: --force discards them",
  };
}

function createLastProblem(name: string, { formatPath: shown }: CopyPlanOptions): Problem {
  return {
    code: "last-copy",
    message: `The original of ${shown(name)} is gone, so it may be the last copy`,
    fix: "save it in another place if you need it, then --force removes it",
  };
}
