import { randomBytes } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { whileLocked } from "../../host/locked-file.ts";
import { ownerIn, ownerText } from "../../host/run-owner.ts";
import { SkillError } from "../../shared/error.ts";
import { shortHash } from "../../shared/hash.ts";
import { codeOf } from "../../shared/inside.ts";
import { type HeldChanges, heldFolder } from "./held-changes.ts";
import { holdChanges } from "./hold-changes.ts";
import type { Entry, Snapshot, Unit } from "./snapshot.ts";
import { textOf } from "./walk-workspace.ts";

/** What is known of a command while it runs, for the case that this process is killed. */
interface Running {
  workspace: string;
  skill: string;
  /** When it is certainly over. */
  until: number;
  snapshot: Snapshot;
}

const OWNER = "owner.json";
const SNAPSHOT = "snapshot.json";
const BYTES = "bytes";

function runningFolder(home: string): string {
  return join(heldFolder(home), "running");
}

/** Keeps a snapshot on the disk until it is released: the next run in this workspace compares with it if this process dies. */
export function keepSnapshot(home: string, running: Running): { release(): void } {
  const folder = join(runningFolder(home), randomBytes(8).toString("hex"));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const blocks: Buffer[] = [];
  let length = 0;
  const entryText = ({ bytes, ...entry }: Entry) => {
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
  writeFileSync(join(folder, BYTES), Buffer.concat(blocks), { mode: 0o600 });
  writeFileSync(join(folder, SNAPSHOT), text, { mode: 0o600 });
  // Last: a folder without an owner is not complete.
  writeFileSync(join(folder, OWNER), ownerText(), { mode: 0o600 });
  return { release: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * Waits until no other command is between the walk of this workspace and its mounts, and keeps others from it until it is released. Mounts are made by
 * path: code of a command that begins in between could rename a folder, so that something else is mounted over. Throws a SkillError when it
 * takes too long.
 */
export async function claimStart(home: string, root: string): Promise<{ release(): void }> {
  const file = join(heldFolder(home), "starting", shortHash(root));
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // Commands of this process take turns, so that only one of them looks for the file.
  const before = turns.get(file);
  const turn = Promise.withResolvers<void>();
  turns.set(file, turn.promise);
  const end = () => {
    turn.resolve();
    if (turns.get(file) === turn.promise) turns.delete(file);
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
const turns = new Map<string, Promise<void>>();

async function pollClaim(file: string, root: string): Promise<{ release(): void }> {
  const start = performance.now();
  for (;;) {
    const claimed = tryClaim(file);
    if (claimed) return claimed;
    if (performance.now() - start > LONGEST_START_MS) throw stillStarting(root);
    await setTimeout(POLL_MS);
  }
}

const LONGEST_START_MS = 30_000;
const POLL_MS = 3;

function tryClaim(file: string): { release(): void } | undefined {
  const draft = `${file}.${randomBytes(8).toString("hex")}`;
  writeFileSync(draft, ownerText(), { flag: "wx", mode: 0o600 });
  try {
    linkSync(draft, file); // Complete from the first moment, and for one process alone.
    let isHeld = true;
    const release = () => {
      if (isHeld) rmSync(file, { force: true });
      isHeld = false; // From now on it is another command's.
    };
    return { release };
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  // Only who holds the lock removes one that a killed process left.
  if (!ownerIn(file) && existsSync(file)) whileLocked(file, () => ownerIn(file) ?? rmSync(file, { force: true }));
  return undefined;
}

function stillStarting(root: string): SkillError {
  return new SkillError("locked", {
    message: `Another command has been starting in ${textOf(root)} for ${LONGEST_START_MS / 1000} seconds`,
    fix: "wait for the other skillet to end and try again",
  });
}

/** Compares a workspace with the snapshots of commands whose process was killed, and holds what they changed. */
export function recoverKilled(home: string, root: string): HeldChanges[] {
  let names: string[];
  try {
    names = readdirSync(runningFolder(home));
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const folder = join(runningFolder(home), name);
    const running = ownerIn(join(folder, OWNER)) ? undefined : readRunning(folder);
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
export function takeBaseline<T extends { snapshot?: Snapshot }>(
  home: string,
  root: string,
  take: (others: readonly Snapshot[]) => T,
): T & { others: readonly Snapshot[] } {
  for (let tries = 1; ; tries++) {
    const print = runningPrint(home);
    const live = liveSnapshots(home, root);
    const taken = take(live);
    if (runningPrint(home) !== print && tries < MOST_TRIES) continue;
    const others = [...live, ...liveSnapshots(home, root)].sort((a, b) => a.startedAt - b.startedAt);
    const [first] = others;
    return { ...taken, others, ...(first && taken.snapshot ? { snapshot: since(taken.snapshot, first) } : {}) };
  }
}

const MOST_TRIES = 10;

/** Changes whenever a command begins or ends. */
function runningPrint(home: string): string {
  return String(statSync(runningFolder(home), { bigint: true, throwIfNoEntry: false })?.mtimeNs ?? "");
}

/** Snapshots of commands that run now in this workspace. */
function liveSnapshots(home: string, root: string): Snapshot[] {
  let names: string[];
  try {
    names = readdirSync(runningFolder(home));
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const folder = join(runningFolder(home), name);
    const running = ownerIn(join(folder, OWNER)) ? readRunning(folder) : undefined;
    return running?.snapshot.root === root && running.until > Date.now() ? [running.snapshot] : [];
  });
}

/** A snapshot as it would have been when another one was taken. What that one had mounted read-only has not changed, if it is still there. */
function since(now: Snapshot, first: Snapshot): Snapshot {
  const units = Array.from(first.units, ([path, before]): [string, Unit] => {
    const unit = now.units.get(path);
    const isSame = before.isMounted && unit?.entries.get("")?.id === before.entries.get("")?.id;
    return [path, unit && isSame ? unit : before];
  });
  return { ...now, units: new Map(units), parts: first.parts, startedAt: first.startedAt };
}

/** Nothing for one that is not complete: its command had not begun. */
function readRunning(folder: string): Running | undefined {
  try {
    readFileSync(join(folder, OWNER));
    const bytes = readFileSync(join(folder, BYTES));
    const { snapshot, ...rest } = JSON.parse(readFileSync(join(folder, SNAPSHOT), "utf8"));
    const units = snapshot.units.map((unit: Omit<Unit, "entries"> & { entries: [string, Entry][] }) => [
      unit.path,
      { ...unit, entries: new Map(unit.entries.map(([inner, entry]) => [inner, entryFrom(entry, bytes)])) },
    ]);
    return { ...rest, snapshot: { ...snapshot, units: new Map(units), parts: new Map(snapshot.parts) } };
  } catch {
    return undefined;
  }
}

function entryFrom({ bytes, ...entry }: Omit<Entry, "bytes"> & { bytes?: unknown }, all: Buffer): Entry {
  const [start, end] = (bytes ?? []) as number[];
  return bytes === undefined ? entry : { ...entry, bytes: all.subarray(start, end) };
}
