import { randomBytes } from "node:crypto";
import { existsSync, linkSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Host } from "../../config/host.ts";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { type Mount, type Sandbox, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { isRoot, NOBODY_UID } from "../../sandbox/sandbox-folders.ts";
import { formatProcessOwner, readLiveOwner, withFileLock } from "../../store/locked-file.ts";
import { createFolder } from "../../util/file-access.ts";
import { shortHash, truncateLine } from "../../util/text.ts";
import { getHeldFolder, type HeldChanges } from "./held-changes.ts";
import { holdChanges } from "./hold-changes.ts";
import { checkWorkspace, type WorkspaceRequest } from "./sandbox-permissions.ts";
import {
  createReachCheck,
  type ListingCache,
  toPathText,
  toRawPath,
  type WorkspaceWalk,
  walkWorkspace,
} from "./walk-workspace.ts";
import { createFolderRights } from "./workspace-files.ts";
import { type SnapshotEntry, type SnapshotUnit, takeSnapshot, type WorkspaceSnapshot } from "./workspace-snapshot.ts";

/** The workspace as mounted for a skill's code. */
export interface OpenWorkspace {
  mounts: Mount[];
  /** The user that runs the code if the caller is root: the folder's owner, so that new files belong to them. */
  user?: number;
  /** Changes of killed runs, found when the workspace was opened. */
  recovered: readonly HeldChanges[];
  /** Moves changes of sensitive paths out of the workspace. Contract: never throws. */
  close(): { held?: HeldChanges; problem?: Problem };
}

export interface OpenWorkspaceOptions extends WorkspaceRequest {
  skill: string;
  sandbox: Pick<Sandbox, "mapsPaths" | "by">;
  /** Sockets and named pipes that the settings grant to code. */
  sockets: readonly string[];
  /** The time limit of the command. */
  seconds: number;
}

/**
 * Waits until no other command is starting in the workspace, and blocks others until it is released. Undefined if nothing is mounted, or if
 * the sandbox does not report when its mounts are done. Throws a SkillError when the workspace is unavailable.
 */
export async function claimWorkspaceStart(
  host: Host,
  { sandbox, ...request }: WorkspaceRequest & { sandbox: Pick<Sandbox, "by"> },
): Promise<{ release(): void } | undefined> {
  const folder = sandbox.by === "bubblewrap" ? checkWorkspace(host, request)?.folder : undefined;
  return folder === undefined ? undefined : claimStartLock(request.home, toRawPath(folder));
}

/** Opens the workspace for one command: not at all, read-only, or writable. Throws a SkillError when it is unavailable. */
export function openWorkspace(host: Host, options: OpenWorkspaceOptions): OpenWorkspace {
  const { access, home, skill, seconds, sandbox } = options;
  const checked = checkWorkspace(host, options);
  if (!checked || access === "none") return { mounts: [], recovered: [], close: () => ({}) };
  const { folder, trustedFolders, ...user } = checked;
  const root = toRawPath(folder);
  const recovered = recoverKilledCommands(home, root);
  const { masks, closed, snapshot, hasMovableMasks, others } = takeBaseline(home, root, (running) => {
    const rights = createFolderRights(root);
    try {
      const walk = walkWorkspace(root, { cache: getWalkCache(root), rights });
      const reach = createReachCheck(root, checked.user ?? (isRoot() ? NOBODY_UID : (process.getuid?.() ?? 0)), rights);
      // If a running command can rename a folder, its content is compared: a read-only mount could cover the wrong path.
      const isFixed = (path: string) => running.every((other) => !isMovable(path, other));
      const canMount = (path: string) => sandbox.mapsPaths && reach(path) === "yes" && isFixed(path);
      const { masks, masked } = createMasks(folder, walk, { granted: options.sockets, reach });
      if (access === "read") return { masks, closed: [], hasMovableMasks: masked.some((path) => path.includes("/")) };
      const taken = takeSnapshot(root, walk, { canMount, own: trustedFolders.map(toRawPath) });
      const readOnly = [...taken.units.values()].filter(({ row, isMounted }) => isMounted || row.isClosed);
      const movable = masked.filter((path) => isMovable(path, taken));
      refuseMovableGrants(movable, options.sockets);
      const hasMovableMasks = movable.length > 0;
      return { masks, closed: readOnly, snapshot: { ...taken, hasMovableMasks }, hasMovableMasks };
    } finally {
      rights.restore();
    }
  });
  // Masks are mounted by path: a command that renames a folder in the meantime could expose the socket in it.
  if (others.length > 0 && (hasMovableMasks || others.some((other) => other.hasMovableMasks)))
    throw createMovingSocketsError();
  const whole: Mount = { from: folder, to: WORKSPACE_FOLDER, access };
  if (!snapshot) return { ...user, recovered, mounts: [whole, ...masks], close: () => ({}) };
  const compared = snapshot;
  const mounts = closed.flatMap(({ path, entries }): Mount[] => {
    const kind = entries.get("")?.kind;
    if (kind !== "file" && kind !== "folder") return [];
    return [{ from: join(folder, toPathText(path)), to: `${WORKSPACE_FOLDER}/${toPathText(path)}`, access: "read" }];
  });
  const until = Date.now() + seconds * 1000 + KILL_GRACE_MS;
  const running = keepSnapshot(home, { workspace: folder, skill, until, snapshot });
  return {
    ...user,
    recovered,
    mounts: [whole, ...mounts, ...masks],
    close() {
      try {
        const held = holdChanges(compared, { home, workspace: folder, skill });
        // Content that could not be restored is still in the snapshot: the next process tries again.
        if (held?.changes.every(({ problem }) => problem === undefined) ?? true) running.release();
        return held ? { held } : {};
      } catch (error) {
        return { problem: createNotComparedProblem(error) };
      }
    },
  };
}

/** Processes of a killed command are dead within a second. */
const KILL_GRACE_MS = 5000;

/** The listings of the last workspace: a run opens the same one for each command. */
let cachedWalk: { root: string; listings: ListingCache } | undefined;

/** Returns undefined the first time: fingerprints cost a quarter of a walk, and many processes run a single command. */
function getWalkCache(root: string): ListingCache | undefined {
  if (cachedWalk?.root === root) return cachedWalk.listings;
  cachedWalk = { root, listings: new Map() };
  return undefined;
}

const MAX_MASKS = 250;

/** Hides sockets and named pipes that were not granted: a read-only mount does not prevent connections. */
function createMasks(
  folder: string,
  { channels, unsearched }: Pick<WorkspaceWalk, "channels" | "unsearched">,
  { granted, reach }: { granted: readonly string[]; reach: ReturnType<typeof createReachCheck> },
): { masks: Mount[]; masked: readonly string[] } {
  const unknown = unsearched.find((path) => reach(`${path}/.`) !== "no");
  if (unknown !== undefined) {
    throw new SkillError("workspace-sockets", {
      message: `Cannot mask sockets and named pipes in ${truncateLine(toPathText(unknown), 100)}: the folder cannot be listed, or its path is too long`,
      fix: 'move the folder out of the workspace, or set workspace = "none" in config.toml',
    });
  }
  const open = new Set(granted.map((path) => resolve(folder, path)));
  const masked = channels.filter((path) => !open.has(join(folder, toPathText(path))) && reach(path) !== "no");
  const unnamed = masked.find((path) => toRawPath(toPathText(path)) !== path || reach(path) === "own");
  if (unnamed !== undefined || masked.length > MAX_MASKS) {
    const what = unnamed === undefined ? `${masked.length} sockets and named pipes` : `a socket or named pipe`;
    throw new SkillError("workspace-sockets", {
      message: `The workspace has ${what} that cannot be masked, such as ${toPathText(unnamed ?? masked[0] ?? "")}`,
      fix: 'remove them, or set workspace = "none" in config.toml',
    });
  }
  const masks = masked.map(
    (path): Mount => ({
      from: "/dev/null", // Not a regular file, like a socket, so that programs which read all files skip it.
      to: `${WORKSPACE_FOLDER}/${toPathText(path)}`,
      access: "read",
    }),
  );
  return { masks, masked };
}

/** Returns true if code with write access can rename a folder above the path. Mounts cannot be renamed. */
function isMovable(path: string, { units }: WorkspaceSnapshot): boolean {
  const [top = path] = path.split("/");
  return top !== path && units.get(top)?.isMounted !== true;
}

/**
 * Refuses a grant that code could use for another socket: it cannot rename a masked socket, but it can rename the folder above, so that the
 * next command finds the socket at the granted path.
 */
function refuseMovableGrants(movable: readonly string[], granted: readonly string[]): void {
  const names = new Set(granted.filter((path) => path.includes("/")).map((path) => posix.basename(toRawPath(path))));
  const fills = movable.find((path) => names.has(posix.basename(path)));
  if (fills === undefined) return;
  throw new SkillError("workspace-sockets", {
    message: `${toPathText(fills)} has the name of a granted socket, and code with write access could move it to the granted path`,
    fix: 'grant the socket under another name, move one of them, or set workspace = "read" in config.toml',
  });
}

function createMovingSocketsError(): SkillError {
  return new SkillError("workspace-sockets", {
    message:
      "Another command has write access to the workspace and could move its sockets or named pipes out of their masks",
    fix: "try again when that command has ended",
  });
}

function createNotComparedProblem(error: unknown): Problem {
  return {
    code: "workspace-protected",
    message: `Cannot compare the sensitive paths of the workspace after the run: ${getErrorMessage(error)}`,
    fix: "check them for changes yourself; the next run in this workspace compares them again",
  };
}

/** The stored state of a running command, in case this process is killed. */
interface RunningCommand {
  workspace: string;
  skill: string;
  /** The time when it has certainly ended. */
  until: number;
  snapshot: WorkspaceSnapshot;
}

const OWNER_FILE = "owner.json";
const SNAPSHOT_FILE = "snapshot.json";
const BYTES_FILE = "bytes";

function getRunningFolder(home: string): string {
  return join(getHeldFolder(home), "running");
}

/** Stores a snapshot on disk until it is released: if this process dies, the next run in this workspace compares with it. */
function keepSnapshot(home: string, running: RunningCommand): { release(): void } {
  const folder = join(getRunningFolder(home), randomBytes(8).toString("hex"));
  createFolder(folder, 0o700);
  const blocks: Buffer[] = [];
  let length = 0;
  const entryText = ({ bytes, ...entry }: SnapshotEntry) => {
    if (!bytes) return entry;
    blocks.push(bytes);
    length += bytes.length;
    return { ...entry, bytes: [length - bytes.length, length] };
  };
  const { snapshot, ...rest } = running;
  const units = Array.from(snapshot.units.values(), ({ entries, ...unit }) => ({
    ...unit,
    entries: Array.from(entries, ([inner, entry]) => [inner, entryText(entry)]),
  }));
  const text = JSON.stringify({ ...rest, snapshot: { ...snapshot, units, parts: [...snapshot.parts] } });
  writeFileSync(join(folder, BYTES_FILE), Buffer.concat(blocks), { mode: 0o600 });
  writeFileSync(join(folder, SNAPSHOT_FILE), text, { mode: 0o600 });
  // Written last: a folder without an owner is incomplete.
  writeFileSync(join(folder, OWNER_FILE), formatProcessOwner(), { mode: 0o600 });
  return { release: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * Waits until no other command is between the walk of this workspace and its mounts, and blocks others until it is released. Mounts are
 * made by path: a command that starts in between could rename a folder, so that the wrong one is mounted. Throws a SkillError on timeout.
 */
async function claimStartLock(home: string, root: string): Promise<{ release(): void }> {
  const file = join(getHeldFolder(home), "starting", shortHash(root));
  createFolder(dirname(file), 0o700);
  // Commands of this process take turns, so that only one of them polls the file.
  const before = startQueues.get(file);
  const turn = Promise.withResolvers<void>();
  startQueues.set(file, turn.promise);
  const end = () => {
    turn.resolve();
    if (startQueues.get(file) === turn.promise) startQueues.delete(file);
  };
  await before;
  try {
    const { release } = await pollClaim(file, root);
    return {
      release() {
        release();
        end();
      },
    };
  } catch (error) {
    end();
    throw error;
  }
}

/** By lock file: resolves when the last command of this process that asked for it has started. */
const startQueues = new Map<string, Promise<void>>();

async function pollClaim(file: string, root: string): Promise<{ release(): void }> {
  const start = performance.now();
  for (;;) {
    const claimed = tryClaim(file);
    if (claimed) return claimed;
    if (performance.now() - start > MAX_START_MS) throw createStartTimeout(root);
    await setTimeout(START_POLL_MS);
  }
}

const MAX_START_MS = 30_000;
const START_POLL_MS = 3;

function tryClaim(file: string): { release(): void } | undefined {
  const draft = `${file}.${randomBytes(8).toString("hex")}`;
  writeFileSync(draft, formatProcessOwner(), { flag: "wx", mode: 0o600 });
  try {
    linkSync(draft, file); // Atomic: the file is complete, and only one process succeeds.
    let isHeld = true;
    const release = () => {
      if (isHeld) rmSync(file, { force: true });
      isHeld = false; // From now on another command may own it.
    };
    return { release };
  } catch (error) {
    if (getErrnoCode(error) !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  // Only the holder of the lock removes a file that a killed process left.
  if (!readLiveOwner(file) && existsSync(file))
    withFileLock(file, () => readLiveOwner(file) ?? rmSync(file, { force: true }));
  return undefined;
}

function createStartTimeout(root: string): SkillError {
  return new SkillError("locked", {
    message: `Another command has been starting in ${toPathText(root)} for ${MAX_START_MS / 1000} seconds`,
    fix: "wait for the other skillet to end and try again",
  });
}

/** Compares a workspace with the snapshots of killed commands, and holds their changes. */
function recoverKilledCommands(home: string, root: string): HeldChanges[] {
  let names: string[];
  try {
    names = readdirSync(getRunningFolder(home));
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const folder = join(getRunningFolder(home), name);
    const running = readLiveOwner(join(folder, OWNER_FILE)) ? undefined : readRunning(folder);
    if (running?.snapshot.root !== root) return [];
    const { workspace, skill, until, snapshot } = running;
    const held = holdChanges(snapshot, { home, workspace, skill, until });
    rmSync(folder, { recursive: true, force: true });
    return held ? [held] : [];
  });
}

/**
 * Takes a snapshot of a workspace in which other commands may run. Their changes are not the original state, so the state before the first
 * of them counts. Contract: `take` may be called again if a command starts or ends meanwhile. `others` are the snapshots of the commands
 * with write access.
 */
function takeBaseline<T extends { snapshot?: WorkspaceSnapshot }>(
  home: string,
  root: string,
  take: (others: readonly WorkspaceSnapshot[]) => T,
): T & { others: readonly WorkspaceSnapshot[] } {
  for (let tries = 1; ; tries++) {
    const print = readRunningFingerprint(home);
    const live = readLiveSnapshots(home, root);
    const taken = take(live);
    if (readRunningFingerprint(home) !== print && tries < MAX_BASELINE_TRIES) continue;
    const others = [...live, ...readLiveSnapshots(home, root)].sort((a, b) => a.startedAt - b.startedAt);
    const [first] = others;
    return {
      ...taken,
      others,
      ...(first && taken.snapshot ? { snapshot: rebaseSnapshot(taken.snapshot, first) } : {}),
    };
  }
}

const MAX_BASELINE_TRIES = 10;

/** Returns a fingerprint that changes when a command starts or ends. */
function readRunningFingerprint(home: string): string {
  return String(statSync(getRunningFolder(home), { bigint: true, throwIfNoEntry: false })?.mtimeNs ?? "");
}

/** Reads the snapshots of commands that run in this workspace now. */
function readLiveSnapshots(home: string, root: string): WorkspaceSnapshot[] {
  let names: string[];
  try {
    names = readdirSync(getRunningFolder(home));
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const folder = join(getRunningFolder(home), name);
    const running = readLiveOwner(join(folder, OWNER_FILE)) ? readRunning(folder) : undefined;
    return running?.snapshot.root === root && running.until > Date.now() ? [running.snapshot] : [];
  });
}

/** Rebases a snapshot on an earlier one. Paths that the earlier one mounted read-only are unchanged if they still exist. */
function rebaseSnapshot(now: WorkspaceSnapshot, first: WorkspaceSnapshot): WorkspaceSnapshot {
  const units = Array.from(first.units, ([path, before]): [string, SnapshotUnit] => {
    const unit = now.units.get(path);
    const isSame = before.isMounted && unit?.entries.get("")?.id === before.entries.get("")?.id;
    return [path, unit && isSame ? unit : before];
  });
  return { ...now, units: new Map(units), parts: first.parts, startedAt: first.startedAt };
}

/** Reads a stored command. Undefined if it is incomplete: its command had not started. */
function readRunning(folder: string): RunningCommand | undefined {
  try {
    readFileSync(join(folder, OWNER_FILE));
    const bytes = readFileSync(join(folder, BYTES_FILE));
    const { snapshot, ...rest } = JSON.parse(readFileSync(join(folder, SNAPSHOT_FILE), "utf8"));
    const units = snapshot.units.map((unit: Omit<SnapshotUnit, "entries"> & { entries: [string, SnapshotEntry][] }) => [
      unit.path,
      { ...unit, entries: new Map(unit.entries.map(([inner, entry]) => [inner, restoreEntry(entry, bytes)])) },
    ]);
    return { ...rest, snapshot: { ...snapshot, units: new Map(units), parts: new Map(snapshot.parts) } };
  } catch {
    return undefined;
  }
}

function restoreEntry(
  { bytes, ...entry }: Omit<SnapshotEntry, "bytes"> & { bytes?: unknown },
  all: Buffer,
): SnapshotEntry {
  const [start, end] = (bytes ?? []) as number[];
  return bytes === undefined ? entry : { ...entry, bytes: all.subarray(start, end) };
}
