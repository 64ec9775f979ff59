import { readdirSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { readRegularText } from "../../util/file-access.ts";
import { isInside } from "../../util/safe-path.ts";
import { compareText } from "../../util/text.ts";

/** The user's home folder, the workspace and the environment, in which a client's folders are looked up. */
export interface ClientEnvironment {
  home: string;
  workspace: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** A folder below the user's home; a variable that is set moves it to `path` below the variable's value. */
export interface UserFolder {
  path: string;
  movedBy?: { env: string; path: string };
}

/** A client and the folders in which it finds skills. */
export interface SkillClient {
  title: string;
  /** Folders for all projects. Copies for the client go into the first. */
  user: readonly UserFolder[];
  /** Folders of a project, relative to it. Copies for the client go into the first. */
  project: readonly string[];
  /** Clients of this table whose user folders it reads too, and whose project folders; both the same if it is a list. */
  alsoReads?: { user: readonly string[]; project: readonly string[] };
  /** Skills folders of the plugins or extensions that are installed for it. */
  plugins?: (place: ClientEnvironment) => string[];
  /** A folder that an administrator fills for all users. */
  managed?: string;
  /** The folder inside the first user folder into which the client puts the skills that come with it. */
  builtIn?: string;
}

/**
 * Clients and their folders, in order of precedence: discovery, copies, `list --by client` and `doctor` use this one table.
 * Read off the clients themselves, except Cursor's, which are from its source.
 */
export const SKILL_CLIENTS = {
  agents: {
    title: "the shared .agents folder",
    user: [{ path: ".agents/skills" }],
    project: [".agents/skills"],
  },
  claude: {
    title: "Claude Code",
    user: [{ path: ".claude/skills", movedBy: { env: "CLAUDE_CONFIG_DIR", path: "skills" } }],
    project: [".claude/skills"],
    plugins: listClaudePlugins,
    managed: "/etc/claude-code/.claude/skills",
  },
  codex: {
    title: "Codex",
    user: [{ path: ".codex/skills", movedBy: { env: "CODEX_HOME", path: "skills" } }],
    project: [".codex/skills"],
    builtIn: ".system",
    alsoReads: { user: ["agents"], project: ["agents"] },
  },
  gemini: {
    title: "Gemini CLI",
    user: [{ path: ".gemini/skills", movedBy: { env: "GEMINI_CLI_HOME", path: ".gemini/skills" } }],
    project: [".gemini/skills"],
    alsoReads: { user: ["agents"], project: ["agents"] },
    plugins: listGeminiExtensions,
  },
  opencode: {
    title: "OpenCode",
    user: [
      { path: ".config/opencode/skills", movedBy: { env: "XDG_CONFIG_HOME", path: "opencode/skills" } },
      { path: ".config/opencode/skill", movedBy: { env: "XDG_CONFIG_HOME", path: "opencode/skill" } },
      { path: ".opencode/skills" },
    ],
    project: [".opencode/skills", ".opencode/skill"],
    alsoReads: { user: ["agents", "claude"], project: ["agents", "claude"] },
  },
  copilot: {
    title: "GitHub Copilot",
    user: [{ path: ".copilot/skills" }],
    project: [".github/skills"],
    alsoReads: { user: ["agents"], project: ["agents", "claude"] },
  },
  cursor: {
    title: "Cursor",
    user: [{ path: ".cursor/skills" }, { path: ".grok/skills" }],
    project: [".cursor/skills"],
    alsoReads: { user: ["agents", "claude", "codex"], project: ["agents", "claude", "codex"] },
  },
} as const satisfies Record<string, SkillClient>;

export type ClientId = keyof typeof SKILL_CLIENTS;
export const CLIENT_IDS = Object.keys(SKILL_CLIENTS) as ClientId[];

/** Returns a client's row with the optional fields that some rows lack. */
export function getSkillClient(id: ClientId): SkillClient {
  return SKILL_CLIENTS[id];
}

/** Returns the path of a user folder: below the home folder, or where a variable moves it. */
export function resolveUserFolder({ path, movedBy }: UserFolder, { home, workspace, env }: ClientEnvironment): string {
  const moved = movedBy && env[movedBy.env];
  return movedBy && moved ? join(resolve(workspace, moved), movedBy.path) : join(home, path);
}

/** Returns the folder in which a client keeps its own files: the one that holds its skills folder. */
export function resolveClientFolder(id: ClientId, level: "user" | "project", place: ClientEnvironment): string {
  const { user, project } = getSkillClient(id);
  if (level === "project") return join(place.workspace, dirname(project[0] ?? ""));
  return dirname(resolveUserFolder(user[0] ?? { path: "" }, place));
}

/** Returns all user-level skills folders of a client: its own, its plugins' and the managed one. */
export function listUserFolders(id: ClientId, place: ClientEnvironment): string[] {
  const { user, plugins, managed } = getSkillClient(id);
  const own = user.map((folder) => resolveUserFolder(folder, place));
  return [...(managed === undefined ? [] : [managed]), ...(plugins?.(place) ?? []), ...own.reverse()];
}

/** Returns the clients that read skills of a client's own folder at this level. */
export function findReadingClients(owner: ClientId, level: "user" | "project"): ClientId[] {
  return CLIENT_IDS.filter((id) => id === owner || getSkillClient(id).alsoReads?.[level].includes(owner));
}

const MAX_PLUGINS = 500;

/** Claude Code records each installed plugin with its folder. */
function listClaudePlugins(place: ClientEnvironment): string[] {
  const home = place.env["CLAUDE_CONFIG_DIR"]
    ? resolve(place.workspace, place.env["CLAUDE_CONFIG_DIR"])
    : join(place.home, ".claude");
  try {
    const { plugins } = JSON.parse(readRegularText(join(home, "plugins", "installed_plugins.json")));
    const paths = Object.values(plugins as Record<string, unknown>).flatMap((entries) =>
      [entries].flat().flatMap((entry) => parseInstallPath(entry) ?? []),
    );
    return [...new Set(paths)]
      .sort(compareText)
      .slice(0, MAX_PLUGINS)
      .map((path) => join(path, "skills"));
  } catch {
    return []; // No plugin was ever installed, or the record is not one that is known.
  }
}

function parseInstallPath(entry: unknown): string | undefined {
  const path = (entry as { installPath?: unknown } | null)?.installPath;
  return typeof path === "string" && isAbsolute(path) ? path : undefined;
}

/** Each extension of Gemini CLI is a folder of its own. */
function listGeminiExtensions(place: ClientEnvironment): string[] {
  const home = place.env["GEMINI_CLI_HOME"] ? resolve(place.workspace, place.env["GEMINI_CLI_HOME"]) : place.home;
  const folder = join(home, ".gemini", "extensions");
  try {
    return readdirSync(folder)
      .sort(compareText)
      .slice(0, MAX_PLUGINS)
      .map((name) => join(folder, name, "skills"))
      .filter((path) => isInside(folder, path));
  } catch {
    return [];
  }
}
