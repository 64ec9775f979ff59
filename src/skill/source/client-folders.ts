import { readdirSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { readRegularText } from "../../util/file-access.ts";
import { isInside, joinBelow } from "../../util/safe-path.ts";
import { compareText } from "../../util/text.ts";
import { CLIENTS, type UserFolder } from "../clients.ts";

export type { UserFolder };

/** The user's home folder, the workspace and the environment variables, from which a client's folders are resolved. */
export interface ClientEnvironment {
  home: string;
  workspace: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** A client and its skill folders. */
export interface SkillClient {
  title: string;
  /** Folders for all projects. Copies for the client go into the first. */
  user: readonly UserFolder[];
  /** Folders of a project, relative to it. Copies for the client go into the first. */
  project: readonly string[];
  /** Other clients of this table whose user folders and project folders it also reads; a list applies to both. */
  alsoReads?: { user: readonly string[]; project: readonly string[] };
  /** The skill folders of its installed plugins or extensions. */
  plugins?: (environment: ClientEnvironment) => string[];
  /** A folder that an administrator manages for all users. */
  managed?: string;
  /** The folder inside the first user folder that contains the client's built-in skills. */
  builtIn?: string;
}

/** The clients and their folders, in order of precedence: the rows of THE table of clients that have folders of skills. */
export const SKILL_CLIENTS = {
  agents: CLIENTS.agents,
  claude: { ...CLIENTS.claude, plugins: listClaudePlugins },
  codex: CLIENTS.codex,
  gemini: { ...CLIENTS.gemini, plugins: listGeminiExtensions },
  opencode: CLIENTS.opencode,
  copilot: CLIENTS.copilot,
  cursor: CLIENTS.cursor,
} as const satisfies Record<string, SkillClient>;

export type ClientId = keyof typeof SKILL_CLIENTS;
export const CLIENT_IDS = Object.keys(SKILL_CLIENTS) as ClientId[];

/** Returns a client's row with its optional fields. */
export function getSkillClient(id: ClientId): SkillClient {
  return SKILL_CLIENTS[id];
}

/** Returns the path of a user folder: below the home folder, or below the value of a variable. */
export function resolveUserFolder({ path, movedBy }: UserFolder, { home, workspace, env }: ClientEnvironment): string {
  const moved = movedBy && env[movedBy.env];
  return movedBy && moved ? join(resolve(workspace, moved), movedBy.path) : joinBelow(home, path);
}

/** Returns the folder of a client's own files: the parent of its skill folder. */
export function resolveClientFolder(id: ClientId, level: "user" | "project", environment: ClientEnvironment): string {
  const { user, project } = getSkillClient(id);
  if (level === "project") return join(environment.workspace, dirname(project[0] ?? ""));
  return dirname(resolveUserFolder(user[0] ?? { path: "" }, environment));
}

/** Returns all user-level skill folders of a client: its own, its plugins' and the managed one. */
export function listUserFolders(id: ClientId, environment: ClientEnvironment): string[] {
  const { user, plugins, managed } = getSkillClient(id);
  const own = user.map((folder) => resolveUserFolder(folder, environment));
  return [...(managed === undefined ? [] : [managed]), ...(plugins?.(environment) ?? []), ...own.reverse()];
}

/** Returns the clients that read skills from a client's own folder at this level. */
export function findReadingClients(owner: ClientId, level: "user" | "project"): ClientId[] {
  return CLIENT_IDS.filter((id) => id === owner || getSkillClient(id).alsoReads?.[level].includes(owner));
}

const MAX_PLUGINS = 500;

/** Lists the skill folders of Claude Code's plugins, which it records with their folders. */
function listClaudePlugins(environment: ClientEnvironment): string[] {
  const home = environment.env["CLAUDE_CONFIG_DIR"]
    ? resolve(environment.workspace, environment.env["CLAUDE_CONFIG_DIR"])
    : join(environment.home, ".claude");
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
    return []; // No plugin was ever installed, or the format of the record is unknown.
  }
}

function parseInstallPath(entry: unknown): string | undefined {
  const path = (entry as { installPath?: unknown } | null)?.installPath;
  return typeof path === "string" && isAbsolute(path) ? path : undefined;
}

/** Lists the skill folders of Gemini CLI's extensions; each extension is a folder. */
function listGeminiExtensions(environment: ClientEnvironment): string[] {
  const home = environment.env["GEMINI_CLI_HOME"]
    ? resolve(environment.workspace, environment.env["GEMINI_CLI_HOME"])
    : environment.home;
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
