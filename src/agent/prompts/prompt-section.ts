import { getErrorMessage, PromptValidationError } from "../../errors/problem.ts";
import type { Tool } from "../../skill/tool.ts";
import { freezeObject, isJsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

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
  readonly template: TextTemplate;
  readonly summary: TextTemplate | undefined;
  /** Values for parameters that nobody binds: for it, and for what is below it. */
  readonly defaultParams: PromptParams;
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
  remade(parts: SectionParts): Section<P>;
}

/** What `bind` may put in place of what a section says. */
export interface SectionParts {
  template?: string;
  summary?: string;
  tools?: readonly Tool[];
  /** For each section below it, what to make of it. */
  below?: (child: Section<never>) => Section<never>;
}

export interface MarkdownOptions<P> {
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
        ? (params: [P] extends [never] ? PromptParams : P) => void
        : (params: unknown) => void
    ) extends (params: infer All) => void
    ? All
    : never
  : never;

/** The options of a section as they are written: its texts and what is below it say what it takes. */
export type WrittenOptions<O, D, T extends string, U extends string, C extends readonly Section<never>[]> = Omit<
  O,
  "summary" | "children"
> & { template: T; summary?: U; defaultParams?: D; children?: C };

/** What is left to bind of the parameters and of what the texts name: what has a default may be left out. */
export type UnboundParams<P, D, N extends string> = unknown extends D
  ? TakenParams<P, N>
  : Omit<TakenParams<P, N>, keyof D> & Partial<D>;
type TakenParams<P, N extends string> = [N] extends [never] ? P : P & Readonly<Record<N, ParamValue>>;

/** Text in a prompt. It is shown in full unless `visibility` says otherwise. Throws a PromptValidationError. */
export function markdown<
  P = unknown,
  D = unknown,
  const T extends string = string,
  const U extends string = string,
  const C extends readonly Section<never>[] = readonly Section<P>[],
>(
  options: WrittenOptions<MarkdownOptions<P>, D, T, U, C>,
): Section<NoInfer<UnboundParams<P & ParamsOf<C>, D, NamesIn<T> | NamesIn<U>>>> {
  const given = options as unknown as MarkdownOptions<P>;
  const section = createSection<P>("markdown", given, {
    visibility: "FULL",
    where: formatSubject("Section", options.key),
  });
  const made: Section<never> = freezeObject({
    ...section,
    remade: (parts: SectionParts) => markdown<P>(mergeSectionParts(given, section, parts)),
  });
  return made as Section<never> as never;
}

/** Options with these parts in place of those of the section that was made of them. */
export function mergeSectionParts<O extends object>(
  options: O,
  { tools, children }: Pick<Section<never>, "tools" | "children">,
  { below = (child) => child, ...parts }: SectionParts,
): O {
  return { ...options, tools, ...parts, children: children({} as never).map(below) };
}

interface CreateSectionOptions {
  visibility: Visibility;
  where: string;
  /** The summary when none is given. */
  summary?: TextTemplate;
  /** The skill's name, where it is one. */
  skill?: string;
}

/** One section, judged. */
export function createSection<P>(
  kind: "markdown" | "skill",
  options: MarkdownOptions<P>,
  { where, skill, ...defaults }: CreateSectionOptions,
): Omit<Section<P>, "remade"> {
  const { key, title, template, enabled, defaultParams = {} } = options;
  const { acceptsOverrides = true, visibility = defaults.visibility } = options;
  checkOptionKeys(options, SECTION_KEYS, where);
  checkKeyAndTitle(where, key, title);
  if (typeof template !== "string" || template.trim() === "")
    throw createDefinitionError(where, "the template is empty", "write what it says");
  if (options.summary !== undefined && (typeof options.summary !== "string" || options.summary.trim() === ""))
    throw createDefinitionError(where, "the summary is empty", "leave it out or write one");
  const summary = options.summary === undefined ? defaults.summary : parseTemplate(options.summary, where);
  if (visibility === "SUMMARY" && summary === undefined)
    throw createDefinitionError(where, "it is to be summarised and has no summary", "give it a summary");
  if (visibility !== "SUMMARY" && visibility !== "FULL" && typeof visibility !== "function")
    throw createDefinitionError(
      where,
      "its visibility is none",
      'say "FULL", "SUMMARY" or a function that gives one of them',
    );
  checkEnabled(where, enabled);
  if (!isJsonObject(defaultParams))
    throw createDefinitionError(where, "`defaultParams` are no object", "give values by their names: { language: … }");
  checkSectionTools(where, options.tools ?? []);
  checkSiblings(where, options.children ?? []);
  // What is put into these lists later was not judged, and could be the section itself.
  const [tools, children] = [Object.freeze([...(options.tools ?? [])]), Object.freeze([...(options.children ?? [])])];
  return {
    kind,
    key,
    title: title.trim(),
    template: parseTemplate(template, where),
    summary,
    defaultParams,
    enabled,
    visibility,
    acceptsOverrides,
    tools,
    hasTools: tools.length > 0 || children.some((child) => child.hasTools),
    children: () => children,
    ...omitUndefined({ skill }),
  };
}

const SECTION_KEYS: ReadonlySet<string> = new Set([
  ...["title", "key", "template", "summary", "defaultParams", "enabled", "visibility", "acceptsOverrides", "tools"],
  "children",
]);

/** A word that JavaScript would take without a word of its own: `defaultparams`. */
export function checkOptionKeys(options: object, known: ReadonlySet<string>, where: string): void {
  const unknown = Object.keys(options).find((key) => !known.has(key));
  if (unknown !== undefined)
    throw createDefinitionError(where, `"${unknown}" is no part of it`, `there are ${[...known].join(", ")}`);
}

export function checkEnabled(where: string, enabled: unknown): void {
  if (enabled !== undefined && typeof enabled !== "function")
    throw createDefinitionError(where, "`enabled` is no function", "give a function that gives true or false");
}

export function checkKeyAndTitle(where: string, key: string, title: string): void {
  if (typeof key !== "string" || !KEY_PATTERN.test(key))
    throw createDefinitionError(
      where,
      "the key cannot be used",
      "use up to 64 lower-case letters, digits, `-` and `_`, and no dot",
    );
  if (typeof title !== "string" || title.trim() === "")
    throw createDefinitionError(where, "the title is empty", "write one");
  if (/[\r\n]/.test(title.trim()))
    throw createDefinitionError(where, "the title has more than one line", "write it as one");
}

const KEY_PATTERN = /^[a-z0-9][a-z0-9_-]{0,63}$/;

function checkSectionTools(where: string, tools: readonly Tool[]): void {
  if (!Array.isArray(tools))
    throw createDefinitionError(where, "`tools` is no list", "give a list of what Tool.define made");
  for (const tool of tools) {
    if (typeof Object(tool).execute !== "function" || typeof tool.name !== "string")
      throw createDefinitionError(where, "one of its tools is none", "make it with Tool.define");
    if (tool.name === OPEN_SECTIONS)
      throw createDefinitionError(
        where,
        `a tool is called "${OPEN_SECTIONS}"`,
        "call it something else: that one opens sections",
      );
  }
}

/** Keys lead to sections: two of one parent with the same would be one. */
export function checkSiblings(where: string, sections: readonly Section<never>[]): void {
  if (!Array.isArray(sections))
    throw createDefinitionError(where, "its sections are no list", "give a list of sections");
  if (!sections.every((section) => SECTION_KINDS.has(Object(section).kind)))
    throw createDefinitionError(where, "one of its sections is none", "make it with markdown, skill or skillsSection");
  checkUnique(
    sections.map(({ key }) => key),
    (key) => createDefinitionError(where, `two sections have the key "${key}"`, "give each a key of its own"),
  );
}

const SECTION_KINDS: ReadonlySet<unknown> = new Set<Section["kind"]>(["markdown", "skill", "skills"]);

/** Throws for the first that is there twice. */
export function checkUnique(names: readonly string[], wrong: (name: string) => Error): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw wrong(name);
    seen.add(name);
  }
}

/** Whether a section is on. Throws a PromptValidationError when its function fails or gives something else. */
export function isSectionOn(
  { enabled }: Pick<Section<never>, "enabled">,
  params: PromptParams,
  where: string,
): boolean {
  return enabled === undefined || evaluateEnabled(() => enabled(params as never), where);
}

/** Something truthy is no yes: a promise always is. */
export function evaluateEnabled(enabled: () => unknown, where: string): boolean {
  const answer = callAuthorFunction(enabled, where, "enabled");
  if (typeof answer === "boolean") return answer;
  throw createDefinitionError(
    where,
    "its `enabled` gave no boolean",
    "let the function give true or false, and no promise",
  );
}

/** How much of a section is shown. Throws as `isSectionOn` does. */
export function evaluateVisibility(
  { visibility }: Pick<Section<never>, "visibility">,
  params: PromptParams,
  where: string,
): Visibility {
  if (typeof visibility !== "function") return visibility;
  const chosen = callAuthorFunction(() => visibility(params as never), where, "visibility");
  if (chosen === "FULL" || chosen === "SUMMARY") return chosen;
  throw createDefinitionError(where, "its visibility is none", 'let the function give "FULL" or "SUMMARY"');
}

/** What a function of the prompt's author throws is told with the name of its section. */
function callAuthorFunction(ask: () => unknown, where: string, what: string): unknown {
  try {
    return ask();
  } catch (cause) {
    throw createDefinitionError(
      where,
      `its \`${what}\` failed: ${sanitizeLine(getErrorMessage(cause), 200)}`,
      "correct the function",
      cause,
    );
  }
}

/** `Section "tone"`, also where the name is none. */
export function formatSubject(what: string, name: unknown): string {
  return `${what} "${sanitizeLine(String(name), 80)}"`;
}

export function createDefinitionError(
  where: string,
  what: string,
  fix: string,
  cause?: unknown,
): PromptValidationError {
  return new PromptValidationError("definition-invalid", { message: `${where}: ${what}`, fix, cause });
}

/** What a template's placeholders stand for. */
export type PromptParams = Readonly<Record<string, unknown>>;

/** What a placeholder can stand for. */
export type ParamValue = string | number | boolean | bigint;

/** The names that a template takes, where its text is known to the compiler. One call at the end, so that a text may hold hundreds. */
export type NamesIn<T extends string, Found extends string = never> = string extends T
  ? never
  : T extends `${string}$${infer Rest}`
    ? Rest extends `$${infer More}`
      ? NamesIn<More, Found>
      : Rest extends `{${infer Name}}${infer More}`
        ? NamesIn<More, Found | Name>
        : NamesIn<Rest, Found | Exclude<NameHead<Rest>, "">>
    : Found;
type NameHead<T extends string, Read extends string = ""> = T extends `${infer First}${infer Rest}`
  ? Lowercase<First> extends NameLetter
    ? NameHead<Rest, `${Read}${First}`>
    : Read
  : Read;
type NameLetter = SplitLetters<"abcdefghijklmnopqrstuvwxyz0123456789_">;
type SplitLetters<T extends string> = T extends `${infer First}${infer Rest}` ? First | SplitLetters<Rest> : never;

/** A text with placeholders: `$name`, `${name}`, and `$$` for a dollar sign. */
export interface TextTemplate {
  /** The parameters that it takes, each once. */
  readonly names: readonly string[];
  /** Throws a PromptValidationError that names a parameter which is missing, or no text. `where` is whose it is. */
  check(params: PromptParams, where: string): void;
  /** Throws as `check` does. Contract: values are put in as they are, and not looked at again. */
  fill(params: PromptParams, where: string): string;
}

/** Throws a PromptValidationError when a `$` in it begins no placeholder. `where` is whose it is, for the error. */
export function parseTemplate(written: string, where: string): TextTemplate {
  const text = dedent(written);
  const texts: string[] = [];
  const slots: string[] = [];
  let literal = "";
  let at = 0;
  for (const found of text.matchAll(DOLLAR_PATTERN)) {
    literal += text.slice(at, found.index);
    at = found.index + found[0].length;
    const name = found[1] ?? found[2];
    if (name !== undefined) {
      texts.push(literal);
      slots.push(name);
      literal = "";
    } else if (found[0] === "$$") literal += "$";
    else throw createStrayDollarError(text, found.index, where);
  }
  texts.push(literal + text.slice(at));
  const names = [...new Set(slots)];
  return {
    names,
    check(params, whose) {
      for (const name of names) getParamText(params, name, whose);
    },
    fill: (params, whose) =>
      texts
        .map((part, index) => (index === 0 ? part : `${getParamText(params, slots[index - 1] ?? "", whose)}${part}`))
        .join(""),
  };
}

/** A text without placeholders, whatever it holds. */
export function createLiteralTemplate(text: () => string): TextTemplate {
  return { names: [], check: () => {}, fill: text };
}

const DOLLAR_PATTERN = /\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|\$)?/g;

/** Without the indentation that all lines share, and without blank lines around it. */
export function dedent(written: string): string {
  const lines = written.replace(/\r\n?/g, "\n").split("\n");
  let shared: string | undefined;
  for (const line of lines) {
    if (line.trim() === "") continue;
    const indent = /^[ \t]*/.exec(line)?.[0] ?? "";
    shared = shared === undefined ? indent : findCommonStart(shared, indent);
  }
  const width = shared?.length ?? 0;
  return lines
    .map((line) => (line.trim() === "" ? "" : line.slice(width)))
    .join("\n")
    .trim();
}

function findCommonStart(a: string, b: string): string {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return a.slice(0, length);
}

function getParamText(params: PromptParams, name: string, where: string): string {
  const value = Object.hasOwn(params, name) ? params[name] : undefined;
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (value === undefined || value === null) {
    throw new PromptValidationError("parameter-missing", {
      message: `${where}: the parameter "${name}" is missing`,
      fix: `give it a value: bind({ ${name}: … }), or defaultParams; a dollar sign is written as $$`,
    });
  }
  throw new PromptValidationError("parameter-type", {
    message: `${where}: the parameter "${name}" is neither a text, a number nor a boolean`,
    fix: "say it as a text before it is bound",
  });
}

function createStrayDollarError(text: string, at: number, where: string): PromptValidationError {
  const line = text.slice(0, at).split("\n").length;
  return new PromptValidationError("template-invalid", {
    message: `${where}: the dollar sign in line ${line} begins no placeholder`,
    fix: "write $$ for a dollar sign, and $name for a parameter, or its name in braces after the $",
  });
}
