import { statSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { replaceFile, withFileLock } from "../store/locked-file.ts";
import { readRegularText } from "../util/file-access.ts";
import { compareText } from "../util/text.ts";
import { formatKeyPath, loadTomlParser, MAX_CONFIG_BYTES, type TomlLeaf } from "./config-file.ts";
import { createLineFinder, findLineEnd, parseTomlStatements, type TomlStatement } from "./toml-statements.ts";

export interface ConfigEdit {
  parts: readonly string[];
  /** Takes the key out when left out. */
  value?: unknown;
  isSecret?: boolean;
}

/**
 * Changes keys of a configuration file, all or none, and nothing else in it. Contract: false when there was nothing to change. Throws a
 * SkillError when the file does not parse, when a key is written in a way that cannot be changed line by line, or when it cannot be written.
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
        fix: "mend the line first: nothing was written",
      });
    }
    const next = edits.reduce((before, edit) => {
      const after = editToml(before, edit, leavesOf);
      if (after !== undefined) return after;
      const line = createLineFinder(parseTomlStatements(text))(edit.parts);
      throw new SkillError("config-edit", {
        message: `${file}:${line} writes ${formatKeyPath(edit.parts)} in a way that only a person can change`,
        fix: "change that line by hand: nothing was written",
      });
    }, text);
    if (next === text) return false;
    replaceFile(file, next, edits.some(({ isSecret }) => isSecret) ? 0o600 : mode);
    return true;
  });
}

/** A TOML text with one key changed, and nothing else in it; nothing when that cannot be done line by line. Contract: it parses. */
export function editToml(
  text: string,
  edit: ConfigEdit,
  leavesOf: (text: string) => readonly TomlLeaf[] | undefined,
): string | undefined {
  const leaves = leavesOf(text) ?? [];
  const wanted = sortLeaves(applyEdit(leaves, edit));
  if (isDeepStrictEqual(sortLeaves(leaves), wanted)) return text;
  return proposeTexts(text, edit).find((one) => isDeepStrictEqual(sortLeaves(leavesOf(one) ?? []), wanted));
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

/** Texts that may be what is meant, the plainest first. Whether one is, parsing it says. */
function proposeTexts(text: string, { parts, value }: ConfigEdit): string[] {
  const statements = parseTomlStatements(text);
  const known = statements.find((one) => !one.isTable && isDeepStrictEqual(one.parts, parts));
  if (known && value === undefined) return removeStatement(text, known, statements);
  if (known) return [text.slice(0, known.value) + formatTomlValue(value) + text.slice(known.end)];
  if (value === undefined) return [];
  const newLine = text.includes("\r\n") ? "\r\n" : "\n";
  const table = parts.slice(0, -1);
  const written = (from: number) => `${formatKeyPath(parts.slice(from))} = ${formatTomlValue(value)}${newLine}`;
  const inTable = statements.filter((one) => one.table === table.length && isBelowTable(one.parts, table)).at(-1);
  const beside = statements.filter((one) => !one.isTable && isBelowTable(one.parts, table)).at(-1);
  const end = text === "" ? "" : text.replace(/\s*$/, newLine + newLine);
  return [
    ...(inTable ? [insertLine(text, inTable, written(table.length), newLine)] : []),
    `${end}[${formatKeyPath(table)}]${newLine}${written(table.length)}`,
    ...(beside ? [insertLine(text, beside, written(beside.table), newLine)] : []),
  ];
}

/** Without the line; and without its table, when nothing else stands in it, nor a word about what did. */
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

/** A line after the one on which this statement ends. */
function insertLine(text: string, { end }: TomlStatement, line: string, newLine: string): string {
  const place = findLineEnd(text, end);
  return place === text.length
    ? `${text.replace(/\r$/, "")}${newLine}${line}`
    : text.slice(0, place + 1) + line + text.slice(place + 1);
}

/** A text, number, flag or list of texts as TOML. JSON is, but for one character that TOML wants escaped. */
export function formatTomlValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatTomlValue).join(", ")}]`;
  return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
}
