import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { getErrnoCode, getErrorMessage, SkillError } from "../../errors/problem.ts";
import { CLIENTS, getProgramTitle, type MCP_CLIENT_NAMES } from "../../skill/clients.ts";
import { resolveClientFolder } from "../../skill/source/locations.ts";
import { replaceFile, withFileLock } from "../../store/locked-file.ts";
import { createFolder, readRegularText } from "../../util/file-access.ts";
import { quoteIfNeeded } from "../../util/text.ts";

/** The way a client reaches the server: it starts one, or calls a running one. */
export type McpServerTarget =
  | { command: string; args: readonly string[] }
  | {
      url: string /** True if it requires a token. */;
      hasToken: boolean /** The file with its token, on this machine. */;
      tokenFile?: string;
    };

/** The folders in which a client looks for its files. */
export interface McpClientEnvironment {
  home: string;
  workspace: string;
  env: Readonly<Record<string, string | undefined>>;
  platform: NodeJS.Platform;
}

export type ConfigScope = "user" | "project";
export type ClientConfigEntry = Readonly<Record<string, unknown>>;

/** A client and its configuration format. */
export interface McpClient {
  title: string;
  /** The command that starts it. */
  program: string;
  /** Its own folder, which exists once it was used. */
  folder(environment: McpClientEnvironment): string;
  format: "json" | "jsonc" | "toml";
  user(environment: McpClientEnvironment): string;
  project(environment: McpClientEnvironment): string;
  /** The path of the keys that lead to its servers. It may depend on the existing file. */
  servers(document?: unknown): readonly string[];
  entry(server: McpServerTarget): ClientConfigEntry;
  /**
   * The keys that an entry has only for a started server, or only for a called one. The other keys are removed from it.
   */
  exclusiveKeys: { started: readonly string[]; called: readonly string[] };
  /** True if its configuration can refer to a file with the token. Other clients read a variable. */
  readsTokenFile?: boolean;
  /** The placeholder for the workspace, if the client needs one: it may start a server in the home folder. */
  workspace?: string;
  /** The client's own command with the same effect. */
  add?(name: string, server: McpServerTarget, scope: ConfigScope): string[] | undefined;
  /** The next step for the user. */
  next: string;
  /** The variable with its own API key, which it passes to servers that it starts. */
  passesKey?: string;
  /** The reason why a copy of a skill without code works better than the server. */
  copiesWorkBetter?: string;
}

/** The variable with the token. Its value is never written to a file. */
export const SERVER_TOKEN_VARIABLE = "SKILLET_TOKEN";

const WORKSPACE_REFERENCE = `\${workspaceFolder}`;

/** Every client, one row each. */
export const MCP_CLIENTS: Readonly<Record<string, McpClient>> = {
  claude: {
    ...createMcpFacts("claude"),
    folder: (environment) => resolveClientFolder("claude", "user", environment),
    user: ({ home, env }) => join(env["CLAUDE_CONFIG_DIR"] || home, ".claude.json"),
    servers: () => ["mcpServers"],
    // Without a type, Claude Code takes an address for an entry without a command.
    entry: (server) =>
      "url" in server
        ? {
            type: "http",
            url: server.url,
            ...(server.tokenFile === undefined
              ? createBearerEntry(server, `\${${SERVER_TOKEN_VARIABLE}}`)
              : { headersHelper: formatHeadersCommand(server.tokenFile) }),
          }
        : { type: "stdio", ...createCommandEntry(server) },
    readsTokenFile: true,
    exclusiveKeys: { started: ["command", "args"], called: ["url", "headers", "headersHelper", "oauth"] },
    // `--header` takes all arguments after it. A command for headers cannot be set there.
    add: (name, server, scope) =>
      "url" in server
        ? server.tokenFile !== undefined
          ? undefined
          : [
              ...["claude", "mcp", "add", "--transport", "http", "--scope", scope, name, server.url],
              ...formatHeaderArguments(server, `\${${SERVER_TOKEN_VARIABLE}}`),
            ]
        : ["claude", "mcp", "add", "--scope", scope, name, "--", server.command, ...server.args],
    next: "start Claude Code again; /mcp shows the server",
    passesKey: "ANTHROPIC_API_KEY",
  },
  codex: {
    ...createMcpFacts("codex"),
    folder: (environment) => resolveClientFolder("codex", "user", environment),
    user: ({ home, env }) => join(env["CODEX_HOME"] || join(home, ".codex"), "config.toml"),
    servers: () => ["mcp_servers"],
    entry: (server) =>
      "url" in server
        ? { url: server.url, ...(server.hasToken ? { bearer_token_env_var: SERVER_TOKEN_VARIABLE } : {}) }
        : createCommandEntry(server),
    // Codex refuses its whole file if an entry has one of the other keys.
    exclusiveKeys: {
      started: ["command", "args", "env", "env_vars", "cwd"],
      called: ["url", "bearer_token_env_var", "http_headers", "env_http_headers"],
    },
    add: (name, server, scope) => {
      if (scope === "project") return undefined;
      const add = ["codex", "mcp", "add", name];
      if (!("url" in server)) return [...add, "--", server.command, ...server.args];
      return [
        ...add,
        "--url",
        server.url,
        ...(server.hasToken ? ["--bearer-token-env-var", SERVER_TOKEN_VARIABLE] : []),
      ];
    },
    next: "start Codex again; /mcp shows the server",
  },
  gemini: {
    ...createMcpFacts("gemini"),
    folder: (environment) => resolveClientFolder("gemini", "user", environment),
    user: ({ home, env }) => join(env["GEMINI_CLI_HOME"] || home, ".gemini", "settings.json"),
    servers: () => ["mcpServers"],
    entry: (server) =>
      "url" in server
        ? { url: server.url, type: "http", ...createBearerEntry(server, `\${${SERVER_TOKEN_VARIABLE}}`) }
        : createCommandEntry(server),
    // `httpUrl` is an older spelling of the address, and takes precedence.
    exclusiveKeys: {
      started: ["command", "args", "env", "cwd", "httpUrl"],
      called: ["url", "httpUrl", "type", "headers", "oauth"],
    },
    // Arguments after `--` are never parsed as its own options.
    add: (name, server, scope) => {
      const add = ["gemini", "mcp", "add", "--scope", scope];
      if ("url" in server)
        return [
          ...add,
          "--transport",
          "http",
          ...formatHeaderArguments(server, `\${${SERVER_TOKEN_VARIABLE}}`),
          name,
          server.url,
        ];
      return [...add, name, server.command, "--", ...server.args];
    },
    next: "start Gemini CLI again, in a folder that it trusts; /mcp shows the server",
    copiesWorkBetter: "Gemini CLI treats text from MCP servers as untrusted, and its own skills as instructions",
  },
  opencode: {
    ...createMcpFacts("opencode"),
    folder: (environment) => resolveClientFolder("opencode", "user", environment),
    user: ({ home, env }) => findConfigFile(join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode")),
    project: ({ workspace }) => findConfigFile(workspace),
    // Version 2 has its servers one level deeper, and still reads them here if none are there.
    servers: (document) => (hasServers(document) ? ["mcp", "servers"] : ["mcp"]),
    entry: (server) =>
      "url" in server
        ? {
            type: "remote",
            url: server.url,
            ...createBearerEntry(
              server,
              server.tokenFile === undefined ? `{env:${SERVER_TOKEN_VARIABLE}}` : `{file:${server.tokenFile}}`,
            ),
          }
        : { type: "local", command: [server.command, ...server.args] },
    readsTokenFile: true,
    exclusiveKeys: { started: ["command", "environment", "cwd"], called: ["url", "headers", "oauth"] },
    next: "start OpenCode again; `opencode mcp list` shows the server",
  },
  copilot: {
    ...createMcpFacts("copilot"),
    folder: (environment) => resolveClientFolder("copilot", "user", environment),
    user: (environment) => join(resolveClientFolder("copilot", "user", environment), "mcp-config.json"),
    servers: () => ["mcpServers"],
    entry: (server) =>
      "url" in server
        ? { type: "http", url: server.url, ...createBearerEntry(server, `\${${SERVER_TOKEN_VARIABLE}}`), tools: ["*"] }
        : { type: "stdio", ...createCommandEntry(server), tools: ["*"] },
    exclusiveKeys: { started: ["command", "args", "env", "cwd"], called: ["url", "headers", "headersHelper", "oauth"] },
    next: "start Copilot CLI again; /mcp shows the server",
  },
  vscode: {
    ...createMcpFacts("vscode"),
    folder: (environment) => join(getApplicationFolder(environment), "Code"),
    user: (environment) => join(getApplicationFolder(environment), "Code", "User", "mcp.json"),
    servers: () => ["servers"],
    entry: (server) =>
      "url" in server
        ? { type: "http", url: server.url, ...createBearerEntry(server, `\${env:${SERVER_TOKEN_VARIABLE}}`) }
        : { type: "stdio", ...createCommandEntry(server) },
    exclusiveKeys: {
      started: ["command", "args", "env", "envFile", "cwd", "sandbox", "sandboxEnabled"],
      called: ["url", "headers", "oauth"],
    },
    workspace: WORKSPACE_REFERENCE,
    add(name, server, scope) {
      if (scope === "project") return undefined;
      return ["code", "--add-mcp", JSON.stringify({ name, ...this.entry(server) })];
    },
    next: "run `MCP: List Servers` in its command palette and start the server",
  },
  cursor: {
    ...createMcpFacts("cursor"),
    folder: (environment) => resolveClientFolder("cursor", "user", environment),
    user: ({ home }) => join(home, ".cursor", "mcp.json"),
    servers: () => ["mcpServers"],
    entry: (server) =>
      "url" in server
        ? { url: server.url, ...createBearerEntry(server, `\${env:${SERVER_TOKEN_VARIABLE}}`) }
        : { type: "stdio", ...createCommandEntry(server) },
    exclusiveKeys: { started: ["type", "command", "args", "env", "envFile"], called: ["url", "headers", "auth"] },
    workspace: WORKSPACE_REFERENCE,
    next: "start Cursor again, and enable the server in its settings, under MCP",
  },
};

/** Returns the fields of a client that THE table of clients has. */
function createMcpFacts(
  name: (typeof MCP_CLIENT_NAMES)[number],
): Pick<McpClient, "title" | "program" | "format" | "project"> {
  const { program, mcp } = CLIENTS[name];
  return {
    ...{ title: getProgramTitle(name), program, format: mcp.format },
    project: ({ workspace }) => join(workspace, ...mcp.project.split("/")),
  };
}

/** Formats a command that prints the headers as JSON, from a file with the token. */
function formatHeadersCommand(file: string): string {
  return `printf '{"Authorization":"Bearer %s"}' "$(cat ${quoteIfNeeded(file)})"`;
}

function createCommandEntry({ command, args }: { command: string; args: readonly string[] }): ClientConfigEntry {
  return { command, args: [...args] };
}

function createBearerEntry({ hasToken }: { hasToken: boolean }, reference: string): ClientConfigEntry {
  return hasToken ? { headers: { Authorization: `Bearer ${reference}` } } : {};
}

function formatHeaderArguments({ hasToken }: { hasToken: boolean }, reference: string): string[] {
  return hasToken ? ["--header", `Authorization: Bearer ${reference}`] : [];
}

function getApplicationFolder({ home, env, platform }: McpClientEnvironment): string {
  if (platform === "darwin") return join(home, "Library", "Application Support");
  if (platform === "win32") return env["APPDATA"] || join(home, "AppData", "Roaming");
  return env["XDG_CONFIG_HOME"] || join(home, ".config");
}

function findConfigFile(folder: string): string {
  const commented = join(folder, "opencode.jsonc");
  return existsSync(commented) ? commented : join(folder, "opencode.json");
}

function hasServers(document: unknown): boolean {
  const mcp = Object(Object(document).mcp);
  return Object.hasOwn(mcp, "servers") && typeof mcp.servers === "object" && mcp.servers !== null;
}

/** Returns true if an entry is a server of skillet: started by it, on this machine at its path, or the intended one. */
export function isSkilletServer(there: ClientConfigEntry, meant: ClientConfigEntry): boolean {
  if (getServeArguments(there)) return true;
  const url = parseEntryUrl(there);
  return (
    url !== undefined && ((isLocalUrl(url) && url.pathname === MCP_URL_PATH) || url.href === parseEntryUrl(meant)?.href)
  );
}

/** The URL path of the MCP endpoint. */
export const MCP_URL_PATH = "/mcp";

/** Returns true for an address of this machine. */
export function isLocalUrl({ hostname }: URL): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

/** Merges the new entry over the existing one, without keys that the client does not accept next to it. */
export function mergeEntry(
  there: ClientConfigEntry,
  meant: ClientConfigEntry,
  only: McpClient["exclusiveKeys"],
): ClientConfigEntry {
  const unwanted = getConflictingKeys(meant, only);
  const kept = Object.entries(there).filter(([key]) => Object.hasOwn(meant, key) || !unwanted.includes(key));
  const after: Record<string, unknown> = Object.fromEntries(kept);
  for (const [key, value] of Object.entries(meant)) {
    after[key] = isTable(value) && isTable(after[key]) ? { ...after[key], ...value } : value;
  }
  return after;
}

/**
 * Returns the keys that the user added to an entry and that would be lost, or sent to a host they were not meant for.
 */
export function findKeysAtRisk(there: ClientConfigEntry, meant: ClientConfigEntry, client: McpClient): string[] {
  const { exclusiveKeys: only } = client;
  const [from, to] = [parseEntryUrl(there), parseEntryUrl(meant)];
  const isSentElsewhere = from && to && from.href !== to.href && !isLocalUrl(to);
  const leaving = [...getConflictingKeys(meant, only), ...(isSentElsewhere ? only.called : [])];
  const usual = [client.entry({ command: "", args: [] }), client.entry({ url: "", hasToken: true })];
  return Object.entries(there)
    .filter(([key, value]) => leaving.includes(key) && !SERVER_KEYS.has(key) && !isEmptyValue(value))
    .filter(([, value]) => !JSON.stringify(value).includes(TOKEN_FILE)) // Written by skillet.
    .filter(([key, value]) => !usual.some((entry) => isDeepStrictEqual(entry[key], value)))
    .map(([key]) => key);
}

/** Describes an entry briefly, without possible secrets: variables, headers, a token, a password, the query. */
export function describeEntry(entry: ClientConfigEntry): string {
  if (getEntryAddress(entry) !== undefined) {
    const url = parseEntryUrl(entry);
    return url ? `${url.protocol}//${url.host}${url.pathname}${url.search && "?…"}` : "another address";
  }
  const words = getServeArguments(entry) ?? [];
  const shown = words.map((word, at) => {
    if (words[at - 1] === "--token") return "…";
    return word.startsWith("--token=") ? "--token=…" : quoteIfNeeded(word);
  });
  return shown.join(" ");
}

/** Returns true if an entry calls a server instead of starting one. */
export function isRemoteEntry(entry: ClientConfigEntry): boolean {
  return getEntryAddress(entry) !== undefined;
}

export function isTable(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

/** Returns the command that an entry starts, and its arguments. */
export function getServerCommand(entry: ClientConfigEntry): string[] {
  return [entry["command"] ?? [], entry["args"] ?? []].flat().map(String);
}

/** Returns the arguments from `serve` on, if an entry starts that. */
function getServeArguments(entry: ClientConfigEntry): string[] | undefined {
  const words = getServerCommand(entry);
  const at = words.findIndex((word, index) => SKILLET_PROGRAM.test(word) && words[index + 1] === "serve");
  return at === -1 ? undefined : words.slice(at + 1);
}

const SKILLET_PROGRAM = /(?:^|[\\/])skillet(?:\.cjs|\.cmd)?$/;
const SERVER_KEYS = new Set(["command", "args", "url", "httpUrl"]);

function getConflictingKeys(meant: ClientConfigEntry, only: McpClient["exclusiveKeys"]): readonly string[] {
  return isRemoteEntry(meant) ? only.started : only.called;
}

function getEntryAddress(entry: ClientConfigEntry): unknown {
  return entry["url"] ?? entry["httpUrl"];
}

/** Returns the address of an entry's server, if it has one that can be parsed. */
export function parseEntryUrl(entry: ClientConfigEntry): URL | undefined {
  const address = getEntryAddress(entry);
  return typeof address === "string" && URL.canParse(address) ? new URL(address) : undefined;
}

function isEmptyValue(value: unknown): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

/**
 * The file with the token for clients of `skillet serve --http`, in the skillet folder, readable for the user alone.
 */
const TOKEN_FILE = "serve-token";

const TOKEN_BYTES = 32;
const MAX_TOKEN_FILE_BYTES = 4096;

export interface ServerToken {
  file: string;
  token: string;
  /** True if it was just created. */
  isNew: boolean;
}

export function getServerTokenPath(skilletHome: string): string {
  return join(skilletHome, TOKEN_FILE);
}

/**
 * Reads the token of this user's server, and creates it on first use. Throws a SkillError when others can read the
 * file.
 */
export function readOrCreateServerToken(skilletHome: string): ServerToken {
  const file = getServerTokenPath(skilletHome);
  createFolder(dirname(file), 0o700);
  return withFileLock(file, () => {
    const known = readToken(file);
    if (known !== undefined) return { file, token: known, isNew: false };
    const token = randomBytes(TOKEN_BYTES).toString("base64url");
    replaceFile(file, `${token}\n`, 0o600);
    chmodSync(file, 0o600);
    return { file, token, isNew: true };
  });
}

function readToken(file: string): string | undefined {
  const fix = `remove ${file}, and start the server again: it creates a new token`;
  const refuse = (why: string, cause?: unknown): never => {
    throw new SkillError("token-file", { message: `${file} ${why}`, fix, ...(cause === undefined ? {} : { cause }) });
  };
  try {
    const stats = lstatSync(file);
    if (!stats.isFile() || stats.size > MAX_TOKEN_FILE_BYTES) return refuse("is not a token file");
    if ((stats.mode & 0o077) !== 0) return refuse("can be read by other users");
    if (process.getuid && stats.uid !== process.getuid()) return refuse("belongs to another user");
    const token = readRegularText(file, { limit: MAX_TOKEN_FILE_BYTES, refusesLinks: true }).trim();
    return /^[\x21-\x7e]{16,}$/.test(token) ? token : refuse("does not hold a token of 16 or more characters");
  } catch (error) {
    if (error instanceof SkillError) throw error;
    return getErrnoCode(error) === "ENOENT" ? undefined : refuse(`cannot be read: ${getErrorMessage(error)}`, error);
  }
}
