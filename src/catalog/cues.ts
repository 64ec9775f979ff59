import { globPattern } from "../skill/glob.ts";
import type { Skill } from "../skill/skill.ts";
import { isPhrase, MOST_TRIGGERS, sortPatterns } from "../skill/triggers.ts";
import { mentionAt } from "./mentions.ts";
import { PatternIndex } from "./patterns.ts";
import { PhraseIndex } from "./phrases.ts";
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

/** For each entry of an index of phrases whose it is and what it says: by its number. */
class Entries<Kind> {
  readonly index = new PhraseIndex();
  readonly skills: number[] = [];
  readonly kinds: Kind[] = [];
  readonly texts: string[] = [];

  add(skill: number, kind: Kind, text: string): void {
    if (this.index.add(text) === undefined) return;
    this.skills.push(skill);
    this.kinds.push(kind);
    this.texts.push(text);
  }

  cue(entry: number): { skill: number; kind: Kind; text: string } {
    return { skill: this.skills[entry] as number, kind: this.kinds[entry] as Kind, text: this.texts[entry] as string };
  }
}

/** Everything that skills declare as their cues, found in a query in one pass. */
export class CueIndex {
  readonly #names = new Entries<"name">();
  readonly #phrases = new Entries<Exclude<CueKind, "mention">>();
  readonly #examples = new Map<string, number[]>();
  readonly #patterns = new PatternIndex<number>();
  readonly #globs = new PatternIndex<{ skill: number; glob: string }>();

  /** Contract: true when a query can wake the skill, beside naming it. */
  add(index: number, { name, manifest: { triggers, paths } }: Skill, examples: readonly string[]): boolean {
    this.#names.add(index, "name", name);
    this.#declare(index, "negative", triggers.negative, MOST_TRIGGERS.negative);
    const words =
      this.#declare(index, "keyword", triggers.keywords, MOST_TRIGGERS.keywords) +
      this.#declare(index, "verb", triggers.verbs, MOST_TRIGGERS.verbs);
    const patterns = sortPatterns(triggers.patterns).usable;
    const globs = sortPatterns(paths, globPattern).usable;
    for (const { pattern, needs } of patterns) this.#patterns.add(pattern, needs, index);
    for (const { text: glob, pattern, needs } of globs) this.#globs.add(pattern, needs, { skill: index, glob });
    for (const example of examples.slice(0, MOST_TRIGGERS.examples)) {
      const key = spoken(units(fold(example)));
      if (key !== "") this.#examples.set(key, [...(this.#examples.get(key) ?? []), index]);
    }
    return words + patterns.length + globs.length > 0;
  }

  /** Contract: how many of them can be used. */
  #declare(skill: number, kind: "keyword" | "verb" | "negative", texts: readonly string[], most: number): number {
    let usable = 0;
    for (const text of texts.slice(0, most)) {
      if (!isPhrase(text)) continue;
      this.#phrases.add(skill, kind !== "negative" && isOfSeveralWords(text) ? "phrase" : kind, text);
      usable++;
    }
    return usable;
  }

  *find(query: string, files: readonly string[]): Generator<Cue> {
    const text = units(fold(query));
    yield* namesIn(this.#names, text, query);
    for (const { entries } of this.#phrases.index.find(text))
      for (const entry of entries) yield this.#phrases.cue(entry);
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
  /^(?:(?:alpine|angular|backbone|chart|d3|deno|discord|ember|express|moment|next|node|nuxt|p5|react|socket|svelte|three|vue)\.(?:js|io)|(?:asp|dot)\.net|[\w-]+\.(?:com|org))$/i;
const VARIABLE = /\$[A-Z_][A-Z0-9_]*/g;

/** What is said, whatever marks are put around it. */
function spoken(text: readonly Unit[]): string {
  return text.flatMap((unit) => (unit.isSymbol ? [] : unit.text)).join(" ");
}

/** Each skill that is named: as a skill, if it is so anywhere. */
function* namesIn(names: Entries<"name">, text: readonly Unit[], query: string): Generator<Cue> {
  const cues = new Map<number, Cue>();
  const variables = new Set(query.match(VARIABLE));
  for (const { from, to, entries } of names.index.find(text, true)) {
    const mention = mentionAt(text, from, to, variables);
    if (!mention && !isTelling(text.slice(from, to))) continue;
    for (const entry of entries) {
      const { skill, text: name } = names.cue(entry);
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
