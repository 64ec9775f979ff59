import { inLine } from "../shared/prompt.ts";
import { count, estimateTokens } from "../shared/text.ts";
import { isFor, type Skill } from "../skill/skill.ts";
import { asksWhatThereIs } from "./asks.ts";
import { availableLine, bullet, type Listed, listWithin } from "./budget.ts";
import type { Catalog } from "./catalog.ts";
import { skillContent } from "./content.ts";
import { DEFAULTS, type DisclosureMode } from "./defaults.ts";
import { isSelected, type Match, type Matcher, type Matches, openMatcher } from "./match.ts";
import { isInReach } from "./reach.ts";
import { OFFERED_WEIGHT } from "./selectivity.ts";
import { type Shortlist, selectShortlist } from "./shortlist.ts";
import { staticDisclosure } from "./static-disclosure.ts";

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
  listed?: ListedCounts;
  /** Why there are not more: negative cues. */
  against: Matches["against"];
  /** What did not fit the budget. */
  cut: Cut;
  /** The query was longer than what is looked at. */
  isCut: boolean;
}

export type ListedCounts = Omit<Listed, "text">;

export interface Cut {
  /** How many descriptions of the list were shortened or left out. */
  descriptions: number;
  /** How many names. */
  names: number;
  /** The skills whose instructions were left out. */
  instructions: readonly string[];
}

/** Decides by the query what a model is told of the skills, and says it. */
export function disclose(catalog: Catalog, query: string, options: DiscloseOptions = {}): Disclosure {
  const { isVisible = () => true, maxSkills = DEFAULTS.maxSkills, budget = DEFAULTS.budget } = options;
  const { recent = [], files = [], isCallable: mayCall = isVisible } = options;
  const isOffered = (skill: Skill) => isFor("model", skill) && isVisible(skill);
  const isForModel = (skill: Skill) => isOffered(skill) && isInReach(skill, query, files);
  const isCallable = (skill: Skill) => isFor("user", skill) && mayCall(skill);
  const visible = catalog.skills.filter((skill) => isOffered(skill) && isInReach(skill));
  if (options.mode === "static") return staticDisclosure(visible, options);
  const scene = { recent, files, isVisible: isForModel, isCallable };
  const matcher = matcherOf(catalog);
  const { matches, hasMore, against, isCut } = matcher.match(query, { ...scene, limit: 0 });
  // Those of other packages, whose files the query or the conversation names.
  const near = catalog.skills.filter((skill) => !isInReach(skill) && isForModel(skill));
  const plain = visible.reduce((sum, skill) => sum + (matcher.triggered.has(skill) ? 0 : 1), 0);
  const isAsking = asksWhatThereIs(query, options.asks) && matches[0]?.level !== "explicit";
  const list = plain > 0 || (isAsking && visible.length > 0) ? listFor(catalog, visible, options) : undefined;
  const line = visible.length > 0 ? availableLine(visible.length) : "";
  const prefix = plain > 0 ? (list?.text ?? "") : options.countInPrefix ? line : "";
  const full = isAsking
    ? NO_TEXT
    : fullText(matches.filter(isSelected), maxSkills, { query, room: budget * 4, hasMore, options });
  const isFull = full.shown.length + full.noted.length > 0;
  const nearby = near.filter((skill) => !full.shown.includes(skill) && !full.noted.includes(skill));
  const isEmpty = visible.length + near.length + full.left.length === 0;
  const tier = tierOf({ isFull, isEmpty, hasList: list !== undefined || nearby.length > 0 });
  const named = isAsking
    ? []
    : shortlistFor(tier, matches, full, options, () => {
        const isNew = (match: Match) => !isSelected(match) && !near.includes(match.skill);
        const found = matcher.match(query, { ...scene, bodies: true }).matches.filter(isNew);
        return selectShortlist(found, query, catalog.skills.length);
      });
  const alone =
    plain > 0 ? "" : (list?.text ?? (tier === "breadcrumb" && prefix === "" ? availableLine(visible.length) : ""));
  const first = [alone, nearby.length === 0 ? "" : listNearby(nearby, options)]
    .filter((part) => part !== "")
    .join("\n");
  const suffix = suffixOf({ first, named, full, room: budget * 4, isAfter: prefix !== "" });
  const kept = new Set(suffix.named.map(({ skill }) => skill));
  const text = prefix + suffix.text;
  const { text: _, ...listed } = list ?? { text: "", whole: 0, shortened: 0, named: 0, left: 0 };
  return {
    tier,
    why: whyOf({
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
      ...matches.filter(isSelected),
      ...suffix.named,
      ...matches.filter((match) => !isSelected(match) && !kept.has(match.skill)),
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

function tierOf({ isFull, isEmpty, hasList }: { isFull: boolean; isEmpty: boolean; hasList: boolean }): Tier {
  if (isFull) return "full";
  if (isEmpty) return "none";
  return hasList ? "registry" : "breadcrumb";
}

interface Why {
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

function whyOf({ isFull, isAsking, plain, near, visible, matches, left }: Why): string {
  if (isFull) return "a skill is mentioned or triggered";
  if (left.length > 0) return "a skill is mentioned or triggered, but its instructions have no room or cannot be read";
  if (visible === 0) return "no skill is visible";
  if (isAsking) return ASKING;
  if (plain === 0 && near > 0)
    return `${NOT_TRIGGERED(matches)}, and ${count(near, "skill belongs", "skills belong")} to the files`;
  if (plain === 0) return NOT_TRIGGERED(matches);
  return `${NOT_TRIGGERED(matches)}, and ${count(plain, "skill has", "skills have")} no triggers`;
}

/** The list within its budget. Made again only when the skills, the budget or the usage snapshot are others. */
function listFor(catalog: Catalog, visible: readonly Skill[], options: DiscloseOptions): Listed {
  const { budget = DEFAULTS.budget, listingBudget = DEFAULTS.listingBudget, usage = NO_USAGE, search } = options;
  const room = Math.min(listingBudget, budget) * 4;
  const known = LISTS.get(catalog);
  const isSame = known?.room === room && known.search === search && isEqual(known.usage, usage);
  if (known && isSame && isEqual(known.visible, visible)) return known.listed;
  const listed = listWithin(visible, { room, usage, search });
  LISTS.set(catalog, { room, search, usage: [...usage], visible, listed });
  return listed;
}

/** The skills of packages whose files are named: they are not in the prefix, which no query changes. */
function listNearby(skills: readonly Skill[], options: DiscloseOptions): string {
  const { budget = DEFAULTS.budget, listingBudget = DEFAULTS.listingBudget, usage, search } = options;
  const room = Math.min(listingBudget, budget) * 4;
  return listWithin(skills, { room, usage, search, heading: "Skills for the files in question:" }).text;
}

const NO_USAGE: readonly string[] = [];
const LISTS = new WeakMap<
  Catalog,
  {
    room: number;
    search: string | undefined;
    usage: readonly string[];
    visible: readonly Skill[];
    listed: Listed;
  }
>();

function isEqual<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((item, index) => item === b[index]));
}

/** The matches by words that are named. Words are looked at only where they can name something. */
function shortlistFor(
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
  if (hasAll) return found.slice(0, SHORTLIST).filter(isNew);
  return isClear ? found.slice(0, 1).filter(isNew) : [];
}

interface Suffix {
  /** What comes before the shortlist where there is no prefix. */
  first: string;
  named: readonly Match[];
  full: FullText;
  /** In characters. */
  room: number;
  isAfter: boolean;
}

/** The full instructions have the room first; the shortlist has what is left. */
function suffixOf({ first, named, full, room, isAfter }: Suffix): { text: string; named: readonly Match[] } {
  const hasTexts = full.shown.length + full.noted.length > 0;
  let left = room - first.length - full.text.length - 1;
  const isNoteLeftOut = !hasTexts && left < 0; // The text is then a note on what has no room.
  left -= SHORTLIST_LINE.length + 2;
  const kept: Match[] = [];
  for (const match of named) {
    const { length } = bullet(match.skill);
    if (length + 1 > left) continue;
    left -= length + 1;
    kept.push(match);
  }
  const shortlist = kept.length === 0 ? [] : [SHORTLIST_LINE, ...kept.map(({ skill }) => bullet(skill))];
  const note = hasTexts || isNoteLeftOut ? "" : full.text;
  const lines = [first, ...shortlist, note].filter((line) => line !== "").join("\n");
  const text = [lines, hasTexts ? full.text : ""].filter((part) => part !== "").join("\n\n");
  return { text: isAfter && text !== "" ? `\n\n${text}` : text, named: kept };
}

const SHORTLIST_LINE = "These may fit. Take one, or none:";

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
const NOT_TRIGGERED = (matches: readonly Match[]) =>
  matches.some(({ level }) => level === "weak")
    ? "no trigger that matches is selective enough"
    : "nothing is triggered";
const ASKING = "the query asks what there is";

interface Scene {
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

function fullText(matches: readonly Match[], most: number, { query, room, hasMore, options }: Scene): FullText {
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
  const more = named.length > ALSO ? `, and ${hasMore ? "at least " : ""}${named.length - ALSO} more` : "";
  if (named.length > 0) add(`[Also matching, not shown: ${named.slice(0, ALSO).join(", ")}${more}]`);
  return { text: parts.join("\n\n"), shown, noted, left };
}

/** What is said of a skill that need not be told again, or cannot be told. */
function noteOn(skill: Skill, given: string | undefined, options: DiscloseOptions): string | undefined {
  const name = inLine(skill.name, 64);
  if (options.canFork && skill.manifest.context === "fork")
    return `[Skill ${name} runs on its own: load_skill runs it]`;
  const { remote } = skill.origin;
  if (remote && !isSafely(() => options.isLoaded?.(skill) ?? false))
    return `[Skill ${name} of MCP server ${inLine(remote.server, 64)} matches: load_skill fetches it]`;
  try {
    return !given && options.isLoaded?.(skill) ? `[Skill ${name} is already loaded in this conversation]` : undefined;
  } catch {
    return undefined;
  }
}

function isSafely(ask: () => boolean): boolean {
  try {
    return ask();
  } catch {
    return false; // Its instructions are not here.
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
export function argumentsIn(query: string, skill: Skill, reasons: Match["reasons"]): string | undefined {
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
