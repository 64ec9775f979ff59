import type { System } from "../host/system.ts";
import { isData } from "../skill/data.ts";
import { interpreterOf, STAND_INS } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import type { Denial, Policy } from "./policy.ts";

/** This machine has what the skill says that its code needs. What a sandbox of the host's own has, the host knows. */
export const fitsSystem: Policy = (skill, { system, sandbox }) => {
  if (!system || skill.asksOfSystem?.() === false) return undefined;
  const { packages, scripts } = skill.manifest;
  const systems = systemsOf(skill);
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
      "no-sandbox",
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
    return denied("no-packages", message, fix);
  }
  const missing = scripts.map(({ path }) => programFor(path)).find((name) => name !== undefined && !has(name, system));
  if (missing === undefined) return undefined;
  const message = `Skill '${skill.name}' has a script for ${missing}, which is not installed`;
  return denied("no-interpreter", message, `install ${missing}, or add its package to \`packages\` in the skill`);
};

function has(name: string, system: System): boolean {
  return system.hasProgram(name) || system.hasProgram(STAND_INS.get(name) ?? name);
}

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
