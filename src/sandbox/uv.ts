import { createHash, randomUUID } from "node:crypto";
import { chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { basename, join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Endpoint, Mount, Sandbox, SandboxLimits } from "../host/sandbox-contract.ts";
import { findSystemProgram } from "../util/system.ts";
import { stripCredentials } from "../util/text.ts";
import { isRoot, makeReadableFolder, NOBODY_UID } from "./sandbox-folders.ts";

/** A Python script that declares what it needs in its own comments. */
export interface UvScript {
  /** As the sandbox sees it: uv knows an environment by the path of its script. */
  path: string;
  bytes: Uint8Array;
  /** The index that it is resolved by, where that is not uv's own. Without a name and password. */
  index?: string | undefined;
}

export interface UvOptions {
  sandbox: Sandbox;
  /** The folder of the script's skill. */
  skill: Mount;
  /** Where what was fetched is kept. */
  folder: string;
  /** Where Python packages come from. */
  index: readonly Endpoint[];
  /** The same with a name and password, where the user's index has one. */
  indexUrl?: string | undefined;
  /** Put it also where something has been fetched already. */
  update?: boolean | undefined;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** What commands of a skill need to use uv offline. */
export interface UvAccess {
  env: Record<string, string>;
  mounts: Mount[];
}

const UV_CACHE_FOLDER = "/home/skill/.cache/uv";
/** Where a sandbox finds what was fetched, in a folder for each script. */
export const UV_FETCHED_FOLDER = "/opt/skillet/uv";
/** The folder of `uv` and `uvx` that bring it into uv's cache first. */
export const UV_PROGRAM_FOLDER = "/opt/skillet/offline";
// Wheels only: to build a package is to run its code.
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

/** uv and uvx by name, where the system has them, or this user. */
export function findUvPrograms(userHome: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of ["uv", "uvx"]) {
    const own = [".local/bin", ".cargo/bin"]
      .map((folder) => join(userHome, folder, name))
      .find((path) => existsSync(path));
    const program = findSystemProgram(name) ?? own;
    if (program !== undefined) found.set(name, program);
  }
  return found;
}

/** Whether what a script declares has been fetched. */
export function isScriptFetched(script: UvScript, folder: string): boolean {
  return existsSync(getFetchFolder(script, folder));
}

/** The mounts and variables with which `uv` and `uvx` find what was fetched for these scripts. */
export function createUvAccess(scripts: readonly UvScript[], folder: string): UvAccess {
  const places = scripts
    .filter((script) => isScriptFetched(script, folder))
    .map((script) => getFetchFolder(script, folder));
  return {
    env: { ...UV_VARIABLES, ...createIndexVariable(scripts[0]?.index), UV_OFFLINE: "1" },
    mounts: [...new Set(places)].map((from) => ({
      from,
      to: `${UV_FETCHED_FOLDER}/${basename(from)}`,
      access: "read",
    })),
  };
}

/** The command for a script, offline. */
export function createUvCommand(path: string): [string, ...string[]] {
  return ["uv", "run", "--offline", "--script", path];
}

function createIndexVariable(index: string | undefined): Record<string, string> {
  return index === undefined ? {} : { UV_DEFAULT_INDEX: index };
}

/** Fetches what a script declares, in a sandbox that reaches the index and nothing else. Runs nothing of it. */
export async function fetchScriptPackages(script: UvScript, options: UvOptions): Promise<void> {
  const { sandbox, skill, folder, index, indexUrl, update = false, signal, onProgress } = options;
  const place = getFetchFolder(script, folder);
  const draft = createTemporaryPath(place);
  makeReadableFolder(join(folder, "python"));
  mkdirSync(draft, { mode: 0o755 });
  if (isRoot()) chownSync(draft, NOBODY_UID, NOBODY_UID);
  onProgress(`fetching the Python packages of ${script.path}`);
  let said = "";
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
          said = `${said}${bytes}`.slice(-2000);
          return true;
        },
      },
    );
    if (signal.aborted) throw createFetchCancelError(script.path, signal);
    if (exitCode !== 0) throw createFetchError(script.path, ending === "exit" ? said : ending);
    if (update) moveToTemporaryPath(place);
    moveIntoPlace(draft, place);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  removeFetches(findStaleFetches(folder));
}

/** What was fetched for other scripts than these. Looks only. */
export function findUnusedFetches(folder: string, kept: readonly UvScript[]): string[] {
  const names = new Set(kept.map((script) => basename(getFetchFolder(script, folder))));
  return listNames(folder)
    .filter((name) => !isTemporaryName(name) && !names.has(name))
    .map((name) => join(folder, "python", name));
}

/** What was given up half-made, or replaced. What is younger than an hour may be in use: a fetch has ten minutes. */
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

/** No two ask for the same one, in this process or another. */
const createTemporaryPath = (place: string) => `${place}.${randomUUID()}`;
const isTemporaryName = (name: string) => name.includes(".");

/** Running scripts may read from it: it is removed later. */
function moveToTemporaryPath(place: string): void {
  try {
    utimesSync(place, new Date(), new Date()); // Its age is counted from now.
    renameSync(place, createTemporaryPath(place));
  } catch (error) {
    if (existsSync(place)) throw error; // Another update may just have moved it.
  }
}

/** What another run put there meanwhile is as good. */
function moveIntoPlace(draft: string, place: string): void {
  try {
    renameSync(draft, place);
  } catch (error) {
    if (!existsSync(place)) throw error;
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
    message: `fetching the Python packages of ${path} was called off`,
    fix: "nothing of it is left: build again",
    cause: signal.reason,
  });
}

function createFetchError(path: string, why: string): SkillError {
  const last = stripCredentials(why).trim().split("\n").at(-1) ?? "";
  return new SkillError("python-packages", {
    message: `The Python packages of ${path} could not be fetched: ${last || "uv gave no reason"}`,
    fix: "check what the script declares, and that [sandbox] python_index in config.toml names where it comes from",
  });
}
