import { isCommonWord } from "../../skill/common-words.ts";
import type { Skill } from "../../skill/skill.ts";
import { compareText } from "../../util/text.ts";
import { type Catalog, getSearchStore } from "../catalog.ts";
import { Bm25Index, type FieldWeight } from "./bm25f.ts";
import { FullTextSearch, type SearchResult } from "./full-text-search.ts";
import { FIELD_NAMES, unpackCount } from "./postings.ts";
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
 * Strongest first. A skill at the level `weak` matches by triggers that are too common to select it. Like `words`, that level ranks a skill
 * and never gives a model its instructions.
 */
export const MATCH_LEVELS = ["explicit", "phrase", "trigger", "weak", "words"] as const;
export type MatchLevel = (typeof MATCH_LEVELS)[number];

/** Returns true if a match gives a model the skill's instructions. */
export function isSelectedMatch({ level }: Pick<Match, "level">): boolean {
  return level !== "weak" && level !== "words";
}

/** The reason for a match: a trigger or mention with its weight; words or an embedder's meaning have no weight. */
export interface MatchReason extends Partial<TriggerWeight> {
  kind: TriggerKind | "words" | "meaning";
  /** The matched text: the cue as the skill declares it, or the words. */
  text: string;
}

export interface Match {
  skill: Skill;
  level: MatchLevel;
  /** The weight of the most selective reason; 0 for words alone. */
  weight: number;
  /** Selecting reasons first. */
  reasons: readonly MatchReason[];
  /** How well its words match the query. At the level `weak`, includes the weight of triggers that are not words. */
  score: number;
  /** The number of distinct query words in its texts. */
  words: number;
  /** How well it fits by words, on one scale for catalogs of every size: `selectShortlist` offers it from 0.75 on. */
  fit: number;
}

export interface MatchOptions {
  /** Names of skills, the last used first. */
  recent?: readonly string[];
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** The maximum number of matches by words alone. Defaults to 10. */
  limit?: number;
  /** Set to search the instructions too: they are read when this is first used. */
  bodies?: boolean;
  isVisible?: (skill: Skill) => boolean;
  /** Returns true if a user may call the skill by name. */
  isCallable?: (skill: Skill) => boolean;
}

export interface Matches {
  /**
   * Best first. The levels `weak` and `words` are ranked together, by score. At most 100 skills are selected by triggers and mentions, and at
   * most 100 are at the level `weak`.
   */
  matches: readonly Match[];
  /** True if more skills may match by their triggers. */
  hasMore: boolean;
  /** Skills excluded by a negative cue. */
  rejected: readonly { skill: Skill; cue: string }[];
  /** True if the query was longer than the part that is matched. */
  isCut: boolean;
}

export interface Matcher {
  /** The skills with a trigger that can select or offer them. Unusable triggers and common words do not count. */
  readonly triggered: ReadonlySet<Skill>;
  match(query: string, options?: MatchOptions): Promise<Matches>;
  /** Returns the query words in each field of the skill. */
  wordsIn(
    skill: Skill,
    query: string,
    options?: { bodies?: boolean },
  ): Promise<readonly { field: string; words: readonly string[] }[]>;
}

/** The weights of name, description, triggers, examples and body in the ranking. */
const FIELD_WEIGHTS: readonly FieldWeight[] = [
  { weight: 3, shortness: 0.3 },
  { weight: 1, shortness: 0.4 },
  { weight: 1, shortness: 0.3 },
  { weight: 0.6, shortness: 0.3 },
  { weight: 0, shortness: 0 },
];
/** With the instructions, rarity is that of the whole text, so name and description need a higher weight to stay ahead. */
const FIELD_WEIGHTS_WITH_BODY: readonly FieldWeight[] = [
  { weight: 6, shortness: 0.3 },
  { weight: 3, shortness: 0.4 },
  ...FIELD_WEIGHTS.slice(2, 4),
  { weight: 0.25, shortness: 0.75 },
];

/** The maximum number of skills selected by cues, and of skills at the level `weak`. */
const MAX_MATCHES = 100;

/** Prepares skills for matching. Contract: a matcher belongs to these skills as they are now. */
export function createMatcher(skills: readonly Skill[]): Matcher {
  const store = getSearchStore(skills);
  const textsOf = (at: number) => listFieldTexts(skills[at] as Skill, index.cuesOf(at)?.examples ?? []);
  const index = new SkillIndex(skills, textsOf, store);
  const cues = new TriggerIndex();
  for (const [at, { name }] of skills.entries()) cues.add(at, name, index.cuesOf(at));
  const triggered = memoize(() => new Set(skills.filter((_, at) => index.cuesOf(at)?.isTriggered)));
  const nameOf = (at: number) => (skills[at] as Skill).name;
  // Lazy: most queries do not need the word index, because a skill is triggered or nothing is shown.
  const rank = memoize(() => new Bm25Index(index.own, FIELD_WEIGHTS));
  const wideRank = memoize(async () => new Bm25Index(await index.readWhole(), FIELD_WEIGHTS_WITH_BODY));
  const search = memoize(() => new FullTextSearch(rank(), nameOf, false));
  const wideSearch = memoize(async () => new FullTextSearch(await wideRank(), nameOf, true));
  const selectivity = new TriggerSelectivity(skills.length, (at) => textsOf(at).join("\n"), rank);
  const weigh = createCueWeigher(selectivity, cues.size);
  const order = memoize(() => rankByName(skills));
  const compareNames = (a: number, b: number) => (order()[a] as number) - (order()[b] as number);
  const indexes = { skills, cues, search, wideSearch, weigh, compareNames };
  const places = memoize(() => new Map(skills.map((skill, at) => [skill, at])));
  return {
    get triggered() {
      return triggered();
    },
    match: (query, matchOptions = {}) => matchQuery(indexes, query, matchOptions),
    async wordsIn(skill, query, { bodies: withBodies = false } = {}) {
      const wanted = parseQuery(query).words;
      const index = places().get(skill);
      const ranked = withBodies ? await wideRank() : rank();
      const body = withBodies && index === undefined ? await readSearchableBody(skill) : "";
      return FIELD_NAMES.slice(0, withBodies ? 5 : 4).flatMap((field, at) => {
        const words =
          index === undefined
            ? [...new Set(extractTerms(getFieldText(skill, body, at)))].flatMap((term) => wanted.get(term)?.word ?? [])
            : Array.from(wanted.values()).flatMap(({ term, word }) =>
                unpackCount(ranked.countsIn(index, term), at) > 0 ? word : [],
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
  wideSearch(): Promise<FullTextSearch>;
  weigh: WeighCue;
  compareNames(a: number, b: number): number;
}

async function matchQuery(indexes: MatcherIndexes, fullQuery: string, options: MatchOptions): Promise<Matches> {
  const { skills } = indexes;
  const { recent = [], limit = 10, isVisible = () => true } = options;
  const query = truncateQuery(fullQuery);
  const { found, against } = weighTriggers(indexes, query, options);
  const accepts = (index: number) => !against.has(index) && isVisible(skills[index] as Skill);
  // The order of triggered skills does not depend on searching the instructions.
  const isOrdered = found.skills.length > 1 || limit > 0;
  const parsed = isOrdered ? parseQuery(query) : undefined;
  const searchOptions = { limit: options.bodies ? 0 : limit, always: found, accepts };
  const isWide = options.bodies === true && limit > 0;
  const own =
    parsed && (!isWide || found.skills.length > 0) ? indexes.search().search(parsed, searchOptions) : NO_RESULT;
  const widest = parsed && isWide ? (await indexes.wideSearch()).search(parsed, { ...searchOptions, limit }) : own;
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
    rejected: Array.from(against, ([index, cue]) => ({ skill: skills[index] as Skill, cue })),
    isCut: fullQuery.length > MAX_QUERY_LENGTH,
  };
}

const NO_RESULT: SearchResult = {
  best: [],
  scores: new Float64Array(0),
  words: new Uint16Array(0),
  hitOf: () => undefined,
  wordsIn: () => [],
};

/** Selects the best skills whose strongest cue has a matching level. Patterns are run for these alone. */
function selectBest(
  found: TriggerMatches,
  hasLevel: (level: number) => boolean,
  compare: (a: number, b: number) => number,
): { best: number[]; hasMore: boolean } {
  const isCandidate = (index: number) => hasLevel(found.levels[index] as number);
  // An unverified pattern may hide the level that the skill has without it.
  const candidates = found.skills.filter((index) => isCandidate(index) || found.isUnsure(index));
  const queue = new PriorityQueue(candidates, (a, b) => compare(a, b) || a - b);
  const best: number[] = [];
  while (best.length < MAX_MATCHES) {
    const index = queue.pop();
    if (index === undefined) break;
    const isUnsure = found.isUnsure(index);
    found.confirm(index);
    if (!isCandidate(index)) continue;
    // Without the pattern it may rank lower.
    if (isUnsure) queue.push(index);
    else best.push(index);
  }
  return { best, hasMore: queue.size > 0 };
}

/** Collects the weighed cues of each skill. A skill with a negative cue keeps only its mentions. */
function weighTriggers({ skills, cues, weigh }: MatcherIndexes, query: string, options: MatchOptions) {
  const { files = [], isVisible = () => true, isCallable = () => true } = options;
  const found = new TriggerMatches(skills.length);
  const against = new Map<number, string>();
  cues.find(query, files, (cue, unsure) => {
    const isAllowed = cue.kind === "mention" ? isCallable : isVisible;
    const weighed = cue.kind === "negative" ? undefined : weigh(cue);
    for (const index of cue.skills) {
      if (!isAllowed(skills[index] as Skill)) continue;
      if (weighed) found.add(index, weighed, unsure);
      else against.set(index, cue.text);
    }
  });
  for (const index of against.keys()) found.keepMentions(index);
  return { found, against };
}

type WeighCue = (cue: TriggerHit) => WeighedCue;

/** Creates the function that weighs cues. Skills that match by the same trigger share one reason object. */
function createCueWeigher(selectivity: TriggerSelectivity, cues: number): WeighCue {
  const known = new Array<WeighedCue | undefined>(cues);
  return ({ kind, text, isPassing, id }) => {
    const made = id === undefined ? undefined : known[id];
    if (made) return made;
    const cue = createWeighedCue(Object.freeze({ kind, text, ...selectivity.weigh(kind, text, isPassing) }));
    // A text that is part of the query is not cached: it would keep the query in memory.
    if (id !== undefined) known[id] = cue;
    return cue;
  };
}

/** Orders by level, then recent use, then number of query words, then selectivity of the trigger, then name. */
function createStrengthOrder(
  { skills, compareNames }: MatcherIndexes,
  { levels, weights }: TriggerMatches,
  { words }: SearchResult,
  recent: readonly string[],
): (a: number, b: number) => number {
  const positions = new Map(recent.map((name, index) => [name, index]));
  const place = (index: number) => positions.get((skills[index] as Skill).name) ?? Number.MAX_SAFE_INTEGER;
  return (a, b) =>
    (levels[a] as number) - (levels[b] as number) ||
    (positions.size === 0 ? 0 : place(a) - place(b)) ||
    (words[b] ?? 0) - (words[a] ?? 0) ||
    (weights[b] as number) - (weights[a] as number) ||
    compareNames(a, b);
}

/** Returns the rank of each skill by name. Thousands are compared for one query. */
function rankByName(skills: readonly Skill[]): Uint32Array {
  const sorted = Array.from(skills, ({ name }, index) => ({ name, index })).sort((a, b) => compareText(a.name, b.name));
  const places = new Uint32Array(skills.length);
  for (const [position, { name, index }] of sorted.entries()) {
    const before = sorted[position - 1];
    places[index] = before?.name === name ? (places[before.index] as number) : position;
  }
  return places;
}

function compareScore(a: Match, b: Match): number {
  return b.score - a.score || compareText(a.skill.name, b.skill.name);
}

function listFieldTexts({ name, description, manifest }: Skill, examples: readonly string[]): string[] {
  const { whenToUse, triggers } = manifest;
  // Few authors declare "write", so the ranking would consider it a rare word.
  const words = [...triggers.keywords, ...triggers.verbs].filter((text) => !isCommonWord(text.toLowerCase()));
  return [
    name,
    whenToUse ? `${description}\n${whenToUse}` : description,
    [...words, ...manifest.tags].join("\n"),
    examples.join("\n"),
  ];
}

function getFieldText(skill: Skill, body: string, field: number): string {
  return field === 4 ? body : (listFieldTexts(skill, skill.examples())[field] ?? "");
}

function memoize<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** Returns the matcher of a catalog, created on first use and cached with the catalog. */
export function getMatcher(catalog: Catalog): Matcher {
  const known = MATCHER_CACHE.get(catalog);
  if (known) return known;
  const matcher = createMatcher(catalog.skills);
  MATCHER_CACHE.set(catalog, matcher);
  return matcher;
}

const MATCHER_CACHE = new WeakMap<Catalog, Matcher>();

/** The skills that probably match a query, by its words. */
export interface Shortlist {
  /** Best first, at most five. Empty if nothing fits well enough. */
  matches: readonly Match[];
  /** True if the first is clearly relevant, by the measured margin rule. */
  isClear: boolean;
}

const MAX_SHORTLIST = 5;
/** Calibrated on requests and unrelated prompts in catalogs of 7 to 10,000 skills: see docs/disclosure.md for the results. */
const SHORTLIST_FIT = 0.75;
/** The margin rule: the first has this fit, and its score exceeds the second's by this factor. */
const CLEAR_FIT = 1.25;
const CLEAR_MARGIN = 1.6;

/**
 * Selects up to five matches by words to show to a model, at most `size`. Small talk and requests that match no skill get an empty list.
 * Excludes matches that were selected by a trigger or a mention.
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

/** Matches by words, or by a trigger that is too broad for full instructions, such as a path. */
function isOfferedMatch({ level, weight, fit }: Match): boolean {
  return fit >= SHORTLIST_FIT || (level === "weak" && weight >= OFFERED_WEIGHT);
}

/**
 * A binary heap of numbers. If only a few of thousands are taken, the others are never sorted. Contract: the order of a number in the queue
 * does not change.
 */
export class PriorityQueue {
  readonly #heap: number[];
  readonly #compare: (a: number, b: number) => number;

  /** Contract: the queue takes ownership of the array. */
  constructor(numbers: number[], compare: (a: number, b: number) => number) {
    this.#heap = numbers;
    this.#compare = compare;
    for (let at = (numbers.length >>> 1) - 1; at >= 0; at--) this.#sink(at, numbers[at] as number);
  }

  get size(): number {
    return this.#heap.length;
  }

  push(number: number): void {
    const heap = this.#heap;
    let at = heap.push(number) - 1;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      if (this.#compare(heap[above] as number, number) <= 0) break;
      heap[at] = heap[above] as number;
      at = above;
    }
    heap[at] = number;
  }

  /** Removes the first number and returns it. */
  pop(): number | undefined {
    const first = this.#heap[0];
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) this.#sink(0, last);
    return first;
  }

  /** Puts a number at an index, or below it while smaller ones exist. */
  #sink(from: number, number: number): void {
    const heap = this.#heap;
    let at = from;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const next = below + 1;
      if (next < heap.length && this.#compare(heap[next] as number, heap[below] as number) < 0) below = next;
      if (this.#compare(number, heap[below] as number) <= 0) break;
      heap[at] = heap[below] as number;
      at = below;
    }
    heap[at] = number;
  }
}
