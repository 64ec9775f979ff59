import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";

export interface Listed {
  text: string;
  /** How many descriptions were shortened or left out, and how many names. */
  cut: { descriptions: number; names: number };
}

export interface ListingOptions {
  /** At most so many characters. */
  room: number;
  /** Skills whose descriptions and names are kept first, the best first. Asked for only when not all is kept. */
  first(): readonly Skill[];
  /** What finds the skills that are not named here. */
  search?: string;
}

/**
 * Names and brief descriptions, in the order given, within a budget. Descriptions shorten first, those of the skills that fit
 * the query last; then they go; names are the last to go, and what was cut is said.
 */
export function listWithin(skills: readonly Skill[], options: ListingOptions): Listed {
  const heading = availableLine(skills.length);
  const names = skills.map(nameOf);
  const fitting = () => {
    const places = new Map(skills.map((skill, index) => [skill.name, index]));
    return options.first().flatMap(({ name }) => places.get(name) ?? []);
  };
  // Where not all names fit, no description is looked at: of a thousand skills that takes a while.
  const shortest = names.reduce((sum, name) => sum + name.length + 3, heading.length);
  if (shortest > options.room) return namesOnly(heading, names, fitting(), options);
  const rows = skills.map(rowOf);
  const whole = [heading, ...rows.map(line)].join("\n");
  if (whole.length <= options.room) return { text: whole, cut: { descriptions: 0, names: 0 } };
  const places = fitting();
  return shortened(heading, rows, places, options) ?? namesOnly(heading, names, places, options);
}

/** The one line that says how many there are. */
export function availableLine(number: number): string {
  return `[${number} skills available]`;
}

interface Row {
  name: string;
  brief: string;
}

/** Below this a description is no use. */
const SHORTEST = 16;
/** So many that fit the query keep their whole description. */
const KEPT_WHOLE = 5;

/** A skill's line in a list. */
export function bullet(skill: Skill): string {
  return line(rowOf(skill));
}

function rowOf(skill: Skill): Row {
  return { name: nameOf(skill), brief: inLine(skill.manifest.briefDescription, 160) };
}

function nameOf({ name }: Skill): string {
  return inLine(name, 64);
}

function line({ name, brief }: Row): string {
  return brief === "" ? `- ${name}` : `- ${name}: ${brief}`;
}

function shortened(
  heading: string,
  rows: readonly Row[],
  fitting: readonly number[],
  options: ListingOptions,
): Listed | undefined {
  const note = `(descriptions shortened to fit${options.search ? `; ${options.search} gives them whole` : ""})`;
  const names = rows.reduce((sum, { name }) => sum + name.length + 3, 0);
  let room = options.room - heading.length - note.length - 1 - names;
  if (room < 0) return undefined;
  const limits = new Map<number, number>();
  for (const index of fitting.slice(0, KEPT_WHOLE)) {
    const cost = (rows[index]?.brief.length ?? 0) + 2;
    if (cost > room) continue;
    room -= cost;
    limits.set(index, cost);
  }
  const others = rows.flatMap((row, index) => (limits.has(index) ? [] : { index, cost: row.brief.length + 2 }));
  others.sort((a, b) => a.cost - b.cost || a.index - b.index);
  let share = evenShare(others, room);
  if (share - 2 < SHORTEST) {
    // Too little for each: whole descriptions for as many as there is room for.
    share = 0;
    for (const { index, cost } of others) {
      if (cost > room) break;
      room -= cost;
      limits.set(index, cost);
    }
  }
  let descriptions = 0;
  const lines = rows.map(({ name, brief }, index) => {
    const limit = limits.get(index) ?? share;
    if (brief.length + 2 <= limit) return line({ name, brief });
    descriptions++;
    return line({ name, brief: limit - 2 < SHORTEST ? "" : inLine(brief, limit - 2) });
  });
  return { text: [heading, ...lines, note].join("\n"), cut: { descriptions, names: 0 } };
}

function namesOnly(
  heading: string,
  names: readonly string[],
  fitting: readonly number[],
  options: ListingOptions,
): Listed {
  const all = `${heading} ${names.join(", ")}`;
  const note = `\n(names only, to fit${options.search ? `; ${options.search} tells more` : ""})`;
  if (all.length <= options.room) {
    const text = all.length + note.length <= options.room ? all + note : all;
    return { text, cut: { descriptions: names.length, names: 0 } };
  }
  const more = (number: number) => `, and ${number} more${options.search ? ` (${options.search} finds them)` : ""}`;
  let room = options.room - heading.length - 1 - more(names.length).length;
  const kept = new Set<number>();
  for (const index of new Set([...fitting, ...names.keys()])) {
    const cost = (names[index]?.length ?? 0) + 2;
    if (cost > room) break;
    room -= cost;
    kept.add(index);
  }
  const told = names.filter((_, index) => kept.has(index));
  const left = names.length - told.length;
  const text = told.length === 0 ? heading : `${heading} ${told.join(", ")}${more(left)}`;
  return { text, cut: { descriptions: names.length, names: left } };
}

/** The most that each may have so that all have room: those that need less leave it to the others. Contract: cheapest first. */
function evenShare(needs: readonly { cost: number }[], room: number): number {
  let left = room;
  for (const [index, { cost }] of needs.entries()) {
    const share = Math.floor(left / (needs.length - index));
    if (cost > share) return share;
    left -= cost;
  }
  return Number.POSITIVE_INFINITY;
}
