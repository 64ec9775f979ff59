import type { Data } from "../../skill/data.ts";
import type { Api } from "./api.ts";

/** One thing that can be asked of GitHub. */
export interface Operation {
  description: string;
  mutating?: true;
  isReversible?: boolean;
  input: Data;
  output: Data;
  /** Contract: the input fits the schema. */
  run(api: Api, input: Input): Promise<Data>;
}

/** What operations are given, by the schema of each. */
export interface Input {
  owner: string;
  repo: string;
  number: number;
  limit: number;
  page?: string;
  path: string;
  q: string;
  kind: string;
  event: string;
  body?: string;
  ref?: string;
  labels?: string[];
  [name: string]: unknown;
}

/** An object with these and no other values. A name with a question mark may be left out. */
export function input(values: Readonly<Record<string, Data>>): Data {
  const entries = Object.entries(values).map(([name, schema]) => [name.replace(/\?$/, ""), schema] as const);
  const required = Object.keys(values).filter((name) => !name.endsWith("?"));
  return { type: "object", properties: Object.fromEntries(entries), required, additionalProperties: false };
}

export const OWNER = {
  type: "string",
  description: "whose repository it is: a user or an organization",
  pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
};
const REPO = {
  type: "string",
  description: "the name of the repository, without its owner",
  pattern: "^\\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$",
};
const NUMBER = { type: "integer", minimum: 1, maximum: 2147483647, description: "the number after the #" };

/** The names that most begin with. */
export const IN_REPO = { owner: OWNER, repo: REPO };
export const NUMBERED = { ...IN_REPO, number: NUMBER };
export const PAGED = {
  "limit?": { type: "integer", minimum: 1, maximum: 100, default: 30, description: "how many at most" },
  "page?": {
    type: "string",
    pattern: "^[A-Za-z0-9_=+/:.-]{1,500}$",
    description: "next_page of the answer before, to go on there; the other values stay the same",
  },
};

export const TITLE = { type: "string", minLength: 1, maxLength: 256 };
export const BODY = { type: "string", minLength: 1, maxLength: 65536, description: "Markdown" };
export const SHA = { type: "string", pattern: "^[0-9a-f]{40}(?:[0-9a-f]{24})?$" };
export const BRANCH = { type: "string", minLength: 1, maxLength: 255, pattern: "^[^\\s~^?*\\[\\\\]+$" };
export const LABELS = { type: "array", maxItems: 100, items: { type: "string", minLength: 1, maxLength: 100 } };
export const LOGIN = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\\[bot\\])?$" };
export const LOGINS = { type: "array", maxItems: 10, items: LOGIN };
export const DIRECTION = choice("desc", ["asc", "desc"]);

export function choice(preset: string, values: readonly string[]): Data {
  return { enum: values, default: preset };
}

/** Only those of the values that are there. */
export function picked(given: Input, names: readonly string[]): Data {
  return Object.fromEntries(names.filter((name) => given[name] !== undefined).map((name) => [name, given[name]]));
}

/** The same, for an address. */
export function asked(given: Input, names: readonly string[]): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(picked(given, names)).map(([name, value]) => [name, String(value)]));
}
