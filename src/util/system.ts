import { readFileSync, realpathSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, isAbsolute, join } from "node:path";

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

/**
 * Returns the user's home folder, or a path that does not exist for a user that the system does not know. An empty or relative HOME
 * is ignored: the workspace could then be the home, and grant trust to itself.
 */
export function getUserHome(env: EnvironmentVariables): string {
  const home = [env["HOME"], process.env["HOME"]].find((path) => path !== undefined && isAbsolute(path));
  if (home !== undefined) return home;
  try {
    return userInfo().homedir;
  } catch {
    return "/nonexistent";
  }
}

/** Returns the current folder, or its former path if it was removed: the command then reports a workspace that does not exist. */
export function getCurrentFolder(env: EnvironmentVariables): string {
  try {
    return process.cwd();
  } catch {
    return env["PWD"] || "/nonexistent";
  }
}

/** Returns skillet's own folder. */
export function getSkilletHome(env: EnvironmentVariables, home = getUserHome(env)): string {
  return env["SKILLET_HOME"] || join(home, ".skillet");
}

declare const SKILLET_VERSION: string | undefined;
declare const SKILLET_IS_PROGRAM: boolean | undefined;

/** Returns the version of this package. The build writes it into the code, where no bundler can lose it. */
export function packageVersion(): string {
  if (typeof SKILLET_VERSION === "string") return SKILLET_VERSION;
  ownVersion ??= String(readPackage(join(import.meta.dirname, "../.."))?.version);
  return ownVersion;
}

let ownVersion: string | undefined;

/**
 * Returns the folder of this package, with its skills and its program; undefined if a bundler made this code part of
 * another program. Folders of that program never count: skillet does not ship their content.
 */
export function packageRoot(): string | undefined {
  ownRoot ??= { root: findRoot() };
  return ownRoot.root;
}

let ownRoot: { root: string | undefined } | undefined;

/** The maximum depth of files below the package folder: `dist/lib/NAME.js`, `src/util/system.ts`. */
const DEPTH = 2;

function findRoot(): string | undefined {
  // Undefined if a bundler writes CommonJS.
  const here: string | undefined = import.meta.dirname;
  if (typeof SKILLET_IS_PROGRAM === "boolean" && here !== undefined) return join(here, "../..");
  let folder = here;
  for (let depth = 0; folder !== undefined && depth < DEPTH; depth++) {
    folder = dirname(folder);
    if (readPackage(folder)?.name === "skillet") return folder;
  }
  return undefined;
}

function readPackage(folder: string): { name?: unknown; version?: unknown } | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  } catch {
    return undefined;
  }
}

/** Child processes that end with this process, and the signal: those that already got SIGTERM get SIGKILL. */
const RUNNING_CHILDREN = new Map<number, "SIGTERM" | "SIGKILL">();
let isWatching = false;

/** Registers a child process. Returns a function to call after it has ended. */
export function registerChild(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.once("exit", endAllChildren);
  isWatching = true;
  RUNNING_CHILDREN.set(pid, "SIGTERM");
  return () => RUNNING_CHILDREN.delete(pid);
}

/** Ends a child process with SIGTERM, and with SIGKILL after a grace period. */
export async function endChild(pid: number | undefined): Promise<void> {
  if (pid === undefined || !RUNNING_CHILDREN.has(pid)) return;
  signalChild(pid, "SIGTERM");
  RUNNING_CHILDREN.set(pid, "SIGKILL");
  for (let waited = 0; waited < TERM_GRACE_MS && RUNNING_CHILDREN.has(pid); waited += POLL_MS) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  if (RUNNING_CHILDREN.has(pid)) signalChild(pid, "SIGKILL");
}

const TERM_GRACE_MS = 500;
const POLL_MS = 20;

function endAllChildren(): void {
  for (const [pid, signal] of RUNNING_CHILDREN) signalChild(pid, signal);
}

function signalChild(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already ended.
  }
}

const CLOSERS = new Set<() => Promise<void>>();

/** Registers a function that closes MCP servers. */
export function onMcpShutdown(close: () => Promise<void>): void {
  CLOSERS.add(close);
}

/** Closes all MCP servers that were started, and waits for them. The exit handler signals any that remain. */
export async function closeMcpServers(): Promise<void> {
  await Promise.all([...CLOSERS].map((close) => close()));
}

/** Returns the milliseconds since the process started, independent of the system clock. Loading `performance` would add 4 ms to the start. */
export function readUptimeMs(): number {
  return process.uptime() * 1000;
}

/** Threads that should end, and have not ended. Node waits for them before it exits, also for one that blocks in native code. */
export const endingThreads = new Set<Promise<unknown>>();

/** Exits with this code also if a thread never ends: after a time, this process is replaced by one that exits. */
export function exitAfterThreads(code: number, lingerMs: number): void {
  if (endingThreads.size === 0) return;
  // Only Node on Windows has no `execve`.
  const timer = setTimeout(() => {
    endAllChildren(); // No exit handler runs before `execve`.
    process.execve?.("/bin/sh", ["sh", "-c", `exit ${code}`], {});
  }, lingerMs);
  void Promise.allSettled(endingThreads).then(() => clearTimeout(timer));
}
