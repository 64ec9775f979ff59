import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { skilletHome, userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import type { WorkspaceAccess } from "../host/sandbox-settings.ts";
import { keyOf } from "../policy/table.ts";
import { isRoot, NOBODY } from "../sandbox/places.ts";
import { SkillError } from "../shared/error.ts";
import { isInside } from "../shared/inside.ts";
import type { Skill } from "../skill/skill.ts";
import { sensitiveRow } from "./workspace/sensitive-paths.ts";

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
  /** Whose code it is: where the settings say nothing, a run can ask to write, and a script reads unless its call asks to write. */
  kind: "run" | "script";
  /** The call of a script asks to write. */
  writes?: boolean | undefined;
}

/** What the settings give stands, and is refused where it cannot be had. Without a setting, code gets as much as can be had. */
export function chooseAccess(host: Host, request: AccessRequest): ChosenAccess {
  const { skill, home, kind, writes = kind === "run" } = request;
  const { settings, workspace } = host;
  const configured = configuredAccess(settings, skill);
  if (workspace === undefined) return { access: "none", asksToWrite: false, notices: [] };
  if (configured !== undefined) {
    const isShort = kind === "script" && writes && configured !== "read-write";
    return { access: configured, asksToWrite: false, notices: isShort ? [notWritable(configured, skill)] : [] };
  }
  let why: SkillError | undefined;
  for (const access of writes ? (["read-write", "read"] as const) : (["read"] as const)) {
    try {
      refusePrivate(host);
      checkWorkspace(host, { access, home });
      const notices = why ? [lessThan(why, kind, "can read it but change nothing")] : [];
      return { access, asksToWrite: access === "read-write", notices };
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      why = error;
    }
  }
  return {
    access: "none",
    asksToWrite: false,
    notices: why ? [lessThan(why, kind, kind === "run" ? "do not see it" : "does not see it")] : [],
  };
}

/** Returns what the settings give to code of this skill; undefined where they say nothing. */
export function configuredAccess(settings: Host["settings"], skill: Skill | undefined): WorkspaceAccess | undefined {
  return (skill && settings.skills.get(skill.name)?.workspace) ?? settings.sandbox.workspace;
}

function lessThan({ code, message, fix }: SkillError, by: AccessRequest["kind"], what: string): Notice {
  const who = by === "run" ? "the tools of this run" : "the script";
  return { code, message: `${message}: ${who} ${what}`, fix: fix ?? "" };
}

function notWritable(access: WorkspaceAccess, skill: Skill | undefined): Notice {
  const key = skill ? keyOf(skill, "workspace") : "sandbox.workspace";
  return {
    code: "workspace-read-only",
    message: `The configuration says workspace = "${access}", so the script cannot write to the workspace`,
    fix: `run: skillet config set ${key} read-write`,
  };
}

/** A hidden folder of the user's home holds keys and settings of other programs: it is opened only where the configuration says so. */
function refusePrivate(host: Host): void {
  const [folder, home] = [host.workspace ?? "", userHome(host.env ?? process.env)].flatMap((path) => real([path]));
  if (folder === undefined || home === undefined || !isInside(home, folder)) return;
  if (!relative(home, folder).startsWith(".")) return;
  throw new SkillError("workspace-private", {
    message: `The workspace ${folder} is in a hidden folder of your home`,
    fix: 'work in another folder, or set workspace = "read" under [skills.NAME] in config.toml',
  });
}

export function homeOf({ home, env }: Host): string {
  return home ?? skilletHome(env ?? process.env);
}

export interface WorkspaceRequest {
  access: WorkspaceAccess;
  home: string;
}

export interface CheckedWorkspace {
  folder: string;
  user?: number;
  /** Folders in it whose code needs no trust. */
  own: readonly string[];
}

/** Checks that code may have the workspace so; `undefined` where it gets none. Throws a SkillError when it cannot be had. */
export function checkWorkspace(host: Host, { access, home }: WorkspaceRequest): CheckedWorkspace | undefined {
  const { settings, workspace } = host;
  if (access === "none" || workspace === undefined) return undefined;
  const folder = real([workspace])[0];
  if (folder === undefined) {
    throw new SkillError("workspace-missing", {
      message: `The workspace ${workspace} is not there`,
      fix: "name another",
    });
  }
  const users = userHome(host.env ?? process.env);
  const tooWide = real([users, home]).find((path) => isInside(folder, path));
  if (tooWide !== undefined) {
    const why = tooWide === folder ? "is your home folder" : `holds ${tooWide}`;
    throw new SkillError("workspace-too-wide", {
      message: `The workspace ${folder} ${why}, so code is not let into it`,
      fix: 'work in a folder of its own, or set workspace = "none" in config.toml',
    });
  }
  const { uid, mode } = statSync(folder);
  // All commands share a user where they may write: the next one can change the files of the one before.
  const shared = uid !== 0 ? uid : access === "read-write" ? NOBODY : undefined;
  const user = isRoot() && shared !== undefined ? { user: shared } : {};
  if (isRoot() && ((uid === 0 && !isOpen(mode, access)) || !isReached(folder, uid))) {
    throw new SkillError("workspace-closed", {
      message: `Code never runs as root, and nobody else may ${access === "read" ? "read" : "write to"} ${folder}`,
      fix: "give the folder to an ordinary user, and run skillet as that user, or let others use it",
    });
  }
  if (access === "read") return { folder, ...user, own: [] };
  refuseLinks(folder);
  return {
    folder,
    ...user,
    own: trustedIn(folder, [home, join(users, ".agent"), ...settings.sources.map(({ path }) => path)]),
  };
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

/** A closed path at the top that is a link is refused: a mount would follow it to another place than programs do. */
function refuseLinks(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isSymbolicLink() || !sensitiveRow(entry.name, "")?.isClosed) continue;
    throw new SkillError("workspace-link", {
      message: `${join(folder, entry.name)} is a link, which cannot be kept from code that may write to the workspace`,
      fix: 'put what it leads to in its place, or set workspace = "read" in config.toml',
    });
  }
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
