import type { ErrorCode } from "../codes/codes.ts";
import type { System } from "../host/system.ts";
import { requirementsOf } from "../skill/needs.ts";
import { interpreterOf, STAND_INS } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { Denial, Policy } from "./policy.ts";
import { quoted } from "./trust.ts";

/** This machine has what the skill says that its code needs. What a sandbox of the host's own has, the host knows. */
export const fitsSystem: Policy = (skill, { system, sandbox, settings }) => {
  if (!system) return undefined;
  const { scripts } = skill.manifest;
  const packages = [...skill.manifest.packages, ...(settings.skills.get(skill.name)?.packages ?? [])];
  const systems = requirementsOf(skill).os;
  if (systems.length > 0 && !systems.includes(system.platform)) {
    const message = `Skill '${skill.name}' is for ${systems.join(", ")}, not for ${system.platform}`;
    return denied("other-system", message, "use it there");
  }
  if (sandbox || (packages.length === 0 && scripts.length === 0)) return undefined;
  const engine = system.missingEngine();
  if (engine !== undefined) {
    const fix =
      engine === "bwrap"
        ? "`skillet doctor --fix` installs it"
        : `install it, or remove engine under [sandbox] in config.toml`;
    return denied(
      "sandbox-unavailable",
      `Skill '${skill.name}' brings code, and ${engine}, which keeps code apart, is not installed`,
      fix,
    );
  }
  if (system.programs === "own") return undefined;
  if (packages.length > 0) {
    if (system.hasPackages()) return undefined;
    const message = `Skill '${skill.name}' needs system packages (${packages.join(", ")}), which cannot be built here`;
    const fix =
      "use Debian or Ubuntu, or a container whose image has them: engine and image under [sandbox] in config.toml";
    return denied("packages-missing", message, fix);
  }
  const missing = scripts.map(({ path }) => programFor(path)).find((name) => name !== undefined && !has(name, system));
  if (missing === undefined) return undefined;
  const message = `Skill '${skill.name}' has a script for ${missing}, which is not installed`;
  return denied("script-interpreter", message, `install ${missing}, or ${giving(skill)}`);
};

/** The programs that a skill says it needs are there. Where it brings packages, or an image has the programs, nobody knows before. */
export const hasPrograms: Policy = (skill, { system, sandbox, settings }) => {
  if (!system || sandbox || system.programs === "own" || skill.manifest.packages.length > 0) return undefined;
  if ((settings.skills.get(skill.name)?.packages ?? []).length > 0) return undefined;
  const { bins, anyBins } = requirementsOf(skill);
  const missing = bins.filter((name) => !has(name, system));
  const hasAny = anyBins.length === 0 || anyBins.some((name) => has(name, system));
  return [
    ...(missing.length > 0 ? [missingPrograms(skill, missing, missing.join(", "))] : []),
    ...(hasAny ? [] : [missingPrograms(skill, anyBins, `one of ${anyBins.join(", ")}`)]),
  ];
};

function missingPrograms({ name }: Skill, programs: readonly string[], what: string): Denial {
  const isOne = programs.length === 1;
  return {
    code: "missing-program",
    kind: "setup",
    message: `Skill '${name}' needs ${what}, which ${isOne ? "is" : "are"} not installed`,
    fix: `install ${what}, or ${giving({ name })}`,
  };
}

/** The command that gives a skill a package, which only its user knows the name of. */
function giving({ name }: Pick<Skill, "name">): string {
  return `give it the Debian package: skillet config set ${quoted(`skills.${name}.packages`)} PACKAGE`;
}

/** What every sandbox has, or says of itself that it has not. */
const BROUGHT = new Set(["node", "uv", "uvx"]);

function has(name: string, system: System): boolean {
  return BROUGHT.has(name) || system.hasProgram(name) || system.hasProgram(STAND_INS.get(name) ?? name);
}

function programFor(path: string): string | undefined {
  return interpreterOf(path, new Uint8Array())?.program;
}

function denied(code: ErrorCode, message: string, fix: string): Denial {
  return { code, kind: "system", message, fix };
}
