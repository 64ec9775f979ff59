import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const site = join(root, "docs/site");

/** Search terms of people with a question, and a page that has the answer. */
const SEARCHES = {
  "prompt injection": "/security",
  "environment variable": "/troubleshooting",
  "my skill does not fire": "/troubleshooting",
  "resume a run": "/runs",
};

describe("the site", () => {
  beforeAll(() => promisify(execFile)("npm", ["run", "docs:site"], { cwd: root }), 600_000);

  it("has a page for each page of docs/, and one for each code", () => {
    const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md") && name !== "README.md");
    const built = readdirSync(join(site, "dist"));
    expect(built).toEqual(expect.arrayContaining(["index.html", ...pages.map((name) => name.replace(/md$/, "html"))]));
    const codes = readFileSync(join(root, "docs/errors.md"), "utf8").match(/^\| <a id="/gm) ?? [];
    expect(codes.length).toBeGreaterThan(400);
    expect(readdirSync(join(site, "dist/errors"))).toHaveLength(codes.length);
  });

  it.each(Object.entries(SEARCHES))("finds a page for “%s”", async (query, page) => {
    const chunks = join(site, "dist/assets/chunks");
    const [index = ""] = readdirSync(chunks).filter((name) => name.startsWith("@localSearchIndex"));
    const { default: json } = await import(pathToFileURL(join(chunks, index)).href);
    const { default: MiniSearch } = await import(
      pathToFileURL(createRequire(join(site, "package.json")).resolve("minisearch")).href
    );
    const search = MiniSearch.loadJSON(json, {
      fields: ["title", "titles", "text"],
      storeFields: ["title", "titles"],
      searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
    });
    const found: string[] = search.search(query).map(({ id }: { id: string }) => id.replace(/#.*/, ""));
    expect(found.slice(0, 10)).toContain(page);
  });

  it("loads nothing from another host", () => {
    const html = readFileSync(join(site, "dist/getting-started.html"), "utf8");
    expect(html.match(/(?:src|href)="https?:\/\/[^"]*"/g) ?? []).toEqual([]);
  });
});
