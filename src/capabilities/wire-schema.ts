import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

/** Reads and writes one part of a message. */
export interface WireSchema<Value> {
  /** Throws a `WireSchemaError`. */
  read(value: unknown, path: string): Value;
  write(value: Value): unknown;
  readonly isOptional?: true;
}

/** Names the invalid part. Contract: quotes nothing of the value, which may contain secrets. */
export class WireSchemaError extends Error {
  constructor(path: string, what: string) {
    super(`\`${path}\` ${what}`);
  }
}

export const wireAny: WireSchema<unknown> = { read: (value) => value, write: (value) => value };
export const wireBoolean: WireSchema<boolean> = createWireSchema(
  "is neither true nor false",
  (value) => typeof value === "boolean",
);
export const wireData: WireSchema<JsonObject> = createWireSchema("is not an object", isJsonObject);

export function wireText(limit: number, min = 1): WireSchema<string> {
  return createWireSchema(
    `is not a string of ${min} to ${limit} characters`,
    (value): value is string => typeof value === "string" && value.length >= min && value.length <= limit,
  );
}

/** A text for people and models: one sanitized line, truncated if it is too long. */
export function wireLine(limit: number): WireSchema<string> {
  return {
    read(value, path) {
      if (typeof value !== "string") throw new WireSchemaError(path, "is not a string");
      return sanitizeLine(value, limit);
    },
    write: (value) => value,
  };
}

export function wireNumber(min: number, max: number): WireSchema<number> {
  return createWireSchema(
    `is not a number from ${min} to ${max}`,
    (value): value is number => typeof value === "number" && value >= min && value <= max,
  );
}

export function wireEnum<Name extends string>(...names: readonly Name[]): WireSchema<Name> {
  return createWireSchema(`is not one of ${names.join(", ")}`, (value): value is Name => names.includes(value as Name));
}

export function wireList<Item>(item: WireSchema<Item>, max: number): WireSchema<readonly Item[]> {
  return {
    read(value, path) {
      if (!Array.isArray(value)) throw new WireSchemaError(path, "is not a list");
      if (value.length > max) throw new WireSchemaError(path, `has more than ${max} items`);
      return value.map((entry, index) => item.read(entry, `${path}[${index}]`));
    },
    write: (value) => value.map((entry) => item.write(entry)),
  };
}

/** An object with arbitrary keys and text values. */
export function wireTextMap(limit: number, max: number): WireSchema<Readonly<Record<string, string>>> {
  return {
    read(value, path) {
      if (!isJsonObject(value)) throw new WireSchemaError(path, "is not an object");
      const entries = Object.entries(value);
      if (entries.length > max) throw new WireSchemaError(path, `has more than ${max} entries`);
      const isText = entries.every(([, entry]) => typeof entry === "string" && entry.length <= limit);
      if (!isText) throw new WireSchemaError(path, `has a value that is not a string of up to ${limit} characters`);
      return value as Record<string, string>;
    },
    write: (value) => value,
  };
}

export function wireOptional<Value>(part: WireSchema<Value>): WireSchema<Value> {
  return { ...part, isOptional: true };
}

type WireFields<Value> = { [Key in keyof Value]-?: WireSchema<Exclude<Value[Key], undefined>> };

/** An object, strict both ways: unknown keys are refused. `expiresAt` here is `expires_at` on the wire. */
export function wireObject<Value extends object>(fields: WireFields<Value>): WireSchema<Value> {
  const rows = Object.entries<WireSchema<unknown>>(fields as never).map(([key, part]) => ({
    key,
    name: toWireKey(key),
    part,
  }));
  const known = new Set(rows.map(({ name }) => name));
  return {
    read(value, path) {
      if (!isJsonObject(value)) throw new WireSchemaError(path, "is not an object");
      if (Object.keys(value).some((name) => !known.has(name))) {
        throw new WireSchemaError(path, `has an unknown key; known keys: ${[...known].join(", ") || "none"}`);
      }
      const read: JsonObject = {};
      for (const { key, name, part } of rows) {
        if (Object.hasOwn(value, name)) read[key] = part.read(value[name], `${path}.${name}`);
        else if (!part.isOptional) throw new WireSchemaError(`${path}.${name}`, "is missing");
      }
      return read as Value;
    },
    write(value) {
      const present = rows.filter(({ key }) => (value as JsonObject)[key] !== undefined);
      return Object.fromEntries(present.map(({ key, name, part }) => [name, part.write((value as JsonObject)[key])]));
    },
  };
}

function createWireSchema<Value>(what: string, isValid: (value: unknown) => value is Value): WireSchema<Value> {
  return {
    read(value, path) {
      if (!isValid(value)) throw new WireSchemaError(path, what);
      return value;
    },
    write: (value) => value,
  };
}

function toWireKey(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
