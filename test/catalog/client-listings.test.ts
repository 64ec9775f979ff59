import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  type ClientSkillText,
  findClientByMcpName,
  type ListingClient,
  simulateClientListing,
} from "../../src/catalog/client-listings.ts";
import { cuedSkills } from "./cued-skills.ts";

/** A client's own list in the first request of the real program: each name with the length and the end of its description. */
interface Captured {
  client: ListingClient;
  version: string;
  /** How many of `cuedSkills` were in the client's folder, and the other skills. */
  skills: number;
  extra: readonly string[];
  listed: readonly (readonly [name: string, length: number, end: string])[];
}

const FOLDER = join(import.meta.dirname, "..", "fixtures", "client-listings");
const CAPTURED = readdirSync(FOLDER).map((file): readonly [string, Captured] => [
  file.replace(".json", ""),
  JSON.parse(readFileSync(join(FOLDER, file), "utf8")),
]);

const SENTENCE = "Handles length, mass, volume and temperature in every common notation. ";
const LONG = `Converts measurement tables between unit systems. Use when the user asks to convert units. ${SENTENCE.repeat(40)}`;
const EXTRA: Record<string, string> = {
  "zz-long-1093": LONG.slice(0, 1093),
  "zz-long-1618": LONG.slice(0, 1618),
  "zz-tiny": "Runs it.",
};

function skillsOf({ skills, extra }: Captured): ClientSkillText[] {
  return [...cuedSkills(skills), ...extra.map((name) => ({ name, description: EXTRA[name] ?? "" }))];
}

describe("a client's own list, compared with requests of the real program", () => {
  it.each(CAPTURED)("%s", (file, captured) => {
    const ours = simulateClientListing(captured.client, skillsOf(captured)).filter(({ shown }) => shown !== "dropped");
    expect(ours.map(({ name }) => name).sort()).toEqual(captured.listed.map(([name]) => name).sort());
    const real = new Map(captured.listed.map(([name, length, end]) => [name, { length, end }]));
    for (const { name, description } of ours) {
      const { length = -1, end } = real.get(name) ?? {};
      // Codex distributes the rest by the character: a description may be a few longer or shorter.
      if (file === "codex-200") expect(Math.abs(description.length - length), name).toBeLessThanOrEqual(6);
      else expect({ name, length: description.length, end: description.slice(-12) }).toEqual({ name, length, end });
    }
  });

  it("drops what GitHub Copilot CLI drops, and nothing for other clients", () => {
    const skills = Object.entries(EXTRA).map(([name, description]) => ({ name, description }));
    const dropped = (client: ListingClient) =>
      simulateClientListing(client, skills).flatMap(({ name, shown }) => (shown === "dropped" ? name : []));
    expect(dropped("copilot")).toEqual(["zz-long-1093", "zz-long-1618"]);
    for (const client of ["claude", "codex", "gemini", "opencode"] as const) expect(dropped(client)).toEqual([]);
  });

  it("has when_to_use for Claude Code alone", () => {
    const skills = [{ name: "a", description: "Does a.", whenToUse: "When asked for a." }];
    expect(simulateClientListing("claude", skills)).toMatchObject([
      { description: "Does a. - When asked for a.", hasUseWhen: true },
    ]);
    expect(simulateClientListing("codex", skills)).toMatchObject([{ description: "Does a.", hasUseWhen: false }]);
  });
});

it("knows clients by the names that they announce over MCP", () => {
  const names = [
    "claude-code",
    "codex-mcp-client",
    "gemini-cli-mcp-client",
    "opencode",
    "copilot-cli",
    "cursor-vscode",
  ];
  expect(names.map(findClientByMcpName)).toEqual(["claude", "codex", "gemini", "opencode", "copilot", undefined]);
});
