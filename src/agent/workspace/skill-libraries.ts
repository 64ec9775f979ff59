import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import { type Endpoint, FIXED_VARIABLES, type Mount, type Sandbox } from "../../host/sandbox-contract.ts";
import { parseEndpoint } from "../../sandbox/endpoint.ts";
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
import {
  createUvAccess,
  fetchScriptPackages,
  findUvPrograms,
  isScriptFetched,
  UV_PROGRAM_FOLDER,
  type UvAccess,
  type UvScript,
} from "../../sandbox/uv.ts";
import { PYTHON_PACKAGE } from "../../skill/requirements.ts";
import type { Skill } from "../../skill/skill.ts";
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

/** The sets of Python and npm packages that are wanted, resolved for this machine. */
export function createLibrarySets({ python, npm }: Pick<SkillPackages, LibraryKind>): LibrarySet[] {
  return [
    ...(python.length > 0 ? [createLibrarySet("python", python, getPythonTarget() ?? "python3")] : []),
    ...(npm.length > 0 ? [createLibrarySet("npm", npm, getNpmTarget())] : []),
  ];
}

/** What code needs to find the packages of layers. */
interface LibraryAccess {
  mounts: readonly Mount[];
  env: Readonly<Record<string, string>>;
}

interface LibraryOptions extends Pick<LibraryBuildOptions, "onProgress" | "signal" | "update"> {
  sandbox: Sandbox;
  places: PackageFolders;
  /** Build again what has been changed since it was built, instead of refusing it. */
  rebuild?: boolean;
}

interface SkillLibraryRequest extends Omit<LibraryOptions, "update" | "rebuild"> {
  skill?: Skill | undefined;
  copy?: SkillCopy | undefined;
  /** The skill's folder in the sandbox. */
  mount: Mount | undefined;
  /** The script that is run, where it is one. */
  script?: SkillScript | undefined;
}

/**
 * The Python and npm packages that the user gives to the skill, and those that its scripts declare: by uv where there is one, else by pip.
 * What cannot be had for a run, whose commands may do without, is a problem to report.
 */
export async function resolveSkillLibraries(
  host: Host,
  given: SkillPackages,
  request: SkillLibraryRequest,
): Promise<{ libraries: LibraryAccess; problems: Problem[] }> {
  const { skill, copy, sandbox, mount, script, places } = request;
  const problems: Problem[] = [];
  // Packages of others are fetched for code that may run, and for no other.
  const mayRun = skill && copy && mount && !["untrusted", "changed"].includes(host.trust?.standingOf(skill) ?? "own");
  const declaring = mayRun ? findDeclaringScripts(skill, copy) : [];
  const ours = declaring.find((one) => one.script.path === script?.path);
  if (ours && sandbox.by !== "bubblewrap") {
    throw new SkillError("python-packages", {
      message: `"${script?.path}" declares Python packages, which are brought only into sandboxes of bubblewrap`,
      fix: "put them into the image, and take the declaration out of the script",
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
    const layers = await resolveCombinedLibraries(host, given, inline, {
      ...request,
      isNeeded: needsDeclaredPackages(script, ours),
      report,
    });
    return { libraries: createLibraryAccess(layers, undefined), problems };
  }
  const layers = await resolveLibraries(host, given, request);
  if (declaring.length === 0 && given.python.length === 0)
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

/** The same as far as it is built already, and what is not. */
export function findSkillLibraries(
  host: Host,
  given: SkillPackages,
  { skill, copy, sandbox, places }: Pick<SkillLibraryRequest, "sandbox" | "places"> & { skill: Skill; copy: SkillCopy },
): { libraries: LibraryAccess; missing: readonly string[] } {
  if (sandbox.by !== "bubblewrap") return { libraries: { mounts: [], env: {} }, missing: [] };
  const declaring = findDeclaringScripts(skill, copy);
  const isByUv = hasUv(host);
  const inline = isByUv ? [] : listPlainDependencies(declaring);
  const sets = createLibrarySets({ ...given, python: [...given.python, ...inline] });
  const layers = sets.flatMap((set) => findLibraryLayer(set, places) ?? []);
  const needsUv = isByUv && declaring.length + given.python.length > 0;
  const scripts = declaring.map((one) => createUvScript(host, one.script, copy));
  return {
    libraries: createLibraryAccess(layers, needsUv ? createUvAccess(scripts, places.own) : undefined),
    missing: sets.filter((set) => !layers.some((layer) => layer.set === set)).flatMap(({ wanted }) => wanted),
  };
}

/** What scripts declare is fetched for one that does, and for a run, whose commands may call any. Others use what is there. */
function needsDeclaredPackages(script: SkillScript | undefined, ours: DeclaringScript | undefined): boolean {
  return script === undefined || ours !== undefined;
}

interface CombinedLibraryOptions extends LibraryOptions {
  isNeeded: boolean;
  report(error: unknown): void;
}

/** The packages that are given, with those that scripts declare where these can be had. */
async function resolveCombinedLibraries(
  host: Host,
  given: SkillPackages,
  inline: readonly string[],
  options: CombinedLibraryOptions,
): Promise<LibraryLayer[]> {
  const together = { ...given, python: [...given.python, ...inline] };
  const isThere = () => createLibrarySets(together).every((set) => findLibraryLayer(set, options.places) !== undefined);
  if (inline.length === 0 || (!options.isNeeded && !isThere())) return resolveLibraries(host, given, options);
  try {
    return await resolveLibraries(host, together, options);
  } catch (error) {
    options.report(error);
    return resolveLibraries(host, given, options);
  }
}

/** Finds the layers of these packages, or builds them now. Throws a SkillError when one cannot be had. */
export async function resolveLibraries(
  host: Host,
  wanted: Pick<SkillPackages, LibraryKind>,
  options: LibraryOptions,
): Promise<LibraryLayer[]> {
  const sets = createLibrarySets(wanted);
  if (sets.length === 0 || options.sandbox.system === "own") return []; // An image has them, or it has not.
  if (options.sandbox.by !== "bubblewrap") {
    throw new SkillError("sandbox-packages", {
      message: `Python and npm packages (${sets.flatMap((set) => set.wanted).join(", ")}) are given only to sandboxes of bubblewrap`,
      fix: "remove level and engine under [sandbox] in config.toml, or take the packages out of it",
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

/** The mounts and variables for layers, with their programs in the PATH, and with uv where scripts declare what they need. */
function createLibraryAccess(layers: readonly LibraryLayer[], uv: UvAccess | undefined): LibraryAccess {
  if (layers.length === 0 && !uv) return { mounts: [], env: {} };
  const { mounts, env, before, after } = createLibraryMounts(layers);
  const path = [UV_PROGRAM_FOLDER, ...before, FIXED_VARIABLES["PATH"], ...after].join(":");
  return { mounts: [...mounts, ...(uv?.mounts ?? [])], env: { ...env, ...uv?.env, PATH: path } };
}

/** A script that declares Python packages in its own comments. */
export interface DeclaringScript {
  script: SkillScript;
  /** As it is written. */
  declared: readonly string[];
}

interface FetchDeclaredOptions {
  sandbox: Sandbox;
  /** The skill's folder in the sandbox. */
  mount: Mount;
  /** Where what was fetched is kept. */
  folder: string;
  /** Decides what becomes of a script whose packages cannot be had; throws when left out. */
  onFailed?(script: SkillScript, error: unknown): void;
  /** Fetch also what has been fetched already. */
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** The scripts of a skill that declare Python packages. */
export function findDeclaringScripts(skill: Skill, copy: SkillCopy): DeclaringScript[] {
  if (![...copy.files.keys()].some((path) => /(?:\.py|\/[^.]+)$/i.test(path))) return [];
  return listSkillScripts(skill).flatMap((script) => {
    const declared = readDependencies(script, copy);
    return declared ? [{ script, declared }] : [];
  });
}

export function hasUv(host: Host): boolean {
  return findUvPrograms(getUserHome(host.env ?? process.env)).has("uv");
}

/** Fetches what scripts declare, with uv, unless it is there. Contract: the sandbox is one of bubblewrap. */
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

/** The packages that scripts declare, where a plain name and versions say it. For pip, which no script can give anything else. */
export function listPlainDependencies(scripts: readonly DeclaringScript[]): string[] {
  return scripts.flatMap(({ declared }) => declared.filter((one) => PYTHON_PACKAGE.test(one)));
}

/** Refuses a script that declares a package in a way that is for uv. */
export function requirePlainPackages({ script, declared }: DeclaringScript): void {
  const odd = declared.find((one) => !PYTHON_PACKAGE.test(one));
  if (odd === undefined) return;
  throw new SkillError("library-specifier", {
    message: `"${script.path}" declares the Python package "${odd}", which only uv can read, and uv is not installed`,
    fix: "install uv (https://docs.astral.sh/uv): without it, a package is a name with versions, such as requests>=2.31",
  });
}

/** The index that the user set for uv or pip by a variable. */
function readPythonIndex({ env = process.env }: Host): {
  url?: string;
  shown?: string;
  endpoints: readonly Endpoint[];
} {
  const given = env["UV_DEFAULT_INDEX"] ?? env["UV_INDEX_URL"] ?? env["PIP_INDEX_URL"];
  const url = given === undefined ? null : URL.parse(given);
  if (!given || !url || !/^https?:$/.test(url.protocol)) return { endpoints: [] };
  const endpoint = parseEndpoint(`${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`);
  url.username = "";
  url.password = "";
  return { url: given, shown: url.href, endpoints: endpoint ? [endpoint] : [] };
}

/** Whether a script declares Python packages, and which. */
function readDependencies(script: SkillScript, copy: SkillCopy): readonly string[] | undefined {
  const bytes = copy.files.get(script.path)?.bytes ?? new Uint8Array();
  const program = detectInterpreter(script.path, bytes)?.program ?? "";
  return /^(?:python[\d.]*|uv)$/.test(program)
    ? parseInlineDependencies(Buffer.from(bytes).toString("utf8"))
    : undefined;
}
