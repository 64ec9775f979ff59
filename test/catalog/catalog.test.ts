import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { formatPromptListing } from "../../src/catalog/listing.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { createInlineSource, type SkillScope } from "../../src/skill/skill.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

const source = (root: string, name: string, scope: SkillScope) =>
  createDirectorySource({ path: join(root, name), name, scope });

describe("openCatalog", () => {
  it("[S-01, P-03] prefers the nearer scope, whatever the order of sources, and keeps shadowed skills", async () => {
    const scopes = ["bundled", "integration", "installed", "user", "workspace"] as const;
    const root = temporaryFolder(
      Object.fromEntries(
        scopes.map((scope) => [`${scope}/same/SKILL.md`, skillText("same", { description: `From ${scope}` })]),
      ),
    );
    const sources = scopes.map((scope) => source(root, scope, scope));
    for (const order of [sources, [...sources].reverse()]) {
      const catalog = await loadCatalog(order);
      expect(catalog.get("same").description).toBe("From workspace");
      expect(catalog.shadowed.map(({ origin }) => origin.scope)).toEqual([
        "user",
        "installed",
        "integration",
        "bundled",
      ]);
      expect(catalog.copies("same")).toHaveLength(5);
    }
  });

  it("[W-06] answers get, has, names and definitions, and suggests the nearest name for an unknown one", async () => {
    const root = temporaryFolder({
      "s/summarize/SKILL.md": skillText("summarize", { more: "input_schema:\n  type: object\n" }),
      "s/explain/SKILL.md": skillText("explain"),
    });
    const catalog = await loadCatalog([source(root, "s", "workspace")]);
    expect(catalog.names()).toEqual(["explain", "summarize"]);
    expect(catalog.has("summarize")).toBe(true);
    expect(catalog.has("sumarize")).toBe(false);
    expect(() => catalog.get("sumarize")).toThrow(
      expect.objectContaining({ message: "Skill 'sumarize' not found", fix: 'did you mean "summarize"?' }),
    );
    expect(catalog.definitions()).toEqual([
      { name: "explain", description: "Does explain. Use when asked for explain." },
      {
        name: "summarize",
        description: "Does summarize. Use when asked for summarize.",
        input_schema: { type: "object" },
      },
    ]);
  });

  it("finds a shadowed copy as name@source and name@scope", async () => {
    const root = temporaryFolder({
      "far/a/SKILL.md": skillText("a", { description: "far" }),
      "near/a/SKILL.md": skillText("a", { description: "near" }),
    });
    const catalog = await loadCatalog([source(root, "far", "user"), source(root, "near", "workspace")]);
    expect(catalog.get("a").description).toBe("near");
    expect(catalog.get("a@far").description).toBe("far");
    expect(catalog.get("a@user").description).toBe("far");
    expect(catalog.find("a@bundled")).toBeUndefined();
  });

  it("prefers a folder to flat Markdown to YAML within one source, then the first path", async () => {
    const root = temporaryFolder({
      "s/a.md": skillText("a", { description: "flat" }),
      "s/a.yaml": "name: a\ndescription: yaml\ninstructions: x\n",
      "s/b/SKILL.md": skillText("a", { description: "second folder" }),
      "s/a/SKILL.md": skillText("a", { description: "first folder" }),
    });
    const catalog = await loadCatalog([source(root, "s", "workspace")]);
    expect(catalog.copies("a").map(({ description }) => description)).toEqual([
      "first folder",
      "second folder",
      "flat",
      "yaml",
    ]);
  });

  it("counts one real folder in two sources as one skill", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const catalog = await loadCatalog([
      source(root, "s", "user"),
      createDirectorySource({ path: join(root, "s"), name: "again", scope: "workspace" }),
    ]);
    expect(catalog.shadowed).toEqual([]);
  });

  it("reports two names that differ only in case", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("deploy"), "s/b/SKILL.md": skillText("Deploy") });
    const catalog = await loadCatalog([source(root, "s", "user")]);
    expect(catalog.names()).toEqual(["Deploy", "deploy"]);
    expect(catalog.diagnostics.map(({ code }) => code)).toContain("name-case-collision");
  });

  it("[S-33] takes integration skills from sources that a program registers, and survives one that fails", async () => {
    const skill = defineSkill({ name: "mail", description: "Mail.", instructions: "Do mail." });
    const catalog = await loadCatalog([
      createInlineSource([skill], { name: "mail-integration", scope: "integration" }),
      { name: "broken", scope: "integration", load: () => Promise.reject(new Error("no connection")) },
    ]);
    expect(catalog.get("mail@mail-integration").origin.scope).toBe("integration");
    expect(catalog.diagnostics).toMatchObject([
      { code: "source-failed", message: expect.stringContaining("no connection") },
    ]);
    expect(catalog.sources).toEqual([
      { name: "mail-integration", scope: "integration", skills: 1 },
      { name: "broken", scope: "integration", skills: 0 },
    ]);
  });

  it("[S-33] gives skills defined in code the name and scope of their source", async () => {
    const skill = defineSkill({ name: "mail", description: "Mail.", instructions: "Do mail." });
    const integration = {
      name: "desk",
      scope: "integration",
      load: () => ({ skills: [skill], diagnostics: [] }),
    } as const;
    const root = temporaryFolder({ "s/mail/SKILL.md": skillText("mail", { description: "Nearer" }) });
    const catalog = await loadCatalog([integration, source(root, "s", "user")]);
    expect(catalog.get("mail").description).toBe("Nearer");
    for (const name of ["mail@desk", "mail@integration"])
      expect(catalog.get(name).origin).toEqual({ scope: "integration", source: "desk", form: "code" });
    expect(catalog.has("mail@inline")).toBe(false);
    expect((await catalog.reload()).get("mail@desk")).toBe(catalog.get("mail@desk"));
  });

  it("accepts skills of any kind in a source in code, and reports an empty source", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const first = await loadCatalog([source(root, "s", "user")]);
    const again = await loadCatalog([
      createInlineSource(first.skills),
      { name: "void", scope: "user", load: () => undefined as never },
    ]);
    expect(await again.get("a").body()).toBe(await first.get("a").body());
    expect(again.definitions()).toEqual(first.definitions());
    expect(again.diagnostics).toMatchObject([{ code: "source-failed" }]);
  });

  it("omits skills with one reason or a list of reasons against them", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a"), "s/b/SKILL.md": skillText("b") });
    const catalog = await loadCatalog([source(root, "s", "user")]);
    const names = (isDenied: Parameters<typeof catalog.available>[0]) =>
      catalog.available(isDenied).map(({ name }) => name);
    expect(names(() => [])).toEqual(["a", "b"]);
    expect(names(({ name }) => (name === "a" ? [{ code: "x" }] : []))).toEqual(["b"]);
    expect(names(({ name }) => (name === "a" ? { code: "x" } : undefined))).toEqual(["b"]);
  });

  it("returns a new snapshot on reload and leaves the old one unchanged", async () => {
    const root = temporaryFolder({ "s/a/SKILL.md": skillText("a") });
    const before = await loadCatalog([source(root, "s", "user")]);
    writeFiles(root, { "s/b/SKILL.md": skillText("b") });
    expect((await before.reload()).names()).toEqual(["a", "b"]);
    expect(before.names()).toEqual(["a"]);
  });
});

describe("promptListing", () => {
  it("[P-07] lists the skills, each on one line, and is empty without skills", async () => {
    const root = temporaryFolder({
      "s/a/SKILL.md": "---\ndescription: |\n  One\n  two\n---\nx\n",
      "s/b/SKILL.md": skillText("b"),
    });
    const catalog = await loadCatalog([source(root, "s", "user")]);
    expect(formatPromptListing(catalog.skills)).toBe("- a: One two\n- b: Does b. Use when asked for b.");
    expect(formatPromptListing([])).toBe("");
  });
});
