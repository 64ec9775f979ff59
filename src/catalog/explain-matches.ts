import { isInvocableBy, type Skill } from "../skill/skill.ts";
import { mapAsync } from "../util/sequential.ts";
import type { Catalog } from "./catalog.ts";
import { getMatcher, type Match, type Matches, type MatchOptions } from "./search/matcher.ts";

/** A match with the reasons for its place. */
export interface ExplainedMatch extends Match {
  /** From 1. */
  rank: number;
  /** True if its instructions are in the text. */
  isShown: boolean;
  isShortlisted: boolean;
  /** True if it was used recently: that decides between equal matches. */
  isRecent: boolean;
  /** The query words in each of its fields. */
  fields: readonly { field: string; words: readonly string[] }[];
}

/** Why each skill was chosen or not. */
export interface DisclosureExplanation {
  /** Best first. At most ten match by words alone. */
  matches: readonly ExplainedMatch[];
  /** True if more skills may match by their triggers. */
  hasMore: boolean;
  /** The skills that were considered: those that a model may know. */
  visible: readonly Skill[];
  /** Skills excluded by negative cues. */
  rejected: Matches["rejected"];
}

interface ExplainContext extends Pick<MatchOptions, "recent" | "files" | "isVisible" | "isCallable"> {
  shown: readonly Skill[];
  shortlist: readonly Skill[];
}

/** Explains a disclosure: all matches, also those that its text leaves out. */
export async function explainMatches(
  catalog: Catalog,
  query: string,
  { isVisible = () => true, isCallable = isVisible, recent = [], files = [], ...disclosed }: ExplainContext,
): Promise<DisclosureExplanation> {
  const visible = new Set(catalog.skills.filter((skill) => isInvocableBy("model", skill) && isVisible(skill)));
  const matcher = getMatcher(catalog);
  const { matches, hasMore, rejected } = await matcher.match(query, {
    ...{ recent, files, bodies: true, limit: MAX_EXPLAINED_BY_WORDS },
    isVisible: (skill) => visible.has(skill),
    isCallable: (skill) => isInvocableBy("user", skill) && isCallable(skill),
  });
  const [shown, shortlist] = [new Set(disclosed.shown), new Set(disclosed.shortlist)];
  const explained = await mapAsync(matches.entries(), async ([index, match]) => ({
    ...match,
    rank: index + 1,
    isShown: shown.has(match.skill),
    isShortlisted: shortlist.has(match.skill),
    isRecent: recent.includes(match.skill.name),
    fields: await matcher.wordsIn(match.skill, query, { bodies: true }),
  }));
  return { matches: explained, hasMore, visible: [...visible], rejected };
}

/** The maximum number of matches by words alone in an explanation. */
export const MAX_EXPLAINED_BY_WORDS = 10;
