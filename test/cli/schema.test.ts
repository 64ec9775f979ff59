import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SCHEMA_KINDS } from "../../src/cli/commands/schema.ts";
import { skillet } from "../support/command.ts";

describe("skillet schema", () => {
  it("alone says which there are, one a line", async () => {
    const { code, stdout } = await skillet(["schema"]);
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n")).toEqual(SCHEMA_KINDS.map((kind) => expect.stringMatching(`^${kind} +\\S`)));
    const { schemas } = JSON.parse((await skillet(["schema", "--json"])).stdout);
    expect(schemas.map(({ kind }: { kind: string }) => kind)).toEqual([...SCHEMA_KINDS]);
  });

  it.each(SCHEMA_KINDS)("prints that of a %s, which also stands under schemas/", async (kind) => {
    const { code, stdout } = await skillet(["schema", kind]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
    });
    expect(stdout).toBe(readFileSync(join(import.meta.dirname, `../../schemas/${kind}.json`), "utf8"));
  });

  it.each(SCHEMA_KINDS)(
    "has no pattern for a %s that only JavaScript reads: editors use other engines",
    async (kind) => {
      const { stdout } = await skillet(["schema", kind]);
      const patterns: string[] = [];
      JSON.parse(stdout, (key, value) => {
        if (key === "pattern" && typeof value === "string") patterns.push(value);
        return value;
      });
      expect(patterns).not.toEqual([]);
      // Most of them take a `[` within brackets for the beginning of a class of its own.
      expect(patterns.filter((pattern) => /\[[^\]]*\[/.test(pattern.replace(/\\./g, "")))).toEqual([]);
    },
  );

  it("says what there is where it knows none", async () => {
    const { code, stderr } = await skillet(["schema", "lock"]);
    expect(code).toBe(2);
    expect(stderr).toContain("frontmatter, config, workspace-config");
  });
});
