import type { Skill } from "../../skill/skill.ts";
import { compareText } from "../../util/text.ts";
import {
  createMatcher,
  isSelectedMatch,
  type Match,
  type Matcher,
  type Matches,
  type MatchOptions,
} from "./matcher.ts";
import { truncateQuery } from "./query.ts";

/** Turns texts into vectors, by a model that the embedding program provides. */
export interface Embedder {
  /** Returns a vector for each text, all of one length. */
  embed(texts: readonly string[]): Promise<readonly ArrayLike<number>[]>;
}

export interface EmbeddedMatches extends Matches {
  /** The embedder's error, if the ranking is by words alone. */
  problem?: string;
}

export interface EmbeddedMatcher {
  match(query: string, options?: MatchOptions): Promise<EmbeddedMatches>;
}

/**
 * Creates a matcher that ranks by words and by an embedder's vectors. Triggers and mentions still come first, as in `createMatcher`. Skills
 * are embedded by name and description when a query first needs it.
 *
 * @example
 * const matcher = createEmbeddedMatcher(catalog.skills, { embed: (texts) => myModel.embed(texts) });
 * const { matches } = await matcher.match("turn the notes into slides");
 */
export function createEmbeddedMatcher(
  skills: readonly Skill[],
  embedder: Embedder,
  words: Matcher = createMatcher(skills),
): EmbeddedMatcher {
  let vectors: Promise<readonly Float64Array[]> | undefined;
  const embedSkills = async () => {
    vectors ??= embedAll(embedder, skills.map(formatEmbeddingText));
    try {
      return await vectors;
    } catch (error) {
      vectors = undefined; // The next query tries again.
      throw error;
    }
  };
  return {
    async match(query, options = {}) {
      const { limit = 10, bodies = true } = options;
      const found = await words.match(query, {
        ...options,
        bodies,
        limit: limit === 0 ? 0 : Math.max(limit, MAX_FUSED),
      });
      if (limit === 0) return found;
      try {
        const [own, [queryVector]] = [await embedSkills(), await embedAll(embedder, [truncateQuery(query)])];
        return {
          ...found,
          matches: fuseRankings(found, findNearestSkills(queryVector, own, skills, found, options), limit),
        };
      } catch (error) {
        const problem = error instanceof Error ? error.message : String(error);
        return { ...found, matches: limitMatches(found.matches, limit), problem };
      }
    },
  };
}

/** The number of results by words and by vectors to fuse, and the offset that reduces the weight of the first ranks. */
const MAX_FUSED = 50;
const RANK_OFFSET = 10;
const BATCH_SIZE = 64;

function formatEmbeddingText({ name, description, manifest: { whenToUse } }: Skill): string {
  return [`${name.replaceAll(/[-_]/g, " ")}: ${description}`, whenToUse ?? ""].join("\n").trim();
}

async function embedAll(embedder: Embedder, texts: readonly string[]): Promise<Float64Array[]> {
  const vectors: Float64Array[] = [];
  for (let at = 0; at < texts.length; at += BATCH_SIZE) {
    const part = texts.slice(at, at + BATCH_SIZE);
    const embedded = await embedder.embed(part);
    if (embedded.length !== part.length)
      throw new Error(`the embedder returned ${embedded.length} vectors for ${part.length} texts`);
    for (const vector of embedded) vectors.push(normalizeVector(vector));
  }
  return vectors;
}

function normalizeVector(vector: ArrayLike<number>): Float64Array {
  const copy = Float64Array.from(vector);
  const length = Math.sqrt(copy.reduce((sum, value) => sum + value * value, 0));
  if (!Number.isFinite(length)) throw new Error("the embedder returned a vector that contains a non-finite number");
  return length === 0 ? copy : copy.map((value) => value / length);
}

/** Returns the skills with the nearest vectors, nearest first, except those that are rejected or not visible. */
function findNearestSkills(
  queryVector: Float64Array | undefined,
  own: readonly Float64Array[],
  skills: readonly Skill[],
  { rejected }: Matches,
  { isVisible = () => true }: MatchOptions,
): readonly Skill[] {
  const refused = new Set(rejected.map(({ skill }) => skill));
  const near = own.flatMap((vector, at) => {
    const skill = skills[at] as Skill;
    const closeness = queryVector ? computeDotProduct(queryVector, vector) : 0;
    return closeness > 0 && !refused.has(skill) && isVisible(skill) ? { skill, closeness } : [];
  });
  near.sort((a, b) => b.closeness - a.closeness || compareText(a.skill.name, b.skill.name));
  return near.slice(0, MAX_FUSED).map(({ skill }) => skill);
}

function computeDotProduct(a: Float64Array, b: Float64Array): number {
  if (a.length !== b.length) throw new Error(`the embedder returned vectors of ${a.length} and ${b.length} numbers`);
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += (a[at] as number) * (b[at] as number);
  return sum;
}

/** Reciprocal rank fusion: uses ranks, because the scores have no common scale. */
function fuseRankings({ matches }: Matches, near: readonly Skill[], limit: number): readonly Match[] {
  const ranked = matches.filter((match) => !isSelectedMatch(match));
  const selected = matches.filter(isSelectedMatch);
  const taken = new Set(selected.map(({ skill }) => skill));
  const places = new Map<Skill, number>();
  const add = (skill: Skill, index: number) => places.set(skill, (places.get(skill) ?? 0) + 1 / (RANK_OFFSET + index));
  for (const [index, { skill }] of ranked.entries()) add(skill, index);
  for (const [index, skill] of near.entries()) if (!taken.has(skill)) add(skill, index);
  const known = new Map(ranked.map((match) => [match.skill, match]));
  const byMeaning = new Set(near);
  const fused = Array.from(places, ([skill, score]): Match => {
    const match = known.get(skill) ?? { skill, level: "words", weight: 0, reasons: [], score: 0, words: 0, fit: 0 };
    const reasons = byMeaning.has(skill) ? [...match.reasons, MEANING_REASON] : match.reasons;
    return { ...match, reasons, score };
  });
  fused.sort((a, b) => b.score - a.score || compareText(a.skill.name, b.skill.name));
  return [...selected, ...fused.slice(0, limit)];
}

const MEANING_REASON = { kind: "meaning", text: "its description" } as const;

function limitMatches(matches: readonly Match[], limit: number): readonly Match[] {
  const ranked = matches.filter((match) => !isSelectedMatch(match)).slice(0, limit);
  return [...matches.filter(isSelectedMatch), ...ranked];
}
