/**
 * A binary heap of numbers. If only a few of thousands are taken, the others are never sorted. Contract: the order of a number in the queue
 * does not change.
 */
export class PriorityQueue {
  readonly #heap: number[];
  readonly #compare: (a: number, b: number) => number;

  /** Contract: the queue takes ownership of the array. */
  constructor(numbers: number[], compare: (a: number, b: number) => number) {
    this.#heap = numbers;
    this.#compare = compare;
    for (let at = (numbers.length >>> 1) - 1; at >= 0; at--) this.#sink(at, numbers[at] as number);
  }

  get size(): number {
    return this.#heap.length;
  }

  push(number: number): void {
    const heap = this.#heap;
    let at = heap.push(number) - 1;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      if (this.#compare(heap[above] as number, number) <= 0) break;
      heap[at] = heap[above] as number;
      at = above;
    }
    heap[at] = number;
  }

  /** Removes the first number and returns it. */
  pop(): number | undefined {
    const first = this.#heap[0];
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) this.#sink(0, last);
    return first;
  }

  /** Puts a number at an index, or below it while smaller ones exist. */
  #sink(from: number, number: number): void {
    const heap = this.#heap;
    let at = from;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const next = below + 1;
      if (next < heap.length && this.#compare(heap[next] as number, heap[below] as number) < 0) below = next;
      if (this.#compare(number, heap[below] as number) <= 0) break;
      heap[at] = heap[below] as number;
      at = below;
    }
    heap[at] = number;
  }
}
