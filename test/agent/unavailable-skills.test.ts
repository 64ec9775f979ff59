import { describe, expect, it } from "vitest";
import { createSkillToolset } from "../../src/adapters/ai-sdk/index.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { disclose } from "../../src/catalog/disclose.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { connectTo, ERAS, servingOf } from "../support/mcp-client.ts";

const HOME = "home/.skillet/skills";
const OTHERS = [
  "bread",
  "clocks",
  "gardens",
  "letters",
  "maps",
  "music",
  "poems",
  "recipes",
  "shoes",
  "taxes",
  "trains",
  "wine",
];
const FILES = {
  ...Object.fromEntries(
    OTHERS.map((name) => [
      `${HOME}/${name}/SKILL.md`,
      skillText(name, { description: `Looks after ${name}. Use when ${name} are at issue.` }),
    ]),
  ),
  [`${HOME}/harbor/SKILL.md`]: skillText("harbor", { description: "Berths ships. Use when a ship needs a berth." }),
  [`${HOME}/other-system/SKILL.md`]: skillText("other-system", {
    description: "Berths ships on another system. Use when a ship needs a berth.",
    more: "metadata:\n  os: [plan9]\n",
    body: "Berth it there.",
  }),
  [`${HOME}/other-tools/SKILL.md`]: skillText("other-tools", {
    description: "Berths ships with a tool that nobody has. Use when a ship needs a berth.",
    more: "required_tools: [crane_operator]\ntriggers:\n  keywords: [berth]\n",
  }),
  [`${HOME}/switched-off/SKILL.md`]: skillText("switched-off", {
    description: "Berths ships. Use when a ship needs a berth.",
  }),
  "home/.skillet/config.toml": "[skills.switched-off]\nenabled = false\n",
};
const GONE = /other-system|other-tools|switched-off/;

describe("unavailable skills", () => {
  it("[S-34] are in no list, shortlist, search or full text of a session", async () => {
    const found = await discoverIn(FILES, { SKILLS_DIR: temporaryFolder() });
    const session = openSession(found.catalog, found);
    for (const query of ["a ship needs a berth", "berth", "list skills", "hello"]) {
      const { text, matches, shortlist } = await session.disclose(query);
      expect(text, query).not.toMatch(GONE);
      expect(text).toContain("harbor");
      expect([...matches.map(({ skill }) => skill), ...shortlist].filter(({ name }) => GONE.test(name))).toEqual([]);
    }
    expect(
      (await session.disclose("find a berth in the harbor for our ship")).shortlist.map(({ name }) => name),
    ).toEqual(["harbor"]);
    for (const [tool, input] of [
      ["list_skills", {}],
      ["search_skills", { query: "a berth for ships" }],
    ] as const) {
      const { text: content } = await session.call(tool, input);
      expect(content).toContain("harbor");
      expect(content).not.toMatch(GONE);
    }
    expect(await session.formatListing()).not.toMatch(GONE);
    expect(session.listVisible().map(({ name }) => name)).toEqual([...OTHERS, "harbor"].sort());
    const { skills } = await session.activate("berth the ship");
    expect(skills).toEqual(["harbor"]);
  });

  it("[S-34] can still be called by a user if only their text is blocked, and never when disabled", async () => {
    const found = await discoverIn(FILES, { SKILLS_DIR: temporaryFolder() });
    const session = openSession(found.catalog, found);
    expect((await session.disclose("/other-system now")).suffix).toContain("Berth it there.");
    expect((await session.disclose("/switched-off now")).text).not.toMatch(GONE);
  });

  it("[S-34] are not in the instructions of the AI SDK", async () => {
    const found = await discoverIn(FILES, { SKILLS_DIR: temporaryFolder() });
    const skills = await createSkillToolset(openSession(found.catalog, found));
    const { instructions, prompt } = await skills.promptFor("find a berth in the harbor for our ship");
    for (const text of [await skills.instructions(), await skills.instructionsFor("berth"), instructions, prompt]) {
      expect(text).toContain("harbor");
      expect(text).not.toMatch(GONE);
    }
  });

  it.each(ERAS)(
    "[S-34] are not in instructions, prompts, resources or search results of an MCP client of %s",
    async (era) => {
      const scene = await discoverIn(FILES, { SKILLS_DIR: temporaryFolder() });
      const { client, call } = await connectTo(servingOf(scene), { era });
      const prompts = (await client.listPrompts()).prompts.map(({ name }) => name);
      const resources = (await client.listResources()).resources.map(({ uri }) => uri);
      const listed = [await call("list_skills"), await call("search_skills", { query: "a berth for ships" })];
      for (const text of [client.getInstructions(), prompts, resources, listed].map((what) => JSON.stringify(what))) {
        expect(text).toContain("harbor");
        expect(text).not.toMatch(GONE);
      }
    },
  );

  it("[S-34] are shown by `list --all`, with the reason, and by `explain`", async () => {
    const cwd = temporaryFolder(
      Object.fromEntries(Object.entries(FILES).map(([path, text]) => [path.replace("home/.skillet/", ""), text])),
    );
    const env = { SKILLS_DIR: "none" };
    const { stdout } = await skillet(["list", "--all"], { cwd, env });
    expect(stdout).toContain("other-system");
    expect(stdout.replace(/\s+/g, " ")).toContain("is for plan9, not for");
    const explained = await skillet(["explain", "a ship needs a berth"], { cwd, env });
    expect(explained.stdout.replace(/\s+/g, " ")).toContain("other-system Skill 'other-system' is for plan9");
    const [, told = ""] = explained.stdout.split("The same for every query");
    expect(told).toContain("harbor");
    expect(told).not.toMatch(/other-system|other-tools/);
  });

  it("are visible to a program that asks for them", async () => {
    const found = await discoverIn(FILES, { SKILLS_DIR: temporaryFolder() });
    const isVisible = ({ name }: { name: string }) => name !== "other-system";
    expect((await disclose(found.catalog, "hello", { isVisible })).prefix).not.toContain("other-system");
  });
});
