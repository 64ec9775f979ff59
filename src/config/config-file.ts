import { statSync } from "node:fs";
import { getErrnoCode, getErrorMessage } from "../errors/problem.ts";
import { RENAMED_NAMES } from "../errors/renamed-names.ts";
import type { Finding } from "../skill/skill.ts";
import { readRegularText } from "../util/file-access.ts";
import { findNearest, formatCount, truncateLine } from "../util/text.ts";
import { CONFIG_KEYS, type ConfigKey } from "./config-keys.ts";
import { isValueReference, KEY_TYPES } from "./key-types.ts";

export type SettingsOwner = "user" | "workspace";
/** The owner of a file: the user, the workspace, or ash, of whose file only the keys for skills are read. */
export type ConfigOwner = SettingsOwner | "ash";

/** A parsed configuration file. */
export interface ConfigFile {
  path: string;
  owner: ConfigOwner;
  exists: boolean;
  /** The fingerprint of its content, if the file is watched. */
  fingerprint?: string;
  entries: ConfigEntry[];
  findings: Finding[];
  /** The keys whose values are ignored, with the reason: the wrong type, or not allowed in a workspace. */
  rejected: { parts: readonly string[]; finding: Finding }[];
}

/** A valid value, with its owner, file and line. */
export interface ConfigEntry {
  parts: readonly string[];
  value: unknown;
  row: ConfigKey;
  owner: SettingsOwner;
  file: string;
  line: number;
}

export const MAX_CONFIG_BYTES = 1024 * 1024;
/** A workspace can contain any number of unknown keys, and each needs a search for the nearest known key. */
const MAX_FINDINGS = 100;

/** Reads one file. Never throws: problems are findings. */
export async function readConfig(path: string, owner: ConfigOwner): Promise<ConfigFile> {
  const { config, text } = readConfigFileText(path, owner);
  return text === undefined ? config : parseConfig(config, text, owner, await loadTomlParser());
}

/** Reads one file synchronously, for a caller that has loaded the parser. */
export function readConfigSync(path: string, owner: ConfigOwner, parse: ParseToml): ConfigFile {
  const { config, text } = readConfigFileText(path, owner);
  return text === undefined ? config : parseConfig(config, text, owner, parse);
}

function readConfigFileText(path: string, owner: ConfigOwner): { config: ConfigFile; text?: string } {
  const config: ConfigFile = { path, owner, exists: false, entries: [], findings: [], rejected: [] };
  const { findings } = config;
  const code = owner === "ash" ? "config-ash" : "config-syntax"; // An error in another program's configuration does not stop a command.
  try {
    const stats = statSync(path);
    config.exists = true;
    if (!stats.isFile() || stats.size > MAX_CONFIG_BYTES) {
      findings.push({ code, message: "is not a regular file of at most 1 MiB" });
      return { config };
    }
    return { config, text: readRegularText(path, { limit: MAX_CONFIG_BYTES }) };
  } catch (error) {
    if (getErrnoCode(error) !== "ENOENT" && getErrnoCode(error) !== "ENOTDIR") {
      config.exists = true;
      findings.push({ code, message: `cannot be read: ${getErrorMessage(error)}` });
    }
    return { config };
  }
}

function parseConfig(config: ConfigFile, text: string, fileOwner: ConfigOwner, parse: ParseToml): ConfigFile {
  const { path, entries, findings, rejected } = config;
  const owner = fileOwner === "ash" ? "user" : fileOwner;
  const read = parse(text);
  if ("problem" in read) {
    findings.push(fileOwner === "ash" ? { ...read.problem, code: "config-ash" } : read.problem);
    return config;
  }
  const leaves = fileOwner === "ash" ? read.leaves.filter(isReadFromAsh) : read.leaves;
  if (fileOwner === "ash") {
    const others = read.leaves.length - leaves.length;
    const note = others === 0 ? "" : `; ${formatCount(others, "other key")} not read`;
    findings.push({ code: "config-ash", message: `is read for skills and capability providers${note}` });
  }
  const lineOf = createLineFinder(parseTomlStatements(text));
  let omitted = 0;
  for (const [written, value] of leaves) {
    const line = lineOf(written);
    const renamed = findRenamedKey(written);
    const parts = renamed ?? written;
    if (renamed) {
      const isIgnored = leaves.some(([other]) => formatKeyPath(other) === formatKeyPath(renamed));
      findings.push({ ...createRenamedFinding(written, renamed, isIgnored), line, column: 1 });
      if (isIgnored) continue;
    }
    if (findings.length >= MAX_FINDINGS && !findKeyRow(parts)) {
      omitted++;
      continue;
    }
    const checked = validateConfigValue(parts, value, owner);
    if ("code" in checked) {
      const finding = { ...checked, line, column: 1 };
      findings.push(finding);
      if (checked.code !== "config-unknown") rejected.push({ parts, finding });
    } else entries.push({ parts, value, row: checked, owner, file: path, line });
  }
  if (omitted > 0)
    findings.push({ code: "config-unknown", message: `has ${formatCount(omitted, "more unknown key")}` });
  findings.push(...findSourcesWithoutPath(entries, lineOf));
  if (entries.some(({ row, value }) => row.isSecret && !isValueReference(value)) && isReadableByOthers(path)) {
    findings.push({
      code: "config-world-readable",
      message: "contains secrets and is readable by other users",
      fix: `chmod 600 ${path}`,
    });
  }
  return config;
}

function createRenamedFinding(written: readonly string[], renamed: readonly string[], isIgnored: boolean): Finding {
  const [old, meant] = [formatKeyPath(written), formatKeyPath(renamed)];
  return {
    code: "config-renamed",
    message: `"${truncateLine(old, 120)}" is now "${truncateLine(meant, 120)}"${isIgnored ? ", which is set too: the old key is ignored" : ""}`,
    meant,
    fix: isIgnored ? `remove "${old}"` : "run: skillet config migrate",
  };
}

/** Returns true for keys that are read from the configuration of ash. */
function isReadFromAsh([[table, below]]: TomlLeaf): boolean {
  return table === "skills" || (table === "capabilities" && below === "providers");
}

export type TomlLeaf = readonly [parts: readonly string[], value: unknown];
/** Parses TOML into every value with its path of names, or the problem. */
export type ParseToml = (text: string) => { leaves: TomlLeaf[] } | { problem: Finding };

/** Loads the parser, which most starts do not need. */
export async function loadTomlParser(): Promise<ParseToml> {
  const { parse, TomlError } = await import("smol-toml");
  return (text) => {
    try {
      return { leaves: [...walkLeaves(parse(text))] };
    } catch (error) {
      const where = error instanceof TomlError ? { line: error.line, column: error.column } : {};
      const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
      const message = `is not valid TOML: ${why.replace(/^Invalid TOML document: /, "")}`;
      const data = why.includes(UNREPRESENTABLE) ? { data: { isUnrepresentable: true } } : {};
      return { problem: { code: "config-syntax", message, ...where, ...data } };
    }
  };
}

/** In the parser's message about a valid number that JavaScript cannot represent. */
const UNREPRESENTABLE = "cannot be represented losslessly";

/** Returns the row of a key if it may have this value, otherwise the finding. `written` is the key as its author wrote it. */
export function validateConfigValue(
  parts: readonly string[],
  value: unknown,
  owner: SettingsOwner,
  written = formatKeyPath(parts),
): ConfigKey | Finding {
  const shown = `"${truncateLine(written, 120)}"`;
  const row = findKeyRow(parts);
  const meant = row ? undefined : findNearestKey(parts);
  const isForWorkspace = (row ?? findKeyRow(meant ?? []))?.workspace !== undefined;
  if (owner === "workspace" && !isForWorkspace)
    return { code: "config-refused", message: `${shown} may not be set by a workspace` };
  if (!row) {
    const message = `${shown} is not a known key`;
    if (!meant) return { code: "config-unknown", message };
    return {
      code: "config-unknown",
      message,
      meant: formatKeyPath(meant),
      fix: `did you mean "${formatKeyPath(meant)}"?`,
    };
  }
  const name = parts[row.path.split(".").indexOf("*")];
  if (row.hasPlainName && !PLAIN_NAME.test(name ?? ""))
    return { code: "config-type", message: `${shown}: its name must have up to 64 letters, digits, "-" and "_"` };
  const type = KEY_TYPES[row.type];
  if (!type.is(value)) return { code: "config-type", message: `${shown} must be ${type.description}` };
  const narrow = owner === "workspace" && row.workspaceType ? KEY_TYPES[row.workspaceType] : type;
  if (!narrow.is(value))
    return { code: "config-refused", message: `${shown} must be ${narrow.description} in a workspace` };
  return row;
}

export const PLAIN_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** Formats a key path for TOML: a part with other characters than letters, digits, `_` and `-` is quoted. */
export function formatKeyPath(parts: readonly string[]): string {
  return parts.map((part) => (/^[\w-]+$/.test(part) ? part : JSON.stringify(part))).join(".");
}

function findSourcesWithoutPath(
  entries: readonly ConfigEntry[],
  lineOf: (parts: readonly string[]) => number,
): Finding[] {
  const sources = Map.groupBy(
    entries.filter(({ parts }) => parts[0] === "sources"),
    ({ parts }) => parts[1] ?? "",
  );
  return [...sources].flatMap(([name, keys]) => {
    if (keys.some(({ parts }) => parts[2] === "path")) return [];
    const line = lineOf(["sources", name]);
    return [{ code: "config-source", message: `[sources.${truncateLine(name, 64)}] has no path`, line }];
  });
}

/** Yields every value with its key path. An empty table has none. */
function* walkLeaves(table: object, above: readonly string[] = []): Generator<TomlLeaf> {
  for (const [key, value] of Object.entries(table)) {
    const parts = [...above, key];
    if (isTable(value)) yield* walkLeaves(value, parts);
    else yield [parts, value];
  }
}

function isTable(value: unknown): value is object {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

function isReadableByOthers(path: string): boolean {
  return process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0;
}

const KEY_ROWS = CONFIG_KEYS.map((row) => ({ row, wanted: row.path.split(".") }));

/** Returns the row of a key. */
export function findKeyRow(parts: readonly string[]): ConfigKey | undefined {
  return KEY_ROWS.find(({ wanted }) => isKeyMatch(wanted, parts))?.row;
}

const RENAMED_KEYS = Object.entries(RENAMED_NAMES.config).map(([old, name]) => ({
  old: old.split("."),
  path: name,
  last: name.split(".").at(-1) ?? "",
}));

/** Returns the key of today for a key of an earlier version, or undefined for every other key. */
export function findRenamedKey(parts: readonly string[]): string[] | undefined {
  const row = RENAMED_KEYS.find(({ old }) => isKeyMatch(old, parts));
  return row && [...parts.slice(0, -1), row.last];
}

/** Returns the keys of earlier versions that mean this key. */
export function listFormerKeys(parts: readonly string[]): string[][] {
  return RENAMED_KEYS.filter(({ path }) => isKeyMatch(path.split("."), parts)).map(({ old }) => [
    ...parts.slice(0, -1),
    old.at(-1) ?? "",
  ]);
}

/** Returns true if this key is a table that contains other keys. */
export function isTableKey(parts: readonly string[]): boolean {
  const isAbove = (wanted: readonly string[]) =>
    parts.length < wanted.length && parts.every((part, index) => isPartMatch(wanted[index] ?? "", part));
  return parts.length > 0 && findKeyRow(parts) === undefined && KEY_ROWS.some(({ wanted }) => isAbove(wanted));
}

function isKeyMatch(wanted: readonly string[], parts: readonly string[]): boolean {
  return (
    wanted.length === parts.length &&
    wanted.every((part, index) => isPartMatch(part, parts[index] ?? "")) &&
    !(wanted[1] === "*" && RESERVED_NAMES.has(`${parts[0]}.${parts[1]}`))
  );
}

/** Keys in the position of a name that are not names. */
const RESERVED_NAMES = new Set(["skills.defaults"]);

function isPartMatch(wanted: string, part: string): boolean {
  if (wanted === "*") return true;
  return wanted === "UPPER_CASE" ? UPPER_CASE.test(part) : wanted === part;
}

export const UPPER_CASE = /^[A-Z_][A-Z0-9_]*$/;

/**
 * Parses a key path that a user wrote. A name with dots needs no quotes if the rest of the path is known. A key of an
 * earlier version gives the key of today.
 */
export function parseKeyPath(text: string): string[] {
  const written = (text.match(/"(?:[^"\\]|\\.)*"|'[^']*'|[^.]+/g) ?? []).map(unquoteKey);
  const parts = findRenamedKey(written) ?? written;
  if (findKeyRow(parts)) return parts;
  for (const { wanted } of KEY_ROWS) {
    const star = wanted.indexOf("*");
    const extra = parts.length - wanted.length;
    if (star === -1 || extra <= 0) continue;
    const joined = [
      ...parts.slice(0, star),
      parts.slice(star, star + extra + 1).join("."),
      ...parts.slice(star + extra + 1),
    ];
    if (isKeyMatch(wanted, joined)) return joined;
  }
  return parts;
}

/** Returns the known key that differs from this one only slightly, in one part. */
function findNearestKey(parts: readonly string[]): string[] | undefined {
  for (const [index, part] of parts.entries()) {
    const candidates = KEY_ROWS.flatMap(({ wanted }) => {
      const isBelow = wanted.every((other, at) => at >= index || isPartMatch(other, parts[at] ?? ""));
      return isBelow ? (wanted[index] ?? []) : [];
    });
    if (candidates.some((wanted) => isPartMatch(wanted, part))) continue;
    const meant = findNearest(part, new Set(candidates));
    return meant === undefined ? undefined : [...parts.slice(0, index), meant, ...parts.slice(index + 1)];
  }
  return undefined;
}

/** A statement of a TOML text: a table header, or a key with its value. */
export interface TomlStatement {
  /** The complete key path, including its table. */
  parts: readonly string[];
  /** The number of parts that belong to the table. */
  table: number;
  isTable: boolean;
  line: number;
  start: number;
  /** The offset after its value, before the rest of the line. */
  end: number;
  /** The offset of its value. */
  value: number;
}

/** Returns the statements of a TOML text, in order. Contract: the text is valid; in an invalid text it finds as many as possible. */
export function parseTomlStatements(text: string): TomlStatement[] {
  const found: TomlStatement[] = [];
  let table: readonly string[] = [];
  let line = 1;
  for (let start = 0; start < text.length; ) {
    const head = TABLE_HEAD.exec(text.slice(start, findLineEnd(text, start)));
    const key = head ? undefined : KEY_START.exec(text.slice(start, findLineEnd(text, start)));
    let end = findLineEnd(text, start);
    const at = { line, start };
    if (head) {
      table = splitKey(head[1] ?? "");
      found.push({ ...at, parts: table, table: table.length, isTable: true, end: start + head[0].length, value: end });
    } else if (key) {
      const value = start + key[0].length;
      const stop = findValueEnd(text, value);
      const parts = [...table, ...splitKey(key[1] ?? "")];
      found.push({ ...at, parts, table: table.length, isTable: false, end: stop, value });
      end = findLineEnd(text, stop);
    }
    line += text.slice(start, end + 1).split("\n").length - 1;
    start = end + 1;
  }
  return found;
}

/** Creates a function that returns the line of a key or of its table, or 1 if neither is found. */
export function createLineFinder(statements: readonly TomlStatement[]): (parts: readonly string[]) => number {
  const lines = new Map<string, number>();
  for (const { parts, line } of statements) {
    const id = JSON.stringify(parts.slice(0, MAX_KEY_PARTS));
    if (!lines.has(id)) lines.set(id, line);
  }
  return (parts) => {
    for (let length = Math.min(parts.length, MAX_KEY_PARTS); length > 0; length--) {
      const line = lines.get(JSON.stringify(parts.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 1;
  };
}

/** The maximum parts of a known key. */
const MAX_KEY_PARTS = 8;

const PART = /"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+/.source;
const DOTTED_KEY = `(?:${PART})(?:[ \\t]*\\.[ \\t]*(?:${PART}))*`;
const TABLE_HEAD = new RegExp(`^[ \\t]*\\[\\[?[ \\t]*(${DOTTED_KEY})[ \\t]*\\]\\]?`);
const KEY_START = new RegExp(`^[ \\t]*(${DOTTED_KEY})[ \\t]*=[ \\t]*`);

function splitKey(dotted: string): string[] {
  return (dotted.match(new RegExp(PART, "g")) ?? []).map(unquoteKey);
}

/** Removes the quotes from a part of a key. */
function unquoteKey(part: string): string {
  if (/^'.*'$/s.test(part)) return part.slice(1, -1);
  if (!/^".*"$/s.test(part)) return part;
  try {
    return String(JSON.parse(part));
  } catch {
    return part.slice(1, -1); // Escapes such as `\U0001F600`: the part is only used for lookups.
  }
}

/** Returns the offset of the end of the line. */
export function findLineEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end === -1 ? text.length : end;
}

// Matches one token: a multi-line string, a string, a comment, a bracket, or anything else.
const TOKEN =
  /"""(?:[^\\]|\\[\s\S])*?"""+|'''[\s\S]*?'''+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[[\]{}]|[ \t\r]+|\n|[^[\]{}"'#\s]+|["']/y;

/** Returns the end of a value: the end of its line, unless it is a multi-line string or list. */
function findValueEnd(text: string, from: number): number {
  let depth = 0;
  let end = from;
  for (TOKEN.lastIndex = from; TOKEN.lastIndex < text.length; ) {
    const token = TOKEN.exec(text)?.[0];
    if (token === undefined || (depth === 0 && (token === "\n" || token.startsWith("#")))) break;
    if (/^[[{]$/.test(token)) depth++;
    else if (/^[\]}]$/.test(token)) depth--;
    if (token.trim() !== "") end = TOKEN.lastIndex;
  }
  return end;
}
