import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../../config/host.ts";
import { getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import type { Skill } from "../../skill/skill.ts";
import { createOwnFolders } from "../../store/own-folders.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { diffLines } from "../../util/diff.ts";
import type { Redactor } from "../../util/redact.ts";
import { formatCount, formatNumber } from "../../util/text.ts";
import { shortenHomePath } from "../policy/setup-policy.ts";
import { toProblem } from "../run/run-result.ts";
import { emitRunEvent, type StepRunner } from "../run/step-runner.ts";
import { redactInput } from "../run/tool-policy.ts";
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
  /** In the workspace, as people read it. */
  path: string;
  change: "added" | "changed" | "removed";
  /** What other programs do with it: a group of the table of sensitive paths. */
  group: string;
  /** All of the change, as lines of a diff. */
  diff: string;
  /** Files that the diff only counts, one a line. */
  details?: string;
  /** Whether the workspace is as it was, or why not. */
  problem?: string;
  /** The path with one character for each byte. */
  raw: string;
  /** Where the new content is, within the folder of the held change. */
  stored?: string;
  /** Digest of the new content, as it was when the diff was made. */
  digest?: string;
  /** Digest of what is in the workspace since the change was taken out of it. */
  current: string;
}

/** Changes of sensitive paths that one command made, taken out of the workspace until they are approved. */
export interface HeldChanges {
  id: string;
  workspace: string;
  at: string;
  skill: string;
  changes: HeldChange[];
}

/** The folder for held changes of one command. Nothing is on the disk before the first one. */
export interface HeldChangesFolder {
  readonly id: string;
  /** The path of the folder, with one character for each byte. */
  readonly root: string;
  /** A new place to move something to. */
  next(): { name: string; place: string };
  save(held: Omit<HeldChanges, "id">): HeldChanges;
}

const RECORD_FILE = "record.json";

/** Where held changes are, and snapshots of commands that run. */
export function getHeldFolder(home: string): string {
  return join(home, "held");
}

export function createHeldFolder(home: string): HeldChangesFolder {
  const id = `held-${randomBytes(4).toString("hex")}`;
  const folder = join(getHeldFolder(home), id);
  let files = 0;
  const make = () => mkdirSync(folder, { recursive: true, mode: 0o700 });
  return {
    id,
    root: toRawPath(folder),
    next() {
      make();
      const name = String(files++);
      return { name, place: toRawPath(join(folder, name)) };
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

/** All held changes, the newest first. */
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

/** Puts held changes into the workspace. Throws a SkillError, and changes nothing, where the workspace has changed since. */
export function applyHeldChanges(home: string, { id, workspace, changes }: HeldChanges): void {
  const root = toRawPath(workspace);
  const differs = changes.find(({ raw, current }) => digestCurrent(root, raw) !== current);
  if (differs) {
    throw new SkillError("held-conflict", {
      message: `${differs.path} has changed in ${workspace} since ${id} was held`,
      fix: `compare it with ${join(getHeldFolder(home), id)}, and change it yourself; then: skillet approve ${id} --deny`,
    });
  }
  const unstored = changes.find(({ change, stored }) => change !== "removed" && stored === undefined);
  if (unstored) {
    throw new SkillError("held-unapplied", {
      message: `${unstored.path} was not held as a whole: ${unstored.problem}`,
      fix: `change it yourself, then run: skillet approve ${id} --deny`,
    });
  }
  const altered = changes.find(
    ({ stored, digest }) =>
      digest !== undefined && digestPath(toRawPath(join(getHeldFolder(home), id)), stored ?? "") !== digest,
  );
  if (altered) {
    throw new SkillError("held-conflict", {
      message: `${altered.path} is not what ${id} showed: it was written to after it had been held`,
      fix: `look at ${join(getHeldFolder(home), id)}, and change it yourself; then: skillet approve ${id} --deny`,
    });
  }
  for (const { raw, path, stored } of changes) {
    try {
      // What is replaced is removed only once the new content is in its folder.
      const place = stored === undefined ? undefined : toRawPath(join(getHeldFolder(home), id, stored));
      withSafeParent(root, raw, (target) => replacePath(place, target), {
        make: { onBlocked: (at) => throwBlocked(at) },
      });
    } catch (error) {
      if (error instanceof SkillError) throw error;
      const fix = `its files are in ${join(getHeldFolder(home), id)}`;
      throw new SkillError("held-unapplied", {
        message: `${path} could not be changed: ${getErrorMessage(error)}`,
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
  const fix = "move it away first";
  throw new SkillError("held-conflict", { message: `${toPathText(at)} is no folder any more`, fix });
}

/** Digest of what is at a path of the workspace. */
export function digestCurrent(root: string, path: string): string {
  try {
    return withSafeParent(root, path, (place) => {
      const [folder, name] = [place.slice(0, place.lastIndexOf("/")), place.slice(place.lastIndexOf("/") + 1)];
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

/** `.envrc (added), CLAUDE.md (changed)`. */
export function formatHeldPaths(changes: readonly HeldChange[], most = Number.POSITIVE_INFINITY): string {
  const said = changes.slice(0, most).map(({ path, change }) => `${path} (${change})`);
  const more = changes.length - said.length;
  return [...said, ...(more > 0 ? [`and ${formatCount(more, "more path")}`] : [])].join(", ");
}

/** Asks for the approval of held changes. Contract: resolves; false where nobody can be asked now. */
export type ReviewChanges = (held: HeldChanges) => Promise<boolean>;

interface ReviewContext {
  run: string;
  skill: Skill;
  host: Host;
  port: StepRunner;
  hiding: Redactor;
  signal: AbortSignal;
}

/** Asks whoever approves for the host, with the complete diff. No approval that was given before covers it. */
export function createChangeReview({ run, skill, host, port, hiding, signal }: ReviewContext): ReviewChanges {
  return async (held) => {
    if (signal.aborted) return false;
    const about = { run, source: skill.origin.source, place: getSkillLocation(skill) };
    const effect = createHeldRequest(held, { ...about, hiding, where: shortenHomePath(held.workspace, host) });
    const at = { step: 0, tool: effect.tool };
    const whose = { run, skill: skill.name };
    const approval = await port.ask({
      effect,
      signal,
      hide: (text) => hiding.text(text),
      onAsked: () => emitRunEvent(port, whose, { type: "approval-asked", ...at, effect }),
      onGiven: (given) => emitRunEvent(port, whose, { type: "approval-given", ...at, ...given }),
    });
    return approval?.isApproved === true;
  };
}

/** Returns the approval request for held changes: their complete diff is its input. */
export function createHeldRequest(
  { skill, changes }: HeldChanges,
  {
    hiding,
    where,
    ...about
  }: { hiding: Redactor; where: string } & Partial<Pick<ApprovalRequest, "run" | "source" | "place">>,
): ApprovalRequest {
  const diffs = Object.fromEntries(changes.map(({ path, change, diff }) => [`${path} (${change})`, diff]));
  return {
    ...{ run: "", skill, source: "", place: "", ...about },
    tool: "workspace",
    on: "workspace",
    input: redactInput(diffs, hiding),
    what: hiding.text(`change sensitive paths: ${formatHeldPaths(changes)}`),
    where: hiding.text(where),
    amount: formatCount(changes.length, "path"),
    reason: "other programs obey these paths without being started for them",
    isOnce: true,
  };
}

/** Applies held changes that are approved. Returns what has to be said of the others. */
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
  const who = isRecovered ? "A run that was killed" : "The code";
  const left = changes.flatMap(({ path, problem }) => (problem === undefined ? [] : [`${path}: ${problem}`]));
  const unsettled = left.length === 0 ? "" : `. Not put back: ${left.join("; ")}`;
  return {
    code: "workspace-protected",
    message: `${who} changed what other programs obey: ${formatHeldPaths(changes)}. Held as ${id}${unsettled}`,
    fix: `\`skillet approve ${id}\` shows the complete diff and applies it; \`skillet approve ${id} --deny\` removes it`,
    diff: changes.map((one) => `${one.path} (${one.change})\n${one.diff}`).join("\n"),
  };
}

/** Longer files are named with their size and digest: nobody reads more in a question. */
const MAX_DIFF_TEXT = 256 * 1024;
const MAX_DIFF_FILES = 2000;

/** The change of a sensitive path, for people. */
interface HeldDiff {
  /** Each file as it was and as it is now. */
  diff: string;
  /** Each file that the diff only counts, with its size and digest. */
  details?: string;
}

/** Where the new content is: in the workspace, or in the folder of held changes. */
interface HeldContent {
  root: string;
  path: string;
  /** The command that shows the details. */
  command: string;
}

/**
 * Compares what is at a place with what was there before. Of a repository, what git obeys comes first (HEAD, configuration, hooks, attributes);
 * new objects, refs and logs are counted, with a digest of all of them.
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
  lines.push(`@@ the list of these: ${command} @@`);
  return { diff: lines.join("\n"), details };
}

/** What git takes no orders from, but for HEAD, which says what is checked out. `hooks/x.sample` is not a hook. */
function isIgnoredByGit(inner: string): boolean {
  return inner.toLowerCase() !== "head" && (isVolatilePart(inner) || /^hooks\/[^/]+\.sample$/.test(inner));
}

/** What decides comes first, in this order. */
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
  if (!bytes) return `a file that cannot be read, ${formatNumber(size)} bytes\n`;
  const digest = () => createHash("sha256").update(bytes).digest("hex");
  if (size > MAX_DIFF_TEXT || bytes.includes(0)) return `${formatNumber(size)} bytes, sha256 ${digest()}\n`;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return `${formatNumber(size)} bytes, sha256 ${digest()}\n`;
  }
}
