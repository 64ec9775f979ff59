import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

/** One part of what goes over the wire: how it is read, and how it is written. */
export interface WireSchema<Value> {
  /** Throws `Unfit`. */
  read(value: unknown, place: string): Value;
  write(value: Value): unknown;
  readonly isOptional?: true;
}

/** What does not fit, and where. Contract: nothing of the value is quoted, which may hold secrets. */
export class WireSchemaError extends Error {
  constructor(place: string, what: string) {
    super(`\`${place}\` ${what}`);
  }
}

export const wireAny: WireSchema<unknown> = { read: (value) => value, write: (value) => value };
export const wireBoolean: WireSchema<boolean> = createWireSchema(
  "is neither true nor false",
  (value) => typeof value === "boolean",
);
export const wireData: WireSchema<JsonObject> = createWireSchema("is no object", isJsonObject);

export function wireText(limit: number, least = 1): WireSchema<string> {
  return createWireSchema(
    `is no text of ${least} to ${limit} characters`,
    (value): value is string => typeof value === "string" && value.length >= least && value.length <= limit,
  );
}

/** For people and models: one line, cut where it is too long, without what could be taken for anything else. */
export function wireLine(limit: number): WireSchema<string> {
  return {
    read(value, place) {
      if (typeof value !== "string") throw new WireSchemaError(place, "is no text");
      return sanitizeLine(value, limit);
    },
    write: (value) => value,
  };
}

export function wireNumber(least: number, most: number): WireSchema<number> {
  return createWireSchema(
    `is no number from ${least} to ${most}`,
    (value): value is number => typeof value === "number" && value >= least && value <= most,
  );
}

export function wireEnum<Name extends string>(...names: readonly Name[]): WireSchema<Name> {
  return createWireSchema(`is none of ${names.join(", ")}`, (value): value is Name => names.includes(value as Name));
}

export function wireList<Item>(item: WireSchema<Item>, most: number): WireSchema<readonly Item[]> {
  return {
    read(value, place) {
      if (!Array.isArray(value)) throw new WireSchemaError(place, "is no list");
      if (value.length > most) throw new WireSchemaError(place, `has more than ${most} items`);
      return value.map((entry, index) => item.read(entry, `${place}[${index}]`));
    },
    write: (value) => value.map((entry) => item.write(entry)),
  };
}

/** Names of the other side's choosing, each with a text. */
export function wireTextMap(limit: number, most: number): WireSchema<Readonly<Record<string, string>>> {
  return {
    read(value, place) {
      if (!isJsonObject(value)) throw new WireSchemaError(place, "is no object");
      const entries = Object.entries(value);
      if (entries.length > most) throw new WireSchemaError(place, `has more than ${most} entries`);
      const isText = entries.every(([, entry]) => typeof entry === "string" && entry.length <= limit);
      if (!isText) throw new WireSchemaError(place, `has a value that is no text of up to ${limit} characters`);
      return value as Record<string, string>;
    },
    write: (value) => value,
  };
}

export function wireOptional<Value>(part: WireSchema<Value>): WireSchema<Value> {
  return { ...part, isOptional: true };
}

type WireFields<Value> = { [Key in keyof Value]-?: WireSchema<Exclude<Value[Key], undefined>> };

/** Strict both ways: what is not known is refused. `expiresAt` here is `expires_at` on the wire. */
export function wireObject<Value extends object>(fields: WireFields<Value>): WireSchema<Value> {
  const rows = Object.entries<WireSchema<unknown>>(fields as never).map(([key, part]) => ({
    key,
    name: toWireKey(key),
    part,
  }));
  const known = new Set(rows.map(({ name }) => name));
  return {
    read(value, place) {
      if (!isJsonObject(value)) throw new WireSchemaError(place, "is no object");
      if (Object.keys(value).some((name) => !known.has(name))) {
        throw new WireSchemaError(
          place,
          `has a key that is none of ${[...known].join(", ") || "those that are known"}`,
        );
      }
      const read: JsonObject = {};
      for (const { key, name, part } of rows) {
        if (Object.hasOwn(value, name)) read[key] = part.read(value[name], `${place}.${name}`);
        else if (!part.isOptional) throw new WireSchemaError(`${place}.${name}`, "is missing");
      }
      return read as Value;
    },
    write(value) {
      const given = rows.filter(({ key }) => (value as JsonObject)[key] !== undefined);
      return Object.fromEntries(given.map(({ key, name, part }) => [name, part.write((value as JsonObject)[key])]));
    },
  };
}

function createWireSchema<Value>(what: string, isIt: (value: unknown) => value is Value): WireSchema<Value> {
  return {
    read(value, place) {
      if (!isIt(value)) throw new WireSchemaError(place, what);
      return value;
    },
    write: (value) => value,
  };
}

function toWireKey(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
