import { defined } from "../../shared/defined.ts";
import { SkillError } from "../../shared/error.ts";
import { type Data, isData } from "../../skill/data.ts";

/** What is given of one of GitHub's objects: named anew, and everything else left behind. */
export interface Shape {
  schema: Data;
  /** Throws a SkillError for what is no object. */
  read(from: unknown): Data;
}

/** One value of it: what it may be, and how it is found. What is not there, or of another type, is left out. */
export interface Field {
  schema: Data;
  read(from: Data): unknown;
  isRequired?: boolean;
}

export function shape(fields: Readonly<Record<string, Field>>): Shape {
  const rows = Object.entries(fields);
  const properties = Object.fromEntries(rows.map(([name, { schema }]) => [name, schema]));
  const required = rows.filter(([, { isRequired }]) => isRequired).map(([name]) => name);
  return {
    schema: { type: "object", properties, required, additionalProperties: false },
    read(from) {
      if (!isData(from)) throw notAsDocumented();
      return defined(Object.fromEntries(rows.map(([name, field]) => [name, field.read(from)])));
    },
  };
}

export function notAsDocumented(): SkillError {
  return new SkillError("provider-answer", {
    message: "GitHub's answer is not what its documentation says",
    fix: "look whether base_url is that of GitHub's REST API",
  });
}

/** It must be there. */
export function sure(field: Field): Field {
  return { ...field, isRequired: true };
}

/** A path is the names from the outside in: `user.login`. */
export function text(path: string): Field {
  return typed("string", path);
}

export function number(path: string): Field {
  return typed("number", path);
}

export function flag(path: string): Field {
  return typed("boolean", path);
}

/** Whether there is something at all. */
export function isThere(path: string): Field {
  return sure({ schema: { type: "boolean" }, read: (from) => (at(from, path) ?? null) !== null });
}

/** A list of texts; of a list of objects, what they have under `name`. */
export function names(path: string, name: string): Field {
  return sure({
    schema: { type: "array", items: { type: "string" } },
    read: (from) =>
      listAt(from, path)
        .map((item) => (isData(item) ? item[name] : item))
        .filter(isText),
  });
}

/** Long text, cut; the field beside it says so. */
export function body(path: string, limit: number): { body: Field; is_cut: Field } {
  return {
    body: { schema: { type: "string" }, read: (from) => whenText(at(from, path), (written) => cut(written, limit)) },
    is_cut: {
      schema: { const: true },
      read: (from) => whenText(at(from, path), (written) => (written.length > limit ? true : undefined)),
    },
  };
}

export function part(path: string, { schema, read }: Shape): Field {
  return {
    schema,
    read: (from) => {
      const inner = at(from, path);
      return isData(inner) ? read(inner) : undefined;
    },
  };
}

/** At most `limit` characters, and no half of one. */
export function cut(written: string, limit: number): string {
  return written.length <= limit ? written : written.slice(0, limit).replace(/[\ud800-\udbff]$/, "");
}

export function at(from: unknown, path: string): unknown {
  let value = from;
  for (const name of path.split(".")) value = isData(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  return value;
}

function listAt(from: unknown, path: string): unknown[] {
  const value = at(from, path);
  return Array.isArray(value) ? value : [];
}

function typed(type: "string" | "number" | "boolean", path: string): Field {
  return {
    schema: { type },
    read: (from) => {
      const value = at(from, path);
      return typeof value === type ? value : undefined;
    },
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function whenText<T>(value: unknown, use: (written: string) => T): T | undefined {
  return isText(value) ? use(value) : undefined;
}
