import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { asClient, negotiation } from "../support/mcp-client.ts";

const HOME = ".skillet/skills";

/** The names of a home's own skills that a server over HTTP lists. */
async function listed(...options: string[]): Promise<string[]> {
  const home = temporaryFolder({
    [`${HOME}/mine/SKILL.md`]: skillText("mine"),
    [`${HOME}/diary/SKILL.md`]: skillText("diary", { more: "sensitive: true\n" }),
    ".skillet/config.toml": '[skills.mine]\nallow_chat_ids = ["terminal", "42"]\n',
  });
  const over = new AbortController();
  const url = Promise.withResolvers<string>();
  const ran = skillet(["serve", "--http", "127.0.0.1:0", "--json", ...options], {
    env: { HOME: home },
    signal: over.signal,
    onOutput: (text) => url.resolve(JSON.parse(text).url),
  });
  const client = new Client({ name: "test", version: "1.0.0" }, negotiation("2025-11-25"));
  await client.connect(new StreamableHTTPClientTransport(new URL(await url.promise)));
  const { structured } = await asClient(client).call("list_skills");
  await client.close();
  over.abort();
  expect((await ran).code).toBe(0);
  const skills = structured?.["skills"] as { name: string }[];
  return skills.map(({ name }) => name).filter((name) => ["mine", "diary"].includes(name));
}

describe("skillet serve --http", () => {
  it("[S-36] knows of its caller what is said, and nothing else", async () => {
    expect(await listed()).toEqual([]);
    expect(await listed("--chat-type", "private")).toEqual(["diary"]);
    expect(await listed("--chat-id", "42")).toEqual(["mine"]);
    expect(await listed("--chat-type", "private", "--chat-id", "42")).toEqual(["diary", "mine"]);
  });
});
