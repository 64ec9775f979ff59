import { frozen } from "../shared/frozen.ts";
import { inLine, inTag } from "../shared/prompt.ts";
import {
  checkEnabled,
  checkHead,
  checkKnown,
  checkUnique,
  invalid,
  isSectionOn,
  named,
  type ParamsOf,
  type Section,
} from "./section.ts";
import type { SkillSection } from "./skill.ts";
import type { SkillRef } from "./skill-ref.ts";
import { literal, openTemplate } from "./template.ts";

/** What a section of skills takes of the parameters. */
export interface SkillsSectionParams {
  /** Only skills of these names; all, when left out. */
  enabledSkills?: readonly string[] | ReadonlySet<string> | null | undefined;
}

export type SkillSource<P = never> = SkillSection<P> | SkillRef;

export interface SkillsSectionOptions<S extends readonly SkillSource[]> {
  title?: string;
  key?: string;
  /** Skills in code and references, in any order. */
  skills?: S;
  /** References alone. */
  skillRefs?: readonly SkillRef[];
  enabled?: (params: ParamsOf<S> & SkillsSectionParams) => boolean;
  acceptsOverrides?: boolean;
}

/** A section that holds skills. */
export interface SkillsSection<in P = SkillsSectionParams> extends Section<P> {
  readonly kind: "skills";
  readonly allSkills: readonly SkillSource[];
  /** Those in code. */
  readonly inlineSkills: readonly SkillSection<never>[];
  /** Those that are referred to. */
  readonly referencedSkills: readonly SkillRef[];
  /** Those in code that have no tools: these can be installed. */
  readonly nativeSkills: readonly SkillSection<never>[];
  /** Those in code that have tools: these stay in the prompt. */
  readonly promptSkills: readonly SkillSection<never>[];
  /** Those that are on for these parameters, in order. */
  active(params: P): readonly SkillSource[];
}

/** Holds skills, to be installed or shown. Throws a PromptValidationError when two have one name. */
export function skillsSection<const S extends readonly SkillSource[] = []>(
  options: SkillsSectionOptions<S> = {},
): SkillsSection<ParamsOf<S> & SkillsSectionParams> {
  type P = ParamsOf<S> & SkillsSectionParams;
  const { title = "Skills", key = "skills", skills = [], skillRefs = [], enabled, acceptsOverrides = true } = options;
  const where = named("Section", key);
  checkKnown(options, OPTION_KEYS, where);
  checkHead(where, key, title);
  checkEnabled(where, enabled);
  if (!Array.isArray(skills) || !Array.isArray(skillRefs))
    throw invalid(where, "its skills are no list", "give a list of what skill and skillRef made");
  const allSkills: readonly SkillSource[] = [...skills, ...skillRefs];
  if (!allSkills.every((one) => one?.kind === "skill" || one?.kind === "ref"))
    throw invalid(where, "one of its skills is none", "make it with skill or skillRef");
  const inlineSkills = allSkills.filter((one) => one.kind === "skill");
  // Those that there are, whether they are on or not: a reference that was off when this was made may be on now.
  const there = (params: SkillsSectionParams) => {
    const wanted = wantedIn(params, where);
    const sources = allSkills.filter((one) => one.kind === "skill" || one.isEnabled());
    checkTogether(where, sources);
    return wanted ? sources.filter(({ name }) => wanted.has(name)) : sources;
  };
  const isOn = (one: SkillSource, params: P) =>
    one.kind === "ref" || isSectionOn(one, { ...one.defaultParams, ...params }, `Section "${key}.${one.key}"`);
  there({});
  return frozen({
    kind: "skills",
    key,
    title: title.trim(),
    template: NOTHING,
    summary: undefined,
    defaultParams: {},
    enabled,
    visibility: "FULL",
    acceptsOverrides,
    tools: [],
    hasTools: inlineSkills.some((one) => one.hasTools),
    children: (params) => there(params).map((one) => (one.kind === "ref" ? refSection(one) : (one as never))),
    allSkills,
    inlineSkills,
    referencedSkills: allSkills.filter((one) => one.kind === "ref"),
    nativeSkills: inlineSkills.filter((one) => !one.hasTools),
    promptSkills: inlineSkills.filter((one) => one.hasTools),
    active: (params) => there(params).filter((one) => isOn(one, params)),
    remade({ below }) {
      if (!below) return skillsSection<S>(options);
      // A reference stays what it is; it is shown, so that who asks for another text hears that it takes none.
      const made = (one: SkillSource) => {
        if (one.kind === "skill") return below(one);
        if (one.isEnabled()) below(refSection(one));
        return one;
      };
      skillRefs.forEach(made);
      return skillsSection<S>({ ...options, skills: skills.map(made) as never });
    },
  });
}

const OPTION_KEYS: ReadonlySet<string> = new Set([
  "title",
  "key",
  "skills",
  "skillRefs",
  "enabled",
  "acceptsOverrides",
]);
const NOTHING = openTemplate("", "");

/** The names that are wanted; nothing when all are. */
function wantedIn({ enabledSkills }: SkillsSectionParams, where: string): ReadonlySet<string> | undefined {
  if (enabledSkills === undefined || enabledSkills === null) return undefined;
  if (Array.isArray(enabledSkills) || enabledSkills instanceof Set) return new Set(enabledSkills);
  // A text is a list of its letters.
  throw invalid(where, "`enabledSkills` is neither a list nor a set", 'give names: { enabledSkills: ["testing"] }');
}

/** A name leads to one skill, be it in code or on the disk, and a key to one section. */
function checkTogether(where: string, sources: readonly SkillSource[]): void {
  checkNames(
    where,
    sources.map(({ name }) => name),
  );
  checkUnique(
    sources.map((one) => (one.kind === "ref" ? one.name : one.key)),
    (key) => invalid(where, `two skills have the key "${key}"`, "give each a key of its own"),
  );
}

export function checkNames(where: string, names: readonly string[]): void {
  checkUnique(names, (name) => invalid(where, `two skills are called "${name}"`, "give each a name of its own"));
}

/** What a reference is in a prompt: text of others, summarised. */
function refSection(ref: SkillRef): Section<unknown> {
  const { name, description, resolvedPath } = ref;
  // Read when it is opened, and not before.
  const body = () => {
    const found = ref.toSkill();
    const there = found.files().files.length > 0 ? `\n\nThe files of this skill are in ${inLine(resolvedPath)}.` : "";
    return `${inTag("skill_content", { name }, found.body())}${there}`;
  };
  return {
    kind: "skill",
    key: name,
    title: name,
    template: literal(body),
    summary: literal(() => `[Skill: ${name}] ${inLine(description)}`),
    defaultParams: {},
    enabled: undefined,
    visibility: "SUMMARY",
    acceptsOverrides: false,
    tools: [],
    hasTools: false,
    children: () => [],
    skill: name,
    remade: () => refSection(ref),
  };
}
