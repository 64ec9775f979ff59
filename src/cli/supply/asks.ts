import { parseMarkdown } from "../../skill/document.ts";
import { type Manifest, readManifest } from "../../skill/manifest.ts";
import { declaredVariables, requirementsOf } from "../../skill/needs.ts";
import { scriptsOf } from "../../skill/script.ts";
import type { Skill } from "../../skill/skill.ts";
import type { Tree } from "../../supply/read-tree.ts";

/** What a skill brings and asks for, in the order in which people are told. */
export const ASKS = ["scripts", "toolsets", "variables", "capabilities", "packages", "programs", "tools"] as const;
export type Asks = Record<(typeof ASKS)[number], readonly string[]>;

export function asksOf(skill: Skill): Asks {
  return { scripts: scriptsOf(skill).map(({ path }) => path), ...saidBy(skill) };
}

/** What it did not ask for before. */
export function newAsksOf(skill: Skill, before: Tree): Asks {
  const now = asksOf(skill);
  const old: Asks = {
    scripts: now.scripts.filter((path) => before.has(path)),
    ...saidBy({ manifest: manifestIn(before) }),
  };
  const fresh: Partial<Asks> = {};
  for (const what of ASKS) fresh[what] = now[what].filter((one) => !old[what].includes(one));
  return fresh as Asks;
}

/** What the skill in a tree says of itself. */
export function manifestIn(tree: Tree): Manifest {
  const own = tree.get("SKILL.md");
  return readManifest(parseMarkdown(Buffer.from(own?.bytes ?? []).toString("utf8")).data);
}

function saidBy(skill: Pick<Skill, "manifest">): Omit<Asks, "scripts"> {
  const { packages, capabilities, toolsets, tools } = skill.manifest;
  const { bins, anyBins } = requirementsOf(skill);
  return {
    toolsets,
    variables: declaredVariables(skill),
    capabilities,
    packages,
    programs: [...new Set([...bins, ...anyBins])],
    tools: [...new Set([...tools.required, ...tools.allowed, ...tools.preapproved])],
  };
}
