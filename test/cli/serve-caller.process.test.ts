import { chmodSync, chownSync, existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { connectClient, negotiation } from "../support/mcp-client.ts";
import { ORDINARY_USER } from "../support/ordinary-user.ts";

const HOME = ".skillet/skills";

/** Lists the names of a home's own skills on an HTTP server. */
async function listed(...options: string[]): Promise<string[]> {
  const home = temporaryFolder({
    [`${HOME}/mine/SKILL.md`]: skillText("mine"),
    [`${HOME}/diary/SKILL.md`]: skillText("diary", { more: "sensitive: true\n" }),
    ".skillet/config.toml": '[skills.mine]\nallow_chat_ids = ["terminal", "42"]\n',
  });
  const over = new AbortController();
  const url = Promise.withResolvers<string>();
  const ran = skillet(["serve", "--http", "127.0.0.1:0", "--no-token", "--json", ...options], {
    env: { HOME: home },
    signal: over.signal,
    onOutput: (text) => url.resolve(JSON.parse(text).url),
  });
  const client = new Client({ name: "test", version: "1.0.0" }, negotiation("2025-11-25"));
  await client.connect(new StreamableHTTPClientTransport(new URL(await url.promise)));
  const { structured } = await connectClient(client).call("list_skills");
  await client.close();
  over.abort();
  expect((await ran).code).toBe(0);
  const skills = structured?.["skills"] as { name: string }[];
  return skills.map(({ name }) => name).filter((name) => ["mine", "diary"].includes(name));
}

describe("skillet serve --http", () => {
  /** Returns the status of `initialize` with this header, while a server runs. */
  async function served(options: string[], home: string, work: (url: string, said: () => string) => Promise<void>) {
    const over = new AbortController();
    const url = Promise.withResolvers<string>();
    let said = "";
    const ran = skillet(["serve", "--http", "127.0.0.1:0", ...options], {
      env: { HOME: home },
      signal: over.signal,
      onOutput: (text) => {
        said += text;
        const [found] = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(said) ?? [];
        if (found) url.resolve(found);
      },
    });
    await work(await url.promise, () => said);
    over.abort();
    return ran;
  }
  const initialize = async (url: string, authorization?: string) => {
    const client = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(authorization === undefined ? {} : { authorization }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: client }),
    });
    await response.body?.cancel();
    return response.status;
  };

  it("[Q-30] answers no request without the token, which it creates once, for the user alone", async () => {
    const home = temporaryFolder({});
    const file = join(home, ".skillet/serve-token");
    const first = await served([], home, async (url) => {
      const token = readFileSync(file, "utf8").trim();
      expect(token).toMatch(/^[\w-]{43}$/);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(await initialize(url)).toBe(401);
      expect(await initialize(url, "Bearer wrong-wrong-wrong-wrong")).toBe(401);
      expect(await initialize(url, `Bearer ${token}`)).toBe(200);
    });
    const token = readFileSync(file, "utf8").trim();
    expect(first.stderr, "shown once").toContain(token);
    expect(first.stderr).toContain("skillet connect CLIENT --url http://127.0.0.1:");
    const second = await served([], home, async (url) => expect(await initialize(url, `Bearer ${token}`)).toBe(200));
    expect(second.stderr + second.stdout).not.toContain(token);
    expect(second.stderr).toContain("the token is in ~/.skillet/serve-token");
  });

  it("[Q-30] accepts requests without a token only with --no-token, and warns", async () => {
    const home = temporaryFolder({});
    const ran = await served(["--no-token"], home, async (url) => expect(await initialize(url)).toBe(200));
    expect(ran.stderr).toContain("every user and program on this machine can run these skills as you");
    expect(existsSync(join(home, ".skillet/serve-token"))).toBe(false);
  });

  it.each<[string, (file: string) => void, string]>([
    ["others can read", (file: string) => chmodSync(file, 0o644), "can be read by other users"],
    [
      "is a link",
      (file: string) => {
        rmSync(file);
        symlinkSync("/dev/zero", file);
      },
      "is not a token file",
    ],
    ["is too short", (file: string) => writeFileSync(file, "short\n"), "does not hold a token"],
  ])("[Q-30] refuses a token file that %s", async (_, spoil, says) => {
    const home = temporaryFolder({ ".skillet/serve-token": "abcdefghijklmnop-QRST\n" });
    const file = join(home, ".skillet/serve-token");
    chmodSync(file, 0o600);
    spoil(file);
    const { code, stderr } = await skillet(["serve", "--http", "127.0.0.1:0"], { env: { HOME: home } });
    expect(code).not.toBe(0);
    expect(stderr).toContain(says);
  });

  it.runIf(process.getuid?.() === 0)("[Q-30] refuses a token file that belongs to another user", async () => {
    const home = temporaryFolder({ ".skillet/serve-token": "abcdefghijklmnop-QRST\n" });
    const file = join(home, ".skillet/serve-token");
    chmodSync(file, 0o600);
    chownSync(file, ORDINARY_USER, -1);
    const { code, stderr } = await skillet(["serve", "--http", "127.0.0.1:0"], { env: { HOME: home } });
    expect(code).not.toBe(0);
    expect(stderr).toContain("belongs to another user");
  });

  it("[S-36] knows only the stated facts about its caller", async () => {
    expect(await listed()).toEqual([]);
    expect(await listed("--chat-type", "private")).toEqual(["diary"]);
    expect(await listed("--chat-id", "42")).toEqual(["mine"]);
    expect(await listed("--chat-type", "private", "--chat-id", "42")).toEqual(["diary", "mine"]);
  });
});
