import { hash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  type Dirent,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { FINDING_CODES } from "../errors/finding-codes.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { isPrivateFile, SIGNATURE_FILE, type Skill } from "../skill/skill.ts";
import { createReplacedFolderError } from "../skill/source/file-skill.ts";
import { isFolderReplaced, SKIPPED_FOLDERS } from "../skill/source/skill-files.ts";
import { HAS_DESCRIPTOR_PATHS } from "../util/folder-handle.ts";
import { type ExpectedFolder, isInside, openFileInside } from "../util/safe-path.ts";
import { compareText, formatNumber } from "../util/text.ts";

interface TreeCopyOptions {
  folder: string;
  /** Which folder it has to be: what is put in its place is not copied. */
  expected?: ExpectedFolder | undefined;
  /** Where it goes: not there yet, in a folder of the user's own. */
  to: string;
  links: "follow" | "inside";
  /** The real folder that all this ends up in. A tree that holds it would be copied into itself. */
  target: string;
  /** Takes the place of its SKILL.md. */
  skillMd?: string | undefined;
  /** Whether what has this path in the folder stays behind. */
  omit?: ((path: string) => boolean) | undefined;
  isReadOnly: boolean;
}

/** What one tree may be. */
const TREE_LIMITS = { files: 10_000, folders: 2_000, bytes: 512 * 1024 * 1024, depth: 32 };

/** What versions are kept in is never part of a skill: it is large, and holds what was taken out of the skill. */
const VERSION_CONTROL: ReadonlySet<string> = new Set([".git", ".hg", ".svn"]);

/**
 * Copies a folder and all that is in it: files, and what links lead to, as files. Gives the paths that were written. The topmost folder
 * can be written to also when the rest cannot: it could not be moved otherwise.
 */
export function copyFolderTree(copy: TreeCopyOptions): string[] {
  const root = withPathError(".", () => realpathSync(copy.folder));
  const state: CopyState = { ...copy, root, written: [], files: 0, folders: 0, bytes: 0 };
  copyFolder(state, { real: root, to: copy.to, shown: "." }, []);
  return state.written;
}

interface CopyState extends TreeCopyOptions {
  root: string;
  written: string[];
  files: number;
  folders: number;
  bytes: number;
}

interface CopyPlace {
  /** Where it really is. */
  real: string;
  to: string;
  /** Its path in the tree, for people. */
  shown: string;
}

function copyFolder(state: CopyState, { real, to, shown }: CopyPlace, above: readonly string[]): void {
  if (above.includes(real)) throw createTreeError(shown, "is a link to a folder that it is in, which has no end");
  if (above.length > TREE_LIMITS.depth) throw createTreeError(shown, `is more than ${TREE_LIMITS.depth} folders deep`);
  if (isInside(real, state.target)) throw createTreeError(shown, "holds the very folder that it is to be copied into");
  // Links between folders can make many ways out of few.
  if (++state.folders > TREE_LIMITS.folders)
    throw createTreeError(".", `holds more than ${TREE_LIMITS.folders} folders`);
  const { mode } = withPathError(shown, () => statSync(real));
  mkdirSync(to, 0o700);
  for (const entry of withPathError(shown, () => readdirSync(real, { withFileTypes: true }))) {
    const { name } = entry;
    if (VERSION_CONTROL.has(name)) continue;
    const path = shown === "." ? name : `${shown}/${name}`;
    if ((path.toLowerCase() === "skill.md" && state.skillMd !== undefined) || state.omit?.(path)) continue;
    const place = { real: join(real, name), to: join(to, name), shown: path };
    const isLink = entry.isSymbolicLink();
    if (isLink) place.real = resolveLink(state, place);
    const kind = isLink ? withPathError(path, () => statSync(place.real)) : entry;
    if (kind.isDirectory()) copyFolder(state, place, [...above, real]);
    else if (kind.isFile()) copyFile(state, place);
    else throw createTreeError(path, "is a pipe, a socket or a device, and no file");
  }
  if (above.length === 0 && state.skillMd !== undefined) state.written.push(writeSkillMd(to, state.skillMd, state));
  chmodSync(to, maskMode(mode, state.isReadOnly && above.length > 0) | 0o100);
  state.written.push(to);
}

/** Writes a SKILL.md, and gives its path. */
export function writeSkillMd(folder: string, text: string, { isReadOnly }: { isReadOnly: boolean }): string {
  const file = join(folder, "SKILL.md");
  writeFileSync(file, text, { flag: "wx", mode: isReadOnly ? 0o444 : 0o644 });
  return file;
}

/** Writes further files below a folder, and returns the paths of the files and of the folders that it made. */
export function writeExtraFiles(
  folder: string,
  files: Readonly<Record<string, string>>,
  { isReadOnly }: { isReadOnly: boolean },
): string[] {
  return Object.entries(files).flatMap(([path, text]) => {
    const file = join(folder, path);
    const made = mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
    writeFileSync(file, text, { flag: "wx", mode: isReadOnly ? 0o444 : 0o644 });
    return made === undefined ? [file] : [file, dirname(file), made];
  });
}

/** Where a link leads. */
function resolveLink({ links, root }: CopyState, { real, shown }: CopyPlace): string {
  const to = withPathError(shown, () => realpathSync.native(real));
  if (links === "inside" && !isInside(root, to))
    throw createTreeError(shown, "is a link that leaves the skill's folder");
  return to;
}

function copyFile(state: CopyState, { real, to, shown }: CopyPlace): void {
  if (++state.files > TREE_LIMITS.files) throw createTreeError(".", `holds more than ${TREE_LIMITS.files} files`);
  const { fd, stats } = openTreeFile(state, real, shown);
  try {
    state.bytes += stats.size;
    if (state.bytes > TREE_LIMITS.bytes) throw createTreeError(".", `holds more than ${TREE_LIMITS.bytes >> 20} MiB`);
    const mode = maskMode(stats.mode, state.isReadOnly);
    // By its descriptor: what was looked at is what is copied, whatever is put in its place. It shares its blocks where a file system can.
    if (HAS_DESCRIPTOR_PATHS) copyFileSync(`/proc/self/fd/${fd}`, to, NEW_OR_CLONED);
    else writeFileSync(to, readFileSync(fd), { flag: "wx", mode });
    if (!HAS_DESCRIPTOR_PATHS || (stats.mode & 0o7777) !== mode) chmodSync(to, mode);
  } finally {
    closeSync(fd);
  }
  state.written.push(to);
}

const NEW_OR_CLONED = constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE;
// A pipe that was put in a file's place is not waited for.
const COPY_READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

function openTreeFile({ links, root, expected }: CopyState, real: string, shown: string): { fd: number; stats: Stats } {
  if (links === "inside") {
    const opened = openFileInside(root, relative(root, real).replaceAll(sep, "/"), expected);
    if ("code" in opened) throw new Error(opened.message);
    return opened;
  }
  return withPathError(shown, () => {
    const fd = openSync(real, COPY_READ_FLAGS);
    const stats = fstatSync(fd);
    if (stats.isFile()) return { fd, stats };
    closeSync(fd);
    throw new Error("it is no file any more");
  });
}

/** Bits to run something as another user are never kept, and its owner can always read and change it, or only read. */
function maskMode(mode: number, isReadOnly: boolean): number {
  return isReadOnly ? (mode & 0o555) | 0o400 : (mode & 0o777) | 0o600;
}

function withPathError<T>(shown: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw createTreeError(
      shown,
      `cannot be read: ${READ_REASONS[getErrnoCode(error)] ?? getErrorMessage(error)}`,
      error,
    );
  }
}

const READ_REASONS: Readonly<Record<string, string>> = {
  ENOENT: "it is not there, or is a link that leads nowhere",
  ELOOP: "it is a chain of links without end",
};

function createTreeError(shown: string, why: string, cause?: unknown): Error {
  return new Error(`${shown === "." ? "its folder" : JSON.stringify(shown)} ${why}`, { cause });
}

/** What a folder holds, as far as one copy is told from another. */
export interface FolderContent {
  /** `sha256:…` over every file: path, executable bit, bytes. */
  digest: string;
  /** Their paths below the folder, in order. */
  files: readonly string[];
}

/** What a skill's copy is to hold, with the files that are written for its client. Throws a SkillError when it cannot be copied. */
export function hashSkillCopy(
  skill: Skill,
  skillMd: string,
  files: Readonly<Record<string, string>> = {},
): FolderContent {
  const { folder } = skill.origin;
  const written = Object.entries({ ...files, "SKILL.md": skillMd });
  const marks = new Map(written.map(([path, text]) => [path, formatFileMark("-", Buffer.from(text))]));
  if (folder === undefined) return createFolderContent(marks);
  if (isFolderReplaced(skill)) throw createReplacedFolderError(skill);
  const shared = skill.files().findings.find(({ code }) => code === "hard-link-outside");
  if (shared) {
    const { fix } = FINDING_CODES[shared.code];
    throw new SkillError("not-copied", { message: `Skill '${skill.name}': ${shared.message}`, fix });
  }
  try {
    walkFolder({ root: folder, marks, omit: createOmitFilter(files), links: "inside", bytes: 0, folders: 0 }, "", 0);
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("unreadable", {
      message: `Skill '${skill.name}' cannot be copied: ${getErrorMessage(error)}`,
      fix: "give yourself read permission",
      cause: error,
    });
  }
  return createFolderContent(marks);
}

/**
 * What of a skill's folder is no part of a copy: what belongs to the machine, what is written for the client, and the signature, which is
 * over the files as they were.
 */
export function createOmitFilter(files: Readonly<Record<string, string>>): (path: string) => boolean {
  const written = new Set([...Object.keys(files), "SKILL.md", SIGNATURE_FILE].map((path) => path.toLowerCase()));
  return (path) =>
    isPrivateFile(path) || isLitter(path) || SKIPPED_FOLDERS.has(basename(path)) || written.has(path.toLowerCase());
}

/** What a folder holds, to the last file: whatever somebody put there is theirs. Throws when it cannot be read. */
export function hashFolder(folder: string): FolderContent {
  const marks = new Map<string, string>();
  walkFolder({ root: folder, marks, omit: isLitter, links: "kept", bytes: 0, folders: 0 }, "", 0);
  return createFolderContent(marks);
}

/** What systems leave behind in every folder that is looked at, and Python in every one that it runs something of. */
const LITTER: ReadonlySet<string> = new Set([".DS_Store", "Thumbs.db", "desktop.ini", "__pycache__"]);

function isLitter(path: string): boolean {
  return LITTER.has(basename(path));
}

interface HashWalk {
  root: string;
  marks: Map<string, string>;
  omit(path: string): boolean;
  links: "inside" | "kept";
  bytes: number;
  folders: number;
}

function walkFolder(look: HashWalk, below: string, depth: number): void {
  // Links between folders can make many ways out of few.
  if (++look.folders > TREE_LIMITS.folders)
    throw createSkillTooLargeError(look, `holds more than ${formatNumber(TREE_LIMITS.folders)} folders`);
  if (depth > TREE_LIMITS.depth)
    throw createSkillTooLargeError(look, `is nested deeper than ${TREE_LIMITS.depth} folders`);
  for (const entry of readdirSync(join(look.root, below), { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (look.omit(path)) continue;
    if (entry.isDirectory()) walkFolder(look, path, depth + 1);
    else if (entry.isSymbolicLink()) addLink(look, path, depth);
    else addFile(look, path, join(look.root, path), entry);
  }
}

function addFile(look: HashWalk, path: string, real: string, entry: Pick<Dirent, "isFile">): void {
  const fd = entry.isFile() ? openHashedFile(look, path, real) : undefined;
  if (fd === undefined) {
    if (look.links === "inside") throw createNotCopiedError(look, path, "is no regular file", "remove it");
    look.marks.set(path, "?");
    return;
  }
  try {
    const { mode, size } = fstatSync(fd);
    look.bytes += size;
    if (look.bytes > TREE_LIMITS.bytes)
      throw createSkillTooLargeError(look, `holds more than ${formatNumber(TREE_LIMITS.bytes)} bytes`);
    look.marks.set(path, formatFileMark(mode & 0o111 ? "x" : "-", readFileSync(fd)));
  } finally {
    closeSync(fd);
  }
  if (look.marks.size > TREE_LIMITS.files)
    throw createSkillTooLargeError(look, `holds more than ${formatNumber(TREE_LIMITS.files)} files`);
}

// Neither a link nor a pipe that was put in a file's place since the folder was listed is followed, or waited for.
const HASH_READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Nothing when it is no file any more. */
function openHashedFile(look: HashWalk, path: string, real: string): number | undefined {
  let fd: number;
  try {
    fd = openSync(real, HASH_READ_FLAGS);
  } catch (error) {
    const fix = READ_FIXES[getErrnoCode(error)] ?? "give yourself read permission";
    throw createNotCopiedError(look, path, `cannot be read: ${getErrorMessage(error)}`, fix);
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  return undefined;
}

const READ_FIXES: Readonly<Record<string, string>> = {
  ENOENT: "try again; if it is there, rename it: its name is no UTF-8 text",
  ELOOP: "try again: a link was put in its place meanwhile",
};

function addLink(look: HashWalk, path: string, depth: number): void {
  const place = join(look.root, path);
  if (look.links === "kept") {
    look.marks.set(path, `l${readlinkSync(place)}`);
    return;
  }
  let real: string;
  try {
    real = realpathSync(place);
  } catch {
    throw createNotCopiedError(look, path, "is a link to nothing", "remove it");
  }
  if (!isInside(look.root, real))
    throw createNotCopiedError(
      look,
      path,
      "is a link that leaves the skill's folder",
      "copy what it leads to into the folder",
    );
  const stats = lstatSync(real);
  if (!stats.isDirectory()) addFile(look, path, real, stats);
  else if (isInside(real, place)) throw createNotCopiedError(look, path, "is a link to a folder above it", "remove it");
  else walkFolder(look, path, depth + 1);
}

function formatFileMark(kind: string, bytes: Uint8Array): string {
  return `${kind}${hash("sha256", bytes)}`;
}

function createFolderContent(marks: ReadonlyMap<string, string>): FolderContent {
  const files = [...marks.keys()].sort(compareText);
  const lines = files.map((path) => JSON.stringify([path, marks.get(path)]));
  return { digest: `sha256:${hash("sha256", lines.join("\n"))}`, files };
}

function createNotCopiedError({ root }: HashWalk, path: string, what: string, fix: string): SkillError {
  return new SkillError("not-copied", { message: `${join(root, path)} ${what}`, fix });
}

function createSkillTooLargeError({ root }: HashWalk, what: string): SkillError {
  return new SkillError("skill-too-large", {
    message: `${root} ${what}`,
    fix: "keep what it does not need out of its folder",
  });
}
