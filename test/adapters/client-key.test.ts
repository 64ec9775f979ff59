import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { createHomeWith, startMcpProcess } from "../support/mcp-process.ts";
import { startModelServer } from "../support/model-server.ts";
import { waitFor } from "../support/wait-for.ts";

const SKILLS = { "home/.skillet/skills/greet/SKILL.md": skillText("greet") };
const KEY = "sk-of-the-client";

/** A model at the client's own address, whose key the client passes on. */
async function client({ configuration, more }: { configuration?: string; more?: string } = {}) {
  const model = await startModelServer("anthropic", () => "Hello from the model", {
    apiKey: KEY,
    model: "claude-sonnet-5-5",
  });
  const skill = skillText("greet", more === undefined ? {} : { more });
  const place = createHomeWith({ "home/.skillet/skills/greet/SKILL.md": skill });
  if (configuration !== undefined) writeFiles(place.cwd, { ".skillet/config.toml": configuration });
  const env = { ANTHROPIC_API_KEY: KEY, ANTHROPIC_BASE_URL: model.url };
  const server = startMcpProcess(place, [], { env });
  await server.initialize();
  const use = async () => (await server.call("use_skill", { skill: "greet", message: "Greet." })).result;
  return { model, place, use };
}

describe("the API key that a client passes to the server", () => {
  it("is not used without consent, and is used from the moment that the user allows it", async () => {
    const { model, place, use } = await client();
    const refused = await use();
    expect(refused).toMatchObject({ isError: true, _meta: { "skillet/code": "client-key-consent" } });
    expect(refused.content[0].text).toContain("ANTHROPIC_API_KEY");
    expect(refused.content[0].text).toContain("skillet config set mcp.use_client_key true");
    expect(JSON.stringify(refused)).not.toContain(KEY);
    expect(model.requests).toHaveLength(0);
    await skillet(["config", "set", "mcp.use_client_key", "true"], { cwd: place.cwd, env: { HOME: place.home } });
    await waitFor(async () => expect(await use()).not.toMatchObject({ isError: true }));
    expect(model.requests.length).toBeGreaterThan(0);
  });

  it("[Q-26] is not used because a workspace allows it", async () => {
    const { model, use } = await client({ configuration: "[mcp]\nuse_client_key = true\n" });
    expect(await use()).toMatchObject({ isError: true });
    expect(model.requests).toHaveLength(0);
  });

  it("is not used by a skill that names a model of that provider", async () => {
    const { model, use } = await client({ more: "model: anthropic/claude-opus-5-5\n" });
    expect(await use()).toMatchObject({ isError: true, _meta: { "skillet/code": "client-key-consent" } });
    expect(model.requests).toHaveLength(0);
  });

  it("does not matter if the user configured a key for skillet", async () => {
    const model = await startModelServer("anthropic", () => "Hello from the model", { apiKey: "sk-of-ours" });
    const config = `[models.default]\nprovider = "anthropic"\nmodel = "test-model"\nbase_url = "${model.url}"\napi_key = "sk-of-ours"\n`;
    const place = createHomeWith({ ...SKILLS, "home/.skillet/config.toml": config });
    const server = startMcpProcess(place, [], { env: { ANTHROPIC_API_KEY: KEY } });
    await server.initialize();
    const { result } = await server.call("use_skill", { skill: "greet", message: "Greet." });
    expect(result.isError ?? false, JSON.stringify(result)).toBe(false);
    expect(model.requests.length).toBeGreaterThan(0);
  });
});
