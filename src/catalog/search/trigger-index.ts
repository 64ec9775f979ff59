import { isFunctionWord } from "../../skill/common-words.ts";
import type { Triggers } from "../../skill/manifest-fields.ts";
import type { PatternFacts } from "../../skill/pattern-parser.ts";
import type { Skill } from "../../skill/skill.ts";
import {
  classifyPatterns,
  isBroadGlob,
  isCommonPattern,
  isCommonPhrase,
  isTriggerPhrase,
  MAX_TRIGGERS,
} from "../../skill/triggers.ts";
import { globToPattern } from "../../util/glob.ts";
import { isForbiddenByUser, readMention } from "./mentions.ts";
import { PatternIndex } from "./pattern-index.ts";
import { foldText, type TextToken, tokenize } from "./tokenizer.ts";

export type TriggerKind =
  | "mention"
  | "name"
  | "example"
  | "phrase"
  | "keyword"
  | "verb"
  | "pattern"
  | "path"
  | "negative";

/** Something in a query that speaks for a skill, or, if negative, against it. */
interface TriggerHit {
  skill: number;
  kind: TriggerKind;
  /** What the skill declares and the query holds. */
  text: string;
  /** A name among other words, and not one that asks for the skill. */
  isPassing: boolean;
}

/** A cue that may be in a query: to find out takes time. */
export interface UnverifiedTrigger {
  isFound(): boolean;
}

/** Receives the parts of a `Cue`. */
type VisitTrigger = (
  skill: number,
  kind: TriggerKind,
  text: string,
  isPassing: boolean,
  unsure?: UnverifiedTrigger,
) => void;

/** For each entry of an index of phrases whose it is and what it says: by its number. */
class PhraseEntries<Kind> {
  readonly index = new PhraseTrie();
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
export class TriggerIndex {
  readonly #names = new PhraseEntries<"name">();
  readonly #phrases = new PhraseEntries<Exclude<TriggerKind, "mention">>();
  readonly #examples = new Map<string, number[]>();
  readonly #patterns = new PatternIndex<number>();
  readonly #globs = new PatternIndex<{ skill: number; glob: string }>();

  /** Adds a skill's name and its cues. */
  add(index: number, name: string, cues: SkillTriggers | undefined): void {
    this.#names.add(index, "name", name);
    if (!cues) return;
    for (const text of cues.negative) this.#phrases.add(index, "negative", text);
    for (const text of cues.keywords) this.#phrases.add(index, getPhraseKind("keyword", text), text);
    for (const text of cues.verbs) this.#phrases.add(index, getPhraseKind("verb", text), text);
    for (const { pattern, needs } of cues.patterns) this.#patterns.add(pattern, needs, index);
    for (const { glob, pattern, needs } of cues.globs) this.#globs.add(pattern, needs, { skill: index, glob });
    for (const key of cues.exampleKeys) this.#examples.set(key, [...(this.#examples.get(key) ?? []), index]);
  }

  /** Calls `visit` for each cue in the query. A long query has tens of thousands, so none of them is an object. */
  find(query: string, files: readonly string[], visit: VisitTrigger): void {
    const folded = foldText(query);
    const text = tokenize(folded);
    for (const { skill, kind, text: said, isPassing } of findNames(this.#names, text, { query, folded }))
      visit(skill, kind, said, isPassing);
    const { skills, kinds, texts } = this.#phrases;
    const isLeftOut = (from: number) => isForbiddenByUser(text, from);
    for (const { entries } of this.#phrases.index.find(text, { isLeftOut })) {
      for (const entry of entries)
        visit(skills[entry] as number, kinds[entry] as TriggerKind, texts[entry] as string, false);
    }
    for (const skill of this.#examples.get(normalizeExample(text)) ?? []) visit(skill, "example", query.trim(), false);
    const isAllowed = createAllowedMatchTest(query, folded, text);
    for (const candidate of this.#patterns.find(query, isAllowed))
      for (const skill of candidate.values) visit(skill, "pattern", candidate.pattern, false, candidate);
    const paths = [...findPaths(query), ...files].join("\n");
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
function createAllowedMatchTest(
  query: string,
  folded: string,
  text: readonly TextToken[],
): (starts: () => readonly number[]) => boolean {
  let forbidden: Set<number> | undefined;
  const find = () => {
    const mayForbid = folded.length === query.length && FORBIDDING_WORD.test(folded);
    return new Set(mayForbid ? text.flatMap(({ from }, at) => (isForbiddenByUser(text, at) ? from : [])) : []);
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
const FORBIDDING_WORD = /\b(?:not|t|dont|never|avoid|mustn|shouldn|no|nunca|evita|pas)\b|évitez?/;

/** What in a query may be a path: anything without blanks and quotes that has a slash, an ending, or capitals like Makefile. */
export function findPaths(query: string): string[] {
  return query
    .split(/[\s"'`<>()[\]{},;]+/)
    .filter((word) => word.length <= MAX_PATH_LENGTH)
    .map((word) => word.replace(/[.:!?]+$/, "").replace(/:\d+(?::\d+)?$/, ""))
    .filter((word) => /[\w\p{L}]/u.test(word) && /[/\\]|\.\w|^[A-Z]\w+$/.test(word) && !NOT_A_FILE.test(word))
    .map((word) => word.replaceAll("\\", "/"));
}

const MAX_PATH_LENGTH = 512;
/** What looks like a file and is the name of a product or a site. */
const NOT_A_FILE =
  /^(?:(?:alpine|angular|backbone|chart|d3|deno|discord|ember|express|moment|next|node|nuxt|p5|react|socket|svelte|three|vue)\.(?:js|io)|(?:asp|dot)\.net|[\w-]+\.(?:com|org))$/i;
const VARIABLE_MENTION = /\$[A-Z_][A-Z0-9_]*/g;

/** Each skill that is named. A request or a refusal counts more than the name by itself, and the last of them decides. */
function* findNames(
  names: PhraseEntries<"name">,
  text: readonly TextToken[],
  { query, folded }: { query: string; folded: string },
): Generator<TriggerHit> {
  const cues = new Map<number, TriggerHit>();
  const variables = new Set(query.match(VARIABLE_MENTION));
  for (const { from, to, entries } of names.index.find(text, { everywhere: true })) {
    const last = text[to - 1];
    const written = folded.slice(text[from]?.from, last && last.from + last.text.length);
    const isTelling = hasTwoDistinctiveWords(text.slice(from, to));
    for (const entry of entries) {
      const { skill, text: name } = names.cue(entry);
      const isExact = /[-_]/.test(written) && written === foldText(name);
      const mention = readMention(text, { from, to, isExact, isTelling }, variables);
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
function getPhraseKind<Kind extends TriggerKind>(kind: Kind, text: string): Kind | "phrase" {
  return /[^\s_-][\s_-]+[^\s_-]/.test(text) ? "phrase" : kind;
}

/** A name of several words that say something: `code-review`, but neither `deploy` nor `how-to`. */
function hasTwoDistinctiveWords(name: readonly TextToken[]): boolean {
  return name.filter(({ text, isSymbol }) => !isSymbol && text.length > 1 && !isFunctionWord(text)).length > 1;
}

/** The cues of a skill, judged: those that cannot be used are left out. Plain data, which the search index keeps. */
export interface SkillTriggers {
  negative: readonly string[];
  keywords: readonly string[];
  verbs: readonly string[];
  patterns: readonly UsablePattern[];
  globs: readonly (UsablePattern & { glob: string })[];
  /** Queries that the skill is for: those it declares, and those next to it that serve as examples. */
  examples: readonly string[];
  /** The first of these in the form that `sayExample` gives. */
  exampleKeys: readonly string[];
  /** Whether a trigger can bring the skill before a model. */
  isTriggered: boolean;
}

interface UsablePattern {
  pattern: string;
  needs: PatternFacts["needs"];
}

/** Reads and judges the cues of a skill. Returns undefined when it declares none. */
export function readSkillTriggers(skill: Skill): SkillTriggers | undefined {
  const { triggers, paths } = skill.manifest;
  const examples = skill.examples();
  const { keywords, verbs, patterns, negative } = triggers;
  if ([keywords, verbs, patterns, negative, paths, examples].every(({ length }) => length === 0)) return undefined;
  const globs = classifyPatterns(paths, globToPattern).usable;
  const phrases = {
    negative: selectUsablePhrases(triggers, "negative"),
    keywords: selectUsablePhrases(triggers, "keywords"),
    verbs: selectUsablePhrases(triggers, "verbs"),
    patterns: classifyPatterns(patterns).usable.map(({ pattern, needs }) => ({ pattern, needs })),
    globs: globs.map(({ text, pattern, needs }) => ({ glob: text, pattern, needs })),
  };
  const exampleKeys = examples
    .slice(0, MAX_TRIGGERS.examples)
    .map((example) => normalizeExample(tokenize(foldText(example))));
  return {
    ...phrases,
    examples,
    exampleKeys: exampleKeys.filter((key) => key !== ""),
    isTriggered: hasSelectiveTrigger(phrases),
  };
}

/** What is said, whatever marks are put around it. */
function normalizeExample(text: readonly TextToken[]): string {
  return text.flatMap((unit) => (unit.isSymbol ? [] : unit.text)).join(" ");
}

/**
 * Whether a trigger can bring the skill before a model. One with only common words cannot: they never give its instructions, so
 * it has to be listed. Nor can a glob for most files; a narrower one offers the skill for its files.
 */
function hasSelectiveTrigger(cues: Pick<SkillTriggers, "keywords" | "verbs" | "patterns" | "globs">): boolean {
  const isSpecific = (text: string) => !isCommonPhrase(text);
  return (
    cues.keywords.some(isSpecific) ||
    cues.verbs.some(isSpecific) ||
    cues.patterns.some(({ needs }) => !isCommonPattern(needs)) ||
    cues.globs.some(({ glob }) => !isBroadGlob(glob))
  );
}

function selectUsablePhrases(triggers: Triggers, list: "keywords" | "verbs" | "negative"): string[] {
  return triggers[list].slice(0, MAX_TRIGGERS[list]).filter(isTriggerPhrase);
}

interface PhraseMatch {
  /** What was added under the phrase. */
  entries: readonly number[];
  /** The units from `from` up to, not including, `to`. */
  from: number;
  to: number;
}

/**
 * Words and phrases, found in a text in one pass whatever their number. Tens of thousands are added at once, so a phrase and an
 * entry are numbers and not objects: a phrase leads on to longer ones. A phrase is cut up when a text first has its first unit: most
 * never are.
 */
class PhraseTrie {
  /** Phrases of one unit. */
  readonly #first = new Map<string, number>();
  /** Longer ones, by the phrase without its last unit, and that unit. */
  readonly #longer = new Map<string, number>();
  /** For each phrase what was added under it. */
  readonly #entries: number[][] = [];
  readonly #texts: string[] = [];
  /** Entries whose phrases are not cut up yet, by their first unit. */
  readonly #uncut = new Map<string, number[]>();

  /** Contract: entries are numbered from 0; nothing for a phrase without a single unit. */
  add(text: string): number | undefined {
    const first = getFirstWord(text) ?? getTokenKeys(text)[0];
    if (first === undefined) return undefined;
    const entry = this.#texts.push(text) - 1;
    const others = this.#uncut.get(first);
    if (others) others.push(entry);
    else this.#uncut.set(first, [entry]);
    return entry;
  }

  /** Every phrase that stands in the text, each at its first place only or, for `everywhere`, at each. Nothing starts where `isLeftOut`. */
  *find(
    text: readonly TextToken[],
    { everywhere = false, isLeftOut }: { everywhere?: boolean; isLeftOut?: (from: number) => boolean } = {},
  ): Generator<PhraseMatch> {
    const seen = new Set<number>();
    for (let from = 0; from < text.length; from++) {
      if (!canPhraseStart(text, from) || isLeftOut?.(from)) continue;
      let phrase = this.#startingWith(text[from]?.text ?? "");
      for (let to = from + 1; phrase !== undefined; to++) {
        const entries: readonly number[] = this.#entries[phrase] ?? [];
        if (entries.length > 0 && !seen.has(phrase) && canPhraseEnd(text, to)) {
          if (!everywhere) seen.add(phrase);
          yield { entries, from, to };
        }
        const next = text[to];
        phrase = next ? this.#longer.get(`${phrase} ${next.key}`) : undefined;
      }
    }
  }

  /** The phrase of one unit, once all that begin with it are cut up. */
  #startingWith(first: string): number | undefined {
    const uncut = this.#uncut.get(first);
    if (uncut) {
      this.#uncut.delete(first);
      for (const entry of uncut) this.#put(entry);
    }
    return this.#first.get(first);
  }

  #put(entry: number): void {
    const text = this.#texts[entry] as string;
    const [first = "", ...rest] = getFirstWord(text) === undefined ? getTokenKeys(text) : text.split(/[ -]/);
    let phrase = this.#known(this.#first, first);
    for (const unit of rest) phrase = this.#known(this.#longer, `${phrase} ${unit}`);
    this.#entries[phrase]?.push(entry);
  }

  #known(phrases: Map<string, number>, key: string): number {
    const known = phrases.get(key);
    if (known !== undefined) return known;
    phrases.set(key, this.#entries.length);
    return this.#entries.push([]) - 1;
  }
}

/** What most phrases are; cutting them up needs no units. */
const PLAIN_PHRASE = /^[a-z\d]+(?:[ -][a-z\d]+)*$/;

/** The first word of a plain phrase. */
function getFirstWord(text: string): string | undefined {
  if (!PLAIN_PHRASE.test(text)) return undefined;
  const end = text.search(/[ -]/);
  return end === -1 ? text : text.slice(0, end);
}

function getTokenKeys(phrase: string): string[] {
  return tokenize(foldText(phrase)).map(({ text, key }, at) => (at === 0 ? text : key));
}

// A phrase that begins with a symbol, `/deploy`, is not part of a path, `src/deploy`.
function canPhraseStart(text: readonly TextToken[], at: number): boolean {
  const [before, unit] = [text[at - 1], text[at]];
  if (!unit?.canStart) return false;
  return !(unit.isSymbol && unit.isTouching && before && (!before.isSymbol || before.text === unit.text));
}

function canPhraseEnd(text: readonly TextToken[], to: number): boolean {
  const [last, after] = [text[to - 1], text[to]];
  return !(last?.isSymbol && after?.isTouching && after.text === last.text);
}
