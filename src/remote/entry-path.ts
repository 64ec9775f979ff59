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
 * The path of an entry below the source's folder, as it is written anywhere: without `./` before and `/` behind. The folder itself is the
 * empty text. Throws when it could lead elsewhere, or be another one on another machine.
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
  // What refuses the whole source goes first: of a path such as `a//b` nobody knows which skill it belongs to.
  const [code, , why] = broken.find(([one]) => !isSingleFileCode(one)) ?? broken[0] ?? [];
  if (code !== undefined && why !== undefined) throw createEntryError(code, path, why);
  return name;
}

/** A name as it stands in an archive. Throws when it is no UTF-8: what it is called would depend on the machine. */
export function decodeEntryName(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    const path = Buffer.from(bytes).toString("latin1");
    throw createEntryError("entry-encoding", path, "is a name that is no UTF-8", cause);
  }
}

/** Equal for paths that are one file on some disk: those of macOS and Windows do not tell case, nor how accents are composed. */
function foldPath(path: string): string {
  if (PRINTABLE_ASCII.test(path)) return path.toUpperCase();
  const visible = path.replace(new RegExp(IGNORABLE_CHARACTERS, "gu"), "");
  return visible.toLowerCase().toUpperCase().normalize("NFC");
}

/** The same of a name alone: Windows takes dots and spaces from its end. */
export function foldName(name: string): string {
  return foldPath(name).replace(/[. ]+$/, "");
}

/** Bytes of where a link leads. */
export const MAX_LINK_TARGET_LENGTH = 4096;

type PathRule = readonly [code: EntryCode, isSo: (text: string) => boolean, why: string];

/** No file system of today takes a longer name. */
const MAX_PART_LENGTH = 255;

const PATH_RULES: readonly PathRule[] = [
  ["entry-encoding", (path) => !path.isWellFormed() || path.includes("\ufffd"), "is a name that is no UTF-8"],
  ["entry-control", (path) => CONTROL_CHARACTER.test(path), "has a control character in its name"],
  ["entry-backslash", (path) => path.includes("\\"), "has a backslash in its name, which divides folders on Windows"],
  ["entry-absolute", (path) => path.startsWith("/"), "is a path from the root, outside the folder"],
  ["entry-long", (path) => Buffer.byteLength(path) > SOURCE_LIMITS.path, `is longer than ${SOURCE_LIMITS.path} bytes`],
  ["entry-deep", (path) => countParts(path) > SOURCE_LIMITS.depth, `is more than ${SOURCE_LIMITS.depth} folders deep`],
];

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

// As text: compiling Unicode classes takes time of every start, and almost every name is plain.
const IGNORABLE_CHARACTERS = "\\p{Default_Ignorable_Code_Point}";

const PART_RULES: readonly PathRule[] = [
  ["entry-empty", (part) => part === "" || part === ".", 'has an empty part or "." in its path'],
  ["entry-parent", (part) => part === "..", 'has ".." in its path, which leads out of the folder'],
  ["entry-repository", isRepositoryFolder, "is of the inner state of a repository, whose settings can start programs"],
  [
    "entry-colon",
    (part) => part.includes(":"),
    "has a colon in its name: on Windows, a drive or what hides behind a file",
  ],
  ["entry-hidden", (part) => findInvisible(part).length > 0, "has an invisible character in its name"],
  ["entry-ending", (part) => /[. ]$/.test(part), "has a part that ends in a dot or a space, which Windows takes away"],
  ["entry-device", isDeviceName, "is called as a device is on Windows"],
  [
    "entry-long",
    (part) => Buffer.byteLength(part) > MAX_PART_LENGTH,
    `has a part of more than ${MAX_PART_LENGTH} bytes`,
  ],
];

const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

// As a disk may read them: macOS passes over what is invisible, Windows over dots and spaces at the end, and has short names.
function isRepositoryFolder(part: string): boolean {
  if (!/git|hg|svn/i.test(part) && PRINTABLE_ASCII.test(part)) return false;
  const name = foldName(part.split(":", 1)[0] ?? "");
  return /^(?:\.(?:GIT|HG|SVN)|(?:GIT|HG|SVN)~\d+)$/.test(name);
}

// With any ending, and with raised digits: `COM¹.txt` is one too.
function isDeviceName(part: string): boolean {
  const stem = part.split(".", 1)[0]?.trimEnd().normalize("NFKC") ?? "";
  return isWindowsDeviceName(stem) || /^con(?:in|out)\$$/i.test(stem);
}

function countParts(path: string): number {
  let parts = 1;
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) parts++;
  return parts;
}

/** Which paths of a source are taken, and by what. */
interface EntryRegistry {
  /** Takes a path, and gives the folders that come with it and were not there, outer ones first. Throws when it is taken, or leads through what is no folder. */
  take(path: string, kind: SourceEntry["kind"]): string[];
}

export function createEntryRegistry(): EntryRegistry {
  const taken = new Map<string, { kind: SourceEntry["kind"]; isSaid: boolean }>();
  const folded = new Map<string, string>();

  function checkClash(path: string, by: string): void {
    const other = folded.get(foldPath(path));
    if (other !== undefined) {
      throw createEntryError("entry-clash", by, `and ${quoteSourcePath(other)} are one and the same on some disks`);
    }
  }

  function put(path: string, by: string, kind: SourceEntry["kind"]): void {
    folded.set(foldPath(path), path);
    taken.set(path, { kind, isSaid: path === by });
  }

  return {
    take(path, kind) {
      // Everything is checked before anything is taken: a path that is refused leaves no trace.
      const made: string[] = [];
      for (const folder of listParentFolders(path)) {
        const there = taken.get(folder);
        if (there === undefined) {
          checkClash(folder, path);
          made.push(folder);
        } else if (there.kind !== "folder") throw createThroughError(path, folder, there.kind);
      }
      const there = taken.get(path);
      if (there?.isSaid)
        throw createEntryError("entry-twice", path, "is there twice: which of both is meant cannot be known");
      if (there === undefined) checkClash(path, path);
      else if (kind !== "folder") throw createThroughError(path, path, kind);
      for (const folder of made) put(folder, path, "folder");
      if (there !== undefined) there.isSaid = true;
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
    return createEntryError("entry-through-link", path, `leads through ${quoteSourcePath(at)}, which is a link`);
  return createEntryError("entry-through-file", path, `leads through ${quoteSourcePath(at)}, which is a file`);
}

/** `a` and `a/b` of `a/b/c`. */
function listParentFolders(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) folders.push(path.slice(0, at));
  return folders;
}

/**
 * What a source holds inside one of its folders, by its path from there. Throws a SkillError when there is no such folder. What is
 * beside it is not written, so nothing of it is judged.
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

/** `paths`: all that there is instead. */
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
        ? "leave out what follows the //: nothing in the source is a folder with a skill"
        : `there are skills in ${folders.slice(0, MAX_NAMED_FOLDERS).map(quoteSourcePath).join(", ")}${rest}`,
  });
}

const MAX_NAMED_FOLDERS = 8;
