import { fold, type Unit, units } from "./units.ts";

export interface Found {
  /** What was added under the phrase. */
  entries: readonly number[];
  /** The units from `from` up to, not including, `to`. */
  from: number;
  to: number;
}

/**
 * Words and phrases, found in a text in one pass whatever their number. Tens of thousands are added at once, so a phrase and an
 * entry are numbers and not objects: a phrase leads on to longer ones. A phrase is cut up when a text first has its first unit: most
 * never are.
 */
export class PhraseIndex {
  /** Phrases of one unit. */
  readonly #first = new Map<string, number>();
  /** Longer ones, by the phrase without its last unit, and that unit. */
  readonly #longer = new Map<string, number>();
  /** For each phrase what was added under it. */
  readonly #entries: number[][] = [];
  readonly #texts: string[] = [];
  /** Entries whose phrases are not cut up yet, by their first unit. */
  readonly #uncut = new Map<string, number[]>();

  /** Contract: entries are numbered from 0; nothing for a phrase without a single unit. */
  add(text: string): number | undefined {
    const first = firstWord(text) ?? keysOf(text)[0];
    if (first === undefined) return undefined;
    const entry = this.#texts.push(text) - 1;
    const others = this.#uncut.get(first);
    if (others) others.push(entry);
    else this.#uncut.set(first, [entry]);
    return entry;
  }

  /** Every phrase that stands in the text, each at its first place only or, for `everywhere`, at each. Nothing starts where `isLeftOut`. */
  *find(
    text: readonly Unit[],
    { everywhere = false, isLeftOut }: { everywhere?: boolean; isLeftOut?: (from: number) => boolean } = {},
  ): Generator<Found> {
    const seen = new Set<number>();
    for (let from = 0; from < text.length; from++) {
      if (!canStart(text, from) || isLeftOut?.(from)) continue;
      let phrase = this.#startingWith(text[from]?.text ?? "");
      for (let to = from + 1; phrase !== undefined; to++) {
        const entries: readonly number[] = this.#entries[phrase] ?? [];
        if (entries.length > 0 && !seen.has(phrase) && canEnd(text, to)) {
          if (!everywhere) seen.add(phrase);
          yield { entries, from, to };
        }
        const next = text[to];
        phrase = next ? this.#longer.get(`${phrase} ${next.key}`) : undefined;
      }
    }
  }

  /** The phrase of one unit, once all that begin with it are cut up. */
  #startingWith(first: string): number | undefined {
    const uncut = this.#uncut.get(first);
    if (uncut) {
      this.#uncut.delete(first);
      for (const entry of uncut) this.#put(entry);
    }
    return this.#first.get(first);
  }

  #put(entry: number): void {
    const text = this.#texts[entry] as string;
    const [first = "", ...rest] = firstWord(text) === undefined ? keysOf(text) : text.split(/[ -]/);
    let phrase = this.#known(this.#first, first);
    for (const unit of rest) phrase = this.#known(this.#longer, `${phrase} ${unit}`);
    this.#entries[phrase]?.push(entry);
  }

  #known(phrases: Map<string, number>, key: string): number {
    const known = phrases.get(key);
    if (known !== undefined) return known;
    phrases.set(key, this.#entries.length);
    return this.#entries.push([]) - 1;
  }
}

/** What most phrases are; cutting them up needs no units. */
const PLAIN = /^[a-z\d]+(?:[ -][a-z\d]+)*$/;

/** The first word of a plain phrase. */
function firstWord(text: string): string | undefined {
  if (!PLAIN.test(text)) return undefined;
  const end = text.search(/[ -]/);
  return end === -1 ? text : text.slice(0, end);
}

function keysOf(phrase: string): string[] {
  return units(fold(phrase)).map(({ text, key }, at) => (at === 0 ? text : key));
}

// A phrase that begins with a symbol, `/deploy`, is not part of a path, `src/deploy`.
function canStart(text: readonly Unit[], at: number): boolean {
  const [before, unit] = [text[at - 1], text[at]];
  if (!unit?.canStart) return false;
  return !(unit.isSymbol && unit.isTouching && before && (!before.isSymbol || before.text === unit.text));
}

function canEnd(text: readonly Unit[], to: number): boolean {
  const [last, after] = [text[to - 1], text[to]];
  return !(last?.isSymbol && after?.isTouching && after.text === last.text);
}
