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

/** A cue found in a query: it supports skills or, if negative, excludes them. */
export interface TriggerHit {
  kind: TriggerKind;
  /** The text that the skills declare and the query contains. */
  text: string;
  skills: readonly number[];
  /** True for a name among other words that does not request the skill. */
  isPassing: boolean;
  /** The id of a declared cue; undefined if the text is part of the query. */
  id?: number;
}

/** A cue that may be in a query; checking it takes time. */
export interface UnverifiedTrigger {
  isFound(): boolean;
}

type VisitTrigger = (cue: TriggerHit, unsure?: UnverifiedTrigger) => void;

/** Cues by kind and text. Each exists once, with all skills that declare it, so a query reads it once. */
class DeclaredCues {
  readonly #known = new Map<TriggerKind, Map<string, TriggerHit & { skills: number[] }>>();
  #count = 0;

  get size(): number {
    return this.#count;
  }

  /** Adds a skill to a cue. Returns the cue if it is new. */
  add(skill: number, kind: TriggerKind, text: string): TriggerHit | undefined {
    let ofKind = this.#known.get(kind);
    if (!ofKind) {
      ofKind = new Map();
      this.#known.set(kind, ofKind);
    }
    const known = ofKind.get(text);
    if (known) {
      known.skills.push(skill);
      return undefined;
    }
    const cue = { kind, text, skills: [skill], isPassing: false, id: this.#count++ };
    ofKind.set(text, cue);
    return cue;
  }
}

/** Finds all declared cues in a query in one pass. */
export class TriggerIndex {
  readonly #declared = new DeclaredCues();
  readonly #nameTexts: string[] = [];
  /** Entries are skill numbers, not objects: thousands are added at each start. */
  readonly #names = new PhraseTrie<number>((skill) => this.#nameTexts[skill] as string);
  readonly #phrases = new PhraseTrie<TriggerHit>(({ text }) => text);
  readonly #examples = new Map<string, number[]>();
  readonly #patterns = new PatternIndex<TriggerHit>();
  readonly #globs = new PatternIndex<{ skill: number; glob: string }>();

  /** The number of distinct cues with an `id`. */
  get size(): number {
    return this.#declared.size;
  }

  /** Adds a skill's name and cues. */
  add(index: number, name: string, cues: SkillTriggers | undefined): void {
    this.#nameTexts[index] = name;
    this.#names.add(index);
    if (!cues) return;
    for (const text of cues.negative) this.#addPhrase(index, "negative", text);
    for (const text of cues.keywords) this.#addPhrase(index, getPhraseKind("keyword", text), text);
    for (const text of cues.verbs) this.#addPhrase(index, getPhraseKind("verb", text), text);
    for (const { pattern, needs } of cues.patterns) {
      const cue = this.#declared.add(index, "pattern", pattern);
      if (cue) this.#patterns.add(pattern, needs, cue);
    }
    for (const { glob, pattern, needs } of cues.globs) this.#globs.add(pattern, needs, { skill: index, glob });
    for (const key of cues.exampleKeys) this.#examples.set(key, [...(this.#examples.get(key) ?? []), index]);
  }

  /** Calls `visit` for each cue in the query. */
  find(query: string, files: readonly string[], visit: VisitTrigger): void {
    const folded = foldText(query);
    const text = tokenize(folded);
    for (const cue of this.#namesIn(text, { query, folded })) visit(cue);
    const isExcluded = (from: number) => isForbiddenByUser(text, from);
    for (const { entries } of this.#phrases.find(text, { isExcluded })) for (const cue of entries) visit(cue);
    const skills = this.#examples.get(normalizeExample(text));
    if (skills) visit({ kind: "example", text: query.trim(), skills, isPassing: false });
    const isAllowed = createAllowedMatchTest(query, folded, text);
    for (const candidate of this.#patterns.find(query, isAllowed))
      for (const cue of candidate.values) visit(cue, candidate);
    const paths = [...findPaths(query), ...files].join("\n");
    if (paths === "") return;
    for (const candidate of this.#globs.find(paths)) {
      if (!candidate.isFound()) continue;
      for (const { skill, glob } of candidate.values)
        visit({ kind: "path", text: glob, skills: [skill], isPassing: false });
    }
  }

  /** Returns the skills that are named. A request or refusal outweighs a plain name, and the last one decides. */
  #namesIn(text: readonly TextToken[], { query, folded }: { query: string; folded: string }): Iterable<TriggerHit> {
    const cues = new Map<number, TriggerHit>();
    const variables = new Set(query.match(VARIABLE_MENTION));
    for (const { from, to, entries } of this.#names.find(text, { everywhere: true })) {
      const last = text[to - 1];
      const nameText = folded.slice(text[from]?.from, last && last.from + last.text.length);
      const isDistinctive = hasTwoDistinctiveWords(text.slice(from, to));
      for (const skill of entries) {
        const name = this.#nameTexts[skill] as string;
        const isExact = /[-_]/.test(nameText) && nameText === foldText(name);
        const mention = readMention(text, { from, to, isExact, isDistinctive }, variables);
        if (!mention) continue;
        const label = mention.how.replace("NAME", () => name);
        const known = cues.get(skill);
        const own = { skills: [skill], isPassing: false };
        if (mention.as === "refusal") cues.set(skill, { ...own, kind: "negative", text: `not ${label}` });
        else if (mention.as === "request") cues.set(skill, { ...own, kind: "mention", text: label });
        else if (!known || (known.isPassing && mention.as === "name"))
          cues.set(skill, { ...own, kind: "name", text: label, isPassing: mention.as === "passing" });
      }
    }
    return cues.values();
  }

  #addPhrase(skill: number, kind: TriggerKind, text: string): void {
    const cue = this.#declared.add(skill, kind, text);
    if (cue) this.#phrases.add(cue);
  }
}

/**
 * Returns a test that a pattern matches something that the user does not forbid. If folding changes positions in the text, this is unknown
 * and the match counts.
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

/** Every prohibition contains one of these words. */
const FORBIDDING_WORD = /\b(?:not|t|dont|never|avoid|mustn|shouldn|no|nunca|evita|pas)\b|évitez?/;

/** Returns the words of a query that may be paths: without blanks and quotes, with a slash, an extension, or a capital like Makefile. */
export function findPaths(query: string): string[] {
  return query
    .split(/[\s"'`<>()[\]{},;]+/)
    .filter((word) => word.length <= MAX_PATH_LENGTH)
    .map((word) => word.replace(/[.:!?]+$/, "").replace(/:\d+(?::\d+)?$/, ""))
    .filter((word) => /[\w\p{L}]/u.test(word) && /[/\\]|\.\w|^[A-Z]\w+$/.test(word) && !NOT_A_FILE.test(word))
    .map((word) => word.replaceAll("\\", "/"));
}

const MAX_PATH_LENGTH = 512;
/** Names of products and sites that look like files. */
const NOT_A_FILE =
  /^(?:(?:alpine|angular|backbone|chart|d3|deno|discord|ember|express|moment|next|node|nuxt|p5|react|socket|svelte|three|vue)\.(?:js|io)|(?:asp|dot)\.net|[\w-]+\.(?:com|org))$/i;
const VARIABLE_MENTION = /\$[A-Z_][A-Z0-9_]*/g;

/** A trigger of several words is a phrase, whichever list it is in. */
function getPhraseKind<Kind extends TriggerKind>(kind: Kind, text: string): Kind | "phrase" {
  return /[^\s_-][\s_-]+[^\s_-]/.test(text) ? "phrase" : kind;
}

/** Returns true for a name with several meaningful words: `code-review`, but neither `deploy` nor `how-to`. */
function hasTwoDistinctiveWords(name: readonly TextToken[]): boolean {
  return name.filter(({ text, isSymbol }) => !isSymbol && text.length > 1 && !isFunctionWord(text)).length > 1;
}

/** The validated cues of a skill, without unusable ones. Plain data, which the search index stores. */
export interface SkillTriggers {
  negative: readonly string[];
  keywords: readonly string[];
  verbs: readonly string[];
  patterns: readonly UsablePattern[];
  globs: readonly (UsablePattern & { glob: string })[];
  /** Example queries of the skill: the declared ones and those in its folder. */
  examples: readonly string[];
  /** The first of these, normalized by `normalizeExample`. */
  exampleKeys: readonly string[];
  /** True if a trigger can select or offer the skill. */
  isTriggered: boolean;
}

interface UsablePattern {
  pattern: string;
  needs: PatternFacts["needs"];
}

/** Reads and validates the cues of a skill. Returns undefined if it declares none. */
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

/** Returns the words of an example without punctuation. */
function normalizeExample(text: readonly TextToken[]): string {
  return text.flatMap((unit) => (unit.isSymbol ? [] : unit.text)).join(" ");
}

/**
 * Returns true if a trigger can select or offer the skill. Common words alone cannot: they never give its instructions, so it has to be
 * listed. Nor can a glob for most files; a narrower one offers the skill for its files.
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

interface PhraseMatch<T> {
  /** The entries added under the phrase. */
  entries: readonly T[];
  /** The tokens from `from` up to, not including, `to`. */
  from: number;
  to: number;
}

interface FindOptions {
  /** Set to find all occurrences of a phrase, not only the first. */
  everywhere?: boolean;
  /** Returns true if no phrase may start at this token. */
  isExcluded?: (from: number) => boolean;
}

/**
 * Finds words and phrases in a text in one pass, whatever their number. Tens of thousands are added at once, so a phrase is a number that
 * leads to longer ones. A phrase is split when a text first contains its first token: most never are.
 */
class PhraseTrie<T> {
  /** By first token: the phrase of that token, or all phrases that start with it if they are not split yet. */
  readonly #first = new Map<string, number | T[]>();
  /** Longer phrases, by the phrase without its last token, and that token. */
  readonly #longer = new Map<string, number>();
  /** The entries of each phrase. */
  readonly #entries: T[][] = [];

  readonly #textOf: (entry: T) => string;

  constructor(textOf: (entry: T) => string) {
    this.#textOf = textOf;
  }

  /** Adds an entry under its text. One without tokens is never found. */
  add(entry: T): void {
    const text = this.#textOf(entry);
    const first = getFirstWord(text) ?? getTokenKeys(text)[0];
    if (first === undefined) return;
    const others = this.#first.get(first);
    if (others === undefined) this.#first.set(first, [entry]);
    else if (typeof others === "number") this.#put(others, entry);
    else others.push(entry);
  }

  /** Finds every phrase in the text. */
  *find(text: readonly TextToken[], { everywhere = false, isExcluded }: FindOptions = {}): Generator<PhraseMatch<T>> {
    const seen = new Set<number>();
    for (let from = 0; from < text.length; from++) {
      if (!canPhraseStart(text, from)) continue;
      let phrase = this.#startingWith(text[from]?.text ?? "");
      if (phrase === undefined || isExcluded?.(from)) continue;
      for (let to = from + 1; phrase !== undefined; to++) {
        const entries: readonly T[] = this.#entries[phrase] ?? [];
        if (entries.length > 0 && !seen.has(phrase) && canPhraseEnd(text, to)) {
          if (!everywhere) seen.add(phrase);
          yield { entries, from, to };
        }
        const next = text[to];
        phrase = next ? this.#longer.get(`${phrase} ${next.key}`) : undefined;
      }
    }
  }

  /** Returns the phrase of one token, after splitting all that start with it. */
  #startingWith(first: string): number | undefined {
    const known = this.#first.get(first);
    if (typeof known !== "object") return known;
    const phrase = this.#entries.push([]) - 1;
    this.#first.set(first, phrase);
    for (const entry of known) this.#put(phrase, entry);
    return phrase;
  }

  #put(first: number, entry: T): void {
    const text = this.#textOf(entry);
    const [, ...rest] = getFirstWord(text) === undefined ? getTokenKeys(text) : text.split(/[ -]/);
    let phrase = first;
    for (const unit of rest) {
      const key = `${phrase} ${unit}`;
      const known = this.#longer.get(key);
      phrase = known ?? this.#entries.push([]) - 1;
      if (known === undefined) this.#longer.set(key, phrase);
    }
    this.#entries[phrase]?.push(entry);
  }
}

/** The form of most phrases, which can be split without tokenizing. */
const PLAIN_PHRASE = /^[a-z\d]+(?:[ -][a-z\d]+)*$/;

/** Returns the first word of a plain phrase. */
function getFirstWord(text: string): string | undefined {
  if (!PLAIN_PHRASE.test(text)) return undefined;
  const end = text.search(/[ -]/);
  return end === -1 ? text : text.slice(0, end);
}

function getTokenKeys(phrase: string): string[] {
  return tokenize(foldText(phrase)).map(({ text, key }, at) => (at === 0 ? text : key));
}

// A phrase that starts with a symbol, `/deploy`, does not match in a path, `src/deploy`.
function canPhraseStart(text: readonly TextToken[], at: number): boolean {
  const [before, unit] = [text[at - 1], text[at]];
  if (!unit?.canStart) return false;
  return !(unit.isSymbol && unit.isTouching && before && (!before.isSymbol || before.text === unit.text));
}

function canPhraseEnd(text: readonly TextToken[], to: number): boolean {
  const [last, after] = [text[to - 1], text[to]];
  return !(last?.isSymbol && after?.isTouching && after.text === last.text);
}
