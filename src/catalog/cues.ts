import { globPattern } from "../skill/glob.ts";
import type { Skill } from "../skill/skill.ts";
import { isPhrase, MOST_TRIGGERS } from "../skill/triggers.ts";
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
    for (const pattern of triggers.patterns.slice(0, MOST_TRIGGERS.patterns)) this.#patterns.add(pattern, index);
    for (const glob of paths.slice(0, MOST_TRIGGERS.paths)) {
      this.#globs.add(globPattern(glob), { skill: index, glob });
    }
    for (const example of examples.slice(0, MOST_TRIGGERS.examples)) {
      const key = spoken(units(fold(example)));
      this.#examples.set(key, [...(this.#examples.get(key) ?? []), index]);
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
    .map((word) => word.replace(/[.:!?]+$/, "").replace(/:\d+(?::\d+)?$/, ""))
    .filter((word) => /[\w\p{L}]/u.test(word) && word.length <= LONGEST_PATH && /[/\\]|\.\w|^[A-Z]\w+$/.test(word))
    .map((word) => word.replaceAll("\\", "/"));
}

const LONGEST_PATH = 512;

/** What is said, whatever marks are put around it. */
function spoken(text: readonly Unit[]): string {
  return text.flatMap((unit) => (unit.isSymbol ? [] : unit.text)).join(" ");
}

/** Each skill that is named: as a skill, if it is so anywhere. */
function* namesIn(found: Iterable<Found<Named>>, text: readonly Unit[], query: string): Generator<Cue> {
  const cues = new Map<number, Cue>();
  for (const place of found) {
    const how = mention(place, text, query);
    if (how === "" && !isTelling(text.slice(place.from, place.to))) continue;
    for (const { skill, name } of place.values) {
      if (how !== "") cues.set(skill, { skill, kind: "mention", text: how.replace("NAME", name) });
      else if (!cues.has(skill)) cues.set(skill, { skill, kind: "name", text: name });
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

const SIGILS = new Set(["$", "/"]);
const QUOTES = new Set(['"', "'", "`", "“", "”", "‘", "’", "«", "»", "*", ":"]);
const SKILL = new Set(["skill", "skills"]);
const NAMED = new Set(["named", "called"]);
/** What stands before a skill that somebody means: "use the deploy skill", "with deploy skill", "run skill deploy". */
const LEADS = new Set(
  "activate apply call execute follow her his invoke its load my open our run running start that the their this through try use using via with your".split(
    " ",
  ),
);

/** How the name is mentioned as that of a skill, `NAME` standing for it, or the empty string. */
function mention({ from, to }: Found<Named>, text: readonly Unit[], query: string): string {
  const sigil = text[from - 1];
  if (sigil && SIGILS.has(sigil.text) && text[from]?.isTouching && isFree(text, from - 1) && !goesOn(text, to)) {
    if (sigil.text === "/" || !isVariable(text.slice(from, to), query)) return `${sigil.text}NAME`;
  }
  const before = wordBefore(text, from);
  const after = wordAfter(text, to);
  if (SKILL.has(text[after]?.text ?? "") && LEADS.has(text[before]?.text ?? "")) return "the NAME skill";
  const skill = NAMED.has(text[before]?.text ?? "") ? wordBefore(text, before) : before;
  if (SKILL.has(text[skill]?.text ?? "") && LEADS.has(text[wordBefore(text, skill)]?.text ?? ""))
    return "the skill NAME";
  return "";
}

/** Nothing that it could belong to stands right before the sigil, as in `src/deploy`. */
function isFree(text: readonly Unit[], at: number): boolean {
  const [before, sigil] = [text[at - 1], text[at]];
  return (
    !sigil?.isTouching ||
    (before?.isSymbol === true && !SIGILS.has(before.text) && before.text !== "." && before.text !== "~")
  );
}

/** The name is only the beginning: `/deploy/x`, `/deploy.sh`, `/deploy-all`. */
function goesOn(text: readonly Unit[], to: number): boolean {
  const [next, further] = [text[to], text[to + 1]];
  if (!next) return false;
  if (!next.isSymbol) return next.isJoined;
  return (
    next.isTouching && (next.text === "/" || (next.text === "." && further?.isTouching === true && !further.isSymbol))
  );
}

// $PATH is a variable of the shell, also where somebody has a skill called path.
function isVariable(name: readonly Unit[], query: string): boolean {
  const written = name.map(({ text }) => text.toUpperCase()).join("_");
  return /[A-Z]/.test(written) && query.includes(`$${written}`);
}

function wordBefore(text: readonly Unit[], at: number): number {
  let index = at - 1;
  while (text[index]?.isSymbol && QUOTES.has(text[index]?.text ?? "")) index--;
  return index;
}

function wordAfter(text: readonly Unit[], at: number): number {
  let index = at;
  while (text[index]?.isSymbol && QUOTES.has(text[index]?.text ?? "")) index++;
  return index;
}
