import type { Skill } from "../skill/skill.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import type { DiscloseOptions } from "./disclose.ts";
import type { Match } from "./search/matcher.ts";
import { formatSkillContent } from "./skill-content.ts";

interface FullTextContext {
  query: string;
  /** In characters. */
  room: number;
  hasMore: boolean;
  options: DiscloseOptions;
}

export interface FullText {
  text: string;
  shown: readonly Skill[];
  noted: readonly Skill[];
  /** Names of the skills whose instructions did not fit or could not be read. */
  left: readonly string[];
}
export const NO_TEXT: FullText = { text: "", shown: [], noted: [], left: [] };

export function formatFullText(
  matches: readonly Match[],
  max: number,
  { query, room, hasMore, options }: FullTextContext,
): FullText {
  const parts: string[] = [];
  const [shown, noted]: [Skill[], Skill[]] = [[], []];
  const [left, rest]: [string[], string[]] = [[], []];
  let used = 0;
  const add = (text: string) => {
    if (used + text.length + 2 > room) return false;
    used += text.length + 2;
    parts.push(text);
    return true;
  };
  for (const { skill, reasons } of matches) {
    const args = parseInvocationArguments(query, skill, reasons);
    const note = formatSkillNote(skill, args, options);
    if (note !== undefined) {
      if (add(note)) noted.push(skill);
    } else if (shown.length + left.length >= max) rest.push(skill.name);
    else {
      const text = readSkillContent(skill, args, options);
      if (text !== undefined && add(text)) shown.push(skill);
      else left.push(skill.name);
    }
  }
  const named = [...left, ...rest].map((name) => sanitizeLine(name, 64));
  const more =
    named.length > MAX_ALSO_MATCHED ? `, and ${hasMore ? "at least " : ""}${named.length - MAX_ALSO_MATCHED} more` : "";
  if (named.length > 0) add(`[Also matching, not shown: ${named.slice(0, MAX_ALSO_MATCHED).join(", ")}${more}]`);
  return { text: parts.join("\n\n"), shown, noted, left };
}

/** Returns the line for a skill that is already loaded, runs on its own, or must be fetched; undefined for others. */
function formatSkillNote(skill: Skill, args: string | undefined, options: DiscloseOptions): string | undefined {
  const name = sanitizeLine(skill.name, 64);
  if (options.canFork && skill.manifest.context === "fork")
    return `[Skill ${name} runs on its own: load_skill runs it]`;
  const { remote } = skill.origin;
  if (remote && !evaluateSafely(() => options.isLoaded?.(skill) ?? false))
    return `[Skill ${name} of MCP server ${sanitizeLine(remote.server, 64)} matches: load_skill fetches it]`;
  try {
    return !args && options.isLoaded?.(skill) ? `[Skill ${name} is already loaded in this conversation]` : undefined;
  } catch {
    return undefined;
  }
}

function evaluateSafely(check: () => boolean): boolean {
  try {
    return check();
  } catch {
    return false; // Treated as not loaded.
  }
}

function readSkillContent(skill: Skill, args: string | undefined, options: DiscloseOptions): string | undefined {
  try {
    return formatSkillContent(skill, {
      arguments: args,
      folder: options.folderOf?.(skill),
      toolsets: options.toolsets,
    });
  } catch {
    return undefined;
  }
}

const MAX_ALSO_MATCHED = 10;

/** Returns what the user wrote after `/name` or `$name` at the start of the query. */
export function parseInvocationArguments(query: string, skill: Skill, reasons: Match["reasons"]): string | undefined {
  if (!reasons.some(({ kind, text }) => kind === "mention" && /^[$/]/.test(text))) return undefined;
  const start = query.trimStart();
  const plain = (text: string) => text.toLowerCase().replaceAll("_", "-");
  const name = start.slice(1, 1 + skill.name.length);
  if (!/^[$/]/.test(start) || plain(name) !== plain(skill.name)) return undefined;
  return start
    .slice(1 + skill.name.length)
    .replace(/^\s*:/, "")
    .trim();
}
