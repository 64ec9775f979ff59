import { describe, expect, it, onTestFinished } from "vitest";
import { createAgentTools, openSession } from "../../src/agent/session/session.ts";
import { discoverIn } from "../support/discover.ts";
import { createCatalogOf } from "../support/skills.ts";
import { ownSkill, toolsetOf } from "../support/toolset.ts";

describe("tools for an agent framework", () => {
  it("have names that providers accept, an object schema, and return text even for a refused call", async () => {
    const tools = createAgentTools(openSession(await createCatalogOf({ greet: { body: "Say salve." } })));
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["load_skill", "search_skills"]));
    for (const { name, inputSchema } of tools) {
      expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(inputSchema).toMatchObject({ type: "object" });
    }
    const load = tools.find(({ name }) => name === "load_skill");
    expect(await load?.execute({ skill: "greet" })).toContain("Say salve.");
    expect(await load?.execute({ skill: "none" })).toMatch(/none/);
  });

  it("end on the framework's abort signal and ignore the rest of its context", async () => {
    const tools = createAgentTools(openSession(await createCatalogOf({ greet: {} })));
    const load = tools.find(({ name }) => name === "load_skill");
    expect(await load?.execute({ skill: "greet" }, { signal: "none" } as never)).toContain("Do greet.");
    expect(await load?.execute({ skill: "greet" }, { signal: AbortSignal.abort() })).not.toContain("Do greet.");
  });

  it("reach tools of a skill that is loaded later", async () => {
    const found = await discoverIn(ownSkill({ "toolsets/index.ts": toolsetOf({ one: 'return "it is 1"' }) }));
    const session = openSession(found.catalog, found);
    onTestFinished(() => session.close());
    const tools = createAgentTools(session);
    const call = (name: string, input: unknown) => tools.find((tool) => tool.name === name)?.execute(input);
    await call("load_skill", { skill: "x" });
    await session.ready();
    expect(await call("call_skill_tool", { tool: "x.one", input: {} })).toContain("it is 1");
    expect(createAgentTools(session).map(({ name }) => name)).toContain("x__one");
  });
});
