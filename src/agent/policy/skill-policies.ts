import { BUILT_IN_TOOLS, completeHost, type Host, type HostOptions, type SystemInfo } from "../../config/host.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, type Problem } from "../../errors/problem.ts";
import type { HostPolicy, PolicyPurpose } from "../../host/host-policy.ts";
import { readRequirements } from "../../skill/requirements.ts";
import type { Skill } from "../../skill/skill.ts";
import { detectInterpreter, FALLBACK_PROGRAMS } from "../../skill/skill-code.ts";
import { resolveEntryTool, toDottedToolName } from "../../skill/tool-names.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { capabilityPolicy, formatSkillTable, variablePolicy } from "./setup-policy.ts";
import { lockPolicy, secretPolicy, trustPolicy } from "./trust-policy.ts";

/**
 * Why a skill may not be used. `access`: it is hidden and refused. `system`: this machine cannot run it; it is left out where what is
 * available is listed, and running it is refused. `setup`: something is missing that can be given; till then it is refused.
 */
export interface Denial {
  code: ErrorCode;
  kind: "access" | "system" | "setup";
  message: string;
  fix: string;
}

/** A rule that both hides and refuses. Contract: pure. */
export type Policy = (skill: Skill, host: Host) => Denial | Denial[] | undefined;

/** Switched off in the configuration, or bundled and off until switched on. */
export function enabledPolicy(skill: Skill, host: Pick<Host, "settings">): Denial | undefined {
  const enabled = host.settings.skills.get(skill.name)?.enabled;
  if (enabled || (enabled === undefined && !isDisabledByDefault(skill))) return undefined;
  return {
    code: "disabled",
    kind: "access",
    message: `Skill '${skill.name}' is disabled${enabled === false ? " in the configuration" : " until it is switched on"}`,
    fix: `switch it on${needsCapabilities(skill) ? ", then try again for what else it needs" : ""}: skillet enable ${quoteIfNeeded(skill.name)}`,
  };
}

/** Whether a skill comes switched off: nobody has missed it who has not switched it on. */
export function isDisabledByDefault(skill: Skill): boolean {
  // Of most skills nobody needs the manifest, which is read when it is asked for.
  return skill.origin.scope === "bundled" && !skill.manifest.defaultEnabled;
}

function needsCapabilities({ manifest: { capabilities } }: Skill): boolean {
  return capabilities.length > 0;
}

interface PolicyRow {
  denies: Policy;
  stops: readonly PolicyPurpose[];
  /** Whether a skill that it denies is left out of lists. */
  isLeftOut: boolean;
  /** Whether it looks at what the skill says of itself: one that surely asks nothing of its host is then not looked at. */
  isOfAsking: boolean;
}

const ALL_PURPOSES: readonly PolicyPurpose[] = ["load", "run", "use"];
const CODE_PURPOSES: readonly PolicyPurpose[] = ["run", "use"];

/** A skill that is sensitive, or says which chats it is for, is there in those alone. Where nobody says what a chat is, in none. */
const chatTypePolicy: Policy = (skill, { caller }) => {
  const allowed = getAllowedChatTypes(skill);
  const type = caller?.chatType;
  if (!allowed || (type !== undefined && allowed.includes(type.toLowerCase()))) return undefined;
  const only = `Skill '${skill.name}' is for ${allowed.join(" and ")} chats only`;
  return type === undefined
    ? createChatDenial(
        "chat-type",
        `${only}, and nobody said what this chat is`,
        "say what it is: --chat-type, or `caller.chatType` of the host",
      )
    : createChatDenial("chat-type", `${only}, and this one is ${type}`, `use it in a ${allowed.join(" or ")} chat`);
};

/** Where the configuration lists chats, the others cannot use it. */
const chatIdPolicy: Policy = (skill, { settings, caller }) => {
  const own = settings.skills.get(skill.name)?.allowChatIds;
  const allowed = own ?? settings.defaults.allowChatIds;
  const id = caller?.chatId;
  if (allowed.length === 0 || (id !== undefined && allowed.includes(id))) return undefined;
  if (id === undefined) {
    const message = `Skill '${skill.name}' is for some chats only, and nobody said which this is`;
    return createChatDenial("chat-id", message, "say which: --chat-id, or `caller.chatId` of the host");
  }
  const table = own ? formatSkillTable(skill) : "[skills.defaults]";
  const message = `Skill '${skill.name}' is not for the chat ${JSON.stringify(id)}`;
  return createChatDenial("chat-id", message, `add ${JSON.stringify(id)} to allow_chat_ids of ${table} in config.toml`);
};

/** This machine has what the skill says that its code needs. What a sandbox of the host's own has, the host knows. */
const systemPolicy: Policy = (skill, { system, sandbox, settings }) => {
  if (!system) return undefined;
  const { scripts } = skill.manifest;
  const packages = [...skill.manifest.packages, ...(settings.skills.get(skill.name)?.packages ?? [])];
  const systems = readRequirements(skill).os;
  if (systems.length > 0 && !systems.includes(system.platform)) {
    const message = `Skill '${skill.name}' is for ${systems.join(", ")}, not for ${system.platform}`;
    return createSystemDenial("other-system", message, "use it there");
  }
  if (sandbox || (packages.length === 0 && scripts.length === 0)) return undefined;
  const engine = system.missingEngine();
  if (engine !== undefined) {
    const fix =
      engine === "bwrap"
        ? "`skillet doctor --fix` installs it"
        : `install it, or remove engine under [sandbox] in config.toml`;
    return createSystemDenial(
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
    return createSystemDenial("packages-missing", message, fix);
  }
  const missing = scripts
    .map(({ path }) => getScriptProgram(path))
    .find((name) => name !== undefined && !hasProgram(name, system));
  if (missing === undefined) return undefined;
  const message = `Skill '${skill.name}' has a script for ${missing}, which is not installed`;
  return createSystemDenial("script-interpreter", message, `install ${missing}, or ${formatPackageCommand(skill)}`);
};

/** What every sandbox has, or says of itself that it has not. */
const PROVIDED_PROGRAMS = new Set(["node", "uv", "uvx"]);

/** Every tool that a skill cannot do without is there. */
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

/** The programs that a skill says it needs are there. Where it brings packages, or an image has the programs, nobody knows before. */
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

/** One row a rule. */
const SKILL_POLICIES: readonly PolicyRow[] = [
  { denies: enabledPolicy, stops: ALL_PURPOSES, isLeftOut: true, isOfAsking: false },
  { denies: lockPolicy, stops: ALL_PURPOSES, isLeftOut: true, isOfAsking: false },
  { denies: chatTypePolicy, stops: ALL_PURPOSES, isLeftOut: true, isOfAsking: true },
  { denies: chatIdPolicy, stops: ALL_PURPOSES, isLeftOut: true, isOfAsking: false },
  { denies: systemPolicy, stops: CODE_PURPOSES, isLeftOut: true, isOfAsking: true },
  { denies: requiredToolPolicy, stops: ["use"], isLeftOut: true, isOfAsking: true },
  { denies: programPolicy, stops: CODE_PURPOSES, isLeftOut: false, isOfAsking: true },
  { denies: trustPolicy, stops: CODE_PURPOSES, isLeftOut: false, isOfAsking: false },
  { denies: variablePolicy, stops: CODE_PURPOSES, isLeftOut: false, isOfAsking: true },
  { denies: secretPolicy, stops: CODE_PURPOSES, isLeftOut: false, isOfAsking: false },
  { denies: capabilityPolicy, stops: CODE_PURPOSES, isLeftOut: false, isOfAsking: true },
];

const HIDING_POLICIES = SKILL_POLICIES.filter(({ isLeftOut }) => isLeftOut);
const POLICIES_BY_PURPOSE = new Map(
  ALL_PURPOSES.map((purpose) => [purpose, SKILL_POLICIES.filter(({ stops }) => stops.includes(purpose))]),
);

/** The first thing that speaks against giving the skill to anybody: enough to hide it. */
export function findFirstDenial(skill: Skill, host: Host): Denial | undefined {
  return findFirstOf(POLICIES_BY_PURPOSE.get("load") ?? [], skill, host) ?? applyHostPolicies(skill, host, "load")[0];
}

/** Why a skill is not there for anybody here. What only waits for a word or a value of the user's is there. */
export function findUnavailability(skill: Skill, given: HostOptions): Denial | undefined {
  const host = completeHost(given);
  return findFirstOf(HIDING_POLICIES, skill, host) ?? applyHostPolicies(skill, host, "load")[0];
}

/** Everything that speaks against using the skill, at once. */
export function findDenials(skill: Skill, given: HostOptions, purpose: PolicyPurpose = "load"): Denial[] {
  const host = completeHost(given);
  const builtIn = selectPolicies(POLICIES_BY_PURPOSE.get(purpose) ?? [], skill).flatMap(
    ({ denies }) => denies(skill, host) ?? [],
  );
  return [...builtIn, ...applyHostPolicies(skill, host, purpose)];
}

/** Applies the embedding program's own rules. */
function applyHostPolicies(skill: Skill, { policies = [], caller = {} }: Host, purpose: PolicyPurpose): Denial[] {
  return policies.flatMap((policy) => applyHostPolicy(policy, skill, { purpose, caller }) ?? []);
}

function applyHostPolicy(policy: HostPolicy, skill: Skill, context: Parameters<HostPolicy>[1]): Denial | undefined {
  const denied = (message: string, fix: string): Denial => ({ code: "policy-denied", kind: "access", message, fix });
  const failed = (why: string) =>
    denied(`A policy of the program failed for skill '${skill.name}': ${why}`, "correct the policy in `host.policies`");
  try {
    const answer = policy(skill, context);
    if (answer === undefined || answer === null) return undefined;
    // A promise would be true whatever it resolves with: it is refused, since it cannot be waited for here.
    if (typeof answer.message !== "string") return failed("it returned neither undefined nor { message, fix }");
    return denied(answer.message, answer.fix ?? "ask the operator of this program");
  } catch (error) {
    return failed(truncateLine(getErrorMessage(error), 200));
  }
}

/** Asked for every skill of a catalog at once. */
function findFirstOf(rows: readonly PolicyRow[], skill: Skill, host: Host): Denial | undefined {
  for (const { denies } of selectPolicies(rows, skill)) {
    const found = denies(skill, host);
    const first = Array.isArray(found) ? found[0] : found;
    if (first) return first;
  }
  return undefined;
}

function selectPolicies(rows: readonly PolicyRow[], skill: Skill): readonly PolicyRow[] {
  if (skill.asksOfHost?.() ?? true) return rows;
  let own = MANIFEST_FREE_POLICIES.get(rows);
  if (!own) {
    own = rows.filter(({ isOfAsking }) => !isOfAsking);
    MANIFEST_FREE_POLICIES.set(rows, own);
  }
  return own;
}

/** The rules for a skill that asks nothing of its host. */
const MANIFEST_FREE_POLICIES = new Map<readonly PolicyRow[], readonly PolicyRow[]>();

/** What was meant to narrow it and cannot be understood narrows it as far as `sensitive` does. */
function getAllowedChatTypes({ manifest: { access, sensitive, data } }: Parameters<Policy>[0]): string[] | undefined {
  const said = access.chatTypes ?? [];
  if (said.length > 0) return said.map((type) => type.toLowerCase());
  return sensitive || (data["access"] ?? null) !== null ? ["private"] : undefined;
}

function createChatDenial(code: ErrorCode, message: string, fix: string): Denial {
  return { code, kind: "access", message, fix };
}

/** Whether a run of this skill can be given the tool, whatever client's name for it this is. */
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

/** Whether the user took this tool away from everybody. */
export function isToolDisabled(name: string, { settings }: Pick<Host, "settings">): boolean {
  return settings.tools.disabled.some((entry) => resolveEntryTool(entry) === name);
}

/** Returns a notice if the configuration disables this tool or its server. */
export function findToolRevocation(name: string, host: Pick<Host, "settings">): Problem | undefined {
  const server = host.settings.mcp.get(name.slice(0, Math.max(0, name.indexOf("."))));
  if (!isToolDisabled(name, host) && server?.enabled !== false) return undefined;
  return {
    code: "tool-blocked",
    message: `Tool '${sanitizeLine(name, 128)}' is disabled in the configuration`,
    fix: "do without it",
  };
}

function isBuiltInAvailable(name: string, host: Host, skill: Skill): boolean {
  const { needs } = BUILT_IN_TOOLS.find((candidate) => candidate.name === name) ?? { needs: "somebody" };
  if (needs !== undefined && host.hasBuiltInTools === false) return false;
  if (needs === "search") return host.settings.tools.webSearch?.provider !== undefined;
  return needs === undefined || needs === "sandbox" || (needs === "network" && hasNetworkAccess(host, skill));
}

function isHostTool(name: string, { tools = [] }: Host): boolean {
  return tools.some((tool) => tool.name === name);
}

/** Whether a server may have it. None is started to find out: the run itself looks again. */
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

/** Whether the skill may bring it itself. Nothing is imported to find out: the run itself looks again. */
function isToolsetTool(name: string, { manifest: { toolsets } }: Skill): boolean {
  return toolsets.length > 0 && !BUILT_IN_TOOLS.some((tool) => tool.name === name);
}

function hasNetworkAccess({ settings: { sandbox, skills } }: Host, { name }: Skill): boolean {
  return sandbox.network.length + (skills.get(name)?.network?.length ?? 0) > 0;
}

/** Returns what gives a run of this skill the tool. */
export function formatToolFix(name: string, host: Host, skill: Skill): string {
  if (isToolDisabled(name, host)) return "take it out of disabled under [tools] in config.toml";
  if (name === "web_search" && host.hasBuiltInTools !== false)
    return 'name a search engine: provider = "searxng" and url under [tools.web_search] in config.toml';
  const needsNetwork = BUILT_IN_TOOLS.some((tool) => tool.name === name && tool.needs === "network");
  if (needsNetwork && host.hasBuiltInTools !== false)
    return `say what it may reach: network = ["host:443"] under ${formatSkillTable(skill)} in config.toml`;
  return "give the host a tool of this name, add a server that has it under [tools.mcp.NAME] in config.toml, or take it out of `required_tools` in the skill";
}

function denyMissingPrograms({ name }: Skill, programs: readonly string[], what: string): Denial {
  const isOne = programs.length === 1;
  return {
    code: "missing-program",
    kind: "setup",
    message: `Skill '${name}' needs ${what}, which ${isOne ? "is" : "are"} not installed`,
    fix: `install ${what}, or ${formatPackageCommand({ name })}`,
  };
}

/** The command that gives a skill a package, which only its user knows the name of. */
function formatPackageCommand({ name }: Pick<Skill, "name">): string {
  return `give it the Debian package: skillet config set ${quoteIfNeeded(`skills.${name}.packages`)} PACKAGE`;
}

function hasProgram(name: string, system: SystemInfo): boolean {
  return (
    PROVIDED_PROGRAMS.has(name) || system.hasProgram(name) || system.hasProgram(FALLBACK_PROGRAMS.get(name) ?? name)
  );
}

function getScriptProgram(path: string): string | undefined {
  return detectInterpreter(path, new Uint8Array())?.program;
}

function createSystemDenial(code: ErrorCode, message: string, fix: string): Denial {
  return { code, kind: "system", message, fix };
}
