/** Estimates tokens as characters / 4: within 10 % of tokenizers for the median skill, and shown with `~`. */
export function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4);
}

/** Collapses white space and truncates to `limit` characters, with an ellipsis, without splitting a character. */
export function truncateLine(text: string, limit = Number.POSITIVE_INFINITY): string {
  const line = ALREADY_FOLDED.test(text) ? text : text.replace(/\s+/gu, " ").trim();
  if (line.length <= limit) return line;
  return `${line.slice(0, limit - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

const ALREADY_FOLDED = /^(?:[!-~]+(?: [!-~]+)*)?$/;

export function extractFirstSentence(text: string): string {
  const line = truncateLine(text);
  // Unicode classes are built on first use, which would add milliseconds to the start.
  const end = /^[ -~]*$/.test(line)
    ? /[.!?](?= +["'(]*[A-Z0-9])/.exec(line)
    : /[.!?](?=\s+["'“‘(]*[\p{Lu}\p{N}])|[。！？]/u.exec(line);
  return end ? line.slice(0, end.index + end[0].length) : line;
}

/** Returns the candidate that `word` is probably a misspelling of, or undefined if none is similar. */
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

/** Returns names that look like this one, with similar characters or one edit away. Excludes the name itself. */
export function findLookalikes(name: string, names: Iterable<string>): string[] {
  const skeleton = buildSkeleton(name);
  const isNear = (other: string) =>
    Math.min(name.length, other.length) >= MIN_TYPO_LENGTH &&
    name.replace(/\d+/g, "") !== other.replace(/\d+/g, "") && // `notes-1` and `notes-2` differ on purpose.
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

/** Returns true if one insertion, deletion, replacement or swap of neighbors turns one word into the other. Ignores case. */
export function isWithinOneEdit(word: string, other: string): boolean {
  if (Math.abs(word.length - other.length) > 1) return false;
  return editDistance(word.toLowerCase(), other.toLowerCase(), 2) <= 1;
}

export function formatCount(number: number, noun: string, plural = `${noun}s`): string {
  return `${formatNumber(number)} ${number === 1 ? noun : plural}`;
}

/** Formats a number as 12,345. `toLocaleString` would load all locale data, which takes half as long as a start. */
export function formatNumber(number: number): string {
  return String(number).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** Compares by code units: the same order on every machine and in every locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Counts the edits (insert, delete, replace, swap of neighbors) between two words, up to `limit`. */
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

/** Removes user names and passwords from addresses in the output of a program. */
export function stripCredentials(text: string): string {
  return text.replace(/\/\/[^/\s@]+@/g, "//");
}

/** Returns a short name for a text: FNV-1a with two seeds. Not for security. Unlike `node:crypto`, it adds nothing to the start. */
export function shortHash(text: string): string {
  return fnv1a(text, 0x811c9dc5).toString(36) + fnv1a(text, 0x01000193).toString(36);
}

/** Returns a pseudorandom number for a text: the same on every machine. */
export function hashNumber(text: string): number {
  return fnv1a(text, 0x811c9dc5);
}

function fnv1a(text: string, start: number): number {
  let hash = start;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** Quotes a value for a shell if it contains special characters. */
export function quoteIfNeeded(value: string): string {
  return /^[\w./~@%+:,-]+$/.test(value) ? value : quoteShellArgument(value);
}

/** Quotes any value as a single shell argument. */
export function quoteShellArgument(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}
