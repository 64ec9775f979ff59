import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadCatalog } from "../src/catalog/catalog.ts";
import { PROFILES, STANDARD_NAME } from "../src/skill/skill.ts";
import { checkPath } from "../src/skill/source/check-skills.ts";
import { createDirectorySource } from "../src/skill/source/directory-source.ts";
import { computeSkillDigest } from "../src/skill/source/skill-copy.ts";
import { skillet } from "./support/command.ts";

const folder = join(import.meta.dirname, "..", "skills");
const names = readdirSync(folder).filter((name) => statSync(join(folder, name)).isDirectory());
const catalog = await loadCatalog([createDirectorySource({ path: folder, name: "bundled", scope: "bundled" })]);

/** The files of each version of a shipped skill: they cannot change without the version. */
const PINS: Record<string, Record<string, string>> = {
  "code-review": {
    "1.0.0": "sha256:06e1ab9730f3776f810188c0183dad3cf4c3f442d0dbdbf7c7221ee6528491fd",
    "1.0.1": "sha256:5c98c5f107321f3aae8ebcbc96f9abe15f7edd1b2b4a7058e692387ab1449f63",
    "1.0.2": "sha256:8a410b40772d26c760728839a98f1ad4069ad2c67a643c156d0e00d8d8e376a3",
  },
  "dependency-audit": {
    "1.0.0": "sha256:4887ef757c9eaf57fb6fdb0d79014577de37e4be5a6d1f81d35c1a7e0f91ea71",
  },
  github: {
    "1.0.0": "sha256:907d6fa62271fd944bfdfefef3cefd9a43799fee54c183be2c9df1477de179c1",
    "1.0.1": "sha256:d43ce0f7cd8c50ee80eb493982188a6bee8961c789d09138cb13fd8858d61342",
  },
  gog: {
    "1.0.0": "sha256:c631db05bdfa1e6011b622f4686300136d19db1875942d4f21950ac119037305",
    "1.0.1": "sha256:5914ed34f1ad8769f89376479fddb46993c70ea6cd79bf13cef1999a8cfae100",
  },
  "host-report": {
    "1.0.0": "sha256:fcac31e44a7e45bb7ae58c862d71d8d452296b65219cf3ecc3ba294c2e69fd2a",
    "1.0.1": "sha256:3a87abfad668c35a3174f44bb56406043fa5ebd4adcf0ed2ad0a153b0a91fc9d",
  },
  "log-triage": {
    "1.0.0": "sha256:15883fb41c79fbd781f4b3132cfd8c98e073fde40ae0edfe4fa2875a90cf40ac",
  },
  ports: {
    "1.0.0": "sha256:c14f912f597791fa1b243e11e7092f00c35a69cc4cbf6f20a81c0b3626a6833d",
  },
  "repo-health": {
    "1.0.0": "sha256:0d673b08bcc93a1f820b8022272b83f4eab3f7b9e3d44d33e341a948515fdba3",
  },
  research: {
    "1.0.0": "sha256:fe939256a93dd63d60cacb7ec1a1d26afd7974aeb9e2961687547bd3ac894ac8",
    "1.0.1": "sha256:ddbd6742a0db9b92810c57aba349cfdb8f4846b41b1401ccfedf119ed03a6a70",
  },
  skillmaker: {
    "1.0.0": "sha256:2ddf5fb54c88d6cc86c0263c6cd753e6c89e5a8feef336d2cd1d724ba0d3f00e",
    "1.1.0": "sha256:fae72a184041f7e95e8f26be98560758e46cbbd97381c2aadacb748f10d809f9",
    "1.2.0": "sha256:d4178225a9f08ebf98ac76964c474051d82815b74f16e57ca2a5f462e87f6004",
    "1.2.1": "sha256:a16fef0d2d63aecd3437bd4538882ce990e388c7ed7a43d3429f7a0a265d15e3",
  },
  summarize: {
    "1.0.0": "sha256:fc3c3cd0879bedddd185eb58ecda66c8ac3eeea654cc6181a6a8b244789085f3",
    "1.0.1": "sha256:9a553de5a4d2ebe7a5be3aa29336be1b91ed0ce7c42c9eaeffdacc0dae28703e",
  },
  tables: {
    "1.0.0": "sha256:2ff0df99e3c42976924ff2672bd67011c215475b0ab1c16a699d5548f34f0a6b",
    "1.0.1": "sha256:36253e0532f4e1e85833808930028ef453952b438695faa106f26780b1953aed",
  },
};

describe("shipped skills", () => {
  it("[P-16] are all found, without findings", () => {
    expect(names.length).toBeGreaterThan(0);
    expect(catalog.names()).toEqual([...names].sort());
    expect(catalog.diagnostics).toEqual([]);
  });

  it.each(names)(
    "[P-16] %s meets the contract: name, description, version, tags, and every reference exists",
    async (name) => {
      const skill = catalog.get(name);
      expect(readFileSync(join(folder, name, "SKILL.md"), "utf8").trim()).not.toBe("");
      expect(skill.name).toMatch(STANDARD_NAME);
      expect(skill.name).toBe(name);
      expect(skill.description).not.toBe("");
      expect(skill.manifest.metadata["version"]).toMatch(/^\d+\.\d+\.\d+$/);
      expect(skill.manifest.metadata["tags"]).toEqual(expect.arrayContaining([expect.any(String)]));
      for (const file of (await skill.files()).files)
        expect((await skill.read(file.path)).length, file.path).toBeGreaterThan(0);
      for (const profile of PROFILES) {
        const { files } = checkPath(join(folder, name), { profile });
        const found = files.flatMap(({ diagnostics }) => diagnostics);
        // Skillet's own keys make a run: other clients ignore them.
        expect(
          found.filter(({ code }) => code !== "key-extension" && code !== "key-top-level"),
          profile,
        ).toEqual([]);
        if (profile === "shipped") expect(found).toEqual([]);
      }
    },
  );

  it.each(names)("[P-24] %s cannot change without its version", async (name) => {
    const skill = catalog.get(name);
    const pinned = PINS[name]?.[skill.manifest.version ?? ""];
    expect(pinned, `pin ${name} ${skill.manifest.version} to ${await computeSkillDigest(skill)}`).toBe(
      await computeSkillDigest(skill),
    );
  });

  it("are found by their queries, and match no others", async () => {
    const { stdout } = await skillet(["eval", folder, "--json"]);
    const scores: {
      name: string;
      queries: number;
      others: number;
      recall: Record<string, number>;
      falseTriggers: [];
    }[] = JSON.parse(stdout).skills;
    expect(scores.map(({ name }) => name).sort()).toEqual([...names].sort());
    for (const { name, queries, others, recall, falseTriggers } of scores) {
      expect(Math.min(queries, others), name).toBeGreaterThan(3);
      expect(recall[3], name).toBeGreaterThanOrEqual(0.9);
      expect(falseTriggers, name).toEqual([]);
    }
  });

  it("[P-17] include skillmaker with a template and a quality checklist that it names", async () => {
    const skill = catalog.get("skillmaker");
    expect((await skill.files()).files.map(({ path }) => path)).toEqual([
      "evals/triggers.json",
      "quality-checklist.md",
      "skill-template.md",
    ]);
    for (const path of ["quality-checklist.md", "skill-template.md"])
      expect(await skill.body()).toContain(`](${path})`);
  });
});
