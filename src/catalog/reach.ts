import type { Skill } from "../skill/skill.ts";
import { pathsIn } from "./cues.ts";

/**
 * True when a model is offered the skill without being asked for it. A skill of another package in a monorepo is offered when the query
 * or the conversation names a file of that package. `search_skills`, `load_skill` and people find it always.
 */
export function isInReach({ origin: { belongsTo } }: Skill, query = "", files: readonly string[] = []): boolean {
  if (belongsTo === undefined) return true;
  const isBelow = (path: string) => path === belongsTo || path.startsWith(`${belongsTo}/`);
  return [...pathsIn(query), ...files].some((path) => isBelow(path.replace(/^\.\//, "").replace(/\/$/, "")));
}
