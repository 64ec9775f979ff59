import { type Dirent, existsSync, lstatSync, readdirSync, realpathSync, renameSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { type Mount, type Notice, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import type { WorkspaceAccess } from "../host/sandbox-settings.ts";
import { isRoot } from "../sandbox/places.ts";
import { SkillError } from "../shared/error.ts";
import { isInside, reason } from "../shared/inside.ts";
import type { Skill } from "../skill/skill.ts";

/**
 * What other programs run or obey without a word: code that may write to a workspace could leave something there for them. Whole
 * folders: a parent of what is protected could be renamed, and `.git/commondir` puts another configuration in the place of its own.
 */
const PROTECTED = [
  ...[
    ".git",
    ".skillet",
    ".claude",
    ".agents",
    ".agent",
    ".ash",
    ".cursor",
    ".codex",
    ".gemini",
    ".opencode",
    ".windsurf",
  ],
  ...[
    ".mcp.json",
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".husky",
    ".githooks",
    ".cargo",
    ".pre-commit-config.yaml",
  ],
  ...[".envrc", ".mise.toml", "mise.toml", ".npmrc", ".yarnrc.yml"],
];

/** The workspace as a skill's code gets it. */
export interface OpenWorkspace {
  mounts: Mount[];
  /** Whom the code runs as, where the caller is root: the folder's owner, so that what it makes is theirs. */
  user?: number;
  /** Puts aside what the code made under a protected name that nothing had before, and says so. Contract: never throws. */
  close(): Notice[];
}

/** What code gets of the workspace, and what to say where that is less than it would be. */
export interface ChosenAccess {
  access: WorkspaceAccess;
  /** Nobody has said that it may be changed: somebody is to be asked first. */
  asksToWrite: boolean;
  notices: readonly Notice[];
}

export interface AccessRequest {
  skill: Skill | undefined;
  home: string;
  /** Where the settings say nothing: nothing, or as much of the user's own workspace as can be had. */
  wanted: "as-configured" | "own";
}

/** What the settings give stands, and is refused where it cannot be had. */
export function chooseAccess(host: Host, { skill, home, wanted }: AccessRequest): ChosenAccess {
  const { settings, workspace, trust } = host;
  const configured = (skill && settings.skills.get(skill.name)?.workspace) ?? settings.sandbox.workspace;
  if (workspace === undefined) return { access: "none", asksToWrite: false, notices: [] };
  if (configured !== undefined || wanted === "as-configured" || trust === undefined)
    return { access: configured ?? "none", asksToWrite: false, notices: [] };
  let why: SkillError | undefined;
  for (const access of ["read-write", "read"] as const) {
    try {
      openWorkspace(host, { access, home });
      const notices = why ? [lessThan(why, "can read it but change nothing")] : [];
      return { access, asksToWrite: access === "read-write", notices };
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      why = error;
    }
  }
  return { access: "none", asksToWrite: false, notices: why ? [lessThan(why, "do not see it")] : [] };
}

function lessThan({ code, message, fix }: SkillError, what: string): Notice {
  return { code, message: `${message}: the tools of this run ${what}`, fix: fix ?? "" };
}

/** The workspace for one command: not at all, to read, or to write. Throws a SkillError when it cannot be had. */
export function openWorkspace(host: Host, { access, home }: { access: WorkspaceAccess; home: string }): OpenWorkspace {
  const { settings, workspace } = host;
  if (access === "none" || workspace === undefined) return { mounts: [], close: () => [] };
  const folder = real([workspace])[0];
  if (folder === undefined) {
    throw new SkillError("workspace-missing", {
      message: `The workspace ${workspace} is not there`,
      fix: "name another",
    });
  }
  const users = userHome(host.env ?? process.env);
  const tooWide = real([home, users]).find((path) => isInside(folder, path));
  if (tooWide !== undefined) {
    throw new SkillError("workspace-too-wide", {
      message: `The workspace ${folder} holds ${tooWide}, so code is not let into it`,
      fix: 'work in a folder of its own, or set workspace = "none" in config.toml',
    });
  }
  const { uid, mode } = statSync(folder);
  const user = isRoot() && uid !== 0 ? { user: uid } : {};
  if (isRoot() && ((uid === 0 && !isOpen(mode, access)) || !isReached(folder, uid))) {
    throw new SkillError("workspace-closed", {
      message: `Code never runs as root, and nobody else may ${access === "read" ? "read" : "write to"} ${folder}`,
      fix: "give the folder to an ordinary user, and run skillet as that user, or let others use it",
    });
  }
  const whole: Mount = { from: folder, to: WORKSPACE_FOLDER, access };
  if (access === "read") return { mounts: [whole], ...user, close: () => [] };
  const start = Date.now();
  const nested = repositoriesIn(folder);
  const closed = [
    ...[...PROTECTED, ...nested.found].filter((path) => isThere(folder, path)),
    ...trustedIn(folder, [home, join(users, ".agent"), ...settings.sources.map(({ path }) => path)]),
  ];
  const made = () => [...PROTECTED, ...(nested.isWhole ? repositoriesIn(folder).found : [])];
  return {
    ...user,
    mounts: [
      whole,
      ...closed.map((path): Mount => ({ from: join(folder, path), to: `${WORKSPACE_FOLDER}/${path}`, access: "read" })),
    ],
    close: () => planted(made().flatMap((path) => (closed.includes(path) ? [] : putAside(folder, path, start)))),
  };
}

const DEEPEST = 6;
const MOST_FOLDERS = 5000;

/** The `.git` of every repository below the top: git obeys those, too. As far as is quick to look. */
function repositoriesIn(folder: string): { found: string[]; isWhole: boolean } {
  const found: string[] = [];
  const folders = [""];
  for (let at = 0; at < folders.length && at < MOST_FOLDERS; at++) {
    const below = folders[at] ?? "";
    for (const entry of entriesOf(join(folder, below))) {
      const path = join(below, entry.name);
      if (entry.name === ".git") found.push(...(below === "" ? [] : [path]));
      else if (entry.isDirectory() && entry.name !== "node_modules" && path.split("/").length < DEEPEST)
        folders.push(path);
    }
  }
  return { found, isWhole: folders.length <= MOST_FOLDERS };
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return []; // It is gone, or not this user's to look into.
  }
}

/** Code in some folders runs without a word of the user's: those in the workspace are closed, and the workspace is in none of them. */
function trustedIn(folder: string, places: readonly string[]): string[] {
  const trusted = real(places);
  const around = trusted.find((path) => isInside(path, folder));
  if (around !== undefined) {
    throw new SkillError("workspace-own", {
      message: `The workspace ${folder} is in ${around}, whose code needs no trust, so no code may write to it`,
      fix: 'work in a folder of its own, or set workspace = "read" in config.toml',
    });
  }
  return trusted.filter((path) => isInside(folder, path)).map((path) => relative(folder, path));
}

function real(paths: readonly string[]): string[] {
  return paths.filter(existsSync).map((path) => realpathSync(path));
}

/** A link is refused: bubblewrap would follow it to another place than the host does, and code could put another in its place. */
function isThere(folder: string, path: string): boolean {
  const stats = lstatSync(join(folder, path), { throwIfNoEntry: false });
  if (!stats?.isSymbolicLink()) return stats !== undefined;
  throw new SkillError("workspace-link", {
    message: `${join(folder, path)} is a link, which cannot be kept from code that may write to the workspace`,
    fix: 'put what it leads to in its place, or set workspace = "read" in config.toml',
  });
}

/** Only what is younger than the run: what was there before is nobody's plant. */
function putAside(folder: string, path: string, start: number): string[] {
  const stats = lstatSync(join(folder, path), { throwIfNoEntry: false });
  if (!stats || stats.birthtimeMs < start) return [];
  const aside = `${path}.made-by-a-script-${start}`;
  try {
    renameSync(join(folder, path), join(folder, aside));
    return [`${path} (now ${aside})`];
  } catch (error) {
    return [`${path} (still there: ${reason(error)})`];
  }
}

function planted(names: readonly string[]): Notice[] {
  if (names.length === 0) return [];
  return [
    {
      code: "workspace-protected",
      message: `The code made what other programs obey: ${names.join(", ")}`,
      fix: "look at it, then remove it or give it its name back",
    },
  ];
}

/** Whether this user, or anybody where it is root, comes as far as the folder: root's own home lets nobody through. */
function isReached(folder: string, user: number): boolean {
  const parent = dirname(folder);
  const { uid, mode } = statSync(parent);
  const isLet = (mode & 0o001) !== 0 || (user !== 0 && uid === user && (mode & 0o100) !== 0);
  return isLet && (parent === folder || isReached(parent, user));
}

/** Whether those who do not own it may use a folder. */
function isOpen(mode: number, access: "read" | "read-write"): boolean {
  const needed = access === "read" ? 0o005 : 0o007;
  return (mode & needed) === needed;
}
