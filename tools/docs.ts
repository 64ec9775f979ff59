// Writes the pages that are generated from the program. `npm run docs` writes them, a test compares them.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { benchmarkFiles } from "./docs/benchmark-page.ts";
import { commandPage } from "./docs/command-page.ts";
import { configPage } from "./docs/config-page.ts";
import { diagramFiles } from "./docs/diagrams.ts";
import { errorPage } from "./docs/error-page.ts";
import { withFrontmatterTable } from "./docs/frontmatter-table.ts";
import { schemaFiles } from "./docs/schema-files.ts";

const ROOT = join(import.meta.dirname, "..");

export async function pages(): Promise<Record<string, string>> {
  return {
    "docs/cli.md": await commandPage(),
    "docs/errors.md": errorPage(),
    "docs/config.md": configPage(),
    "docs/skills.md": withFrontmatterTable(readFileSync(join(ROOT, "docs/skills.md"), "utf8")),
    ...diagramFiles(),
    ...benchmarkFiles(),
    ...schemaFiles(),
  };
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await pages())) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
}
