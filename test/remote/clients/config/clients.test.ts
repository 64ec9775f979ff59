import { describe, expect, it } from "vitest";
import {
  type ConfigScope,
  MCP_CLIENTS,
  type McpClientEnvironment,
} from "../../../../src/remote/clients/mcp-clients.ts";
import { formatSnippet } from "../../../../src/remote/clients/mcp-config.ts";
import { MCP_CLIENT_NAMES } from "../../../../src/skill/clients.ts";
import { temporaryFolder, writeFiles } from "../../../support/folder.ts";

const STARTED = { command: "/opt/node", args: ["/opt/skillet.cjs", "serve", "--only", "a b"] };
const CALLED = { url: "https://skills.example/mcp", hasToken: true };
const OPEN = { url: "http://127.0.0.1:7400/mcp", hasToken: false };
const environment: McpClientEnvironment = { home: "/home/ann", workspace: "/work/site", env: {}, platform: "linux" };

function texts(name: string, document?: unknown): string[] {
  const client = MCP_CLIENTS[name];
  if (!client) throw new Error(name);
  return [STARTED, CALLED, OPEN].map((server) =>
    formatSnippet({
      format: client.format,
      path: [...client.servers(document), "skillet"],
      entry: client.entry(server),
    }),
  );
}

describe("the table of client configurations", () => {
  it("has a row for each client of the command line", () => {
    expect(Object.keys(MCP_CLIENTS)).toEqual(MCP_CLIENT_NAMES);
  });

  it("has the files that they read", () => {
    const files = (at: McpClientEnvironment) =>
      Object.values(MCP_CLIENTS).map((client) => [client.user(at), client.project(at)]);
    expect(files(environment)).toEqual([
      ["/home/ann/.claude.json", "/work/site/.mcp.json"],
      ["/home/ann/.codex/config.toml", "/work/site/.codex/config.toml"],
      ["/home/ann/.gemini/settings.json", "/work/site/.gemini/settings.json"],
      ["/home/ann/.config/opencode/opencode.json", "/work/site/opencode.json"],
      ["/home/ann/.copilot/mcp-config.json", "/work/site/.mcp.json"],
      ["/home/ann/.config/Code/User/mcp.json", "/work/site/.vscode/mcp.json"],
      ["/home/ann/.cursor/mcp.json", "/work/site/.cursor/mcp.json"],
    ]);
    const env = { CLAUDE_CONFIG_DIR: "/c", CODEX_HOME: "/x", GEMINI_CLI_HOME: "/g", XDG_CONFIG_HOME: "/xdg" };
    expect(files({ ...environment, env }).map(([user]) => user)).toEqual([
      "/c/.claude.json",
      "/x/config.toml",
      "/g/.gemini/settings.json",
      "/xdg/opencode/opencode.json",
      "/home/ann/.copilot/mcp-config.json",
      "/xdg/Code/User/mcp.json",
      "/home/ann/.cursor/mcp.json",
    ]);
    expect(MCP_CLIENTS["vscode"]?.user({ ...environment, platform: "darwin" })).toBe(
      "/home/ann/Library/Application Support/Code/User/mcp.json",
    );
    expect(MCP_CLIENTS["vscode"]?.user({ ...environment, platform: "win32", env: { APPDATA: "/roaming" } })).toBe(
      "/roaming/Code/User/mcp.json",
    );
  });

  it("accepts comments in the file of OpenCode", () => {
    const workspace = temporaryFolder({ "opencode.json": "{}" });
    expect(MCP_CLIENTS["opencode"]?.project({ ...environment, workspace })).toBe(`${workspace}/opencode.json`);
    writeFiles(workspace, { "opencode.jsonc": "{}" });
    expect(MCP_CLIENTS["opencode"]?.project({ ...environment, workspace })).toBe(`${workspace}/opencode.jsonc`);
  });

  it("has the format of a server for each", () => {
    const json = (name: string) => texts(name).map((text) => JSON.parse(text));
    const { command, args } = STARTED;
    const [url, here] = [CALLED.url, OPEN.url];
    const headers = (reference: string) => ({ headers: { Authorization: `Bearer ${reference}` } });
    expect(json("claude")).toEqual([
      { mcpServers: { skillet: { type: "stdio", command, args } } },
      { mcpServers: { skillet: { type: "http", url, ...headers("$" + "{SKILLET_TOKEN}") } } },
      { mcpServers: { skillet: { type: "http", url: here } } },
    ]);
    expect(texts("codex")).toEqual([
      '[mcp_servers.skillet]\ncommand = "/opt/node"\nargs = ["/opt/skillet.cjs", "serve", "--only", "a b"]\n',
      '[mcp_servers.skillet]\nurl = "https://skills.example/mcp"\nbearer_token_env_var = "SKILLET_TOKEN"\n',
      '[mcp_servers.skillet]\nurl = "http://127.0.0.1:7400/mcp"\n',
    ]);
    expect(json("gemini")).toEqual([
      { mcpServers: { skillet: { command, args } } },
      { mcpServers: { skillet: { url, type: "http", ...headers("$" + "{SKILLET_TOKEN}") } } },
      { mcpServers: { skillet: { url: here, type: "http" } } },
    ]);
    expect(json("vscode")).toEqual([
      { servers: { skillet: { type: "stdio", command, args } } },
      { servers: { skillet: { type: "http", url, ...headers("$" + "{env:SKILLET_TOKEN}") } } },
      { servers: { skillet: { type: "http", url: here } } },
    ]);
    expect(json("cursor")).toEqual([
      { mcpServers: { skillet: { type: "stdio", command, args } } },
      { mcpServers: { skillet: { url, ...headers("$" + "{env:SKILLET_TOKEN}") } } },
      { mcpServers: { skillet: { url: here } } },
    ]);
    expect(json("opencode")).toEqual([
      { mcp: { skillet: { type: "local", command: [command, ...args] } } },
      { mcp: { skillet: { type: "remote", url, ...headers("{env:SKILLET_TOKEN}") } } },
      { mcp: { skillet: { type: "remote", url: here } } },
    ]);
    expect(texts("cursor")[2]).toBe(
      '{\n  "mcpServers": {\n    "skillet": {\n      "url": "http://127.0.0.1:7400/mcp"\n    }\n  }\n}\n',
    );
  });

  it("has the format of OpenCode 2 for a file that is already its own", () => {
    const [started] = texts("opencode", { mcp: { servers: {} } });
    expect(JSON.parse(started ?? "")).toEqual({
      mcp: {
        servers: { skillet: { type: "local", command: ["/opt/node", "/opt/skillet.cjs", "serve", "--only", "a b"] } },
      },
    });
    for (const other of [undefined, {}, { mcp: {} }, { mcp: { servers: null } }, { mcp: null }, []])
      expect(MCP_CLIENTS["opencode"]?.servers(other)).toEqual(["mcp"]);
  });

  it("has the client's own command with the same effect", () => {
    const adds = (name: string, scope: ConfigScope) =>
      [STARTED, CALLED, OPEN].map((server) => MCP_CLIENTS[name]?.add?.("skillet", server, scope));
    const [url, here] = [CALLED.url, OPEN.url];
    const words = [STARTED.command, ...STARTED.args];
    const header = ["--header", "Authorization: Bearer $" + "{SKILLET_TOKEN}"];
    for (const scope of ["user", "project"] as const) {
      const claude = ["claude", "mcp", "add"];
      const called = [...claude, "--transport", "http", "--scope", scope, "skillet"];
      expect(adds("claude", scope)).toEqual([
        [...claude, "--scope", scope, "skillet", "--", ...words],
        [...called, url, ...header],
        [...called, here],
      ]);
      const gemini = ["gemini", "mcp", "add", "--scope", scope];
      expect(adds("gemini", scope)).toEqual([
        [...gemini, "skillet", STARTED.command, "--", ...STARTED.args],
        [...gemini, "--transport", "http", ...header, "skillet", url],
        [...gemini, "--transport", "http", "skillet", here],
      ]);
    }
    const codex = ["codex", "mcp", "add", "skillet"];
    expect(adds("codex", "user")).toEqual([
      [...codex, "--", ...words],
      [...codex, "--url", url, "--bearer-token-env-var", "SKILLET_TOKEN"],
      [...codex, "--url", here],
    ]);
    const code = adds("vscode", "user").map((add) => [add?.[0], add?.[1], JSON.parse(add?.[2] ?? "")]);
    expect(code[0]).toEqual(["code", "--add-mcp", { name: "skillet", type: "stdio", ...STARTED }]);
    expect(code[2]).toEqual(["code", "--add-mcp", { name: "skillet", type: "http", url: here }]);
    for (const name of ["codex", "vscode"]) expect(adds(name, "project")).toEqual([undefined, undefined, undefined]);
  });
});
