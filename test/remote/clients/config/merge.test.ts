import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MCP_CLIENTS } from "../../../../src/remote/clients/mcp-clients.ts";
import { loadConfigLanguage, mergeMcpSnippet } from "../../../../src/remote/clients/mcp-config.ts";

const COMMAND = { command: "/opt/node", args: ["/opt/bin/skillet.cjs", "serve"] };

async function merge(
  name: string,
  text: string,
  server: Parameters<(typeof MCP_CLIENTS)[string]["entry"]>[0] = COMMAND,
) {
  const client = MCP_CLIENTS[name];
  if (!client) throw new Error(name);
  const { format } = client;
  const language = await loadConfigLanguage(format);
  const document = text.trim() === "" ? {} : language.parse(text);
  const snippet = { format, path: [...client.servers(document), "skillet"], entry: client.entry(server) };
  return { next: mergeMcpSnippet(text, snippet, client, language).text, parse: language.parse };
}

const entryOf = (document: unknown, ...path: string[]) =>
  path.reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], document);

describe("a snippet in a TOML text", () => {
  const codex = async (text: string, server?: Parameters<typeof merge>[2]) => (await merge("codex", text, server)).next;
  const TABLE = '[mcp_servers.skillet]\ncommand = "/opt/node"\nargs = ["/opt/bin/skillet.cjs", "serve"]\n';

  it("is a separate table at the end", async () => {
    expect(await codex("")).toBe(TABLE);
    expect(await codex("# mine\nmodel = 'x'\n")).toBe(`# mine\nmodel = 'x'\n\n${TABLE}`);
    expect(await codex("model = 'x'"), "without a last line end").toBe(`model = 'x'\n\n${TABLE}`);
    expect(await codex("model = 'x'\r\n")).toBe(`model = 'x'\r\n\r\n${TABLE.replaceAll("\n", "\r\n")}`);
  });

  it("is added next to tables, lists of tables, dotted and quoted keys", async () => {
    const text = [
      'mcp_servers.dotted.command = "d"',
      '[mcp_servers."a.b"] # quoted',
      "command = 'x'",
      "[mcp_servers.other.env]",
      'KEY = "v"',
      "[[profiles]]",
      'name = "[mcp_servers.skillet]"',
      "[[profiles]]",
      "when = 2026-01-01T00:00:00Z",
      "",
    ].join("\n");
    const { next, parse } = await merge("codex", text);
    expect(next).toBe(`${text}\n${TABLE}`);
    expect(entryOf(parse(next), "mcp_servers", "skillet")).toEqual(COMMAND);
  });

  it("updates its own keys in place, and keeps added ones", async () => {
    const text =
      '[mcp_servers.skillet] # mine\ncommand = "/old/node" # node\nargs = [\n  "/old/skillet.cjs", # bin\n  "serve",\n]\nstartup_timeout_sec = 30\n[mcp_servers.skillet.env]\nA = "b"\n[x]\ny = 1\n';
    expect(await codex(text)).toBe(
      '[mcp_servers.skillet] # mine\ncommand = "/opt/node" # node\nargs = ["/opt/bin/skillet.cjs", "serve"]\nstartup_timeout_sec = 30\n[mcp_servers.skillet.env]\nA = "b"\n[x]\ny = 1\n',
    );
  });

  it("removes keys that Codex does not accept next to an address", async () => {
    const text = `${TABLE}enabled = true\n[mcp_servers.skillet.env]\n[x]\ny = 1\n`;
    const { next, parse } = await merge("codex", text, { url: "https://a.example/mcp", hasToken: true });
    expect(parse(next)).toEqual({
      mcp_servers: { skillet: { enabled: true, url: "https://a.example/mcp", bearer_token_env_var: "SKILLET_TOKEN" } },
      x: { y: 1 },
    });
  });

  it("fills an empty table", async () => {
    const text = "[mcp_servers.skillet] # mine\n\n[x]\ny = 1\n";
    const { next, parse } = await merge("codex", text);
    expect(next).toContain("[mcp_servers.skillet] # mine\n");
    expect(parse(next)).toEqual({ mcp_servers: { skillet: COMMAND }, x: { y: 1 } });
  });

  it("is refused next to a number that would change, in a valid text", async () => {
    for (const number of ["9007199254740993", "-9223372036854775808", "0xfffffffffffffff"])
      await expect(codex(`a = 1\nb = ${number}\n`)).rejects.toThrow(
        /^has a number that is too large to be kept exactly: line 2$/,
      );
    expect(await codex("b = 9007199254740991\n")).toBe(`b = 9007199254740991\n\n${TABLE}`);
  });

  it("does not change a text that contains it already", async () => {
    for (const text of [
      TABLE,
      `mcp_servers.skillet.${TABLE.split("\n")[1]}\nmcp_servers.skillet.${TABLE.split("\n")[2]}`,
    ])
      expect(await codex(text)).toBe(text);
  });

  it("is refused when only the user can add it, and for an invalid text", async () => {
    for (const text of ["mcp_servers = {}", 'mcp_servers = { a = { command = "x" } }'])
      await expect(codex(text), text).rejects.toThrow(/has mcp_servers in a form that can only be edited by hand/);
    await expect(codex("mcp_servers = []")).rejects.toThrow(/has mcp_servers, which is not an object/);
    await expect(codex("[[mcp_servers.skillet]]\na = 1")).rejects.toThrow(/has mcp_servers.skillet, which is not/);
    await expect(codex("a = 1\nb = sesame")).rejects.toThrow(/^is not valid TOML: line 2$/);
  });

  it("does not replace a foreign server, and quotes only its program", async () => {
    const text = '[mcp_servers.skillet]\ncommand = "npx"\nargs = ["--key", "sesame"]\nenv = { KEY = "sesame" }\n';
    const error = await codex(text).catch((reason) => reason);
    expect(error).toMatchObject({ code: "server-name-taken" });
    expect(error.message).toBe('already has mcp_servers.skillet, which starts "npx"');
  });
});

describe("a snippet in a JSON text", () => {
  const cursor = async (text: string, server?: Parameters<typeof merge>[2]) =>
    (await merge("cursor", text, server)).next;

  it("is the only content of an empty text", async () => {
    for (const text of ["", "\n", "  \r\n"])
      expect(JSON.parse(await cursor(text))).toEqual({ mcpServers: { skillet: { type: "stdio", ...COMMAND } } });
  });

  it("comes after the comments in a text without other content", async () => {
    for (const text of ["// mine", "// mine\n", "/* mine */\n\n", "// mine\r\n/* {} */\r\n"]) {
      const { next, parse } = await merge("cursor", text);
      expect(next.startsWith(text.trimEnd()), text).toBe(true);
      expect(next.replaceAll("\r\n", "").includes("\n")).toBe(!text.includes("\r"));
      expect(parse(next)).toEqual({ mcpServers: { skillet: { type: "stdio", ...COMMAND } } });
      expect((await merge("cursor", next)).next).toBe(next);
    }
    await expect(cursor("/* mine")).rejects.toThrow(/^is not valid JSON: line 1$/);
  });

  it("fills an empty entry", async () => {
    expect(JSON.parse(await cursor('{"mcpServers": {"skillet": {}, "a": {"command": "a"}}}'))).toEqual({
      mcpServers: { skillet: { type: "stdio", ...COMMAND }, a: { command: "a" } },
    });
  });

  it("updates its own keys in place, and keeps added ones", async () => {
    const text =
      '{\n  "mcpServers": {\n    "skillet": {\n      // mine\n      "type": "stdio",\n      "command": "node", // any\n      "args": ["/old/skillet.cjs", "serve"],\n      "env": { "A": "b" },\n    },\n  },\n}\n';
    expect(await cursor(text)).toBe(
      text.replace('"node"', '"/opt/node"').replace("/old/skillet.cjs", "/opt/bin/skillet.cjs"),
    );
    const bare = text.replace('{ "A": "b" }', "{}");
    const { next, parse } = await merge("cursor", bare, { url: "https://a.example/mcp", hasToken: true });
    expect(next).toContain("// mine\n");
    expect(parse(next)).toEqual({
      mcpServers: {
        skillet: { url: "https://a.example/mcp", headers: { Authorization: "Bearer ${env:SKILLET_TOKEN}" } },
      },
    });
  });

  it("keeps comments and numbers in an entry that loses outdated keys", async () => {
    const text =
      '{\n  "mcpServers": {\n    // ours\n    "skillet": { // here\n      "command": "node",\n      "args": ["/old/skillet.cjs", "serve"], // bin\n      // long\n      "timeout": 12345678901234567890,\n      "trust": true,\n      "env": {}\n    }\n  }\n}\n';
    const { next } = await merge("gemini", text, { url: "https://a.example/mcp", hasToken: false });
    expect(next).toBe(
      '{\n  "mcpServers": {\n    // ours\n    "skillet": { // here\n      // bin\n      // long\n      "timeout": 12345678901234567890,\n      "trust": true,\n      "url": "https://a.example/mcp",\n      "type": "http"\n    }\n  }\n}\n',
    );
  });

  it("keeps added headers, and a disabled server", async () => {
    const url = "https://a.example/mcp";
    const text = JSON.stringify({
      mcp: { skillet: { type: "remote", url, enabled: false, headers: { "X-Team": "a" } } },
    });
    const { next } = await merge("opencode", text, { url, hasToken: true });
    expect(JSON.parse(next)).toEqual({
      mcp: {
        skillet: {
          type: "remote",
          url,
          enabled: false,
          headers: { "X-Team": "a", Authorization: "Bearer {env:SKILLET_TOKEN}" },
        },
      },
    });
  });

  it("replaces an older spelling of its address", async () => {
    const url = "https://a.example/mcp";
    const text = JSON.stringify({ mcpServers: { skillet: { httpUrl: url, trust: true } } }, null, 2);
    const { next } = await merge("gemini", text, { url, hasToken: false });
    expect(JSON.parse(next)).toEqual({ mcpServers: { skillet: { trust: true, url, type: "http" } } });
  });

  it("recognizes its own entry by the program, however it is started", async () => {
    for (const words of [
      ["npx", "-y", "skillet", "serve"],
      ["/x/node_modules/.bin/skillet", "serve", "--only", "a"],
      ["C:\\node.exe", "C:\\x\\bin\\skillet.cjs", "serve"],
    ]) {
      const [command, ...args] = words;
      expect(await cursor(JSON.stringify({ mcpServers: { skillet: { command, args } } }))).toContain(
        "/opt/bin/skillet.cjs",
      );
      const list = JSON.stringify({ mcp: { skillet: { type: "local", command: words } } });
      expect((await merge("opencode", list)).next).toContain("/opt/bin/skillet.cjs");
    }
  });

  it("does not replace a foreign server, and quotes only its program or address", async () => {
    const secret = { env: { KEY: "sesame" }, headers: { Authorization: "sesame" } };
    for (const [entry, says] of [
      [{ command: "npx", args: ["sesame", "serve"], ...secret }, 'starts "npx"'],
      [{ command: "/x/skillet", args: ["list"], ...secret }, 'starts "/x/skillet"'],
      [{ url: "https://u:sesame@a.example/path?key=sesame", ...secret }, "calls https://a.example/path?…"],
      [{ url: "https://a.example/mcp" }, "calls https://a.example/mcp"],
      [{ url: "http://127.0.0.1:7400/other" }, "calls http://127.0.0.1:7400/other"],
      [{ url: "sesame" }, "calls another address"],
      [{ env: { KEY: "sesame" } }, "is another server"],
    ] as const) {
      const error = await cursor(JSON.stringify({ mcpServers: { skillet: entry } })).catch((reason) => reason);
      expect(error).toMatchObject({ code: "server-name-taken" });
      expect(error.message).toBe(`already has mcpServers.skillet, which ${says}`);
    }
  });

  it("is refused when another value is in the way, and for an invalid text", async () => {
    for (const text of ['{"mcpServers": []}', '{"mcpServers": null}', '{"mcpServers": "x"}'])
      await expect(cursor(text), text).rejects.toThrow("has mcpServers, which is not an object");
    await expect(cursor('{"mcpServers": {"skillet": []}}')).rejects.toThrow(
      "has mcpServers.skillet, which is not an object",
    );
    for (const text of ["[]", "null", '"x"']) await expect(cursor(text), text).rejects.toThrow("is not a JSON object");
    await expect(cursor('{\n  "a": 1\n  "sesame": 2\n}')).rejects.toThrow(/^is not valid JSON: line 3$/);
    for (const text of ["{", "sesame", "{} /* sesame", '{"a": "sesame'])
      await expect(cursor(text), text).rejects.toThrow(/^is not valid JSON(: line \d+)?$/);
  });

  it("keeps everything else in any document", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.dictionary(fc.string(), fc.object()),
        async (rest, servers) => {
          const { mcpServers: _mine, ...others } = rest;
          const { skillet: _ours, ...more } = servers;
          const before = JSON.parse(JSON.stringify({ ...others, mcpServers: more }));
          const next = await cursor(JSON.stringify(before, null, 2));
          const { skillet, ...kept } = JSON.parse(next).mcpServers;
          expect(skillet).toEqual({ type: "stdio", ...COMMAND });
          expect({ ...JSON.parse(next), mcpServers: kept }).toEqual(before);
          expect(await cursor(next)).toBe(next);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe("a snippet that replaces one of the other form", () => {
  const HERE = { url: "http://127.0.0.1:7400/mcp", hasToken: false };
  const TOKEN = { url: "http://localhost:1/mcp", hasToken: true };

  it.each(Object.keys(MCP_CLIENTS))("goes back and forth without additions: %s", async (name) => {
    const { next: started } = await merge(name, "");
    for (const server of [HERE, TOKEN]) {
      const { next: called, parse } = await merge(name, started, server);
      expect(parse(called)).toEqual(parse((await merge(name, "", server)).next));
      const { next: back } = await merge(name, called);
      expect(parse(back)).toEqual(parse(started));
    }
  });

  it("is refused when a key of the user would be lost, and names the key but not its value", async () => {
    const table =
      '[mcp_servers.skillet]\ncommand = "node"\nargs = ["/x/skillet.cjs", "serve", "--load", "a b"]\ncwd = "/sesame"\n[mcp_servers.skillet.env]\nKEY = "sesame"\n';
    const error = await merge("codex", table, HERE).catch((reason) => reason);
    expect(error).toMatchObject({ code: "unmanaged-keys", fix: expect.stringMatching(/remove these keys.+--name/) });
    expect(error.message).toBe(
      "already has mcp_servers.skillet, which starts `skillet serve --load 'a b'` and has your own keys that the new entry cannot keep: cwd, env",
    );
    const headers = { Authorization: "Bearer ${env:SKILLET_TOKEN}", "X-Key": "sesame" };
    const called = JSON.stringify({ servers: { skillet: { type: "http", url: HERE.url, headers } } });
    const back = await merge("vscode", called).catch((reason) => reason);
    expect(back.message).toBe(
      "already has servers.skillet, which calls http://127.0.0.1:7400/mcp and has your own keys that the new entry cannot keep: headers",
    );
    const both = JSON.stringify({ mcpServers: { skillet: { ...COMMAND, url: HERE.url, env: { KEY: "sesame" } } } });
    await expect(merge("gemini", both, HERE), "the same address").rejects.toThrow(/the new entry cannot keep: env$/);
  });

  it("recognizes its own entry on this machine by the path, and on others only by the whole address", async () => {
    const at = (url: string) => JSON.stringify({ mcpServers: { skillet: { url } } });
    for (const url of [HERE.url, "http://localhost:1/mcp", "http://[::1]:1/mcp", "https://a.localhost/mcp"])
      expect((await merge("cursor", at(url))).next, url).toContain("/opt/bin/skillet.cjs");
    for (const url of ["https://a.example/mcp", "http://127.0.0.1:1/x/mcp", "http://127.0.0.1.example/mcp"]) {
      await expect(merge("cursor", at(url)), url).rejects.toThrow(`which calls ${url}`);
      const { next, parse } = await merge("cursor", at(url), { url, hasToken: false });
      expect(parse(next), "the given one").toEqual(parse(at(url)));
    }
  });

  it("does not send headers for this machine to another host", async () => {
    const text = JSON.stringify({ mcpServers: { skillet: { url: HERE.url, headers: { "X-Key": "sesame" } } } });
    const { next } = await merge("cursor", text, { ...HERE, url: "http://127.0.0.1:7401/mcp" });
    expect(JSON.parse(next).mcpServers.skillet).toMatchObject({ url: "http://127.0.0.1:7401/mcp", headers: {} });
    const far = { url: "https://a.example/mcp", hasToken: true };
    await expect(merge("cursor", text, far)).rejects.toThrow(/the new entry cannot keep: headers$/);
    const bare = await merge("cursor", JSON.stringify({ mcpServers: { skillet: { url: HERE.url } } }), far);
    expect(JSON.parse(bare.next).mcpServers.skillet.url).toBe(far.url);
  });
});
