import { spawnSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import type { Endpoint, Mount, Sandbox, SandboxLimits } from "../../host/sandbox-contract.ts";
import { normalizePythonName } from "../../skill/skill.ts";
import { findSystemProgram } from "../../util/system.ts";
import { compareText, stripCredentials, truncateLine } from "../../util/text.ts";
import { UV_FETCHED_FOLDER } from "../create-sandbox.ts";
import { runProgram } from "../process.ts";
import { isRoot, makeReadableFolder, NOBODY_UID } from "../sandbox-folders.ts";
import {
  createUnresolvedHostError,
  type FetchResult,
  type FetchSettings,
  fetchThroughProxy,
  readEnvironmentProxies,
  removeProxyVariables,
} from "./fetch-proxy.ts";
import type { LibraryContext, LibrarySource } from "./library-layer.ts";
import { computeIntegrity, createTamperedLibraryError, type LockedLibrary } from "./library-lock.ts";

const VENV_FOLDER = "/opt/skillet/venv";
const WHEEL_FOLDER = "/opt/skillet/wheels";
const PIP_WHEEL_FOLDER = "/opt/skillet/pip";

/**
 * The source of Python packages: pip resolves and fetches them with the user's own configuration. Wheels only, since
 * building a package would run its code.
 */
export const PIP_SOURCE: LibrarySource = {
  mountPoint: VENV_FOLDER,
  programs: `${VENV_FOLDER}/bin`,
  isFirst: true, // Its python3 finds the packages.
  // uv takes wheels from there for `uv run --with NAME` and `uvx NAME`.
  env: { VIRTUAL_ENV: VENV_FOLDER, UV_FIND_LINKS: `${VENV_FOLDER}/wheels` },
  async resolve(wanted, context) {
    const pip = await findPip(context);
    const args = ["download", ...PIP_OPTIONS, "--only-binary", ":all:", "--dest", context.downloads, "--", ...wanted];
    const result = await runPip(pip, args, wanted, context);
    if (result.code !== 0) throw createPipError(wanted, result);
    const files = readdirSync(context.downloads).sort(compareText);
    return Promise.all(files.map((file) => lockWheel(context.downloads, file)));
  },
  async fetch(packages, context) {
    if (packages.every(({ file }) => existsSync(join(context.downloads, file)))) return;
    const pip = await findPip(context);
    const list = join(context.folder, "requirements.txt");
    writeFileSync(list, formatRequirements(packages));
    const only = ["--only-binary", ":all:", "--no-deps", "--require-hashes"];
    const args = ["download", ...PIP_OPTIONS, ...only, "--dest", context.downloads, "-r", list];
    const wanted = packages.map(({ name, version }) => `${name}==${version}`);
    const result = await runPip(pip, args, wanted, context);
    if (result.code !== 0) throw createPipError(wanted, result);
  },
  async install(packages, context) {
    const pip = await findPip(context);
    const { draft, downloads } = context;
    // Created by hand: Debian ships the venv module in another package.
    mkdirSync(join(draft, "bin"), { mode: 0o755 });
    symlinkSync("/usr/bin/python3", join(draft, "bin/python3"));
    symlinkSync("python3", join(draft, "bin/python"));
    writeFileSync(join(draft, "pyvenv.cfg"), "home = /usr/bin\ninclude-system-site-packages = true\n");
    mkdirSync(join(draft, "wheels"), { mode: 0o755 });
    for (const { file } of packages) copyFileSync(join(downloads, file), join(draft, "wheels", file));
    writeFileSync(join(downloads, "requirements.txt"), formatRequirements(packages));
    const offline = ["--no-index", "--find-links", WHEEL_FOLDER, "--no-deps", "--ignore-installed", "--require-hashes"];
    const args = [
      "install",
      ...PIP_OPTIONS,
      ...offline,
      "--only-binary",
      ":all:",
      "-r",
      `${WHEEL_FOLDER}/requirements.txt`,
    ];
    const wheels: Mount = { from: downloads, to: WHEEL_FOLDER, access: "read" };
    await context.runInside([`${VENV_FOLDER}/bin/python3`, "-I", ...pip.inSandbox, ...args], [wheels, ...pip.mounts]);
  },
};

const PIP_OPTIONS = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar", "off"];

const URL_REFUSED = "a dependency is a URL, which is refused";

/**
 * Runs pip so that no code of a package can run. `--only-binary` does not apply to a dependency that is a URL, which
 * pip would fetch from anywhere and build. The first argument is pip's wheel, or empty for the system's pip.
 */
const GUARDED_PIP_SCRIPT = `import runpy, sys
wheel = sys.argv.pop(1)
if wheel:
    sys.path.insert(0, wheel)
from pip._internal.exceptions import InstallationError
from pip._vendor.packaging.requirements import Requirement
read = Requirement.__init__
def read_plain(self, *args, **named):
    read(self, *args, **named)
    if self.url:
        raise InstallationError("${URL_REFUSED}: %s" % self)
Requirement.__init__ = read_plain
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn"}
def refuse(event, args):
    if event in STARTS and str(args[0] if args else "").rpartition("/")[2] != "keyring":
        raise PermissionError("pip must not start programs here")
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__")
`;

/** Returns the interpreter that code gets, for which wheels are chosen. Undefined without python3. */
export function getPythonTarget(): string | undefined {
  const python = findSystemProgram("python3");
  return python && `${basename(realpathSync(python))}-${process.platform}-${process.arch}`;
}

interface PipProgram {
  python: string;
  /** The path of pip's wheel on the host; empty for the system's pip. */
  wheel: string;
  /** The arguments that start pip in a sandbox. */
  inSandbox: readonly string[];
  mounts: readonly Mount[];
}

/**
 * Finds the system's pip, or pip's wheel that Debian keeps for virtual environments, or builds a layer with that wheel.
 */
async function findPip({ folders: packageFolders, onProgress, signal }: LibraryContext): Promise<PipProgram> {
  const python = findSystemProgram("python3");
  if (python === undefined) {
    throw new SkillError("library-tools", {
      message: "python3 is not installed, and fetching Python packages needs it",
      fix: "run: sudo apt-get install python3",
    });
  }
  const hasPip = spawnSync(python, ["-I", "-c", "import pip"], { env: {}, stdio: "ignore" }).status === 0;
  if (hasPip) return { python, wheel: "", inSandbox: ["-m", "pip"], mounts: [] };
  const own = findPipWheel(DEBIAN_WHEEL_FOLDER);
  if (own !== undefined) return { python, wheel: own, inSandbox: [`${own}/pip`], mounts: [] };
  const { buildPackages } = await import("../packages/apt-packages.ts");
  const built = await buildPackages(["python3-pip-whl"], packageFolders, { onProgress, signal });
  const wheel = "root" in built ? findPipWheel(join(built.root, DEBIAN_WHEEL_FOLDER)) : undefined;
  if (wheel === undefined) {
    throw new SkillError("library-tools", {
      message: "pip is not installed, and fetching Python packages needs it",
      fix: "run: sudo apt-get install python3-pip",
    });
  }
  const mount: Mount = { from: wheel, to: `${PIP_WHEEL_FOLDER}/${basename(wheel)}`, access: "read" };
  return { python, wheel, inSandbox: [`${mount.to}/pip`], mounts: [mount] };
}

const DEBIAN_WHEEL_FOLDER = "/usr/share/python-wheels";

function findPipWheel(folder: string): string | undefined {
  const name = existsSync(folder) ? readdirSync(folder).find((file) => /^pip-.*\.whl$/.test(file)) : undefined;
  return name === undefined ? undefined : join(folder, name);
}

async function runPip(
  pip: PipProgram,
  args: readonly string[],
  wanted: readonly string[],
  { folder, signal, env }: LibraryContext,
): Promise<FetchResult> {
  const own = { ...readUvIndex(env), PIP_REQUIRE_VIRTUALENV: "0" };
  const start = (code: string, rest: readonly string[], more: Readonly<Record<string, string>>, until: AbortSignal) =>
    runProgram(pip.python, ["-I", "-c", code, pip.wheel, ...rest], {
      folder,
      signal: until,
      env: { ...removeProxyVariables(env, own), ...own, ...more },
    });
  const userProxy = env["PIP_PROXY"] === undefined ? {} : { PIP_PROXY: env["PIP_PROXY"] };
  const read = await start(READ_SETTINGS, [], userProxy, signal);
  if (read.code !== 0) throw createPipError(wanted, read);
  const settings = parseFetchSettings(read.stdout, env);
  return fetchThroughProxy({ wanted, settings, signal, addIndex: ADD_INDEX }, (variables, until) =>
    start(GUARDED_PIP_SCRIPT, args, { ...variables, PIP_PROXY: variables["HTTPS_PROXY"] ?? "" }, until),
  );
}

const ADD_INDEX = "pip config set global.extra-index-url URL";

/** Prints the indexes and the proxy that pip would use, from its files and variables. */
const READ_SETTINGS = `import json, sys
wheel = sys.argv.pop(1)
if wheel:
    sys.path.insert(0, wheel)
from pip._internal.commands import create_command
options, _ = create_command("download").parser.parse_args([])
indexes = [] if options.no_index else [options.index_url, *options.extra_index_urls]
print(json.dumps({"indexes": [*indexes, *options.find_links], "proxy": options.proxy}))
`;

function parseFetchSettings(text: string, env: LibraryContext["env"]): FetchSettings {
  const { indexes, proxy } = JSON.parse(text) as { indexes: string[]; proxy: string | null };
  if (proxy) return { indexes, proxy: { http: proxy, https: proxy, noProxy: [] } };
  const { http, https, all, noProxy } = readEnvironmentProxies(env);
  return { indexes, proxy: { http: http ?? all, https: https ?? all, noProxy } };
}

/** Reads uv's index: a user who sets an index only for uv means it for all Python packages. */
function readUvIndex(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const index = env["UV_DEFAULT_INDEX"] ?? env["UV_INDEX_URL"];
  return env["PIP_INDEX_URL"] === undefined && index !== undefined ? { PIP_INDEX_URL: index } : {};
}

async function lockWheel(folder: string, file: string): Promise<LockedLibrary> {
  const [name = "", version = ""] = file.split("-");
  return {
    name: normalizePythonName(name),
    version,
    file,
    integrity: await computeIntegrity(join(folder, file), "sha256"),
  };
}

function formatRequirements(packages: readonly LockedLibrary[]): string {
  return packages
    .map(({ name, version, integrity }) => `${name}==${version} --hash=${formatPipHash(integrity)}\n`)
    .join("");
}

/** Formats `sha256-BASE64` as pip does. */
function formatPipHash(integrity: string): string {
  const dash = integrity.indexOf("-");
  return `${integrity.slice(0, dash)}:${Buffer.from(integrity.slice(dash + 1), "base64").toString("hex")}`;
}

function createPipError(wanted: readonly string[], { tail, unresolved }: FetchResult): SkillError {
  const what = wanted.join(", ");
  if (/DO NOT MATCH THE HASHES/i.test(tail))
    return createTamperedLibraryError(
      `${what}: the index sent a file that does not match the hash in the lock file or the index`,
    );
  if (unresolved !== undefined) return createUnresolvedHostError(wanted, unresolved);
  const errors = tail.split("\n").filter((line) => line.startsWith("ERROR:"));
  const output = truncateLine(
    stripCredentials((errors.length > 0 ? errors : tail.split("\n").slice(-2)).join(" ").replaceAll("ERROR: ", "")),
    500,
  );
  const fix = tail.includes(URL_REFUSED)
    ? "choose another version or another package: dependencies must come from your index"
    : /No matching distribution|Could not find a version/i.test(tail)
      ? "check the name and the version; packages without a wheel for this Python are not supported, since building one would run its code"
      : "pip uses your own configuration (`pip config list`): check that its index is reachable";
  return new SkillError("library-unresolved", { message: `pip could not get ${what}: ${output}`, fix });
}

/** A Python script that declares its packages in its own comments. */
export interface UvScript {
  /** Its path inside the sandbox: uv identifies an environment by the path of its script. */
  path: string;
  bytes: Uint8Array;
  /** The index to resolve with, if it is not uv's default. Without a user name and password. */
  index?: string | undefined;
}

interface UvOptions {
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
