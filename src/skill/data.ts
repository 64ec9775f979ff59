/** What YAML or JSON said: objects without inherited properties, so that no key can reach a prototype. */
export interface Data {
  [key: string]: unknown;
}

// `Object.create(null)` and `{ __proto__: null }` make objects that V8 keeps as hash tables, three times as slow to fill.
const Empty = function Empty() {} as unknown as new () => Data;
Empty.prototype = Object.freeze(Object.create(null));

export function emptyData(): Data {
  return new Empty();
}

export function isData(value: unknown): value is Data {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Every text in a value, keys included. */
export function* stringsIn(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (value !== null && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) {
      if (!Array.isArray(value)) yield key;
      yield* stringsIn(item);
    }
  }
}
