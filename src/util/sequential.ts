/** Maps items one after the other, in order. */
export async function mapAsync<T, U>(items: Iterable<T>, map: (item: T) => Promise<U>): Promise<U[]> {
  const mapped: U[] = [];
  for (const item of items) mapped.push(await map(item));
  return mapped;
}

/** Selects items one after the other, in order. */
export async function filterAsync<T>(items: Iterable<T>, isKept: (item: T) => Promise<boolean>): Promise<T[]> {
  const kept: T[] = [];
  for (const item of items) if (await isKept(item)) kept.push(item);
  return kept;
}

/** Runs work with the same key one after the other, in the order in which it was given. */
export function createTurns(): <T>(key: string, work: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<void>>();
  return (key, work) => {
    const result = (last.get(key) ?? Promise.resolve()).then(work);
    const ended = result
      .then(() => {})
      .catch(() => {})
      .finally(() => {
        if (last.get(key) === ended) last.delete(key);
      });
    last.set(key, ended);
    return result;
  };
}
