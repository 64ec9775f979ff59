import { existsSync, lstatSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { getErrnoCode, getErrorMessage } from "../errors/problem.ts";
import type { SkillCopy } from "../skill/source/skill-copy.ts";
import { SKIPPED_FOLDERS } from "../skill/source/skill-files.ts";
import {
  checkFileOwner,
  createFolder,
  type ForeignFile,
  findForeignFile,
  readRegularText,
  readTextOrNone,
} from "../util/file-access.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { createJsonStore } from "./json-store.ts";
import { formatProcessOwner, readLiveOwner } from "./locked-file.ts";

/** A folder whose skills the user writes. */
interface OwnFolder {
  at: string;
  /** The checked-out commits of work trees around and in it, by work tree. */
  heads: Readonly<Record<string, string>>;
}

/** A skill in such a folder, as it was when it was last recognized as the user's work. */
interface OwnSkill {
  name: string;
  digest: string;
  /** The fingerprints of its files, by path. */
  files: Readonly<Record<string, string>>;
  at: string;
  /** The commit that was checked out at that time. */
  head?: string;
}

/** The reason why a skill in a folder of the user is not trusted for being there. */
export interface OwnRefusal {
  why: "run" | "update" | "git" | "repository" | ForeignFile["why"] | "unreadable";
  /** The affected file; `.` for the whole skill. */
  path: string;
}

/** A work tree whose HEAD moved since a skill in it was last recognized as the user's work. */
interface MovedHead extends Pick<GitWorkTree, "root" | "repository"> {
  location: string;
  from: string;
  to: string;
}

/**
 * Folders whose skills the user writes: an edit keeps the trust in such a skill. A change by a run, an update or git
 * ends it. This does not protect against other programs that run as the user.
 */
export interface OwnFolders {
  list(): [folder: string, entry: OwnFolder][];
  /** Returns true if a path is in such a folder. */
  contains(location: string): boolean;
  /**
   * Contract: `places` are the paths of the skills in it, which are recorded in their current state. Throws a
   * SkillError when they cannot be recorded.
   */
  add(folder: string, paths: readonly string[]): void;
  /** Returns the folders that were the user's and no longer are. */
  revoke(folder: string): string[];
  /** Returns the skill as it was when it was last recognized as the user's work. */
  getRecord(location: string): OwnSkill | undefined;
  /** Checks a skill by the records and HEAD alone, without reading its files. */
  checkRecords(location: string): OwnRefusal | undefined;
  /** Checks a skill, and records it if it is trusted for its folder. Contract: `contains(place)`. */
  checkSkill(location: string, seen: OwnSkillSnapshot): OwnRefusal | undefined;
  /** Checks a skill by the ownership of its files alone. */
  checkFiles(location: string): OwnRefusal | undefined;
  /** Records a skill that the user approved in its current state, so that later edits keep the trust. */
  accept(location: string, seen: OwnSkillSnapshot): void;
  /** Ends the trust in skills with these paths: the user did not make the changes. */
  markChanged(paths: readonly string[], why: "run" | "update"): void;
  /** Runs work that may write to the user's files: changes during that time do not count as edits by the user. */
  watch<T>(work: () => Promise<T>): Promise<T>;
  /** Returns the work trees whose HEAD moved. `acceptHead` records that the move did not change the skill. */
  listMovedHeads(): MovedHead[];
  acceptHead(moved: MovedHead): void;
}

interface OwnSkillSnapshot {
  name: string;
  copy: SkillCopy;
  marks: Readonly<Record<string, string>>;
}

export function createOwnFolders(skilletHome: string): OwnFolders {
  const ledgerOf = <T>(file: string, isEntry: (entry: unknown) => entry is T) =>
    createJsonStore({
      file: join(skilletHome, file),
      isEntry,
      unreadable: {
        code: "trust-unreadable",
        fix: "fix it, or remove it: then skills in your own folders wait for trust",
      },
    });
  const folders = ledgerOf("own-folders.json", isOwnFolder);
  const skills = ledgerOf("own-skills.json", isOwnSkill);
  const changes = ledgerOf("own-changes.json", isOwnChange);
  const watches = createOwnFolderWatches(skilletHome);
  const isBroken = () => [folders, skills, changes].some((ledger) => ledger.problem() !== undefined);
  const folderOf = (location: string) =>
    Object.entries(folders.entries())
      .filter(([folder]) => isInside(folder, location))
      .sort(([a], [b]) => b.length - a.length)[0];
  const judgeFiles = (location: string) => findForeignIn(folderOf(location)?.[0] ?? location, location);
  const markChanged: OwnFolders["markChanged"] = (paths, why) => {
    const own = paths.filter(
      (path) => folderOf(path) || Object.keys(folders.entries()).some((one) => isInside(path, one)),
    );
    if (own.length === 0) return;
    // A path inside another changed folder needs no mark. Many changes mark the whole folder.
    const outer =
      own.length > MAX_MARKS
        ? own.flatMap((path) => folderOf(path)?.[0] ?? path)
        : own.filter((path) => !own.some((other) => other !== path && isInside(other, path)));
    changes.update((entries) => {
      for (const path of outer) entries[path] = { why, at: new Date().toISOString() };
    });
  };
  const settle = () => markChanged(watches.settle(Object.keys(folders.entries())), "run");
  const changeIn = (location: string): OwnRefusal | undefined => {
    settle();
    const since = skills.entries()[location]?.at ?? "";
    const found = Object.entries(changes.entries()).find(
      ([path, { at }]) => isInside(location, path) || (isInside(path, location) && at >= since),
    );
    if (found) return { why: found[1].why, path: relative(location, found[0]) || "." };
    const [path] = watches.changedIn(location);
    return path === undefined ? undefined : { why: "run", path: relative(location, path) || "." };
  };
  /** Detects changes by git: HEAD differs from the recorded one, or is about to. */
  const gitIn = (location: string): { refusal?: OwnRefusal; head?: string } => {
    const out = readGitHead(location);
    if (!out) return {};
    const { head, isBusy, root } = out;
    const [, folder] = folderOf(location) ?? [];
    const seen = skills.entries()[location];
    const known = seen ? seen.head : folder?.heads[root];
    if (head === undefined) return { refusal: { why: "git", path: "." } };
    // A new repository is a clone of another author's work, or added it. Before its first commit it has added nothing.
    if (known === undefined)
      return seen && head === "" ? { head } : { head, refusal: { why: "repository", path: "." } };
    return known === head && !isBusy ? { head } : { head, refusal: { why: "git", path: "." } };
  };
  const record = (location: string, { name, copy, marks }: OwnSkillSnapshot, head: string | undefined) => {
    const at = new Date().toISOString();
    skills.update((entries) => {
      entries[location] = { name, digest: copy.digest, files: { ...marks }, at, ...omitUndefined({ head }) };
    });
  };
  return {
    list: () => Object.entries(folders.entries()),
    contains: (location) => folderOf(location) !== undefined && !isBroken(),
    add(folder, paths) {
      const heads: Record<string, string> = {};
      for (const location of [folder, ...paths]) {
        const out = readGitHead(location);
        if (out?.head !== undefined) heads[out.root] = out.head;
      }
      forget(folder);
      folders.update((entries) => {
        entries[folder] = { at: new Date().toISOString(), heads };
      });
    },
    revoke(folder) {
      forget(folder);
      return folders.update((entries) => {
        const gone = Object.keys(entries).filter((own) => isInside(folder, own));
        for (const own of gone) delete entries[own];
        return gone;
      });
    },
    getRecord: (location) => skills.entries()[location],
    checkRecords: (location) => changeIn(location) ?? gitIn(location).refusal,
    checkFiles: judgeFiles,
    checkSkill(location, seen) {
      const foreign = judgeFiles(location);
      if (foreign) return foreign;
      const git = gitIn(location);
      const isAsSeen = skills.entries()[location]?.digest === seen.copy.digest;
      const refusal = isAsSeen ? undefined : (changeIn(location) ?? git.refusal);
      if (refusal) return refusal;
      // During a git operation, HEAD is not the commit of these files.
      const isMoving = git.refusal !== undefined && readGitHead(location)?.isBusy === true;
      const isKnown = isAsSeen && skills.entries()[location]?.head === git.head;
      if (!isMoving && !isKnown) tryQuietly(() => record(location, seen, git.head));
      return undefined;
    },
    accept(location, seen) {
      forgetChanges(location);
      record(location, seen, gitIn(location).head);
    },
    markChanged,
    async watch(work) {
      const own = Object.keys(folders.entries());
      if (own.length === 0) return work();
      settle();
      const end = watches.begin(own);
      try {
        return await work();
      } finally {
        markChanged(end(), "run");
      }
    },
    listMovedHeads() {
      return Object.entries(skills.entries()).flatMap(([location, { head }]) => {
        const out = head === undefined || !folderOf(location) ? undefined : readGitHead(location);
        if (!out || head === undefined || out.head === undefined || out.isBusy || out.head === head) return [];
        return [{ location, root: out.root, repository: out.repository, from: head, to: out.head }];
      });
    },
    acceptHead({ location, from, to }) {
      skills.update((entries) => {
        const entry = entries[location];
        if (entry?.head === from) entries[location] = { ...entry, head: to };
      });
    },
  };

  function forget(folder: string): void {
    forgetChanges(folder);
    skills.update((entries) => {
      for (const location of Object.keys(entries)) if (isInside(folder, location)) delete entries[location];
    });
  }

  /** Marks above the path also count for other skills, and for this one until it is recorded. */
  function forgetChanges(location: string): void {
    changes.update((entries) => {
      for (const path of Object.keys(entries)) if (isInside(location, path)) delete entries[path];
    });
  }
}

const MAX_MARKS = 1000;

/** Returns the first file of a skill, or folder between it and the user's folder, that others can change. */
function findForeignIn(folder: string, location: string): OwnRefusal | undefined {
  try {
    for (let above = dirname(location); isInside(folder, above); above = dirname(above)) {
      const why = checkFileOwner(lstatSync(above));
      if (why) return { why, path: relative(location, above) };
    }
    const found = findForeignFile(location, {
      refuses: ["writable", "link", "special", "nested"],
      skips: SKIPPED_FOLDERS,
    });
    return found && { why: found.why, path: found.path || "." };
  } catch (error) {
    return { why: "unreadable", path: getErrorMessage(error) };
  }
}

/** Ignores errors: a skill that cannot be recorded is checked again the next time. */
function tryQuietly(work: () => void): void {
  try {
    work();
  } catch {}
}

function isOwnFolder(entry: unknown): entry is OwnFolder {
  return isJsonObject(entry) && typeof entry["at"] === "string" && isJsonObject(entry["heads"]);
}

function isOwnSkill(entry: unknown): entry is OwnSkill {
  if (!isJsonObject(entry) || !isJsonObject(entry["files"])) return false;
  return (
    ["name", "digest", "at"].every((key) => typeof entry[key] === "string") &&
    (entry["head"] === undefined || typeof entry["head"] === "string")
  );
}

function isOwnChange(entry: unknown): entry is { why: "run" | "update"; at: string } {
  return (
    isJsonObject(entry) && (entry["why"] === "run" || entry["why"] === "update") && typeof entry["at"] === "string"
  );
}

/** The git work tree that contains a path, and its HEAD. */
interface GitWorkTree {
  root: string;
  repository: string;
  /** The commit of HEAD; empty before the first one. Undefined if it cannot be read. */
  head: string | undefined;
  /**
   * True during a merge (also with `--squash`), rebase, cherry-pick or revert: files can come from another commit than
   * HEAD.
   */
  isBusy: boolean;
}

/** Reads HEAD of the work tree around a path, without running git. Undefined outside a work tree. */
function readGitHead(path: string): GitWorkTree | undefined {
  for (let root = path; ; root = dirname(root)) {
    const stats = lstatSync(join(root, ".git"), { throwIfNoEntry: false });
    if (stats) {
      const repository = stats.isDirectory() ? join(root, ".git") : readLinkedRepository(join(root, ".git"), root);
      if (repository === undefined) return { root, repository: join(root, ".git"), head: undefined, isBusy: false };
      const isBusy = BUSY_MARKERS.some((name) => existsSync(join(repository, name)));
      return { root, repository, head: readHeadCommit(repository), isBusy };
    }
    if (root === dirname(root)) return undefined;
  }
}

const BUSY_MARKERS = "MERGE_HEAD SQUASH_MSG CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply sequencer".split(
  " ",
);
const COMMIT_ID = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;

/** Reads the repository of a linked work tree from its `.git` file. */
function readLinkedRepository(file: string, root: string): string | undefined {
  const [, named] = /^gitdir: (.+?)\s*$/.exec(readTextOrNone(file) ?? "") ?? [];
  return named === undefined ? undefined : resolve(root, named);
}

function readHeadCommit(repository: string): string | undefined {
  const text = readTextOrNone(join(repository, "HEAD"))?.trim();
  if (text === undefined || COMMIT_ID.test(text)) return text;
  const [, ref] = /^ref: (refs\/\S+)$/.exec(text) ?? [];
  const common = resolve(repository, readTextOrNone(join(repository, "commondir"))?.trim() ?? ".");
  // The reftable format has this placeholder in HEAD.
  if (ref === undefined || ref === "refs/heads/.invalid" || ref.includes("..")) return undefined;
  const loose = readTextOrNone(join(common, ref))?.trim() ?? readTextOrNone(join(repository, ref))?.trim();
  if (loose !== undefined) return COMMIT_ID.test(loose) ? loose : undefined;
  const packed = readTextOrNone(join(common, "packed-refs")) ?? "";
  const line = packed.split("\n").find((one) => one.endsWith(` ${ref}`));
  return line?.split(" ")[0] ?? "";
}

/** Fingerprints of the files below some folders, by path. A fingerprint changes with every write. */
type FileFingerprints = Readonly<Record<string, string>>;

/**
 * Detects changes below folders while code runs. The fingerprints are on disk, so that the next process detects the
 * changes of a killed one.
 */
interface OwnFolderWatches {
  /** Takes fingerprints and starts a watch. The returned function ends it, and returns the changed paths. */
  begin(folders: readonly string[]): () => string[];
  /** Returns the paths inside a folder that changed since an active watch began. */
  changedIn(location: string): string[];
  /**
   * Ends the watches of dead processes, and returns the paths that changed since. Returns all of `own` if the
   * fingerprints are unreadable.
   */
  settle(own: readonly string[]): string[];
}

export function createOwnFolderWatches(skilletHome: string): OwnFolderWatches {
  const all = join(skilletHome, "own-watches");
  const names = () => {
    try {
      return readdirSync(all).filter((name) => name.endsWith(".json"));
    } catch {
      return []; // No watch was ever started.
    }
  };
  return {
    begin(folders) {
      const before = fingerprintFiles(folders);
      const id = crypto.randomUUID();
      createFolder(all, 0o700);
      writeFileSync(join(all, `${id}.owner`), formatProcessOwner(), { flag: "wx", mode: 0o600 });
      const draft = join(all, `${id}.draft`);
      writeFileSync(draft, JSON.stringify({ folders, before }), { flag: "wx", mode: 0o600 });
      renameSync(draft, join(all, `${id}.json`)); // Atomic.
      return () => {
        const changed = diffFingerprints(before, fingerprintFiles(folders));
        removeWatch(all, id);
        return changed;
      };
    },
    changedIn(location) {
      return names().flatMap((name) => {
        const watch = readWatch(join(all, name));
        if (watch === "unreadable") return [location];
        if (!watch?.folders.some((folder) => isInside(folder, location))) return [];
        const within = Object.entries(watch.before).filter(([path]) => isInside(location, path));
        return diffFingerprints(Object.fromEntries(within), fingerprintFiles([location]));
      });
    },
    settle(own) {
      return names().flatMap((name) => {
        const id = name.slice(0, -".json".length);
        if (readLiveOwner(join(all, `${id}.owner`)) !== undefined) return [];
        const watch = readWatch(join(all, name));
        if (watch === undefined) return [];
        const changed = watch === "unreadable" ? own : diffFingerprints(watch.before, fingerprintFiles(watch.folders));
        removeWatch(all, id);
        return changed;
      });
    },
  };
}

/** Enough for a folder of skills. A larger one counts as changed as a whole. */
const MAX_WATCHED_FILES = 50_000;

function fingerprintFiles(folders: readonly string[]): FileFingerprints {
  const seen: Record<string, string> = Object.create(null); // A folder may be called `__proto__`.
  let remaining = MAX_WATCHED_FILES;
  const visit = (path: string) => {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (!stats || remaining-- <= 0) return;
    const { ino, size, mode, uid, mtimeMs, ctimeMs } = stats;
    // The times of a folder change with its entries, which have their own fingerprints.
    seen[path] = stats.isDirectory() ? `${ino} ${mode} ${uid}` : `${ino} ${size} ${mode} ${uid} ${mtimeMs} ${ctimeMs}`;
    if (!stats.isDirectory()) return;
    for (const name of listNames(path)) if (!SKIPPED_FOLDERS.has(name)) visit(join(path, name));
  };
  for (const folder of folders) visit(folder);
  if (remaining >= 0) return seen;
  return Object.fromEntries(folders.map((folder) => [folder, `too many files ${crypto.randomUUID()}`]));
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // No skill can be read there either.
  }
}

function diffFingerprints(before: FileFingerprints, now: FileFingerprints): string[] {
  const paths = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...paths].filter((path) => before[path] !== now[path]);
}

/** Returns undefined if the watch has just ended. */
function readWatch(file: string): { folders: readonly string[]; before: FileFingerprints } | "unreadable" | undefined {
  try {
    const { folders, before } = JSON.parse(readRegularText(file)) as Record<string, unknown>;
    if (Array.isArray(folders) && isJsonObject(before)) return { folders, before: before as FileFingerprints };
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return undefined;
  }
  return "unreadable";
}

function removeWatch(all: string, id: string): void {
  for (const end of ["json", "owner"]) rmSync(join(all, `${id}.${end}`), { force: true });
}
