import { defined } from "../../shared/defined.ts";
import type { Data } from "../../skill/data.ts";
import type { Api, Query } from "./api.ts";
import { notAsDocumented, type Shape } from "./shape.ts";

export interface Wanted {
  limit: number;
  /** As the list before said it. */
  page?: string | undefined;
}

export interface ListOptions {
  query?: Query;
  /** Where the items are in the answer; it is the list itself when left out. */
  items?(body: unknown): unknown;
  isKept?(item: unknown): boolean;
}

/** Only so many pages are looked at for those that are kept. */
const MOST_PAGES = 10;

/**
 * Whole pages, as many as fit: what `next_page` says begins where this ended, and nothing is left out in between. The `Link` of GitHub
 * is only read for the page, never followed, so it leads nowhere else.
 */
export async function list(api: Api, path: string, wanted: Wanted, { read }: Shape, options: ListOptions = {}) {
  const { query = {}, items = (body) => body, isKept = () => true } = options;
  const found: Data[] = [];
  let page = wanted.page;
  for (let count = 0; count < MOST_PAGES; count++) {
    const { body, headers } = await api.get(path, { ...query, per_page: wanted.limit, ...pageQuery(page) });
    const all = items(body);
    if (!Array.isArray(all)) throw notAsDocumented();
    const kept = all.filter(isKept);
    if (count > 0 && found.length + kept.length > wanted.limit) break;
    found.push(...kept.map(read));
    page = nextPage(headers.get("link"));
    if (page === undefined || found.length >= wanted.limit) break;
  }
  return { count: found.length, has_more: page !== undefined, ...defined({ next_page: page }), items: found };
}

/** What a list looks like, whatever it is of. */
export function listSchema({ schema }: Shape, more: Data = {}): Data {
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
function pageQuery(page: string | undefined): Query {
  if (page === undefined) return {};
  return /^\d+$/.test(page) ? { page } : { after: page };
}

function nextPage(link: string | null): string | undefined {
  const [, address = ""] = /<([^<>]*)>\s*;[^,<]*\brel="?next"?/.exec(link ?? "") ?? [];
  const query = URL.parse(address)?.searchParams;
  const page = query?.get("after") || query?.get("page") || "";
  return /^[\w=+/:.-]{1,500}$/.test(page) ? page : undefined;
}
