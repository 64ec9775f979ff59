import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it, onTestFinished } from "vitest";
import { serveHttp } from "../../src/adapters/mcp-server/http-server.ts";
import { CLIENT_LISTINGS, type McpTextLimits, UNKNOWN_CLIENT_LIMITS } from "../../src/catalog/client-listings.ts";
import { hasUseWhenCue } from "../../src/catalog/describe-skill.ts";
import { type CuedSkill, cuedSkills } from "../catalog/cued-skills.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { connectTo, ERAS, type Era, negotiation, servingOf } from "../support/mcp-client.ts";
import { connectProcessClient, createHomeWith } from "../support/mcp-process.ts";
import { waitFor } from "../support/wait-for.ts";

const SKILLS = cuedSkills(60);
const FILES = Object.fromEntries(SKILLS.map((skill) => [`home/.skillet/skills/${skill.name}/SKILL.md`, fileOf(skill)]));
const NO_BUNDLED = { only: SKILLS.map(({ name }) => name) };

/** As the real programs announce themselves in their handshakes. */
const CLIENTS: readonly (readonly [name: string, room: McpTextLimits])[] = [
  ["claude-code", CLIENT_LISTINGS.claude.mcp],
  ["codex-mcp-client", CLIENT_LISTINGS.codex.mcp],
  ["gemini-cli-mcp-client", CLIENT_LISTINGS.gemini.mcp],
  ["opencode", CLIENT_LISTINGS.opencode.mcp],
  ["copilot-cli", CLIENT_LISTINGS.copilot.mcp],
  ["some-other-client", UNKNOWN_CLIENT_LIMITS],
];

function fileOf({ name, description, whenToUse }: CuedSkill): string {
  const when = whenToUse === undefined ? "" : `when_to_use: ${JSON.stringify(whenToUse)}\n`;
  return `---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n${when}---\n\nDo it.\n`;
}

function long(skill: CuedSkill): CuedSkill {
  return { ...skill, description: `${"Works with care for all that people bring. ".repeat(4)}${skill.description}` };
}

/** The texts as far as they reach the client's model. */
async function seenBy(client: Client, room: McpTextLimits): Promise<{ instructions: string; description: string }> {
  const { tools } = await client.listTools();
  const description = tools.find(({ name }) => name === "load_skill")?.description ?? "";
  return {
    instructions: (client.getInstructions() ?? "").slice(0, room.instructions),
    description: description.slice(0, room.toolDescription),
  };
}

function linesIn(text: string): Map<string, string> {
  return new Map([...text.matchAll(/^- ([\w-]+)(?:: (.*))?$/gm)].map(([, name = "", line = ""]) => [name, line]));
}

function counted(...texts: string[]): { names: number; cues: number } {
  const text = texts.join("\n");
  const lines = linesIn(text);
  return {
    names: SKILLS.filter(({ name }) => new RegExp(`(?<![\\w-])${name}(?![\\w-])`).test(text)).length,
    cues: SKILLS.filter(({ name }) => hasUseWhenCue(lines.get(name) ?? "")).length,
  };
}

async function overHttp(era: Era, announces: string): Promise<Client> {
  const serving = servingOf(await discoverIn(FILES), NO_BUNDLED);
  const http = await serveHttp((context) => serving.open({ isStateless: context.era === "modern" }), { token: false });
  onTestFinished(() => http.close());
  const client = new Client({ name: announces, version: "1.0.0" }, negotiation(era));
  await client.connect(new StreamableHTTPClientTransport(new URL(http.url)));
  onTestFinished(() => client.close());
  return client;
}

function expectComplete(
  { instructions, description }: { instructions: string; description: string },
  room: McpTextLimits,
) {
  const isKnown = room !== UNKNOWN_CLIENT_LIMITS;
  // Another client may drop or cut instructions: there the names matter most.
  expect(counted(instructions, description)).toEqual({ names: 60, cues: isKnown ? 60 : expect.any(Number) });
  if (room.instructions === 0) expect(counted(description)).toEqual({ names: 60, cues: 60 });
  if (!isKnown) expect(counted(description).names).toBeGreaterThan(40);
}

describe.each(ERAS)("the list of 60 skills for a client of %s", (era) => {
  it.each(CLIENTS)("[A-02, A-03] contains every name for %s, and all cues that fit", async (announces, room) => {
    const { client } = await connectTo(servingOf(await discoverIn(FILES), NO_BUNDLED), { era, name: announces });
    const whole = await seenBy(client, { ...room, instructions: 1e6, toolDescription: 1e6 });
    if (room.instructions > 0) expect(whole.instructions.length).toBeLessThanOrEqual(room.instructions);
    expect(whole.description.length).toBeLessThanOrEqual(room.toolDescription);
    expectComplete(await seenBy(client, room), room);
  });

  it.each(CLIENTS)("[A-02, A-03] is the same over HTTP for %s", async (announces, room) => {
    expectComplete(await seenBy(await overHttp(era, announces), room), room);
  });

  it.each(CLIENTS)(
    "[A-02, A-03] is complete in list_skills for %s, as far as a result reaches its model",
    async (announces, room) => {
      const files = Object.fromEntries(
        SKILLS.map((skill) => [`home/.skillet/skills/${skill.name}/SKILL.md`, fileOf(long(skill))]),
      );
      const { call } = await connectTo(servingOf(await discoverIn(files), NO_BUNDLED), { era, name: announces });
      const { text, structured } = await call("list_skills");
      expect(text.length).toBeLessThanOrEqual(room.toolResult);
      expect(JSON.stringify(structured).length).toBeLessThanOrEqual(room.toolResult);
      const { skills, note } = structured as { skills: { name: string; description: string }[]; note?: string };
      expect(skills.map(({ name }) => name).toSorted()).toEqual(SKILLS.map(({ name }) => name).toSorted());
      expect(skills.filter(({ description }) => !hasUseWhenCue(description))).toEqual([]);
      const whole = SKILLS.filter((skill) => {
        const { description, whenToUse = "" } = long(skill);
        const there = skills.find(({ name }) => name === skill.name)?.description;
        return there === `${description} ${whenToUse}`.trim();
      }).length;
      if (whole < 60)
        expect(note).toBe(`${60 - whole} descriptions of 60 shortened to fit; search_skills gives them whole`);
      else expect(note).toBeUndefined();
      expect(whole === 60).toBe(room.toolResult > 30_000);
    },
  );

  it.each(["claude-code", "copilot-cli"])("[A-02, A-03] is the same from a process for %s", async (announces) => {
    const args = ["--only", ...SKILLS.map(({ name }) => name)];
    const { client } = await connectProcessClient(createHomeWith(FILES), { era, name: announces, args });
    const [, room = UNKNOWN_CLIENT_LIMITS] = CLIENTS.find(([name]) => name === announces) ?? [];
    expectComplete(await seenBy(client, room), room);
  });
});

describe("the list of skills", () => {
  const listed = async (files: Record<string, string>, announces: string) => {
    const { client } = await connectTo(servingOf(await discoverIn(files), NO_BUNDLED), { name: announces });
    return client.getInstructions() ?? "";
  };

  it("[A-03] stays within disclosure.listing_budget, however much a client accepts", async () => {
    const config = (tokens: number) => ({
      ...FILES,
      "home/.skillet/config.toml": `[disclosure]\nlisting_budget = ${tokens}\n`,
    });
    const short = await listed(config(500), "codex-mcp-client");
    expect(short.slice(short.indexOf("[60 skills")).length).toBeLessThanOrEqual(2000);
    const long = await listed(config(8000), "codex-mcp-client");
    for (const { name, description } of SKILLS) expect(long).toContain(`- ${name}: ${description}`);
  });

  it("[A-04] keeps the descriptions of the most used skills at the start of the session, and stays the same", async () => {
    const scene = await discoverIn({
      ...FILES,
      "home/.skillet/config.toml": "[disclosure]\nlisting_budget = 560\n",
    });
    const before = await connectTo(servingOf(scene, NO_BUNDLED), { name: "codex-mcp-client" });
    const lines = linesIn(before.client.getInstructions() ?? "");
    const used = SKILLS.find(({ name }) => lines.get(name) === "")?.name ?? "";
    expect(used).not.toBe("");
    const statistics = { ...scene.statistics, recent: async () => [used], mostUsed: async () => [used] };
    const serving = servingOf(scene, NO_BUNDLED, { statistics });
    const after = await connectTo(serving, { name: "codex-mcp-client" });
    expect(hasUseWhenCue(linesIn(after.client.getInstructions() ?? "").get(used) ?? "")).toBe(true);
    statistics.mostUsed = async () => [];
    const copilot = await connectTo(serving, { name: "copilot-cli" });
    const first = (await seenBy(copilot.client, CLIENT_LISTINGS.copilot.mcp)).description;
    statistics.mostUsed = async () => [used];
    expect((await seenBy(copilot.client, CLIENT_LISTINGS.copilot.mcp)).description).toBe(first);
  });

  it("is sent again to a client that sees it in the description of load_skill when it changes", async () => {
    const scene = await discoverIn(FILES);
    const serving = servingOf(scene);
    const { client, changes } = await connectTo(serving, { name: "copilot-cli" });
    const { description } = await seenBy(client, CLIENT_LISTINGS.copilot.mcp);
    expect(description).not.toContain("- new-skill:");
    writeFiles(scene.root, { "home/.skillet/skills/new-skill/SKILL.md": skillText("new-skill") });
    await serving.refresh();
    await waitFor(() => expect(changes()).toBe(1));
    expect((await seenBy(client, CLIENT_LISTINGS.copilot.mcp)).description).toContain("- new-skill:");
  });

  it("leaves room for a server's own instructions first", async () => {
    const serving = servingOf(await discoverIn(FILES), { ...NO_BUNDLED, instructions: "Be brief. ".repeat(300) });
    const { client } = await connectTo(serving, { name: "claude-code" });
    const seen = await seenBy(client, CLIENT_LISTINGS.claude.mcp);
    expect(seen.instructions.length).toBeLessThanOrEqual(4096);
    expect(counted(seen.instructions, seen.description).names).toBe(60);
  });
});
