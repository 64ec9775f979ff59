import { BUILT_IN_TOOLS } from "../host/built-in-tools.ts";
import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";
import { dottedToolName } from "../skill/tool-alias.ts";
import { ourToolName } from "../skill/tool-names.ts";
import type { Denial, Policy } from "./policy.ts";
import { tableOf } from "./table.ts";

/** Every tool that a skill cannot do without is there. */
export const hasTools: Policy = (skill, host) => {
  const missing = skill.manifest.tools.required.filter((entry) => !hasTool(entry, host, skill));
  return missing.map(
    (entry): Denial => ({
      code: "missing-tool",
      kind: "setup",
      message: `Skill requires tool '${entry}' which is not available`,
      fix: fixOf(ourToolName(entry), host, skill),
    }),
  );
};

/** Whether a run of this skill can be given the tool, whatever client's name for it this is. */
export function hasTool(entry: string, host: Host, skill: Skill): boolean {
  const name = ourToolName(entry);
  return (
    name === "*" ||
    (!isDisabled(name, host) &&
      (isBuiltIn(name, host, skill) || isAdded(name, host) || isServed(entry, host) || isBrought(name, skill)))
  );
}

/** Whether the user took this tool away from everybody. */
export function isDisabled(name: string, { settings }: Pick<Host, "settings">): boolean {
  return settings.tools.disabled.some((entry) => ourToolName(entry) === name);
}

/** Returns a notice if the configuration disables this tool or its server. */
export function toolRevocation(name: string, host: Pick<Host, "settings">): Notice | undefined {
  const server = host.settings.mcp.get(name.slice(0, Math.max(0, name.indexOf("."))));
  if (!isDisabled(name, host) && server?.enabled !== false) return undefined;
  return {
    code: "tool-blocked",
    message: `Tool '${inLine(name, 128)}' is disabled in the configuration`,
    fix: "do without it",
  };
}

function isBuiltIn(name: string, host: Host, skill: Skill): boolean {
  const { needs } = BUILT_IN_TOOLS.find((candidate) => candidate.name === name) ?? { needs: "somebody" };
  if (needs !== undefined && host.hasBuiltInTools === false) return false;
  if (needs === "search") return host.settings.tools.webSearch?.provider !== undefined;
  return needs === undefined || needs === "sandbox" || (needs === "network" && hasNetwork(host, skill));
}

function isAdded(name: string, { tools = [] }: Host): boolean {
  return tools.some((tool) => tool.name === name);
}

/** Whether a server may have it. None is started to find out: the run itself looks again. */
function isServed(entry: string, { settings: { mcp } }: Host): boolean {
  const dotted = dottedToolName(entry);
  const dot = dotted.indexOf(".");
  const names = [dotted.slice(dot + 1), ourToolName(entry)];
  const isBuiltInName = BUILT_IN_TOOLS.some((tool) => tool.name === names[1]);
  return [...mcp].some(([server, { enabled, tools }]) => {
    if (enabled === false || (dot !== -1 && dotted.slice(0, dot) !== server)) return false;
    if (names[0] === "*") return true;
    return tools ? tools.some((tool) => names.includes(tool)) : dot !== -1 || !isBuiltInName;
  });
}

/** Whether the skill may bring it itself. Nothing is imported to find out: the run itself looks again. */
function isBrought(name: string, { manifest: { toolsets } }: Skill): boolean {
  return toolsets.length > 0 && !BUILT_IN_TOOLS.some((tool) => tool.name === name);
}

function hasNetwork({ settings: { sandbox, skills } }: Host, { name }: Skill): boolean {
  return sandbox.network.length + (skills.get(name)?.network?.length ?? 0) > 0;
}

/** Returns what gives a run of this skill the tool. */
export function fixOf(name: string, host: Host, skill: Skill): string {
  if (isDisabled(name, host)) return "take it out of disabled under [tools] in config.toml";
  if (name === "web_search" && host.hasBuiltInTools !== false)
    return 'name a search engine: provider = "searxng" and url under [tools.web_search] in config.toml';
  const needsNetwork = BUILT_IN_TOOLS.some((tool) => tool.name === name && tool.needs === "network");
  if (needsNetwork && host.hasBuiltInTools !== false)
    return `say what it may reach: network = ["host:443"] under ${tableOf(skill)} in config.toml`;
  return "give the host a tool of this name, add a server that has it under [tools.mcp.NAME] in config.toml, or take it out of `required_tools` in the skill";
}
