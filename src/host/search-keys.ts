import type { Key } from "./keys.ts";
import type { WebSearchSettings } from "./settings.ts";

/** The keys of the search engine behind `web_search`: rows of the table of keys. No workspace may set one. */
export const SEARCH_KEYS: readonly Key[] = [
  searchKey("provider", "search", "who is asked by `web_search`, which exists where this is set", "provider"),
  searchKey("url", "address", "where it is asked; needed for `searxng`", "url"),
  { ...searchKey("api_key", "text", 'its key, `"env:NAME"` or `"file:PATH"`', "apiKey"), isSecret: true },
  searchKey("results", "size", "how many results a search gives at most; `5`", "results"),
];

function searchKey(name: string, type: Key["type"], means: string, field: keyof WebSearchSettings): Key {
  const set: Key["set"] = ({ tools }, value) => {
    tools.webSearch = { ...tools.webSearch, [field]: value };
  };
  return { path: `tools.web_search.${name}`, type, means, set };
}
