import { byText } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { type Cue, CueIndex, type CueKind } from "./cues.ts";
import { type Field, RankIndex, type Ranking } from "./rank.ts";
import { eachTerm, terms } from "./terms.ts";

/** Strongest first. Only `words` never puts a skill's instructions before a model. */
export const LEVELS = ["explicit", "phrase", "trigger", "words"] as const;
export type Level = (typeof LEVELS)[number];

export interface Reason {
  kind: CueKind | "words";
  /** What was found: the cue as the skill declares it, or the words. */
  text: string;
}

export interface Match {
  skill: Skill;
  level: Level;
  reasons: readonly Reason[];
  /** How well its words fit the query's. */
  score: number;
  /** How many different words of the query stand in what it says of itself. */
  words: number;
}

export interface MatchOptions {
  /** Names of skills, the one used last first. */
  recent?: readonly string[];
  /** Paths that the conversation is about, for skills with `paths`. */
  files?: readonly string[];
  /** How many matches by words alone. 10 when left out. */
  limit?: number;
  /** Also look into the instructions: they are read when this is first asked for. */
  bodies?: boolean;
  isVisible?: (skill: Skill) => boolean;
  /** Whether a person may call the skill by name. */
  isCallable?: (skill: Skill) => boolean;
}

export interface Matches {
  /** Best first. */
  matches: readonly Match[];
  /** Skills that a cue speaks against. */
  against: readonly { skill: Skill; cue: string }[];
  /** The query was longer than what is looked at. */
  isCut: boolean;
}

export interface Matcher {
  /** The skills that a query can wake. What cannot be used as a trigger is none. */
  readonly triggered: ReadonlySet<Skill>;
  match(query: string, options?: MatchOptions): Matches;
  /** Which of the query's words stand in which field of the skill. */
  wordsIn(
    skill: Skill,
    query: string,
    options?: { bodies?: boolean },
  ): readonly { field: string; words: readonly string[] }[];
}

/** How much of a query is looked at, in characters. */
export const LONGEST_QUERY = 20_000;

const FIELDS = {
  name: { weight: 3, shortness: 0.3 },
  description: { weight: 1, shortness: 0.4 },
  triggers: { weight: 1, shortness: 0.3 },
  examples: { weight: 0.6, shortness: 0.3 },
} satisfies Record<string, Field>;
const FIELD_NAMES = Object.keys(FIELDS) as (keyof typeof FIELDS)[];
/** With the instructions, rarity is that of the whole text, and a name must weigh more to stay first when it is typed. */
const WITH_BODY: readonly Field[] = [
  { ...FIELDS.name, weight: 8 },
  FIELDS.description,
  FIELDS.triggers,
  FIELDS.examples,
  { weight: 0.25, shortness: 0.75 },
];
const [EXPLICIT, PHRASE, TRIGGER] = [0, 1, 2];
const LEVEL_OF: Record<Exclude<CueKind, "negative">, number> = {
  mention: EXPLICIT,
  name: PHRASE,
  example: PHRASE,
  phrase: PHRASE,
  keyword: TRIGGER,
  verb: TRIGGER,
  pattern: TRIGGER,
  path: TRIGGER,
};

/** Prepares skills for being matched. Contract: a matcher belongs to these skills as they are now. */
export function openMatcher(skills: readonly Skill[]): Matcher {
  const cues = new CueIndex();
  const examples = skills.map((skill) => skill.examples());
  const triggered = new Set(skills.filter((skill, index) => cues.add(index, skill, examples[index] ?? [])));
  const textsOf = (index: number) => fieldsOf(skills[index] as Skill, examples[index] ?? []);
  // Most queries need no words: a skill is triggered, or none is and nothing more is said. So the words wait until one does.
  const rank = once(() => new RankIndex(Object.values(FIELDS), skills.length, textsOf));
  const bodyRank = once(
    () => new RankIndex(WITH_BODY, skills.length, (index) => [...textsOf(index), bodyOf(skills[index] as Skill)]),
  );
  return {
    triggered,
    match: (query, matchOptions = {}) => match({ skills, cues, rank, bodyRank }, query, matchOptions),
    wordsIn(skill, query, { bodies: withBodies = false } = {}) {
      const wanted = wordsOf(query.slice(0, LONGEST_QUERY));
      const texts = fieldsOf(skill, skill.examples());
      const fields = texts.map((text, index) => ({ field: FIELD_NAMES[index] as string, text }));
      if (withBodies) fields.push({ field: "body", text: bodyOf(skill) });
      return fields.flatMap(({ field, text }) => {
        const words = [...new Set(terms(text))].flatMap((term) => wanted.get(term) ?? []);
        return words.length === 0 ? [] : { field, words };
      });
    },
  };
}

interface Indexes {
  skills: readonly Skill[];
  cues: CueIndex;
  rank(): RankIndex;
  bodyRank(): RankIndex;
}

function match(indexes: Indexes, written: string, options: MatchOptions): Matches {
  const { skills } = indexes;
  const { recent = [], limit = 10, isVisible = () => true } = options;
  const query = written.slice(0, LONGEST_QUERY);
  const { found, against } = weighCues(indexes, query, options);
  const accepts = (index: number) => !against.has(index) && isVisible(skills[index] as Skill);
  const words = wordsOf(query);
  // What is triggered has the same order whether the instructions are looked into or not.
  const isOrdered = found.size > 1 || limit > 0;
  const ranking = { limit: options.bodies ? 0 : limit, always: found, accepts };
  const own = isOrdered ? indexes.rank().rank(words.keys(), ranking) : NO_RANKING;
  const wide = options.bodies && limit > 0 ? indexes.bodyRank() : undefined;
  const { best } = wide ? wide.rank(words.keys(), { ...ranking, limit }) : own;
  const strong = Array.from(found, ([index, cues]): Match => {
    const { score = 0, words: number = 0 } = own.asked.get(index) ?? {};
    const reasons = cues.map(({ kind, text }) => ({ kind, text }));
    return { skill: skills[index] as Skill, level: levelOf(cues), reasons, score, words: number };
  });
  const byWords = best.map(({ document, score, words: number }): Match => {
    const held = (wide ?? indexes.rank()).wordsIn(document, words.keys());
    const reasons = [{ kind: "words" as const, text: held.map((term) => words.get(term)).join(", ") }];
    return { skill: skills[document] as Skill, level: "words", reasons, score, words: number };
  });
  return {
    matches: [...strong.sort(byStrength(recent)), ...byWords],
    against: Array.from(against, ([index, cue]) => ({ skill: skills[index] as Skill, cue })),
    isCut: written.length > LONGEST_QUERY,
  };
}

const NO_RANKING: Ranking = { best: [], asked: new Map() };

/** The cues for each skill, and those against one, which leave it only its mentions. */
function weighCues({ skills, cues }: Indexes, query: string, options: MatchOptions) {
  const { files = [], isVisible = () => true, isCallable = () => true } = options;
  const found = new Map<number, Cue[]>();
  const against = new Map<number, string>();
  for (const cue of cues.find(query, files)) {
    const skill = skills[cue.skill] as Skill;
    if (cue.kind === "mention" ? !isCallable(skill) : !isVisible(skill)) continue;
    if (cue.kind === "negative") against.set(cue.skill, cue.text);
    else if (found.get(cue.skill)?.push(cue) === undefined) found.set(cue.skill, [cue]);
  }
  for (const index of against.keys()) {
    const mentions = found.get(index)?.filter(({ kind }) => kind === "mention") ?? [];
    if (mentions.length > 0) found.set(index, mentions);
    else found.delete(index);
  }
  return { found, against };
}

/** The words of a query that count, by their stems. */
function wordsOf(query: string): Map<string, string> {
  const words = new Map<string, string>();
  eachTerm(query, (term, word) => words.set(term, word));
  return words;
}

function levelOf(cues: readonly Cue[]): Level {
  const strongest = Math.min(...cues.map(({ kind }) => LEVEL_OF[kind as keyof typeof LEVEL_OF]));
  return LEVELS[strongest] ?? "words";
}

/** The stronger level, then what was used more recently, then more words of the query, then the name. */
function byStrength(recent: readonly string[]): (a: Match, b: Match) => number {
  const places = new Map(recent.map((name, place) => [name, place]));
  const place = ({ skill }: Match) => places.get(skill.name) ?? Number.MAX_SAFE_INTEGER;
  return (a, b) =>
    LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) ||
    place(a) - place(b) ||
    b.words - a.words ||
    byText(a.skill.name, b.skill.name);
}

function fieldsOf({ name, description, manifest }: Skill, examples: readonly string[]): string[] {
  const { whenToUse, triggers } = manifest;
  return [
    name,
    whenToUse ? `${description}\n${whenToUse}` : description,
    [...triggers.keywords, ...triggers.verbs, ...manifest.tags].join("\n"),
    examples.join("\n"),
  ];
}

/** The instructions, or nothing where they can no longer be read. */
export function bodyOf(skill: Skill): string {
  try {
    return skill.body();
  } catch {
    return "";
  }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
