import { readFileSync, statSync } from "node:fs";
import { replaceFile, whileLocked } from "../../host/locked-file.ts";
import { SkillError } from "../../shared/error.ts";
import { codeOf, reason } from "../../shared/inside.ts";
import type { Client } from "./clients.ts";
import { languageOf, type Merged, mergeSnippet } from "./merge.ts";
import type { Snippet } from "./snippet.ts";

const LARGEST_FILE = 8 * 1024 * 1024;

export interface WriteOptions {
  client: Client;
  /** The mode of a file that is made; one that is there keeps its own. */
  mode: number;
}

/**
 * Puts a snippet into a client's file: whole or not at all, and nothing else in it changes. Contract: nothing when it was there already.
 * Throws a SkillError when the file cannot be read, changed or written.
 */
export async function writeSnippet(
  file: string,
  snippet: Snippet,
  { client, mode }: WriteOptions,
): Promise<Merged | undefined> {
  const language = await languageOf(snippet.format);
  readClientFile(file); // Before anything is made beside it.
  return whileLocked(file, () => {
    const there = readClientFile(file) ?? { text: "", mark: "", mode };
    const merged = about(file, () => mergeSnippet(there.text, snippet, client, language));
    if (merged.text === there.text) return undefined;
    // It would be replaced all the same: for that, only its folder has to be writable.
    if ((there.mode & 0o222) === 0) throw readOnly(file);
    replaceFile(file, there.mark + merged.text, there.mode);
    return merged;
  });
}

/** What a client's file says; nothing when there is none, or none that can be read. */
export async function readDocument(file: string, format: Client["format"]): Promise<unknown> {
  const language = await languageOf(format);
  try {
    return language.parse(readClientFile(file)?.text ?? "");
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** A client's file as it is on the disk. */
export interface ClientFile {
  text: string;
  /** The mark of byte order before it. */
  mark: string;
  mode: number;
}

/** Reads a client's file; undefined if there is none. Throws a SkillError when it is not a file, too large or not UTF-8. */
export function readClientFile(file: string): ClientFile | undefined {
  try {
    const stats = statSync(file);
    if (!stats.isFile()) throw unusable(file, "is not a file", "move it away");
    if (stats.size > LARGEST_FILE) throw unusable(file, "is larger than 8 MiB", "put the lines in by hand");
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file));
    const mark = text.startsWith("\ufeff") ? "\ufeff" : "";
    return { text: text.slice(mark.length), mark, mode: stats.mode & 0o777 };
  } catch (error) {
    if (error instanceof SkillError) throw error;
    if (codeOf(error) === "ENOENT") return undefined;
    if (error instanceof TypeError) throw unusable(file, "is not UTF-8", "save it as UTF-8");
    throw unusable(file, `cannot be read: ${reason(error)}`, "give yourself read permission");
  }
}

export function readOnly(file: string): SkillError {
  return unusable(file, "is read-only", "make it writable, or put the lines in by hand");
}

function unusable(file: string, what: string, fix: string): SkillError {
  return new SkillError("unreadable", { message: `${file} ${what}`, fix: `${fix}: nothing was written` });
}

/** Says of which file something is true. */
export function about<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError) throw unusable(file, "is nested too deeply", "put the lines in by hand");
    if (!(error instanceof SkillError)) throw error;
    const { code, message, fix } = error;
    throw new SkillError(code, { message: `${file} ${message}`, ...(fix === undefined ? {} : { fix }), cause: error });
  }
}
