import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findInstructionCommands } from "../../src/agent/models/runbook.ts";
import { createGithubProvider } from "../../src/capabilities/github/github-provider.ts";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";

const folder = join(import.meta.dirname, "..", "..", "skills");
const catalog = await loadCatalog([createDirectorySource({ path: folder, name: "bundled", scope: "bundled" })]);
const [github, gog] = [catalog.get("github"), catalog.get("gog")];

describe("the shipped skills github and gog", () => {
  it("[S-22] are disabled by default, and declare their capabilities", () => {
    expect(github.manifest).toMatchObject({
      defaultEnabled: false,
      sensitive: false,
      capabilities: ["github.issues", "github.pulls", "github.repos"],
      tools: { allowed: ["bash"] },
    });
    expect(gog.manifest).toMatchObject({
      defaultEnabled: false,
      sensitive: true,
      access: { chatTypes: ["private"] },
      capabilities: ["gog.email", "gog.calendar"],
      tools: { allowed: ["bash"] },
    });
    for (const { manifest } of [github, gog])
      expect([manifest.env, manifest.packages, manifest.toolsets]).toEqual([[], [], []]);
  });

  it.each([github, gog])(
    "contain no complete command: requests need a language model, and runbook reports that",
    async (skill) => {
      const commands = findInstructionCommands(await skill.body(), { arguments: "", names: [] } as never);
      expect(commands).toEqual([]);
    },
  );

  it("[P-22] list, for github, exactly the existing operations", async () => {
    const { capabilities } = await createGithubProvider().describe({ signal: new AbortController().signal });
    const rows = (await github.body()).match(/^\| (?:find|read|change) \|.*$/gm) ?? [];
    expect(rows).toHaveLength(3);
    const named = rows.flatMap((row) =>
      row.split("·").flatMap((part) => {
        const [, id = ""] = /`(github\.\w+)`/.exec(part) ?? [];
        const words = part.replace(/\([^)]*\)/g, "").matchAll(/`([a-z_]+)`/g);
        return Array.from(words, ([, name]) => `${id} ${name}`);
      }),
    );
    const there = capabilities.flatMap(({ id, operations }) => operations.map(({ name }) => `${id} ${name}`));
    expect(named.sort()).toEqual(there.sort());
    const changes = capabilities.flatMap(({ id, operations }) =>
      operations.filter(({ mutating }) => mutating).map(({ name }) => `${id} ${name}`),
    );
    for (const change of changes) expect(rows[2]).toContain(`\`${change.split(" ")[1]}\``);
  });
});
