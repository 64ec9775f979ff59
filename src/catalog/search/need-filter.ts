import type { LiteralMatches, NeedSet } from "./literal-prefilter.ts";

/**
 * Finds the patterns for which a text contains one text of each of their sets. A long text involves thousands of patterns, so everything is
 * numbers in a few arrays.
 */
export class NeedFilter {
  /** The set ids of each pattern. */
  readonly #sets: Lists;
  /** The sets that contain each text. */
  readonly #setsByText: Lists;
  /** The patterns filed under each text, and those without a required text. */
  readonly #byText: Lists;
  readonly #always: readonly number[];
  /** The number of the search that last found the set or the pattern. */
  readonly #setSeen: Uint32Array;
  readonly #seen: Uint32Array;
  #searches = 0;

  /** Contract: the sets are ordered by id. */
  constructor(patterns: readonly { needs: readonly NeedSet[] }[], sets: readonly NeedSet[], texts: number) {
    this.#sets = packLists(patterns.map(({ needs }) => needs.map(({ id }) => id)));
    const setsByText: number[][] = Array.from({ length: texts }, () => []);
    for (const { id, texts: own } of sets) for (const text of own) setsByText[text]?.push(id);
    this.#setsByText = packLists(setsByText);
    const { byText, always } = fileByText(patterns, texts);
    this.#byText = packLists(byText);
    this.#always = always;
    this.#setSeen = new Uint32Array(sets.length);
    this.#seen = new Uint32Array(patterns.length);
  }

  /** Returns the pattern numbers, in the order in which the text contains the texts they are filed under. */
  find({ texts }: LiteralMatches): number[] {
    const search = ++this.#searches;
    const [setSeen, seen] = [this.#setSeen, this.#seen];
    for (const text of texts) {
      const { starts, items } = this.#setsByText;
      for (let at = starts[text] as number; at < (starts[text + 1] as number); at++)
        setSeen[items[at] as number] = search;
    }
    const found = [...this.#always];
    const { starts, items } = this.#byText;
    for (const text of texts) {
      for (let at = starts[text] as number; at < (starts[text + 1] as number); at++) {
        const pattern = items[at] as number;
        if (seen[pattern] === search) continue;
        seen[pattern] = search;
        if (this.#hasAll(pattern, search)) found.push(pattern);
      }
    }
    return found;
  }

  #hasAll(pattern: number, search: number): boolean {
    const { starts, items } = this.#sets;
    for (let at = starts[pattern] as number; at < (starts[pattern + 1] as number); at++)
      if (this.#setSeen[items[at] as number] !== search) return false;
    return true;
  }
}

/** Files each pattern under the texts of the set that the fewest patterns share, so each text leads to few patterns. */
function fileByText(patterns: readonly { needs: readonly NeedSet[] }[], texts: number) {
  const counts = new Uint32Array(texts);
  for (const { needs } of patterns)
    for (const set of needs) for (const id of set.texts) counts[id] = (counts[id] as number) + 1;
  const byText: number[][] = Array.from({ length: texts }, () => []);
  const always: number[] = [];
  for (const [pattern, { needs }] of patterns.entries()) {
    let [best, least]: [NeedSet | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
    for (const set of needs) {
      // A short text occurs everywhere, so it adds the cost of chance hits.
      const chance = set.shortest < 3 ? 1000 / set.shortest : 0;
      const cost = set.texts.reduce((sum, id) => sum + (counts[id] as number), chance);
      if (cost < least) [best, least] = [set, cost];
    }
    if (!best) always.push(pattern);
    else for (const id of best.texts) byText[id]?.push(pattern);
  }
  return { byText, always };
}

/** Concatenated lists of numbers: list `n` is from `starts[n]` up to, not including, `starts[n + 1]`. */
interface Lists {
  starts: Uint32Array;
  items: Uint32Array;
}

function packLists(lists: readonly (readonly number[])[]): Lists {
  const starts = new Uint32Array(lists.length + 1);
  for (const [at, { length }] of lists.entries()) starts[at + 1] = (starts[at] as number) + length;
  const items = new Uint32Array(starts[lists.length] as number);
  for (const [at, list] of lists.entries()) items.set(list, starts[at]);
  return { starts, items };
}
