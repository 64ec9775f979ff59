import { partnersOf } from "./diff.ts";

/** What both sides changed otherwise: the lines of each, and the line of ours it begins at. */
export interface LineConflict {
  base: string[];
  ours: string[];
  theirs: string[];
  line: number;
}

export type MergedLines = { text: string } | { conflicts: readonly LineConflict[] };

export interface MergeOptions {
  /**
   * What of the base stands for itself, as the keys of a frontmatter do: changes of neighbours are both made. Elsewhere they are a
   * conflict, since lines of prose and code depend on the lines beside them.
   */
  units?: Units;
}

/** Lines of which each unit has its first and all up to the next one's. */
export interface Units {
  /** So many lines of the base, from the first. */
  lines: number;
  isFirst(line: string): boolean;
}

/**
 * One text with what either side changed in it, or where they cannot both have their way. How its lines end, and whether the last
 * one does, is one more thing that a side can change. Texts that are too long or too different to compare are one conflict.
 */
export function mergeLines(base: string, ours: string, theirs: string, options: MergeOptions = {}): MergedLines {
  if (ours === theirs || base === theirs) return { text: ours };
  if (base === ours) return { text: theirs };
  const [b, o, t] = split([base, ours, theirs]);
  const ourHunks = hunksOf(b.lines, o.lines);
  const theirHunks = hunksOf(b.lines, t.lines);
  if (!ourHunks || !theirHunks) return { conflicts: [{ base: b.lines, ours: o.lines, theirs: t.lines, line: 1 }] };
  const merged: string[] = [];
  const conflicts: LineConflict[] = [];
  let at = 0;
  for (const group of grouped(reaching(ourHunks, b.lines, options), reaching(theirHunks, b.lines, options))) {
    const { start, end } = group;
    for (const line of b.lines.slice(at, start)) merged.push(line);
    at = end;
    const mine = applied(b.lines, group, group.ours);
    const other = applied(b.lines, group, group.theirs);
    if (group.ours.length > 0 && group.theirs.length > 0 && !isSame(mine, other)) {
      conflicts.push({ base: b.lines.slice(start, end), ours: mine, theirs: other, line: lineOf(group, ourHunks) });
    }
    for (const line of group.ours.length > 0 ? mine : other) merged.push(line);
  }
  for (const line of b.lines.slice(at)) merged.push(line);
  if (conflicts.length > 0) return { conflicts };
  const ending = chosen(b.ending, o.ending, t.ending) ?? "\n";
  const isEnded = chosen(b.isEnded, o.isEnded, t.isEnded) ?? true;
  return { text: merged.join(ending) + (isEnded && merged.length > 0 ? ending : "") };
}

/** Ours where we changed it, else theirs. */
export function chosen<T>(base: T, ours: T, theirs: T): T {
  return ours === base || ours === undefined ? (theirs ?? ours) : ours;
}

interface Lines {
  lines: string[];
  /** Nothing where no line ends. */
  ending: string | undefined;
  isEnded: boolean | undefined;
}

type Three<T> = [base: T, ours: T, theirs: T];

// Only where each text has one way to end its lines is it told apart from them: what is mixed stays as it is, to the last CR.
function split(texts: Three<string>): Three<Lines> {
  const isMixed = texts.some((text) => text.includes("\r\n") && /(?:^|[^\r])\n/.test(text));
  return texts.map((text) => {
    const ending = isMixed || !text.includes("\r\n") ? "\n" : "\r\n";
    const isEnded = text.endsWith("\n");
    const lines = text === "" ? [] : (isEnded ? text.slice(0, -ending.length) : text).split(ending);
    return {
      lines,
      ending: text.includes("\n") ? ending : undefined,
      isEnded: text === "" ? undefined : isEnded,
    };
  }) as Three<Lines>;
}

/** Lines `start` up to `end` of the base, and what one side has in their place. */
interface Hunk {
  start: number;
  end: number;
  lines: string[];
}

/** Most lines of a text that is compared: some of them with each of a thousand others. */
const MOST_LINES = 50_000;

function hunksOf(base: string[], side: string[]): Hunk[] | undefined {
  if (base.length > MOST_LINES || side.length > MOST_LINES) return undefined;
  const numbers = new Map<string, number>();
  const numbered = (line: string) => {
    const known = numbers.get(line) ?? numbers.size;
    numbers.set(line, known);
    return known;
  };
  const partners = partnersOf(base.map(numbered), side.map(numbered)); // Long lines are compared once.
  if (!partners) return undefined;
  const hunks: Hunk[] = [];
  let [x, y] = [0, 0];
  const close = (end: number, upTo: number) => {
    if (end > x || upTo > y) hunks.push({ start: x, end, lines: side.slice(y, upTo) });
    [x, y] = [end + 1, upTo + 1];
  };
  for (const [line, partner] of partners.entries()) if (partner !== -1) close(line, partner);
  close(base.length, side.length);
  return hunks;
}

interface Group {
  start: number;
  end: number;
  ours: Hunk[];
  theirs: Hunk[];
}

/** A change with the lines of the base that nobody else may change beside it. */
interface Reaching {
  hunk: Hunk;
  from: number;
  to: number;
  /** Whether what it begins with belongs to nothing before it. */
  standsAlone: boolean;
}

/** One that takes a unit's first line away, or brings one, changes what the other lines are part of: it reaches over whole units. */
function reaching(hunks: readonly Hunk[], base: readonly string[], { units }: MergeOptions): Reaching[] {
  const isBorder = (at: number) => units !== undefined && (at === units.lines || isFirst(at));
  const isFirst = (at: number) => units !== undefined && at < units.lines && units.isFirst(base[at] ?? "");
  return hunks.map((hunk) => {
    const { start, end, lines } = hunk;
    let [from, to] = [start, end];
    if (!units || end > units.lines) return { hunk, from, to, standsAlone: false };
    const isOfUnits = lines.some(units.isFirst) || base.slice(start, end).some(units.isFirst);
    while (isOfUnits && from > 0 && !isBorder(from)) from--;
    while (isOfUnits && !isBorder(to)) to++;
    const [first] = lines;
    const beginsUnit = from < start || (first === undefined ? isBorder(end) : units.isFirst(first));
    return { hunk, from, to, standsAlone: isBorder(from) && beginsUnit };
  });
}

/** Changes that meet stand together; two that only add at one place always do, since nobody knows which comes first. */
function grouped(ours: readonly Reaching[], theirs: readonly Reaching[]): Group[] {
  const all = [
    ...ours.map((one) => ({ ...one, side: "ours" as const })),
    ...theirs.map((one) => ({ ...one, side: "theirs" as const })),
  ].sort((a, b) => a.from - b.from || a.to - b.to || Number(a.standsAlone) - Number(b.standsAlone));
  const groups: (Group & { to: number })[] = [];
  for (const { hunk, side, ...reach } of all) {
    const last = groups.at(-1);
    if (last && meets(last, hunk, reach)) {
      last.start = Math.min(last.start, hunk.start);
      last.end = Math.max(last.end, hunk.end);
      last.to = Math.max(last.to, reach.to);
      last[side].push(hunk);
    } else groups.push({ start: hunk.start, end: hunk.end, to: reach.to, ours: [], theirs: [], [side]: [hunk] });
  }
  return groups;
}

function meets(
  group: Group & { to: number },
  { start, end }: Hunk,
  { from, standsAlone }: Omit<Reaching, "hunk">,
): boolean {
  if (from !== group.to) return from < group.to;
  const isAddedTo = (at: number) => [...group.ours, ...group.theirs].some((one) => one.start === at && one.end === at);
  return !standsAlone || (start === end && isAddedTo(start));
}

/** What one side has in the place of a group's lines. */
function applied(base: string[], { start, end }: Group, hunks: readonly Hunk[]): string[] {
  let at = start;
  const parts = hunks.map((hunk) => {
    const before = base.slice(at, hunk.start);
    at = hunk.end;
    return [...before, ...hunk.lines];
  });
  return [...parts.flat(), ...base.slice(at, end)];
}

function lineOf({ start, ours: [first] }: Group, ours: readonly Hunk[]): number {
  const before = ours.slice(0, first ? ours.indexOf(first) : 0);
  return before.reduce((line, hunk) => line + hunk.lines.length - (hunk.end - hunk.start), start + 1);
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((line, index) => line === b[index]);
}
