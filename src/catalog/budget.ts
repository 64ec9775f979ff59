import { inLine } from "../shared/prompt.ts";
import { count } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { describeSkill, descriptionVersions } from "./describe-skill.ts";

export interface Listed {
  text: string;
  /** How many skills are listed with the whole description, with a shortened one, by name alone, and not at all. */
  whole: number;
  shortened: number;
  named: number;
  left: number;
}

export interface ListingOptions {
  /** At most so many characters. */
  room: number;
  /** Names of skills, the most used first: they keep their descriptions and names longest. */
  usage?: readonly string[] | undefined;
  /** The tool that finds the skills that are not named here. */
  search?: string | undefined;
  /** The first line. Defaults to the one that tells how many there are. */
  heading?: string;
  /** Formats a name. */
  nameOf?(skill: Skill): string;
}

/**
 * Names and descriptions, in the order given, within a budget: whole descriptions while they fit, then shortened ones, of which each keeps
 * its "use when" part; then names for some, then names alone, then the most used names. The text states what was cut.
 */
export function listWithin(skills: readonly Skill[], options: ListingOptions): Listed {
  const { heading = availableLine(skills.length), nameOf = shownName } = options;
  const names = skills.map(nameOf);
  // Where not all names fit, no description is read: of a thousand skills that takes a while.
  const shortest = names.reduce((sum, name) => sum + name.length + 3, heading.length);
  if (shortest > options.room) return listNames(heading, names, options);
  const rows = skills.map((skill, index) => ({ name: names[index] ?? "", whole: describeSkill(skill) }));
  const text = [heading, ...rows.map(({ name, whole }) => line(name, whole))].join("\n");
  if (text.length <= options.room) return { text, whole: rows.length, shortened: 0, named: 0, left: 0 };
  return listShortened(heading, skills, options) ?? listNames(heading, names, options);
}

/** The line that tells how many there are. */
export function availableLine(number: number): string {
  return `[${number} skills available]`;
}

/** A skill's line in a list, with the whole description. */
export function bullet(skill: Skill): string {
  return line(shownName(skill), describeSkill(skill));
}

function shownName({ name }: Skill): string {
  return inLine(name, 64);
}

function line(name: string, description: string): string {
  return description === "" ? `- ${name}` : `- ${name}: ${description}`;
}

/** A skill that is listed with one of its versions, or by its name alone. */
interface Row {
  index: number;
  name: string;
  /** Longest first. */
  versions: readonly string[];
  /** Its place among the most used. */
  place: number;
  chosen: string | undefined;
}

function listShortened(heading: string, skills: readonly Skill[], options: ListingOptions): Listed | undefined {
  const { nameOf = shownName } = options;
  const places = placesOf(options.usage);
  const rows = skills.map((skill, index): Row => {
    const versions = descriptionVersions(skill);
    return { index, name: nameOf(skill), versions, place: places(skill.name), chosen: undefined };
  });
  const names = rows.reduce((sum, { name }) => sum + name.length + 3, 0);
  const noteOn = (cut: Pick<FittedDescriptions, "shortened" | "named">) =>
    `(${cutNote(rows.length, cut, options.search)})`;
  const longest = noteOn({ shortened: rows.length, named: rows.length }).length;
  const room = options.room - heading.length - names - 1 - longest;
  if (room < 0) return undefined;
  const { whole, named } = chooseVersions(rows, room, costOf);
  if (named === rows.length) return undefined;
  const shortened = rows.length - whole - named;
  const note = noteOn({ shortened, named });
  const text = [heading, ...rows.map(({ name, chosen = "" }) => line(name, chosen)), note].join("\n");
  return { text, whole, shortened, named, left: 0 };
}

/** Descriptions that fit a number of characters. */
export interface FittedDescriptions {
  /** One for each skill, in the order given; undefined where there is none. */
  descriptions: readonly (string | undefined)[];
  shortened: number;
  /** How many have none. */
  named: number;
}

/** Chooses a version of each description, so that all together take at most so many characters: those of the most used last longest. */
export function fitDescriptions(
  skills: readonly Skill[],
  { room, usage, cost }: Pick<ListingOptions, "room" | "usage"> & { cost(description: string): number },
): FittedDescriptions {
  const places = placesOf(usage);
  const rows = skills.map(
    (skill, index): Row => ({
      index,
      name: shownName(skill),
      versions: descriptionVersions(skill),
      place: places(skill.name),
      chosen: undefined,
    }),
  );
  const { whole, named } = chooseVersions(rows, room, (description = "") => cost(description));
  return { descriptions: rows.map(({ chosen }) => chosen), shortened: rows.length - whole - named, named };
}

/** Contract: sets `chosen` of each row. */
function chooseVersions(rows: readonly Row[], room: number, cost: Cost): { whole: number; named: number } {
  const floors = rows.reduce((sum, { versions }) => sum + cost(versions.at(-1)), 0);
  if (floors <= room) chooseEvenly(rows, room, cost);
  else chooseSome(rows, room, cost);
  return { whole: rows.filter(isWhole).length, named: rows.filter(({ chosen }) => chosen === undefined).length };
}

/** Returns what a description takes. */
type Cost = (description: string | undefined) => number;

/** Returns a statement of what was cut, without parentheses. */
export function cutNote(
  all: number,
  { shortened, named }: Pick<FittedDescriptions, "shortened" | "named">,
  search?: string,
): string {
  const cut = [
    ...(shortened > 0 ? [`${count(shortened, "description")} of ${all} shortened`] : []),
    ...(named > 0 ? [`${shortened > 0 ? named : `${count(named, "description")} of ${all}`} left out`] : []),
  ];
  return `${cut.join(", ")} to fit${search ? `; ${search} gives them whole` : ""}`;
}

/** All have a description, each about as long; those that need less leave room to the others, the most used first. */
function chooseEvenly(rows: readonly Row[], room: number, cost: Cost): void {
  const within =
    (limit: number) =>
    ({ versions }: Row) =>
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
  let left = room;
  for (const row of rows) {
    row.chosen = choose(row);
    left -= cost(row.chosen);
  }
  for (const row of [...rows].sort((a, b) => a.place - b.place || a.index - b.index)) {
    const more = left + cost(row.chosen);
    row.chosen = row.versions.find((version) => cost(version) <= more) ?? row.chosen;
    left = more - cost(row.chosen);
  }
}

/** Too little for all: the shortest version for the most used, then for as many as there is room for. */
function chooseSome(rows: readonly Row[], room: number, cost: Cost): void {
  let left = room;
  const least = ({ versions }: Row) => cost(versions.at(-1));
  for (const row of [...rows].sort((a, b) => a.place - b.place || least(a) - least(b) || a.index - b.index)) {
    if (least(row) > left) continue;
    left -= least(row);
    row.chosen = row.versions.at(-1);
  }
}

function isWhole({ chosen, versions }: Row): boolean {
  return chosen !== undefined && chosen === versions[0];
}

/** What a description takes in a line, with the colon. */
function costOf(description = ""): number {
  return description === "" ? 0 : description.length + 2;
}

function placesOf(usage: readonly string[] = []): (name: string) => number {
  const places = new Map(usage.map((name, place) => [name, place]));
  return (name) => places.get(name) ?? Number.MAX_SAFE_INTEGER;
}

function listNames(heading: string, names: readonly string[], { room, usage, search }: ListingOptions): Listed {
  const all = `${heading} ${names.join(", ")}`;
  const note = `\n(names only, to fit${search ? `; ${search} tells more` : ""})`;
  if (all.length <= room) {
    const text = all.length + note.length <= room ? all + note : all;
    return { text, whole: 0, shortened: 0, named: names.length, left: 0 };
  }
  const more = (number: number) => `, and ${number} more${search ? `: ${search}` : ""}`;
  let left = room - heading.length - 1 - more(names.length).length;
  const kept = new Set<number>();
  for (const index of mostUsedFirst(names, usage)) {
    const cost = (names[index]?.length ?? 0) + 2;
    if (cost > left) break;
    left -= cost;
    kept.add(index);
  }
  const shown = names.filter((_, index) => kept.has(index));
  const rest = names.length - shown.length;
  const text = shown.length === 0 ? heading : `${heading} ${shown.join(", ")}${more(rest)}`;
  return { text, whole: 0, shortened: 0, named: shown.length, left: rest };
}

function mostUsedFirst(names: readonly string[], usage: readonly string[] = []): Iterable<number> {
  const indexes = new Map(names.map((name, index) => [name, index]));
  return new Set([...usage.flatMap((name) => indexes.get(name) ?? []), ...names.keys()]);
}
