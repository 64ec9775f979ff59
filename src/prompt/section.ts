import { defined } from "../shared/defined.ts";
import { PromptValidationError } from "../shared/error.ts";
import { frozen } from "../shared/frozen.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { isData } from "../skill/data.ts";
import type { Tool } from "../skill/tool.ts";
import { type NamesIn, openTemplate, type Params, type Template, type Value } from "./template.ts";

/** What a model calls to see all of a section. */
export const OPEN_SECTIONS = "open_sections";

/** How much of a section is shown. */
export type Visibility = "FULL" | "SUMMARY";
export type VisibilitySelector<P> = Visibility | ((params: P) => Visibility);

/** A part of a prompt, made by `markdown`, `skill` or `skillsSection`. `P` is what it takes of the parameters. */
export interface Section<in P = unknown> {
  readonly kind: "markdown" | "skill" | "skills";
  readonly key: string;
  readonly title: string;
  readonly template: Template;
  readonly summary: Template | undefined;
  /** Values for parameters that nobody binds: for it, and for what is below it. */
  readonly defaultParams: Params;
  readonly enabled: ((params: P) => boolean) | undefined;
  readonly visibility: VisibilitySelector<P>;
  readonly acceptsOverrides: boolean;
  readonly tools: readonly Tool[];
  /** Whether it, or a section below it, has tools. */
  readonly hasTools: boolean;
  /** The sections below it, as they are for these parameters. */
  children(params: P): readonly Section<P>[];
  /** The name of the skill that it is, where it is one. */
  readonly skill?: string;
  /** The same with other parts, judged anew. */
  remade(parts: Parts): Section<P>;
}

/** What `bind` may put in place of what a section says. */
export interface Parts {
  template?: string;
  summary?: string;
  tools?: readonly Tool[];
  /** For each section below it, what to make of it. */
  below?: (child: Section<never>) => Section<never>;
}

export interface SectionOptions<P> {
  title: string;
  key: string;
  template: string;
  /** What is shown in its place while it is summarised: a template too. */
  summary?: string;
  defaultParams?: Partial<P>;
  /** Whether it is shown at all. */
  enabled?: (params: P) => boolean;
  /** How much of it is shown at first. */
  visibility?: VisibilitySelector<P>;
  /** Whether `bind` may put another text in its place; true when left out. */
  acceptsOverrides?: boolean;
  /** What a model may call while it is shown in full. */
  tools?: readonly Tool[];
  children?: readonly Section<P>[];
}

/** What all these sections take of the parameters together. Of one whose type nobody knows, anything. */
export type ParamsOf<S extends readonly unknown[]> = S[number] extends infer One
  ? (
      One extends Section<infer P>
        ? (params: [P] extends [never] ? Params : P) => void
        : (params: unknown) => void
    ) extends (params: infer All) => void
    ? All
    : never
  : never;

/** The options of a section as they are written: its texts and what is below it say what it takes. */
export type Written<O, D, T extends string, U extends string, C extends readonly Section<never>[]> = Omit<
  O,
  "summary" | "children"
> & { template: T; summary?: U; defaultParams?: D; children?: C };

/** What is left to bind of the parameters and of what the texts name: what has a default may be left out. */
export type Unset<P, D, N extends string> = unknown extends D ? Taken<P, N> : Omit<Taken<P, N>, keyof D> & Partial<D>;
type Taken<P, N extends string> = [N] extends [never] ? P : P & Readonly<Record<N, Value>>;

/** Text in a prompt. It is shown in full unless `visibility` says otherwise. Throws a PromptValidationError. */
export function markdown<
  P = unknown,
  D = unknown,
  const T extends string = string,
  const U extends string = string,
  const C extends readonly Section<never>[] = readonly Section<P>[],
>(
  options: Written<SectionOptions<P>, D, T, U, C>,
): Section<NoInfer<Unset<P & ParamsOf<C>, D, NamesIn<T> | NamesIn<U>>>> {
  const given = options as unknown as SectionOptions<P>;
  const section = makeSection<P>("markdown", given, { visibility: "FULL", where: named("Section", options.key) });
  const made: Section<never> = frozen({
    ...section,
    remade: (parts: Parts) => markdown<P>(withParts(given, section, parts)),
  });
  return made as Section<never> as never;
}

/** Options with these parts in place of those of the section that was made of them. */
export function withParts<O extends object>(
  options: O,
  { tools, children }: Pick<Section<never>, "tools" | "children">,
  { below = (child) => child, ...parts }: Parts,
): O {
  return { ...options, tools, ...parts, children: children({} as never).map(below) };
}

interface Making {
  visibility: Visibility;
  where: string;
  /** The summary when none is given. */
  summary?: Template;
  /** The skill's name, where it is one. */
  skill?: string;
}

/** One section, judged. */
export function makeSection<P>(
  kind: "markdown" | "skill",
  options: SectionOptions<P>,
  { where, skill, ...defaults }: Making,
): Omit<Section<P>, "remade"> {
  const { key, title, template, enabled, defaultParams = {} } = options;
  const { acceptsOverrides = true, visibility = defaults.visibility } = options;
  checkKnown(options, SECTION_KEYS, where);
  checkHead(where, key, title);
  if (typeof template !== "string" || template.trim() === "")
    throw invalid(where, "the template is empty", "write what it says");
  if (options.summary !== undefined && (typeof options.summary !== "string" || options.summary.trim() === ""))
    throw invalid(where, "the summary is empty", "leave it out or write one");
  const summary = options.summary === undefined ? defaults.summary : openTemplate(options.summary, where);
  if (visibility === "SUMMARY" && summary === undefined)
    throw invalid(where, "it is to be summarised and has no summary", "give it a summary");
  if (visibility !== "SUMMARY" && visibility !== "FULL" && typeof visibility !== "function")
    throw invalid(where, "its visibility is none", 'say "FULL", "SUMMARY" or a function that gives one of them');
  checkEnabled(where, enabled);
  if (!isData(defaultParams))
    throw invalid(where, "`defaultParams` are no object", "give values by their names: { language: … }");
  checkTools(where, options.tools ?? []);
  checkSiblings(where, options.children ?? []);
  // What is put into these lists later was not judged, and could be the section itself.
  const [tools, children] = [Object.freeze([...(options.tools ?? [])]), Object.freeze([...(options.children ?? [])])];
  return {
    kind,
    key,
    title: title.trim(),
    template: openTemplate(template, where),
    summary,
    defaultParams,
    enabled,
    visibility,
    acceptsOverrides,
    tools,
    hasTools: tools.length > 0 || children.some((child) => child.hasTools),
    children: () => children,
    ...defined({ skill }),
  };
}

const SECTION_KEYS: ReadonlySet<string> = new Set([
  ...["title", "key", "template", "summary", "defaultParams", "enabled", "visibility", "acceptsOverrides", "tools"],
  "children",
]);

/** A word that JavaScript would take without a word of its own: `defaultparams`. */
export function checkKnown(options: object, known: ReadonlySet<string>, where: string): void {
  const unknown = Object.keys(options).find((key) => !known.has(key));
  if (unknown !== undefined)
    throw invalid(where, `"${unknown}" is no part of it`, `there are ${[...known].join(", ")}`);
}

export function checkEnabled(where: string, enabled: unknown): void {
  if (enabled !== undefined && typeof enabled !== "function")
    throw invalid(where, "`enabled` is no function", "give a function that gives true or false");
}

export function checkHead(where: string, key: string, title: string): void {
  if (typeof key !== "string" || !KEY.test(key))
    throw invalid(where, "the key cannot be used", "use up to 64 lower-case letters, digits, `-` and `_`, and no dot");
  if (typeof title !== "string" || title.trim() === "") throw invalid(where, "the title is empty", "write one");
  if (/[\r\n]/.test(title.trim())) throw invalid(where, "the title has more than one line", "write it as one");
}

const KEY = /^[a-z0-9][a-z0-9_-]{0,63}$/;

function checkTools(where: string, tools: readonly Tool[]): void {
  if (!Array.isArray(tools)) throw invalid(where, "`tools` is no list", "give a list of what Tool.define made");
  for (const tool of tools) {
    if (typeof Object(tool).execute !== "function" || typeof tool.name !== "string")
      throw invalid(where, "one of its tools is none", "make it with Tool.define");
    if (tool.name === OPEN_SECTIONS)
      throw invalid(where, `a tool is called "${OPEN_SECTIONS}"`, "call it something else: that one opens sections");
  }
}

/** Keys lead to sections: two of one parent with the same would be one. */
export function checkSiblings(where: string, sections: readonly Section<never>[]): void {
  if (!Array.isArray(sections)) throw invalid(where, "its sections are no list", "give a list of sections");
  if (!sections.every((section) => KINDS.has(Object(section).kind)))
    throw invalid(where, "one of its sections is none", "make it with markdown, skill or skillsSection");
  checkUnique(
    sections.map(({ key }) => key),
    (key) => invalid(where, `two sections have the key "${key}"`, "give each a key of its own"),
  );
}

const KINDS: ReadonlySet<unknown> = new Set<Section["kind"]>(["markdown", "skill", "skills"]);

/** Throws for the first that is there twice. */
export function checkUnique(names: readonly string[], wrong: (name: string) => Error): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw wrong(name);
    seen.add(name);
  }
}

/** Whether a section is on. Throws a PromptValidationError when its function fails or gives something else. */
export function isSectionOn({ enabled }: Pick<Section<never>, "enabled">, params: Params, where: string): boolean {
  return enabled === undefined || isOn(() => enabled(params as never), where);
}

/** Something truthy is no yes: a promise always is. */
export function isOn(enabled: () => unknown, where: string): boolean {
  const answer = answerOf(enabled, where, "enabled");
  if (typeof answer === "boolean") return answer;
  throw invalid(where, "its `enabled` gave no boolean", "let the function give true or false, and no promise");
}

/** How much of a section is shown. Throws as `isSectionOn` does. */
export function visibilityOf(
  { visibility }: Pick<Section<never>, "visibility">,
  params: Params,
  where: string,
): Visibility {
  if (typeof visibility !== "function") return visibility;
  const chosen = answerOf(() => visibility(params as never), where, "visibility");
  if (chosen === "FULL" || chosen === "SUMMARY") return chosen;
  throw invalid(where, "its visibility is none", 'let the function give "FULL" or "SUMMARY"');
}

/** What a function of the prompt's author throws is told with the name of its section. */
function answerOf(ask: () => unknown, where: string, what: string): unknown {
  try {
    return ask();
  } catch (cause) {
    throw invalid(where, `its \`${what}\` failed: ${inLine(reason(cause), 200)}`, "correct the function", cause);
  }
}

/** `Section "tone"`, also where the name is none. */
export function named(what: string, name: unknown): string {
  return `${what} "${inLine(String(name), 80)}"`;
}

export function invalid(where: string, what: string, fix: string, cause?: unknown): PromptValidationError {
  return new PromptValidationError("definition-invalid", { message: `${where}: ${what}`, fix, cause });
}
