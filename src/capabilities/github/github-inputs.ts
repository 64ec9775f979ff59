import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { GithubApi, GithubQuery } from "./github-api.ts";
import { createUndocumentedError, type ResponseShape } from "./github-fields.ts";

/** One operation on GitHub. */
export interface GithubOperation {
  description: string;
  mutating?: true;
  isReversible?: boolean;
  input: JsonObject;
  output: JsonObject;
  /** Contract: the input matches the schema. */
  run(api: GithubApi, input: GithubInput): Promise<JsonObject>;
}

/** The input of an operation, according to its schema. */
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

/** Returns a schema with exactly these properties. A name that ends with a question mark is optional. */
export function createGithubInputSchema(values: Readonly<Record<string, JsonObject>>): JsonObject {
  const entries = Object.entries(values).map(([name, schema]) => [name.replace(/\?$/, ""), schema] as const);
  const required = Object.keys(values).filter((name) => !name.endsWith("?"));
  return { type: "object", properties: Object.fromEntries(entries), required, additionalProperties: false };
}

export const OWNER_SCHEMA = {
  type: "string",
  description: "the owner of the repository: a user or an organization",
  pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
};
const REPO_SCHEMA = {
  type: "string",
  description: "the name of the repository, without its owner",
  pattern: "^\\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$",
};
const NUMBER_SCHEMA = { type: "integer", minimum: 1, maximum: 2147483647, description: "the number after the #" };

/** The properties that most inputs start with. */
export const REPO_INPUT = { owner: OWNER_SCHEMA, repo: REPO_SCHEMA };
export const NUMBERED_INPUT = { ...REPO_INPUT, number: NUMBER_SCHEMA };
export const PAGED_INPUT = {
  "limit?": { type: "integer", minimum: 1, maximum: 100, default: 30, description: "maximum number of items" },
  "page?": {
    type: "string",
    pattern: "^[A-Za-z0-9_=+/:.-]{1,500}$",
    description: "next_page of the previous answer, to continue there; keep the other values the same",
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

export function createEnumSchema(defaultValue: string, values: readonly string[]): JsonObject {
  return { enum: values, default: defaultValue };
}

/** Returns the named values that are defined. */
export function pickInput(input: GithubInput, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.filter((name) => input[name] !== undefined).map((name) => [name, input[name]]));
}

/** Returns the named values as URL query parameters. */
export function pickQuery(input: GithubInput, names: readonly string[]): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(pickInput(input, names)).map(([name, value]) => [name, String(value)]));
}

interface GithubPageRequest {
  limit: number;
  /** `next_page` of the previous list. */
  page?: string | undefined;
}

interface GithubListOptions {
  query?: GithubQuery;
  /** Selects the items in the answer. Defaults to the whole answer. */
  items?(body: unknown): unknown;
  isKept?(item: unknown): boolean;
}

/** The maximum number of pages searched for items to keep. */
const MAX_PAGES = 10;

/**
 * Lists items in whole pages, as many as fit. `next_page` continues exactly after the last item. GitHub's `Link` header is only parsed for
 * the page, never followed, so it cannot lead to another host.
 */
export async function listGithubItems(
  api: GithubApi,
  path: string,
  request: GithubPageRequest,
  { read }: ResponseShape,
  options: GithubListOptions = {},
) {
  const { query = {}, items = (body) => body, isKept = () => true } = options;
  const found: JsonObject[] = [];
  let page = request.page;
  for (let count = 0; count < MAX_PAGES; count++) {
    const { body, headers } = await api.get(path, { ...query, per_page: request.limit, ...createPageQuery(page) });
    const all = items(body);
    if (!Array.isArray(all)) throw createUndocumentedError();
    const kept = all.filter(isKept);
    if (count > 0 && found.length + kept.length > request.limit) break;
    found.push(...kept.map(read));
    page = parseNextPage(headers.get("link"));
    if (page === undefined || found.length >= request.limit) break;
  }
  return { count: found.length, has_more: page !== undefined, ...omitUndefined({ next_page: page }), items: found };
}

/** Returns the schema of a list of items. */
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

/** Large lists are paged by cursor, others by number. */
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
