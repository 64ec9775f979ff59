import { randomBytes } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Host } from "../../config/host.ts";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { type Mount, type Sandbox, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { isRoot, NOBODY_UID } from "../../sandbox/sandbox-folders.ts";
import { formatProcessOwner, readLiveOwner, withFileLock } from "../../store/locked-file.ts";
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

/** The workspace as a skill's code gets it. */
export interface OpenWorkspace {
  mounts: Mount[];
  /** Whom the code runs as, where the caller is root: the folder's owner, so that what it makes is theirs. */
  user?: number;
  /** Changes of runs whose process was killed, which were found now. */
  recovered: readonly HeldChanges[];
  /** Takes changes of sensitive paths out of the workspace. Contract: never throws. */
  close(): { held?: HeldChanges; problem?: Problem };
}

interface OpenWorkspaceOptions extends WorkspaceRequest {
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
  return folder === undefined ? undefined : claimStartLock(request.home, toRawPath(folder));
}

/** Opens the workspace for one command: not at all, to read, or to write. Throws a SkillError when it cannot be had. */
export function openWorkspace(host: Host, options: OpenWorkspaceOptions): OpenWorkspace {
  const { access, home, skill, seconds, sandbox } = options;
  const checked = checkWorkspace(host, options);
  if (!checked || access === "none") return { mounts: [], recovered: [], close: () => ({}) };
  const { folder, own, ...user } = checked;
  const root = toRawPath(folder);
  const recovered = recoverKilledCommands(home, root);
  const { masks, closed, snapshot, hasMovableMasks, others } = takeBaseline(home, root, (running) => {
    const rights = createFolderRights(root);
    try {
      const walk = walkWorkspace(root, { cache: getWalkCache(root), rights });
      const reach = createReachCheck(root, checked.user ?? (isRoot() ? NOBODY_UID : (process.getuid?.() ?? 0)), rights);
      // Of a folder that a running command can rename, the content is compared: it could be mounted read-only at a place where it no longer is.
      const isFixed = (path: string) => running.every((other) => !isMovable(path, other));
      const canMount = (path: string) => sandbox.mapsPaths && reach(path) === "yes" && isFixed(path);
      const { masks, masked } = createMasks(folder, walk, { granted: options.sockets, reach });
      if (access === "read") return { masks, closed: [], hasMovableMasks: masked.some((path) => path.includes("/")) };
      const taken = takeSnapshot(root, walk, { canMount, own: own.map(toRawPath) });
      const readOnly = [...taken.units.values()].filter(({ row, isMounted }) => isMounted || row.isClosed);
      const movable = masked.filter((path) => isMovable(path, taken));
      refuseMovableGrants(movable, options.sockets);
      const hasMovableMasks = movable.length > 0;
      return { masks, closed: readOnly, snapshot: { ...taken, hasMovableMasks }, hasMovableMasks };
    } finally {
      rights.restore();
    }
  });
  // Masks are mounted by path: a command that renames a folder meanwhile would get the socket in it for this one.
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
        // What could not be put back is still in the snapshot: the next process tries again.
        if (held?.changes.every(({ problem }) => problem === undefined) ?? true) running.release();
        return held ? { held } : {};
      } catch (error) {
        return { problem: createNotComparedProblem(error) };
      }
    },
  };
}

/** What a killed process started is dead within a second. */
const KILL_GRACE_MS = 5000;

/** Folders of the last workspace that was walked: a run opens the same one for each command. */
let cachedWalk: { root: string; listings: ListingCache } | undefined;

/** None the first time: fingerprints cost a quarter of a walk, and many processes run a single command. */
function getWalkCache(root: string): ListingCache | undefined {
  if (cachedWalk?.root === root) return cachedWalk.listings;
  cachedWalk = { root, listings: new Map() };
  return undefined;
}

const MAX_MASKS = 250;

/** Hides sockets and named pipes that were not granted: a read-only mount does not keep code from connecting. */
function createMasks(
  folder: string,
  { channels, unsearched }: Pick<WorkspaceWalk, "channels" | "unsearched">,
  { granted, reach }: { granted: readonly string[]; reach: ReturnType<typeof createReachCheck> },
): { masks: Mount[]; masked: readonly string[] } {
  const unknown = unsearched.find((path) => reach(`${path}/.`) !== "no");
  if (unknown !== undefined) {
    throw new SkillError("workspace-sockets", {
      message: `Sockets and named pipes in ${truncateLine(toPathText(unknown), 100)} cannot be masked: the folder cannot be listed, or its path is too long`,
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
      from: "/dev/null", // As a socket is, it is no ordinary file, so that programs which read all files leave it out.
      to: `${WORKSPACE_FOLDER}/${toPathText(path)}`,
      access: "read",
    }),
  );
  return { masks, masked };
}

/** True where code that may write can rename a folder that the path is in: it cannot rename what is mounted. */
function isMovable(path: string, { units }: WorkspaceSnapshot): boolean {
  const [top = path] = path.split("/");
  return top !== path && units.get(top)?.isMounted !== true;
}

/**
 * Refuses a grant that code can use for another socket: it cannot rename what is masked, but a folder with it, so that the next command finds it at the
 * granted path.
 */
function refuseMovableGrants(movable: readonly string[], granted: readonly string[]): void {
  const names = new Set(granted.filter((path) => path.includes("/")).map((path) => posix.basename(toRawPath(path))));
  const fills = movable.find((path) => names.has(posix.basename(path)));
  if (fills === undefined) return;
  throw new SkillError("workspace-sockets", {
    message: `${toPathText(fills)} has the name of a granted socket, and code that may write could move it to the granted path`,
    fix: 'grant the socket under another name, move one of both, or set workspace = "read" in config.toml',
  });
}

function createMovingSocketsError(): SkillError {
  return new SkillError("workspace-sockets", {
    message: "Another command may write to the workspace, and could move its sockets or named pipes out of their masks",
    fix: "try again when that command has ended",
  });
}

function createNotComparedProblem(error: unknown): Problem {
  return {
    code: "workspace-protected",
    message: `Sensitive paths of the workspace could not be compared after the run: ${getErrorMessage(error)}`,
    fix: "look for changes yourself; the next run in this workspace compares again",
  };
}

/** What is known of a command while it runs, for the case that this process is killed. */
interface RunningCommand {
  workspace: string;
  skill: string;
  /** When it is certainly over. */
  until: number;
  snapshot: WorkspaceSnapshot;
}

const OWNER_FILE = "owner.json";
const SNAPSHOT_FILE = "snapshot.json";
const BYTES_FILE = "bytes";

function getRunningFolder(home: string): string {
  return join(getHeldFolder(home), "running");
}

/** Keeps a snapshot on the disk until it is released: the next run in this workspace compares with it if this process dies. */
function keepSnapshot(home: string, running: RunningCommand): { release(): void } {
  const folder = join(getRunningFolder(home), randomBytes(8).toString("hex"));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
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
  // Last: a folder without an owner is not complete.
  writeFileSync(join(folder, OWNER_FILE), formatProcessOwner(), { mode: 0o600 });
  return { release: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * Waits until no other command is between the walk of this workspace and its mounts, and keeps others from it until it is released. Mounts are made by
 * path: code of a command that begins in between could rename a folder, so that something else is mounted over. Throws a SkillError when it
 * takes too long.
 */
async function claimStartLock(home: string, root: string): Promise<{ release(): void }> {
  const file = join(getHeldFolder(home), "starting", shortHash(root));
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // Commands of this process take turns, so that only one of them looks for the file.
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

/** By the file of a claim: resolves when the last command of this process that asked for it has started. */
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
    linkSync(draft, file); // Complete from the first moment, and for one process alone.
    let isHeld = true;
    const release = () => {
      if (isHeld) rmSync(file, { force: true });
      isHeld = false; // From now on it is another command's.
    };
    return { release };
  } catch (error) {
    if (getErrnoCode(error) !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  // Only who holds the lock removes one that a killed process left.
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

/** Compares a workspace with the snapshots of commands whose process was killed, and holds what they changed. */
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
 * Takes a snapshot of a workspace in which other commands may run: what they have changed is not what was there before. Where one does, the state
 * before the first of them counts. Contract: `take` may be called again, where a command began or ended meanwhile. `others`: the snapshots of those
 * that may write to the workspace now, which `take` is called with.
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

/** Changes whenever a command begins or ends. */
function readRunningFingerprint(home: string): string {
  return String(statSync(getRunningFolder(home), { bigint: true, throwIfNoEntry: false })?.mtimeNs ?? "");
}

/** Snapshots of commands that run now in this workspace. */
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

/** A snapshot as it would have been when another one was taken. What that one had mounted read-only has not changed, if it is still there. */
function rebaseSnapshot(now: WorkspaceSnapshot, first: WorkspaceSnapshot): WorkspaceSnapshot {
  const units = Array.from(first.units, ([path, before]): [string, SnapshotUnit] => {
    const unit = now.units.get(path);
    const isSame = before.isMounted && unit?.entries.get("")?.id === before.entries.get("")?.id;
    return [path, unit && isSame ? unit : before];
  });
  return { ...now, units: new Map(units), parts: first.parts, startedAt: first.startedAt };
}

/** Nothing for one that is not complete: its command had not begun. */
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
