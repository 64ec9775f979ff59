import { PromptValidationError } from "../../errors/problem.ts";
import type { Tool } from "../../skill/tool.ts";
import { isJsonObject, omitUndefined } from "../../util/objects.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import {
  checkKeyAndTitle,
  checkOptionKeys,
  checkSiblings,
  checkSkillNames,
  createDefinitionError,
  evaluateVisibility,
  formatSubject,
  isSectionOn,
  type ParamsOf,
  type PromptParams,
  type Section,
  type TextTemplate,
  type Visibility,
} from "./prompt-section.ts";
import { createOpenSectionsTool } from "./prompt-session.ts";
import type { SkillSource, SkillsSection } from "./skill-sections.ts";

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
  bind(...args: BindArguments<P>): Prompt;
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

export interface RenderSectionsOptions {
  params: PromptParams;
  /** Dotted keys of sections to show in full, regardless of their visibility. */
  expanded: Pick<ReadonlySet<string>, "has">;
  /** True if the installable skills are installed: the client lists them, so the prompt omits them. */
  isInstalled: boolean;
}

/** A section of a rendered prompt, in full or as a summary. */
export interface RenderedSection {
  /** Dotted key: `skills.testing`. */
  key: string;
  title: string;
  visibility: Visibility;
  /** The skill's name, if the section is a skill. */
  skill?: string;
  /** The tools that are available, or become available when the section is opened. */
  tools: readonly Tool[];
  text: string;
}

/** Renders every visible section, in order. Throws a PromptValidationError, also for sections that are not open yet. */
function renderSections(sections: readonly Section<never>[], rendering: RenderSectionsOptions): RenderedSection[] {
  const context: RenderContext = { ...rendering, shown: [], owners: new Map() };
  for (const placed of placeSections(sections, ROOT_SECTION, context)) renderSection(placed, context);
  return context.shown;
}

/** Renders a section and its descendants in full, without the heading: the body of its SKILL.md. */
export function renderSkillBody(section: Section<never>, params: PromptParams): string {
  const context: RenderContext = { ...expandAll(params), shown: [], owners: new Map() };
  const placed = placeSection(section, { ...ROOT_SECTION, depth: 0 }, params);
  checkSection(placed, context);
  for (const child of placeChildren(placed, context)) renderSection(child, context);
  return [section.template.fill(placed.params, placed.where), ...context.shown.map(({ text }) => text)].join("\n\n");
}

/** Returns the enabled sections that contain skills, at any depth. */
function findSkillContainers(sections: readonly Section<never>[], params: PromptParams): Section<never>[] {
  const find = (placed: readonly PlacedSection[]): Section<never>[] =>
    placed.flatMap((one) =>
      one.section.kind === "skills" ? one.section : find(placeChildren(one, expandAll(params))),
    );
  return find(placeSections(sections, ROOT_SECTION, expandAll(params)));
}

const expandAll = (params: PromptParams): RenderSectionsOptions => ({
  params,
  expanded: { has: () => true },
  isInstalled: false,
});

interface RenderContext extends RenderSectionsOptions {
  shown: RenderedSection[];
  /** The owner of each tool, by tool name. */
  owners: Map<string, { key: string; tool: Tool }>;
}

/** A section with its position in the prompt and its parameters. */
interface PlacedSection {
  section: Section<never>;
  key: string;
  /** The number of `#` in its heading. */
  depth: number;
  where: string;
  /** Default parameter values for it and its descendants. */
  defaults: PromptParams;
  params: PromptParams;
}

interface ParentSection extends Pick<PlacedSection, "key" | "depth" | "defaults"> {
  containsSkills: boolean;
}

const ROOT_SECTION: ParentSection = { key: "", depth: 1, defaults: {}, containsSkills: false };
const MAX_HEADING_DEPTH = 6;

function placeSection(section: Section<never>, parent: ParentSection, bound: PromptParams): PlacedSection {
  const key = parent.key === "" ? section.key : `${parent.key}.${section.key}`;
  // An installed skill does not inherit from its surroundings. In a prompt it renders the same way.
  const defaults = parent.containsSkills ? section.defaultParams : { ...parent.defaults, ...section.defaultParams };
  const params = { ...defaults, ...bound };
  return { section, key, depth: parent.depth + 1, where: `Section "${key}"`, defaults, params };
}

/** Places the enabled sections, in order. */
function placeSections(
  sections: readonly Section<never>[],
  parent: ParentSection,
  { params, isInstalled }: RenderSectionsOptions,
): PlacedSection[] {
  const listed = isInstalled && parent.containsSkills ? sections.filter(({ hasTools }) => hasTools) : sections;
  return listed
    .map((section) => placeSection(section, parent, params))
    .filter((placed) => isSectionOn(placed.section, placed.params, placed.where));
}

function placeChildren(
  { section, params, ...placed }: PlacedSection,
  rendering: RenderSectionsOptions,
): PlacedSection[] {
  const parent = { ...placed, containsSkills: section.kind === "skills" };
  return placeSections(section.children(params as never), parent, rendering);
}

function resolveVisibility(
  { section, key, params, where }: PlacedSection,
  { expanded }: RenderSectionsOptions,
): Visibility {
  return expanded.has(key) ? "FULL" : evaluateVisibility(section, params, where);
}

function renderSection(placed: PlacedSection, context: RenderContext): void {
  const { section, key, where, params } = placed;
  const { shown } = context;
  const visibility = resolveVisibility(placed, context);
  const { title, skill } = section;
  const head = { key, title, visibility, ...omitUndefined({ skill }) };
  const heading = `${"#".repeat(Math.min(placed.depth, MAX_HEADING_DEPTH))} ${title}`;
  checkSection(placed, context);
  if (visibility === "SUMMARY") {
    const tools = checkSummarized(placed, context);
    const summary = requireSummary(placed).fill(params, where);
    const text = `${heading}\n\n${summary}\n\n${formatSummaryHint(key, tools, skill !== undefined)}`;
    shown.push({ ...head, tools, text });
    return;
  }
  const body = section.template.fill(params, where);
  const before = shown.length;
  for (const child of placeChildren(placed, context)) renderSection(child, context);
  if (section.kind === "skills" && shown.length === before) return; // Every skill is omitted: no heading without content.
  shown.splice(before, 0, { ...head, tools: section.tools, text: body === "" ? heading : `${heading}\n\n${body}` });
}

/**
 * Returns the tools that opening a section provides: its own, and those of descendants that are then shown in full. Checks all descendants,
 * so that a mistake reaches the author of the prompt and not the model that opens the section.
 */
function checkSummarized(placed: PlacedSection, context: RenderContext): readonly Tool[] {
  const below = placeChildren(placed, context).flatMap((child) => {
    checkSection(child, context);
    const tools = checkSummarized(child, context);
    if (resolveVisibility(child, context) === "FULL") return tools;
    requireSummary(child).check(child.params, child.where);
    return [];
  });
  return [...new Set([...placed.section.tools, ...below])];
}

function requireSummary({ section: { summary }, where }: PlacedSection): TextTemplate {
  if (summary) return summary;
  throw createDefinitionError(where, 'its visibility is "SUMMARY" but it has no summary', "add a summary");
}

/** Formats the hint shown to a model below a summary. */
function formatSummaryHint(key: string, tools: readonly Tool[], isSkill: boolean): string {
  const names = tools.length === 0 ? "" : ` and access tools: ${tools.map(({ name }) => name).join(", ")}`;
  const [what, all] = isSkill ? ["skill", "full workflow"] : ["section", "the full section"];
  return `---\n[This ${what} is summarized. Call \`open_sections\` with key "${key}"\nto view ${all}${names}.]`;
}

function checkSection({ section, key, params, where }: PlacedSection, { owners }: RenderContext): void {
  const { names } = section.template;
  if (names.length > 0 && !names.some((name) => Object.hasOwn(params, name))) throw createUnboundError(where, names);
  section.template.check(params, where);
  // A model calls tools by name, so tools that are available together must have different names.
  for (const tool of section.tools) {
    const other = owners.get(tool.name);
    if (other && other.tool !== tool)
      throw createDefinitionError(
        where,
        `section "${other.key}" also has a tool "${tool.name}"`,
        "give each tool its own name",
      );
    owners.set(tool.name, { key, tool });
  }
}

/** Creates the error for a section without any bound parameter. A single missing value has its own error. */
function createUnboundError(where: string, names: readonly string[]): PromptValidationError {
  return new PromptValidationError("section-unbound", {
    message: `${where} is not bound: it uses ${names.join(", ")}`,
    fix: `pass values: bind({ ${names.map((name) => `${name}: …`).join(", ")} })`,
  });
}
