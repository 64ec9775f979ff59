import {
  type ClientWith,
  getProgramTitle,
  type ListingRules,
  listClientFacts,
  type McpTextLimits,
} from "../skill/clients.ts";
import { compareText } from "../util/text.ts";
import { hasUseWhenCue } from "./describe-skill.ts";

/** A skill as a client reads it from its file. */
export interface ClientSkillText {
  name: string;
  description: string;
  whenToUse?: string | undefined;
  /** True for a skill that only users can invoke (`disable-model-invocation`). */
  isForPeople?: boolean;
}

/** A skill as a client's own list shows it. */
export interface ClientListedSkill {
  name: string;
  /** The displayed description; empty if only the name is listed or the client drops the skill. */
  description: string;
  shown: "whole" | "cut" | "name" | "dropped";
  /** True if the displayed text says when to use the skill. */
  hasUseWhen: boolean;
}

interface ClientListingRow extends ClientSkillText {
  /** The part of it that the client reads. */
  text: string;
}

export type ListingClient = ClientWith<"listing">;

/**
 * Clients' own lists of skills and their limits for MCP servers, from THE table of clients. Paths, tags and built-in skills are counted
 * where the client counts them.
 */
export const CLIENT_LISTINGS = Object.fromEntries(
  listClientFacts("listing").map(([name, rules]) => [name, { title: getProgramTitle(name), ...rules }]),
) as Readonly<Record<ListingClient, ListingRules & { title: string }>>;

export const LISTING_CLIENTS = Object.keys(CLIENT_LISTINGS) as ListingClient[];

export type { McpTextLimits };

/** The limits for an unknown client: some truncate a server's instructions at 2,000 characters, and APIs a tool's description at 1,024. */
export const UNKNOWN_CLIENT_LIMITS: McpTextLimits = {
  instructions: 2000,
  toolDescription: 1024,
  toolResult: 8000,
  refreshesTools: false,
  offersNewTools: false,
};

/** Returns the client with this MCP client name. */
export function findClientByMcpName(name: string): ListingClient | undefined {
  return LISTING_CLIENTS.find((id) => CLIENT_LISTINGS[id].announces.test(name));
}

/** Returns a client's own list of these skills, in the client's order; dropped skills come last. */
export function simulateClientListing(
  id: ListingClient,
  skills: readonly ClientSkillText[],
): readonly ClientListedSkill[] {
  const rules = CLIENT_LISTINGS[id];
  const { dropsOver = Number.POSITIVE_INFINITY, readsWhenToUse } = rules;
  const sorted = skills
    .filter(({ isForPeople }) => !(isForPeople && rules.heedsInvocation))
    .sort((a, b) => compareText(a.name, b.name));
  const rows = sorted
    .filter(({ description }) => description.length <= dropsOver)
    .map(
      (skill): ClientListingRow => ({ ...skill, text: truncateText(formatWholeText(skill, readsWhenToUse), rules) }),
    );
  const fitted = rules.fit ? FITS[rules.fit.by](rows, rules.fit.room) : rows.map(({ text }) => text);
  const listed = rows.map(({ name, text, ...skill }, index): ClientListedSkill => {
    const description = fitted[index];
    if (description === undefined) return { name, description: "", shown: "name", hasUseWhen: false };
    const isWhole = description === formatWholeText({ name, ...skill }, readsWhenToUse);
    const isCued = hasUseWhenCue(description) || (isWhole && readsWhenToUse && Boolean(skill.whenToUse));
    return { name, description, shown: isWhole ? "whole" : "cut", hasUseWhen: isCued };
  });
  const dropped = sorted
    .filter(({ description }) => description.length > dropsOver)
    .map(({ name }): ClientListedSkill => ({ name, description: "", shown: "dropped", hasUseWhen: false }));
  return [...(rules.isDescending ? listed.reverse() : listed), ...dropped];
}

function formatWholeText({ description, whenToUse }: ClientSkillText, readsWhenToUse: boolean): string {
  return readsWhenToUse && whenToUse ? `${description} - ${whenToUse}` : description;
}

function truncateText(
  text: string,
  { longest = Number.POSITIVE_INFINITY, cutMark = "" }: Pick<ListingRules, "longest" | "cutMark">,
): string {
  return text.length <= longest ? text : text.slice(0, longest - cutMark.length) + cutMark;
}

/** Returns the description that each row has room for, in the order of names; undefined for a name alone. */
type FitDescriptions = (rows: readonly ClientListingRow[], room: number) => readonly (string | undefined)[];

const FITS: Readonly<Record<NonNullable<ListingRules["fit"]>["by"], FitDescriptions>> = {
  each: fitEach,
  evenly: fitEvenly,
  first: fitFirst,
};

/** All names first, then each description in turn that fits into the remaining room. */
function fitEach(rows: readonly ClientListingRow[], room: number): readonly (string | undefined)[] {
  let remaining = room - rows.reduce((sum, { name }) => sum + countColumns(`- ${name}\n`), 0);
  return rows.map(({ text }) => {
    const cost = countColumns(`: ${text}`);
    if (cost > remaining) return undefined;
    remaining -= cost;
    return text;
  });
}

/** Whole entries until one does not fit; then only names. */
function fitFirst(rows: readonly ClientListingRow[], room: number): readonly (string | undefined)[] {
  let remaining = room;
  return rows.map(({ name, text }) => {
    const entry = `<skill>\n  <name>${name}</name>\n  <description>${escapeXml(text)}</description>\n  <location>user</location>\n</skill>\n`;
    remaining -= entry.length;
    return remaining >= 0 ? text : undefined;
  });
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };

/** If not all fit, truncates each description to about the same length. */
function fitEvenly(rows: readonly ClientListingRow[], tokens: number): readonly string[] {
  const cost = (longest: number) =>
    [...BUILT_IN_CODEX, ...rows].reduce((sum, { name, text }) => {
      const line = `- ${name}: ${text.slice(0, longest)} (file: r0/${name}/SKILL.md)\n`;
      return sum + Math.ceil(new TextEncoder().encode(line).length / 4);
    }, 0);
  let [low, high] = [0, 1024];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (cost(middle) <= tokens) low = middle;
    else high = middle - 1;
  }
  return rows.map(({ text }) => text.slice(0, low).trimEnd());
}

/** The skills bundled with Codex, by the length of their descriptions. */
const BUILT_IN_CODEX = Object.entries({
  imagegen: 570,
  "openai-docs": 459,
  "skill-creator": 106,
  "skill-installer": 225,
}).map(([name, length]) => ({ name, text: "x".repeat(length) }));

/** Returns the width in terminal columns: East Asian characters take two. */
function countColumns(text: string): number {
  return text.length + (text.match(WIDE_CHARACTERS)?.length ?? 0);
}

const WIDE_CHARACTERS =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/g;
