import { realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

const SYSTEM_FOLDERS = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];

/**
 * A program of the system's, looked for only where none but root can put one: not in the PATH, which may start with a folder of
 * somebody else's.
 */
export function findSystemProgram(name: string, folders: readonly string[] = SYSTEM_FOLDERS): string | undefined {
  return folders.map((folder) => join(folder, name)).find(isRootOwned);
}

function isRootOwned(path: string): boolean {
  try {
    const real = realpathSync(path);
    const file = statSync(real);
    return (
      file.isFile() &&
      (file.mode & 0o111) !== 0 &&
      [file, statSync(dirname(real)), statSync(dirname(path))].every(isWritableByRootOnly)
    );
  } catch {
    return false;
  }
}

function isWritableByRootOnly({ uid, mode }: { uid: number; mode: number }): boolean {
  return uid === 0 && (mode & 0o022) === 0;
}

interface SyncProgramOptions {
  /** Its path, as `systemProgram` found it. */
  file: string;
  args: readonly string[];
  /** All of its variables. */
  env: Readonly<Record<string, string>>;
  /** What it reads. A secret goes here: everybody on the machine sees arguments. */
  input?: string;
}

const SYNC_TIMEOUT_MS = 5000;
const MAX_SYNC_OUTPUT = 64 * 1024;

/** What a small program of the system's answers, while everything else waits; nothing when it fails or takes too long. Never for a skill's. */
export function runProgramSync({ file, args, env, input = "" }: SyncProgramOptions): string | undefined {
  // Loaded when something is first asked: whoever keeps what was answered imports this too, and mostly never asks.
  const { execFileSync } = process.getBuiltinModule("node:child_process");
  try {
    return execFileSync(file, args, {
      env,
      input,
      cwd: "/",
      encoding: "utf8",
      timeout: SYNC_TIMEOUT_MS,
      killSignal: "SIGKILL",
      maxBuffer: MAX_SYNC_OUTPUT,
      stdio: ["pipe", "pipe", "ignore"],
    });
  } catch {
    return undefined;
  }
}

type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** The user's home folder. A user that the system does not know has none, and no folder of that name is anybody's. */
export function getUserHome(env: EnvironmentVariables): string {
  if (env["HOME"]) return env["HOME"];
  try {
    return homedir();
  } catch {
    return "/nonexistent";
  }
}

/** skillet's own folder. */
export function getSkilletHome(env: EnvironmentVariables, home = getUserHome(env)): string {
  return env["SKILLET_HOME"] || join(home, ".skillet");
}
