import { describe, expect, it } from "vitest";
import { parseToolsetRef } from "../../src/skill/manifest-fields.ts";
import { findToolsetFile } from "../../src/skill/skill-code.ts";

describe("a reference to a toolset", () => {
  it("[T-11] is a path and an export, with the last colon between them", () => {
    const written = "toolsets/index:HelloToolset";
    expect(parseToolsetRef(written)).toEqual({ written, path: "toolsets/index", export: "HelloToolset" });
    expect(parseToolsetRef("./a.ts:default")).toMatchObject({ path: "a.ts", export: "default" });
    expect(parseToolsetRef("a:Größe")).toMatchObject({ export: "Größe" });
  });

  it("[T-13] is invalid without a file of the skill and an export", () => {
    const bad = [
      "",
      "a",
      "a:",
      ":B",
      "../a:B",
      "a/../../b:C",
      "/a:B",
      "~/a:B",
      "a\\b:C",
      "node:fs:readFile",
      "https://a/b:C",
      "a:B C",
      "a:B\u200b",
    ];
    expect(bad.filter((written) => !("problem" in parseToolsetRef(written)))).toEqual([]);
  });

  it("[T-11] finds its file as written first, then with an extension, then in a folder", () => {
    const find = (path: string, ...files: string[]) => findToolsetFile({ path }, (file) => files.includes(file));
    expect(find("a.ts", "a.ts", "a.ts.ts")).toBe("a.ts");
    expect(find("a", "a.js", "a.ts", "a/index.ts")).toBe("a.ts");
    expect(find("a", "a/index.js", "a.cjs")).toBe("a.cjs");
    expect(find("a", "a/index.js")).toBe("a/index.js");
    expect(find("a", "a", "a.json", "a.md")).toBeUndefined();
  });
});
