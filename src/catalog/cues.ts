import { globPattern } from "../skill/glob.ts";
import type { Skill } from "../skill/skill.ts";
import { isPhrase, MOST_TRIGGERS, sortPatterns } from "../skill/triggers.ts";
import { mentionAt } from "./mentions.ts";
import { PatternIndex } from "./patterns.ts";
import { type Found, PhraseIndex } from "./phrases.ts";
import { isEmptyWord } from "./terms.ts";
import { fold, type Unit, units } from "./units.ts";

export type CueKind = "mention" | "name" | "example" | "phrase" | "keyword" | "verb" | "pattern" | "path" | "negative";

/** Something in a query that speaks for a skill, or, if negative, against it. */
export interface Cue {
  skill: number;
  kind: CueKind;
  /** What the skill declares and the query holds. */
  text: string;
}

type Declared = { skill: number; kind: "keyword" | "phrase" | "verb" | "negative"; text: string };
type Named = { skill: number; name: string };

/** Everything that skills declare as their cues, found in a query in one pass. */
export class CueIndex {
  readonly #names = new PhraseIndex<Named>();
  readonly #phrases = new PhraseIndex<Declared>();
  readonly #examples = new Map<string, number[]>();
  readonly #patterns = new PatternIndex<number>();
  readonly #globs = new PatternIndex<{ skill: number; glob: string }>();

  add(index: number, { name, manifest: { triggers, paths } }: Skill, examples: readonly string[]): void {
    const declare = (kind: Exclude<Declared["kind"], "phrase">, texts: readonly string[]) => {
      for (const text of texts) {
        const asked = kind !== "negative" && isOfSeveralWords(text) ? "phrase" : kind;
        if (isPhrase(text)) this.#phrases.add(text, { skill: index, kind: asked, text });
      }
    };
    this.#names.add(name, { skill: index, name });
    declare("keyword", triggers.keywords.slice(0, MOST_TRIGGERS.keywords));
    declare("verb", triggers.verbs.slice(0, MOST_TRIGGERS.verbs));
    declare("negative", triggers.negative.slice(0, MOST_TRIGGERS.negative));
    for (const { pattern, needs } of sortPatterns(triggers.patterns).usable) this.#patterns.add(pattern, needs, index);
    for (const { text: glob, pattern, needs } of sortPatterns(paths, globPattern).usable) {
      this.#globs.add(pattern, needs, { skill: index, glob });
    }
    for (const example of examples.slice(0, MOST_TRIGGERS.examples)) {
      const key = spoken(units(fold(example)));
      if (key !== "") this.#examples.set(key, [...(this.#examples.get(key) ?? []), index]);
    }
  }

  *find(query: string, files: readonly string[]): Generator<Cue> {
    const text = units(fold(query));
    yield* namesIn(this.#names.find(text, true), text, query);
    for (const { values } of this.#phrases.find(text)) yield* values;
    for (const skill of this.#examples.get(spoken(text)) ?? []) yield { skill, kind: "example", text: query.trim() };
    for (const { pattern, values } of this.#patterns.find(query)) {
      for (const skill of values) yield { skill, kind: "pattern", text: pattern };
    }
    const paths = [...pathsIn(query), ...files].join("\n");
    if (paths === "") return;
    for (const { values } of this.#globs.find(paths)) {
      for (const { skill, glob } of values) yield { skill, kind: "path", text: glob };
    }
  }
}

/** What in a query may be a path: anything without blanks and quotes that has a slash, an ending, or capitals like Makefile. */
function pathsIn(query: string): string[] {
  return query
    .split(/[\s"'`<>()[\]{},;]+/)
    .filter((word) => word.length <= LONGEST_PATH)
    .map((word) => word.replace(/[.:!?]+$/, "").replace(/:\d+(?::\d+)?$/, ""))
    .filter((word) => /[\w\p{L}]/u.test(word) && /[/\\]|\.\w|^[A-Z]\w+$/.test(word) && !NO_FILE.test(word))
    .map((word) => word.replaceAll("\\", "/"));
}

const LONGEST_PATH = 512;
/** What looks like a file and is the name of a product or a site. */
const NO_FILE =
  /^(?:(?:alpine|angular|backbone|chart|d3|deno|discord|ember|express|moment|next|node|nuxt|p5|react|socket|svelte|three|vue)\.(?:js|io)|asp\.net|[\w-]+\.(?:com|org|io|dev|ai))$/i;
const VARIABLE = /\$[A-Z_][A-Z0-9_]*/g;

/** What is said, whatever marks are put around it. */
function spoken(text: readonly Unit[]): string {
  return text.flatMap((unit) => (unit.isSymbol ? [] : unit.text)).join(" ");
}

/** Each skill that is named: as a skill, if it is so anywhere. */
function* namesIn(found: Iterable<Found<Named>>, text: readonly Unit[], query: string): Generator<Cue> {
  const cues = new Map<number, Cue>();
  const variables = new Set(query.match(VARIABLE));
  for (const { from, to, values } of found) {
    const mention = mentionAt(text, from, to, variables);
    if (!mention && !isTelling(text.slice(from, to))) continue;
    for (const { skill, name } of values) {
      const said = mention?.how.replace("NAME", () => name) ?? name;
      if (mention?.isRefused) cues.set(skill, { skill, kind: "negative", text: `not ${said}` });
      else if (mention) cues.set(skill, { skill, kind: "mention", text: said });
      else if (!cues.has(skill)) cues.set(skill, { skill, kind: "name", text: said });
    }
  }
  yield* cues.values();
}

function isOfSeveralWords(text: string): boolean {
  return /[^\s_-][\s_-]+[^\s_-]/.test(text);
}

/** A name of several words that say something: `code-review`, but neither `deploy` nor `how-to`. */
function isTelling(name: readonly Unit[]): boolean {
  return name.filter(({ text, isSymbol }) => !isSymbol && text.length > 1 && !isEmptyWord(text)).length > 1;
}
