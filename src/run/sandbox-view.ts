import { SOCKET_VARIABLE, TOKEN_VARIABLE } from "../capability/protocol.ts";
import type { Host } from "../host/host.ts";
import {
  FIXED_VARIABLES,
  type Level,
  type Mount,
  type Notice,
  type SandboxPath,
  seenPath,
  WORKSPACE_FOLDER,
} from "../host/sandbox.ts";
import { denials } from "../policy/policy.ts";
import { endpointText } from "../sandbox/endpoint.ts";
import { PROXY_VARIABLES } from "../sandbox/forward.ts";
import { findRoot } from "../sandbox/packages/packages.ts";
import { declaredVariables } from "../skill/needs.ts";
import { SKILL_FOLDER } from "../skill/script.ts";
import { hasFolder, type Skill } from "../skill/skill.ts";
import { copySkill } from "../source/digest.ts";
import { environmentFor, placesOf, sandboxOf } from "./enclosure.ts";
import { endpointsIn, socketsIn } from "./endpoints.ts";
import { type GivenPackages, givenPackages } from "./given-packages.ts";
import { findSkillLibraries } from "./open-libraries.ts";
import { type CommandLimits, limitsOf } from "./script-limits.ts";
import { checkWorkspace, chooseAccess, homeOf } from "./workspace-access.ts";

/** Everything that a script of a skill would see, before anything runs. */
export interface SandboxView {
  skill: string;
  isolation: { level: Level; by: string };
  /** The folder that it starts in. */
  folder: string;
  /** Every path that it sees. Where the sandbox cannot tell them all, the user's own. */
  paths: readonly SandboxPath[];
  /** False where the sandbox shows more than `paths`: the files of an image, or, without isolation, those of the user. */
  isComplete: boolean;
  /** `host:port`, and sockets of the workspace. */
  network: readonly string[];
  /** The names of its variables. A shell sets more by itself. */
  variables: readonly string[];
  packages: GivenPackages;
  limits: CommandLimits;
  /** Why it would not run, or sees less than by default. */
  notices: readonly Notice[];
}

/** Describes the sandbox of a skill's scripts. Builds nothing. Throws a SkillError where no script could run. */
export async function describeSandbox(host: Host, skill: Skill): Promise<SandboxView> {
  const home = homeOf(host);
  const sandbox = await sandboxOf(host);
  const { access, notices } = chooseAccess(host, { skill, home, kind: "script" });
  const workspace = checkWorkspace(host, { access, home })?.folder;
  const { folder: files = skill.origin.source } = skill.origin;
  const mounts: Mount[] = [];
  if (hasFolder(skill.origin)) mounts.push({ from: files, to: SKILL_FOLDER, access: "read" });
  if (workspace !== undefined && access !== "none") mounts.push({ from: workspace, to: WORKSPACE_FOLDER, access });
  const seen = (path: string) => seenPath(sandbox, mounts, path);
  const places = { skill: seen(SKILL_FOLDER), workspace: seen(WORKSPACE_FOLDER) };
  const own = declaredVariables(skill);
  const env = environmentFor(new Map(own.map((name) => [name, ""])), { places, workspace });
  const { capabilities } = skill.manifest;
  const packages = givenPackages(skill, host);
  const kept = placesOf(host);
  const { libraries, missing } = findSkillLibraries(host, packages, {
    ...{ skill, copy: copySkill(skill), sandbox, places: kept },
  });
  const root = sandbox.by === "bubblewrap" ? findRoot(packages.system, kept) : undefined;
  const limits = limitsOf(host);
  const folder = workspace === undefined ? SKILL_FOLDER : WORKSPACE_FOLDER;
  const command = {
    env,
    folder,
    mounts: [...libraries.mounts, ...mounts],
    limits,
    ...(root?.kind === "layer" ? { root: root.root } : {}),
  };
  const paths = sandbox.paths?.(command);
  const opened = [...host.settings.sandbox.network, ...(host.settings.skills.get(skill.name)?.network ?? [])];
  const network = endpointsIn(opened).map(endpointText);
  const variables = [
    ...[...Object.keys(FIXED_VARIABLES), "PWD", ...Object.keys(env), ...Object.keys(libraries.env)],
    ...(network.length === 0 ? [] : PROXY_VARIABLES),
    ...(capabilities.length === 0 ? [] : [SOCKET_VARIABLE, TOKEN_VARIABLE]),
  ];
  const unbuilt = [...(root?.kind === "missing" ? packages.system : []), ...missing];
  const building: Notice = {
    code: "packages-missing",
    message: `${unbuilt.join(", ")} will be built before the first run, and then be readable too`,
    fix: `build them now: skillet packages build ${skill.name}`,
  };
  return {
    skill: skill.name,
    isolation: { level: sandbox.level, by: sandbox.by },
    folder: seen(folder),
    paths: paths ?? mounts.map(({ from, to, access }) => ({ path: seen(to), access, from })),
    isComplete: paths !== undefined,
    network: [...network, ...socketsIn(opened).map((path) => `unix:${path}`)],
    variables: [...new Set(variables)].sort(),
    packages,
    limits,
    notices: [...denials(skill, host, "run"), ...notices, ...(unbuilt.length > 0 ? [building] : [])],
  };
}
