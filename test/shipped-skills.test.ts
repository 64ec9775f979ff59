import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openCatalog } from "../src/catalog/catalog.ts";
import { PROFILES } from "../src/skill/diagnostic.ts";
import { STANDARD_NAME } from "../src/skill/name.ts";
import { checkPath } from "../src/source/check.ts";
import { digestOf } from "../src/source/digest.ts";
import { directorySource } from "../src/source/directory.ts";

const folder = join(import.meta.dirname, "..", "skills");
const names = readdirSync(folder).filter((name) => statSync(join(folder, name)).isDirectory());
const catalog = await openCatalog([directorySource({ path: folder, name: "bundled", scope: "bundled" })]);

/** What each version of a shipped skill consists of: its files cannot change while its version stays. */
const PINS: Record<string, Record<string, string>> = {
  skillmaker: {
    "1.0.0": "sha256:2ddf5fb54c88d6cc86c0263c6cd753e6c89e5a8feef336d2cd1d724ba0d3f00e",
    "1.1.0": "sha256:fae72a184041f7e95e8f26be98560758e46cbbd97381c2aadacb748f10d809f9",
  },
};

describe("shipped skills", () => {
  it("[P-16] are all found, with nothing to say about them", () => {
    expect(names.length).toBeGreaterThan(0);
    expect(catalog.names()).toEqual([...names].sort());
    expect(catalog.diagnostics).toEqual([]);
  });

  it.each(names)(
    "[P-16] %s meets the contract: name, description, version, tags, and every reference is there",
    (name) => {
      const skill = catalog.get(name);
      expect(readFileSync(join(folder, name, "SKILL.md"), "utf8").trim()).not.toBe("");
      expect(skill.name).toMatch(STANDARD_NAME);
      expect(skill.name).toBe(name);
      expect(skill.description).not.toBe("");
      expect(skill.manifest.metadata["version"]).toMatch(/^\d+\.\d+\.\d+$/);
      expect(skill.manifest.metadata["tags"]).toEqual(expect.arrayContaining([expect.any(String)]));
      for (const file of skill.files().files) expect(skill.read(file.path).length, file.path).toBeGreaterThan(0);
      for (const profile of PROFILES) {
        expect(
          checkPath(join(folder, name), { profile }).files.flatMap((file) => file.diagnostics),
          profile,
        ).toEqual([]);
      }
    },
  );

  it.each(names)("[P-24] %s cannot change without its version", (name) => {
    const skill = catalog.get(name);
    const pinned = PINS[name]?.[skill.manifest.version ?? ""];
    expect(pinned, `pin ${name} ${skill.manifest.version} to ${digestOf(skill)}`).toBe(digestOf(skill));
  });

  it("[P-17] include skillmaker with a template and a quality checklist that it names", () => {
    const skill = catalog.get("skillmaker");
    expect(skill.files().files.map(({ path }) => path)).toEqual([
      "evals/triggers.json",
      "quality-checklist.md",
      "skill-template.md",
    ]);
    for (const path of ["quality-checklist.md", "skill-template.md"]) expect(skill.body()).toContain(`](${path})`);
  });
});
