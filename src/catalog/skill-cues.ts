import { isBroadGlob, isCommonPattern, isCommonPhrase } from "../skill/broad.ts";
import type { Triggers } from "../skill/fields.ts";
import { globPattern } from "../skill/glob.ts";
import type { PatternFacts } from "../skill/pattern.ts";
import type { Skill } from "../skill/skill.ts";
import { isPhrase, MOST_TRIGGERS, sortPatterns } from "../skill/triggers.ts";
import { fold, type Unit, units } from "./units.ts";

/** The cues of a skill, judged: those that cannot be used are left out. Plain data, which the search index keeps. */
export interface SkillCues {
  negative: readonly string[];
  keywords: readonly string[];
  verbs: readonly string[];
  patterns: readonly UsablePattern[];
  globs: readonly (UsablePattern & { glob: string })[];
  /** Queries that the skill is for: those it declares, and those next to it that serve as examples. */
  examples: readonly string[];
  /** The first of these in the form that `sayExample` gives. */
  exampleKeys: readonly string[];
  /** Whether a trigger can bring the skill before a model. */
  isTriggered: boolean;
}

interface UsablePattern {
  pattern: string;
  needs: PatternFacts["needs"];
}

/** Reads and judges the cues of a skill. Returns undefined when it declares none. */
export function readCues(skill: Skill): SkillCues | undefined {
  const { triggers, paths } = skill.manifest;
  const examples = skill.examples();
  const { keywords, verbs, patterns, negative } = triggers;
  if ([keywords, verbs, patterns, negative, paths, examples].every(({ length }) => length === 0)) return undefined;
  const globs = sortPatterns(paths, globPattern).usable;
  const phrases = {
    negative: usablePhrases(triggers, "negative"),
    keywords: usablePhrases(triggers, "keywords"),
    verbs: usablePhrases(triggers, "verbs"),
    patterns: sortPatterns(patterns).usable.map(({ pattern, needs }) => ({ pattern, needs })),
    globs: globs.map(({ text, pattern, needs }) => ({ glob: text, pattern, needs })),
  };
  const exampleKeys = examples.slice(0, MOST_TRIGGERS.examples).map((example) => sayExample(units(fold(example))));
  return {
    ...phrases,
    examples,
    exampleKeys: exampleKeys.filter((key) => key !== ""),
    isTriggered: hasTrigger(phrases),
  };
}

/** What is said, whatever marks are put around it. */
export function sayExample(text: readonly Unit[]): string {
  return text.flatMap((unit) => (unit.isSymbol ? [] : unit.text)).join(" ");
}

/**
 * Whether a trigger can bring the skill before a model. One with only common words cannot: they never give its instructions, so
 * it has to be listed. Nor can a glob for most files; a narrower one offers the skill for its files.
 */
function hasTrigger(cues: Pick<SkillCues, "keywords" | "verbs" | "patterns" | "globs">): boolean {
  const isSpecific = (text: string) => !isCommonPhrase(text);
  return (
    cues.keywords.some(isSpecific) ||
    cues.verbs.some(isSpecific) ||
    cues.patterns.some(({ needs }) => !isCommonPattern(needs)) ||
    cues.globs.some(({ glob }) => !isBroadGlob(glob))
  );
}

function usablePhrases(triggers: Triggers, list: "keywords" | "verbs" | "negative"): string[] {
  return triggers[list].slice(0, MOST_TRIGGERS[list]).filter(isPhrase);
}
