import { closeSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { readRequirements } from "../skill/requirements.ts";
import type { Skill } from "../skill/skill.ts";
import { stripDotSlash } from "../skill/skill-code.ts";
import { isShipped, type Location } from "../skill/source/locations.ts";
import { createFileFingerprint, formatFileId } from "../skill/source/read-file.ts";
import { type CopiedFile, copySkill, type SkillCopy } from "../skill/source/skill-copy.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { getPathBelow, isInside, openFileInside } from "../util/safe-path.ts";
import { compareText } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";
import { approveInLock, type ReviewedSkill } from "./lock-approval.ts";
import { createSkillLocks, type LockDifference, type LockState, type SkillLocks } from "./lock-diff.ts";
import { createOwnFolders, type OwnFolders, type OwnRefusal } from "./own-folders.ts";

/** `own`: nobody has to be asked. Else whether the user said that its code may run; `changed`: it is not what its lock says. */
export type TrustStatus = "own" | "trusted" | "untrusted" | "changed";

export type TrustChange = LockDifference;

/** What was trusted, and when. */
export interface TrustedSkill {
  name: string;
  digest: string;
  /** By path, what each file was: mode and SHA-256. */
  files: Readonly<Record<string, string>>;
  at: string;
  /** For a skill of an MCP server: the digest of all that the server listed for it. Any other listing is not trusted. */
  listed?: string;
}

/** Whose code may run. Kept in the user's own folder, and read from nowhere else. */
export interface TrustStore {
  /** Quick: without a look at what changed since. */
  standingOf(skill: Skill): TrustStatus;
  /** Whether it is what was agreed to when it was added. */
  lockStateOf(skill: Skill): LockState;
  /** For work that asks about many skills at once, and waits for nothing: it looks at each lock, and each skill, once. */
  steadily<T>(work: () => T): T;
  /** What was trusted at its place. */
  entryOf(skill: Skill): TrustedSkill | undefined;
  /** What is not as it was when it was trusted. Empty when all is. */
  changesOf(skill: Skill, copy: SkillCopy): TrustChange[];
  /** Every skill that was ever trusted, by its folder or file. */
  list(): [place: string, trusted: TrustedSkill][];
  /** Why nobody is trusted: the record cannot be read. */
  problem(): string | undefined;
  /** Throws a SkillError when it cannot be written down, or is not what was looked at any more. */
  grant(skills: readonly ({ skill: Skill } & ReviewedSkill)[]): void;
  revoke(places: readonly string[]): void;
  /** Whether models may read the skill's text without trust in its code. */
  text: TextApprovals;
  /** Folders whose skills the user writes. */
  own: OwnFolders;
  /** Why a skill in such a folder is not trusted by that. Nothing for any other skill, and for one that is. */
  refusalOf(skill: Skill): OwnRefusal | undefined;
}

/**
 * Decisions about text: which skills' instructions models may read. Text of the user's own folders needs none; text of a workspace needs
 * one for the workspace. Code always waits for trust in the skill itself.
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

/** The trust that the user has written down. */
export function createTrustStore(
  skilletHome: string,
  locations: readonly Location[],
  locks: SkillLocks = createSkillLocks(skilletHome),
): TrustStore {
  const asking = new Set(locations.filter(({ asks, sameAs }) => asks && sameAs === undefined).map(({ name }) => name));
  const ledger = createJsonStore({
    file: join(skilletHome, "trust.json"),
    isEntry: isTrustedSkill,
    unreadable: { code: "trust-unreadable", fix: "mend it, or remove it to start anew: then nothing is trusted" },
  });
  const entryOf = (skill: Skill) => ledger.entries()[getSkillLocation(skill)];
  const text = createTextApprovals(skilletHome);
  const own = createOwnFolders(skilletHome);
  const isInOwn = (skill: Skill) => skill.origin.remote === undefined && own.holds(getSkillLocation(skill));
  const judgeOwn = (skill: Skill, copy: SkillCopy) =>
    own.judge(getSkillLocation(skill), { name: skill.name, copy, marks: fingerprintSkill(skill, copy) });
  // Only what may have changed is read as a whole.
  const refusalOf = (skill: Skill): OwnRefusal | undefined => {
    if (!isInOwn(skill)) return undefined;
    const foreign = own.judgeFiles(getSkillLocation(skill));
    if (foreign) return foreign;
    const refusal = own.glance(getSkillLocation(skill));
    if (!refusal) return undefined;
    try {
      return judgeOwn(skill, copySkill(skill));
    } catch {
      return refusal; // What cannot be read is not trusted.
    }
  };
  const installed = new Set(locations.flatMap(({ scope, path }) => (scope === "installed" ? path : [])));
  // The lock of what was added for all projects is the user's own. Any other is whoever's made it, and gives nobody trust.
  const isAgreed = ({ origin: { file = "" } }: Skill, is: LockState["is"]) =>
    is === "as-locked" && installed.has(dirname(dirname(file)));
  const needsWord = ({ origin }: Skill) =>
    origin.scope === "workspace" || origin.remote !== undefined || asking.has(origin.source);
  return {
    text,
    own,
    refusalOf,
    lockStateOf: locks.stateOf,
    steadily: locks.steadily,
    standingOf(skill) {
      const { is } = locks.stateOf(skill);
      if (is === "changed" || is === "unknown") return "changed";
      if (!needsWord(skill)) return "own";
      const { remote } = skill.origin;
      if (remote) return entryOf(skill)?.listed === remote.digest ? "trusted" : "untrusted";
      if (entryOf(skill) || isAgreed(skill, is)) return "trusted";
      return isInOwn(skill) && !refusalOf(skill) ? "trusted" : "untrusted";
    },
    entryOf,
    changesOf(skill, copy) {
      const drift = locks.changesOf(skill, copy);
      if (drift && (drift.length > 0 || isAgreed(skill, locks.stateOf(skill).is))) return [...drift];
      if (!needsWord(skill)) return [];
      const refusal = isInOwn(skill) ? judgeOwn(skill, copy) : undefined;
      if (isInOwn(skill) && !refusal) return [];
      // A file that others can write is not what was approved, whatever is in it now.
      if (refusal && entryOf(skill) === undefined && !CHANGE_REASONS.has(refusal.why))
        return [{ path: refusal.path, what: "mode" }];
      const entry = entryOf(skill) ?? own.recordOf(getSkillLocation(skill));
      const changes = compareFingerprints(entry?.files ?? {}, fingerprintSkill(skill, copy));
      // An older record lacks files that count by now. They are as they were if all of the skill is, byte for byte.
      return mergeOwnFileChanges(
        entry?.digest === copy.digest
          ? changes.filter(({ path, what }) => path === OWN_FILE || what !== "added")
          : changes,
      );
    },
    list: () => Object.entries(ledger.entries()).sort(([a], [b]) => compareText(a, b)),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read, so nothing is trusted: ${problem}`;
    },
    grant(granted) {
      for (const { skill, copy, there } of granted) {
        const state = locks.stateOf(skill);
        if (state.is === "unknown") throw state.problem;
        if (state.is === "changed") approveInLock(skill, { copy, there }, skilletHome);
      }
      for (const { skill, copy } of granted)
        if (isInOwn(skill))
          own.accept(getSkillLocation(skill), { name: skill.name, copy, marks: fingerprintSkill(skill, copy) });
      const written = granted.filter(({ skill }) => !isAgreed(skill, locks.stateOf(skill).is));
      if (written.length === 0) return;
      ledger.change((skills) => {
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
    revoke: (places) =>
      ledger.change((skills) => {
        for (const place of places) delete skills[place];
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
      const place = getSkillLocation(skill);
      return approved.some((folder) => isInside(folder, place));
    },
    list: () => Object.entries(ledger.entries()).map(([folder, { at }]) => [folder, at]),
    approve: (folder) =>
      ledger.change((entries) => {
        entries[folder] = { at: new Date().toISOString() };
      }),
    revoke: (folder) =>
      ledger.change((entries) => {
        const gone = Object.keys(entries).filter((approved) => isInside(folder, approved));
        for (const approved of gone) delete entries[approved];
        return gone;
      }),
  };
}

/** What is remembered of a skill's place: its real folder, its file, or its server and URI there. */
export function getSkillLocation({ origin: { folder, file = "", remote, source } }: Skill): string {
  if (remote) return `${source} ${remote.uri}`;
  if (folder !== undefined || file === "") return folder ?? "";
  try {
    return realpathSync(file);
  } catch {
    return file; // It is gone: nobody has trusted nothing.
  }
}

/** Returns whether the file that a skill was found in by a link is below a folder. Another file that the link leads to by now does not count. */
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

/** Refusals of a skill in a folder of the user's that are about what changed in it. */
const CHANGE_REASONS: ReadonlySet<OwnRefusal["why"]> = new Set(["run", "update", "git", "repository"]);

const OWN_FILE = "SKILL.md";
/** Its bytes, where code can read them: its mark by itself is of what it asks for. No file can have this path. */
const WHOLE_OWN_FILE = "SKILL.md/";

/**
 * What of a skill is or steers code: what its manifest asks for, its instructions, which sub-agents follow with all that it was given, and
 * its files: every one where there is code that could read or load it, else every one but prose.
 */
function fingerprintSkill(skill: Skill, { files }: SkillCopy): Record<string, string> {
  const { manifest } = skill;
  const { env, packages, capabilities, toolsets, scripts, tools, context } = manifest;
  const asked = JSON.stringify({
    env,
    packages,
    capabilities,
    toolsets,
    scripts,
    tools,
    context,
    hooks: manifest.data["hooks"],
    requires: readRequirements(skill),
    instructions: skill.body(),
  });
  const { hash } = process.getBuiltinModule("node:crypto"); // Loading it costs a start, and most need no digest.
  const marks: Record<string, string> = Object.create(null); // A file may be called `__proto__`.
  const isCovered = createCoverageCheck(skill, files);
  for (const [path, file] of files) {
    if (isCovered(path, file)) marks[path] = `${file.executable ? "x" : "-"}${hash("sha256", file.bytes)}`;
  }
  marks[OWN_FILE] = hash("sha256", asked);
  const own = files.get(OWN_FILE);
  if (own && (skill.origin.remote || hasCode(skill, files))) marks[WHOLE_OWN_FILE] = hash("sha256", own.bytes);
  return marks;
}

/**
 * Returns whether a file counts for trust, by what it can do: code loads a file by any name (`require("./notes.md")`), so that with
 * toolsets or scripts all do.
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

/** Every file but prose. What can be run is none, whatever it is called. */
export function isCodeFile({ manifest }: Skill, path: string, { bytes, executable }: CopiedFile): boolean {
  if (!/\.(?:md|markdown)$/i.test(path) || executable || path.startsWith("scripts/") || hasShebang(bytes)) return true;
  return manifest.scripts.some((script) => stripDotSlash(script.path) === path);
}

/** What its first line makes one can be declared as a script, whatever it is called. */
function hasShebang(bytes: Uint8Array): boolean {
  return /^(?:\xef\xbb\xbf)?#!/.test(String.fromCharCode(...bytes.subarray(0, 5)));
}

/** The skill's own file has two marks, and is one file. */
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

/** One copy of a skill: the source it is from, and its folder or file there. */
export interface SecretOwner {
  source: string;
  place: string;
  /** Where it was added from, for one that was: another that is put into its place is another copy. */
  from?: string;
}

/**
 * Which copy of a skill its values were given to: that of one source is not that of another. They are given when they are set, if there is one
 * copy, or when the user chooses; never by being used.
 */
export interface SecretGrants {
  /** The copy that has them; nothing while none does. */
  ownerOf(name: string): SecretOwner | undefined;
  /** Whether this copy is that one. */
  isOwner(skill: Skill, owner: SecretOwner): boolean;
  /** Gives them to this copy from now on. Throws a SkillError when it cannot be written down. */
  grant(skill: Skill): void;
  /** Gives them to this copy while none has them, and says which has them now. Throws a SkillError as `grant` does. */
  claim(skill: Skill): SecretOwner;
  /** Why nobody is given anything: what was written down cannot be read. */
  problem(): string | undefined;
}

/** What was written down when values were set, or given. */
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
    ownerOf: (name) => ledger.entries()[name],
    isOwner: (skill, owner) => {
      const { source, place, from } = ownerFrom(skill);
      return place === owner.place && from === owner.from && (place !== "" || source === owner.source);
    },
    grant: (skill) =>
      ledger.change((skills) => {
        skills[skill.name] = { ...ownerFrom(skill), at: new Date().toISOString() };
      }),
    claim: (skill) =>
      ledger.change((skills) => {
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
 * Whether a copy is given values only by the user. What comes with this package, or with the program that embeds it, is not: that program
 * reads the configuration itself.
 */
export function needsSecretGrant({ origin: { scope, folder, file = "" } }: Skill): boolean {
  if (scope === "bundled") return !isShipped(folder ?? file);
  return scope !== "integration" && scope !== "inline";
}

/** Skills in code have no place but their source, and what comes with this package is the same wherever that is put. */
function resolveSecretOwner(skill: Skill, locks: SkillLocks): SecretOwner {
  const { scope, source } = skill.origin;
  const place = getSkillLocation(skill);
  const from = locks.sourceOf(skill);
  return { source, place: scope === "bundled" && isShipped(place) ? "" : place, ...omitUndefined({ from }) };
}

interface StoredGrant extends SecretOwner {
  at: string;
}

function isStoredGrant(entry: unknown): entry is StoredGrant {
  if (!isJsonObject(entry) || !["source", "place", "at"].every((key) => typeof entry[key] === "string")) return false;
  return entry["from"] === undefined || typeof entry["from"] === "string";
}
