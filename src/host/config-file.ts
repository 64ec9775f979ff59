import { readFileSync, statSync } from "node:fs";
import { codeOf, reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import type { Finding } from "../skill/diagnostic.ts";
import { fits, KEYS, nearestKey, type Owner, TYPES, type Values } from "./keys.ts";
import { lineOfKey } from "./toml-lines.ts";

/** A configuration file as it was read. */
export interface Config {
  path: string;
  exists: boolean;
  values: Values;
  findings: Finding[];
}

const LARGEST_CONFIG = 1024 * 1024;

/** Reads one file. Never throws: what is wrong is a finding. */
export async function readConfig(path: string, owner: Owner): Promise<Config> {
  const config: Config = {
    path,
    exists: false,
    values: { skills: new Map(), sources: new Map(), disclosure: {}, sandbox: {}, scripts: {} },
    findings: [],
  };
  const { findings, values } = config;
  let text: string;
  try {
    const stats = statSync(path);
    config.exists = true;
    if (!stats.isFile() || stats.size > LARGEST_CONFIG) {
      findings.push({ code: "config-syntax", message: "is not a regular file of at most 1 MiB" });
      return config;
    }
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") {
      config.exists = true;
      findings.push({ code: "config-syntax", message: `cannot be read: ${reason(error)}` });
    }
    return config;
  }
  const { parse, TomlError } = await import("smol-toml");
  try {
    const say = (parts: readonly string[], finding: Finding) =>
      findings.push({ ...finding, line: lineOfKey(text, parts), column: 1 });
    for (const [parts, value] of leaves(parse(text))) readKey(parts, value, { owner, values, say });
  } catch (error) {
    const where = error instanceof TomlError ? { line: error.line, column: error.column } : {};
    const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    findings.push({
      code: "config-syntax",
      message: `is not valid TOML: ${why.replace(/^Invalid TOML document: /, "")}`,
      ...where,
    });
  }
  for (const [name, { path: folder }] of values.sources) {
    if (folder !== undefined) continue;
    findings.push({
      code: "config-source",
      message: `[sources.${oneLine(name, 64)}] has no path`,
      line: lineOfKey(text, ["sources", name]),
    });
  }
  if ([...values.skills.values()].some((skill) => skill.variables.size > 0) && isReadableByOthers(path)) {
    findings.push({
      code: "config-readable",
      message: "holds values of skills and can be read by other users",
      fix: `chmod 600 ${path}`,
    });
  }
  return config;
}

interface Reading {
  owner: Owner;
  values: Values;
  say(parts: readonly string[], finding: Finding): void;
}

function readKey(parts: readonly string[], value: unknown, { owner, values, say }: Reading): void {
  const shown = `"${oneLine(parts.join("."), 120)}"`;
  const row = KEYS.findLast(({ path }) => fits(path, parts));
  const meant = row ? undefined : nearestKey(parts);
  const isMeantForWorkspace =
    meant !== undefined && KEYS.some(({ path, isForWorkspace }) => isForWorkspace && fits(path, meant.split(".")));
  if (owner === "workspace" && !row?.isForWorkspace && !isMeantForWorkspace) {
    say(parts, { code: "config-refused", message: `${shown} may not be set by a workspace` });
    return;
  }
  if (!row) {
    say(parts, {
      code: "config-unknown",
      message: `${shown} is not a known key`,
      ...(meant ? { meant, fix: `did you mean "${meant}"?` } : {}),
    });
    return;
  }
  const type = TYPES[row.type];
  if (!type.is(value)) say(parts, { code: "config-type", message: `${shown} must be ${type.say}` });
  else row.set(values, parts[1] ?? "", value, parts.at(-1) ?? "");
}

/** Every value with the names that lead to it. An empty table leads to none. */
function* leaves(table: object, above: readonly string[] = []): Generator<[string[], unknown]> {
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
