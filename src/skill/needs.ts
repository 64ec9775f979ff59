import { isData } from "./data.ts";
import type { Skill } from "./skill.ts";

/** Why a skill cannot have a variable of this name; nothing when it can. */
export function variableProblem(name: string): string | undefined {
  if (!VARIABLE.test(name)) return "is no name of a variable";
  return STEERING.test(name) ? "decides how programs start" : undefined;
}

export const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

const STEERING =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_.*|PWD|OLDPWD|SHLVL|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|MALLOC_.*|NODE_.*|PYTHON.*|PERL5?(?:LIB|OPT|DB)|PERLLIB|RUBY(?:LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_.*|UV_.*|SKILLET_.*|SKILL_DIR|(?:HTTPS?|ALL|NO)_PROXY)$/i;

// apt reads more into a name than this lets through: `apt-` removes, `libssl.*` is a pattern, `jq=1.6` and `./x.deb` are no names.
export const PACKAGE = /^[a-z0-9][a-z0-9+.-]{0,62}[a-z0-9+.]$/;

/** Whether this is the plain name of a system package. */
export function isPackageName(name: string): boolean {
  return PACKAGE.test(name);
}

/** What a skill says under `metadata` that it needs, as other clients write it. */
export interface Requirements {
  /** Programs: all of these. */
  bins: readonly string[];
  /** And one of these. */
  anyBins: readonly string[];
  env: readonly string[];
  /** Systems, in Node's names for them; any, when empty. */
  os: readonly string[];
}

/** What of it can be understood. */
export function requirementsOf({ manifest: { metadata } }: Pick<Skill, "manifest">): Requirements {
  const client = metadata["openclaw"];
  const requires = [metadata["requires"], isData(client) ? client["requires"] : undefined];
  return {
    bins: said(requires, "bins", PROGRAM),
    anyBins: said(requires, "anyBins", PROGRAM),
    env: said(requires, "env", /^/).filter((name) => variableProblem(name) === undefined),
    os: said([metadata, client, ...requires], "os", PROGRAM).map((name) => {
      const lower = name.toLowerCase();
      return SYSTEMS.get(lower) ?? lower;
    }),
  };
}

/** The variables that a skill is to be given, by their names. What cannot be a variable is none. */
export function declaredVariables(skill: Pick<Skill, "manifest">): string[] {
  const names = [...skill.manifest.env, ...requirementsOf(skill).env];
  return [...new Set(names)].filter((name) => variableProblem(name) === undefined);
}

const PROGRAM = /^[\w.+-]{1,64}$/;
const MOST = 64;
const SYSTEMS: ReadonlyMap<string, string> = new Map([
  ["macos", "darwin"],
  ["mac", "darwin"],
  ["osx", "darwin"],
  ["windows", "win32"],
]);

/** A text, or the texts of a list, wherever it stands. */
function said(places: readonly unknown[], key: string, wanted: RegExp): string[] {
  const values = places.flatMap((place) => (isData(place) ? [place[key]] : [])).flat();
  return values.filter((value): value is string => typeof value === "string" && wanted.test(value)).slice(0, MOST);
}
