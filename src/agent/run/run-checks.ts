import { SOCKET_VARIABLE, TOKEN_VARIABLE } from "../../capabilities/broker-protocol.ts";
import { BUILT_IN_TOOLS, type Host } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import {
  FIXED_VARIABLES,
  type IsolationLevel,
  type Mount,
  mapSandboxPath,
  type Sandbox,
  type SandboxPath,
  WORKSPACE_FOLDER,
} from "../../host/sandbox-contract.ts";
import { formatEndpoint } from "../../sandbox/endpoint.ts";
import { PROXY_VARIABLES } from "../../sandbox/network-forwarder.ts";
import { findPackageRoot } from "../../sandbox/packages/apt-packages.ts";
import { listDeclaredVariables } from "../../skill/requirements.ts";
import { hasFolder, type Skill } from "../../skill/skill.ts";
import { listSkillScripts, SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { expandToolNames, isOtherClientTool, resolveEntryTool, toDottedToolName } from "../../skill/tool-names.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findInstructionCommands } from "../models/runbook-commands.ts";
import { formatSkillKey } from "../policy/setup-policy.ts";
import { canProvideTool, findDenials, formatToolFix, isToolDisabled } from "../policy/skill-policies.ts";
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
import { toProblem } from "./run-result.ts";

/** What keeps the code of a run apart, and what it is let to: the workspace, the network. */
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
      () =>
        [...parseEndpoints(open).map(formatEndpoint), ...listGrantedSockets(open)].join(", ") ||
        "closed: nothing can be reached",
    ),
  ];
  return {
    checks,
    warnings: open.length === 0 && !skill.manifest.tools.allowed.some(isWebFetch) ? warnClosedNetwork(skill) : [],
  };
}

async function runPlanCheck(name: string, say: () => string | Promise<string>): Promise<PlanCheck> {
  try {
    return { name, detail: await say(), refusals: [] };
  } catch (error) {
    return { name, detail: "", refusals: [toProblem(error)] };
  }
}

/** Throws a SkillError when what the settings give cannot be had. */
function formatWorkspaceAccess(skill: Skill, host: Host, sandbox: Sandbox | undefined): string {
  if (host.workspace === undefined) return "not seen: there is none";
  if (host.hasBuiltInTools === false) return "not seen: no tool that is built in is offered";
  const home = resolveSkilletHome(host);
  const { access, asksToWrite, notices } = chooseWorkspaceAccess(host, { skill, home, kind: "run" });
  const checked = checkWorkspace(host, { access, home });
  const mounts = checked ? [{ from: checked.folder, to: WORKSPACE_FOLDER, access: "read" as const }] : [];
  const [less] = notices.map(({ message, fix }) => `: ${message.replace(/: the tools of this run .*$/s, "")}; ${fix}`);
  if (access === "none") return `not seen${less ?? ': workspace = "none" holds for it'}`;
  const place = sandbox ? mapSandboxPath(sandbox, mounts, WORKSPACE_FOLDER) : WORKSPACE_FOLDER;
  const how = access === "read" ? "read-only" : asksToWrite ? "may be changed when you agree" : "may be changed";
  return `seen as ${place}, ${how}${less ?? ""}`;
}

function listOpenEndpoints({ name }: Skill, { settings: { sandbox, skills } }: Host): string[] {
  return [...sandbox.network, ...(skills.get(name)?.network ?? [])];
}

const NETWORK_CALLS = /\b(?:curl|wget)\s|\burllib\.request\b|\brequests\.(?:get|post)\(|\bfetch\(|"node:https?"/;
const HOST_NAMES = /\bhttps:\/\/([a-z\d][a-z\d.-]*\.[a-z]{2,})|\b(api\.[a-z\d.-]+\.[a-z]{2,})\b/gi;
const MAX_SUGGESTED_HOSTS = 4;

/** What a skill that cannot reach anything most likely wants to reach. A tool that it requires is refused elsewhere. */
function warnClosedNetwork(skill: Skill): Problem[] {
  const { tools, compatibility = "" } = skill.manifest;
  if (tools.required.some(isWebFetch)) return [];
  const scripts = readScriptTexts(skill);
  const code = [...scripts, ...findInstructionCommands(skill.body(), {})];
  const isNamed = [...tools.allowed, ...tools.preapproved].some(isWebFetch);
  if (!isNamed && !code.some((text) => NETWORK_CALLS.test(text))) return [];
  const said = [compatibility, ...code].join("\n");
  const hosts = new Set(
    Array.from(said.matchAll(HOST_NAMES), ([, address, api]) => (address ?? api ?? "").toLowerCase()),
  );
  const wanted = [...hosts].slice(0, MAX_SUGGESTED_HOSTS).map((host) => `${host}:443`);
  return [
    {
      code: "network-wanted",
      message: `Skill '${skill.name}' ${isNamed ? "lists web_fetch" : "has code that asks the network"}, and the network is closed to it`,
      fix: `run: skillet config set ${formatSkillKey(skill, "network")} ${wanted.join(",") || "HOST:443"}`,
    },
  ];
}

function isWebFetch(entry: string): boolean {
  return resolveEntryTool(entry) === "web_fetch";
}

function readScriptTexts(skill: Skill): string[] {
  return listSkillScripts(skill).flatMap(({ path }) => {
    try {
      return [Buffer.from(skill.read(path)).toString()];
    } catch {
      return []; // It is gone; a run would say so.
    }
  });
}

/** Returns what a skill lists under `allowed_tools` and no run of it can have here: the same before a run, in it and when it is checked. */
export function warnMissingTools(skill: Skill, host: Host): Problem[] {
  const { allowed } = skill.manifest.tools;
  const isMissing = (entry: string) =>
    resolveEntryTool(entry) !== "*" && !isOtherClientTool(entry) && !canProvideTool(entry, host, skill);
  return allowed.filter(isMissing).flatMap((entry): Problem | Problem[] => {
    const isClosed =
      resolveEntryTool(entry) === "web_fetch" && host.hasBuiltInTools !== false && !isToolDisabled("web_fetch", host);
    if (isClosed) return warnClosedNetwork(skill);
    const meant = findNearest(
      resolveEntryTool(entry),
      BUILT_IN_TOOLS.map(({ name }) => name),
    );
    const isOurs = BUILT_IN_TOOLS.some(({ name }) => name === resolveEntryTool(entry));
    return {
      code: "tool-unmatched",
      message: `Skill '${skill.name}' lists ${sanitizeLine(entry, 64)}, and nothing here has it`,
      fix: !isOurs && meant ? `did you mean ${meant}?` : formatToolFix(resolveEntryTool(entry), host, skill),
    };
  });
}

/** What a skill lists under `allowed_tools` and nothing here is: it would be left out without a word. */
export function warnUnmatchedTools(skill: Skill, names: readonly string[], host: Host): Problem[] {
  const { name, manifest } = skill;
  const { tools } = manifest;
  const isOurs = (entry: string) => BUILT_IN_TOOLS.some((tool) => tool.name === resolveEntryTool(entry));
  const isMeant = (entry: string) =>
    expandToolNames([entry], names).some((one) => names.includes(resolveEntryTool(one)));
  const missing = tools.allowed.filter(
    (entry) =>
      resolveEntryTool(entry) !== "*" &&
      !isMeant(entry) &&
      !isOurs(entry) &&
      !isOtherClientTool(entry) &&
      canProvideTool(entry, host, skill),
  );
  const dynamic = missing.map((entry): Problem => {
    const bare = toDottedToolName(entry);
    const several = names.filter((one) => one.endsWith(`.${bare}`));
    const meant = findNearest(bare, names);
    const what = sanitizeLine(entry, 64);
    return several.length > 1
      ? {
          code: "tool-ambiguous",
          message: `Skill '${name}' lists ${what}, and ${several.join(" and ")} both are that: it has neither`,
          fix: `name the one that is meant, as ${several[0]}`,
        }
      : {
          code: "tool-unmatched",
          message: `Skill '${name}' lists ${what}, and nothing here has it`,
          fix: meant ? `did you mean ${meant}?` : "add a server that has it under [tools.mcp.NAME] in config.toml",
        };
  });
  return [...warnMissingTools(skill, host), ...dynamic];
}

/** Everything that a script of a skill would see, before anything runs. */
export interface SandboxView {
  skill: string;
  isolation: { level: IsolationLevel; by: string };
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
  packages: SkillPackages;
  limits: CommandLimits;
  /** Why it would not run, or sees less than by default. */
  notices: readonly Problem[];
}

/** Describes the sandbox of a skill's scripts. Builds nothing. Throws a SkillError where no script could run. */
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
  const places = { skill: seen(SANDBOX_SKILL_FOLDER), workspace: seen(WORKSPACE_FOLDER) };
  const own = listDeclaredVariables(skill);
  const env = createCommandEnv(new Map(own.map((name) => [name, ""])), { places, workspace });
  const { capabilities } = skill.manifest;
  const packages = listSkillPackages(skill, host);
  const kept = getPackageFolders(host);
  const { libraries, missing } = findSkillLibraries(host, packages, {
    ...{ skill, copy: copySkill(skill), sandbox, places: kept },
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
    network: [...network, ...listGrantedSockets(opened).map((path) => `unix:${path}`)],
    variables: [...new Set(variables)].sort(),
    packages,
    limits,
    notices: [...findDenials(skill, host, "run"), ...notices, ...(unbuilt.length > 0 ? [building] : [])],
  };
}
