import { isJsonObject } from "../util/objects.ts";
import type { Skill } from "./skill.ts";

/** Why a skill cannot have a variable of this name; nothing when it can. */
export function findVariableProblem(name: string): string | undefined {
  if (!VARIABLE_NAME.test(name)) return "is no name of a variable";
  return RESERVED_VARIABLES.test(name) ? "decides how programs start" : undefined;
}

export const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

const RESERVED_VARIABLES =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_.*|PWD|OLDPWD|SHLVL|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|MALLOC_.*|NODE_.*|PYTHON.*|PERL5?(?:LIB|OPT|DB)|PERLLIB|RUBY(?:LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_.*|UV_.*|SKILLET_.*|SKILL_DIR|(?:HTTPS?|ALL|NO)_PROXY)$/i;

// apt reads more into a name than this lets through: `apt-` removes, `libssl.*` is a pattern, `jq=1.6` and `./x.deb` are no names.
export const SYSTEM_PACKAGE_NAME = /^[a-z0-9][a-z0-9+.-]{0,62}[a-z0-9+.]$/;

/** Whether this is the plain name of a system package. */
export function isSystemPackageName(name: string): boolean {
  return SYSTEM_PACKAGE_NAME.test(name);
}

/** What a skill says under `metadata` that it needs, as other clients write it. */
interface Requirements {
  /** Programs: all of these. */
  bins: readonly string[];
  /** And one of these. */
  anyBins: readonly string[];
  env: readonly string[];
  /** Systems, in Node's names for them; any, when empty. */
  os: readonly string[];
}

/** What of it can be understood. */
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

/** The variables that a skill is to be given, by their names. What cannot be a variable is none. */
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

/** A text, or the texts of a list, wherever it stands. */
function collectTexts(places: readonly unknown[], key: string, wanted: RegExp): string[] {
  const values = places.flatMap((place) => (isJsonObject(place) ? [place[key]] : [])).flat();
  return values
    .filter((value): value is string => typeof value === "string" && wanted.test(value))
    .slice(0, MAX_REQUIREMENTS);
}

/**
 * A Python package as a user gives it: a name, extras, and versions. No URL, path, option, environment marker or arbitrary equality: pip reads
 * all of these into a plain argument.
 */
export const PYTHON_PACKAGE =
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:\[[A-Za-z0-9][A-Za-z0-9._-]{0,98}(?:, ?[A-Za-z0-9][A-Za-z0-9._-]{0,98}){0,15}\])?(?: ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}(?: ?, ?(?:==|!=|<=|>=|~=|<|>) ?[0-9][0-9A-Za-z.+!*-]{0,63}){0,7})?$/;

/** An npm package: a name, and a version, range or tag after `@`. No URL, path, alias or repository. */
export const NPM_PACKAGE =
  /^(?:@[a-z0-9][a-z0-9._~-]{0,98}\/)?[a-z0-9][a-z0-9._~-]{0,98}(?:@(?:[a-z][a-z0-9.-]{0,63}|(?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}(?: (?:[~^]|[<>]=?|=)?v?[0-9][0-9A-Za-z.+*-]{0,63}){0,3}))?$/;

/** The name of a Python package, as indexes compare it. */
export function normalizePythonName(specifier: string): string {
  const [name = ""] = /^[A-Za-z0-9._-]+/.exec(specifier) ?? [];
  return name.replace(/[._-]+/g, "-").toLowerCase();
}

/** The name of an npm package, and the range that is wanted of it. */
export function parseNpmSpecifier(specifier: string): { name: string; range: string | undefined } {
  const at = specifier.indexOf("@", 1);
  return at === -1
    ? { name: specifier, range: undefined }
    : { name: specifier.slice(0, at), range: specifier.slice(at + 1) };
}

/** The packages that a `requirements.txt` lists by name. Options, URLs, paths and lines with environment markers are left out. */
export function parseRequirementsTxt(text: string): string[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/(?:^|\s)#.*$/, "").trim())
    .filter((line) => PYTHON_PACKAGE.test(line));
}

/** The dependencies that a `package.json` lists, by name and range. URLs, paths and aliases are left out. */
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
