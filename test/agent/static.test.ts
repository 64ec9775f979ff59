import { describe, expect, it } from "vitest";
import { createSkillToolset } from "../../src/adapters/ai-sdk/index.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { createSettings } from "../../src/config/settings-schema.ts";
import { skillet } from "../support/command.ts";
import { connectTo, servingOf } from "../support/mcp-client.ts";
import { createCatalogOf } from "../support/skills.ts";
import { useScene } from "../support/use.ts";

const SKILLS = {
  "code-review": { more: "triggers:\n  keywords: [review]\n", body: "SECRET BODY of review." },
  research: { body: "SECRET BODY of research." },
};
const LISTING = `## Skills

Before replying, check if any available skill matches the user's request.
If one clearly applies, invoke it with \`use_skill\`. If none apply, respond directly.

- **code-review**: Does code-review. Use when asked for code-review.
- **research**: Does research. Use when asked for research.`;
const STATIC = '[disclosure]\nmode = "static"\n';
const NO_BUNDLED = { SKILLS_DIR: "/nonexistent" };

describe("the static disclosure mode", () => {
  it("[S-14] is the text of a chat, in which a triggered or named skill is used and not injected", async () => {
    const { found, server } = await useScene({
      skills: SKILLS,
      config: STATIC,
      env: NO_BUNDLED,
      turns: [
        () => [{ tool: "use_skill", input: { skill: "code-review", message: "Look at it." } }],
        () => "Two findings.",
        () => "There are two findings.",
      ],
    });
    const session = openSession(found.catalog, found);
    const result = await createConversation(session, found).send("use the code-review skill for a review");
    expect(result.content).toBe("There are two findings.");
    const [first, child, last] = server.requests;
    expect(first?.instructions.endsWith(LISTING)).toBe(true);
    expect(last?.instructions).toBe(first?.instructions);
    expect(JSON.stringify([first, last])).not.toContain("SECRET BODY");
    expect(child?.instructions).toContain("SECRET BODY of review.");
  });

  it("[S-14] is the text of the library, the toolset and `explain`, whatever the query", async () => {
    const { found } = await useScene({ skills: SKILLS, config: STATIC, env: NO_BUNDLED, turns: [] });
    const session = openSession(found.catalog, found);
    for (const query of ["", "review this", "what can you do?", "/research now"]) {
      const { tier, text, prefix, suffix, shown } = await session.disclose(query, {
        shortlist: true,
        countInPrefix: true,
      });
      expect({ tier, text, prefix, suffix, shown }).toEqual({
        ...{ tier: "registry", text: LISTING, prefix: LISTING, suffix: "", shown: [] },
      });
    }
    expect(await session.formatListing()).toBe(LISTING);
    const toolset = await createSkillToolset(session);
    expect(await toolset.instructions()).toBe(LISTING);
    expect(await toolset.instructionsFor("review this")).toBe(LISTING);
    expect((await session.advise("review this")).kind).toBe("none");
    const env = { HOME: `${found.root}/home`, ...NO_BUNDLED, ANTHROPIC_API_KEY: "x" };
    const { stdout } = await skillet(["explain", "review this", "--json"], { cwd: `${found.root}/project`, env });
    expect(JSON.parse(stdout)).toMatchObject({ tier: "registry", reason: "the disclosure mode is static" });
  });

  it("[S-14] is the text that an MCP client receives", async () => {
    const { found } = await useScene({ skills: SKILLS, config: STATIC, env: NO_BUNDLED, turns: [] });
    const { client } = await connectTo(servingOf(found), { name: "claude-code" });
    expect(client.getInstructions()).toBe(LISTING);
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toContain("use_skill");
  });

  it("[S-14] has the path where a folder is mounted, and shortens descriptions that do not fit", async () => {
    const catalog = await createCatalogOf({ deploy: { description: "Deploys. ".repeat(40).trim() }, other: {} });
    const model = { name: "m", respond: async () => Promise.reject(new Error("not asked")) };
    const settings = createSettings({ disclosure: { mode: "static", listingBudget: 120 } });
    const host = { settings, models: { default: model } };
    const text = (await openSession(catalog, host).disclose("x")).text;
    expect(text.length).toBeLessThanOrEqual(480);
    expect(text).toMatch(/^## Skills\n\nBefore replying.*\n\n- \*\*deploy\*\*: Deploys\./s);
    expect(text).toContain("shortened to fit");
    const mounted = {
      ...host,
      settings: createSettings({ disclosure: { mode: "static" } }),
      resolveFolder: () => "/skill",
    };
    expect((await openSession(catalog, mounted).disclose("x")).text).toContain("- **other**: Skill other. (/skill)");
  });

  it("[S-14] has no effect where skills cannot be used: the list would name a tool that is not offered", async () => {
    const catalog = await createCatalogOf({ deploy: {} });
    const settings = createSettings({ disclosure: { mode: "static" } });
    const session = openSession(catalog, { settings });
    expect(session.disclosureMode).toBe("adaptive");
    expect((await session.disclose("x")).text).not.toContain("use_skill");
  });
});
