import { closeSync, constants, fchmodSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { extname } from "node:path/posix";
import { setImmediate } from "node:timers/promises";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { omitUndefined } from "../util/objects.ts";
import { formatCount, formatNumber } from "../util/text.ts";
import { checkEntryPath, createEntryRegistry, MAX_LINK_TARGET_LENGTH } from "./entry-path.ts";
import {
  createArchiveError,
  createEntryError,
  type FetchedSource,
  type FetchSourceOptions,
  isSingleFileCode,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceAddress,
  type SourceEntry,
} from "./remote-source.ts";
import { isTar, readTar } from "./tar-reader.ts";
import { gunzipArchive, hasZipEnd, readZip } from "./zip-reader.ts";

/** Writes the content of a source below `to`, through all checks. */
export async function extractSource(
  address: SourceAddress,
  entries: Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
  { to, signal }: FetchSourceOptions,
): Promise<FetchedSource> {
  const folder = createFilesFolder(to);
  const { links, notes, refused } = await extractEntries(entries, {
    to: folder,
    skipRefused: true,
    ...omitUndefined({ signal }),
  });
  return { folder, address, links, notes, refused };
}

/** Creates the folder for the files, with the name of `to`: a skill that states no name gets that of its folder. */
export function createFilesFolder(to: string): string {
  const folder = join(to, basename(to));
  mkdirSync(folder, 0o700);
  return folder;
}

export interface ExtractOptions {
  /** Contract: absolute, empty and private. A failure leaves it incomplete: the caller removes it. */
  to: string;
  /** Skips files that are refused on their own instead of throwing; `refused` lists them. */
  skipRefused?: boolean;
  signal?: AbortSignal;
}

export interface ExtractResult {
  /** Symlink targets as written, by path: no symlink is created. */
  links: ReadonlyMap<string, string>;
  /** Differences from the source: one sentence each. */
  notes: readonly string[];
  /** Skipped files by path, with the reason. */
  refused: ReadonlyMap<string, SkillError>;
  files: number;
  bytes: number;
}

/**
 * THE gate: writes the content of a source below a private folder, only files and folders. Throws on anything that
 * could lead outside.
 */
export async function extractEntries(
  entries: Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
  { to, skipRefused = false, signal }: ExtractOptions,
): Promise<ExtractResult> {
  const budget = createExtractBudget();
  // Nested archives have their own limits: one that is too large is refused, and the files after it are not.
  const nestedBudget = createExtractBudget();
  const registry = createEntryRegistry();
  const links = new Map<string, string>();
  const disarmed: string[] = [];
  const refused = new Map<string, SkillError>();
  let [files, bytes, work] = [0, 0, 0];
  for await (const entry of entries) {
    work += BYTES_PER_ENTRY + entry.size;
    if (work > BYTES_PER_TURN) {
      work = 0;
      await setImmediate(); // Lets an abort signal through.
    }
    signal?.throwIfAborted();
    budget.entry(entry.path);
    try {
      take(entry);
    } catch (error) {
      if (!skipRefused || !(error instanceof SkillError && isSingleFileCode(error.code))) throw error;
      refused.set(entry.path.replace(/^(?:\.\/)+/, ""), error);
    }
  }
  return { links, notes: describeDisarmed(disarmed), refused, files, bytes };

  function take(entry: SourceEntry): void {
    const path = checkEntryPath(entry);
    if (path === "") return;
    if (entry.kind === "other") throw createKindError(entry);
    for (const folder of registry.take(path, entry.kind)) {
      if (folder !== path) budget.entry(folder);
      writeOrFail(folder, () => mkdirSync(`${to}/${folder}`, 0o755));
    }
    if (entry.kind === "link") links.set(path, checkLinkTarget(entry));
    if (entry.kind !== "file") return;
    budget.file(path, entry.size);
    const content = entry.read();
    if (content.length !== entry.size) {
      throw createEntryError("entry-size", path, "does not have the size that its source states");
    }
    checkNestedArchive(path, content, nestedBudget);
    writeOrFail(path, () => writeNewFile(`${to}/${path}`, content, entry.mode & 0o111 ? 0o755 : 0o644));
    if (entry.mode & SETUID_BITS) disarmed.push(path);
    files++;
    bytes += content.length;
  }
}

const SETUID_BITS = 0o6000;
const BYTES_PER_ENTRY = 16 * 1024;
const BYTES_PER_TURN = 8 * 1024 * 1024;
// Never writes to or follows anything existing: the folder contains only files that this call wrote.
const CREATE_NEW_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

function writeNewFile(file: string, content: Uint8Array, mode: number): void {
  const fd = openSync(file, CREATE_NEW_FLAGS, mode);
  try {
    writeFileSync(fd, content);
    fchmodSync(fd, mode);
  } finally {
    closeSync(fd);
  }
}

function writeOrFail(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    throw new SkillError("entry-unwritable", {
      message: `${quoteSourcePath(path)} cannot be written: ${getErrorMessage(cause)}`,
      fix: "check that the disk has free space and supports such a name; nothing of the source was added",
      cause,
    });
  }
}

function createKindError({ path, target }: SourceEntry): SkillError {
  const what =
    target === undefined ? "is a pipe, socket, device or similar" : `is a hard link to ${quoteSourcePath(target)}`;
  return createEntryError("entry-kind", path, `${what}: only files, folders and symlinks are allowed`);
}

function checkLinkTarget({ path, target = "" }: SourceEntry): string {
  if (Buffer.byteLength(target) > MAX_LINK_TARGET_LENGTH) {
    throw createEntryError(
      "entry-too-long",
      path,
      `is a symlink to a path of more than ${MAX_LINK_TARGET_LENGTH} bytes`,
    );
  }
  return target;
}

function describeDisarmed(paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  return [
    `${formatCount(paths.length, "file", "files")} had a setuid or setgid bit, which was removed: ${formatPathList(paths)}`,
  ];
}

const MAX_LISTED_PATHS = 5;

function formatPathList(paths: readonly string[]): string {
  const rest = paths.length > MAX_LISTED_PATHS ? `, and ${paths.length - MAX_LISTED_PATHS} more` : "";
  return `${paths.slice(0, MAX_LISTED_PATHS).map(quoteSourcePath).join(", ")}${rest}`;
}

/** The remaining limits of a source. Files that are only inspected, in a nested archive, count like written ones. */
interface ExtractBudget {
  entry(path: string): void;
  /** Call this before the bytes are read. */
  file(path: string, size: number): void;
}

function createExtractBudget(): ExtractBudget {
  let { entries, bytes } = SOURCE_LIMITS;
  return {
    entry(path) {
      if (--entries < 0) {
        const max = formatCount(SOURCE_LIMITS.entries, "file, folder or symlink", "files, folders and symlinks");
        throw createEntryError("source-too-many", path, `exceeds the limit: a source may have ${max}`);
      }
    },
    file(path, size) {
      if (size > SOURCE_LIMITS.file) {
        const why = `has ${formatNumber(size)} bytes: the limit for a file is ${formatNumber(SOURCE_LIMITS.file)}`;
        throw createEntryError("entry-too-large", path, why);
      }
      bytes -= size;
      if (bytes < 0) {
        const why = `exceeds the limit: a source may have ${formatNumber(SOURCE_LIMITS.bytes)} bytes`;
        throw createEntryError("source-too-large", path, why);
      }
    },
  };
}

/** Reads the entries of an archive, detected by its content and not by its name: a zip, or a gzip-compressed tar. */
export function readArchive(bytes: Buffer, name: string): Iterable<SourceEntry> {
  if (bytes.length > SOURCE_LIMITS.archive) {
    const why = `has ${formatNumber(bytes.length)} bytes: the limit is ${formatNumber(SOURCE_LIMITS.archive)}`;
    throw createArchiveError("archive-too-large", why);
  }
  const start = bytes.toString("latin1", 0, 2);
  if (start === "\x1f\x8b") return readTar(gunzipArchive(bytes));
  if (start === "PK" || hasZipEnd(bytes)) return readZip(bytes);
  throw createArchiveError("archive-unknown", `${quoteSourcePath(name)} is neither a zip nor a gzip-compressed tar`);
}

/**
 * Throws if a file is an archive that contains code or cannot be inspected: code of a skill must be visible, so that it
 * can be shown and scanned. Office documents and e-books are archives as well, and pass.
 */
function checkNestedArchive(path: string, bytes: Uint8Array, budget: ExtractBudget): void {
  inspectNested({ path, bytes, budget, depth: 1 });
}

interface NestedFile {
  path: string;
  bytes: Uint8Array;
  budget: ExtractBudget;
  depth: number;
}

const MAX_NESTING_DEPTH = 3;

/** Signatures of archive formats; those without `entries` cannot be read here. */
const ARCHIVE_FORMATS: readonly {
  is: (bytes: Buffer) => boolean;
  what: string;
  entries?: (bytes: Buffer, path: string) => Iterable<SourceEntry>;
}[] = [
  { is: createMagicTest("PK\x03\x04"), what: "a zip", entries: readZip },
  { is: createMagicTest("PK\x05\x06"), what: "a zip", entries: readZip },
  { is: createMagicTest("\x1f\x8b"), what: "compressed", entries: readGzip },
  { is: isTar, what: "a tar", entries: readTar },
  { is: createMagicTest("\xfd7zXZ\0"), what: "an xz archive" },
  { is: createMagicTest("7z\xbc\xaf\x27\x1c"), what: "a 7z archive" },
  { is: (bytes) => /^BZh[1-9](?:1AY&SY|\x17rE8P\x90)/.test(bytes.toString("latin1", 0, 10)), what: "a bzip2 archive" },
  { is: createMagicTest("\x28\xb5\x2f\xfd"), what: "a zstd archive" },
  { is: createMagicTest("\x04\x22\x4d\x18"), what: "an lz4 archive" },
  { is: createMagicTest("LZIP"), what: "an lzip archive" },
  { is: createMagicTest("Rar!\x1a\x07"), what: "a rar archive" },
  { is: createMagicTest("MSCF\0\0\0\0"), what: "a cabinet" },
  { is: createMagicTest("xar!"), what: "a xar archive" },
  { is: createMagicTest("!<arch>\n"), what: "a package or a library" },
  { is: createMagicTest("\xed\xab\xee\xdb"), what: "a package" },
  // Programs that open zips look for their end record, whatever precedes it.
  { is: hasZipEnd, what: "a zip after other content" },
];

function inspectNested({ path, bytes: content, budget, depth }: NestedFile): void {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.length);
  const form = ARCHIVE_FORMATS.find(({ is }) => is(bytes));
  if (form === undefined) return;
  if (depth > MAX_NESTING_DEPTH)
    throw createNestedError(path, `is an archive nested more than ${MAX_NESTING_DEPTH} levels deep`);
  if (form.entries === undefined) throw createNestedError(path, `is ${form.what}, which cannot be inspected`);
  try {
    for (const entry of form.entries(bytes, path)) {
      budget.entry(entry.path);
      const name = checkEntryPath(entry);
      if (entry.kind === "other")
        throw createNestedError(
          path,
          `is an archive with content other than files, folders and symlinks: ${quoteSourcePath(name)}`,
        );
      if (entry.kind !== "file") continue;
      budget.file(name, entry.size);
      const file = entry.read();
      const why = detectCode(name, entry.mode, file);
      if (why) throw createNestedError(path, `is an archive with code in it: ${quoteSourcePath(name)} ${why}`);
      inspectNested({ path: `${path}/${name}`, bytes: file, budget, depth: depth + 1 });
    }
  } catch (error) {
    if (!(error instanceof SkillError) || error.code === NESTED_CODE) throw error;
    throw createNestedError(path, `is an archive that is refused as a file: ${error.message}`, error);
  }
}

const NESTED_CODE = "archive-nested";

function createNestedError(path: string, why: string, cause?: unknown): SkillError {
  return createEntryError(NESTED_CODE, path, why, cause);
}

/** Reads a tar, or a single file with the name of its archive. */
function readGzip(bytes: Buffer, path: string): Iterable<SourceEntry> {
  const content = gunzipArchive(bytes);
  if (isTar(content)) return readTar(content);
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.gz$/i, "");
  return [{ path: name, kind: "file", mode: 0o644, size: content.length, read: () => content }];
}

function createMagicTest(magic: string): (bytes: Buffer) => boolean {
  return (bytes) => bytes.toString("latin1", 0, magic.length) === magic;
}

/** Returns the reason why a file is executable code, or undefined. Contract: `bytes` contains at least its start. */
function detectCode(path: string, mode: number, bytes: Uint8Array): string | undefined {
  if (mode & 0o111) return "is executable";
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (name === "vbaproject.bin") return "contains macros";
  if (CODE_SUFFIXES.has(extname(name))) return "has the extension of a code file";
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 8)).toString("latin1");
  return CODE_SIGNATURES.find(([magic]) => start.startsWith(magic))?.[1];
}

const CODE_SIGNATURES: readonly (readonly [start: string, why: string])[] = [
  ["#!", "starts with a shebang line"],
  ["\xef\xbb\xbf#!", "starts with a shebang line"],
  ["\x7fELF", "is a Linux program"],
  ["MZ", "is a Windows program"],
  ["\xfe\xed\xfa\xce", "is a macOS program"],
  ["\xfe\xed\xfa\xcf", "is a macOS program"],
  ["\xce\xfa\xed\xfe", "is a macOS program"],
  ["\xcf\xfa\xed\xfe", "is a macOS program"],
  ["\xca\xfe\xba\xbe", "is a macOS or Java program"],
  ["\0asm", "is a WebAssembly program"],
  ["dex\n", "is an Android program"],
  ["\x1bLua", "is a Lua program"],
  ["!<arch>\n", "is a package or a program library"],
];

const CODE_SUFFIXES: ReadonlySet<string> = new Set(
  (
    ".sh .bash .zsh .fish .ksh .csh .command .tool .py .pyw .pyc .pyz .rb .pl .pm .php .phar .lua .tcl .awk .js .mjs .cjs .jsx " +
    ".ts .mts .cts .tsx .ps1 .psm1 .psd1 .bat .cmd .com .exe .dll .scr .msi .vbs .vbe .jse .wsf .wsh .hta .lnk .reg .so .dylib " +
    ".node .wasm .jar .war .ear .class .dex .apk .applescript .scpt .scptd .desktop .appimage .deb .rpm .whl .egg .gem .crx .xpi"
  ).split(" "),
);
