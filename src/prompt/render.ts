import { defined } from "../shared/defined.ts";
import { PromptValidationError } from "../shared/error.ts";
import type { Tool } from "../skill/tool.ts";
import { invalid, isSectionOn, type Section, type Visibility, visibilityOf } from "./section.ts";
import type { Params, Template } from "./template.ts";

export interface Rendering {
  params: Params;
  /** Dotted keys of sections that are shown in full, whatever they say themselves. */
  expanded: Pick<ReadonlySet<string>, "has">;
  /** Whether the skills that can be installed are: then a model finds them elsewhere, and they are left out. */
  isInstalled: boolean;
}

/** A section that a prompt shows, or of which it shows a summary. */
export interface Shown {
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
export function renderSections(sections: readonly Section<never>[], rendering: Rendering): Shown[] {
  const scene: Scene = { ...rendering, shown: [], owners: new Map() };
  for (const placed of placedIn(sections, TOP, scene)) show(placed, scene);
  return scene.shown;
}

/** A section's own text and those below it, all in full and without its heading: what its SKILL.md says. */
export function bodyOf(section: Section<never>, given: Params): string {
  const scene: Scene = { ...allOf(given), shown: [], owners: new Map() };
  const placed = place(section, { ...TOP, depth: 0 }, given);
  check(placed, scene);
  for (const child of childrenOf(placed, scene)) show(child, scene);
  return [section.template.fill(placed.params, placed.where), ...scene.shown.map(({ text }) => text)].join("\n\n");
}

/** The sections that hold skills and are on, wherever they stand. */
export function containersIn(sections: readonly Section<never>[], params: Params): Section<never>[] {
  const find = (placed: readonly Placed[]): Section<never>[] =>
    placed.flatMap((one) => (one.section.kind === "skills" ? one.section : find(childrenOf(one, allOf(params)))));
  return find(placedIn(sections, TOP, allOf(params)));
}

const allOf = (params: Params): Rendering => ({ params, expanded: { has: () => true }, isInstalled: false });

interface Scene extends Rendering {
  shown: Shown[];
  /** Whose tool it is, by its name. */
  owners: Map<string, { key: string; tool: Tool }>;
}

/** A section where it stands, with all that it is given. */
interface Placed {
  section: Section<never>;
  key: string;
  /** How many `#` its heading has. */
  depth: number;
  where: string;
  /** What holds for it and below it while nobody binds another value. */
  defaults: Params;
  params: Params;
}

interface Parent extends Pick<Placed, "key" | "depth" | "defaults"> {
  holdsSkills: boolean;
}

const TOP: Parent = { key: "", depth: 1, defaults: {}, holdsSkills: false };
const DEEPEST_HEADING = 6;

function place(section: Section<never>, parent: Parent, given: Params): Placed {
  const key = parent.key === "" ? section.key : `${parent.key}.${section.key}`;
  // A skill that is installed knows nothing of what is around it; in a prompt it is the same.
  const defaults = parent.holdsSkills ? section.defaultParams : { ...parent.defaults, ...section.defaultParams };
  const params = { ...defaults, ...given };
  return { section, key, depth: parent.depth + 1, where: `Section "${key}"`, defaults, params };
}

/** Those that are on, in order. */
function placedIn(sections: readonly Section<never>[], parent: Parent, { params, isInstalled }: Rendering): Placed[] {
  const there = isInstalled && parent.holdsSkills ? sections.filter(({ hasTools }) => hasTools) : sections;
  return there
    .map((section) => place(section, parent, params))
    .filter((placed) => isSectionOn(placed.section, placed.params, placed.where));
}

function childrenOf({ section, params, ...placed }: Placed, rendering: Rendering): Placed[] {
  const parent = { ...placed, holdsSkills: section.kind === "skills" };
  return placedIn(section.children(params as never), parent, rendering);
}

function visibilityIn({ section, key, params, where }: Placed, { expanded }: Rendering): Visibility {
  return expanded.has(key) ? "FULL" : visibilityOf(section, params, where);
}

function show(placed: Placed, scene: Scene): void {
  const { section, key, where, params } = placed;
  const { shown } = scene;
  const visibility = visibilityIn(placed, scene);
  const { title, skill } = section;
  const head = { key, title, visibility, ...defined({ skill }) };
  const heading = `${"#".repeat(Math.min(placed.depth, DEEPEST_HEADING))} ${title}`;
  check(placed, scene);
  if (visibility === "SUMMARY") {
    const tools = unopened(placed, scene);
    const summary = summaryOf(placed).fill(params, where);
    const text = `${heading}\n\n${summary}\n\n${suffixOf(key, tools, skill !== undefined)}`;
    shown.push({ ...head, tools, text });
    return;
  }
  const body = section.template.fill(params, where);
  const before = shown.length;
  for (const child of childrenOf(placed, scene)) show(child, scene);
  if (section.kind === "skills" && shown.length === before) return; // All of it is elsewhere: a heading alone says nothing.
  shown.splice(before, 0, { ...head, tools: section.tools, text: body === "" ? heading : `${heading}\n\n${body}` });
}

/**
 * What opening a section brings at once: its own tools, and those of what is then shown in full below it. All below it is checked: who
 * wrote the prompt is to hear of it, and not a model that opens it.
 */
function unopened(placed: Placed, scene: Scene): readonly Tool[] {
  const below = childrenOf(placed, scene).flatMap((child) => {
    check(child, scene);
    const tools = unopened(child, scene);
    if (visibilityIn(child, scene) === "FULL") return tools;
    summaryOf(child).check(child.params, child.where);
    return [];
  });
  return [...new Set([...placed.section.tools, ...below])];
}

function summaryOf({ section: { summary }, where }: Placed): Template {
  if (summary) return summary;
  throw invalid(where, "it is to be summarised and has no summary", "give it a summary");
}

/** What a model is told of a section that it sees in part. */
function suffixOf(key: string, tools: readonly Tool[], isSkill: boolean): string {
  const names = tools.length === 0 ? "" : ` and access tools: ${tools.map(({ name }) => name).join(", ")}`;
  const [what, all] = isSkill ? ["skill", "full workflow"] : ["section", "all of it"];
  return `---\n[This ${what} is summarized. Call \`open_sections\` with key "${key}"\nto view ${all}${names}.]`;
}

function check({ section, key, params, where }: Placed, { owners }: Scene): void {
  const { names } = section.template;
  if (names.length > 0 && !names.some((name) => Object.hasOwn(params, name))) throw unbound(where, names);
  section.template.check(params, where);
  // A model calls tools by name: of two that are there together, each must have its own.
  for (const tool of section.tools) {
    const other = owners.get(tool.name);
    if (other && other.tool !== tool)
      throw invalid(where, `"${other.key}" has a tool "${tool.name}" too`, "give each tool a name of its own");
    owners.set(tool.name, { key, tool });
  }
}

/** A section of which nothing is bound is told from one that lacks a single value. */
function unbound(where: string, names: readonly string[]): PromptValidationError {
  return new PromptValidationError("section-unbound", {
    message: `${where} is not bound: it takes ${names.join(", ")}`,
    fix: `give values: bind({ ${names.map((name) => `${name}: …`).join(", ")} })`,
  });
}
