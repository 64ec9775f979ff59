import type { LiteralMatches, NeedSet } from "./literal-prefilter.ts";

/**
 * Finds the patterns that a text has a text of each of their sets for. Thousands are looked at for a long text, so all of it is numbers in
 * a few arrays.
 */
export class NeedFilter {
  /** The sets of each pattern, by their numbers. */
  readonly #sets: Lists;
  /** The sets that each text is in. */
  readonly #setsByText: Lists;
  /** The patterns that are filed under each text, and those that need no text in particular. */
  readonly #byText: Lists;
  readonly #always: readonly number[];
  /** The number of the search that last had the set or the pattern. */
  readonly #setSeen: Uint32Array;
  readonly #seen: Uint32Array;
  #searches = 0;

  /** Contract: the sets are in the order of their numbers. */
  constructor(patterns: readonly { needs: readonly NeedSet[] }[], sets: readonly NeedSet[], texts: number) {
    this.#sets = listsOf(patterns.map(({ needs }) => needs.map(({ id }) => id)));
    const setsByText: number[][] = Array.from({ length: texts }, () => []);
    for (const { id, texts: own } of sets) for (const text of own) setsByText[text]?.push(id);
    this.#setsByText = listsOf(setsByText);
    const { byText, always } = fileByText(patterns, texts);
    this.#byText = listsOf(byText);
    this.#always = always;
    this.#setSeen = new Uint32Array(sets.length);
    this.#seen = new Uint32Array(patterns.length);
  }

  /** The numbers of the patterns, in the order in which the text has what they are filed under. */
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

/** Files each pattern under the texts of the set that fewest patterns share, so that a text has few of them to look at. */
function fileByText(patterns: readonly { needs: readonly NeedSet[] }[], texts: number) {
  const counts = new Uint32Array(texts);
  for (const { needs } of patterns)
    for (const set of needs) for (const id of set.texts) counts[id] = (counts[id] as number) + 1;
  const byText: number[][] = Array.from({ length: texts }, () => []);
  const always: number[] = [];
  for (const [pattern, { needs }] of patterns.entries()) {
    let [best, least]: [NeedSet | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
    for (const set of needs) {
      // A short text is found everywhere: it costs what it would wake by chance.
      const chance = set.shortest < 3 ? 1000 / set.shortest : 0;
      const cost = set.texts.reduce((sum, id) => sum + (counts[id] as number), chance);
      if (cost < least) [best, least] = [set, cost];
    }
    if (!best) always.push(pattern);
    else for (const id of best.texts) byText[id]?.push(pattern);
  }
  return { byText, always };
}

/** Lists of numbers, one after the other: the list `n` is from `starts[n]` up to, not including, `starts[n + 1]`. */
interface Lists {
  starts: Uint32Array;
  items: Uint32Array;
}

function listsOf(lists: readonly (readonly number[])[]): Lists {
  const starts = new Uint32Array(lists.length + 1);
  for (const [at, { length }] of lists.entries()) starts[at + 1] = (starts[at] as number) + length;
  const items = new Uint32Array(starts[lists.length] as number);
  for (const [at, list] of lists.entries()) items.set(list, starts[at]);
  return { starts, items };
}
