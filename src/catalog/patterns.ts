import { RE2JS } from "re2js";

interface Row<T> {
  pattern: string;
  values: T[];
  needs: readonly (readonly string[])[];
  engine?: RE2JS | undefined;
}

/** Regular expressions, tried on a text in linear time. One is run only when a text that it cannot match without is there. */
export class PatternIndex<T> {
  readonly #rows = new Map<string, Row<T>>();
  #literals: Literals<Row<T>> | undefined;

  /** Contract: the pattern was judged, and these are the texts that it cannot match without. */
  add(pattern: string, needs: Row<T>["needs"], value: T): void {
    const known = this.#rows.get(pattern);
    if (known) {
      known.values.push(value);
      return;
    }
    this.#rows.set(pattern, { pattern, values: [value], needs });
    this.#literals = undefined;
  }

  *find(text: string): Generator<{ pattern: string; values: readonly T[] }> {
    this.#literals ??= new Literals([...this.#rows.values()]);
    const folded = text.toLowerCase().replaceAll("ſ", "s");
    const known = new Map<string, boolean>();
    const isThere = (need: string) => {
      let answer = known.get(need);
      if (answer === undefined) {
        answer = folded.includes(need);
        known.set(need, answer);
      }
      return answer;
    };
    for (const row of this.#literals.candidates(folded)) {
      if (!row.needs.every((set) => set.some(isThere))) continue;
      row.engine ??= compile(row.pattern);
      if (row.engine?.test(text)) yield row;
    }
  }
}

/** One pattern that is tried in linear time. Throws for what that cannot be done with: looking around, references back. */
export function openPattern(pattern: string): { test(text: string): boolean; toString(): string } {
  const engine = RE2JS.compile(pattern);
  // As a regular expression does: by this text others tell one from another.
  return { test: (text) => engine.test(text), toString: () => pattern };
}

// What was judged compiles. Should the two ever differ, a trigger is lost and not the conversation.
function compile(pattern: string): RE2JS | undefined {
  try {
    return RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE);
  } catch {
    return undefined;
  }
}

const WINDOW = 8;

/** For each pattern the rarest text that it needs, so that a query wakes few of them. */
class Literals<R extends { needs: readonly (readonly string[])[] }> {
  readonly #rows = new Map<string, R[]>();
  /** Patterns that need no text in particular. */
  readonly #always: R[] = [];
  /** For the hash of a text's first two characters, which lengths to look up. */
  readonly #lengths = new Uint16Array(1 << 14);

  constructor(rows: readonly R[]) {
    const counts = new Map<string, number>();
    for (const { needs } of rows) {
      for (const window of new Set(needs.flat().flatMap(windows))) counts.set(window, (counts.get(window) ?? 0) + 1);
    }
    for (const row of rows) {
      const best = rarest(row.needs, counts);
      if (best.length === 0) this.#always.push(row);
      for (const window of best) {
        const others = this.#rows.get(window);
        if (others) others.push(row);
        else this.#rows.set(window, [row]);
        const slot = hash(window, 0);
        this.#lengths[slot] = (this.#lengths[slot] ?? 0) | (1 << window.length);
      }
    }
  }

  candidates(text: string): Set<R> {
    const found = new Set(this.#always);
    for (let at = 0; at < text.length; at++) {
      // A text of one character is filed under it alone, longer ones under their first two.
      this.#collect(text, at, (this.#lengths[hash(text[at] ?? "", 0)] ?? 0) & 2, found);
      if (at + 1 < text.length) this.#collect(text, at, (this.#lengths[hash(text, at)] ?? 0) & ~2, found);
    }
    return found;
  }

  #collect(text: string, at: number, lengths: number, found: Set<R>): void {
    for (let length = 1; lengths >> length !== 0; length++) {
      if ((lengths & (1 << length)) === 0 || at + length > text.length) continue;
      for (const row of this.#rows.get(text.slice(at, at + length)) ?? []) found.add(row);
    }
  }
}

function hash(text: string, at: number): number {
  const next = at + 1 < text.length ? text.charCodeAt(at + 1) : 0;
  return (text.charCodeAt(at) * 131 + next * 7) & 0x3fff;
}

function windows(text: string): string[] {
  if (text.length <= WINDOW) return text === "" ? [] : [text];
  return Array.from({ length: text.length - WINDOW + 1 }, (_, at) => text.slice(at, at + WINDOW));
}

/** The set that fewest patterns share, a window of each of its texts. */
function rarest(needs: readonly (readonly string[])[], counts: ReadonlyMap<string, number>): string[] {
  let best: string[] = [];
  let least = Number.POSITIVE_INFINITY;
  for (const set of needs) {
    const chosen = set.map((text) =>
      windows(text).reduce((a, b) => ((counts.get(b) ?? 0) < (counts.get(a) ?? 0) ? b : a)),
    );
    // A short text is found everywhere: it costs what it would wake by chance.
    const cost = chosen.reduce(
      (sum, window) => sum + (counts.get(window) ?? 0) + (window.length < 3 ? 1000 : 0) / window.length,
      0,
    );
    if (cost < least) [best, least] = [chosen, cost];
  }
  return best;
}
