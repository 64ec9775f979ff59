import { SkillError } from "../../shared/error.ts";
import { byText } from "../../shared/text.ts";
import { type Data, isData } from "../../skill/data.ts";
import { STANDARD_NAME, unusableName } from "../../skill/name.ts";
import { treeDigest } from "./tree.ts";

/** What a lock is called, in the folder of skills that it locks. */
export const LOCK_FILE = "skills.lock";
/** Of 50,000 skills. A larger one is not read, and not written. */
export const LARGEST_LOCK = 64 * 1024 * 1024;

/** One file of a skill as it was agreed to. */
export interface LockedFile {
  /** `644` or `755`; more only where a file has bits that none should have. `link`, `other` and `large` are what no file is. */
  mode: string;
  size: number;
  /** `sha256:…` of its bytes; of a link, of where it leads. */
  sha256: string;
}

/** By path, in order. */
export type LockedFiles = Readonly<Record<string, LockedFile>>;

/** One skill in a folder of skills: where it came from, and what it is to be. */
export interface LockedSkill {
  /** As `skillet add` takes it, without its ref. `LOCAL_SOURCE` for an adopted skill whose origin is not known. */
  source: string;
  /** The skill's folder or file in its source, where it is not the source itself. */
  path?: string;
  /** The branch or tag that was asked for. */
  ref?: string;
  /** What that was then. */
  commit?: string;
  /** Over all files: see `treeDigest`. */
  digest: string;
  files: LockedFiles;
  /**
   * What came from the source, where the user changed it since and agreed to the change. Without any file: an adopted skill whose original
   * files are not known.
   */
  upstream?: { digest: string; files: LockedFiles };
  /** What of it was agreed to, in order. What it is given beside that, values and capabilities, is the configuration's to say. */
  grants: readonly Grant[];
  /** Whether it was added with `--require-signature`: an update must be signed by a known signer too. */
  requireSignature?: true;
  /** Whether it was adopted where it was: skillet did not put it there. */
  adopted?: true;
}

/** The source of an adopted skill whose origin is not known. No address is written so. */
export const LOCAL_SOURCE = "local:";

/** True for an adopted skill whose original files are not known, so that nothing tells which files were edited. */
export function hasUnknownBase({ upstream }: Pick<LockedSkill, "upstream">): boolean {
  return upstream !== undefined && Object.keys(upstream.files).length === 0;
}

/** True when the approved files are known to differ from those that came from the source. */
export function isEdited(entry: Pick<LockedSkill, "upstream">): boolean {
  return entry.upstream !== undefined && !hasUnknownBase(entry);
}

export const GRANTS = ["instructions", "packages", "scripts", "toolsets"] as const;
export type Grant = (typeof GRANTS)[number];

/** By name. */
export type LockedSkills = Readonly<Record<string, LockedSkill>>;

/** The same skills give the same text, whoever writes it. */
export function printLock(skills: LockedSkills): string {
  return `${JSON.stringify({ version: 1, skills }, inOrder, 2)}\n`;
}

/** Throws a SkillError when it is none, or not what skillet wrote. */
export function parseLock(text: string): Record<string, LockedSkill> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw unreadable(noJson(text, error));
  }
  if (!isData(value)) throw unreadable("it is no table");
  if (value["version"] !== 1) {
    const { version } = value;
    throw new SkillError("lock-version", {
      message: `it is of ${Number.isFinite(version) ? `version ${version}` : "no version"}, and this skillet knows version 1`,
      fix: "bring skillet up to date, or let the one that wrote it read it",
    });
  }
  const { skills } = value;
  if (!isData(skills)) throw unreadable("it has no skills");
  const read: Record<string, LockedSkill> = Object.create(null); // A skill may be called `constructor`.
  for (const [name, entry] of Object.entries(skills)) read[name] = lockedSkill(name, entry);
  return read;
}

function lockedSkill(name: string, entry: unknown): LockedSkill {
  if (unusableName(name)) throw unreadable("a name in it is no name of a skill");
  const where = STANDARD_NAME.test(name) ? `skill "${name}"` : "a skill in it";
  if (!isData(entry)) throw unreadable(`${where} is no table`);
  const { digest, files } = tree(entry, where);
  const { upstream, grants } = entry;
  if (!Array.isArray(grants) || !grants.every((grant) => GRANTS.includes(grant))) {
    throw unreadable(`the grants of ${where} are none`);
  }
  return {
    source: text(entry, "source", where),
    ...optional(entry, "path", where),
    ...optional(entry, "ref", where),
    ...optional(entry, "commit", where),
    digest,
    files,
    ...(upstream === undefined ? {} : { upstream: tree(upstream, `what came from the source of ${where}`) }),
    grants: GRANTS.filter((grant) => grants.includes(grant)),
    ...(entry["requireSignature"] === true ? { requireSignature: true as const } : {}),
    ...(entry["adopted"] === true ? { adopted: true as const } : {}),
  };
}

/** Files and the digest over them, which says whether somebody changed one without the other. */
function tree(value: unknown, where: string): { digest: string; files: LockedFiles } {
  if (!isData(value) || !isData(value["files"])) throw unreadable(`${where} has no files`);
  const files: Record<string, LockedFile> = Object.create(null);
  const entries = Object.entries(value["files"]);
  for (const [index, [path, file]] of entries.entries())
    files[path] = lockedFile(file, path, `file ${index + 1} of ${where}`);
  const digest = text(value, "digest", where);
  if (treeDigest(files) !== digest) {
    throw new SkillError("lock-edited", {
      message: `the digest of ${where} is not that of the files that stand there: it was edited`,
      fix: "take the lock that skillet wrote from your version control, or remove it and the folders of its skills, and add them again",
    });
  }
  return { digest, files };
}

// Nothing of a lock that is none is quoted: whoever made a workspace wrote it, and a model may read what is said of it.
function lockedFile(value: unknown, path: string, where: string): LockedFile {
  const isPath = path.split("/").every((part) => part !== "" && part !== "." && part !== "..") && !path.includes("\0");
  if (!isPath) throw unreadable(`the path of ${where} leads elsewhere`);
  const { mode, size, sha256 } = isData(value) ? value : {};
  const isFile =
    typeof mode === "string" &&
    /^[0-7]{3,4}$/.test(mode) &&
    Number.isSafeInteger(size) &&
    (size as number) >= 0 &&
    typeof sha256 === "string" &&
    /^sha256:[0-9a-f]{64}$/.test(sha256);
  if (!isFile) throw unreadable(`what stands of ${where} is of no file`);
  return { mode, size: size as number, sha256 };
}

function text(entry: Data, key: string, where: string): string {
  const value = entry[key];
  if (typeof value === "string" && value !== "") return value;
  throw unreadable(`${where} has no ${key}`);
}

function optional<K extends string>(entry: Data, key: K, where: string): { [key in K]?: string } {
  return entry[key] === undefined ? {} : ({ [key]: text(entry, key, where) } as { [key in K]?: string });
}

/** Tables by their keys; lists and values as they are. */
function inOrder(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const ordered: Record<string, unknown> = Object.create(null);
  for (const [key, item] of Object.entries(value).sort(([a], [b]) => byText(a, b))) ordered[key] = item;
  return ordered;
}

/** Where, and not what: see `lockedFile`. */
function noJson(text: string, error: unknown): string {
  if (/^(?:<{7}|>{7}) /m.test(text)) return "it holds the marks of a merge that nobody finished";
  const [at] = /line \d+ column \d+/.exec(String(error)) ?? [];
  return at === undefined ? "it is no JSON" : `it is no JSON (${at})`;
}

function unreadable(why: string): SkillError {
  return new SkillError("lock-unreadable", {
    message: why,
    fix: "take it from your version control, or remove it and the folders of its skills, and add them again",
  });
}
