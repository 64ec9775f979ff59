import type { Skill } from "../skill/skill.ts";
import { type Catalog, notFound } from "./catalog.ts";
import { attachSearchStore, searchStoreOf } from "./search-store.ts";

/**
 * The same catalog with these skills alone, also after a reload. A name whose winner is not among them means nothing: no copy that it
 * hides comes forward.
 */
export function narrowCatalog(catalog: Catalog, keeps: (skill: Skill) => boolean): Catalog {
  const skills = narrowSkills(catalog.skills, keeps);
  const names = new Set(skills.map(({ name }) => name));
  const find = (name: string) => {
    const skill = catalog.find(name);
    return skill && names.has(skill.name) && keeps(skill) ? skill : undefined;
  };
  return {
    ...catalog,
    skills,
    shadowed: catalog.shadowed.filter((skill) => names.has(skill.name) && keeps(skill)),
    find,
    get(name) {
      const skill = find(name);
      if (skill) return skill;
      throw notFound(name, names);
    },
    has: (name) => find(name) !== undefined,
    names: () => [...names],
    copies: (name) => (names.has(name) ? catalog.copies(name).filter(keeps) : []),
    available: (isDenied) => catalog.available(isDenied).filter(({ name }) => names.has(name)),
    // Before they are definitions: their names are written there as a line takes them.
    definitions: (isDenied) =>
      catalog.definitions((skill) => (names.has(skill.name) ? isDenied?.(skill) : { code: "left-out" })),
    reload: async () => narrowCatalog(await catalog.reload(), keeps),
  };
}

/** Some of the skills. They have a search index of their own where all of them have one. */
function narrowSkills(skills: readonly Skill[], keeps: (skill: Skill) => boolean): readonly Skill[] {
  const kept = skills.filter(keeps);
  if (kept.length === skills.length) return skills;
  const store = searchStoreOf(skills)?.narrow?.();
  if (store) attachSearchStore(kept, store);
  return kept;
}
