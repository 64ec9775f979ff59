import { dotted } from "../host/config-file.ts";
import type { Host } from "../host/host.ts";
import { MOST_PACKAGES } from "../host/key-types.ts";
import { quoted } from "../policy/trust.ts";
import { npmDependenciesIn, requirementsIn } from "../skill/package-files.ts";
import { npmName, pythonName } from "../skill/package-specifier.ts";
import type { Skill } from "../skill/skill.ts";

export type PackageKey = "python" | "npm" | "packages";

/** Packages that a file of a skill lists and that the user has not given it. Nothing is installed for that. */
export interface PackageProposal {
  key: Exclude<PackageKey, "packages">;
  file: string;
  wanted: string[];
  command: string;
}

const FILES = [
  { name: "requirements.txt", key: "python", read: requirementsIn },
  { name: "package.json", key: "npm", read: npmDependenciesIn },
] as const;

/** Looks into `requirements.txt` and `package.json` at the top of a skill's folder, and in its `scripts`. */
export function proposedPackages(skill: Skill, host: Pick<Host, "settings">): PackageProposal[] {
  const there = new Set(skill.files().files.map(({ path }) => path));
  return FILES.flatMap(({ name, key, read }) => {
    const file = [name, `scripts/${name}`].find((path) => there.has(path));
    const listed = file === undefined ? [] : read(textOf(skill, file)).slice(0, MOST_PACKAGES);
    const wanted = listed.filter((one) => !isGiven(key, one, skill, host));
    if (file === undefined || wanted.length === 0) return [];
    return [{ key, file, wanted, command: giveCommand(skill, host, key, wanted) }];
  });
}

/** The command that adds packages to those that a skill is given already. */
export function giveCommand(
  { name }: Pick<Skill, "name">,
  { settings }: Pick<Host, "settings">,
  key: PackageKey,
  wanted: readonly string[],
): string {
  const all = [...new Set([...(settings.skills.get(name)?.[key] ?? []), ...wanted])];
  // A specifier with a comma would be two items.
  const value = all.some((one) => one.includes(",")) ? JSON.stringify(all) : all.join(",");
  return `skillet config set ${quoted(dotted(["skills", name, key]))} ${quoted(value)}`;
}

/** Whether the user gives a skill this package, in whatever version. */
export function isGiven(
  key: PackageKey,
  specifier: string,
  { name }: Pick<Skill, "name">,
  { settings }: Pick<Host, "settings">,
): boolean {
  const given = settings.skills.get(name)?.[key] ?? [];
  return given.some((one) => packageName(key, one) === packageName(key, specifier));
}

/** The name in a specifier, by which packages are compared. */
export function packageName(key: PackageKey, specifier: string): string {
  return key === "python" ? pythonName(specifier) : key === "npm" ? npmName(specifier).name : specifier;
}

function textOf(skill: Skill, path: string): string {
  try {
    return Buffer.from(skill.read(path)).toString("utf8");
  } catch {
    return ""; // Too large, or gone: then it proposes nothing.
  }
}
