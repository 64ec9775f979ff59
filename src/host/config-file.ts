import { statSync } from "node:fs";
import { codeOf, reason } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { count, oneLine } from "../shared/text.ts";
import type { Finding } from "../skill/diagnostic.ts";
import { nearestKey, rowOf } from "./find-key.ts";
import { TYPES } from "./key-types.ts";
import type { Key } from "./keys.ts";
import { isReference } from "./reference.ts";
import { lineFinder, statementsOf } from "./toml-lines.ts";

export type Owner = "user" | "workspace";
/** Whose file it is: the user's, the workspace's, or that of ash, of which only the keys for skills are read. */
export type ConfigOwner = Owner | "ash";

/** A configuration file as it was read. */
export interface Config {
  path: string;
  owner: ConfigOwner;
  exists: boolean;
  /** Of its content, where it is followed. */
  fingerprint?: string;
  entries: Entry[];
  findings: Finding[];
  /** The keys whose values are left out, and why: they have the wrong type, or are not for a workspace to set. */
  rejected: { parts: readonly string[]; finding: Finding }[];
}

/** A value that may be set, by whom and where. */
export interface Entry {
  parts: readonly string[];
  value: unknown;
  row: Key;
  owner: Owner;
  file: string;
  line: number;
}

export const LARGEST_CONFIG = 1024 * 1024;
/** Whoever made a workspace can write any number of keys, and each that is meant for another is looked up. */
const MOST_FINDINGS = 100;

/** Reads one file. Never throws: what is wrong is a finding. */
export async function readConfig(path: string, owner: ConfigOwner): Promise<Config> {
  const { config, text } = readText(path, owner);
  return text === undefined ? config : parseConfig(config, text, owner, await openToml());
}

/** Reads one file synchronously, for a caller that has loaded the parser. */
export function readConfigNow(path: string, owner: ConfigOwner, parse: ParseToml): Config {
  const { config, text } = readText(path, owner);
  return text === undefined ? config : parseConfig(config, text, owner, parse);
}

function readText(path: string, owner: ConfigOwner): { config: Config; text?: string } {
  const config: Config = { path, owner, exists: false, entries: [], findings: [], rejected: [] };
  const { findings } = config;
  const code = owner === "ash" ? "config-ash" : "config-syntax"; // The configuration of another program breaks no command of this one.
  try {
    const stats = statSync(path);
    config.exists = true;
    if (!stats.isFile() || stats.size > LARGEST_CONFIG) {
      findings.push({ code, message: "is not a regular file of at most 1 MiB" });
      return { config };
    }
    return { config, text: readRegularText(path, { limit: LARGEST_CONFIG }) };
  } catch (error) {
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") {
      config.exists = true;
      findings.push({ code, message: `cannot be read: ${reason(error)}` });
    }
    return { config };
  }
}

function parseConfig(config: Config, text: string, whose: ConfigOwner, parse: ParseToml): Config {
  const { path, entries, findings, rejected } = config;
  const owner = whose === "ash" ? "user" : whose;
  const read = parse(text);
  if ("problem" in read) {
    findings.push(whose === "ash" ? { ...read.problem, code: "config-ash" } : read.problem);
    return config;
  }
  const leaves = whose === "ash" ? read.leaves.filter(isOfAsh) : read.leaves;
  if (whose === "ash") {
    const others = read.leaves.length - leaves.length;
    const note = others === 0 ? "" : `; ${count(others, "other key")} not read`;
    findings.push({ code: "config-ash", message: `is read for skills and capability providers${note}` });
  }
  const lineOf = lineFinder(statementsOf(text));
  let unsaid = 0;
  for (const [parts, value] of leaves) {
    const line = lineOf(parts);
    if (findings.length >= MOST_FINDINGS && !rowOf(parts)) {
      unsaid++;
      continue;
    }
    const judged = judge(parts, value, owner);
    if ("code" in judged) {
      const finding = { ...judged, line, column: 1 };
      findings.push(finding);
      if (judged.code !== "config-unknown") rejected.push({ parts, finding });
    } else entries.push({ parts, value, row: judged, owner, file: path, line });
  }
  if (unsaid > 0)
    findings.push({ code: "config-unknown", message: `holds ${count(unsaid, "more key")} that are not known` });
  findings.push(...sourcesWithoutPath(entries, lineOf));
  if (entries.some(({ row, value }) => row.isSecret && !isReference(value)) && isReadableByOthers(path)) {
    findings.push({
      code: "config-readable",
      message: "holds secrets and can be read by other users",
      fix: `chmod 600 ${path}`,
    });
  }
  return config;
}

/** The tables of the file of ash that are read. */
function isOfAsh([[table, below]]: Leaf): boolean {
  return table === "skills" || (table === "capabilities" && below === "providers");
}

export type Leaf = readonly [parts: readonly string[], value: unknown];
/** Parses TOML into every value with its path of names, or the problem. */
export type ParseToml = (text: string) => { leaves: Leaf[] } | { problem: Finding };

/** Loads the parser, which most starts do without. */
export async function openToml(): Promise<ParseToml> {
  const { parse, TomlError } = await import("smol-toml");
  return (text) => {
    try {
      return { leaves: [...leaves(parse(text))] };
    } catch (error) {
      const where = error instanceof TomlError ? { line: error.line, column: error.column } : {};
      const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
      const message = `is not valid TOML: ${why.replace(/^Invalid TOML document: /, "")}`;
      return { problem: { code: "config-syntax", message, ...where } };
    }
  };
}

/** The row of a key, when it may be set to this; else why not. */
export function judge(parts: readonly string[], value: unknown, owner: Owner): Key | Finding {
  const shown = `"${oneLine(dotted(parts), 120)}"`;
  const row = rowOf(parts);
  const meant = row ? undefined : nearestKey(parts);
  const isForWorkspace = (row ?? rowOf(meant ?? []))?.workspace !== undefined;
  if (owner === "workspace" && !isForWorkspace)
    return { code: "config-refused", message: `${shown} may not be set by a workspace` };
  if (!row) {
    const message = `${shown} is not a known key`;
    if (!meant) return { code: "config-unknown", message };
    return { code: "config-unknown", message, meant: dotted(meant), fix: `did you mean "${dotted(meant)}"?` };
  }
  const name = parts[row.path.split(".").indexOf("*")];
  if (row.hasPlainName && !PLAIN_NAME.test(name ?? ""))
    return { code: "config-type", message: `${shown}: its name must be of up to 64 letters, digits, "-" and "_"` };
  const type = TYPES[row.type];
  if (!type.is(value)) return { code: "config-type", message: `${shown} must be ${type.say}` };
  const narrow = owner === "workspace" && row.workspaceType ? TYPES[row.workspaceType] : type;
  if (!narrow.is(value))
    return { code: "config-refused", message: `${shown} must be ${narrow.say} where a workspace sets it` };
  return row;
}

export const PLAIN_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** A key as it is written: a name that is more than letters, digits, `_` and `-` stands in quotes. */
export function dotted(parts: readonly string[]): string {
  return parts.map((part) => (/^[\w-]+$/.test(part) ? part : JSON.stringify(part))).join(".");
}

function sourcesWithoutPath(entries: readonly Entry[], lineOf: (parts: readonly string[]) => number): Finding[] {
  const sources = Map.groupBy(
    entries.filter(({ parts }) => parts[0] === "sources"),
    ({ parts }) => parts[1] ?? "",
  );
  return [...sources].flatMap(([name, said]) => {
    if (said.some(({ parts }) => parts[2] === "path")) return [];
    const line = lineOf(["sources", name]);
    return [{ code: "config-source", message: `[sources.${oneLine(name, 64)}] has no path`, line }];
  });
}

/** Every value with the names that lead to it. An empty table leads to none. */
function* leaves(table: object, above: readonly string[] = []): Generator<Leaf> {
  for (const [key, value] of Object.entries(table)) {
    const parts = [...above, key];
    if (isTable(value)) yield* leaves(value, parts);
    else yield [parts, value];
  }
}

function isTable(value: unknown): value is object {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

function isReadableByOthers(path: string): boolean {
  return process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0;
}
