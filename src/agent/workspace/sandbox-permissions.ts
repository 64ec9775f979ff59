import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, normalize, relative, resolve } from "node:path";
import type { Host } from "../../config/host.ts";
import type { WorkspaceAccess } from "../../config/limits.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { type Endpoint, HOME_FOLDER, type SandboxLimits, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { isRoot, NOBODY_UID } from "../../sandbox/sandbox-folders.ts";
import { parseEndpoint } from "../../sandbox/sandbox-network.ts";
import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts, SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import type { ToolEffect } from "../../skill/tool.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { getSkilletHome, getUserHome } from "../../util/system.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { formatSkillKey } from "../policy/trust-policy.ts";
import type { RunSandbox } from "./run-sandbox.ts";
import { findSensitiveRow } from "./sensitive-paths.ts";

/** The workspace access of code, with a notice if it is reduced. */
interface ChosenAccess {
  access: WorkspaceAccess;
  /** True if changes need approval, because the settings do not decide. */
  needsWriteApproval: boolean;
  notices: readonly Problem[];
  /** Why more access is not available. */
  reason?: Problem;
}

export interface AccessRequest {
  skill: Skill | undefined;
  home: string;
  /** The origin of the code. Without a setting, a run can ask to write, and a script is read-only unless its call asks to write. */
  kind: "run" | "script";
  /** True if the call of a script asks to write. */
  writes?: boolean | undefined;
}

/** Chooses the workspace access. A configured access is used or refused. Without a setting, code gets the most that is available. */
export function chooseWorkspaceAccess(host: Host, request: AccessRequest): ChosenAccess {
  const { skill, home, kind, writes = kind === "run" } = request;
  const { settings, workspace } = host;
  const configured = getConfiguredAccess(settings, skill);
  if (workspace === undefined) return { access: "none", needsWriteApproval: false, notices: [] };
  if (configured !== undefined) {
    const isShort = kind === "script" && writes && configured !== "read-write";
    return {
      access: configured,
      needsWriteApproval: false,
      notices: isShort ? [createNotWritableProblem(configured, skill)] : [],
    };
  }
  let why: SkillError | undefined;
  for (const access of writes ? (["read-write", "read"] as const) : (["read"] as const)) {
    try {
      refusePrivateFolder(host);
      checkWorkspace(host, { access, home });
      const notices = why ? [createReducedAccessProblem(why, kind, "can read it but change nothing")] : [];
      return { access, needsWriteApproval: access === "read-write", notices, ...(why ? { reason: why.problem } : {}) };
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      why = error;
    }
  }
  return {
    access: "none",
    needsWriteApproval: false,
    notices: why ? [createReducedAccessProblem(why, kind, kind === "run" ? "do not see it" : "does not see it")] : [],
    ...(why ? { reason: why.problem } : {}),
  };
}

/** Returns the access that the settings give to code of this skill; undefined if they do not decide. */
function getConfiguredAccess(settings: Host["settings"], skill: Skill | undefined): WorkspaceAccess | undefined {
  return (skill && settings.skills.get(skill.name)?.workspace) ?? settings.sandbox.workspace;
}

function createReducedAccessProblem({ problem }: SkillError, by: AccessRequest["kind"], effect: string): Problem {
  const who = by === "run" ? "the tools of this run" : "the script";
  return { ...problem, message: `${problem.message}: ${who} ${effect}` };
}

function createNotWritableProblem(access: WorkspaceAccess, skill: Skill | undefined): Problem {
  const key = skill ? formatSkillKey(skill, "workspace") : "sandbox.workspace";
  return {
    code: "workspace-read-only",
    message: `The configuration sets workspace = "${access}", so the script cannot write to the workspace`,
    fix: "run",
    commands: [`skillet config set ${key} read-write`],
  };
}

/** Refuses a hidden folder of the user's home unless it is configured: it contains keys and settings of other programs. */
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
  trustedFolders: readonly string[];
}

/** Checks that code may access the workspace this way; `undefined` if it gets none. Throws a SkillError if it may not. */
export function checkWorkspace(host: Host, { access, home }: WorkspaceRequest): CheckedWorkspace | undefined {
  const { settings, workspace } = host;
  if (access === "none" || workspace === undefined) return undefined;
  const folder = resolveExisting([workspace])[0];
  if (folder === undefined) {
    throw new SkillError("workspace-missing", {
      message: `The workspace ${workspace} does not exist`,
      fix: "choose another folder",
    });
  }
  const users = getUserHome(host.env ?? process.env);
  const tooWide = resolveExisting([users, home]).find((path) => isInside(folder, path));
  if (tooWide !== undefined) {
    const why = tooWide === folder ? "is your home folder" : `contains ${tooWide}`;
    throw new SkillError("workspace-too-wide", {
      message: `The workspace ${folder} ${why}, so code gets no access to it`,
      fix: 'work in a project folder, or set workspace = "none" in config.toml',
    });
  }
  const { uid, mode } = statSync(folder);
  // With write access, all commands share a user: the next one can change files of the one before.
  const shared = uid !== 0 ? uid : access === "read-write" ? NOBODY_UID : undefined;
  const user = isRoot() && shared !== undefined ? { user: shared } : {};
  if (isRoot() && ((uid === 0 && !isOpenToOthers(mode, access)) || !isReachable(folder, uid))) {
    throw new SkillError("workspace-inaccessible", {
      message: `Code never runs as root, and no other user may ${access === "read" ? "read" : "write to"} ${folder}`,
      fix: "make an ordinary user the owner of the folder and run skillet as that user, or give others access to it",
    });
  }
  if (access === "read") return { folder, ...user, trustedFolders: [] };
  refuseClosedLinks(folder);
  return {
    folder,
    ...user,
    trustedFolders: findTrustedFolders(folder, [
      home,
      join(users, ".agent"),
      ...settings.sources.map(({ path }) => path),
    ]),
  };
}

/** Finds the folders whose code runs without approval. Those in the workspace are read-only; the workspace must not be in one. */
function findTrustedFolders(folder: string, paths: readonly string[]): string[] {
  const trusted = resolveExisting(paths);
  const parent = trusted.find((path) => isInside(path, folder));
  if (parent !== undefined) {
    throw new SkillError("workspace-trusted-code", {
      message: `The workspace ${folder} is in ${parent}, whose code needs no trust, so no code may write to it`,
      fix: 'work in another folder, or set workspace = "read" in config.toml',
    });
  }
  return trusted.filter((path) => isInside(folder, path)).map((path) => relative(folder, path));
}

function resolveExisting(paths: readonly string[]): string[] {
  return paths.filter(existsSync).map((path) => realpathSync(path));
}

/** Refuses a protected top-level path that is a link: a mount would follow it to another path than programs do. */
function refuseClosedLinks(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isSymbolicLink() || !findSensitiveRow(entry.name, "")?.isClosed) continue;
    throw new SkillError("workspace-symlink", {
      message: `${join(folder, entry.name)} is a symlink, which cannot be protected from code with write access to the workspace`,
      fix: 'replace it with its target, or set workspace = "read" in config.toml',
    });
  }
}

/** Returns true if this user (any other user for root) can enter the folder: root's own home is closed to others. */
function isReachable(folder: string, user: number): boolean {
  const parent = dirname(folder);
  const { uid, mode } = statSync(parent);
  const isLet = (mode & 0o001) !== 0 || (user !== 0 && uid === user && (mode & 0o100) !== 0);
  return isLet && (parent === folder || isReachable(parent, user));
}

/** Returns true if users other than the owner may use a folder. */
function isOpenToOthers(mode: number, access: "read" | "read-write"): boolean {
  const needed = access === "read" ? 0o005 : 0o007;
  return (mode & needed) === needed;
}

/** The user's files that a script sees. */
export interface ScriptView {
  /** The working directory. */
  folder: string;
  /** The skill's folder, read-only: `$SKILL_DIR`. */
  skill: string;
  /** The workspace, if open: its path, and the path that the script sees. */
  workspace?: { path: string; seenAs: string; access: "read" | "read-write" };
}

export function createScriptView({ folder, visiblePaths: places, workspace, access }: RunSandbox): ScriptView {
  const { skill = "", workspace: seenAs } = places;
  if (workspace === undefined || seenAs === undefined || access === "none") return { folder, skill };
  return { folder, skill, workspace: { path: workspace, seenAs, access } };
}

/** Describes a view briefly, for the line about the outcome. */
export function formatScriptView({ folder, workspace }: ScriptView): string {
  if (!workspace) return `started in ${folder}, without the workspace`;
  return `started in ${workspace.seenAs}, the workspace, ${workspace.access === "read" ? "read-only" : "writable"}`;
}

/** Describes for a model which files scripts of a skill see, and which arguments work; for all skills if none is given. */
export function describeScriptView(host: Host, skill?: Skill): string {
  const request = { skill, home: resolveSkilletHome(host), kind: "script" } as const;
  const { access, notices } = chooseWorkspaceAccess(host, request);
  if (access === "none") {
    const why = notices.map(({ message }) => ` (${sanitizeLine(message, 300)})`).join("");
    return `It starts in the skill's folder and sees no files of the user${why}: pass content on stdin.`;
  }
  const canAsk = access === "read" && chooseWorkspaceAccess(host, { ...request, writes: true }).needsWriteApproval;
  const how = access === "read" ? "which it can read" : "which it can read and change";
  return [
    `It starts in the user's workspace, ${how}: its arguments can be paths relative to the workspace or absolute paths in it.`,
    ...(canAsk ? ["With writes: true it can also change files there, once the user approves."] : []),
    "It sees no other files of the user. $SKILL_DIR is the skill's folder.",
  ].join(" ");
}

/** Describes for a model how to run the scripts of a loaded skill. */
export async function describeScriptUse(host: Host, skill: Skill): Promise<string | undefined> {
  if ((await listSkillScripts(skill)).length === 0) return undefined;
  return `run_skill_script runs one of them, with args. ${describeScriptView(host, skill)}`;
}

/** The `writes` parameter of every tool that runs a script. */
export const WRITES_PARAMETER = {
  writes: {
    type: "boolean",
    description:
      "true for a script that changes files of the workspace: the user may have to approve it; otherwise it can only read them",
  },
} as const;

/** Creates the effect of a script with `writes`, for the user to approve. */
export function createScriptEffect(script: string, args: readonly string[]): ToolEffect {
  return { on: "workspace", what: ["run", script, ...args].join(" ") };
}

/**
 * Returns true if a script with `writes` needs approval: always, unless the settings decide. Write access itself is checked when the script
 * runs, because it may have changed by then.
 */
export function needsWriteApproval({ settings, workspace }: Host, skill: Skill): boolean {
  return workspace !== undefined && getConfiguredAccess(settings, skill) === undefined;
}

/** Returns true if a command with read-only access failed to write to the workspace: other folders are never writable. */
export function hasFailedToWrite(
  stderr: string,
  { visiblePaths: { workspace }, ...sandbox }: Pick<RunSandbox, "visiblePaths" | "access">,
  { access } = sandbox,
): boolean {
  if (access !== "read" || workspace === undefined) return false;
  return stderr.split("\n").some((line) => {
    if (!/Read-only file system/i.test(line)) return false;
    const message = line.replace(/^\S+: (?:line )?\d+: /, ""); // Removes the position in the script that shells print.
    const [path] = /\/[^\s:'"]*/.exec(message) ?? [];
    return path === undefined || path.startsWith(workspace);
  });
}

export function createReadOnlyProblem({ visiblePaths: places }: RunSandbox, host: Host, skill: Skill): Problem {
  const fix = needsWriteApproval(host, skill)
    ? { fix: "give it write access, with `writes: true` in a call", commands: ["skillet script --write …"] }
    : { fix: "run", commands: [`skillet config set ${formatSkillKey(skill, "workspace")} read-write`] };
  return {
    code: "workspace-read-only",
    message: `The script has read-only access to ${places.workspace}, and tried to change it`,
    ...fix,
  };
}

const SOCKET_PREFIX = "unix:";

/** Lists the granted sockets and named pipes of the workspace, as paths: `unix:tmp/db.sock`. */
export function listGrantedSockets(written: readonly string[]): string[] {
  return written.filter((text) => text.startsWith(SOCKET_PREFIX)).map((text) => text.slice(SOCKET_PREFIX.length));
}

/** Parses the configured hosts and ports. Throws a SkillError for an invalid one. */
export function parseEndpoints(written: readonly string[]): Endpoint[] {
  const endpoints = written.filter((text) => !text.startsWith(SOCKET_PREFIX));
  return endpoints.map((text) => {
    const endpoint = parseEndpoint(text);
    if (endpoint) return endpoint;
    throw new SkillError("network-endpoint", {
      message: `"${text}" in the configuration is not a host with a port`,
      fix: 'write one host and one port each, such as "api.example.com:443"',
    });
  });
}

/** The packages of a skill's code: those that it declares, and those that the user configured. */
export interface SkillPackages {
  system: readonly string[];
  python: readonly string[];
  npm: readonly string[];
}

export function listSkillPackages({ name, manifest }: Skill, { settings }: Pick<Host, "settings">): SkillPackages {
  const { python = [], npm = [], packages = [] } = settings.skills.get(name) ?? {};
  const declared = [...manifest.packages, ...packages];
  // The skill's own system has no Python unless it is requested.
  const interpreter = declared.length > 0 && python.length > 0 ? ["python3"] : [];
  return { system: [...new Set([...declared, ...interpreter])], python, npm };
}

/** Returns true if a script of the skill may declare Python packages: one of Python, or one whose name has no extension. */
export function mayDeclarePackages({ files }: SkillCopy): boolean {
  return [...files.keys()].some((path) => /(?:\.py|\/[^.]+)$/i.test(path));
}

/** The limits of one command or script. */
export type CommandLimits = SandboxLimits & { arguments: number; argumentBytes: number };

export function getCommandLimits({ settings: { scripts, sandbox } }: Host): CommandLimits {
  const { memory, processes, disk } = sandbox;
  return { ...scripts, memory, processes, disk };
}

/** Runs code with write access to the user's files: skills that it changes lose their trust as the user's own work. */
export function watchOwnSkills<T>({ trust }: Pick<Host, "trust">, work: () => Promise<T>): Promise<T> {
  return trust?.own ? trust.own.watch(work) : work(); // The trust store of an embedding program may not support it.
}

type VisiblePaths = Pick<RunSandbox, "sandbox" | "workspace" | "visiblePaths">;

/** Returns the arguments as the script sees them: absolute paths in the workspace become paths of the sandbox. */
export function translateArguments(args: readonly string[], { workspace }: Host, seen: VisiblePaths): string[] {
  const { visiblePaths } = seen;
  if (seen.workspace === undefined || visiblePaths.workspace === undefined) return [...args];
  const as = visiblePaths.workspace;
  const roots = [workspace === undefined ? seen.workspace : resolve(workspace), seen.workspace];
  return args.map((arg) => {
    const { option, value } = splitOption(arg);
    const root = isAbsolute(value) ? roots.find((path) => isInside(path, normalize(value))) : undefined;
    return root === undefined ? arg : `${option}${join(as, normalize(value).slice(root.length))}`;
  });
}

/**
 * Returns a warning for each argument that names a path the script cannot see. It checks the path alone and never whether a file
 * exists, so that no caller learns from it which files the machine has.
 */
export function warnHiddenArguments(
  args: readonly string[],
  host: Host,
  { skill, ...seen }: VisiblePaths & { skill: Skill },
): Problem[] {
  if (seen.sandbox.level === "none") return [];
  const paths = args.map((arg) => splitOption(arg).value).filter((value) => !isPathVisible(value, host, seen));
  return [...new Set(paths)].slice(0, MAX_ARGUMENT_WARNINGS).map((path) => ({
    code: "argument-outside",
    ...(seen.workspace === undefined ? describeClosedWorkspace(path, skill) : describeOutsidePath(path, host)),
  }));
}

const MAX_ARGUMENT_WARNINGS = 3;

function describeOutsidePath(path: string, { workspace = "" }: Host): Omit<Problem, "code"> {
  return {
    message: `The script cannot see ${sanitizeLine(path, 200)}: it is outside the workspace ${workspace}`,
    fix: "copy the file into the workspace, or use its folder as the workspace (skillet script --workspace FOLDER)",
  };
}

function describeClosedWorkspace(path: string, skill: Skill): Omit<Problem, "code"> {
  return {
    message: `The script cannot see ${sanitizeLine(path, 200)}: it has no access to the workspace`,
    fix: "work in a project folder and run",
    commands: [`skillet config set ${formatSkillKey(skill, "workspace")} read`],
  };
}

function isPathVisible(value: string, host: Host, { workspace }: Pick<VisiblePaths, "workspace">): boolean {
  const start = resolve(host.workspace ?? "/");
  const path = value.startsWith("~/") ? join(getUserHome(host.env ?? process.env), value.slice(2)) : value;
  const named = resolve(start, path);
  if (!isAbsolute(path) && workspace === undefined) {
    // Plain text looks like a relative path: only an existing file of the workspace counts.
    return host.workspace === undefined || path === "" || !existsSync(named);
  }
  if (workspace !== undefined && [start, workspace].some((folder) => isInside(folder, named))) {
    return isInside(workspace, resolveRealPath(named)); // A symlink that leads out of the workspace is broken inside the sandbox.
  }
  if (named === "/" || named === "/tmp" || VISIBLE_FOLDERS.some((folder) => isInside(folder, named))) return true;
  // The script has its own /tmp: only a file of the host's /tmp is missing there.
  return isInside("/tmp", named) ? !existsSync(named) : !existsSync(`/${named.split("/")[1]}`);
}

/** Folders that are in every sandbox. */
const VISIBLE_FOLDERS = [
  SANDBOX_SKILL_FOLDER,
  WORKSPACE_FOLDER,
  HOME_FOLDER,
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib64",
  "/dev",
  "/proc",
  "/opt/skillet",
];

/** Splits `--out=PATH` into option and value: the value may be a path. */
function splitOption(arg: string): { option: string; value: string } {
  const [option = ""] = /^--?[\w-]+=/.exec(arg) ?? [];
  return { option, value: arg.slice(option.length) };
}
