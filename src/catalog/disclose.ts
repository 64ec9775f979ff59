import { isInvocableBy, type Skill } from "../skill/skill.ts";
import { estimateTokens, formatCount } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { type Catalog, DISCLOSURE_DEFAULTS, type DisclosureMode } from "./catalog.ts";
import { isListIntent } from "./list-intents.ts";
import {
  type FittedListing,
  fitListing,
  fitPromptSection,
  formatAvailableLine,
  formatBullet,
  isOfferedByDefault,
} from "./listing.ts";
import {
  getMatcher,
  isSelectedMatch,
  type Match,
  type Matches,
  type Shortlist,
  selectShortlist,
} from "./search/matcher.ts";
import { OFFERED_WEIGHT } from "./search/trigger-weights.ts";
import { formatSkillContent } from "./skill-content.ts";

/** Nothing, how many there are, names with brief descriptions, or full instructions. */
export const TIERS = ["none", "breadcrumb", "registry", "full"] as const;
export type Tier = (typeof TIERS)[number];

export interface DiscloseOptions {
  /** `static`: one list for every query, of skills to be invoked with `use_skill`. Nothing else is added. Defaults to `adaptive`. */
  mode?: DisclosureMode;
  /** Which skills there are at all; those that a model may not invoke are left out beside that. */
  isVisible?: (skill: Skill) => boolean;
  /** Which skills a person may call by name. Those of `isVisible` when left out. */
  isCallable?: (skill: Skill) => boolean;
  /** How many skills' full instructions at most. 3 when left out. */
  maxSkills?: number;
  /** How many tokens the full instructions and the shortlist may take; a list takes no more either. Defaults to 20,000. */
  budget?: number;
  /** How many tokens the list of skills may take. Defaults to 2,000. */
  listingBudget?: number;
  /**
   * True: where every skill has triggers, the line that tells how many there are is the prefix, at every tier but `none`, so that a system
   * prompt is the same for every query. Defaults to false: that line is then the suffix, where nothing else is said.
   */
  countInPrefix?: boolean;
  /** Names of skills, the most used first, as they were when the conversation began: the list keeps these longest. */
  usage?: readonly string[];
  /** Further queries that ask what there is. */
  asks?: readonly string[];
  /**
   * Up to five skills that fit by their words, with their descriptions. When left out, after a list of skills, after a trigger that is
   * too broad to give the instructions, such as a path, and elsewhere for one that fits beyond doubt. True: also after the
   * breadcrumb. False: never.
   */
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
  /** The prefix, then the suffix. */
  text: string;
  /** The part that is the same for every query: the list, where a skill has no triggers. It belongs into the system prompt. */
  prefix: string;
  /** The part for this query: the shortlist, then full instructions. It belongs next to the user's message. */
  suffix: string;
  /** About so many. */
  tokens: number;
  matches: readonly Match[];
  /** The skills whose instructions are in the text. */
  shown: readonly Skill[];
  /** The skills that the shortlist names, the best first. */
  shortlist: readonly Skill[];
  /** Skills that match too, and are loaded already or run on their own: a line each says so. */
  noted: readonly Skill[];
  /** How many skills the list has with the whole description, a shortened one, the name alone, and not at all; absent without a list. */
  listed?: ListingCounts;
  /** Why there are not more: negative cues. */
  against: Matches["against"];
  /** What did not fit the budget. */
  cut: OmittedParts;
  /** The query was longer than what is looked at. */
  isCut: boolean;
}

type ListingCounts = Omit<FittedListing, "text">;

interface OmittedParts {
  /** How many descriptions of the list were shortened or left out. */
  descriptions: number;
  /** How many names. */
  names: number;
  /** The skills whose instructions were left out. */
  instructions: readonly string[];
}

/** Decides by the query what a model is told of the skills, and says it. */
export function disclose(catalog: Catalog, query: string, options: DiscloseOptions = {}): Disclosure {
  const {
    isVisible = () => true,
    maxSkills = DISCLOSURE_DEFAULTS.maxSkills,
    budget = DISCLOSURE_DEFAULTS.budget,
  } = options;
  const { recent = [], files = [], isCallable: mayCall = isVisible } = options;
  const isOffered = (skill: Skill) => isInvocableBy("model", skill) && isVisible(skill);
  const isForModel = (skill: Skill) => isOffered(skill) && isOfferedByDefault(skill, query, files);
  const isCallable = (skill: Skill) => isInvocableBy("user", skill) && mayCall(skill);
  const visible = catalog.skills.filter((skill) => isOffered(skill) && isOfferedByDefault(skill));
  if (options.mode === "static") return discloseStatically(visible, options);
  const scene = { recent, files, isVisible: isForModel, isCallable };
  const matcher = getMatcher(catalog);
  const { matches, hasMore, against, isCut } = matcher.match(query, { ...scene, limit: 0 });
  // Those of other packages, whose files the query or the conversation names.
  const near = catalog.skills.filter((skill) => !isOfferedByDefault(skill) && isForModel(skill));
  const plain = visible.reduce((sum, skill) => sum + (matcher.triggered.has(skill) ? 0 : 1), 0);
  const isAsking = isListIntent(query, options.asks) && matches[0]?.level !== "explicit";
  const list = plain > 0 || (isAsking && visible.length > 0) ? getListing(catalog, visible, options) : undefined;
  const line = visible.length > 0 ? formatAvailableLine(visible.length) : "";
  const prefix = plain > 0 ? (list?.text ?? "") : options.countInPrefix ? line : "";
  const full = isAsking
    ? NO_TEXT
    : formatFullText(matches.filter(isSelectedMatch), maxSkills, { query, room: budget * 4, hasMore, options });
  const isFull = full.shown.length + full.noted.length > 0;
  const nearby = near.filter((skill) => !full.shown.includes(skill) && !full.noted.includes(skill));
  const isEmpty = visible.length + near.length + full.left.length === 0;
  const tier = selectTier({ isFull, isEmpty, hasList: list !== undefined || nearby.length > 0 });
  const named = isAsking
    ? []
    : selectShortlistMatches(tier, matches, full, options, () => {
        const isNew = (match: Match) => !isSelectedMatch(match) && !near.includes(match.skill);
        const found = matcher.match(query, { ...scene, bodies: true }).matches.filter(isNew);
        return selectShortlist(found, query, catalog.skills.length);
      });
  const alone =
    plain > 0
      ? ""
      : (list?.text ?? (tier === "breadcrumb" && prefix === "" ? formatAvailableLine(visible.length) : ""));
  const first = [alone, nearby.length === 0 ? "" : formatNearbyListing(nearby, options)]
    .filter((part) => part !== "")
    .join("\n");
  const suffix = formatSuffix({ first, named, full, room: budget * 4, isAfter: prefix !== "" });
  const kept = new Set(suffix.named.map(({ skill }) => skill));
  const text = prefix + suffix.text;
  const { text: _, ...listed } = list ?? { text: "", whole: 0, shortened: 0, named: 0, left: 0 };
  return {
    tier,
    why: formatTierReason({
      isFull,
      isAsking,
      plain,
      near: nearby.length,
      visible: visible.length + near.length,
      matches,
      left: full.left,
    }),
    text,
    prefix,
    suffix: suffix.text,
    tokens: estimateTokens(text),
    matches: [
      ...matches.filter(isSelectedMatch),
      ...suffix.named,
      ...matches.filter((match) => !isSelectedMatch(match) && !kept.has(match.skill)),
    ],
    shown: full.shown,
    shortlist: suffix.named.map(({ skill }) => skill),
    noted: full.noted,
    ...(list ? { listed } : {}),
    against,
    cut: { descriptions: listed.shortened + listed.named + listed.left, names: listed.left, instructions: full.left },
    isCut,
  };
}

function selectTier({ isFull, isEmpty, hasList }: { isFull: boolean; isEmpty: boolean; hasList: boolean }): Tier {
  if (isFull) return "full";
  if (isEmpty) return "none";
  return hasList ? "registry" : "breadcrumb";
}

interface TierReason {
  isFull: boolean;
  isAsking: boolean;
  /** How many skills without triggers are visible. */
  plain: number;
  /** How many skills of packages whose files are named. */
  near: number;
  visible: number;
  matches: readonly Match[];
  left: readonly string[];
}

function formatTierReason({ isFull, isAsking, plain, near, visible, matches, left }: TierReason): string {
  if (isFull) return "a skill is mentioned or triggered";
  if (left.length > 0) return "a skill is mentioned or triggered, but its instructions have no room or cannot be read";
  if (visible === 0) return "no skill is visible";
  if (isAsking) return LIST_INTENT_REASON;
  if (plain === 0 && near > 0)
    return `${formatNotTriggered(matches)}, and ${formatCount(near, "skill belongs", "skills belong")} to the files`;
  if (plain === 0) return formatNotTriggered(matches);
  return `${formatNotTriggered(matches)}, and ${formatCount(plain, "skill has", "skills have")} no triggers`;
}

/** The list within its budget. Made again only when the skills, the budget or the usage snapshot are others. */
function getListing(catalog: Catalog, visible: readonly Skill[], options: DiscloseOptions): FittedListing {
  const {
    budget = DISCLOSURE_DEFAULTS.budget,
    listingBudget = DISCLOSURE_DEFAULTS.listingBudget,
    usage = NO_USAGE,
    search,
  } = options;
  const room = Math.min(listingBudget, budget) * 4;
  const known = LISTING_CACHE.get(catalog);
  const isSame = known?.room === room && known.search === search && isSameList(known.usage, usage);
  if (known && isSame && isSameList(known.visible, visible)) return known.listed;
  const listed = fitListing(visible, { room, usage, search });
  LISTING_CACHE.set(catalog, { room, search, usage: [...usage], visible, listed });
  return listed;
}

/** The skills of packages whose files are named: they are not in the prefix, which no query changes. */
function formatNearbyListing(skills: readonly Skill[], options: DiscloseOptions): string {
  const {
    budget = DISCLOSURE_DEFAULTS.budget,
    listingBudget = DISCLOSURE_DEFAULTS.listingBudget,
    usage,
    search,
  } = options;
  const room = Math.min(listingBudget, budget) * 4;
  return fitListing(skills, { room, usage, search, heading: "Skills for the files in question:" }).text;
}

const NO_USAGE: readonly string[] = [];
const LISTING_CACHE = new WeakMap<
  Catalog,
  {
    room: number;
    search: string | undefined;
    usage: readonly string[];
    visible: readonly Skill[];
    listed: FittedListing;
  }
>();

function isSameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((item, index) => item === b[index]));
}

/** The matches by words that are named. Words are looked at only where they can name something. */
function selectShortlistMatches(
  tier: Tier,
  matches: readonly Match[],
  { shown, noted }: FullText,
  { shortlist }: DiscloseOptions,
  byWords: () => Shortlist,
): readonly Match[] {
  if (shortlist === false || tier === "none") return [];
  const isOffered = matches.some(({ level, weight }) => level === "weak" && weight >= OFFERED_WEIGHT);
  const hasAll = tier === "registry" || (tier === "breadcrumb" && (shortlist === true || isOffered));
  const { matches: found, isClear } = byWords();
  const isNew = ({ skill }: Match) => !shown.includes(skill) && !noted.includes(skill);
  if (hasAll) return found.slice(0, SHORTLIST_SIZE).filter(isNew);
  return isClear ? found.slice(0, 1).filter(isNew) : [];
}

interface SuffixParts {
  /** What comes before the shortlist where there is no prefix. */
  first: string;
  named: readonly Match[];
  full: FullText;
  /** In characters. */
  room: number;
  isAfter: boolean;
}

/** The full instructions have the room first; the shortlist has what is left. */
function formatSuffix({ first, named, full, room, isAfter }: SuffixParts): { text: string; named: readonly Match[] } {
  const hasTexts = full.shown.length + full.noted.length > 0;
  let left = room - first.length - full.text.length - 1;
  const isNoteLeftOut = !hasTexts && left < 0; // The text is then a note on what has no room.
  left -= SHORTLIST_LINE.length + 2;
  const kept: Match[] = [];
  for (const match of named) {
    const { length } = formatBullet(match.skill);
    if (length + 1 > left) continue;
    left -= length + 1;
    kept.push(match);
  }
  const shortlist = kept.length === 0 ? [] : [SHORTLIST_LINE, ...kept.map(({ skill }) => formatBullet(skill))];
  const note = hasTexts || isNoteLeftOut ? "" : full.text;
  const lines = [first, ...shortlist, note].filter((line) => line !== "").join("\n");
  const text = [lines, hasTexts ? full.text : ""].filter((part) => part !== "").join("\n\n");
  return { text: isAfter && text !== "" ? `\n\n${text}` : text, named: kept };
}

const SHORTLIST_LINE = "These may fit. Take one, or none:";

const SHORTLIST_SIZE = 5;
const formatNotTriggered = (matches: readonly Match[]) =>
  matches.some(({ level }) => level === "weak")
    ? "no trigger that matches is selective enough"
    : "nothing is triggered";
const LIST_INTENT_REASON = "the query asks what there is";

interface FullTextContext {
  query: string;
  /** In characters. */
  room: number;
  hasMore: boolean;
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

function formatFullText(
  matches: readonly Match[],
  most: number,
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
    const given = parseInvocationArguments(query, skill, reasons);
    const note = formatSkillNote(skill, given, options);
    if (note !== undefined) {
      if (add(note)) noted.push(skill);
    } else if (shown.length + left.length >= most) rest.push(skill.name);
    else {
      const text = readSkillContent(skill, given, options);
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

/** What is said of a skill that need not be told again, or cannot be told. */
function formatSkillNote(skill: Skill, given: string | undefined, options: DiscloseOptions): string | undefined {
  const name = sanitizeLine(skill.name, 64);
  if (options.canFork && skill.manifest.context === "fork")
    return `[Skill ${name} runs on its own: load_skill runs it]`;
  const { remote } = skill.origin;
  if (remote && !evaluateSafely(() => options.isLoaded?.(skill) ?? false))
    return `[Skill ${name} of MCP server ${sanitizeLine(remote.server, 64)} matches: load_skill fetches it]`;
  try {
    return !given && options.isLoaded?.(skill) ? `[Skill ${name} is already loaded in this conversation]` : undefined;
  } catch {
    return undefined;
  }
}

function evaluateSafely(ask: () => boolean): boolean {
  try {
    return ask();
  } catch {
    return false; // Its instructions are not here.
  }
}

function readSkillContent(skill: Skill, given: string | undefined, options: DiscloseOptions): string | undefined {
  try {
    return formatSkillContent(skill, {
      arguments: given,
      folder: options.folderOf?.(skill),
      toolsets: options.toolsets,
    });
  } catch {
    return undefined;
  }
}

const MAX_ALSO_MATCHED = 10;

/** What a person wrote after `/name` or `$name` at the beginning of the query. */
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

/** Discloses one list for every query: no skill is matched, and no instructions are added. */
function discloseStatically(skills: readonly Skill[], options: DiscloseOptions): Disclosure {
  const {
    budget = DISCLOSURE_DEFAULTS.budget,
    listingBudget = DISCLOSURE_DEFAULTS.listingBudget,
    usage,
    search,
    folderOf: pathOf,
  } = options;
  const room = Math.min(listingBudget, budget) * 4;
  const { text, ...listed } = fitPromptSection(skills, { room, usage, search, ...(pathOf ? { pathOf } : {}) });
  return {
    tier: skills.length > 0 ? "registry" : "none",
    why: skills.length > 0 ? "the disclosure mode is static" : "no skill is visible",
    text,
    prefix: text,
    suffix: "",
    tokens: estimateTokens(text),
    matches: [],
    shown: [],
    shortlist: [],
    noted: [],
    ...(skills.length > 0 ? { listed } : {}),
    against: [],
    cut: { descriptions: listed.shortened + listed.named + listed.left, names: listed.left, instructions: [] },
    isCut: false,
  };
}
