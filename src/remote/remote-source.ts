import { SkillError } from "../errors/problem.ts";
import type { Git } from "../sandbox/git.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { formatNumber } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";

/** The parsed address of a source of skills. */
export type SourceAddress =
  /** A folder on this machine; `path` is absolute. */
  | { kind: "folder"; path: string; inside?: string }
  /** A zip (`.zip`, `.skill`) or a compressed tar (`.tar.gz`, `.tgz`): an absolute path, or an https address. */
  | { kind: "archive"; location: string; inside?: string }
  /**
   * A repository. `ref` is a branch, tag or commit, and defaults to the default branch. `namesake`: a local folder with
   * a similar path.
   */
  | { kind: "git"; url: string; ref?: string; inside?: string; namesake?: string }
  /** A site with `/.well-known/agent-skills/index.json`; `url` is the address of the index. */
  | { kind: "site"; url: string };

/** An entry as the source describes it: untrusted until it is checked. */
export interface SourceEntry {
  /** The path as written in the source, separated by `/`. */
  path: string;
  kind: "file" | "folder" | "link" | "other";
  /** The permission bits only. */
  mode: number;
  /** The declared size in bytes. */
  size: number;
  /** For a symlink: its target as written in the source. */
  target?: string;
  /** Reads the bytes of a file. Throws a SkillError if they differ from the declared ones. */
  read(): Uint8Array;
}

/** A source that was fetched and written to a private folder. */
export interface FetchedSource {
  /** The folder with its files: only regular files and folders. */
  folder: string;
  address: SourceAddress;
  /** The fetched commit of a repository. */
  commit?: string;
  /** Symlink targets as written, by path: no symlink is created. */
  links: ReadonlyMap<string, string>;
  /** Skipped parts of the source and the reasons: one sentence each. */
  notes: readonly string[];
  /**
   * Entries that were not written, by path, with the error. A skill that contains one is refused; other skills are not.
   */
  refused: ReadonlyMap<string, SkillError>;
}

export interface FetchSourceOptions {
  /** An empty private folder, created by the caller. */
  to: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The commit to fetch, wherever the ref points now. */
  commit?: string;
  /** For a site: the names of the skills to fetch. Defaults to all. */
  names?: readonly string[];
  /** For a site: called with each name that cannot be fetched, instead of throwing. */
  onFailure?(name: string, error: SkillError): void;
  /** Also connects to private addresses that only the source named. */
  allowPrivate?: boolean;
  signal?: AbortSignal;
}

/** The limits of a source. */
export const SOURCE_LIMITS = {
  /** Files, folders and symlinks together. */
  entries: 50_000,
  bytes: 512 * 1024 * 1024,
  /** Bytes of one file. */
  file: 64 * 1024 * 1024,
  /** Bytes of an archive before it is unpacked. */
  archive: 128 * 1024 * 1024,
  /** The maximum compression ratio of an archive that unpacks to more than a few MiB. */
  ratio: 100,
  depth: 32,
  /** Bytes of a path. */
  path: 1024,
};

/** The origin of a skill, as recorded in its lock file. */
export type Provenance = Pick<LockedSkill, "source" | "path" | "ref" | "commit">;

/** Creates the error for a source refused because of one entry. `why` continues the sentence after the entry's path. */
export function createEntryError(code: EntryCode, path: string, why: string, cause?: unknown): SkillError {
  return new SkillError(code, {
    message: `${quoteSourcePath(path)} ${why}`,
    fix: REFUSED_SOURCE_FIX,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Creates the error for a refused archive. `why` continues the sentence after "The archive". */
export function createArchiveError(code: ArchiveCode, why: string, cause?: unknown): SkillError {
  return new SkillError(code, {
    message: `The archive ${why}`,
    fix: REFUSED_SOURCE_FIX,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Creates the error for too many entries. It is thrown before anything is written. */
export function createTooManyError(found: number): SkillError {
  const why = `contains at least ${formatNumber(found)} files, folders and symlinks: the limit is ${formatNumber(SOURCE_LIMITS.entries)}`;
  return createArchiveError("source-too-many", why);
}

/** Quotes an untrusted name for one line of a message. */
export function quoteSourcePath(path: string): string {
  const start = path.length > MAX_QUOTED_LENGTH ? `${path.slice(0, MAX_QUOTED_LENGTH - 1)}…` : path;
  return `"${escapeLine(start)}"`;
}

/** Codes for which an entry stops a source from being added. */
export const ENTRY_CODES = [
  "archive-nested",
  "entry-absolute",
  "entry-backslash",
  "entry-collision",
  "entry-colon",
  "entry-control",
  "entry-corrupt",
  "entry-too-deep",
  "entry-device",
  "entry-empty",
  "entry-encoding",
  "entry-trailing-dot",
  "entry-hidden",
  "entry-kind",
  "entry-too-long",
  "entry-traversal",
  "entry-repository",
  "entry-size",
  "entry-through-file",
  "entry-through-symlink",
  "entry-too-large",
  "duplicate-entry",
  "entry-unwritable",
  "source-too-large",
  "source-too-many",
] as const;
export type EntryCode = (typeof ENTRY_CODES)[number];

/**
 * Codes that concern a single file: it is skipped, and the skill that it belongs to is refused. Every other code stops
 * the whole source: paths that lead outside, contradictory entries, damage, and the limits of a source.
 */
const SINGLE_FILE_CODES: ReadonlySet<string> = new Set<EntryCode>([
  "archive-nested",
  "entry-collision",
  "entry-colon",
  "entry-too-deep",
  "entry-device",
  "entry-trailing-dot",
  "entry-hidden",
  "entry-kind",
  "entry-too-long",
  "entry-too-large",
]);

/** Returns true for a code that concerns a single file. */
export function isSingleFileCode(code: string): boolean {
  return SINGLE_FILE_CODES.has(code);
}

/** Codes for which an archive itself is refused. */
export const ARCHIVE_CODES = [
  "archive-ambiguous",
  "archive-bomb",
  "archive-broken",
  "archive-inconsistent",
  "archive-encrypted",
  "archive-method",
  "archive-overlap",
  "archive-multipart",
  "archive-extra-data",
  "archive-too-large",
  "archive-unknown",
  "archive-zip64",
  "source-too-many",
] as const;
type ArchiveCode = (typeof ARCHIVE_CODES)[number];

const MAX_QUOTED_LENGTH = 120;
const REFUSED_SOURCE_FIX =
  "nothing of the source was added: inspect it before you trust it, and report it to its author";

/** One entry of a commit's tree. */
interface GitTreeEntry {
  path: string;
  mode: string;
  id: string;
  size: number;
}

/** Lists the files of a commit, or of a folder in it. Returns undefined if the folder is missing. */
export async function listGitTree(git: Git, commit: string, inside?: string): Promise<GitTreeEntry[] | undefined> {
  const tree = inside === undefined ? commit : `${commit}:${inside}`;
  const { code, stdout } = await git.run(["ls-tree", "-r", "-z", "-l", "--full-tree", tree]);
  if (code !== 0) return undefined;
  return stdout.toString().split("\0").filter(Boolean).map(parseTreeLine);
}

/** Lists the paths of submodules: a commit contains only the commit IDs of other repositories. */
export function listSubmodules(rows: readonly GitTreeEntry[]): string[] {
  return rows.filter(({ mode }) => mode === SUBMODULE_MODE).map(({ path }) => path);
}

/** Yields the entries with their content, all read from one git process. */
export async function* readGitEntries(
  git: Git,
  rows: readonly GitTreeEntry[],
): AsyncGenerator<SourceEntry, void, undefined> {
  const wanted = rows.filter(isReadable);
  const objects = createObjectReader(
    git.stream(["cat-file", "--batch", "--buffer"], wanted.map(({ id }) => `${id}\n`).join("")),
  );
  try {
    for (const row of rows) {
      if (row.mode !== SUBMODULE_MODE) yield createGitEntry(row, isReadable(row) ? await objects.next(row) : undefined);
    }
  } finally {
    await objects.close();
  }
}

const SUBMODULE_MODE = "160000";
const LINK_MODE = "120000";
const FILE_MODES: Readonly<Record<string, number>> = { "100644": 0o644, "100755": 0o755, "100664": 0o644 };
const MAX_LINK_LENGTH = 4096;

/** Parses `100644 blob ID   SIZE\tPATH`; a submodule has no size. */
function parseTreeLine(line: string): GitTreeEntry {
  const tab = line.indexOf("\t");
  const [mode = "", , id = "", size = ""] = line.slice(0, tab).split(/ +/);
  return { mode, id, size: Number(size) || 0, path: line.slice(tab + 1) };
}

/** Returns false for large files, which are refused by their size before they are read. */
function isReadable({ mode, size }: GitTreeEntry): boolean {
  return mode === LINK_MODE ? size <= MAX_LINK_LENGTH : Object.hasOwn(FILE_MODES, mode) && size <= SOURCE_LIMITS.file;
}

function createGitEntry({ path, mode, size }: GitTreeEntry, bytes: Buffer | undefined): SourceEntry {
  const read = () => bytes ?? new Uint8Array();
  if (mode === LINK_MODE && bytes) return { path, kind: "link", mode: 0o777, size: 0, target: bytes.toString(), read };
  const bits = FILE_MODES[mode];
  return bits === undefined
    ? { path, kind: "other", mode: 0, size: 0, read }
    : { path, kind: "file", mode: bits, size, read };
}

/** Reads the output of `cat-file --batch`: a line with ID, kind and size, the bytes, and a line break. */
function createObjectReader(stream: AsyncGenerator<Buffer, void, undefined>) {
  let pieces: Buffer[] = [];
  let held = 0;

  async function atLeast(bytes: number): Promise<boolean> {
    while (held < bytes) {
      const { value, done } = await stream.next();
      if (done || !value) return false;
      pieces.push(value);
      held += value.length;
    }
    return true;
  }
  function take(bytes: number): Buffer {
    const all = pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces);
    pieces = [all.subarray(bytes)];
    held = all.length - bytes;
    return all.subarray(0, bytes);
  }
  return {
    async next({ id, size, path }: GitTreeEntry): Promise<Buffer> {
      const header = `${id} blob ${size}\n`;
      const isComplete = (await atLeast(header.length + size + 1)) && take(header.length).toString("latin1") === header;
      if (!isComplete) throw createBrokenObjectError(path);
      return take(size + 1).subarray(0, size);
    },
    close: () => stream.return(),
  };
}

function createBrokenObjectError(path: string): SkillError {
  return new SkillError("git-broken", {
    message: `The repository has a missing or damaged object for ${quoteSourcePath(path)}`,
    fix: "report it to the maintainer of the repository",
  });
}

/** Runs work that fetches, with a signal that cancels it. */
export type RunFetch = <T>(fetch: (signal?: AbortSignal) => Promise<T>) => Promise<T>;
