import { getErrorMessage, PromptValidationError } from "../../errors/problem.ts";
import type { Tool } from "../../skill/tool.ts";
import { freezeObject, isJsonObject, omitUndefined } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

/** The tool that a model calls to see a section in full. */
export const OPEN_SECTIONS = "open_sections";

/** Selects between the full text of a section and its summary. */
export type Visibility = "FULL" | "SUMMARY";
export type VisibilitySelector<P> = Visibility | ((params: P) => Visibility);

/** A part of a prompt, created by `markdown`, `skill` or `skillsSection`. `P` is the type of the parameters it uses. */
export interface Section<in P = unknown> {
  readonly kind: "markdown" | "skill" | "skills";
  readonly key: string;
  readonly title: string;
  readonly template: TextTemplate;
  readonly summary: TextTemplate | undefined;
  /** Default parameter values for this section and its children. */
  readonly defaultParams: PromptParams;
  readonly enabled: ((params: P) => boolean) | undefined;
  readonly visibility: VisibilitySelector<P>;
  readonly acceptsOverrides: boolean;
  readonly tools: readonly Tool[];
  /** True if the section or one of its descendants has tools. */
  readonly hasTools: boolean;
  /** Returns the child sections for these parameters. */
  children(params: P): readonly Section<P>[];
  /** The skill's name, if the section is a skill. */
  readonly skill?: string;
  /** Returns a copy of the section with other parts. The copy is validated again. */
  rebuild(parts: SectionParts): Section<P>;
}

/** The parts of a section that `bind` may override. */
export interface SectionParts {
  template?: string;
  summary?: string;
  tools?: readonly Tool[];
  /** Maps each child section to its replacement. */
  rebuildChild?: (child: Section<never>) => Section<never>;
}

export interface MarkdownOptions<P> {
  title: string;
  key: string;
  template: string;
  /** The text shown while the section is summarized. It is a template too. */
  summary?: string;
  defaultParams?: Partial<P>;
  /** Returns false to hide the section. */
  enabled?: (params: P) => boolean;
  /** Initial visibility. */
  visibility?: VisibilitySelector<P>;
  /** Allows `bind` to override the texts. Defaults to true. */
  acceptsOverrides?: boolean;
  /** Tools that a model may call while the section is shown in full. */
  tools?: readonly Tool[];
  children?: readonly Section<P>[];
}

/** The combined parameters of all these sections. A section of unknown type accepts any parameters. */
export type ParamsOf<S extends readonly unknown[]> = S[number] extends infer One
  ? (
      One extends Section<infer P>
        ? (params: [P] extends [never] ? PromptParams : P) => void
        : (params: unknown) => void
    ) extends (params: infer All) => void
    ? All
    : never
  : never;

/** The options of a section as literal types: the parameters are inferred from its texts and children. */
export type WrittenOptions<O, D, T extends string, U extends string, C extends readonly Section<never>[]> = Omit<
  O,
  "summary" | "children"
> & { template: T; summary?: U; defaultParams?: D; children?: C };

/** The parameters that remain to be bound, including those named in the texts. Parameters with a default are optional. */
export type UnboundParams<P, D, N extends string> = unknown extends D
  ? TakenParams<P, N>
  : Omit<TakenParams<P, N>, keyof D> & Partial<D>;
type TakenParams<P, N extends string> = [N] extends [never] ? P : P & Readonly<Record<N, ParamValue>>;

/** Creates a text section. It is shown in full unless `visibility` is set. Throws a PromptValidationError. */
export function markdown<
  P = unknown,
  D = unknown,
  const T extends string = string,
  const U extends string = string,
  const C extends readonly Section<never>[] = readonly Section<P>[],
>(
  options: WrittenOptions<MarkdownOptions<P>, D, T, U, C>,
): Section<NoInfer<UnboundParams<P & ParamsOf<C>, D, NamesIn<T> | NamesIn<U>>>> {
  const sectionOptions = options as unknown as MarkdownOptions<P>;
  const section = createSection<P>("markdown", sectionOptions, {
    visibility: "FULL",
    where: formatSubject("Section", options.key),
  });
  const result: Section<never> = freezeObject({
    ...section,
    rebuild: (parts: SectionParts) => markdown<P>(mergeSectionParts(sectionOptions, section, parts)),
  });
  return result as Section<never> as never;
}

/** Returns the options of a section with these parts replaced. */
export function mergeSectionParts<O extends object>(
  options: O,
  { tools, children }: Pick<Section<never>, "tools" | "children">,
  { rebuildChild: below = (child) => child, ...parts }: SectionParts,
): O {
  return { ...options, tools, ...parts, children: children({} as never).map(below) };
}

interface CreateSectionOptions {
  visibility: Visibility;
  where: string;
  /** The summary used if the options contain none. */
  summary?: TextTemplate;
  /** The skill's name, if the section is a skill. */
  skill?: string;
}

/** Validates the options and creates a section. */
export function createSection<P>(
  kind: "markdown" | "skill",
  options: MarkdownOptions<P>,
  { where, skill, ...defaults }: CreateSectionOptions,
): Omit<Section<P>, "rebuild"> {
  const { key, title, template, enabled, defaultParams = {} } = options;
  const { acceptsOverrides = true, visibility = defaults.visibility } = options;
  checkOptionKeys(options, SECTION_KEYS, where);
  checkKeyAndTitle(where, key, title);
  if (typeof template !== "string" || template.trim() === "")
    throw createDefinitionError(where, "the template is empty", "write the text of the section");
  if (options.summary !== undefined && (typeof options.summary !== "string" || options.summary.trim() === ""))
    throw createDefinitionError(where, "the summary is empty", "write a summary or remove the option");
  const summary = options.summary === undefined ? defaults.summary : parseTemplate(options.summary, where);
  if (visibility === "SUMMARY" && summary === undefined)
    throw createDefinitionError(where, 'its visibility is "SUMMARY" but it has no summary', "add a summary");
  if (visibility !== "SUMMARY" && visibility !== "FULL" && typeof visibility !== "function")
    throw createDefinitionError(
      where,
      "its visibility is invalid",
      'use "FULL", "SUMMARY" or a function that returns one of them',
    );
  checkEnabled(where, enabled);
  if (!isJsonObject(defaultParams))
    throw createDefinitionError(where, "`defaultParams` is not an object", "set values by name: { language: … }");
  checkSectionTools(where, options.tools ?? []);
  checkSiblings(where, options.children ?? []);
  // Copied and frozen: entries added later would not be validated, and could be the section itself.
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

/** Rejects unknown options, which JavaScript accepts silently: `defaultparams`. */
export function checkOptionKeys(options: object, known: ReadonlySet<string>, where: string): void {
  const unknown = Object.keys(options).find((key) => !known.has(key));
  if (unknown !== undefined)
    throw createDefinitionError(where, `unknown option "${unknown}"`, `supported options: ${[...known].join(", ")}`);
}

export function checkEnabled(where: string, enabled: unknown): void {
  if (enabled !== undefined && typeof enabled !== "function")
    throw createDefinitionError(where, "`enabled` is not a function", "set a function that returns true or false");
}

export function checkKeyAndTitle(where: string, key: string, title: string): void {
  if (typeof key !== "string" || !KEY_PATTERN.test(key))
    throw createDefinitionError(
      where,
      "the key is invalid",
      "use up to 64 lower-case letters, digits, `-` and `_`, and no dot",
    );
  if (typeof title !== "string" || title.trim() === "")
    throw createDefinitionError(where, "the title is empty", "write a title");
  if (/[\r\n]/.test(title.trim()))
    throw createDefinitionError(where, "the title has more than one line", "write it on one line");
}

const KEY_PATTERN = /^[a-z0-9][a-z0-9_-]{0,63}$/;

function checkSectionTools(where: string, tools: readonly Tool[]): void {
  if (!Array.isArray(tools))
    throw createDefinitionError(where, "`tools` is not an array", "set an array of tools created with Tool.define");
  for (const tool of tools) {
    if (typeof Object(tool).execute !== "function" || typeof tool.name !== "string")
      throw createDefinitionError(where, "an entry of `tools` is not a tool", "create it with Tool.define");
    if (tool.name === OPEN_SECTIONS)
      throw createDefinitionError(
        where,
        `a tool is named "${OPEN_SECTIONS}"`,
        "rename it: this name is reserved for opening sections",
      );
  }
}

/** Checks the child sections of one parent. Keys identify sections, so siblings must not share one. */
export function checkSiblings(where: string, sections: readonly Section<never>[]): void {
  if (!Array.isArray(sections))
    throw createDefinitionError(where, "its sections are not an array", "set an array of sections");
  if (!sections.every((section) => SECTION_KINDS.has(Object(section).kind)))
    throw createDefinitionError(where, "an entry is not a section", "create it with markdown, skill or skillsSection");
  checkUnique(
    sections.map(({ key }) => key),
    (key) => createDefinitionError(where, `two sections have the key "${key}"`, "give each its own key"),
  );
}

const SECTION_KINDS: ReadonlySet<unknown> = new Set<Section["kind"]>(["markdown", "skill", "skills"]);

/** Throws for the first duplicate. */
export function checkUnique(names: readonly string[], wrong: (name: string) => Error): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw wrong(name);
    seen.add(name);
  }
}

/** Returns true if a section is enabled. Throws a PromptValidationError when its function fails or returns another type. */
export function isSectionOn(
  { enabled }: Pick<Section<never>, "enabled">,
  params: PromptParams,
  where: string,
): boolean {
  return enabled === undefined || evaluateEnabled(() => enabled(params as never), where);
}

/** Requires a boolean: a promise is always truthy. */
export function evaluateEnabled(enabled: () => unknown, where: string): boolean {
  const answer = callAuthorFunction(enabled, where, "enabled");
  if (typeof answer === "boolean") return answer;
  throw createDefinitionError(
    where,
    "`enabled` did not return a boolean",
    "return true or false from the function, not a promise",
  );
}

/** Returns the visibility of a section. Throws as `isSectionOn` does. */
export function evaluateVisibility(
  { visibility }: Pick<Section<never>, "visibility">,
  params: PromptParams,
  where: string,
): Visibility {
  if (typeof visibility !== "function") return visibility;
  const chosen = callAuthorFunction(() => visibility(params as never), where, "visibility");
  if (chosen === "FULL" || chosen === "SUMMARY") return chosen;
  throw createDefinitionError(where, "its visibility is invalid", 'return "FULL" or "SUMMARY" from the function');
}

/** Calls a function of the prompt's author. An error names the section. */
function callAuthorFunction(call: () => unknown, where: string, what: string): unknown {
  try {
    return call();
  } catch (cause) {
    throw createDefinitionError(
      where,
      `\`${what}\` failed: ${sanitizeLine(getErrorMessage(cause), 200)}`,
      "fix the function",
      cause,
    );
  }
}

/** Formats `Section "tone"`. The name may be of any type. */
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

/** Values of the placeholders of a template. */
export type PromptParams = Readonly<Record<string, unknown>>;

/** The types that a placeholder accepts. */
export type ParamValue = string | number | boolean | bigint;

/** The placeholder names of a template, if its text is a literal type. Tail-recursive, so a text may contain hundreds. */
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
  /** The parameter names, each once. */
  readonly names: readonly string[];
  /** Throws a PromptValidationError that names a parameter which is missing or not text. `where` names the section. */
  check(params: PromptParams, where: string): void;
  /** Throws as `check` does. Contract: values are inserted verbatim and not expanded again. */
  fill(params: PromptParams, where: string): string;
}

/** Parses a template. Throws a PromptValidationError for a `$` that starts no placeholder. `where` names the section in the error. */
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

/** Creates a template without placeholders: a `$` in the text has no meaning. */
export function createLiteralTemplate(text: () => string): TextTemplate {
  return { names: [], check: () => {}, fill: text };
}

const DOLLAR_PATTERN = /\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|\$)?/g;

/** Removes the indentation that all lines share, and leading and trailing blank lines. */
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
      fix: `set a value with bind({ ${name}: … }) or defaultParams; write a dollar sign as $$`,
    });
  }
  throw new PromptValidationError("parameter-type", {
    message: `${where}: the parameter "${name}" is not a string, number or boolean`,
    fix: "convert it to a string before you bind it",
  });
}

function createStrayDollarError(text: string, at: number, where: string): PromptValidationError {
  const line = text.slice(0, at).split("\n").length;
  return new PromptValidationError("template-invalid", {
    message: `${where}: the dollar sign in line ${line} does not start a placeholder`,
    fix: "write $$ for a dollar sign, and $name for a parameter, or put its name in braces after the $",
  });
}

export function checkSkillNames(where: string, names: readonly string[]): void {
  checkUnique(names, (name) =>
    createDefinitionError(where, `two skills are named "${name}"`, "give each its own name"),
  );
}
