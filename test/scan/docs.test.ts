import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { SCAN_RULES } from "../../src/scan/all-rules.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/scan.md"), "utf8");

it("documents every rule as the table has it", () => {
  const rows = SCAN_RULES.map(({ id, weight, title, why }) => `| \`${id}\` | ${weight} | ${title} | ${why} |`);
  const [, table = ""] = page.split("|---|---|---|---|\n");
  expect(table.split("\n\n")[0]?.split("\n")).toEqual(rows);
});
