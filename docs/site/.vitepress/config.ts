import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";

/** The address of the site below its host, such as `/skillet/`. */
const base = process.env["SITE_BASE"] ?? "/";

/** Pages of the site whose files are not in docs/. */
const PAGES_OUTSIDE: Record<string, string> = {
  "bench/README": "methods",
  CONTRIBUTING: "contributing",
  SECURITY: "reporting",
};

const page = (text: string, name: string) => ({ text, link: `/${name}` });

export default defineConfig({
  title: "skillet",
  description: "The toolkit for Agent Skills: find them, fix them, give them to any agent, run them in a sandbox.",
  base,
  srcDir: ".pages",
  outDir: "dist",
  cacheDir: ".cache",
  cleanUrls: true,
  lastUpdated: false,
  themeConfig: {
    search: { provider: "local", options: { miniSearch: { searchOptions: { fuzzy: 0.2, prefix: true } } } },
    outline: [2, 3],
    nav: [
      page("Get started", "getting-started"),
      page("Guides", "adding"),
      page("Reference", "cli"),
      page("Security", "security"),
    ],
    sidebar: createSidebar(readFileSync(join(import.meta.dirname, "../../README.md"), "utf8")),
  },
});

/** The index of the pages is the navigation: each heading a group, each link in its table or line an entry. */
function createSidebar(index: string) {
  const groups = index.split(/^## /m).slice(1);
  return groups.map((group) => {
    const [heading = ""] = group.split("\n");
    const links = group.matchAll(/\[([^\]]+)\]\((?:\.\.\/)?([\w/-]+)\.md\)/g);
    const items = Array.from(links, ([, text = "", name = ""]) =>
      page(`${text[0]?.toUpperCase()}${text.slice(1)}`, PAGES_OUTSIDE[name] ?? name),
    );
    if (heading === "Reference") items.splice(3, 0, page("API", "api/"));
    return { text: heading, items, collapsed: heading === "Reference" };
  });
}
