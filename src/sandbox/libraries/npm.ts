import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join, relative } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { parseNpmSpecifier } from "../../skill/skill.ts";
import { createFolder } from "../../util/file-access.ts";
import { isJsonObject } from "../../util/objects.ts";
import { isInside } from "../../util/safe-path.ts";
import { findSystemProgram } from "../../util/system.ts";
import { formatCount, stripCredentials, truncateLine } from "../../util/text.ts";
import { runProgram } from "../process.ts";
import {
  createUnresolvedHostError,
  type FetchResult,
  type FetchSettings,
  fetchThroughProxy,
  readEnvironmentProxies,
  removeProxyVariables,
} from "./fetch-proxy.ts";
import type { LibraryContext, LibrarySource } from "./library-layer.ts";
import { createTamperedLibraryError, type LockedLibrary } from "./library-lock.ts";

/**
 * The mount point at the root, where Node looks last from any folder: `NODE_PATH` works for `require` only, not for
 * `import`.
 */
const MODULES_FOLDER = "/node_modules";
const TARBALL_FOLDER = "/opt/skillet/tarballs";

/**
 * The source of npm packages: npm resolves and fetches them with the user's own configuration. No script of a package
 * is run.
 */
export const NPM_SOURCE: LibrarySource = {
  mountPoint: MODULES_FOLDER,
  programs: `${MODULES_FOLDER}/.bin`,
  isFirst: false,
  env: {},
  async resolve(wanted, context) {
    const dependencies = Object.fromEntries(
      wanted.map((one) => {
        const { name, range = "latest" } = parseNpmSpecifier(one);
        return [name, range];
      }),
    );
    writeFileSync(join(context.folder, "package.json"), JSON.stringify({ private: true, dependencies }));
    const result = await runNpm(
      ["install", "--package-lock-only", ...NPM_LOCK_OPTIONS, ...NPM_OPTIONS],
      wanted,
      context,
    );
    if (result.code !== 0) throw createNpmError(wanted, result);
    return parseNpmLock(join(context.folder, "package-lock.json"));
  },
  async fetch(packages, context) {
    const { downloads } = context;
    context.onProgress(`fetching ${formatCount(packages.length, "npm package")}`);
    const specs = packages.map(({ name, version }) => `${name}@${version}`);
    const result = await runNpm(
      ["pack", ...NPM_OPTIONS, "--pack-destination", downloads, "--", ...specs],
      specs,
      context,
    );
    if (result.code !== 0) throw createNpmError(specs, result);
  },
  async install(packages, context) {
    const { draft, downloads } = context;
    const folders = packages.flatMap(({ file, places: paths = [] }) =>
      // Outer packages first: nested ones are unpacked into their folders.
      paths.map((path) => ({ file, place: path.slice("node_modules/".length) })),
    );
    folders.sort((a, b) => a.place.length - b.place.length);
    const list = folders.flatMap(({ file, place: path }) => [`${TARBALL_FOLDER}/${file}`, `${MODULES_FOLDER}/${path}`]);
    await context.runInside(
      ["sh", "-c", UNPACK_SCRIPT, "sh", ...list],
      [{ from: downloads, to: TARBALL_FOLDER, access: "read" }],
    );
    removeLinks(draft);
    for (const { place: path } of folders) if (!path.includes("/node_modules/")) linkPrograms(draft, path);
  },
};

const UNPACK_SCRIPT = `set -eu
while [ $# -gt 0 ]; do
  mkdir -p "$2"
  tar -xzf "$1" -C "$2" --strip-components=1 --no-same-owner --no-same-permissions
  chmod -R u+rwX "$2"
  shift 2
done`;

/** Override the user's configuration, because the lock file is read below. */
const NPM_LOCK_OPTIONS = ["--lockfile-version=3", "--install-strategy=hoisted", "--no-global"];
const NPM_OPTIONS = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];

export function getNpmTarget(): string {
  return `${process.platform}-${process.arch}`;
}

async function runNpm(
  args: readonly string[],
  wanted: readonly string[],
  { folder, env, signal }: LibraryContext,
): Promise<FetchResult> {
  const program = findNpmProgram(env);
  const own = {
    PATH: [dirname(process.execPath), env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"].join(delimiter),
    npm_config_cache: join(folder, "cache"),
    npm_config_logs_max: "0",
    // npm versions that know these settings do not even look at such packages. `allow_remote` would also refuse the
    // tarballs of registries.
    npm_config_allow_git: "none",
    npm_config_allow_file: "none",
    npm_config_allow_directory: "none",
    // For an npm that does not know them: git could reach hosts by ssh, past any proxy.
    npm_config_git: "/dev/null",
  };
  const settings = await readSettings(program, env, { folder, signal, env: { ...omitUnsetVariables(env), ...own } });
  return fetchThroughProxy({ wanted, settings, signal, addIndex: ADD_REGISTRY }, (variables, signal) => {
    const url = variables["HTTPS_PROXY"] ?? "";
    // npm ignores an empty `noproxy` and uses the one in the user's .npmrc. No host has this name.
    const proxies = { npm_config_proxy: url, npm_config_https_proxy: url, npm_config_noproxy: "<none>" };
    const all = { ...removeProxyVariables(env, own), ...own, ...variables, ...proxies };
    return runProgram(process.execPath, [program, ...args], { folder, signal, env: all });
  });
}

const ADD_REGISTRY = "npm config set @SCOPE:registry URL";

/** Reads the registries and proxies that npm would use. `npm config` omits those with a password. */
async function readSettings(
  program: string,
  env: LibraryContext["env"],
  options: { folder: string; signal: AbortSignal; env: Record<string, string> },
): Promise<FetchSettings> {
  const npm = join(dirname(dirname(program)), "lib/npm.js");
  const { code, stdout, tail } = await runProgram(process.execPath, ["--eval", createSettingsReader(npm)], options);
  const found = code === 0 ? JSON.parse(stdout) : undefined;
  if (!found) {
    throw new SkillError("library-tools", {
      message: `npm's configuration cannot be read: ${truncateLine(stripCredentials(tail), 300)}`,
      fix: "check that `npm config list` works, and that npm is version 9 or later",
    });
  }
  const { http, https, noProxy } = readEnvironmentProxies(env);
  const proxy = found.proxy ?? undefined;
  return {
    indexes: found.registries,
    proxy: {
      http: proxy ?? https ?? http, // In npm's order.
      https: proxy ?? https,
      noProxy: found.noProxy.length > 0 ? found.noProxy : noProxy,
    },
  };
}

/** Creates a program that prints the settings npm would use. */
const createSettingsReader = (npm: string) => `"use strict";
const Npm = require(${JSON.stringify(npm)});
(async () => {
  const npm = new Npm();
  await npm.load();
  const { config } = npm;
  const registries = [];
  for (const key in config.list[0]) if (/^(?:@.*:)?registry$/.test(key)) registries.push(String(config.get(key)));
  const proxy = config.get("https-proxy") || config.get("proxy") || null;
  const noProxy = [config.get("noproxy")].flat().filter(Boolean).flatMap((text) => String(text).split(","));
  require("node:fs").writeSync(1, JSON.stringify({ registries, proxy, noProxy }));
})();
`;

/** Removes variables that are not set. */
function omitUnsetVariables(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/**
 * Finds npm's own program: next to this Node, the system's, or the user's in PATH. Never one from a workspace or
 * another user.
 */
function findNpmProgram(env: Readonly<Record<string, string | undefined>>): string {
  const bundled = join(dirname(realpathSync(process.execPath)), "../lib/node_modules/npm/bin/npm-cli.js");
  const folders = (env["PATH"] ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const userProgram = folders
    .filter((folder) => !/(?:^|\/)node_modules(?:\/|$)/.test(folder))
    .map((folder) => join(folder, "npm"))
    .find(isTrustedProgram);
  const found = existsSync(bundled) ? bundled : (findSystemProgram("npm") ?? userProgram);
  const script = found && realpathSync(found);
  if (script !== undefined && /\.[cm]?js$/.test(basename(script))) return script;
  throw new SkillError("library-tools", {
    message: "npm is not installed, and fetching npm packages needs it",
    fix: "install it with Node, or run: sudo apt-get install npm",
  });
}

function isTrustedProgram(path: string): boolean {
  try {
    return [statSync(dirname(path)), statSync(realpathSync(path))].every(
      ({ uid, mode }) => (uid === 0 || uid === process.getuid?.()) && (mode & 0o022) === 0,
    );
  } catch {
    return false;
  }
}

/** Parses the packages of npm's lock file for this machine, each once. Throws if one is not from a registry. */
function parseNpmLock(file: string): LockedLibrary[] {
  const lock: unknown = JSON.parse(readFileSync(file, "utf8"));
  const entries = isJsonObject(lock) && isJsonObject(lock["packages"]) ? Object.entries(lock["packages"]) : [];
  const found = new Map<string, LockedLibrary & { places: string[] }>();
  for (const [path, entry] of entries) {
    if (path === "" || !isJsonObject(entry) || entry["inBundle"] === true || !isForThisSystem(entry)) continue;
    const name = String(entry["name"] ?? path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
    const version = String(entry["version"] ?? "");
    const integrity = String(entry["integrity"] ?? "").split(" ")[0] ?? "";
    if (entry["link"] === true || integrity === "" || isOutsideRegistry(entry["resolved"])) {
      throw new SkillError("library-unresolved", {
        message: `the npm package ${truncateLine(name, 100)} is not from a registry: ${truncateLine(String(entry["resolved"] ?? "it has no hash"), 200)}`,
        fix: "choose another version or another package",
      });
    }
    const known = found.get(`${name}@${version}`) ?? {
      name,
      version,
      file: formatTarballName(name, version),
      integrity,
      places: [],
    };
    known.places.push(path);
    found.set(`${name}@${version}`, known);
  }
  return [...found.values()];
}

/** Returns true for Git repositories, folders, and files that are not a registry's versions. */
function isOutsideRegistry(resolved: unknown): boolean {
  return typeof resolved === "string" && !/^https?:\/\/[^\s]+\/-\/[^\s]+\.tgz$/.test(resolved);
}

/** Formats the file name as `npm pack` does. */
function formatTarballName(name: string, version: string): string {
  return `${name.replace(/^@/, "").replaceAll("/", "-")}-${version}.tgz`;
}

/** Returns true if a package supports this system: optional ones often support only one. */
function isForThisSystem(entry: Readonly<Record<string, unknown>>): boolean {
  const libc = existsSync("/etc/alpine-release") ? "musl" : "glibc";
  return (
    allowsName(entry["os"], process.platform) &&
    allowsName(entry["cpu"], process.arch) &&
    allowsName(entry["libc"], libc)
  );
}

/** Checks a list of allowed names or, with `!`, of excluded ones. */
function allowsName(list: unknown, name: string): boolean {
  if (!Array.isArray(list) || list.length === 0) return true;
  const [not, only] = [
    list.filter((one) => String(one).startsWith("!")),
    list.filter((one) => !String(one).startsWith("!")),
  ];
  return !not.includes(`!${name}`) && (only.length === 0 || only.includes(name) || only.includes("any"));
}

/** Removes symlinks: npm does not unpack them either. */
function removeLinks(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) removeLinks(path);
    else if (!entry.isFile()) rmSync(path);
  }
}

/** Creates symlinks to the programs of a package, as npm does. */
function linkPrograms(draft: string, location: string): void {
  const folder = join(draft, location);
  const manifest: unknown = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const bin = isJsonObject(manifest) ? manifest["bin"] : undefined;
  const programs = typeof bin === "string" ? { [basename(location)]: bin } : isJsonObject(bin) ? bin : {};
  for (const [name, path] of Object.entries(programs)) {
    const program = join(folder, String(path));
    const link = join(draft, ".bin", name);
    const isPlain = /^[A-Za-z0-9_][\w.-]*$/.test(name) && isInside(folder, program);
    if (!isPlain || !lstatSync(program, { throwIfNoEntry: false })?.isFile() || existsSync(link)) continue;
    createFolder(dirname(link));
    chmodSync(program, 0o755);
    symlinkSync(relative(dirname(link), program), link);
  }
}

function createNpmError(wanted: readonly string[], { tail, unresolved }: FetchResult): SkillError {
  const what = truncateLine(wanted.join(", "), 200);
  if (/EINTEGRITY/.test(tail))
    return createTamperedLibraryError(`${what}: the registry sent a file that does not match its hash`);
  if (unresolved !== undefined) return createUnresolvedHostError(wanted, unresolved);
  const lines = stripCredentials(tail).split("\n");
  const errors = lines.filter((line) => /^npm (?:error|ERR!)/.test(line));
  const output = truncateLine(
    (errors.length > 0 ? errors : lines.slice(-2))
      .map((line) => line.replace(/^npm (?:error|ERR!) ?/, "").trim())
      .filter((line) => line !== "" && !/complete log|^code /.test(line))
      .slice(0, 3)
      .join("; "),
    400,
  );
  const fix = /E404|ETARGET/.test(tail)
    ? "check the name and the version"
    : "npm uses your own configuration (`npm config list`): check that its registry is reachable";
  return new SkillError("library-unresolved", { message: `npm could not get ${what}: ${output}`, fix });
}
