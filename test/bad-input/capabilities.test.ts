import { describe, expect, it } from "vitest";
import { createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import { skillText } from "../support/folder.ts";
import { useScene } from "../support/use.ts";
import { commandScene, GIVEN, INVOKE, NOTES } from "./broker-scene.ts";

describe("the declaration of a capability", () => {
  const REFUSED: [declared: string, code: string][] = [
    ["email", "capability-unavailable"],
    ["notes", "capability-not-granted"],
    ['"notes.*"', "capability-not-granted"],
    ['"*"', "capability-unavailable"],
    ['"notesx.notes"', "capability-unavailable"],
    ['"Notes.notes"', "capability-unavailable"],
    ['"notes..notes"', "capability-not-granted"],
    ['"notes.notes\\nnotes.notes"', "capability-not-granted"],
    ['"n\\u043etes.notes"', "capability-unavailable"],
    ['"__proto__.notes"', "capability-unavailable"],
    ["notes.secret", "capability-not-granted"],
  ];

  it.each(REFUSED)("[Q-19] grants nothing when it is %s", async (declared, code) => {
    const { use, host, server } = await commandScene(["true"], {
      skills: { x: { more: `capabilities: [${declared}]\n` } },
    });
    expect((await use({ skill: "x" }, host)).result).toMatchObject({ stop: "refused", refusals: [{ code }] });
    expect(server.requests).toEqual([]);
  });

  it("[Q-19] does not get what another skill was granted", async () => {
    const { use, host } = await commandScene(["true"], { skills: { x: { more: NOTES }, y: { more: NOTES } } });
    expect((await use({ skill: "y" }, host)).result).toMatchObject({ refusals: [{ code: "capability-not-granted" }] });
  });
});

describe("an inner skill", () => {
  const PARENT = { x: { more: NOTES } };

  async function used(more: string) {
    const seen: string[] = [];
    const made = await commandScene([], {
      skills: { ...PARENT, y: { more } },
      turns: ({ results, instructions }) => {
        const last = results.at(-1);
        if (last) seen.push(last.content);
        if (last) return "done";
        const isChild = instructions.includes("Do y.");
        return [
          isChild
            ? { tool: "bash", input: { command: `ls /run/skillet; env | grep -c CAPABILITY; ${INVOKE} list` } }
            : { tool: "use_skill", input: { skill: "y", message: "go" } },
        ];
      },
    });
    await made.use({ skill: "x" }, made.host);
    return { ...made, seen };
  }

  it("[Q-05] gets no socket, token or command of its caller", async () => {
    const { seen, notes } = await used("");
    expect(seen[0]).toMatch(/cannot access '\/run\/skillet'/);
    expect(seen[0]).toMatch(/^0$/m);
    expect(notes.asked).toEqual([]);
  });

  it("[Q-19] does not get its caller's grants on request", async () => {
    const { seen, notes } = await used(NOTES);
    expect(seen[0]).toContain("was not granted the capability notes.notes");
    expect(notes.asked).toEqual([]);
  });
});

describe("a workspace", () => {
  const PROGRAM = 'command = ["sh", "-c", "touch /tmp/owned"]\n';
  const TABLES = [
    `[capabilities.providers.notes]\n${PROGRAM}`,
    `[skills.x.capability_provider]\nnamespace = "notes"\n${PROGRAM}`,
    '[skills.x]\ncapabilities = ["notes.notes"]\n',
    '[capabilities.providers.notes]\nchat_types = ["group"]\n',
    '[capabilities.providers.github]\nbase_url = "http://127.0.0.1:1"\n',
    "[capabilities]\nchanges_per_run = 100000\n",
    '[capabilities]\nvault_passphrase_file = "project/passphrase"\n',
  ];

  it.each(TABLES)("[Q-26] configures and grants nothing, and gets a report for trying: %s", async (table) => {
    const { found } = await useScene({
      skills: { x: { more: NOTES } },
      turns: () => "never asked",
      workspace: { ".skillet/config.toml": `# ours\n${table}` },
    });
    const { diagnostics } = found.configuration;
    expect(diagnostics).toMatchObject([
      { severity: "error", file: expect.stringContaining("project/.skillet/config.toml"), line: expect.any(Number) },
      ...diagnostics.slice(1),
    ]);
    const capabilities = createCapabilities(found);
    expect(capabilities.findProvider("notes.notes", found.skill("x"))).toBeUndefined();
    expect(capabilities.isGranted("notes.notes", found.skill("x"))).toBe(false);
    expect(capabilities.quota).toEqual({ calls: 200, changes: 20 });
    expect(found.settings.capabilities.passphraseFile).toBeUndefined();
  });

  it("[Q-03] gets no grant of a skill whose name one of its own skills takes", async () => {
    const { found, use, host, server } = await commandScene(["true"], {
      config: GIVEN,
      workspace: { "skills/x/SKILL.md": skillText("x", { more: NOTES }) },
    });
    await use({ skill: "x@~/.skillet/skills" }, host);
    const before = server.requests.length;
    const { result } = await use({ skill: "x" }, host);
    expect(found.catalog.get("x").origin.source).toBe("skills");
    expect(result.stop).toBe("refused");
    expect(server.requests).toHaveLength(before);
  });
});
