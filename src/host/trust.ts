import { mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import type { Location } from "../source/locations.ts";

/** `own`: nobody has to be asked. Else whether the user said that its code may run. */
export type Standing = "own" | "trusted" | "untrusted";

export interface Change {
  path: string;
  what: "added" | "removed" | "changed";
}

/** What was trusted, and when. */
export interface TrustedSkill {
  name: string;
  digest: string;
  /** By path, what each file was: mode and SHA-256. */
  files: Readonly<Record<string, string>>;
  at: string;
}

/** Whose code may run. Kept in the user's own folder, and read from nowhere else. */
export interface Trust {
  /** Quick: without a look at what changed since. */
  standingOf(skill: Skill): Standing;
  /** What is not as it was when it was trusted. Empty when all is. */
  changesOf(skill: Skill, copy: SkillCopy): Change[];
  /** Every skill that was ever trusted, by its folder or file. */
  list(): [place: string, trusted: TrustedSkill][];
  /** Why nobody is trusted: the record cannot be read. */
  problem(): string | undefined;
  /** Throws a SkillError when it cannot be written down. */
  grant(skills: readonly { skill: Skill; copy: SkillCopy }[]): void;
  revoke(places: readonly string[]): void;
}

/** The trust that the user has written down. */
export function openTrust(skilletHome: string, locations: readonly Location[]): Trust {
  const file = join(skilletHome, "trust.json");
  const asking = new Set(locations.filter(({ asks, sameAs }) => asks && sameAs === undefined).map(({ name }) => name));
  let record: TrustRecord | undefined;
  let stamp = "";
  let looked = Number.NEGATIVE_INFINITY;
  // Looked at again and again: what another process took back is taken back here too.
  const read = () => {
    if (record !== undefined && performance.now() - looked < FRESH_MS) return record;
    looked = performance.now();
    const now = stampOf(file);
    if (record === undefined || now !== stamp) record = readRecord(file);
    stamp = now;
    return record;
  };
  const entryOf = (skill: Skill) => read().skills[placeOf(skill)];
  const needsWord = ({ origin }: Skill) => origin.scope === "workspace" || asking.has(origin.source);
  const write = (change: (skills: Record<string, TrustedSkill>) => void) => {
    whileLocked(file, () => {
      const { problem, skills } = readRecord(file);
      if (problem !== undefined) throw unreadable(file, problem);
      change(skills);
      writeRecord(file, skills);
    });
    record = undefined;
  };
  return {
    standingOf: (skill) => (needsWord(skill) ? (entryOf(skill) ? "trusted" : "untrusted") : "own"),
    changesOf(skill, copy) {
      return needsWord(skill) ? compare(entryOf(skill)?.files ?? {}, marksOf(skill, copy)) : [];
    },
    list: () => Object.entries(read().skills).sort(([a], [b]) => byText(a, b)),
    problem: () => {
      const { problem } = read();
      return problem === undefined ? undefined : `${file} cannot be read, so nothing is trusted: ${problem}`;
    },
    grant: (granted) =>
      write((skills) => {
        for (const { skill, copy } of granted) {
          const { name } = skill;
          const at = new Date().toISOString();
          skills[placeOf(skill)] = { name, digest: copy.digest, files: marksOf(skill, copy), at };
        }
      }),
    revoke: (places) =>
      write((skills) => {
        for (const place of places) delete skills[place];
      }),
  };
}

/** What is remembered of a skill's place: its real folder, or its file. */
export function placeOf({ origin: { folder, file = "" } }: Skill): string {
  if (folder !== undefined || file === "") return folder ?? "";
  try {
    return realpathSync(file);
  } catch {
    return file; // It is gone: nobody has trusted nothing.
  }
}

function stampOf(file: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(file);
    return `${mtimeMs}:${size}:${ino}`;
  } catch (error) {
    return codeOf(error);
  }
}

interface TrustRecord {
  skills: Record<string, TrustedSkill>;
  /** Why the file cannot be read; nobody is trusted then. */
  problem?: string;
}

function readRecord(file: string): TrustRecord {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return codeOf(error) === "ENOENT" ? { skills: nobody() } : { skills: nobody(), problem: reason(error) };
  }
  try {
    const { version, skills } = JSON.parse(text);
    if (version !== 1 || !isData(skills)) throw new Error("it is of another version");
    if (!Object.values(skills).every(isTrustedSkill)) throw new Error("an entry of it is none");
    return { skills: Object.assign(nobody(), skills) };
  } catch (error) {
    return { skills: nobody(), problem: reason(error) };
  }
}

function isTrustedSkill(entry: unknown): entry is TrustedSkill {
  if (!isData(entry) || !isData(entry["files"])) return false;
  return ["name", "digest", "at"].every((key) => typeof entry[key] === "string");
}

function nobody(): Record<string, TrustedSkill> {
  return Object.create(null);
}

function writeRecord(file: string, skills: Record<string, TrustedSkill>): void {
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(draft, `${JSON.stringify({ version: 1, skills }, null, 2)}\n`, { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `${file} cannot be written: ${reason(error)}`,
      fix: "check that the folder can be written to",
      cause: error,
    });
  }
}

/** One process at a time: of two that read before either wrote, the later would undo the earlier, be it a grant or its end. */
function whileLocked(file: string, work: () => void): void {
  const lock = `${file}.lock`;
  for (;;) {
    try {
      mkdirSync(dirname(file), { recursive: true });
      mkdirSync(lock);
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") break; // Writing says why.
      const made = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
      // Whoever holds it for so long was killed. How long this one waited says nothing: others may have had it in between.
      if (Math.abs(Date.now() - made) > LONGEST_HELD_MS) rmSync(lock, { recursive: true, force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
  try {
    work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

const LONGEST_HELD_MS = 2000;
/** Ten thousand skills are listed in less. */
const FRESH_MS = 50;

function unreadable(file: string, problem: string): SkillError {
  return new SkillError("trust-unreadable", {
    message: `${file} cannot be read: ${problem}`,
    fix: "mend it, or remove it to start anew: then nothing is trusted",
  });
}

/**
 * What of a skill is or steers code: every file but prose, and what its manifest asks for. Its instructions may change: they are
 * read, not run.
 */
function marksOf({ manifest }: Skill, { files }: SkillCopy): Record<string, string> {
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
  });
  const { hash } = process.getBuiltinModule("node:crypto"); // Loading it costs a start, and most need no digest.
  const marks: Record<string, string> = Object.create(null); // A file may be called `__proto__`.
  for (const [path, { bytes, executable }] of files) {
    const isProse = /\.(?:md|markdown)$/i.test(path) && !executable && !path.startsWith("scripts/") && !isScript(bytes);
    if (!isProse) marks[path] = `${executable ? "x" : "-"}${hash("sha256", bytes)}`;
  }
  marks["SKILL.md"] = hash("sha256", asked);
  return marks;
}

/** What its first line makes one can be declared as a script, whatever it is called. */
function isScript(bytes: Uint8Array): boolean {
  return /^(?:\xef\xbb\xbf)?#!/.test(String.fromCharCode(...bytes.subarray(0, 5)));
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
