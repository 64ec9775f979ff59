import { SOCKET_VARIABLE, TOKEN_VARIABLE } from "../../capabilities/broker-protocol.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import { type Host, type HostOptions, tryCompleteHost } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import {
  FIXED_VARIABLES,
  type IsolationLevel,
  type Mount,
  type Sandbox,
  type SandboxPath,
  WORKSPACE_FOLDER,
} from "../../host/sandbox-contract.ts";
import { mapSandboxPath } from "../../sandbox/sandbox-folders.ts";
import { formatEndpoint, PROXY_VARIABLES } from "../../sandbox/sandbox-network.ts";
import { hasFolder, listDeclaredVariables, type Skill } from "../../skill/skill.ts";
import { SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { estimateTokens, formatCount, formatNumber } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findDenials, findFirstDenial } from "../policy/skill-policies.ts";
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
import { createHostRedactor, createProblemRedactor } from "./redaction.ts";
import { readSkillSecrets, resolveRunLimits, resolveUseModel } from "./run-inputs.ts";
import { toProblem } from "./run-result.ts";
import { isWebFetch, warnClosedNetwork, warnMissingTools } from "./tool-policy.ts";
import { checkUse, ROOT_CONTEXT, type UseRequest, warnModelNeeded } from "./use-skill.ts";

/** One check of a planned use. */
export interface PlanCheck {
  name: string;
  /** The finding when the check passes. */
  detail: string;
  /** The problems that would prevent the use. */
  refusals: readonly Problem[];
  /** True if the check did not run: the skill is hidden from this caller, and a hidden skill is not described. */
  isSkipped?: true;
}

export interface UsePlan {
  skill: string;
  checks: readonly PlanCheck[];
  warnings: readonly Problem[];
}

/**
 * Runs every check of a use at once. No code of the skill runs and no model is called; capability providers are asked
 * whether they are ready.
 */
export async function planUse(catalog: Catalog, hostOptions: HostOptions, request: UseRequest): Promise<UsePlan> {
  const { host, problem } = tryCompleteHost(hostOptions);
  if (problem) {
    const check = { name: "host", detail: "", refusals: [problem] };
    return { skill: sanitizeLine(String(request.skill), 64), checks: [check], warnings: [] };
  }
  const checked = await checkUse({ catalog, host, request, chain: ROOT_CONTEXT }).catch((error) => ({
    refusals: [toProblem(error)],
  }));
  const refusals = "refusals" in checked ? checked.refusals : [];
  const skill = catalog.find(String(request.skill));
  if (!skill)
    return {
      skill: sanitizeLine(String(request.skill), 64),
      checks: [{ name: "skill", detail: "", refusals: refusals.map(createProblemRedactor(createHostRedactor(host))) }],
      warnings: [],
    };
  await skill.fetch?.("all");
  const hidden = createProblemRedactor(createHostRedactor(host, readSkillSecrets(skill, host).secrets));
  const isHidden = findFirstDenial(skill, host)?.kind === "access";
  const rows = PLAN_ROWS.map(({ name, codes, detail, isOfHiding }): PlanCheck => {
    if (isHidden && !isOfHiding) return createSkippedCheck(name);
    const against = refusals.filter(({ code }) => codes.includes(code));
    return { name, detail: detail(skill, host, request), refusals: against };
  });
  const rest = isHidden
    ? { checks: RUN_CHECK_NAMES.map(createSkippedCheck), warnings: [] }
    : await checkRunResources(skill, host, request);
  const shown = new Set([...PLAN_ROWS.flatMap(({ codes }) => codes), ...rest.checks.flatMap(listRefusalCodes)]);
  const others = refusals.filter(({ code }) => !shown.has(code));
  const checks = [
    ...rows,
    ...rest.checks,
    ...(others.length > 0 ? [{ name: "machine", detail: "", refusals: others }] : []),
  ];
  return {
    skill: skill.name,
    checks: checks.map((check) => ({ ...check, refusals: check.refusals.map(hidden) })),
    warnings: rest.warnings.map(hidden),
  };
}

function listRefusalCodes({ refusals }: PlanCheck): string[] {
  return refusals.map(({ code }) => code);
}

function createSkippedCheck(name: string): PlanCheck {
  return { name, detail: "", refusals: [], isSkipped: true };
}

/** The names of the checks that `checkRunResources` runs. */
const RUN_CHECK_NAMES = ["model", "sandbox", "workspace", "network", "limits"];

async function checkRunResources(
  skill: Skill,
  host: Host,
  request: UseRequest,
): Promise<{ checks: PlanCheck[]; warnings: Problem[] }> {
  const model = await checkModel(skill, host, request);
  const code = await checkCodeAccess(skill, host);
  const limits = { name: "limits", detail: await formatLimits(skill, host, request), refusals: [] };
  return {
    checks: [model.check, ...code.checks, limits],
    warnings: [...model.warnings, ...(await warnMissingTools(skill, host)), ...code.warnings],
  };
}

interface PlanRow {
  name: string;
  codes: readonly string[];
  /** True if this check may be the one that hides the skill. */
  isOfHiding?: true;
  detail(skill: Skill, host: Host, request: UseRequest): string;
}

/** One row per check: the error codes that belong to it, and the detail when none of them occurred. */
const PLAN_ROWS: readonly PlanRow[] = [
  {
    name: "skill",
    codes: ["not-found"],
    isOfHiding: true,
    detail: ({ name, origin }) => `${name} from ${origin.source}`,
  },
  { name: "enabled", codes: ["disabled"], isOfHiding: true, detail: () => "enabled" },
  {
    name: "caller",
    codes: ["chat-type", "chat-id", "not-for-models", "not-for-users"],
    isOfHiding: true,
    detail: (_, { caller }) =>
      `${caller?.chatType ?? "no"} chat${caller?.chatId === undefined ? "" : ` ${caller.chatId}`}`,
  },
  {
    name: "trust",
    codes: ["untrusted", "changed"],
    detail: (skill, { trust }) => TRUST_DETAILS[trust?.getStatus(skill) ?? "own"] ?? "",
  },
  {
    name: "system",
    codes: [
      "unsupported-os",
      "sandbox-unavailable",
      "system-packages-missing",
      "script-interpreter",
      "missing-program",
    ],
    detail: ({ manifest: { packages } }) =>
      packages.length === 0 ? "all requirements are met" : `packages: ${packages.join(", ")}`,
  },
  {
    name: "tools",
    codes: ["missing-tool"],
    detail: ({ manifest: { tools } }) =>
      tools.allowed.length > 0 ? `only ${tools.allowed.join(", ")}` : "all available tools",
  },
  {
    name: "variables",
    codes: ["missing-variable", "variable-refused", "secret-other-source", "secret-not-approved", "grants-unreadable"],
    detail: (skill) => listDeclaredVariables(skill).join(", ") || "none",
  },
  {
    name: "capabilities",
    codes: ["capability-unavailable", "capability-not-granted", "capability-not-ready"],
    detail: ({ manifest: { capabilities } }) => capabilities.join(", ") || "none",
  },
  {
    name: "input",
    codes: ["input-invalid"],
    detail: ({ manifest: { inputSchema } }) => (inputSchema ? "matches its schema" : "no schema"),
  },
];

const TRUST_DETAILS: Record<string, string> = {
  own: "no approval needed",
  trusted: "you trusted it",
  untrusted: "",
};

async function checkModel(
  skill: Skill,
  host: Host,
  request: UseRequest,
): Promise<{ check: PlanCheck; warnings: readonly Problem[] }> {
  try {
    const { model, alias, warnings } = await resolveUseModel(skill, { host, request, chain: ROOT_CONTEXT });
    const detail = alias === model.name ? model.name : `${alias}: ${model.name}`;
    return {
      check: { name: "model", detail, refusals: [] },
      warnings: [...warnings, ...(await warnModelNeeded(skill, model.name))],
    };
  } catch (error) {
    return { check: { name: "model", detail: "", refusals: [toProblem(error)] }, warnings: [] };
  }
}

async function formatLimits(skill: Skill, host: Host, request: UseRequest): Promise<string> {
  const { iterations, seconds, tokens } = resolveRunLimits(skill.manifest.maxIterations, host, request);
  const bounds = [
    formatCount(iterations, "iteration"),
    formatCount(seconds, "second"),
    ...(tokens === undefined ? [] : [formatCount(tokens, "token")]),
  ];
  return `${bounds.join(", ")}; its instructions: about ${formatNumber(estimateTokens(await skill.body()))} tokens`;
}

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
  const path = sandbox ? mapSandboxPath(sandbox, mounts, WORKSPACE_FOLDER) : WORKSPACE_FOLDER;
  const how = access === "read" ? "read-only" : needsWriteApproval ? "writable with your approval" : "writable";
  return `visible as ${path}, ${how}${less ?? ""}`;
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
  const packageFolders = getPackageFolders(host);
  const { findPackageRoot } = await import("../../sandbox/packages/apt-packages.ts"); // Loaded only when a sandbox is described.
  const { libraries, missing } = await findSkillLibraries(host, packages, {
    ...{ skill, copy: await copySkill(skill), sandbox, places: packageFolders },
  });
  const root = sandbox.by === "bubblewrap" ? findPackageRoot(packages.system, packageFolders) : undefined;
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
