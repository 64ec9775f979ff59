import type { Policy } from "./policy.ts";
import { tableOf } from "./table.ts";

/** Every variable that a skill declares has a value in the configuration, and none of them decides how programs start. */
export const hasVariables: Policy = (skill, host) => {
  const { env } = skill.manifest;
  const wrong = env.find((name) => whyUnusable(name) !== undefined);
  if (wrong !== undefined) {
    return {
      code: "variable-refused",
      kind: "setup",
      message: `Skill '${skill.name}' declares ${JSON.stringify(wrong)}, which ${whyUnusable(wrong)}`,
      fix: "take it out of `env` in the skill, or give it another name there",
    };
  }
  const values = host.settings.skills.get(skill.name)?.variables;
  const missing = env.filter((name) => !values?.get(name));
  if (missing.length === 0) return undefined;
  return {
    code: "missing-variable",
    kind: "setup",
    message: `Skill '${skill.name}' needs ${missing.join(", ")}`,
    fix: `add to config.toml: ${tableOf(skill)} ${missing.map((name) => `${name} = "…"`).join("; ")}`,
  };
};

/** Why a skill cannot have a variable of this name; nothing when it can. */
export function whyUnusable(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) return "is no name of a variable";
  if (STEERING.test(name)) return "decides how programs start";
  return undefined;
}

const STEERING =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_.*|PWD|OLDPWD|SHLVL|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|MALLOC_.*|NODE_.*|PYTHON.*|PERL5?(?:LIB|OPT|DB)|PERLLIB|RUBY(?:LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_.*|UV_.*|SKILLET_.*|(?:HTTPS?|ALL|NO)_PROXY)$/i;
