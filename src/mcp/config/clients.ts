import { existsSync } from "node:fs";
import { join } from "node:path";
import { quoted } from "../../policy/trust.ts";
import { clientFolder } from "../../source/client-folders.ts";

/** How a client gets to the server: it starts one, or calls one that runs already. */
export type Server =
  | { command: string; args: readonly string[] }
  | {
      url: string /** Whether it asks for a token. */;
      hasToken: boolean /** The file with its token, on this machine. */;
      tokenFile?: string;
    };

/** Where a client looks for its files. */
export interface Place {
  home: string;
  workspace: string;
  env: Readonly<Record<string, string | undefined>>;
  platform: NodeJS.Platform;
}

export type Scope = "user" | "project";
export type Entry = Readonly<Record<string, unknown>>;

/** What is known of a client. */
export interface Client {
  title: string;
  /** The command that starts it. */
  program: string;
  /** Its own folder, which is there once it was used. */
  folder(place: Place): string;
  format: "json" | "jsonc" | "toml";
  user(place: Place): string;
  project(place: Place): string;
  /** The names that lead to its servers. What the file holds already may decide. */
  servers(document?: unknown): readonly string[];
  entry(server: Server): Entry;
  /** What an entry has only for a server that is started, and only for one that is called: the others are taken out of it. */
  only: { started: readonly string[]; called: readonly string[] };
  /** Whether its configuration can refer to a file for the token. The others read it from a variable. */
  readsTokenFile?: boolean;
  /** What the client puts in for the workspace, where it says so nowhere else: it may start a server in the home folder. */
  workspace?: string;
  /** Its own command that does the same. */
  add?(name: string, server: Server, scope: Scope): string[] | undefined;
  /** What is to be done for it to be seen. */
  next: string;
  /** The variable with its own API key, which it passes to servers that it starts. */
  passesKey?: string;
  /** Why a copy of a skill without code works better than the server. */
  copiesWorkBetter?: string;
}

/** The variable that holds the token. Its value is never written down. */
export const TOKEN = "SKILLET_TOKEN";

const WORKSPACE = `\${workspaceFolder}`;

/** Every client, one row each. */
export const CLIENTS: Readonly<Record<string, Client>> = {
  claude: {
    title: "Claude Code",
    program: "claude",
    folder: (place) => clientFolder("claude", "user", place),
    format: "json",
    user: ({ home, env }) => join(env["CLAUDE_CONFIG_DIR"] || home, ".claude.json"),
    project: ({ workspace }) => join(workspace, ".mcp.json"),
    servers: () => ["mcpServers"],
    // An address without its type is taken for a command that is missing.
    entry: (server) =>
      "url" in server
        ? {
            type: "http",
            url: server.url,
            ...(server.tokenFile === undefined
              ? bearer(server, `\${${TOKEN}}`)
              : { headersHelper: headersFrom(server.tokenFile) }),
          }
        : { type: "stdio", ...started(server) },
    readsTokenFile: true,
    only: { started: ["command", "args"], called: ["url", "headers", "headersHelper", "oauth"] },
    // `--header` takes all that follows it. A command for headers cannot be given there.
    add: (name, server, scope) =>
      "url" in server
        ? server.tokenFile !== undefined
          ? undefined
          : [
              ...["claude", "mcp", "add", "--transport", "http", "--scope", scope, name, server.url],
              ...header(server, `\${${TOKEN}}`),
            ]
        : ["claude", "mcp", "add", "--scope", scope, name, "--", server.command, ...server.args],
    next: "start Claude Code again; /mcp shows the server",
    passesKey: "ANTHROPIC_API_KEY",
  },
  codex: {
    title: "Codex",
    program: "codex",
    folder: (place) => clientFolder("codex", "user", place),
    format: "toml",
    user: ({ home, env }) => join(env["CODEX_HOME"] || join(home, ".codex"), "config.toml"),
    project: ({ workspace }) => join(workspace, ".codex", "config.toml"),
    servers: () => ["mcp_servers"],
    entry: (server) =>
      "url" in server
        ? { url: server.url, ...(server.hasToken ? { bearer_token_env_var: TOKEN } : {}) }
        : started(server),
    // It refuses its whole file over one of the others.
    only: {
      started: ["command", "args", "env", "env_vars", "cwd"],
      called: ["url", "bearer_token_env_var", "http_headers", "env_http_headers"],
    },
    add: (name, server, scope) => {
      if (scope === "project") return undefined;
      const add = ["codex", "mcp", "add", name];
      if (!("url" in server)) return [...add, "--", server.command, ...server.args];
      return [...add, "--url", server.url, ...(server.hasToken ? ["--bearer-token-env-var", TOKEN] : [])];
    },
    next: "start Codex again; /mcp shows the server",
  },
  gemini: {
    title: "Gemini CLI",
    program: "gemini",
    folder: (place) => clientFolder("gemini", "user", place),
    format: "jsonc",
    user: ({ home, env }) => join(env["GEMINI_CLI_HOME"] || home, ".gemini", "settings.json"),
    project: ({ workspace }) => join(workspace, ".gemini", "settings.json"),
    servers: () => ["mcpServers"],
    entry: (server) =>
      "url" in server ? { url: server.url, type: "http", ...bearer(server, `\${${TOKEN}}`) } : started(server),
    // `httpUrl` is an older spelling of the address, and wins over it.
    only: {
      started: ["command", "args", "env", "cwd", "httpUrl"],
      called: ["url", "httpUrl", "type", "headers", "oauth"],
    },
    // What follows `--` is never taken for an option of its own.
    add: (name, server, scope) => {
      const add = ["gemini", "mcp", "add", "--scope", scope];
      if ("url" in server) return [...add, "--transport", "http", ...header(server, `\${${TOKEN}}`), name, server.url];
      return [...add, name, server.command, "--", ...server.args];
    },
    next: "start Gemini CLI again, in a folder that it trusts; /mcp shows the server",
    copiesWorkBetter: "Gemini CLI shows its model text of MCP servers as untrusted, and its own skills as instructions",
  },
  opencode: {
    title: "OpenCode",
    program: "opencode",
    folder: (place) => clientFolder("opencode", "user", place),
    format: "jsonc",
    user: ({ home, env }) => firstThere(join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode")),
    project: ({ workspace }) => firstThere(workspace),
    // Version 2 has its servers one level further down, and still reads them here, unless some are there already.
    servers: (document) => (holdsServers(document) ? ["mcp", "servers"] : ["mcp"]),
    entry: (server) =>
      "url" in server
        ? {
            type: "remote",
            url: server.url,
            ...bearer(server, server.tokenFile === undefined ? `{env:${TOKEN}}` : `{file:${server.tokenFile}}`),
          }
        : { type: "local", command: [server.command, ...server.args] },
    readsTokenFile: true,
    only: { started: ["command", "environment", "cwd"], called: ["url", "headers", "oauth"] },
    next: "start OpenCode again; `opencode mcp list` shows the server",
  },
  copilot: {
    title: "GitHub Copilot CLI",
    program: "copilot",
    folder: (place) => clientFolder("copilot", "user", place),
    format: "jsonc",
    user: (place) => join(clientFolder("copilot", "user", place), "mcp-config.json"),
    // The file is Claude Code's too: it passes over `tools`.
    project: ({ workspace }) => join(workspace, ".mcp.json"),
    servers: () => ["mcpServers"],
    entry: (server) =>
      "url" in server
        ? { type: "http", url: server.url, ...bearer(server, `\${${TOKEN}}`), tools: ["*"] }
        : { type: "stdio", ...started(server), tools: ["*"] },
    only: { started: ["command", "args", "env", "cwd"], called: ["url", "headers", "headersHelper", "oauth"] },
    next: "start Copilot CLI again; /mcp shows the server",
  },
  vscode: {
    title: "VS Code",
    program: "code",
    folder: (place) => join(applicationFolder(place), "Code"),
    format: "jsonc",
    user: (place) => join(applicationFolder(place), "Code", "User", "mcp.json"),
    project: ({ workspace }) => join(workspace, ".vscode", "mcp.json"),
    servers: () => ["servers"],
    entry: (server) =>
      "url" in server
        ? { type: "http", url: server.url, ...bearer(server, `\${env:${TOKEN}}`) }
        : { type: "stdio", ...started(server) },
    only: {
      started: ["command", "args", "env", "envFile", "cwd", "sandbox", "sandboxEnabled"],
      called: ["url", "headers", "oauth"],
    },
    workspace: WORKSPACE,
    add(name, server, scope) {
      if (scope === "project") return undefined;
      return ["code", "--add-mcp", JSON.stringify({ name, ...this.entry(server) })];
    },
    next: "run `MCP: List Servers` in its command palette and start the server",
  },
  cursor: {
    title: "Cursor",
    program: "cursor",
    folder: (place) => clientFolder("cursor", "user", place),
    format: "jsonc",
    user: ({ home }) => join(home, ".cursor", "mcp.json"),
    project: ({ workspace }) => join(workspace, ".cursor", "mcp.json"),
    servers: () => ["mcpServers"],
    entry: (server) =>
      "url" in server
        ? { url: server.url, ...bearer(server, `\${env:${TOKEN}}`) }
        : { type: "stdio", ...started(server) },
    only: { started: ["type", "command", "args", "env", "envFile"], called: ["url", "headers", "auth"] },
    workspace: WORKSPACE,
    next: "start Cursor again, and switch the server on in its settings, under MCP",
  },
};

/** A command that prints the headers as JSON, from a file that holds the token. */
function headersFrom(file: string): string {
  return `printf '{"Authorization":"Bearer %s"}' "$(cat ${quoted(file)})"`;
}

function started({ command, args }: { command: string; args: readonly string[] }): Entry {
  return { command, args: [...args] };
}

function bearer({ hasToken }: { hasToken: boolean }, reference: string): Entry {
  return hasToken ? { headers: { Authorization: `Bearer ${reference}` } } : {};
}

function header({ hasToken }: { hasToken: boolean }, reference: string): string[] {
  return hasToken ? ["--header", `Authorization: Bearer ${reference}`] : [];
}

function applicationFolder({ home, env, platform }: Place): string {
  if (platform === "darwin") return join(home, "Library", "Application Support");
  if (platform === "win32") return env["APPDATA"] || join(home, "AppData", "Roaming");
  return env["XDG_CONFIG_HOME"] || join(home, ".config");
}

function firstThere(folder: string): string {
  const commented = join(folder, "opencode.jsonc");
  return existsSync(commented) ? commented : join(folder, "opencode.json");
}

function holdsServers(document: unknown): boolean {
  const mcp = Object(Object(document).mcp);
  return Object.hasOwn(mcp, "servers") && typeof mcp.servers === "object" && mcp.servers !== null;
}
