import { isInvocableBy, type Skill } from "../skill/skill.ts";
import { estimateTokens, formatCount } from "../util/text.ts";
import { type Catalog, DISCLOSURE_DEFAULTS, type DisclosureMode } from "./catalog.ts";
import {
  type FittedListing,
  fitListing,
  fitPromptSection,
  formatAvailableLine,
  formatBullet,
  isListIntent,
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
import { type FullText, formatFullText, NO_TEXT } from "./skill-content.ts";

/** Nothing, the number of skills, names with descriptions, or full instructions. */
export const TIERS = ["none", "breadcrumb", "registry", "full"] as const;
export type Tier = (typeof TIERS)[number];

export interface DiscloseOptions {
  /** `static`: one list for every query, for skills invoked with `use_skill`. Nothing else is added. Defaults to `adaptive`. */
  mode?: DisclosureMode;
  /** Returns the text of this tier, whichever applies, so that tiers can be compared. Without effect in `static` mode. */
  tier?: Tier;
  /** Selects the skills to consider; those that a model may not invoke are excluded in any case. */
  isVisible?: (skill: Skill) => boolean;
  /** Selects the skills that a user may call by name. Defaults to `isVisible`. */
  isCallable?: (skill: Skill) => boolean;
  /** The maximum number of skills with full instructions. Defaults to 3. */
  maxSkills?: number;
  /** The token budget of full instructions and shortlist, and an upper limit of the list. Defaults to 20,000. */
  budget?: number;
  /** The token budget of the list of skills. Defaults to 2,000. */
  listingBudget?: number;
  /**
   * True: if every skill has triggers, the line with the number of skills is the prefix at every tier except `none`, so that a system prompt
   * is the same for every query. Defaults to false: the line is then the suffix, if there is no other suffix.
   */
  countInPrefix?: boolean;
  /** Names of skills at the start of the conversation, the most used first: the list keeps these longest. */
  usage?: readonly string[];
  /** Additional queries that ask for the list of skills. */
  listIntents?: readonly string[];
  /**
   * Up to five skills that match by words, with their descriptions. By default they follow a list of skills or a trigger that is too broad
   * for full instructions, such as a path; otherwise only one that clearly matches is named. True: also after the breadcrumb. False: never.
   */
  shortlist?: boolean;
  /** Names of skills, the last used first. */
  recent?: readonly string[];
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** Returns true if the skill's current instructions are already in the conversation. */
  isLoaded?: (skill: Skill) => boolean | Promise<boolean>;
  /** Set if skills with `context: fork` can run on their own: they are named, without instructions. */
  canFork?: boolean;
  /** The tool that finds skills which the text does not name. */
  search?: string;
  /** Returns the skill's folder as the model sees it. */
  folderOf?: (skill: Skill) => string | undefined;
  /** False: never includes instructions; a skill that would have them is in the shortlist. Defaults to true. */
  instructions?: boolean;
  /** Tells if the tools of a skill's toolsets are available with its instructions, or after it is loaded. */
  toolsets?: "there" | "on-load" | undefined;
}

/** The text for a model about the skills for a query. */
export interface Disclosure {
  tier: Tier;
  /** The reason for this tier, in a sentence for people. */
  reason: string;
  /** The prefix, then the suffix. */
  text: string;
  /** The part that is the same for every query: the list, if a skill has no triggers. It belongs in the system prompt. */
  prefix: string;
  /** The part for this query: the shortlist, then full instructions. It belongs next to the user's message. */
  suffix: string;
  /** An estimate. */
  tokens: number;
  /** All matches, best first, with their reasons; also those that the text leaves out. At most ten match by words alone. */
  matches: readonly Match[];
  /** True if more skills may match by their triggers. */
  hasMore: boolean;
  /** The skills that were matched: those that a model may know, without those of other packages in a monorepo. */
  considered: readonly Skill[];
  /** The skills whose instructions are in the text. */
  shown: readonly Skill[];
  /** The skills in the shortlist, the best first. */
  shortlist: readonly Skill[];
  /** Skills that match too, but are already loaded or run on their own: each has one line. */
  mentioned: readonly Skill[];
  /** The number of skills listed with the whole description, a shortened one, the name alone, and not at all; absent without a list. */
  listed?: ListingCounts;
  /** Skills excluded by negative cues. */
  rejected: Matches["rejected"];
  /** The parts that did not fit the budget. */
  omitted: OmittedParts;
  /** True if the query was longer than the part that is matched. */
  isCut: boolean;
}

export type ListingCounts = Omit<FittedListing, "text">;

export interface OmittedParts {
  /** The number of descriptions in the list that were shortened or omitted. */
  descriptions: number;
  /** The number of names. */
  names: number;
  /** The skills whose instructions were omitted. */
  instructions: readonly string[];
}

/** Decides by the query which text about the skills a model gets, and formats it. */
export async function disclose(catalog: Catalog, query: string, options: DiscloseOptions = {}): Promise<Disclosure> {
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
  const context = { recent, files, isVisible: isForModel, isCallable };
  const matcher = getMatcher(catalog);
  const wanted = options.tier;
  const isListQuery = isListIntent(query, options.listIntents);
  // The one match. It searches by words only where the result can be used.
  const limit = options.shortlist === false || wanted === "none" || isListQuery ? 0 : MAX_BY_WORDS;
  const found = await matcher.match(query, { ...context, bodies: true, limit });
  const { hasMore, rejected, isCut } = found;
  const matches = found.matches.filter(({ level }) => level !== "words");
  // Skills of other packages, whose files the query or the conversation names.
  const near = catalog.skills.filter((skill) => !isOfferedByDefault(skill) && isForModel(skill));
  const plain = visible.reduce((sum, skill) => sum + (matcher.triggered.has(skill) ? 0 : 1), 0);
  const isAsking = isListQuery && matches[0]?.level !== "explicit";
  const isListed =
    wanted === undefined ? plain > 0 || isAsking : wanted === "registry" || (wanted === "full" && plain > 0);
  const list = isListed && visible.length > 0 ? getListing(catalog, visible, options) : undefined;
  const line = visible.length > 0 && wanted !== "none" ? formatAvailableLine(visible.length) : "";
  const isListFirst = list !== undefined && plain > 0;
  const prefix = isListFirst ? list.text : options.countInPrefix ? line : "";
  const hasNoText = wanted === undefined ? isAsking : wanted !== "full";
  const full =
    hasNoText || options.instructions === false
      ? NO_TEXT
      : await formatFullText(matches.filter(isSelectedMatch), maxSkills, { query, room: budget * 4, hasMore, options });
  const isFull = full.shown.length + full.noted.length > 0;
  const hasNearby = wanted !== "none" && wanted !== "breadcrumb";
  const nearby = (hasNearby ? near : []).filter((skill) => !full.shown.includes(skill) && !full.noted.includes(skill));
  const isEmpty = visible.length + near.length + full.left.length === 0;
  const tier = wanted ?? selectTier({ isFull, isEmpty, hasList: list !== undefined || nearby.length > 0 });
  const selected = options.instructions === false ? matches.filter(isSelectedMatch) : [];
  const named =
    isAsking || tier === "none"
      ? []
      : [
          ...selected,
          ...selectShortlistMatches(tier, matches, full, options, () => {
            const isNew = (match: Match) => !isSelectedMatch(match) && !near.includes(match.skill);
            return selectShortlist(found.matches.filter(isNew), query, catalog.skills.length);
          }),
        ].slice(0, SHORTLIST_SIZE);
  const alone = isListFirst
    ? ""
    : (list?.text ?? (tier === "breadcrumb" && prefix === "" ? formatAvailableLine(visible.length) : ""));
  const first = [alone, nearby.length === 0 ? "" : formatNearbyListing(nearby, options)]
    .filter((part) => part !== "")
    .join("\n");
  const suffix = formatSuffix({ first, named, full, room: budget * 4, isAfter: prefix !== "" });
  const text = prefix + suffix.text;
  const { text: _, ...listed } = list ?? { text: "", whole: 0, shortened: 0, named: 0, left: 0 };
  return {
    tier,
    reason:
      wanted !== undefined
        ? "this tier was requested"
        : formatTierReason({
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
    matches: found.matches,
    hasMore,
    considered: near.length === 0 ? visible : [...visible, ...near],
    shown: full.shown,
    shortlist: suffix.named.map(({ skill }) => skill),
    mentioned: full.noted,
    ...(list ? { listed } : {}),
    rejected,
    omitted: {
      descriptions: listed.shortened + listed.named + listed.left,
      names: listed.left,
      instructions: full.left,
    },
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
  /** The number of visible skills without triggers. */
  plain: number;
  /** The number of skills of packages whose files are named. */
  near: number;
  visible: number;
  matches: readonly Match[];
  left: readonly string[];
}

function formatTierReason({ isFull, isAsking, plain, near, visible, matches, left }: TierReason): string {
  if (isFull) return "a skill is mentioned or triggered";
  if (left.length > 0) return "a skill is mentioned or triggered, but its instructions do not fit or cannot be read";
  if (visible === 0) return "no skill is visible";
  if (isAsking) return LIST_INTENT_REASON;
  if (plain === 0 && near > 0)
    return `${formatNotTriggered(matches)}, and ${formatCount(near, "skill belongs", "skills belong")} to the files`;
  if (plain === 0) return formatNotTriggered(matches);
  return `${formatNotTriggered(matches)}, and ${formatCount(plain, "skill has", "skills have")} no triggers`;
}

/** Returns the list within its budget. Built again only if the skills, the budget or the usage snapshot change. */
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

/** Lists the skills of packages whose files are named. They are not in the prefix, which is the same for every query. */
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

/** The maximum number of matches by words alone. */
export const MAX_BY_WORDS = 10;

/** Selects the word matches to name. */
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
  /** The text before the shortlist if there is no prefix. */
  first: string;
  named: readonly Match[];
  full: FullText;
  /** In characters. */
  room: number;
  isAfter: boolean;
}

/** Formats the suffix. Full instructions get the room first; the shortlist gets the rest. */
function formatSuffix({ first, named, full, room, isAfter }: SuffixParts): { text: string; named: readonly Match[] } {
  const hasTexts = full.shown.length + full.noted.length > 0;
  let remaining = room - first.length - full.text.length - 1;
  const isNoteOmitted = !hasTexts && remaining < 0; // The text is then a note about omitted skills.
  remaining -= SHORTLIST_LINE.length + 2;
  const kept: Match[] = [];
  for (const match of named) {
    const { length } = formatBullet(match.skill);
    if (length + 1 > remaining) continue;
    remaining -= length + 1;
    kept.push(match);
  }
  const shortlist = kept.length === 0 ? [] : [SHORTLIST_LINE, ...kept.map(({ skill }) => formatBullet(skill))];
  const note = hasTexts || isNoteOmitted ? "" : full.text;
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
const LIST_INTENT_REASON = "the query asks for the list of skills";

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
    reason: skills.length > 0 ? "the disclosure mode is static" : "no skill is visible",
    text,
    prefix: text,
    suffix: "",
    tokens: estimateTokens(text),
    matches: [],
    hasMore: false,
    considered: skills,
    shown: [],
    shortlist: [],
    mentioned: [],
    ...(skills.length > 0 ? { listed } : {}),
    rejected: [],
    omitted: { descriptions: listed.shortened + listed.named + listed.left, names: listed.left, instructions: [] },
    isCut: false,
  };
}
