import { inLine } from "../shared/prompt.ts";
import { count, estimateTokens } from "../shared/text.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { asksWhatThereIs } from "./asks.ts";
import { availableLine, bullet, type Listed, listWithin } from "./budget.ts";
import type { Catalog } from "./catalog.ts";
import { skillContent } from "./content.ts";
import { DEFAULTS } from "./defaults.ts";
import { type Match, type Matcher, type Matches, openMatcher } from "./match.ts";

/** Nothing, how many there are, names with brief descriptions, or full instructions. */
export const TIERS = ["none", "breadcrumb", "registry", "full"] as const;
export type Tier = (typeof TIERS)[number];

export interface DiscloseOptions {
  /** Which skills there are at all; those that a model may not invoke are left out beside that. */
  isVisible?: (skill: Skill) => boolean;
  /** How many skills' full instructions at most. 3 when left out. */
  maxSkills?: number;
  /** How many tokens the text may take. 20,000 when left out. */
  budget?: number;
  /** Further queries that ask what there is. */
  asks?: readonly string[];
  /** After the breadcrumb, up to five skills that fit by their words. Off when left out. */
  shortlist?: boolean;
  /** Names of skills, the one used last first. */
  recent?: readonly string[];
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** Whether the skill's instructions, as they are now, are in the conversation already. */
  isLoaded?: (skill: Skill) => boolean;
  /** Skills that ask to run on their own (`context: fork`) can: they are named, not told in full. */
  canFork?: boolean;
  /** The tool that finds skills which are not named in the text. */
  search?: string;
  /** The skill's folder as the model sees it. */
  folderOf?: (skill: Skill) => string | undefined;
  /** Whether the tools that skills bring are there with their instructions, or come when one is loaded. */
  toolsets?: "there" | "on-load" | undefined;
}

/** What a model is told for a query. */
export interface Disclosure {
  tier: Tier;
  /** Why this tier, in a sentence for people. */
  why: string;
  text: string;
  /** About so many. */
  tokens: number;
  matches: readonly Match[];
  /** The skills whose instructions are in the text. */
  shown: readonly Skill[];
  /** Skills that match too, and are loaded already or run on their own: a line each says so. */
  noted: readonly Skill[];
  /** Why there are not more: negative cues. */
  against: Matches["against"];
  /** What did not fit the budget. */
  cut: Listed["cut"] & { instructions: readonly string[] };
  /** The query was longer than what is looked at. */
  isCut: boolean;
}

/** Decides by the query what a model is told of the skills, and says it. */
export function disclose(catalog: Catalog, query: string, options: DiscloseOptions = {}): Disclosure {
  const { isVisible = () => true, maxSkills = DEFAULTS.maxSkills, budget = DEFAULTS.budget } = options;
  const { recent = [], files = [], search } = options;
  const isForModel = (skill: Skill) => isFor("model", skill) && isVisible(skill);
  const isCallable = (skill: Skill) => isFor("user", skill) && isVisible(skill);
  const scene = { recent, files, isVisible: isForModel, isCallable };
  const matcher = matcherOf(catalog);
  const { matches, against, isCut } = matcher.match(query, { ...scene, limit: 0 });
  // Looked for only where words decide something: then what the instructions say counts too.
  const byWords = () => matcher.match(query, { ...scene, bodies: true }).matches;
  const room = budget * 4;
  const isAsking = asksWhatThereIs(query, options.asks) && matches[0]?.level !== "explicit";
  const full = isAsking ? NO_TEXT : fullText(matches, maxSkills, { query, room, options });
  const shared = { matches, against, isCut, shown: full.shown, noted: full.noted };
  const cut = { descriptions: 0, names: 0, instructions: full.left };
  if (full.shown.length + full.noted.length > 0)
    return told("full", "a skill is mentioned or triggered", full.text, { ...shared, cut });
  const visible = catalog.skills.filter(isForModel);
  if (full.left.length > 0) {
    const text = [availableLine(visible.length), full.text].join("\n");
    const why = "a skill is mentioned or triggered, but its instructions have no room or cannot be read";
    return told("breadcrumb", why, text.length <= room ? text : availableLine(visible.length), { ...shared, cut });
  }
  if (visible.length === 0) return told("none", "no skill is visible", "", { ...shared, cut });
  const plain = isAsking ? [] : visible.filter((skill) => !matcher.triggered.has(skill));
  if (isAsking || plain.length > 0) {
    const why = isAsking
      ? ASKING
      : `nothing is triggered, and ${count(plain.length, "skill has", "skills have")} no triggers`;
    const first = () => byWords().map(({ skill }) => skill);
    const listed = listWithin(visible, { room, first, ...(search === undefined ? {} : { search }) });
    return told("registry", why, listed.text, { ...shared, cut: { ...cut, ...listed.cut } });
  }
  const fitting = options.shortlist ? byWords().slice(0, SHORTLIST) : [];
  const line = availableLine(visible.length);
  const longer = [line, ...shortlistLines(fitting)].join("\n");
  const text = longer.length <= room ? longer : line;
  return told("breadcrumb", "nothing is triggered", text, { ...shared, matches: [...matches, ...fitting], cut });
}

function told(
  tier: Tier,
  why: string,
  text: string,
  rest: Omit<Disclosure, "tier" | "why" | "text" | "tokens">,
): Disclosure {
  return { tier, why, text, tokens: estimateTokens(text), ...rest };
}

function shortlistLines(fitting: readonly Match[]): string[] {
  if (fitting.length === 0) return [];
  const lines = fitting.map(({ skill }) => bullet(skill));
  return ["These may fit. Take one, or none:", ...lines];
}

/** The matcher of a catalog, made when first needed and kept as long as the catalog is. */
export function matcherOf(catalog: Catalog): Matcher {
  const known = MATCHERS.get(catalog);
  if (known) return known;
  const matcher = openMatcher(catalog.skills);
  MATCHERS.set(catalog, matcher);
  return matcher;
}

const MATCHERS = new WeakMap<Catalog, Matcher>();
const SHORTLIST = 5;
const ASKING = "the query asks what there is";

interface Scene {
  query: string;
  /** In characters. */
  room: number;
  options: DiscloseOptions;
}

interface FullText {
  text: string;
  shown: readonly Skill[];
  noted: readonly Skill[];
  /** Names of the skills whose instructions had no room or could not be read. */
  left: readonly string[];
}
const NO_TEXT: FullText = { text: "", shown: [], noted: [], left: [] };

function fullText(matches: readonly Match[], most: number, { query, room, options }: Scene): FullText {
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
    const given = argumentsIn(query, skill, reasons);
    const note = noteOn(skill, given, options);
    if (note !== undefined) {
      if (add(note)) noted.push(skill);
    } else if (shown.length + left.length >= most) rest.push(skill.name);
    else {
      const text = contentOf(skill, given, options);
      if (text !== undefined && add(text)) shown.push(skill);
      else left.push(skill.name);
    }
  }
  const named = [...left, ...rest].map((name) => inLine(name, 64));
  const more = named.length > ALSO ? `, and ${named.length - ALSO} more` : "";
  if (named.length > 0) add(`[Also matching, not shown: ${named.slice(0, ALSO).join(", ")}${more}]`);
  return { text: parts.join("\n\n"), shown, noted, left };
}

/** What is said of a skill that need not be told again, or cannot be told. */
function noteOn(skill: Skill, given: string | undefined, options: DiscloseOptions): string | undefined {
  const name = inLine(skill.name, 64);
  if (options.canFork && skill.manifest.context === "fork")
    return `[Skill ${name} runs on its own: load_skill runs it]`;
  try {
    return !given && options.isLoaded?.(skill) ? `[Skill ${name} is already loaded in this conversation]` : undefined;
  } catch {
    return undefined;
  }
}

function contentOf(skill: Skill, given: string | undefined, options: DiscloseOptions): string | undefined {
  try {
    return skillContent(skill, { arguments: given, folder: options.folderOf?.(skill), toolsets: options.toolsets });
  } catch {
    return undefined;
  }
}

const ALSO = 10;

/** What a person wrote after `/name` or `$name` at the beginning of the query. */
function argumentsIn(query: string, skill: Skill, reasons: Match["reasons"]): string | undefined {
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
