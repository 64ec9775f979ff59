/** Returns a copy without the keys whose value is undefined. */
export function omitUndefined<T extends object>(values: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}

/** Freezes an object and its arrays, so that validated data cannot change. */
export function freezeObject<T extends object>(value: T): T {
  for (const key of Object.keys(value)) {
    const descriptor = Object.getOwnPropertyDescriptor(value, key);
    if (Array.isArray(descriptor?.value)) Object.freeze(descriptor.value);
  }
  return Object.freeze(value);
}

/** Parsed YAML or JSON: objects without inherited properties, so that no key can reach a prototype. */
export interface JsonObject {
  [key: string]: unknown;
}

// V8 stores objects from `Object.create(null)` and `{ __proto__: null }` as hash tables, which are three times as slow to fill.
const NullPrototypeObject = function Empty() {} as unknown as new () => JsonObject;
NullPrototypeObject.prototype = Object.freeze(Object.create(null));

export function createJsonObject(): JsonObject {
  return new NullPrototypeObject();
}

export function isJsonObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Yields every string in a value, including keys. */
export function* collectStrings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (value !== null && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) {
      if (!Array.isArray(value)) yield key;
      yield* collectStrings(item);
    }
  }
}
