/** An object without the keys that have no value. */
export function omitUndefined<T extends object>(values: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}

/** Freezes an object and the lists in it, so that what was validated stays as it is. */
export function freezeObject<T extends object>(value: T): T {
  for (const key of Object.keys(value)) {
    const descriptor = Object.getOwnPropertyDescriptor(value, key);
    if (Array.isArray(descriptor?.value)) Object.freeze(descriptor.value);
  }
  return Object.freeze(value);
}

/** What YAML or JSON said: objects without inherited properties, so that no key can reach a prototype. */
export interface JsonObject {
  [key: string]: unknown;
}

// `Object.create(null)` and `{ __proto__: null }` make objects that V8 keeps as hash tables, three times as slow to fill.
const NullPrototypeObject = function Empty() {} as unknown as new () => JsonObject;
NullPrototypeObject.prototype = Object.freeze(Object.create(null));

export function createJsonObject(): JsonObject {
  return new NullPrototypeObject();
}

export function isJsonObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Every text in a value, keys included. */
export function* collectStrings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (value !== null && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) {
      if (!Array.isArray(value)) yield key;
      yield* collectStrings(item);
    }
  }
}
