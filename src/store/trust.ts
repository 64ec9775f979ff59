import { closeSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { readRequirements, type Skill } from "../skill/skill.ts";
import { stripDotSlash } from "../skill/skill-code.ts";
import { isShipped, type Location } from "../skill/source/locations.ts";
import { type CopiedFile, copySkillFolder, type SkillCopy } from "../skill/source/skill-copy.ts";
import { createFileFingerprint, formatFileId } from "../util/file-access.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { getPathBelow, isInside, openFileInside } from "../util/safe-path.ts";
import { compareText } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";
import { approveInLock, type ReviewedSkill } from "./lock-approval.ts";
import { createSkillLocks, type LockDifference, type LockState, type SkillLocks } from "./lock-diff.ts";
import { createOwnFolders, type OwnFolders, type OwnRefusal } from "./own-folders.ts";

/**
 * `own`: needs no trust decision. `trusted` and `untrusted`: the user's decision on its code. `changed`: it differs
 * from its lock.
 */
export type TrustStatus = "own" | "trusted" | "untrusted" | "changed";

export type TrustChange = LockDifference;

/** A trusted skill, with its fingerprints and the time of the decision. */
export interface TrustedSkill {
  name: string;
  digest: string;
  /** Mode and SHA-256 of each file, by path. */
  files: Readonly<Record<string, string>>;
  at: string;
  /** For a skill of an MCP server: the digest of the server's complete listing. Any other listing is not trusted. */
  listed?: string;
}

/**
 * Decides whose code may run. Stored in the user's own folder and read only from there.
 *
 * It is synchronous, other than the stores of runs and approvals, because it is not a record with a decision on top: a
 * status compares the lock file, the fingerprints of the skill's files and the user's own folders as they are now, for
 * policies that are pure functions of a skill. A snapshot of the record alone would keep all of these reads, and would
 * delay a revocation by another process, which must stop a run within two seconds.
 */
export interface TrustStore {
  /** Returns the status quickly, without checking for changes since. */
  getStatus(skill: Skill): TrustStatus;
  /** Compares a skill with its lock. */
  getLockState(skill: Skill): LockState;
  /** Runs synchronous work that checks many skills, and reads each lock and each skill once. */
  withCache<T>(work: () => T): T;
  /** Returns the trust decision for the skill's path. */
  getEntry(skill: Skill): TrustedSkill | undefined;
  /** Returns the changes since the skill was trusted, or an empty list. */
  findChanges(skill: Skill, copy: SkillCopy): TrustChange[];
  /** Lists every skill that was ever trusted, by its folder or file. */
  list(): [location: string, trusted: TrustedSkill][];
  /** Returns the reason why no skill is trusted: the record cannot be read. */
  problem(): string | undefined;
  /** Throws a SkillError when it cannot be recorded, or the skill differs from what was reviewed. */
  grant(skills: readonly ({ skill: Skill } & ReviewedSkill)[]): void;
  revoke(paths: readonly string[]): void;
  /** Decides whether models may read the skill's text without trust in its code. */
  text: TextApprovals;
  /** Folders whose skills the user writes. */
  own: OwnFolders;
  /**
   * Returns the reason why a skill in such a folder is not trusted. Undefined for other skills, and for trusted ones.
   */
  findRefusal(skill: Skill): OwnRefusal | undefined;
}

/**
 * Decisions about text: which skills' instructions models may read. Text in the user's own folders needs none; text in
 * a workspace needs one for the workspace. Code always needs trust in the skill itself.
 */
interface TextApprovals {
  covers(skill: Skill): boolean;
  /** The approved folders, with the time of each decision. */
  list(): [folder: string, at: string][];
  /** Throws a SkillError when the decision cannot be recorded. */
  approve(folder: string): void;
  /** Returns the folders that were approved and no longer are. */
  revoke(folder: string): string[];
}

/** Creates the store of the user's trust decisions. */
export function createTrustStore(
  skilletHome: string,
  locations: readonly Location[],
  locks: SkillLocks = createSkillLocks(skilletHome),
): TrustStore {
  const asking = new Set(
    locations.filter(({ requiresTrust: asks, sameAs }) => asks && sameAs === undefined).map(({ name }) => name),
  );
  const ledger = createJsonStore({
    file: join(skilletHome, "trust.json"),
    isEntry: isTrustedSkill,
    unreadable: { code: "trust-unreadable", fix: "fix the file, or remove it: then no skill is trusted" },
  });
  const entryOf = (skill: Skill) => ledger.entries()[getSkillLocation(skill)];
  const text = createTextApprovals(skilletHome);
  const own = createOwnFolders(skilletHome);
  const isInOwn = (skill: Skill) => skill.origin.remote === undefined && own.contains(getSkillLocation(skill));
  const judgeOwn = (skill: Skill, copy: SkillCopy) =>
    own.checkSkill(getSkillLocation(skill), { name: skill.name, copy, marks: fingerprintSkill(skill, copy) });
  // Reads the whole skill only if it may have changed.
  const refusalOf = (skill: Skill): OwnRefusal | undefined => {
    if (!isInOwn(skill)) return undefined;
    const foreign = own.checkFiles(getSkillLocation(skill));
    if (foreign) return foreign;
    const refusal = own.checkRecords(getSkillLocation(skill));
    if (!refusal) return undefined;
    try {
      return judgeOwn(skill, copySkillFolder(skill));
    } catch {
      return refusal; // An unreadable skill is not trusted.
    }
  };
  const installed = new Set(locations.flatMap(({ scope, path }) => (scope === "installed" ? path : [])));
  // The lock of skills added for all projects belongs to the user. Any other lock may come from another author, and
  // grants no trust.
  const isApprovedByLock = ({ origin: { file = "" } }: Skill, is: LockState["is"]) =>
    is === "unchanged" && installed.has(dirname(dirname(file)));
  const needsDecision = ({ origin }: Skill) =>
    origin.scope === "workspace" || origin.remote !== undefined || asking.has(origin.source);
  return {
    text,
    own,
    findRefusal: refusalOf,
    getLockState: locks.getState,
    withCache: locks.withCache,
    getStatus(skill) {
      const { is } = locks.getState(skill);
      if (is === "changed" || is === "unknown") return "changed";
      if (!needsDecision(skill)) return "own";
      const { remote } = skill.origin;
      if (remote) return entryOf(skill)?.listed === remote.digest ? "trusted" : "untrusted";
      if (entryOf(skill) || isApprovedByLock(skill, is)) return "trusted";
      return isInOwn(skill) && !refusalOf(skill) ? "trusted" : "untrusted";
    },
    getEntry: entryOf,
    findChanges(skill, copy) {
      const known = locks.findChanges(skill, copy);
      if (known && (known.length > 0 || isApprovedByLock(skill, locks.getState(skill).is))) return [...known];
      if (!needsDecision(skill)) return [];
      const refusal = isInOwn(skill) ? judgeOwn(skill, copy) : undefined;
      if (isInOwn(skill) && !refusal) return [];
      // A file that others can write is not what was approved, regardless of its current content.
      if (refusal && entryOf(skill) === undefined && !CHANGE_REASONS.has(refusal.why))
        return [{ path: refusal.path, what: "mode" }];
      const entry = entryOf(skill) ?? own.getRecord(getSkillLocation(skill));
      const changes = compareFingerprints(entry?.files ?? {}, fingerprintSkill(skill, copy));
      // An older record lacks files that are covered now. They are unchanged if the digest of the whole skill is.
      return mergeOwnFileChanges(
        entry?.digest === copy.digest
          ? changes.filter(({ path, what }) => path === OWN_FILE || what !== "added")
          : changes,
      );
    },
    list: () => Object.entries(ledger.entries()).sort(([a], [b]) => compareText(a, b)),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read, so no skill is trusted: ${problem}`;
    },
    grant(granted) {
      for (const { skill, copy, folderFiles: there } of granted) {
        const state = locks.getState(skill);
        if (state.is === "unknown") throw state.problem;
        if (state.is === "changed") approveInLock(skill, { copy, folderFiles: there }, skilletHome);
      }
      for (const { skill, copy } of granted)
        if (isInOwn(skill))
          own.accept(getSkillLocation(skill), { name: skill.name, copy, marks: fingerprintSkill(skill, copy) });
      const written = granted.filter(({ skill }) => !isApprovedByLock(skill, locks.getState(skill).is));
      if (written.length === 0) return;
      ledger.update((skills) => {
        for (const { skill, copy } of written) {
          const { name } = skill;
          const at = new Date().toISOString();
          const listed = skill.origin.remote?.digest;
          skills[getSkillLocation(skill)] = {
            name,
            digest: copy.digest,
            files: fingerprintSkill(skill, copy),
            at,
            ...omitUndefined({ listed }),
          };
        }
      });
    },
    revoke: (paths) =>
      ledger.update((skills) => {
        for (const location of paths) delete skills[location];
      }),
  };
}

function createTextApprovals(skilletHome: string): TextApprovals {
  const ledger = createJsonStore({
    file: join(skilletHome, "text-approvals.json"),
    isEntry: (entry: unknown): entry is { at: string } => isJsonObject(entry) && typeof entry["at"] === "string",
    unreadable: { code: "trust-unreadable", fix: "fix it, or remove it: then the text of no workspace is approved" },
  });
  return {
    covers(skill) {
      if (skill.origin.scope !== "workspace") return skill.origin.scope === "user";
      const approved = Object.keys(ledger.entries());
      if (skill.origin.isLinked) return approved.some((folder) => isFoundBelow(folder, skill));
      const location = getSkillLocation(skill);
      return approved.some((folder) => isInside(folder, location));
    },
    list: () => Object.entries(ledger.entries()).map(([folder, { at }]) => [folder, at]),
    approve: (folder) =>
      ledger.update((entries) => {
        entries[folder] = { at: new Date().toISOString() };
      }),
    revoke: (folder) =>
      ledger.update((entries) => {
        const gone = Object.keys(entries).filter((approved) => isInside(folder, approved));
        for (const approved of gone) delete entries[approved];
        return gone;
      }),
  };
}

/** Returns the key of a skill in the trust record: its real folder, its file, or its server and URI. */
export function getSkillLocation({ origin: { folder, file = "", remote, source } }: Skill): string {
  if (remote) return `${source} ${remote.uri}`;
  if (folder !== undefined || file === "") return folder ?? "";
  try {
    return realpathSync(file);
  } catch {
    return file; // It is gone, so there is nothing to trust.
  }
}

/**
 * Returns true if the file of a linked skill is below a folder. If the link now leads to another file, it returns
 * false.
 */
function isFoundBelow(root: string, { origin: { folder, file = "", fileId } }: Skill): boolean {
  const path = folder === undefined ? file : join(folder, basename(file));
  if (!isInside(root, path) || path === root) return false;
  const opened = openFileInside(root, getPathBelow(root, path));
  if ("code" in opened) return false;
  closeSync(opened.fd);
  return formatFileId(createFileFingerprint(opened.stats)) === fileId;
}

function isTrustedSkill(entry: unknown): entry is TrustedSkill {
  if (!isJsonObject(entry) || !isJsonObject(entry["files"])) return false;
  return ["name", "digest", "at"].every((key) => typeof entry[key] === "string");
}

/** Refusals that are about changes in a skill of the user. */
const CHANGE_REASONS: ReadonlySet<OwnRefusal["why"]> = new Set(["run", "update", "git", "repository"]);

const OWN_FILE = "SKILL.md";
/**
 * The key for the bytes of SKILL.md, used if code can read them: the other key only covers its requests. No file can
 * have this path.
 */
const WHOLE_OWN_FILE = "SKILL.md/";

/**
 * Fingerprints the parts of a skill that are or steer code: the requests of its manifest, its instructions (which
 * sub-agents follow with all its permissions), and its files: all of them if there is code that could load them,
 * otherwise all but prose.
 */
function fingerprintSkill(skill: Skill, { files, instructions }: SkillCopy): Record<string, string> {
  const { manifest } = skill;
  const { env, packages, capabilities, toolsets, scripts, tools, context } = manifest;
  const requested = JSON.stringify({
    env,
    packages,
    capabilities,
    toolsets,
    scripts,
    tools,
    context,
    hooks: manifest.data["hooks"],
    requires: readRequirements(skill),
    instructions,
  });
  const { hash } = process.getBuiltinModule("node:crypto"); // Loading it slows down startup, and most runs need no digest.
  const marks: Record<string, string> = Object.create(null); // A file may be called `__proto__`.
  const isCovered = createCoverageCheck(skill, files);
  for (const [path, file] of files) {
    if (isCovered(path, file)) marks[path] = `${file.executable ? "x" : "-"}${hash("sha256", file.bytes)}`;
  }
  marks[OWN_FILE] = hash("sha256", requested);
  const own = files.get(OWN_FILE);
  if (own && (skill.origin.remote || hasCode(skill, files))) marks[WHOLE_OWN_FILE] = hash("sha256", own.bytes);
  return marks;
}

/**
 * Returns a check that is true for files that count for trust. Code can load a file of any name
 * (`require("./notes.md")`), so with toolsets or scripts all files count.
 */
export function createCoverageCheck(
  skill: Skill,
  files: ReadonlyMap<string, CopiedFile>,
): (path: string, file: CopiedFile) => boolean {
  return skill.origin.remote || hasCode(skill, files)
    ? (path) => path !== OWN_FILE
    : (path, file) => isCodeFile(skill, path, file);
}

function hasCode({ manifest: { toolsets, scripts } }: Skill, files: ReadonlyMap<string, CopiedFile>): boolean {
  return (
    toolsets.length > 0 ||
    scripts.length > 0 ||
    [...files].some(([path, { bytes, executable }]) => executable || path.startsWith("scripts/") || hasShebang(bytes))
  );
}

/** Returns true for every file except prose. An executable file is never prose, whatever its name. */
export function isCodeFile({ manifest }: Skill, path: string, { bytes, executable }: CopiedFile): boolean {
  if (!/\.(?:md|markdown)$/i.test(path) || executable || path.startsWith("scripts/") || hasShebang(bytes)) return true;
  return manifest.scripts.some((script) => stripDotSlash(script.path) === path);
}

/** Returns true for a file with a shebang: it can be declared as a script, whatever its name. */
function hasShebang(bytes: Uint8Array): boolean {
  return /^(?:\xef\xbb\xbf)?#!/.test(String.fromCharCode(...bytes.subarray(0, 5)));
}

/** Merges the two fingerprints of SKILL.md into one change. */
function mergeOwnFileChanges(changes: readonly TrustChange[]): TrustChange[] {
  const others = changes.filter(({ path }) => path !== OWN_FILE && path !== WHOLE_OWN_FILE);
  const own = changes.find(({ path }) => path === OWN_FILE);
  if (others.length === changes.length) return others;
  return [...others, own ?? ({ path: OWN_FILE, what: "changed" } as const)].sort((a, b) => compareText(a.path, b.path));
}

function compareFingerprints(
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): TrustChange[] {
  const paths = [...new Set([...Object.keys(before), ...Object.keys(now)])].sort(compareText);
  return paths.flatMap((path) => {
    if (before[path] === now[path]) return [];
    return [
      { path, what: before[path] === undefined ? "added" : now[path] === undefined ? "removed" : "changed" } as const,
    ];
  });
}

/** One copy of a skill: its source, and its folder or file there. */
export interface SecretOwner {
  source: string;
  location: string;
  /** The source it was added from, if any: another skill put in its place is a different copy. */
  from?: string;
}

/**
 * Decides which copy of a skill receives its configured values: copies from different sources differ. Values are
 * granted when they are set, if there is one copy, or when the user chooses; never by use.
 */
export interface SecretGrants {
  /** Returns the copy that has the values, or undefined if none does. */
  getOwner(name: string): SecretOwner | undefined;
  /** Returns true if the skill is this copy. */
  isOwner(skill: Skill, owner: SecretOwner): boolean;
  /** Grants the values to this copy from now on. Throws a SkillError when it cannot be recorded. */
  grant(skill: Skill): void;
  /**
   * Grants the values to this copy if no copy has them, and returns the current owner. Throws a SkillError as `grant`
   * does.
   */
  claim(skill: Skill): SecretOwner;
  /** Returns the reason why no copy receives values: the record cannot be read. */
  problem(): string | undefined;
}

/** Creates the store of grants. */
export function createSecretGrants(
  skilletHome: string,
  locks: SkillLocks = createSkillLocks(skilletHome),
): SecretGrants {
  const ownerFrom = (skill: Skill) => resolveSecretOwner(skill, locks);
  const ledger = createJsonStore({
    file: join(skilletHome, "grants.json"),
    isEntry: isStoredGrant,
    unreadable: {
      code: "grants-unreadable",
      fix: "fix it, or remove it: then the next run of each skill with values asks which copy gets them",
    },
  });
  return {
    getOwner: (name) => ledger.entries()[name],
    isOwner: (skill, owner) => {
      const { source, location, from } = ownerFrom(skill);
      return location === owner.location && from === owner.from && (location !== "" || source === owner.source);
    },
    grant: (skill) =>
      ledger.update((skills) => {
        skills[skill.name] = { ...ownerFrom(skill), at: new Date().toISOString() };
      }),
    claim: (skill) =>
      ledger.update((skills) => {
        const owner = skills[skill.name] ?? { ...ownerFrom(skill), at: new Date().toISOString() };
        skills[skill.name] = owner;
        return owner;
      }),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read: ${problem}`;
    },
  };
}

/**
 * Returns true if only the user can grant values to a copy. Skills of this package, or of the program that embeds it,
 * need no grant: that program reads the configuration itself.
 */
export function needsSecretGrant({ origin: { scope, folder, file = "" } }: Skill): boolean {
  if (scope === "bundled") return !isShipped(folder ?? file);
  return scope !== "integration" && scope !== "inline";
}

/**
 * Returns the owner. Skills in code are identified by their source, and shipped skills are the same wherever the
 * package is installed.
 */
function resolveSecretOwner(skill: Skill, locks: SkillLocks): SecretOwner {
  const { scope, source } = skill.origin;
  const location = getSkillLocation(skill);
  const from = locks.getSource(skill);
  return { source, location: scope === "bundled" && isShipped(location) ? "" : location, ...omitUndefined({ from }) };
}

interface StoredGrant extends SecretOwner {
  at: string;
}

function isStoredGrant(entry: unknown): entry is StoredGrant {
  if (!isJsonObject(entry) || !["source", "location", "at"].every((key) => typeof entry[key] === "string"))
    return false;
  return entry["from"] === undefined || typeof entry["from"] === "string";
}
