import type { Skill } from "../skill/skill.ts";
import type { SearchStore } from "../source/search-file.ts";

/** Makes matchers of these skills keep their search index in the store. */
export function attachSearchStore(skills: readonly Skill[], store: SearchStore): void {
  STORES.set(skills, store);
}

export function searchStoreOf(skills: readonly Skill[]): SearchStore | undefined {
  return STORES.get(skills);
}

// By the list itself: a catalog is copied by those who add to it, its list of skills is not.
const STORES = new WeakMap<readonly Skill[], SearchStore>();
