import type { Host } from "../host/host.ts";
import { storeFolder } from "../sandbox/places.ts";
import { storeSkill } from "../sandbox/store.ts";
import { leftOvers, removeFetched, unusedFetched } from "../sandbox/uv.ts";
import { SKILL_FOLDER, type SkillScript, scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";
import { pythonFolder, sandboxOf } from "./enclosure.ts";
import { dependenciesOf, type PythonOptions, pythonCommand, uvScript } from "./python.ts";
import { homeOf } from "./workspace-access.ts";

/** Fetches what the Python scripts of a skill declare, before anything runs, and gives those scripts. */
export async function fetchPythonPackages(
  host: Host,
  skill: Skill,
  options: Pick<PythonOptions, "onProgress" | "signal" | "update">,
): Promise<string[]> {
  const declaring = declaringScripts(skill);
  if (!declaring) return [];
  const { copy, scripts } = declaring;
  const home = homeOf(host);
  const mount = { from: storeSkill(copy, storeFolder(home)), to: SKILL_FOLDER, access: "read" as const };
  const where = { ...options, sandbox: await sandboxOf(host), mount, folder: pythonFolder(host) };
  for (const script of scripts) await pythonCommand(host, script, copy, where);
  return scripts.map(({ path }) => path);
}

/** What was fetched for scripts that none of these skills has. Looks only. */
export function unusedPythonPackages(host: Host, skills: readonly Skill[]): string[] {
  const kept = skills.flatMap((skill) => {
    const { copy, scripts = [] } = declaringScripts(skill) ?? {};
    return copy ? scripts.map((script) => uvScript(script, copy)) : [];
  });
  return unusedFetched(pythonFolder(host), kept);
}

/** Removes these, and what was left half-made or replaced. */
export function prunePythonPackages(host: Host, unused: readonly string[]): void {
  removeFetched([...unused, ...leftOvers(pythonFolder(host))]);
}

function declaringScripts(skill: Skill): { copy: SkillCopy; scripts: SkillScript[] } | undefined {
  if (!skill.files().files.some(({ path }) => /\.py$/i.test(path))) return undefined;
  const copy = copySkill(skill);
  const scripts = scriptsOf(skill).filter((script) => dependenciesOf(script, copy) !== undefined);
  return scripts.length === 0 ? undefined : { copy, scripts };
}
