import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { parse } from "smol-toml";
import { describe, expect, it } from "vitest";
import { type SettingsOwner, validateConfigValue } from "../../src/config/config-file.ts";
import { CONFIG_KEYS } from "../../src/config/config-keys.ts";
import { KEY_TYPES } from "../../src/config/key-types.ts";
import { createSettingsSchema } from "../../src/config/settings-schema.ts";

const root = join(import.meta.dirname, "../..");
const OWNERS: readonly SettingsOwner[] = ["user", "workspace"];

const ajv = new Ajv2020({ strict: true });
const FITS: Readonly<Record<SettingsOwner, ValidateFunction>> = {
  user: ajv.compile(createSettingsSchema("user")),
  workspace: ajv.compile(createSettingsSchema("workspace")),
};

/** Valid and invalid values of every type. */
const VALUES: readonly unknown[] = [
  ...["", "x", "fast", "a/b", "/etc/x", "x/y", "gog", "Gog", "gog.email", "gog.*", "*", "none", "read", "read-write"],
  ...["static", "adaptive", "brave", "2026-11-19"],
  ...["strong", "partial", "bubblewrap", "seatbelt", "docker", "podman", "anthropic", "ollama", "true", "20"],
  ...[
    "https://a.example/v1",
    "HTTP://a.example",
    "https://a.example:8080?x",
    "https://",
    "ftp://a",
    "https://u:p@a.example",
    "env:DATABASE_URL",
    "postgres://ann@db.example/skillet?sslmode=verify-full",
    "postgres://ann:p@db.example/skillet",
  ],
  ...["https://u@a.example/", "a.example:443", "a.example", "[::1]:80", "[::AB]:80", "a:99999", "a:999999", "a b:1"],
  ...[true, false, 0, 1, -1, 1.5, 20, 300, 301, Number.MAX_SAFE_INTEGER],
  ...[[], [""], ["x"], ["a", 1], [["a"]], ["gog.email"], ["gog.*"], ["Gog.x"], ["a.example:443"], ["[::1]:80", "x"]],
];

/** A table with one value in it. */
function tableWith(parts: readonly string[], value: unknown): object {
  return parts.reduceRight<unknown>((inner, part) => ({ [part]: inner }), value) as object;
}

function named(path: string, [name, variable]: readonly [string, string] = ["some-name", "SOME_KEY"]): string[] {
  return path.split(".").map((part) => (part === "*" ? name : part === "UPPER_CASE" ? variable : part));
}

describe("the JSON Schema of the configuration", () => {
  it.each(OWNERS)("accepts and refuses the same keys and values of a %s as the parser", (owner) => {
    const fits = FITS[owner];
    const taken = new Set<string>();
    const others: string[] = [];
    for (const { path, type } of CONFIG_KEYS) {
      for (const value of VALUES) {
        const isTaken = !("code" in validateConfigValue(named(path), value, owner));
        if (isTaken) taken.add(type);
        if (fits(tableWith(named(path), value)) !== isTaken) others.push(`${path} = ${JSON.stringify(value)}`);
      }
    }
    expect(others).toEqual([]);
    // Each type was tested with a valid value.
    if (owner === "user") expect([...taken, "alias"].sort()).toEqual(Object.keys(KEY_TYPES).sort());
  });

  it.each(OWNERS)("knows no key of a %s that is not in the table", (owner) => {
    const fits = FITS[owner];
    for (const written of ["skill.x.enabled", "skills.x.enabeld", "limits.max_iteration", "skills.defaults.model", "x"])
      expect(fits(tableWith(written.split("."), true)), written).toBe(false);
  });

  it("accepts any skill name, and the same server and provider names as the parser", () => {
    const fits = FITS.user;
    for (const name of ["a.b", "my skill", "ü", "x".repeat(64), "x".repeat(65), "a_b-C"]) {
      for (const [path, value] of [
        ["skills.*.enabled", true],
        ["models.*.model", "m"],
        ["tools.mcp.*.enabled", true],
        ["capabilities.providers.*.enabled", true],
      ] as const) {
        const parts = named(path, [name, ""]);
        expect(fits(tableWith(parts, value)), parts.join(".")).toBe(
          !("code" in validateConfigValue(parts, value, "user")),
        );
      }
    }
    for (const variable of ["A", "_A1", "aB", "1A", "A-B"]) {
      const parts = named("skills.*.UPPER_CASE", ["x", variable]);
      expect(fits(tableWith(parts, "v")), variable).toBe(!("code" in validateConfigValue(parts, "v", "user")));
    }
  });

  it("describes each key as the table does, with its default", () => {
    const text = JSON.stringify(createSettingsSchema("user"));
    for (const { means, default: usual } of CONFIG_KEYS) {
      expect(text).toContain(`"description":${JSON.stringify(means)}`);
      if (usual !== undefined) expect(text).toContain(`"default":${JSON.stringify(usual)}`);
    }
  });

  it("accepts the configuration of the documentation, and those of the examples", () => {
    const pages = globSync("{docs/*.md,README.md}", { cwd: root }).flatMap((path) =>
      Array.from(readFileSync(join(root, path), "utf8").matchAll(/^```toml\n(.*?)^```/gms), ([, text = ""]) => text),
    );
    const files = globSync("examples/**/*.toml", { cwd: root, exclude: ["**/node_modules/**"] });
    const fits = FITS.user;
    expect(pages.length).toBeGreaterThan(3);
    for (const text of [...pages, ...files.map((path) => readFileSync(join(root, path), "utf8"))])
      expect(fits(parse(text)), `${JSON.stringify(fits.errors)}\n${text}`).toBe(true);
  });
});
