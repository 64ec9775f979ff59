import { BUILT_IN_TOOLS, type Host } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { listSkillScripts } from "../../skill/skill-code.ts";
import { expandToolNames, isOtherClientTool, resolveEntryTool, toDottedToolName } from "../../skill/tool-names.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { findInstructionCommands } from "../models/runbook-commands.ts";
import { formatSkillKey } from "../policy/setup-policy.ts";
import { canProvideTool, formatToolFix, isToolDisabled } from "../policy/skill-policies.ts";

/** Warns about tools under `allowed_tools` that no run of the skill can have here. Used before a run, in it, and when a skill is checked. */
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
      message: `Skill '${skill.name}' lists ${sanitizeLine(entry, 64)}, which is not available`,
      fix: !isOurs && meant ? `did you mean ${meant}?` : formatToolFix(resolveEntryTool(entry), host, skill),
    };
  });
}

/** Warns about tools under `allowed_tools` that match no available tool and would be dropped silently. */
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
          message: `Skill '${name}' lists ${what}, which is ambiguous: it matches ${several.join(" and ")}, and neither is offered`,
          fix: `use the full name, for example ${several[0]}`,
        }
      : {
          code: "tool-unmatched",
          message: `Skill '${name}' lists ${what}, which is not available`,
          fix: meant
            ? `did you mean ${meant}?`
            : "add an MCP server that provides it under [tools.mcp.NAME] in config.toml",
        };
  });
  return [...warnMissingTools(skill, host), ...dynamic];
}

/** Warns about a closed network if the skill's code looks like it needs one. A required tool is refused elsewhere. */
export function warnClosedNetwork(skill: Skill): Problem[] {
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
      code: "network-blocked",
      message: `Skill '${skill.name}' ${isNamed ? "lists web_fetch" : "has code that uses the network"}, but has no network access`,
      fix: "run",
      commands: [`skillet config set ${formatSkillKey(skill, "network")} ${wanted.join(",") || "HOST:443"}`],
    },
  ];
}

const NETWORK_CALLS = /\b(?:curl|wget)\s|\burllib\.request\b|\brequests\.(?:get|post)\(|\bfetch\(|"node:https?"/;
const HOST_NAMES = /\bhttps:\/\/([a-z\d][a-z\d.-]*\.[a-z]{2,})|\b(api\.[a-z\d.-]+\.[a-z]{2,})\b/gi;
const MAX_SUGGESTED_HOSTS = 4;

export function isWebFetch(entry: string): boolean {
  return resolveEntryTool(entry) === "web_fetch";
}

function readScriptTexts(skill: Skill): string[] {
  return listSkillScripts(skill).flatMap(({ path }) => {
    try {
      return [Buffer.from(skill.read(path)).toString()];
    } catch {
      return []; // The file is gone; a run reports it.
    }
  });
}
