import { posix } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { isWindowsDeviceName } from "../skill/skill.ts";
import { compareText } from "../util/text.ts";
import { findInvisible } from "../util/untrusted-text.ts";
import {
  createEntryError,
  type EntryCode,
  isSingleFileCode,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceEntry,
} from "./remote-source.ts";

/**
 * Returns the path of an entry below the source's folder in its canonical form: without a leading `./` and a trailing
 * `/`. The folder itself is the empty string. Throws if the path could leave the folder, or be a different one on
 * another machine.
 */
export function checkEntryPath({ path, kind }: Pick<SourceEntry, "path" | "kind">): string {
  const plain = path.replace(/^(?:\.\/)+/, "");
  const name = kind === "folder" ? plain.replace(/\/$/, "") : plain;
  const isRoot = kind === "folder" && (name === "." || (plain === "" && path !== ""));
  if (isRoot) return "";
  const parts = name.split("/");
  const broken = [
    ...PATH_RULES.filter(([, isSo]) => isSo(name)),
    ...PART_RULES.filter(([, isSo]) => parts.some((part) => isSo(part))),
  ];
  // Codes that refuse the whole source go first: a path such as `a//b` cannot be assigned to one skill.
  const [code, , why] = broken.find(([one]) => !isSingleFileCode(one)) ?? broken[0] ?? [];
  if (code !== undefined && why !== undefined) throw createEntryError(code, path, why);
  return name;
}

/** Decodes a name in an archive. Throws if it is not UTF-8, since its meaning would depend on the machine. */
export function decodeEntryName(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    const path = Buffer.from(bytes).toString("latin1");
    throw createEntryError("entry-encoding", path, "has a name that is not UTF-8", cause);
  }
}

/**
 * Returns the same text for paths that are one file on some disks: macOS and Windows ignore case and the composition of
 * accents.
 */
function foldPath(path: string): string {
  if (PRINTABLE_ASCII.test(path)) return path.toUpperCase();
  const visible = path.replace(new RegExp(IGNORABLE_CHARACTERS, "gu"), "");
  return visible.toLowerCase().toUpperCase().normalize("NFC");
}

/** Does the same for a name alone: Windows removes trailing dots and spaces. */
export function foldName(name: string): string {
  return foldPath(name).replace(/[. ]+$/, "");
}

/** The maximum length of a symlink's target, in bytes. */
export const MAX_LINK_TARGET_LENGTH = 4096;

type PathRule = readonly [code: EntryCode, isSo: (text: string) => boolean, why: string];

/** The maximum length of a name in current file systems. */
const MAX_PART_LENGTH = 255;

const PATH_RULES: readonly PathRule[] = [
  ["entry-encoding", (path) => !path.isWellFormed() || path.includes("\ufffd"), "has a name that is not UTF-8"],
  ["entry-control", (path) => CONTROL_CHARACTER.test(path), "has a control character in its name"],
  ["entry-backslash", (path) => path.includes("\\"), "has a backslash in its name, which separates folders on Windows"],
  ["entry-absolute", (path) => path.startsWith("/"), "is an absolute path, outside the folder"],
  [
    "entry-too-long",
    (path) => Buffer.byteLength(path) > SOURCE_LIMITS.path,
    `is longer than ${SOURCE_LIMITS.path} bytes`,
  ],
  [
    "entry-too-deep",
    (path) => countParts(path) > SOURCE_LIMITS.depth,
    `is more than ${SOURCE_LIMITS.depth} folders deep`,
  ],
];

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

// As a string: compiling Unicode classes costs time at every start, and almost every name is plain.
const IGNORABLE_CHARACTERS = "\\p{Default_Ignorable_Code_Point}";

const PART_RULES: readonly PathRule[] = [
  ["entry-empty", (part) => part === "" || part === ".", 'has an empty part or "." in its path'],
  ["entry-traversal", (part) => part === "..", 'has ".." in its path, which leads out of the folder'],
  ["entry-repository", isRepositoryFolder, "is internal data of a repository, whose settings can start programs"],
  [
    "entry-colon",
    (part) => part.includes(":"),
    "has a colon in its name: on Windows, a drive or an alternate data stream",
  ],
  ["entry-hidden", (part) => findInvisible(part).length > 0, "has an invisible character in its name"],
  [
    "entry-trailing-dot",
    (part) => /[. ]$/.test(part),
    "has a part that ends in a dot or a space, which Windows removes",
  ],
  ["entry-device", isDeviceName, "has the name of a Windows device"],
  [
    "entry-too-long",
    (part) => Buffer.byteLength(part) > MAX_PART_LENGTH,
    `has a part of more than ${MAX_PART_LENGTH} bytes`,
  ],
];

const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

// Matches names as a disk may read them: macOS ignores invisible characters, Windows ignores trailing dots and spaces
// and has short names.
function isRepositoryFolder(part: string): boolean {
  if (!/git|hg|svn/i.test(part) && PRINTABLE_ASCII.test(part)) return false;
  const name = foldName(part.split(":", 1)[0] ?? "");
  return /^(?:\.(?:GIT|HG|SVN)|(?:GIT|HG|SVN)~\d+)$/.test(name);
}

// Matches any extension and superscript digits: `COM¹.txt` is a device, too.
function isDeviceName(part: string): boolean {
  const stem = part.split(".", 1)[0]?.trimEnd().normalize("NFKC") ?? "";
  return isWindowsDeviceName(stem) || /^con(?:in|out)\$$/i.test(stem);
}

function countParts(path: string): number {
  let parts = 1;
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) parts++;
  return parts;
}

/** The paths of a source that are already used, and their kinds. */
interface EntryRegistry {
  /**
   * Registers a path and returns the parent folders that are new, outermost first. Throws if it is already used, or one
   * of its parents is not a folder.
   */
  take(path: string, kind: SourceEntry["kind"]): string[];
}

export function createEntryRegistry(): EntryRegistry {
  const taken = new Map<string, { kind: SourceEntry["kind"]; isExplicit: boolean }>();
  const folded = new Map<string, string>();

  function checkClash(path: string, by: string): void {
    const other = folded.get(foldPath(path));
    if (other !== undefined) {
      throw createEntryError("entry-collision", by, `and ${quoteSourcePath(other)} are the same file on some disks`);
    }
  }

  function put(path: string, by: string, kind: SourceEntry["kind"]): void {
    folded.set(foldPath(path), path);
    taken.set(path, { kind, isExplicit: path === by });
  }

  return {
    take(path, kind) {
      // Checks everything before it registers anything: a refused path leaves no trace.
      const made: string[] = [];
      for (const folder of listParentFolders(path)) {
        const parent = taken.get(folder);
        if (parent === undefined) {
          checkClash(folder, path);
          made.push(folder);
        } else if (parent.kind !== "folder") throw createThroughError(path, folder, parent.kind);
      }
      const existing = taken.get(path);
      if (existing?.isExplicit) throw createEntryError("duplicate-entry", path, "exists twice, which is ambiguous");
      if (existing === undefined) checkClash(path, path);
      else if (kind !== "folder") throw createThroughError(path, path, kind);
      for (const folder of made) put(folder, path, "folder");
      if (existing !== undefined) existing.isExplicit = true;
      else {
        put(path, path, kind);
        if (kind === "folder") made.push(path);
      }
      return made;
    },
  };
}

function createThroughError(path: string, at: string, kind: SourceEntry["kind"]) {
  if (kind === "link")
    return createEntryError("entry-through-symlink", path, `leads through ${quoteSourcePath(at)}, which is a symlink`);
  return createEntryError("entry-through-file", path, `leads through ${quoteSourcePath(at)}, which is a file`);
}

/** Lists `a` and `a/b` for `a/b/c`. */
function listParentFolders(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) folders.push(path.slice(0, at));
  return folders;
}

/**
 * Yields the entries inside a folder of a source, with paths relative to it. Throws a SkillError if the folder is
 * missing. Entries outside it are not written, so they are not checked.
 */
export function* selectEntriesInside(
  entries: Iterable<SourceEntry>,
  inside: string,
): Generator<SourceEntry, void, undefined> {
  const prefix = `${inside}/`;
  const others: string[] = [];
  let isThere = false;
  for (const entry of entries) {
    const path = entry.path.replace(/^(?:\.\/)+/, "");
    if (path === prefix || (path === inside && entry.kind === "folder")) isThere = true;
    else if (path.startsWith(prefix)) {
      isThere = true;
      yield { ...entry, path: path.slice(prefix.length), read: () => entry.read() };
    } else others.push(path);
  }
  if (!isThere) throw createNoFolderError(inside, others);
}

/** Creates the error for a missing folder. `paths`: the existing paths, to suggest one. */
export function createNoFolderError(inside: string, paths: readonly string[]): SkillError {
  const folders = paths
    .filter((path) => posix.basename(path) === "SKILL.md" && path.includes("/"))
    .map((path) => posix.dirname(path))
    .sort(compareText);
  const rest = folders.length > MAX_NAMED_FOLDERS ? `, and ${folders.length - MAX_NAMED_FOLDERS} more` : "";
  return new SkillError("source-folder-missing", {
    message: `The source has no folder ${quoteSourcePath(inside)}`,
    fix:
      folders.length === 0
        ? "remove the // part: the source has no folder with a skill"
        : `the source has skills in ${folders.slice(0, MAX_NAMED_FOLDERS).map(quoteSourcePath).join(", ")}${rest}`,
  });
}

const MAX_NAMED_FOLDERS = 8;
