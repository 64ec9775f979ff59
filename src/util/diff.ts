import { formatCount } from "./text.ts";

/** `context`: lines shown around a change. `most`: lines shown at all; how many there are more is the last of them. */
interface DiffOptions {
  context?: number;
  most?: number;
}

/**
 * What changed, for a person: ` same`, `-gone` and `+new` lines in hunks that begin with `@@ -line,count +line,count @@`; nothing
 * when nothing did. Whether the last line ends in a newline is not told. Texts that differ in too much are shown one after the
 * other, and the first line says so.
 */
export function diffLines(before: string, after: string, options: DiffOptions = {}): string[] {
  const { context = 3, most = Number.POSITIVE_INFINITY } = options;
  const old = splitLines(before);
  const now = splitLines(after);
  const edits = compareLines(old, now);
  const lines = edits ? formatHunks(edits, context) : formatReplacement(old, now);
  if (lines.length <= most) return lines;
  const shown = Math.max(0, most - 1);
  return [...lines.slice(0, shown), `@@ ${formatCount(lines.length - shown, "more line")} not shown @@`];
}

function formatReplacement(old: string[], now: string[]): string[] {
  const header = `@@ -${formatRange(0, old.length)} +${formatRange(0, now.length)} @@ too different to compare: all of the old, all of the new`;
  return [header, ...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
}

function splitLines(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

/** Every line of both, marked; nothing when too many lines differ. */
function compareLines(old: string[], now: string[]): string[] | undefined {
  const partners = matchLines(old, now);
  if (!partners) return undefined;
  const edits: string[] = [];
  let y = 0;
  const addUpTo = (end: number) => {
    while (y < end) edits.push(`+${now[y++]}`);
  };
  for (const [x, partner] of partners.entries()) {
    if (partner === -1) edits.push(`-${old[x]}`);
    else {
      addUpTo(partner);
      edits.push(` ${now[y++]}`);
    }
  }
  addUpTo(now.length);
  return edits;
}

/** For each of the old which of the new it is, or -1, so that as few as can be are without; nothing when too many are. */
function matchLines<T>(old: readonly T[], now: readonly T[]): Int32Array | undefined {
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  const shorter = Math.min(old.length, now.length) - head;
  while (tail < shorter && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const middle = findEditPath(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  if (!middle) return undefined;
  const partners = new Int32Array(old.length);
  for (let x = 0; x < head; x++) partners[x] = x;
  for (const [x, partner] of middle.entries()) partners[head + x] = partner === -1 ? -1 : head + partner;
  for (let x = old.length - tail; x < old.length; x++) partners[x] = x - old.length + now.length;
  return partners;
}

const MAX_EDITS = 1000;

// Myers 1986: `furthest[k]` is how far into the old a path on diagonal k comes with so many edits. What each round began with is
// kept, which is the square of the edits: a limit to them bounds the memory and the work.
function findEditPath<T>(old: readonly T[], now: readonly T[]): Int32Array | undefined {
  const limit = Math.min(MAX_EDITS, old.length + now.length);
  const middle = limit + 1;
  const furthest = new Int32Array(2 * limit + 3);
  const rounds: Int32Array[] = [];
  for (let edits = 0; edits <= limit; edits++) {
    rounds.push(furthest.slice(middle - edits - 1, middle + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const left = furthest[middle + diagonal - 1] ?? 0;
      const above = furthest[middle + diagonal + 1] ?? 0;
      let x = diagonal === -edits || (diagonal !== edits && left < above) ? above : left + 1;
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x++;
      furthest[middle + diagonal] = x;
      if (x >= old.length && x - diagonal >= now.length) return traceEditPath(old.length, now.length, rounds);
    }
  }
  return undefined;
}

function traceEditPath(oldLength: number, newLength: number, rounds: Int32Array[]): Int32Array {
  const partners = new Int32Array(oldLength).fill(-1);
  let x = oldLength;
  let y = newLength;
  for (let round = rounds.length - 1; round >= 0; round--) {
    const at = (diagonal: number) => rounds[round]?.[diagonal + round + 1] ?? 0;
    const diagonal = x - y;
    const isNew = diagonal === -round || (diagonal !== round && at(diagonal - 1) < at(diagonal + 1));
    const from = round === 0 ? 0 : isNew ? at(diagonal + 1) : at(diagonal - 1) + 1;
    while (x > from) partners[--x] = --y;
    if (round === 0) break;
    if (isNew) y--;
    else x--;
  }
  return partners;
}

function formatHunks(edits: string[], context: number): string[] {
  const isNear = new Uint8Array(edits.length);
  for (const [index, edit] of edits.entries()) {
    if (!edit.startsWith(" ")) isNear.fill(1, Math.max(0, index - context), index + context + 1);
  }
  const shown: string[] = [];
  let oldLine = 0;
  let newLine = 0;
  for (let start = 0; start < edits.length; ) {
    let end = start;
    while (end < edits.length && isNear[end] === isNear[start]) end++;
    const run = edits.slice(start, end);
    const oldCount = run.filter((edit) => !edit.startsWith("+")).length;
    const newCount = run.filter((edit) => !edit.startsWith("-")).length;
    if (isNear[start] === 1)
      shown.push(`@@ -${formatRange(oldLine, oldCount)} +${formatRange(newLine, newCount)} @@`, ...run);
    oldLine += oldCount;
    newLine += newCount;
    start = end;
  }
  return shown;
}

// As `diff -u` and `patch` have it: an empty range stands after its line.
function formatRange(line: number, count: number): string {
  return `${count === 0 ? line : line + 1},${count}`;
}

/** What both sides changed otherwise: the lines of each, and the line of ours it begins at. */
export interface LineConflict {
  base: string[];
  ours: string[];
  theirs: string[];
  line: number;
}

type MergeLinesResult = { text: string } | { conflicts: readonly LineConflict[] };

export interface MergeLinesOptions {
  /**
   * What of the base stands for itself, as the keys of a frontmatter do: changes of neighbours are both made. Elsewhere they are a
   * conflict, since lines of prose and code depend on the lines beside them.
   */
  units?: MergeUnits;
}

/** Lines of which each unit has its first and all up to the next one's. */
interface MergeUnits {
  /** So many lines of the base, from the first. */
  lines: number;
  isFirst(line: string): boolean;
}

/**
 * One text with what either side changed in it, or where they cannot both have their way. How its lines end, and whether the last
 * one does, is one more thing that a side can change. Texts that are too long or too different to compare are one conflict.
 */
export function mergeLines(
  base: string,
  ours: string,
  theirs: string,
  options: MergeLinesOptions = {},
): MergeLinesResult {
  if (ours === theirs || base === theirs) return { text: ours };
  if (base === ours) return { text: theirs };
  const [b, o, t] = splitTexts([base, ours, theirs]);
  const ourHunks = findHunks(b.lines, o.lines);
  const theirHunks = findHunks(b.lines, t.lines);
  if (!ourHunks || !theirHunks) return { conflicts: [{ base: b.lines, ours: o.lines, theirs: t.lines, line: 1 }] };
  const merged: string[] = [];
  const conflicts: LineConflict[] = [];
  let at = 0;
  for (const group of groupHunks(expandHunks(ourHunks, b.lines, options), expandHunks(theirHunks, b.lines, options))) {
    const { start, end } = group;
    for (const line of b.lines.slice(at, start)) merged.push(line);
    at = end;
    const mine = applyHunks(b.lines, group, group.ours);
    const other = applyHunks(b.lines, group, group.theirs);
    if (group.ours.length > 0 && group.theirs.length > 0 && !areLinesEqual(mine, other)) {
      conflicts.push({
        base: b.lines.slice(start, end),
        ours: mine,
        theirs: other,
        line: findConflictLine(group, ourHunks),
      });
    }
    for (const line of group.ours.length > 0 ? mine : other) merged.push(line);
  }
  for (const line of b.lines.slice(at)) merged.push(line);
  if (conflicts.length > 0) return { conflicts };
  const ending = pickChangedValue(b.ending, o.ending, t.ending) ?? "\n";
  const isEnded = pickChangedValue(b.isEnded, o.isEnded, t.isEnded) ?? true;
  return { text: merged.join(ending) + (isEnded && merged.length > 0 ? ending : "") };
}

/** Ours where we changed it, else theirs. */
export function pickChangedValue<T>(base: T, ours: T, theirs: T): T {
  return ours === base || ours === undefined ? (theirs ?? ours) : ours;
}

interface TextLines {
  lines: string[];
  /** Nothing where no line ends. */
  ending: string | undefined;
  isEnded: boolean | undefined;
}

type Three<T> = [base: T, ours: T, theirs: T];

// Only where each text has one way to end its lines is it told apart from them: what is mixed stays as it is, to the last CR.
function splitTexts(texts: Three<string>): Three<TextLines> {
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
  }) as Three<TextLines>;
}

/** Lines `start` up to `end` of the base, and what one side has in their place. */
interface Hunk {
  start: number;
  end: number;
  lines: string[];
}

/** Most lines of a text that is compared: some of them with each of a thousand others. */
const MAX_MERGE_LINES = 50_000;

function findHunks(base: string[], side: string[]): Hunk[] | undefined {
  if (base.length > MAX_MERGE_LINES || side.length > MAX_MERGE_LINES) return undefined;
  const numbers = new Map<string, number>();
  const numbered = (line: string) => {
    const known = numbers.get(line) ?? numbers.size;
    numbers.set(line, known);
    return known;
  };
  const partners = matchLines(base.map(numbered), side.map(numbered)); // Long lines are compared once.
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
interface HunkReach {
  hunk: Hunk;
  from: number;
  to: number;
  /** Whether what it begins with belongs to nothing before it. */
  standsAlone: boolean;
}

/** One that takes a unit's first line away, or brings one, changes what the other lines are part of: it reaches over whole units. */
function expandHunks(hunks: readonly Hunk[], base: readonly string[], { units }: MergeLinesOptions): HunkReach[] {
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
function groupHunks(ours: readonly HunkReach[], theirs: readonly HunkReach[]): Group[] {
  const all = [
    ...ours.map((one) => ({ ...one, side: "ours" as const })),
    ...theirs.map((one) => ({ ...one, side: "theirs" as const })),
  ].sort((a, b) => a.from - b.from || a.to - b.to || Number(a.standsAlone) - Number(b.standsAlone));
  const groups: (Group & { to: number })[] = [];
  for (const { hunk, side, ...reach } of all) {
    const last = groups.at(-1);
    if (last && isTouching(last, hunk, reach)) {
      last.start = Math.min(last.start, hunk.start);
      last.end = Math.max(last.end, hunk.end);
      last.to = Math.max(last.to, reach.to);
      last[side].push(hunk);
    } else groups.push({ start: hunk.start, end: hunk.end, to: reach.to, ours: [], theirs: [], [side]: [hunk] });
  }
  return groups;
}

function isTouching(
  group: Group & { to: number },
  { start, end }: Hunk,
  { from, standsAlone }: Omit<HunkReach, "hunk">,
): boolean {
  if (from !== group.to) return from < group.to;
  const isAddedTo = (at: number) => [...group.ours, ...group.theirs].some((one) => one.start === at && one.end === at);
  return !standsAlone || (start === end && isAddedTo(start));
}

/** What one side has in the place of a group's lines. */
function applyHunks(base: string[], { start, end }: Group, hunks: readonly Hunk[]): string[] {
  let at = start;
  const parts = hunks.map((hunk) => {
    const before = base.slice(at, hunk.start);
    at = hunk.end;
    return [...before, ...hunk.lines];
  });
  return [...parts.flat(), ...base.slice(at, end)];
}

function findConflictLine({ start, ours: [first] }: Group, ours: readonly Hunk[]): number {
  const before = ours.slice(0, first ? ours.indexOf(first) : 0);
  return before.reduce((line, hunk) => line + hunk.lines.length - (hunk.end - hunk.start), start + 1);
}

function areLinesEqual(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((line, index) => line === b[index]);
}
