import { statSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import { defineSkill } from "../../skill/define-skill.ts";
import { toSkillMd } from "../../skill/frontmatter-yaml.ts";
import type { Skill } from "../../skill/skill.ts";
import { createFileFingerprint, isSameFingerprint, statIfExists } from "../../skill/source/read-file.ts";
import { type FolderSkill, readFolderSkill } from "../../skill/source/read-skill.ts";
import { freezeObject } from "../../util/objects.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import {
  checkEnabled,
  checkKeyAndTitle,
  checkOptionKeys,
  checkUnique,
  createDefinitionError,
  createLiteralTemplate,
  createSection,
  evaluateEnabled,
  formatSubject,
  isSectionOn,
  type MarkdownOptions,
  mergeSectionParts,
  type NamesIn,
  type ParamsOf,
  type PromptParams,
  parseTemplate,
  type Section,
  type SectionParts,
  type UnboundParams,
  type WrittenOptions,
} from "./prompt-section.ts";
import { renderSkillBody } from "./render-sections.ts";

export interface SkillOptions<P> extends Omit<MarkdownOptions<P>, "key"> {
  /** Up to 64 lower-case letters, digits and hyphens. */
  name: string;
  /** 1 to 1024 characters of plain text. */
  description: string;
  /** The name when left out. */
  key?: string;
}

/** A skill that is written in code: a section that is summarised until a model opens it, or installed where it has no tools. */
export interface SkillSection<in P = unknown> extends Section<P> {
  readonly kind: "skill";
  readonly name: string;
  readonly description: string;
  /** It as a skill like any other, with these parameters. */
  toSkill(params?: P): Skill;
  /** Its SKILL.md, with these parameters. */
  toSkillMd(params?: P): string;
  remade(parts: SectionParts): SkillSection<P>;
}

/** Defines a skill in code. Throws a PromptValidationError at once when it cannot be one. */
export function skill<
  P = unknown,
  D = unknown,
  const T extends string = string,
  const U extends string = string,
  const C extends readonly Section<never>[] = readonly Section<P>[],
>(
  given: WrittenOptions<SkillOptions<P>, D, T, U, C>,
): SkillSection<NoInfer<UnboundParams<P & ParamsOf<C>, D, NamesIn<T> | NamesIn<U>>>> {
  const options = given as unknown as SkillOptions<P>;
  const { name, description, ...rest } = options;
  // Judged where all skills of code are: the name, the description, and what must not be in either.
  const judged = defineSkill({ name, description, title: options.title, instructions: options.template });
  const section = createSection<P>(
    "skill",
    { ...rest, key: options.key ?? name },
    {
      visibility: "SUMMARY",
      where: formatSubject("Skill", name),
      summary: createLiteralTemplate(() => `[Skill: ${name}] ${judged.description.replace(/\s+/g, " ")}`),
      skill: name,
    },
  );
  const toSkill = (params: PromptParams = {}) =>
    defineSkill({ name, description, instructions: renderSkillBody(made, params) });
  const made: SkillSection<never> = freezeObject({
    ...section,
    kind: "skill",
    name,
    description: judged.description,
    toSkill,
    toSkillMd: (params) => toSkillMd(toSkill(params)),
    remade: (parts) => skill<P>(mergeSectionParts(options, section, parts)),
  });
  return made as SkillSection<never> as never;
}

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
  const where = formatSubject("Section", key);
  checkOptionKeys(options, SKILLS_SECTION_KEYS, where);
  checkKeyAndTitle(where, key, title);
  checkEnabled(where, enabled);
  if (!Array.isArray(skills) || !Array.isArray(skillRefs))
    throw createDefinitionError(where, "its skills are no list", "give a list of what skill and skillRef made");
  const allSkills: readonly SkillSource[] = [...skills, ...skillRefs];
  if (!allSkills.every((one) => one?.kind === "skill" || one?.kind === "ref"))
    throw createDefinitionError(where, "one of its skills is none", "make it with skill or skillRef");
  const inlineSkills = allSkills.filter((one) => one.kind === "skill");
  // Those that there are, whether they are on or not: a reference that was off when this was made may be on now.
  const there = (params: SkillsSectionParams) => {
    const wanted = readEnabledSkills(params, where);
    const sources = allSkills.filter((one) => one.kind === "skill" || one.isEnabled());
    checkUniqueSkills(where, sources);
    return wanted ? sources.filter(({ name }) => wanted.has(name)) : sources;
  };
  const isOn = (one: SkillSource, params: P) =>
    one.kind === "ref" || isSectionOn(one, { ...one.defaultParams, ...params }, `Section "${key}.${one.key}"`);
  there({});
  return freezeObject({
    kind: "skills",
    key,
    title: title.trim(),
    template: EMPTY_TEMPLATE,
    summary: undefined,
    defaultParams: {},
    enabled,
    visibility: "FULL",
    acceptsOverrides,
    tools: [],
    hasTools: inlineSkills.some((one) => one.hasTools),
    children: (params) => there(params).map((one) => (one.kind === "ref" ? createRefSection(one) : (one as never))),
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
        if (one.isEnabled()) below(createRefSection(one));
        return one;
      };
      skillRefs.forEach(made);
      return skillsSection<S>({ ...options, skills: skills.map(made) as never });
    },
  });
}

const SKILLS_SECTION_KEYS: ReadonlySet<string> = new Set([
  "title",
  "key",
  "skills",
  "skillRefs",
  "enabled",
  "acceptsOverrides",
]);
const EMPTY_TEMPLATE = parseTemplate("", "");

/** The names that are wanted; nothing when all are. */
function readEnabledSkills({ enabledSkills }: SkillsSectionParams, where: string): ReadonlySet<string> | undefined {
  if (enabledSkills === undefined || enabledSkills === null) return undefined;
  if (Array.isArray(enabledSkills) || enabledSkills instanceof Set) return new Set(enabledSkills);
  // A text is a list of its letters.
  throw createDefinitionError(
    where,
    "`enabledSkills` is neither a list nor a set",
    'give names: { enabledSkills: ["testing"] }',
  );
}

/** A name leads to one skill, be it in code or on the disk, and a key to one section. */
function checkUniqueSkills(where: string, sources: readonly SkillSource[]): void {
  checkSkillNames(
    where,
    sources.map(({ name }) => name),
  );
  checkUnique(
    sources.map((one) => (one.kind === "ref" ? one.name : one.key)),
    (key) => createDefinitionError(where, `two skills have the key "${key}"`, "give each a key of its own"),
  );
}

export function checkSkillNames(where: string, names: readonly string[]): void {
  checkUnique(names, (name) =>
    createDefinitionError(where, `two skills are called "${name}"`, "give each a name of its own"),
  );
}

/** What a reference is in a prompt: text of others, summarised. */
function createRefSection(ref: SkillRef): Section<unknown> {
  const { name, description, resolvedPath } = ref;
  // Read when it is opened, and not before.
  const body = () => {
    const found = ref.toSkill();
    const there =
      found.files().files.length > 0 ? `\n\nThe files of this skill are in ${sanitizeLine(resolvedPath)}.` : "";
    return `${wrapInTag("skill_content", { name }, found.body())}${there}`;
  };
  return {
    kind: "skill",
    key: name,
    title: name,
    template: createLiteralTemplate(body),
    summary: createLiteralTemplate(() => `[Skill: ${name}] ${sanitizeLine(description)}`),
    defaultParams: {},
    enabled: undefined,
    visibility: "SUMMARY",
    acceptsOverrides: false,
    tools: [],
    hasTools: false,
    children: () => [],
    skill: name,
    remade: () => createRefSection(ref),
  };
}

export interface SkillRefOptions {
  /** Absolute, or relative to `basePath`. */
  path: string;
  /** The working folder when left out. For paths relative to a module: `import.meta.dirname`. */
  basePath?: string;
  /** Whether it is there at all; asked whenever a prompt is rendered. */
  enabled?: () => boolean;
}

/** A skill's folder on the disk, as a prompt refers to it. Its path is trusted: whoever writes the prompt vouches for it. */
export interface SkillRef {
  readonly kind: "ref";
  readonly path: string;
  readonly basePath: string | undefined;
  readonly resolvedPath: string;
  readonly skillMdPath: string;
  /** As its frontmatter has it. Throws a SkillRefError when it is none. */
  readonly name: string;
  readonly description: string;
  isEnabled(): boolean;
  /** Looks at the folder again. Throws a SkillRefError. */
  validate(): void;
  /** It as a skill like any other, as it is now. Throws a SkillRefError when it is none any more, or one of another name. */
  toSkill(): Skill;
}

export type RefReason = "not_found" | "not_directory" | "missing_skill_md" | "invalid_frontmatter";

/** A reference that leads to no skill. */
export class SkillRefError extends SkillError {
  readonly path: string;
  readonly reason: RefReason;
  readonly details: string | undefined;

  constructor(path: string, why: RefReason, details?: string, cause?: unknown) {
    super(REF_PROBLEMS[why].code, {
      message: `The skill in ${path} cannot be used: ${REF_PROBLEMS[why].what}${details === undefined ? "" : ` (${details})`}`,
      fix: REF_PROBLEMS[why].fix,
      cause,
    });
    this.path = path;
    this.reason = why;
    this.details = details;
  }
}

const REF_PROBLEMS: Record<RefReason, { code: ErrorCode; what: string; fix: string }> = {
  not_found: {
    code: "ref-not-found",
    what: "the folder does not exist",
    fix: "correct the path; a relative one begins at basePath",
  },
  not_directory: { code: "ref-not-directory", what: "it is no folder", fix: "name the folder that holds SKILL.md" },
  missing_skill_md: {
    code: "ref-missing-skill-md",
    what: "there is no SKILL.md in it",
    fix: "write one, with `name` and `description` at its head",
  },
  invalid_frontmatter: {
    code: "ref-invalid-frontmatter",
    what: "the head of its SKILL.md is not as it must be",
    fix: "`skillet check` on the folder says what is wrong, and where",
  },
};

/** Refers to a skill's folder. Throws a SkillRefError at once when it is none, unless it is not enabled now. */
export function skillRef(options: SkillRefOptions | string): SkillRef {
  const { path, basePath, enabled } = typeof options === "string" ? { path: options } : options;
  const where = formatSubject("The reference to", path);
  if (typeof options === "object") checkOptionKeys(options, REF_KEYS, where);
  if (typeof path !== "string" || path.trim() === "")
    throw createDefinitionError(where, "the path is empty", "name a skill's folder");
  if (basePath !== undefined && typeof basePath !== "string")
    throw createDefinitionError(where, "`basePath` is no text", "give a folder: import.meta.dirname");
  checkEnabled(where, enabled);
  const resolvedPath = isAbsolute(path) ? path : resolve(basePath ?? process.cwd(), path);
  const skillMdPath = join(resolvedPath, "SKILL.md");
  let known: FolderSkill | undefined;
  const validate = () => {
    known = readRefSkill(resolvedPath);
    return known.skill;
  };
  const isSame = ({ stamp }: FolderSkill) => {
    const stats = statIfExists(skillMdPath);
    return stats !== undefined && stamp !== undefined && isSameFingerprint(createFileFingerprint(stats), stamp);
  };
  const ref: SkillRef = {
    kind: "ref",
    path,
    basePath,
    resolvedPath,
    skillMdPath,
    get name() {
      return (known?.skill ?? validate()).name;
    },
    get description() {
      return (known?.skill ?? validate()).description;
    },
    isEnabled: () => enabled === undefined || evaluateEnabled(enabled, where),
    validate: () => void validate(),
    toSkill() {
      if (!known) return validate();
      if (isSame(known)) return known.skill;
      const now = readRefSkill(resolvedPath);
      const [before, after] = [known.skill.name, now.skill.name];
      if (before !== after)
        throw new SkillRefError(resolvedPath, "invalid_frontmatter", `it was called "${before}", and now "${after}"`);
      known = now;
      return now.skill;
    },
  };
  if (ref.isEnabled()) validate();
  return freezeObject(ref);
}

const REF_KEYS: ReadonlySet<string> = new Set(["path", "basePath", "enabled"]);
const NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,63}$/;

function readRefSkill(path: string): FolderSkill {
  const found = readRefFolder(path);
  if (!found) throw new SkillRefError(path, "missing_skill_md");
  if ("findings" in found) {
    const [{ code, message } = NO_FINDING] = found.findings;
    const why = NO_FILE_CODES.has(code) ? "missing_skill_md" : "invalid_frontmatter";
    throw new SkillRefError(path, why, `SKILL.md ${message}`);
  }
  const problem = findRefProblem(found);
  if (problem !== undefined) throw new SkillRefError(path, "invalid_frontmatter", problem);
  return found;
}

function readRefFolder(path: string): ReturnType<typeof readFolderSkill> {
  try {
    if (statSync(path).isDirectory()) return readFolderSkill(path, { scope: "inline", source: "ref" });
  } catch (error) {
    throw new SkillRefError(path, "not_found", getErrorMessage(error), error);
  }
  throw new SkillRefError(path, "not_directory");
}

const NO_FINDING = { code: "", message: "is no skill" };
/** What is there is no file, or none that can be read. */
const NO_FILE_CODES: ReadonlySet<string> = new Set(["not-a-file", "link-loop", "not-a-folder", "unreadable"]);

/** Elsewhere a folder's name may serve, and a description be made of the text. */
function findRefProblem({ skill, written: { name, description } }: FolderSkill): string | undefined {
  if (name === undefined || name === null) return "`name` is missing";
  if (typeof name !== "string" || !NAME_PATTERN.test(name))
    return `the name "${sanitizeLine(String(name), 80)}" is not of up to 64 lower-case letters, digits and hyphens`;
  if (skill.name !== name) return `the name "${name}" is reserved`;
  return typeof description === "string" && description.trim() !== "" ? undefined : "`description` is missing";
}
