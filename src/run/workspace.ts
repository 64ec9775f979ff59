import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { type Mount, type Notice, type Sandbox, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import type { WorkspaceAccess } from "../host/sandbox-settings.ts";
import { isRoot, NOBODY } from "../sandbox/places.ts";
import { SkillError } from "../shared/error.ts";
import { isInside, reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { createFolderRights } from "./workspace/folder-rights.ts";
import type { HeldChanges } from "./workspace/held-changes.ts";
import { holdChanges } from "./workspace/hold-changes.ts";
import { keepSnapshot, recoverKilled, takeBaseline } from "./workspace/running-snapshots.ts";
import { sensitiveRow } from "./workspace/sensitive-paths.ts";
import { type Snapshot, takeSnapshot } from "./workspace/snapshot.ts";
import {
  type ListingCache,
  rawPath,
  reachOf,
  textOf,
  type WorkspaceWalk,
  walkWorkspace,
} from "./workspace/walk-workspace.ts";

/** The workspace as a skill's code gets it. */
export interface OpenWorkspace {
  mounts: Mount[];
  /** Whom the code runs as, where the caller is root: the folder's owner, so that what it makes is theirs. */
  user?: number;
  /** Changes of runs whose process was killed, which were found now. */
  recovered: readonly HeldChanges[];
  /** Takes changes of sensitive paths out of the workspace. Contract: never throws. */
  close(): { held?: HeldChanges; problem?: Notice };
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
      checkWorkspace(host, { access, home });
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

interface WorkspaceRequest {
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

export interface OpenWorkspaceOptions extends WorkspaceRequest {
  skill: string;
  sandbox: Pick<Sandbox, "mapsPaths">;
  /** Sockets and named pipes that code may use, as the settings name them. */
  sockets: readonly string[];
  /** How long the command may take. */
  seconds: number;
}

/** Opens the workspace for one command: not at all, to read, or to write. Throws a SkillError when it cannot be had. */
export function openWorkspace(host: Host, options: OpenWorkspaceOptions): OpenWorkspace {
  const { access, home, skill, seconds, sandbox } = options;
  const checked = checkWorkspace(host, options);
  if (!checked || access === "none") return { mounts: [], recovered: [], close: () => ({}) };
  const { folder, own, ...user } = checked;
  const root = rawPath(folder);
  const recovered = recoverKilled(home, root);
  const { masks, closed, snapshot, hasMovableMasks, others } = takeBaseline(home, root, () => {
    const rights = createFolderRights(root);
    try {
      const walk = walkWorkspace(root, { cache: cacheFor(root), rights });
      const reach = reachOf(root, checked.user ?? (isRoot() ? NOBODY : (process.getuid?.() ?? 0)), rights);
      const canMount = (path: string) => sandbox.mapsPaths && reach(path) === "yes";
      const { masks, masked } = masksFor(folder, walk, { granted: options.sockets, reach });
      if (access === "read") return { masks, closed: [], hasMovableMasks: masked.some((path) => path.includes("/")) };
      const taken = takeSnapshot(root, walk, { canMount, own: own.map(rawPath) });
      const readOnly = [...taken.units.values()].filter(({ row, isMounted }) => isMounted || row.isClosed);
      const hasMovableMasks = masked.some((path) => isMovable(path, taken));
      return { masks, closed: readOnly, snapshot: { ...taken, hasMovableMasks }, hasMovableMasks };
    } finally {
      rights.restore();
    }
  });
  // Masks are mounted by path: a command that renames a folder meanwhile would get the socket in it for this one.
  if (others.length > 0 && (hasMovableMasks || others.some((other) => other.hasMovableMasks))) throw movingSockets();
  const whole: Mount = { from: folder, to: WORKSPACE_FOLDER, access };
  if (!snapshot) return { ...user, recovered, mounts: [whole, ...masks], close: () => ({}) };
  const compared = snapshot;
  const mounts = closed.flatMap(({ path, entries }): Mount[] => {
    const kind = entries.get("")?.kind;
    if (kind !== "file" && kind !== "folder") return [];
    return [{ from: join(folder, textOf(path)), to: `${WORKSPACE_FOLDER}/${textOf(path)}`, access: "read" }];
  });
  const until = Date.now() + seconds * 1000 + GRACE_MS;
  const running = keepSnapshot(home, { workspace: folder, skill, until, snapshot });
  return {
    ...user,
    recovered,
    mounts: [whole, ...mounts, ...masks],
    close() {
      try {
        const held = holdChanges(compared, { home, workspace: folder, skill });
        // What could not be put back is still in the snapshot: the next process tries again.
        if (held?.changes.every(({ problem }) => problem === undefined) ?? true) running.release();
        return held ? { held } : {};
      } catch (error) {
        return { problem: notCompared(error) };
      }
    },
  };
}

/** What a killed process started is dead within a second. */
const GRACE_MS = 5000;

/** Folders of the last workspace that was walked: a run opens the same one for each command. */
let cached: { root: string; listings: ListingCache } | undefined;

/** None the first time: fingerprints cost a quarter of a walk, and many processes run a single command. */
function cacheFor(root: string): ListingCache | undefined {
  if (cached?.root === root) return cached.listings;
  cached = { root, listings: new Map() };
  return undefined;
}

const MOST_MASKS = 250;

/** Hides sockets and named pipes that were not granted: a read-only mount does not keep code from connecting. */
function masksFor(
  folder: string,
  { channels, unsearched }: Pick<WorkspaceWalk, "channels" | "unsearched">,
  { granted, reach }: { granted: readonly string[]; reach: ReturnType<typeof reachOf> },
): { masks: Mount[]; masked: readonly string[] } {
  const unknown = unsearched.find((path) => reach(`${path}/.`) !== "no");
  if (unknown !== undefined) {
    throw new SkillError("workspace-sockets", {
      message: `Sockets and named pipes in ${oneLine(textOf(unknown), 100)} cannot be masked: the folder cannot be listed, or its path is too long`,
      fix: 'move the folder out of the workspace, or set workspace = "none" in config.toml',
    });
  }
  const open = new Set(granted.map((path) => resolve(folder, path)));
  const masked = channels.filter((path) => !open.has(join(folder, textOf(path))) && reach(path) !== "no");
  const unnamed = masked.find((path) => rawPath(textOf(path)) !== path || reach(path) === "own");
  if (unnamed !== undefined || masked.length > MOST_MASKS) {
    const what = unnamed === undefined ? `${masked.length} sockets and named pipes` : `a socket or named pipe`;
    throw new SkillError("workspace-sockets", {
      message: `The workspace has ${what} that cannot be masked, such as ${textOf(unnamed ?? masked[0] ?? "")}`,
      fix: 'remove them, or set workspace = "none" in config.toml',
    });
  }
  const masks = masked.map(
    (path): Mount => ({
      from: "/dev/null", // As a socket is, it is no ordinary file, so that programs which read all files leave it out.
      to: `${WORKSPACE_FOLDER}/${textOf(path)}`,
      access: "read",
    }),
  );
  return { masks, masked };
}

/** True where code that may write can rename a folder that the path is in: it cannot rename what is mounted. */
function isMovable(path: string, { units }: Snapshot): boolean {
  const [top = path] = path.split("/");
  return top !== path && units.get(top)?.isMounted !== true;
}

function movingSockets(): SkillError {
  return new SkillError("workspace-sockets", {
    message: "Another command may write to the workspace, and could move its sockets or named pipes out of their masks",
    fix: "try again when that command has ended",
  });
}

function notCompared(error: unknown): Notice {
  return {
    code: "workspace-protected",
    message: `Sensitive paths of the workspace could not be compared after the run: ${reason(error)}`,
    fix: "look for changes yourself; the next run in this workspace compares again",
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
