import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { readRegularText } from "../shared/regular-file.ts";
import { isData } from "../skill/data.ts";
import type { Discovered } from "./discover.ts";
import { ownerIn, ownerText } from "./run-owner.ts";

export type ProcessKind = "server" | "chat";

/** A server or chat of this machine that is running and follows the configuration. */
export interface LiveProcess {
  pid: number;
  kind: ProcessKind;
  /** The fingerprint of each configuration file that it has applied, by path. */
  applied: Readonly<Record<string, string>>;
}

export interface Announcement {
  /** Checks the configuration, and writes the applied fingerprints if they changed. */
  update(): void;
  close(): void;
}

/** Registers this process below skillet's home while it follows the configuration, so that a command can report whom it reached. */
export function announceProcess(
  { home, currentConfiguration }: Pick<Discovered, "home" | "currentConfiguration">,
  kind: ProcessKind,
): Announcement {
  const file = join(folderIn(home), `${process.pid}-${crypto.randomUUID()}.json`);
  let known: unknown;
  const update = () => {
    const now = currentConfiguration();
    if (now === known) return;
    known = now;
    const applied = Object.fromEntries(now.files.map(({ path, fingerprint = "" }) => [path, fingerprint]));
    try {
      mkdirSync(folderIn(home), { recursive: true, mode: 0o700 });
      // Atomic, but without fsync: a client waits for this server to start.
      writeFileSync(`${file}.new`, JSON.stringify({ ...JSON.parse(ownerText()), kind, applied }), { mode: 0o600 });
      renameSync(`${file}.new`, file);
    } catch {} // The home is read-only: then no command can change the configuration in it either.
  };
  update();
  return { update, close: () => rmSync(file, { force: true }) };
}

/** Returns the servers and chats that run on this machine, and removes the files of killed ones. */
export function liveProcesses(home: string): LiveProcess[] {
  return filesIn(folderIn(home)).flatMap((file) => {
    const owner = ownerIn(file);
    if (owner && owner.host !== hostname()) return []; // Of another machine: whether it still runs is unknown.
    if (!owner) rmSync(file, { force: true });
    const written = owner && readProcess(file);
    return written ? [{ pid: owner.pid, ...written }] : [];
  });
}

function folderIn(home: string): string {
  return join(home, "live");
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap((name) => (/^\d+-[0-9a-f-]{36}\.json$/.test(name) ? join(folder, name) : []));
  } catch {
    return [];
  }
}

function readProcess(file: string): Omit<LiveProcess, "pid"> | undefined {
  try {
    const { kind, applied } = JSON.parse(readRegularText(file));
    if (kind !== "server" && kind !== "chat") return undefined;
    return isData(applied) ? { kind, applied: applied as Record<string, string> } : undefined;
  } catch {
    return undefined; // It ended meanwhile.
  }
}
