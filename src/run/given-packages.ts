import type { Host } from "../host/host.ts";
import type { Skill } from "../skill/skill.ts";

/** The packages that a skill's code gets: what it declares, and what the user gives it. */
export interface GivenPackages {
  system: readonly string[];
  python: readonly string[];
  npm: readonly string[];
}

export function givenPackages({ name, manifest }: Skill, { settings }: Pick<Host, "settings">): GivenPackages {
  const { python = [], npm = [], packages = [] } = settings.skills.get(name) ?? {};
  const declared = [...manifest.packages, ...packages];
  // A system of its own has no Python, unless it is asked for.
  const interpreter = declared.length > 0 && python.length > 0 ? ["python3"] : [];
  return { system: [...new Set([...declared, ...interpreter])], python, npm };
}
