import { describe, expect, it } from "vitest";
import { findLookalikes } from "../../src/util/text.ts";

describe("confusable names", () => {
  it.each([
    ["dep1oy", "deploy"],
    ["deploy_all", "deploy-all"],
    ["surnmarize", "summarize"],
    ["c0de-review", "code-review"],
    ["code-reviw", "code-review"],
    ["sumarize", "summarize"],
  ])("include %s for %s", (name, other) => {
    expect(findLookalikes(name, ["other", other])).toEqual([other]);
  });

  it.each([
    ["deploy", "deploy"],
    ["notes-1", "notes-2"],
    ["pdf", "pdx"],
    ["review", "preview-all"],
  ])("do not include %s for %s", (name, other) => {
    expect(findLookalikes(name, [other])).toEqual([]);
  });
});
