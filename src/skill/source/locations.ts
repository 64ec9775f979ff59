import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { readRegularText, statIfExists } from "../../util/file-access.ts";
import { getPathBelow, isInside, joinBelow } from "../../util/safe-path.ts";
import { packageRoot } from "../../util/system.ts";
import { compareText } from "../../util/text.ts";
import { CLIENTS, type UserFolder } from "../clients.ts";
import type { SkillScope } from "../skill.ts";
import { SKIPPED_FOLDERS } from "./skill-files.ts";

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
function listUserFolders(id: ClientId, environment: ClientEnvironment): string[] {
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

export interface Environment {
  /** The user's working directory: the folder with the project's own skills. */
  workspace: string;
  /** The user's home folder. */
  home: string;
  /** The folder of skillet's own files: the value of SKILLET_HOME, or `~/.skillet`. */
  skilletHome: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The folder of skills with scope `bundled`. Defaults to those of this package, if they exist as files. */
  shippedSkills?: string;
}

export interface Location {
  scope: SkillScope;
  /** The name for `name@source`. */
  name: string;
  path: string;
  /** True if the code of its skills needs the user's approval. */
  requiresTrust: boolean;
  /** The client that owns the folder. */
  client?: ClientId;
  /** For a package of a monorepo: its folder, relative to the workspace, with `/` between its parts. */
  belongsTo?: string;
  /** Folders whose single files are skills. Defaults to the folder itself. */
  skillsFolders?: readonly string[];
  /** The name of an earlier location that is the same folder; this one is then not searched. */
  sameAs?: string;
}

interface LocationRow {
  scope: SkillScope;
  base: "package" | "skillet" | "home" | "project" | "workspace";
  path: string;
  name?: string;
  /** Others can write to it, or it comes with the workspace: its code needs the user's approval, which `skillet add` requests. */
  asks?: true;
  /** A variable that replaces the folder. */
  env?: string;
  client?: ClientId;
}

/** The clients, in rising precedence. */
const CLIENTS_FAR_TO_NEAR = CLIENT_IDS.toReversed();

/** The skill folders of a project, in rising precedence. */
const PROJECT_FOLDERS: readonly Pick<LocationRow, "path" | "client">[] = [
  ...CLIENTS_FAR_TO_NEAR.flatMap((client) =>
    getSkillClient(client)
      .project.toReversed()
      .map((path) => ({ path, client })),
  ),
  { path: ".agent/skills" },
  { path: ".skillet/skills" },
];

/**
 * The locations of skills in addition to the user folders of clients, in rising precedence. `project` is each folder from the
 * repository's root down to the workspace.
 */
const LOCATIONS: readonly LocationRow[] = [
  { scope: "bundled", base: "package", path: "skills", name: "bundled", env: "SKILLS_DIR" },
  { scope: "installed", base: "skillet", path: "installed", name: "installed", asks: true },
  { scope: "user", base: "home", path: ".ash/skills", asks: true },
  { scope: "user", base: "home", path: ".agent/skills" },
  { scope: "user", base: "skillet", path: "skills" },
  ...PROJECT_FOLDERS.map((row): LocationRow => ({ ...row, scope: "workspace", base: "project", asks: true })),
  { scope: "workspace", base: "workspace", path: "workspace/skills", asks: true },
  { scope: "workspace", base: "workspace", path: "skills", env: "CUSTOM_SKILLS_DIR", asks: true },
];

/** Returns the standard locations in this environment. Those of packages in a monorepo exist; the others may be missing. */
export function listLocations(environment: Environment): Location[] {
  const project = listProjectFolders(environment.workspace);
  const rows = LOCATIONS.filter(
    (row) => row.base !== "package" || (getOverridePath(row, environment) ?? packageRoot()) !== undefined,
  );
  const expanded = rows.flatMap((row) =>
    row.base === "project"
      ? project.map((folder, index) => ({ row, folder, nearness: index + 1 }))
      : [
          {
            row,
            folder: resolveBase(row, environment),
            nearness: row.base === "workspace" ? Number.POSITIVE_INFINITY : 0,
          },
        ],
  );
  expanded.sort((a, b) => (a.nearness === b.nearness ? 0 : a.nearness - b.nearness));
  const all = expanded.map(({ row, folder }) => resolveLocation(row, folder, environment));
  const addBefore = (scope: SkillScope, more: readonly Location[]) =>
    all.splice(
      all.findIndex((location) => location.scope === scope),
      0,
      ...more,
    );
  addBefore("user", listClientLocations(environment));
  addBefore("workspace", listPackageLocations(environment, project));
  return markRepeated(all);
}

/** The user-level folders of clients and of their plugins. */
function listClientLocations(environment: Environment): Location[] {
  return CLIENTS_FAR_TO_NEAR.flatMap((client) =>
    listUserFolders(client, environment).map(
      (path): Location => ({
        scope: "user",
        name: formatDisplayPath(path, environment),
        path,
        requiresTrust: true,
        client,
      }),
    ),
  );
}

/** Returns the skill folders of packages in a monorepo that are neither the workspace nor above it. */
function listPackageLocations(environment: Environment, project: readonly string[]): Location[] {
  const [root = environment.workspace] = project;
  if (!existsSync(join(root, ".git"))) return [];
  return findPackageSkills(root, project, PROJECT_FOLDERS).map(({ path, folder, client }): Location => {
    const belongsTo = relative(environment.workspace, folder).split(sep).join("/");
    const name = relative(environment.workspace, path).split(sep).join("/");
    // Single files in a folder that is only named `skills` must state that they are skills.
    const whose = client ? { client } : { skillsFolders: [] };
    return { scope: "workspace", name, path, requiresTrust: true, belongsTo, ...whose };
  });
}

/** Formats a path for display: relative to the workspace or to the home folder, if it is inside. */
export function formatDisplayPath(path: string, environment: Pick<Environment, "workspace" | "home">): string {
  const { workspace, home } = environment;
  if (isInside(workspace, path)) return getPathBelow(workspace, path) || ".";
  return formatHomePath(path, home);
}

/** Formats a path with the home folder as `~`. */
export function formatHomePath(path: string, home: string): string {
  if (!isInside(home, path)) return path;
  return path === home ? "~" : `~${sep}${getPathBelow(home, path)}`;
}

function resolveLocation(row: LocationRow, base: string, environment: Environment): Location {
  const override = getOverridePath(row, environment);
  const path = override ? resolve(environment.workspace, override) : joinBelow(base, row.path);
  const isAbove = row.base === "project" && !isInside(environment.workspace, path);
  const shown = isAbove ? relative(environment.workspace, path) : formatDisplayPath(path, environment);
  // A variable that leads into the workspace does not make the skills there trusted.
  const asks = row.asks ?? (override !== undefined && isInside(environment.workspace, path));
  return {
    scope: row.scope,
    name: row.name ?? shown,
    path,
    requiresTrust: asks,
    ...(row.client ? { client: row.client } : {}),
  };
}

/** Returns the folder with which a variable or the embedding program replaces the row's. */
function getOverridePath(row: LocationRow, { env, shippedSkills }: Environment): string | undefined {
  return (row.base === "package" && shippedSkills) || (row.env && env[row.env]) || undefined;
}

function resolveBase(row: LocationRow, environment: Environment): string {
  const bases = {
    package: packageRoot() ?? "",
    skillet: environment.skilletHome,
    home: environment.home,
    project: environment.workspace,
    workspace: environment.workspace,
  };
  return bases[row.base];
}

/** Returns the root of the repository that the workspace is in, or the workspace outside a repository. */
export function findProjectRoot(workspace: string): string {
  return listProjectFolders(workspace)[0] ?? workspace;
}

/** Returns the folders from the repository's root down to the workspace; outside of a repository, only the workspace. */
function listProjectFolders(workspace: string): string[] {
  const folders = [workspace];
  for (let folder = workspace; !existsSync(join(folder, ".git")); folder = dirname(folder)) {
    if (dirname(folder) === folder) return [workspace];
    folders.unshift(dirname(folder));
  }
  return folders;
}

// A workspace may be the home folder, or contain a symlink to a user folder: the user's location then takes precedence.
function markRepeated(all: Location[]): Location[] {
  const first = new Map<string, string>();
  return all.map((location) => {
    const stats = statIfExists(location.path);
    if (!stats) return location;
    const folder = `${stats.dev}:${stats.ino}`;
    const sameAs = first.get(folder);
    if (sameAs !== undefined) return { ...location, sameAs };
    first.set(folder, location.name);
    return location;
  });
}

/** Expands `~/x` and relative paths in a configuration. */
export function expandPath(path: string, environment: Pick<Environment, "home">, base: string): string {
  if (path === "~" || path.startsWith("~/")) return join(environment.home, path.slice(1));
  return isAbsolute(path) ? path : resolve(base, path);
}

/** A folder of skills in a package of a monorepo. */
interface PackageSkills {
  /** The folder with the skills. */
  path: string;
  /** The package that it belongs to. */
  folder: string;
  client?: ClientId;
}

const MAX_PACKAGE_DEPTH = 5;
const MAX_PACKAGE_FOLDERS = 4000;
/** Folders that contain no packages: build output, third-party code, and examples in tests and documents. */
const NON_PACKAGE_FOLDERS = new Set([
  ...SKIPPED_FOLDERS,
  ...["dist", "build", "out", "target", "vendor", "third_party", "coverage", "venv", "__pycache__"],
  ...["tests", "test", "__tests__", "fixtures", "__fixtures__", "examples", "templates", "docs"],
]);

/**
 * Finds the skill folders of a repository's packages: those of clients, and folders named `skills`. Does not follow symlinks, and
 * skips repositories inside the repository. `known` folders are searched elsewhere.
 */
function findPackageSkills(
  root: string,
  known: readonly string[],
  places: readonly { path: string; client?: ClientId }[],
): PackageSkills[] {
  const found: PackageSkills[] = [];
  const queue: { folder: string; depth: number }[] = [{ folder: root, depth: 0 }];
  for (let at = 0; at < queue.length && at < MAX_PACKAGE_FOLDERS; at++) {
    const { folder, depth } = queue[at] as { folder: string; depth: number };
    const names = listPackageFolders(folder);
    if (depth > 0 && names.includes(".git")) continue;
    const isKnown = known.includes(folder);
    if (!isKnown) {
      for (const { path, client } of places) {
        const first = path.slice(0, path.indexOf("/"));
        const skills = `${folder}/${path}`;
        if (names.includes(first) && existsSync(skills))
          found.push({ path: skills, folder, ...(client ? { client } : {}) });
      }
    }
    for (const name of names) {
      if (name.startsWith(".") || NON_PACKAGE_FOLDERS.has(name)) continue;
      const below = `${folder}/${name}`;
      if (name === "skills" && isSkillsFolder(below)) {
        if (!isKnown) found.push({ path: below, folder });
      } else if (depth < MAX_PACKAGE_DEPTH) queue.push({ folder: below, depth: depth + 1 });
    }
  }
  return found.sort((a, b) => compareText(a.folder, b.folder));
}

function listPackageFolders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Returns true for a path inside this package. */
export function isShipped(path: string): boolean {
  const root = packageRoot();
  return root !== undefined && isInside(root, path);
}

/** Entries that only the root of a repository has. */
const REPOSITORY_MARKS = [
  ...[".git", ".github", ".gitlab", ".claude-plugin", ".plugin", "plugin.json", "skills"],
  ...["package.json", "pyproject.toml", "Cargo.toml", "go.mod"],
];

/** Returns true if an unconfigured folder is for skills: it is named `skills`, and is not a repository of that name. */
export function isSkillsFolder(folder: string): boolean {
  return basename(folder) === "skills" && !REPOSITORY_MARKS.some((mark) => existsSync(`${folder}/${mark}`));
}
