import type { ErrorCode } from "../../errors/error-codes.ts";
import { PromptValidationError } from "../../errors/problem.ts";
import { createInputSchema, readToolInput, type Tool, type ToolResult } from "../../skill/tool.ts";
import { isJsonObject, omitUndefined } from "../../util/objects.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import {
  checkKeyAndTitle,
  checkOptionKeys,
  checkSiblings,
  createDefinitionError,
  formatSubject,
  OPEN_SECTIONS,
  type ParamsOf,
  type PromptParams,
  type Section,
  type Visibility,
} from "./prompt-section.ts";
import { findSkillContainers, type RenderedSection, renderSections } from "./render-sections.ts";
import { checkSkillNames, type SkillSource, type SkillsSection } from "./skill-sections.ts";

export interface PromptTemplateOptions<S extends readonly Section<never>[]> {
  /** The namespace that its name is in. */
  ns: string;
  key: string;
  sections: S;
}

/** A prompt whose parameters are still to be given. */
export interface PromptTemplate<P = unknown> {
  readonly ns: string;
  readonly key: string;
  readonly sections: readonly Section<never>[];
  /** Throws a PromptValidationError when an override has no place. */
  bind(...given: BindArguments<P>): Prompt;
}

// biome-ignore lint/complexity/noBannedTypes: it is what every object without a required key takes
type BindArguments<P> = {} extends P
  ? [params?: P | undefined, options?: BindOptions]
  : [params: P, options?: BindOptions];

export interface BindOptions {
  /** Other texts, by the dotted key of the section. */
  overrides?: Readonly<Record<string, SectionOverride>>;
}

export interface RenderOptions {
  /** Dotted keys of sections that are shown in full, whatever they say themselves. */
  expanded?: readonly string[] | ReadonlySet<string>;
  /** Whether the skills that can be installed are: then they are left out. */
  isInstalled?: boolean;
}

/** A prompt with its parameters. */
export interface Prompt {
  readonly ns: string;
  readonly key: string;
  readonly params: PromptParams;
  readonly sections: readonly Section<never>[];
  /** Throws a PromptValidationError that names a section which is not bound, or a parameter that is missing. */
  render(options?: RenderOptions): RenderedPrompt;
  /** The skills of its sections of skills that are on for these parameters, in order. */
  skills(): readonly SkillSource[];
}

export interface RenderedPrompt {
  readonly text: string;
  /** Those of what is shown in full, and `open_sections` when something is summarised. */
  readonly tools: readonly Tool[];
  readonly sections: readonly RenderedSection[];
  /** Those of which a summary is shown. */
  readonly summarized: readonly RenderedSection[];
}

/** A prompt of sections. Throws a PromptValidationError when it cannot be one. */
export function promptTemplate<const S extends readonly Section<never>[]>(
  options: PromptTemplateOptions<S>,
): PromptTemplate<ParamsOf<S>> {
  const { ns, key, sections } = options;
  const where = formatSubject("Prompt", key);
  checkOptionKeys(options, PROMPT_KEYS, where);
  checkKeyAndTitle(where, key, key);
  checkKeyAndTitle(formatSubject("The namespace", ns), ns, ns);
  checkSiblings(where, sections);
  return {
    ns,
    key,
    sections,
    bind(...[params = {}, bindOptions = {}]) {
      if (!isJsonObject(params))
        throw createDefinitionError(where, "the parameters are no object", "give them by name: bind({ language: … })");
      checkOptionKeys(bindOptions, BIND_KEYS, `${where}, when it is bound`);
      return createPrompt({
        ns,
        key,
        sections: applyOverrides(sections, bindOptions.overrides ?? {}),
        params: { ...params },
      });
    },
  };
}

const PROMPT_KEYS: ReadonlySet<string> = new Set(["ns", "key", "sections"]);
const BIND_KEYS: ReadonlySet<string> = new Set(["overrides"]);

function createPrompt(head: Pick<Prompt, "ns" | "key" | "params" | "sections">): Prompt {
  const { key, params, sections } = head;
  const where = `Prompt "${key}"`;
  return {
    ...head,
    skills() {
      const holders = findSkillContainers(sections, params) as SkillsSection<never>[];
      const all = holders.flatMap((section) => section.active(params as never));
      checkSkillNames(
        where,
        all.map(({ name }) => name),
      );
      return all;
    },
    render({ expanded = [], isInstalled = false } = {}) {
      const shown = renderSections(sections, { params, expanded: new Set(expanded), isInstalled });
      checkSkillNames(
        where,
        shown.flatMap(({ skill }) => skill ?? []),
      );
      const summarized = shown.filter(({ visibility }) => visibility === "SUMMARY");
      const tools = [...new Set(shown.flatMap((section) => (section.visibility === "FULL" ? section.tools : [])))];
      return {
        text: shown.map(({ text }) => text).join("\n\n"),
        tools: summarized.length > 0 ? [...tools, createOpenSectionsTool(shown)] : tools,
        sections: shown,
        summarized,
      };
    },
  };
}

/** What stands in a section's place, where it lets it. */
export interface SectionOverride {
  template?: string;
  summary?: string;
  /** Descriptions of its tools, by name. */
  tools?: Readonly<Record<string, string>>;
}

type SectionOverrides = Readonly<Record<string, SectionOverride>>;

/** The sections with other texts. Throws a PromptValidationError for one that has no place. */
function applyOverrides(sections: readonly Section<never>[], overrides: SectionOverrides): readonly Section<never>[] {
  const wanted = new Set(Object.keys(overrides));
  if (wanted.size === 0) return sections;
  const known: string[] = [];
  const remake =
    (parent: string, isClosed: boolean) =>
    (section: Section<never>): Section<never> => {
      const key = parent === "" ? section.key : `${parent}.${section.key}`;
      known.push(key);
      wanted.delete(key);
      const acceptsOverrides = section.acceptsOverrides && !isClosed;
      const own = Object.hasOwn(overrides, key)
        ? readOverride({ ...section, acceptsOverrides }, key, overrides[key] ?? {})
        : {};
      // A section of skills has no text of its own: what it says is about those of its skills.
      return section.remade({
        ...own,
        below: remake(key, isClosed || (section.kind === "skills" && !acceptsOverrides)),
      });
    };
  const made = sections.map(remake("", false));
  const [unknown] = wanted;
  if (unknown === undefined) return made;
  const near = findNearest(unknown, known);
  throw new PromptValidationError("override-unknown", {
    message: `There is no section "${sanitizeLine(unknown, 200)}" to put another text into`,
    fix: near === undefined ? `there are ${known.join(", ")}` : `did you mean "${near}"?`,
  });
}

function readOverride(section: Section<never>, key: string, override: SectionOverride) {
  checkOptionKeys(override, OVERRIDE_KEYS, `The override of "${key}"`);
  if (!section.acceptsOverrides || section.kind === "skills") {
    throw new PromptValidationError("override-refused", {
      message: `Section "${key}" takes no other text`,
      fix: section.kind === "skills" ? "name one of its skills" : OVERRIDE_FIX,
    });
  }
  const { tools, ...texts } = override;
  return omitUndefined({ ...texts, tools: tools && replaceDescriptions(section.tools, tools, key) });
}

const OVERRIDE_FIX =
  "let it, and the section of skills that it is in: acceptsOverrides: true; what a reference says is in its folder";
const OVERRIDE_KEYS: ReadonlySet<string> = new Set(["template", "summary", "tools"]);

function replaceDescriptions(
  tools: readonly Tool[],
  descriptions: Readonly<Record<string, string>>,
  key: string,
): Tool[] {
  const unknown = Object.keys(descriptions).find((name) => !tools.some((tool) => tool.name === name));
  if (unknown !== undefined) {
    throw new PromptValidationError("override-unknown", {
      message: `Section "${key}" has no tool "${sanitizeLine(unknown, 80)}"`,
      fix: `there are ${tools.map(({ name }) => name).join(", ") || "none"}`,
    });
  }
  return tools.map((tool) => {
    const description = Object.hasOwn(descriptions, tool.name) ? descriptions[tool.name] : undefined;
    return description === undefined ? tool : { ...tool, description };
  });
}

/** A signal, not an error: a model asks for sections in full, so the prompt is to be rendered again with these. */
export class VisibilityExpansionRequired extends Error {
  override readonly name = "VisibilityExpansionRequired";
  /** What is asked for, by dotted key. */
  readonly requested: Readonly<Record<string, Visibility>>;
  readonly sectionKeys: readonly string[];
  /** Why, as the model says it. */
  readonly reason: string | undefined;

  constructor(sectionKeys: readonly string[], reason?: string) {
    super(`Sections are to be shown in full: ${sectionKeys.join(", ")}`);
    this.sectionKeys = sectionKeys;
    this.requested = Object.fromEntries(sectionKeys.map((key) => [key, "FULL"]));
    this.reason = reason;
  }
}

const OPEN_PARAMETERS = {
  keys: {
    type: "strings",
    says: 'The keys of the sections to open, as their summaries give them: ["skills.testing"].',
    isRequired: true,
    also: ["key", "section_keys", "section_key"],
  },
  reason: { type: "string", says: "Why they are needed, in a few words." },
} as const;

const MAX_OPENED_KEYS = 20;

/**
 * What a model calls to see all of a section. Its `execute` throws a VisibilityExpansionRequired, which whoever evaluates the prompt
 * takes; what cannot be opened is a result like any other.
 */
export function createOpenSectionsTool(shown: readonly RenderedSection[]): Tool {
  return {
    name: OPEN_SECTIONS,
    description: "Shows sections in full of which only a summary is shown, and brings their tools.",
    category: "skills",
    inputSchema: createInputSchema(OPEN_PARAMETERS),
    async execute(input) {
      const values = readToolInput(OPEN_PARAMETERS, wrapSingleKey(input));
      if ("refusal" in values) return values.refusal as ToolResult;
      const wanted = [...new Set(values.keys)];
      if (wanted.length === 0 || wanted.length > MAX_OPENED_KEYS)
        return createOpenRefusal("input-invalid", `Give 1 to ${MAX_OPENED_KEYS} keys.`);
      const closed = new Map(shown.map(({ key, visibility }) => [key, visibility === "SUMMARY"] as const));
      const unknown = wanted.find((key) => !closed.has(key));
      if (unknown !== undefined) return createOpenRefusal("section-unknown", formatUnknownSection(unknown, closed));
      const keys = wanted.filter((key) => closed.get(key));
      if (keys.length > 0) throw new VisibilityExpansionRequired(keys, values.reason);
      return { content: `Shown in full already: ${wanted.join(", ")}.`, isError: false };
    },
  };
}

/** One key may come as a text. */
function wrapSingleKey(input: unknown): unknown {
  if (!isJsonObject(input)) return input;
  const entries = Object.entries(input);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name !== "reason" && typeof value === "string" ? [value] : value]),
  );
}

function formatUnknownSection(key: string, closed: ReadonlyMap<string, boolean>): string {
  const open = [...closed].filter(([, isClosed]) => isClosed).map(([name]) => name);
  const near = open.find((name) => name.endsWith(`.${key}`)) ?? findNearest(key, open);
  const meant = near === undefined ? "" : ` Did you mean "${near}"?`;
  const left = open.length === 0 ? "All is shown in full." : `These can be opened: ${open.slice(0, 50).join(", ")}.`;
  return `There is no section "${sanitizeLine(key, 100)}".${meant} ${left}`;
}

function createOpenRefusal(code: ErrorCode, content: string): ToolResult {
  return { content, isError: true, code };
}
