import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { getErrnoCode, getErrorMessage } from "../errors/problem.ts";
import { RENAMED_NAMES } from "../errors/renamed-names.ts";
import type { Finding } from "../skill/diagnostics.ts";
import { readRegularText } from "../util/file-access.ts";
import { getUserHome } from "../util/system.ts";
import { findNearest, formatCount, truncateLine } from "../util/text.ts";
import { CONFIG_KEYS, type ConfigKey } from "./config-keys.ts";
import type { Host } from "./host.ts";
import { KEY_TYPES } from "./key-types.ts";
import { createLineFinder, parseTomlStatements, unquoteKey } from "./toml-statements.ts";

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
    const judged = validateConfigValue(parts, value, owner);
    if ("code" in judged) {
      const finding = { ...judged, line, column: 1 };
      findings.push(finding);
      if (judged.code !== "config-unknown") rejected.push({ parts, finding });
    } else entries.push({ parts, value, row: judged, owner, file: path, line });
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

const MAX_VALUE_BYTES = 64 * 1024;

/** Returns true if a value is a reference: `env:NAME` or `file:PATH`. */
export function isValueReference(value: unknown): boolean {
  return /^(?:env|file):./s.test(String(value));
}

/** Resolves a reference (`env:NAME`, `file:PATH`), or returns the value itself. */
export function resolveReference(
  written: string,
  host: Pick<Host, "home" | "env">,
  refuse: (why: string) => never,
): string {
  const [, kind, where = ""] = /^(env|file):(.+)$/s.exec(written) ?? [];
  const value =
    kind === "env" ? host.env?.[where] : kind === "file" ? readReferencedFile(where, host, refuse) : written;
  if (value === undefined || value === "") return refuse(`its value, ${JSON.stringify(written)}, is empty or not set`);
  if (value.includes("\0"))
    return refuse("its value contains a NUL character, which is not allowed in an environment variable");
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES) return refuse("its value is larger than 64 KiB");
  return value;
}

function readReferencedFile(
  path: string,
  { home, env }: Pick<Host, "home" | "env">,
  refuse: (why: string) => never,
): string {
  const file = path.startsWith("~/")
    ? join(getUserHome(env ?? {}), path.slice(2))
    : resolve(home ?? getUserHome(env ?? {}), path);
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    return refuse(`${file} cannot be read: ${getErrorMessage(error)}`);
  }
}
