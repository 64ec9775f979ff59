import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { codeOf, type ExpectedFolder, isInside, openInside, reason } from "../shared/inside.ts";
import { HAS_DESCRIPTOR_PATHS } from "./held-folder.ts";

export interface TreeCopy {
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
export const TREE_LIMITS = { files: 10_000, folders: 2_000, bytes: 512 * 1024 * 1024, depth: 32 };

/** What versions are kept in is never part of a skill: it is large, and holds what was taken out of the skill. */
const VERSION_CONTROL: ReadonlySet<string> = new Set([".git", ".hg", ".svn"]);

/**
 * Copies a folder and all that is in it: files, and what links lead to, as files. Gives the paths that were written. The topmost folder
 * can be written to also when the rest cannot: it could not be moved otherwise.
 */
export function copyTree(copy: TreeCopy): string[] {
  const root = whileAt(".", () => realpathSync(copy.folder));
  const state: State = { ...copy, root, written: [], files: 0, folders: 0, bytes: 0 };
  copyFolder(state, { real: root, to: copy.to, shown: "." }, []);
  return state.written;
}

interface State extends TreeCopy {
  root: string;
  written: string[];
  files: number;
  folders: number;
  bytes: number;
}

interface Place {
  /** Where it really is. */
  real: string;
  to: string;
  /** Its path in the tree, for people. */
  shown: string;
}

function copyFolder(state: State, { real, to, shown }: Place, above: readonly string[]): void {
  if (above.includes(real)) throw wrong(shown, "is a link to a folder that it is in, which has no end");
  if (above.length > TREE_LIMITS.depth) throw wrong(shown, `is more than ${TREE_LIMITS.depth} folders deep`);
  if (isInside(real, state.target)) throw wrong(shown, "holds the very folder that it is to be copied into");
  // Links between folders can make many ways out of few.
  if (++state.folders > TREE_LIMITS.folders) throw wrong(".", `holds more than ${TREE_LIMITS.folders} folders`);
  const { mode } = whileAt(shown, () => statSync(real));
  mkdirSync(to, 0o700);
  for (const entry of whileAt(shown, () => readdirSync(real, { withFileTypes: true }))) {
    const { name } = entry;
    if (VERSION_CONTROL.has(name)) continue;
    const path = shown === "." ? name : `${shown}/${name}`;
    if ((path.toLowerCase() === "skill.md" && state.skillMd !== undefined) || state.omit?.(path)) continue;
    const place = { real: join(real, name), to: join(to, name), shown: path };
    const isLink = entry.isSymbolicLink();
    if (isLink) place.real = destination(state, place);
    const kind = isLink ? whileAt(path, () => statSync(place.real)) : entry;
    if (kind.isDirectory()) copyFolder(state, place, [...above, real]);
    else if (kind.isFile()) copyFile(state, place);
    else throw wrong(path, "is a pipe, a socket or a device, and no file");
  }
  if (above.length === 0 && state.skillMd !== undefined) state.written.push(writeSkillMd(to, state.skillMd, state));
  chmodSync(to, kept(mode, state.isReadOnly && above.length > 0) | 0o100);
  state.written.push(to);
}

/** Writes a SKILL.md, and gives its path. */
export function writeSkillMd(folder: string, text: string, { isReadOnly }: { isReadOnly: boolean }): string {
  const file = join(folder, "SKILL.md");
  writeFileSync(file, text, { flag: "wx", mode: isReadOnly ? 0o444 : 0o644 });
  return file;
}

/** Writes further files below a folder, and returns the paths of the files and of the folders that it made. */
export function writeMore(
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
function destination({ links, root }: State, { real, shown }: Place): string {
  const to = whileAt(shown, () => realpathSync.native(real));
  if (links === "inside" && !isInside(root, to)) throw wrong(shown, "is a link that leaves the skill's folder");
  return to;
}

function copyFile(state: State, { real, to, shown }: Place): void {
  if (++state.files > TREE_LIMITS.files) throw wrong(".", `holds more than ${TREE_LIMITS.files} files`);
  const { fd, stats } = openFile(state, real, shown);
  try {
    state.bytes += stats.size;
    if (state.bytes > TREE_LIMITS.bytes) throw wrong(".", `holds more than ${TREE_LIMITS.bytes >> 20} MiB`);
    const mode = kept(stats.mode, state.isReadOnly);
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
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

function openFile({ links, root, expected }: State, real: string, shown: string): { fd: number; stats: Stats } {
  if (links === "inside") {
    const opened = openInside(root, relative(root, real).replaceAll(sep, "/"), expected);
    if ("code" in opened) throw new Error(opened.message);
    return opened;
  }
  return whileAt(shown, () => {
    const fd = openSync(real, READ);
    const stats = fstatSync(fd);
    if (stats.isFile()) return { fd, stats };
    closeSync(fd);
    throw new Error("it is no file any more");
  });
}

/** Bits to run something as another user are never kept, and its owner can always read and change it, or only read. */
function kept(mode: number, isReadOnly: boolean): number {
  return isReadOnly ? (mode & 0o555) | 0o400 : (mode & 0o777) | 0o600;
}

function whileAt<T>(shown: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw wrong(shown, `cannot be read: ${WHY[codeOf(error)] ?? reason(error)}`, error);
  }
}

const WHY: Readonly<Record<string, string>> = {
  ENOENT: "it is not there, or is a link that leads nowhere",
  ELOOP: "it is a chain of links without end",
};

function wrong(shown: string, why: string, cause?: unknown): Error {
  return new Error(`${shown === "." ? "its folder" : JSON.stringify(shown)} ${why}`, { cause });
}
