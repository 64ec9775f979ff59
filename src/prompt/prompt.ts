import { isData } from "../skill/data.ts";
import type { Tool } from "../skill/tool.ts";
import { openSectionsTool } from "./open-sections.ts";
import { type Override, overridden } from "./override.ts";
import { containersIn, renderSections, type Shown } from "./render.ts";
import { checkHead, checkKnown, checkSiblings, invalid, named, type ParamsOf, type Section } from "./section.ts";
import { checkNames, type SkillSource, type SkillsSection } from "./skills-section.ts";
import type { Params } from "./template.ts";

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
  overrides?: Readonly<Record<string, Override>>;
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
  readonly params: Params;
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
  readonly sections: readonly Shown[];
  /** Those of which a summary is shown. */
  readonly summarized: readonly Shown[];
}

/** A prompt of sections. Throws a PromptValidationError when it cannot be one. */
export function promptTemplate<const S extends readonly Section<never>[]>(
  options: PromptTemplateOptions<S>,
): PromptTemplate<ParamsOf<S>> {
  const { ns, key, sections } = options;
  const where = named("Prompt", key);
  checkKnown(options, PROMPT_KEYS, where);
  checkHead(where, key, key);
  checkHead(named("The namespace", ns), ns, ns);
  checkSiblings(where, sections);
  return {
    ns,
    key,
    sections,
    bind(...[params = {}, bindOptions = {}]) {
      if (!isData(params))
        throw invalid(where, "the parameters are no object", "give them by name: bind({ language: … })");
      checkKnown(bindOptions, BIND_KEYS, `${where}, when it is bound`);
      return bound({ ns, key, sections: overridden(sections, bindOptions.overrides ?? {}), params: { ...params } });
    },
  };
}

const PROMPT_KEYS: ReadonlySet<string> = new Set(["ns", "key", "sections"]);
const BIND_KEYS: ReadonlySet<string> = new Set(["overrides"]);

function bound(head: Pick<Prompt, "ns" | "key" | "params" | "sections">): Prompt {
  const { key, params, sections } = head;
  const where = `Prompt "${key}"`;
  return {
    ...head,
    skills() {
      const holders = containersIn(sections, params) as SkillsSection<never>[];
      const all = holders.flatMap((section) => section.active(params as never));
      checkNames(
        where,
        all.map(({ name }) => name),
      );
      return all;
    },
    render({ expanded = [], isInstalled = false } = {}) {
      const shown = renderSections(sections, { params, expanded: new Set(expanded), isInstalled });
      checkNames(
        where,
        shown.flatMap(({ skill }) => skill ?? []),
      );
      const summarized = shown.filter(({ visibility }) => visibility === "SUMMARY");
      const tools = [...new Set(shown.flatMap((section) => (section.visibility === "FULL" ? section.tools : [])))];
      return {
        text: shown.map(({ text }) => text).join("\n\n"),
        tools: summarized.length > 0 ? [...tools, openSectionsTool(shown)] : tools,
        sections: shown,
        summarized,
      };
    },
  };
}
