import { closeSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { defined } from "../shared/defined.ts";
import { below, isInside, openInside } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { requirementsOf } from "../skill/needs.ts";
import { plainPath } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { type CopiedFile, copySkill, type SkillCopy } from "../source/digest.ts";
import { fileIdOf, stampOf } from "../source/file.ts";
import type { Location } from "../source/locations.ts";
import { openLedger } from "./ledger.ts";
import { approve, type Seen } from "./lock/approve.ts";
import type { Drift } from "./lock/drift.ts";
import { type LockState, type Locks, openLocks } from "./lock/locks.ts";
import { type OwnFolders, type OwnRefusal, openOwnFolders } from "./own-folders.ts";

/** `own`: nobody has to be asked. Else whether the user said that its code may run; `changed`: it is not what its lock says. */
export type Standing = "own" | "trusted" | "untrusted" | "changed";

export type Change = Drift;

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
export interface Trust {
  /** Quick: without a look at what changed since. */
  standingOf(skill: Skill): Standing;
  /** Whether it is what was agreed to when it was added. */
  lockStateOf(skill: Skill): LockState;
  /** For work that asks about many skills at once, and waits for nothing: it looks at each lock, and each skill, once. */
  steadily<T>(work: () => T): T;
  /** What was trusted at its place. */
  entryOf(skill: Skill): TrustedSkill | undefined;
  /** What is not as it was when it was trusted. Empty when all is. */
  changesOf(skill: Skill, copy: SkillCopy): Change[];
  /** Every skill that was ever trusted, by its folder or file. */
  list(): [place: string, trusted: TrustedSkill][];
  /** Why nobody is trusted: the record cannot be read. */
  problem(): string | undefined;
  /** Throws a SkillError when it cannot be written down, or is not what was looked at any more. */
  grant(skills: readonly ({ skill: Skill } & Seen)[]): void;
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
export interface TextApprovals {
  covers(skill: Skill): boolean;
  /** The approved folders, with the time of each decision. */
  list(): [folder: string, at: string][];
  /** Throws a SkillError when the decision cannot be recorded. */
  approve(folder: string): void;
  /** Returns the folders that were approved and no longer are. */
  revoke(folder: string): string[];
}

/** The trust that the user has written down. */
export function openTrust(
  skilletHome: string,
  locations: readonly Location[],
  locks: Locks = openLocks(skilletHome),
): Trust {
  const asking = new Set(locations.filter(({ asks, sameAs }) => asks && sameAs === undefined).map(({ name }) => name));
  const ledger = openLedger({
    file: join(skilletHome, "trust.json"),
    isEntry: isTrustedSkill,
    unreadable: { code: "trust-unreadable", fix: "mend it, or remove it to start anew: then nothing is trusted" },
  });
  const entryOf = (skill: Skill) => ledger.entries()[placeOf(skill)];
  const text = openTextApprovals(skilletHome);
  const own = openOwnFolders(skilletHome);
  const isInOwn = (skill: Skill) => skill.origin.remote === undefined && own.holds(placeOf(skill));
  const judgeOwn = (skill: Skill, copy: SkillCopy) =>
    own.judge(placeOf(skill), { name: skill.name, copy, marks: marksOf(skill, copy) });
  // Only what may have changed is read as a whole.
  const refusalOf = (skill: Skill): OwnRefusal | undefined => {
    if (!isInOwn(skill)) return undefined;
    const foreign = own.judgeFiles(placeOf(skill));
    if (foreign) return foreign;
    const refusal = own.glance(placeOf(skill));
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
      if (refusal && entryOf(skill) === undefined && !CHANGED.has(refusal.why))
        return [{ path: refusal.path, what: "mode" }];
      const entry = entryOf(skill) ?? own.recordOf(placeOf(skill));
      const changes = compare(entry?.files ?? {}, marksOf(skill, copy));
      // An older record lacks files that count by now. They are as they were if all of the skill is, byte for byte.
      return withOneOwnFile(
        entry?.digest === copy.digest
          ? changes.filter(({ path, what }) => path === OWN_FILE || what !== "added")
          : changes,
      );
    },
    list: () => Object.entries(ledger.entries()).sort(([a], [b]) => byText(a, b)),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined ? undefined : `${ledger.file} cannot be read, so nothing is trusted: ${problem}`;
    },
    grant(granted) {
      for (const { skill, copy, there } of granted) {
        const state = locks.stateOf(skill);
        if (state.is === "unknown") throw state.problem;
        if (state.is === "changed") approve(skill, { copy, there }, skilletHome);
      }
      for (const { skill, copy } of granted)
        if (isInOwn(skill)) own.accept(placeOf(skill), { name: skill.name, copy, marks: marksOf(skill, copy) });
      const written = granted.filter(({ skill }) => !isAgreed(skill, locks.stateOf(skill).is));
      if (written.length === 0) return;
      ledger.change((skills) => {
        for (const { skill, copy } of written) {
          const { name } = skill;
          const at = new Date().toISOString();
          const listed = skill.origin.remote?.digest;
          skills[placeOf(skill)] = {
            name,
            digest: copy.digest,
            files: marksOf(skill, copy),
            at,
            ...defined({ listed }),
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

function openTextApprovals(skilletHome: string): TextApprovals {
  const ledger = openLedger({
    file: join(skilletHome, "text-approvals.json"),
    isEntry: (entry: unknown): entry is { at: string } => isData(entry) && typeof entry["at"] === "string",
    unreadable: { code: "trust-unreadable", fix: "fix it, or remove it: then the text of no workspace is approved" },
  });
  return {
    covers(skill) {
      if (skill.origin.scope !== "workspace") return skill.origin.scope === "user";
      const approved = Object.keys(ledger.entries());
      if (skill.origin.isLinked) return approved.some((folder) => isFoundBelow(folder, skill));
      const place = placeOf(skill);
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
export function placeOf({ origin: { folder, file = "", remote, source } }: Skill): string {
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
  const opened = openInside(root, below(root, path));
  if ("code" in opened) return false;
  closeSync(opened.fd);
  return fileIdOf(stampOf(opened.stats)) === fileId;
}

function isTrustedSkill(entry: unknown): entry is TrustedSkill {
  if (!isData(entry) || !isData(entry["files"])) return false;
  return ["name", "digest", "at"].every((key) => typeof entry[key] === "string");
}

/** Refusals of a skill in a folder of the user's that are about what changed in it. */
const CHANGED: ReadonlySet<OwnRefusal["why"]> = new Set(["run", "update", "git", "repository"]);

const OWN_FILE = "SKILL.md";
/** Its bytes, where code can read them: its mark by itself is of what it asks for. No file can have this path. */
const WHOLE_OWN_FILE = "SKILL.md/";

/**
 * What of a skill is or steers code: what its manifest asks for, its instructions, which sub-agents follow with all that it was given, and
 * its files: every one where there is code that could read or load it, else every one but prose.
 */
function marksOf(skill: Skill, { files }: SkillCopy): Record<string, string> {
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
    requires: requirementsOf(skill),
    instructions: skill.body(),
  });
  const { hash } = process.getBuiltinModule("node:crypto"); // Loading it costs a start, and most need no digest.
  const marks: Record<string, string> = Object.create(null); // A file may be called `__proto__`.
  const isCovered = coverage(skill, files);
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
export function coverage(
  skill: Skill,
  files: ReadonlyMap<string, CopiedFile>,
): (path: string, file: CopiedFile) => boolean {
  return skill.origin.remote || hasCode(skill, files)
    ? (path) => path !== OWN_FILE
    : (path, file) => isCode(skill, path, file);
}

function hasCode({ manifest: { toolsets, scripts } }: Skill, files: ReadonlyMap<string, CopiedFile>): boolean {
  return (
    toolsets.length > 0 ||
    scripts.length > 0 ||
    [...files].some(([path, { bytes, executable }]) => executable || path.startsWith("scripts/") || isScript(bytes))
  );
}

/** Every file but prose. What can be run is none, whatever it is called. */
export function isCode({ manifest }: Skill, path: string, { bytes, executable }: CopiedFile): boolean {
  if (!/\.(?:md|markdown)$/i.test(path) || executable || path.startsWith("scripts/") || isScript(bytes)) return true;
  return manifest.scripts.some((script) => plainPath(script.path) === path);
}

/** What its first line makes one can be declared as a script, whatever it is called. */
function isScript(bytes: Uint8Array): boolean {
  return /^(?:\xef\xbb\xbf)?#!/.test(String.fromCharCode(...bytes.subarray(0, 5)));
}

/** The skill's own file has two marks, and is one file. */
function withOneOwnFile(changes: readonly Change[]): Change[] {
  const others = changes.filter(({ path }) => path !== OWN_FILE && path !== WHOLE_OWN_FILE);
  const own = changes.find(({ path }) => path === OWN_FILE);
  if (others.length === changes.length) return others;
  return [...others, own ?? ({ path: OWN_FILE, what: "changed" } as const)].sort((a, b) => byText(a.path, b.path));
}

function compare(before: Readonly<Record<string, string>>, now: Readonly<Record<string, string>>): Change[] {
  const paths = [...new Set([...Object.keys(before), ...Object.keys(now)])].sort(byText);
  return paths.flatMap((path) => {
    if (before[path] === now[path]) return [];
    return [
      { path, what: before[path] === undefined ? "added" : now[path] === undefined ? "removed" : "changed" } as const,
    ];
  });
}
