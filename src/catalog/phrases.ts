import { fold, type Unit, units } from "./units.ts";

interface Node<T> {
  next: Map<string, Node<T>> | undefined;
  values: T[] | undefined;
}

export interface Found<T> {
  values: readonly T[];
  /** The units from `from` up to, not including, `to`. */
  from: number;
  to: number;
}

/** Words and phrases, found in a text in one pass whatever their number. */
export class PhraseIndex<T> {
  readonly #root: Node<T> = { next: undefined, values: undefined };
  readonly #known = new Map<string, Node<T>>();

  /** Contract: false for a phrase without a single unit. */
  add(phrase: string, value: T): boolean {
    const node = this.#known.get(phrase) ?? this.#nodeOf(phrase);
    if (!node) return false;
    if (node.values) node.values.push(value);
    else node.values = [value];
    return true;
  }

  #nodeOf(phrase: string): Node<T> | undefined {
    const isWord = WORD.test(phrase);
    if (isWord) {
      this.#root.next ??= new Map();
      let node = this.#root.next.get(phrase);
      if (!node) {
        node = { next: undefined, values: undefined };
        this.#root.next.set(phrase, node);
      }
      return node;
    }
    const parts = units(fold(phrase));
    if (parts.length === 0) return undefined;
    let node = this.#root;
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index] as Unit;
      node.next ??= new Map();
      const key = index === 0 ? part.text : part.key;
      let next = node.next.get(key);
      if (!next) {
        next = { next: undefined, values: undefined };
        node.next.set(key, next);
      }
      node = next;
    }
    this.#known.set(phrase, node);
    return node;
  }

  /** Every phrase that stands in the text, each at its first place only or, for `everywhere`, at each. */
  *find(text: readonly Unit[], everywhere = false): Generator<Found<T>> {
    const seen = new Set<Node<T>>();
    for (let from = 0; from < text.length; from++) {
      if (!canStart(text, from)) continue;
      let node: Node<T> | undefined = this.#root.next?.get(text[from]?.text ?? "");
      for (let to = from + 1; node; to++) {
        if (node.values && !seen.has(node) && canEnd(text, to)) {
          if (!everywhere) seen.add(node);
          yield { values: node.values, from, to };
        }
        const next: Unit | undefined = text[to];
        node = next ? node.next?.get(next.key) : undefined;
      }
    }
  }
}

const WORD = /^[a-z\d]+$/;

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
