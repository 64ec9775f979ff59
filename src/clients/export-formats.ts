import { hash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { crc32, deflateRawSync } from "node:zlib";
import { getErrnoCode } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { isJsonObject } from "../util/objects.ts";
import { compareText } from "../util/text.ts";

/**
 * Creates the files of a plugin with this skill. Contract: `files` are the skill's own, with SKILL.md in the plugin's
 * format.
 */
export function createPluginFiles(skill: Skill, files: ReadonlyMap<string, CopiedFile>): Map<string, CopiedFile> {
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
export function findForeignChange(folder: string): string | undefined {
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

function createPluginManifest({ name, description, manifest }: Skill): Record<string, unknown> {
  const { version, authors, homepage, license, tags } = manifest;
  return {
    name,
    ...(version === undefined ? {} : { version }),
    description,
    ...(authors.length === 0 ? {} : { author: { name: authors.join(", ") } }),
    ...(homepage === undefined || !/^https?:\/\//.test(homepage) ? {} : { homepage }),
    ...(license === undefined ? {} : { license }),
    ...(tags.length === 0 ? {} : { keywords: tags }),
  };
}

/** Formats the README that users read first; the plugin directory requires one. */
function formatReadme({ name, description, manifest: { compatibility } }: Skill): string {
  return [
    `# ${name}`,
    description,
    ...(compatibility === undefined ? [] : [compatibility]),
    `This plugin contains one skill, \`${name}\`. Claude uses it when a task matches the description above; \`/${name}:${name}\` calls it by name.`,
    "To try it, start Claude Code with `--plugin-dir` and the path of this folder. It was created by `skillet export`.",
  ].join("\n\n");
}

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
