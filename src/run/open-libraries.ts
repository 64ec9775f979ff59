import { userHome } from "../host/home.ts";
import type { Host } from "../host/host.ts";
import { FIXED_VARIABLES, type Mount, type Notice, type Sandbox } from "../host/sandbox.ts";
import {
  buildLibraries,
  findLibraries,
  type LibraryBuildOptions,
  type LibraryLayer,
  libraryMounts,
} from "../sandbox/libraries/library-layer.ts";
import { type LibraryKind, type LibrarySet, librarySet } from "../sandbox/libraries/library-lock.ts";
import { npmTarget } from "../sandbox/libraries/npm.ts";
import { pythonTarget } from "../sandbox/libraries/pip.ts";
import type { Places } from "../sandbox/packages/place.ts";
import { UV_PROGRAMS, type UvAccess, uvAccess } from "../sandbox/uv.ts";
import { SkillError } from "../shared/error.ts";
import type { SkillScript } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { SkillCopy } from "../source/digest.ts";
import type { GivenPackages } from "./given-packages.ts";
import { asNotice } from "./notice.ts";
import {
  type DeclaringScript,
  declaringScripts,
  fetchInline,
  hasUv,
  plainDependencies,
  requirePlain,
  uvScript,
} from "./python.ts";

/** The sets of Python and npm packages that are wanted, resolved for this machine. */
export function librarySets({ python, npm }: Pick<GivenPackages, LibraryKind>): LibrarySet[] {
  return [
    ...(python.length > 0 ? [librarySet("python", python, pythonTarget() ?? "python3")] : []),
    ...(npm.length > 0 ? [librarySet("npm", npm, npmTarget())] : []),
  ];
}

/** What code needs to find the packages of layers. */
export interface LibraryAccess {
  mounts: readonly Mount[];
  env: Readonly<Record<string, string>>;
}

export interface LibraryOptions extends Pick<LibraryBuildOptions, "onProgress" | "signal" | "update"> {
  sandbox: Sandbox;
  places: Places;
  /** Build again what has been changed since it was built, instead of refusing it. */
  rebuild?: boolean;
}

export interface SkillLibraryRequest extends Omit<LibraryOptions, "update" | "rebuild"> {
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
export async function openSkillLibraries(
  host: Host,
  given: GivenPackages,
  request: SkillLibraryRequest,
): Promise<{ libraries: LibraryAccess; problems: Notice[] }> {
  const { skill, copy, sandbox, mount, script, places } = request;
  const problems: Notice[] = [];
  // Packages of others are fetched for code that may run, and for no other.
  const mayRun = skill && copy && mount && !["untrusted", "changed"].includes(host.trust?.standingOf(skill) ?? "own");
  const declaring = mayRun ? declaringScripts(skill, copy) : [];
  const ours = declaring.find((one) => one.script.path === script?.path);
  if (ours && sandbox.by !== "bubblewrap") {
    throw new SkillError("python-packages", {
      message: `"${script?.path}" declares Python packages, which are brought only into sandboxes of bubblewrap`,
      fix: "put them into the image, and take the declaration out of the script",
    });
  }
  const isByUv = hasUv(host);
  if (ours && !isByUv) requirePlain(ours);
  const report = (error: unknown) => {
    if (ours || request.signal.aborted) throw error;
    problems.push(asNotice(error));
  };
  if (sandbox.by !== "bubblewrap" || !copy || !mount || !isByUv) {
    const inline = sandbox.by === "bubblewrap" ? plainDependencies(declaring) : [];
    const layers = await openTogether(host, given, inline, { ...request, isNeeded: isNeeded(script, ours), report });
    return { libraries: libraryAccess(layers, undefined), problems };
  }
  const layers = await openLibraries(host, given, request);
  if (declaring.length === 0 && given.python.length === 0)
    return { libraries: libraryAccess(layers, undefined), problems };
  const wanted = declaring.filter((one) => isNeeded(script, ours) && (!script || one === ours));
  await fetchInline(host, wanted, copy, {
    ...request,
    mount,
    folder: places.own,
    onFailed: (_, error) => report(error),
  });
  const scripts = declaring.map((one) => uvScript(host, one.script, copy));
  return { libraries: libraryAccess(layers, uvAccess(scripts, places.own)), problems };
}

/** The same as far as it is built already, and what is not. */
export function findSkillLibraries(
  host: Host,
  given: GivenPackages,
  { skill, copy, sandbox, places }: Pick<SkillLibraryRequest, "sandbox" | "places"> & { skill: Skill; copy: SkillCopy },
): { libraries: LibraryAccess; missing: readonly string[] } {
  if (sandbox.by !== "bubblewrap") return { libraries: { mounts: [], env: {} }, missing: [] };
  const declaring = declaringScripts(skill, copy);
  const isByUv = hasUv(host);
  const inline = isByUv ? [] : plainDependencies(declaring);
  const sets = librarySets({ ...given, python: [...given.python, ...inline] });
  const layers = sets.flatMap((set) => findLibraries(set, places) ?? []);
  const needsUv = isByUv && declaring.length + given.python.length > 0;
  const scripts = declaring.map((one) => uvScript(host, one.script, copy));
  return {
    libraries: libraryAccess(layers, needsUv ? uvAccess(scripts, places.own) : undefined),
    missing: sets.filter((set) => !layers.some((layer) => layer.set === set)).flatMap(({ wanted }) => wanted),
  };
}

/** What scripts declare is fetched for one that does, and for a run, whose commands may call any. Others use what is there. */
function isNeeded(script: SkillScript | undefined, ours: DeclaringScript | undefined): boolean {
  return script === undefined || ours !== undefined;
}

interface TogetherOptions extends LibraryOptions {
  isNeeded: boolean;
  report(error: unknown): void;
}

/** The packages that are given, with those that scripts declare where these can be had. */
async function openTogether(
  host: Host,
  given: GivenPackages,
  inline: readonly string[],
  options: TogetherOptions,
): Promise<LibraryLayer[]> {
  const together = { ...given, python: [...given.python, ...inline] };
  const isThere = () => librarySets(together).every((set) => findLibraries(set, options.places) !== undefined);
  if (inline.length === 0 || (!options.isNeeded && !isThere())) return openLibraries(host, given, options);
  try {
    return await openLibraries(host, together, options);
  } catch (error) {
    options.report(error);
    return openLibraries(host, given, options);
  }
}

/** Finds the layers of these packages, or builds them now. Throws a SkillError when one cannot be had. */
export async function openLibraries(
  host: Host,
  wanted: Pick<GivenPackages, LibraryKind>,
  options: LibraryOptions,
): Promise<LibraryLayer[]> {
  const sets = librarySets(wanted);
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
      found ?? (await buildLibraries(set, options.places, { ...options, env: { ...env, HOME: userHome(env) } })),
    );
  }
  return layers;
}

function findUnchanged(set: LibrarySet, { places, rebuild = false }: LibraryOptions): LibraryLayer | undefined {
  try {
    return findLibraries(set, places);
  } catch (error) {
    if (rebuild && error instanceof SkillError && error.code === "library-tampered") return undefined;
    throw error;
  }
}

/** The mounts and variables for layers, with their programs in the PATH, and with uv where scripts declare what they need. */
export function libraryAccess(layers: readonly LibraryLayer[], uv: UvAccess | undefined): LibraryAccess {
  if (layers.length === 0 && !uv) return { mounts: [], env: {} };
  const { mounts, env, before, after } = libraryMounts(layers);
  const path = [UV_PROGRAMS, ...before, FIXED_VARIABLES["PATH"], ...after].join(":");
  return { mounts: [...mounts, ...(uv?.mounts ?? [])], env: { ...env, ...uv?.env, PATH: path } };
}
