import { getProgramTitle } from "../skill/clients.ts";
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

/** The limits of an MCP server's texts in a client, in characters. */
export interface McpTextLimits {
  /** 0 if the client drops the server's instructions. */
  instructions: number;
  /** Of one tool's description. */
  toolDescription: number;
  /** For one tool's result: a longer one is truncated, or written to a file of which the model sees the beginning. */
  toolResult: number;
  /** True if the client fetches the list of tools again when the server announces a change. */
  refreshesTools: boolean;
  /** True if its model was observed to have a new tool in the very next request. */
  offersNewTools: boolean;
}

interface ClientListingRow extends ClientSkillText {
  /** The part of it that the client reads. */
  text: string;
}

interface ClientListing {
  title: string;
  /** The version whose requests these rules were compared with. */
  version: string;
  /** Its `clientInfo.name` over MCP. */
  announces: RegExp;
  mcp: McpTextLimits;
  /** True if its list has `when_to_use`. */
  readsWhenToUse: boolean;
  /** True if it hides skills that only users can invoke. */
  heedsInvocation: boolean;
  /** Longer descriptions are truncated to this many characters. */
  longest: number;
  /** The end of a truncated description. */
  cutMark: string;
  /** A skill with a longer description is not listed. */
  dropsOver?: number;
  /** Returns the description that each row has room for, in the order of names; undefined for a name alone. */
  fit(rows: readonly ClientListingRow[]): readonly (string | undefined)[];
  /** False if the list goes from z to a. */
  isAscending: boolean;
}

/**
 * THE table of clients' own lists of skills and of their limits for MCP servers, derived from requests of the real programs. Paths, tags
 * and built-in skills are counted where the client counts them.
 */
export const CLIENT_LISTINGS = {
  claude: {
    title: getProgramTitle("claude"),
    version: "2.1.325",
    announces: /^claude-code$/,
    mcp: { instructions: 4096, toolDescription: 4096, toolResult: 40_000, refreshesTools: true, offersNewTools: false },
    readsWhenToUse: true,
    heedsInvocation: true,
    longest: 1536,
    cutMark: "…",
    // Its 11 bundled skills keep their descriptions, and two commands their names: 6,066 of 8,000 columns with line breaks.
    fit: (rows) => fitEach(rows, 8000 - 6066),
    isAscending: true,
  },
  codex: {
    title: getProgramTitle("codex"),
    version: "0.166.0",
    announces: /^codex/,
    // It removes the middle of a result over 10,000 bytes.
    mcp: {
      instructions: 40_000,
      toolDescription: 40_000,
      toolResult: 9500,
      refreshesTools: false,
      offersNewTools: false,
    },
    readsWhenToUse: false,
    heedsInvocation: false,
    longest: 1024,
    cutMark: "...",
    // 2 % of a window of 272,000 tokens, at four bytes each.
    fit: (rows) => fitEvenly(rows, 5440),
    isAscending: true,
  },
  gemini: {
    title: getProgramTitle("gemini"),
    version: "0.61.0",
    announces: /^gemini-cli/,
    mcp: {
      instructions: 40_000,
      toolDescription: 40_000,
      toolResult: 40_000,
      refreshesTools: true,
      offersNewTools: false,
    },
    readsWhenToUse: false,
    heedsInvocation: false,
    longest: Number.POSITIVE_INFINITY,
    cutMark: "",
    fit: fitAll,
    isAscending: false,
  },
  opencode: {
    title: getProgramTitle("opencode"),
    version: "1.18.33",
    announces: /^opencode$/,
    mcp: {
      instructions: 40_000,
      toolDescription: 40_000,
      toolResult: 40_000,
      refreshesTools: true,
      offersNewTools: false,
    },
    readsWhenToUse: false,
    heedsInvocation: false,
    longest: Number.POSITIVE_INFINITY,
    cutMark: "",
    fit: fitAll,
    isAscending: true,
  },
  copilot: {
    title: getProgramTitle("copilot"),
    version: "1.0.102",
    announces: /^(?:github-)?copilot/,
    // Instructions arrive only with --allow-all-mcp-server-instructions.
    // A result of 23,000 characters went to a file, of which its model saw 500: the exact limit is unknown.
    mcp: { instructions: 0, toolDescription: 40_000, toolResult: 9500, refreshesTools: true, offersNewTools: true },
    readsWhenToUse: false,
    heedsInvocation: true,
    longest: Number.POSITIVE_INFINITY,
    cutMark: "",
    dropsOver: 1024,
    fit: (rows) => fitFirst(rows, 15_000),
    isAscending: true,
  },
} as const satisfies Record<string, ClientListing>;

export type ListingClient = keyof typeof CLIENT_LISTINGS;
export const LISTING_CLIENTS = Object.keys(CLIENT_LISTINGS) as ListingClient[];

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
  const rules: ClientListing = CLIENT_LISTINGS[id];
  const { dropsOver = Number.POSITIVE_INFINITY, readsWhenToUse } = rules;
  const sorted = skills
    .filter(({ isForPeople }) => !(isForPeople && rules.heedsInvocation))
    .sort((a, b) => compareText(a.name, b.name));
  const rows = sorted
    .filter(({ description }) => description.length <= dropsOver)
    .map(
      (skill): ClientListingRow => ({ ...skill, text: truncateText(formatWholeText(skill, readsWhenToUse), rules) }),
    );
  const fitted = rules.fit(rows);
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
  return [...(rules.isAscending ? listed : listed.reverse()), ...dropped];
}

function formatWholeText({ description, whenToUse }: ClientSkillText, readsWhenToUse: boolean): string {
  return readsWhenToUse && whenToUse ? `${description} - ${whenToUse}` : description;
}

function truncateText(text: string, { longest, cutMark }: Pick<ClientListing, "longest" | "cutMark">): string {
  return text.length <= longest ? text : text.slice(0, longest - cutMark.length) + cutMark;
}

function fitAll(rows: readonly ClientListingRow[]): readonly string[] {
  return rows.map(({ text }) => text);
}

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
