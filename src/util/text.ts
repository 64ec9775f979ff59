/** Characters / 4: within a tenth of what tokenizers say for the median skill, and shown as `~`. */
export function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4);
}

/** White space folded, at most `limit` characters, cut at a character and marked. */
export function truncateLine(text: string, limit = Number.POSITIVE_INFINITY): string {
  const line = ALREADY_FOLDED.test(text) ? text : text.replace(/\s+/gu, " ").trim();
  if (line.length <= limit) return line;
  return `${line.slice(0, limit - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

const ALREADY_FOLDED = /^(?:[!-~]+(?: [!-~]+)*)?$/;

export function extractFirstSentence(text: string): string {
  const line = truncateLine(text);
  // Classes of Unicode are made when they are first needed, which costs a start some milliseconds.
  const end = /^[ -~]*$/.test(line)
    ? /[.!?](?= +["'(]*[A-Z0-9])/.exec(line)
    : /[.!?](?=\s+["'“‘(]*[\p{Lu}\p{N}])|[。！？]/u.exec(line);
  return end ? line.slice(0, end.index + end[0].length) : line;
}

/** The candidate that `word` was probably meant to be, or nothing when none is near. */
export function findNearest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase();
  const allowed = Math.max(1, Math.floor(wanted.length / 3));
  let best: string | undefined;
  let bestDistance = allowed + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(wanted, candidate.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Names that a reader takes for this one: written with other characters of the same look, or one edit away. Not the name itself. */
export function findLookalikes(name: string, names: Iterable<string>): string[] {
  const skeleton = buildSkeleton(name);
  const isNear = (other: string) =>
    Math.min(name.length, other.length) >= MIN_TYPO_LENGTH &&
    name.replace(/\d+/g, "") !== other.replace(/\d+/g, "") && // `notes-1` and `notes-2` are meant to differ.
    isWithinOneEdit(name, other);
  return [...names].filter((other) => other !== name && (buildSkeleton(other) === skeleton || isNear(other)));
}

const MIN_TYPO_LENGTH = 6;
const LOOKALIKES: readonly (readonly [RegExp, string])[] = [
  [/rn/g, "m"],
  [/vv/g, "w"],
  [/cl/g, "d"],
  [/0/g, "o"],
  [/[1i|]/g, "l"],
  [/5/g, "s"],
  [/[-_. ]/g, ""],
];

function buildSkeleton(name: string): string {
  return LOOKALIKES.reduce((text, [look, plain]) => text.replace(look, plain), name.normalize("NFKC").toLowerCase());
}

/** Whether one insertion, deletion, replacement or swap of neighbors makes one word the other. Case does not count. */
export function isWithinOneEdit(word: string, other: string): boolean {
  if (Math.abs(word.length - other.length) > 1) return false;
  return editDistance(word.toLowerCase(), other.toLowerCase(), 2) <= 1;
}

export function formatCount(number: number, noun: string, plural = `${noun}s`): string {
  return `${formatNumber(number)} ${number === 1 ? noun : plural}`;
}

/** 12,345. The language's own way loads all that it knows of locales, which takes half as long as starting. */
export function formatNumber(number: number): string {
  return String(number).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** Code units in order: the same on every machine, whatever its locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Edits (insert, delete, replace, swap of neighbours) between two words; gives up at `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    let smallest = row;
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      }
      current.push(cost);
      smallest = Math.min(smallest, cost);
    }
    if (smallest >= limit) return limit;
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? limit;
}

/** A text that a program printed, without the names and passwords in its addresses. */
export function stripCredentials(text: string): string {
  return text.replace(/\/\/[^/\s@]+@/g, "//");
}

/** A short name for a text: FNV-1a, twice from two starts. Not for security, and free where loading `node:crypto` costs a start. */
export function shortHash(text: string): string {
  return fnv1a(text, 0x811c9dc5).toString(36) + fnv1a(text, 0x01000193).toString(36);
}

/** A number for a text: the same on every machine, and as good as drawn. */
export function hashNumber(text: string): number {
  return fnv1a(text, 0x811c9dc5);
}

function fnv1a(text: string, start: number): number {
  let hash = start;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
