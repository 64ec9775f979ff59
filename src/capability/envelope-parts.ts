import { inLine } from "../shared/prompt.ts";
import { type Data, isData } from "../skill/data.ts";

/** One part of what goes over the wire: how it is read, and how it is written. */
export interface Part<Value> {
  /** Throws `Unfit`. */
  read(value: unknown, place: string): Value;
  write(value: Value): unknown;
  readonly isOptional?: true;
}

/** What does not fit, and where. Contract: nothing of the value is quoted, which may hold secrets. */
export class Unfit extends Error {
  constructor(place: string, what: string) {
    super(`\`${place}\` ${what}`);
  }
}

export const anything: Part<unknown> = { read: (value) => value, write: (value) => value };
export const flag: Part<boolean> = plain("is neither true nor false", (value) => typeof value === "boolean");
export const data: Part<Data> = plain("is no object", isData);

export function text(limit: number, least = 1): Part<string> {
  return plain(
    `is no text of ${least} to ${limit} characters`,
    (value): value is string => typeof value === "string" && value.length >= least && value.length <= limit,
  );
}

/** For people and models: one line, cut where it is too long, without what could be taken for anything else. */
export function line(limit: number): Part<string> {
  return {
    read(value, place) {
      if (typeof value !== "string") throw new Unfit(place, "is no text");
      return inLine(value, limit);
    },
    write: (value) => value,
  };
}

export function number(least: number, most: number): Part<number> {
  return plain(
    `is no number from ${least} to ${most}`,
    (value): value is number => typeof value === "number" && value >= least && value <= most,
  );
}

export function one<Name extends string>(...names: readonly Name[]): Part<Name> {
  return plain(`is none of ${names.join(", ")}`, (value): value is Name => names.includes(value as Name));
}

export function list<Item>(item: Part<Item>, most: number): Part<readonly Item[]> {
  return {
    read(value, place) {
      if (!Array.isArray(value)) throw new Unfit(place, "is no list");
      if (value.length > most) throw new Unfit(place, `has more than ${most} items`);
      return value.map((entry, index) => item.read(entry, `${place}[${index}]`));
    },
    write: (value) => value.map((entry) => item.write(entry)),
  };
}

/** Names of the other side's choosing, each with a text. */
export function texts(limit: number, most: number): Part<Readonly<Record<string, string>>> {
  return {
    read(value, place) {
      if (!isData(value)) throw new Unfit(place, "is no object");
      const entries = Object.entries(value);
      if (entries.length > most) throw new Unfit(place, `has more than ${most} entries`);
      const isText = entries.every(([, entry]) => typeof entry === "string" && entry.length <= limit);
      if (!isText) throw new Unfit(place, `has a value that is no text of up to ${limit} characters`);
      return value as Record<string, string>;
    },
    write: (value) => value,
  };
}

export function optional<Value>(part: Part<Value>): Part<Value> {
  return { ...part, isOptional: true };
}

type Fields<Value> = { [Key in keyof Value]-?: Part<Exclude<Value[Key], undefined>> };

/** Strict both ways: what is not known is refused. `expiresAt` here is `expires_at` on the wire. */
export function object<Value extends object>(fields: Fields<Value>): Part<Value> {
  const rows = Object.entries<Part<unknown>>(fields as never).map(([key, part]) => ({ key, name: snake(key), part }));
  const known = new Set(rows.map(({ name }) => name));
  return {
    read(value, place) {
      if (!isData(value)) throw new Unfit(place, "is no object");
      if (Object.keys(value).some((name) => !known.has(name))) {
        throw new Unfit(place, `has a key that is none of ${[...known].join(", ") || "those that are known"}`);
      }
      const read: Data = {};
      for (const { key, name, part } of rows) {
        if (Object.hasOwn(value, name)) read[key] = part.read(value[name], `${place}.${name}`);
        else if (!part.isOptional) throw new Unfit(`${place}.${name}`, "is missing");
      }
      return read as Value;
    },
    write(value) {
      const given = rows.filter(({ key }) => (value as Data)[key] !== undefined);
      return Object.fromEntries(given.map(({ key, name, part }) => [name, part.write((value as Data)[key])]));
    },
  };
}

function plain<Value>(what: string, isIt: (value: unknown) => value is Value): Part<Value> {
  return {
    read(value, place) {
      if (!isIt(value)) throw new Unfit(place, what);
      return value;
    },
    write: (value) => value,
  };
}

function snake(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
