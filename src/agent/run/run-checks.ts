import { SOCKET_VARIABLE, TOKEN_VARIABLE } from "../../capabilities/broker-protocol.ts";
import type { Host } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import {
  FIXED_VARIABLES,
  type IsolationLevel,
  type Mount,
  type Sandbox,
  type SandboxPath,
  WORKSPACE_FOLDER,
} from "../../host/sandbox-contract.ts";
import { PROXY_VARIABLES } from "../../sandbox/network-forwarder.ts";
import { findPackageRoot } from "../../sandbox/packages/apt-packages.ts";
import { mapSandboxPath } from "../../sandbox/sandbox-folders.ts";
import { formatEndpoint } from "../../sandbox/sandbox-socket.ts";
import { hasFolder, listDeclaredVariables, type Skill } from "../../skill/skill.ts";
import { SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { findDenials } from "../policy/skill-policies.ts";
import { createCommandEnv, getPackageFolders, resolveSandbox } from "../workspace/run-sandbox.ts";
import {
  type CommandLimits,
  checkWorkspace,
  chooseWorkspaceAccess,
  getCommandLimits,
  listGrantedSockets,
  listSkillPackages,
  parseEndpoints,
  resolveSkilletHome,
  type SkillPackages,
} from "../workspace/sandbox-permissions.ts";
import { findSkillLibraries } from "../workspace/skill-libraries.ts";
import type { PlanCheck } from "./plan-use.ts";
import { isWebFetch, warnClosedNetwork } from "./plan-use.ts";
import { toProblem } from "./run-result.ts";

/** Checks the isolation of a run's code and its access to the workspace and the network. */
export async function checkCodeAccess(
  skill: Skill,
  host: Host,
): Promise<{ checks: PlanCheck[]; warnings: readonly Problem[] }> {
  let sandbox: Sandbox | undefined;
  const kept = await runPlanCheck("sandbox", async () => {
    sandbox = await resolveSandbox(host);
    return sandbox.level === "none" ? "NOT ISOLATED" : `${sandbox.level} isolation by ${sandbox.by}`;
  });
  const open = listOpenEndpoints(skill, host);
  const checks = [
    kept,
    await runPlanCheck("workspace", () => formatWorkspaceAccess(skill, host, sandbox)),
    await runPlanCheck(
      "network",
      () => [...parseEndpoints(open).map(formatEndpoint), ...listGrantedSockets(open)].join(", ") || "closed",
    ),
  ];
  return {
    checks,
    warnings: open.length === 0 && !skill.manifest.tools.allowed.some(isWebFetch) ? await warnClosedNetwork(skill) : [],
  };
}

async function runPlanCheck(name: string, say: () => string | Promise<string>): Promise<PlanCheck> {
  try {
    return { name, detail: await say(), refusals: [] };
  } catch (error) {
    return { name, detail: "", refusals: [toProblem(error)] };
  }
}

/** Formats the workspace access. Throws a SkillError if the configured access is unavailable. */
function formatWorkspaceAccess(skill: Skill, host: Host, sandbox: Sandbox | undefined): string {
  if (host.workspace === undefined) return "not visible: there is no workspace";
  if (host.hasBuiltInTools === false) return "not visible: built-in tools are disabled";
  const home = resolveSkilletHome(host);
  const { access, needsWriteApproval, reason } = chooseWorkspaceAccess(host, { skill, home, kind: "run" });
  const checked = checkWorkspace(host, { access, home });
  const mounts = checked ? [{ from: checked.folder, to: WORKSPACE_FOLDER, access: "read" as const }] : [];
  const less = reason && `: ${reason.message}; ${reason.fix}`;
  if (access === "none") return `not visible${less ?? ': workspace = "none" is set for it'}`;
  const place = sandbox ? mapSandboxPath(sandbox, mounts, WORKSPACE_FOLDER) : WORKSPACE_FOLDER;
  const how = access === "read" ? "read-only" : needsWriteApproval ? "writable with your approval" : "writable";
  return `visible as ${place}, ${how}${less ?? ""}`;
}

function listOpenEndpoints({ name }: Skill, { settings: { sandbox, skills } }: Host): string[] {
  return [...sandbox.network, ...(skills.get(name)?.network ?? [])];
}

/** Everything that a script of a skill would see, computed before anything runs. */
export interface SandboxView {
  skill: string;
  isolation: { level: IsolationLevel; by: string };
  /** The working directory. */
  folder: string;
  /** Every visible path. If the sandbox cannot list them all, only the user's own. */
  paths: readonly SandboxPath[];
  /** False if the sandbox shows more than `paths`: the files of an image or, without isolation, those of the user. */
  isComplete: boolean;
  /** Endpoints (`host:port`) and sockets of the workspace. */
  network: readonly string[];
  /** The names of the environment variables. A shell sets more by itself. */
  variables: readonly string[];
  packages: SkillPackages;
  limits: CommandLimits;
  /** Reasons why the script would not run, or sees less than by default. */
  notices: readonly Problem[];
}

/** Describes the sandbox of a skill's scripts without building anything. Throws a SkillError if no script could run. */
export async function describeSandbox(host: Host, skill: Skill): Promise<SandboxView> {
  const home = resolveSkilletHome(host);
  const sandbox = await resolveSandbox(host);
  const { access, notices } = chooseWorkspaceAccess(host, { skill, home, kind: "script" });
  const workspace = checkWorkspace(host, { access, home })?.folder;
  const { folder: files = skill.origin.source } = skill.origin;
  const mounts: Mount[] = [];
  if (hasFolder(skill.origin)) mounts.push({ from: files, to: SANDBOX_SKILL_FOLDER, access: "read" });
  if (workspace !== undefined && access !== "none") mounts.push({ from: workspace, to: WORKSPACE_FOLDER, access });
  const seen = (path: string) => mapSandboxPath(sandbox, mounts, path);
  const visiblePaths = { skill: seen(SANDBOX_SKILL_FOLDER), workspace: seen(WORKSPACE_FOLDER) };
  const own = listDeclaredVariables(skill);
  const env = createCommandEnv(new Map(own.map((name) => [name, ""])), { visiblePaths, workspace });
  const { capabilities } = skill.manifest;
  const packages = listSkillPackages(skill, host);
  const kept = getPackageFolders(host);
  const { libraries, missing } = await findSkillLibraries(host, packages, {
    ...{ skill, copy: await copySkill(skill), sandbox, places: kept },
  });
  const root = sandbox.by === "bubblewrap" ? findPackageRoot(packages.system, kept) : undefined;
  const limits = getCommandLimits(host);
  const folder = workspace === undefined ? SANDBOX_SKILL_FOLDER : WORKSPACE_FOLDER;
  const command = {
    env,
    folder,
    mounts: [...libraries.mounts, ...mounts],
    limits,
    ...(root?.kind === "layer" ? { root: root.root } : {}),
  };
  const paths = sandbox.paths?.(command);
  const opened = [...host.settings.sandbox.network, ...(host.settings.skills.get(skill.name)?.network ?? [])];
  const network = parseEndpoints(opened).map(formatEndpoint);
  const variables = [
    ...[...Object.keys(FIXED_VARIABLES), "PWD", ...Object.keys(env), ...Object.keys(libraries.env)],
    ...(network.length === 0 ? [] : PROXY_VARIABLES),
    ...(capabilities.length === 0 ? [] : [SOCKET_VARIABLE, TOKEN_VARIABLE]),
  ];
  const unbuilt = [...(root?.kind === "missing" ? packages.system : []), ...missing];
  const building: Problem = {
    code: "system-packages-missing",
    message: `${unbuilt.join(", ")} will be built before the first run and then be readable too`,
    fix: "build them now",
    commands: [`skillet packages build ${skill.name}`],
  };
  return {
    skill: skill.name,
    isolation: { level: sandbox.level, by: sandbox.by },
    folder: seen(folder),
    paths: paths ?? mounts.map(({ from, to, access }) => ({ path: seen(to), access, from })),
    isComplete: paths !== undefined,
    network: [...network, ...listGrantedSockets(opened).map((path) => `unix:${path}`)],
    variables: [...new Set(variables)].sort(),
    packages,
    limits,
    notices: [...findDenials(skill, host, "run"), ...notices, ...(unbuilt.length > 0 ? [building] : [])],
  };
}
