import type { Catalog } from "../../catalog/catalog.ts";
import { BUILT_IN_TOOLS, completeHost, type Host, type HostOptions, type SystemInfo } from "../../config/host.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, type Problem, pickProblem } from "../../errors/problem.ts";
import type { HostPolicy, PolicyPurpose } from "../../host/approval.ts";
import { readRequirements, type Skill } from "../../skill/skill.ts";
import { detectInterpreter, FALLBACK_PROGRAMS } from "../../skill/skill-code.ts";
import { resolveEntryTool, toDottedToolName } from "../../skill/tool-names.ts";
import { formatCount, quoteIfNeeded, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { capabilityPolicy, formatSkillTable, secretPolicy, trustPolicy, variablePolicy } from "./trust-policy.ts";

/**
 * The reason why a skill may not be used. `access`: it is hidden and refused. `system`: this machine cannot run it, so it is not
 * listed as available and running it is refused. `setup`: something is missing that the user can provide; until then it is refused.
 */
export interface Denial extends Problem {
  kind: "access" | "system" | "setup";
}

/** A rule that can hide and refuse a skill. Contract: pure. */
export type Policy = (skill: Skill, host: Host) => Denial | Denial[] | undefined;

/** Denies a skill that is disabled in the configuration, or bundled and disabled by default. */
export function enabledPolicy(skill: Skill, host: Pick<Host, "settings">): Denial | undefined {
  const enabled = host.settings.skills.get(skill.name)?.enabled;
  if (enabled || (enabled === undefined && !isDisabledByDefault(skill))) return undefined;
  return {
    code: "disabled",
    kind: "access",
    message: `Skill '${skill.name}' is disabled${enabled === false ? " in the configuration" : " by default"}`,
    fix: `enable it${needsCapabilities(skill) ? ", then run it again to see what else it needs" : ""}`,
    commands: [`skillet enable ${quoteIfNeeded(skill.name)}`],
  };
}

/** Returns true for a bundled skill that is disabled until the user enables it. */
export function isDisabledByDefault(skill: Skill): boolean {
  // The manifest is loaded lazily, and most skills do not need it here.
  return skill.origin.scope === "bundled" && !skill.manifest.defaultEnabled;
}

function needsCapabilities({ manifest: { capabilities } }: Skill): boolean {
  return capabilities.length > 0;
}

interface PolicyRow {
  policy: Policy;
  purposes: readonly PolicyPurpose[];
  /** True if a denied skill is omitted from lists. */
  hidesFromList: boolean;
  /** True if the rule reads the manifest. It is skipped for a skill that has no requirements. */
  needsManifest: boolean;
}

const ALL_PURPOSES: readonly PolicyPurpose[] = ["load", "run", "use"];
const CODE_PURPOSES: readonly PolicyPurpose[] = ["run", "use"];

/** Limits a sensitive skill, or one with `chat_types`, to those chats. If the chat type is unknown, it is denied. */
const chatTypePolicy: Policy = (skill, { caller }) => {
  const allowed = getAllowedChatTypes(skill);
  const type = caller?.chatType;
  if (!allowed || (type !== undefined && allowed.includes(type.toLowerCase()))) return undefined;
  const only = `Skill '${skill.name}' is for ${allowed.join(" and ")} chats only`;
  return type === undefined
    ? createChatDenial(
        "chat-type",
        `${only}, and the type of this chat is unknown`,
        "set it with --chat-type, or `caller.chatType` of the host",
      )
    : createChatDenial("chat-type", `${only}, and this one is ${type}`, `use it in a ${allowed.join(" or ")} chat`);
};

/** Limits a skill to the chats listed in the configuration. */
const chatIdPolicy: Policy = (skill, { settings, caller }) => {
  const own = settings.skills.get(skill.name)?.allowChatIds;
  const allowed = own ?? settings.defaults.allowChatIds;
  const id = caller?.chatId;
  if (allowed.length === 0 || (id !== undefined && allowed.includes(id))) return undefined;
  if (id === undefined) {
    const message = `Skill '${skill.name}' is for some chats only, and the id of this chat is unknown`;
    return createChatDenial("chat-id", message, "set it with --chat-id, or `caller.chatId` of the host");
  }
  const table = own ? formatSkillTable(skill) : "[skills.defaults]";
  const message = `Skill '${skill.name}' is not for the chat ${JSON.stringify(id)}`;
  return createChatDenial("chat-id", message, `add ${JSON.stringify(id)} to allow_chat_ids of ${table} in config.toml`);
};

/** Requires that this machine has what the skill's code needs. The contents of a host's own sandbox are unknown here. */
const systemPolicy: Policy = (skill, { system, sandbox, settings }) => {
  if (!system) return undefined;
  const { scripts } = skill.manifest;
  const packages = [...skill.manifest.packages, ...(settings.skills.get(skill.name)?.packages ?? [])];
  const systems = readRequirements(skill).os;
  if (systems.length > 0 && !systems.includes(system.platform)) {
    const message = `Skill '${skill.name}' is for ${systems.join(", ")}, not for ${system.platform}`;
    return createSystemDenial("unsupported-os", message, "use it on one of those systems");
  }
  if (sandbox || (packages.length === 0 && scripts.length === 0)) return undefined;
  const engine = system.missingEngine();
  if (engine !== undefined) {
    const message = `Skill '${skill.name}' contains code, and ${engine}, which isolates it, is not installed`;
    return engine === "bwrap"
      ? createSystemDenial("sandbox-unavailable", message, "install it", ["skillet doctor --fix"])
      : createSystemDenial(
          "sandbox-unavailable",
          message,
          "install it, or remove engine under [sandbox] in config.toml",
        );
  }
  if (system.programs === "own") return undefined;
  if (packages.length > 0) {
    if (system.hasPackages()) return undefined;
    const message = `Skill '${skill.name}' needs system packages (${packages.join(", ")}), which cannot be built here`;
    const fix =
      "use Debian or Ubuntu, or a container whose image has them: engine and image under [sandbox] in config.toml";
    return createSystemDenial("system-packages-missing", message, fix);
  }
  const missing = scripts
    .map(({ path }) => getScriptProgram(path))
    .find((name) => name !== undefined && !hasProgram(name, system));
  if (missing === undefined) return undefined;
  const message = `Skill '${skill.name}' has a script for ${missing}, which is not installed`;
  return createSystemDenial("script-interpreter", message, `install ${missing}, or ${formatPackageCommand(skill)}`);
};

/** Programs that every sandbox has, or reports as missing. */
const PROVIDED_PROGRAMS = new Set(["node", "uv", "uvx"]);

/** Requires that each required tool is available. */
export const requiredToolPolicy: Policy = (skill, host) => {
  const missing = skill.manifest.tools.required.filter((entry) => !canProvideTool(entry, host, skill));
  return missing.map(
    (entry): Denial => ({
      code: "missing-tool",
      kind: "setup",
      message: `Skill requires tool '${entry}' which is not available`,
      fix: formatToolFix(resolveEntryTool(entry), host, skill),
    }),
  );
};

/** Requires the programs that a skill names. Unknown in advance, and so not checked, with packages or an image. */
const programPolicy: Policy = (skill, { system, sandbox, settings }) => {
  if (!system || sandbox || system.programs === "own" || skill.manifest.packages.length > 0) return undefined;
  if ((settings.skills.get(skill.name)?.packages ?? []).length > 0) return undefined;
  const { bins, anyBins } = readRequirements(skill);
  const missing = bins.filter((name) => !hasProgram(name, system));
  const hasAny = anyBins.length === 0 || anyBins.some((name) => hasProgram(name, system));
  return [
    ...(missing.length > 0 ? [denyMissingPrograms(skill, missing, missing.join(", "))] : []),
    ...(hasAny ? [] : [denyMissingPrograms(skill, anyBins, `one of ${anyBins.join(", ")}`)]),
  ];
};

/** The rules, one per row. */
const SKILL_POLICIES: readonly PolicyRow[] = [
  { policy: enabledPolicy, purposes: ALL_PURPOSES, hidesFromList: true, needsManifest: false },
  { policy: lockPolicy, purposes: ALL_PURPOSES, hidesFromList: true, needsManifest: false },
  { policy: chatTypePolicy, purposes: ALL_PURPOSES, hidesFromList: true, needsManifest: true },
  { policy: chatIdPolicy, purposes: ALL_PURPOSES, hidesFromList: true, needsManifest: false },
  { policy: systemPolicy, purposes: CODE_PURPOSES, hidesFromList: true, needsManifest: true },
  { policy: requiredToolPolicy, purposes: ["use"], hidesFromList: true, needsManifest: true },
  { policy: programPolicy, purposes: CODE_PURPOSES, hidesFromList: false, needsManifest: true },
  { policy: trustPolicy, purposes: CODE_PURPOSES, hidesFromList: false, needsManifest: false },
  { policy: variablePolicy, purposes: CODE_PURPOSES, hidesFromList: false, needsManifest: true },
  { policy: secretPolicy, purposes: CODE_PURPOSES, hidesFromList: false, needsManifest: false },
  { policy: capabilityPolicy, purposes: CODE_PURPOSES, hidesFromList: false, needsManifest: true },
];

const HIDING_POLICIES = SKILL_POLICIES.filter(({ hidesFromList }) => hidesFromList);
const POLICIES_BY_PURPOSE = new Map(
  ALL_PURPOSES.map((purpose) => [purpose, SKILL_POLICIES.filter(({ purposes: stops }) => stops.includes(purpose))]),
);

/** Returns the first reason to hide the skill. */
export function findFirstDenial(skill: Skill, host: Host): Denial | undefined {
  return findFirstOf(POLICIES_BY_PURPOSE.get("load") ?? [], skill, host) ?? applyHostPolicies(skill, host, "load")[0];
}

/** Returns the skills of a catalog that can be used here. `skillet`, `list` and `doctor` count these. */
export function listAvailableSkills(catalog: Pick<Catalog, "available">, host: HostOptions): readonly Skill[] {
  return catalog.available((skill) => findUnavailability(skill, host));
}

/** Returns why a skill is unavailable here. A skill that only needs the user's trust or a value is available. */
export function findUnavailability(skill: Skill, hostOptions: HostOptions): Denial | undefined {
  const host = completeHost(hostOptions);
  return findFirstOf(HIDING_POLICIES, skill, host) ?? applyHostPolicies(skill, host, "load")[0];
}

/** Returns every reason not to use the skill. */
export function findDenials(skill: Skill, hostOptions: HostOptions, purpose: PolicyPurpose = "load"): Denial[] {
  const host = completeHost(hostOptions);
  const builtIn = selectPolicies(POLICIES_BY_PURPOSE.get(purpose) ?? [], skill).flatMap(
    ({ policy: denies }) => denies(skill, host) ?? [],
  );
  return [...builtIn, ...applyHostPolicies(skill, host, purpose)];
}

/** Applies the policies of the embedding program. */
function applyHostPolicies(skill: Skill, { policies = [], caller = {} }: Host, purpose: PolicyPurpose): Denial[] {
  return policies.flatMap((policy) => applyHostPolicy(policy, skill, { purpose, caller }) ?? []);
}

function applyHostPolicy(policy: HostPolicy, skill: Skill, context: Parameters<HostPolicy>[1]): Denial | undefined {
  const denied = (message: string, fix: string): Denial => ({ code: "policy-denied", kind: "access", message, fix });
  const failed = (why: string) =>
    denied(`A host policy failed for skill '${skill.name}': ${why}`, "correct the policy in `host.policies`");
  try {
    const answer = policy(skill, context);
    if (answer === undefined || answer === null) return undefined;
    // A promise is refused, since it cannot be awaited here and would always be truthy.
    if (typeof answer.message !== "string") return failed("it returned neither undefined nor { message, fix }");
    const { message, fix = "ask the operator of this program", ...rest } = answer;
    return { ...pickProblem({ ...rest, message, fix, code: "policy-denied" }), kind: "access" };
  } catch (error) {
    return failed(truncateLine(getErrorMessage(error), 200));
  }
}

/** Returns the first denial. Called for every skill of a catalog. */
function findFirstOf(rows: readonly PolicyRow[], skill: Skill, host: Host): Denial | undefined {
  for (const { policy: denies } of selectPolicies(rows, skill)) {
    const found = denies(skill, host);
    const first = Array.isArray(found) ? found[0] : found;
    if (first) return first;
  }
  return undefined;
}

function selectPolicies(rows: readonly PolicyRow[], skill: Skill): readonly PolicyRow[] {
  if (skill.hasRequirements?.() ?? true) return rows;
  let own = MANIFEST_FREE_POLICIES.get(rows);
  if (!own) {
    own = rows.filter(({ needsManifest: isOfAsking }) => !isOfAsking);
    MANIFEST_FREE_POLICIES.set(rows, own);
  }
  return own;
}

/** The rules for a skill without requirements, by rule set. */
const MANIFEST_FREE_POLICIES = new Map<readonly PolicyRow[], readonly PolicyRow[]>();

/** Returns the chat types that a skill allows. An `access` value that cannot be read restricts it as `sensitive` does. */
function getAllowedChatTypes({ manifest: { access, sensitive, data } }: Parameters<Policy>[0]): string[] | undefined {
  const types = access.chatTypes ?? [];
  if (types.length > 0) return types.map((type) => type.toLowerCase());
  return sensitive || (data["access"] ?? null) !== null ? ["private"] : undefined;
}

function createChatDenial(code: ErrorCode, message: string, fix: string): Denial {
  return { code, kind: "access", message, fix };
}

/** Returns true if a run of this skill can have the tool, under any client's name for it. */
export function canProvideTool(entry: string, host: Host, skill: Skill): boolean {
  const name = resolveEntryTool(entry);
  return (
    name === "*" ||
    (!isToolDisabled(name, host) &&
      (isBuiltInAvailable(name, host, skill) ||
        isHostTool(name, host) ||
        isServedByMcp(entry, host) ||
        isToolsetTool(name, skill)))
  );
}

/** Returns true if the user disabled this tool. */
export function isToolDisabled(name: string, { settings }: Pick<Host, "settings">): boolean {
  return settings.tools.disabled.some((entry) => resolveEntryTool(entry) === name);
}

/** Returns a problem if the configuration disables this tool or its server. */
export function findToolRevocation(name: string, host: Pick<Host, "settings">): Problem | undefined {
  const server = host.settings.mcp.get(name.slice(0, Math.max(0, name.indexOf("."))));
  if (!isToolDisabled(name, host) && server?.enabled !== false) return undefined;
  return {
    code: "tool-blocked",
    message: `Tool '${sanitizeLine(name, 128)}' is disabled in the configuration`,
    fix: "continue without it",
  };
}

function isBuiltInAvailable(name: string, host: Host, skill: Skill): boolean {
  const { needs } = BUILT_IN_TOOLS.find((candidate) => candidate.name === name) ?? { needs: "unknown" };
  if (needs !== undefined && host.hasBuiltInTools === false) return false;
  if (needs === "search") return host.settings.tools.webSearch?.provider !== undefined;
  return needs === undefined || needs === "sandbox" || (needs === "network" && hasNetworkAccess(host, skill));
}

function isHostTool(name: string, { tools = [] }: Host): boolean {
  return tools.some((tool) => tool.name === name);
}

/** Returns true if an MCP server may provide the tool. No server is started for this; the run checks again. */
function isServedByMcp(entry: string, { settings: { mcp } }: Host): boolean {
  const dotted = toDottedToolName(entry);
  const dot = dotted.indexOf(".");
  const names = [dotted.slice(dot + 1), resolveEntryTool(entry)];
  const isBuiltInName = BUILT_IN_TOOLS.some((tool) => tool.name === names[1]);
  return [...mcp].some(([server, { enabled, tools }]) => {
    if (enabled === false || (dot !== -1 && dotted.slice(0, dot) !== server)) return false;
    if (names[0] === "*") return true;
    return tools ? tools.some((tool) => names.includes(tool)) : dot !== -1 || !isBuiltInName;
  });
}

/** Returns true if the skill itself may provide the tool. Nothing is imported for this; the run checks again. */
function isToolsetTool(name: string, { manifest: { toolsets } }: Skill): boolean {
  return toolsets.length > 0 && !BUILT_IN_TOOLS.some((tool) => tool.name === name);
}

function hasNetworkAccess({ settings: { sandbox, skills } }: Host, { name }: Skill): boolean {
  return sandbox.network.length + (skills.get(name)?.network?.length ?? 0) > 0;
}

/** Returns the step that makes the tool available to this skill. */
export function formatToolFix(name: string, host: Host, skill: Skill): string {
  if (isToolDisabled(name, host)) return "remove it from disabled under [tools] in config.toml";
  if (name === "web_search" && host.hasBuiltInTools !== false)
    return 'configure a search engine: provider = "searxng" and url under [tools.web_search] in config.toml';
  const needsNetwork = BUILT_IN_TOOLS.some((tool) => tool.name === name && tool.needs === "network");
  if (needsNetwork && host.hasBuiltInTools !== false)
    return `allow the hosts it needs: network = ["host:443"] under ${formatSkillTable(skill)} in config.toml`;
  return "add a host tool of this name, add an MCP server that provides it under [tools.mcp.NAME] in config.toml, or remove it from `required_tools` in the skill";
}

function denyMissingPrograms({ name }: Skill, programs: readonly string[], what: string): Denial {
  const isOne = programs.length === 1;
  return {
    code: "missing-program",
    kind: "setup",
    message: `Skill '${name}' needs ${what}, which ${isOne ? "is" : "are"} not installed`,
    fix: `install ${what}, or add the Debian package`,
    commands: [formatPackageCommand({ name })],
  };
}

/** Formats the command that adds a Debian package. Only the user knows the package name. */
function formatPackageCommand({ name }: Pick<Skill, "name">): string {
  return `skillet config set ${quoteIfNeeded(`skills.${name}.packages`)} PACKAGE`;
}

function hasProgram(name: string, system: SystemInfo): boolean {
  return (
    PROVIDED_PROGRAMS.has(name) || system.hasProgram(name) || system.hasProgram(FALLBACK_PROGRAMS.get(name) ?? name)
  );
}

function getScriptProgram(path: string): string | undefined {
  return detectInterpreter(path, new Uint8Array())?.program;
}

function createSystemDenial(code: ErrorCode, message: string, fix: string, commands?: readonly string[]): Denial {
  return { code, kind: "system", message, fix, ...(commands ? { commands } : {}) };
}

/** Denies an added skill that differs from the lock file. Its text is not even read out until the user has reviewed it. */
function lockPolicy(skill: Skill, host: Host): Denial | undefined {
  const state = host.trust?.getLockState(skill);
  if (state?.is === "unknown") {
    const { problem } = state;
    return {
      ...pickProblem(problem),
      kind: "access",
      message: `Skill '${skill.name}' is not used: ${problem.message}`,
    };
  }
  if (state?.is !== "changed") return undefined;
  // A model may read this message: it contains no names of files that the user has not reviewed.
  return {
    code: "changed",
    kind: "access",
    message: `Skill '${skill.name}' differs from the added version: ${formatCount(state.changes.length, "file")} changed`,
    fix: "review the difference and accept or reject it",
    commands: [`skillet trust ${quoteIfNeeded(skill.name)}`],
  };
}
