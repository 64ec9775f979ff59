import type { Prompt } from "../prompt/prompt.ts";
import type { SkillSection } from "../prompt/skill.ts";
import type { SkillSource, SkillsSection } from "../prompt/skills-section.ts";
import { apply, type Item } from "./apply.ts";

export interface InstallSkillsOptions<P = never> {
  /** The folder of skills. Made when it is not there. */
  skillsDir: string;
  /** What the skills take. A prompt has its own already. */
  params?: P;
  /** Whether what is put there is for reading alone. */
  isReadOnly?: boolean;
}

/**
 * Puts the skills that are on into a folder: those in code that have no tools as a SKILL.md, those that are referred to whole, with links
 * followed. Gives their folders, in order. Throws a SkillInstallationError, and then none of them is there; a SkillRefError or
 * PromptValidationError when one is no skill any more, or lacks a parameter.
 */
export function installSkills<P>(
  of: SkillsSection<P> | Pick<Prompt, "skills" | "params">,
  { skillsDir, params, isReadOnly = false }: InstallSkillsOptions<P>,
): string[] {
  const [sources, values] =
    "kind" in of ? [of.active((params ?? {}) as P), params ?? {}] : [of.skills(), { ...of.params, ...params }];
  const put = sources.filter(isInstallable).map((source) => itemOf(source, values));
  return apply({ skillsDir, put, isDurable: false, isReadOnly });
}

/** Whether a skill can be where an agent finds it by itself: tools of code could not be called from there. */
export function isInstallable(source: SkillSource): boolean {
  return source.kind === "ref" || !source.hasTools;
}

function itemOf(source: SkillSource, params: object): Item {
  if (source.kind === "skill") {
    const skillMd = (source as SkillSection<object>).toSkillMd(params);
    return { name: source.name, source: "inline", skillMd };
  }
  source.validate(); // It may be another than when the prompt was written.
  return { name: source.name, source: "ref", folder: source.resolvedPath, links: "follow" };
}
