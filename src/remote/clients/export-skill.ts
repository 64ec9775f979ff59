import { hash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { crc32, deflateRawSync } from "node:zlib";
import { getErrnoCode, getErrorMessage, SkillError } from "../../errors/problem.ts";
import { isPrivateFile, SIGNATURE_FILE, type Skill } from "../../skill/skill.ts";
import { checkText } from "../../skill/source/check-skills.ts";
import { type CopiedFile, copySkill } from "../../skill/source/skill-copy.ts";
import { createFolder, statIfExists } from "../../util/file-access.ts";
import { isJsonObject } from "../../util/objects.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { compareText, formatNumber } from "../../util/text.ts";
import { adaptSkill, type ClientFormat, createPluginManifest, formatReadme, UNSIGNED_NOTE } from "./adapt-skill.ts";
import { NATIVE_CLIENTS } from "./native-clients.ts";

export interface ExportRequest {
  skill: Skill;
  format: ExportFormat;
  /** The absolute destination path. Its parent folder is created if it does not exist. */
  path: string;
  /** True if an earlier export at the path may be replaced. */
  isForced?: boolean;
  /** Plans without writing. */
  isDryRun?: boolean;
}

export interface ExportResult {
  path: string;
  /** The files, by path, in order. */
  files: readonly string[];
  /** The size of the archive or of all files. Of all files if nothing is written. */
  bytes: number;
  /** Files of the skill that are not exported, with the reason, a sentence each. */
  omitted: readonly string[];
  /** Differences in behavior, a sentence each. */
  notes: readonly string[];
}

interface ExportFormatRow {
  /** The suffix after the skill's name. */
  ending: string;
  /** The reader of the export. */
  taker: ClientFormat;
  /** Throws a SkillError if the skill would be refused there. */
  judge(skillMd: string, name: string): void;
  arrange(skill: Skill, files: ReadonlyMap<string, CopiedFile>): Map<string, CopiedFile>;
  /** Throws a SkillError if the existing file or folder must not be replaced. */
  checkPlace(path: string, isForced: boolean): void;
  /** Writes the export atomically, and returns the number of bytes. */
  write(path: string, files: ReadonlyMap<string, CopiedFile>): number;
  /** The size limit of the reader, if known. */
  maxBytes?: number;
  next(path: string): string;
}

/** The export formats, one row each. */
export const EXPORT_FORMATS = {
  "skill-zip": {
    ending: ".zip",
    taker: {
      title: "claude.ai",
      keys: [],
      reserved: [],
      refusesAngleBrackets: true,
      description: { longest: 1024, beyond: "dropped" },
    },
    judge: checkUpload,
    arrange: (skill, files) => new Map([...files].map(([path, file]) => [`${skill.name}/${path}`, file])),
    checkPlace: checkArchive,
    write: writeArchive,
    maxBytes: 30_000_000,
    next: () => "upload it in Claude's settings, under Skills",
  },
  "agent-plugin": {
    ending: "-plugin",
    // In a plugin a skill is called `plugin:skill`, so names do not conflict.
    taker: { title: "Claude Code", keys: [], ...NATIVE_CLIENTS["claude"], reserved: [], builtInNames: [] },
    judge: () => {},
    arrange: createPluginFiles,
    checkPlace: checkFolder,
    write: writeFolder,
    next: (path) => `try it: claude --plugin-dir ${path}`,
  },
} as const satisfies Record<string, ExportFormatRow>;

export type ExportFormat = keyof typeof EXPORT_FORMATS;

/** Writes a skill in another format. Runs nothing of it. Throws a SkillError, and then nothing was written. */
export async function exportSkill({
  skill,
  format,
  path,
  isForced = false,
  isDryRun = false,
}: ExportRequest): Promise<ExportResult> {
  const row: ExportFormatRow = EXPORT_FORMATS[format];
  const { skillMd, files: more, notes } = await adaptSkill(skill, row.taker);
  row.judge(skillMd, skill.name);
  const { files, omitted } = await selectFiles(skill);
  for (const [name, text] of Object.entries({ ...more, "SKILL.md": skillMd }))
    files.set(name, { bytes: Buffer.from(text), executable: false });
  const all = row.arrange(skill, files);
  const total = [...all.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  checkOutsideSkill(skill, path);
  const bytes = withWriteError(path, () => {
    row.checkPlace(path, isForced);
    return isDryRun ? total : row.write(path, all);
  });
  const isLarge = row.maxBytes !== undefined && total > row.maxBytes;
  return {
    path,
    files: [...all.keys()].sort(),
    bytes,
    omitted,
    notes: isLarge
      ? [
          ...notes,
          `it has ${formatNumber(total)} bytes: ${row.taker.title} may refuse more than ${formatNumber(row.maxBytes ?? 0)}`,
        ]
      : notes,
  };
}

/** Returns the destination: the working directory by default, or inside a folder named with a slash (`dist/`). */
export function resolveExportPath(
  skill: Skill,
  format: ExportFormat,
  { cwd, output }: { cwd: string; output?: string },
): string {
  const name = `${skill.name}${EXPORT_FORMATS[format].ending}`;
  if (output === undefined) return join(cwd, name);
  const path = resolve(cwd, output);
  // An existing folder may be a plugin to replace; a zip file is never a folder.
  const isThere = format === "skill-zip" && statIfExists(path)?.isDirectory() === true;
  return isThere || /[/\\]$/.test(output) ? join(path, name) : path;
}

function checkUpload(skillMd: string, name: string): void {
  const { diagnostics } = checkText(skillMd, { profile: "claude-upload" });
  const wrong = diagnostics.find(({ severity }) => severity === "error");
  if (wrong)
    throw new SkillError(wrong.code, {
      message: `Skill "${name}" would be refused when it is uploaded: ${wrong.message}`,
      fix: wrong.fix,
    });
}

/** Selects the files, without those of this machine and those that other systems cannot unpack. */
async function selectFiles(skill: Skill): Promise<{ files: Map<string, CopiedFile>; omitted: string[] }> {
  const omitted: string[] = [];
  for (const { code, message } of (await skill.files()).findings) {
    if (code === "too-many-files")
      throw new SkillError(code, {
        message: `Skill "${skill.name}" ${message}`,
        fix: "move files that the skill does not need out of its folder",
      });
    if (code !== "file-mode") omitted.push(message);
  }
  const files = new Map<string, CopiedFile>();
  for (const [path, file] of (await copySkill(skill)).files) {
    if (path === SIGNATURE_FILE) omitted.push(UNSIGNED_NOTE);
    else if (isPrivateFile(path)) omitted.push(`"${path}" is hidden: it belongs to this machine`);
    else if (UNPORTABLE.test(path)) omitted.push(`"${path}" has a name that other systems read as a path`);
    else files.set(path, file);
  }
  return { files, omitted };
}

const UNPORTABLE = /[\\:\u0000-\u001f\u007f]/;

/** Rejects a destination in the skill's own folder: it would become part of the skill. */
function checkOutsideSkill({ name, origin: { folder } }: Skill, path: string): void {
  if (folder === undefined || !isInside(folder, resolveRealPath(path))) return;
  throw new SkillError("output-inside-skill", {
    message: `${path} is in the folder of skill "${name}": it would become part of the skill`,
    fix: "choose another path with --output",
  });
}

function withWriteError(path: string, write: () => number): number {
  try {
    return write();
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("unwritable", {
      message: `${path} cannot be written: ${getErrorMessage(error)}`,
      fix: `check that ${dirname(path)} is writable and the disk has free space; nothing was left half-written`,
      cause: error,
    });
  }
}

function checkArchive(path: string, isForced: boolean): void {
  if (!lstatSync(path, { throwIfNoEntry: false })) return;
  if (!isForced) throw createPathExistsError(path);
  if (!isArchive(path)) throw createNotReplacedError(path, "is not a zip file");
}

function writeArchive(path: string, files: ReadonlyMap<string, CopiedFile>): number {
  const bytes = createZip(files);
  writeStaged(path, (draft) => writeWhole(draft, bytes, 0o644));
  return bytes.length;
}

function checkFolder(path: string, isForced: boolean): void {
  const isThere = lstatSync(path, { throwIfNoEntry: false });
  if (!isThere) return;
  if (!isForced) throw createPathExistsError(path);
  const why = isThere.isDirectory() ? findForeignChange(path) : "is not a folder";
  if (why !== undefined) throw createNotReplacedError(path, why);
}

function writeFolder(path: string, files: ReadonlyMap<string, CopiedFile>): number {
  writeStaged(path, (draft) => {
    for (const [name, { bytes, executable }] of files) {
      createFolder(dirname(join(draft, name)));
      writeWhole(join(draft, name), bytes, executable ? 0o755 : 0o644);
    }
  });
  return [...files.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/**
 * Writes to a draft next to the destination, and moves it there in one step. Restores the previous file if that fails.
 */
function writeStaged(path: string, make: (draft: string) => void): void {
  const parent = dirname(path);
  createFolder(parent);
  // The name is unpredictable: in a folder that others can write to, a prepared link could be there.
  const beside = mkdtempSync(join(parent, ".skillet-export-"));
  const [draft, old] = [join(beside, "new"), join(beside, "old")];
  try {
    make(draft);
    const isFolder = lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
    if (isFolder) renameSync(path, old);
    try {
      renameSync(draft, path);
    } catch (error) {
      if (isFolder) renameSync(old, path);
      throw error;
    }
    rmSync(old, { recursive: true, force: true });
  } finally {
    rmSync(draft, { recursive: true, force: true });
    if (!lstatSync(old, { throwIfNoEntry: false })) rmdirSync(beside);
  }
}

function writeWhole(file: string, bytes: Uint8Array, mode: number): void {
  const fd = openSync(file, "wx", mode);
  try {
    writeFileSync(fd, bytes);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The signatures of an archive, also of an empty one. */
const ZIP_SIGNATURES = ["PK\x03\x04", "PK\x05\x06"];

function isArchive(path: string): boolean {
  if (!lstatSync(path).isFile()) return false;
  const fd = openSync(path, "r");
  try {
    const start = Buffer.alloc(4);
    return readSync(fd, start) === start.length && ZIP_SIGNATURES.includes(start.toString("latin1"));
  } finally {
    closeSync(fd);
  }
}

function createPathExistsError(path: string): SkillError {
  return new SkillError("exists", {
    message: `${path} already exists`,
    fix: "choose another path with --output, or replace an earlier export with --force",
  });
}

function createNotReplacedError(path: string, why: string): SkillError {
  return new SkillError("exists", {
    message: `${path} ${why}, so it is not replaced`,
    fix: "move it away, or choose another path with --output",
  });
}

/**
 * Creates the files of a plugin with this skill. Contract: `files` are the skill's own, with SKILL.md in the plugin's
 * format.
 */
function createPluginFiles(skill: Skill, files: ReadonlyMap<string, CopiedFile>): Map<string, CopiedFile> {
  const all = new Map([
    [MANIFEST_FILE, createJsonFile(createPluginManifest(skill))],
    ["README.md", createTextFile(formatReadme(skill))],
  ]);
  for (const [path, file] of files) all.set(`skills/${skill.name}/${path}`, file);
  const digests = Object.fromEntries([...all].map(([path, { bytes }]) => [path, digestBytes(bytes)]));
  return all.set(RECORD_FILE, createJsonFile({ "made by": "skillet export", files: digests }));
}

/**
 * Returns the reason why a folder differs from what skillet wrote, or undefined if every byte matches: only such a
 * folder may be removed. The text continues a sentence that starts with the path.
 */
function findForeignChange(folder: string): string | undefined {
  const record = readExportRecord(folder);
  if (!record) return "was not created by `skillet export`";
  const there = listPaths(folder);
  const known = new Map(Object.entries(record));
  const added = there.find((path) => path !== RECORD_FILE && !known.has(path));
  if (added !== undefined) return `has a new file, ${added}`;
  const changed = there.find((path) => path !== RECORD_FILE && known.get(path) !== digestFileAt(join(folder, path)));
  return changed === undefined ? undefined : `was changed since it was created, in ${changed}`;
}

const MANIFEST_FILE = ".claude-plugin/plugin.json";
/** The record by which skillet recognizes folders that it wrote. */
const RECORD_FILE = ".claude-plugin/skillet.json";
const MAX_RECORD_BYTES = 4 * 1024 * 1024;

function createJsonFile(value: unknown): CopiedFile {
  return createTextFile(JSON.stringify(value, null, 2));
}

function createTextFile(written: string): CopiedFile {
  return { bytes: Buffer.from(`${written}\n`), executable: false };
}

function readExportRecord(folder: string): Record<string, unknown> | undefined {
  try {
    const file = join(folder, RECORD_FILE);
    const stats = lstatSync(file);
    if (!stats.isFile() || stats.size > MAX_RECORD_BYTES) return undefined;
    const record: unknown = JSON.parse(readFileSync(file, "utf8"));
    return isJsonObject(record) && isJsonObject(record["files"]) ? record["files"] : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || /^(?:ENOENT|ENOTDIR|EACCES)$/.test(getErrnoCode(error))) return undefined;
    throw error;
  }
}

/** Lists all files, and empty folders. */
function listPaths(folder: string, below = ""): string[] {
  const entries = readdirSync(join(folder, below), { withFileTypes: true });
  if (entries.length === 0) return [`${below}/`];
  return entries.flatMap((entry) => {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    return entry.isDirectory() ? listPaths(folder, path) : [path];
  });
}

function digestFileAt(file: string): string | undefined {
  return lstatSync(file).isFile() ? digestBytes(readFileSync(file)) : undefined;
}

function digestBytes(bytes: Uint8Array): string {
  return `sha256:${hash("sha256", bytes)}`;
}

/**
 * Creates an archive of these files, by path. The same files always give the same bytes: their order and times are
 * fixed. Contract: fewer than 65,535 files and 4 GiB.
 */
export function createZip(files: ReadonlyMap<string, CopiedFile>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [path, file] of [...files].sort(([a], [b]) => compareText(a, b))) {
    const name = Buffer.from(path);
    const { head, data, mode } = packFile(file, name.length);
    parts.push(uint32(LOCAL), head, name, data);
    directory.push(uint32(CENTRAL), uint16(MADE_BY_UNIX), head, formatCentralEntry(mode, offset), name);
    offset += 4 + head.length + name.length + data.length;
  }
  const listed = Buffer.concat(directory);
  return Buffer.concat([...parts, listed, formatEndRecord(files.size, listed.length, offset)]);
}

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const VERSION = 20;
/** Readers apply modes only of archives made on Unix. */
const MADE_BY_UNIX = (3 << 8) | VERSION;
const UTF8 = 1 << 11;
const STORED = 0;
const DEFLATED = 8;
/** The earliest date of the format: 1 January 1980. */
const DAY = (1 << 5) | 1;
const REGULAR = 0o100000;

/** Packs a file. The header appears both before its bytes and in the central directory. */
function packFile({ bytes, executable }: CopiedFile, nameLength: number): { head: Buffer; data: Buffer; mode: number } {
  const deflated = deflateRawSync(bytes, { level: 9 });
  const isSmaller = deflated.length < bytes.length;
  const data = isSmaller ? deflated : Buffer.from(bytes);
  const head = Buffer.concat([
    ...[VERSION, UTF8, isSmaller ? DEFLATED : STORED, 0, DAY].map(uint16),
    ...[crc32(bytes), data.length, bytes.length].map(uint32),
    ...[nameLength, 0].map(uint16),
  ]);
  return { head, data, mode: REGULAR | (executable ? 0o755 : 0o644) };
}

/** Formats the fields of the central directory only: no comment, the first disk, no hints, the mode and the offset. */
function formatCentralEntry(mode: number, offset: number): Buffer {
  return Buffer.concat([...[0, 0, 0].map(uint16), ...[mode * 0x10000, offset].map(uint32)]);
}

function formatEndRecord(files: number, length: number, offset: number): Buffer {
  return Buffer.concat([uint32(END), ...[0, 0, files, files].map(uint16), ...[length, offset].map(uint32), uint16(0)]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
