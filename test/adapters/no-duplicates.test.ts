import { describe, expect, it } from "vitest";
import type { ListingClient } from "../../src/catalog/client-listings.ts";
import { findNamesListedByClient } from "../../src/remote/clients/native-clients.ts";
import { discoverIn, type Scene } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { connectTo, ERAS, type Era, servingOf } from "../support/mcp-client.ts";
import { connectProcessClient, createHomeWith } from "../support/mcp-process.ts";

const FILES = {
  "home/.skillet/skills/everywhere/SKILL.md": skillText("everywhere"),
  "home/.claude/skills/for-claude/SKILL.md": skillText("for-claude", { body: "Do it for Claude." }),
  "home/.claude/skills/with-script/SKILL.md": skillText("with-script"),
  "home/.claude/skills/with-script/scripts/go.sh": "#!/bin/sh\necho went\n",
  "home/.claude/skills/forked/SKILL.md": skillText("forked", { more: "context: fork\n" }),
  "home/.codex/skills/for-codex/SKILL.md": skillText("for-codex"),
  "home/.codex/skills/.system/creator/SKILL.md": skillText("creator"),
  "home/.codex/skills/.system/creator/scripts/make.sh": "#!/bin/sh\necho made\n",
  "home/.gemini/skills/for-gemini/SKILL.md": skillText("for-gemini"),
  "home/.copilot/skills/too-long/SKILL.md": skillText("too-long", {
    description: `Long. ${"Use when long. ".repeat(80)}`,
  }),
};
const NAMES = ["everywhere", "for-claude", "with-script", "forked", "for-codex", "creator", "for-gemini", "too-long"];

/** Clients as they announce themselves, and the skills that each lists itself. */
const CLIENTS: readonly (readonly [name: string, leftOut: readonly string[]])[] = [
  ["claude-code", ["for-claude"]],
  ["codex-mcp-client", ["for-codex", "creator"]],
  ["gemini-cli-mcp-client", ["for-gemini"]],
  ["opencode", ["for-claude"]],
  ["copilot-cli", []],
  ["some-other-client", []],
];

function serving(scene: Scene, only: readonly string[] = NAMES) {
  return servingOf(scene, {
    only,
    listedByClient: (client, catalog) => findNamesListedByClient({ ...scene, catalog }, client),
  });
}

async function listsOf({ client, call }: Pick<Awaited<ReturnType<typeof connectTo>>, "client" | "call">) {
  const { tools } = await client.listTools();
  const load = tools.find(({ name }) => name === "load_skill")?.description ?? "";
  const { text, structured } = await call("list_skills");
  const shown = `${client.getInstructions() ?? ""}\n${load}`;
  const { skills, note } = structured as { skills: { name: string }[]; note?: string };
  return { listed: [...shown.matchAll(/^- ([\w-]+)/gm)].map(([, name = ""]) => name), shown, text, skills, note };
}

describe.each(ERAS)("a client of %s that reads skills itself", (era: Era) => {
  it.each(CLIENTS)("[A-08] does not get the text-only ones again: %s", async (name, leftOut) => {
    const connected = await connectTo(serving(await discoverIn(FILES)), { era, name });
    const { listed, shown, text, skills, note } = await listsOf(connected);
    const expected = NAMES.filter((one) => !leftOut.includes(one)).toSorted();
    expect([...new Set(listed)].toSorted()).toEqual(expected);
    expect(skills.map((skill) => skill.name).toSorted()).toEqual(expected);
    for (const one of leftOut) expect(`${shown}\n${text}`).not.toMatch(new RegExp(`(?<![\\w-])${one}(?![\\w-])`));
    if (leftOut.length === 0) expect(note).toBeUndefined();
    else {
      const sentence = `${leftOut.length} more ${leftOut.length === 1 ? "skill is" : "skills are"} not repeated here`;
      expect(note).toContain(sentence);
      expect(shown).toContain(sentence);
    }
  });

  it("[A-08] can still load them by name", async () => {
    const { call } = await connectTo(serving(await discoverIn(FILES)), { era, name: "claude-code" });
    const { text, isError } = await call("load_skill", { skill: "for-claude" });
    expect(isError).toBe(false);
    expect(text).toContain("Do it for Claude.");
  });

  it("[A-08] gets the others from a process, and all with --all", async () => {
    const place = createHomeWith(FILES);
    const namesFor = async (...args: string[]) => {
      const connected = await connectProcessClient(place, {
        era,
        name: "claude-code",
        args: ["--only", ...NAMES, ...args],
      });
      return (await listsOf(connected)).skills.map(({ name }) => name).toSorted();
    };
    expect(await namesFor()).toEqual(NAMES.filter((name) => name !== "for-claude").toSorted());
    expect(await namesFor("--all")).toEqual(NAMES.toSorted());
  });
});

describe("a skill that a client lists itself", () => {
  const namesIn = async (files: Record<string, string>, client: ListingClient = "claude") => [
    ...(await findNamesListedByClient(await discoverIn(files), client)),
  ];

  it("[A-08] is recognized in a folder that does not count here", async () => {
    const text = skillText("twin");
    expect(await namesIn({ ".agents/skills/twin/SKILL.md": text, ".claude/skills/twin/SKILL.md": text })).toEqual([
      "twin",
    ]);
  });

  it("[A-08] is distinguished from another version of the skill", async () => {
    const files = {
      ".agents/skills/twin/SKILL.md": skillText("twin", { body: "The one that counts." }),
      ".claude/skills/twin/SKILL.md": skillText("twin", { body: "Another one." }),
    };
    expect(await namesIn(files)).toEqual([]);
  });
});
