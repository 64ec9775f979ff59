import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  findSensitiveRow,
  MANIFEST_PARTS,
  readManifestParts,
  SENSITIVE_PATHS,
} from "../../../src/agent/workspace/sensitive-paths.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/sandbox.md"), "utf8");

describe("the table of sensitive paths", () => {
  it("[Q-27] is documented, name by name", () => {
    const names = [...SENSITIVE_PATHS.flatMap(({ names }) => names), ...MANIFEST_PARTS];
    expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  it("[Q-27] matches names in any case, patterns, and names in a folder", () => {
    const groupOf = (name: string, parent = "") => findSensitiveRow(name, parent)?.group;
    expect(groupOf(".GIT")).toBe("repositories");
    expect(groupOf("Claude.md")).toBe("agents");
    expect(groupOf(".env.production")).toBe("shells and environments");
    expect(groupOf("releases", ".yarn")).toBe("package managers");
    expect(groupOf("config.local.toml", "mise")).toBe("shells and environments");
    expect(groupOf("app.code-workspace")).toBe("editors");
    for (const name of ["README.md", "releases", "config.toml", ".env.example", "environment", "mise", "Makefile"])
      expect([name, groupOf(name)]).toEqual([name, undefined]);
  });

  it("[Q-27] includes those fields of a package that package managers run", () => {
    expect(readManifestParts('{"name":"x","dependencies":{"a":"1"},"scripts":{}}')).toBe("");
    expect(readManifestParts('\uFEFF{"scripts":{"test":"x"}}')).toContain("test");
    expect(readManifestParts('{"a":1,"scripts":{"b":"c"}}')).toBe(readManifestParts('{"scripts" : {"b":"c"}}'));
    expect(readManifestParts("{")).toBe("unparsed:{");
    expect(readManifestParts("[]")).toBe("");
  });
});
