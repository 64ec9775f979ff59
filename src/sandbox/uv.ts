import { createHash, randomUUID } from "node:crypto";
import { chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { basename, join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Endpoint, Mount, Sandbox, SandboxLimits } from "../host/sandbox-contract.ts";
import { stripCredentials } from "../util/text.ts";
import { isRoot, makeReadableFolder, NOBODY_UID } from "./sandbox-folders.ts";

/** A Python script that declares its packages in its own comments. */
export interface UvScript {
  /** Its path inside the sandbox: uv identifies an environment by the path of its script. */
  path: string;
  bytes: Uint8Array;
  /** The index to resolve with, if it is not uv's default. Without a user name and password. */
  index?: string | undefined;
}

export interface UvOptions {
  sandbox: Sandbox;
  /** The folder of the script's skill. */
  skill: Mount;
  /** The folder that keeps the fetched packages. */
  folder: string;
  /** The hosts that Python packages come from. */
  index: readonly Endpoint[];
  /** The address of the index with its user name and password, if the user's index has them. */
  indexUrl?: string | undefined;
  /** Fetches again even if the packages have already been fetched. */
  update?: boolean | undefined;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** The variables and mounts that commands of a skill need to use uv offline. */
export interface UvAccess {
  env: Record<string, string>;
  mounts: Mount[];
}

const UV_CACHE_FOLDER = "/home/skill/.cache/uv";
/** The folder in the sandbox with the fetched packages, one subfolder per script. */
export const UV_FETCHED_FOLDER = "/opt/skillet/uv";
/** The folder of `uv` and `uvx` scripts that copy the packages into uv's cache first. */
export const UV_PROGRAM_FOLDER = "/opt/skillet/offline";
// Wheels only: building a package would run its code.
const UV_VARIABLES = {
  UV_CACHE_DIR: UV_CACHE_FOLDER,
  UV_NO_BUILD: "1",
  UV_PYTHON_DOWNLOADS: "never",
  UV_NO_CONFIG: "1",
  UV_LINK_MODE: "copy",
};
const MIB = 1024 * 1024;
const UV_FETCH_LIMITS: SandboxLimits = {
  seconds: 600,
  output: MIB,
  memory: 2048 * MIB,
  processes: 256,
  disk: 2048 * MIB,
};

/** Returns true if the packages that a script declares have been fetched. */
export function isScriptFetched(script: UvScript, folder: string): boolean {
  return existsSync(getFetchFolder(script, folder));
}

/** Creates the mounts and variables with which `uv` and `uvx` find the packages fetched for these scripts. */
export function createUvAccess(scripts: readonly UvScript[], folder: string): UvAccess {
  const folders = scripts
    .filter((script) => isScriptFetched(script, folder))
    .map((script) => getFetchFolder(script, folder));
  return {
    env: { ...UV_VARIABLES, ...createIndexVariable(scripts[0]?.index), UV_OFFLINE: "1" },
    mounts: [...new Set(folders)].map((from) => ({
      from,
      to: `${UV_FETCHED_FOLDER}/${basename(from)}`,
      access: "read",
    })),
  };
}

/** Creates the command that runs a script offline. */
export function createUvCommand(path: string): [string, ...string[]] {
  return ["uv", "run", "--offline", "--script", path];
}

function createIndexVariable(index: string | undefined): Record<string, string> {
  return index === undefined ? {} : { UV_DEFAULT_INDEX: index };
}

/** Fetches the packages that a script declares, in a sandbox that reaches only the index. Runs none of their code. */
export async function fetchScriptPackages(script: UvScript, options: UvOptions): Promise<void> {
  const { sandbox, skill, folder, index, indexUrl, update = false, signal, onProgress } = options;
  const target = getFetchFolder(script, folder);
  const draft = createTemporaryPath(target);
  makeReadableFolder(join(folder, "python"));
  mkdirSync(draft, { mode: 0o755 });
  if (isRoot()) chownSync(draft, NOBODY_UID, NOBODY_UID);
  onProgress(`fetching the Python packages of ${script.path}`);
  let output = "";
  try {
    const { exitCode, ending } = await sandbox.run(
      {
        argv: ["uv", "sync", "--script", script.path],
        env: { ...UV_VARIABLES, ...createIndexVariable(indexUrl) },
        folder: "/",
        mounts: [skill, { from: draft, to: UV_CACHE_FOLDER, access: "read-write" }],
        network: index,
        limits: UV_FETCH_LIMITS,
        ...(isRoot() ? { user: NOBODY_UID } : {}), // The folder's owner.
      },
      {
        signal,
        onOutput(_, bytes) {
          output = `${output}${bytes}`.slice(-2000);
          return true;
        },
      },
    );
    if (signal.aborted) throw createFetchCancelError(script.path, signal);
    if (exitCode !== 0) throw createFetchError(script.path, ending === "exit" ? output : ending);
    if (update) moveToTemporaryPath(target);
    moveIntoPlace(draft, target);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  removeFetches(findStaleFetches(folder));
}

/** Finds packages fetched for scripts other than these. Removes nothing. */
export function findUnusedFetches(folder: string, kept: readonly UvScript[]): string[] {
  const names = new Set(kept.map((script) => basename(getFetchFolder(script, folder))));
  return listNames(folder)
    .filter((name) => !isTemporaryName(name) && !names.has(name))
    .map((name) => join(folder, "python", name));
}

/** Finds incomplete and replaced fetches. Those younger than an hour may be in use: a fetch has ten minutes. */
export function findStaleFetches(folder: string): string[] {
  const isOld = (path: string) => Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > HOUR_MS;
  return listNames(folder)
    .filter(isTemporaryName)
    .map((name) => join(folder, "python", name))
    .filter(isOld);
}

export function removeFetches(paths: readonly string[]): void {
  for (const path of paths) rmSync(path, { recursive: true, force: true });
}

const HOUR_MS = 60 * 60 * 1000;

/** Unique in this and every other process. */
const createTemporaryPath = (target: string) => `${target}.${randomUUID()}`;
const isTemporaryName = (name: string) => name.includes(".");

/** Moves it away instead of removing it, because running scripts may read from it. */
function moveToTemporaryPath(target: string): void {
  try {
    utimesSync(target, new Date(), new Date()); // Its age counts from now.
    renameSync(target, createTemporaryPath(target));
  } catch (error) {
    if (existsSync(target)) throw error; // Another update may have moved it just now.
  }
}

/** A fetch that another run completed meanwhile is as good. */
function moveIntoPlace(draft: string, target: string): void {
  try {
    renameSync(draft, target);
  } catch (error) {
    if (!existsSync(target)) throw error;
  }
}

function listNames(folder: string): string[] {
  return existsSync(join(folder, "python")) ? readdirSync(join(folder, "python")) : [];
}

function getFetchFolder({ bytes, path, index }: UvScript, folder: string): string {
  const hash = createHash("sha256").update(path).update("\0").update(bytes);
  if (index !== undefined) hash.update("\0").update(index);
  return join(folder, "python", hash.digest("hex").slice(0, 32));
}

function createFetchCancelError(path: string, signal: AbortSignal): SkillError {
  return new SkillError("package-aborted", {
    message: `the fetch of the Python packages of ${path} was canceled`,
    fix: "nothing was kept: build again",
    cause: signal.reason,
  });
}

function createFetchError(path: string, reason: string): SkillError {
  const last = stripCredentials(reason).trim().split("\n").at(-1) ?? "";
  return new SkillError("python-packages", {
    message: `The Python packages of ${path} could not be fetched: ${last || "uv gave no reason"}`,
    fix: "check the packages that the script declares, and [sandbox] python_index in config.toml",
  });
}
