import { byText } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { isSelected, type Match, type Matcher, type Matches, type MatchOptions, openMatcher } from "./match.ts";
import { boundedQuery } from "./query.ts";

/** Turns texts into vectors, by a model that the embedding program provides. */
export interface Embedder {
  /** Returns a vector for each text, all of one length. */
  embed(texts: readonly string[]): Promise<readonly ArrayLike<number>[]>;
}

export interface EmbeddedMatches extends Matches {
  /** Why the ranking is by words alone: the embedder failed. */
  problem?: string;
}

export interface EmbeddedMatcher {
  match(query: string, options?: MatchOptions): Promise<EmbeddedMatches>;
}

/**
 * Creates a matcher that ranks by words and by an embedder's vectors. Triggers and mentions stay first, as in `openMatcher`. Skills are embedded
 * when a query first needs it, by name and description.
 *
 * @example
 * const matcher = createEmbeddedMatcher(catalog.skills, { embed: (texts) => myModel.embed(texts) });
 * const { matches } = await matcher.match("turn the notes into slides");
 */
export function createEmbeddedMatcher(
  skills: readonly Skill[],
  embedder: Embedder,
  words: Matcher = openMatcher(skills),
): EmbeddedMatcher {
  let vectors: Promise<readonly Float64Array[]> | undefined;
  const embedSkills = async () => {
    vectors ??= embedAll(embedder, skills.map(textOf));
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
      const found = words.match(query, { ...options, bodies, limit: limit === 0 ? 0 : Math.max(limit, FUSED) });
      if (limit === 0) return found;
      try {
        const [own, [asked]] = [await embedSkills(), await embedAll(embedder, [boundedQuery(query)])];
        return { ...found, matches: fuse(found, nearestTo(asked, own, skills, found, options), limit) };
      } catch (error) {
        const problem = error instanceof Error ? error.message : String(error);
        return { ...found, matches: cut(found.matches, limit), problem };
      }
    },
  };
}

/** How many of the best by words and by vectors are put together, and how much the first places count beside later ones. */
const FUSED = 50;
const RANK_OFFSET = 10;
const BATCH = 64;

function textOf({ name, description, manifest: { whenToUse } }: Skill): string {
  return [`${name.replaceAll(/[-_]/g, " ")}: ${description}`, whenToUse ?? ""].join("\n").trim();
}

async function embedAll(embedder: Embedder, texts: readonly string[]): Promise<Float64Array[]> {
  const vectors: Float64Array[] = [];
  for (let at = 0; at < texts.length; at += BATCH) {
    const part = texts.slice(at, at + BATCH);
    const embedded = await embedder.embed(part);
    if (embedded.length !== part.length)
      throw new Error(`the embedder returned ${embedded.length} vectors for ${part.length} texts`);
    for (const vector of embedded) vectors.push(normalized(vector));
  }
  return vectors;
}

function normalized(vector: ArrayLike<number>): Float64Array {
  const copy = Float64Array.from(vector);
  const length = Math.sqrt(copy.reduce((sum, value) => sum + value * value, 0));
  if (!Number.isFinite(length)) throw new Error("the embedder returned a vector that is not made of numbers");
  return length === 0 ? copy : copy.map((value) => value / length);
}

/** The skills with the nearest vectors, nearest first, without those that a cue speaks against or that are not visible. */
function nearestTo(
  asked: Float64Array | undefined,
  own: readonly Float64Array[],
  skills: readonly Skill[],
  { against }: Matches,
  { isVisible = () => true }: MatchOptions,
): readonly Skill[] {
  const refused = new Set(against.map(({ skill }) => skill));
  const near = own.flatMap((vector, at) => {
    const skill = skills[at] as Skill;
    const closeness = asked ? product(asked, vector) : 0;
    return closeness > 0 && !refused.has(skill) && isVisible(skill) ? { skill, closeness } : [];
  });
  near.sort((a, b) => b.closeness - a.closeness || byText(a.skill.name, b.skill.name));
  return near.slice(0, FUSED).map(({ skill }) => skill);
}

function product(a: Float64Array, b: Float64Array): number {
  if (a.length !== b.length) throw new Error(`the embedder returned vectors of ${a.length} and ${b.length} numbers`);
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += (a[at] as number) * (b[at] as number);
  return sum;
}

/** Reciprocal rank fusion: places count and not scores, which have no scale in common. */
function fuse({ matches }: Matches, near: readonly Skill[], limit: number): readonly Match[] {
  const ranked = matches.filter((match) => !isSelected(match));
  const selected = matches.filter(isSelected);
  const taken = new Set(selected.map(({ skill }) => skill));
  const places = new Map<Skill, number>();
  const add = (skill: Skill, place: number) => places.set(skill, (places.get(skill) ?? 0) + 1 / (RANK_OFFSET + place));
  for (const [place, { skill }] of ranked.entries()) add(skill, place);
  for (const [place, skill] of near.entries()) if (!taken.has(skill)) add(skill, place);
  const known = new Map(ranked.map((match) => [match.skill, match]));
  const byMeaning = new Set(near);
  const fused = Array.from(places, ([skill, score]): Match => {
    const match = known.get(skill) ?? { skill, level: "words", weight: 0, reasons: [], score: 0, words: 0, fit: 0 };
    const reasons = byMeaning.has(skill) ? [...match.reasons, MEANING] : match.reasons;
    return { ...match, reasons, score };
  });
  fused.sort((a, b) => b.score - a.score || byText(a.skill.name, b.skill.name));
  return [...selected, ...fused.slice(0, limit)];
}

const MEANING = { kind: "meaning", text: "its description" } as const;

function cut(matches: readonly Match[], limit: number): readonly Match[] {
  const ranked = matches.filter((match) => !isSelected(match)).slice(0, limit);
  return [...matches.filter(isSelected), ...ranked];
}
