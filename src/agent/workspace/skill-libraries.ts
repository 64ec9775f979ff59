import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { type Endpoint, FIXED_VARIABLES, type Mount, type Sandbox } from "../../host/sandbox-contract.ts";
import { findUvPrograms } from "../../sandbox/create-sandbox.ts";
import {
  buildLibraryLayer,
  createLibraryMounts,
  findLibraryLayer,
  findUnusedLibraryLayers,
  type LibraryBuildOptions,
  type LibraryLayer,
  type LibrarySummary,
  removeLibraryLayers,
} from "../../sandbox/libraries/library-layer.ts";
import { createLibrarySet, type LibraryKind, type LibrarySet } from "../../sandbox/libraries/library-lock.ts";
import { getNpmTarget } from "../../sandbox/libraries/npm.ts";
import {
  createUvAccess,
  fetchScriptPackages,
  findStaleFetches,
  findUnusedFetches,
  getPythonTarget,
  isScriptFetched,
  removeFetches,
  UV_PROGRAM_FOLDER,
  type UvAccess,
  type UvScript,
} from "../../sandbox/libraries/python-packages.ts";
import { getSkillStoreFolder, type PackageFolders, storeSkillCopy } from "../../sandbox/sandbox-folders.ts";
import { parseEndpoint } from "../../sandbox/sandbox-network.ts";
import { PYTHON_PACKAGE, type Skill } from "../../skill/skill.ts";
import {
  detectInterpreter,
  listSkillScripts,
  parseInlineDependencies,
  SANDBOX_SKILL_FOLDER,
  type SkillScript,
} from "../../skill/skill-code.ts";
import { copySkill, type SkillCopy } from "../../skill/source/skill-copy.ts";
import { mapAsync } from "../../util/async.ts";
import { getUserHome } from "../../util/system.ts";
import { toProblem } from "../run/run-result.ts";
import { getPackageFolders, resolveSandbox } from "./run-sandbox.ts";
import {
  listSkillPackages,
  mayDeclarePackages,
  parseEndpoints,
  resolveSkilletHome,
  type SkillPackages,
} from "./sandbox-permissions.ts";

/** Creates the sets of requested Python and npm packages for this machine. */
function createLibrarySets({ python, npm }: Pick<SkillPackages, LibraryKind>): LibrarySet[] {
  return [
    ...(python.length > 0 ? [createLibrarySet("python", python, getPythonTarget() ?? "python3")] : []),
    ...(npm.length > 0 ? [createLibrarySet("npm", npm, getNpmTarget())] : []),
  ];
}

/** The mounts and environment variables with which code finds the packages of layers. */
export interface LibraryAccess {
  mounts: readonly Mount[];
  env: Readonly<Record<string, string>>;
}

interface LibraryOptions extends Pick<LibraryBuildOptions, "onProgress" | "signal" | "update"> {
  sandbox: Sandbox;
  places: PackageFolders;
  /** Rebuild a layer that was changed after it was built, instead of refusing it. */
  rebuild?: boolean;
}

export interface SkillLibraryRequest extends Omit<LibraryOptions, "update" | "rebuild"> {
  skill?: Skill | undefined;
  copy?: SkillCopy | undefined;
  /** The skill's folder in the sandbox. */
  mount: Mount | undefined;
  /** The script to run, if any. */
  script?: SkillScript | undefined;
}

/**
 * Resolves the Python and npm packages that the user configured for the skill, and those that its scripts declare: with uv if installed,
 * else with pip. For a run, an unavailable package is only reported, because its commands may not need it.
 */
export async function resolveSkillLibraries(
  host: Host,
  configured: SkillPackages,
  request: SkillLibraryRequest,
): Promise<{ libraries: LibraryAccess; problems: Problem[] }> {
  const { skill, copy, sandbox, mount, script, places: packageFolders } = request;
  const problems: Problem[] = [];
  // Third-party packages are fetched only for code that may run.
  const mayRun = skill && copy && mount && !["untrusted", "changed"].includes(host.trust?.getStatus(skill) ?? "own");
  const declaring = mayRun ? await findDeclaringScripts(skill, copy) : [];
  const ours = declaring.find((one) => one.script.path === script?.path);
  if (ours && sandbox.by !== "bubblewrap") {
    throw new SkillError("python-packages", {
      message: `"${script?.path}" declares Python packages, which are available only in bubblewrap sandboxes`,
      fix: "add them to the image, and remove the declaration from the script",
    });
  }
  const isByUv = hasUv(host);
  if (ours && !isByUv) requirePlainPackages(ours);
  const report = (error: unknown) => {
    if (ours || request.signal.aborted) throw error;
    problems.push(toProblem(error));
  };
  if (sandbox.by !== "bubblewrap" || !copy || !mount || !isByUv) {
    const inline = sandbox.by === "bubblewrap" ? listPlainDependencies(declaring) : [];
    const layers = await resolveCombinedLibraries(host, configured, inline, {
      ...request,
      isNeeded: needsDeclaredPackages(script, ours),
      report,
    });
    return { libraries: createLibraryAccess(layers, undefined), problems };
  }
  const layers = await resolveLibraries(host, configured, request);
  if (declaring.length === 0 && configured.python.length === 0)
    return { libraries: createLibraryAccess(layers, undefined), problems };
  const wanted = declaring.filter((one) => needsDeclaredPackages(script, ours) && (!script || one === ours));
  await fetchDeclaredPackages(host, wanted, copy, {
    ...request,
    mount,
    folder: packageFolders.own,
    onFailed: (_, error) => report(error),
  });
  const scripts = declaring.map((one) => createUvScript(host, one.script, copy));
  return { libraries: createLibraryAccess(layers, createUvAccess(scripts, packageFolders.own)), problems };
}

/** Returns the same for libraries that are already built, and the missing packages. */
export async function findSkillLibraries(
  host: Host,
  configured: SkillPackages,
  {
    skill,
    copy,
    sandbox,
    places: packageFolders,
  }: Pick<SkillLibraryRequest, "sandbox" | "places"> & { skill: Skill; copy: SkillCopy },
): Promise<{ libraries: LibraryAccess; missing: readonly string[] }> {
  if (sandbox.by !== "bubblewrap") return { libraries: { mounts: [], env: {} }, missing: [] };
  const declaring = await findDeclaringScripts(skill, copy);
  const isByUv = hasUv(host);
  const inline = isByUv ? [] : listPlainDependencies(declaring);
  const sets = createLibrarySets({ ...configured, python: [...configured.python, ...inline] });
  const layers = sets.flatMap((set) => findLibraryLayer(set, packageFolders) ?? []);
  const needsUv = isByUv && declaring.length + configured.python.length > 0;
  const scripts = declaring.map((one) => createUvScript(host, one.script, copy));
  return {
    libraries: createLibraryAccess(layers, needsUv ? createUvAccess(scripts, packageFolders.own) : undefined),
    missing: sets.filter((set) => !layers.some((layer) => layer.set === set)).flatMap(({ wanted }) => wanted),
  };
}

/** Returns true if declared packages must be fetched: for a script that declares some, and for a run, whose commands may call any script. */
function needsDeclaredPackages(script: SkillScript | undefined, ours: DeclaringScript | undefined): boolean {
  return script === undefined || ours !== undefined;
}

interface CombinedLibraryOptions extends LibraryOptions {
  isNeeded: boolean;
  report(error: unknown): void;
}

/** Resolves the configured packages, with those that scripts declare if available. */
async function resolveCombinedLibraries(
  host: Host,
  configured: SkillPackages,
  inline: readonly string[],
  options: CombinedLibraryOptions,
): Promise<LibraryLayer[]> {
  const together = { ...configured, python: [...configured.python, ...inline] };
  const isThere = () => createLibrarySets(together).every((set) => findLibraryLayer(set, options.places) !== undefined);
  if (inline.length === 0 || (!options.isNeeded && !isThere())) return resolveLibraries(host, configured, options);
  try {
    return await resolveLibraries(host, together, options);
  } catch (error) {
    options.report(error);
    return resolveLibraries(host, configured, options);
  }
}

/** Finds the layers of these packages, or builds them now. Throws a SkillError when one is unavailable. */
async function resolveLibraries(
  host: Host,
  wanted: Pick<SkillPackages, LibraryKind>,
  options: LibraryOptions,
): Promise<LibraryLayer[]> {
  const sets = createLibrarySets(wanted);
  if (sets.length === 0 || options.sandbox.system === "own") return []; // An image contains them or not.
  if (options.sandbox.by !== "bubblewrap") {
    throw new SkillError("sandbox-packages", {
      message: `Python and npm packages (${sets.flatMap((set) => set.wanted).join(", ")}) are available only in bubblewrap sandboxes`,
      fix: "remove level and engine under [sandbox] in config.toml, or remove the packages from it",
    });
  }
  const env = host.env ?? process.env;
  const layers: LibraryLayer[] = [];
  for (const set of sets) {
    const found = options.update ? undefined : findUnchanged(set, options);
    layers.push(
      found ?? (await buildLibraryLayer(set, options.places, { ...options, env: { ...env, HOME: getUserHome(env) } })),
    );
  }
  return layers;
}

function findUnchanged(
  set: LibrarySet,
  { places: packageFolders, rebuild = false }: LibraryOptions,
): LibraryLayer | undefined {
  try {
    return findLibraryLayer(set, packageFolders);
  } catch (error) {
    if (rebuild && error instanceof SkillError && error.code === "library-tampered") return undefined;
    throw error;
  }
}

/** Creates the mounts and environment variables for layers, with their programs in the PATH, and with uv if scripts declare packages. */
function createLibraryAccess(layers: readonly LibraryLayer[], uv: UvAccess | undefined): LibraryAccess {
  if (layers.length === 0 && !uv) return { mounts: [], env: {} };
  const { mounts, env, before, after } = createLibraryMounts(layers);
  const path = [UV_PROGRAM_FOLDER, ...before, FIXED_VARIABLES["PATH"], ...after].join(":");
  return { mounts: [...mounts, ...(uv?.mounts ?? [])], env: { ...env, ...uv?.env, PATH: path } };
}

/** A script that declares Python packages in its comments. */
interface DeclaringScript {
  script: SkillScript;
  /** The packages, verbatim. */
  declared: readonly string[];
}

interface FetchDeclaredOptions {
  sandbox: Sandbox;
  /** The skill's folder in the sandbox. */
  mount: Mount;
  /** The folder of fetched packages. */
  folder: string;
  /** Handles a script whose packages are unavailable. Defaults to throwing. */
  onFailed?(script: SkillScript, error: unknown): void;
  /** Fetch packages again, even if they exist. */
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** Finds the scripts of a skill that declare Python packages. */
async function findDeclaringScripts(skill: Skill, copy: SkillCopy): Promise<DeclaringScript[]> {
  if (!mayDeclarePackages(copy)) return [];
  return (await listSkillScripts(skill)).flatMap((script) => {
    const declared = readDependencies(script, copy);
    return declared ? [{ script, declared }] : [];
  });
}

/** Returns the command that runs a script that declares Python packages, offline; undefined for any other script. */
export async function findDeclaringCommand(
  path: string,
  host: Host,
  { skill, script, copy }: { skill: Skill; script: SkillScript; copy: SkillCopy },
): Promise<string[] | undefined> {
  const declaring = await findDeclaringScripts(skill, copy);
  if (!declaring.some((one) => one.script.path === script.path)) return undefined;
  return hasUv(host) ? ["uv", "run", "--offline", "--script", path] : ["python3", path];
}

function hasUv(host: Host): boolean {
  return findUvPrograms(getUserHome(host.env ?? process.env)).has("uv");
}

/** Fetches the packages that scripts declare, with uv, unless they exist. Contract: the sandbox is a bubblewrap sandbox. */
async function fetchDeclaredPackages(
  host: Host,
  scripts: readonly DeclaringScript[],
  copy: SkillCopy,
  options: FetchDeclaredOptions,
): Promise<void> {
  const { folder, mount, update = false, signal } = options;
  const { url, endpoints } = readPythonIndex(host);
  const index = [...parseEndpoints(host.settings.sandbox.pythonIndex), ...endpoints];
  for (const { script } of scripts) {
    const wanted = createUvScript(host, script, copy);
    if (!update && isScriptFetched(wanted, folder)) continue;
    try {
      await fetchScriptPackages(wanted, { ...options, skill: mount, index, indexUrl: url });
    } catch (error) {
      if (!options.onFailed || signal.aborted) throw error;
      options.onFailed(script, error);
    }
  }
}

function createUvScript(host: Host, { path }: SkillScript, { files }: SkillCopy): UvScript {
  const bytes = files.get(path)?.bytes ?? new Uint8Array();
  return { path: `${SANDBOX_SKILL_FOLDER}/${path}`, bytes, index: readPythonIndex(host).shown };
}

/** Lists the declared packages that consist of a plain name and versions. Only these are safe for pip. */
function listPlainDependencies(scripts: readonly DeclaringScript[]): string[] {
  return scripts.flatMap(({ declared }) => declared.filter((one) => PYTHON_PACKAGE.test(one)));
}

/** Refuses a script with a package declaration that only uv understands. */
function requirePlainPackages({ script, declared }: DeclaringScript): void {
  const invalid = declared.find((one) => !PYTHON_PACKAGE.test(one));
  if (invalid === undefined) return;
  throw new SkillError("library-specifier", {
    message: `"${script.path}" declares the Python package "${invalid}", which only uv can read, and uv is not installed`,
    fix: "install uv (https://docs.astral.sh/uv): without it, write a name with versions, such as requests>=2.31",
  });
}

/** Reads the package index that the user set for uv or pip in an environment variable. */
function readPythonIndex({ env = process.env }: Host): {
  url?: string;
  shown?: string;
  endpoints: readonly Endpoint[];
} {
  const value = env["UV_DEFAULT_INDEX"] ?? env["UV_INDEX_URL"] ?? env["PIP_INDEX_URL"];
  const url = value === undefined ? null : URL.parse(value);
  if (!value || !url || !/^https?:$/.test(url.protocol)) return { endpoints: [] };
  const endpoint = parseEndpoint(`${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`);
  url.username = "";
  url.password = "";
  return { url: value, shown: url.href, endpoints: endpoint ? [endpoint] : [] };
}

/** Returns the Python packages that a script declares; undefined without a declaration. */
function readDependencies(script: SkillScript, copy: SkillCopy): readonly string[] | undefined {
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const program = detectInterpreter(script.path, bytes)?.program ?? "";
  return /^(?:python[\d.]*|uv)$/.test(program)
    ? parseInlineDependencies(Buffer.from(bytes).toString("utf8"))
    : undefined;
}

interface SkillLibraries {
  /** The scripts whose declared packages were fetched. */
  scripts: string[];
  layers: LibraryLayer[];
}

interface SkillLibraryOptions {
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** Builds the Python and npm packages of a skill before anything runs: those that the user configured, and those that its scripts declare. */
export async function buildSkillLibraries(
  host: Host,
  skill: Skill,
  options: SkillLibraryOptions,
): Promise<SkillLibraries> {
  const { copy, declaring } = await readDeclarations(skill);
  const sets = createSetsFor(host, skill, declaring);
  if (sets.length === 0 && declaring.length === 0) return { scripts: [], layers: [] };
  const sandbox = await resolveSandbox(host);
  const packageFolders = getPackageFolders(host);
  const isByPip = !hasUv(host);
  if (isByPip) for (const one of declaring) requirePlainPackages(one);
  const layers = await resolveLibraries(host, listWantedPackages(host, skill, declaring), {
    ...options,
    sandbox,
    places: packageFolders,
    rebuild: true,
  });
  if (!isByPip && copy && declaring.length > 0) {
    const mount = {
      from: storeSkillCopy(copy, getSkillStoreFolder(resolveSkilletHome(host))),
      to: SANDBOX_SKILL_FOLDER,
      access: "read" as const,
    };
    await fetchDeclaredPackages(host, declaring, copy, { ...options, sandbox, mount, folder: packageFolders.own });
  }
  return { scripts: declaring.map(({ script }) => script.path), layers };
}

/** Stored libraries that none of the given skills uses. */
export interface UnusedLibraries {
  layers: LibrarySummary[];
  /** Folders of packages that uv fetched for scripts. */
  fetched: string[];
}

export async function findUnusedSkillLibraries(host: Host, skills: readonly Skill[]): Promise<UnusedLibraries> {
  const packageFolders = getPackageFolders(host);
  const found = await mapAsync(skills, async (skill) => ({ skill, ...(await readDeclarations(skill)) }));
  const scripts = found.flatMap(({ copy, declaring }) =>
    copy ? declaring.map(({ script }) => createUvScript(host, script, copy)) : [],
  );
  const sets = found.flatMap(({ skill, declaring }) => createSetsFor(host, skill, declaring));
  return {
    layers: findUnusedLibraryLayers(packageFolders, sets),
    fetched: findUnusedFetches(packageFolders.own, scripts),
  };
}

/** Removes these libraries, and incomplete or replaced ones. */
export function pruneSkillLibraries(host: Host, { layers, fetched }: UnusedLibraries): void {
  removeLibraryLayers(layers);
  removeFetches([...fetched, ...findStaleFetches(getPackageFolders(host).own)]);
}

/** Lists the sets that a skill uses, including those that its scripts declare. */
export async function listSkillLibrarySets(host: Host, skill: Skill): Promise<LibrarySet[]> {
  return createSetsFor(host, skill, (await readDeclarations(skill)).declaring);
}

function createSetsFor(host: Host, skill: Skill, declaring: readonly DeclaringScript[]): LibrarySet[] {
  return createLibrarySets(listWantedPackages(host, skill, declaring));
}

function listWantedPackages(host: Host, skill: Skill, declaring: readonly DeclaringScript[]) {
  const configured = listSkillPackages(skill, host);
  return hasUv(host)
    ? configured
    : { ...configured, python: [...configured.python, ...listPlainDependencies(declaring)] };
}

async function readDeclarations(skill: Skill): Promise<{ copy?: SkillCopy; declaring: DeclaringScript[] }> {
  if (!(await skill.files()).files.some(({ path }) => /\.py$/i.test(path))) return { declaring: [] };
  const copy = await copySkill(skill);
  return { copy, declaring: await findDeclaringScripts(skill, copy) };
}
