import type { Catalog } from "../catalog/catalog.ts";
import { shortHash } from "../shared/hash.ts";
import { byText } from "../shared/text.ts";
import { LONGEST_NAME, STANDARD_NAME } from "../skill/name.ts";
import type { Skill } from "../skill/skill.ts";
import { skillUri } from "./publish-uri.ts";

/**
 * All skills of a catalog by the names under which they are published, in the order of their addresses. Contract: of a catalog,
 * not of what somebody may see of it, so that an address means the same skill to every client.
 */
export function publishedNames(catalog: Catalog): ReadonlyMap<string, Skill> {
  const known = NAMES.get(catalog);
  if (known) return known;
  const names = new Map(catalog.skills.filter(({ name }) => isStandardName(name)).map((skill) => [skill.name, skill]));
  for (const skill of catalog.skills) if (!isStandardName(skill.name)) names.set(freeName(skill.name, names), skill);
  const ordered = new Map([...names].sort(([a], [b]) => byText(skillUri(a), skillUri(b))));
  NAMES.set(catalog, ordered);
  return ordered;
}

export function isStandardName(name: string): boolean {
  return name.length <= LONGEST_NAME && STANDARD_NAME.test(name);
}

const NAMES = new WeakMap<Catalog, ReadonlyMap<string, Skill>>();

function freeName(name: string, taken: ReadonlyMap<string, Skill>): string {
  const wanted = standardName(name);
  for (let number = 1; ; number++) {
    const ending = number === 1 ? "" : `-${number}`;
    const free = cut(wanted, LONGEST_NAME - ending.length) + ending;
    if (!taken.has(free)) return free;
  }
}

/** The name as the standard wants it: `My_Skill` is `my-skill`. */
export function standardName(name: string): string {
  const letters = name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const standard = letters.replace(/[^a-z0-9]+/g, "-").replace(/^-/, "");
  return cut(standard, LONGEST_NAME) || `skill-${shortHash(name)}`;
}

function cut(name: string, length: number): string {
  return name.slice(0, length).replace(/-$/, "");
}
