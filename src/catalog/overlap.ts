import { isInvocableBy, type Skill } from "../skill/skill.ts";
import { compareText } from "../util/text.ts";
import { createMatcher, type Match, type Matcher } from "./search/matcher.ts";
import { toTerm, visitWords } from "./search/tokenizer.ts";

/** Two skills whose descriptions compete for the same queries. */
export interface SkillOverlap {
  /** The skill to narrow: it takes more of the other one's queries than the reverse, and it is about more. */
  narrow: Skill;
  other: Skill;
  /** The similarity of the two texts, from 0 to 1. */
  similarity: number;
  /** The words that both texts share, the most distinctive first. */
  words: readonly string[];
  /** The queries of `other` (examples, otherwise sentences of its description) that `narrow` matches at least nearly as well. */
  taken: { queries: number; of: number };
  /** Words that only `narrow` has: its description can say that it is for these. */
  own: readonly string[];
}

/** Texts that are at least so similar compete, whatever the matching says. */
const CERTAIN_SIMILARITY = 0.72;
/** Texts below this similarity are not compared further. */
const MIN_SIMILARITY = 0.6;
/** Between the two, at least this share of the queries of one skill must be matched by the other. */
const MIN_TAKEN_SHARE = 0.6;
/** A skill that scores at least this part of the best one competes with it. */
const CLOSE_SCORE = 0.8;
/** Words in more skills than this connect no pair: the work stays linear in the number of skills. */
const MAX_POSTINGS = 200;
/** In a small catalog, a word that two of its skills share is still rare among all skills that there are. */
const MIN_CATALOG_SIZE = 200;
/** The most similar skills of each skill. */
const MAX_NEIGHBORS = 5;
const MAX_QUERIES = 12;
const MAX_WORDS = 8;
/** In a catalog of near-duplicates, only the queries of the most similar skills are ranked. */
const MAX_RANKED_QUERIES = 2000;

/** Finds pairs of skills that compete. Skills that a model may not invoke compete with no other. */
export async function findOverlaps(all: readonly Skill[]): Promise<SkillOverlap[]> {
  const skills = all.filter((skill) => isInvocableBy("model", skill));
  const vectors = createVectors(skills);
  const ranking: Ranking = { matches: new Map(), left: MAX_RANKED_QUERIES };
  const overlaps: SkillOverlap[] = [];
  for (const [first, second, similarity] of findSimilarPairs(vectors)) {
    const [a, b] = [skills[first] as Skill, skills[second] as Skill];
    ranking.matcher ??= createMatcher(skills);
    const [takenOfA, takenOfB] = [await countTaken(ranking, a, b), await countTaken(ranking, b, a)];
    const shares = [takenOfA, takenOfB].map(({ queries, of }) => (of === 0 ? 0 : queries / of)) as [number, number];
    if (similarity < CERTAIN_SIMILARITY && Math.max(...shares) < MIN_TAKEN_SHARE) continue;
    const [vectorA, vectorB] = [vectors[first] as TermVector, vectors[second] as TermVector];
    const [ownOfA, ownOfB] = [countOwnTerms(vectorA, vectorB), countOwnTerms(vectorB, vectorA)];
    // A skill that is about nothing else cannot be narrowed.
    const order = [Math.sign(ownOfA) - Math.sign(ownOfB), shares[1] - shares[0], ownOfA - ownOfB];
    const isFirst = (order.find((value) => value !== 0) ?? compareText(a.name, b.name)) > 0;
    const [narrow, other] = isFirst ? [vectorA, vectorB] : [vectorB, vectorA];
    overlaps.push({
      narrow: isFirst ? a : b,
      other: isFirst ? b : a,
      similarity,
      words: listTopTerms(narrow, (term) => other.weights.has(term)),
      taken: isFirst ? takenOfB : takenOfA,
      own: listTopTerms(narrow, (term) => !other.weights.has(term)),
    });
  }
  return overlaps.sort((a, b) => b.similarity - a.similarity || compareText(a.narrow.name, b.narrow.name));
}

interface TermVector {
  /** The weight of each term; the sum of their squares is 1. */
  weights: ReadonlyMap<string, number>;
  /** A word of the text for each term. */
  words: ReadonlyMap<string, string>;
}

function createVectors(skills: readonly Skill[]): TermVector[] {
  const documents = skills.map(({ name, description, manifest: { triggers } }) => {
    const counts = new Map<string, number>();
    const words = new Map<string, string>();
    const text = [name.replaceAll("-", " "), description, ...triggers.keywords].join("\n");
    visitWords(text, (word) => {
      const term = toTerm(word);
      if (term === undefined) return;
      counts.set(term, (counts.get(term) ?? 0) + 1);
      if (!words.has(term)) words.set(term, word);
    });
    return { counts, words };
  });
  const frequencies = new Map<string, number>();
  for (const { counts } of documents)
    for (const term of counts.keys()) frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
  const size = Math.max(skills.length, MIN_CATALOG_SIZE);
  const rarity = (term: string) => Math.log(1 + size / (frequencies.get(term) ?? 1));
  return documents.map(({ counts, words }) => {
    const raw = Array.from(counts, ([term, count]) => [term, (1 + Math.log(count)) * rarity(term)] as const);
    const length = Math.hypot(...raw.map(([, weight]) => weight)) || 1;
    return { weights: new Map(raw.map(([term, weight]) => [term, weight / length])), words };
  });
}

/** Finds the pairs of similar vectors: candidates share a word that few skills have. */
function findSimilarPairs(vectors: readonly TermVector[]): [first: number, second: number, similarity: number][] {
  const postings = new Map<string, number[]>();
  for (const [at, { weights }] of vectors.entries()) {
    for (const term of weights.keys()) {
      const list = postings.get(term);
      if (list) list.push(at);
      else postings.set(term, [at]);
    }
  }
  const pairs: [number, number, number][] = [];
  for (const [at, { weights }] of vectors.entries()) {
    const scores = new Map<number, number>();
    for (const [term, weight] of weights) {
      const list = postings.get(term) as number[];
      if (list.length > MAX_POSTINGS) continue;
      for (const other of list) {
        if (other <= at) continue;
        scores.set(other, (scores.get(other) ?? 0) + weight * (vectors[other]?.weights.get(term) as number));
      }
    }
    const nearest = [...scores].sort((a, b) => b[1] - a[1]).slice(0, MAX_NEIGHBORS);
    for (const [other] of nearest) {
      const similarity = computeSimilarity(weights, (vectors[other] as TermVector).weights);
      if (similarity >= MIN_SIMILARITY) pairs.push([at, other, similarity]);
    }
  }
  return pairs.sort((a, b) => b[2] - a[2]);
}

function computeSimilarity(a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const [term, weight] of a) sum += weight * (b.get(term) ?? 0);
  return sum;
}

/** Counts the queries of a skill for which another one is matched before it or nearly as well. */
async function countTaken(ranking: Ranking, skill: Skill, by: Skill): Promise<SkillOverlap["taken"]> {
  const ranked = ranking.matches.get(skill) ?? (await rankOwnQueries(ranking, skill));
  let taken = 0;
  for (const matches of ranked) {
    const [own, other] = [skill, by].map((one) => matches.findIndex((match) => match.skill === one)) as [
      number,
      number,
    ];
    if (other === -1) continue;
    const close = (matches[other]?.score ?? 0) >= (matches[own]?.score ?? 0) * CLOSE_SCORE;
    if (own === -1 || other < own || (matches[own]?.level === matches[other]?.level && close)) taken++;
  }
  return { queries: taken, of: ranked.length };
}

interface Ranking {
  matcher?: Matcher;
  /** The matches of each query of a skill. */
  matches: Map<Skill, readonly (readonly Match[])[]>;
  /** The number of queries that may still be ranked. */
  left: number;
}

/** Ranks the queries of a skill once. Beyond the limit a skill has none: only the similarity counts then. */
async function rankOwnQueries(ranking: Ranking, skill: Skill): Promise<readonly (readonly Match[])[]> {
  const examples = skill.examples().slice(0, MAX_QUERIES);
  const queries = examples.length > 0 ? examples : splitSentences(skill.description);
  const ranked: (readonly Match[])[] = [];
  for (const query of queries.slice(0, ranking.left)) {
    const found = await ranking.matcher?.match(query, { limit: 20 });
    ranked.push(found?.matches ?? []);
  }
  ranking.left -= ranked.length;
  ranking.matches.set(skill, ranked);
  return ranked;
}

function splitSentences(text: string): string[] {
  return text
    .split(/(?<=[.!?])\s+/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== "")
    .slice(0, MAX_QUERIES);
}

function countOwnTerms({ weights }: TermVector, other: TermVector): number {
  return [...weights.keys()].filter((term) => !other.weights.has(term)).length;
}

function listTopTerms({ weights, words }: TermVector, isListed: (term: string) => boolean): string[] {
  return [...weights]
    .filter(([term]) => isListed(term))
    .sort((a, b) => b[1] - a[1] || compareText(a[0], b[0]))
    .slice(0, MAX_WORDS)
    .map(([term]) => words.get(term) ?? term);
}
