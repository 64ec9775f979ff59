import { realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

const SYSTEM_FOLDERS = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];

/**
 * Finds a system program in folders that only root can write to. Does not search the PATH, which may start with a folder that another
 * user controls.
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
  /** Its path, as returned by `findSystemProgram`. */
  file: string;
  args: readonly string[];
  /** Its complete environment. */
  env: Readonly<Record<string, string>>;
  /** Its standard input. Pass secrets here: every user of the machine can see arguments. */
  input?: string;
}

const SYNC_TIMEOUT_MS = 5000;
const MAX_SYNC_OUTPUT = 64 * 1024;

/** Runs a small system program synchronously and returns its output, or undefined if it fails or times out. Never for code of a skill. */
export function runProgramSync({ file, args, env, input = "" }: SyncProgramOptions): string | undefined {
  // Loaded on the first call: modules that cache results import this file and rarely call it.
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

/** What a desktop program finds its session by. */
const DESKTOP_VARIABLES = [
  ...["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "HOME", "USER", "LANG"],
  ...["XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "XDG_DATA_DIRS", "XDG_CONFIG_HOME"],
];

/** Returns the name of the program that opens files on the desktop of this terminal; undefined without a desktop, as over SSH. */
export function findDesktopOpener(env: EnvironmentVariables, platform: string = process.platform): string | undefined {
  if (env["SSH_CONNECTION"] || env["CI"]) return undefined;
  if (platform === "darwin") return "open";
  return platform === "linux" && (env["DISPLAY"] || env["WAYLAND_DISPLAY"]) ? "xdg-open" : undefined;
}

/** Opens a file with the program that the desktop has for it. Returns false without a desktop. Contract: does not wait for the program. */
export function openOnDesktop(path: string, env: EnvironmentVariables): boolean {
  const name = findDesktopOpener(env);
  const file = name === undefined ? undefined : findSystemProgram(name);
  if (file === undefined) return false;
  const { spawn } = process.getBuiltinModule("node:child_process");
  const own = DESKTOP_VARIABLES.flatMap((key) => (env[key] === undefined ? [] : [[key, env[key]] as const]));
  const child = spawn(file, [path], {
    env: { ...Object.fromEntries(own), PATH: SYSTEM_FOLDERS.join(":") },
    cwd: "/",
    detached: true,
    stdio: "ignore",
  });
  child.on("error", () => {}); // The link is printed too.
  child.unref();
  return true;
}

type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** Returns the user's home folder, or a path that does not exist for a user that the system does not know. */
export function getUserHome(env: EnvironmentVariables): string {
  if (env["HOME"]) return env["HOME"];
  try {
    return homedir();
  } catch {
    return "/nonexistent";
  }
}

/** Returns skillet's own folder. */
export function getSkilletHome(env: EnvironmentVariables, home = getUserHome(env)): string {
  return env["SKILLET_HOME"] || join(home, ".skillet");
}
