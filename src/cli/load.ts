import {
  closeSync,
  fstatSync,
  constants as how,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { constants, Script } from "node:vm";

/**
 * Starts the command. This file loads as little as possible. The compile cache is in the folder, whose name contains Node's version.
 */
export function run(folder?: string): void {
  cacheFolder = folder !== undefined && isOwnFolder(folder) ? folder : undefined;
  process.once("exit", writePendingCaches);
  (loadModule(START_PART) as { run(): void }).run();
}

let cacheFolder: string | undefined;

/** Files that hold parts by name: those needed at every start first, rarely used ones last. */
declare const SKILLET_PACKS: readonly string[];
const START_PART = "./part-bin.cjs";

function isPack(name: string): boolean {
  return SKILLET_PACKS.includes(name);
}

type ModuleWrapper = (
  exports: object,
  require: (name: string) => unknown,
  module: object,
  file: string,
  at: string,
) => void;

const loadedModules = new Map<string, { exports: object }>();

/**
 * Loads a file of this build with its compile cache. Node's own cache only covers functions compiled before a file is run, so most
 * functions would be compiled at every start.
 */
function loadModule(name: string): object {
  const known = loadedModules.get(name);
  if (known) return known.exports;
  if (!name.startsWith("./part-")) return loadFile(name);
  const module = { exports: {} };
  loadedModules.set(name, module);
  findPart(name)(module.exports, requireModule, module, name, import.meta.dirname);
  return module.exports;
}

function findPart(name: string): ModuleWrapper {
  for (const pack of SKILLET_PACKS) {
    const part = (loadModule(pack) as Record<string, ModuleWrapper>)[name];
    if (part) return part;
  }
  throw new Error(`${name} is not in this build: build it again`);
}

function loadFile(name: string): object {
  const file = join(import.meta.dirname, name);
  const text = readFileSync(file, "latin1");
  const kept = text.length < MIN_CACHED_LENGTH ? undefined : getCachePath(name);
  const cachedData = kept === undefined ? undefined : readCache(kept);
  // The packs are function expressions already: concatenated text is copied before it is compiled.
  const source = isPack(name) ? text : `(function(exports,require,module,__filename,__dirname){${text}\n})`;
  const script = new Script(source, {
    filename: file,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    ...(cachedData ? { cachedData } : {}),
  });
  const module = { exports: {} };
  loadedModules.set(name, module);
  (script.runInThisContext() as ModuleWrapper)(module.exports, requireModule, module, file, import.meta.dirname);
  if (kept !== undefined && (!cachedData || script.cachedDataRejected)) scheduleCache(kept, script);
  return module.exports;
}

/** Shorter files compile faster than their cache is read. */
const MIN_CACHED_LENGTH = 4096;

/** Requires a built-in module. Everything else is in this build. */
function requireModule(name: string): unknown {
  return name.startsWith("./") ? loadModule(name) : process.getBuiltinModule(name);
}

/** Identifies the build. V8 checks only the length of a source. */
declare const SKILLET_BUILD: string;

/** Returns the path of the cache; undefined if caching is off. */
function getCachePath(name: string): string | undefined {
  if (cacheFolder === undefined) return undefined;
  // Each command uses different functions of the same file.
  const [command = "any"] = (isPack(name) && /^[a-z]{1,20}$/.exec(process.argv[2] ?? "")) || [];
  return join(cacheFolder, `${SKILLET_BUILD}-${basename(name, ".cjs")}-${command}`);
}

// The data is stored twice: V8 trusts its cache and crashes on a wrong byte, and no checksum code is loaded yet.
function readCache(path: string): Buffer | undefined {
  const bytes = readOwnFile(path);
  if (bytes === undefined) return undefined;
  const half = bytes.length / 2;
  const data = bytes.subarray(0, half);
  return half > 0 && data.equals(bytes.subarray(half)) ? data : undefined;
}

/** Reads a file if only its user could have written it: cached code of other users must not run. */
function readOwnFile(path: string): Buffer | undefined {
  let file: number | undefined;
  try {
    // Opening a named pipe would block.
    file = openSync(path, how.O_RDONLY | how.O_NONBLOCK | how.O_NOFOLLOW);
    const found = fstatSync(file);
    return found.isFile() && isOwn(found) ? readFileSync(file) : undefined;
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Returns true if only its user can write to the folder. Creates it if it is missing. */
function isOwnFolder(folder: string): boolean {
  try {
    const found = lstatSync(folder, { throwIfNoEntry: false });
    if (!found) mkdirSync(folder, { mode: 0o700 });
    return !found || (found.isDirectory() && isOwn(found));
  } catch {
    return false;
  }
}

// Windows has neither numeric users nor these mode bits: there, a home belongs to its user.
function isOwn({ uid, mode }: Stats): boolean {
  const user = process.getuid?.();
  return user === undefined || (uid === user && (mode & WRITABLE_BY_OTHERS) === 0);
}

const WRITABLE_BY_OTHERS = 0o022;

/** After everything for a start is compiled, and before V8 discards the code that a long run no longer needs. */
const CACHE_DELAY_MS = 3000;

/** Scripts whose cache is not written yet, by path. */
const pendingCaches = new Map<string, Script>();

function scheduleCache(path: string, script: Script): void {
  pendingCaches.set(path, script);
  setTimeout(() => writeCache(path, script), CACHE_DELAY_MS).unref();
}

function writePendingCaches(code: number): void {
  if (code === 0) for (const [path, script] of pendingCaches) writeCache(path, script);
}

function writeCache(path: string, script: Script): void {
  pendingCaches.delete(path);
  const made = `${path}.${process.pid}`;
  try {
    const data = script.createCachedData();
    writeFileSync(made, Buffer.concat([data, data]), { flag: "wx", mode: 0o600 });
    renameSync(made, path);
    removeOutdatedCaches(dirname(path));
  } catch {
    removeQuietly(made); // Only the next start is slower.
  }
}

/** Removes the caches of other builds. */
function removeOutdatedCaches(folder: string): void {
  for (const name of readdirSync(folder)) {
    const [, build] = CACHE_NAME.exec(name) ?? [];
    if (build !== undefined && build !== SKILLET_BUILD) removeQuietly(join(folder, name));
  }
}

const CACHE_NAME = /^([0-9a-f]{12})-[\w-]+-[a-z]{1,20}(?:\.\d+)?$/;

function removeQuietly(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Nothing else can be written there either.
  }
}
