import { isFunctionWord } from "../skill/common-words.ts";
import { isForbidden, mentionAt } from "./mentions.ts";
import { PatternIndex } from "./patterns.ts";
import { PhraseIndex } from "./phrases.ts";
import { type SkillCues, sayExample } from "./skill-cues.ts";
import { fold, type Unit, units } from "./units.ts";

export type CueKind = "mention" | "name" | "example" | "phrase" | "keyword" | "verb" | "pattern" | "path" | "negative";

/** Something in a query that speaks for a skill, or, if negative, against it. */
export interface Cue {
  skill: number;
  kind: CueKind;
  /** What the skill declares and the query holds. */
  text: string;
  /** A name among other words, and not one that asks for the skill. */
  isPassing: boolean;
}

/** A cue that may be in a query: to find out takes time. */
export interface UnsureCue {
  isFound(): boolean;
}

/** Receives the parts of a `Cue`. */
type VisitCue = (skill: number, kind: CueKind, text: string, isPassing: boolean, unsure?: UnsureCue) => void;

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

  /** Adds a skill's name and its cues. */
  add(index: number, name: string, cues: SkillCues | undefined): void {
    this.#names.add(index, "name", name);
    if (!cues) return;
    for (const text of cues.negative) this.#phrases.add(index, "negative", text);
    for (const text of cues.keywords) this.#phrases.add(index, phraseOr("keyword", text), text);
    for (const text of cues.verbs) this.#phrases.add(index, phraseOr("verb", text), text);
    for (const { pattern, needs } of cues.patterns) this.#patterns.add(pattern, needs, index);
    for (const { glob, pattern, needs } of cues.globs) this.#globs.add(pattern, needs, { skill: index, glob });
    for (const key of cues.exampleKeys) this.#examples.set(key, [...(this.#examples.get(key) ?? []), index]);
  }

  /** Calls `visit` for each cue in the query. A long query has tens of thousands, so none of them is an object. */
  find(query: string, files: readonly string[], visit: VisitCue): void {
    const folded = fold(query);
    const text = units(folded);
    for (const { skill, kind, text: said, isPassing } of namesIn(this.#names, text, { query, folded }))
      visit(skill, kind, said, isPassing);
    const { skills, kinds, texts } = this.#phrases;
    const isLeftOut = (from: number) => isForbidden(text, from);
    for (const { entries } of this.#phrases.index.find(text, { isLeftOut })) {
      for (const entry of entries)
        visit(skills[entry] as number, kinds[entry] as CueKind, texts[entry] as string, false);
    }
    for (const skill of this.#examples.get(sayExample(text)) ?? []) visit(skill, "example", query.trim(), false);
    const isAllowed = allowedMatches(query, folded, text);
    for (const candidate of this.#patterns.find(query, isAllowed))
      for (const skill of candidate.values) visit(skill, "pattern", candidate.pattern, false, candidate);
    const paths = [...pathsIn(query), ...files].join("\n");
    if (paths === "") return;
    for (const candidate of this.#globs.find(paths)) {
      if (candidate.isFound()) for (const { skill, glob } of candidate.values) visit(skill, "path", glob, false);
    }
  }
}

/**
 * Returns whether a pattern matches anything but what the user says not to do. Where a text has other places when it is folded, that is not
 * known, and the match counts.
 */
function allowedMatches(
  query: string,
  folded: string,
  text: readonly Unit[],
): (starts: () => readonly number[]) => boolean {
  let forbidden: Set<number> | undefined;
  const find = () => {
    const mayForbid = folded.length === query.length && FORBIDDING.test(folded);
    return new Set(mayForbid ? text.flatMap(({ from }, at) => (isForbidden(text, at) ? from : [])) : []);
  };
  return (starts) => {
    forbidden ??= find();
    if (forbidden.size === 0) return true;
    for (const start of starts()) {
      const first = text.find(({ from, text: { length } }) => from + length > start);
      if (!first || !forbidden.has(first.from)) return true;
    }
    return false;
  };
}

/** A word that an order not to do something has. */
const FORBIDDING = /\b(?:not|t|dont|never|avoid|mustn|shouldn|no|nunca|evita|pas)\b|évitez?/;

/** What in a query may be a path: anything without blanks and quotes that has a slash, an ending, or capitals like Makefile. */
export function pathsIn(query: string): string[] {
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

/** Each skill that is named. A request or a refusal counts more than the name by itself, and the last of them decides. */
function* namesIn(
  names: Entries<"name">,
  text: readonly Unit[],
  { query, folded }: { query: string; folded: string },
): Generator<Cue> {
  const cues = new Map<number, Cue>();
  const variables = new Set(query.match(VARIABLE));
  for (const { from, to, entries } of names.index.find(text, { everywhere: true })) {
    const last = text[to - 1];
    const written = folded.slice(text[from]?.from, last && last.from + last.text.length);
    const isTelling = hasTwoTellingWords(text.slice(from, to));
    for (const entry of entries) {
      const { skill, text: name } = names.cue(entry);
      const isExact = /[-_]/.test(written) && written === fold(name);
      const mention = mentionAt(text, { from, to, isExact, isTelling }, variables);
      if (!mention) continue;
      const said = mention.how.replace("NAME", () => name);
      const known = cues.get(skill);
      if (mention.as === "refusal") cues.set(skill, { skill, kind: "negative", text: `not ${said}`, isPassing: false });
      else if (mention.as === "request") cues.set(skill, { skill, kind: "mention", text: said, isPassing: false });
      else if (!known || (known.isPassing && mention.as === "name"))
        cues.set(skill, { skill, kind: "name", text: said, isPassing: mention.as === "passing" });
    }
  }
  yield* cues.values();
}

/** A trigger of several words is a phrase, whatever list it is in. */
function phraseOr<Kind extends CueKind>(kind: Kind, text: string): Kind | "phrase" {
  return /[^\s_-][\s_-]+[^\s_-]/.test(text) ? "phrase" : kind;
}

/** A name of several words that say something: `code-review`, but neither `deploy` nor `how-to`. */
function hasTwoTellingWords(name: readonly Unit[]): boolean {
  return name.filter(({ text, isSymbol }) => !isSymbol && text.length > 1 && !isFunctionWord(text)).length > 1;
}
