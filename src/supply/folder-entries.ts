import { type Dirent, lstatSync, readdirSync, readlinkSync } from "node:fs";
import { SkillError } from "../shared/error.ts";
import { readInside, reason } from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import type { SourceEntry } from "./contract.ts";
import { refusedEntry, shown } from "./refusal.ts";

/** What versions are kept in: it is large, holds what was taken out, and settings that programs act on. */
const VERSION_CONTROL: ReadonlySet<string> = new Set([".git", ".hg", ".svn"]);

/** What a folder of this machine holds, as it is met. No link is followed. Contract: the path is a real one. */
export function* folderEntries(folder: string, below = ""): Generator<SourceEntry, void, undefined> {
  for (const { name } of listed(folder, below)) {
    if (VERSION_CONTROL.has(name)) continue;
    const path = below === "" ? name : `${below}/${name}`;
    const entry = entryAt(folder, path);
    yield entry;
    if (entry.kind === "folder") yield* folderEntries(folder, path);
  }
}

function listed(folder: string, below: string): Dirent[] {
  const path = below === "" ? folder : `${folder}/${below}`;
  return whileAt(path, () => readdirSync(path, { withFileTypes: true })).sort((a, b) => byText(a.name, b.name));
}

function entryAt(folder: string, path: string): SourceEntry {
  const file = `${folder}/${path}`;
  const stats = whileAt(file, () => lstatSync(file));
  const { mode, size } = stats;
  const entry = { path, mode: mode & 0o7777, read: () => new Uint8Array() };
  if (stats.isDirectory()) return { ...entry, kind: "folder", size: 0 };
  if (stats.isFile()) return { ...entry, kind: "file", size, read: () => bytesOf(folder, path, size) };
  if (!stats.isSymbolicLink()) return { ...entry, kind: "other", size: 0 };
  return { ...entry, kind: "link", size: 0, target: whileAt(file, () => readlinkSync(file)) };
}

// By way of the folder's own descriptors: whatever is put in a file's place meanwhile, no byte from outside is read.
function bytesOf(folder: string, path: string, size: number): Uint8Array {
  const read = readInside(folder, path, size);
  if ("code" in read && read.code !== "too-large") {
    throw new SkillError("source-unreadable", { message: read.message, fix: FIX });
  }
  if ("code" in read || read.bytes.length !== size) throw refusedEntry("entry-size", path, "changed while it was read");
  return read.bytes;
}

const FIX = "check who may read it, or take it out of the folder";

function whileAt<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new SkillError("source-unreadable", {
      message: `${shown(path)} cannot be read: ${reason(cause)}`,
      fix: FIX,
      cause,
    });
  }
}
