import { closeSync, existsSync, lstatSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { basename, dirname } from "node:path";
import { FINDING_CODES } from "../../errors/finding-codes.ts";
import {
  createFileFingerprint,
  createFolder,
  type FileFingerprint,
  formatFileId,
  isLinkedFile,
  readRegularText,
  statIfExists,
} from "../../util/file-access.ts";
import { type FolderId, getFolderId, resolvePath, statFolderId, statLinkedFolderId } from "../../util/safe-path.ts";
import { packageVersion } from "../../util/system.ts";
import { compareText, shortHash } from "../../util/text.ts";
import {
  type Diagnostic,
  diagnose,
  type Finding,
  type LoadedSkills,
  type Profile,
  type Skill,
  type SkillOrigin,
  type SkillScope,
  type Source,
} from "../skill.ts";
import { FileSkill } from "./file-skill.ts";
import { createNestedFindings, findSkillCandidates, type SkillCandidate } from "./find-skills.ts";
import { checkSharedFile, type FolderSnapshot } from "./skill-files.ts";

export interface DirectoryOptions {
  path: string;
  /** The name for `name@source`. Defaults to the path. */
  name?: string;
  scope?: SkillScope;
  /** The package of a monorepo that the skills belong to, relative to the workspace. */
  belongsTo?: string;
  /** If true, also searches below folders that are not skills. Defaults to true. */
  recursive?: boolean;
  /** Folders whose Markdown and YAML files are skills. Defaults to the folder itself. */
  skillsFolders?: readonly string[];
  /** The profile that a file must pass to be loaded. Defaults to `load`. */
  profile?: Profile;
  /** The user's folder for the discovery cache, so that the next start reads only changed files. */
  indexFolder?: string;
  /** Called before each scan. Returns a filter for folders, by real path, that are not skills; undefined for no filter. */
  leavesOut?: () => ((folder: string) => boolean) | undefined;
}

/** Creates a source for the skills below a folder. A missing folder has no skills. */
export function createDirectorySource(options: DirectoryOptions): Source {
  const path = resolvePath(options.path);
  const { name = options.path, scope = "user" } = options;
  return { name, scope, path, load: () => scanDirectory({ ...options, path, name, scope }) };
}

type ScanOptions = DirectoryOptions & Required<Pick<DirectoryOptions, "name" | "scope">>;
type CandidateReader = typeof import("./read-skill.ts");

// Cached files need no parser, so the parser is loaded only for changed files.
async function scanDirectory(options: ScanOptions): Promise<LoadedSkills> {
  const { path: root, recursive = true, skillsFolders = [root], profile = "load", indexFolder } = options;
  if (!existsSync(root)) return { skills: [], diagnostics: [] };
  const key = JSON.stringify([packageVersion(), root, recursive, skillsFolders, profile]);
  const index =
    indexFolder === undefined ? undefined : new DiscoveryCache(`${indexFolder}/${shortHash(key)}.index`, key);
  let reader: CandidateReader | undefined = index?.isEmpty === false ? undefined : await import("./read-skill.ts");
  const refusesShared = options.scope === "workspace";
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [];
  const unread: SkillCandidate[] = [];
  const say = (file: string, findings: readonly Finding[]) => {
    if (findings.length > 0) diagnostics.push(...diagnose(findings, file, profile));
  };
  const nested: [SkillCandidate, CachedFile, FileFingerprint | undefined][] = [];
  const names = new Map<string, string>();
  // Thousands of skills are added at each start, so this creates no temporary objects.
  const add = (candidate: SkillCandidate, file: CachedFile, stamp: FileFingerprint | undefined) => {
    const { skill } = file;
    const findings =
      candidate.parent === undefined ? file.findings : [...createNestedFindings(candidate), ...file.findings];
    say(candidate.file, findings);
    if (!skill) return;
    const { name, description, data } = skill;
    if (candidate.form === "folder") names.set(candidate.file, name);
    const bodyIn = candidate.form === "yaml" ? reader?.extractYamlBody : undefined;
    const origin = createOrigin(candidate, options, names);
    if (stamp) origin.fileId = formatFileId(stamp);
    if (stamp && refusesShared && isLinkedFile(candidate.file, stamp)) origin.isLinked = true;
    skills.push(
      new FileSkill({
        name,
        description,
        data,
        findings,
        origin,
        extractBody: bodyIn,
        fingerprint: stamp,
        snapshot: candidate.snapshot,
      }),
    );
  };
  // The name of the enclosing skill is known only after all others are read.
  const addInTurn = (candidate: SkillCandidate, file: CachedFile, stamp: FileFingerprint | undefined) => {
    if (candidate.parent === undefined) add(candidate, file, stamp);
    else nested.push([candidate, file, stamp]);
  };
  const read = (candidate: SkillCandidate, { readCandidate }: CandidateReader): boolean => {
    const reading = readCandidate({ ...candidate, refusesShared }, profile);
    if (!reading) return false;
    const { stamp } = reading;
    addInTurn(
      candidate,
      stamp && index && candidate.form !== "yaml" ? index.addFile(candidate.path, stamp, reading) : reading,
      stamp,
    );
    return true;
  };
  const take = (candidate: SkillCandidate): boolean => {
    const stats = index?.isKnownFile(candidate.path) ? statIfExists(candidate.file) : undefined;
    const known = stats && index?.file(candidate.path, stats);
    // A cached file may have been moved to another path.
    if (known && !(refusesShared && checkSharedFile(candidate.file, candidate.folder, stats))) {
      addInTurn(candidate, known, createFileFingerprint(stats));
      return true;
    }
    if (reader) return read(candidate, reader);
    if (!existsSync(candidate.file)) return false;
    unread.push(candidate);
    return true;
  };
  findSkillCandidates({
    root,
    recursive,
    skillsFolders,
    index,
    isLeftOut: options.leavesOut?.(),
    report: (path, finding) => say(path, [finding]),
    onCandidate: take,
  });
  if (unread.length > 0) {
    reader = await import("./read-skill.ts");
    for (const candidate of unread) read(candidate, reader);
  }
  for (const [candidate, file, stamp] of nested.sort(([a], [b]) => compareText(a.path, b.path)))
    add(candidate, file, stamp);
  index?.save(Date.now());
  return { skills, diagnostics };
}

/** Returns a folder with its id, which changes if another folder replaces it. */
export function identifyFolder(folder: string): Pick<SkillOrigin, "folder" | "folderId"> {
  const folderId = statFolderId(folder);
  return folderId === undefined ? { folder } : { folder, folderId };
}

function readFolderId(folder: string, snapshot: FolderSnapshot): FolderId | undefined {
  try {
    const stats = lstatSync(folder, { throwIfNoEntry: false });
    if (!stats) return undefined;
    snapshot.stats = stats;
    return getFolderId(folder, stats);
  } catch {
    return undefined;
  }
}

type MutableOrigin = { -readonly [Key in keyof SkillOrigin]: SkillOrigin[Key] } & { file: string };

function createOrigin(
  { form, file, folder, parent, snapshot = {} }: SkillCandidate,
  { scope, name: source, belongsTo }: ScanOptions,
  names: ReadonlyMap<string, string>,
): MutableOrigin {
  const origin: MutableOrigin = { scope, source, form, file };
  const folderId = folder === undefined ? statLinkedFolderId(dirname(file)) : readFolderId(folder, snapshot);
  if (folder !== undefined) origin.folder = folder;
  if (folderId !== undefined) origin.folderId = folderId;
  if (belongsTo !== undefined) origin.belongsTo = belongsTo;
  if (parent !== undefined) origin.parent = names.get(parent) ?? basename(dirname(parent));
  return origin;
}

/** The listing of a folder that is not a skill, as far as discovery needs it. */
export interface FolderListing {
  folders: string[];
  files: string[];
  links: string[];
}
export interface CachedFile {
  /** Absent for a file that is not a skill. `data` is the frontmatter as JSON. */
  skill?: { name: string; description: string; data: string };
  findings: readonly Finding[];
}

/**
 * Caches the results of discovery in one file, so that the next start reads only changed files. The cache belongs to the user: it
 * is never read from a skill folder, and an invalid cache counts as empty.
 */
export class DiscoveryCache {
  readonly #file: string;
  readonly #key: string;
  readonly #writtenAt: number = 0;
  /** Files changed after this time may have changed again with the same timestamp. */
  readonly #youngest: number = 0;
  readonly #folders: Map<string, { mtimeMs: number; ino: number; listing: FolderListing }> = new Map();
  readonly #files: Map<string, string> = new Map();
  readonly #lines: string[] = [];
  readonly #seenFolders: [string, number, number, FolderListing][] = [];
  #isChanged = false;

  /** Contract: `key` includes every input of a scan except the files themselves. */
  constructor(file: string, key: string) {
    this.#file = file;
    this.#key = `${CACHE_FORMAT} ${key}`;
    const lines = readLines(file);
    if (lines.pop() !== END_LINE) return;
    const header = lines.shift();
    const head = header === undefined ? undefined : parseHeader(header);
    if (head?.key !== this.#key || head.writtenAt > Date.now()) return; // Written with a clock that was ahead: the age of files is unknown.
    this.#writtenAt = head.writtenAt;
    this.#youngest = head.writtenAt - CLOCK_TICK_MS;
    for (const [path, mtimeMs, ino, listing] of head.folders) this.#folders.set(path, { mtimeMs, ino, listing });
    for (const line of lines) if (line !== "") this.#files.set(line.slice(0, line.indexOf("\t")), line);
  }

  /** True if the cache has no entries. */
  get isEmpty(): boolean {
    return this.#writtenAt === 0;
  }

  folder(path: string, stamp: { mtimeMs: number; ino: number }): FolderListing | undefined {
    const known = this.#folders.get(path);
    if (!known || known.mtimeMs !== stamp.mtimeMs || known.ino !== stamp.ino || this.#isRecent(stamp)) return undefined;
    this.#seenFolders.push([path, stamp.mtimeMs, stamp.ino, known.listing]);
    return known.listing;
  }

  isKnownFolder(path: string): boolean {
    return this.#folders.has(path);
  }

  isKnownFile(path: string): boolean {
    return this.#files.has(path);
  }

  file(path: string, stamp: FileFingerprint): CachedFile | undefined {
    const line = this.#files.get(path);
    if (line === undefined || this.#isRecent(stamp)) return undefined;
    const columns = line.split("\t");
    if (Number(columns[1]) !== stamp.mtimeMs || Number(columns[2]) !== stamp.size || Number(columns[3]) !== stamp.ino)
      return undefined;
    const known = parseColumns(columns);
    if (known) this.#lines.push(line);
    return known;
  }

  /**
   * Returns the folders below a skill's folder, and which of them have a SKILL.md, if none of them changed. The change time
   * (ctime) shows that and cannot be set back; so only the paths are stored.
   */
  nestedFolders(
    path: string,
    statOf: (folder: string) => { ctimeMs: number } | undefined,
  ): { all: readonly string[]; skills: string[] } | undefined {
    const line = this.#files.get(`${path}/`);
    if (line === undefined) return undefined;
    const all: string[] = [];
    const skills: string[] = [];
    for (let from = line.indexOf("\t"); from !== -1; ) {
      const end = line.indexOf("\t", from + 1);
      const isSkill = line.charCodeAt((end === -1 ? line.length : end) - 1) === SLASH;
      const last = end === -1 ? line.length : end;
      const folder = line.slice(from + 1, isSkill ? last - 1 : last);
      const stats = statOf(folder);
      if (!stats || stats.ctimeMs > this.#youngest) return undefined;
      all.push(folder);
      if (isSkill) skills.push(folder);
      from = end;
    }
    this.#lines.push(line);
    return { all, skills };
  }

  /** Caches the folders inside a skill's folder: one line, under its path with a trailing slash, which no file has. */
  addNestedFolders(path: string, folders: readonly { path: string; isSkill: boolean }[]): void {
    this.#isChanged = true;
    const columns = folders.map(({ path: folder, isSkill }) => (isSkill ? `${folder}/` : folder));
    const line = [`${path}/`, ...columns].join("\t");
    if (!/[\n\r]/.test(line) && line.split("\t").length === columns.length + 1) this.#lines.push(line);
  }

  addFolder(path: string, stamp: { mtimeMs: number; ino: number }, listing: FolderListing): void {
    this.#isChanged = true;
    this.#seenFolders.push([path, stamp.mtimeMs, stamp.ino, listing]);
  }

  /** Caches the result of reading a file. The returned copy needs less memory: its texts are parts of the cache's line. */
  addFile(path: string, stamp: FileFingerprint, file: CachedFile): CachedFile {
    this.#isChanged = true;
    if (/[\t\n\r]/.test(path)) return file;
    const { skill, findings } = file;
    const serialized = findings.length === 0 ? "" : JSON.stringify(findings);
    const what = skill
      ? `${JSON.stringify(skill.name)}\t${JSON.stringify(skill.description)}\t${serialized}\t${skill.data}`
      : `\t\t${serialized}\t`;
    const line = `${path}\t${stamp.mtimeMs}\t${stamp.size}\t${stamp.ino}\t${what}`;
    this.#lines.push(line);
    return parseColumns(line.split("\t")) ?? file;
  }

  /** Writes the results of this scan, if they changed. An unwritable folder is not an error. */
  save(now: number): void {
    const isSame = this.#lines.length === this.#files.size && this.#seenFolders.length === this.#folders.size;
    if (!this.#isChanged && isSame) return;
    const header = JSON.stringify({ key: this.#key, writtenAt: now, folders: this.#seenFolders });
    const draft = `${this.#file}.${process.pid}`;
    try {
      createFolder(dirname(this.#file), 0o700);
      writeLines(draft, header, this.#lines);
      renameSync(draft, this.#file);
    } catch {
      if (existsSync(draft)) rmSync(draft, { force: true });
    }
  }

  // A file changed twice within a clock tick keeps its fingerprint: files that were recent when the cache was written are read again.
  #isRecent(stamp: { mtimeMs: number }): boolean {
    return stamp.mtimeMs > this.#youngest;
  }
}

/** The version of the file format. Files with another version are ignored. */
const CACHE_FORMAT = 2;
// Enough for 200,000 skills.
const MAX_CACHE_BYTES = 256 * 1024 * 1024;
const CLOCK_TICK_MS = 2000;
const SLASH = 47;
const LINES_PER_WRITE = 200;
/** The last line: without it the file is incomplete. */
const END_LINE = ".";
const NO_FINDINGS: readonly Finding[] = [];

interface CacheHeader {
  key: string;
  writtenAt: number;
  folders: [string, number, number, FolderListing][];
}

// In portions: a single text of all lines would need too much memory.
function writeLines(file: string, header: string, lines: readonly string[]): void {
  const fd = openSync(file, "w", 0o600);
  try {
    writeSync(fd, header);
    for (let at = 0; at < lines.length; at += LINES_PER_WRITE)
      writeSync(fd, `\n${lines.slice(at, at + LINES_PER_WRITE).join("\n")}`);
    writeSync(fd, `\n${END_LINE}`);
  } finally {
    closeSync(fd);
  }
}

function readLines(file: string): string[] {
  try {
    const text = readRegularText(file, { limit: MAX_CACHE_BYTES });
    return text.split("\n");
  } catch {
    return [];
  }
}

function parseHeader(line: string): CacheHeader | undefined {
  try {
    const header = JSON.parse(line);
    return Array.isArray(header.folders) && typeof header.writtenAt === "number" ? header : undefined;
  } catch {
    return undefined;
  }
}

/** Parses a line, or returns undefined if the format is unknown. */
function parseColumns(columns: readonly string[]): CachedFile | undefined {
  const { 4: name = "", 5: description = "", 6: serialized = "", 7: data = "" } = columns;
  try {
    const findings: readonly Finding[] = serialized === "" ? NO_FINDINGS : JSON.parse(serialized);
    if (!findings.every(({ code }) => code in FINDING_CODES)) return undefined;
    if (name === "") return { findings };
    if (!data.startsWith("{") || !data.endsWith("}")) return undefined;
    return { skill: { name: parseQuoted(name), description: parseQuoted(description), data }, findings };
  } catch {
    return undefined;
  }
}

function parseQuoted(text: string): string {
  return text.includes("\\") ? JSON.parse(text) : text.slice(1, -1);
}
