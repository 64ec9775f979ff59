import type { DiscoverResult } from "../config/discover.ts";
import type { StopReason } from "../host/events.ts";
import type { SignatureState } from "../remote/signature.ts";
import type { Skill } from "../skill/skill.ts";
import { formatDisplayPath } from "../skill/source/locations.ts";
import type { Usage } from "../skill/tool.ts";
import { formatLockSource } from "../store/lock-diff.ts";
import { LOCAL_SOURCE, type LockedSkill } from "../store/lock-file.ts";
import type { RunState, RunSummary } from "../store/run-summary.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { quoteIfNeeded } from "../util/shell-quote.ts";
import { formatCount, formatNumber, truncateLine } from "../util/text.ts";
import { escapeInvisible, escapeLine } from "../util/untrusted-text.ts";

/** Lines that are no longer than this, but for words that are; and a command stays in one piece, to be copied. */
export function wrapText(text: string, width: number): string[] {
  const [, indent = "", prose = "", command] = COMMAND_PATTERN.exec(text) ?? [];
  if (text.length <= width) return [text];
  const lines: string[] = [];
  let line = "";
  for (const word of [...(prose.match(WORD_PATTERN) ?? []), ...(command === undefined ? [] : [command])]) {
    if (line !== "" && line.length + 1 + word.length > width - indent.length) {
      lines.push(indent + line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? lines : [...lines, indent + line];
}

/** What follows a colon is one to the end of its line. */
const COMMAND_PATTERN = /^(\s*)(.*?)((?:run: |(?<=: ))skillet .*)?$/s;

/** What stands between backticks or in parentheses is one too; and so is what is quoted: others wrote it, and it begins no line. */
const WORD_PATTERN = /(?:`[^`]*`|"[^"]*"|\(skillet [^)]*\)|[^ ])+/g;

/** Text of others, without what acts on a terminal: it is written out, and nothing is printed over. */
export function escapeForTerminal(text: string): string {
  return escapeInvisible(text.replace(/\r(?!\n)/g, "\n")).text;
}

/**
 * Folds a text into lines that are at most this wide, after it was made safe: what is written out is longer. Every character beyond ASCII counts
 * two columns. Terminals differ in those of ambiguous width, and no line may reach the edge and continue at the next one in any of them.
 */
export function foldColumns(text: string, width: number): string[] {
  return foldLines(text, width).flat();
}

/** The same, the pieces of each line together. */
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

/** A joiner that begins a line joins nothing, and is written out there. */
function countColumns(character: string): number {
  return character < "\x80" ? 1 : Math.max(2, escapeLine(character).length);
}

/** `name@source`, or with the file's path where one source has several of the name. */
export function formatSkillAddress(skill: Skill, { catalog, around }: DiscoverResult): string {
  const { source, file, remote } = skill.origin;
  const isOnly = catalog.copies(skill.name).filter((copy) => copy.origin.source === source).length === 1;
  const place = file === undefined ? remote?.uri : formatDisplayPath(file, around);
  return `${skill.name}@${isOnly || place === undefined ? source : place}`;
}

/** The end of an id, which is a name for it too. */
export function formatRunId(id: string): string {
  return /^\d{8}-\d{6}-([0-9a-f]{8})$/.exec(id)?.[1] ?? id;
}

/** What is followed. */
export function formatRunSubject({ kind, skill }: Pick<RunSummary, "kind" | "skill">): string {
  return kind === "chat" ? "chat" : skill || "?";
}

/** What became of it, in a word or two. */
export function formatRunState({ state, end }: Pick<RunSummary, "state" | "end">): string {
  return state === "ended" && end ? STOP_LABELS[end.stop] : state;
}

const STOP_LABELS: Record<StopReason, string> = {
  answer: "done",
  complete: "done",
  failed: "not done",
  refused: "refused",
  "max-steps": "step limit",
  timeout: "time limit",
  budget: "token limit",
  aborted: "interrupted",
  waiting: "waiting",
  error: "failed",
};

const AGE_UNITS: readonly [seconds: number, noun: string][] = [
  [7 * 86_400, "week"],
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
];

/** `2 hours ago`. What is long past has its date. */
export function formatAge(at: string, now = Date.now()): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (!Number.isFinite(seconds)) return "at no time";
  if (seconds < 60) return "just now";
  if (seconds > 60 * 86_400) return at.slice(0, 10);
  const [size, noun] = AGE_UNITS.find(([unit]) => seconds >= unit) ?? [60, "minute"];
  return `${formatCount(Math.floor(seconds / size), noun)} ago`;
}

export function formatDuration(ms: number): string {
  if (ms < 100_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 100 * 60_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

/** What goes on with it, where something does. */
export function formatNextCommand({ id, state }: Pick<RunSummary, "id" | "state">): string | undefined {
  const command = NEXT_COMMANDS[state];
  return command?.replace("ID", formatRunId(id));
}

const NEXT_COMMANDS: Partial<Record<RunState, string>> = {
  waiting: "skillet approve ID --resume",
  answered: "skillet resume ID",
  interrupted: "skillet resume ID",
};

export function formatUsage(usage: Usage, cost: number | undefined): string[] {
  const tokens = usage.inputTokens + usage.outputTokens;
  return [...(tokens > 0 ? [`${formatNumber(tokens)} tokens`] : []), ...(cost === undefined ? [] : [formatCost(cost)])];
}

export function formatCost(dollars: number): string {
  return dollars > 0 && dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

/** The one thing that says most of a call. */
export function summarizeCallInput(input: unknown, width: number): string {
  if (input === null || typeof input !== "object") return "";
  const parts = Object.entries(input).flatMap(([name, value]) => {
    if (typeof value === "string") return [value];
    return typeof value === "number" || typeof value === "boolean" ? [`(${name}: ${value})`] : [];
  });
  return truncateLine(parts.join(" "), Math.max(20, Math.min(width, 100) - 30));
}

/** Some names, and how many more there are. */
export function formatSomeNames(names: readonly string[], most = 20): string {
  const more = names.length - most;
  return more > 0 ? `${names.slice(0, most).join(", ")} and ${more} more` : names.join(", ");
}

/** `3 skills`, or their names where they are few. */
export function formatSkillNames(names: readonly string[]): string {
  return names.length > 8 ? formatCount(names.length, "skill") : names.join(", ");
}

/** Where an added skill is from, in a line: as it can be added again, and what that was then. */
export function formatOrigin(from: Pick<LockedSkill, "source" | "path" | "ref" | "commit">): string {
  if (from.source === LOCAL_SOURCE) return "no source";
  const { ref = "", commit = "" } = from;
  const at = [...new Set([ref, commit.slice(0, SHORT_COMMIT_LENGTH)])].filter((part) => part !== "");
  return `${formatLockSource(from)}${at.length > 0 ? ` at ${at.join(", ")}` : ""}`;
}

/** How much of a commit people are told. */
export const SHORT_COMMIT_LENGTH = 12;

export function toSignatureJson(signature: SignatureState): object {
  if (!("key" in signature)) return signature;
  const { key: fingerprint, ...state } = signature;
  return { ...state, fingerprint };
}

/** The servers that are configured, by name. */
export function listMcpServers({ settings }: DiscoverResult): { name: string; isEnabled: boolean }[] {
  return [...settings.mcp].map(([name, { enabled }]) => ({ name, isEnabled: enabled !== false }));
}

/** The same in a line. */
export function formatMcpServers(found: DiscoverResult): string {
  const names = listMcpServers(found).map(({ name, isEnabled }) => (isEnabled ? name : `${name} (switched off)`));
  return names.join(", ");
}

/** What a tool takes, in a line: `input: string, count?: number`. Empty when it takes nothing, or its schema does not say. */
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

/** What to do next, as it is done from where somebody stands who named another workspace: its commands name it too. */
export function addWorkspaceOption(text: string, workspace: string | undefined): string {
  return workspace === undefined
    ? text
    : text.replace(WORKSPACE_COMMANDS, (command) => `${command} -C ${quoteIfNeeded(workspace)}`);
}

/** Those that look for skills. */
const WORKSPACE_COMMANDS =
  /(?<![\w/.-])skillet (?:capability (?:grant|ungrant|list)|trust|show|list|packages \w+|tools|add|update|remove|verify|outdated)(?![\w-])/g;
