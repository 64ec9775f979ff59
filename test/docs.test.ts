import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { pages } from "../tools/docs.ts";

const root = join(import.meta.dirname, "..");
const markdown = [
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((path) => join("docs", path)),
  "README.md",
  "AGENTS.md",
  "CHANGELOG.md",
].filter((path) => path.endsWith(".md"));

describe("the documentation", () => {
  it("made from the program is what the program says now: `npm run docs` writes it", async () => {
    for (const [path, text] of Object.entries(await pages()))
      expect(readFileSync(join(root, path), "utf8"), path).toBe(text);
  });

  it.each(markdown)("%s links only to what is there", (path) => {
    const text = readFileSync(join(root, path), "utf8");
    const links = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^[a-z]+:/.test(link));
    expect(links.filter((link) => !existsSync(join(root, dirname(path), link)))).toEqual([]);
  });
});
