import type { Skill } from "../skill/skill.ts";
import { formatCount } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { describeSkill, listDescriptionVersions } from "./describe-skill.ts";
import { foldText, tokenize } from "./search/tokenizer.ts";
import { findPaths } from "./search/trigger-index.ts";

/** Formats the skills as lines for a prompt; empty without skills. */
export function formatPromptListing(skills: Iterable<Skill>): string {
  return Array.from(skills, (skill) => `- ${sanitizeLine(skill.name, 64)}: ${describeSkill(skill)}`).join("\n");
}

export interface PromptSectionOptions {
  /** Returns the path where the skill's folder is mounted for the model, if it is. */
  pathOf?: (skill: Skill) => string | undefined;
}

/** Formats the system prompt section for agents that want one list for all queries; empty without skills. */
export function formatPromptSection(skills: Iterable<Skill>, { pathOf }: PromptSectionOptions = {}): string {
  const lines = Array.from(skills, (skill) => {
    const path = pathOf?.(skill);
    return `- **${sanitizeLine(skill.name, 64)}**: ${describeSkill(skill)}${path === undefined ? "" : ` (${sanitizeLine(path)})`}`;
  });
  return lines.length === 0 ? "" : `${SECTION_HEADING}\n\n${lines.join("\n")}`;
}

/** Formats the same section within a number of characters. Shortens descriptions if needed. */
export function fitPromptSection(
  skills: readonly Skill[],
  { pathOf, ...options }: Pick<ListingOptions, "room" | "usage" | "search"> & PromptSectionOptions,
): FittedListing {
  const text = formatPromptSection(skills, pathOf ? { pathOf } : {});
  if (text.length <= options.room) return { text, whole: skills.length, shortened: 0, named: 0, left: 0 };
  return fitListing(skills, {
    ...options,
    heading: `${SECTION_HEADING}\n`,
    nameOf: ({ name }) => `**${sanitizeLine(name, 64)}**`,
  });
}

const SECTION_HEADING = `## Skills

Before replying, check if any available skill matches the user's request.
If one clearly applies, invoke it with \`use_skill\`. If none apply, respond directly.`;

export interface FittedListing {
  text: string;
  /** The number of skills listed with the whole description, with a shortened one, by name alone, and not at all. */
  whole: number;
  shortened: number;
  named: number;
  left: number;
}

interface ListingOptions {
  /** In characters. */
  room: number;
  /** Names of skills, the most used first: they keep their descriptions and names longest. */
  usage?: readonly string[] | undefined;
  /** The tool that finds skills which are not named here. */
  search?: string | undefined;
  /** The first line. Defaults to the number of skills. */
  heading?: string;
  /** Formats a name. */
  nameOf?(skill: Skill): string;
}

/**
 * Lists names and descriptions, in the given order, within a budget: whole descriptions if they fit, then shortened ones that keep their
 * "use when" part; then some by name, then all by name, then only the most used names. The text states what was cut.
 */
export function fitListing(skills: readonly Skill[], options: ListingOptions): FittedListing {
  const { heading = formatAvailableLine(skills.length), nameOf = formatListedName } = options;
  const names = skills.map(nameOf);
  // If the names alone do not fit, no description is read: for a thousand skills that takes a while.
  const shortest = names.reduce((sum, name) => sum + name.length + 3, heading.length);
  if (shortest > options.room) return fitNames(heading, names, options);
  const rows = skills.map((skill, index) => ({ name: names[index] ?? "", whole: describeSkill(skill) }));
  const text = [heading, ...rows.map(({ name, whole }) => formatListingLine(name, whole))].join("\n");
  if (text.length <= options.room) return { text, whole: rows.length, shortened: 0, named: 0, left: 0 };
  return fitShortenedListing(heading, skills, options) ?? fitNames(heading, names, options);
}

/** Formats the line with the number of skills. */
export function formatAvailableLine(number: number): string {
  return `[${number} skills available]`;
}

/** Formats a skill's line in a list, with the whole description. */
export function formatBullet(skill: Skill): string {
  return formatListingLine(formatListedName(skill), describeSkill(skill));
}

function formatListedName({ name }: Skill): string {
  return sanitizeLine(name, 64);
}

function formatListingLine(name: string, description: string): string {
  return description === "" ? `- ${name}` : `- ${name}: ${description}`;
}

/** A skill that is listed with one of its description versions, or by name alone. */
interface ListingRow {
  index: number;
  name: string;
  /** Longest first. */
  versions: readonly string[];
  /** Its rank by usage. */
  place: number;
  chosen: string | undefined;
}

function fitShortenedListing(
  heading: string,
  skills: readonly Skill[],
  options: ListingOptions,
): FittedListing | undefined {
  const { nameOf = formatListedName } = options;
  const places = rankByUsage(options.usage);
  const rows = skills.map((skill, index): ListingRow => {
    const versions = listDescriptionVersions(skill);
    return { index, name: nameOf(skill), versions, place: places(skill.name), chosen: undefined };
  });
  const names = rows.reduce((sum, { name }) => sum + name.length + 3, 0);
  const formatNote = (cut: Pick<FittedDescriptions, "shortened" | "named">) =>
    `(${formatCutNote(rows.length, cut, options.search)})`;
  const longest = formatNote({ shortened: rows.length, named: rows.length }).length;
  const room = options.room - heading.length - names - 1 - longest;
  if (room < 0) return undefined;
  const { whole, named } = chooseVersions(rows, room, measureDescription);
  if (named === rows.length) return undefined;
  const shortened = rows.length - whole - named;
  const note = formatNote({ shortened, named });
  const text = [heading, ...rows.map(({ name, chosen = "" }) => formatListingLine(name, chosen)), note].join("\n");
  return { text, whole, shortened, named, left: 0 };
}

/** Descriptions that fit a number of characters. */
interface FittedDescriptions {
  /** One per skill, in the given order; undefined if it has none. */
  descriptions: readonly (string | undefined)[];
  shortened: number;
  /** The number of skills without one. */
  named: number;
}

/** Chooses a version of each description so that together they fit `room`. The most used skills keep theirs longest. */
export function fitDescriptions(
  skills: readonly Skill[],
  { room, usage, cost }: Pick<ListingOptions, "room" | "usage"> & { cost(description: string): number },
): FittedDescriptions {
  const places = rankByUsage(usage);
  const rows = skills.map(
    (skill, index): ListingRow => ({
      index,
      name: formatListedName(skill),
      versions: listDescriptionVersions(skill),
      place: places(skill.name),
      chosen: undefined,
    }),
  );
  const { whole, named } = chooseVersions(rows, room, (description = "") => cost(description));
  return { descriptions: rows.map(({ chosen }) => chosen), shortened: rows.length - whole - named, named };
}

/** Contract: sets `chosen` of each row. */
function chooseVersions(
  rows: readonly ListingRow[],
  room: number,
  cost: MeasureDescription,
): { whole: number; named: number } {
  const floors = rows.reduce((sum, { versions }) => sum + cost(versions.at(-1)), 0);
  if (floors <= room) chooseEvenly(rows, room, cost);
  else chooseSome(rows, room, cost);
  return { whole: rows.filter(isWhole).length, named: rows.filter(({ chosen }) => chosen === undefined).length };
}

/** Returns the cost of a description. */
type MeasureDescription = (description: string | undefined) => number;

/** Formats the note about what was cut, without parentheses. */
export function formatCutNote(
  all: number,
  { shortened, named }: Pick<FittedDescriptions, "shortened" | "named">,
  search?: string,
): string {
  const cut = [
    ...(shortened > 0 ? [`${formatCount(shortened, "description")} of ${all} shortened`] : []),
    ...(named > 0 ? [`${shortened > 0 ? named : `${formatCount(named, "description")} of ${all}`} left out`] : []),
  ];
  return `${cut.join(", ")} to fit${search ? `; ${search} gives them whole` : ""}`;
}

/** Gives each skill a description of about the same length. Short ones leave room for others, the most used first. */
function chooseEvenly(rows: readonly ListingRow[], room: number, cost: MeasureDescription): void {
  const within =
    (limit: number) =>
    ({ versions }: ListingRow) =>
      versions.find(({ length }) => length <= limit) ?? versions.at(-1);
  const lengths = [...new Set(rows.flatMap(({ versions }) => versions.map(({ length }) => length)))];
  lengths.sort((a, b) => a - b);
  let [low, high] = [0, lengths.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const choose = within(lengths[middle] ?? 0);
    if (rows.reduce((sum, row) => sum + cost(choose(row)), 0) <= room) low = middle;
    else high = middle - 1;
  }
  const choose = within(lengths[low] ?? 0);
  let remaining = room;
  for (const row of rows) {
    row.chosen = choose(row);
    remaining -= cost(row.chosen);
  }
  for (const row of [...rows].sort((a, b) => a.place - b.place || a.index - b.index)) {
    const more = remaining + cost(row.chosen);
    row.chosen = row.versions.find((version) => cost(version) <= more) ?? row.chosen;
    remaining = more - cost(row.chosen);
  }
}

/** Not enough room for all: the shortest version for the most used, then for as many as fit. */
function chooseSome(rows: readonly ListingRow[], room: number, cost: MeasureDescription): void {
  let remaining = room;
  const least = ({ versions }: ListingRow) => cost(versions.at(-1));
  for (const row of [...rows].sort((a, b) => a.place - b.place || least(a) - least(b) || a.index - b.index)) {
    if (least(row) > remaining) continue;
    remaining -= least(row);
    row.chosen = row.versions.at(-1);
  }
}

function isWhole({ chosen, versions }: ListingRow): boolean {
  return chosen !== undefined && chosen === versions[0];
}

/** Returns the length of a description in a line, with the colon. */
function measureDescription(description = ""): number {
  return description === "" ? 0 : description.length + 2;
}

function rankByUsage(usage: readonly string[] = []): (name: string) => number {
  const positions = new Map(usage.map((name, index) => [name, index]));
  return (name) => positions.get(name) ?? Number.MAX_SAFE_INTEGER;
}

function fitNames(heading: string, names: readonly string[], { room, usage, search }: ListingOptions): FittedListing {
  const all = `${heading} ${names.join(", ")}`;
  const note = `\n(names only, to fit${search ? `; ${search} tells more` : ""})`;
  if (all.length <= room) {
    const text = all.length + note.length <= room ? all + note : all;
    return { text, whole: 0, shortened: 0, named: names.length, left: 0 };
  }
  const more = (number: number) => `, and ${number} more${search ? `: ${search}` : ""}`;
  let remaining = room - heading.length - 1 - more(names.length).length;
  const kept = new Set<number>();
  for (const index of sortByUsage(names, usage)) {
    const cost = (names[index]?.length ?? 0) + 2;
    if (cost > remaining) break;
    remaining -= cost;
    kept.add(index);
  }
  const shown = names.filter((_, index) => kept.has(index));
  const rest = names.length - shown.length;
  const text = shown.length === 0 ? heading : `${heading} ${shown.join(", ")}${more(rest)}`;
  return { text, whole: 0, shortened: 0, named: shown.length, left: rest };
}

function sortByUsage(names: readonly string[], usage: readonly string[] = []): Iterable<number> {
  const indexes = new Map(names.map((name, index) => [name, index]));
  return new Set([...usage.flatMap((name) => indexes.get(name) ?? []), ...names.keys()]);
}

/**
 * Returns true if a skill is offered to a model by default. A skill of another package in a monorepo is offered if the query or the
 * conversation names a file of that package. `search_skills`, `load_skill` and users can always find it.
 */
export function isOfferedByDefault(
  { origin: { belongsTo } }: Skill,
  query = "",
  files: readonly string[] = [],
): boolean {
  if (belongsTo === undefined) return true;
  const isBelow = (path: string) => path === belongsTo || path.startsWith(`${belongsTo}/`);
  return [...findPaths(query), ...files].some((path) => isBelow(path.replace(/^\.\//, "").replace(/\/$/, "")));
}

/** Queries that ask for the list of skills. Polite and filler words are removed from both sides before the comparison. */
export const LIST_INTENT_PHRASES: readonly string[] = [
  "skills",
  "skills list",
  "list skills",
  "list of skills",
  "show skills",
  "show list of skills",
  "name skills",
  "give a list of skills",
  "what skills",
  "what skills are",
  "what skills are there",
  "what skills do you have",
  "what skills can you use",
  "what skills you have",
  "what are your skills",
  "which skills",
  "which skills are",
  "which skills are there",
  "which skills do you have",
  "which skills can you use",
  "which skills you have",
  "tell about your skills",
  "tell what skills you have",
  "tell which skills you have",
  "do you have skills",
  "do you have any skills",
  "are there skills",
  "are there any skills",
  "are any skills",
  "what skills can I use",
  "which skills can I use",
  "tell what skills are",
  "tell which skills are",
  "tell what skills there are",
  "what can you do",
  "what else can you do",
  "what can you help with",
  "what are you able to do",
  "what are you capable of",
  "what are your capabilities",
  "what do you know how to do",
  "how can you help",
  "tell what you can do",
  "show what you can do",
  "list capabilities",
  "list your abilities",
  "was kannst du",
  "was kannst du tun",
  "was kannst du für mich tun",
  "was können Sie",
  "welche skills gibt es",
  "welche skills hast du",
  "welche fähigkeiten hast du",
  "zeig skills",
  "zeige skills",
  "liste skills auf",
  "que sais-tu faire",
  "que peux-tu faire",
  "que pouvez-vous faire",
  "que savez-vous faire",
  "qu'est-ce que tu sais faire",
  "qu'est-ce que tu peux faire",
  "quelles sont tes compétences",
  "quelles compétences as-tu",
  "quelles compétences avez-vous",
  "liste les compétences",
  "qué puedes hacer",
  "qué puedes hacer por mí",
  "qué sabes hacer",
  "qué habilidades tienes",
  "lista las habilidades",
  "o que você pode fazer",
  "o que você sabe fazer",
  "o que você consegue fazer",
  "liste as habilidades",
  "cosa sai fare",
  "cosa puoi fare",
  "wat kun je",
  "wat kan je doen",
  "что ты умеешь",
  "что ты умеешь делать",
  "что вы умеете",
  "что вы умеете делать",
  "что ты можешь",
  "какие у тебя навыки",
  "何ができますか",
  "何ができる",
  "スキル一覧",
  "スキルを一覧",
  "どんなスキルがありますか",
  "どんなスキルがある",
  "你会什么",
  "你会做什么",
  "你能做什么",
  "你可以做什么",
  "列出技能",
  "列出所有技能",
  "有哪些技能",
  "你有哪些技能",
  "你有什么技能",
  "뭐 할 수 있어",
  "무엇을 할 수 있나요",
  "어떤 스킬이 있나요",
  "스킬 목록",
];

const FILLER_WORDS = new Set(
  "a all alle alles available bitte current currently denn doch eigentlich exactly exist existing hello hey hi installed just kindly mal me mir my now of ok okay our please por favor right so stp svp the then tous toutes us well your".split(
    " ",
  ),
);
const POLITE_OPENING =
  /^(?:can|could|would|will) you (?=show|tell|name|give|list)|^i want to (?=know|see) |^i'?d like to (?=know|see) /;
const POLITE_CLOSING = / (?:for (?:me|us)|to you|here)$/;
const MAX_INTENT_LENGTH = 200;

/** Returns true if the query asks for the list of skills, and nothing else. */
export function isListIntent(query: string, more: readonly string[] = []): boolean {
  if (query.length > MAX_INTENT_LENGTH) return false;
  const intent = normalizeIntent(query);
  if (intent === "") return false;
  return getOwnPhrases(intent).has(intent) || more.some((phrase) => normalizeIntent(phrase) === intent);
}

/** Returns the phrases to compare with. Without accents, a query in a Latin script is ASCII; a long query matches none. */
function getOwnPhrases(intent: string): ReadonlySet<string> {
  if (intent.length > MAX_PHRASE_LENGTH) return NO_PHRASES;
  if (ASCII.test(intent)) {
    latinPhrases ??= new Set(LIST_INTENT_PHRASES.filter((phrase) => IN_LATIN.test(phrase)).map(normalizeIntent));
    return latinPhrases;
  }
  ownPhrases ??= new Set(LIST_INTENT_PHRASES.map(normalizeIntent));
  return ownPhrases;
}

const NO_PHRASES: ReadonlySet<string> = new Set();
const MAX_PHRASE_LENGTH = 64;
const ASCII = /^[\0-\x7f]*$/;
const IN_LATIN = /^[\0-\u024f]*$/;
let ownPhrases: ReadonlySet<string> | undefined;
let latinPhrases: ReadonlySet<string> | undefined;

function normalizeIntent(text: string): string {
  const words = tokenize(foldText(removeAccents(text.trim()))).flatMap((unit) => (unit.isSymbol ? [] : unit.text));
  const kept = words.join(" ").replace(POLITE_OPENING, "").replace(POLITE_CLOSING, "").split(" ");
  return kept.filter((word) => !FILLER_WORDS.has(word)).join(" ");
}

// Users often omit accents: "que puedes hacer".
function removeAccents(text: string): string {
  return ASCII.test(text)
    ? text
    : text
        .normalize("NFD")
        .replace(/(?<=[a-z])[\u0300-\u036f]+/gi, "")
        .normalize("NFC");
}
