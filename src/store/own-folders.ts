import { existsSync, lstatSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { getErrorMessage } from "../errors/problem.ts";
import type { SkillCopy } from "../skill/source/skill-copy.ts";
import { SKIPPED_FOLDERS } from "../skill/source/skill-files.ts";
import { checkFileOwner, type ForeignFile, findForeignFile, readRegularText } from "../util/file-access.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { createJsonStore } from "./json-store.ts";
import { createOwnFolderWatches } from "./own-folder-watch.ts";

/** A folder whose skills the user writes. */
interface OwnFolder {
  at: string;
  /** The commits that were checked out in work trees around and in it, by work tree. */
  heads: Readonly<Record<string, string>>;
}

/** A skill in such a folder as it was when it was last found to be the user's work. */
interface OwnSkill {
  name: string;
  digest: string;
  /** By path, what each file was. */
  files: Readonly<Record<string, string>>;
  at: string;
  /** The commit that was checked out then. */
  head?: string;
}

/** Why a skill in a folder of the user's is not trusted by that. */
export interface OwnRefusal {
  why: "run" | "update" | "git" | "repository" | ForeignFile["why"] | "unreadable";
  /** The file that it is about; `.` for the whole skill. */
  path: string;
}

/** A work tree whose HEAD moved since a skill in it was last found to be the user's work. */
interface MovedHead extends Pick<GitWorkTree, "root" | "repository"> {
  place: string;
  from: string;
  to: string;
}

/**
 * Folders whose skills the user writes: an edit keeps the trust in such a skill. It ends with a change that a run or an update made, or that
 * git brought. Nothing here protects from other programs that run as the user.
 */
export interface OwnFolders {
  list(): [folder: string, entry: OwnFolder][];
  /** Whether a place is in such a folder. */
  holds(place: string): boolean;
  /** Contract: `places` are those of the skills in it, which are recorded as they are. Throws a SkillError when it cannot be recorded. */
  add(folder: string, places: readonly string[]): void;
  /** Returns the folders that were the user's and no longer are. */
  revoke(folder: string): string[];
  /** As it was when it was last found to be the user's work. */
  recordOf(place: string): OwnSkill | undefined;
  /** Without its files: why a skill at a place is not trusted by its folder, from records and HEAD alone. */
  glance(place: string): OwnRefusal | undefined;
  /** Why a skill is not trusted by its folder. One that is, is recorded. Contract: `holds(place)`. */
  judge(place: string, seen: OwnSkillSnapshot): OwnRefusal | undefined;
  /** Why a skill is not trusted by its folder, by whose its files are alone. */
  judgeFiles(place: string): OwnRefusal | undefined;
  /** Records a skill that the user approved as it is, so that edits of it keep the trust from now on. */
  accept(place: string, seen: OwnSkillSnapshot): void;
  /** Ends the trust in skills with these paths: what changed them was not the user. */
  markChanged(paths: readonly string[], why: "run" | "update"): void;
  /** Runs work that may write to the user's files: changes in that time do not count as edits by the user. */
  watch<T>(work: () => Promise<T>): Promise<T>;
  /** Work trees whose HEAD moved. `keepHead` says of one that nothing in the skill changed by that. */
  moved(): MovedHead[];
  keepHead(moved: MovedHead): void;
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
  const folderOf = (place: string) =>
    Object.entries(folders.entries())
      .filter(([folder]) => isInside(folder, place))
      .sort(([a], [b]) => b.length - a.length)[0];
  const judgeFiles = (place: string) => findForeignIn(folderOf(place)?.[0] ?? place, place);
  const markChanged: OwnFolders["markChanged"] = (paths, why) => {
    const own = paths.filter(
      (path) => folderOf(path) || Object.keys(folders.entries()).some((one) => isInside(path, one)),
    );
    if (own.length === 0) return;
    // What is in a folder that changed itself, or is new, needs no mark of its own. Many changes count for the whole folder.
    const outer =
      own.length > MAX_MARKS
        ? own.flatMap((path) => folderOf(path)?.[0] ?? path)
        : own.filter((path) => !own.some((other) => other !== path && isInside(other, path)));
    changes.change((entries) => {
      for (const path of outer) entries[path] = { why, at: new Date().toISOString() };
    });
  };
  const settle = () => markChanged(watches.settle(Object.keys(folders.entries())), "run");
  const changeIn = (place: string): OwnRefusal | undefined => {
    settle();
    const since = skills.entries()[place]?.at ?? "";
    const found = Object.entries(changes.entries()).find(
      ([path, { at }]) => isInside(place, path) || (isInside(path, place) && at >= since),
    );
    if (found) return { why: found[1].why, path: relative(place, found[0]) || "." };
    const [path] = watches.changedIn(place);
    return path === undefined ? undefined : { why: "run", path: relative(place, path) || "." };
  };
  /** What git may have brought: HEAD is another than when the skill was last seen, or is about to be. */
  const gitIn = (place: string): { refusal?: OwnRefusal; head?: string } => {
    const out = readGitHead(place);
    if (!out) return {};
    const { head, isBusy, root } = out;
    const [, folder] = folderOf(place) ?? [];
    const seen = skills.entries()[place];
    const known = seen ? seen.head : folder?.heads[root];
    if (head === undefined) return { refusal: { why: "git", path: "." } };
    // A new repository is a clone of another author's work, or brought it. Before its first commit it has brought nothing.
    if (known === undefined)
      return seen && head === "" ? { head } : { head, refusal: { why: "repository", path: "." } };
    return known === head && !isBusy ? { head } : { head, refusal: { why: "git", path: "." } };
  };
  const record = (place: string, { name, copy, marks }: OwnSkillSnapshot, head: string | undefined) => {
    const at = new Date().toISOString();
    skills.change((entries) => {
      entries[place] = { name, digest: copy.digest, files: { ...marks }, at, ...omitUndefined({ head }) };
    });
  };
  return {
    list: () => Object.entries(folders.entries()),
    holds: (place) => folderOf(place) !== undefined && !isBroken(),
    add(folder, places) {
      const heads: Record<string, string> = {};
      for (const place of [folder, ...places]) {
        const out = readGitHead(place);
        if (out?.head !== undefined) heads[out.root] = out.head;
      }
      forget(folder);
      folders.change((entries) => {
        entries[folder] = { at: new Date().toISOString(), heads };
      });
    },
    revoke(folder) {
      forget(folder);
      return folders.change((entries) => {
        const gone = Object.keys(entries).filter((own) => isInside(folder, own));
        for (const own of gone) delete entries[own];
        return gone;
      });
    },
    recordOf: (place) => skills.entries()[place],
    glance: (place) => changeIn(place) ?? gitIn(place).refusal,
    judgeFiles,
    judge(place, seen) {
      const foreign = judgeFiles(place);
      if (foreign) return foreign;
      const git = gitIn(place);
      const isAsSeen = skills.entries()[place]?.digest === seen.copy.digest;
      const refusal = isAsSeen ? undefined : (changeIn(place) ?? git.refusal);
      if (refusal) return refusal;
      // While git is at it, HEAD is not the commit that these files are of.
      const isMoving = git.refusal !== undefined && readGitHead(place)?.isBusy === true;
      const isKnown = isAsSeen && skills.entries()[place]?.head === git.head;
      if (!isMoving && !isKnown) tryQuietly(() => record(place, seen, git.head));
      return undefined;
    },
    accept(place, seen) {
      forgetChanges(place);
      record(place, seen, gitIn(place).head);
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
    moved() {
      return Object.entries(skills.entries()).flatMap(([place, { head }]) => {
        const out = head === undefined || !folderOf(place) ? undefined : readGitHead(place);
        if (!out || head === undefined || out.head === undefined || out.isBusy || out.head === head) return [];
        return [{ place, root: out.root, repository: out.repository, from: head, to: out.head }];
      });
    },
    keepHead({ place, from, to }) {
      skills.change((entries) => {
        const entry = entries[place];
        if (entry?.head === from) entries[place] = { ...entry, head: to };
      });
    },
  };

  function forget(folder: string): void {
    forgetChanges(folder);
    skills.change((entries) => {
      for (const place of Object.keys(entries)) if (isInside(folder, place)) delete entries[place];
    });
  }

  /** What is above the place counts for other skills too, and for this one until it is recorded. */
  function forgetChanges(place: string): void {
    changes.change((entries) => {
      for (const path of Object.keys(entries)) if (isInside(place, path)) delete entries[path];
    });
  }
}

const MAX_MARKS = 1000;

/** The first file of a skill, or folder above it as far as the user's, that others can change. */
function findForeignIn(folder: string, place: string): OwnRefusal | undefined {
  try {
    for (let above = dirname(place); isInside(folder, above); above = dirname(above)) {
      const why = checkFileOwner(lstatSync(above));
      if (why) return { why, path: relative(place, above) };
    }
    const found = findForeignFile(place, {
      refuses: ["writable", "link", "special", "nested"],
      skips: SKIPPED_FOLDERS,
    });
    return found && { why: found.why, path: found.path || "." };
  } catch (error) {
    return { why: "unreadable", path: getErrorMessage(error) };
  }
}

/** What cannot be recorded is judged again the next time. */
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

/** The git work tree that a path is in, and what is checked out there. */
interface GitWorkTree {
  /** The work tree. */
  root: string;
  /** Its repository. */
  repository: string;
  /** The commit of HEAD; empty before the first one. Undefined when it cannot be read. */
  head: string | undefined;
  /** Whether a merge (or one with `--squash`), rebase, cherry-pick or revert is under way: files can come from another commit than HEAD then. */
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

const BUSY_MARKERS = [
  "MERGE_HEAD",
  "SQUASH_MSG",
  "CHERRY_PICK_HEAD",
  "REVERT_HEAD",
  "rebase-merge",
  "rebase-apply",
  "sequencer",
];
const COMMIT_ID = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;

/** A linked work tree names its repository in a file. */
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

function readTextOrNone(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}
