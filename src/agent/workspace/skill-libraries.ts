import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { type Endpoint, FIXED_VARIABLES, type Mount, type Sandbox } from "../../host/sandbox-contract.ts";
import {
  buildLibraryLayer,
  createLibraryMounts,
  findLibraryLayer,
  type LibraryBuildOptions,
  type LibraryLayer,
} from "../../sandbox/libraries/library-layer.ts";
import { createLibrarySet, type LibraryKind, type LibrarySet } from "../../sandbox/libraries/library-lock.ts";
import { getNpmTarget } from "../../sandbox/libraries/npm.ts";
import { getPythonTarget } from "../../sandbox/libraries/pip.ts";
import type { PackageFolders } from "../../sandbox/sandbox-folders.ts";
import { parseEndpoint } from "../../sandbox/sandbox-socket.ts";
import {
  createUvAccess,
  fetchScriptPackages,
  findUvPrograms,
  isScriptFetched,
  UV_PROGRAM_FOLDER,
  type UvAccess,
  type UvScript,
} from "../../sandbox/uv.ts";
import { PYTHON_PACKAGE, type Skill } from "../../skill/skill.ts";
import {
  detectInterpreter,
  listSkillScripts,
  parseInlineDependencies,
  SANDBOX_SKILL_FOLDER,
  type SkillScript,
} from "../../skill/skill-code.ts";
import type { SkillCopy } from "../../skill/source/skill-copy.ts";
import { getUserHome } from "../../util/system.ts";
import { toProblem } from "../run/run-result.ts";
import { parseEndpoints, type SkillPackages } from "./sandbox-permissions.ts";

/** Creates the sets of requested Python and npm packages for this machine. */
export function createLibrarySets({ python, npm }: Pick<SkillPackages, LibraryKind>): LibrarySet[] {
  return [
    ...(python.length > 0 ? [createLibrarySet("python", python, getPythonTarget() ?? "python3")] : []),
    ...(npm.length > 0 ? [createLibrarySet("npm", npm, getNpmTarget())] : []),
  ];
}

/** The mounts and environment variables with which code finds the packages of layers. */
interface LibraryAccess {
  mounts: readonly Mount[];
  env: Readonly<Record<string, string>>;
}

interface LibraryOptions extends Pick<LibraryBuildOptions, "onProgress" | "signal" | "update"> {
  sandbox: Sandbox;
  places: PackageFolders;
  /** Rebuild a layer that was changed after it was built, instead of refusing it. */
  rebuild?: boolean;
}

interface SkillLibraryRequest extends Omit<LibraryOptions, "update" | "rebuild"> {
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
  const { skill, copy, sandbox, mount, script, places } = request;
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
    folder: places.own,
    onFailed: (_, error) => report(error),
  });
  const scripts = declaring.map((one) => createUvScript(host, one.script, copy));
  return { libraries: createLibraryAccess(layers, createUvAccess(scripts, places.own)), problems };
}

/** Returns the same for libraries that are already built, and the missing packages. */
export async function findSkillLibraries(
  host: Host,
  configured: SkillPackages,
  { skill, copy, sandbox, places }: Pick<SkillLibraryRequest, "sandbox" | "places"> & { skill: Skill; copy: SkillCopy },
): Promise<{ libraries: LibraryAccess; missing: readonly string[] }> {
  if (sandbox.by !== "bubblewrap") return { libraries: { mounts: [], env: {} }, missing: [] };
  const declaring = await findDeclaringScripts(skill, copy);
  const isByUv = hasUv(host);
  const inline = isByUv ? [] : listPlainDependencies(declaring);
  const sets = createLibrarySets({ ...configured, python: [...configured.python, ...inline] });
  const layers = sets.flatMap((set) => findLibraryLayer(set, places) ?? []);
  const needsUv = isByUv && declaring.length + configured.python.length > 0;
  const scripts = declaring.map((one) => createUvScript(host, one.script, copy));
  return {
    libraries: createLibraryAccess(layers, needsUv ? createUvAccess(scripts, places.own) : undefined),
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
export async function resolveLibraries(
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

function findUnchanged(set: LibrarySet, { places, rebuild = false }: LibraryOptions): LibraryLayer | undefined {
  try {
    return findLibraryLayer(set, places);
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
export interface DeclaringScript {
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
export async function findDeclaringScripts(skill: Skill, copy: SkillCopy): Promise<DeclaringScript[]> {
  if (![...copy.files.keys()].some((path) => /(?:\.py|\/[^.]+)$/i.test(path))) return [];
  return (await listSkillScripts(skill)).flatMap((script) => {
    const declared = readDependencies(script, copy);
    return declared ? [{ script, declared }] : [];
  });
}

export function hasUv(host: Host): boolean {
  return findUvPrograms(getUserHome(host.env ?? process.env)).has("uv");
}

/** Fetches the packages that scripts declare, with uv, unless they exist. Contract: the sandbox is a bubblewrap sandbox. */
export async function fetchDeclaredPackages(
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

export function createUvScript(host: Host, { path }: SkillScript, { files }: SkillCopy): UvScript {
  const bytes = files.get(path)?.bytes ?? new Uint8Array();
  return { path: `${SANDBOX_SKILL_FOLDER}/${path}`, bytes, index: readPythonIndex(host).shown };
}

/** Lists the declared packages that consist of a plain name and versions. Only these are safe for pip. */
export function listPlainDependencies(scripts: readonly DeclaringScript[]): string[] {
  return scripts.flatMap(({ declared }) => declared.filter((one) => PYTHON_PACKAGE.test(one)));
}

/** Refuses a script with a package declaration that only uv understands. */
export function requirePlainPackages({ script, declared }: DeclaringScript): void {
  const odd = declared.find((one) => !PYTHON_PACKAGE.test(one));
  if (odd === undefined) return;
  throw new SkillError("library-specifier", {
    message: `"${script.path}" declares the Python package "${odd}", which only uv can read, and uv is not installed`,
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
