import type { Code } from "../codes/findings.ts";
import { severityOf } from "./diagnostic.ts";
import { type Document, parseMarkdown, parseYaml } from "./document.ts";
import { findFrame } from "./frame.ts";
import { unusableName } from "./name.ts";
import type { Place, SkillText } from "./read.ts";
import { readSkill } from "./read.ts";

export interface Fixed {
  text: string;
  fixed: Code[];
}

/** Mends what can be mended without changing what the skill says. Contract: parsed again, all other values are the same. */
export function fixDocument(raw: string, place: Place): Fixed {
  const before = judge(raw, place);
  const codes = new Set(before.skill.findings.map((finding) => finding.code));
  if (codes.has("frontmatter-missing")) return { text: raw, fixed: [] }; // Not a skill, so not ours to change.
  const fixed: Code[] = [];
  let text = raw;
  for (const [code, apply] of Object.entries(FIXES) as [Code, Fix][]) {
    if (!codes.has(code) || (code === "name-differs" && severityOf(code, place.profile) !== "error")) continue;
    const next = apply(text, place);
    if (next === text || !keepsMeaning(text, next, place, code)) continue;
    text = next;
    fixed.push(code);
  }
  return { text, fixed };
}

type Fix = (text: string, place: Place) => string;

/** One row a finding that can be mended, in the order in which they are. */
const FIXES: { readonly [Key in Code]?: Fix } = {
  "byte-order-mark": (text) => text.replace(/^\ufeff/, ""),
  "line-ends": (text) => text.replaceAll("\r\n", "\n"),
  "leading-blank": (text) => text.replace(/^(?:[ \t]*\n)+(?=---)/, ""),
  "delimiter-blanks": (text) => withFrontmatter(text, (source) => source),
  "yaml-repaired": (text, place) => {
    const { mended } = parse(text, place);
    if (mended === undefined) return text;
    return place.form === "yaml" ? mended : withFrontmatter(text, () => mended);
  },
  "key-misspelled": (text, place) => {
    let renamed = text;
    for (const { code, key, meant } of judge(text, place).skill.findings) {
      if (code !== "key-misspelled" || !key || !meant || !/^[\w-]+$/.test(key) || meant in parse(renamed, place).data)
        continue;
      renamed = inSource(renamed, place, (source) => source.replace(new RegExp(`^${key}(?=[ \\t]*:)`, "m"), meant));
    }
    return renamed;
  },
  "name-missing": (text, place) => named(text, place, (source) => `name: ${place.stem}\n${source}`),
  "name-differs": (text, place) => named(text, place, (source) => source.replace(NAME_LINE, `name: ${place.stem}`)),
};

const NAME_LINE = /^name[ \t]*:[^\n]*$/m;

function withFrontmatter(text: string, change: (source: string) => string): string {
  const frame = findFrame(text);
  if (!("start" in frame) || !frame.closed) return text;
  const source = change(frame.text.slice(frame.start, frame.end));
  return `---\n${source}${source.endsWith("\n") || source === "" ? "" : "\n"}---\n${frame.text.slice(frame.bodyStart)}`;
}

function named(text: string, place: Place, change: (source: string) => string): string {
  return unusableName(place.stem) ? text : inSource(text, place, change);
}

function inSource(text: string, place: Place, change: (source: string) => string): string {
  return place.form === "yaml" ? change(text) : withFrontmatter(text, change);
}

/** What a fix may change: the key it renames, the name it sets. Nothing else, and never the body. */
function keepsMeaning(before: string, after: string, place: Place, code: Code): boolean {
  const [was, is] = [judge(before, place), judge(after, place)];
  if (was.document.body !== is.document.body) return false;
  if (code === "key-misspelled") return countOf(is, code) < countOf(was, code);
  const { name: _was, ...rest } = was.document.data;
  const { name, ...others } = is.document.data;
  if (code.startsWith("name-") && name !== place.stem) return false;
  return JSON.stringify(rest) === JSON.stringify(others);
}

function countOf({ skill }: ReturnType<typeof judge>, code: Code): number {
  return skill.findings.filter((finding) => finding.code === code).length;
}

function judge(text: string, place: Place): { document: Document; skill: SkillText } {
  const document = parse(text, place);
  return { document, skill: readSkill(document, place) };
}

function parse(text: string, place: Place): Document {
  return place.form === "yaml" ? parseYaml(text) : parseMarkdown(text);
}
