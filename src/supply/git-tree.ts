import type { Git } from "../sandbox/git.ts";
import { SkillError } from "../shared/error.ts";
import { SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { shown } from "./refusal.ts";

/** What a commit says of one path. */
export interface GitRow {
  path: string;
  mode: string;
  id: string;
  size: number;
}

/** What a commit holds, or a folder in it; nothing when there is no such folder. */
export async function gitTree(git: Git, commit: string, inside?: string): Promise<GitRow[] | undefined> {
  const tree = inside === undefined ? commit : `${commit}:${inside}`;
  const { code, stdout } = await git.run(["ls-tree", "-r", "-z", "-l", "--full-tree", tree]);
  if (code !== 0) return undefined;
  return stdout.toString().split("\0").filter(Boolean).map(rowOf);
}

/** Paths of other repositories: only which commit of them is meant is here. */
export function submodulesOf(rows: readonly GitRow[]): string[] {
  return rows.filter(({ mode }) => mode === SUBMODULE).map(({ path }) => path);
}

/** Their contents, each as it comes out of one process of git. */
export async function* gitEntries(git: Git, rows: readonly GitRow[]): AsyncGenerator<SourceEntry, void, undefined> {
  const wanted = rows.filter(isRead);
  const objects = openObjects(
    git.stream(["cat-file", "--batch", "--buffer"], wanted.map(({ id }) => `${id}\n`).join("")),
  );
  try {
    for (const row of rows) {
      if (row.mode !== SUBMODULE) yield entryOf(row, isRead(row) ? await objects.next(row) : undefined);
    }
  } finally {
    await objects.close();
  }
}

const SUBMODULE = "160000";
const LINK = "120000";
const FILES: Readonly<Record<string, number>> = { "100644": 0o644, "100755": 0o755, "100664": 0o644 };
const LONGEST_LINK = 4096;

/** `100644 blob ID   SIZE\tPATH`; a submodule has no size. */
function rowOf(line: string): GitRow {
  const tab = line.indexOf("\t");
  const [mode = "", , id = "", size = ""] = line.slice(0, tab).split(/ +/);
  return { mode, id, size: Number(size) || 0, path: line.slice(tab + 1) };
}

/** What is too large is refused by its size, before it is read. */
function isRead({ mode, size }: GitRow): boolean {
  return mode === LINK ? size <= LONGEST_LINK : Object.hasOwn(FILES, mode) && size <= SOURCE_LIMITS.file;
}

function entryOf({ path, mode, size }: GitRow, bytes: Buffer | undefined): SourceEntry {
  const read = () => bytes ?? new Uint8Array();
  if (mode === LINK && bytes) return { path, kind: "link", mode: 0o777, size: 0, target: bytes.toString(), read };
  const bits = FILES[mode];
  return bits === undefined
    ? { path, kind: "other", mode: 0, size: 0, read }
    : { path, kind: "file", mode: bits, size, read };
}

/** Reads what `cat-file --batch` writes: a line with id, kind and size, the bytes, the end of a line. */
function openObjects(stream: AsyncGenerator<Buffer, void, undefined>) {
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
    async next({ id, size, path }: GitRow): Promise<Buffer> {
      const header = `${id} blob ${size}\n`;
      const isThere = (await atLeast(header.length + size + 1)) && take(header.length).toString("latin1") === header;
      if (!isThere) throw broken(path);
      return take(size + 1).subarray(0, size);
    },
    close: () => stream.return(),
  };
}

function broken(path: string): SkillError {
  return new SkillError("git-broken", {
    message: `The repository does not hold what it says of ${shown(path)}`,
    fix: "the repository is damaged: tell whoever keeps it",
  });
}
