import { describe, expect, it } from "vitest";
import { PriorityQueue } from "../../src/catalog/search/matcher.ts";

describe("PriorityQueue", () => {
  it("returns its numbers in order, also those that are added later", () => {
    const numbers = Array.from({ length: 500 }, (_, index) => (index * 7919) % 503);
    const queue = new PriorityQueue(numbers.slice(0, 300), (a, b) => b - a);
    for (const number of numbers.slice(300)) queue.push(number);
    const taken = numbers.map(() => queue.pop());
    expect(taken).toEqual(numbers.toSorted((a, b) => b - a));
    expect(queue.size).toBe(0);
    expect(queue.pop()).toBeUndefined();
  });
});
