import { PromptValidationError } from "../../errors/problem.ts";
import type { Tool } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import {
  createDefinitionError,
  evaluateVisibility,
  isSectionOn,
  type PromptParams,
  type Section,
  type TextTemplate,
  type Visibility,
} from "./prompt-section.ts";

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
export function renderSections(
  sections: readonly Section<never>[],
  rendering: RenderSectionsOptions,
): RenderedSection[] {
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
export function findSkillContainers(sections: readonly Section<never>[], params: PromptParams): Section<never>[] {
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
