/** Why a skill cannot have a variable of this name; nothing when it can. */
export function variableProblem(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) return "is no name of a variable";
  return STEERING.test(name) ? "decides how programs start" : undefined;
}

const STEERING =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_.*|PWD|OLDPWD|SHLVL|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|MALLOC_.*|NODE_.*|PYTHON.*|PERL5?(?:LIB|OPT|DB)|PERLLIB|RUBY(?:LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_.*|UV_.*|SKILLET_.*|SKILL_DIR|(?:HTTPS?|ALL|NO)_PROXY)$/i;

// apt reads more into a name than this lets through: `apt-` removes, `libssl.*` is a pattern, `jq=1.6` and `./x.deb` are no names.
const PACKAGE = /^[a-z0-9][a-z0-9+.-]{0,62}[a-z0-9+.]$/;

/** Whether this is the plain name of a system package. */
export function isPackageName(name: string): boolean {
  return PACKAGE.test(name);
}
