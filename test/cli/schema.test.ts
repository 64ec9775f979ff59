import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SCHEMA_KINDS } from "../../src/cli/commands/schema.ts";
import { skillet } from "../support/command.ts";

describe("skillet schema", () => {
  it("without arguments lists the schemas, one per line", async () => {
    const { code, stdout } = await skillet(["schema"]);
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n")).toEqual(SCHEMA_KINDS.map((kind) => expect.stringMatching(`^${kind} +\\S`)));
    const { schemas } = JSON.parse((await skillet(["schema", "--json"])).stdout);
    expect(schemas.map(({ kind }: { kind: string }) => kind)).toEqual([...SCHEMA_KINDS]);
  });

  it.each(SCHEMA_KINDS)("prints the schema of a %s, which is also below schemas/", async (kind) => {
    const { code, stdout } = await skillet(["schema", kind]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
    });
    expect(stdout).toBe(readFileSync(join(import.meta.dirname, `../../schemas/${kind}.json`), "utf8"));
  });

  it.each(SCHEMA_KINDS)(
    "has no pattern for a %s that only JavaScript understands: editors use other engines",
    async (kind) => {
      const { stdout } = await skillet(["schema", kind]);
      const patterns: string[] = [];
      JSON.parse(stdout, (key, value) => {
        if (key === "pattern" && typeof value === "string") patterns.push(value);
        return value;
      });
      expect(patterns).not.toEqual([]);
      // Most of them take a `[` within brackets for the beginning of a nested class.
      expect(patterns.filter((pattern) => /\[[^\]]*\[/.test(pattern.replace(/\\./g, "")))).toEqual([]);
    },
  );

  it("lists the schemas for an unknown one", async () => {
    const { code, stderr } = await skillet(["schema", "lock"]);
    expect(code).toBe(2);
    expect(stderr).toContain("frontmatter, config, workspace-config");
  });
});
