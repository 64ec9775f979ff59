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
import { createFolder, HAS_DESCRIPTOR_PATHS } from "../util/file-access.ts";
import { type ExpectedFolder, isInside, openFileInside } from "../util/safe-path.ts";
import { compareText, formatNumber } from "../util/text.ts";

interface TreeCopyOptions {
  folder: string;
  /** The identity that the folder must have: a folder put in its place is not copied. */
  expected?: ExpectedFolder | undefined;
  /** The destination: it must not exist yet, in a folder that the user owns. */
  to: string;
  links: "follow" | "inside";
  /** The real folder of the final destination. A tree that contains it would be copied into itself. */
  target: string;
  /** Replaces its SKILL.md. */
  skillMd?: string | undefined;
  /** Returns true for a path in the folder that is not copied. */
  omit?: ((path: string) => boolean) | undefined;
  isReadOnly: boolean;
}

/** Limits of one tree. */
const TREE_LIMITS = { files: 10_000, folders: 2_000, bytes: 512 * 1024 * 1024, depth: 32 };

/** Version control folders are never part of a skill: they are large, and hold files that were removed from it. */
const VERSION_CONTROL: ReadonlySet<string> = new Set([".git", ".hg", ".svn"]);

/**
 * Copies a folder with all files, and the targets of links as files. Returns the written paths. The topmost folder
 * stays writable even if the rest is read-only: it could not be moved otherwise.
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
  /** The real path. */
  real: string;
  to: string;
  /** The path in the tree, for messages. */
  shown: string;
}

function copyFolder(state: CopyState, { real, to, shown }: CopyPlace, above: readonly string[]): void {
  if (above.includes(real))
    throw createTreeError(shown, "is a link to a folder that contains it, so the tree has no end");
  if (above.length > TREE_LIMITS.depth) throw createTreeError(shown, `is more than ${TREE_LIMITS.depth} folders deep`);
  if (isInside(real, state.target)) throw createTreeError(shown, "contains the folder that it would be copied into");
  // A few links between folders can form many paths.
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
    else throw createTreeError(path, "is a pipe, a socket or a device, not a file");
  }
  if (above.length === 0 && state.skillMd !== undefined) state.written.push(writeSkillMd(to, state.skillMd, state));
  chmodSync(to, maskMode(mode, state.isReadOnly && above.length > 0) | 0o100);
  state.written.push(to);
}

/** Writes a SKILL.md and returns its path. */
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
    const made = createFolder(dirname(file), 0o755);
    writeFileSync(file, text, { flag: "wx", mode: isReadOnly ? 0o444 : 0o644 });
    return made === undefined ? [file] : [file, dirname(file), made];
  });
}

/** Resolves a link to its target. */
function resolveLink({ links, root }: CopyState, { real, shown }: CopyPlace): string {
  const to = withPathError(shown, () => realpathSync.native(real));
  if (links === "inside" && !isInside(root, to))
    throw createTreeError(shown, "is a symlink that leaves the skill's folder");
  return to;
}

function copyFile(state: CopyState, { real, to, shown }: CopyPlace): void {
  if (++state.files > TREE_LIMITS.files) throw createTreeError(".", `holds more than ${TREE_LIMITS.files} files`);
  const { fd, stats } = openTreeFile(state, real, shown);
  try {
    state.bytes += stats.size;
    if (state.bytes > TREE_LIMITS.bytes) throw createTreeError(".", `holds more than ${TREE_LIMITS.bytes >> 20} MiB`);
    const mode = maskMode(stats.mode, state.isReadOnly);
    // Copies by descriptor: the checked file is the copied file, even if it is replaced meanwhile. The copy shares
    // blocks where the file system supports it.
    if (HAS_DESCRIPTOR_PATHS) copyFileSync(`/proc/self/fd/${fd}`, to, NEW_OR_CLONED);
    else writeFileSync(to, readFileSync(fd), { flag: "wx", mode });
    if (!HAS_DESCRIPTOR_PATHS || (stats.mode & 0o7777) !== mode) chmodSync(to, mode);
  } finally {
    closeSync(fd);
  }
  state.written.push(to);
}

const NEW_OR_CLONED = constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE;
// Does not block on a pipe that replaced a file.
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
    throw new Error("it is not a file anymore");
  });
}

/** Clears setuid and setgid bits. The owner can always read the file, and write it unless it is read-only. */
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
  ENOENT: "it does not exist, or is a broken link",
  ELOOP: "it is an endless chain of links",
};

function createTreeError(shown: string, why: string, cause?: unknown): Error {
  return new Error(`${shown === "." ? "its folder" : JSON.stringify(shown)} ${why}`, { cause });
}

/** The content of a folder, as far as two copies are compared. */
export interface FolderContent {
  /** `sha256:…` over every file: path, executable bit, bytes. */
  digest: string;
  /** The paths below the folder, in order. */
  files: readonly string[];
}

/**
 * Computes the content of a skill's copy with the files written for its client. Throws a SkillError when it cannot be
 * copied.
 */
export async function hashSkillCopy(
  skill: Skill,
  skillMd: string,
  files: Readonly<Record<string, string>> = {},
): Promise<FolderContent> {
  const { folder } = skill.origin;
  const written = Object.entries({ ...files, "SKILL.md": skillMd });
  const marks = new Map(written.map(([path, text]) => [path, formatFileMark("-", Buffer.from(text))]));
  if (folder === undefined) return createFolderContent(marks);
  if (isFolderReplaced(skill)) throw createReplacedFolderError(skill);
  const shared = (await skill.files()).findings.find(({ code }) => code === "hard-link-outside");
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
      fix: "grant yourself read permission",
      cause: error,
    });
  }
  return createFolderContent(marks);
}

/**
 * Returns a filter for files that are not part of a copy: those of the machine, those written for the client, and the
 * signature, which covers the original files.
 */
export function createOmitFilter(files: Readonly<Record<string, string>>): (path: string) => boolean {
  const written = new Set([...Object.keys(files), "SKILL.md", SIGNATURE_FILE].map((path) => path.toLowerCase()));
  return (path) =>
    isPrivateFile(path) || isLitter(path) || SKIPPED_FOLDERS.has(basename(path)) || written.has(path.toLowerCase());
}

/** Hashes every file of a folder: any file that was added there counts. Throws when it cannot be read. */
export function hashFolder(folder: string): FolderContent {
  const marks = new Map<string, string>();
  walkFolder({ root: folder, marks, omit: isLitter, links: "kept", bytes: 0, folders: 0 }, "", 0);
  return createFolderContent(marks);
}

/** Files that operating systems leave in every folder they open, and Python in every folder it runs code from. */
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
  // A few links between folders can form many paths.
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
    if (look.links === "inside") throw createNotCopiedError(look, path, "is not a regular file", "remove it");
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

// Neither follows a link nor blocks on a pipe that replaced a file after the folder was listed.
const HASH_READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Returns undefined if it is not a file anymore. */
function openHashedFile(look: HashWalk, path: string, real: string): number | undefined {
  let fd: number;
  try {
    fd = openSync(real, HASH_READ_FLAGS);
  } catch (error) {
    const fix = READ_FIXES[getErrnoCode(error)] ?? "grant yourself read permission";
    throw createNotCopiedError(look, path, `cannot be read: ${getErrorMessage(error)}`, fix);
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  return undefined;
}

const READ_FIXES: Readonly<Record<string, string>> = {
  ENOENT: "try again; if the file exists, rename it: its name is not valid UTF-8",
  ELOOP: "try again: the file was replaced by a link meanwhile",
};

function addLink(look: HashWalk, path: string, depth: number): void {
  const location = join(look.root, path);
  if (look.links === "kept") {
    look.marks.set(path, `l${readlinkSync(location)}`);
    return;
  }
  let real: string;
  try {
    real = realpathSync(location);
  } catch {
    throw createNotCopiedError(look, path, "is a broken link", "remove it");
  }
  if (!isInside(look.root, real))
    throw createNotCopiedError(
      look,
      path,
      "is a symlink that leaves the skill's folder",
      "copy its target into the folder",
    );
  const stats = lstatSync(real);
  if (!stats.isDirectory()) addFile(look, path, real, stats);
  else if (isInside(real, location))
    throw createNotCopiedError(look, path, "is a link to a folder above it", "remove it");
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
    fix: "move files that the skill does not need out of its folder",
  });
}
