import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../../config/host.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import type { Skill } from "../../skill/skill.ts";
import { createOwnFolders } from "../../store/own-folders.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { diffLines } from "../../util/diff.ts";
import { createFolder } from "../../util/file-access.ts";
import type { Redactor } from "../../util/redact.ts";
import { formatCount, formatNumber } from "../../util/text.ts";
import { shortenHomePath } from "../policy/trust-policy.ts";
import { redactInput } from "../run/redaction.ts";
import { toProblem } from "../run/run-result.ts";
import { emitRunEvent, type StepRunner } from "../run/step-runner.ts";
import type { WorkspaceDifference } from "./hold-changes.ts";
import { isGitFolder, isVolatilePart } from "./sensitive-paths.ts";
import { joinRawPath, toPathText, toRawPath } from "./walk-workspace.ts";
import {
  chownTreeLike,
  copyWorkspaceTree,
  moveWorkspaceTree,
  removeWorkspaceTree,
  withSafeParent,
} from "./workspace-files.ts";
import {
  createSnapshotEntry,
  digestPath,
  listRawNames,
  readEntryStats,
  readLinkTarget,
  readRawFile,
} from "./workspace-snapshot.ts";

/** One sensitive path that code changed. */
export interface HeldChange {
  /** The path in the workspace, as shown to users. */
  path: string;
  change: "added" | "changed" | "removed";
  /** The group in the table of sensitive paths: it tells which programs read the path. */
  group: string;
  /** The complete change, as lines of a diff. */
  diff: string;
  /** Files that the diff only counts, one per line. */
  details?: string;
  /** The reason why the workspace could not be restored, if any. */
  problem?: string;
  /** The path with one character for each byte. */
  raw: string;
  /** The path of the new content within the folder of the held change. */
  stored?: string;
  /** Digest of the new content when the diff was made. */
  digest?: string;
  /** Digest of the workspace content after the change was taken out. */
  current: string;
}

/** Changes of sensitive paths made by one command, held outside the workspace until they are approved. */
export interface HeldChanges {
  id: string;
  workspace: string;
  at: string;
  skill: string;
  changes: HeldChange[];
}

/** The folder for held changes of one command. It is created on disk with the first one. */
export interface HeldChangesFolder {
  readonly id: string;
  /** The path of the folder, with one character for each byte. */
  readonly root: string;
  /** Returns a new path to move a file or folder to. */
  next(): { name: string; path: string };
  save(held: Omit<HeldChanges, "id">): HeldChanges;
}

const RECORD_FILE = "record.json";

/** Returns the folder of held changes, and of the snapshots of running commands. */
export function getHeldFolder(home: string): string {
  return join(home, "held");
}

export function createHeldFolder(home: string): HeldChangesFolder {
  const id = `held-${randomBytes(4).toString("hex")}`;
  const folder = join(getHeldFolder(home), id);
  let files = 0;
  const make = () => createFolder(folder, 0o700);
  return {
    id,
    root: toRawPath(folder),
    next() {
      make();
      const name = String(files++);
      return { name, path: toRawPath(join(folder, name)) };
    },
    save(held) {
      make();
      const record = { id, ...held };
      const file = join(folder, RECORD_FILE);
      writeFileSync(`${file}.new`, JSON.stringify(record, undefined, 2), { mode: 0o600 });
      renameSync(`${file}.new`, file);
      return record;
    },
  };
}

/** Lists all held changes, the newest first. */
export function listHeldChanges(home: string): HeldChanges[] {
  let names: string[];
  try {
    names = readdirSync(getHeldFolder(home)).filter((name) => /^held-[\da-f]{8}$/.test(name));
  } catch {
    return [];
  }
  return names
    .flatMap((name) => readHeldChanges(home, name) ?? [])
    .sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
}

export function readHeldChanges(home: string, id: string): HeldChanges | undefined {
  if (!/^held-[\da-f]{8}$/.test(id)) return undefined;
  try {
    const record = JSON.parse(readFileSync(join(getHeldFolder(home), id, RECORD_FILE), "utf8"));
    return record.id === id && Array.isArray(record.changes) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Applies held changes to the workspace. Throws a SkillError, and changes nothing, if the workspace has changed since. */
export function applyHeldChanges(home: string, { id, workspace, changes }: HeldChanges): void {
  const root = toRawPath(workspace);
  const differs = changes.find(({ raw, current }) => digestCurrent(root, raw) !== current);
  if (differs) {
    throw new SkillError("held-conflict", {
      message: `${differs.path} has changed in ${workspace} since ${id} was held`,
      fix: `compare it with ${join(getHeldFolder(home), id)} and change it yourself, then run`,
      commands: [`skillet approve ${id} --deny`],
    });
  }
  const unstored = changes.find(({ change, stored }) => change !== "removed" && stored === undefined);
  if (unstored) {
    throw new SkillError("held-unapplied", {
      message: `${unstored.path} was not held completely: ${unstored.problem}`,
      fix: "change it yourself, then run",
      commands: [`skillet approve ${id} --deny`],
    });
  }
  const altered = changes.find(
    ({ stored, digest }) =>
      digest !== undefined && digestPath(toRawPath(join(getHeldFolder(home), id)), stored ?? "") !== digest,
  );
  if (altered) {
    throw new SkillError("held-conflict", {
      message: `${altered.path} differs from the diff of ${id}: it was changed after it was held`,
      fix: `look at ${join(getHeldFolder(home), id)} and change it yourself, then run`,
      commands: [`skillet approve ${id} --deny`],
    });
  }
  for (const { raw, path, stored } of changes) {
    try {
      // The old content is removed only after the new content is in the same folder.
      const source = stored === undefined ? undefined : toRawPath(join(getHeldFolder(home), id, stored));
      withSafeParent(root, raw, (target) => replacePath(source, target), {
        make: { onBlocked: (at) => throwBlocked(at) },
      });
    } catch (error) {
      if (error instanceof SkillError) throw error;
      const fix = `the held files are in ${join(getHeldFolder(home), id)}`;
      throw new SkillError("held-unapplied", {
        message: `Cannot change ${path}: ${getErrorMessage(error)}`,
        fix,
      });
    }
  }
  createOwnFolders(home).markChanged(
    changes.map(({ raw }) => join(workspace, toPathText(raw))),
    "run",
  );
  discardHeldChanges(home, id);
}

function replacePath(from: string | undefined, target: string): void {
  const aside = `${target}.${randomBytes(4).toString("hex")}`;
  if (from !== undefined) {
    copyWorkspaceTree(from, aside);
    chownTreeLike(`${target.slice(0, target.lastIndexOf("/"))}/.`, aside);
  }
  removeWorkspaceTree(target);
  if (from !== undefined) moveWorkspaceTree(aside, target);
}

function throwBlocked(at: string): never {
  const fix = "move it elsewhere first";
  throw new SkillError("held-conflict", { message: `${toPathText(at)} is no longer a folder`, fix });
}

/** Returns a digest of the current content of a workspace path. */
export function digestCurrent(root: string, path: string): string {
  try {
    return withSafeParent(root, path, (location) => {
      const [folder, name] = [
        location.slice(0, location.lastIndexOf("/")),
        location.slice(location.lastIndexOf("/") + 1),
      ];
      return readEntryStats(folder, name) ? digestPath(folder, name) : NOTHING_DIGEST;
    });
  } catch {
    return NOTHING_DIGEST;
  }
}

export const NOTHING_DIGEST = "nothing";

export function discardHeldChanges(home: string, id: string): void {
  const folder = toRawPath(join(getHeldFolder(home), id));
  removeWorkspaceTree(folder);
  rmSync(join(getHeldFolder(home), id), { recursive: true, force: true });
}

/** Formats paths: `.envrc (added), CLAUDE.md (changed)`. */
export function formatHeldPaths(changes: readonly HeldChange[], max = Number.POSITIVE_INFINITY): string {
  const listed = changes.slice(0, max).map(({ path, change }) => `${path} (${change})`);
  const more = changes.length - listed.length;
  return [...listed, ...(more > 0 ? [`and ${formatCount(more, "more path")}`] : [])].join(", ");
}

/** Asks for the approval of held changes. Contract: resolves; false if no user can be asked now. */
export type ReviewChanges = (held: HeldChanges) => Promise<boolean>;

export interface ReviewContext {
  run: string;
  skill: Skill;
  host: Host;
  steps: StepRunner;
  redactor: Redactor;
  signal: AbortSignal;
}

/** Creates a review that asks the host's approver, with the complete diff. Earlier approvals do not cover it. */
export function createChangeReview({ run, skill, host, steps, redactor, signal }: ReviewContext): ReviewChanges {
  return async (held) => {
    if (signal.aborted) return false;
    const about = { run, source: skill.origin.source, location: getSkillLocation(skill) };
    const request = createHeldRequest(held, {
      ...about,
      hiding: redactor,
      where: shortenHomePath(held.workspace, host),
    });
    const at = { step: 0, tool: request.tool };
    const subject = { run, skill: skill.name };
    const approval = await steps.ask({
      request,
      signal,
      redact: (text) => redactor.redact(text),
      onRequested: () => emitRunEvent(steps, subject, { type: "approval-requested", ...at, approvalRequest: request }),
      onAnswered: (answer) => emitRunEvent(steps, subject, { type: "approval-decided", ...at, ...answer }),
    });
    return approval?.isApproved === true;
  };
}

/** Returns the approval request for held changes. Its input is the complete diff. */
export function createHeldRequest(
  { skill, changes }: HeldChanges,
  {
    hiding: redactor,
    where,
    ...about
  }: { hiding: Redactor; where: string } & Partial<Pick<ApprovalRequest, "run" | "source" | "location">>,
): ApprovalRequest {
  const diffs = Object.fromEntries(changes.map(({ path, change, diff }) => [`${path} (${change})`, diff]));
  return {
    ...{ run: "", skill, source: "", location: "", ...about },
    tool: "workspace",
    on: "workspace",
    input: redactInput(diffs, redactor),
    what: redactor.redact(`change sensitive paths: ${formatHeldPaths(changes)}`),
    where: redactor.redact(where),
    amount: formatCount(changes.length, "path"),
    reason: "other programs read these paths automatically",
    isOnce: true,
  };
}

/** Applies the approved changes. Returns the problems to report for the others. */
export async function settleHeldChanges(
  home: string,
  held: HeldChanges,
  { review, isRecovered = false }: { review?: ReviewChanges | undefined; isRecovered?: boolean },
): Promise<Problem[]> {
  const isWhole = held.changes.every(({ problem }) => problem === undefined);
  if (!isWhole || !(await review?.(held))) return [createHeldProblem(held, isRecovered)];
  try {
    applyHeldChanges(home, held);
    return [];
  } catch (error) {
    return [toProblem(error)];
  }
}

function createHeldProblem({ id, changes }: HeldChanges, isRecovered: boolean): Problem {
  const who = isRecovered ? "A killed run" : "The code";
  const unrestored = changes.flatMap(({ path, problem }) => (problem === undefined ? [] : [`${path}: ${problem}`]));
  const unsettled = unrestored.length === 0 ? "" : `. Not restored: ${unrestored.join("; ")}`;
  return {
    code: "workspace-protected",
    message: `${who} changed sensitive paths: ${formatHeldPaths(changes)}. Held as ${id}${unsettled}`,
    fix: "see the complete diff and apply it, or discard it",
    commands: [`skillet approve ${id}`, `skillet approve ${id} --deny`],
    data: { diff: changes.map((one) => `${one.path} (${one.change})\n${one.diff}`).join("\n") },
  };
}

/** Longer files are shown as size and digest: an approval request must stay readable. */
const MAX_DIFF_TEXT = 256 * 1024;
const MAX_DIFF_FILES = 2000;

/** The change of a sensitive path, for users. */
interface HeldDiff {
  /** Each file before and after. */
  diff: string;
  /** The files that the diff only counts, each with its size and digest. */
  details?: string;
}

/** The location of the new content: the workspace, or the folder of held changes. */
interface HeldContent {
  root: string;
  path: string;
  /** The command that prints the details. */
  command: string;
}

/**
 * Compares the current content of a path with the content before. In a repository, the files that control git come first (HEAD,
 * configuration, hooks, attributes); new objects, refs and logs are counted, with one digest for all of them.
 */
export function formatHeldDiff(
  { root, path, command }: HeldContent,
  { row, before }: Pick<WorkspaceDifference, "row" | "before">,
): HeldDiff {
  const lines: string[] = [];
  const names = new Set<string>();
  let isGit = false;
  const queue = [""];
  for (let at = 0; at < queue.length; at++) {
    const inner = queue[at] as string;
    const whole = joinInnerPath(path, inner);
    const stats = readEntryStats(root, whole);
    if (!stats) continue;
    if (!stats.isDirectory()) names.add(inner);
    else {
      const found = listRawNames(root, whole);
      if (inner === "") isGit = isGitFolder(row, found);
      queue.push(...found.map((name) => joinRawPath(inner, name)));
    }
  }
  for (const [inner, { kind }] of before) if (kind !== "folder") names.add(inner);
  const isCounted = (inner: string) => isGit && isIgnoredByGit(inner) && !before.has(inner);
  const sorted = [...names].sort((a, b) => (isGit ? rankGitPath(a) - rankGitPath(b) : 0) || (a < b ? -1 : 1));
  const shown = sorted.filter((inner) => !isCounted(inner));
  const counted = sorted.filter(isCounted);
  for (const inner of shown.slice(0, MAX_DIFF_FILES)) {
    const [old, now] = [describeEntry(before.get(inner)), describeCurrent(root, joinInnerPath(path, inner))];
    const changed = diffLines(old, now);
    if (inner !== "") lines.push(toPathText(inner));
    lines.push(...(changed.length === 0 ? ["@@ only its mode or kind changed @@"] : changed));
  }
  if (shown.length > MAX_DIFF_FILES) lines.push(`@@ and ${formatCount(shown.length - MAX_DIFF_FILES, "more file")} @@`);
  if (counted.length === 0) return { diff: (lines.length === 0 ? ["@@ an empty folder @@"] : lines).join("\n") };
  const details = counted
    .map((inner) => `${toPathText(inner)}  ${summarizeFile(root, joinInnerPath(path, inner))}`)
    .join("\n");
  const digest = createHash("sha256").update(details).digest("hex");
  lines.push(`@@ and ${formatCount(counted.length, "file")} of objects, refs, logs and samples, sha256 ${digest} @@`);
  lines.push(`@@ to list them: ${command} @@`);
  return { diff: lines.join("\n"), details };
}

/** Returns true for files that do not control git. HEAD does: it selects the checkout. `hooks/x.sample` is not a hook. */
function isIgnoredByGit(inner: string): boolean {
  return inner.toLowerCase() !== "head" && (isVolatilePart(inner) || /^hooks\/[^/]+\.sample$/.test(inner));
}

/** The most important files come first, in this order. */
const GIT_ORDER = [/^head$/i, /^config/i, /^hooks(?:\/|$)/i, /^info\/attributes$/i, /^info(?:\/|$)/i];

function rankGitPath(inner: string): number {
  const rank = GIT_ORDER.findIndex((pattern) => pattern.test(inner));
  return rank < 0 ? GIT_ORDER.length : rank;
}

function summarizeFile(root: string, path: string): string {
  const stats = readEntryStats(root, path);
  if (!stats || createSnapshotEntry(stats).kind !== "file") return describeCurrent(root, path).trimEnd();
  const bytes = readRawFile(root, path, Number(stats.size));
  const digest = bytes ? createHash("sha256").update(bytes).digest("hex") : "not read";
  return `${formatNumber(Number(stats.size))} bytes  sha256 ${digest}`;
}

function joinInnerPath(path: string, inner: string): string {
  return inner === "" ? path : `${path}/${inner}`;
}

function describeEntry(entry: { kind: string; bytes?: Buffer } | undefined): string {
  if (!entry) return "";
  if (entry.kind === "link") return `symlink to ${entry.bytes}\n`;
  return entry.kind === "file" && entry.bytes ? decodeDiffText(entry.bytes, entry.bytes.length) : `a ${entry.kind}\n`;
}

function describeCurrent(root: string, path: string): string {
  const stats = readEntryStats(root, path);
  if (!stats) return "";
  const { kind } = createSnapshotEntry(stats);
  if (kind === "link") return `symlink to ${readLinkTarget(root, path)}\n`;
  if (kind !== "file") return `a ${stats.isSocket() ? "socket" : stats.isFIFO() ? "named pipe" : kind}\n`;
  return decodeDiffText(readRawFile(root, path, 64 * 1024 * 1024), Number(stats.size));
}

function decodeDiffText(bytes: Buffer | undefined, size: number): string {
  if (!bytes) return `an unreadable file, ${formatNumber(size)} bytes\n`;
  const digest = () => createHash("sha256").update(bytes).digest("hex");
  if (size > MAX_DIFF_TEXT || bytes.includes(0)) return `${formatNumber(size)} bytes, sha256 ${digest()}\n`;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return `${formatNumber(size)} bytes, sha256 ${digest()}\n`;
  }
}
