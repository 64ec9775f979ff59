import { statSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../errors/problem.ts";
import { replaceFile, withFileLock } from "../store/locked-file.ts";
import { readRegularText } from "../util/file-access.ts";
import { compareText } from "../util/text.ts";
import {
  createLineFinder,
  findLineEnd,
  findRenamedKey,
  formatKeyPath,
  loadTomlParser,
  MAX_CONFIG_BYTES,
  parseTomlStatements,
  type TomlLeaf,
  type TomlStatement,
} from "./config-file.ts";

export interface ConfigEdit {
  parts: readonly string[];
  /** The new value. Undefined removes the key. */
  value?: unknown;
  isSecret?: boolean;
}

/**
 * Edits keys of a configuration file, all or none, and changes nothing else. Returns false if there was nothing to change. Throws a
 * SkillError if the file does not parse, if a key uses syntax that cannot be edited line by line, or if the file cannot be written.
 */
export async function editConfig(file: string, ...edits: readonly ConfigEdit[]): Promise<boolean> {
  const parse = await loadTomlParser();
  const leavesOf = (text: string) => {
    const read = parse(text);
    return "problem" in read ? undefined : read.leaves;
  };
  return withFileLock(file, () => {
    const { text, mode } = readConfigText(file);
    const read = parse(text);
    if ("problem" in read) {
      const { line = 1, message } = read.problem;
      throw new SkillError("config-syntax", {
        message: `${file}:${line} ${message}`,
        fix: "fix the line first: nothing was written",
      });
    }
    const next = edits.reduce((before, edit) => {
      const after = editToml(before, edit, leavesOf);
      if (after !== undefined) return after;
      const line = createLineFinder(parseTomlStatements(text))(edit.parts);
      throw new SkillError("config-edit", {
        message: `${file}:${line} writes ${formatKeyPath(edit.parts)} with syntax that skillet cannot edit`,
        fix: "edit that line manually: nothing was written",
      });
    }, text);
    if (next === text) return false;
    replaceFile(file, next, edits.some(({ isSecret }) => isSecret) ? 0o600 : mode);
    return true;
  });
}

/** Returns the TOML text with one key changed, or undefined if it cannot be edited line by line. Contract: the result parses. */
export function editToml(
  text: string,
  edit: ConfigEdit,
  leavesOf: (text: string) => readonly TomlLeaf[] | undefined,
): string | undefined {
  const leaves = leavesOf(text) ?? [];
  const wanted = sortLeaves(applyEdit(leaves, edit));
  if (isDeepStrictEqual(sortLeaves(leaves), wanted)) return text;
  return proposeTexts(text, edit).find((proposal) => isDeepStrictEqual(sortLeaves(leavesOf(proposal) ?? []), wanted));
}

/**
 * Returns the TOML text with the last part of a key renamed, or undefined if the text cannot be edited in place. Contract: that part has
 * only letters and `_`, and the result differs in it alone.
 */
function renameTomlKey(
  text: string,
  { parts, name }: { parts: readonly string[]; name: string },
  leavesOf: (text: string) => readonly TomlLeaf[] | undefined,
): string | undefined {
  const renamed = [...parts.slice(0, -1), name];
  const leaves = leavesOf(text) ?? [];
  const wanted = sortLeaves(leaves.map(([other, value]) => [isDeepStrictEqual(other, parts) ? renamed : other, value]));
  const token = new RegExp(`(?<![\\w-])${parts.at(-1)}(?![\\w-])`, "g");
  for (const { parts: own, isTable, start, end } of parseTomlStatements(text)) {
    if (isTable || !isBelowTable(parts, own)) continue;
    for (const { index, 0: old } of text.slice(start, end).matchAll(token)) {
      const proposal = text.slice(0, start + index) + name + text.slice(start + index + old.length);
      if (isDeepStrictEqual(sortLeaves(leavesOf(proposal) ?? []), wanted)) return proposal;
    }
  }
  return undefined;
}

function readConfigText(file: string): { text: string; mode?: number } {
  try {
    return { text: readRegularText(file, { limit: MAX_CONFIG_BYTES }), mode: statSync(file).mode & 0o777 };
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return { text: "" };
    const message = `${file} cannot be read: ${getErrorMessage(error)}`;
    throw new SkillError("unreadable", { message, fix: "give yourself read permission" });
  }
}

function applyEdit(leaves: readonly TomlLeaf[], { parts, value }: ConfigEdit): TomlLeaf[] {
  const others = leaves.filter(([other]) => !isDeepStrictEqual(other, parts));
  return value === undefined ? others : [...others, [parts, value]];
}

function sortLeaves(leaves: readonly TomlLeaf[]): TomlLeaf[] {
  return [...leaves].sort(([a], [b]) => compareText(JSON.stringify(a), JSON.stringify(b)));
}

/** Returns candidate texts, the simplest first. The caller parses each one to check it. */
function proposeTexts(text: string, { parts, value }: ConfigEdit): string[] {
  const statements = parseTomlStatements(text);
  const known = statements.find((one) => !one.isTable && isDeepStrictEqual(one.parts, parts));
  if (known && value === undefined) return removeStatement(text, known, statements);
  if (known) return [text.slice(0, known.value) + formatTomlValue(value) + text.slice(known.end)];
  if (value === undefined) return [];
  const newLine = text.includes("\r\n") ? "\r\n" : "\n";
  const table = parts.slice(0, -1);
  const formatLine = (from: number) => `${formatKeyPath(parts.slice(from))} = ${formatTomlValue(value)}${newLine}`;
  const inTable = statements.filter((one) => one.table === table.length && isBelowTable(one.parts, table)).at(-1);
  const sibling = statements.filter((one) => !one.isTable && isBelowTable(one.parts, table)).at(-1);
  const end = text === "" ? "" : text.replace(/\s*$/, newLine + newLine);
  return [
    ...(inTable ? [insertLine(text, inTable, formatLine(table.length), newLine)] : []),
    `${end}[${formatKeyPath(table)}]${newLine}${formatLine(table.length)}`,
    ...(sibling ? [insertLine(text, sibling, formatLine(sibling.table), newLine)] : []),
  ];
}

/** Returns the text without the line, and a variant without its table if that has no other keys and no comments. */
function removeStatement(text: string, known: TomlStatement, statements: readonly TomlStatement[]): string[] {
  const after = text.slice(findLineEnd(text, known.end) + 1);
  const line = text.slice(0, known.start) + after;
  const before = statements[statements.indexOf(known) - 1];
  const next = statements[statements.indexOf(known) + 1];
  if (!before?.isTable || (next && !next.isTable)) return [line];
  const isEmpty = text.slice(before.end, known.start).trim() === "" && /^(?:[ \t]*(?:\r?\n|$)|[ \t]*\[)/.test(after);
  if (!isEmpty) return [line];
  const kept = text.slice(0, before.start).replace(/\n\s*$/, "\n");
  return [kept + (kept === "" ? after.replace(/^\s+/, "") : after), line];
}

function isBelowTable(parts: readonly string[], start: readonly string[]): boolean {
  return start.every((part, index) => parts[index] === part);
}

/** Inserts a line after the line on which a statement ends. */
function insertLine(text: string, { end }: TomlStatement, line: string, newLine: string): string {
  const position = findLineEnd(text, end);
  return position === text.length
    ? `${text.replace(/\r$/, "")}${newLine}${line}`
    : text.slice(0, position + 1) + line + text.slice(position + 1);
}

/** Formats a string, number, boolean or list of strings as TOML: JSON, except for one character that TOML requires to be escaped. */
export function formatTomlValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatTomlValue).join(", ")}]`;
  return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
}

/** The keys of earlier versions in a configuration file, and the text with the keys of today. */
export interface ConfigMigration {
  file: string;
  before: string;
  after: string;
  renames: readonly { old: string; name: string; line: number }[];
  /** Keys that have to be edited manually. */
  problems: readonly Problem[];
  /** The changed lines: `@@`, `-` and `+`. They contain no secret. */
  diff: readonly string[];
}

/**
 * Plans the renaming of old keys in a configuration file. Values, comments and all other bytes stay. Throws a SkillError if the file
 * cannot be read or parsed.
 */
export async function planConfigMigration(file: string): Promise<ConfigMigration> {
  const parse = await loadTomlParser();
  const { text: before } = readConfigText(file);
  const leavesOf = (text: string): TomlLeaf[] => {
    const read = parse(text);
    return "problem" in read ? [] : read.leaves;
  };
  const read = parse(before);
  if ("problem" in read) {
    const { line = 1, message } = read.problem;
    const fix = "fix the line first: nothing was written";
    throw new SkillError("config-syntax", { message: `${file}:${line} ${message}`, fix });
  }
  const lineOf = createLineFinder(parseTomlStatements(before));
  const renames: ConfigMigration["renames"][number][] = [];
  const problems: Problem[] = [];
  const diff: string[] = [];
  let after = before;
  for (const [parts] of read.leaves) {
    const renamed = findRenamedKey(parts);
    if (renamed === undefined) continue;
    const [old, name, line] = [formatKeyPath(parts), formatKeyPath(renamed), lineOf(parts)];
    const next = read.leaves.some(([other]) => isDeepStrictEqual(other, renamed))
      ? undefined
      : renameTomlKey(after, { parts, name: renamed.at(-1) ?? "" }, leavesOf);
    if (next === undefined) {
      problems.push({
        code: "config-renamed",
        message: `${file}:${line} has ${old}, which is now ${name}`,
        fix: `remove ${old}, or rename it in an editor`,
      });
      continue;
    }
    renames.push({ old, name, line });
    diff.push(`@@ line ${line} @@`, `-${readKeyLine(after, parts) ?? old}`, `+${readKeyLine(next, renamed) ?? name}`);
    after = next;
  }
  return { file, before, after, renames, problems, diff };
}

/** Writes a planned migration. Throws a SkillError if the file was edited since it was planned; then nothing is written. */
export function applyConfigMigration({ file, before, after }: ConfigMigration): void {
  if (after === before) return;
  withFileLock(file, () => {
    const { text, mode } = readConfigText(file);
    if (text !== before) {
      throw new SkillError("concurrent-change", {
        message: `${file} changed while its keys were renamed; nothing was written`,
        fix: "run the command again",
      });
    }
    replaceFile(file, after, mode);
  });
}

/** Returns the line of a key, or undefined for a key in an inline table, whose line may contain secrets of other keys. */
function readKeyLine(text: string, parts: readonly string[]): string | undefined {
  const found = parseTomlStatements(text).find((one) => !one.isTable && isDeepStrictEqual(one.parts, parts));
  return found && text.slice(found.start, findLineEnd(text, found.start)).trimEnd();
}
