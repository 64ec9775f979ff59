import { join, posix, resolve } from "node:path";
import type { Host } from "../host/host.ts";
import { type Mount, type Notice, type Sandbox, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import { isRoot, NOBODY } from "../sandbox/places.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import { createFolderRights } from "./workspace/folder-rights.ts";
import type { HeldChanges } from "./workspace/held-changes.ts";
import { holdChanges } from "./workspace/hold-changes.ts";
import { claimStart, keepSnapshot, recoverKilled, takeBaseline } from "./workspace/running-snapshots.ts";
import { type Snapshot, takeSnapshot } from "./workspace/snapshot.ts";
import {
  type ListingCache,
  rawPath,
  reachOf,
  textOf,
  type WorkspaceWalk,
  walkWorkspace,
} from "./workspace/walk-workspace.ts";
import { checkWorkspace, type WorkspaceRequest } from "./workspace-access.ts";

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

export interface OpenWorkspaceOptions extends WorkspaceRequest {
  skill: string;
  sandbox: Pick<Sandbox, "mapsPaths">;
  /** Sockets and named pipes that code may use, as the settings name them. */
  sockets: readonly string[];
  /** How long the command may take. */
  seconds: number;
}

/**
 * Waits until no other command starts in the workspace, and keeps others from it until it is released. Undefined where nothing is mounted, or the
 * sandbox does not report when everything is. Throws a SkillError when the workspace cannot be had.
 */
export async function claimWorkspaceStart(
  host: Host,
  { sandbox, ...request }: WorkspaceRequest & { sandbox: Pick<Sandbox, "by"> },
): Promise<{ release(): void } | undefined> {
  const folder = sandbox.by === "bubblewrap" ? checkWorkspace(host, request)?.folder : undefined;
  return folder === undefined ? undefined : claimStart(request.home, rawPath(folder));
}

/** Opens the workspace for one command: not at all, to read, or to write. Throws a SkillError when it cannot be had. */
export function openWorkspace(host: Host, options: OpenWorkspaceOptions): OpenWorkspace {
  const { access, home, skill, seconds, sandbox } = options;
  const checked = checkWorkspace(host, options);
  if (!checked || access === "none") return { mounts: [], recovered: [], close: () => ({}) };
  const { folder, own, ...user } = checked;
  const root = rawPath(folder);
  const recovered = recoverKilled(home, root);
  const { masks, closed, snapshot, hasMovableMasks, others } = takeBaseline(home, root, (running) => {
    const rights = createFolderRights(root);
    try {
      const walk = walkWorkspace(root, { cache: cacheFor(root), rights });
      const reach = reachOf(root, checked.user ?? (isRoot() ? NOBODY : (process.getuid?.() ?? 0)), rights);
      // Of a folder that a running command can rename, the content is compared: it could be mounted read-only at a place where it no longer is.
      const isFixed = (path: string) => running.every((other) => !isMovable(path, other));
      const canMount = (path: string) => sandbox.mapsPaths && reach(path) === "yes" && isFixed(path);
      const { masks, masked } = masksFor(folder, walk, { granted: options.sockets, reach });
      if (access === "read") return { masks, closed: [], hasMovableMasks: masked.some((path) => path.includes("/")) };
      const taken = takeSnapshot(root, walk, { canMount, own: own.map(rawPath) });
      const readOnly = [...taken.units.values()].filter(({ row, isMounted }) => isMounted || row.isClosed);
      const movable = masked.filter((path) => isMovable(path, taken));
      refuseFillable(movable, options.sockets);
      const hasMovableMasks = movable.length > 0;
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

/**
 * Refuses a grant that code can use for another socket: it cannot rename what is masked, but a folder with it, so that the next command finds it at the
 * granted path.
 */
function refuseFillable(movable: readonly string[], granted: readonly string[]): void {
  const names = new Set(granted.filter((path) => path.includes("/")).map((path) => posix.basename(rawPath(path))));
  const fills = movable.find((path) => names.has(posix.basename(path)));
  if (fills === undefined) return;
  throw new SkillError("workspace-sockets", {
    message: `${textOf(fills)} has the name of a granted socket, and code that may write could move it to the granted path`,
    fix: 'grant the socket under another name, move one of both, or set workspace = "read" in config.toml',
  });
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
