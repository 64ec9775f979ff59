import { existsSync, readdirSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { packageRoot } from "../../package.ts";
import { getPathBelow, isInside } from "../../util/safe-path.ts";
import { compareText } from "../../util/text.ts";
import type { SkillScope } from "../skill.ts";
import { CLIENT_IDS, type ClientId, getSkillClient, listUserFolders } from "./client-folders.ts";
import { isSkillsFolder } from "./find-skills.ts";
import { statIfExists } from "./read-file.ts";
import { SKIPPED_FOLDERS } from "./skill-files.ts";

export interface Environment {
  /** Where the user works: the folder with the project's own skills. */
  workspace: string;
  /** The user's home folder. */
  home: string;
  /** Where skillet keeps what is its own: `~/.skillet`, or what SKILLET_HOME says. */
  skilletHome: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The folder of skills with scope `bundled`. Defaults to those of this package, if it is there as files. */
  shippedSkills?: string;
}

export interface Location {
  scope: SkillScope;
  /** What `name@source` takes. */
  name: string;
  path: string;
  /** Whether the code of its skills waits for the user's word. */
  asks: boolean;
  /** The client whose own folder it is. */
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
  /** Others fill it, or whoever made the workspace: its code waits for the user's word, which `skillet add` has asked for. */
  asks?: true;
  /** A variable that puts another folder in this one's place. */
  env?: string;
  client?: ClientId;
}

/** The table of clients, far to near. */
const CLIENTS_FAR_TO_NEAR = CLIENT_IDS.toReversed();

/** The folders of a project in which skills are looked for, far to near. */
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
 * Where skills are looked for beside the user folders of clients, far to near: what comes later overrides. `project` stands for each
 * folder from the repository's root down to the workspace.
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

/** The standard locations, expanded for these surroundings. Those of packages in a monorepo exist, the others need not. */
export function listLocations(around: Environment): Location[] {
  const project = listProjectFolders(around.workspace);
  const rows = LOCATIONS.filter(
    (row) => row.base !== "package" || (getOverridePath(row, around) ?? packageRoot()) !== undefined,
  );
  const expanded = rows.flatMap((row) =>
    row.base === "project"
      ? project.map((folder, index) => ({ row, folder, nearness: index + 1 }))
      : [{ row, folder: resolveBase(row, around), nearness: row.base === "workspace" ? Number.POSITIVE_INFINITY : 0 }],
  );
  expanded.sort((a, b) => (a.nearness === b.nearness ? 0 : a.nearness - b.nearness));
  const all = expanded.map(({ row, folder }) => resolveLocation(row, folder, around));
  const addBefore = (scope: SkillScope, more: readonly Location[]) =>
    all.splice(
      all.findIndex((location) => location.scope === scope),
      0,
      ...more,
    );
  addBefore("user", listClientLocations(around));
  addBefore("workspace", listPackageLocations(around, project));
  return markRepeated(all);
}

/** The user-level folders of clients and of their plugins. */
function listClientLocations(around: Environment): Location[] {
  return CLIENTS_FAR_TO_NEAR.flatMap((client) =>
    listUserFolders(client, around).map(
      (path): Location => ({ scope: "user", name: formatDisplayPath(path, around), path, asks: true, client }),
    ),
  );
}

/** Skills folders of packages in a monorepo that are neither the workspace nor above it. */
function listPackageLocations(around: Environment, project: readonly string[]): Location[] {
  const [root = around.workspace] = project;
  if (!existsSync(join(root, ".git"))) return [];
  return findPackageSkills(root, project, PROJECT_FOLDERS).map(({ path, folder, client }): Location => {
    const belongsTo = relative(around.workspace, folder).split(sep).join("/");
    const name = relative(around.workspace, path).split(sep).join("/");
    // Single files in a folder that is only named `skills` must state that they are one.
    const whose = client ? { client } : { skillsFolders: [] };
    return { scope: "workspace", name, path, asks: true, belongsTo, ...whose };
  });
}

/** How a path is shown and named: from the workspace when it is in it, from the home folder when it is there. */
export function formatDisplayPath(path: string, around: Pick<Environment, "workspace" | "home">): string {
  const { workspace, home } = around;
  if (isInside(workspace, path)) return getPathBelow(workspace, path) || ".";
  return formatHomePath(path, home);
}

/** A path with the home folder as `~`. */
export function formatHomePath(path: string, home: string): string {
  if (!isInside(home, path)) return path;
  return path === home ? "~" : `~${sep}${getPathBelow(home, path)}`;
}

function resolveLocation(row: LocationRow, base: string, around: Environment): Location {
  const given = getOverridePath(row, around);
  const path = given ? resolve(around.workspace, given) : join(base, row.path);
  const isAbove = row.base === "project" && !isInside(around.workspace, path);
  const shown = isAbove ? relative(around.workspace, path) : formatDisplayPath(path, around);
  // A variable that leads into the workspace gives what lies there no trust.
  const asks = row.asks ?? (given !== undefined && isInside(around.workspace, path));
  return { scope: row.scope, name: row.name ?? shown, path, asks, ...(row.client ? { client: row.client } : {}) };
}

/** Returns the folder that a variable or the embedding program puts in place of the row's. */
function getOverridePath(row: LocationRow, { env, shippedSkills }: Environment): string | undefined {
  return (row.base === "package" && shippedSkills) || (row.env && env[row.env]) || undefined;
}

function resolveBase(row: LocationRow, around: Environment): string {
  const bases = {
    package: packageRoot() ?? "",
    skillet: around.skilletHome,
    home: around.home,
    project: around.workspace,
    workspace: around.workspace,
  };
  return bases[row.base];
}

/** Returns the root of the repository that the workspace is in, or the workspace outside a repository. */
export function findProjectRoot(workspace: string): string {
  return listProjectFolders(workspace)[0] ?? workspace;
}

/** From the repository's root down to the workspace; only the workspace outside a repository. */
function listProjectFolders(workspace: string): string[] {
  const folders = [workspace];
  for (let folder = workspace; !existsSync(join(folder, ".git")); folder = dirname(folder)) {
    if (dirname(folder) === folder) return [workspace];
    folders.unshift(dirname(folder));
  }
  return folders;
}

// A workspace may be the home folder, or have a link for a folder: what is the user's own stays the user's.
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

/** `~/x` and relative paths in a configuration. */
export function expandPath(path: string, around: Pick<Environment, "home">, base: string): string {
  if (path === "~" || path.startsWith("~/")) return join(around.home, path.slice(1));
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
/** Folders that hold no packages: what is built, what others wrote, and what tests and documents use as examples. */
const NON_PACKAGE_FOLDERS = new Set([
  ...SKIPPED_FOLDERS,
  ...["dist", "build", "out", "target", "vendor", "third_party", "coverage", "venv", "__pycache__"],
  ...["tests", "test", "__tests__", "fixtures", "__fixtures__", "examples", "templates", "docs"],
]);

/**
 * Finds the skills folders of a repository's packages: those of clients, and folders named `skills`. Links are not followed, and
 * neither are repositories inside the repository. `known` folders are searched by others.
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

/** True for a path in this package: what is there came with it. */
export function isShipped(path: string): boolean {
  const root = packageRoot();
  return root !== undefined && isInside(root, path);
}
