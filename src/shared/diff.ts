import { count } from "./text.ts";

/** `context`: lines shown around a change. `most`: lines shown at all; how many there are more is the last of them. */
export interface DiffOptions {
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
  const old = linesOf(before);
  const now = linesOf(after);
  const edits = compare(old, now);
  const lines = edits ? inHunks(edits, context) : oneAfterTheOther(old, now);
  if (lines.length <= most) return lines;
  const shown = Math.max(0, most - 1);
  return [...lines.slice(0, shown), `@@ ${count(lines.length - shown, "more line")} not shown @@`];
}

function oneAfterTheOther(old: string[], now: string[]): string[] {
  const header = `@@ -${range(0, old.length)} +${range(0, now.length)} @@ too different to compare: all of the old, all of the new`;
  return [header, ...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
}

function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

/** Every line of both, marked; nothing when too many lines differ. */
function compare(old: string[], now: string[]): string[] | undefined {
  const partners = partnersOf(old, now);
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
export function partnersOf<T>(old: readonly T[], now: readonly T[]): Int32Array | undefined {
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  const shorter = Math.min(old.length, now.length) - head;
  while (tail < shorter && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const middle = pathOf(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  if (!middle) return undefined;
  const partners = new Int32Array(old.length);
  for (let x = 0; x < head; x++) partners[x] = x;
  for (const [x, partner] of middle.entries()) partners[head + x] = partner === -1 ? -1 : head + partner;
  for (let x = old.length - tail; x < old.length; x++) partners[x] = x - old.length + now.length;
  return partners;
}

const MOST_EDITS = 1000;

// Myers 1986: `furthest[k]` is how far into the old a path on diagonal k comes with so many edits. What each round began with is
// kept, which is the square of the edits: a limit to them bounds the memory and the work.
function pathOf<T>(old: readonly T[], now: readonly T[]): Int32Array | undefined {
  const limit = Math.min(MOST_EDITS, old.length + now.length);
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
      if (x >= old.length && x - diagonal >= now.length) return traced(old.length, now.length, rounds);
    }
  }
  return undefined;
}

function traced(oldLength: number, newLength: number, rounds: Int32Array[]): Int32Array {
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

function inHunks(edits: string[], context: number): string[] {
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
    if (isNear[start] === 1) shown.push(`@@ -${range(oldLine, oldCount)} +${range(newLine, newCount)} @@`, ...run);
    oldLine += oldCount;
    newLine += newCount;
    start = end;
  }
  return shown;
}

// As `diff -u` and `patch` have it: an empty range stands after its line.
function range(line: number, count: number): string {
  return `${count === 0 ? line : line + 1},${count}`;
}
