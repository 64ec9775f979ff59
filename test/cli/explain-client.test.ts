import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { LISTING_CLIENTS } from "../../src/catalog/client-listings.ts";
import { cuedSkills } from "../catalog/cued-skills.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const FOLDERS = {
  claude: ".claude/skills",
  codex: ".codex/skills",
  gemini: ".gemini/skills",
  opencode: ".config/opencode/skills",
  copilot: ".copilot/skills",
};
const LONG = "zz-long";

function filesFor(client: keyof typeof FOLDERS): Record<string, string> {
  const skills = [
    ...cuedSkills(60).map(({ name, description, whenToUse }) => ({ name, description, whenToUse })),
    { name: LONG, description: "Converts units. ".repeat(80), whenToUse: undefined },
  ];
  return Object.fromEntries(
    skills.map(({ name, description, whenToUse }) => {
      const more = whenToUse === undefined ? "" : `when_to_use: ${JSON.stringify(whenToUse)}\n`;
      return [
        `home/${FOLDERS[client]}/${name}/SKILL.md`,
        skillText(name, { description: JSON.stringify(description), more }),
      ];
    }),
  );
}

async function explainAs(client: string, files: Record<string, string>, query = "deploy the shop") {
  const root = temporaryFolder({ ...files, "project/x": "" });
  const run = (...more: string[]) =>
    skillet(["explain", query, "--as", client, ...more], {
      cwd: join(root, "project"),
      env: { HOME: join(root, "home") },
    });
  return { run, json: JSON.parse((await run("--json")).stdout) };
}

describe("skillet explain --as", () => {
  it.each(LISTING_CLIENTS)("shows the list that the real %s sends", async (client) => {
    const captured = JSON.parse(
      readFileSync(join(import.meta.dirname, "../fixtures/client-listings", `${client}.json`), "utf8"),
    );
    const real = new Map<string, number>(captured.listed.map(([name, length]: [string, number]) => [name, length]));
    const { json } = await explainAs(client, filesFor(client));
    const own = json.own.skills.filter(({ name }: { name: string }) => name !== LONG);
    expect(own).toHaveLength(60);
    for (const { name, description } of own)
      expect({ name, length: description.length }).toEqual({ name, length: real.get(name) });
    const shown = json.own.skills.find(({ name }: { name: string }) => name === LONG).shown;
    expect(shown).toBe(
      { claude: "name", codex: "cut", gemini: "whole", opencode: "whole", copilot: "dropped" }[client],
    );
  });

  it("reads the folders that the client reads, and no others", async () => {
    const { json } = await explainAs("codex", {
      "home/.codex/skills/own/SKILL.md": skillText("own"),
      "home/.agents/skills/shared/SKILL.md": skillText("shared"),
      "home/.claude/skills/other/SKILL.md": skillText("other"),
      "home/.codex/skills/people/SKILL.md": skillText("people", { more: "disable-model-invocation: true\n" }),
    });
    expect(json.own.skills.map(({ name }: { name: string }) => name)).toEqual(["own", "people", "shared"]);
    const { json: copilot } = await explainAs("copilot", {
      "home/.copilot/skills/people/SKILL.md": skillText("people", { more: "disable-model-invocation: true\n" }),
    });
    expect(copilot.own.skills).toEqual([]);
  });

  it("has the texts of the server and the additions of the hook, by client", async () => {
    const files = {
      "home/.skillet/skills/deploy/SKILL.md": skillText("deploy", {
        more: "triggers:\n  keywords: [deploy the shop]\n",
        body: "Push it.",
      }),
    };
    const { json: claude, run } = await explainAs("claude", files);
    expect(claude.server.instructions.text).toContain("- deploy: Does deploy. Use when asked for deploy.");
    expect(claude.hook).toMatchObject({ event: "UserPromptSubmit", kind: "instructions", skills: ["deploy"] });
    expect(claude.hook.text).toContain("Push it.");
    const { stdout } = await run();
    expect(stdout).toMatch(/^Claude Code \d/);
    expect(stdout).toContain("The prompt hook adds (instructions)");
    expect((await run("--text")).stdout).toContain("Push it.");
    const { json: gemini } = await explainAs("gemini", files);
    expect(gemini.hook).toMatchObject({ event: "BeforeAgent", kind: "shortlist", skills: ["deploy"] });
    const { json: copilot, run: asCopilot } = await explainAs("copilot", files, "what time is it in Tokyo?");
    expect(copilot.server.loadSkill.text).toContain("- deploy:");
    expect(copilot.hook).toMatchObject({ kind: "none", text: "" });
    expect((await asCopilot()).stdout).toContain("It ignores the instructions of MCP servers.");
  });

  it("lists the supported clients, and excludes other options", async () => {
    const cwd = temporaryFolder({ "a/x": "" });
    const unknown = await skillet(["explain", "x", "--as", "notepad"], { cwd });
    expect([unknown.code, unknown.stderr]).toEqual([
      2,
      expect.stringContaining("claude, codex, gemini, opencode, copilot"),
    ]);
    expect((await skillet(["explain", "x", "--as", "claude", "--skill", "a"], { cwd })).code).toBe(2);
  });
});
