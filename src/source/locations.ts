import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { packageRoot } from "../package.ts";
import { below, isInside } from "../shared/inside.ts";
import type { Scope } from "../skill/skill.ts";
import { CLIENT_IDS, type ClientId, clientRow, userFolders } from "./client-folders.ts";
import { statOf } from "./file.ts";
import { findPackageSkills } from "./package-skills.ts";

export interface Surroundings {
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
  scope: Scope;
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

interface Row {
  scope: Scope;
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
const PROJECT_FOLDERS: readonly Pick<Row, "path" | "client">[] = [
  ...CLIENTS_FAR_TO_NEAR.flatMap((client) =>
    clientRow(client)
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
const LOCATIONS: readonly Row[] = [
  { scope: "bundled", base: "package", path: "skills", name: "bundled", env: "SKILLS_DIR" },
  { scope: "installed", base: "skillet", path: "installed", name: "installed", asks: true },
  { scope: "user", base: "home", path: ".ash/skills", asks: true },
  { scope: "user", base: "home", path: ".agent/skills" },
  { scope: "user", base: "skillet", path: "skills" },
  ...PROJECT_FOLDERS.map((row): Row => ({ ...row, scope: "workspace", base: "project", asks: true })),
  { scope: "workspace", base: "workspace", path: "workspace/skills", asks: true },
  { scope: "workspace", base: "workspace", path: "skills", env: "CUSTOM_SKILLS_DIR", asks: true },
];

/** The standard locations, expanded for these surroundings. Those of packages in a monorepo exist, the others need not. */
export function locations(around: Surroundings): Location[] {
  const project = projectFolders(around.workspace);
  const rows = LOCATIONS.filter(
    (row) => row.base !== "package" || (givenPath(row, around) ?? packageRoot()) !== undefined,
  );
  const expanded = rows.flatMap((row) =>
    row.base === "project"
      ? project.map((folder, index) => ({ row, folder, nearness: index + 1 }))
      : [{ row, folder: baseOf(row, around), nearness: row.base === "workspace" ? Number.POSITIVE_INFINITY : 0 }],
  );
  expanded.sort((a, b) => (a.nearness === b.nearness ? 0 : a.nearness - b.nearness));
  const all = expanded.map(({ row, folder }) => place(row, folder, around));
  const addBefore = (scope: Scope, more: readonly Location[]) =>
    all.splice(
      all.findIndex((location) => location.scope === scope),
      0,
      ...more,
    );
  addBefore("user", clientLocations(around));
  addBefore("workspace", packageLocations(around, project));
  return markRepeated(all);
}

/** The user-level folders of clients and of their plugins. */
function clientLocations(around: Surroundings): Location[] {
  return CLIENTS_FAR_TO_NEAR.flatMap((client) =>
    userFolders(client, around).map(
      (path): Location => ({ scope: "user", name: displayPath(path, around), path, asks: true, client }),
    ),
  );
}

/** Skills folders of packages in a monorepo that are neither the workspace nor above it. */
function packageLocations(around: Surroundings, project: readonly string[]): Location[] {
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
export function displayPath(path: string, around: Pick<Surroundings, "workspace" | "home">): string {
  const { workspace, home } = around;
  if (isInside(workspace, path)) return below(workspace, path) || ".";
  return shortPath(path, home);
}

/** A path with the home folder as `~`. */
export function shortPath(path: string, home: string): string {
  if (!isInside(home, path)) return path;
  return path === home ? "~" : `~${sep}${below(home, path)}`;
}

function place(row: Row, base: string, around: Surroundings): Location {
  const given = givenPath(row, around);
  const path = given ? resolve(around.workspace, given) : join(base, row.path);
  const isAbove = row.base === "project" && !isInside(around.workspace, path);
  const shown = isAbove ? relative(around.workspace, path) : displayPath(path, around);
  // A variable that leads into the workspace gives what lies there no trust.
  const asks = row.asks ?? (given !== undefined && isInside(around.workspace, path));
  return { scope: row.scope, name: row.name ?? shown, path, asks, ...(row.client ? { client: row.client } : {}) };
}

/** Returns the folder that a variable or the embedding program puts in place of the row's. */
function givenPath(row: Row, { env, shippedSkills }: Surroundings): string | undefined {
  return (row.base === "package" && shippedSkills) || (row.env && env[row.env]) || undefined;
}

function baseOf(row: Row, around: Surroundings): string {
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
export function projectRoot(workspace: string): string {
  return projectFolders(workspace)[0] ?? workspace;
}

/** From the repository's root down to the workspace; only the workspace outside a repository. */
function projectFolders(workspace: string): string[] {
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
    const stats = statOf(location.path);
    if (!stats) return location;
    const folder = `${stats.dev}:${stats.ino}`;
    const sameAs = first.get(folder);
    if (sameAs !== undefined) return { ...location, sameAs };
    first.set(folder, location.name);
    return location;
  });
}

/** `~/x` and relative paths in a configuration. */
export function expandPath(path: string, around: Pick<Surroundings, "home">, base: string): string {
  if (path === "~" || path.startsWith("~/")) return join(around.home, path.slice(1));
  return isAbsolute(path) ? path : resolve(base, path);
}
