import { createHash, randomUUID } from "node:crypto";
import { chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { basename, join } from "node:path";
import { systemProgram } from "../host/programs.ts";
import type { Endpoint, Limits, Mount, Sandbox } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { withoutCredentials } from "../shared/text.ts";
import { isRoot, NOBODY } from "./places.ts";
import { makeFolder } from "./store.ts";

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

const CACHE = "/home/skill/.cache/uv";
/** Where a sandbox finds what was fetched, in a folder for each script. */
export const UV_FETCHED = "/opt/skillet/uv";
/** The folder of `uv` and `uvx` that bring it into uv's cache first. */
export const UV_PROGRAMS = "/opt/skillet/offline";
// Wheels only: to build a package is to run its code.
const VARIABLES = {
  UV_CACHE_DIR: CACHE,
  UV_NO_BUILD: "1",
  UV_PYTHON_DOWNLOADS: "never",
  UV_NO_CONFIG: "1",
  UV_LINK_MODE: "copy",
};
const MIB = 1024 * 1024;
const LIMITS: Limits = { seconds: 600, output: MIB, memory: 2048 * MIB, processes: 256, disk: 2048 * MIB };

/** uv and uvx by name, where the system has them, or this user. */
export function uvPrograms(userHome: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of ["uv", "uvx"]) {
    const own = [".local/bin", ".cargo/bin"]
      .map((folder) => join(userHome, folder, name))
      .find((path) => existsSync(path));
    const program = systemProgram(name) ?? own;
    if (program !== undefined) found.set(name, program);
  }
  return found;
}

/** Whether what a script declares has been fetched. */
export function isFetched(script: UvScript, folder: string): boolean {
  return existsSync(placeOf(script, folder));
}

/** The mounts and variables with which `uv` and `uvx` find what was fetched for these scripts. */
export function uvAccess(scripts: readonly UvScript[], folder: string): UvAccess {
  const places = scripts.filter((script) => isFetched(script, folder)).map((script) => placeOf(script, folder));
  return {
    env: { ...VARIABLES, ...indexVariable(scripts[0]?.index), UV_OFFLINE: "1" },
    mounts: [...new Set(places)].map((from) => ({ from, to: `${UV_FETCHED}/${basename(from)}`, access: "read" })),
  };
}

/** The command for a script, offline. */
export function uvCommand(path: string): [string, ...string[]] {
  return ["uv", "run", "--offline", "--script", path];
}

function indexVariable(index: string | undefined): Record<string, string> {
  return index === undefined ? {} : { UV_DEFAULT_INDEX: index };
}

/** Fetches what a script declares, in a sandbox that reaches the index and nothing else. Runs nothing of it. */
export async function fetchForScript(script: UvScript, options: UvOptions): Promise<void> {
  const { sandbox, skill, folder, index, indexUrl, update = false, signal, onProgress } = options;
  const place = placeOf(script, folder);
  const draft = besideOf(place);
  makeFolder(join(folder, "python"));
  mkdirSync(draft, { mode: 0o755 });
  if (isRoot()) chownSync(draft, NOBODY, NOBODY);
  onProgress(`fetching the Python packages of ${script.path}`);
  let said = "";
  try {
    const { exitCode, ending } = await sandbox.run(
      {
        argv: ["uv", "sync", "--script", script.path],
        env: { ...VARIABLES, ...indexVariable(indexUrl) },
        folder: "/",
        mounts: [skill, { from: draft, to: CACHE, access: "read-write" }],
        network: index,
        limits: LIMITS,
        ...(isRoot() ? { user: NOBODY } : {}), // The folder's owner.
      },
      {
        signal,
        onOutput(_, bytes) {
          said = `${said}${bytes}`.slice(-2000);
          return true;
        },
      },
    );
    if (signal.aborted) throw calledOff(script.path, signal);
    if (exitCode !== 0) throw notFetched(script.path, ending === "exit" ? said : ending);
    if (update) moveAside(place);
    put(draft, place);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  removeFetched(leftOvers(folder));
}

/** What was fetched for other scripts than these. Looks only. */
export function unusedFetched(folder: string, kept: readonly UvScript[]): string[] {
  const names = new Set(kept.map((script) => basename(placeOf(script, folder))));
  return namesIn(folder)
    .filter((name) => !isBeside(name) && !names.has(name))
    .map((name) => join(folder, "python", name));
}

/** What was given up half-made, or replaced. What is younger than an hour may be in use: a fetch has ten minutes. */
export function leftOvers(folder: string): string[] {
  const isOld = (path: string) => Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > HOUR_MS;
  return namesIn(folder)
    .filter(isBeside)
    .map((name) => join(folder, "python", name))
    .filter(isOld);
}

export function removeFetched(paths: readonly string[]): void {
  for (const path of paths) rmSync(path, { recursive: true, force: true });
}

const HOUR_MS = 60 * 60 * 1000;

/** No two ask for the same one, in this process or another. */
const besideOf = (place: string) => `${place}.${randomUUID()}`;
const isBeside = (name: string) => name.includes(".");

/** Running scripts may read from it: it is removed later. */
function moveAside(place: string): void {
  try {
    utimesSync(place, new Date(), new Date()); // Its age is counted from now.
    renameSync(place, besideOf(place));
  } catch (error) {
    if (existsSync(place)) throw error; // Another update may just have moved it.
  }
}

/** What another run put there meanwhile is as good. */
function put(draft: string, place: string): void {
  try {
    renameSync(draft, place);
  } catch (error) {
    if (!existsSync(place)) throw error;
  }
}

function namesIn(folder: string): string[] {
  return existsSync(join(folder, "python")) ? readdirSync(join(folder, "python")) : [];
}

function placeOf({ bytes, path, index }: UvScript, folder: string): string {
  const hash = createHash("sha256").update(path).update("\0").update(bytes);
  if (index !== undefined) hash.update("\0").update(index);
  return join(folder, "python", hash.digest("hex").slice(0, 32));
}

function calledOff(path: string, signal: AbortSignal): SkillError {
  return new SkillError("package-aborted", {
    message: `fetching the Python packages of ${path} was called off`,
    fix: "nothing of it is left: build again",
    cause: signal.reason,
  });
}

function notFetched(path: string, why: string): SkillError {
  const last = withoutCredentials(why).trim().split("\n").at(-1) ?? "";
  return new SkillError("python-packages", {
    message: `The Python packages of ${path} could not be fetched: ${last || "uv gave no reason"}`,
    fix: "check what the script declares, and that [sandbox] python_index in config.toml names where it comes from",
  });
}
