import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { GithubApi, GithubQuery } from "./github-api.ts";
import { createUndocumentedError, type ResponseShape } from "./github-fields.ts";

/** One thing that can be asked of GitHub. */
export interface GithubOperation {
  description: string;
  mutating?: true;
  isReversible?: boolean;
  input: JsonObject;
  output: JsonObject;
  /** Contract: the input fits the schema. */
  run(api: GithubApi, input: GithubInput): Promise<JsonObject>;
}

/** What operations are given, by the schema of each. */
export interface GithubInput {
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
export function createGithubInputSchema(values: Readonly<Record<string, JsonObject>>): JsonObject {
  const entries = Object.entries(values).map(([name, schema]) => [name.replace(/\?$/, ""), schema] as const);
  const required = Object.keys(values).filter((name) => !name.endsWith("?"));
  return { type: "object", properties: Object.fromEntries(entries), required, additionalProperties: false };
}

export const OWNER_SCHEMA = {
  type: "string",
  description: "whose repository it is: a user or an organization",
  pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
};
const REPO_SCHEMA = {
  type: "string",
  description: "the name of the repository, without its owner",
  pattern: "^\\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$",
};
const NUMBER_SCHEMA = { type: "integer", minimum: 1, maximum: 2147483647, description: "the number after the #" };

/** The names that most begin with. */
export const REPO_INPUT = { owner: OWNER_SCHEMA, repo: REPO_SCHEMA };
export const NUMBERED_INPUT = { ...REPO_INPUT, number: NUMBER_SCHEMA };
export const PAGED_INPUT = {
  "limit?": { type: "integer", minimum: 1, maximum: 100, default: 30, description: "how many at most" },
  "page?": {
    type: "string",
    pattern: "^[A-Za-z0-9_=+/:.-]{1,500}$",
    description: "next_page of the answer before, to go on there; the other values stay the same",
  },
};

export const TITLE_SCHEMA = { type: "string", minLength: 1, maxLength: 256 };
export const BODY_SCHEMA = { type: "string", minLength: 1, maxLength: 65536, description: "Markdown" };
export const SHA_SCHEMA = { type: "string", pattern: "^[0-9a-f]{40}(?:[0-9a-f]{24})?$" };
export const BRANCH_SCHEMA = { type: "string", minLength: 1, maxLength: 255, pattern: "^[^\\s~^?*\\[\\\\]+$" };
export const LABELS_SCHEMA = { type: "array", maxItems: 100, items: { type: "string", minLength: 1, maxLength: 100 } };
export const LOGIN_SCHEMA = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\\[bot\\])?$" };
export const LOGINS_SCHEMA = { type: "array", maxItems: 10, items: LOGIN_SCHEMA };
export const DIRECTION_SCHEMA = createEnumSchema("desc", ["asc", "desc"]);

export function createEnumSchema(preset: string, values: readonly string[]): JsonObject {
  return { enum: values, default: preset };
}

/** Only those of the values that are there. */
export function pickInput(given: GithubInput, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.filter((name) => given[name] !== undefined).map((name) => [name, given[name]]));
}

/** The same, for an address. */
export function pickQuery(given: GithubInput, names: readonly string[]): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(pickInput(given, names)).map(([name, value]) => [name, String(value)]));
}

interface GithubPageRequest {
  limit: number;
  /** As the list before said it. */
  page?: string | undefined;
}

interface GithubListOptions {
  query?: GithubQuery;
  /** Where the items are in the answer; it is the list itself when left out. */
  items?(body: unknown): unknown;
  isKept?(item: unknown): boolean;
}

/** Only so many pages are looked at for those that are kept. */
const MAX_PAGES = 10;

/**
 * Whole pages, as many as fit: what `next_page` says begins where this ended, and nothing is left out in between. The `Link` of GitHub
 * is only read for the page, never followed, so it leads nowhere else.
 */
export async function listGithubItems(
  api: GithubApi,
  path: string,
  wanted: GithubPageRequest,
  { read }: ResponseShape,
  options: GithubListOptions = {},
) {
  const { query = {}, items = (body) => body, isKept = () => true } = options;
  const found: JsonObject[] = [];
  let page = wanted.page;
  for (let count = 0; count < MAX_PAGES; count++) {
    const { body, headers } = await api.get(path, { ...query, per_page: wanted.limit, ...createPageQuery(page) });
    const all = items(body);
    if (!Array.isArray(all)) throw createUndocumentedError();
    const kept = all.filter(isKept);
    if (count > 0 && found.length + kept.length > wanted.limit) break;
    found.push(...kept.map(read));
    page = parseNextPage(headers.get("link"));
    if (page === undefined || found.length >= wanted.limit) break;
  }
  return { count: found.length, has_more: page !== undefined, ...omitUndefined({ next_page: page }), items: found };
}

/** What a list looks like, whatever it is of. */
export function createListSchema({ schema }: ResponseShape, more: JsonObject = {}): JsonObject {
  return {
    type: "object",
    properties: {
      count: { type: "integer" },
      has_more: { type: "boolean" },
      next_page: { type: "string" },
      items: { type: "array", items: schema },
      ...more,
    },
    required: ["count", "has_more", "items", ...Object.keys(more)],
    additionalProperties: false,
  };
}

/** Large lists go on after a mark, others at a number. */
function createPageQuery(page: string | undefined): GithubQuery {
  if (page === undefined) return {};
  return /^\d+$/.test(page) ? { page } : { after: page };
}

function parseNextPage(link: string | null): string | undefined {
  const [, address = ""] = /<([^<>]*)>\s*;[^,<]*\brel="?next"?/.exec(link ?? "") ?? [];
  const query = URL.parse(address)?.searchParams;
  const page = query?.get("after") || query?.get("page") || "";
  return /^[\w=+/:.-]{1,500}$/.test(page) ? page : undefined;
}
