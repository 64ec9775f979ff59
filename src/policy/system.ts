import { isData } from "../skill/data.ts";
import { interpreterOf, STAND_INS } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { Denial, Policy } from "./policy.ts";

/** This machine has what the skill says that its code needs. */
export const fitsSystem: Policy = (skill, { system }) => {
  if (!system || skill.asksOfSystem?.() === false) return undefined;
  const { packages, scripts } = skill.manifest;
  const systems = systemsOf(skill);
  if (systems.length > 0 && !systems.includes(system.platform)) {
    return denied(
      "other-system",
      `Skill '${skill.name}' is for ${systems.join(", ")}, not for ${system.platform}`,
      "use it there",
    );
  }
  if (packages.length === 0 && scripts.length === 0) return undefined;
  if (!system.hasSandbox()) {
    return denied(
      "no-sandbox",
      `Skill '${skill.name}' brings code, and there is nothing here to keep it apart with`,
      "`skillet doctor --fix` installs what is missing; `skillet doctor --sandbox` shows it",
    );
  }
  if (packages.length > 0 && !system.hasPackages()) {
    return denied(
      "no-packages",
      `Skill '${skill.name}' needs system packages (${packages.join(", ")}), which cannot be built here`,
      "use Debian or Ubuntu, or a container whose image has them: [sandbox] engine and image in config.toml",
    );
  }
  const missing =
    packages.length > 0
      ? undefined
      : scripts.map(({ path }) => programFor(path)).find((name) => name !== undefined && !has(name));
  if (missing === undefined) return undefined;
  return denied(
    "no-interpreter",
    `Skill '${skill.name}' has a script for ${missing}, which is not installed`,
    `install ${missing}, or add its package to \`packages\` in the skill`,
  );

  function has(name: string): boolean {
    return system?.hasProgram(name) === true || system?.hasProgram(STAND_INS.get(name) ?? name) === true;
  }
};

function programFor(path: string): string | undefined {
  return interpreterOf(path, new Uint8Array())?.program;
}

/** Where a skill says under `metadata` which systems it is for, in Node's names for them. */
function systemsOf({ manifest: { metadata } }: Skill): string[] {
  const places = [metadata, metadata["requires"], metadata["openclaw"]];
  const said = places.flatMap((place) => (isData(place) ? [place["os"]] : [])).flat();
  return said.flatMap((name) => (typeof name === "string" ? (NAMES[name.toLowerCase()] ?? name.toLowerCase()) : []));
}

const NAMES: Record<string, string> = { macos: "darwin", mac: "darwin", osx: "darwin", windows: "win32" };

function denied(code: string, message: string, fix: string): Denial {
  return { code, kind: "system", message, fix };
}
