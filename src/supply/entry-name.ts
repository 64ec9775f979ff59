import { findHidden } from "../shared/hidden.ts";
import { isWindowsDevice } from "../skill/name.ts";
import { SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { type EntryCode, isOfOneFile, refusedEntry } from "./refusal.ts";

/**
 * The path of an entry below the source's folder, as it is written anywhere: without `./` before and `/` behind. The folder itself is the
 * empty text. Throws when it could lead elsewhere, or be another one on another machine.
 */
export function entryPath({ path, kind }: Pick<SourceEntry, "path" | "kind">): string {
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
  const [code, , why] = broken.find(([one]) => !isOfOneFile(one)) ?? broken[0] ?? [];
  if (code !== undefined && why !== undefined) throw refusedEntry(code, path, why);
  return name;
}

/** A name as it stands in an archive. Throws when it is no UTF-8: what it is called would depend on the machine. */
export function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    const path = Buffer.from(bytes).toString("latin1");
    throw refusedEntry("entry-encoding", path, "is a name that is no UTF-8", cause);
  }
}

/** Equal for paths that are one file on some disk: those of macOS and Windows do not tell case, nor how accents are composed. */
export function foldedPath(path: string): string {
  if (ASCII.test(path)) return path.toUpperCase();
  const visible = path.replace(new RegExp(IGNORED, "gu"), "");
  return visible.toLowerCase().toUpperCase().normalize("NFC");
}

/** The same of a name alone: Windows takes dots and spaces from its end. */
export function foldedName(name: string): string {
  return foldedPath(name).replace(/[. ]+$/, "");
}

/** Bytes of where a link leads. */
export const LONGEST_TARGET = 4096;

type Rule = readonly [code: EntryCode, isSo: (text: string) => boolean, why: string];

/** No file system of today takes a longer name. */
const LONGEST_PART = 255;

const PATH_RULES: readonly Rule[] = [
  ["entry-encoding", (path) => !path.isWellFormed() || path.includes("\ufffd"), "is a name that is no UTF-8"],
  ["entry-control", (path) => CONTROL.test(path), "has a control character in its name"],
  ["entry-backslash", (path) => path.includes("\\"), "has a backslash in its name, which divides folders on Windows"],
  ["entry-absolute", (path) => path.startsWith("/"), "is a path from the root, outside the folder"],
  ["entry-long", (path) => Buffer.byteLength(path) > SOURCE_LIMITS.path, `is longer than ${SOURCE_LIMITS.path} bytes`],
  ["entry-deep", (path) => partsOf(path) > SOURCE_LIMITS.depth, `is more than ${SOURCE_LIMITS.depth} folders deep`],
];

const PART_RULES: readonly Rule[] = [
  ["entry-empty", (part) => part === "" || part === ".", 'has an empty part or "." in its path'],
  ["entry-parent", (part) => part === "..", 'has ".." in its path, which leads out of the folder'],
  ["entry-repository", isRepository, "is of the inner state of a repository, whose settings can start programs"],
  [
    "entry-colon",
    (part) => part.includes(":"),
    "has a colon in its name: on Windows, a drive or what hides behind a file",
  ],
  ["entry-hidden", (part) => findHidden(part).length > 0, "has an invisible character in its name"],
  ["entry-ending", (part) => /[. ]$/.test(part), "has a part that ends in a dot or a space, which Windows takes away"],
  ["entry-device", isDevice, "is called as a device is on Windows"],
  ["entry-long", (part) => Buffer.byteLength(part) > LONGEST_PART, `has a part of more than ${LONGEST_PART} bytes`],
];

const ASCII = /^[\x20-\x7e]*$/;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
// As text: compiling Unicode classes takes time of every start, and almost every name is plain.
const IGNORED = "\\p{Default_Ignorable_Code_Point}";

// As a disk may read them: macOS passes over what is invisible, Windows over dots and spaces at the end, and has short names.
function isRepository(part: string): boolean {
  if (!/git|hg|svn/i.test(part) && ASCII.test(part)) return false;
  const name = foldedName(part.split(":", 1)[0] ?? "");
  return /^(?:\.(?:GIT|HG|SVN)|(?:GIT|HG|SVN)~\d+)$/.test(name);
}

// With any ending, and with raised digits: `COM¹.txt` is one too.
function isDevice(part: string): boolean {
  const stem = part.split(".", 1)[0]?.trimEnd().normalize("NFKC") ?? "";
  return isWindowsDevice(stem) || /^con(?:in|out)\$$/i.test(stem);
}

function partsOf(path: string): number {
  let parts = 1;
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) parts++;
  return parts;
}
