import type { Data } from "./data.ts";
import type { Finding } from "./diagnostic.ts";
import { parseMarkdown } from "./document.ts";
import { trimBody } from "./frame.ts";

/** The two parts of a SKILL.md. */
export interface ParsedSkillMd {
  /** The frontmatter as it is written; empty if the text has none that can be read. */
  frontmatter: Data;
  /** The instructions. The whole text, unchanged, if it has no frontmatter. */
  body: string;
  /** Repairs that were needed, and what could not be read. */
  findings: readonly Finding[];
}

/** Splits the text of a SKILL.md into frontmatter and instructions, as discovery does. Never throws. */
export function parseSkillMd(text: string): ParsedSkillMd {
  const { data, body, findings } = parseMarkdown(text);
  const hasFrame = !findings.some(({ code }) => WITHOUT_FRAME.has(code));
  return { frontmatter: data, body: hasFrame ? trimBody(body) : text, findings };
}

const WITHOUT_FRAME: ReadonlySet<string> = new Set([
  "frontmatter-missing",
  "frontmatter-language",
  "frontmatter-unclosed",
]);
