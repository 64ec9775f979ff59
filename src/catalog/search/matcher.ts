import { isCommonWord } from "../../skill/common-words.ts";
import type { Skill } from "../../skill/skill.ts";
import { compareText } from "../../util/text.ts";
import { type Catalog, getSearchStore } from "../catalog.ts";
import { Bm25Index, type FieldWeight } from "./bm25f.ts";
import { FullTextSearch, type SearchResult } from "./full-text-search.ts";
import { FIELD_NAMES, unpackCount } from "./postings.ts";
import { PriorityQueue } from "./priority-queue.ts";
import { MAX_QUERY_LENGTH, parseQuery, truncateQuery } from "./query.ts";
import { readSearchableBody, SkillIndex } from "./search-index.ts";
import { extractTerms } from "./tokenizer.ts";
import { type TriggerHit, TriggerIndex, type TriggerKind } from "./trigger-index.ts";
import {
  createWeighedCue,
  OFFERED_WEIGHT,
  TriggerMatches,
  TriggerSelectivity,
  type TriggerWeight,
  WEAK,
  type WeighedCue,
} from "./trigger-weights.ts";

export { MAX_QUERY_LENGTH } from "./query.ts";
export { readSearchableBody } from "./search-index.ts";

/**
 * Strongest first. A skill at the level `weak` matches by triggers that are too common to select it. Like `words`, that ranks a
 * skill and never gives a model its instructions.
 */
export const MATCH_LEVELS = ["explicit", "phrase", "trigger", "weak", "words"] as const;
export type MatchLevel = (typeof MATCH_LEVELS)[number];

/** Whether a match at this level gives a model the skill's instructions. */
export function isSelectedMatch({ level }: Pick<Match, "level">): boolean {
  return level !== "weak" && level !== "words";
}

/** Why a skill matches: a trigger or a mention with its weight; words, or the meaning that an embedder saw, which have none. */
export interface MatchReason extends Partial<TriggerWeight> {
  kind: TriggerKind | "words" | "meaning";
  /** What was found: the cue as the skill declares it, or the words. */
  text: string;
}

export interface Match {
  skill: Skill;
  level: MatchLevel;
  /** That of the most selective reason; 0 for words alone. */
  weight: number;
  /** Those that select the skill first. */
  reasons: readonly MatchReason[];
  /** How well its words fit the query's. At the level `weak` also what its triggers add that are not words. */
  score: number;
  /** How many different words of the query stand in what it says of itself. */
  words: number;
  /** How much speaks for the skill by words, on one scale for catalogs of every size: `selectShortlist` offers it from 0.75 on. */
  fit: number;
}

export interface MatchOptions {
  /** Names of skills, the one used last first. */
  recent?: readonly string[];
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** How many matches by words alone. 10 when left out. */
  limit?: number;
  /** Also look into the instructions: they are read when this is first asked for. */
  bodies?: boolean;
  isVisible?: (skill: Skill) => boolean;
  /** Whether a person may call the skill by name. */
  isCallable?: (skill: Skill) => boolean;
}

export interface Matches {
  /**
   * Best first. Those at the levels `weak` and `words` are ranked together, by score. Of the skills that a trigger or a mention selects,
   * and of those at the level `weak`, at most 100 each.
   */
  matches: readonly Match[];
  /** More skills may match by their triggers. */
  hasMore: boolean;
  /** Skills that a cue speaks against. */
  against: readonly { skill: Skill; cue: string }[];
  /** The query was longer than what is looked at. */
  isCut: boolean;
}

export interface Matcher {
  /** The skills that have a trigger which can bring them before a model. One that cannot be used, or is a common word, does not count. */
  readonly triggered: ReadonlySet<Skill>;
  match(query: string, options?: MatchOptions): Matches;
  /** Which of the query's words stand in which field of the skill. */
  wordsIn(
    skill: Skill,
    query: string,
    options?: { bodies?: boolean },
  ): readonly { field: string; words: readonly string[] }[];
}

/** The name, description, triggers, examples and body of a skill, as the ranking weighs them. */
const FIELD_WEIGHTS: readonly FieldWeight[] = [
  { weight: 3, shortness: 0.3 },
  { weight: 1, shortness: 0.4 },
  { weight: 1, shortness: 0.3 },
  { weight: 0.6, shortness: 0.3 },
  { weight: 0, shortness: 0 },
];
/** With the instructions, rarity is that of the whole text, so a name and a description must weigh more to stay before it. */
const FIELD_WEIGHTS_WITH_BODY: readonly FieldWeight[] = [
  { weight: 6, shortness: 0.3 },
  { weight: 3, shortness: 0.4 },
  ...FIELD_WEIGHTS.slice(2, 4),
  { weight: 0.25, shortness: 0.75 },
];

/** How many skills are returned that cues select, and how many at the level `weak`. */
const MAX_MATCHES = 100;

/** Prepares skills for being matched. Contract: a matcher belongs to these skills as they are now. */
export function createMatcher(skills: readonly Skill[]): Matcher {
  const store = getSearchStore(skills);
  const textsOf = (at: number, hasBody: boolean) => {
    const skill = skills[at] as Skill;
    const fields = listFieldTexts(skill, index.cuesOf(at)?.examples ?? []);
    return hasBody ? [...fields, readSearchableBody(skill)] : fields;
  };
  const index = new SkillIndex(skills, textsOf, store);
  const cues = new TriggerIndex();
  for (const [at, { name }] of skills.entries()) cues.add(at, name, index.cuesOf(at));
  const triggered = memoize(() => new Set(skills.filter((_, at) => index.cuesOf(at)?.isTriggered)));
  const nameOf = (at: number) => (skills[at] as Skill).name;
  // Most queries need no words: a skill is triggered, or none is and nothing more is said. So the words wait until one does.
  const rank = memoize(() => new Bm25Index(index.own, FIELD_WEIGHTS));
  const wideRank = memoize(() => new Bm25Index(index.whole, FIELD_WEIGHTS_WITH_BODY));
  const search = memoize(() => new FullTextSearch(rank(), nameOf, false));
  const wideSearch = memoize(() => new FullTextSearch(wideRank(), nameOf, true));
  const selectivity = new TriggerSelectivity(skills.length, (at) => textsOf(at, false).join("\n"), rank);
  const weigh = weigherBy(selectivity, cues.size);
  const order = memoize(() => rankByName(skills));
  const compareNames = (a: number, b: number) => (order()[a] as number) - (order()[b] as number);
  const indexes = { skills, cues, search, wideSearch, weigh, compareNames };
  const places = memoize(() => new Map(skills.map((skill, at) => [skill, at])));
  return {
    get triggered() {
      return triggered();
    },
    match: (query, matchOptions = {}) => matchQuery(indexes, query, matchOptions),
    wordsIn(skill, query, { bodies: withBodies = false } = {}) {
      const wanted = parseQuery(query).words;
      const place = places().get(skill);
      const ranked = withBodies ? wideRank() : rank();
      return FIELD_NAMES.slice(0, withBodies ? 5 : 4).flatMap((field, at) => {
        const words =
          place === undefined
            ? [...new Set(extractTerms(getFieldText(skill, at)))].flatMap((term) => wanted.get(term)?.word ?? [])
            : Array.from(wanted.values()).flatMap(({ term, word }) =>
                unpackCount(ranked.countsIn(place, term), at) > 0 ? word : [],
              );
        return words.length === 0 ? [] : { field, words };
      });
    },
  };
}

interface MatcherIndexes {
  skills: readonly Skill[];
  cues: TriggerIndex;
  search(): FullTextSearch;
  wideSearch(): FullTextSearch;
  weigh: WeighCue;
  compareNames(a: number, b: number): number;
}

function matchQuery(indexes: MatcherIndexes, written: string, options: MatchOptions): Matches {
  const { skills } = indexes;
  const { recent = [], limit = 10, isVisible = () => true } = options;
  const query = truncateQuery(written);
  const { found, against } = weighTriggers(indexes, query, options);
  const accepts = (index: number) => !against.has(index) && isVisible(skills[index] as Skill);
  // What is triggered has the same order whether the instructions are looked into or not.
  const isOrdered = found.skills.length > 1 || limit > 0;
  const reading = isOrdered ? parseQuery(query) : undefined;
  const asking = { limit: options.bodies ? 0 : limit, always: found, accepts };
  const isWide = options.bodies === true && limit > 0;
  const own = reading && (!isWide || found.skills.length > 0) ? indexes.search().search(reading, asking) : NO_RESULT;
  const widest = reading && isWide ? indexes.wideSearch().search(reading, { ...asking, limit }) : own;
  const rarest = Math.log(1 + skills.length);
  const totalOf = (index: number) => (widest.scores[index] ?? 0) + (found.wordlessWeights[index] as number) * rarest;
  const selected = selectBest(found, (level) => level < WEAK, createStrengthOrder(indexes, found, own, recent));
  const weak = selectBest(
    found,
    (level) => level === WEAK,
    (a, b) => totalOf(b) - totalOf(a) || indexes.compareNames(a, b),
  );
  const matchOf = (index: number, { hitOf }: SearchResult): Match => {
    const { score = 0, words = 0, fit = 0 } = hitOf(index) ?? {};
    const [level, weight] = [MATCH_LEVELS[found.levels[index] as number] as MatchLevel, found.weights[index] as number];
    return { skill: skills[index] as Skill, level, weight, reasons: found.reasonsOf(index), score, words, fit };
  };
  const ranked = [
    ...weak.best.map((index): Match => ({ ...matchOf(index, widest), score: totalOf(index) })),
    ...widest.best.map(({ document, score, words, fit }): Match => {
      const reasons = [{ kind: "words" as const, text: widest.wordsIn(document).join(", ") }];
      return { skill: skills[document] as Skill, level: "words", weight: 0, reasons, score, words, fit };
    }),
  ];
  return {
    matches: [...selected.best.map((index) => matchOf(index, own)), ...ranked.sort(compareScore)],
    hasMore: selected.hasMore || weak.hasMore,
    against: Array.from(against, ([index, cue]) => ({ skill: skills[index] as Skill, cue })),
    isCut: written.length > MAX_QUERY_LENGTH,
  };
}

const NO_RESULT: SearchResult = {
  best: [],
  scores: new Float64Array(0),
  words: new Uint16Array(0),
  hitOf: () => undefined,
  wordsIn: () => [],
};

/** The best skills whose strongest cue has such a level. Patterns are run for these alone. */
function selectBest(
  found: TriggerMatches,
  isMeant: (level: number) => boolean,
  compare: (a: number, b: number) => number,
): { best: number[]; hasMore: boolean } {
  const isIn = (index: number) => isMeant(found.levels[index] as number);
  // A pattern that counts as one that matches may hide the level that the skill has without it.
  const candidates = found.skills.filter((index) => isIn(index) || found.isUnsure(index));
  const queue = new PriorityQueue(candidates, (a, b) => compare(a, b) || a - b);
  const best: number[] = [];
  while (best.length < MAX_MATCHES) {
    const index = queue.pop();
    if (index === undefined) break;
    const isUnsure = found.isUnsure(index);
    found.confirm(index);
    if (!isIn(index)) continue;
    // Without a pattern it may belong further down.
    if (isUnsure) queue.push(index);
    else best.push(index);
  }
  return { best, hasMore: queue.size > 0 };
}

/** The cues for each skill, and those against one, which leave it only its mentions. */
function weighTriggers({ skills, cues, weigh }: MatcherIndexes, query: string, options: MatchOptions) {
  const { files = [], isVisible = () => true, isCallable = () => true } = options;
  const found = new TriggerMatches(skills.length);
  const against = new Map<number, string>();
  cues.find(query, files, (cue, unsure) => {
    const isMeant = cue.kind === "mention" ? isCallable : isVisible;
    const weighed = cue.kind === "negative" ? undefined : weigh(cue);
    for (const index of cue.skills) {
      if (!isMeant(skills[index] as Skill)) continue;
      if (weighed) found.add(index, weighed, unsure);
      else against.set(index, cue.text);
    }
  });
  for (const index of against.keys()) found.keepMentions(index);
  return { found, against };
}

type WeighCue = (cue: TriggerHit) => WeighedCue;

/** Weighs cues. Skills that match by the same trigger share its reason, which is made once. */
function weigherBy(selectivity: TriggerSelectivity, cues: number): WeighCue {
  const known = new Array<WeighedCue | undefined>(cues);
  return ({ kind, text, isPassing, id }) => {
    const made = id === undefined ? undefined : known[id];
    if (made) return made;
    const cue = createWeighedCue(Object.freeze({ kind, text, ...selectivity.weigh(kind, text, isPassing) }));
    // Keeping the reason of a text that is a part of the query would keep the query.
    if (id !== undefined) known[id] = cue;
    return cue;
  };
}

/** The stronger level, then what was used more recently, then more words of the query, then the more selective trigger, then the name. */
function createStrengthOrder(
  { skills, compareNames }: MatcherIndexes,
  { levels, weights }: TriggerMatches,
  { words }: SearchResult,
  recent: readonly string[],
): (a: number, b: number) => number {
  const places = new Map(recent.map((name, place) => [name, place]));
  const place = (index: number) => places.get((skills[index] as Skill).name) ?? Number.MAX_SAFE_INTEGER;
  return (a, b) =>
    (levels[a] as number) - (levels[b] as number) ||
    (places.size === 0 ? 0 : place(a) - place(b)) ||
    (words[b] ?? 0) - (words[a] ?? 0) ||
    (weights[b] as number) - (weights[a] as number) ||
    compareNames(a, b);
}

/** For each skill its place by name. Thousands are compared for one query. */
function rankByName(skills: readonly Skill[]): Uint32Array {
  const sorted = Array.from(skills, ({ name }, index) => ({ name, index })).sort((a, b) => compareText(a.name, b.name));
  const places = new Uint32Array(skills.length);
  for (const [place, { name, index }] of sorted.entries()) {
    const before = sorted[place - 1];
    places[index] = before?.name === name ? (places[before.index] as number) : place;
  }
  return places;
}

function compareScore(a: Match, b: Match): number {
  return b.score - a.score || compareText(a.skill.name, b.skill.name);
}

function listFieldTexts({ name, description, manifest }: Skill, examples: readonly string[]): string[] {
  const { whenToUse, triggers } = manifest;
  // Few authors declare "write", so the ranking would take it for a rare word.
  const words = [...triggers.keywords, ...triggers.verbs].filter((text) => !isCommonWord(text.toLowerCase()));
  return [
    name,
    whenToUse ? `${description}\n${whenToUse}` : description,
    [...words, ...manifest.tags].join("\n"),
    examples.join("\n"),
  ];
}

function getFieldText(skill: Skill, field: number): string {
  return field === 4 ? readSearchableBody(skill) : (listFieldTexts(skill, skill.examples())[field] ?? "");
}

function memoize<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The matcher of a catalog, made when first needed and kept as long as the catalog is. */
export function getMatcher(catalog: Catalog): Matcher {
  const known = MATCHER_CACHE.get(catalog);
  if (known) return known;
  const matcher = createMatcher(catalog.skills);
  MATCHER_CACHE.set(catalog, matcher);
  return matcher;
}

const MATCHER_CACHE = new WeakMap<Catalog, Matcher>();

/** The skills that a query is probably about, by its words. */
export interface Shortlist {
  /** Best first, at most five. Empty where nothing fits well enough. */
  matches: readonly Match[];
  /** The first is relevant beyond doubt by the measured margin rule. */
  isClear: boolean;
}

const MAX_SHORTLIST = 5;
/** Calibrated on requests and unrelated prompts in catalogs of 7 to 10,000 skills: docs/disclosure.md has what it was measured to do. */
const SHORTLIST_FIT = 0.75;
/** The margin rule: the first fits this well, and its score is so many times that of the second. */
const CLEAR_FIT = 1.25;
const CLEAR_MARGIN = 1.6;

/**
 * Selects up to five matches by words that are worth showing to a model, and no more than `size`, or none: small talk and requests that no skill is for get an
 * empty list. Matches that were selected by a trigger or a mention are not in it.
 */
export function selectShortlist(matches: readonly Match[], query: string, size: number): Shortlist {
  const ranked = matches.filter((match) => !isSelectedMatch(match));
  if (ranked.length === 0 || parseQuery(query).words.size === 0) return EMPTY_SHORTLIST;
  const shown = ranked.filter(isOfferedMatch).slice(0, Math.min(MAX_SHORTLIST, size));
  const [first] = shown;
  if (!first) return EMPTY_SHORTLIST;
  const second = Math.max(0, ...ranked.flatMap((match) => (match === first ? [] : match.score)));
  return { matches: shown, isClear: first.fit >= CLEAR_FIT && first.score >= second * CLEAR_MARGIN };
}

const EMPTY_SHORTLIST: Shortlist = { matches: [], isClear: false };

/** By its words, or by a trigger that is too broad to give the instructions, such as a path. */
function isOfferedMatch({ level, weight, fit }: Match): boolean {
  return fit >= SHORTLIST_FIT || (level === "weak" && weight >= OFFERED_WEIGHT);
}
