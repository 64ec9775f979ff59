import { hash } from "node:crypto";
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
} from "node:fs";
import { basename, join } from "node:path";
import { CODES } from "../codes/findings.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, isInside, reason } from "../shared/inside.ts";
import { byText, grouped } from "../shared/text.ts";
import { isPrivate, SIGNATURE_FILE, type Skill } from "../skill/skill.ts";
import { isReplaced, SKIPPED_FOLDERS } from "../source/file-list.ts";
import { notFolder } from "../source/file-skill.ts";
import { TREE_LIMITS } from "./tree.ts";

/** What a folder holds, as far as one copy is told from another. */
export interface Content {
  /** `sha256:…` over every file: path, executable bit, bytes. */
  digest: string;
  /** Their paths below the folder, in order. */
  files: readonly string[];
}

/** What a skill's copy is to hold, with the files that are written for its client. Throws a SkillError when it cannot be copied. */
export function contentOfCopy(skill: Skill, skillMd: string, files: Readonly<Record<string, string>> = {}): Content {
  const { folder } = skill.origin;
  const written = Object.entries({ ...files, "SKILL.md": skillMd });
  const marks = new Map(written.map(([path, text]) => [path, mark("-", Buffer.from(text))]));
  if (folder === undefined) return contentOf(marks);
  if (isReplaced(skill)) throw notFolder(skill);
  const shared = skill.files().findings.find(({ code }) => code === "hard-link-outside");
  if (shared) {
    const { fix } = CODES[shared.code];
    throw new SkillError("not-copied", { message: `Skill '${skill.name}': ${shared.message}`, fix });
  }
  try {
    visit({ root: folder, marks, omit: omitting(files), links: "inside", bytes: 0, folders: 0 }, "", 0);
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("unreadable", {
      message: `Skill '${skill.name}' cannot be copied: ${reason(error)}`,
      fix: "give yourself read permission",
      cause: error,
    });
  }
  return contentOf(marks);
}

/**
 * What of a skill's folder is no part of a copy: what belongs to the machine, what is written for the client, and the signature, which is
 * over the files as they were.
 */
export function omitting(files: Readonly<Record<string, string>>): (path: string) => boolean {
  const written = new Set([...Object.keys(files), "SKILL.md", SIGNATURE_FILE].map((path) => path.toLowerCase()));
  return (path) =>
    isPrivate(path) || isLitter(path) || SKIPPED_FOLDERS.has(basename(path)) || written.has(path.toLowerCase());
}

/** What a folder holds, to the last file: whatever somebody put there is theirs. Throws when it cannot be read. */
export function contentOfFolder(folder: string): Content {
  const marks = new Map<string, string>();
  visit({ root: folder, marks, omit: isLitter, links: "kept", bytes: 0, folders: 0 }, "", 0);
  return contentOf(marks);
}

/** What systems leave behind in every folder that is looked at, and Python in every one that it runs something of. */
const LITTER: ReadonlySet<string> = new Set([".DS_Store", "Thumbs.db", "desktop.ini", "__pycache__"]);

function isLitter(path: string): boolean {
  return LITTER.has(basename(path));
}

interface Look {
  root: string;
  marks: Map<string, string>;
  omit(path: string): boolean;
  links: "inside" | "kept";
  bytes: number;
  folders: number;
}

function visit(look: Look, below: string, depth: number): void {
  // Links between folders can make many ways out of few.
  if (++look.folders > TREE_LIMITS.folders)
    throw tooMuch(look, `holds more than ${grouped(TREE_LIMITS.folders)} folders`);
  if (depth > TREE_LIMITS.depth) throw tooMuch(look, `is nested deeper than ${TREE_LIMITS.depth} folders`);
  for (const entry of readdirSync(join(look.root, below), { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (look.omit(path)) continue;
    if (entry.isDirectory()) visit(look, path, depth + 1);
    else if (entry.isSymbolicLink()) addLink(look, path, depth);
    else add(look, path, join(look.root, path), entry);
  }
}

function add(look: Look, path: string, real: string, entry: Pick<Dirent, "isFile">): void {
  const fd = entry.isFile() ? openFile(look, path, real) : undefined;
  if (fd === undefined) {
    if (look.links === "inside") throw notCopied(look, path, "is no regular file", "remove it");
    look.marks.set(path, "?");
    return;
  }
  try {
    const { mode, size } = fstatSync(fd);
    look.bytes += size;
    if (look.bytes > TREE_LIMITS.bytes) throw tooMuch(look, `holds more than ${grouped(TREE_LIMITS.bytes)} bytes`);
    look.marks.set(path, mark(mode & 0o111 ? "x" : "-", readFileSync(fd)));
  } finally {
    closeSync(fd);
  }
  if (look.marks.size > TREE_LIMITS.files) throw tooMuch(look, `holds more than ${grouped(TREE_LIMITS.files)} files`);
}

// Neither a link nor a pipe that was put in a file's place since the folder was listed is followed, or waited for.
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Nothing when it is no file any more. */
function openFile(look: Look, path: string, real: string): number | undefined {
  let fd: number;
  try {
    fd = openSync(real, READ);
  } catch (error) {
    const fix = FIXES[codeOf(error)] ?? "give yourself read permission";
    throw notCopied(look, path, `cannot be read: ${reason(error)}`, fix);
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  return undefined;
}

const FIXES: Readonly<Record<string, string>> = {
  ENOENT: "try again; if it is there, rename it: its name is no UTF-8 text",
  ELOOP: "try again: a link was put in its place meanwhile",
};

function addLink(look: Look, path: string, depth: number): void {
  const place = join(look.root, path);
  if (look.links === "kept") {
    look.marks.set(path, `l${readlinkSync(place)}`);
    return;
  }
  let real: string;
  try {
    real = realpathSync(place);
  } catch {
    throw notCopied(look, path, "is a link to nothing", "remove it");
  }
  if (!isInside(look.root, real))
    throw notCopied(look, path, "is a link that leaves the skill's folder", "copy what it leads to into the folder");
  const stats = lstatSync(real);
  if (!stats.isDirectory()) add(look, path, real, stats);
  else if (isInside(real, place)) throw notCopied(look, path, "is a link to a folder above it", "remove it");
  else visit(look, path, depth + 1);
}

function mark(kind: string, bytes: Uint8Array): string {
  return `${kind}${hash("sha256", bytes)}`;
}

function contentOf(marks: ReadonlyMap<string, string>): Content {
  const files = [...marks.keys()].sort(byText);
  const lines = files.map((path) => JSON.stringify([path, marks.get(path)]));
  return { digest: `sha256:${hash("sha256", lines.join("\n"))}`, files };
}

function notCopied({ root }: Look, path: string, what: string, fix: string): SkillError {
  return new SkillError("not-copied", { message: `${join(root, path)} ${what}`, fix });
}

function tooMuch({ root }: Look, what: string): SkillError {
  return new SkillError("skill-too-large", {
    message: `${root} ${what}`,
    fix: "keep what it does not need out of its folder",
  });
}
