import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { screens } from "../../tools/screens.ts";

it("the recording of Claude Code shows its present output with skillet: `npm run screens` writes it", async () => {
  const made = Object.entries(await screens({ usesClaudeCode: true }));
  expect(made.map(([path]) => path)).toEqual(["docs/screens/claude.svg"]);
  for (const [path, picture] of made) {
    expect(readFileSync(join(import.meta.dirname, "..", "..", path), "utf8")).toBe(picture);
  }
});
