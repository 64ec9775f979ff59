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
  /** Dotted keys of sections that are shown in full, whatever they say themselves. */
  expanded: Pick<ReadonlySet<string>, "has">;
  /** Whether the skills that can be installed are: then a model finds them elsewhere, and they are left out. */
  isInstalled: boolean;
}

/** A section that a prompt shows, or of which it shows a summary. */
export interface RenderedSection {
  /** Dotted: `skills.testing`. */
  key: string;
  title: string;
  visibility: Visibility;
  /** The skill's name, where it is one. */
  skill?: string;
  /** Its tools: those that a model has, or that opening it brings. */
  tools: readonly Tool[];
  text: string;
}

/** Every section that is shown, in order, with its own text. Throws a PromptValidationError, also for what is not open yet. */
export function renderSections(
  sections: readonly Section<never>[],
  rendering: RenderSectionsOptions,
): RenderedSection[] {
  const scene: RenderContext = { ...rendering, shown: [], owners: new Map() };
  for (const placed of placeSections(sections, ROOT_SECTION, scene)) renderSection(placed, scene);
  return scene.shown;
}

/** A section's own text and those below it, all in full and without its heading: what its SKILL.md says. */
export function renderSkillBody(section: Section<never>, given: PromptParams): string {
  const scene: RenderContext = { ...expandAll(given), shown: [], owners: new Map() };
  const placed = placeSection(section, { ...ROOT_SECTION, depth: 0 }, given);
  checkSection(placed, scene);
  for (const child of placeChildren(placed, scene)) renderSection(child, scene);
  return [section.template.fill(placed.params, placed.where), ...scene.shown.map(({ text }) => text)].join("\n\n");
}

/** The sections that hold skills and are on, wherever they stand. */
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
  /** Whose tool it is, by its name. */
  owners: Map<string, { key: string; tool: Tool }>;
}

/** A section where it stands, with all that it is given. */
interface PlacedSection {
  section: Section<never>;
  key: string;
  /** How many `#` its heading has. */
  depth: number;
  where: string;
  /** What holds for it and below it while nobody binds another value. */
  defaults: PromptParams;
  params: PromptParams;
}

interface ParentSection extends Pick<PlacedSection, "key" | "depth" | "defaults"> {
  holdsSkills: boolean;
}

const ROOT_SECTION: ParentSection = { key: "", depth: 1, defaults: {}, holdsSkills: false };
const MAX_HEADING_DEPTH = 6;

function placeSection(section: Section<never>, parent: ParentSection, given: PromptParams): PlacedSection {
  const key = parent.key === "" ? section.key : `${parent.key}.${section.key}`;
  // A skill that is installed knows nothing of what is around it; in a prompt it is the same.
  const defaults = parent.holdsSkills ? section.defaultParams : { ...parent.defaults, ...section.defaultParams };
  const params = { ...defaults, ...given };
  return { section, key, depth: parent.depth + 1, where: `Section "${key}"`, defaults, params };
}

/** Those that are on, in order. */
function placeSections(
  sections: readonly Section<never>[],
  parent: ParentSection,
  { params, isInstalled }: RenderSectionsOptions,
): PlacedSection[] {
  const there = isInstalled && parent.holdsSkills ? sections.filter(({ hasTools }) => hasTools) : sections;
  return there
    .map((section) => placeSection(section, parent, params))
    .filter((placed) => isSectionOn(placed.section, placed.params, placed.where));
}

function placeChildren(
  { section, params, ...placed }: PlacedSection,
  rendering: RenderSectionsOptions,
): PlacedSection[] {
  const parent = { ...placed, holdsSkills: section.kind === "skills" };
  return placeSections(section.children(params as never), parent, rendering);
}

function resolveVisibility(
  { section, key, params, where }: PlacedSection,
  { expanded }: RenderSectionsOptions,
): Visibility {
  return expanded.has(key) ? "FULL" : evaluateVisibility(section, params, where);
}

function renderSection(placed: PlacedSection, scene: RenderContext): void {
  const { section, key, where, params } = placed;
  const { shown } = scene;
  const visibility = resolveVisibility(placed, scene);
  const { title, skill } = section;
  const head = { key, title, visibility, ...omitUndefined({ skill }) };
  const heading = `${"#".repeat(Math.min(placed.depth, MAX_HEADING_DEPTH))} ${title}`;
  checkSection(placed, scene);
  if (visibility === "SUMMARY") {
    const tools = checkSummarized(placed, scene);
    const summary = requireSummary(placed).fill(params, where);
    const text = `${heading}\n\n${summary}\n\n${formatSummaryHint(key, tools, skill !== undefined)}`;
    shown.push({ ...head, tools, text });
    return;
  }
  const body = section.template.fill(params, where);
  const before = shown.length;
  for (const child of placeChildren(placed, scene)) renderSection(child, scene);
  if (section.kind === "skills" && shown.length === before) return; // All of it is elsewhere: a heading alone says nothing.
  shown.splice(before, 0, { ...head, tools: section.tools, text: body === "" ? heading : `${heading}\n\n${body}` });
}

/**
 * What opening a section brings at once: its own tools, and those of what is then shown in full below it. All below it is checked: who
 * wrote the prompt is to hear of it, and not a model that opens it.
 */
function checkSummarized(placed: PlacedSection, scene: RenderContext): readonly Tool[] {
  const below = placeChildren(placed, scene).flatMap((child) => {
    checkSection(child, scene);
    const tools = checkSummarized(child, scene);
    if (resolveVisibility(child, scene) === "FULL") return tools;
    requireSummary(child).check(child.params, child.where);
    return [];
  });
  return [...new Set([...placed.section.tools, ...below])];
}

function requireSummary({ section: { summary }, where }: PlacedSection): TextTemplate {
  if (summary) return summary;
  throw createDefinitionError(where, "it is to be summarised and has no summary", "give it a summary");
}

/** What a model is told of a section that it sees in part. */
function formatSummaryHint(key: string, tools: readonly Tool[], isSkill: boolean): string {
  const names = tools.length === 0 ? "" : ` and access tools: ${tools.map(({ name }) => name).join(", ")}`;
  const [what, all] = isSkill ? ["skill", "full workflow"] : ["section", "all of it"];
  return `---\n[This ${what} is summarized. Call \`open_sections\` with key "${key}"\nto view ${all}${names}.]`;
}

function checkSection({ section, key, params, where }: PlacedSection, { owners }: RenderContext): void {
  const { names } = section.template;
  if (names.length > 0 && !names.some((name) => Object.hasOwn(params, name))) throw createUnboundError(where, names);
  section.template.check(params, where);
  // A model calls tools by name: of two that are there together, each must have its own.
  for (const tool of section.tools) {
    const other = owners.get(tool.name);
    if (other && other.tool !== tool)
      throw createDefinitionError(
        where,
        `"${other.key}" has a tool "${tool.name}" too`,
        "give each tool a name of its own",
      );
    owners.set(tool.name, { key, tool });
  }
}

/** A section of which nothing is bound is told from one that lacks a single value. */
function createUnboundError(where: string, names: readonly string[]): PromptValidationError {
  return new PromptValidationError("section-unbound", {
    message: `${where} is not bound: it takes ${names.join(", ")}`,
    fix: `give values: bind({ ${names.map((name) => `${name}: …`).join(", ")} })`,
  });
}
