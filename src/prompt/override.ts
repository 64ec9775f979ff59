import { defined } from "../shared/defined.ts";
import { PromptValidationError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import type { Tool } from "../skill/tool.ts";
import { checkKnown, type Section } from "./section.ts";

/** What stands in a section's place, where it lets it. */
export interface Override {
  template?: string;
  summary?: string;
  /** Descriptions of its tools, by name. */
  tools?: Readonly<Record<string, string>>;
}

type Overrides = Readonly<Record<string, Override>>;

/** The sections with other texts. Throws a PromptValidationError for one that has no place. */
export function overridden(sections: readonly Section<never>[], overrides: Overrides): readonly Section<never>[] {
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
        ? partsOf({ ...section, acceptsOverrides }, key, overrides[key] ?? {})
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
  const near = nearest(unknown, known);
  throw new PromptValidationError("override-unknown", {
    message: `There is no section "${inLine(unknown, 200)}" to put another text into`,
    fix: near === undefined ? `there are ${known.join(", ")}` : `did you mean "${near}"?`,
  });
}

function partsOf(section: Section<never>, key: string, override: Override) {
  checkKnown(override, OVERRIDE_KEYS, `The override of "${key}"`);
  if (!section.acceptsOverrides || section.kind === "skills") {
    throw new PromptValidationError("override-refused", {
      message: `Section "${key}" takes no other text`,
      fix: section.kind === "skills" ? "name one of its skills" : LET_IT,
    });
  }
  const { tools, ...texts } = override;
  return defined({ ...texts, tools: tools && described(section.tools, tools, key) });
}

const LET_IT =
  "let it, and the section of skills that it is in: acceptsOverrides: true; what a reference says is in its folder";
const OVERRIDE_KEYS: ReadonlySet<string> = new Set(["template", "summary", "tools"]);

function described(tools: readonly Tool[], descriptions: Readonly<Record<string, string>>, key: string): Tool[] {
  const unknown = Object.keys(descriptions).find((name) => !tools.some((tool) => tool.name === name));
  if (unknown !== undefined) {
    throw new PromptValidationError("override-unknown", {
      message: `Section "${key}" has no tool "${inLine(unknown, 80)}"`,
      fix: `there are ${tools.map(({ name }) => name).join(", ") || "none"}`,
    });
  }
  return tools.map((tool) => {
    const description = Object.hasOwn(descriptions, tool.name) ? descriptions[tool.name] : undefined;
    return description === undefined ? tool : { ...tool, description };
  });
}
