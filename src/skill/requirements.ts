import { isJsonObject } from "../util/objects.ts";
import type { Skill } from "./skill.ts";

/** Returns the reason why a skill cannot have a variable of this name, if any. */
export function findVariableProblem(name: string): string | undefined {
  if (!VARIABLE_NAME.test(name)) return "is not a valid variable name";
  return RESERVED_VARIABLES.test(name) ? "changes how programs start" : undefined;
}

export const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

const RESERVED_VARIABLES =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_.*|PWD|OLDPWD|SHLVL|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|MALLOC_.*|NODE_.*|PYTHON.*|PERL5?(?:LIB|OPT|DB)|PERLLIB|RUBY(?:LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_.*|UV_.*|SKILLET_.*|SKILL_DIR|(?:HTTPS?|ALL|NO)_PROXY)$/i;

// apt gives some characters a meaning: `apt-` removes, `libssl.*` is a pattern, `jq=1.6` selects a version and `./x.deb` a file.
export const SYSTEM_PACKAGE_NAME = /^[a-z0-9][a-z0-9+.-]{0,62}[a-z0-9+.]$/;

/** Returns true for the plain name of a system package. */
export function isSystemPackageName(name: string): boolean {
  return SYSTEM_PACKAGE_NAME.test(name);
}

/** The requirements under `metadata`, in the spellings of other clients. */
interface Requirements {
  /** Required programs: all of them. */
  bins: readonly string[];
  /** Required programs: one of them. */
  anyBins: readonly string[];
  env: readonly string[];
  /** Operating systems, by Node's names; any if empty. */
  os: readonly string[];
}

/** Reads the requirements that are understood. */
export function readRequirements({ manifest: { metadata } }: Pick<Skill, "manifest">): Requirements {
  const client = metadata["openclaw"];
  const requires = [metadata["requires"], isJsonObject(client) ? client["requires"] : undefined];
  return {
    bins: collectTexts(requires, "bins", PROGRAM_NAME),
    anyBins: collectTexts(requires, "anyBins", PROGRAM_NAME),
    env: collectTexts(requires, "env", /^/).filter((name) => findVariableProblem(name) === undefined),
    os: collectTexts([metadata, client, ...requires], "os", PROGRAM_NAME).map((name) => {
      const lower = name.toLowerCase();
      return OS_ALIASES.get(lower) ?? lower;
    }),
  };
}

/** Returns the names of the variables that a skill declares, without invalid names. */
export function listDeclaredVariables(skill: Pick<Skill, "manifest">): string[] {
  const names = [...skill.manifest.env, ...readRequirements(skill).env];
  return [...new Set(names)].filter((name) => findVariableProblem(name) === undefined);
}

const PROGRAM_NAME = /^[\w.+-]{1,64}$/;
const MAX_REQUIREMENTS = 64;
const OS_ALIASES: ReadonlyMap<string, string> = new Map([
  ["macos", "darwin"],
  ["mac", "darwin"],
  ["osx", "darwin"],
  ["windows", "win32"],
]);

/** Collects the text, or the texts of a list, under a key of several objects. */
function collectTexts(places: readonly unknown[], key: string, wanted: RegExp): string[] {
  const values = places.flatMap((place) => (isJsonObject(place) ? [place[key]] : [])).flat();
  return values
    .filter((value): value is string => typeof value === "string" && wanted.test(value))
    .slice(0, MAX_REQUIREMENTS);
}

/**
 * A Python package as a user enters it: a name, extras, and versions. URLs, paths, options, environment markers and arbitrary
 * equality are excluded: pip accepts all of them in a plain argument.
 */
export const PYTHON_PACKAGE =
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:\[[A-Za-z0-9][A-Za-z0-9._-]{0,98}(?:, ?[A-Za-z0-9][A-Za-z0-9._-]{0,98}){0,15}\])?(?: ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}(?: ?, ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}){0,7})?$/;

/** An npm package: a name, and a version, range or tag after `@`. URLs, paths, aliases and repositories are excluded. */
export const NPM_PACKAGE =
  /^(?:@[a-z0-9][a-z0-9._~-]{0,98}\/)?[a-z0-9][a-z0-9._~-]{0,98}(?:@(?:[a-z][a-z0-9.-]{0,63}|(?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}(?: (?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}){0,3}))?$/;

/** Normalizes the name of a Python package, as package indexes do. */
export function normalizePythonName(specifier: string): string {
  const [name = ""] = /^[A-Za-z0-9._-]+/.exec(specifier) ?? [];
  return name.replace(/[._-]+/g, "-").toLowerCase();
}

/** Splits an npm specifier into the name of the package and the requested range. */
export function parseNpmSpecifier(specifier: string): { name: string; range: string | undefined } {
  const at = specifier.indexOf("@", 1);
  return at === -1
    ? { name: specifier, range: undefined }
    : { name: specifier.slice(0, at), range: specifier.slice(at + 1) };
}

/**
 * Returns the packages that a `requirements.txt` lists by name, without options, URLs, paths and lines with environment markers.
 */
export function parseRequirementsTxt(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/(?:^|\s)#.*$/, "").trim())
    .filter((line) => PYTHON_PACKAGE.test(line));
}

/** Returns the dependencies in a `package.json`, by name and range, without URLs, paths and aliases. */
export function parseNpmDependencies(text: string): string[] {
  const dependencies = readPackageJsonDependencies(text);
  return Object.entries(dependencies).flatMap(([name, range]) => {
    const specifier = range === "*" || range === "" ? name : `${name}@${String(range)}`;
    return NPM_PACKAGE.test(specifier) ? [specifier] : [];
  });
}

function readPackageJsonDependencies(text: string): Readonly<Record<string, unknown>> {
  try {
    const manifest: unknown = JSON.parse(text);
    const dependencies = isJsonObject(manifest) ? manifest["dependencies"] : undefined;
    return isJsonObject(dependencies) ? dependencies : {};
  } catch {
    return {};
  }
}
