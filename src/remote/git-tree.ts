import { SkillError } from "../errors/problem.ts";
import type { Git } from "../sandbox/git.ts";
import { quoteSourcePath, SOURCE_LIMITS, type SourceEntry } from "./remote-source.ts";

/** One entry of a commit's tree. */
export interface GitTreeEntry {
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
