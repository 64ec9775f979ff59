import type { DiscoverResult } from "../config/discover.ts";
import type { Problem } from "../errors/problem.ts";
import type { SignatureState } from "../remote/signature.ts";
import type { Skill } from "../skill/skill.ts";
import { formatDisplayPath } from "../skill/source/locations.ts";
import { formatLockSource } from "../store/lock-diff.ts";
import { LOCAL_SOURCE, type LockedSkill } from "../store/lock-file.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { formatCount, quoteIfNeeded, truncateLine } from "../util/text.ts";
import { escapeForTerminal, escapeLine } from "../util/untrusted-text.ts";

/** Wraps a text and the commands after it to a width. Longer words overflow. A command is never split, so that it can be copied. */
export function wrapText(text: string, width: number, commands: readonly string[] = []): string[] {
  const listed = commands.map((command, index) => (index < commands.length - 1 ? `${command};` : command));
  const whole = [text, ...listed].join(" ");
  if (whole.length <= width) return [whole];
  const prose = text.trimStart();
  const indent = text.slice(0, text.length - prose.length);
  const lines: string[] = [];
  let line = "";
  for (const word of [...(prose.match(WORD_PATTERN) ?? []), ...listed]) {
    if (line !== "" && line.length + 1 + word.length > width - indent.length) {
      lines.push(indent + line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? lines : [...lines, indent + line];
}

/** Text in backticks or quotes is one word. Quoted text is untrusted and must not start a line. */
const WORD_PATTERN = /(?:`[^`]*`|"[^"]*"|[^ ])+/g;

/**
 * Folds a text to a width after escaping it, which may lengthen it. Every character beyond ASCII counts two columns: terminals disagree on
 * characters of ambiguous width, and no line may wrap by itself in any of them.
 */
export function foldColumns(text: string, width: number): string[] {
  return foldLines(text, width).flat();
}

/** Folds a text like `foldColumns`, with the pieces of each line grouped. */
export function foldLines(text: string, width: number): string[][] {
  const room = Number.isFinite(width) ? Math.max(4, width) : Number.POSITIVE_INFINITY;
  return escapeForTerminal(text)
    .replaceAll("\t", "    ")
    .split(/\r?\n/)
    .map((line) => {
      const pieces = [""];
      let columns = 0;
      for (const character of line) {
        const wide = countColumns(character);
        if (columns + wide > room) {
          pieces.push("");
          columns = 0;
        }
        pieces[pieces.length - 1] += character;
        columns += wide;
      }
      return pieces;
    });
}

/** Counts the columns of a character. A joiner at the start of a line joins nothing, and is escaped there. */
export function countColumns(character: string): number {
  return character < "\x80" ? 1 : Math.max(2, escapeLine(character).length);
}

/** Formats `name@source`, or with the file's path if the source has several skills of the name. */
export function formatSkillAddress(skill: Skill, { catalog, around: environment }: DiscoverResult): string {
  const { source, file, remote } = skill.origin;
  const isOnly = catalog.copies(skill.name).filter((copy) => copy.origin.source === source).length === 1;
  const path = file === undefined ? remote?.uri : formatDisplayPath(file, environment);
  return `${skill.name}@${isOnly || path === undefined ? source : path}`;
}

/** Formats the first names and the number of others. */
export function formatSomeNames(names: readonly string[], max = 20): string {
  const more = names.length - max;
  return more > 0 ? `${names.slice(0, max).join(", ")} and ${more} more` : names.join(", ");
}

/** `3 skills`, or their names where they are few. */
export function formatSkillNames(names: readonly string[]): string {
  return names.length > 8 ? formatCount(names.length, "skill") : names.join(", ");
}

/** Formats the source of an added skill in one line, with its ref and commit. */
export function formatOrigin(from: Pick<LockedSkill, "source" | "path" | "ref" | "commit">): string {
  if (from.source === LOCAL_SOURCE) return "no source";
  const { ref = "", commit = "" } = from;
  const at = [...new Set([ref, commit.slice(0, SHORT_COMMIT_LENGTH)])].filter((part) => part !== "");
  return `${formatLockSource(from)}${at.length > 0 ? ` at ${at.join(", ")}` : ""}`;
}

/** The length of a commit id in output. */
export const SHORT_COMMIT_LENGTH = 12;

export function toSignatureJson(signature: SignatureState): object {
  if (!("key" in signature)) return signature;
  const { key: fingerprint, ...state } = signature;
  return { ...state, fingerprint };
}

/** Lists the configured MCP servers by name. */
export function listMcpServers({ settings }: DiscoverResult): { name: string; isEnabled: boolean }[] {
  return [...settings.mcp].map(([name, { enabled }]) => ({ name, isEnabled: enabled !== false }));
}

/** Formats the configured MCP servers in one line. */
export function formatMcpServers(found: DiscoverResult): string {
  const names = listMcpServers(found).map(({ name, isEnabled }) => (isEnabled ? name : `${name} (disabled)`));
  return names.join(", ");
}

/** Formats the parameters of a tool in one line: `input: string, count?: number`. Empty without parameters, or if the schema is unclear. */
export function formatInputSchema(schema: JsonObject): string {
  const properties = isJsonObject(schema["properties"]) ? schema["properties"] : {};
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties)
    .map(([name, shape]) => `${escapeLine(name)}${required.includes(name) ? "" : "?"}: ${formatSchemaType(shape)}`)
    .join(", ");
}

const MAX_CHOICES = 8;

function formatSchemaType(shape: unknown): string {
  if (!isJsonObject(shape)) return "any";
  const { type, enum: choices, const: only, items, anyOf, oneOf } = shape;
  const several = [anyOf, oneOf].find(Array.isArray);
  if (only !== undefined) return formatLiteral(only);
  if (Array.isArray(choices))
    return `${choices.slice(0, MAX_CHOICES).map(formatLiteral).join(" | ")}${choices.length > MAX_CHOICES ? " | …" : ""}`;
  if (several) return [...new Set(several.map(formatSchemaType))].join(" | ");
  if (type === "array") return items === undefined ? "any[]" : formatArrayType(formatSchemaType(items));
  if (Array.isArray(type)) return type.join(" | ");
  return typeof type === "string" ? truncateLine(type, 20) : "any";
}

function formatArrayType(type: string): string {
  return type.includes(" ") ? `(${type})[]` : `${type}[]`;
}

function formatLiteral(value: unknown): string {
  return truncateLine(JSON.stringify(value) ?? "", 40);
}

/** Adds the `-C` option to the commands of a problem if the user named another workspace. */
export function addWorkspaceToFix<T extends Pick<Partial<Problem>, "commands">>(
  problem: T,
  workspace: string | undefined,
): T {
  const { commands } = problem;
  return commands ? { ...problem, commands: commands.map((one) => addWorkspaceOption(one, workspace)) } : problem;
}

/** Adds the `-C` option to a command line if the user named another workspace, and the command discovers skills. */
export function addWorkspaceOption(command: string, workspace: string | undefined): string {
  if (workspace === undefined) return command;
  const [program = "", name = "", sub = "", ...rest] = command.split(" ");
  const head = [`${name} ${sub}`, `${name} *`, name].find((known) => DISCOVERING_COMMANDS.has(known));
  if (program !== "skillet" || head === undefined) return command;
  const option = `-C ${quoteIfNeeded(workspace)}`;
  const after = head === name ? [name, option, sub] : [name, sub, option];
  return [program, ...after, ...rest].filter((word) => word !== "").join(" ");
}

/** The commands that discover skills. */
const DISCOVERING_COMMANDS: ReadonlySet<string> = new Set([
  ...["capability grant", "capability ungrant", "capability list", "packages *"],
  ...["trust", "show", "list", "tools", "add", "update", "remove", "verify", "outdated"],
]);
