/** A folder below the user's home. If the variable is set, the folder is `path` below its value. */
export interface UserFolder {
  path: string;
  movedBy?: { env: string; path: string };
}

/** The facts of a program that reads skills. Behavior is in the tables that are derived from this one. */
interface ClientFacts {
  title: string;
  /** The name of its program for the terminal, if it differs. */
  programTitle?: string;
  /** The command that starts it. */
  program?: string;
  /** Folders of skills for all projects. Copies for the client go into the first. */
  user: readonly UserFolder[];
  /** Folders of skills of a project, relative to it. Copies for the client go into the first. */
  project: readonly string[];
  /** Other clients of this table whose user folders and project folders it also reads; a list applies to both. */
  alsoReads?: { user: readonly string[]; project: readonly string[] };
  /** A folder that an administrator manages for all users. */
  managed?: string;
  /** The folder inside the first user folder that contains the client's built-in skills. */
  builtIn?: string;
  /** The configuration of its MCP servers: the format, and the file of a project, relative to it. */
  mcp?: { format: "json" | "jsonc" | "toml"; project: string };
  /**
   * The names of its files and folders in a project, which control an agent: code may not change the first, and changes of
   * the others are held until they are approved.
   */
  protects: { closed: readonly string[]; held: readonly string[] };
}

/**
 * THE table of clients, in order of precedence. Discovery, copies, MCP configuration, lists and protected paths are derived
 * from it. The data was verified with the clients, except those of Cursor, which are from its source, and of VS Code.
 */
export const CLIENTS = {
  agents: {
    title: "the shared .agents folder",
    user: [{ path: ".agents/skills" }],
    project: [".agents/skills"],
    protects: { closed: [".agents"], held: ["AGENTS.md", "AGENTS.override.md", "AGENT.md"] },
  },
  claude: {
    title: "Claude Code",
    program: "claude",
    user: [{ path: ".claude/skills", movedBy: { env: "CLAUDE_CONFIG_DIR", path: "skills" } }],
    project: [".claude/skills"],
    managed: "/etc/claude-code/.claude/skills",
    mcp: { format: "json", project: ".mcp.json" },
    protects: {
      closed: [".claude", ".mcp.json"],
      held: ["CLAUDE.md", "CLAUDE.local.md", ".claude.json", ".claude-plugin"],
    },
  },
  codex: {
    title: "Codex",
    program: "codex",
    user: [{ path: ".codex/skills", movedBy: { env: "CODEX_HOME", path: "skills" } }],
    project: [".codex/skills"],
    builtIn: ".system",
    alsoReads: { user: ["agents"], project: ["agents"] },
    mcp: { format: "toml", project: ".codex/config.toml" },
    protects: { closed: [".codex"], held: [".codex-plugin"] },
  },
  gemini: {
    title: "Gemini CLI",
    program: "gemini",
    user: [{ path: ".gemini/skills", movedBy: { env: "GEMINI_CLI_HOME", path: ".gemini/skills" } }],
    project: [".gemini/skills"],
    alsoReads: { user: ["agents"], project: ["agents"] },
    mcp: { format: "jsonc", project: ".gemini/settings.json" },
    protects: { closed: [".gemini"], held: ["GEMINI.md"] },
  },
  opencode: {
    title: "OpenCode",
    program: "opencode",
    user: [
      { path: ".config/opencode/skills", movedBy: { env: "XDG_CONFIG_HOME", path: "opencode/skills" } },
      { path: ".config/opencode/skill", movedBy: { env: "XDG_CONFIG_HOME", path: "opencode/skill" } },
      { path: ".opencode/skills" },
    ],
    project: [".opencode/skills", ".opencode/skill"],
    alsoReads: { user: ["agents", "claude"], project: ["agents", "claude"] },
    mcp: { format: "jsonc", project: "opencode.json" },
    protects: { closed: [".opencode"], held: ["opencode.json", "opencode.jsonc"] },
  },
  copilot: {
    title: "GitHub Copilot",
    programTitle: "GitHub Copilot CLI",
    program: "copilot",
    user: [{ path: ".copilot/skills" }],
    project: [".github/skills"],
    alsoReads: { user: ["agents"], project: ["agents", "claude"] },
    // Claude Code reads the same file.
    mcp: { format: "jsonc", project: ".mcp.json" },
    protects: { closed: [], held: [".copilot"] },
  },
  vscode: {
    title: "VS Code",
    program: "code",
    user: [],
    project: [],
    mcp: { format: "jsonc", project: ".vscode/mcp.json" },
    protects: { closed: [], held: ["mcp.json"] },
  },
  cursor: {
    title: "Cursor",
    program: "cursor",
    user: [{ path: ".cursor/skills" }, { path: ".grok/skills" }],
    project: [".cursor/skills"],
    alsoReads: { user: ["agents", "claude", "codex"], project: ["agents", "claude", "codex"] },
    mcp: { format: "jsonc", project: ".cursor/mcp.json" },
    protects: { closed: [".cursor"], held: [".cursorrules", ".cursorignore"] },
  },
} as const satisfies Record<string, ClientFacts>;

export type ClientName = keyof typeof CLIENTS;

/** The clients with a configuration of MCP servers. */
export const MCP_CLIENT_NAMES = (Object.keys(CLIENTS) as ClientName[]).filter((name) => name !== "agents");

/** The clients that copies of skills can be made for. */
export const NATIVE_CLIENT_NAMES: readonly string[] = [...MCP_CLIENT_NAMES, "agents"];

/** Returns the title of a client's program for the terminal. */
export function getProgramTitle(name: ClientName): string {
  const { title, programTitle = title }: ClientFacts = CLIENTS[name];
  return programTitle;
}

/** Returns the command that starts a client, if there is one. */
export function getClientProgram(name: ClientName): string | undefined {
  const { program }: ClientFacts = CLIENTS[name];
  return program;
}

/** Lists the names of files and folders that control the clients in a project. */
export function listProtectedNames(kind: keyof ClientFacts["protects"]): string[] {
  return Object.values<ClientFacts>(CLIENTS).flatMap(({ protects }) => protects[kind]);
}
