import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { getErrnoCode, getErrorMessage } from "../errors/problem.ts";
import type { Finding } from "../skill/diagnostics.ts";
import { readRegularText } from "../util/file-access.ts";
import { getUserHome } from "../util/system.ts";
import { findNearest, formatCount, truncateLine } from "../util/text.ts";
import { CONFIG_KEYS, type ConfigKey } from "./config-keys.ts";
import type { Host } from "./host.ts";
import { KEY_TYPES } from "./key-types.ts";
import { createLineFinder, parseTomlStatements, unquoteKey } from "./toml-statements.ts";

export type SettingsOwner = "user" | "workspace";
/** Whose file it is: the user's, the workspace's, or that of ash, of which only the keys for skills are read. */
export type ConfigOwner = SettingsOwner | "ash";

/** A configuration file as it was read. */
export interface ConfigFile {
  path: string;
  owner: ConfigOwner;
  exists: boolean;
  /** Of its content, where it is followed. */
  fingerprint?: string;
  entries: ConfigEntry[];
  findings: Finding[];
  /** The keys whose values are left out, and why: they have the wrong type, or are not for a workspace to set. */
  rejected: { parts: readonly string[]; finding: Finding }[];
}

/** A value that may be set, by whom and where. */
export interface ConfigEntry {
  parts: readonly string[];
  value: unknown;
  row: ConfigKey;
  owner: SettingsOwner;
  file: string;
  line: number;
}

export const MAX_CONFIG_BYTES = 1024 * 1024;
/** Whoever made a workspace can write any number of keys, and each that is meant for another is looked up. */
const MAX_FINDINGS = 100;

/** Reads one file. Never throws: what is wrong is a finding. */
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
  const code = owner === "ash" ? "config-ash" : "config-syntax"; // The configuration of another program breaks no command of this one.
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

function parseConfig(config: ConfigFile, text: string, whose: ConfigOwner, parse: ParseToml): ConfigFile {
  const { path, entries, findings, rejected } = config;
  const owner = whose === "ash" ? "user" : whose;
  const read = parse(text);
  if ("problem" in read) {
    findings.push(whose === "ash" ? { ...read.problem, code: "config-ash" } : read.problem);
    return config;
  }
  const leaves = whose === "ash" ? read.leaves.filter(isReadFromAsh) : read.leaves;
  if (whose === "ash") {
    const others = read.leaves.length - leaves.length;
    const note = others === 0 ? "" : `; ${formatCount(others, "other key")} not read`;
    findings.push({ code: "config-ash", message: `is read for skills and capability providers${note}` });
  }
  const lineOf = createLineFinder(parseTomlStatements(text));
  let unsaid = 0;
  for (const [parts, value] of leaves) {
    const line = lineOf(parts);
    if (findings.length >= MAX_FINDINGS && !findKeyRow(parts)) {
      unsaid++;
      continue;
    }
    const judged = validateConfigValue(parts, value, owner);
    if ("code" in judged) {
      const finding = { ...judged, line, column: 1 };
      findings.push(finding);
      if (judged.code !== "config-unknown") rejected.push({ parts, finding });
    } else entries.push({ parts, value, row: judged, owner, file: path, line });
  }
  if (unsaid > 0)
    findings.push({ code: "config-unknown", message: `holds ${formatCount(unsaid, "more key")} that are not known` });
  findings.push(...findSourcesWithoutPath(entries, lineOf));
  if (entries.some(({ row, value }) => row.isSecret && !isValueReference(value)) && isReadableByOthers(path)) {
    findings.push({
      code: "config-readable",
      message: "holds secrets and can be read by other users",
      fix: `chmod 600 ${path}`,
    });
  }
  return config;
}

/** The tables of the file of ash that are read. */
function isReadFromAsh([[table, below]]: TomlLeaf): boolean {
  return table === "skills" || (table === "capabilities" && below === "providers");
}

export type TomlLeaf = readonly [parts: readonly string[], value: unknown];
/** Parses TOML into every value with its path of names, or the problem. */
export type ParseToml = (text: string) => { leaves: TomlLeaf[] } | { problem: Finding };

/** Loads the parser, which most starts do without. */
export async function loadTomlParser(): Promise<ParseToml> {
  const { parse, TomlError } = await import("smol-toml");
  return (text) => {
    try {
      return { leaves: [...walkLeaves(parse(text))] };
    } catch (error) {
      const where = error instanceof TomlError ? { line: error.line, column: error.column } : {};
      const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
      const message = `is not valid TOML: ${why.replace(/^Invalid TOML document: /, "")}`;
      return { problem: { code: "config-syntax", message, ...where } };
    }
  };
}

/** The row of a key, when it may be set to this; else why not. */
export function validateConfigValue(
  parts: readonly string[],
  value: unknown,
  owner: SettingsOwner,
): ConfigKey | Finding {
  const shown = `"${truncateLine(formatKeyPath(parts), 120)}"`;
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
    return { code: "config-type", message: `${shown}: its name must be of up to 64 letters, digits, "-" and "_"` };
  const type = KEY_TYPES[row.type];
  if (!type.is(value)) return { code: "config-type", message: `${shown} must be ${type.say}` };
  const narrow = owner === "workspace" && row.workspaceType ? KEY_TYPES[row.workspaceType] : type;
  if (!narrow.is(value))
    return { code: "config-refused", message: `${shown} must be ${narrow.say} where a workspace sets it` };
  return row;
}

export const PLAIN_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** A key as it is written: a name that is more than letters, digits, `_` and `-` stands in quotes. */
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
  return [...sources].flatMap(([name, said]) => {
    if (said.some(({ parts }) => parts[2] === "path")) return [];
    const line = lineOf(["sources", name]);
    return [{ code: "config-source", message: `[sources.${truncateLine(name, 64)}] has no path`, line }];
  });
}

/** Every value with the names that lead to it. An empty table leads to none. */
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

/** The row that a key belongs to. */
export function findKeyRow(parts: readonly string[]): ConfigKey | undefined {
  return KEY_ROWS.find(({ wanted }) => isKeyMatch(wanted, parts))?.row;
}

/** Whether keys stand below this one. */
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

/** What is written where a name stands, and is none. */
const RESERVED_NAMES = new Set(["skills.defaults"]);

function isPartMatch(wanted: string, part: string): boolean {
  if (wanted === "*") return true;
  return wanted === "UPPER_CASE" ? UPPER_CASE.test(part) : wanted === part;
}

export const UPPER_CASE = /^[A-Z_][A-Z0-9_]*$/;

/** The parts of a key as a person writes it. A name with dots in it needs no quotes where what stands around it is known. */
export function parseKeyPath(written: string): string[] {
  const parts = (written.match(/"(?:[^"\\]|\\.)*"|'[^']*'|[^.]+/g) ?? []).map(unquoteKey);
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

/** The known key that differs from this one in one part only, and there only a little. */
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

/** Whether a value of the configuration only says where another is. */
export function isValueReference(written: unknown): boolean {
  return /^(?:env|file):./s.test(String(written));
}

/** A value of the configuration, or what it refers to: `env:NAME`, `file:PATH`. */
export function resolveReference(
  written: string,
  host: Pick<Host, "home" | "env">,
  refuse: (why: string) => never,
): string {
  const [, kind, where = ""] = /^(env|file):(.+)$/s.exec(written) ?? [];
  const value =
    kind === "env" ? host.env?.[where] : kind === "file" ? readReferencedFile(where, host, refuse) : written;
  if (value === undefined || value === "") return refuse(`its value, ${JSON.stringify(written)}, stands for nothing`);
  if (value.includes("\0")) return refuse("its value holds a NUL character, which no variable can hold");
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
