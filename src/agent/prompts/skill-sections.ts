import { statSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, SkillError } from "../../errors/problem.ts";
import { defineSkill } from "../../skill/define-skill.ts";
import { renderSkillMd } from "../../skill/frontmatter.ts";
import type { Skill } from "../../skill/skill.ts";
import { readInstructions } from "../../skill/source/file-skill.ts";
import { type FolderSkill, readFolderSkill } from "../../skill/source/read-skill.ts";
import { listSkillFiles } from "../../skill/source/skill-files.ts";
import { createFileFingerprint, isSameFingerprint, statIfExists } from "../../util/file-access.ts";
import { freezeObject } from "../../util/objects.ts";
import { quoteIfNeeded } from "../../util/text.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import {
  checkEnabled,
  checkKeyAndTitle,
  checkOptionKeys,
  checkSkillNames,
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
import { renderSkillBody } from "./prompt-template.ts";

export interface SkillOptions<P> extends Omit<MarkdownOptions<P>, "key"> {
  /** Up to 64 lower-case letters, digits and hyphens. */
  name: string;
  /** 1 to 1024 characters of plain text. */
  description: string;
  /** Defaults to the name. */
  key?: string;
}

/** A skill defined in code: a section that is summarized until a model opens it. Without tools it can be installed. */
export interface SkillSection<in P = unknown> extends Section<P> {
  readonly kind: "skill";
  readonly name: string;
  readonly description: string;
  /** Renders the section as a skill, with these parameters. */
  toSkill(params?: P): Skill;
  /** Renders its SKILL.md, with these parameters. */
  toSkillMd(params?: P): string;
  rebuild(parts: SectionParts): SkillSection<P>;
}

/** Defines a skill in code. Throws a PromptValidationError if the definition is invalid. */
export function skill<
  P = unknown,
  D = unknown,
  const T extends string = string,
  const U extends string = string,
  const C extends readonly Section<never>[] = readonly Section<P>[],
>(
  written: WrittenOptions<SkillOptions<P>, D, T, U, C>,
): SkillSection<NoInfer<UnboundParams<P & ParamsOf<C>, D, NamesIn<T> | NamesIn<U>>>> {
  const options = written as unknown as SkillOptions<P>;
  const { name, description, ...rest } = options;
  // Validates the name and the description with the rules for all skills defined in code.
  const validated = defineSkill({ name, description, title: options.title, instructions: options.template });
  const section = createSection<P>(
    "skill",
    { ...rest, key: options.key ?? name },
    {
      visibility: "SUMMARY",
      where: formatSubject("Skill", name),
      summary: createLiteralTemplate(() => `[Skill: ${name}] ${validated.description.replace(/\s+/g, " ")}`),
      skill: name,
    },
  );
  const render = (params: PromptParams = {}) => renderSkillBody(result, params);
  const toSkill = (params?: PromptParams) => defineSkill({ name, description, instructions: render(params) });
  const result: SkillSection<never> = freezeObject({
    ...section,
    kind: "skill",
    name,
    description: validated.description,
    toSkill,
    toSkillMd: (params) => renderSkillMd(toSkill(params), render(params)),
    rebuild: (parts) => skill<P>(mergeSectionParts(options, section, parts)),
  });
  return result as SkillSection<never> as never;
}

/** The parameters of a skills section. */
export interface SkillsSectionParams {
  /** Only skills with these names. Defaults to all. */
  enabledSkills?: readonly string[] | ReadonlySet<string> | null | undefined;
}

export type SkillSource<P = never> = SkillSection<P> | SkillRef;

export interface SkillsSectionOptions<S extends readonly SkillSource[]> {
  title?: string;
  key?: string;
  /** Skills in code and skill references, in any order. */
  skills?: S;
  /** Skill references only. */
  skillRefs?: readonly SkillRef[];
  enabled?: (params: ParamsOf<S> & SkillsSectionParams) => boolean;
  acceptsOverrides?: boolean;
}

/** A section that contains skills. */
export interface SkillsSection<in P = SkillsSectionParams> extends Section<P> {
  readonly kind: "skills";
  readonly allSkills: readonly SkillSource[];
  /** The skills defined in code. */
  readonly inlineSkills: readonly SkillSection<never>[];
  /** The skills referenced by path. */
  readonly referencedSkills: readonly SkillRef[];
  /** The skills in code without tools. They can be installed. */
  readonly nativeSkills: readonly SkillSection<never>[];
  /** The skills in code with tools. They stay in the prompt. */
  readonly promptSkills: readonly SkillSection<never>[];
  /** Returns the enabled skills for these parameters, in order. */
  active(params: P): readonly SkillSource[];
}

/** Creates a section of skills, to be installed or shown. Throws a PromptValidationError when two have the same name. */
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
    throw createDefinitionError(
      where,
      "its skills are not an array",
      "set an array of skills created with skill or skillRef",
    );
  const allSkills: readonly SkillSource[] = [...skills, ...skillRefs];
  if (!allSkills.every((one) => one?.kind === "skill" || one?.kind === "ref"))
    throw createDefinitionError(where, "an entry is not a skill", "create it with skill or skillRef");
  const inlineSkills = allSkills.filter((one) => one.kind === "skill");
  // References are filtered on each call: one that was disabled when the section was created may be enabled now.
  const listSources = (params: SkillsSectionParams) => {
    const names = readEnabledSkills(params, where);
    const sources = allSkills.filter((one) => one.kind === "skill" || one.isEnabled());
    checkUniqueSkills(where, sources);
    return names ? sources.filter(({ name }) => names.has(name)) : sources;
  };
  const isOn = (one: SkillSource, params: P) =>
    one.kind === "ref" || isSectionOn(one, { ...one.defaultParams, ...params }, `Section "${key}.${one.key}"`);
  listSources({});
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
    children: (params) =>
      listSources(params).map((one) => (one.kind === "ref" ? createRefSection(one) : (one as never))),
    allSkills,
    inlineSkills,
    referencedSkills: allSkills.filter((one) => one.kind === "ref"),
    nativeSkills: inlineSkills.filter((one) => !one.hasTools),
    promptSkills: inlineSkills.filter((one) => one.hasTools),
    active: (params) => listSources(params).filter((one) => isOn(one, params)),
    rebuild({ rebuildChild: below }) {
      if (!below) return skillsSection<S>(options);
      // A reference cannot be changed. It is still passed on, so that an override of it is reported as not accepted.
      const rebuildSource = (one: SkillSource) => {
        if (one.kind === "skill") return below(one);
        if (one.isEnabled()) below(createRefSection(one));
        return one;
      };
      skillRefs.forEach(rebuildSource);
      return skillsSection<S>({ ...options, skills: skills.map(rebuildSource) as never });
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

/** Returns the enabled names, or undefined if all skills are enabled. */
function readEnabledSkills({ enabledSkills }: SkillsSectionParams, where: string): ReadonlySet<string> | undefined {
  if (enabledSkills === undefined || enabledSkills === null) return undefined;
  if (Array.isArray(enabledSkills) || enabledSkills instanceof Set) return new Set(enabledSkills);
  // A string is iterable too: it would be taken as a list of characters.
  throw createDefinitionError(
    where,
    "`enabledSkills` is not an array or a set",
    'pass names: { enabledSkills: ["testing"] }',
  );
}

/** Checks that each name identifies one skill, in code or on disk, and each key one section. */
function checkUniqueSkills(where: string, sources: readonly SkillSource[]): void {
  checkSkillNames(
    where,
    sources.map(({ name }) => name),
  );
  checkUnique(
    sources.map((one) => (one.kind === "ref" ? one.name : one.key)),
    (key) => createDefinitionError(where, `two skills have the key "${key}"`, "give each its own key"),
  );
}

/** Creates the section of a referenced skill: untrusted text, summarized. */
function createRefSection(ref: SkillRef): Section<unknown> {
  const { name, description, resolvedPath } = ref;
  // Read only when the section is opened.
  const body = () => {
    const skill = ref.toSkill();
    const { files } = listSkillFiles(skill.origin);
    const location = files.length > 0 ? `\n\nThe files of this skill are in ${sanitizeLine(resolvedPath)}.` : "";
    return `${wrapInTag("skill_content", { name }, readInstructions(skill).text)}${location}`;
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
    rebuild: () => createRefSection(ref),
  };
}

export interface SkillRefOptions {
  /** Absolute, or relative to `basePath`. */
  path: string;
  /** Defaults to the working directory. For paths relative to a module, use `import.meta.dirname`. */
  basePath?: string;
  /** Returns false to omit the skill. Called on each rendering. */
  enabled?: () => boolean;
}

/** A skill's folder on disk, referenced by a prompt. The path is trusted: the author of the prompt vouches for it. */
export interface SkillRef {
  readonly kind: "ref";
  readonly path: string;
  readonly basePath: string | undefined;
  readonly resolvedPath: string;
  readonly skillMdPath: string;
  /** The name in the frontmatter. Throws a SkillRefError if the folder does not contain a skill. */
  readonly name: string;
  readonly description: string;
  isEnabled(): boolean;
  /** Reads the folder again. Throws a SkillRefError. */
  validate(): void;
  /** Reads the current skill. Throws a SkillRefError if it is invalid or its name has changed. */
  toSkill(): Skill;
}

export type RefReason = "not_found" | "not_directory" | "missing_skill_md" | "invalid_frontmatter";

/** Thrown for a reference that does not lead to a skill. */
export class SkillRefError extends SkillError {
  override readonly name = "SkillRefError";
  readonly path: string;
  readonly reason: RefReason;
  readonly details: string | undefined;

  constructor(path: string, why: RefReason, details?: string, cause?: unknown) {
    super(REF_PROBLEMS[why].code, {
      message: `Cannot use the skill in ${path}: ${REF_PROBLEMS[why].what}${details === undefined ? "" : ` (${details})`}`,
      fix: REF_PROBLEMS[why].fix,
      ...(why === "invalid_frontmatter" ? { commands: [`skillet check ${quoteIfNeeded(path)}`] } : {}),
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
    fix: "correct the path; a relative path starts at basePath",
  },
  not_directory: {
    code: "ref-not-directory",
    what: "it is not a folder",
    fix: "use the folder that contains SKILL.md",
  },
  missing_skill_md: {
    code: "ref-missing-skill-md",
    what: "it has no SKILL.md",
    fix: "add a SKILL.md with `name` and `description` in its frontmatter",
  },
  invalid_frontmatter: {
    code: "ref-invalid-frontmatter",
    what: "the frontmatter of its SKILL.md is invalid",
    fix: "see the problem and its position",
  },
};

/** References a skill's folder. Throws a SkillRefError at once if it contains no skill, unless the reference is disabled. */
export function skillRef(options: SkillRefOptions | string): SkillRef {
  const { path, basePath, enabled } = typeof options === "string" ? { path: options } : options;
  const where = formatSubject("The reference to", path);
  if (typeof options === "object") checkOptionKeys(options, REF_KEYS, where);
  if (typeof path !== "string" || path.trim() === "")
    throw createDefinitionError(where, "the path is empty", "set the path of a skill's folder");
  if (basePath !== undefined && typeof basePath !== "string")
    throw createDefinitionError(where, "`basePath` is not a string", "set a folder: import.meta.dirname");
  checkEnabled(where, enabled);
  const resolvedPath = isAbsolute(path) ? path : resolve(basePath ?? process.cwd(), path);
  const skillMdPath = join(resolvedPath, "SKILL.md");
  let known: FolderSkill | undefined;
  const validate = () => {
    known = readRefSkill(resolvedPath);
    return known.skill;
  };
  const isSame = ({ fingerprint: stamp }: FolderSkill) => {
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
        throw new SkillRefError(resolvedPath, "invalid_frontmatter", `its name changed from "${before}" to "${after}"`);
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

const NO_FINDING = { code: "", message: "is not a skill" };
/** Findings that mean there is no readable SKILL.md. */
const NO_FILE_CODES: ReadonlySet<string> = new Set(["not-a-file", "symlink-loop", "not-a-folder", "unreadable"]);

/** Requires `name` and `description`: other sources fall back to the folder's name and the body. */
function findRefProblem({ skill, frontmatter: { name, description } }: FolderSkill): string | undefined {
  if (name === undefined || name === null) return "`name` is missing";
  if (typeof name !== "string" || !NAME_PATTERN.test(name))
    return `the name "${sanitizeLine(String(name), 80)}" is not 1 to 64 lower-case letters, digits and hyphens`;
  if (skill.name !== name) return `the name "${name}" is reserved`;
  return typeof description === "string" && description.trim() !== "" ? undefined : "`description` is missing";
}
