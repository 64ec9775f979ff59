import { describe, expect, it } from "vitest";
import { createSkillToolset } from "../../src/adapters/ai-sdk/index.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { type Model, NO_USAGE } from "../../src/host/model-contract.ts";
import { createCatalogOf, type Sketch } from "../support/skills.ts";
import { useScene } from "../support/use.ts";

const PLAIN: Record<string, Sketch> = {
  harbor: { description: "Berths ships in a harbor. Use when a ship needs a berth.", body: "Ask the harbor master." },
  ...Object.fromEntries(
    ["bread", "clocks", "gardens", "letters", "maps", "music", "poems", "shoes", "taxes", "trains"].map((name) => [
      name,
      { description: `Looks after ${name}. Use when ${name} are at issue.` },
    ]),
  ),
};
const MESSAGES = ["hello", "find a berth in the harbor for our ship", "/harbor now", "thanks"];

/** A model that records its requests. */
function listeningModel(contextWindow?: number) {
  const requests: { instructions: string; said: string[] }[] = [];
  const model: Model = {
    name: "test/listener",
    ...(contextWindow === undefined ? {} : { contextWindow }),
    async respond({ instructions, messages }) {
      requests.push({
        instructions,
        said: messages.flatMap((message) => (message.role === "user" ? message.text : [])),
      });
      return { text: "Yes.", calls: [], usage: NO_USAGE, finish: "stop" };
    },
  };
  return { model, requests };
}

async function chat(
  skills: Record<string, Sketch>,
  { contextWindow, disclosure = {} }: { contextWindow?: number; disclosure?: object } = {},
) {
  const { model, requests } = listeningModel(contextWindow);
  const host = { settings: { ...DEFAULT_SETTINGS, disclosure }, models: { default: model } };
  const conversation = createConversation(openSession(await createCatalogOf(skills), host), host);
  for (const message of MESSAGES) await conversation.send(message);
  return { requests, conversation };
}

describe("the prompts of a chat", () => {
  it("[A-04] keep one system prompt, and add the skills of a message after that message only", async () => {
    const { requests, conversation } = await chat(PLAIN);
    expect(new Set(requests.map(({ instructions }) => instructions)).size).toBe(1);
    expect(requests[0]?.instructions).toContain("- harbor: Berths ships in a harbor. Use when a ship needs a berth.");
    const last = requests.map(({ said }) => said.at(-1) ?? "");
    expect(last[0]).toBe("hello");
    expect(last[1]).toMatch(
      /^find a berth in the harbor for our ship\n\n\[Skills for this message; .*\]\nThese may fit\. Take one, or none:\n- harbor: Berths ships/,
    );
    expect(last[2]).toMatch(
      /^\/harbor now\n\n\[Skills for this message; .*\]\n[\s\S]*<skill_content name="harbor">\nAsk the harbor master\./,
    );
    expect(last[3]).toBe("thanks");
    // Earlier messages are sent byte by byte, so that a cache holds up to them.
    expect(requests[3]?.said.slice(0, 3)).toEqual(MESSAGES.slice(0, 3));
    const said = conversation.messages.flatMap((message) => (message.role === "user" ? message.text : []));
    expect(said).toEqual(MESSAGES);
  });

  it("[A-04] keep the system prompt even if every skill has triggers", async () => {
    const { requests } = await chat({ harbor: { ...PLAIN["harbor"], keywords: ["lighthouse"] } });
    expect(new Set(requests.map(({ instructions }) => instructions)).size).toBe(1);
    expect(requests[0]?.instructions).toMatch(/\[1 skills available\]$/);
    expect(requests[0]?.said).toEqual(["hello"]);
  });

  it("[A-03] give the list 1 % of the model's context window, unless the settings differ", async () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`skill-${index}`, {}]));
    const lengthOf = async (options: Parameters<typeof chat>[1]) => {
      const { requests } = await chat(many, options);
      const { instructions = "" } = requests[0] ?? {};
      return instructions.length - instructions.indexOf("[200 skills");
    };
    expect(await lengthOf({ contextWindow: 30_000 })).toBeLessThanOrEqual(1200);
    expect(await lengthOf({ contextWindow: 100_000 })).toBeGreaterThan(3500);
    expect(await lengthOf({ contextWindow: 100_000 })).toBeLessThanOrEqual(4000);
    expect(await lengthOf({ contextWindow: 100_000, disclosure: { listingBudget: 100 } })).toBeLessThanOrEqual(400);
  });

  it("[A-03] take a model's window from the configuration", async () => {
    const skills = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`skill-${index}`, {}]));
    const { found, server } = await useScene({ skills, turns: () => "Yes." });
    const settings = {
      ...found.settings,
      models: new Map([...found.settings.models].map(([alias, one]) => [alias, { ...one, contextWindow: 10_000 }])),
    };
    const host = { ...found, settings };
    await createConversation(openSession(found.catalog, host), host).send("hello");
    const [{ instructions = "" } = {}] = server.requests;
    const listing = instructions.slice(instructions.indexOf(" skills available]"));
    expect(listing).toContain("skill-0");
    expect(listing.length).toBeLessThanOrEqual(400);
  });
});

describe("the prompts for the AI SDK", () => {
  it("[A-04] have instructions that do not depend on the query, and the query with the matching skills", async () => {
    const skills = await createSkillToolset(openSession(await createCatalogOf(PLAIN)));
    const prompts = await Promise.all(MESSAGES.map((message) => skills.promptFor(message)));
    expect(new Set(prompts.map(({ instructions }) => instructions)).size).toBe(1);
    expect(prompts[0]?.prompt).toBe("hello");
    expect(prompts[1]?.prompt).toMatch(/^find a berth .*\n\nThese may fit\. Take one, or none:\n- harbor: Berths/);
    expect(prompts[2]?.prompt).toContain("Ask the harbor master.");
    const [first] = prompts;
    expect(await skills.instructionsFor("hello")).toBe(first?.instructions);
  });
});
