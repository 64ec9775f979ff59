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
 * Starts the command. What this file is built with loads nothing that it need not. What V8 makes of it is kept in the folder, which
 * has Node's version in its name.
 */
export function run(folder?: string): void {
  cacheFolder = folder !== undefined && isOwnFolder(folder) ? folder : undefined;
  process.once("exit", writePendingCaches);
  (loadModule(START_PART) as { run(): void }).run();
}

let cacheFolder: string | undefined;

/** Files that hold parts by their names: first what every start needs, last what few do. */
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
 * A file of this build, with what V8 made of it before. Node keeps that too, but only what it compiles before a file is run,
 * which leaves most functions to be compiled at every start.
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
  // The packs are functions as they are: a text that is put together is copied before it is compiled.
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

/** What compiles faster than it is found. */
const MIN_CACHED_LENGTH = 4096;

/** All else that there is to load is in this build. */
function requireModule(name: string): unknown {
  return name.startsWith("./") ? loadModule(name) : process.getBuiltinModule(name);
}

/** Names the build. V8 looks at nothing but a file's length. */
declare const SKILLET_BUILD: string;

/** Where it is kept, if it is. */
function getCachePath(name: string): string | undefined {
  if (cacheFolder === undefined) return undefined;
  // Each command uses other functions of the same file.
  const [command = "any"] = (isPack(name) && /^[a-z]{1,20}$/.exec(process.argv[2] ?? "")) || [];
  return join(cacheFolder, `${SKILLET_BUILD}-${basename(name, ".cjs")}-${command}`);
}

// It is written twice: V8 believes what it is given and crashes over a wrong byte, and nothing else that can tell is loaded yet.
function readCache(path: string): Buffer | undefined {
  const bytes = readOwnFile(path);
  if (bytes === undefined) return undefined;
  const half = bytes.length / 2;
  const data = bytes.subarray(0, half);
  return half > 0 && data.equals(bytes.subarray(half)) ? data : undefined;
}

/** Code of others is not run: what a file holds, if only its user could have written it. */
function readOwnFile(path: string): Buffer | undefined {
  let file: number | undefined;
  try {
    // A pipe in its place would be waited for.
    file = openSync(path, how.O_RDONLY | how.O_NONBLOCK | how.O_NOFOLLOW);
    const found = fstatSync(file);
    return found.isFile() && isOwn(found) ? readFileSync(file) : undefined;
  } catch {
    return undefined;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** It is made where there is none. */
function isOwnFolder(folder: string): boolean {
  try {
    const found = lstatSync(folder, { throwIfNoEntry: false });
    if (!found) mkdirSync(folder, { mode: 0o700 });
    return !found || (found.isDirectory() && isOwn(found));
  } catch {
    return false;
  }
}

// Windows has neither users with numbers nor these bits: there, a home is its user's own.
function isOwn({ uid, mode }: Stats): boolean {
  const user = process.getuid?.();
  return user === undefined || (uid === user && (mode & WRITABLE_BY_OTHERS) === 0);
}

const WRITABLE_BY_OTHERS = 0o022;

/** Once what a start needs has been compiled, and before V8 lets go of what a long run no longer needs. */
const CACHE_DELAY_MS = 3000;

/** Scripts that are still to be kept, by where. */
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
    removeQuietly(made); // The next start takes longer.
  }
}

/** What other builds kept. */
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
    // Nor can anything else be written there.
  }
}
