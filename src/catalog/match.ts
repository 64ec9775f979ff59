import { byText } from "../shared/text.ts";
import { isCommonWord } from "../skill/common-words.ts";
import type { Skill } from "../skill/skill.ts";
import { CueIndex, type CueKind } from "./cues.ts";
import { FoundCues, WEAK, type WeighedReason } from "./found-cues.ts";
import { countIn, FIELD_NAMES } from "./postings.ts";
import { boundedQuery, LONGEST_QUERY, readQuery } from "./query.ts";
import { type Field, RankIndex } from "./rank.ts";
import { Search, type SearchResult } from "./search.ts";
import { searchStoreOf } from "./search-store.ts";
import { Selectivity, type TriggerWeight } from "./selectivity.ts";
import { bodyOf, SkillIndex } from "./skill-index.ts";
import { terms } from "./terms.ts";

export { bodyOf, LONGEST_QUERY };

/**
 * Strongest first. A skill at the level `weak` matches by triggers that are too common to select it. Like `words`, that ranks a
 * skill and never gives a model its instructions.
 */
export const LEVELS = ["explicit", "phrase", "trigger", "weak", "words"] as const;
export type Level = (typeof LEVELS)[number];

/** Whether a match at this level gives a model the skill's instructions. */
export function isSelected({ level }: Pick<Match, "level">): boolean {
  return level !== "weak" && level !== "words";
}

/** Why a skill matches: a trigger or a mention with its weight; words, or the meaning that an embedder saw, which have none. */
export interface Reason extends Partial<TriggerWeight> {
  kind: CueKind | "words" | "meaning";
  /** What was found: the cue as the skill declares it, or the words. */
  text: string;
}

export interface Match {
  skill: Skill;
  level: Level;
  /** That of the most selective reason; 0 for words alone. */
  weight: number;
  /** Those that select the skill first. */
  reasons: readonly Reason[];
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
const OWN: readonly Field[] = [
  { weight: 3, shortness: 0.3 },
  { weight: 1, shortness: 0.4 },
  { weight: 1, shortness: 0.3 },
  { weight: 0.6, shortness: 0.3 },
  { weight: 0, shortness: 0 },
];
/** With the instructions, rarity is that of the whole text, so a name and a description must weigh more to stay before it. */
const WITH_BODY: readonly Field[] = [
  { weight: 6, shortness: 0.3 },
  { weight: 3, shortness: 0.4 },
  ...OWN.slice(2, 4),
  { weight: 0.25, shortness: 0.75 },
];

/** How many skills are returned that cues select, and how many at the level `weak`. */
const MOST_MATCHES = 100;

/** Prepares skills for being matched. Contract: a matcher belongs to these skills as they are now. */
export function openMatcher(skills: readonly Skill[]): Matcher {
  const store = searchStoreOf(skills);
  const textsOf = (at: number, hasBody: boolean) => {
    const skill = skills[at] as Skill;
    const fields = fieldsOf(skill, index.cuesOf(at)?.examples ?? []);
    return hasBody ? [...fields, bodyOf(skill)] : fields;
  };
  const index = new SkillIndex(skills, textsOf, store);
  const cues = new CueIndex();
  for (const [at, { name }] of skills.entries()) cues.add(at, name, index.cuesOf(at));
  const triggered = once(() => new Set(skills.filter((_, at) => index.cuesOf(at)?.isTriggered)));
  const nameOf = (at: number) => (skills[at] as Skill).name;
  // Most queries need no words: a skill is triggered, or none is and nothing more is said. So the words wait until one does.
  const rank = once(() => new RankIndex(index.own, OWN));
  const wideRank = once(() => new RankIndex(index.whole, WITH_BODY));
  const search = once(() => new Search(rank(), nameOf, false));
  const wideSearch = once(() => new Search(wideRank(), nameOf, true));
  const selectivity = new Selectivity(skills.length, (at) => textsOf(at, false).join("\n"), rank);
  const reasonFor = reasonsBy(selectivity);
  const order = once(() => placesByName(skills));
  const compareNames = (a: number, b: number) => (order()[a] as number) - (order()[b] as number);
  const indexes = { skills, cues, search, wideSearch, reasonFor, compareNames };
  const places = once(() => new Map(skills.map((skill, at) => [skill, at])));
  return {
    get triggered() {
      return triggered();
    },
    match: (query, matchOptions = {}) => match(indexes, query, matchOptions),
    wordsIn(skill, query, { bodies: withBodies = false } = {}) {
      const wanted = readQuery(query).words;
      const place = places().get(skill);
      const ranked = withBodies ? wideRank() : rank();
      return FIELD_NAMES.slice(0, withBodies ? 5 : 4).flatMap((field, at) => {
        const words =
          place === undefined
            ? [...new Set(terms(textOfField(skill, at)))].flatMap((term) => wanted.get(term)?.word ?? [])
            : Array.from(wanted.values()).flatMap(({ term, word }) =>
                countIn(ranked.countsIn(place, term), at) > 0 ? word : [],
              );
        return words.length === 0 ? [] : { field, words };
      });
    },
  };
}

interface Indexes {
  skills: readonly Skill[];
  cues: CueIndex;
  search(): Search;
  wideSearch(): Search;
  reasonFor: ReasonFor;
  compareNames(a: number, b: number): number;
}

function match(indexes: Indexes, written: string, options: MatchOptions): Matches {
  const { skills } = indexes;
  const { recent = [], limit = 10, isVisible = () => true } = options;
  const query = boundedQuery(written);
  const { found, against } = weighCues(indexes, query, options);
  const accepts = (index: number) => !against.has(index) && isVisible(skills[index] as Skill);
  // What is triggered has the same order whether the instructions are looked into or not.
  const isOrdered = found.skills.length > 1 || limit > 0;
  const reading = isOrdered ? readQuery(query) : undefined;
  const asking = { limit: options.bodies ? 0 : limit, always: found, accepts };
  const isWide = options.bodies === true && limit > 0;
  const own =
    reading && (!isWide || found.skills.length > 0) ? indexes.search().search(reading, asking) : NOTHING_FOUND;
  const widest = reading && isWide ? indexes.wideSearch().search(reading, { ...asking, limit }) : own;
  const rarest = Math.log(1 + skills.length);
  const totalOf = (index: number) => (widest.scores[index] ?? 0) + (found.wordlessWeights[index] as number) * rarest;
  const selected = bestOf(found, (level) => level < WEAK, byStrength(indexes, found, own, recent));
  const weak = bestOf(
    found,
    (level) => level === WEAK,
    (a, b) => totalOf(b) - totalOf(a) || indexes.compareNames(a, b),
  );
  const matchOf = (index: number, { hitOf }: SearchResult): Match => {
    const { score = 0, words = 0, fit = 0 } = hitOf(index) ?? {};
    const [level, weight] = [LEVELS[found.levels[index] as number] as Level, found.weights[index] as number];
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
    matches: [...selected.best.map((index) => matchOf(index, own)), ...ranked.sort(byScore)],
    hasMore: selected.hasMore || weak.hasMore,
    against: Array.from(against, ([index, cue]) => ({ skill: skills[index] as Skill, cue })),
    isCut: written.length > LONGEST_QUERY,
  };
}

const NOTHING_FOUND: SearchResult = {
  best: [],
  scores: new Float64Array(0),
  words: new Uint16Array(0),
  hitOf: () => undefined,
  wordsIn: () => [],
};

/** The best skills whose strongest cue has such a level. Patterns are run for these alone. */
function bestOf(
  found: FoundCues,
  isMeant: (level: number) => boolean,
  compare: (a: number, b: number) => number,
): { best: number[]; hasMore: boolean } {
  const isIn = (index: number) => isMeant(found.levels[index] as number);
  // A pattern that counts as one that matches may hide the level that the skill has without it.
  const skills = found.skills.filter((index) => isIn(index) || found.isUnsure(index)).sort(compare);
  const best: number[] = [];
  let at = 0;
  for (; at < skills.length && best.length < MOST_MATCHES; at++) {
    const index = skills[at] as number;
    const isUnsure = found.isUnsure(index);
    found.confirm(index);
    if (!isIn(index)) continue;
    // Without a pattern it may belong further down.
    const place = isUnsure ? placeAfter(skills, at, compare) : at;
    if (place === at) best.push(index);
    else skills.splice(place + 1, 0, index);
  }
  return { best, hasMore: at < skills.length };
}

/** The last of the numbers in ascending order that comes before the one at a place, as it compares now; that place when none does. */
function placeAfter(numbers: readonly number[], at: number, compare: (a: number, b: number) => number): number {
  let [low, high] = [at, numbers.length];
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (compare(numbers[middle] as number, numbers[at] as number) < 0) low = middle;
    else high = middle;
  }
  return low;
}

/** The cues for each skill, and those against one, which leave it only its mentions. */
function weighCues({ skills, cues, reasonFor }: Indexes, query: string, options: MatchOptions) {
  const { files = [], isVisible = () => true, isCallable = () => true } = options;
  const found = new FoundCues(skills.length);
  const against = new Map<number, string>();
  cues.find(query, files, (index, kind, text, isPassing, unsure) => {
    const skill = skills[index] as Skill;
    if (kind === "mention" ? !isCallable(skill) : !isVisible(skill)) return;
    if (kind === "negative") against.set(index, text);
    else found.add(index, reasonFor(kind, text, isPassing), unsure);
  });
  for (const index of against.keys()) found.keepMentions(index);
  return { found, against };
}

type ReasonFor = (kind: CueKind, text: string, isPassing: boolean) => WeighedReason;

/** Weighs cues. Skills that match by the same trigger share its reason, which is made once. */
function reasonsBy(selectivity: Selectivity): ReasonFor {
  const known = new Map<CueKind, Map<string, WeighedReason>>();
  const reasonFor: ReasonFor = (kind, text, isPassing) => {
    // The text of these is a part of the query, so that keeping them would keep the queries.
    if (kind === "mention" || kind === "name" || kind === "example")
      return { kind, text, ...selectivity.weigh(kind, text, isPassing) };
    let ofKind = known.get(kind);
    if (!ofKind) {
      ofKind = new Map();
      known.set(kind, ofKind);
    }
    let reason = ofKind.get(text);
    if (!reason) {
      reason = Object.freeze({ kind, text, ...selectivity.weigh(kind, text, isPassing) });
      ofKind.set(text, reason);
    }
    return reason;
  };
  return reasonFor;
}

/** The stronger level, then what was used more recently, then more words of the query, then the more selective trigger, then the name. */
function byStrength(
  { skills, compareNames }: Indexes,
  { levels, weights }: FoundCues,
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
function placesByName(skills: readonly Skill[]): Uint32Array {
  const sorted = Array.from(skills, ({ name }, index) => ({ name, index })).sort((a, b) => byText(a.name, b.name));
  const places = new Uint32Array(skills.length);
  for (const [place, { name, index }] of sorted.entries()) {
    const before = sorted[place - 1];
    places[index] = before?.name === name ? (places[before.index] as number) : place;
  }
  return places;
}

function byScore(a: Match, b: Match): number {
  return b.score - a.score || byText(a.skill.name, b.skill.name);
}

function fieldsOf({ name, description, manifest }: Skill, examples: readonly string[]): string[] {
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

function textOfField(skill: Skill, field: number): string {
  return field === 4 ? bodyOf(skill) : (fieldsOf(skill, skill.examples())[field] ?? "");
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
