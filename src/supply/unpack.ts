import { closeSync, constants, fchmodSync, mkdirSync, openSync, writeFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { count } from "../shared/text.ts";
import { sourceBudget } from "./budget.ts";
import type { SourceEntry } from "./contract.ts";
import { entryPath, LONGEST_TARGET } from "./entry-name.ts";
import { judgeNested } from "./nested.ts";
import { emptyPlaces } from "./places.ts";
import { isOfOneFile, refusedEntry, shown } from "./refusal.ts";

export interface UnpackOptions {
  /** Contract: absolute, empty, and only ours. What fails leaves it half-full: whoever calls takes it away. */
  to: string;
  /** Leaves out files that are refused for themselves alone, in place of throwing; `refused` has them. */
  skipRefused?: boolean;
  signal?: AbortSignal;
}

export interface Unpacked {
  /** Links, by their paths, and where they lead as written: none was made. */
  links: ReadonlyMap<string, string>;
  /** What is not as it was in the source: a sentence each. */
  notes: readonly string[];
  /** What was left out, by its path, and why. */
  refused: ReadonlyMap<string, SkillError>;
  files: number;
  bytes: number;
}

/** THE gate: writes what a source holds below a folder of ours, files and folders and nothing else. Throws over anything that could lead elsewhere. */
export async function unpack(
  entries: Iterable<SourceEntry> | AsyncIterable<SourceEntry>,
  { to, skipRefused = false, signal }: UnpackOptions,
): Promise<Unpacked> {
  const budget = sourceBudget();
  // Archives within it have their own limits: one that is too large is refused, and what follows it is not.
  const nestedBudget = sourceBudget();
  const places = emptyPlaces();
  const links = new Map<string, string>();
  const disarmed: string[] = [];
  const refused = new Map<string, SkillError>();
  let [files, bytes, work] = [0, 0, 0];
  for await (const entry of entries) {
    work += WORK_OF_ENTRY + entry.size;
    if (work > WORK_OF_TURN) {
      work = 0;
      await setImmediate(); // Whoever wants to stop this gets a turn.
    }
    signal?.throwIfAborted();
    budget.entry(entry.path);
    try {
      take(entry);
    } catch (error) {
      if (!skipRefused || !(error instanceof SkillError && isOfOneFile(error.code))) throw error;
      refused.set(entry.path.replace(/^(?:\.\/)+/, ""), error);
    }
  }
  return { links, notes: disarmedNote(disarmed), refused, files, bytes };

  function take(entry: SourceEntry): void {
    const path = entryPath(entry);
    if (path === "") return;
    if (entry.kind === "other") throw odd(entry);
    for (const folder of places.take(path, entry.kind)) {
      if (folder !== path) budget.entry(folder);
      write(folder, () => mkdirSync(`${to}/${folder}`, 0o755));
    }
    if (entry.kind === "link") links.set(path, targetOf(entry));
    if (entry.kind !== "file") return;
    budget.file(path, entry.size);
    const content = entry.read();
    if (content.length !== entry.size) {
      throw refusedEntry("entry-size", path, "has not as many bytes as its source says");
    }
    judgeNested(path, content, nestedBudget);
    write(path, () => writeNew(`${to}/${path}`, content, entry.mode & 0o111 ? 0o755 : 0o644));
    if (entry.mode & SET_ID) disarmed.push(path);
    files++;
    bytes += content.length;
  }
}

const SET_ID = 0o6000;
const WORK_OF_ENTRY = 16 * 1024;
const WORK_OF_TURN = 8 * 1024 * 1024;
// Nothing that is there is ever written to or followed: all that may be there is what this very call has written.
const NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

function writeNew(file: string, content: Uint8Array, mode: number): void {
  const fd = openSync(file, NEW, mode);
  try {
    writeFileSync(fd, content);
    fchmodSync(fd, mode);
  } finally {
    closeSync(fd);
  }
}

function write(path: string, how: () => void): void {
  try {
    how();
  } catch (cause) {
    throw new SkillError("entry-unwritable", {
      message: `${shown(path)} cannot be written: ${reason(cause)}`,
      fix: "check that there is room, and that the disk takes such a name; nothing of the source was taken",
      cause,
    });
  }
}

function odd({ path, target }: SourceEntry): SkillError {
  const what =
    target === undefined ? "is a pipe, a socket, a device or the like" : `is a hard link to ${shown(target)}`;
  return refusedEntry("entry-kind", path, `${what}: only files, folders and links are taken`);
}

function targetOf({ path, target = "" }: SourceEntry): string {
  if (Buffer.byteLength(target) > LONGEST_TARGET) {
    throw refusedEntry("entry-long", path, `is a link to a path of more than ${LONGEST_TARGET} bytes`);
  }
  return target;
}

function disarmedNote(paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  return [
    `${count(paths.length, "file was", "files were")} to run as their owner, which was not taken over: ${listed(paths)}`,
  ];
}

const MOST_LISTED = 5;

function listed(paths: readonly string[]): string {
  const rest = paths.length > MOST_LISTED ? `, and ${paths.length - MOST_LISTED} more` : "";
  return `${paths.slice(0, MOST_LISTED).map(shown).join(", ")}${rest}`;
}
