import { diffArrays } from "diff";
import { formatCount } from "./text.ts";

interface DiffOptions {
  /** Unchanged lines around a change. Defaults to 3. */
  context?: number;
  /** The maximum lines of the result; the last one then has the number of omitted lines. */
  maxLines?: number;
}

/**
 * Returns a unified diff for users: ` same`, `-removed` and `+added` lines in hunks that start with `@@ -line,count +line,count @@`, or
 * an empty list if nothing changed. A missing newline at the end is not reported. Texts that differ too much are shown one after the
 * other, with a note in the first line.
 */
export function diffLines(before: string, after: string, options: DiffOptions = {}): string[] {
  const { context = 3, maxLines = Number.POSITIVE_INFINITY } = options;
  const old = splitLines(before);
  const now = splitLines(after);
  const edits = compareLines(old, now);
  const lines = edits ? formatHunks(edits, context) : formatReplacement(old, now);
  if (lines.length <= maxLines) return lines;
  const shown = Math.max(0, maxLines - 1);
  return [...lines.slice(0, shown), `@@ ${formatCount(lines.length - shown, "more line")} not shown @@`];
}

function formatReplacement(old: string[], now: string[]): string[] {
  const header = `@@ -${formatRange(0, old.length)} +${formatRange(0, now.length)} @@ too different to compare: all old lines, then all new lines`;
  return [header, ...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
}

function splitLines(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

/** Texts that differ by more lines are not compared: the time grows with the square of the edits. */
const MAX_EDITS = 1000;

/** Returns every line of both texts with its mark, or undefined if too many lines differ. */
function compareLines(old: string[], now: string[]): string[] | undefined {
  const changes = diffArrays(old, now, { maxEditLength: MAX_EDITS });
  return changes?.flatMap(({ value, added, removed }) => {
    const mark = added ? "+" : removed ? "-" : " ";
    return value.map((line) => `${mark}${line}`);
  });
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

// As in `diff -u` and `patch`: an empty range has the number of the line before it.
function formatRange(line: number, count: number): string {
  return `${count === 0 ? line : line + 1},${count}`;
}

/** Lines that both sides changed differently, and the line in our text where they start. */
export interface LineConflict {
  base: string[];
  ours: string[];
  theirs: string[];
  line: number;
}

type MergeLinesResult = { text: string } | { conflicts: readonly LineConflict[] };

export interface MergeLinesOptions {
  /**
   * Independent units of the base, such as the keys of a frontmatter: changes of adjacent units are both applied. Elsewhere they are a
   * conflict, because lines of prose and code depend on the lines next to them.
   */
  units?: MergeUnits;
}

/** A range of lines that is divided into units. Each unit extends from its first line to the start of the next one. */
interface MergeUnits {
  /** The number of lines at the start of the base that contain units. */
  lines: number;
  isFirst(line: string): boolean;
}

/**
 * Merges the changes of both sides, or returns their conflicts. The line ending, and the newline at the end, are merged as well. Texts
 * that are too long or too different to compare are one conflict.
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

/** Returns our value if we changed it, otherwise theirs. */
export function pickChangedValue<T>(base: T, ours: T, theirs: T): T {
  return ours === base || ours === undefined ? (theirs ?? ours) : ours;
}

interface TextLines {
  lines: string[];
  /** Undefined if the text has no line ending. */
  ending: string | undefined;
  isEnded: boolean | undefined;
}

type Three<T> = [base: T, ours: T, theirs: T];

// Line endings are separated from the lines only if each text uses one kind. Mixed endings are kept unchanged.
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

/** Lines `start` to `end` (exclusive) of the base, and the lines that replace them on one side. */
interface Hunk {
  start: number;
  end: number;
  lines: string[];
}

/** The maximum lines of a text that is merged: each may be compared with a thousand others. */
const MAX_MERGE_LINES = 50_000;

function findHunks(base: string[], side: string[]): Hunk[] | undefined {
  if (base.length > MAX_MERGE_LINES || side.length > MAX_MERGE_LINES) return undefined;
  const numbers = new Map<string, number>(); // Comparing numbers is faster than comparing long lines.
  const numbered = (line: string) => {
    const known = numbers.get(line) ?? numbers.size;
    numbers.set(line, known);
    return known;
  };
  const changes = diffArrays(base.map(numbered), side.map(numbered), { maxEditLength: MAX_EDITS });
  if (!changes) return undefined;
  const hunks: Hunk[] = [];
  let [x, y] = [0, 0];
  let open: Hunk | undefined;
  for (const { added, removed, count } of changes) {
    if (!added && !removed) {
      open = undefined;
      x += count;
      y += count;
      continue;
    }
    if (!open) {
      open = { start: x, end: x, lines: [] };
      hunks.push(open);
    }
    if (removed) {
      x += count;
      open.end = x;
    } else {
      open.lines = side.slice(y, y + count);
      y += count;
    }
  }
  return hunks;
}

interface Group {
  start: number;
  end: number;
  ours: Hunk[];
  theirs: Hunk[];
}

/** A hunk with the range of base lines in which a change of the other side conflicts. */
interface HunkReach {
  hunk: Hunk;
  from: number;
  to: number;
  /** True if the hunk starts a unit, so that it does not belong to the lines before it. */
  standsAlone: boolean;
}

/** Computes the reach of each hunk. A hunk that adds or removes the first line of a unit reaches over whole units. */
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

/** Groups hunks that touch. Two insertions at the same position are always grouped, because their order is ambiguous. */
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

/** Returns the lines of one side for the range of a group. */
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
