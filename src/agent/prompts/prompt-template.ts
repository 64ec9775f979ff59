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
  /** The namespace of the prompt's name. */
  ns: string;
  key: string;
  sections: S;
}

/** A prompt whose parameters are not bound yet. */
export interface PromptTemplate<P = unknown> {
  readonly ns: string;
  readonly key: string;
  readonly sections: readonly Section<never>[];
  /** Binds the parameters. Throws a PromptValidationError for an override of an unknown section. */
  bind(...given: BindArguments<P>): Prompt;
}

// biome-ignore lint/complexity/noBannedTypes: matches every object type without a required key
type BindArguments<P> = {} extends P
  ? [params?: P | undefined, options?: BindOptions]
  : [params: P, options?: BindOptions];

export interface BindOptions {
  /** Replacement texts, by the dotted key of the section. */
  overrides?: Readonly<Record<string, SectionOverride>>;
}

export interface RenderOptions {
  /** Dotted keys of sections to show in full, regardless of their visibility. */
  expanded?: readonly string[] | ReadonlySet<string>;
  /** True if the installable skills are installed: the prompt then omits them. */
  isInstalled?: boolean;
}

/** A prompt with bound parameters. */
export interface Prompt {
  readonly ns: string;
  readonly key: string;
  readonly params: PromptParams;
  readonly sections: readonly Section<never>[];
  /** Renders the prompt. Throws a PromptValidationError that names an unbound section or a missing parameter. */
  render(options?: RenderOptions): RenderedPrompt;
  /** Returns the enabled skills of all skills sections, in order. */
  skills(): readonly SkillSource[];
}

export interface RenderedPrompt {
  readonly text: string;
  /** The tools of the sections shown in full, and `open_sections` if a section is summarized. */
  readonly tools: readonly Tool[];
  readonly sections: readonly RenderedSection[];
  /** The sections shown as a summary. */
  readonly summarized: readonly RenderedSection[];
}

/** Creates a prompt template from sections. Throws a PromptValidationError. */
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
        throw createDefinitionError(
          where,
          "the parameters are not an object",
          "pass them by name: bind({ language: … })",
        );
      checkOptionKeys(bindOptions, BIND_KEYS, `bind() of ${where}`);
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

/** Replacement texts for a section with `acceptsOverrides`. */
export interface SectionOverride {
  template?: string;
  summary?: string;
  /** Tool descriptions, by tool name. */
  tools?: Readonly<Record<string, string>>;
}

type SectionOverrides = Readonly<Record<string, SectionOverride>>;

/** Replaces texts of the sections. Throws a PromptValidationError for an override of an unknown section. */
function applyOverrides(sections: readonly Section<never>[], overrides: SectionOverrides): readonly Section<never>[] {
  const unused = new Set(Object.keys(overrides));
  if (unused.size === 0) return sections;
  const known: string[] = [];
  const remake =
    (parent: string, isClosed: boolean) =>
    (section: Section<never>): Section<never> => {
      const key = parent === "" ? section.key : `${parent}.${section.key}`;
      known.push(key);
      unused.delete(key);
      const acceptsOverrides = section.acceptsOverrides && !isClosed;
      const own = Object.hasOwn(overrides, key)
        ? readOverride({ ...section, acceptsOverrides }, key, overrides[key] ?? {})
        : {};
      // A skills section has no text: its `acceptsOverrides` applies to its skills.
      return section.rebuild({
        ...own,
        rebuildChild: remake(key, isClosed || (section.kind === "skills" && !acceptsOverrides)),
      });
    };
  const rebuilt = sections.map(remake("", false));
  const [unknown] = unused;
  if (unknown === undefined) return rebuilt;
  const near = findNearest(unknown, known);
  throw new PromptValidationError("override-unknown", {
    message: `Cannot override section "${sanitizeLine(unknown, 200)}": it does not exist`,
    fix: near === undefined ? `existing sections: ${known.join(", ")}` : `did you mean "${near}"?`,
  });
}

function readOverride(section: Section<never>, key: string, override: SectionOverride) {
  checkOptionKeys(override, OVERRIDE_KEYS, `The override of "${key}"`);
  if (!section.acceptsOverrides || section.kind === "skills") {
    throw new PromptValidationError("override-refused", {
      message: `Section "${key}" does not accept overrides`,
      fix: section.kind === "skills" ? "override one of its skills" : OVERRIDE_FIX,
    });
  }
  const { tools, ...texts } = override;
  return omitUndefined({ ...texts, tools: tools && replaceDescriptions(section.tools, tools, key) });
}

const OVERRIDE_FIX =
  "set acceptsOverrides: true on it and on its skills section; to change a referenced skill, edit its folder";
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
      fix: `its tools: ${tools.map(({ name }) => name).join(", ") || "none"}`,
    });
  }
  return tools.map((tool) => {
    const description = Object.hasOwn(descriptions, tool.name) ? descriptions[tool.name] : undefined;
    return description === undefined ? tool : { ...tool, description };
  });
}

/** A signal, not an error: a model asks for sections in full, so the prompt must be rendered again. */
export class VisibilityExpansionRequired extends Error {
  override readonly name = "VisibilityExpansionRequired";
  /** The requested visibility, by dotted key. */
  readonly requested: Readonly<Record<string, Visibility>>;
  readonly sectionKeys: readonly string[];
  /** The reason given by the model. */
  readonly reason: string | undefined;

  constructor(sectionKeys: readonly string[], reason?: string) {
    super(`Sections must be rendered in full: ${sectionKeys.join(", ")}`);
    this.sectionKeys = sectionKeys;
    this.requested = Object.fromEntries(sectionKeys.map((key) => [key, "FULL"]));
    this.reason = reason;
  }
}

const OPEN_PARAMETERS = {
  keys: {
    type: "strings",
    description: 'Keys of the sections to open, as shown in their summaries: ["skills.testing"].',
    isRequired: true,
    aliases: ["key", "section_keys", "section_key"],
  },
  reason: { type: "string", description: "Reason for opening them, in a few words." },
} as const;

const MAX_OPENED_KEYS = 20;

/**
 * Creates the tool that a model calls to see a section in full. Its `execute` throws a VisibilityExpansionRequired for the code that
 * evaluates the prompt; a section that cannot be opened is an ordinary result.
 */
export function createOpenSectionsTool(shown: readonly RenderedSection[]): Tool {
  return {
    name: OPEN_SECTIONS,
    description: "Shows summarized sections in full and provides their tools.",
    category: "skills",
    inputSchema: createInputSchema(OPEN_PARAMETERS),
    async execute(input) {
      const values = readToolInput(OPEN_PARAMETERS, wrapSingleKey(input));
      if ("refusal" in values) return values.refusal as ToolResult;
      const requested = [...new Set(values.keys)];
      if (requested.length === 0 || requested.length > MAX_OPENED_KEYS)
        return createOpenRefusal("input-invalid", `Pass 1 to ${MAX_OPENED_KEYS} keys.`);
      const closed = new Map(shown.map(({ key, visibility }) => [key, visibility === "SUMMARY"] as const));
      const unknown = requested.find((key) => !closed.has(key));
      if (unknown !== undefined) return createOpenRefusal("section-unknown", formatUnknownSection(unknown, closed));
      const keys = requested.filter((key) => closed.get(key));
      if (keys.length > 0) throw new VisibilityExpansionRequired(keys, values.reason);
      return { text: `Already shown in full: ${requested.join(", ")}.`, isError: false };
    },
  };
}

/** Accepts a single key as a string. */
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
  const suggestion = near === undefined ? "" : ` Did you mean "${near}"?`;
  const hint =
    open.length === 0 ? "All sections are shown in full." : `Sections you can open: ${open.slice(0, 50).join(", ")}.`;
  return `There is no section "${sanitizeLine(key, 100)}".${suggestion} ${hint}`;
}

function createOpenRefusal(code: ErrorCode, content: string): ToolResult {
  return { text: content, isError: true, code };
}
