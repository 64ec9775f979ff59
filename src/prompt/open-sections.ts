import type { ErrorCode } from "../codes/codes.ts";
import { inLine } from "../shared/prompt.ts";
import { nearest } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { readInput, schemaOf } from "../skill/parameters.ts";
import type { Tool, ToolResult } from "../skill/tool.ts";
import type { Shown } from "./render.ts";
import { OPEN_SECTIONS, type Visibility } from "./section.ts";

/** A signal, not an error: a model asks for sections in full, so the prompt is to be rendered again with these. */
export class VisibilityExpansionRequired extends Error {
  override readonly name = "VisibilityExpansionRequired";
  /** What is asked for, by dotted key. */
  readonly requested: Readonly<Record<string, Visibility>>;
  readonly sectionKeys: readonly string[];
  /** Why, as the model says it. */
  readonly reason: string | undefined;

  constructor(sectionKeys: readonly string[], reason?: string) {
    super(`Sections are to be shown in full: ${sectionKeys.join(", ")}`);
    this.sectionKeys = sectionKeys;
    this.requested = Object.fromEntries(sectionKeys.map((key) => [key, "FULL"]));
    this.reason = reason;
  }
}

const PARAMETERS = {
  keys: {
    type: "strings",
    says: 'The keys of the sections to open, as their summaries give them: ["skills.testing"].',
    isRequired: true,
    also: ["key", "section_keys", "section_key"],
  },
  reason: { type: "string", says: "Why they are needed, in a few words." },
} as const;

const MOST_KEYS = 20;

/**
 * What a model calls to see all of a section. Its `execute` throws a VisibilityExpansionRequired, which whoever evaluates the prompt
 * takes; what cannot be opened is a result like any other.
 */
export function openSectionsTool(shown: readonly Shown[]): Tool {
  return {
    name: OPEN_SECTIONS,
    description: "Shows sections in full of which only a summary is shown, and brings their tools.",
    category: "skills",
    inputSchema: schemaOf(PARAMETERS),
    async execute(input) {
      const values = readInput(PARAMETERS, listed(input));
      if ("refusal" in values) return values.refusal as ToolResult;
      const wanted = [...new Set(values.keys)];
      if (wanted.length === 0 || wanted.length > MOST_KEYS)
        return refusal("input-invalid", `Give 1 to ${MOST_KEYS} keys.`);
      const closed = new Map(shown.map(({ key, visibility }) => [key, visibility === "SUMMARY"] as const));
      const unknown = wanted.find((key) => !closed.has(key));
      if (unknown !== undefined) return refusal("section-unknown", sayUnknown(unknown, closed));
      const keys = wanted.filter((key) => closed.get(key));
      if (keys.length > 0) throw new VisibilityExpansionRequired(keys, values.reason);
      return { content: `Shown in full already: ${wanted.join(", ")}.`, isError: false };
    },
  };
}

/** One key may come as a text. */
function listed(input: unknown): unknown {
  if (!isData(input)) return input;
  const entries = Object.entries(input);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name !== "reason" && typeof value === "string" ? [value] : value]),
  );
}

function sayUnknown(key: string, closed: ReadonlyMap<string, boolean>): string {
  const open = [...closed].filter(([, isClosed]) => isClosed).map(([name]) => name);
  const near = open.find((name) => name.endsWith(`.${key}`)) ?? nearest(key, open);
  const meant = near === undefined ? "" : ` Did you mean "${near}"?`;
  const left = open.length === 0 ? "All is shown in full." : `These can be opened: ${open.slice(0, 50).join(", ")}.`;
  return `There is no section "${inLine(key, 100)}".${meant} ${left}`;
}

function refusal(code: ErrorCode, content: string): ToolResult {
  return { content, isError: true, code };
}
