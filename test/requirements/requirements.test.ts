import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MOST_OPEN, OPEN, REQUIREMENTS, UNTRIED } from "./list.ts";

const testFolder = join(import.meta.dirname, "..");
const titles = /\b(?:it|test)(?:\.each\([^)]*\))?\(\s*["'`]([^"'`]*)/g;

/** Returns the ids that tests cite in files with this ending. */
function citedIds(ending = ".test.ts"): Set<string> {
  const cited = new Set<string>();
  for (const path of readdirSync(testFolder, { recursive: true, encoding: "utf8" })) {
    if (!path.endsWith(ending) || /^fixtures|node_modules/.test(path)) continue;
    for (const [, title = ""] of readFileSync(join(testFolder, path), "utf8").matchAll(titles)) {
      for (const [, list = ""] of title.matchAll(/\[([A-Z]-\d\d(?:, ?[A-Z]-\d\d)*)\]/g)) {
        for (const id of list.split(/, ?/)) cited.add(id);
      }
    }
  }
  return cited;
}

describe("requirements", () => {
  const open = OPEN.flatMap(({ ids }) => ids.split(" "));
  const cited = citedIds();

  it("are each proven by a test or listed as open with the reason", () => {
    expect(Object.keys(REQUIREMENTS).filter((id) => !cited.has(id) && !open.includes(id))).toEqual([]);
  });

  it("are no longer listed as open once a test proves them", () => {
    expect(open.filter((id) => cited.has(id))).toEqual([]);
  });

  it("are listed as open once, by ids that exist, and never more than before", () => {
    expect(open.filter((id, index) => !(id in REQUIREMENTS) || open.indexOf(id) !== index)).toEqual([]);
    expect(open.length).toBe(MOST_OPEN);
  });

  it("are proven in the gate too, in small, if a test of `npm run test:long` cites them", () => {
    expect([...citedIds(".long.ts")].filter((id) => !cited.has(id))).toEqual([]);
  });

  it("name the sandboxes that could not be tried, each with the suite that tries it", () => {
    expect(UNTRIED.map(({ sandbox }) => sandbox)).toEqual(["docker and podman", "seatbelt"]);
    for (const { suite } of UNTRIED)
      expect(readFileSync(join(testFolder, "..", suite), "utf8")).toContain("describeSandbox(");
  });

  it("are the only ids that tests cite: each cited id exists", () => {
    expect([...cited].filter((id) => !(id in REQUIREMENTS))).toEqual([]);
  });
});
