import { readFileSync, statSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { editToml, formatTomlValue } from "../../config/config-edit.ts";
import { formatKeyPath, loadTomlParser, type TomlLeaf } from "../../config/config-file.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../../errors/problem.ts";
import type { Finding } from "../../skill/skill.ts";
import { replaceFile, withFileLock } from "../../store/locked-file.ts";
import { isEmptyJsonc, nestValue, parseJsonc, removeJsoncValue, setJsoncValue } from "./jsonc.ts";
import {
  type ClientConfigEntry,
  describeEntry,
  findKeysAtRisk,
  isRemoteEntry,
  isSkilletServer,
  isTable,
  type McpClient,
  mergeEntry,
} from "./mcp-clients.ts";

const MAX_CONFIG_BYTES = 8 * 1024 * 1024;

interface WriteSnippetOptions {
  client: McpClient;
  /** The mode of a new file; an existing one keeps its own. */
  mode: number;
}

/**
 * Puts a snippet into a client's file atomically, and changes nothing else. Contract: writes nothing if it was already
 * there. Throws a SkillError when the file cannot be read, changed or written.
 */
export async function writeMcpSnippet(
  file: string,
  snippet: McpSnippet,
  { client, mode }: WriteSnippetOptions,
): Promise<MergedConfig | undefined> {
  const language = await loadConfigLanguage(snippet.format);
  readClientConfig(file); // Fails before a lock is created next to it.
  return withFileLock(file, () => {
    const there = readClientConfig(file) ?? { text: "", mark: "", mode };
    const merged = nameFileInErrors(file, () => mergeMcpSnippet(there.text, snippet, client, language));
    if (merged.text === there.text) return undefined;
    // Checked because replacing the file would only need a writable folder.
    if ((there.mode & 0o222) === 0) throw createReadOnlyError(file);
    replaceFile(file, there.mark + merged.text, there.mode);
    return merged;
  });
}

/** Parses a client's file; undefined if it does not exist or cannot be read. */
export async function readClientDocument(file: string, format: McpClient["format"]): Promise<unknown> {
  const language = await loadConfigLanguage(format);
  try {
    return language.parse(readClientConfig(file)?.text ?? "");
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** A client's file on the disk. */
interface ClientFile {
  text: string;
  /** Its byte order mark. */
  mark: string;
  mode: number;
}

/** Reads a client's file; undefined if it does not exist. Throws a SkillError when it is not a file, too large or not UTF-8. */
export function readClientConfig(file: string): ClientFile | undefined {
  try {
    const stats = statSync(file);
    if (!stats.isFile()) throw createConfigFileError(file, "is not a file", "move it away");
    if (stats.size > MAX_CONFIG_BYTES)
      throw createConfigFileError(file, "is larger than 8 MiB", "add the lines by hand");
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file));
    const mark = text.startsWith("\ufeff") ? "\ufeff" : "";
    return { text: text.slice(mark.length), mark, mode: stats.mode & 0o777 };
  } catch (error) {
    if (error instanceof SkillError) throw error;
    if (getErrnoCode(error) === "ENOENT") return undefined;
    if (error instanceof TypeError) throw createConfigFileError(file, "is not UTF-8", "save it as UTF-8");
    throw createConfigFileError(file, `cannot be read: ${getErrorMessage(error)}`, "grant yourself read permission");
  }
}

export function createReadOnlyError(file: string): SkillError {
  return createConfigFileError(file, "is read-only", "make it writable, or add the lines by hand");
}

function createConfigFileError(file: string, what: string, fix: string): SkillError {
  return new SkillError("unreadable", { message: `${file} ${what}`, fix: `${fix}: nothing was written` });
}

/** Adds the file's name to errors. */
export function nameFileInErrors<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError) throw createConfigFileError(file, "is nested too deeply", "add the lines by hand");
    if (!(error instanceof SkillError)) throw error;
    const { code, message, fix } = error;
    throw new SkillError(code, { message: `${file} ${message}`, ...(fix === undefined ? {} : { fix }), cause: error });
  }
}

/** A configuration language: JSON or TOML. */
export interface ConfigLanguage {
  /** Parses the text. Throws a SkillError that names the line, and quotes nothing. */
  parse(text: string): Record<string, unknown>;
  /** Sets and removes values below a path, and keeps the rest. Returns undefined if that is impossible. */
  edit(text: string, path: readonly string[], change: EntryChange): string | undefined;
}

interface EntryChange {
  /** The current values below the path. */
  before: ClientConfigEntry;
  /** The new values. */
  after: ClientConfigEntry;
}

/** Loads the parser and editor of a format. The TOML parser is loaded only for TOML. */
export async function loadConfigLanguage(format: McpClient["format"]): Promise<ConfigLanguage> {
  return format === "toml" ? createTomlLanguage(await loadTomlParser()) : JSON_LANGUAGE;
}

/** A text after a snippet was merged. */
export interface MergedConfig {
  text: string;
  /** The previous entry, empty if it did not exist, and the new one. */
  before: ClientConfigEntry;
  after: ClientConfigEntry;
}

/**
 * Puts a snippet into a text and keeps the rest: other servers, keys added to this one, comments, formatting. Contract:
 * returns the same text if it was already there. Throws a SkillError when the text does not parse, another server has
 * the name, an added key would be lost, or the text can only be edited by hand.
 */
export function mergeMcpSnippet(
  text: string,
  { path, entry }: McpSnippet,
  client: McpClient,
  language: ConfigLanguage,
): MergedConfig {
  const before = getConfigEntry(language.parse(text), path) ?? {};
  if (Object.keys(before).length > 0) {
    if (!isSkilletServer(before, entry)) throw createNameTakenError(path, before);
    const keys = findKeysAtRisk(before, entry, client);
    if (keys.length > 0) throw createKeysAtRiskError(path, before, keys);
  }
  const after = mergeEntry(before, entry, client.exclusiveKeys);
  if (isDeepStrictEqual(after, before)) return { text, before, after };
  const next = language.edit(text, path, { before, after });
  const wanted = language.parse(text);
  setAtPath(wanted, path, after);
  if (next === undefined || !isDeepStrictEqual(language.parse(next), wanted)) {
    throw new SkillError("config-edit", {
      message: `has ${formatKeyPath(path.slice(0, -1))} in a form that can only be edited by hand`,
      fix: "add the lines above by hand: nothing was written",
    });
  }
  return { text: next, before, after };
}

/** Returns the entry at a path. Throws a SkillError when a value in between is not an object. */
export function getConfigEntry(
  document: Record<string, unknown>,
  path: readonly string[],
): ClientConfigEntry | undefined {
  let here: unknown = document;
  for (const [index, name] of path.entries()) {
    if (!isTable(here)) throw createBlockedPathError(path.slice(0, index));
    if (!Object.hasOwn(here, name)) return undefined;
    here = here[name];
  }
  if (!isTable(here)) throw createBlockedPathError(path);
  return here;
}

export function createBlockedPathError(path: readonly string[]): SkillError {
  return new SkillError("config-edit", {
    message: path.length === 0 ? "is not a JSON object" : `has ${formatKeyPath(path)}, which is not an object`,
    fix: "fix it by hand: nothing was written",
  });
}

/** Names only the program or address of the other server: the rest may contain a secret. */
function createNameTakenError(path: readonly string[], there: ClientConfigEntry): SkillError {
  const [command] = [there["command"]].flat();
  const program = command === undefined ? "is another server" : `starts ${JSON.stringify(String(command))}`;
  const what = isRemoteEntry(there) ? `calls ${describeEntry(there)}` : program;
  return new SkillError("server-name-taken", {
    message: `already has ${formatKeyPath(path)}, which ${what}`,
    fix: "choose another name with --name, or remove that entry first: nothing was written",
  });
}

function createKeysAtRiskError(path: readonly string[], there: ClientConfigEntry, keys: readonly string[]): SkillError {
  const what = isRemoteEntry(there) ? `calls ${describeEntry(there)}` : `starts \`skillet ${describeEntry(there)}\``;
  const names = keys.map((key) => formatKeyPath([key])).join(", ");
  return new SkillError("unmanaged-keys", {
    message: `already has ${formatKeyPath(path)}, which ${what} and has your own keys that the new entry cannot keep: ${names}`,
    fix: "remove these keys first, or choose another name with --name: nothing was written",
  });
}

export const JSON_LANGUAGE: ConfigLanguage = {
  parse(text) {
    try {
      if (isEmptyJsonc(text)) return {};
      const document = parseJsonc(text);
      if (isTable(document)) return document;
    } catch (error) {
      throw createSyntaxError("JSON", findLineNumber(text, /position (\d+)/.exec(String(error))?.[1]));
    }
    throw createBlockedPathError([]);
  },
  edit(text, path, { before, after }) {
    const start = ensureJsonObject(text);
    if (Object.keys(before).length === 0) return setJsoncValue(start, path, after);
    const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(before[key], value));
    const more = changed.reduce((written, [key, value]) => setJsoncValue(written, [...path, key], value), start);
    const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
    return gone.reduce((written, key) => removeJsoncValue(written, [...path, key]), more);
  },
};

/** Returns a text with an object, added after the comments if it has none. Contract: the text parses. */
export function ensureJsonObject(text: string): string {
  if (!isEmptyJsonc(text)) return text;
  if (text.trim() === "") return `{}${text || "\n"}`;
  const newLine = text.includes("\r\n") ? "\r\n" : "\n";
  return `${text.trimEnd()}${newLine}{}${newLine}`;
}

function createTomlLanguage(read: Awaited<ReturnType<typeof loadTomlParser>>): ConfigLanguage {
  const leavesOf = (text: string): TomlLeaf[] | undefined => {
    const parsed = read(text);
    return "problem" in parsed ? undefined : parsed.leaves;
  };
  return {
    parse(text) {
      const parsed = read(text);
      if ("problem" in parsed) throw createUnreadValueError(parsed.problem);
      return createTomlTable(parsed.leaves);
    },
    edit(text, path, { before, after }) {
      const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
      const removed = (leavesOf(text) ?? []).filter(([parts]) =>
        gone.some((key) => isBelowPath(parts, [...path, key])),
      );
      const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(before[key], value));
      const edits = [
        ...changed.map(([key, value]) => ({ parts: [...path, key], value })),
        ...removed.map(([parts]) => ({ parts })),
      ];
      let next: string | undefined = text;
      for (const edit of edits) if (next !== undefined) next = editToml(next, edit, leavesOf);
      return next;
    },
  };
}

/** Creates a table without empty tables: they hold no value, and edits do not remove them. */
function createTomlTable(leaves: readonly TomlLeaf[]): Record<string, unknown> {
  const table: Record<string, unknown> = {};
  for (const [parts, value] of leaves) setAtPath(table, parts, value);
  return table;
}

/** Sets a value at a path. A key may be `__proto__`. */
function setAtPath(table: Record<string, unknown>, path: readonly string[], value: unknown): void {
  let here = table;
  for (const [index, name] of path.entries()) {
    const isLast = index === path.length - 1;
    if (isLast || !Object.hasOwn(here, name)) {
      const inner = isLast ? value : {};
      Object.defineProperty(here, name, { value: inner, writable: true, enumerable: true, configurable: true });
    }
    here = Object.getOwnPropertyDescriptor(here, name)?.value;
  }
}

function isBelowPath(parts: readonly string[], above: readonly string[]): boolean {
  return above.every((name, index) => parts[index] === name);
}

function createSyntaxError(language: string, line?: number): SkillError {
  return new SkillError("config-syntax", {
    message: `is not valid ${language}${line === undefined ? "" : `: line ${line}`}`,
    fix: "fix it first: nothing was written",
  });
}

/** Valid TOML can have numbers that this parser cannot represent exactly. */
function createUnreadValueError({ data, line }: Finding): SkillError {
  if (data?.["isUnrepresentable"] !== true) return createSyntaxError("TOML", line);
  return new SkillError("config-edit", {
    message: `has a number that is too large to be kept exactly: line ${line}`,
    fix: "add the lines above by hand: nothing was written",
  });
}

function findLineNumber(text: string, position?: string): number | undefined {
  return position === undefined ? undefined : text.slice(0, Number(position)).split("\n").length;
}

/** An entry, and its path in the client's file. */
export interface McpSnippet {
  format: McpClient["format"];
  path: readonly string[];
  entry: ClientConfigEntry;
}

/** Returns a snippet as data: the content of a file that holds nothing else. */
export function createSnippetObject({ path, entry }: McpSnippet): unknown {
  return nestValue(path, entry);
}

/** Formats a snippet for the client's file. */
export function formatSnippet(snippet: McpSnippet): string {
  if (snippet.format !== "toml") return `${JSON.stringify(createSnippetObject(snippet), null, 2)}\n`;
  const lines = Object.entries(snippet.entry).map(
    ([key, value]) => `${formatKeyPath([key])} = ${formatTomlValue(value)}\n`,
  );
  return `[${formatKeyPath(snippet.path)}]\n${lines.join("")}`;
}
