/** Matching, ranking and listings. */
export type { IsDenied, SkillDescriptor, SourceSummary } from "./catalog.ts";
export type { PromptSectionOptions } from "./listing.ts";
export { LIST_INTENT_PHRASES } from "./listing.ts";
export { createEmbeddedMatcher, type EmbeddedMatcher, type EmbeddedMatches, type Embedder } from "./search/embedder.ts";
export {
  createMatcher,
  MATCH_LEVELS,
  type Matcher,
  type Matches,
  type MatchLevel,
  type MatchOptions,
  type MatchReason,
  type Shortlist,
  selectShortlist,
} from "./search/matcher.ts";
export type { TriggerKind } from "./search/trigger-index.ts";
export type { TriggerWeight, WeakCause } from "./search/trigger-weights.ts";
export { type ContentOptions, formatSkillContent } from "./skill-content.ts";
