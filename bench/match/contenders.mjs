import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Contenders. Each prepares the skills and returns a function that maps a query to the number of skills found, or a promise of it. */
export const CONTENDERS = {
  skillet({ createMatcher, skills }) {
    const matcher = createMatcher(skills);
    return { search: async (query) => (await matcher.match(query)).matches.length };
  },
  "skillet, bodies"({ createMatcher, skills }) {
    const matcher = createMatcher(skills);
    return { search: async (query) => (await matcher.match(query, { bodies: true })).matches.length };
  },
  "RegExp a keyword"({ skills }) {
    const expressions = skills.map(({ manifest: { triggers } }) =>
      triggers.keywords.map((keyword) => new RegExp(`\\b${escaped(keyword)}\\b`, "i")),
    );
    const found = (query) => (list) => list.some((expression) => expression.test(query));
    return { search: (query) => expressions.filter(found(query)).length };
  },
  async minisearch({ skills, folder }) {
    const path = createRequire(join(folder, "package.json")).resolve("minisearch");
    const { default: MiniSearch } = await import(pathToFileURL(path).href);
    const index = new MiniSearch({ fields: ["name", "description"] });
    index.addAll(skills.map(({ name, description }, id) => ({ id, name, description })));
    return { search: (query) => index.search(query).length };
  },
};

function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
