import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Host } from "../../config/host.ts";
import type { WorkspaceAccess } from "../../config/limits.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { Endpoint, SandboxLimits } from "../../host/sandbox-contract.ts";
import { parseEndpoint } from "../../sandbox/endpoint.ts";
import { isRoot, NOBODY_UID } from "../../sandbox/sandbox-folders.ts";
import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import type { ToolEffect } from "../../skill/tool.ts";
import { isInside } from "../../util/safe-path.ts";
import { getSkilletHome, getUserHome } from "../../util/system.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { formatSkillKey } from "../policy/setup-policy.ts";
import type { RunSandbox } from "./run-sandbox.ts";
import { findSensitiveRow } from "./sensitive-paths.ts";

/** What code gets of the workspace, and what to say where that is less than it would be. */
interface ChosenAccess {
  access: WorkspaceAccess;
  /** Nobody has said that it may be changed: somebody is to be asked first. */
  asksToWrite: boolean;
  notices: readonly Problem[];
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
export function chooseWorkspaceAccess(host: Host, request: AccessRequest): ChosenAccess {
  const { skill, home, kind, writes = kind === "run" } = request;
  const { settings, workspace } = host;
  const configured = getConfiguredAccess(settings, skill);
  if (workspace === undefined) return { access: "none", asksToWrite: false, notices: [] };
  if (configured !== undefined) {
    const isShort = kind === "script" && writes && configured !== "read-write";
    return {
      access: configured,
      asksToWrite: false,
      notices: isShort ? [createNotWritableProblem(configured, skill)] : [],
    };
  }
  let why: SkillError | undefined;
  for (const access of writes ? (["read-write", "read"] as const) : (["read"] as const)) {
    try {
      refusePrivateFolder(host);
      checkWorkspace(host, { access, home });
      const notices = why ? [createReducedAccessProblem(why, kind, "can read it but change nothing")] : [];
      return { access, asksToWrite: access === "read-write", notices };
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      why = error;
    }
  }
  return {
    access: "none",
    asksToWrite: false,
    notices: why ? [createReducedAccessProblem(why, kind, kind === "run" ? "do not see it" : "does not see it")] : [],
  };
}

/** Returns what the settings give to code of this skill; undefined where they say nothing. */
function getConfiguredAccess(settings: Host["settings"], skill: Skill | undefined): WorkspaceAccess | undefined {
  return (skill && settings.skills.get(skill.name)?.workspace) ?? settings.sandbox.workspace;
}

function createReducedAccessProblem(
  { code, message, fix }: SkillError,
  by: AccessRequest["kind"],
  what: string,
): Problem {
  const who = by === "run" ? "the tools of this run" : "the script";
  return { code, message: `${message}: ${who} ${what}`, fix: fix ?? "" };
}

function createNotWritableProblem(access: WorkspaceAccess, skill: Skill | undefined): Problem {
  const key = skill ? formatSkillKey(skill, "workspace") : "sandbox.workspace";
  return {
    code: "workspace-read-only",
    message: `The configuration says workspace = "${access}", so the script cannot write to the workspace`,
    fix: `run: skillet config set ${key} read-write`,
  };
}

/** A hidden folder of the user's home holds keys and settings of other programs: it is opened only where the configuration says so. */
function refusePrivateFolder(host: Host): void {
  const [folder, home] = [host.workspace ?? "", getUserHome(host.env ?? process.env)].flatMap((path) =>
    resolveExisting([path]),
  );
  if (folder === undefined || home === undefined || !isInside(home, folder)) return;
  if (!relative(home, folder).startsWith(".")) return;
  throw new SkillError("workspace-private", {
    message: `The workspace ${folder} is in a hidden folder of your home`,
    fix: 'work in another folder, or set workspace = "read" under [skills.NAME] in config.toml',
  });
}

export function resolveSkilletHome({ home, env }: Host): string {
  return home ?? getSkilletHome(env ?? process.env);
}

export interface WorkspaceRequest {
  access: WorkspaceAccess;
  home: string;
}

interface CheckedWorkspace {
  folder: string;
  user?: number;
  /** Folders in it whose code needs no trust. */
  own: readonly string[];
}

/** Checks that code may have the workspace so; `undefined` where it gets none. Throws a SkillError when it cannot be had. */
export function checkWorkspace(host: Host, { access, home }: WorkspaceRequest): CheckedWorkspace | undefined {
  const { settings, workspace } = host;
  if (access === "none" || workspace === undefined) return undefined;
  const folder = resolveExisting([workspace])[0];
  if (folder === undefined) {
    throw new SkillError("workspace-missing", {
      message: `The workspace ${workspace} is not there`,
      fix: "name another",
    });
  }
  const users = getUserHome(host.env ?? process.env);
  const tooWide = resolveExisting([users, home]).find((path) => isInside(folder, path));
  if (tooWide !== undefined) {
    const why = tooWide === folder ? "is your home folder" : `holds ${tooWide}`;
    throw new SkillError("workspace-too-wide", {
      message: `The workspace ${folder} ${why}, so code is not let into it`,
      fix: 'work in a folder of its own, or set workspace = "none" in config.toml',
    });
  }
  const { uid, mode } = statSync(folder);
  // All commands share a user where they may write: the next one can change the files of the one before.
  const shared = uid !== 0 ? uid : access === "read-write" ? NOBODY_UID : undefined;
  const user = isRoot() && shared !== undefined ? { user: shared } : {};
  if (isRoot() && ((uid === 0 && !isOpenToOthers(mode, access)) || !isReachable(folder, uid))) {
    throw new SkillError("workspace-closed", {
      message: `Code never runs as root, and nobody else may ${access === "read" ? "read" : "write to"} ${folder}`,
      fix: "give the folder to an ordinary user, and run skillet as that user, or let others use it",
    });
  }
  if (access === "read") return { folder, ...user, own: [] };
  refuseClosedLinks(folder);
  return {
    folder,
    ...user,
    own: findTrustedFolders(folder, [home, join(users, ".agent"), ...settings.sources.map(({ path }) => path)]),
  };
}

/** Code in some folders runs without a word of the user's: those in the workspace are closed, and the workspace is in none of them. */
function findTrustedFolders(folder: string, places: readonly string[]): string[] {
  const trusted = resolveExisting(places);
  const around = trusted.find((path) => isInside(path, folder));
  if (around !== undefined) {
    throw new SkillError("workspace-own", {
      message: `The workspace ${folder} is in ${around}, whose code needs no trust, so no code may write to it`,
      fix: 'work in a folder of its own, or set workspace = "read" in config.toml',
    });
  }
  return trusted.filter((path) => isInside(folder, path)).map((path) => relative(folder, path));
}

function resolveExisting(paths: readonly string[]): string[] {
  return paths.filter(existsSync).map((path) => realpathSync(path));
}

/** A closed path at the top that is a link is refused: a mount would follow it to another place than programs do. */
function refuseClosedLinks(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isSymbolicLink() || !findSensitiveRow(entry.name, "")?.isClosed) continue;
    throw new SkillError("workspace-link", {
      message: `${join(folder, entry.name)} is a link, which cannot be kept from code that may write to the workspace`,
      fix: 'put what it leads to in its place, or set workspace = "read" in config.toml',
    });
  }
}

/** Whether this user, or anybody where it is root, comes as far as the folder: root's own home lets nobody through. */
function isReachable(folder: string, user: number): boolean {
  const parent = dirname(folder);
  const { uid, mode } = statSync(parent);
  const isLet = (mode & 0o001) !== 0 || (user !== 0 && uid === user && (mode & 0o100) !== 0);
  return isLet && (parent === folder || isReachable(parent, user));
}

/** Whether those who do not own it may use a folder. */
function isOpenToOthers(mode: number, access: "read" | "read-write"): boolean {
  const needed = access === "read" ? 0o005 : 0o007;
  return (mode & needed) === needed;
}

/** The user's files as a script sees them. */
export interface ScriptView {
  /** The folder that it starts in. */
  folder: string;
  /** The skill's folder, read-only: `$SKILL_DIR`. */
  skill: string;
  /** The workspace, where it is open: its path, and the path that the script sees it at. */
  workspace?: { path: string; seenAs: string; access: "read" | "read-write" };
}

export function createScriptView({ folder, places, workspace, access }: RunSandbox): ScriptView {
  const { skill = "", workspace: seenAs } = places;
  if (workspace === undefined || seenAs === undefined || access === "none") return { folder, skill };
  return { folder, skill, workspace: { path: workspace, seenAs, access } };
}

/** Describes a view in a few words, for the line on the outcome. */
export function formatScriptView({ folder, workspace }: ScriptView): string {
  if (!workspace) return `started in ${folder}, without the workspace`;
  return `started in ${workspace.seenAs}, the workspace, ${workspace.access === "read" ? "read-only" : "writable"}`;
}

/** Describes for a model what scripts of a skill see, and which arguments work; of any skill, where none is given. */
export function describeScriptView(host: Host, skill?: Skill): string {
  const request = { skill, home: resolveSkilletHome(host), kind: "script" } as const;
  const { access, notices } = chooseWorkspaceAccess(host, request);
  if (access === "none") {
    const why = notices.map(({ message }) => ` (${sanitizeLine(message, 300)})`).join("");
    return `It starts in the skill's folder, and sees no files of the user${why}: give it content on stdin.`;
  }
  const canAsk = access === "read" && chooseWorkspaceAccess(host, { ...request, writes: true }).asksToWrite;
  const how = access === "read" ? "which it can read" : "which it can read and change";
  return [
    `It starts in the user's workspace, ${how}: its arguments can be paths relative to the workspace or absolute paths in it.`,
    ...(canAsk ? ["With writes: true it can also change files there, once the user approves."] : []),
    "It sees no other files of the user. $SKILL_DIR is the skill's folder.",
  ].join(" ");
}

/** Describes for a model how the scripts of a loaded skill are run. */
export function describeScriptUse(host: Host, skill: Skill): string | undefined {
  if (listSkillScripts(skill).length === 0) return undefined;
  return `run_skill_script runs one of them, with args. ${describeScriptView(host, skill)}`;
}

/** The parameter of every tool that runs a script. */
export const WRITES_PARAMETER = {
  writes: {
    type: "boolean",
    says: "true for a script that changes files of the workspace: the user may be asked first; else it can only read them",
  },
} as const;

/** The change that a script with `writes` may make, for the user to approve. */
export function createScriptEffect(script: string, args: readonly string[]): ToolEffect {
  return { on: "workspace", what: ["run", script, ...args].join(" ") };
}

/**
 * Returns true if a script with `writes` has to be approved: always, unless the settings decide. Whether it can be written to is found out
 * when it runs, and may be another answer then.
 */
export function needsWriteApproval({ settings, workspace }: Host, skill: Skill): boolean {
  return workspace !== undefined && getConfiguredAccess(settings, skill) === undefined;
}

/** Returns true if a command could only read the workspace, and failed to write to it: other folders are never open. */
export function hasFailedToWrite(
  stderr: string,
  { places: { workspace }, ...enclosure }: Pick<RunSandbox, "places" | "access">,
  { access } = enclosure,
): boolean {
  if (access !== "read" || workspace === undefined) return false;
  return stderr.split("\n").some((line) => {
    if (!/Read-only file system/i.test(line)) return false;
    const said = line.replace(/^\S+: (?:line )?\d+: /, ""); // Where in the script it was, as shells say it.
    const [path] = /\/[^\s:'"]*/.exec(said) ?? [];
    return path === undefined || path.startsWith(workspace);
  });
}

export function createReadOnlyProblem({ places }: RunSandbox, host: Host, skill: Skill): Problem {
  const fix = needsWriteApproval(host, skill)
    ? "let it write: `skillet script --write …`, or `writes: true` in a call"
    : `run: skillet config set ${formatSkillKey(skill, "workspace")} read-write`;
  return {
    code: "workspace-read-only",
    message: `The script can only read ${places.workspace}, and tried to change it`,
    fix,
  };
}

const SOCKET_PREFIX = "unix:";

/** Sockets and named pipes of the workspace that the operator granted, as paths: `unix:tmp/db.sock`. */
export function listGrantedSockets(written: readonly string[]): string[] {
  return written.filter((text) => text.startsWith(SOCKET_PREFIX)).map((text) => text.slice(SOCKET_PREFIX.length));
}

/** What the operator wrote, as hosts and ports. Throws a SkillError for what is none. */
export function parseEndpoints(written: readonly string[]): Endpoint[] {
  const endpoints = written.filter((text) => !text.startsWith(SOCKET_PREFIX));
  return endpoints.map((text) => {
    const endpoint = parseEndpoint(text);
    if (endpoint) return endpoint;
    throw new SkillError("network-endpoint", {
      message: `"${text}" in the configuration is no host with a port`,
      fix: 'name one host and one port each, as "api.example.com:443"',
    });
  });
}

/** The packages that a skill's code gets: what it declares, and what the user gives it. */
export interface SkillPackages {
  system: readonly string[];
  python: readonly string[];
  npm: readonly string[];
}

export function listSkillPackages({ name, manifest }: Skill, { settings }: Pick<Host, "settings">): SkillPackages {
  const { python = [], npm = [], packages = [] } = settings.skills.get(name) ?? {};
  const declared = [...manifest.packages, ...packages];
  // A system of its own has no Python, unless it is asked for.
  const interpreter = declared.length > 0 && python.length > 0 ? ["python3"] : [];
  return { system: [...new Set([...declared, ...interpreter])], python, npm };
}

/** What one command or script may use. */
export type CommandLimits = SandboxLimits & { arguments: number; argumentBytes: number };

export function getCommandLimits({ settings: { scripts, sandbox } }: Host): CommandLimits {
  const { memory, processes, disk } = sandbox;
  return { ...scripts, memory, processes, disk };
}

/** Runs code that may write to files of the user's: skills that it changes are no longer trusted as the user's own work. */
export function watchOwnSkills<T>({ trust }: Pick<Host, "trust">, work: () => Promise<T>): Promise<T> {
  return trust?.own ? trust.own.watch(work) : work(); // The trust of an embedding program may have none.
}
